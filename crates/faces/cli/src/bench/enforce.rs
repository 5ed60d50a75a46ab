//! `cavalcade bench enforce`: what the kernel path costs on this machine, and how exactly it does
//! as it is told: on a connection of this process with itself, then in a whole [`site`].

mod site;

use std::fmt::Write as _;
use std::time::Duration;

use cavalcade_enforce::bench::{Cost, Figures, Pace, measure, nanos_a_packet};
use cavalcade_metrics::{Percent, percentile};
use serde_json::{Value, json};

use crate::arguments::EnforceBench;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// Runs the benchmark.
///
/// # Errors
/// If this host cannot load programs, or the output cannot be written.
pub(crate) fn run(options: &EnforceBench) -> Result<(), Failure> {
    let figures = measure(options.part).map_err(|error| Failure::new(Kind::Capability, error.to_string()))?;
    if !options.json {
        print(&text(&figures))?;
    }
    let of_site = site::measure(options.part)?;
    print(&if options.json { format!("{}\n", document(&figures, &of_site)) } else { site_text(&of_site) })
}

fn document(figures: &Figures, of_site: &site::Figures) -> Value {
    let load = |load: &site::Load| json!({ "bps": load.rate, "flows_a_second": load.flows, "agents": load.agents, "enforcers": load.enforcers });
    let cost = |cost: &Cost| json!({ "program": cost.program, "verified": cost.verified, "runs": cost.runs, "nanos": cost.nanos() });
    let pace = |pace: &Pace| json!({ "asked_bps": pace.asked.0, "reached_bps": pace.reached, "seconds": pace.seconds });
    let all = |times: &[Duration]| times.iter().map(|&time| millis(time)).collect::<Vec<f64>>();
    let turns = |turns: &site::Turns| {
        json!({
            "period_ms": millis(turns.period), "decision_to_wire_ms": all(&turns.from_decision), "end_to_next_ms": all(&turns.from_end),
        })
    };
    json!({
        "schema_version": 3,
        "programs": figures.costs.iter().map(cost).collect::<Vec<Value>>(),
        "packet_nanos": nanos_a_packet(&figures.costs),
        "sorting": {
            "programs": figures.sorting.iter().map(cost).collect::<Vec<Value>>(),
            "packet_nanos": nanos_a_packet(&figures.sorting),
        },
        "unlimited_bps": figures.unlimited,
        "paces": figures.paces.iter().map(pace).collect::<Vec<Value>>(),
        "site": {
            "large": load(&of_site.large), "short": load(&of_site.short),
            "turns": of_site.turns.iter().map(turns).collect::<Vec<Value>>(),
        },
        "off_ms": all(&figures.off),
        "on_ms": all(&figures.on),
    })
}

fn text(figures: &Figures) -> String {
    let mut text = String::from("program      verified instructions        runs   ns a run\n");
    let sorting = "the same where messages are sorted by the bytes that they have sent (--demote):\n";
    for (costs, heading) in [(&figures.costs, ""), (&figures.sorting, sorting)] {
        text += heading;
        for cost in costs {
            let (program, verified, runs, nanos) = (cost.program, cost.verified, cost.runs, cost.nanos());
            _ = writeln!(text, "{program:<13}{verified:>21}{runs:>12}{nanos:>11.0}");
        }
        _ = writeln!(text, "{:<34}{:>23.0} ns a packet", "all", nanos_a_packet(costs));
    }
    _ = writeln!(text, "\nwithout limits {:.1} Gbps\n", figures.unlimited / 1e9);
    text += "asked Mbps   reached Mbps   off by   over s\n";
    for pace in &figures.paces {
        let (asked, reached) = (pace.asked.0 as f64 / 1e6, pace.reached / 1e6);
        let off_by = (reached / asked - 1.0) * 100.0;
        _ = writeln!(text, "{asked:>10.0}{reached:>15.2}{off_by:>8.1}%{:>9.0}", pace.seconds);
    }
    text += "\n           p50 ms   p99 ms   worst ms\n";
    for (name, times) in [("off", &figures.off), ("on", &figures.on)] {
        let [p50, p99, worst] = of_all(times);
        _ = writeln!(text, "{name:<7}{p50:>10.3}{p99:>9.3}{worst:>11.3}");
    }
    text
}

fn site_text(of_site: &site::Figures) -> String {
    let mut text = String::from(
        "\n                  Gbps   flows/s   agents   enforcers   (shares of a core, sender's and receiver's)\n",
    );
    for (name, load) in [("large flow", &of_site.large), ("short flows", &of_site.short)] {
        let [agents, enforcers] = [load.agents, load.enforcers].map(|share| share * 100.0);
        _ = writeln!(
            text,
            "{name:<12}{:>10.2}{:>10.0}{agents:>8.1}%{enforcers:>11.1}%",
            load.rate / 1e9,
            load.flows
        );
    }
    text += &pauses("the coordinator's decision to the first byte at the receiver", of_site, |turns| {
        &turns.from_decision
    });
    text += &pauses("the end of a coflow to the first byte of the next", of_site, |turns| &turns.from_end);
    text
}

fn pauses(from: &str, of_site: &site::Figures, times: fn(&site::Turns) -> &[Duration]) -> String {
    let mut text = format!("\nfrom {from}\n period ms   p50 ms   p99 ms   worst ms\n");
    for turns in &of_site.turns {
        let (period, times) = (millis(turns.period), times(turns));
        let [p50, p99, worst] = of_all(times);
        _ = match times.is_empty() {
            true => writeln!(text, "{period:>10.0}   none was seen"),
            false => writeln!(text, "{period:>10.0}{p50:>9.1}{p99:>9.1}{worst:>11.1}"),
        };
    }
    text
}

/// The time in milliseconds that half of all do not exceed, that 99 of 100 do not, and the worst;
/// they are in order of length.
fn of_all(times: &[Duration]) -> [f64; 3] {
    let at = |share| millis(percentile(times, share).unwrap_or_default());
    [Percent::P50, Percent::P99, Percent::whole(100)].map(at)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

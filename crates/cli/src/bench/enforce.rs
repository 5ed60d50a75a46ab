//! `cavalcade bench enforce`: what the kernel path costs on this machine, and how exactly it does as it is told.

use std::fmt::Write as _;
use std::time::Duration;

use cavalcade_enforce::bench::{Cost, Figures, Pace, measure};
use serde_json::{Value, json};

use crate::arguments::EnforceBench;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// Runs the benchmark.
///
/// # Errors
/// If this host cannot load programs, or the output cannot be written.
pub(crate) fn run(options: &EnforceBench) -> Result<(), Failure> {
    let figures = measure().map_err(|error| Failure::new(Kind::Capability, error.to_string()))?;
    print(&if options.json { format!("{}\n", document(&figures)) } else { text(&figures) })
}

fn document(figures: &Figures) -> Value {
    let cost = |cost: &Cost| json!({ "program": cost.program, "verified": cost.verified, "runs": cost.runs, "nanos": cost.nanos });
    let pace = |pace: &Pace| json!({ "asked_bps": pace.asked.0, "reached_bps": pace.reached, "seconds": pace.seconds });
    let all = |times: &[Duration]| times.iter().map(|&time| millis(time)).collect::<Vec<f64>>();
    json!({
        "schema_version": 1,
        "programs": figures.costs.iter().map(cost).collect::<Vec<Value>>(),
        "unlimited_bps": figures.unlimited,
        "paces": figures.paces.iter().map(pace).collect::<Vec<Value>>(),
        "off_ms": all(&figures.off),
        "on_ms": all(&figures.on),
    })
}

fn text(figures: &Figures) -> String {
    let mut text = String::from("program      verified instructions        runs   ns a run\n");
    for cost in &figures.costs {
        let (program, verified, runs, nanos) = (cost.program, cost.verified, cost.runs, cost.nanos);
        _ = writeln!(text, "{program:<13}{verified:>21}{runs:>12}{nanos:>11.0}");
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
        let at = |share: usize| millis(times[(times.len() * share).div_ceil(100) - 1]);
        _ = writeln!(text, "{name:<7}{:>10.3}{:>9.3}{:>11.3}", at(50), at(99), at(100));
    }
    text
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

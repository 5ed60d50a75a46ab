//! `cavalcade bench packet`: how fast this machine simulates, in the unit in which packet
//! simulators are compared.
//!
//! A hop is a packet sent on one link, acknowledgements included. Seconds are those of the
//! processor where the system tells them (Linux), else of the clock on the wall; memory is the peak
//! of the whole program since the scenario began.

use std::time::Instant;

use cavalcade_report::Cells;
use cavalcade_sim_packet::{Network, Options, Run, SimulationError, simulate};
use cavalcade_trace::generate::speed::{OverPackets, over_packets};
use cavalcade_transport::dctcp::Dctcp;
use cavalcade_transport::pfabric::Pfabric;
use serde_json::json;

use super::Lines;
use crate::arguments::PacketBench;
use crate::failure::{Failure, Kind};

/// Runs the benchmark.
///
/// # Errors
/// If the output cannot be written, or a run is not possible.
pub(crate) fn run(options: &PacketBench) -> Result<(), Failure> {
    let mut lines = Lines::new(&COLUMNS, options.json, options.room.wide);
    for case in over_packets(options.part) {
        let network = Network::new(&case.fabric).expect("links of these workloads have rates");
        line(&mut lines, &case, "dctcp", |options| {
            simulate(&case.workload, &network, &Dctcp::default(), None, options, None)
        })?;
        if case.name == "ls144" {
            line(&mut lines, &case, "pfabric", |options| {
                simulate(&case.workload, &network, &Pfabric::default(), None, options, None)
            })?;
        }
    }
    lines.end()
}

const COLUMNS: [(&str, Cells); 11] = [
    ("scenario", Cells::Text),
    ("transport", Cells::Text),
    ("Mhops/s", Cells::Figures),
    ("Mevents/s", Cells::Figures),
    ("s", Cells::Figures),
    ("memory", Cells::Figures),
    ("hops", Cells::Figures),
    ("events", Cells::Figures),
    ("mean FCT", Cells::Figures),
    ("dropped", Cells::Figures),
    ("marked", Cells::Figures),
];

/// Runs one workload and adds what it took.
fn line(
    lines: &mut Lines<'_>,
    case: &OverPackets,
    transport: &str,
    work: impl FnOnce(&Options) -> Result<Run, SimulationError>,
) -> Result<(), Failure> {
    forget_peak_memory();
    let (wall, processor) = (Instant::now(), processor_s());
    let run = work(&Options::default()).map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?;
    let seconds = match (processor, processor_s()) {
        (Some(before), Some(after)) => after - before,
        _ => wall.elapsed().as_secs_f64(),
    };
    let fct = |(finish, arrival): (&cavalcade_model::Instant, &cavalcade_model::Instant)| {
        finish.since(*arrival).as_secs_f64() * 1e3
    };
    let outcome = &run.outcome;
    let total: f64 = outcome.coflow_finish.iter().zip(&outcome.coflow_arrival).map(fct).sum();
    let mean = total / outcome.coflow_finish.len().max(1) as f64;
    let counted =
        |count: fn(&cavalcade_sim_packet::PortCounts) -> u64| run.ports.iter().map(count).sum::<u64>();
    let (hops, events) = (run.hops(), outcome.counts.events);
    let [dropped, marked] = [counted(|port| port.dropped), counted(|port| port.marked)];
    let memory = peak_memory_mb();
    let row = json!({
        "scenario": case.name,
        "transport": transport,
        "hops": hops,
        "events": events,
        "seconds": seconds,
        "mean_fct_s": mean / 1e3,
        "dropped": dropped,
        "marked": marked,
        "memory_bytes": memory.map(|megabytes| (megabytes * 1e6).round()),
    });
    let cells = vec![
        case.name.to_owned(),
        transport.to_owned(),
        format!("{:.2}", hops as f64 / seconds / 1e6),
        format!("{:.2}", events as f64 / seconds / 1e6),
        format!("{seconds:.2}"),
        memory.map_or_else(|| "?".to_owned(), |megabytes| format!("{megabytes:.1} MB")),
        hops.to_string(),
        events.to_string(),
        format!("{mean:.2} ms"),
        dropped.to_string(),
        marked.to_string(),
    ];
    lines.add(&row, cells)
}

/// Seconds that the processor has spent on this thread.
fn processor_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    Some(nanos / 1e9)
}

/// The most memory that the program has had at once since the peak was last forgotten.
fn peak_memory_mb() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1_024.0 / 1e6)
}

/// Resets the peak, where the system lets it.
fn forget_peak_memory() {
    // Without it the peak is that of the workloads before as well: too high, never too low.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

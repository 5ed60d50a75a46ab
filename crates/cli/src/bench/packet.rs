//! `cavalcade bench packet`: how fast this machine simulates, in the unit in which packet simulators are compared.
//!
//! A hop is a packet sent on one link, acknowledgements included. Seconds are those of the processor where the system tells
//! them (Linux), else of the clock on the wall; memory is the peak of the whole program since the scenario began.

use std::fmt::Write as _;
use std::time::Instant;

use cavalcade_sim_packet::{Network, Options, Run, SimulationError, simulate};
use cavalcade_trace::generate::speed::{OverPackets, over_packets};
use cavalcade_transport::dctcp::Dctcp;
use cavalcade_transport::pfabric::Pfabric;
use serde_json::json;

use crate::arguments::PacketBench;
use crate::failure::{Failure, Kind};
use crate::output::print;

/// Runs the benchmark.
///
/// # Errors
/// If the output cannot be written, or a run is not possible.
pub(crate) fn run(options: &PacketBench) -> Result<(), Failure> {
    let as_json = options.json;
    if !as_json {
        print(
            "scenario  transport        hops      events       s   Mhops/s  Mevents/s  mean FCT  dropped   marked  memory\n",
        )?;
    }
    for case in over_packets(options.part) {
        let network = Network::new(&case.fabric).expect("links of these workloads have rates");
        line(&case, "dctcp", as_json, |options| {
            simulate(&case.workload, &network, &Dctcp::default(), None, options, None)
        })?;
        if case.name == "ls144" {
            line(&case, "pfabric", as_json, |options| {
                simulate(&case.workload, &network, &Pfabric::default(), None, options, None)
            })?;
        }
    }
    Ok(())
}

/// Runs one workload and prints what it took.
fn line(
    case: &OverPackets,
    transport: &str,
    as_json: bool,
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
    if as_json {
        let row = json!({
            "scenario": case.name,
            "transport": transport,
            "hops": hops,
            "events": events,
            "seconds": seconds,
            "mean_fct_s": mean / 1e3,
            "dropped": dropped,
            "marked": marked,
            "memory_bytes": peak_memory_mb().map(|megabytes| (megabytes * 1e6).round()),
        });
        return print(&format!("{row}\n"));
    }
    let mut text = String::new();
    write!(
        text,
        "{:9} {:9} {hops:11} {events:11} {seconds:7.2} {:9.2} {:10.2} {mean:6.2} ms {:8} {:8}",
        case.name,
        transport,
        hops as f64 / seconds / 1e6,
        events as f64 / seconds / 1e6,
        dropped,
        marked,
    )
    .expect("a string takes all text");
    let memory =
        peak_memory_mb().map_or_else(|| "      ?".to_owned(), |megabytes| format!("{megabytes:4.1} MB"));
    print(&format!("{text} {memory}\n"))
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

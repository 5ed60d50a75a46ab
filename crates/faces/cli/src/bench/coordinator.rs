//! `cavalcade bench coordinator`: how long a round takes with so many agents, over real sockets.
//!
//! The coordinator runs here, with the code that `cavalcade coordinator` runs; a second process of
//! this program plays all agents ([`super::agents`]), several on one connection. A *full round* is
//! the worst that can happen at once: every agent reports progress of all its flows, the end of one
//! and the begin of another, and asks for a snapshot; the round is over when every agent has its
//! snapshot and no further change of the schedule follows. Rounds do not overlap.
//!
//! Aalo measured 8 ms on average and 19 ms at the 99th percentile with 100 machines, and 992 ms
//! with 100,000 emulated daemons on 100 machines (§7.6, Figure 12).
//!
//! The machine may be shared: processor time stands beside what a clock says. A policy that decides
//! for longer than the bench waits for further changes has fewer fillings than rounds; its times
//! are then those of answers, not of rounds.

use std::process::{Command, Stdio};
use std::time::Duration;

use cavalcade_control::{Coordinator, CoordinatorConfig};
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_runtime::{block_on, serve_coordinator};
use serde::{Deserialize, Serialize};

use crate::arguments::CoordinatorBench;
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::policies::configured;

/// Rounds of the coordinator are at least so far apart: no wait worth mentioning.
const PERIOD: Nanos = Nanos::from_millis(1);
/// No agent is to be forgotten because a round takes long.
const LEASE: Nanos = Nanos::from_secs(120);

/// Measurements of the process that plays agents.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The time of each round, in nanoseconds.
    pub(crate) rounds_ns: Vec<u64>,
    /// Bytes of all reports in these rounds.
    pub(crate) bytes_up: u64,
    /// Bytes of all orders.
    pub(crate) bytes_down: u64,
    /// Processor time of playing agents in these rounds, in nanoseconds.
    pub(crate) busy_ns: u64,
}

/// Runs the benchmark.
///
/// # Errors
/// If sockets are not to be had, or agents lose their connections.
pub(crate) fn run(options: &CoordinatorBench) -> Result<(), Failure> {
    let policy = configured(&options.policy)?;
    let agents = options.agents;
    let config = CoordinatorConfig {
        period: PERIOD,
        lease: LEASE,
        ..CoordinatorConfig::new(1, agents, BitsPerSec(10_000_000_000))
    };
    let failed =
        |error: std::io::Error| Failure::new(Kind::Runtime, format!("the benchmark failed: {error}"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let before = resident();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let serving = std::thread::spawn(move || {
        block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let coordinator = Coordinator::new(config, Box::new(policy));
            let rounds = serve_coordinator(coordinator, listener, stopped).await?.rounds();
            Ok((rounds, busy()))
        })
    });
    let connections = options.connections.unwrap_or(agents.div_ceil(100)).clamp(1, agents);
    let arguments = [
        ("--connect", at.to_string()),
        ("--agents", agents.to_string()),
        ("--coflows", options.coflows.to_string()),
        ("--flows", options.flows.to_string()),
        ("--connections", connections.to_string()),
        ("--rounds", options.rounds.to_string()),
    ];
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command
        .arg("bench")
        .arg("agents")
        .args(arguments.iter().flat_map(|(name, value)| [*name, value.as_str()]));
    let output = command.stdout(Stdio::piped()).output().map_err(failed)?;
    let after = resident();
    let measured: Measured = serde_json::from_slice(&output.stdout)
        .map_err(|_| Failure::new(Kind::Runtime, "the process that plays agents did not finish"))?;
    let _ = stop.send(true);
    let (rounds, busy) = serving
        .join()
        .map_err(|_| Failure::new(Kind::Runtime, "the coordinator panicked"))?
        .map_err(failed)?;
    let used = Used { rounds, busy, memory: after.saturating_sub(before) };
    if options.json {
        return print(&format!("{}\n", document(options, connections, &measured, &used)));
    }
    print(&text(options, connections, &measured, &used))
}

/// Resources that the coordinator has used, introductions included.
struct Used {
    rounds: u64,
    busy: Duration,
    memory: u64,
}

fn document(
    options: &CoordinatorBench,
    connections: u32,
    measured: &Measured,
    used: &Used,
) -> serde_json::Value {
    serde_json::json!({
        "schema_version": 1,
        "agents": options.agents,
        "connections": connections,
        "coflows": options.coflows,
        "flows": options.flows,
        "policy": options.policy,
        "measured": measured,
        "coordinator": {
            "fillings": used.rounds,
            "busy_ns": used.busy.as_nanos() as u64,
            "memory_bytes": used.memory,
        },
    })
}

fn text(options: &CoordinatorBench, connections: u32, measured: &Measured, used: &Used) -> String {
    let mut times = measured.rounds_ns.clone();
    times.sort_unstable();
    let count = times.len().max(1);
    let ms = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e3;
    let rank =
        |share: f64| ms(times.get(((count as f64 * share).ceil() as usize).max(1) - 1).copied().unwrap_or(0));
    let per = |bytes: u64| bytes as f64 / (count as f64 * f64::from(options.agents));
    format!(
        "{} agents on {connections} connections, {} coflows, {} flows at each agent, {}\n\
         full rounds    {:>9}\n\
         mean           {:>9.3} ms\n\
         p50            {:>9.3} ms\n\
         p99            {:>9.3} ms\n\
         max            {:>9.3} ms\n\
         report         {:>9.1} bytes per agent and round\n\
         orders         {:>9.1} bytes per agent and round\n\
         memory         {:>9.1} KB per agent\n\
         fillings       {:>9.1} per round\n\
         processor      {:>9.3} ms per round for the coordinator, {:.3} ms for playing agents\n",
        options.agents,
        options.coflows,
        options.flows,
        options.policy,
        times.len(),
        ms(times.iter().sum::<u64>() / count as u64),
        rank(0.5),
        rank(0.99),
        rank(1.0),
        per(measured.bytes_up),
        per(measured.bytes_down),
        used.memory as f64 / 1e3 / f64::from(options.agents),
        used.rounds as f64 / (count + 1) as f64,
        used.busy.as_secs_f64() * 1e3 / (count + 1) as f64,
        ms(measured.busy_ns) / count as f64,
    )
}

/// Memory of this process in bytes; zero where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// Processor time of this thread; zero where the system does not say.
pub(crate) fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

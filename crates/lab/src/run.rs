//! One run: everything is started, the trace replayed, and everything ended again.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, Workload};

use crate::error::LabError;
use crate::replay::{Fault, Replayed, replay};
use crate::site::Site;
use crate::workload::Scheduler;

/// What hosts are, and what is between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Network namespaces, joined by a bridge.
    Namespaces,
    /// Addresses of one machine.
    Loopback,
}

/// What holds for all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program whose commands are run: the lab's own.
    pub program: PathBuf,
    /// What is between hosts.
    pub transport: Transport,
    /// How many hosts there are; at least as many as the trace has ports.
    pub hosts: u32,
    /// What each port can send and receive, in payload.
    pub rate: BitsPerSec,
    /// Δ.
    pub period: Nanos,
    /// After how long a run has failed.
    pub limit: Nanos,
}

/// What the control plane cost at hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Processor time of all agents.
    pub agents: Nanos,
    /// Processor time of the client library's own threads at all hosts.
    pub clients: Nanos,
    /// Processor time of the coordinator.
    pub coordinator: Nanos,
    /// Bytes transferred.
    pub bytes: Bytes,
    /// How long the run took.
    pub wall: Nanos,
}

impl Cost {
    /// Which share of a core agent and client library take at a host that sends at 1 Gbps all the time, as if cost went with
    /// bytes; it goes with time and flows as well, so at lower rates this is an upper estimate.
    pub fn core_share_at_gigabit(&self) -> f64 {
        let seconds_at_gigabit = self.bytes.0 as f64 * 8.0 / 1e9;
        (self.agents.0 + self.clients.0) as f64 / 1e9 / seconds_at_gigabit
    }
}

/// How the lab got over a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// What happened.
    pub fault: Fault,
    /// How long it took until the victim, or its successor, was there again.
    pub back: Nanos,
    /// How long it took until the next transfer arrived that the victim has to do with, if there was one.
    pub next_arrival: Option<Nanos>,
}

/// What a run came to. All transfers arrived whole.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When everything finished, from the start of the replay.
    pub outcome: Outcome,
    /// What it cost.
    pub cost: Cost,
    /// How each fault went, in order of time.
    pub recoveries: Vec<Recovery>,
}

/// Replays `workload` under `scheduler` while `faults` happen, until `stop` becomes true.
///
/// # Errors
/// Where the lab cannot be built, a transfer fails or arrives with wrong bytes, it takes longer than the limit, or it is
/// stopped. Whatever happens, nothing of it is left.
pub fn run(
    setup: &Setup,
    workload: &Workload,
    scheduler: &Scheduler,
    faults: &[Fault],
    stop: &AtomicBool,
) -> Result<Measured, LabError> {
    let hosts = setup.hosts.max(workload.ports());
    let site = Site::build(setup, hosts)?;
    let running = site.start(scheduler)?;
    let Replayed { finished, cost, recoveries } =
        replay(&site, running, workload, scheduler, faults, setup.limit, stop)?;
    Ok(Measured { outcome: outcome(workload, &finished), cost, recoveries })
}

/// What came of `workload` when each flow finished when it did.
fn outcome(workload: &Workload, finished: &[Instant]) -> Outcome {
    let ends: Vec<Instant> = workload
        .coflows()
        .map(|coflow| {
            let flows = workload.flow_ids(coflow.id);
            let ends = &finished[flows.start as usize..flows.end as usize];
            ends.iter().copied().max().unwrap_or_default()
        })
        .collect();
    Outcome {
        coflow_arrival: workload.coflows().map(|coflow| coflow.task.arrival).collect(),
        task_finish: workload
            .tasks()
            .iter()
            .map(|task| match task.stages[0].work {
                cavalcade_model::Work::Transfer(coflow) => ends[coflow.index()],
                cavalcade_model::Work::Compute(_) => task.arrival,
            })
            .collect(),
        coflow_finish: ends,
        flow_finish: finished.to_vec(),
        counts: EngineCounts::default(),
        link_use: None,
        queue_use: None,
        messages: None,
    }
}

//! One run: everything is started, the trace replayed, and everything ended again.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cavalcade_enforce::Law;
use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, Workload};

use crate::decisions::Decision;
use crate::error::LabError;
use crate::marks::Marking;
use crate::namespaces::Losses;
use crate::replay::{Fault, Replayed, replay};
use crate::site::Site;
use crate::workload::Scheduler;

/// The kind of hosts, and of the network between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Network namespaces, joined by a bridge.
    Namespaces,
    /// Network namespaces in racks, joined by switches of a kind.
    Racks(Racks),
    /// Addresses of one machine.
    Loopback,
}

/// Racks of hosts below one root switch: the shape of Baraat's testbed (§5.1), which has five racks
/// of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Racks {
    /// The number of racks.
    pub racks: u32,
    /// The hosts of each.
    pub hosts: u32,
    /// The rate of a rack's link to the root each way.
    pub uplink: BitsPerSec,
    /// The round trip across the root that hosts and switches are told.
    pub round_trip: Nanos,
    /// The switches.
    pub switches: SwitchedBy,
}

/// The switches of racks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchedBy {
    /// `cavalcade switch`, whose process carries frames.
    #[default]
    Process,
    /// The same, whose programs in the kernel carry frames.
    Xdp,
    /// The kernel's bridge, which knows no SPC, with ports as in the lab without racks.
    Bridge,
}

/// The part that carries out orders at hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Enforcement {
    /// The client library, in the application that sends.
    #[default]
    Library,
    /// The kernel: an enforcer at each host, and for each coflow there a process that sends and
    /// knows no library.
    Kernel,
    /// The kernel, to which the client library hands its connections over.
    Handed,
}

impl Enforcement {
    /// Tells whether hosts have an enforcer.
    pub fn has_enforcers(self) -> bool {
        self != Self::Library
    }
}

/// The congestion control of connections, and the ports that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// The law of windows.
    pub law: Law,
    /// The ports of the switch.
    pub marking: Marking,
    /// The size of the largest flow, as the law is told.
    pub largest: Bytes,
}

/// Conditions of all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program whose commands are run: the lab's own.
    pub program: PathBuf,
    /// The network between hosts.
    pub transport: Transport,
    /// The part that carries out orders.
    pub enforcement: Enforcement,
    /// True if flows are told their class alone, and ports hold to it: where there are enforcers:
    /// ports do then.
    pub by_class: bool,
    /// The congestion control of coflows' connections, where there are enforcers; without one they
    /// keep Reno, and ports mark nothing.
    pub congestion: Option<Congestion>,
    /// The policy by whose rule kernels sort messages themselves, with all that the rule needs,
    /// where hosts' policies do so and there are enforcers.
    pub demotion: Option<String>,
    /// The number of hosts; at least as many as the trace has ports.
    pub hosts: u32,
    /// The rate of each port each way, in payload; in racks that of the link, headers included.
    pub rate: BitsPerSec,
    /// Δ.
    pub period: Nanos,
    /// True if the coordinator is to say what it decides about flows, and when: it has a longer log
    /// to write then.
    pub with_decisions: bool,
    /// After how long a run has failed.
    pub limit: Nanos,
}

/// The cost of the control plane, from when everything is up until the last transfer has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Processor time of all agents.
    pub agents: Nanos,
    /// Processor time of the client library's own threads at all hosts.
    pub clients: Nanos,
    /// Processor time of all enforcers.
    pub enforcers: Nanos,
    /// Processor time of the coordinator.
    pub coordinator: Nanos,
    /// Bytes transferred.
    pub bytes: Bytes,
    /// The duration of the run.
    pub wall: Nanos,
}

impl Cost {
    /// The share of a core that agent, enforcer and client library take at a host that sends at 1
    /// Gbps all the time, as if cost went with bytes; it goes with time and flows as well, so at
    /// lower rates this is an upper estimate.
    pub fn core_share_at_gigabit(&self) -> f64 {
        let seconds_at_gigabit = self.bytes.0 as f64 * 8.0 / 1e9;
        (self.agents.0 + self.enforcers.0 + self.clients.0) as f64 / 1e9 / seconds_at_gigabit
    }
}

/// The recovery from a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The fault.
    pub fault: Fault,
    /// The time until the victim, or its successor, was there again.
    pub back: Nanos,
    /// The time until the next transfer of the victim arrived, if there was one.
    pub next_arrival: Option<Nanos>,
}

/// Bytes of a flow that came without a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When the first came, from the start of the replay.
    pub began: Instant,
    /// All of them.
    pub bytes: Bytes,
}

/// The result of a run. All transfers arrived whole.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The finish times, from the start of the replay.
    pub outcome: Outcome,
    /// The bursts in which each flow's bytes came.
    pub bursts: Vec<Vec<Burst>>,
    /// What the coordinator decided about flows, in order of time, where it was to say so; after a
    /// fault of the coordinator, since then.
    pub decisions: Vec<Decision>,
    /// Its cost.
    pub cost: Cost,
    /// The recovery from each fault, in order of time.
    pub recoveries: Vec<Recovery>,
    /// The losses on the way; none are known on loopback.
    pub losses: Option<Losses>,
}

/// Replays `workload` under `scheduler` while `faults` happen, until `stop` becomes true.
///
/// # Errors
/// If the lab cannot be built, a transfer fails or arrives with wrong bytes, it takes longer than
/// the limit, or it is stopped. Whatever happens, nothing of it is left.
pub fn run(
    setup: &Setup,
    workload: &Workload,
    scheduler: &Scheduler,
    faults: &[Fault],
    stop: &AtomicBool,
) -> Result<Measured, LabError> {
    let hosts = setup.hosts.max(workload.ports());
    let site = Site::build(setup, hosts, workload)?;
    let running = site.start(scheduler)?;
    let Replayed { began, finished, bursts, cost, recoveries } =
        replay(&site, running, workload, scheduler, faults, setup.limit, stop)?;
    let (outcome, losses) = (outcome(workload, &finished), site.losses());
    let decisions = if setup.with_decisions { site.decisions(began)? } else { Vec::new() };
    Ok(Measured { outcome, bursts, decisions, cost, recoveries, losses })
}

/// Returns the outcome of `workload` from the finish times of its flows.
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

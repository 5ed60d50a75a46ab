//! The raw result of one run, as every driver writes it.

use cavalcade_model::{CoflowId, Instant, LinkId, Nanos};

use crate::queue_use::QueueUse;

/// When everything in a workload finished under one policy. Arrays are indexed by the dense ids of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// For each coflow: when its first flow arrived (later than its task where it waits for other stages).
    pub coflow_arrival: Vec<Instant>,
    /// For each coflow: when its last byte arrived, and with it the last byte of what it must not finish before.
    pub coflow_finish: Vec<Instant>,
    /// For each flow: when its last byte arrived.
    pub flow_finish: Vec<Instant>,
    /// For each task: when its last stage was done.
    pub task_finish: Vec<Instant>,
    /// How much work the driver had.
    pub counts: EngineCounts,
    /// How busy links were, where it was asked for.
    pub link_use: Option<LinkUse>,
    /// What waited in switches, where packets were simulated and it was asked for.
    pub queue_use: Option<QueueUse>,
}

/// What a run cost its driver: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EngineCounts {
    /// Points in time at which something happened.
    pub events: u64,
    /// Times that rates were computed anew.
    pub refills: u64,
    /// Calls of a policy.
    pub policy_calls: u64,
    /// Messages between instances of a policy.
    pub messages: u64,
}

/// Bytes carried by each link in equal intervals of time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// The length of an interval.
    pub interval: Nanos,
    /// How many links there are.
    pub links: usize,
    /// `bytes[interval * links + link]`.
    pub bytes: Vec<f64>,
}

impl Outcome {
    /// The coflow completion time: from its arrival to its last byte.
    pub fn cct(&self, coflow: CoflowId) -> Nanos {
        self.coflow_finish[coflow.index()].since(self.coflow_arrival[coflow.index()])
    }

    /// When everything was done.
    pub fn makespan(&self) -> Instant {
        self.task_finish.iter().copied().max().unwrap_or_default()
    }
}

impl LinkUse {
    /// How many intervals there are.
    pub fn intervals(&self) -> usize {
        self.bytes.len() / self.links.max(1)
    }

    /// Bytes that `link` carried in interval `index`.
    pub fn at(&self, index: usize, link: LinkId) -> f64 {
        self.bytes[index * self.links + link.index()]
    }
}

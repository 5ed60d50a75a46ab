//! The raw result of one run, as every driver writes it.

use cavalcade_model::{Bytes, CoflowId, Instant, LinkId, Nanos};

use crate::queue_use::QueueUse;

/// The finish times of everything in a workload under one policy. Arrays are indexed by the dense
/// ids of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// For each coflow: when its first flow arrived (later than its task where it waits for other
    /// stages).
    pub coflow_arrival: Vec<Instant>,
    /// For each coflow: when its last byte arrived, and with it the last byte of what it must not
    /// finish before.
    pub coflow_finish: Vec<Instant>,
    /// For each flow: when its last byte arrived. Empty where a run was asked to forget flows: what
    /// looks at single flows then has nothing to say.
    pub flow_finish: Vec<Instant>,
    /// For each task: when its last stage was done.
    pub task_finish: Vec<Instant>,
    /// The work of the driver.
    pub counts: EngineCounts,
    /// The use of links, where it was asked for.
    pub link_use: Option<LinkUse>,
    /// The queues of switches, where packets were simulated and it was asked for.
    pub queue_use: Option<QueueUse>,
    /// Messages between instances of the policy over the network itself, where that was asked for.
    pub messages: Option<MessageUse>,
}

/// Datagrams between instances of a policy over the network that they decide about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MessageUse {
    /// Datagrams that were sent.
    pub sent: u64,
    /// Statements in them.
    pub statements: u64,
    /// Their bytes, without the headers of packets.
    pub payload: Bytes,
    /// Datagrams that arrived.
    pub arrived: u64,
    /// Those of them that were left out, because something newer had come.
    pub left_out: u64,
    /// Datagrams that were lost, or dropped where a queue was full.
    pub lost: u64,
    /// Bytes that they were on links, with headers, once for each link.
    pub carried: Bytes,
    /// The same of everything that links carried.
    pub all_carried: Bytes,
    /// The sum of the delays of those that arrived, from the decision to send to the last bit.
    pub total: Nanos,
    /// The longest delay.
    pub longest: Nanos,
}

impl MessageUse {
    /// Returns the mean delay of a datagram; zero where none arrived.
    pub fn mean_delay(&self) -> Nanos {
        Nanos(self.total.get().checked_div(self.arrived).unwrap_or(0))
    }

    /// Their share of all that links carried, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.all_carried == Bytes::ZERO { 0.0 } else { self.carried.as_f64() / self.all_carried.as_f64() }
    }
}

/// The work of a run in counts: the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EngineCounts {
    /// Points in time at which something happened.
    pub events: u64,
    /// Recomputations of rates.
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
    /// The number of links.
    pub links: usize,
    /// `bytes[interval * links + link]`.
    pub bytes: Vec<f64>,
}

impl Outcome {
    /// The coflow completion time: from its arrival to its last byte.
    pub fn cct(&self, coflow: CoflowId) -> Nanos {
        self.coflow_finish[coflow.index()].since(self.coflow_arrival[coflow.index()])
    }

    /// Returns the end of the last task.
    pub fn makespan(&self) -> Instant {
        self.task_finish.iter().copied().max().unwrap_or_default()
    }
}

impl LinkUse {
    /// Returns the number of intervals.
    pub fn intervals(&self) -> usize {
        self.bytes.len() / self.links.max(1)
    }

    /// Bytes that `link` carried in interval `index`.
    pub fn at(&self, index: usize, link: LinkId) -> f64 {
        self.bytes[index * self.links + link.index()]
    }
}

//! Processes that read late and all at once, a greedy user, and enforcers, whose flows have many
//! connections.
//!
//! They are drawn from a stream of their own, so that a seed that draws none of them gives the run
//! that it gives without them. Seeds of recorded counterexamples do: [`STREAM`] is chosen so.

use cavalcade_model::{Bytes, Flow, Nanos, SplitMix64, Workload, WorkloadBuilder, mix};

use super::choice::between;
use crate::network::Reads;

/// Sets this stream apart from others of the same seed.
const STREAM: u64 = 1247;

/// The longest time from the sending of what is read to the read: no longer than weather keeps a
/// message on its way.
const LATEST: Nanos = Nanos::from_millis(30);

/// The additions of a seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Additions {
    /// Processes read late, and then all that has come.
    pub(super) reads: bool,
    /// A user takes all that they may on each host.
    pub(super) greedy: bool,
    /// That user's flows look as if they had data to send; otherwise as if they had none.
    pub(super) holds: bool,
    /// The first process of each host is an enforcer, and flows have several connections.
    pub(super) connections: bool,
    seed: u64,
}

impl Additions {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = SplitMix64::new(mix(seed ^ STREAM));
        Self {
            reads: dice.happens(0.5),
            greedy: dice.happens(0.3),
            holds: dice.happens(0.5),
            connections: dice.happens(0.3),
            seed: dice.bits(),
        }
    }

    /// Returns a stream for one of its purposes.
    pub(super) fn dice(&self, purpose: u64) -> SplitMix64 {
        SplitMix64::new(mix(self.seed ^ purpose))
    }

    pub(super) fn reads(&self) -> Option<Reads> {
        self.reads.then(|| Reads::new(LATEST, self.dice(1).bits()))
    }

    /// Lets each flow of a workload have one to six connections, which are flows of the workload
    /// with the same ends.
    pub(super) fn split(&self, workload: Workload) -> Workload {
        if !self.connections {
            return workload;
        }
        let mut dice = self.dice(2);
        let mut builder = WorkloadBuilder::new(workload.ports());
        for coflow in workload.coflows() {
            let mut connect = |flow: Flow| {
                let connections = between(&mut dice, 1, 6).min(flow.size.0);
                let (part, rest) = (flow.size.0 / connections, flow.size.0 % connections);
                (0..connections).map(move |at| Flow { size: Bytes(part + u64::from(at < rest)), ..flow })
            };
            let flows = coflow.flows.iter().flat_map(|&flow| connect(flow)).collect();
            builder.coflow(coflow.task.name.clone(), coflow.task.arrival, flows);
        }
        builder.build().expect("the parts of a workload make one")
    }
}

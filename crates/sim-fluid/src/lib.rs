//! Driver 1: an exact, event-driven fluid simulation.
//!
//! Bytes flow at rates that are constant between events, and rates change at every event that changes them: a flow or
//! coflow arrives, a flow ends, a policy wakes or re-orders. There is no step width. [`simulate`] runs one policy over one
//! workload on one fabric.
//!
//! - `engine`: the loop: find the next instant, settle what it brings, tell the policy, refill rates.
//! - `scopes`: which instances of the policy there are and what each of them can see.
//! - `schedule`: what an observer is told: who was sent at what rate from when to when.
//!
//! Time inside is `f64` nanoseconds (an hour is resolved to half a picosecond); what leaves is a whole number of
//! nanoseconds, rounded up.

mod engine;
mod schedule;
mod scopes;

use cavalcade_metrics::Outcome;
use cavalcade_model::{CpuOrder, Discipline, Fabric, FlowId, Nanos, PolicyFactory, Scope, Workload};
use cavalcade_solver::{GreedyFill, MaddFill, MaxMinFill, ShortestFill, StableFill};

/// What does not belong to the workload, fabric or policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// How long a message between hosts takes.
    pub control_delay: Nanos,
    /// The share of messages that get lost, from 0 to 1.
    pub control_loss: f64,
    /// Decides which messages get lost.
    pub seed: u64,
    /// Whether to record how busy each link was.
    pub link_use: bool,
    /// Who computes first on a host with more computations than slots.
    pub cpu_order: CpuOrder,
}

/// Someone who watches a run.
pub trait Observer {
    /// `flow` was sent at `bytes_per_nano` from one time to the next, both in nanoseconds.
    fn segment(&mut self, flow: FlowId, from_ns: f64, to_ns: f64, bytes_per_nano: f64) {
        let _ = (flow, from_ns, to_ns, bytes_per_nano);
    }

    /// Whether [`Observer::segment`] is wanted: it costs a look at every flow at every event.
    fn wants_segments(&self) -> bool {
        true
    }

    /// So many coflows have finished.
    fn progress(&mut self, done_coflows: usize) {
        let _ = done_coflows;
    }
}

/// Runs `factory`'s policy over `workload` on `fabric`.
///
/// # Panics
/// Where the workload names ports that the fabric lacks, or the policy breaks its contract (asks to be woken in the
/// past, asks for per-link priorities with a discipline other than max-min).
pub fn simulate(
    workload: &Workload,
    fabric: &Fabric,
    factory: &dyn PolicyFactory,
    options: &Options,
    observer: Option<&mut dyn Observer>,
) -> Outcome {
    assert!(workload.ports() <= fabric.ports(), "the fabric has a port for every port of the workload");
    let terms = factory.terms();
    let capacity: Vec<f64> = fabric.links().map(|link| fabric.capacity(link).bytes_per_nano()).collect();
    let flows = workload.flows().len();
    let run = engine::Run { workload, fabric, factory, terms: &terms, options };
    match (terms.scope, terms.discipline) {
        (Scope::Link, Discipline::MaxMin) => run.with(StableFill::new(capacity, flows), observer),
        (Scope::Link, other) => {
            panic!("priorities per link are defined for max-min sharing, not for {other:?}")
        }
        (_, Discipline::MaxMin) => {
            run.with(MaxMinFill::new(capacity, engine::shares(&terms.shares), flows), observer)
        }
        (_, Discipline::Greedy) => run.with(GreedyFill::new(capacity, flows), observer),
        (_, Discipline::Madd) => run.with(MaddFill::new(capacity, flows), observer),
        (_, Discipline::ShortestFlow) => run.with(ShortestFill::new(capacity, flows), observer),
    }
}

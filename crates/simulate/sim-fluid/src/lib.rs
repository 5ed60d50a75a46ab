//! Driver 1: an exact, event-driven fluid simulation.
//!
//! Bytes flow at rates that are constant between events, and rates change at every event that
//! changes them: a flow or coflow arrives, a flow ends, a policy wakes or re-orders. There is no
//! step width. [`simulate`] runs one policy over one workload on one fabric.
//!
//! - `engine`: the loop: find the next instant, settle what it brings, tell the policy, refill
//!   rates.
//! - `view`: what an instance of the policy can see.
//! - `pending`: what has arrived and is not in the allocator yet.
//! - `schedule`: what an observer is told: who was sent at what rate from when to when.
//!
//! - `ticks`: which wake-ups change nothing and are left out.
//! - `time`: how time is kept, however long a run lasts: what leaves is a whole number of
//!   nanoseconds, rounded up.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod book;
mod engine;
mod link_use;
mod pending;
mod schedule;
mod ticks;
mod time;
mod view;

/// Parts that another driver of a fluid shares: times, and what is recorded of a run.
pub mod parts {
    pub use crate::link_use::LinkRecorder;
    pub use crate::schedule::Segments;
    pub use crate::time::{Awaited, Clock, SLACK, TooLate};
}

pub use book::Stream;
use cavalcade_allocate::{Load, select};
use cavalcade_harness::{CpuOrder, RunError, check};
use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{
    Fabric, FineInstant, FlowId, History, Instant, Nanos, PolicyFactory, TaskId, Workload,
};

pub use cavalcade_allocate::Allocator;

/// The options beside workload, fabric and policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Travel time of a message between hosts.
    pub control_delay: Nanos,
    /// The share of messages that get lost, from 0 to 1.
    pub control_loss: f64,
    /// Decides which messages get lost.
    pub seed: u64,
    /// True if to record how busy each link was.
    pub link_use: bool,
    /// Order of computation on a host with more computations than slots.
    pub cpu_order: CpuOrder,
    /// Source of rates: kept up to date, or computed by the definitions at each event.
    pub allocator: Allocator,
}

/// Someone who watches a run.
pub trait Observer {
    /// `flow` was sent at `bytes_per_nano` from one time to another, both since the first arrival.
    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        let _ = (flow, from, to, bytes_per_nano);
    }

    /// Returns whether [`Observer::segment`] is wanted: it costs a look at every flow at every
    /// event.
    fn wants_segments(&self) -> bool {
        true
    }

    /// A task that arrived at `arrival` has finished at `finish`.
    fn task_finished(&mut self, task: TaskId, arrival: Instant, finish: Instant) {
        let _ = (task, arrival, finish);
    }

    /// So many coflows have finished.
    fn progress(&mut self, done_coflows: usize) {
        let _ = done_coflows;
    }

    /// Returns whether the run is to stop, which it does within milliseconds. It is asked again and
    /// again.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Runs `factory`'s policy over `workload` on `fabric`.
///
/// # Errors
/// If the policy breaks its contract, or fails; if a coflow can never end, or not before the end of
/// time; if the observer cancels the run.
pub fn simulate(
    workload: &Workload,
    fabric: &Fabric,
    factory: &dyn PolicyFactory,
    options: &Options,
    observer: Option<&mut dyn Observer>,
) -> Result<Outcome, RunError> {
    check(workload, fabric)?;
    let terms = factory.terms();
    let fill = select(&terms, fabric, Load::of(workload), options.allocator);
    let workload = book::Book::Whole(workload);
    engine::Run { workload, history: None, fabric, factory, terms: &terms, options }.with(fill, observer)
}

/// The outcome of a stream of tasks, summed up: a run that holds no more than what is active keeps
/// no more either. When each task finished is told to the [`Observer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOutcome {
    /// Tasks that have finished: all.
    pub tasks: usize,
    /// Coflows that have finished.
    pub coflows: usize,
    /// The engine's counts.
    pub counts: EngineCounts,
    /// The most flows that were held at once.
    pub peak_flows: usize,
}

/// Runs `factory`'s policy over tasks that are taken from `stream` when they arrive and let go of
/// when they are done, so that memory is bounded by what is active. `history` is what policies may
/// know of past workloads. The observer is told of no segments.
///
/// # Errors
/// As [`simulate`].
///
/// # Panics
/// Where tasks come out of order or are not valid on the fabric.
pub fn simulate_stream(
    stream: Stream<'_>,
    fabric: &Fabric,
    factory: &dyn PolicyFactory,
    history: &History,
    options: &Options,
    observer: Option<&mut dyn Observer>,
) -> Result<StreamOutcome, RunError> {
    let terms = factory.terms();
    let fill = select(&terms, fabric, Load::Stream, options.allocator);
    let workload = book::Book::Moving(Box::new(book::Moving::new(fabric.ports(), stream)));
    engine::Run { workload, history: Some(history), fabric, factory, terms: &terms, options }
        .stream(fill, observer)
}

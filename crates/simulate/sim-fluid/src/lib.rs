//! Driver 1: an exact, event-driven fluid simulation.
//!
//! Bytes flow at rates that are constant between events, and rates change at every event that
//! changes them: a flow or coflow arrives, a flow ends, a policy wakes or re-orders. There is no
//! step width. [`simulate`] runs one policy over one workload on one fabric.
//!
//! - `engine`: the loop: find the next instant, settle what it brings, tell the policy, refill
//!   rates.
//! - `view`: what an instance of the policy can see.
//! - `numbers`: under which numbers the allocator knows flows.
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
mod numbers;
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
use cavalcade_allocate::{is_recomputed, select};
use cavalcade_harness::{CpuOrder, RunError, check};
use cavalcade_metrics::Outcome;
use cavalcade_model::{
    Discipline, Fabric, FineInstant, FlowId, History, Instant, Nanos, PolicyFactory, Scope, TaskId, Terms,
    Workload,
};

pub use cavalcade_allocate::{Allocator, Load};

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
    /// True to keep nothing of a flow that has ended: the outcome has no ends of flows. Everything
    /// else is the same to the bit. Of flows there is room for those under way at once, unless the
    /// use of links is recorded, or ties between flows of two coflows go by number. A stream never
    /// keeps ends.
    pub forgets_flows: bool,
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
    let lends_numbers = lends_numbers(&terms, options);
    let load = Load::of(workload);
    let load = if lends_numbers { Load { flows: 0, ..load } } else { load };
    let (fill, links) = select(&terms, fabric, load, options.allocator);
    let terms = &terms;
    let workload = book::Book::Whole(workload);
    let (history, reuses_accounts) = (None, false);
    engine::Run { workload, history, fabric, links, factory, terms, options, lends_numbers, reuses_accounts }
        .with(fill, observer)
}

/// What a run over a stream of tasks takes beside the tasks.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions<'a> {
    /// What policies may know of past workloads.
    pub history: &'a History,
    /// True if the tasks are wide, as [`Load::is_wide`] has it, so that the same allocator is
    /// chosen as for the whole.
    pub is_wide: bool,
    /// True for the outcome of the whole, to the bit. Then the numbers of flows that are gone are
    /// used again only under policies under which no tie between flows goes by number, and those of
    /// accounts never.
    pub is_exact: bool,
}

/// The outcome of a stream of tasks, and the room that it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// The outcome, without the ends of flows.
    pub outcome: Outcome,
    /// How many flows there was room for in the end: at most twice those that were there at once,
    /// where their numbers are used again, else all.
    pub held_flows: usize,
}

/// Runs `factory`'s policy over tasks that are taken from `stream` when they arrive and let go of
/// when they are done, so that memory is bounded by what is active: for each coflow and task only
/// their times are kept. The observer is told of no segments.
///
/// # Errors
/// As [`simulate`]; if tasks come out of order, or one is not valid on the fabric.
pub fn simulate_stream(
    stream: Stream<'_>,
    fabric: &Fabric,
    factory: &dyn PolicyFactory,
    about: StreamOptions<'_>,
    options: &Options,
    observer: Option<&mut dyn Observer>,
) -> Result<Streamed, RunError> {
    let StreamOptions { history, is_wide, is_exact } = about;
    let terms = factory.terms();
    let (fill, links) = select(&terms, fabric, Load { flows: 0, is_wide }, options.allocator);
    let reuses_flows = !is_exact || !looks_at_numbers(&terms);
    let moving = book::Moving::new(fabric.ports(), stream, reuses_flows);
    let workload = book::Book::Moving(Box::new(moving));
    // The window lends numbers already.
    let (history, lends_numbers, reuses_accounts) = (Some(history), false, !is_exact);
    let terms = &terms;
    engine::Run { workload, history, fabric, links, factory, terms, options, lends_numbers, reuses_accounts }
        .stream(fill, observer)
}

/// Returns whether an allocator is to get numbers that are used again, which must not show.
/// Policies see the flows' own all the same. But shortest flows first breaks ties by number, what
/// links carry may be added up in order of numbers, and so are rates that are computed from
/// scratch, where nothing is kept of flows that are gone anyway.
fn lends_numbers(terms: &Terms, options: &Options) -> bool {
    let is_from_scratch = is_recomputed(terms, options.allocator) || terms.scope == Scope::Link;
    let adds_up = is_from_scratch || options.link_use;
    options.forgets_flows && !adds_up && terms.discipline != Discipline::ShortestFlow
}

/// Returns whether the number of a flow may decide between it and one of another coflow: in the
/// policy, which may be told of flows, in an instance that sees them one by one, or in the
/// discipline.
fn looks_at_numbers(terms: &Terms) -> bool {
    terms.scope != Scope::Fabric || terms.flow_events || terms.discipline == Discipline::ShortestFlow
}

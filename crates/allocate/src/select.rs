//! Which allocator carries out which terms: the only place that knows.
//!
//! | terms | one switch | any fabric, or a stream of tasks |
//! |---|---|---|
//! | max-min, strict classes | [`MaxMinFill`] where many flows come together, else [`PathFill`] | [`PathFill`] |
//! | max-min, weighted classes | [`MaxMinFill`] | [`Recompute`] |
//! | max-min, each link's own priorities | [`PerLinkFill`] | [`Recompute`] |
//! | greedy, in turn | [`GreedyFill`] | [`Recompute`] |
//! | MADD | [`Recompute`] | [`Recompute`] |
//! | shortest flow first | [`ShortestFill`] | [`Recompute`] |
//!
//! All give the rates of [`reference`](crate::reference). An allocator is here because it is at least three times as fast as
//! the one that could do its work instead.
//!
//! Measured so far: [`PerLinkFill`] against [`Recompute`] on Sincronia's trace of 200 coflows, processor time of the whole run:
//! 0.06 s against 0.81 s for `baraat` (13 times), 0.52 s against 8.9 s for `las:at=link` (17 times), same results.
//!
//! # Two for max-min on one switch
//! [`MaxMinFill`] fills all pairs of ports together: what it does in an event goes with the number of ports, hardly with
//! that of flows, and wide shuffles over few ports are its case. [`PathFill`] moves levels where something changed: what
//! it does goes with the flows that share links with those that come and go, and many ports with few flows each are its
//! case. The choice goes by *crowding*: the most flows of tasks that arrive at one instant, over the number of ports. What
//! arrives together shares links for a while; what comes one by one seldom does. Flows each second of processor time,
//! generation included, one run each on a busy machine, where figures differ by half from run to run
//! (`cavalcade bench fluid`):
//!
//! | workload (ports, flows) | crowding | `fair`: pairs | paths | `fifo`: pairs | paths |
//! |---|---|---|---|---|---|
//! | pois-100 (100, 10,000) | 0.01 | 48 k | 220 k to 460 k | 48 k | 340 k |
//! | pois-1000 (1,000, 100,000) | 0.001 | under 3 k | 134 k | | |
//! | coflow-1000 (1,000, 24,000) | 1.2 | 5.0 k | 16 k to 19 k | 63 k | 15 k |
//! | batch-100 (100, 10,000) | 100 | 25 k | 11 k | 5.5 k | 49 k |
//!
//! So paths are taken up to [`SPARSE`]; where no coflow is put behind another, whose levels then move together, up to
//! [`SHARED`]. A policy of strict classes under which no coflow starves puts none behind another.

use cavalcade_model::{ClassShares, Discipline, Fabric, Scope, Terms, Work, Workload};
use cavalcade_spec::Choice;

use crate::{Fill, GreedyFill, MaxMinFill, PathFill, PerLinkFill, Recompute, ShortestFill};

/// How rates are found. They are the same but for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocator {
    /// Kept up to date from event to event, where there is an allocator for that.
    #[default]
    Incremental,
    /// Computed by the definition at each event ([`crate::reference`]).
    Reference,
}

impl Choice for Allocator {
    const WORDS: &'static [(&'static str, Self)] =
        &[("incremental", Self::Incremental), ("reference", Self::Reference)];
}

/// What is known of the flows to come.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// All flows are known and numbered.
    Known {
        /// Flows have numbers below this.
        flows: usize,
        /// The most flows of tasks that arrive at one instant, over the number of ports.
        crowding: f64,
    },
    /// Flows come from a stream, and numbers are used again.
    Stream,
}

impl Load {
    /// The load of a whole workload.
    pub fn of(workload: &Workload) -> Self {
        let flows = |work: &Work| match *work {
            Work::Transfer(coflow) => workload.flow_ids(coflow).len(),
            Work::Compute(_) => 0,
        };
        let together = workload.tasks().chunk_by(|a, b| a.arrival == b.arrival);
        let together = together.map(|tasks| {
            let stages = tasks.iter().flat_map(|task| &task.stages);
            stages.map(|stage| flows(&stage.work)).sum::<usize>()
        });
        let crowding = together.max().unwrap_or(0) as f64 / f64::from(workload.ports());
        Self::Known { flows: workload.flows().len(), crowding }
    }
}

/// Crowding up to which levels along paths are faster whatever the order.
const SPARSE: f64 = 0.25;

/// Crowding up to which they are where all share.
const SHARED: f64 = 4.0;

/// Returns an allocator for these terms on `fabric`.
///
/// # Panics
/// If links have priorities of their own under anything but max-min in strict classes, which the contract excludes.
pub fn select(terms: &Terms, fabric: &Fabric, load: Load, allocator: Allocator) -> Box<dyn Fill> {
    let is_strict = terms.discipline == Discipline::MaxMin && terms.shares == ClassShares::Strict;
    assert!(
        is_strict || terms.scope != Scope::Link,
        "links have priorities of their own under max-min in strict classes only, not under {terms:?}"
    );
    let capacity: Vec<f64> = fabric.links().map(|link| fabric.capacity(link).bytes_per_nano()).collect();
    let (flows, crowding) = match load {
        Load::Known { flows, crowding } if fabric.is_one_switch() => (flows, crowding),
        // Allocators for one switch know how many flows there will be.
        _ if allocator == Allocator::Incremental && is_strict && terms.scope != Scope::Link => {
            return Box::new(PathFill::new(capacity));
        }
        _ => return Box::new(Recompute::new(terms, capacity)),
    };
    let on_paths = if terms.starvation_free { SHARED } else { SPARSE };
    match (terms.scope, terms.discipline) {
        _ if allocator == Allocator::Reference => Box::new(Recompute::new(terms, capacity)),
        (Scope::Link, _) => Box::new(PerLinkFill::new(capacity, flows)),
        (_, Discipline::MaxMin) if is_strict && crowding <= on_paths => Box::new(PathFill::new(capacity)),
        (_, Discipline::MaxMin) => Box::new(MaxMinFill::new(capacity, &terms.shares, flows)),
        (_, Discipline::Greedy) => Box::new(GreedyFill::new(capacity, flows)),
        (_, Discipline::InTurn) => Box::new(GreedyFill::in_turn(capacity, flows)),
        (_, Discipline::Madd) => Box::new(Recompute::new(terms, capacity)),
        (_, Discipline::ShortestFlow) => Box::new(ShortestFill::new(capacity, flows)),
    }
}

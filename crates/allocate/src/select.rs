//! Which allocator carries out which terms: the only place that knows.
//!
//! | terms | one switch | any fabric, or a stream of tasks |
//! |---|---|---|
//! | max-min, strict classes | [`MaxMinFill`] where coflows are wide, else [`PathFill`] | [`PathFill`] |
//! | max-min, weighted classes | [`MaxMinFill`] | [`Recompute`] |
//! | max-min, each link's own priorities | [`PerLinkFill`] | [`Recompute`] |
//! | greedy, in turn | [`GreedyFill`] | [`Recompute`] |
//! | MADD | [`MaddFill`] | [`MaddFill`] |
//! | shortest flow first | [`ShortestFill`] | [`Recompute`] |
//!
//! All give the rates of [`reference`](crate::reference). An allocator is here because it is at least three times as fast as
//! the one that could do its work instead.
//!
//! Measured (processor seconds of the run in release builds, the same results; FB: the Facebook trace, S200: Sincronia's
//! trace of 200 coflows on 16 ports; pois-1000: single flows on 1,000 ports, in flows each second):
//!
//! | allocator | beside | workload | seconds | factor |
//! |---|---|---|---|---|
//! | [`MaxMinFill`], strict classes | [`PathFill`] | FB, `fair` | 0.98, 8.6 | 9 |
//! | | | FB, `fifo` | 0.86, 6.5 | 8 |
//! | | | FB, `dclas:weighted=false` | 1.0, 7.5 | 7 |
//! | [`MaxMinFill`], weighted classes | [`Recompute`] | S200, `dclas:weighted=true` | 0.042, 0.152 | 3.6 |
//! | [`PathFill`] | [`MaxMinFill`] | pois-1000, `fair` | 134 k, under 3 k | 45 |
//! | | [`Recompute`] | S200, `fair` | 0.004, 0.10 | 25 |
//! | [`PerLinkFill`] | [`Recompute`] | S200, `baraat` | 0.045, 0.80 | 18 |
//! | | | S200, `las:at=link` | 0.44, 9.2 | 21 |
//! | [`GreedyFill`] | [`Recompute`] | S200, `sebf` | 0.004, 0.071 | 18 |
//! | | in turn | S200, `stf` | 0.004, 0.082 | 20 |
//! | [`MaddFill`] | [`Recompute`] | FB, `varys` (loaded machine) | 3.1, 28.6 | 9 |
//! | [`ShortestFill`] | [`Recompute`] | S200, `sff` | 0.003, 0.175 | 58 |
//!
//! # Two for max-min on one switch
//! [`MaxMinFill`] fills all pairs of ports together: what it does in an event goes with the number of ports, hardly with
//! that of flows. [`PathFill`] moves levels where something changed: what it does goes with the flows that share links with
//! those that come and go. So the first is for coflows with more flows than there are ports, which share ports with
//! themselves, and the second for all others.
//!
//! Until `0d04191` there were more layouts and a rule for crowded links. Without them `fair` takes 6.8 instead of 1.15 processor
//! seconds on `coflow-1000` of `bench fluid`, and 0.93 instead of 0.53 on `batch-100` (means of two runs on a loaded machine).

use cavalcade_model::{ClassShares, CoflowId, Discipline, Fabric, Scope, Terms, Workload};
use cavalcade_spec::Choice;

use crate::{Fill, GreedyFill, MaddFill, MaxMinFill, PathFill, PerLinkFill, Recompute, ShortestFill};

/// The way rates are found; they are the same but for rounding.
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

/// The knowledge of flows to come.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// All flows are known and numbered.
    Known {
        /// Flows have numbers below this.
        flows: usize,
        /// True if a coflow has more flows than there are ports.
        is_wide: bool,
    },
    /// Flows come from a stream, and numbers are used again.
    Stream,
}

impl Load {
    /// The load of a whole workload.
    pub fn of(workload: &Workload) -> Self {
        let coflows = (0..workload.coflow_count()).map(CoflowId::from_index);
        let widest = coflows.map(|coflow| workload.flow_ids(coflow).len()).max();
        let is_wide = widest.unwrap_or(0) > workload.ports() as usize;
        Self::Known { flows: workload.flows().len(), is_wide }
    }
}

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
    let (flows, is_wide) = match load {
        Load::Known { flows, is_wide } if fabric.is_one_switch() => (flows, is_wide),
        // Allocators for one switch know how many flows there will be.
        _ if allocator == Allocator::Incremental && is_strict && terms.scope != Scope::Link => {
            return Box::new(PathFill::new(capacity));
        }
        _ if allocator == Allocator::Incremental && terms.discipline == Discipline::Madd => {
            return Box::new(MaddFill::new(capacity));
        }
        _ => return Box::new(Recompute::new(terms, capacity)),
    };
    match (terms.scope, terms.discipline) {
        _ if allocator == Allocator::Reference => Box::new(Recompute::new(terms, capacity)),
        (Scope::Link, _) => Box::new(PerLinkFill::new(capacity, flows)),
        (_, Discipline::MaxMin) if is_strict && !is_wide => Box::new(PathFill::new(capacity)),
        (_, Discipline::MaxMin) => {
            let links = 2 * fabric.ports() as usize;
            Box::new(MaxMinFill::new(capacity[..links].to_vec(), &terms.shares, flows))
        }
        (_, Discipline::Greedy) => Box::new(GreedyFill::new(capacity, flows)),
        (_, Discipline::InTurn) => Box::new(GreedyFill::in_turn(capacity, flows)),
        (_, Discipline::Madd) => Box::new(MaddFill::new(capacity)),
        (_, Discipline::ShortestFlow) => Box::new(ShortestFill::new(capacity, flows)),
    }
}

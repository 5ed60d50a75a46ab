//! Which allocator carries out which terms: the only place that knows.
//!
//! A fabric is one switch here if only its ports can be short, and a *tree* if all that crosses a
//! link between switches comes from some ports and goes to some others (`Trunks`), on at most 1,024
//! ports.
//!
//! | terms | one switch | any fabric |
//! |---|---|---|
//! | max-min, strict classes | [`MaxMinFill`] where coflows are wide, else [`PathFill`] | the same on a tree, [`PathFill`] on others |
//! | max-min, weighted classes | [`MaxMinFill`] up to 4,096 ports | the same on a tree where coflows are wide, else [`WeightedFill`] |
//! | max-min, weighted flows | [`Recompute`] | [`Recompute`] |
//! | max-min, each link's own priorities | [`PerLinkFill`] up to 4,096 ports | [`Recompute`] |
//! | greedy, in turn | [`GreedyFill`] | [`GreedyFill`] |
//! | MADD | [`MaddFill`] | [`MaddFill`] |
//! | shortest flow first | [`ShortestFill`] | [`ShortestFill`] |
//! | even parts | [`Recompute`] | [`Recompute`] |
//!
//! All give the rates of [`reference`](crate::reference). An allocator is here because it is at
//! least three times as fast as the one that could do its work instead.
//!
//! Measured (processor seconds of the run in release builds, the same results; FB: the Facebook
//! trace, FB4: the same on `tree:pods=3,racks=5,hosts=10,oversubscription=4`, S200: Sincronia's
//! trace of 200 coflows on 16 ports; FBQ and S200T, in builds for tests on a loaded machine: the
//! first 131 coflows of FB on `tree:pods=3,racks=5,hosts=10`, and S200 on
//! `tree:pods=2,racks=2,hosts=4`, where all links were looked at; `bench fluid`: pois-1000, single
//! flows on 1,000 ports, in flows each second, and coflow-1000, shuffles of 40 × 30 on 1,000
//! ports):
//!
//! | allocator | beside | workload | seconds | factor |
//! |---|---|---|---|---|
//! | [`MaxMinFill`], strict classes | [`PathFill`] | FB, `fair` | 0.98, 8.6 | 9 |
//! | | | FB, `fifo` | 0.86, 6.5 | 8 |
//! | | | FB, `dclas:weighted=false` | 1.0, 7.5 | 7 |
//! | [`MaxMinFill`], across a tree | [`PathFill`] | FB4, `fair` (loaded machine) | 4.4, 100 | 23 |
//! | | | FB4, `fifo` | 5.0, not ended after 40 | |
//! | | | FB4, `dclas:weighted=false` | 8.5, not ended after 40 | |
//! | | [`WeightedFill`] | FB4, `aalo` | 26, not ended after 40 | |
//! | [`MaxMinFill`], weighted classes | [`Recompute`] | S200, `dclas:weighted=true` | 0.042, 0.152 | 3.6 |
//! | [`PathFill`] | [`MaxMinFill`] | pois-1000, `fair` | 134 k, under 3 k | 45 |
//! | | | coflow-1000, `fair` | 1.3, 7.0 | 5 |
//! | | | coflow-1000-long, `fifo` | 15, 67 | 4 |
//! | | | coflow-1000, `dclas:weighted=false` | 1.0, 4.3 | 4 |
//! | | [`Recompute`] | S200, `fair` | 0.004, 0.10 | 25 |
//! | [`PerLinkFill`] | [`Recompute`] | S200, `baraat` (loaded machine) | 0.057, 1.9 | 34 |
//! | | | FB, `baraat` (in a build for tests, loaded machine) | 110, not ended | |
//! | [`GreedyFill`] | [`Recompute`] | S200, `sebf` | 0.004, 0.071 | 18 |
//! | | in turn | S200, `stf` | 0.004, 0.082 | 20 |
//! | | across a fabric | FB on that tree, `oversubscription=4`, `sebf` (loaded machine) | 29, not ended | |
//! | [`MaddFill`] | [`Recompute`] | FB, `varys` (loaded machine) | 2.7, 18.3 | 7 |
//! | [`ShortestFill`] | [`Recompute`] | S200, `sff` | 0.003, 0.175 | 58 |
//! | | across a fabric | S200T, `sff` | 0.02, 1.5 | 75 |
//! | | | FBQ, `sff` | 1.1, not ended after 12 | |
//! | | | FB4, `sff` (loaded machine) | 8.8, not ended after 40 | |
//! | [`WeightedFill`] | [`Recompute`] | S200T, `dclas:weighted=true` | 0.09, 0.79 | 9 |
//! | | | FBQ, `dclas:weighted=true` | 1.1, not ended after 7 | |
//!
//! # Two for max-min
//! [`MaxMinFill`] fills all pairs of ports together: what it does in an event goes with the number
//! of ports, hardly with that of flows. [`PathFill`] moves levels where something changed: what it
//! does goes with the flows that share links with those that come and go. So the first is for wide
//! shuffles on few ports: coflows with more flows than there are ports, which share ports with
//! themselves, and in all more flows than there are pairs of ports, since a link that is never
//! crossed by more flows than there are ports is quicker to look at than all ports. The second is
//! for all others. Shuffles of 40 × 30 on 1,000 ports are wide, but 24 of the flows of coflow-1000
//! cross a link, and 120 of coflow-1000-long.
//!
//! Where the rule is wrong it costs little: on `batch-100` of `bench fluid`, 10,000 single flows at
//! once on 100 ports, `fair` takes 1.06 s by paths and 0.47 by pairs (`fifo`: 0.11 and 7.8).

use cavalcade_model::{ClassShares, CoflowId, Contended, Discipline, Fabric, Path, Scope, Terms, Workload};
use cavalcade_spec::Choice;

use crate::incremental::max_min::trunks::Trunks;
use crate::{
    Fill, GreedyFill, MaddFill, MaxMinFill, PathFill, PerLinkFill, Recompute, ShortestFill, WeightedFill,
};

/// The most ports of a switch on which pairs of ports are counted, in a third of a gigabyte.
const MOST_PORTS: usize = 4_096;

/// The most links of a path across one switch, and across any fabric.
const ON_SWITCH: usize = 2;
const ON_FABRIC: usize = Path::LONGEST;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Flows have numbers below this, until the driver makes room for more
    /// ([`Fill::reserve_flows`]).
    pub flows: usize,
    /// True if a coflow has more flows than there are ports, and all together have more than there
    /// are pairs of ports.
    pub is_wide: bool,
}

impl Load {
    /// The load of a whole workload.
    pub fn of(workload: &Workload) -> Self {
        let coflows = (0..workload.coflow_count()).map(CoflowId::from_index);
        let widest = coflows.map(|coflow| workload.flow_ids(coflow).len()).max();
        let flows = workload.flows().len();
        Self { flows, is_wide: Self::is_wide(workload.ports(), widest.unwrap_or(0), flows) }
    }

    /// Returns whether a workload on so many ports is wide, from the flows of its widest coflow and
    /// all flows.
    pub fn is_wide(ports: u32, widest: usize, flows: usize) -> bool {
        let ports = ports as usize;
        widest > ports && flows > ports * ports
    }
}

/// Returns whether rates under these terms are computed from scratch on every fabric.
pub fn is_recomputed(terms: &Terms, allocator: Allocator) -> bool {
    allocator == Allocator::Reference
        || terms.discipline == Discipline::EvenParts
        || matches!(terms.shares, ClassShares::OfFlows { .. })
}

/// Returns an allocator for these terms on `fabric`, and the links that it looks at, so the paths
/// along which flows are to be added: all where links have priorities of their own, else those that
/// can be short.
///
/// # Panics
/// If links have priorities of their own under anything but max-min in strict classes or even
/// parts, or flows have weights under anything but max-min, which the contract excludes.
pub fn select(
    terms: &Terms,
    fabric: &Fabric,
    load: Load,
    allocator: Allocator,
) -> (Box<dyn Fill>, Contended) {
    let links = terms.scope.links(fabric);
    (fill(terms, fabric, &links, load, allocator), links)
}

fn fill(
    terms: &Terms,
    fabric: &Fabric,
    links: &Contended,
    load: Load,
    allocator: Allocator,
) -> Box<dyn Fill> {
    let is_strict = terms.discipline == Discipline::MaxMin && terms.shares == ClassShares::Strict;
    assert!(
        is_strict || terms.discipline == Discipline::EvenParts || terms.scope != Scope::Link,
        "links have priorities of their own under max-min in strict classes and even parts only, not under {terms:?}"
    );
    let has_weights = matches!(terms.shares, ClassShares::OfFlows { .. });
    assert!(
        !has_weights || terms.discipline == Discipline::MaxMin,
        "flows have weights under max-min only, not under {terms:?}"
    );
    let ports = fabric.ports() as usize;
    // Where only ports can be short, no other link is named.
    let named = if links.at_ports_only() { 2 * ports } else { fabric.link_count() };
    let capacity = fabric.links().take(named).map(|link| fabric.capacity(link).bytes_per_nano());
    let capacity: Vec<f64> = capacity.collect();
    if is_recomputed(terms, allocator) {
        return Box::new(Recompute::new(terms, capacity));
    }
    let Load { flows, is_wide } = load;
    let is_shared = terms.discipline == Discipline::MaxMin && terms.scope != Scope::Link;
    if !links.at_ports_only()
        && is_shared
        && is_wide
        && let Some(trunks) = Trunks::of(fabric, links)
    {
        return Box::new(MaxMinFill::across(trunks, capacity, &terms.shares, flows));
    }
    if !links.at_ports_only() {
        return match (terms.discipline, &terms.shares) {
            _ if terms.scope == Scope::Link => Box::new(Recompute::new(terms, capacity)),
            (Discipline::MaxMin, ClassShares::Strict) => Box::new(PathFill::new(capacity)),
            (Discipline::MaxMin, ClassShares::Weighted { weights, excess }) => {
                Box::new(WeightedFill::new(capacity, weights, *excess))
            }
            (Discipline::Madd, _) => Box::new(MaddFill::new(capacity)),
            (Discipline::Greedy, _) => Box::new(GreedyFill::<ON_FABRIC>::new(capacity, flows)),
            (Discipline::InTurn, _) => Box::new(GreedyFill::<ON_FABRIC>::in_turn(capacity, flows)),
            (Discipline::ShortestFlow, _) => Box::new(ShortestFill::<ON_FABRIC>::new(capacity, flows)),
            (Discipline::EvenParts, _) | (Discipline::MaxMin, ClassShares::OfFlows { .. }) => {
                Box::new(Recompute::new(terms, capacity))
            }
        };
    }
    let is_small = ports <= MOST_PORTS;
    match (terms.scope, terms.discipline) {
        (_, Discipline::EvenParts) => Box::new(Recompute::new(terms, capacity)),
        (Scope::Link, _) if is_small => Box::new(PerLinkFill::new(capacity, flows)),
        (Scope::Link, _) => Box::new(Recompute::new(terms, capacity)),
        (_, Discipline::MaxMin) if is_strict && !(is_wide && is_small) => Box::new(PathFill::new(capacity)),
        (_, Discipline::MaxMin) => match &terms.shares {
            ClassShares::Weighted { weights, excess } if !is_small => {
                Box::new(WeightedFill::new(capacity, weights, *excess))
            }
            shares => Box::new(MaxMinFill::new(capacity, shares, flows)),
        },
        (_, Discipline::Greedy) => Box::new(GreedyFill::<ON_SWITCH>::new(capacity, flows)),
        (_, Discipline::InTurn) => Box::new(GreedyFill::<ON_SWITCH>::in_turn(capacity, flows)),
        (_, Discipline::Madd) => Box::new(MaddFill::new(capacity)),
        (_, Discipline::ShortestFlow) => Box::new(ShortestFill::<ON_SWITCH>::new(capacity, flows)),
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Bytes, Flow, Instant, Nanos, PortId, WorkloadBuilder};

    use super::*;

    /// Returns whether coflows of so many flows each count as wide on four ports.
    fn is_wide(coflows: &[usize]) -> bool {
        let flow = |nth: usize| {
            let [src, dst] = [nth, nth + 1].map(|port| PortId(port as u32 % 4));
            Flow { src, dst, size: Bytes(1), wave: Nanos::ZERO }
        };
        let mut builder = WorkloadBuilder::new(4);
        for (name, &flows) in coflows.iter().enumerate() {
            builder.coflow(name.to_string(), Instant::ZERO, (0..flows).map(flow).collect());
        }
        let workload = builder.build().expect("this is a workload");
        Load::of(&workload).is_wide
    }

    #[test]
    fn a_load_is_wide_where_a_coflow_has_more_flows_than_ports_and_all_more_than_pairs_of_ports() {
        assert!(is_wide(&[5, 12]));
        assert!(!is_wide(&[5, 11]), "no link need ever be crossed by more flows than there are ports");
        assert!(!is_wide(&[4, 4, 4, 4, 4]), "coflows do not share ports with themselves");
    }
}

//! Flows without a rate, in the order in which they are to be served, seen from each of their
//! links.
//!
//! Flows over the same links are alike but for their rank: if the first of them finds no room, nor
//! does any after it. So they stand in one queue per pair of ports, and a link lists only the heads
//! of its queues. Whoever looks for the next flow on a link reads at most as many entries as it has
//! pairs, not as it has flows, and they lie side by side in memory. A link between switches is
//! crossed by many pairs, and mostly has enough for all: it lists none before it is first looked
//! at.
//!
//! # Cost
//! A flow that comes or goes behind the head of its queue: O(log queue). A head: in addition O(log
//! pairs) and a move inside the lists of its links, some ten nanoseconds for a hundred partners. A
//! heap would save the move and lose the reading side by side, which is done far more often.

use std::collections::BTreeSet;

use super::rank::Rank;
use crate::route::Route;

/// The first flow that waits for a pair of links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head<const N: usize> {
    pub(super) rank: Rank,
    pub(super) route: Route<N>,
}

/// The flows that wait for the same links.
#[derive(Clone, Debug)]
struct Pair<const N: usize> {
    route: Route<N>,
    queue: BTreeSet<Rank>,
}

/// All flows without a rate.
#[derive(Debug)]
pub(super) struct Waiting<const N: usize> {
    pairs: Vec<Pair<N>>,
    /// For each flow: its pair.
    pair_of: Vec<u32>,
    /// For each link where flows enter: the routes from there, in ascending order, and the pair of
    /// each.
    partners: Vec<Vec<(Route<N>, u32)>>,
    /// For each link: whether it lists its heads, and the heads of its pairs in order.
    is_listed: Vec<bool>,
    heads: Vec<Vec<Head<N>>>,
}

impl<const N: usize> Waiting<N> {
    pub(super) fn new(links: usize, flows: usize) -> Self {
        Self {
            pairs: Vec::new(),
            pair_of: vec![0; flows],
            partners: vec![Vec::new(); links],
            is_listed: vec![false; links],
            heads: vec![Vec::new(); links],
        }
    }

    /// Makes room for flow numbers below `count`.
    pub(super) fn reserve_flows(&mut self, count: usize) {
        self.pair_of.resize(count, 0);
    }

    /// Says which links `flow` crosses, before it waits for the first time.
    pub(super) fn introduce(&mut self, flow: u32, route: Route<N>) {
        let partners = &mut self.partners[route.ends()[0] as usize];
        let at = partners.partition_point(|(other, _)| *other < route);
        if partners.get(at).is_none_or(|(other, _)| *other != route) {
            partners.insert(at, (route, self.pairs.len() as u32));
            self.pairs.push(Pair { route, queue: BTreeSet::new() });
        }
        self.pair_of[flow as usize] = partners[at].1;
        route.ends().into_iter().for_each(|link| self.is_listed[link as usize] = true);
    }

    /// Has a link in between list its heads from now on.
    pub(super) fn list(&mut self, link: u32) {
        if std::mem::replace(&mut self.is_listed[link as usize], true) {
            return;
        }
        let crossing = self.pairs.iter().filter(|pair| pair.route.crosses(link));
        let heads = crossing.filter_map(|pair| Some(Head { rank: *pair.queue.first()?, route: pair.route }));
        self.heads[link as usize].extend(heads);
        self.heads[link as usize].sort_unstable_by_key(|head| head.rank);
    }

    pub(super) fn insert(&mut self, rank: Rank) {
        self.edit(rank.flow(), None, Some(rank));
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        self.edit(rank.flow(), Some(rank), None);
    }

    /// Gives a flow that waits another rank.
    pub(super) fn change(&mut self, old: Rank, new: Rank) {
        self.edit(old.flow(), Some(old), Some(new));
    }

    /// Takes `flow` out of its queue or puts it in, or both, and tells its links if that makes
    /// another the head.
    fn edit(&mut self, flow: u32, old: Option<Rank>, new: Option<Rank>) {
        let Pair { route, queue } = &mut self.pairs[self.pair_of[flow as usize] as usize];
        let before = queue.first().copied();
        if let Some(old) = old {
            assert!(queue.remove(&old), "a flow without a rate stands in the queue of its links");
        }
        queue.extend(new);
        let (route, after) = (*route, queue.first().copied());
        if after != before {
            self.replace(route, before, after);
        }
    }

    /// Puts another head in the place of one, on all links of its pair.
    fn replace(&mut self, route: Route<N>, old: Option<Rank>, new: Option<Rank>) {
        for link in route.links().filter(|&link| self.is_listed[link as usize]) {
            let heads = &mut self.heads[link as usize];
            let place = |rank: Rank| heads.partition_point(|head| head.rank < rank);
            let (from, to) = (old.map(place), new.map(place));
            let entry = new.map(|rank| Head { rank, route });
            match (from, to, entry) {
                (Some(from), Some(to), Some(entry)) if from < to => {
                    heads.copy_within(from + 1..to, from);
                    heads[to - 1] = entry;
                }
                (Some(from), Some(to), Some(entry)) => {
                    heads.copy_within(to..from, to + 1);
                    heads[to] = entry;
                }
                (None, Some(to), Some(entry)) => heads.insert(to, entry),
                (Some(from), ..) => {
                    heads.remove(from);
                }
                _ => {}
            }
        }
    }

    /// The heads on `link`, in order.
    pub(super) fn heads(&self, link: u32) -> &[Head<N>] {
        &self.heads[link as usize]
    }

    /// Returns where the heads on `link` begin that stand behind `rank`.
    pub(super) fn place_behind(&self, link: u32, rank: Rank) -> usize {
        self.heads(link).partition_point(|head| head.rank <= rank)
    }
}

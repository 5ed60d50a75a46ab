//! Flows without a rate, in the order in which they are to be served, seen from each of their
//! links.
//!
//! Flows over the same links are alike but for their rank: if the first of them finds no room, nor
//! does any after it. So they stand in one queue per pair of ports, and only the heads of queues
//! are listed. Where a link between switches is full, none that cross it have room from some rank
//! on, however many there are. So the heads on a link are listed in parts ([`Part`]): on that of a
//! port by the link next to it, on one between switches by all links in between. Whoever looks for
//! the next flow on a link reads of each part at most what comes before that rank.
//!
//! # Cost
//! A flow that comes or goes behind the head of its queue: O(log queue). A head: in addition O(log
//! pairs) and a move inside two lists, across a fabric three, some ten nanoseconds for a hundred
//! partners. A heap would save the move and lose the reading side by side, which is done far more
//! often.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Where its head is listed: on its row, on its column, and once for all links in between.
    parts: Vec<u32>,
}

/// The heads of the pairs that share a port and the link next to it, or all links in between.
#[derive(Clone, Debug)]
pub(super) struct Part<const N: usize> {
    /// The links that they share.
    shared: Vec<u32>,
    /// In order.
    heads: Vec<Head<N>>,
    /// The rank of the first, here because it is looked at far more often than the rest.
    first: Rank,
}

impl<const N: usize> Part<N> {
    /// The links that all of its pairs share.
    pub(super) fn shared(&self) -> &[u32] {
        &self.shared
    }

    /// The rank of the first head.
    pub(super) fn first(&self) -> Rank {
        self.first
    }

    /// The heads behind `rank`, each with its index; `hint` is the index of the one of that rank if
    /// the list is as it was.
    pub(super) fn behind(&self, rank: Rank, hint: u32) -> impl Iterator<Item = (u32, &Head<N>)> {
        let at = match self.heads.get(hint as usize) {
            _ if rank < self.first => 0,
            Some(head) if head.rank == rank => hint as usize + 1,
            _ => self.heads.partition_point(|head| head.rank <= rank),
        };
        (at as u32..).zip(&self.heads[at..])
    }

    /// Puts another head in the place of one.
    fn replace(&mut self, route: Route<N>, old: Option<Rank>, new: Option<Rank>) {
        let heads = &mut self.heads;
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
        self.first = self.heads.first().map_or(Rank::LAST, |head| head.rank);
    }
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
    parts: Vec<Part<N>>,
    /// The part of each set of shared links.
    part_of: BTreeMap<Vec<u32>, u32>,
    /// For each link: its parts.
    on_link: Vec<Vec<u32>>,
}

impl<const N: usize> Waiting<N> {
    pub(super) fn new(links: usize, flows: usize) -> Self {
        Self {
            pairs: Vec::new(),
            pair_of: vec![0; flows],
            partners: vec![Vec::new(); links],
            parts: Vec::new(),
            part_of: BTreeMap::new(),
            on_link: vec![Vec::new(); links],
        }
    }

    /// Makes room for flow numbers below `count`.
    pub(super) fn reserve_flows(&mut self, count: usize) {
        self.pair_of.resize(count, 0);
    }

    /// Says which links `flow` crosses, before it waits for the first time.
    pub(super) fn introduce(&mut self, flow: u32, route: Route<N>) {
        let [row, column] = route.ends();
        let partners = &self.partners[row as usize];
        let at = partners.partition_point(|(other, _)| *other < route);
        let known = partners.get(at).filter(|(other, _)| *other == route).map(|&(_, pair)| pair);
        self.pair_of[flow as usize] = known.unwrap_or_else(|| {
            let middle: Vec<u32> = route.links().skip(2).collect();
            let next_to = |end: u32, next: Option<&u32>| [end].into_iter().chain(next.copied()).collect();
            let mut parts = vec![
                self.find_part(next_to(row, middle.first()), &[row]),
                self.find_part(next_to(column, middle.last()), &[column]),
            ];
            if !middle.is_empty() {
                parts.push(self.find_part(middle.clone(), &middle));
            }
            let pair = self.pairs.len() as u32;
            self.pairs.push(Pair { route, queue: BTreeSet::new(), parts });
            self.partners[row as usize].insert(at, (route, pair));
            pair
        });
    }

    /// Finds the part with these shared links, or makes it, and lists it on some of them.
    fn find_part(&mut self, shared: Vec<u32>, on: &[u32]) -> u32 {
        *self.part_of.entry(shared).or_insert_with_key(|shared| {
            let number = self.parts.len() as u32;
            self.parts.push(Part { shared: shared.clone(), heads: Vec::new(), first: Rank::LAST });
            on.iter().for_each(|&link| self.on_link[link as usize].push(number));
            number
        })
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

    /// Takes `flow` out of its queue or puts it in, or both, and lists its pair anew if that makes
    /// another the head.
    fn edit(&mut self, flow: u32, old: Option<Rank>, new: Option<Rank>) {
        let Pair { route, queue, parts } = &mut self.pairs[self.pair_of[flow as usize] as usize];
        let before = queue.first().copied();
        if let Some(old) = old {
            assert!(queue.remove(&old), "a flow without a rate stands in the queue of its links");
        }
        queue.extend(new);
        let after = queue.first().copied();
        if after != before {
            parts.iter().for_each(|&part| self.parts[part as usize].replace(*route, before, after));
        }
    }

    /// The parts on `link`, which have all heads there.
    pub(super) fn parts_on(&self, link: u32) -> impl Iterator<Item = u32> {
        self.on_link[link as usize].iter().copied()
    }

    pub(super) fn part(&self, part: u32) -> &Part<N> {
        &self.parts[part as usize]
    }
}

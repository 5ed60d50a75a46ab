//! Strict classes with max-min sharing inside, from nothing: who needs rates once, and not kept up to date.
//!
//! # The idea
//! Group after group of equals, each on what those before it left. Inside a group all flows rise together; the link with the
//! lowest *level* (what it has left over how many rise there) is full first, and its flows stop there; so on with the
//! rest. Links wait by level in a heap. A level that changes is put in anew, and an entry that is not its link's level
//! any more is left out, so a stop costs a heap's logarithm for each other link of the flow. A flow that meets a link
//! with nothing left stops before anything is counted: where there are many groups that is what becomes of most.
//!
//! # Invariants
//! - Rates are a function of keys, paths and caps alone: of equal levels the link of the lowest number goes first.
//! - No link gives more than it has left, but for rounding.
//!
//! # Cost
//! O(flows × hops × log links), whatever the number of links that nobody crosses. Memory: a few words for each link and hop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::fill::Key;
use crate::incremental::switch::max_min::group::NEGLIGIBLE;

/// The end of a chain.
const END: u32 = u32::MAX;

/// A level as its bits: levels are not negative, so bits order as they do.
type Level = u64;

/// Buffers for filling, to be used again.
#[derive(Debug, Default)]
pub struct StrictFill {
    links: Vec<Link>,
    /// Links that flows of the group cross.
    crossed: Vec<u32>,
    /// For each link the flows that cross it: a flow's place in the group, and the next entry.
    chain: Vec<(u32, u32)>,
    /// Whether the flow at each place of the group still rises.
    rises: Vec<bool>,
    /// Flows with a cap, the lowest first, by place.
    capped: Vec<(Level, u32)>,
    heap: BinaryHeap<Reverse<(Level, u32)>>,
    /// Links whose level has changed.
    changed: Vec<u32>,
}

/// What is known of a link while a group is filled.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// How many flows rise there.
    rising: u32,
    first: u32,
}

/// What flows are and what links have left.
#[derive(Debug)]
pub struct Setup<'a, P, C> {
    /// The links that a flow crosses.
    pub path: P,
    /// The most that a flow may have, in bytes per nanosecond; infinite where nothing is said.
    pub cap: C,
    /// What each link can carry.
    pub capacity: &'a [f64],
    /// What each link has left.
    pub left: &'a mut [f64],
    /// The rate of each flow.
    pub rates: &'a mut [f64],
}

impl StrictFill {
    /// Gives the flows of `order` their rates, lowest key first; equals share.
    pub fn fill<'p, P, C>(&mut self, order: &mut [(Key, u32)], setup: &mut Setup<'_, P, C>)
    where
        P: Fn(u32) -> &'p [u32],
        C: Fn(u32) -> f64,
    {
        self.links.resize(setup.capacity.len().max(self.links.len()), Link { rising: 0, first: END });
        order.sort_unstable();
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            self.fill_group(group, setup);
            for &link in &self.crossed {
                let left = &mut setup.left[link as usize];
                if *left <= NEGLIGIBLE * setup.capacity[link as usize] {
                    *left = 0.0;
                }
            }
        }
    }

    fn fill_group<'p, P, C>(&mut self, group: &[(Key, u32)], setup: &mut Setup<'_, P, C>)
    where
        P: Fn(u32) -> &'p [u32],
        C: Fn(u32) -> f64,
    {
        self.enter(group, setup);
        let mut next_cap = 0;
        while let Some(&Reverse((level, link))) = self.heap.peek() {
            let known = self.links[link as usize];
            if known.rising == 0 || self.level(link, setup.left) != level {
                self.heap.pop();
                continue;
            }
            while self.capped.get(next_cap).is_some_and(|&(_, place)| !self.rises[place as usize]) {
                next_cap += 1;
            }
            match self.capped.get(next_cap) {
                Some(&(least, _)) if least <= level => {
                    // All of this cap: rounding must not hold some of them at a link.
                    while let Some(&(_, place)) = self.capped.get(next_cap).filter(|(cap, _)| *cap == least) {
                        self.stop(group, place, f64::from_bits(least), setup);
                        next_cap += 1;
                    }
                }
                _ => {
                    self.heap.pop();
                    let mut entry = known.first;
                    while entry != END {
                        let (place, next) = self.chain[entry as usize];
                        self.stop(group, place, f64::from_bits(level), setup);
                        entry = next;
                    }
                }
            }
            while let Some(link) = self.changed.pop() {
                if self.links[link as usize].rising > 0 {
                    self.heap.push(Reverse((self.level(link, setup.left), link)));
                }
            }
        }
    }

    /// Notes which flows of a group rise, and where.
    fn enter<'p, P, C>(&mut self, group: &[(Key, u32)], setup: &mut Setup<'_, P, C>)
    where
        P: Fn(u32) -> &'p [u32],
        C: Fn(u32) -> f64,
    {
        for link in self.crossed.drain(..) {
            self.links[link as usize] = Link { rising: 0, first: END };
        }
        self.chain.clear();
        self.rises.clear();
        self.capped.clear();
        self.heap.clear();
        for (place, &(_, flow)) in group.iter().enumerate() {
            let path = (setup.path)(flow);
            let rises = path.iter().all(|&link| setup.left[link as usize] > 0.0);
            self.rises.push(rises);
            setup.rates[flow as usize] = 0.0;
            if !rises {
                continue;
            }
            for &link in path {
                let known = &mut self.links[link as usize];
                if known.rising == 0 {
                    self.crossed.push(link);
                }
                known.rising += 1;
                let next = std::mem::replace(&mut known.first, self.chain.len() as u32);
                self.chain.push((place as u32, next));
            }
            let cap = (setup.cap)(flow);
            if cap < f64::INFINITY {
                self.capped.push((cap.max(0.0).to_bits(), place as u32));
            }
        }
        self.capped.sort_unstable();
        let entries = self.crossed.iter().map(|&link| Reverse((self.level(link, setup.left), link)));
        let entries: Vec<_> = entries.collect();
        self.heap.extend(entries);
    }

    fn level(&self, link: u32, left: &[f64]) -> Level {
        (left[link as usize] / f64::from(self.links[link as usize].rising)).to_bits()
    }

    /// A flow rises no further.
    fn stop<'p, P, C>(&mut self, group: &[(Key, u32)], place: u32, rate: f64, setup: &mut Setup<'_, P, C>)
    where
        P: Fn(u32) -> &'p [u32],
        C: Fn(u32) -> f64,
    {
        if !std::mem::replace(&mut self.rises[place as usize], false) {
            return;
        }
        let flow = group[place as usize].1;
        setup.rates[flow as usize] = rate;
        for &link in (setup.path)(flow) {
            let left = &mut setup.left[link as usize];
            *left = (*left - rate).max(0.0);
            self.links[link as usize].rising -= 1;
            self.changed.push(link);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    struct Flow {
        path: Vec<u32>,
        key: Key,
        cap: f64,
    }

    fn rates(fill: &mut StrictFill, capacity: &[f64], flows: &[Flow]) -> Vec<f64> {
        let mut order: Vec<(Key, u32)> = flows.iter().map(|flow| flow.key).zip(0..).collect();
        let (mut left, mut rates) = (capacity.to_vec(), vec![f64::NAN; flows.len()]);
        let path = |flow: u32| &flows[flow as usize].path[..];
        let cap = |flow: u32| flows[flow as usize].cap;
        let mut setup = Setup { path, cap, capacity, left: &mut left, rates: &mut rates };
        fill.fill(&mut order, &mut setup);
        rates
    }

    /// The textbook: raise all flows of a class, stop those that meet a full link or their cap, go on with the rest.
    fn textbook(capacity: &[f64], flows: &[Flow]) -> Vec<f64> {
        let mut classes: Vec<Key> = flows.iter().map(|flow| flow.key).collect();
        classes.sort();
        classes.dedup();
        let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
        for class in classes {
            let mut rising: Vec<usize> = (0..flows.len()).filter(|&flow| flows[flow].key == class).collect();
            while !rising.is_empty() {
                let on = |link: u32| rising.iter().filter(|&&flow| flows[flow].path.contains(&link)).count();
                let bound = |flow: usize| {
                    let levels =
                        flows[flow].path.iter().map(|&link| left[link as usize] / on(link).max(1) as f64);
                    levels.fold(flows[flow].cap, f64::min)
                };
                let least = rising.iter().map(|&flow| bound(flow)).fold(f64::INFINITY, f64::min);
                let (stopped, others): (Vec<usize>, Vec<usize>) =
                    rising.iter().partition(|&&flow| bound(flow) <= least * (1.0 + 1e-12));
                for flow in stopped {
                    rates[flow] = least;
                    flows[flow].path.iter().for_each(|&link| {
                        left[link as usize] = (left[link as usize] - least).max(0.0);
                    });
                }
                rising = others;
            }
            for (left, capacity) in left.iter_mut().zip(capacity) {
                if *left <= NEGLIGIBLE * capacity {
                    *left = 0.0;
                }
            }
        }
        rates
    }

    fn flow(links: u32) -> impl Strategy<Value = Flow> {
        let path = prop::collection::btree_set(0..links, 1..4);
        let cap = prop_oneof![3 => Just(f64::INFINITY), 1 => prop::sample::select(vec![0.0, 0.1, 0.5, 1.0])];
        (path, 0u16..2, 0u64..3, cap).prop_map(|(path, class, order, cap)| Flow {
            path: path.into_iter().collect(),
            key: Key { class, order },
            cap,
        })
    }

    proptest! {
        #[test]
        fn rates_are_those_of_the_textbook(
            capacity in prop::collection::vec(prop::sample::select(vec![0.0, 0.5, 1.0, 1.25, 10.0]), 8),
            runs in prop::collection::vec(prop::collection::vec(flow(8), 0..40), 1..4),
        ) {
            // One set of buffers for all runs: nothing of the one before may show in the next.
            let mut fill = StrictFill::default();
            for flows in runs {
                let rates = rates(&mut fill, &capacity, &flows);
                for (rate, expected) in rates.iter().zip(textbook(&capacity, &flows)) {
                    prop_assert!((rate - expected).abs() <= 1e-9, "{rate} in place of {expected}");
                }
            }
        }
    }

    #[test]
    fn a_class_gets_what_those_before_it_leave() {
        let flow = |path: [u32; 2], order: u64| {
            let key = Key { class: 0, order };
            Flow { path: path.to_vec(), key, cap: f64::INFINITY }
        };
        let flows = [flow([0, 2], 1), flow([0, 3], 0), flow([1, 3], 0), flow([1, 2], 2)];
        assert_eq!(rates(&mut StrictFill::default(), &[1.0; 4], &flows), [0.5, 0.5, 0.5, 0.5]);
    }
}

//! Max-min fairness in strict classes where every link has priorities of its own: what the explicit rates of Baraat's
//! switches come to (§4.3.2 Algorithm 1, §4.3.3 Algorithm 2).
//!
//! # Derivation
//! Algorithm 1: a link gives a class what the demands of the classes before it leave, C − Σ D. A flow whose demand fits in
//! is not held back there (NR = D); else each flow of the class gets an even part (line 8), and virtual capacity gives out
//! again what some of them cannot use: max-min. Algorithm 2: a sender demands the least that any link on its path grants it,
//! and its line rate as soon as none holds it back. In the limit (δ and the round trip going to zero) rates stand still
//! where every flow that could use more crosses a link that is full, of flows before it there and of equals that have no
//! less than it has. Where links rank flows alike there is one such allocation. Where they contradict each other there
//! may be many: of two flows over the same two links, ranked A, B and B, A, any split of the link is one.
//!
//! # How it is found
//! A flow is *in turn* at a link if no flow before it there still waits for its rate. A link's *level* is the even part of
//! what it has left for the flows in turn. A link is *settled* if the flows in turn there are in turn everywhere, and none of
//! them crosses a link with a lower level: in every allocation that stands still they have the level, so they get it.
//! A flow across a link with nothing left gets nothing. Where links agree, this decides all.
//!
//! # Where links contradict each other
//! When no link is settled, flows wait for each other in a ring. Either some of them are in turn everywhere: A goes before B at
//! one link and shares another evenly with B, and how much B can use there depends on A. Line 8 counts a flow that is held
//! back elsewhere like any other, so A gets the even part first, and B what A leaves. Or none of them is, as of two flows
//! ranked A, B and B, A: then all of the ring count as in turn where they wait, and share. What is left at the end
//! because others could not use their part goes out to those who got theirs in this way.
//!
//! SPC over packets bears that out (`contradicting_links` in the tests of `sim-packet`; in times that a flow takes alone):
//! tied at one link and strict at the other, both flows end at 2.0, as here, whichever came first; with a third between
//! them at the strict link the three end at 1.8, 2.3 and 3.2, here at 2, 2 and 3. Of two flows with reversed ranks one ends
//! at 1.0 and the other at 2.0, and chance decides which (here both at 2). A ring of four never comes to rest: it ends at
//! 2.0 to 2.9 (here 2). Of three flows ranked A, B, C and C, B, A any may be first (here A and C at 2, B at 3).
//!
//! # Rejected
//! - Deferred acceptance, in which the links where flows enter decide (Gale and Shapley): A alone gets all in these cases.
//! - To begin at the present rates and let links answer until nothing changes: what comes out depends on what was before, and
//!   on rings of three, where each link ranks another flow first, it never ends.
//! - Not rejected, not done: to have the lowest link of all that have a flow in turn everywhere share, in place of the lowest of a
//!   ring. It is shorter, no numbering of flows decides, and every scene of `contradicting_links` passes as here. It would
//!   move figures of Baraat wherever heavy tasks share links.
//!
//! O(rounds × flows × hops), with a round for each link or ring.

use std::collections::BTreeMap;

use cavalcade_model::Priority;

use super::greedy::take;
use super::{Flow, NEGLIGIBLE};

/// Levels that differ by less than this share are the same.
pub(crate) const SAME: f64 = 1e-9;

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![None; flows.len()]);
    let mut from_rings = Vec::new();
    loop {
        let is_full = |link: &u32| left[*link as usize] <= NEGLIGIBLE * capacity[*link as usize];
        for (flow, rate) in flows.iter().zip(&mut rates) {
            if rate.is_none() && (flow.cap <= 0.0 || flow.path.iter().any(is_full)) {
                *rate = Some(0.0);
            }
        }
        let turns = Turns::new(&left, flows, &rates);
        let decided = match (turns.settled(), turns.first_in_turn()) {
            (Some(settled), _) => settled,
            (None, Some(first)) => {
                let shares = turns.share(&turns.ring(first));
                from_rings.extend(shares.iter().map(|&(flow, _)| flow));
                shares
            }
            (None, None) => break,
        };
        for (flow, rate) in decided {
            rates[flow] = Some(rate);
            flows[flow].path.iter().for_each(|&link| left[link as usize] -= rate);
        }
    }
    let mut rates: Vec<f64> = rates.into_iter().flatten().collect();
    let best = |&flow: &usize| (flows[flow].priorities.iter().min(), flow);
    from_rings.sort_unstable_by_key(best);
    for flow in from_rings {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

/// A link with flows that wait for their rates.
#[derive(Default)]
struct Link {
    /// The best priority of these flows, and who has it.
    best: Option<Priority>,
    in_turn: Vec<usize>,
    left: f64,
}

impl Link {
    fn level(&self) -> f64 {
        self.left / self.in_turn.len() as f64
    }
}

/// The flows that are in turn at each link.
struct Turns<'a> {
    flows: &'a [Flow<'a>],
    links: BTreeMap<u32, Link>,
}

impl<'a> Turns<'a> {
    fn new(left: &[f64], flows: &'a [Flow<'a>], rates: &[Option<f64>]) -> Self {
        let mut links: BTreeMap<u32, Link> = BTreeMap::new();
        for (number, flow) in flows.iter().enumerate().filter(|(number, _)| rates[*number].is_none()) {
            for (&link, &priority) in flow.path.iter().zip(flow.priorities) {
                let entry = links.entry(link).or_default();
                entry.left = left[link as usize];
                if entry.best.is_none_or(|best| priority < best) {
                    entry.best = Some(priority);
                    entry.in_turn.clear();
                }
                if entry.best == Some(priority) {
                    entry.in_turn.push(number);
                }
            }
        }
        Self { flows, links }
    }

    /// The first link at which a flow waits for others.
    fn waits_at(&self, flow: usize) -> Option<u32> {
        let mut hops = self.flows[flow].path.iter().zip(self.flows[flow].priorities);
        hops.find(|&(link, &own)| self.links[link].best != Some(own)).map(|(&link, _)| link)
    }

    /// The level up to which a flow may rise, and the link that has it; none where that is its cap.
    fn lowest(&self, flow: usize) -> (f64, Option<u32>) {
        self.flows[flow].path.iter().fold((self.flows[flow].cap, None), |(least, at), &link| {
            let level = self.links[&link].level();
            if level < least * (1.0 - SAME) { (level, Some(link)) } else { (least, at) }
        })
    }

    /// The flows of a settled link, with the level as their rate. A cap is a link that only its flow crosses.
    fn settled(&self) -> Option<Vec<(usize, f64)>> {
        let is_ready = |&flow: &usize| self.waits_at(flow).is_none();
        let is_capped = |flow: &&usize| is_ready(flow) && self.lowest(**flow).1.is_none();
        if let Some(&flow) = self.links.values().flat_map(|link| &link.in_turn).find(is_capped) {
            return Some(vec![(flow, self.flows[flow].cap)]);
        }
        let is_settled = |link: &&Link| {
            let level = link.level();
            link.in_turn.iter().all(|flow| is_ready(flow) && self.lowest(*flow).0 >= level * (1.0 - SAME))
        };
        let settled = self.links.values().find(is_settled)?;
        Some(settled.in_turn.iter().map(|&flow| (flow, settled.level())).collect())
    }

    /// The first flow that is in turn at any link.
    fn first_in_turn(&self) -> Option<usize> {
        self.links.values().next().map(|link| link.in_turn[0])
    }

    /// Flows that wait for each other, found by going from a flow to the one that it waits for until one comes again.
    fn ring(&self, first: usize) -> Vec<usize> {
        let mut walk = vec![first];
        loop {
            let next = self.waits_for(walk[walk.len() - 1]);
            if let Some(at) = walk.iter().position(|&flow| flow == next) {
                return walk.split_off(at);
            }
            walk.push(next);
        }
    }

    /// The flow that `flow` waits for: one before it; where it is in turn everywhere, one on its lowest link that is not, or
    /// that has a lower link elsewhere.
    fn waits_for(&self, flow: usize) -> usize {
        if let Some(link) = self.waits_at(flow) {
            return self.links[&link].in_turn[0];
        }
        let lowest = self.lowest(flow).1.expect("a flow that rises to its cap waits for no other");
        let lowest = &self.links[&lowest];
        let is_held = |&&flow: &&usize| {
            self.waits_at(flow).is_some() || self.lowest(flow).0 < lowest.level() * (1.0 - SAME)
        };
        *lowest.in_turn.iter().find(is_held).expect("a link without such a flow is settled")
    }

    /// Shares the lowest link of a ring evenly: what each flow of the ring gets that is in turn everywhere, or, where none is, each
    /// of the ring; and each other flow whose lowest link it is.
    fn share(&self, ring: &[usize]) -> Vec<(usize, f64)> {
        let ready: Vec<usize> = ring.iter().copied().filter(|&flow| self.waits_at(flow).is_none()).collect();
        let ring = if ready.is_empty() { ring } else { &ready };
        let level = |number: u32| {
            let link = &self.links[&number];
            let joins =
                |flow: &&usize| self.flows[**flow].path.contains(&number) && !link.in_turn.contains(*flow);
            link.left / (link.in_turn.len() + ring.iter().filter(joins).count()) as f64
        };
        let of_ring = ring.iter().flat_map(|&flow| self.flows[flow].path).copied();
        let of_ring: BTreeMap<u32, f64> = of_ring.map(|link| (link, level(link))).collect();
        let lower = |least: (u32, f64), (link, level)| {
            if level < least.1 * (1.0 - SAME) { (link, level) } else { least }
        };
        let (lowest, share) = of_ring.into_iter().fold((u32::MAX, f64::INFINITY), lower);
        let gets_part = |flow: &usize| {
            let path = self.flows[*flow].path;
            let is_free = || {
                self.waits_at(*flow).is_none() && path.iter().all(|&link| level(link) >= share * (1.0 - SAME))
            };
            path.contains(&lowest) && (ring.contains(flow) || is_free())
        };
        let others = self.links[&lowest].in_turn.iter().copied().filter(|flow| !ring.contains(flow));
        let members = ring.iter().copied().chain(others).filter(gets_part);
        members.map(|flow| (flow, share.min(self.flows[flow].cap))).collect()
    }
}

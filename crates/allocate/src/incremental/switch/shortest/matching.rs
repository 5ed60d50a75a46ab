//! The same order where all links are alike and no flow is capped: a flow has both its links or nothing.
//!
//! # The idea
//! Then the allocation is a matching of links where flows enter with links where they leave, and the one in which no flow
//! could displace later ones is the stable one, which deferred acceptance finds (Gale and Shapley): a link that is free
//! takes the first flow for which both links are open; whoever held the other one is put off and searches on behind what it
//! has lost. Since links agree on the order of flows, there is one stable matching, and it does not matter in which order
//! links search. It matters for the cost: with the best-placed links first, and rows before columns, two flows are seated
//! for each that stays; in no order, six. Only at the end rates are set and flows leave the queues.
//!
//! # Cost
//! A search: O(log partners) and the heads looked at, some twenty on a real trace. What is taken and lost again in the
//! same refill costs a search and no more.
//!
//! Rejected: the heap of candidates that unlike links need. Links that become free together want the same partners, in
//! the same order; one after the other would be told at the top of the heap that its partner is gone, where here it just
//! reads on. Without the heap it is a fifth faster, though more is taken and lost.

use std::cmp::Reverse;

use super::rank::Rank;
use super::{Gate, Served, ShortestFill};

/// What a refill keeps of a matching in the making.
#[derive(Debug, Default)]
pub(super) struct Matching {
    /// True if all links are alike and no flow has ever been capped.
    pub(super) is_possible: bool,
    /// Flows that have been given their links. They still stand in the queues and have no rate.
    seated: Vec<u32>,
    /// Flows with a rate that have lost their links. They stand in the queues again.
    unseated: Vec<u32>,
}

impl Matching {
    pub(super) fn new(capacity: &[f64]) -> Self {
        let is_possible = capacity.windows(2).all(|pair| pair[0] == pair[1]);
        Self { is_possible, ..Self::default() }
    }
}

impl ShortestFill {
    /// Finds the stable matching and gives its flows their rates.
    pub(super) fn find_matching(&mut self, now: f64) {
        while let Some(flow) = self.hopeful.pop() {
            let record = &self.service.flows[flow as usize];
            let [row, column] = record.links;
            if record.is_present() && !self.is_seated(flow) {
                let rank = self.rank(flow, now);
                if self.is_open(row, rank, now) && self.is_open(column, rank, now) {
                    self.seat(rank, now);
                }
            }
        }
        for freed in &mut self.freed {
            freed.sort_unstable_by_key(|&(link, rank)| Reverse((rank, link)));
        }
        while let Some((link, rank)) = self.freed[0].pop().or_else(|| self.freed[1].pop()) {
            self.search(link, rank, now);
        }
        self.carry_out_matching(now);
    }

    fn is_seated(&self, flow: u32) -> bool {
        let link = self.service.flows[flow as usize].links[0];
        matches!(&self.gates[link as usize], Gate::Before(held) if held.flow == flow)
    }

    /// Gives `link` the first flow behind `rank` that both its links are open for.
    fn search(&mut self, link: u32, rank: Rank, now: f64) {
        let end = match &self.gates[link as usize] {
            Gate::Before(served) => served.rank(now),
            _ => Rank::LAST,
        };
        if end <= rank {
            return;
        }
        let from = self.waiting.place_behind(link, rank);
        let behind = self.waiting.heads(link)[from..].iter().take_while(|head| head.rank < end);
        if let Some(head) = behind.into_iter().find(|head| self.is_open(head.other, head.rank, now)) {
            self.seat(head.rank, now);
        }
    }

    /// Gives a flow both its links, for the time being.
    fn seat(&mut self, rank: Rank, now: f64) {
        let flow = rank.flow();
        let links = self.service.flows[flow as usize].links;
        for (side, link) in links.into_iter().enumerate() {
            if let Gate::Before(held) = self.gates[link as usize] {
                self.unseat(held, [link, held.other], 1 - side, now);
            }
        }
        let record = &self.service.flows[flow as usize];
        let (key, left, rate) = (self.keys[flow as usize], record.left, self.capacity[links[0] as usize]);
        let since = if record.rate > 0.0 { record.since } else { now };
        for (side, link) in links.into_iter().enumerate() {
            let served = Served { key, left, since, rate, flow, other: links[1 - side] };
            self.gates[link as usize] = Gate::Before(served);
            self.closed_from[link as usize] = rank;
        }
        if record.rate > 0.0 {
            self.waiting.remove(rank);
        } else {
            self.matching.seated.push(flow);
        }
    }

    /// Takes from a flow its links, of which the one on `side` has more for those behind it then.
    fn unseat(&mut self, held: Served, links: [u32; 2], side: usize, now: f64) {
        for link in links {
            self.gates[link as usize] = Gate::Open;
            self.closed_from[link as usize] = Rank::LAST;
        }
        let rank = held.rank(now);
        self.freed[side].push((held.other, rank));
        if self.service.flows[held.flow as usize].rate > 0.0 {
            self.waiting.insert(rank);
            self.matching.unseated.push(held.flow);
        }
    }

    /// Sets the rates that have changed.
    fn carry_out_matching(&mut self, now: f64) {
        let mut matching = std::mem::take(&mut self.matching);
        matching.unseated.retain(|&flow| !self.is_seated(flow));
        matching.seated.retain(|&flow| self.is_seated(flow));
        for flow in matching.unseated.drain(..) {
            if self.service.flows[flow as usize].rate > 0.0 {
                self.service.set_rate(flow, 0.0, now);
                self.remember(flow, now);
            }
        }
        for flow in matching.seated.drain(..) {
            let record = &self.service.flows[flow as usize];
            if record.rate == 0.0 {
                self.set_rate(flow, self.capacity[record.links[0] as usize], now);
            }
        }
        self.matching = matching;
    }
}

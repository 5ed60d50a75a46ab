//! The walk down the ranks that hands out what links have to give.
//!
//! At each rank, two things can have changed. First, higher ranks took from links that the account
//! uses: its flows there are cut to what is left to them, in order of number. Second, links have
//! something to give, and open pairs with such a link are served, the fullest first. What is still
//! left of an offered link goes on to the next rank.
//!
//! A pair between two links that were not offered needs no look: at least one of them had nothing
//! left before, and has nothing left now.
//!
//! To find the fullest pair of all takes a search for each offered link, again after each pair that
//! is served. But across one switch a pair in which each link is the fullest partner of the other
//! goes before all others that share a link with it, and those that share none are no concern of
//! it; so such pairs may be served in any order (greedy matching by locally heaviest edges, Preis
//! 1999). The way from any link to such a pair is short: on to the fullest partner, as long as that
//! has a fuller one.
//!
//! Where paths have links in between, too many pairs share one of those for that. There the first
//! path of each part of what is offered waits in a heap ([`Part`]). What is taken out is still the
//! first of all if its links are free, since candidates only become fewer; else the next one of the
//! same part takes its place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::GreedyFill;
use super::demand::{Fullness, Part};
use super::running::Served;
use super::work::End;
use crate::reference::NEGLIGIBLE;
use crate::route::Route;

/// How full the links of a path are that goes first of a part of what is offered; that part, and
/// the path.
type Candidate<const N: usize> = Reverse<(Fullness<N>, Part, Route<N>)>;

/// Buffers of the walk.
#[derive(Debug, Default)]
pub(super) struct Buffers<const N: usize> {
    offered: Vec<End>,
    contested: Vec<u32>,
    slots: Vec<u32>,
    parts: Vec<Part>,
    first: BinaryHeap<Candidate<N>>,
}

impl<const N: usize> GreedyFill<N> {
    /// Hands out all that is offered.
    pub(super) fn hand_out(&mut self, now: f64) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut rank = self.work.take_first();
        while !(self.work.is_empty() && buffers.offered.is_empty()) && rank < self.order.len() as u32 {
            self.cut(rank, &mut buffers, now);
            self.work.take_offered(rank, &mut buffers.offered);
            buffers.offered.retain(|&(_, link)| self.free.is_free(link, rank));
            if !buffers.offered.is_empty() {
                self.serve(rank, &mut buffers, now);
            }
            rank += 1;
        }
        debug_assert!(self.work.is_empty(), "what is offered or contested is looked at");
        buffers.offered.clear();
        self.buffers = buffers;
    }

    /// Cuts the flows of `rank` on contested links to what is left to them.
    fn cut(&mut self, rank: u32, buffers: &mut Buffers<N>, now: f64) {
        let Buffers { contested, slots, .. } = buffers;
        while let Some(link) = self.work.take_contested(rank) {
            slots.extend(self.running.on_link(link).filter(|&slot| self.running[slot].rank == rank));
            contested.push(link);
        }
        slots.sort_unstable_by_key(|&slot| self.running[slot].number);
        slots.dedup();
        for slot in slots.drain(..) {
            let Served { route, rate, .. } = self.running[slot];
            let left = route.links().map(|link| self.running.left_for(slot, link));
            let least = left.fold(f64::INFINITY, f64::min);
            if least < rate - NEGLIGIBLE * rate {
                self.change(slot, least, now);
                self.accounts[self.order[rank as usize] as usize].demand.open(&route, true);
                self.offer_links(rank, &route);
            }
        }
        // Until its last flow was cut the rank itself was still overdrawn; of lower ranks the next
        // may be.
        while self.work.take_contested(rank).is_some() {}
        contested.drain(..).for_each(|link| self.note(link));
    }

    /// Serves the open pairs of `rank` that have an offered link, the fullest first.
    fn serve(&mut self, rank: u32, buffers: &mut Buffers<N>, now: f64) {
        if N > 2 {
            return self.serve_paths(rank, buffers, now);
        }
        if self.shares_links {
            self.settle(self.order[rank as usize], now);
        }
        for &(side, link) in &buffers.offered {
            while let Some(links) = self.dominant_pair(rank, (side, link)) {
                self.take(rank, &Route::new(&links), now);
            }
        }
    }

    /// The same where paths have links in between.
    fn serve_paths(&mut self, rank: u32, buffers: &mut Buffers<N>, now: f64) {
        let Buffers { offered, parts, first, .. } = buffers;
        let account = self.order[rank as usize];
        self.accounts[account as usize].demand.offered(offered, self.free.set(rank), parts);
        if parts.is_empty() {
            return;
        }
        self.settle(account, now);
        first.extend(parts.drain(..).filter_map(|part| self.candidate(rank, part)));
        while let Some(Reverse((_, part, route))) = first.pop() {
            if self.accounts[account as usize].demand.is_open(&route)
                && route.links().all(|link| self.free.is_free(link, rank))
            {
                self.take(rank, &route, now);
            }
            first.extend(self.candidate(rank, part));
        }
    }

    /// Finds the first path of a part of what `rank` is offered, and how full it is.
    fn candidate(&self, rank: u32, part: Part) -> Option<Candidate<N>> {
        let demand = &self.accounts[self.order[rank as usize] as usize].demand;
        let route = demand.first_path(&part, self.free.set(rank))?;
        Some(Reverse((demand.fullness(&route), part, route)))
    }

    /// Finds an open pair of which each link is the fullest free partner of the other, on the way
    /// from a link to fuller ones. `None` where that link is not free or has no free partner.
    #[inline]
    fn dominant_pair(&self, rank: u32, (mut side, mut link): End) -> Option<[u32; 2]> {
        let demand = &self.accounts[self.order[rank as usize] as usize].demand;
        let free = self.free.set(rank);
        if !self.free.is_free(link, rank) {
            return None;
        }
        let mut partner = demand.fullest_partner(side, link, free)?;
        loop {
            let other = demand.fullest_partner(1 - side, partner, free)?;
            if other == link {
                return Some(if side == 0 { [link, partner] } else { [partner, link] });
            }
            (side, link, partner) = (1 - side, partner, other);
        }
    }

    /// Gives the flows between two links what both have left after `rank`, or closes the pair where
    /// none can take more.
    fn take(&mut self, rank: u32, route: &Route<N>, now: f64) {
        let account = self.order[rank as usize];
        let left = route.links().map(|link| self.running.left_after_rank(link, rank));
        let left = left.fold(f64::INFINITY, f64::min);
        let negligible = NEGLIGIBLE * self.running.least_capacity(route);
        for place in self.accounts[account as usize].demand.run(route) {
            let Some(&flow) = self.accounts[account as usize].demand.flow(place as u32) else { continue };
            let slot = self.slot_of(flow.number, route.ends()[0]);
            let rate = slot.map_or(0.0, |slot| self.running[slot].rate);
            let more = left.min(self.cap(flow.number) - rate);
            if more > negligible {
                match slot {
                    None => self.start(account, place as u32, flow, more, now),
                    Some(slot) => self.change(slot, rate + more, now),
                }
                route.links().for_each(|link| self.note(link));
                return;
            }
        }
        self.accounts[account as usize].demand.open(route, false);
    }
}

//! The walk down the ranks that hands out what links have to give.
//!
//! At each rank, two things can have changed. First, higher ranks took from links that the account uses: its flows
//! there are cut to what is left to them, in order of number. Second, links have something to give, and open pairs with
//! such a link are served, the fullest first. What is still left of an offered link goes on to the next rank.
//!
//! A pair between two links that were not offered needs no look: at least one of them had nothing left before, and has
//! nothing left now.
//!
//! To find the fullest pair of all takes a search for each offered link, again after each pair that is served. But a pair in
//! which each link is the fullest partner of the other goes before all others that share a link with it, and those that
//! share none are no concern of it; so such pairs may be served in any order (greedy matching by locally heaviest edges,
//! Preis 1999). The way from any link to such a pair is short: on to the fullest partner, as long as that has a fuller one.

use super::GreedyFill;
use super::running::Served;
use super::work::End;
use crate::reference::NEGLIGIBLE;

/// Buffers of the walk.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    offered: Vec<End>,
    slots: Vec<u32>,
}

impl GreedyFill {
    /// Hands out all that is offered.
    pub(super) fn hand_out(&mut self, now: f64) {
        let mut buffers = std::mem::take(&mut self.buffers);
        let mut rank = self.work.take_first();
        while !(self.work.is_empty() && buffers.offered.is_empty()) && rank < self.order.len() as u32 {
            self.cut(rank, &mut buffers.slots, now);
            self.work.take_offered(rank, &mut buffers.offered);
            buffers.offered.retain(|&(_, link)| self.free.is_free(link, rank));
            if !buffers.offered.is_empty() {
                self.serve(rank, &buffers.offered, now);
            }
            rank += 1;
        }
        buffers.offered.clear();
        self.buffers = buffers;
    }

    /// Cuts the flows of `rank` on contested links to what is left to them.
    fn cut(&mut self, rank: u32, slots: &mut Vec<u32>, now: f64) {
        while let Some(link) = self.work.take_contested(rank) {
            slots.extend(self.running.on_link(link).filter(|&slot| self.running[slot].rank == rank));
        }
        if slots.is_empty() {
            return;
        }
        slots.sort_unstable_by_key(|&slot| self.running[slot].number);
        slots.dedup();
        for slot in slots.drain(..) {
            let Served { links, rate, .. } = self.running[slot];
            let left = links.map(|link| self.running.left_for(slot, link));
            let least = left[0].min(left[1]);
            if least < rate - NEGLIGIBLE * rate {
                self.change(slot, least, now);
                self.accounts[self.order[rank as usize] as usize].demand.open(links, true);
                self.offer_links(rank, links);
            }
        }
    }

    /// Serves the open pairs of `rank` that have an offered link, the fullest first.
    fn serve(&mut self, rank: u32, offered: &[End], now: f64) {
        if self.shares_links {
            self.settle(self.order[rank as usize], now);
        }
        for &(side, link) in offered {
            while let Some(links) = self.dominant_pair(rank, (side, link)) {
                self.take(rank, links, now);
            }
        }
    }

    /// Finds an open pair of which each link is the fullest free partner of the other, on the way from a link to fuller
    /// ones. `None` where that link is not free or has no free partner.
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

    /// Gives the flows between two links what both have left after `rank`, or closes the pair where none can take more.
    fn take(&mut self, rank: u32, links: [u32; 2], now: f64) {
        let account = self.order[rank as usize];
        let left = links.map(|link| self.running.left_after_rank(link, rank));
        let left = left[0].min(left[1]);
        for place in self.accounts[account as usize].demand.run(links) {
            let Some(&flow) = self.accounts[account as usize].demand.flow(place as u32) else { continue };
            let slot = self.slot_of(flow.number, links[0]);
            let rate = slot.map_or(0.0, |slot| self.running[slot].rate);
            let more = left.min(self.cap(flow.number) - rate);
            if more > 0.0 {
                match slot {
                    None => self.start(account, place as u32, flow, more, now),
                    Some(slot) => self.change(slot, rate + more, now),
                }
                self.take_from_lower(rank, links);
                return;
            }
        }
        self.accounts[account as usize].demand.open(links, false);
    }

    /// Notes what is left of links of which `rank` took more, and which lower ranks are to be cut.
    #[inline]
    fn take_from_lower(&mut self, rank: u32, links: [u32; 2]) {
        for link in links {
            self.note(link);
            for slot in self.running.on_link(link) {
                if self.running[slot].rank > rank {
                    self.work.contest(self.running[slot].rank, link);
                }
            }
        }
    }
}

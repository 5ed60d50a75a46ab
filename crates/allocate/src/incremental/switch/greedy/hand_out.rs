//! Who gets a link that has something left.
//!
//! Rank by rank, the account takes what it can of the links that are on offer to it, fullest first, rows before columns, and
//! what it has no use for is offered to the ranks behind; a flow that loses its place frees its other link for those behind
//! its own rank. With equal links and no caps, each rank either joins the link to a partner for good or has no use for it:
//! that is a matching, and by far the most frequent case. Else a rank takes what both links have left, from several
//! partners where need be, and what is over then is taken from the lowest ranks.

use std::ops::Range;

use super::{GreedyFill, of_few};
use crate::bits::set;
use crate::incremental::switch::greedy::running::Served;
use crate::incremental::switch::max_min::group::NEGLIGIBLE;

impl GreedyFill {
    /// Offers all links on which the account at `rank` has flows left.
    pub(super) fn offer_all(&mut self, rank: u32) {
        let account = self.order[rank as usize];
        for (_, link) in self.accounts[account as usize].demand.lines() {
            self.free.collect(rank, link);
        }
    }

    /// Hands out all offers, and those that arise from it.
    pub(super) fn hand_out(&mut self, now: f64) {
        let is_idle = |link| self.is_matching && self.running.first_slot(link).is_none();
        let first = self.free.offer_collected(is_idle);
        self.hand_out_at(first..self.order.len() as u32, now);
    }

    /// Lets the accounts at these ranks have what is on offer to them, and offers what is over to those behind.
    pub(super) fn hand_out_at(&mut self, ranks: Range<u32>, now: f64) {
        let mut words = self.free.words(ranks.clone());
        let (mut rank, mut of_rank) = (ranks.start, self.free.words(ranks.start..ranks.start + 1));
        while let Some((word, bit)) = self.free.take_offer(words.clone()) {
            // What comes on offer meanwhile is for ranks behind.
            words.start = word;
            while word >= of_rank.end {
                (rank, of_rank) = (rank + 1, self.free.words(rank + 1..rank + 2));
            }
            let (line, account) = ((word - of_rank.start) as u32 * 64 + bit, self.order[rank as usize]);
            if self.is_matching {
                self.join(line, rank, account, now);
            } else {
                self.share(line, rank, account, now);
            }
        }
    }

    /// Where every link serves one flow at full rate: joins `line` to the fullest partner, and stops what either was used for.
    fn join(&mut self, line: u32, rank: u32, account: u32, now: f64) {
        let demand = &self.accounts[account as usize].demand;
        let Some(partner) = demand.fullest_partner(line, self.free.set(rank)) else {
            let link = demand.link(line);
            return self.free.offer(rank + 1, link, self.running.first_slot(link).is_none());
        };
        let links = demand.links_of(line, partner);
        let (place, left) = demand.first_unfinished(links);
        for end in links {
            if let Some(slot) = self.running.first_slot(end) {
                self.displace(slot, end, now);
            }
            self.free.note(end, rank);
        }
        self.start(account, place, links, left, self.capacity[links[0] as usize], now);
    }

    /// Stops a flow since its link `taken` goes to a higher rank, and offers its other link.
    fn displace(&mut self, slot: u32, taken: u32, now: f64) {
        let Served { links: [row, column], rank, .. } = self.running[slot];
        self.change(slot, 0.0, now);
        let freed = if row == taken { column } else { row };
        self.free.offer(rank, freed, true);
    }

    /// Lets the account at `rank` take what is left of `line`, fullest partners first.
    fn share(&mut self, line: u32, rank: u32, account: u32, now: f64) {
        let link = self.accounts[account as usize].demand.link(line);
        // A partner whose flow is at its own cap stays free without being of use.
        let mut useless: Vec<u32> = Vec::new();
        while self.free.is_free(link, rank) {
            let demand = &self.accounts[account as usize].demand;
            let free = self.free.set(rank);
            let partner = if useless.is_empty() {
                demand.fullest_partner(line, free)
            } else {
                let mut usable = free.to_vec();
                useless.iter().for_each(|&partner| set(&mut usable, partner, false));
                demand.fullest_partner(line, &usable)
            };
            let Some(partner) = partner else {
                return self.free.offer(rank + 1, link, false);
            };
            let links = demand.links_of(line, partner);
            let (place, left) = demand.first_unfinished(links);
            let slot = self.slot_of(account, place, link);
            let rate = slot.map_or(0.0, |slot| self.running[slot].rate);
            let cap = of_few(&self.caps, f64::INFINITY, || demand.number(place));
            let left_on = links.map(|end| self.running.left_after(end, rank));
            let more = left_on[0].min(left_on[1]).min(cap - rate);
            if more <= 0.0 {
                useless.push(partner);
                continue;
            }
            match slot {
                None => self.start(account, place, links, left, more, now),
                Some(slot) => self.change(slot, rate + more, now),
            }
            for end in links {
                if self.running.is_shared(end) {
                    self.make_room(end, rank, now);
                }
                self.note(end);
            }
        }
    }

    /// Takes from the lowest ranks until `link` carries no more than it can.
    fn make_room(&mut self, link: u32, rank: u32, now: f64) {
        while self.running.is_shared(link) {
            let (over, negligible) = (self.running.excess(link), NEGLIGIBLE * self.capacity[link as usize]);
            if over <= negligible {
                return;
            }
            let rank_of = |slot: u32| self.running[slot].rank;
            let later = |a: &u32, b: &u32| {
                rank_of(*a).cmp(&rank_of(*b)).then_with(|| self.number_of(*a).cmp(&self.number_of(*b)))
            };
            let Some(lowest) = self.running.on_link(link).max_by(later) else { return };
            let Served { links, rate, rank: lower, .. } = self.running[lowest];
            assert!(lower > rank, "what a rank takes was left to it by those before");
            self.change(lowest, if rate - over > negligible { rate - over } else { 0.0 }, now);
            for freed in links {
                if freed != link {
                    self.note(freed);
                    self.free.offer(lower, freed, false);
                }
            }
        }
    }
}

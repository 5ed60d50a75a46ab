//! The order of accounts, and what is handed out anew when it changes.
//!
//! Ranks are places in this order. A newcomer only pushes others down, so all that is served stays as it is until the
//! newcomer's links are offered; where accounts change places, everything from the first change on is handed out anew.

use super::{Account, GreedyFill};
use crate::incremental::switch::greedy::running::Served;

impl GreedyFill {
    /// Puts accounts in order again. Where only newcomers came in between, their links are offered; where others changed
    /// places, everything from the first change on is handed out anew, what was served first.
    pub(super) fn reorder(&mut self, now: f64) {
        self.order_changed = false;
        let before = std::mem::take(&mut self.order);
        self.order = before.iter().chain(&self.newcomers).copied().collect();
        self.order.sort_by_key(|&account| (self.accounts[account as usize].key, account));
        let newcomers = std::mem::take(&mut self.newcomers);
        let kept: Vec<u32> =
            self.order.iter().copied().filter(|account| self.accounts[*account as usize].ranked).collect();
        for (rank, &account) in self.order.iter().enumerate() {
            self.accounts[account as usize].rank = rank as u32;
            self.accounts[account as usize].ranked = true;
        }
        self.update_ranks();
        if kept == before {
            self.note_all();
            for &account in &newcomers {
                self.offer_all(self.accounts[account as usize].rank);
            }
        } else {
            let first = before.iter().zip(&self.order).take_while(|(a, b)| a == b).count();
            self.start_over(first as u32, now);
        }
    }

    fn update_ranks(&mut self) {
        self.running.update_ranks(|account| self.accounts[account as usize].rank);
    }

    /// Stops everything from rank `first` on and hands it out rank by rank.
    fn start_over(&mut self, first: u32, now: f64) {
        let mut stopped = Vec::new();
        for link in 0..self.capacity.len() as u32 {
            let slots = self.running.on_link(link).filter(|&slot| self.running[slot].rank >= first);
            for slot in slots.collect::<Vec<_>>() {
                stopped.push((self.running[slot].rank, self.number_of(slot), self.running[slot]));
                self.change(slot, 0.0, now);
            }
        }
        self.note_all();
        stopped.sort_unstable_by_key(|&(rank, number, _)| (rank, number));
        let mut stopped = stopped.into_iter().peekable();
        // What is on offer to ranks before the first change stays so; all others are offered everything.
        self.free.drop_from(first);
        for rank in first..self.order.len() as u32 {
            while let Some((.., served)) = stopped.next_if(|&(of, ..)| of == rank) {
                let Served { account, place, links, .. } = served;
                let rate =
                    links.iter().map(|&link| self.running.left_after(link, rank)).fold(served.rate, f64::min);
                if rate > 0.0 {
                    let left = self.accounts[account as usize].demand.left(place, links);
                    self.start(account, place, links, left, rate, now);
                    links.into_iter().for_each(|link| self.note(link));
                }
            }
            for (_, link) in self.accounts[self.order[rank as usize] as usize].demand.lines() {
                self.free.offer(rank, link, false);
            }
            self.hand_out_at(rank..rank + 1, now);
        }
    }

    /// Takes an account without flows out of the order.
    pub(super) fn retire(&mut self, account: u32) {
        let rank = self.accounts[account as usize].rank;
        self.order.remove(rank as usize);
        for (rank, &account) in self.order.iter().enumerate() {
            self.accounts[account as usize].rank = rank as u32;
        }
        self.update_ranks();
        self.free.remove(rank);
        // Its key stays: another wave of flows may come.
        let holder = &mut self.accounts[account as usize];
        *holder = Account { key: holder.key, ..Account::default() };
    }
}

//! The order of accounts: ranks are places in it.

use super::running::NEVER;
use super::{Account, GreedyFill};
use crate::fill::NONE;
use crate::route::Route;

impl<const N: usize> GreedyFill<N> {
    /// Puts accounts in order again and offers links where that can matter. A newcomer only pushes
    /// others down: their rates stay until one of its links is taken. Where others changed places,
    /// every account from the first change on is offered all of its links.
    pub(super) fn reorder(&mut self) {
        let before = std::mem::take(&mut self.order);
        self.order = before.iter().chain(&self.newcomers).copied().collect();
        self.newcomers.clear();
        self.order.sort_by_key(|&account| (self.accounts[account as usize].key, account));
        let is_new = |account: u32| self.accounts[account as usize].rank == NONE;
        let stayed = self.order.iter().filter(|&&account| !is_new(account));
        let same = before.iter().zip(&self.order).take_while(|(a, b)| a == b).count();
        let changed = if stayed.eq(&before) { self.order.len() } else { same };
        let is_to_offer = |&(rank, account): &(usize, u32)| rank >= changed || is_new(account);
        let offering: Vec<_> = self.order.iter().copied().enumerate().filter(is_to_offer).collect();
        self.update_ranks();
        self.work.resize(self.order.len());
        self.free.note_all(self.order.len(), |link| self.running.reach(link).used_up);
        offering.into_iter().for_each(|(rank, _)| self.offer_all(rank as u32));
    }

    fn update_ranks(&mut self) {
        for (rank, &account) in (0..).zip(&self.order) {
            self.accounts[account as usize].rank = rank;
        }
        self.running.update_ranks(|account| self.accounts[account as usize].rank);
    }

    /// Offers all links on which the account at `rank` has flows left.
    pub(super) fn offer_all(&mut self, rank: u32) {
        let demand = &self.accounts[self.order[rank as usize] as usize].demand;
        demand.links(0).for_each(|(link, _)| self.work.offer(rank, (0, link)));
    }

    /// Offers the links of a flow of `rank` that may have something to give, once it is noted how
    /// much. Ranks to which a link had something to give before wait for nothing there.
    pub(super) fn offer_links(&mut self, rank: u32, route: &Route<N>) {
        for (side, link) in route.sides() {
            let used_up = self.free.used_up(link);
            self.note(link);
            if used_up != NEVER {
                self.work.offer(rank.max(used_up), (side, link));
            }
        }
    }

    /// Takes an account without flows out of the order.
    pub(super) fn retire(&mut self, account: u32) {
        let rank = self.accounts[account as usize].rank;
        self.order.remove(rank as usize);
        self.free.remove(rank);
        self.work.remove(rank);
        // Its key stays: another wave of flows may come.
        let holder = &mut self.accounts[account as usize];
        *holder = Account { key: holder.key, ..Account::default() };
        self.update_ranks();
    }
}

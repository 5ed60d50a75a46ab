//! Greedy filling in order of priority: each flow takes all that both its links have left.
//!
//! # The idea
//! With equal links this keeps a matching: every link serves one flow at full rate. When a flow ends, only its two links
//! have anything new to give. Each is offered down the ranks from the one that it was freed at: an account with an
//! unfinished flow to a partner that is free *at its rank* takes it, possibly from a lower rank, whose other link is then
//! free in turn. What is being served stays served unless a higher rank needs it. With unequal links a flow takes the
//! lesser of what both have left, and a link may serve several.
//!
//! Inside an account the partner with the most bytes left goes first: the longest port decides when a coflow ends.
//!
//! # Invariants
//! - At every rank, no unfinished flow has capacity left on both links (after the ranks up to its own).
//! - `free[rank]` has the bit of a link set exactly if ranks up to this one leave something of it.
//!
//! # Cost
//! About 0.1 µs per flow on the Facebook trace: a bit-set intersection per rank visited, two updates of a tree of minima.
//!
//! # Rejected
//! Filling anew at each event (15 times slower), a heap of finish times with lazy deletion (half of the run time).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::demand::Demand;
use crate::fill::{Due, Fill, Key};
use crate::maxmin::{NEGLIGIBLE, NONE};
use crate::service::Service;

#[derive(Debug)]
struct Account {
    key: Key,
    /// Flows that were added since the demand was last built.
    fresh: Vec<u32>,
    demand: Demand,
    flows_left: usize,
    /// Whether it has a rank.
    ranked: bool,
    rank: u32,
    /// Links that have something left after this rank.
    free: Vec<u64>,
}

/// A link to be offered, in order of rank, then of the bytes that the rank's account has left there.
type Offer = Reverse<(u32, Reverse<u64>, u32)>;

/// Greedy rates in the order of accounts' keys.
#[derive(Debug)]
pub struct GreedyFill {
    capacity: Vec<f64>,
    service: Service,
    next_in_pair: Vec<u32>,
    accounts: Vec<Account>,
    /// Accounts with flows, by rank.
    order: Vec<u32>,
    order_changed: bool,
    offers: BinaryHeap<Offer>,
    /// Accounts that were given flows since the last refill, and those of them that have no rank yet.
    grown: Vec<u32>,
    newcomers: Vec<u32>,
}

impl GreedyFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            service: Service::new(capacity.len(), flows),
            next_in_pair: vec![NONE; flows],
            accounts: Vec::new(),
            order: Vec::new(),
            order_changed: false,
            offers: BinaryHeap::new(),
            grown: Vec::new(),
            newcomers: Vec::new(),
            capacity,
        }
    }

    fn rank_of(&self, flow: u32) -> u32 {
        self.accounts[self.service.flows[flow as usize].accounts[0] as usize].rank
    }

    /// What is left of `link` after ranks up to `rank`.
    fn left_at(&self, link: u32, rank: u32) -> f64 {
        let capacity = self.capacity[link as usize];
        let mut left = capacity;
        for &flow in &self.service.on_link[link as usize] {
            if self.rank_of(flow) <= rank {
                left -= self.service.flows[flow as usize].rate;
            }
        }
        if left > NEGLIGIBLE * capacity { left } else { 0.0 }
    }

    /// Brings the `free` bits of `link` up to date from `rank` down.
    fn update_free(&mut self, link: u32, rank: u32) {
        let (word, bit) = (link as usize / 64, 1u64 << (link % 64));
        let on_link = &self.service.on_link[link as usize];
        if on_link.len() > 1 {
            for rank in rank..self.order.len() as u32 {
                let free = self.left_at(link, rank) > 0.0;
                set_bit(&mut self.accounts[self.order[rank as usize] as usize].free[word], bit, free);
            }
            return;
        }
        // With at most one flow there is one rank from which on the link is used up, if it ever is.
        let used_up_from = match on_link.first() {
            Some(&flow) if self.left_at(link, u32::MAX) <= 0.0 => self.rank_of(flow),
            _ => u32::MAX,
        };
        for rank in rank..self.order.len() as u32 {
            let account = &mut self.accounts[self.order[rank as usize] as usize];
            set_bit(&mut account.free[word], bit, rank < used_up_from);
        }
    }

    /// Changes the rate of `flow`, and what its account has left on its links.
    fn set_rate(&mut self, flow: u32, rate: f64, now: f64) {
        let sent = self.service.set_rate(flow, rate, now);
        let record = &self.service.flows[flow as usize];
        self.accounts[record.accounts[0] as usize].demand.settle(record.links, sent);
    }

    fn offer(&mut self, rank: u32, link: u32) {
        let Some(&account) = self.order.get(rank as usize) else { return };
        let demand = &self.accounts[account as usize].demand;
        let load = demand.slot(link).map_or(0.0, |slot| demand.loads[slot].max(0.0));
        self.offers.push(Reverse((rank, Reverse(load.to_bits()), link)));
    }

    /// Hands out all offers, and those that arise from it.
    fn hand_out(&mut self, now: f64) {
        while let Some(Reverse((rank, _, link))) = self.offers.pop() {
            let (word, bit) = (link as usize / 64, 1u64 << (link % 64));
            for rank in rank..self.order.len() as u32 {
                let account = &self.accounts[self.order[rank as usize] as usize];
                if account.free[word] & bit == 0 {
                    break;
                }
                if let Some(slot) = account.demand.slot(link) {
                    self.serve(link, slot, rank, now);
                }
            }
        }
    }

    /// Lets the account at `rank` take what is left of `link`, fullest partners first.
    fn serve(&mut self, link: u32, slot: usize, rank: u32, now: f64) {
        let account = self.order[rank as usize] as usize;
        // A partner whose flow is at its own cap stays free without being of use.
        let mut useless: Vec<u32> = Vec::new();
        loop {
            let account = &self.accounts[account];
            let partner = if useless.is_empty() {
                account.demand.fullest_partner(slot, &account.free)
            } else {
                let mut free = account.free.clone();
                useless.iter().for_each(|link| free[*link as usize / 64] &= !(1 << (link % 64)));
                account.demand.fullest_partner(slot, &free)
            };
            let Some(partner) = partner else { return };
            let flow = account.demand.flow(link, partner);
            let record = &self.service.flows[flow as usize];
            let more =
                self.left_at(link, rank).min(self.left_at(partner, rank)).min(record.cap - record.rate);
            if more <= 0.0 {
                useless.push(partner);
                continue;
            }
            let rate = record.rate + more;
            self.set_rate(flow, rate, now);
            self.make_room(link, rank, now);
            self.make_room(partner, rank, now);
            self.update_free(link, rank);
            self.update_free(partner, rank);
            if self.left_at(link, rank) <= 0.0 {
                return;
            }
        }
    }

    /// Takes from the lowest ranks until `link` carries no more than it can.
    fn make_room(&mut self, link: u32, rank: u32, now: f64) {
        while self.service.on_link[link as usize].len() > 1 {
            let served = self.service.on_link[link as usize].iter().copied();
            let used: f64 = served.clone().map(|flow| self.service.flows[flow as usize].rate).sum();
            let over = used - self.capacity[link as usize];
            if over <= NEGLIGIBLE * self.capacity[link as usize] {
                return;
            }
            let rank_of =
                |flow: u32| self.accounts[self.service.flows[flow as usize].accounts[0] as usize].rank;
            let Some(lowest) = served.max_by_key(|&flow| (rank_of(flow), flow)) else { return };
            let (lower, links) = (rank_of(lowest), self.service.flows[lowest as usize].links);
            assert!(lower > rank, "what a rank takes was left to it by those before");
            let rate = self.service.flows[lowest as usize].rate - over;
            let kept = if rate > NEGLIGIBLE * self.capacity[link as usize] { rate } else { 0.0 };
            self.set_rate(lowest, kept, now);
            for freed in links {
                self.update_free(freed, rank);
                if freed != link {
                    self.offer(lower, freed);
                }
            }
        }
    }

    /// Puts accounts in order again. Where only newcomers came in between, their links are offered; where others changed
    /// places, everything from the first change on is handed out anew, what was served first.
    fn reorder(&mut self, now: f64) {
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
        if kept == before {
            for rank in 0..self.order.len() {
                if newcomers.contains(&self.order[rank]) {
                    self.settle_in(rank);
                }
            }
            for &account in &newcomers {
                self.offer_all(account);
            }
        } else {
            let first = before.iter().zip(&self.order).take_while(|(a, b)| a == b).count();
            self.start_over(first as u32, now);
        }
    }

    /// What is free after a newcomer that is served nothing is what is free before it.
    fn settle_in(&mut self, rank: usize) {
        let free = match rank.checked_sub(1) {
            Some(before) => self.accounts[self.order[before] as usize].free.clone(),
            None => self.all_free(),
        };
        self.accounts[self.order[rank] as usize].free = free;
    }

    fn all_free(&self) -> Vec<u64> {
        let mut free = vec![0; self.capacity.len().div_ceil(64)];
        for link in 0..self.capacity.len() {
            free[link / 64] |= 1 << (link % 64);
        }
        free
    }

    fn offer_all(&mut self, account: u32) {
        let rank = self.accounts[account as usize].rank;
        for index in 0..self.accounts[account as usize].demand.links.len() {
            if self.accounts[account as usize].demand.counts[index] > 0 {
                self.offer(rank, self.accounts[account as usize].demand.links[index]);
            }
        }
    }

    fn start_over(&mut self, first: u32, now: f64) {
        let mut stopped = Vec::new();
        for link in 0..self.service.on_link.len() {
            for index in (0..self.service.on_link[link].len()).rev() {
                let flow = self.service.on_link[link][index];
                let rank = self.accounts[self.service.flows[flow as usize].accounts[0] as usize].rank;
                if rank >= first {
                    stopped.push((rank, flow, self.service.flows[flow as usize].rate));
                    self.set_rate(flow, 0.0, now);
                }
            }
        }
        stopped.sort_unstable_by_key(|&(rank, flow, _)| (rank, flow));
        // What is on offer to ranks before the first change stays so; all others are offered everything.
        let mut kept = std::mem::take(&mut self.offers);
        kept.retain(|Reverse((rank, ..))| *rank < first);
        let mut stopped = stopped.into_iter().peekable();
        for rank in first as usize..self.order.len() {
            self.accounts[self.order[rank] as usize].free = self.all_free();
        }
        for rank in first..self.order.len() as u32 {
            self.settle_in(rank as usize);
            while let Some((_, flow, before)) = stopped.next_if(|&(of, ..)| of == rank) {
                let links = self.service.flows[flow as usize].links;
                let rate = links.iter().map(|&link| self.left_at(link, rank)).fold(before, f64::min);
                if rate > 0.0 {
                    self.set_rate(flow, rate, now);
                    links.iter().for_each(|&link| self.update_free_at(link, rank));
                }
            }
            self.offer_all(self.order[rank as usize]);
            let offers = std::mem::take(&mut self.offers);
            for Reverse((_, _, link)) in offers.into_sorted_vec().into_iter().rev() {
                let account = &self.accounts[self.order[rank as usize] as usize];
                if account.free[link as usize / 64] & 1 << (link % 64) != 0
                    && let Some(slot) = account.demand.slot(link)
                {
                    self.serve(link, slot, rank, now);
                }
            }
        }
        self.offers.append(&mut kept);
    }

    fn update_free_at(&mut self, link: u32, rank: u32) {
        let free = self.left_at(link, rank) > 0.0;
        let account = self.order[rank as usize];
        set_bit(&mut self.accounts[account as usize].free[link as usize / 64], 1 << (link % 64), free);
    }

    /// Builds the demand of accounts that were given flows.
    fn build(&mut self, account: u32, now: f64) {
        let fresh = std::mem::take(&mut self.accounts[account as usize].fresh);
        if fresh.is_empty() {
            return;
        }
        let mut flows = Vec::with_capacity(fresh.len());
        self.visit_flows(account, &mut |flow| flows.push(flow));
        flows.extend(&fresh);
        for &flow in &flows {
            let rate = self.service.flows[flow as usize].rate;
            if rate > 0.0 {
                self.set_rate(flow, rate, now);
            }
        }
        let described = flows
            .iter()
            .map(|&flow| {
                (flow, self.service.flows[flow as usize].links, self.service.flows[flow as usize].left)
            })
            .collect();
        self.accounts[account as usize].demand =
            Demand::new(self.capacity.len(), described, &mut self.next_in_pair);
        if self.accounts[account as usize].ranked {
            self.offer_all(account);
        } else if !self.newcomers.contains(&account) {
            self.newcomers.push(account);
            self.order_changed = true;
        }
    }

    fn finish(&mut self, flow: u32, now: f64) {
        let record = &self.service.flows[flow as usize];
        let (links, account, left) = (record.links, record.accounts[0], record.left);
        self.service.remove(flow, now);
        let holder = &mut self.accounts[account as usize];
        holder.demand.settle(links, left);
        holder.demand.finish(links, flow, &mut self.next_in_pair);
        holder.flows_left -= 1;
        let (rank, over) = (holder.rank, holder.flows_left == 0);
        for link in links {
            self.update_free(link, rank);
            self.offer(rank, link);
        }
        if over {
            self.retire(account);
        }
    }

    /// Takes an account without flows out of the order.
    fn retire(&mut self, account: u32) {
        let rank = self.accounts[account as usize].rank as usize;
        self.order.remove(rank);
        for rank in rank..self.order.len() {
            self.accounts[self.order[rank] as usize].rank = rank as u32;
        }
        // Offers made by rank now stand one too low for those behind; offering one rank higher is always right.
        let offers: Vec<Offer> = self.offers.drain().collect();
        for Reverse((of, load, link)) in offers {
            self.offers.push(Reverse((of - u32::from(of > rank as u32), load, link)));
        }
        let holder = &mut self.accounts[account as usize];
        holder.ranked = false;
        holder.demand = Demand::default();
        holder.free = Vec::new();
    }
}

fn set_bit(word: &mut u64, bit: u64, set: bool) {
    if set { *word |= bit } else { *word &= !bit }
}

impl Fill for GreedyFill {
    fn reserve_accounts(&mut self, count: usize) {
        let fresh = || Account {
            key: Key::default(),
            fresh: Vec::new(),
            demand: Demand::default(),
            flows_left: 0,
            ranked: false,
            rank: 0,
            free: Vec::new(),
        };
        self.service.reserve_accounts(count);
        if count > self.accounts.len() {
            self.accounts.resize_with(count, fresh);
        }
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.service.add(flow, links, accounts, bytes, now);
        let account = &mut self.accounts[accounts[0] as usize];
        if account.fresh.is_empty() {
            self.grown.push(accounts[0]);
        }
        account.fresh.push(flow);
        account.flows_left += 1;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let holder = &mut self.accounts[account as usize];
            self.order_changed |= holder.ranked && holder.key != key;
            holder.key = key;
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("the greedy discipline orders coflows; flow {flow} cannot have a priority of its own");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        let account = self.service.flows[flow as usize].accounts[0];
        if account == NONE {
            return;
        }
        let cap = cap.unwrap_or(f64::INFINITY);
        self.service.flows[flow as usize].cap = cap;
        let links = self.service.flows[flow as usize].links;
        if self.service.flows[flow as usize].rate > cap {
            self.set_rate(flow, cap, now);
        }
        if self.accounts[account as usize].ranked {
            let rank = self.accounts[account as usize].rank;
            for link in links {
                self.update_free(link, rank);
                self.offer(rank, link);
            }
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        self.service.watch_flow(flow, remaining);
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.service.watch_account(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.service.unwatch_account(account);
    }

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            self.finish(flow, now);
        }
    }

    fn refill(&mut self, now: f64) {
        for account in std::mem::take(&mut self.grown) {
            self.build(account, now);
        }
        if self.order_changed {
            self.reorder(now);
        }
        self.hand_out(now);
        self.service.finish_refill(now);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.service.remaining(flow, now)
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.service.attained(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.service.flows[flow as usize].rate
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        self.service.add_use(use_of_link);
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts[account as usize].demand.visit_flows(&self.next_in_pair, visit);
        for &flow in &self.accounts[account as usize].fresh {
            visit(flow);
        }
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let demand = &self.accounts[account as usize].demand;
        let mut loads: Vec<(u32, f64)> =
            demand.links.iter().copied().zip(demand.loads.iter().copied()).collect();
        for (slot, &link) in demand.links.iter().enumerate() {
            for &flow in &self.service.on_link[link as usize] {
                let flow = &self.service.flows[flow as usize];
                if flow.accounts[0] == account {
                    loads[slot].1 -= flow.left - flow.left_at(now);
                }
            }
        }
        loads.sort_unstable_by_key(|&(link, _)| link);
        for (link, bytes) in loads {
            visit(link, bytes);
        }
    }
}

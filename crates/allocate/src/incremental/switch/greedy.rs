//! Greedy filling in order of priority: each flow takes all that both its links have left.
//!
//! # The idea
//! With equal links this keeps a matching: every link serves one flow at full rate. When a flow ends, only its two links
//! have anything new to give. Each is offered down the ranks from the one that it was freed at: an account with an
//! unfinished flow to a partner that is free *at its rank* takes it, possibly from a lower rank, whose other link is then
//! free in turn. What is being served stays served unless a higher rank needs it. With unequal links a flow takes the
//! lesser of what both have left, and a link may serve several.
//!
//! Inside an account the partner with the most bytes left goes first: the longest port decides when a coflow ends. How full
//! partners are is looked at when the account is given flows, and again after every eighth of them: see `demand`.
//!
//! # Invariants
//! - At every rank, no unfinished flow has capacity left on both links (after the ranks up to its own).
//! - A link is offered to every rank from the one at which it was freed to the one that uses it up.
//!
//! # Parts
//! `hand_out` decides who gets a link, and `order` keeps the ranks. What is running stands apart from what waits, since an
//! event touches the one and never the other: `running` has the flows with a rate, at most one per link where links are
//! equal; `demand` what an account still wants; `free` which links have something left after which rank, and which are on offer.
//!
//! # Cost
//! Per flow that ends: two offers; per offer, an intersection of two short bit sets for each rank until it is taken.
//!
//! # Rejected
//! Filling anew at each event (15 times slower). A heap of finish times with lazy deletion (half of the run time). One record
//! per flow with all about it: which flow is next is as good as random, and a fifth of the run time was waiting for its
//! memory.

pub(crate) mod demand;
pub(crate) mod free;
mod hand_out;
mod order;
pub(crate) mod running;

use std::collections::BTreeMap;

use crate::fill::{Due, Fill, Key};
use crate::incremental::switch::greedy::demand::{Demand, Flow, Measure};
use crate::incremental::switch::greedy::free::Free;
use crate::incremental::switch::greedy::running::{Running, Served};
use crate::progress::attained::Attained;

#[derive(Debug, Default)]
struct Account {
    key: Key,
    /// Flows that were added since the demand was last built.
    fresh: Vec<Flow>,
    demand: Demand,
    flows_left: u32,
    /// Whether it has a rank.
    ranked: bool,
    rank: u32,
}

/// Greedy rates in the order of accounts' keys.
#[derive(Debug)]
pub struct GreedyFill {
    capacity: Vec<f64>,
    /// Whether every link serves at most one flow, at full rate: all links are equal and no flow was ever capped.
    is_matching: bool,
    measure: Measure,
    running: Running,
    attained: Attained,
    accounts: Vec<Account>,
    /// For each flow that was added: its account.
    account_of: Vec<u32>,
    /// Flows with a cap of their own, and those to be reported once they have so many bytes left.
    caps: BTreeMap<u32, f64>,
    milestones: BTreeMap<u32, f64>,
    /// Accounts with flows, by rank.
    order: Vec<u32>,
    order_changed: bool,
    free: Free,
    /// Accounts that were given flows since the last refill, and those of them that have no rank yet.
    grown: Vec<u32>,
    newcomers: Vec<u32>,
    ended: Vec<u32>,
}

impl GreedyFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            is_matching: capacity.iter().all(|&of_link| of_link == capacity[0]),
            measure: Measure::Bytes,
            running: Running::new(&capacity),
            attained: Attained::default(),
            accounts: Vec::new(),
            account_of: vec![0; flows],
            caps: BTreeMap::new(),
            milestones: BTreeMap::new(),
            order: Vec::new(),
            order_changed: false,
            free: Free::new(capacity.len()),
            grown: Vec::new(),
            newcomers: Vec::new(),
            ended: Vec::new(),
            capacity,
        }
    }

    /// The same, but an account's links go by the flows left on them, and nothing is looked at that has to do with sizes.
    pub fn in_turn(capacity: Vec<f64>, flows: usize) -> Self {
        Self { measure: Measure::Flows, ..Self::new(capacity, flows) }
    }

    fn number_of(&self, slot: u32) -> u32 {
        let Served { account, place, .. } = self.running[slot];
        self.accounts[account as usize].demand.number(place)
    }

    /// Takes note of the rank after which `link` is used up.
    fn note(&mut self, link: u32) {
        self.free.note(link, self.running.used_up_after(link));
    }

    /// The same for all links, after ranks have changed.
    fn note_all(&mut self) {
        self.free.note_all(self.order.len(), |link| self.running.used_up_after(link));
        for (rank, &account) in self.order.iter().enumerate() {
            self.free.number(rank as u32, self.accounts[account as usize].demand.lines());
        }
    }

    /// Starts to serve the flow at a place of an account's demand, which has so much left.
    #[inline]
    fn start(&mut self, account: u32, place: u32, links: [u32; 2], left: f64, rate: f64, now: f64) {
        let Account { demand, rank, .. } = &self.accounts[account as usize];
        let milestone = of_few(&self.milestones, 0.0, || demand.number(place));
        let mut served = Served::new(account, place, links, left);
        (served.rank, served.rate, served.milestone) = (*rank, rate, milestone);
        self.running.start(served, now);
        self.attained.book(account, 0.0, rate, now);
    }

    /// Changes the rate of what is served at `slot`, and what its account has left on its links.
    #[inline]
    fn change(&mut self, slot: u32, rate: f64, now: f64) {
        let before = self.running[slot].rate;
        let sent = self.running.change(slot, rate, now);
        let Served { account, place, links, left, .. } = self.running[slot];
        self.attained.book(account, before, rate, now);
        let demand = &mut self.accounts[account as usize].demand;
        demand.settle(place, links, left, sent);
        if rate == 0.0 {
            self.running.stop(slot);
        }
    }

    /// Where the flow at a place is served, if it is. Its `link` is either of its links.
    fn slot_of(&self, account: u32, place: u32, link: u32) -> Option<u32> {
        let is_it = |served: &Served| served.account == account && served.place == place;
        self.running.on_link(link).find(|&slot| is_it(&self.running[slot]))
    }

    /// Builds the demand of an account that was given flows.
    fn build(&mut self, account: u32, now: f64) {
        let mut flows = std::mem::take(&mut self.accounts[account as usize].fresh);
        if flows.is_empty() {
            return;
        }
        let slots = self.slots_of(account);
        for &slot in &slots {
            self.change(slot, self.running[slot].rate, now);
        }
        let numbers: Vec<u32> = slots.iter().map(|&slot| self.number_of(slot)).collect();
        let holder = &mut self.accounts[account as usize];
        flows.extend(holder.demand.unfinished());
        holder.demand = Demand::new(flows, self.measure);
        for (slot, number) in slots.into_iter().zip(numbers) {
            let (place, _) = holder.demand.find(number).expect("what is served has not finished");
            self.running.replace(slot, place);
        }
        if holder.ranked {
            let rank = holder.rank;
            self.free.number(rank, holder.demand.lines());
            self.offer_all(rank);
        } else if !self.newcomers.contains(&account) {
            self.newcomers.push(account);
            self.order_changed = true;
        }
    }

    /// The slots of all flows of an account that are served.
    fn slots_of(&self, account: u32) -> Vec<u32> {
        let rows = self.accounts[account as usize].demand.rows();
        let slots = rows.flat_map(|row| self.running.on_link(row));
        slots.filter(|&slot| self.running[slot].account == account).collect()
    }

    /// Takes out a flow that has nothing left, and returns its number.
    fn finish(&mut self, slot: u32, now: f64) -> u32 {
        let Served { account, place, links, left, rate, .. } = self.running[slot];
        self.running.stop(slot);
        self.attained.book(account, rate, 0.0, now);
        let holder = &mut self.accounts[account as usize];
        let number = holder.demand.finish(place, links, left);
        self.caps.remove(&number);
        self.milestones.remove(&number);
        holder.flows_left -= 1;
        let (rank, over) = (holder.rank, holder.flows_left == 0);
        if holder.demand.renew() {
            self.free.number(rank, holder.demand.lines());
        }
        for link in links {
            // Where it is a matching, the link is idle, and becomes free as it is offered.
            if !self.is_matching {
                self.note(link);
            }
            self.free.collect(rank, link);
        }
        if over {
            self.retire(account);
        }
        number
    }

    /// The account, place and links of an unfinished flow; `None` where it is not in the solver, or not yet built into
    /// its account's demand.
    fn find(&self, flow: u32) -> Option<(u32, u32, [u32; 2])> {
        let account = self.account_of[flow as usize];
        let (place, links) = self.accounts.get(account as usize)?.demand.find(flow)?;
        Some((account, place, links))
    }

    /// What is served of a flow, if anything is.
    fn served(&self, flow: u32) -> Option<&Served> {
        let (account, place, links) = self.find(flow)?;
        Some(&self.running[self.slot_of(account, place, links[0])?])
    }
}

/// What a map that mostly is empty holds, else `default`.
fn of_few(map: &BTreeMap<u32, f64>, default: f64, key: impl Fn() -> u32) -> f64 {
    if map.is_empty() { default } else { map.get(&key()).copied().unwrap_or(default) }
}

impl Fill for GreedyFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.attained.reserve(count);
        self.accounts.resize_with(count.max(self.accounts.len()), Account::default);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, _now: f64) {
        self.account_of[flow as usize] = accounts[0];
        let account = &mut self.accounts[accounts[0] as usize];
        if account.fresh.is_empty() {
            self.grown.push(accounts[0]);
        }
        account.fresh.push(Flow { number: flow, links, left: bytes });
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
        let cap = cap.unwrap_or(f64::INFINITY);
        if std::mem::replace(&mut self.is_matching, false) {
            self.note_all();
        }
        self.caps.insert(flow, cap);
        let Some((account, place, links)) = self.find(flow) else { return };
        if let Some(slot) = self.slot_of(account, place, links[0])
            && self.running[slot].rate > cap
        {
            self.change(slot, cap, now);
        }
        if self.accounts[account as usize].ranked {
            for link in links {
                self.note(link);
                self.free.collect(self.accounts[account as usize].rank, link);
            }
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        self.milestones.insert(flow, remaining);
        if let Some((account, place, links)) = self.find(flow)
            && let Some(slot) = self.slot_of(account, place, links[0])
        {
            self.running.watch(slot, remaining);
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.attained.watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.attained.unwatch(account);
    }

    fn next(&self) -> f64 {
        self.running.next().min(self.attained.next())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        self.attained.take_due(now, &mut due.accounts);
        let (mut ended, mut reached) = (std::mem::take(&mut self.ended), Vec::new());
        self.running.take_due(now, &mut ended, &mut reached);
        for slot in reached {
            due.flows.push(self.number_of(slot));
            self.milestones.remove(&self.number_of(slot));
        }
        for slot in ended.drain(..) {
            due.finished.push(self.finish(slot, now));
        }
        self.ended = ended;
    }

    fn refill(&mut self, now: f64) {
        for account in std::mem::take(&mut self.grown) {
            self.build(account, now);
        }
        if self.order_changed {
            self.reorder(now);
        }
        self.hand_out(now);
        self.running.update_ends();
        self.attained.update_watches(now);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        let Some((account, place, links)) = self.find(flow) else { return 0.0 };
        match self.slot_of(account, place, links[0]) {
            Some(slot) => self.running[slot].left_at(now),
            None => self.accounts[account as usize].demand.left(place, links),
        }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.served(flow).map_or(0.0, |served| served.rate)
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for (link, rate) in use_of_link.iter_mut().enumerate() {
            *rate += self.running.on_link(link as u32).map(|slot| self.running[slot].rate).sum::<f64>();
        }
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        let Account { demand, fresh, .. } = &self.accounts[account as usize];
        demand.unfinished().chain(fresh.iter().copied()).for_each(|flow| visit(flow.number));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        for (link, mut load) in self.accounts[account as usize].demand.loads() {
            let slots = self.running.on_link(link).map(|slot| &self.running[slot]);
            for served in slots.filter(|served| served.account == account) {
                load -= served.left - served.left_at(now);
            }
            visit(link, load);
        }
    }
}

#[cfg(test)]
mod tests;

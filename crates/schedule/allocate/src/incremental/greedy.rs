//! Greedy filling in order of priority: each flow takes all that its links have left.
//!
//! # The definition
//! Accounts go in order of their keys. Of the flows of one account, those that are being served
//! keep their rates as far as higher ranks leave it to them, in order of number. Then all go in
//! order of the bytes that the account has left on their links, the fullest first: the longest link
//! decides when a coflow ends. Of flows between the same links the one with the lowest number goes
//! first.
//!
//! # The idea
//! On one switch of equal links this is a matching: every link serves one flow at full rate. When a
//! flow ends, only its two links have anything new to give. They are offered down the ranks from
//! the one that they were freed at: an account with an unfinished flow to a partner that is free
//! *at its rank* takes it, possibly from a lower rank, whose other link is then free in turn. With
//! other links a flow takes the least of what all have left, and a link may serve several; links
//! between a row and a column are offered where they were used up. Nothing else differs.
//!
//! # Invariants
//! - At every rank, no unfinished flow has capacity left on both links (after the ranks up to its
//!   own).
//! - A link is offered to every rank from the first that had found it used up to the one that now
//!   uses it up.
//! - A path follows from its row and its column, as [`Fabric`](cavalcade_model::Fabric) has it.
//!
//! # Parts
//! `hand_out` walks down the ranks and decides who gets a link, `order` keeps the ranks, `work` has
//! what is to be looked at. `running` has the flows with a rate, apart from the many that wait;
//! `demand` what an account still wants; `free` which links have something left after which rank.
//!
//! # Cost
//! For each flow that ends: two offers; for each offer, an intersection of two short bit sets at
//! each rank until it is taken, and a scan of the partners in it. Across a fabric a link in between
//! is crossed by more flows than a port's, what is left of it is their sum, and pairs are looked at
//! in groups (`demand`): a whole Facebook trace under `sebf` on a tree of 150 hosts, oversubscribed
//! four times, takes nine times what it does on one switch.
//!
//! # Rejected
//! - Filling from nothing at each event: 15 times slower on the Facebook trace.
//! - A number for each link of an account, the fullest first, so that the first bit of the
//!   intersection is the fullest partner: the numbers are outdated with every flow that ends.
//!   Renumbering after every eighth flow saved a fifth of a run and raised the 95th percentile of
//!   the slowdown from 1.04 to 1.14.

mod demand;
mod free;
mod hand_out;
mod order;
mod running;
mod work;

use std::collections::BTreeMap;

use crate::fill::{Due, Fill, Key, NONE};
use crate::progress::attained::Attained;
use crate::route::Route;
use demand::{Demand, Flow, Measure};
use free::Free;
use running::{NEVER, Reach, Running, Served};
use work::Work;

#[derive(Debug)]
struct Account<const N: usize> {
    key: Key,
    /// Flows that were added since the demand was last built.
    fresh: Vec<Flow<N>>,
    demand: Demand<N>,
    /// The slots of its flows that are served, where paths have links in between: there loads are
    /// needed too often to look for them on all rows.
    served: Vec<u32>,
    flows_left: u32,
    /// Its place in the order; [`NONE`] while it has none.
    rank: u32,
}

impl<const N: usize> Default for Account<N> {
    fn default() -> Self {
        Self {
            key: Key::default(),
            fresh: Vec::new(),
            demand: Demand::default(),
            served: Vec::new(),
            flows_left: 0,
            rank: NONE,
        }
    }
}

/// Greedy rates in the order of accounts' keys, on paths of at most `N` links: two across one
/// switch.
#[derive(Debug)]
pub struct GreedyFill<const N: usize> {
    measure: Measure,
    /// True if a link may serve several flows: capacities differ, or a flow was capped.
    shares_links: bool,
    running: Running<N>,
    attained: Attained,
    accounts: Vec<Account<N>>,
    /// For each flow that was added: its account, and its place in the account's demand ([`NONE`]
    /// until that is built).
    places: Vec<(u32, u32)>,
    /// Flows with a cap of their own, and those to be reported once they have so many bytes left.
    caps: BTreeMap<u32, f64>,
    milestones: BTreeMap<u32, f64>,
    /// Accounts with flows, by rank.
    order: Vec<u32>,
    order_changed: bool,
    free: Free,
    work: Work,
    /// Accounts that were given flows since the last refill, and those of them that have no rank
    /// yet.
    grown: Vec<u32>,
    newcomers: Vec<u32>,
    due: Vec<u32>,
    buffers: hand_out::Buffers<N>,
}

impl<const N: usize> GreedyFill<N> {
    /// Starts without flows on links of these capacities (bytes per nanosecond). Flows are numbered
    /// below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            measure: Measure::Bytes,
            shares_links: capacity.iter().any(|&of_link| of_link != capacity[0]),
            free: Free::new(capacity.len()),
            running: Running::new(capacity),
            attained: Attained::default(),
            accounts: Vec::new(),
            places: vec![(0, NONE); flows],
            caps: BTreeMap::new(),
            milestones: BTreeMap::new(),
            order: Vec::new(),
            order_changed: false,
            work: Work::default(),
            grown: Vec::new(),
            newcomers: Vec::new(),
            due: Vec::new(),
            buffers: hand_out::Buffers::default(),
        }
    }

    /// The same, but an account's links go by the flows left on them, so that nothing is looked at
    /// that has to do with sizes.
    pub fn in_turn(capacity: Vec<f64>, flows: usize) -> Self {
        Self { measure: Measure::Flows, ..Self::new(capacity, flows) }
    }

    /// The cap of a flow; infinite where it has none.
    #[inline]
    fn cap(&self, flow: u32) -> f64 {
        of_few(&self.caps, flow).unwrap_or(f64::INFINITY)
    }

    /// Notes the rank after which `link` is used up, and the first that is to be cut there, if one
    /// is.
    #[inline]
    fn note(&mut self, link: u32) {
        let Reach { used_up, overdrawn } = self.running.reach(link);
        self.free.note(link, used_up);
        if overdrawn != NEVER {
            self.work.contest(overdrawn, link);
        }
    }

    /// Starts to serve a flow.
    #[inline]
    fn start(&mut self, account: u32, place: u32, flow: Flow<N>, rate: f64, now: f64) {
        let Flow { number, route, left, .. } = flow;
        let rank = self.accounts[account as usize].rank;
        let milestone = of_few(&self.milestones, number).unwrap_or(0.0);
        let next = [NONE; N];
        let slot = self.running.start(Served {
            account,
            rank,
            number,
            place,
            route,
            rate,
            left,
            since: now,
            milestone,
            next,
        });
        if N > 2 {
            self.accounts[account as usize].served.push(slot);
        }
        self.attained.book(account, 0.0, rate, now);
    }

    /// Stops to serve the flow at a slot.
    #[inline]
    fn stop(&mut self, slot: u32) {
        self.running.stop(slot);
        if N > 2 {
            let served = &mut self.accounts[self.running[slot].account as usize].served;
            if let Some(at) = served.iter().position(|&other| other == slot) {
                served.swap_remove(at);
            }
        }
    }

    /// Changes the rate of what is served at `slot`, and settles the bytes that it has sent.
    /// Without a rate it is no longer served.
    #[inline]
    fn change(&mut self, slot: u32, rate: f64, now: f64) {
        let Served { account, place, rate: before, .. } = self.running[slot];
        let sent = self.running.change(slot, rate, now);
        self.attained.book(account, before, rate, now);
        self.accounts[account as usize].demand.settle(place, sent);
        if rate == 0.0 {
            self.stop(slot);
        }
    }

    /// Settles the bytes that an account's flows have sent, so that its loads are those of `now`.
    fn settle(&mut self, account: u32, now: f64) {
        let slots = self.slots_of(account);
        let demand = &mut self.accounts[account as usize].demand;
        for slot in slots {
            let sent = self.running.settle(slot, now);
            demand.settle(self.running[slot].place, sent);
        }
    }

    /// Finds the slot of a flow that crosses `link`, if it is served.
    #[inline]
    fn slot_of(&self, flow: u32, link: u32) -> Option<u32> {
        self.running.on_link(link).find(|&slot| self.running[slot].number == flow)
    }

    /// Finds the slots of all flows of an account that are served.
    fn slots_of(&self, account: u32) -> Vec<u32> {
        let Account { demand, served, .. } = &self.accounts[account as usize];
        if N > 2 {
            return served.clone();
        }
        let on_rows = demand.links(0).flat_map(|(row, _)| self.running.on_link(row));
        on_rows.filter(|&slot| self.running[slot].account == account).collect()
    }

    /// Builds the demand of an account that was given flows.
    fn build(&mut self, account: u32, now: f64) {
        self.settle(account, now);
        let slots = self.slots_of(account);
        let holder = &mut self.accounts[account as usize];
        let mut flows = std::mem::take(&mut holder.fresh);
        flows.extend(holder.demand.unfinished().map(|(_, flow)| flow));
        holder.demand = Demand::new(flows, self.measure);
        for (place, flow) in holder.demand.unfinished() {
            self.places[flow.number as usize] = (account, place);
        }
        for slot in slots {
            let (_, place) = self.places[self.running[slot].number as usize];
            self.running.replace(slot, place);
        }
        if holder.rank == NONE {
            self.newcomers.push(account);
            self.order_changed = true;
        } else {
            let rank = holder.rank;
            self.offer_all(rank);
        }
    }

    /// Takes out a flow that has nothing left, and offers its links.
    fn finish(&mut self, slot: u32, now: f64) {
        let Served { account, rank, number, place, route, rate, .. } = self.running[slot];
        self.stop(slot);
        self.attained.book(account, rate, 0.0, now);
        self.caps.remove(&number);
        self.milestones.remove(&number);
        let holder = &mut self.accounts[account as usize];
        holder.demand.finish(place);
        holder.flows_left -= 1;
        let is_over = holder.flows_left == 0;
        self.offer_links(rank, &route);
        if is_over {
            self.retire(account);
        }
    }

    /// Finds an unfinished flow and its account; `None` where it is not in the allocator, or its
    /// account's demand is not built yet.
    fn find(&self, flow: u32) -> Option<(u32, &Flow<N>)> {
        let (account, place) = self.places[flow as usize];
        let found = self.accounts.get(account as usize)?.demand.flow(place)?;
        (found.number == flow).then_some((account, found))
    }

    /// Finds what is served of a flow, if anything is.
    fn served(&self, flow: u32) -> Option<u32> {
        let (_, found) = self.find(flow)?;
        self.slot_of(flow, found.route.ends()[0])
    }
}

/// Looks up what mostly is not there.
#[inline]
fn of_few(map: &BTreeMap<u32, f64>, flow: u32) -> Option<f64> {
    if map.is_empty() { None } else { map.get(&flow).copied() }
}

impl<const N: usize> Fill for GreedyFill<N> {
    fn reserve_accounts(&mut self, count: usize) {
        self.attained.reserve(count);
        self.accounts.resize_with(count.max(self.accounts.len()), Account::default);
    }

    fn reserve_flows(&mut self, count: usize) {
        self.places.resize(count.max(self.places.len()), (0, NONE));
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, _now: f64) {
        self.places[flow as usize] = (accounts[0], NONE);
        let account = &mut self.accounts[accounts[0] as usize];
        if account.fresh.is_empty() {
            self.grown.push(accounts[0]);
        }
        account.fresh.push(Flow::new(flow, Route::new(links), bytes));
        account.flows_left += 1;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let holder = &mut self.accounts[account as usize];
            self.order_changed |= holder.rank != NONE && holder.key != key;
            holder.key = key;
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("the greedy discipline orders coflows; flow {flow} cannot have a priority of its own");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        let cap = cap.unwrap_or(f64::INFINITY);
        self.shares_links = true;
        self.caps.insert(flow, cap);
        let Some((account, &Flow { route, .. })) = self.find(flow) else { return };
        if let Some(slot) = self.slot_of(flow, route.ends()[0])
            && self.running[slot].rate > cap
        {
            self.change(slot, cap, now);
        }
        self.accounts[account as usize].demand.open(&route, true);
        let rank = self.accounts[account as usize].rank;
        if rank != NONE {
            self.offer_links(rank, &route);
            // The flow itself may take more of links that are not used up.
            self.work.offer(rank, (0, route.ends()[0]));
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        self.milestones.insert(flow, remaining);
        if let Some(slot) = self.served(flow) {
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
        let mut slots = std::mem::take(&mut self.due);
        self.running.take_due(now, &mut slots);
        for slot in slots.drain(..) {
            let Served { number, milestone, .. } = self.running[slot];
            if milestone > 0.0 {
                due.flows.push(number);
                self.milestones.remove(&number);
                self.running.watch(slot, 0.0);
            } else {
                due.finished.push(number);
                self.finish(slot, now);
            }
        }
        self.due = slots;
    }

    fn refill(&mut self, now: f64) {
        for account in std::mem::take(&mut self.grown) {
            self.build(account, now);
        }
        if std::mem::take(&mut self.order_changed) {
            self.reorder();
        }
        self.hand_out(now);
        self.attained.update_watches(now);
    }

    fn rebase(&mut self, by: f64) {
        self.running.rebase(by);
        self.attained.rebase(by);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        match self.served(flow) {
            Some(slot) => self.running[slot].left_at(now),
            None => self.find(flow).map_or(0.0, |(_, flow)| flow.left),
        }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.served(flow).map_or(0.0, |slot| self.running[slot].rate)
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for (link, rate) in self.running.links().zip(use_of_link) {
            *rate += self.running.on_link(link).map(|slot| self.running[slot].rate).sum::<f64>();
        }
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        let Account { demand, fresh, .. } = &self.accounts[account as usize];
        demand.unfinished().for_each(|(_, flow)| visit(flow.number));
        fresh.iter().for_each(|flow| visit(flow.number));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let demand = &self.accounts[account as usize].demand;
        for (link, settled) in (0..3).flat_map(|side| demand.links(side)) {
            let slots = self.running.on_link(link).map(|slot| &self.running[slot]);
            let own = slots.filter(|served| served.account == account);
            visit(link, settled - own.map(|served| served.left - served.left_at(now)).sum::<f64>());
        }
    }
}

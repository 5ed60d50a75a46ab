//! Rates on one switch where every link has priorities of its own, as Baraat's have: the rounds of
//! [`reference`](mod@crate::reference)'s definition over vectors of links, and flows in the virtual
//! time of what serves them.
//!
//! # The idea
//! Wide shuffles over few ports have many flows between two links, and those of one class at both
//! ends have one rate. So flows are counted by pair of links ([`classes`]), and a round serves a
//! link with one pass over a vector of the other side's links and a set of bits ([`turns`]); rounds
//! that cannot touch each other are found together ([`rounds`]). At each event the definition is
//! run from its beginning; then what each round serves is compared with what it served before
//! ([`slots`]). On the Facebook trace some 300 rounds serve 100,000 flows, a third of the rounds
//! have another rate than at the event before, and twenty pairs of links come under another round:
//! a rate that changes is one number, and few flows move.
//!
//! # Where links contradict each other in a circle
//! Where no flow that waits is in turn at both ends, as may be under `las:at=link`, rates come from
//! the definition itself, and so they do while a flow has a cap. Baraat's switches rank tasks by
//! one order, of which classes are runs, so the waiting flow with the least id is in turn at both
//! ends: that never is.
//!
//! # Cost
//! An event: O(links) for each batch of rounds, O(ports) for each round, O(flows of its class) for
//! each later class that comes in turn. Memory: O(ports²).
//!
//! # Rejected
//! - To visit the flows in turn: up to 133,000 at an event of the Facebook trace.
//! - To begin at the last rates: where links contradict each other what comes out would depend on
//!   the past.
//! - To go back to the first round that an event touches: on a crowded switch that is one of the
//!   first.
//! - To keep all rounds between events and to check that they stand: a third more code, and most
//!   checks end at a tie.
//! - One key for each flow, the later or the earlier of its two classes: classes of different links
//!   do not compare.

mod classes;
mod leftovers;
mod rounds;
mod slots;
mod turns;
mod watches;

use crate::fill::{Due, Fill, Key, across_switch};
use crate::reference;
use classes::Classes;
use leftovers::Leftovers;
use rounds::Rounds;
use slots::Slots;
use std::collections::BTreeMap;
use turns::Turns;
use watches::{Sent, Watches};

/// Max-min rates in strict classes of each link's own, on one switch.
#[derive(Debug)]
pub struct PerLinkFill {
    capacity: Vec<f64>,
    classes: Classes,
    turns: Turns,
    rounds: Rounds,
    leftovers: Leftovers,
    slots: Slots,
    watches: Watches,
    caps: BTreeMap<u32, f64>,
    /// By account: what it has been reported to have sent. Rounding may not take that back.
    reported: Vec<f64>,
    /// New flows, and flows whose class has changed.
    moved: Vec<u32>,
    /// What links have left.
    left: Vec<f64>,
    due: Vec<u32>,
    next_flow: f64,
    has_changed: bool,
}

impl PerLinkFill {
    /// Creates an allocator for links of these capacities (bytes per nanosecond), first those where
    /// flows enter and then as many where they leave, and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let classes = Classes::new(capacity.len() / 2);
        let links = 2 * classes.lanes;
        Self {
            turns: Turns::new(&capacity, &classes),
            rounds: Rounds::new(links),
            leftovers: Leftovers::new(links),
            slots: Slots::new(links, flows),
            watches: Watches::default(),
            caps: BTreeMap::new(),
            reported: Vec::new(),
            moved: Vec::new(),
            left: capacity.clone(),
            due: Vec::new(),
            next_flow: f64::INFINITY,
            has_changed: false,
            classes,
            capacity,
        }
    }

    /// Computes all rates.
    fn run(&mut self, now: f64) {
        let mut moved = Vec::new();
        self.classes.refresh(&mut moved);
        for account in moved {
            for &(_, flow) in &self.classes.accounts[account as usize].flows {
                self.slots.detach(flow, &self.classes, now);
                self.moved.push(flow);
            }
        }
        self.turns.begin(&self.classes);
        if self.caps.is_empty() && self.rounds.run(&mut self.turns, &self.classes) {
            self.leftovers.share(&mut self.turns, &self.classes);
            self.slots.take_over(&self.turns, &self.classes, &self.moved, now);
            self.slots.raise(&self.leftovers.raises, now);
            for (link, left) in (0..).zip(&mut self.left) {
                *left = self.turns.left[self.classes.number(link)];
            }
        } else {
            self.run_by_definition(now);
        }
        self.moved.clear();
    }

    /// Computes all rates by the definition.
    fn run_by_definition(&mut self, now: f64) {
        let accounts = self.classes.order[..self.classes.lanes].iter().flatten();
        let flows = accounts.flat_map(|&account| &self.classes.accounts[account as usize].flows);
        let mut flows: Vec<u32> = flows.map(|&(_, flow)| flow).collect();
        flows.sort_unstable();
        let records = flows.iter().map(|&flow| self.slots.flows[flow as usize]);
        let paths: Vec<[u32; 2]> =
            records.clone().map(|record| record.links.map(|link| self.classes.link(link))).collect();
        let key = |account: u32| self.classes.accounts[account as usize].key;
        let keys: Vec<[Key; 2]> = records.map(|record| record.accounts.map(key)).collect();
        let asked = flows.iter().zip(paths.iter().zip(&keys)).map(|(flow, (path, keys))| reference::Flow {
            path,
            coflow: 0,
            priorities: keys,
            remaining: 0.0,
            cap: self.caps.get(flow).copied().unwrap_or(f64::INFINITY),
        });
        let rates = reference::per_link(&self.capacity, &asked.collect::<Vec<_>>());
        self.left.copy_from_slice(&self.capacity);
        for (path, rate) in paths.iter().zip(&rates) {
            path.iter().for_each(|&link| self.left[link as usize] -= rate);
        }
        self.slots.serve_alone(flows.into_iter().zip(rates), now);
    }

    fn sent(&self, account: u32, now: f64) -> Sent {
        let record = &self.classes.accounts[account as usize];
        let states = record.flows.iter().map(|&(_, flow)| self.slots.state(flow, &self.classes, now));
        let (left, rate) = states.fold((0.0, 0.0), |sum, state| (sum.0 + state.0, sum.1 + state.1));
        let bytes = (record.added - left).max(self.reported[account as usize]);
        // Without flows it may be at any link next.
        let most = if record.flows.is_empty() { f64::INFINITY } else { self.turns.capacity[record.link] };
        Sent { bytes, rate, most }
    }

    fn look_at_watches(&mut self, now: f64) {
        self.next_flow = self.slots.next_due(now);
        let mut watches = std::mem::take(&mut self.watches);
        watches.look(self.next_flow, |account| self.sent(account, now), now);
        self.watches = watches;
    }
}

impl Fill for PerLinkFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.classes.reserve(count);
        self.reported.resize(count.max(self.reported.len()), 0.0);
    }

    fn reserve_flows(&mut self, count: usize) {
        self.slots.reserve(count);
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, _now: f64) {
        let links = across_switch(links).map(|link| self.classes.number(link));
        let accounts = across_switch(accounts);
        self.slots.add(flow, links, accounts, bytes);
        self.classes.add(flow, links, accounts, bytes);
        self.moved.push(flow);
        self.has_changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            self.has_changed |= self.classes.set_key(account, key);
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("links order coflows; flow {flow} cannot have a priority of its own at one link");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        match cap {
            Some(cap) => self.caps.insert(flow, cap),
            None => self.caps.remove(&flow),
        };
        self.has_changed = true;
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, now: f64) {
        self.slots.watch(flow, remaining, &self.classes);
        self.next_flow = self.slots.next_due(now);
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        let sent = self.sent(account, now);
        self.watches.watch(account, bytes, sent, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.watches.unwatch(account);
    }

    fn next(&self) -> f64 {
        self.next_flow.min(self.watches.next())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reported = &mut self.reported;
        self.watches.take_due(now, &mut due.accounts, |account, bytes| reported[account as usize] = bytes);
        let mut flows = std::mem::take(&mut self.due);
        self.slots.find_due(now, &mut flows);
        for flow in flows.drain(..) {
            if self.slots.take_milestone(flow, &self.classes) {
                due.flows.push(flow);
                continue;
            }
            let record = self.slots.flows[flow as usize];
            self.slots.remove(flow, &self.classes, now);
            self.classes.remove(flow, record.links, record.accounts);
            self.caps.remove(&flow);
            due.finished.push(flow);
            self.has_changed = true;
        }
        self.due = flows;
    }

    fn refill(&mut self, now: f64) {
        if std::mem::take(&mut self.has_changed) {
            self.run(now);
            self.watches.forget_times(now);
        }
        self.look_at_watches(now);
    }

    fn rebase(&mut self, by: f64) {
        self.slots.rebase(by);
        self.watches.rebase(by);
        self.next_flow -= by;
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        if self.slots.is_present(flow) { self.slots.left(flow, &self.classes, now) } else { 0.0 }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.sent(account, now).bytes
    }

    fn rate(&self, flow: u32) -> f64 {
        self.slots.rate(flow, &self.classes)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.classes.accounts[account as usize].flows.iter().for_each(|&(_, flow)| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = vec![0.0; self.capacity.len()];
        for &(_, flow) in &self.classes.accounts[account as usize].flows {
            for link in self.slots.flows[flow as usize].links {
                loads[self.classes.link(link) as usize] += self.slots.left(flow, &self.classes, now);
            }
        }
        for (link, &bytes) in (0..).zip(&loads).filter(|(_, bytes)| **bytes > 0.0) {
            visit(link, bytes);
        }
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for (of_link, (capacity, left)) in use_of_link.iter_mut().zip(self.capacity.iter().zip(&self.left)) {
            *of_link += (capacity - left).max(0.0);
        }
    }
}

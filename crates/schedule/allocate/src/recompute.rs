//! Any discipline on any fabric, by its definition: rates are computed from scratch whenever
//! anything has changed.
//!
//! It knows nothing of how rates come about ([`reference`](crate::reference)), and keeps only what
//! was sent. Amounts stand as of the time at which rates were computed, and rates are constant
//! after that, so an event that changes no rate costs no more than what it is about. So this is
//! what the other allocators are tested against, what `--allocator reference` runs, and what
//! carries out the disciplines that have no incremental allocator on a fabric.
//!
//! # Cost
//! O(flows × (hops + log flows)) whenever rates are computed, which for all disciplines but MADD is
//! at each event; O(log flows) at an event between.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Discipline, Priority, Scope, Terms};

use crate::fill::{Due, Fill};
use crate::progress::attained::Attained;
use crate::progress::ends::{Ends, Sending};
use crate::progress::tolerance::TOLERANCE;
use crate::reference::{self, Past};

#[derive(Clone, Debug)]
struct Flow {
    path: Box<[u32]>,
    /// Its account; where links have priorities of their own, one for each link.
    accounts: Box<[u32]>,
    /// The priorities of its accounts, or its own.
    priorities: Box<[Priority]>,
    cap: f64,
    sending: Sending,
}

#[derive(Clone, Debug, Default)]
struct Account {
    priority: Priority,
    /// How many accounts had come before it; `None` until it has a flow.
    came: Option<u32>,
    flows: BTreeSet<u32>,
}

/// A change since rates were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    None,
    /// Flows have ended, but no coflow.
    FlowsEnded,
    Any,
}

/// Rates by the definition of the discipline.
#[derive(Debug)]
pub struct Recompute {
    terms: Terms,
    capacity: Vec<f64>,
    /// Unfinished flows by number.
    flows: BTreeMap<u32, Flow>,
    accounts: Vec<Account>,
    /// Number of accounts that have come.
    came: u32,
    attained: Attained,
    /// Time at which rates were computed.
    since: f64,
    ends: Ends,
    change: Change,
    /// Time at which the order changes although nothing else happens.
    overtaking: f64,
}

impl Recompute {
    /// Creates an allocator for links of these capacities (bytes per nanosecond).
    pub fn new(terms: &Terms, capacity: Vec<f64>) -> Self {
        Self {
            terms: terms.clone(),
            capacity,
            flows: BTreeMap::new(),
            accounts: Vec::new(),
            came: 0,
            attained: Attained::default(),
            since: 0.0,
            ends: Ends::default(),
            change: Change::None,
            overtaking: f64::INFINITY,
        }
    }

    fn note(&mut self, change: Change) {
        self.change = self.change.max(change);
    }

    /// The flows of an account. Those of a coflow mostly have numbers that follow each other.
    fn flows_of(&self, account: u32) -> impl Iterator<Item = &Flow> {
        let own = &self.accounts[account as usize].flows;
        let (first, last) = (own.first().copied().unwrap_or(0), own.last().map_or(0, |&last| last + 1));
        let near = self.flows.range(first..last).map(|(_, flow)| flow);
        near.filter(move |flow| flow.accounts.contains(&account))
    }

    /// Notes that the end of a flow has changed.
    fn update_end(&mut self, flow: u32) {
        let (flows, since) = (&self.flows, self.since);
        let end = |flow| flows.get(&flow).map_or(f64::INFINITY, |flow: &Flow| flow.sending.end(since));
        self.ends.update(flow, end);
    }

    /// Tells whether rates are still those of the definition: MADD's stay until coflows or their
    /// order change.
    fn is_settled(&self) -> bool {
        let stays = if self.terms.discipline == Discipline::Madd { Change::FlowsEnded } else { Change::None };
        self.change <= stays
    }

    /// Computes rates. Large workloads do not fit in the caches, so flows are passed over once
    /// before and once after.
    fn compute(&mut self, now: f64) {
        let time = now - std::mem::replace(&mut self.since, now);
        let count = self.flows.len();
        let (mut flows, mut before) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for flow in self.flows.values_mut() {
            flow.sending.left = flow.sending.left_after(time);
            before.push(flow.sending.rate);
            flows.push(reference::Flow {
                path: &flow.path,
                coflow: self.accounts[flow.accounts[0] as usize].came.expect("it has a flow"),
                priorities: &flow.priorities,
                remaining: flow.sending.left,
                cap: flow.cap,
            });
        }
        let past = Past { rates: &before, same_coflows: self.change < Change::Any };
        let rates = reference::allocate(&self.terms, &self.capacity, &flows, past);
        if self.terms.discipline == Discipline::ShortestFlow {
            self.overtaking = now + reference::next_overtaking(&flows, &rates);
        }
        for (flow, rate) in self.flows.values_mut().zip(rates) {
            let before = std::mem::replace(&mut flow.sending.rate, rate);
            flow.accounts.iter().for_each(|&account| self.attained.book(account, before, rate, now));
        }
        self.renew_ends();
    }

    fn renew_ends(&mut self) {
        let ends = self.flows.iter().map(|(&number, flow)| (flow.sending.end(self.since), number));
        self.ends.renew(ends);
    }

    fn remove(&mut self, number: u32, now: f64) {
        let flow = self.flows.remove(&number).expect("what ends is there");
        self.note(Change::FlowsEnded);
        for &account in &flow.accounts {
            self.attained.book(account, flow.sending.rate, 0.0, now);
            let others = &mut self.accounts[account as usize].flows;
            others.remove(&number);
            if others.is_empty() {
                self.change = Change::Any;
            }
        }
    }
}

impl Fill for Recompute {
    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.attained.reserve(count);
    }

    fn add(&mut self, flow: u32, path: &[u32], accounts: &[u32], bytes: f64, _now: f64) {
        let accounts = if self.terms.scope == Scope::Link { accounts } else { &accounts[..1] };
        let priority = |&account: &u32| self.accounts[account as usize].priority;
        let record = Flow {
            path: path.into(),
            accounts: accounts.into(),
            priorities: accounts.iter().map(priority).collect(),
            cap: f64::INFINITY,
            sending: Sending::new(bytes),
        };
        self.flows.insert(flow, record);
        for &account in accounts {
            let account = &mut self.accounts[account as usize];
            account.flows.insert(flow);
            if account.came.is_none() {
                account.came = Some(self.came);
                self.came += 1;
            }
        }
        self.note(Change::Any);
    }

    fn set_account_keys(&mut self, keys: &[(u32, Priority)], _now: f64) {
        for &(account, priority) in keys {
            self.accounts[account as usize].priority = priority;
            for flow in &self.accounts[account as usize].flows {
                let flow = self.flows.get_mut(flow).expect("an account's flows are there");
                let at = flow.accounts.iter().position(|&other| other == account);
                let old = &mut flow.priorities[at.expect("a flow of the account")];
                if std::mem::replace(old, priority) != priority {
                    self.change = Change::Any;
                }
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, priority: Priority, _now: f64) {
        assert!(
            self.terms.scope != Scope::Link
                && matches!(self.terms.discipline, Discipline::MaxMin | Discipline::ShortestFlow),
            "this discipline orders coflows: flow {flow} cannot have a priority of its own"
        );
        if let Some(record) = self.flows.get_mut(&flow)
            && std::mem::replace(&mut record.priorities[0], priority) != priority
        {
            self.note(Change::Any);
        }
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        if let Some(record) = self.flows.get_mut(&flow) {
            record.cap = cap.unwrap_or(f64::INFINITY);
            self.note(Change::Any);
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        if let Some(record) = self.flows.get_mut(&flow) {
            record.sending.milestone = remaining;
            self.update_end(flow);
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.attained.watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.attained.unwatch(account);
    }

    fn forget_account(&mut self, account: u32) -> bool {
        assert!(
            self.accounts[account as usize].flows.is_empty(),
            "an account that is forgotten has no flows"
        );
        self.accounts[account as usize] = Account::default();
        self.attained.forget(account);
        true
    }

    fn next(&self) -> f64 {
        self.ends.next().min(self.overtaking).min(self.attained.next())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + TOLERANCE;
        if self.overtaking <= reach {
            self.overtaking = f64::INFINITY;
            self.note(Change::FlowsEnded);
        }
        self.attained.take_due(now, &mut due.accounts);
        while let Some(number) = self.ends.first_until(reach) {
            let flow = self.flows.get_mut(&number).expect("the first entry is not outdated");
            if flow.sending.milestone > 0.0 {
                flow.sending.milestone = 0.0;
                due.flows.push(number);
            } else {
                due.finished.push(number);
                self.remove(number, now);
            }
            self.update_end(number);
        }
    }

    fn refill(&mut self, now: f64) {
        if !self.is_settled() {
            self.compute(now);
            self.change = Change::None;
        }
        self.attained.update_watches(now);
    }

    fn rebase(&mut self, by: f64) {
        self.since -= by;
        self.overtaking -= by;
        self.attained.rebase(by);
        self.renew_ends();
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.flows.get(&flow).map_or(0.0, |flow| flow.sending.left_after(now - self.since))
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.flows.get(&flow).map_or(0.0, |flow| flow.sending.rate)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts[account as usize].flows.iter().for_each(|&flow| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = vec![0.0; self.capacity.len()];
        for flow in self.flows_of(account) {
            let left = flow.sending.left_after(now - self.since);
            flow.path.iter().for_each(|&link| loads[link as usize] += left);
        }
        let loads = (0..).zip(loads).filter(|&(_, bytes)| bytes > 0.0);
        loads.for_each(|(link, bytes)| visit(link, bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for flow in self.flows.values() {
            flow.path.iter().for_each(|&link| use_of_link[link as usize] += flow.sending.rate);
        }
    }
}

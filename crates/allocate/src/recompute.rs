//! Any discipline on any fabric, by its definition: rates are computed from scratch whenever anything has changed.
//!
//! It knows nothing of how rates come about ([`reference`](crate::reference)), and keeps only what was sent: one record for
//! each flow, settled at every event. So it is what the other allocators are tested against, what `--allocator reference`
//! runs, and what carries out the disciplines that have no incremental allocator on a fabric.
//!
//! # Cost
//! O(flows × (hops + log flows)) for each event: small workloads, and disciplines that nobody runs on ten thousand hosts.

use std::collections::BTreeMap;

use cavalcade_model::{Discipline, Priority, Scope, Terms};

use crate::fill::{Due, Fill};
use crate::progress::tolerance::{reaches_at, tolerance};
use crate::reference::{self, Past};

#[derive(Clone, Debug)]
struct Flow {
    path: Box<[u32]>,
    /// Its account; where links have priorities of their own, one for each link.
    accounts: Box<[u32]>,
    /// The priorities of its accounts, or its own.
    priorities: Box<[Priority]>,
    cap: f64,
    left: f64,
    rate: f64,
    /// Bytes left at which it is next reported.
    milestone: f64,
}

#[derive(Clone, Debug)]
struct Account {
    priority: Priority,
    /// Flows, in the order in which they were added.
    flows: Vec<u32>,
    sent: f64,
    rate: f64,
    /// The amount at which it is reported.
    watch: f64,
}

const UNKNOWN: Account =
    Account { priority: Priority::new(0, 0), flows: Vec::new(), sent: 0.0, rate: 0.0, watch: f64::INFINITY };

/// What has happened since rates were computed.
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
    /// The time up to which what was sent is settled.
    now: f64,
    change: Change,
    /// When the order changes although nothing else happens.
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
            now: 0.0,
            change: Change::None,
            overtaking: f64::INFINITY,
        }
    }

    fn note(&mut self, change: Change) {
        self.change = self.change.max(change);
    }

    /// Adds up what has been sent until `now`.
    fn settle(&mut self, now: f64) {
        let time = std::mem::replace(&mut self.now, now);
        let time = now - time;
        for flow in self.flows.values_mut() {
            flow.left = (flow.left - flow.rate * time).max(0.0);
        }
        for account in &mut self.accounts {
            account.sent += account.rate * time;
        }
    }

    fn compute(&mut self) {
        let flows: Vec<reference::Flow<'_>> = (self.flows.values())
            .map(|flow| reference::Flow {
                path: &flow.path,
                coflow: flow.accounts[0],
                priorities: &flow.priorities,
                remaining: flow.left,
                cap: flow.cap,
            })
            .collect();
        let before: Vec<f64> = self.flows.values().map(|flow| flow.rate).collect();
        let past = Past { rates: &before, same_coflows: self.change < Change::Any };
        let rates = reference::allocate(&self.terms, &self.capacity, &flows, past);
        if self.terms.discipline == Discipline::ShortestFlow {
            self.overtaking = self.now + reference::next_overtaking(&flows, &rates);
        }
        self.accounts.iter_mut().for_each(|account| account.rate = 0.0);
        for (flow, rate) in self.flows.values_mut().zip(rates) {
            flow.rate = rate;
            flow.accounts.iter().for_each(|&account| self.accounts[account as usize].rate += rate);
        }
    }

    fn remove(&mut self, number: u32) {
        let flow = self.flows.remove(&number).expect("what ends is there");
        let mut change = Change::FlowsEnded;
        for &account in &flow.accounts {
            let account = &mut self.accounts[account as usize];
            account.flows.retain(|&other| other != number);
            account.rate -= flow.rate;
            if account.flows.is_empty() {
                account.rate = 0.0;
                change = Change::Any;
            }
        }
        self.note(change);
    }
}

impl Fill for Recompute {
    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), UNKNOWN);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.add_along(flow, &links, &accounts, bytes, now);
    }

    fn add_along(&mut self, flow: u32, path: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        self.settle(now);
        let accounts = if self.terms.scope == Scope::Link { accounts } else { &accounts[..1] };
        let priority = |&account: &u32| self.accounts[account as usize].priority;
        let record = Flow {
            path: path.into(),
            accounts: accounts.into(),
            priorities: accounts.iter().map(priority).collect(),
            cap: f64::INFINITY,
            left: bytes,
            rate: 0.0,
            milestone: 0.0,
        };
        self.flows.insert(flow, record);
        for &account in accounts {
            self.accounts[account as usize].flows.push(flow);
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
            record.milestone = remaining;
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, _now: f64) {
        self.accounts[account as usize].watch = bytes;
    }

    fn unwatch_account(&mut self, account: u32) {
        self.accounts[account as usize].watch = f64::INFINITY;
    }

    fn forget_account(&mut self, account: u32) {
        assert!(
            self.accounts[account as usize].flows.is_empty(),
            "an account that is forgotten has no flows"
        );
        self.accounts[account as usize] = UNKNOWN;
    }

    fn next(&self) -> f64 {
        let flows = self.flows.values().filter(|flow| flow.rate > 0.0);
        let flows = flows.map(|flow| self.now + (flow.left - flow.milestone).max(0.0) / flow.rate);
        let accounts = self.accounts.iter().filter(|account| account.watch < f64::INFINITY);
        let accounts =
            accounts.map(|account| reaches_at(account.watch - account.sent, account.rate, self.now));
        flows.chain(accounts).fold(self.overtaking, f64::min)
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        self.settle(now);
        let within = tolerance(now);
        if self.overtaking <= now + within {
            self.overtaking = f64::INFINITY;
            self.note(Change::FlowsEnded);
        }
        for (number, account) in self.accounts.iter_mut().enumerate() {
            if account.watch < f64::INFINITY
                && reaches_at(account.watch - account.sent, account.rate, now) <= now + within
            {
                // Rounding may not take back what is reported as reached.
                account.sent = account.sent.max(account.watch);
                account.watch = f64::INFINITY;
                due.accounts.push(number as u32);
            }
        }
        let first = due.finished.len();
        for (&number, flow) in &mut self.flows {
            if flow.rate > 0.0 && flow.left - flow.milestone <= flow.rate * within {
                if flow.milestone > 0.0 {
                    flow.milestone = 0.0;
                    due.flows.push(number);
                } else {
                    due.finished.push(number);
                }
            }
        }
        for index in first..due.finished.len() {
            self.remove(due.finished[index]);
        }
    }

    fn refill(&mut self, now: f64) {
        self.settle(now);
        if self.change > Change::None {
            self.compute();
            self.change = Change::None;
        }
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.flows.get(&flow).map_or(0.0, |flow| (flow.left - flow.rate * (now - self.now)).max(0.0))
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        let account = &self.accounts[account as usize];
        account.sent + account.rate * (now - self.now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.flows.get(&flow).map_or(0.0, |flow| flow.rate)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts[account as usize].flows.iter().for_each(|&flow| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = BTreeMap::new();
        for &flow in &self.accounts[account as usize].flows {
            for &link in &self.flows[&flow].path {
                *loads.entry(link).or_insert(0.0) += self.remaining(flow, now);
            }
        }
        loads.into_iter().for_each(|(link, bytes)| visit(link, bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for flow in self.flows.values() {
            flow.path.iter().for_each(|&link| use_of_link[link as usize] += flow.rate);
        }
    }
}

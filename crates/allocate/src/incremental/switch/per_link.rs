//! Rates on one switch where every link has priorities of its own: the rounds of
//! [`reference`](mod@crate::reference)'s definition, without looking at everything in each.
//!
//! # The idea
//! A link keeps how many flows are in turn there, how many of these are in turn at both of their links, and what it has
//! left. It is looked at again only when one of these has changed, or the lower link for which it waits. A class is opened
//! when the one before it has its rates, so flows that no capacity is left for are never touched. Rates that come out as
//! they were are not written.
//!
//! # Cost
//! An event: O(flows that are in turn anywhere), each of which is visited a handful of times, and for each round in which links
//! contradict each other one pass over the links.
//!
//! That is too much for the Facebook trace, where neither `baraat` nor `las:at=link` was run to its end. Once wide shuffles share
//! links, `baraat` serves some 28,000 flows at a time, and a third of their rates change with each event. Its first 175 coflows
//! of 526 end after 1.2 processor seconds; another 15 minutes later fewer than 225 have. Under `las:at=link` the first 175
//! take 21 seconds.
//!
//! # Rejected
//! - To begin at the last rates: where links contradict each other what comes out would depend on the past.
//! - To go back to the first round that an event touches: on a crowded switch that is one of the first.
//! - Rounds as a link, a rate and a set of bits, and flows of one set served in a virtual time of their own, so that a change of
//!   rate costs nothing for each flow (commit `6a28b2c`, taken back): three times the code, 20,000 events of `las:at=link` on
//!   the Facebook trace in 4.0 processor seconds for about 13, and still no end of that trace in sight; on Sincronia's trace of 200
//!   coflows, where 16 ports have few flows each, 1.0 for 0.49. Up to the 900th second of `baraat` an event changes the rates of
//!   10,000 flows but of only 100 of its 250 rounds: a next attempt has to keep rounds between events.
//! - Rows and columns of flows as sets of bits, counted 64 flows at a time, with rates written for each flow (650 lines): no faster,
//!   to the 10,000th event of `las:at=link` 5.0 processor seconds for 4.1, of `baraat` about as long. Counting was not what cost
//!   most; writing rates and giving out again what is left is half of it.

mod turns;

use crate::fill::{Due, Fill, Key, across_switch};
use crate::progress::service::{Service, leave_to_service};
use crate::route::Route;
use turns::Turns;

/// The flows of a coflow at one link.
#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    link: u32,
    /// In ascending order.
    flows: Vec<u32>,
}

/// The classes of a link, in order.
#[derive(Clone, Copy, Debug)]
struct Order<'a> {
    accounts: &'a [Account],
    on_link: &'a [Vec<u32>],
}

impl Order<'_> {
    fn key(&self, account: u32) -> Key {
        self.accounts[account as usize].key
    }

    /// The accounts of the class that begins at a place in a link's order; none at its end.
    fn class(&self, link: u32, begin: usize) -> &[u32] {
        let rest = &self.on_link[link as usize][begin..];
        let end = rest.iter().position(|&account| self.key(account) != self.key(rest[0]));
        &rest[..end.unwrap_or(rest.len())]
    }
}

/// Max-min rates in strict classes of each link's own, on one switch.
#[derive(Debug)]
pub struct PerLinkFill {
    service: Service<2>,
    accounts: Vec<Account>,
    /// Accounts with flows, by link, in order of key.
    on_link: Vec<Vec<u32>>,
    unsorted: Vec<bool>,
    turns: Turns,
    changed: bool,
}

impl PerLinkFill {
    /// Creates an allocator for links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let links = capacity.len();
        Self {
            service: Service::new(links, flows),
            accounts: Vec::new(),
            on_link: vec![Vec::new(); links],
            unsorted: vec![false; links],
            turns: Turns::new(capacity, flows),
            changed: false,
        }
    }

    fn join(&mut self, flow: u32, account: u32, link: u32) {
        let record = &mut self.accounts[account as usize];
        record.link = link;
        if record.flows.is_empty() {
            self.on_link[link as usize].push(account);
            self.unsorted[link as usize] = true;
        }
        let at = record.flows.partition_point(|&other| other < flow);
        record.flows.insert(at, flow);
    }

    fn leave(&mut self, flow: u32, account: u32) {
        let record = &mut self.accounts[account as usize];
        let at = record.flows.binary_search(&flow).expect("a flow is in the list of its account");
        record.flows.remove(at);
        if record.flows.is_empty() {
            self.on_link[record.link as usize].retain(|&other| other != account);
        }
    }

    fn sort(&mut self) {
        for (on_link, unsorted) in self.on_link.iter_mut().zip(&mut self.unsorted) {
            if std::mem::take(unsorted) {
                on_link.sort_unstable_by_key(|&account| (self.accounts[account as usize].key, account));
            }
        }
    }
}

impl Fill for PerLinkFill {
    leave_to_service!(with links);

    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        let links = across_switch(links);
        self.service.add(flow, Route::new(&links), accounts, bytes, now);
        self.turns.add(flow, links);
        for side in 0..2 {
            self.join(flow, accounts[side], links[side]);
        }
        self.changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let record = &mut self.accounts[account as usize];
            if std::mem::replace(&mut record.key, key) != key && !record.flows.is_empty() {
                self.unsorted[record.link as usize] = true;
                self.changed = true;
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("links order coflows; flow {flow} cannot have a priority of its own at one link");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        self.service.flows[flow as usize].cap = cap.unwrap_or(f64::INFINITY);
        self.turns.has_caps |= cap.is_some();
        self.changed = true;
    }

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let accounts = self.service.flows[flow as usize].accounts;
            self.service.remove(flow, now);
            accounts.into_iter().for_each(|account| self.leave(flow, account));
            self.changed = true;
        }
    }

    fn refill(&mut self, now: f64) {
        if std::mem::take(&mut self.changed) {
            self.sort();
            let order = Order { accounts: &self.accounts, on_link: &self.on_link };
            self.turns.run(order, &self.service);
            self.turns.write(&mut self.service, now);
        }
        self.service.finish_refill(now);
    }

    fn rebase(&mut self, by: f64) {
        self.service.rebase(by);
    }
}

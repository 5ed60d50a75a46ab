//! What accounts have been sent, and when that reaches the amounts that are watched.
//!
//! An account's bytes are added up from its flows when they are asked for, which is seldom. A watched amount is predicted only
//! where it can be reached before anything else happens: its link's capacity says how soon at best.

use super::fans::Fans;
use super::servers::Servers;
use crate::fill::{Due, Key};
use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::{reaches_at, tolerance};

/// The flows of a coflow at one link.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) key: Key,
    pub(super) lane: u32,
    /// By layer; none where it has no flows.
    pub(super) fans: Vec<u32>,
    pub(super) flows: u32,
    /// Flows that are served.
    served: u32,
    /// Bytes of all flows that it ever had.
    pub(super) added: f64,
    watch: f64,
    /// The largest amount that it was reported to have reached: rounding may not take it back.
    reached: f64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            key: Key::default(),
            lane: 0,
            fans: Vec::new(),
            flows: 0,
            served: 0,
            added: 0.0,
            watch: f64::INFINITY,
            reached: 0.0,
        }
    }
}

impl Account {
    /// Calls `visit` with every flow of the account and the lane at its other end.
    pub(super) fn visit(&self, fans: &Fans, mut visit: impl FnMut(u32, u32)) {
        for &fan in &self.fans {
            fans.fan(fan).flows.iter().for_each(|&(lane, flow)| visit(flow, lane));
        }
    }
}

/// All accounts.
#[derive(Debug)]
pub(super) struct Accounts {
    capacity: Vec<f64>,
    accounts: Vec<Account>,
    /// Before these times no account reaches its amount, at whatever rate.
    soonest: MinTree,
    places: Vec<u32>,
}

impl Accounts {
    /// For links of these capacities, by lane.
    pub(super) fn new(capacity: Vec<f64>) -> Self {
        Self { capacity, accounts: Vec::new(), soonest: MinTree::new(0), places: Vec::new() }
    }

    pub(super) fn reserve(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.soonest.reserve(count);
    }

    pub(super) fn get(&self, account: u32) -> &Account {
        &self.accounts[account as usize]
    }

    pub(super) fn get_mut(&mut self, account: u32) -> &mut Account {
        &mut self.accounts[account as usize]
    }

    /// Notes that a flow of the account begins to be served.
    pub(super) fn start(&mut self, account: u32, now: f64) {
        let record = &mut self.accounts[account as usize];
        record.served += 1;
        if record.served == 1 && record.watch < f64::INFINITY {
            self.soonest.set(account as usize, now);
        }
    }

    /// Notes that a flow of the account is not served any more.
    pub(super) fn stop(&mut self, account: u32) {
        let record = &mut self.accounts[account as usize];
        record.served -= 1;
        if record.served == 0 {
            self.soonest.set(account as usize, f64::INFINITY);
        }
    }

    pub(super) fn watch(&mut self, account: u32, bytes: f64, now: f64) {
        self.accounts[account as usize].watch = bytes;
        self.soonest.set(account as usize, now);
    }

    pub(super) fn unwatch(&mut self, account: u32) {
        self.accounts[account as usize].watch = f64::INFINITY;
        self.soonest.set(account as usize, f64::INFINITY);
    }

    /// Bytes that an account has been sent in all.
    pub(super) fn sent(&self, account: u32, fans: &Fans, servers: &Servers, now: f64) -> f64 {
        let record = &self.accounts[account as usize];
        let mut left = 0.0;
        record.visit(fans, |flow, _| left += servers.remaining(flow, now));
        (record.added - left).max(record.reached)
    }

    /// Returns when an account reaches its amount at the present rates. Notes how soon it could at any.
    fn predict(&mut self, account: u32, fans: &Fans, servers: &Servers, now: f64) -> f64 {
        let sent = self.sent(account, fans, servers, now);
        let record = &self.accounts[account as usize];
        let mut rate = 0.0;
        record.visit(fans, |flow, _| rate += servers.rate(flow));
        let missing = record.watch - sent;
        let at = reaches_at(missing, rate, now);
        let soonest = reaches_at(missing, self.capacity[record.lane as usize], now);
        // What is not served need not be looked at until it is.
        let soonest = if at < f64::INFINITY { soonest.min(at) } else { at };
        self.soonest.set(account as usize, soonest);
        at
    }

    /// After rates have changed: when the first account reaches its amount, if that is before `limit`.
    pub(super) fn next(&mut self, limit: f64, fans: &Fans, servers: &Servers, now: f64) -> f64 {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.soonest.up_to(limit.min(f64::MAX), &mut places);
        let at = |&account: &u32| self.predict(account, fans, servers, now);
        let next = places.iter().map(at).fold(limit, f64::min);
        self.places = places;
        next
    }

    /// Moves the accounts that have reached their amounts to `due`.
    pub(super) fn take_due(&mut self, fans: &Fans, servers: &Servers, now: f64, due: &mut Due) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.soonest.up_to(now + tolerance(now), &mut places);
        for &account in &places {
            if self.predict(account, fans, servers, now) > now {
                continue;
            }
            let record = &mut self.accounts[account as usize];
            record.reached = record.watch;
            self.unwatch(account);
            due.accounts.push(account);
        }
        self.places = places;
    }
}

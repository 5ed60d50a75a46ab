//! What accounts have been sent, and when a watched one reaches its amount.
//!
//! What an account has sent is what it was given less what its flows have left, worked out when
//! asked. Only a watched account needs more: when it will have sent so much. Where it has one flow,
//! as a coflow mostly has at one host, that is a milestone of the flow and costs nothing when rates
//! change. Else the account is *booked*: the sum of its flows' rates is kept up to date while it is
//! watched.

use super::PathFill;
use super::cell::Seat;
use crate::fill::NONE;
use crate::fill::{Due, Key};
use crate::progress::tolerance::reaches_at;

/// The part of an account that is touched whenever one of its flows comes or goes: a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Account {
    pub(super) key: Key,
    pub(super) flows: Vec<u32>,
    /// Bytes of all flows that ever joined.
    pub(super) added: f64,
    /// The watched amount; infinite where there is none.
    watch: f64,
    /// The flow that has the watched amount as a milestone.
    solo: u32,
    /// True if rates are summed up.
    booked: bool,
    outdated: bool,
    /// True if it is known when it reaches its amount.
    timed: bool,
}

/// Of a booked account: the sum of its flows' rates, and what was sent by `since`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Booked {
    rate: f64,
    sent: f64,
    since: f64,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            key: Key::default(),
            flows: Vec::new(),
            added: 0.0,
            watch: f64::INFINITY,
            solo: NONE,
            booked: false,
            outdated: false,
            timed: false,
        }
    }
}

impl Account {
    /// Forgets everything, but keeps the room of the list.
    pub(super) fn renew(&mut self) {
        *self = Self { flows: std::mem::take(&mut self.flows), ..Self::default() };
    }
}

impl PathFill {
    pub(super) fn join_account(&mut self, flow: u32, account: u32, bytes: f64, now: f64) {
        let record = &mut self.accounts[account as usize];
        self.flows[flow as usize].seat = Seat { account, place: record.flows.len() as u32 };
        record.flows.push(flow);
        record.added += bytes;
        if record.watch < f64::INFINITY {
            self.follow(account, now);
        }
    }

    /// Takes a flow that no cell holds out of its account.
    pub(super) fn leave_account(&mut self, flow: u32, now: f64) {
        let Seat { account, place } = self.flows[flow as usize].seat;
        // Its solo milestone goes with it.
        let record = &mut self.accounts[account as usize];
        record.flows.swap_remove(place as usize);
        if let Some(&moved) = record.flows.get(place as usize) {
            self.flows[moved as usize].seat.place = place;
        }
        if record.watch < f64::INFINITY && (!record.booked || record.flows.len() < 2) {
            self.follow(account, now);
        }
    }

    pub(super) fn watch(&mut self, account: u32, bytes: f64, now: f64) {
        self.accounts[account as usize].watch = bytes;
        self.follow(account, now);
    }

    pub(super) fn unwatch(&mut self, account: u32) {
        self.forget_way(account);
        self.accounts[account as usize].watch = f64::INFINITY;
        self.set_time(account, f64::INFINITY);
    }

    /// Notes when an account reaches its amount; infinity where that is not known.
    fn set_time(&mut self, account: u32, at: f64) {
        let record = &mut self.accounts[account as usize];
        // Mostly it was not known and is not: the tree need not hear of it.
        if std::mem::replace(&mut record.timed, at < f64::INFINITY) || record.timed {
            self.watches.set(account as usize, at);
        }
    }

    fn forget_way(&mut self, account: u32) {
        let record = &mut self.accounts[account as usize];
        self.booked -= usize::from(std::mem::take(&mut record.booked));
        let solo = std::mem::replace(&mut record.solo, NONE);
        if solo != NONE && self.flows[solo as usize].solo_of == account {
            self.flows[solo as usize].solo_of = NONE;
            self.flows[solo as usize].solo = 0.0;
            if self.flows[solo as usize].hops > 0 {
                self.remark(solo);
            }
        }
    }

    /// Chooses how a watched account is followed from now on.
    fn follow(&mut self, account: u32, now: f64) {
        self.forget_way(account);
        self.set_time(account, f64::INFINITY);
        if self.accounts[account as usize].added < self.accounts[account as usize].watch {
            // Only what is still to come can make up the amount; then it is chosen again.
            return;
        }
        let flows = std::mem::take(&mut self.accounts[account as usize].flows);
        let left: f64 = flows.iter().map(|&flow| self.bytes_left(flow, now)).sum();
        let rate: f64 = flows.iter().map(|&flow| self.rate_of(flow)).sum();
        let record = &mut self.accounts[account as usize];
        let sent = record.added - left;
        let missing = record.watch - sent;
        if reaches_at(missing, rate, now) <= now {
            self.set_time(account, now);
        } else if let [flow] = *flows
            && self.flows[flow as usize].solo_of == NONE
        {
            record.solo = flow;
            self.flows[flow as usize].solo_of = account;
            self.flows[flow as usize].solo = (left - missing).max(0.0);
            self.remark(flow);
        } else if !flows.is_empty() {
            self.booked += 1;
            record.booked = true;
            self.rates[account as usize] = Booked { rate, sent, since: now };
            for &flow in &flows {
                self.flows[flow as usize].booked = true;
                // From now on it matters how the level that it is held at moves.
                self.cells.hot[self.routes[flow as usize].held_by as usize].safe = -1.0;
            }
            self.outdate_watch(account);
        }
        self.accounts[account as usize].flows = flows;
    }

    fn outdate_watch(&mut self, account: u32) {
        if !std::mem::replace(&mut self.accounts[account as usize].outdated, true) {
            self.watches_outdated.push(account);
        }
    }

    /// Returns whether an account that is watched by its rate counts this flow, or has.
    pub(super) fn is_booked(&self, flow: u32) -> bool {
        self.booked > 0 && self.flows[flow as usize].booked
    }

    /// Notes that the rate of a flow changes by so much.
    pub(super) fn book(&mut self, flow: u32, change: f64, now: f64) {
        if !self.is_booked(flow) {
            return;
        }
        let account = self.flows[flow as usize].seat.account;
        if self.accounts[account as usize].booked {
            let record = &mut self.rates[account as usize];
            record.sent += record.rate * (now - record.since);
            record.since = now;
            record.rate += change;
            self.outdate_watch(account);
        }
    }

    /// After rates have changed: when booked accounts reach their amounts.
    pub(super) fn update_watches(&mut self, now: f64) {
        while let Some(account) = self.watches_outdated.pop() {
            let record = &mut self.accounts[account as usize];
            record.outdated = false;
            if !record.booked {
                continue;
            }
            let Booked { rate, sent, since } = self.rates[account as usize];
            let missing = record.watch - (sent + rate * (now - since));
            let at = reaches_at(missing, rate, now);
            self.set_time(account, at);
        }
    }

    /// Moves the origin of time.
    pub(super) fn rebase_accounts(&mut self, by: f64) {
        self.rates.iter_mut().for_each(|booked| booked.since -= by);
        self.watches.rebase(by);
    }

    /// A flow has reached its next milestone: a watched amount of its account or of its own, or its
    /// end.
    pub(super) fn reach_milestone(&mut self, flow: u32, due: &mut Due) {
        let record = &mut self.flows[flow as usize];
        if record.solo > 0.0 && record.solo >= record.milestone {
            let account = std::mem::replace(&mut record.solo_of, NONE);
            record.solo = 0.0;
            self.accounts[account as usize].solo = NONE;
            self.accounts[account as usize].watch = f64::INFINITY;
            due.accounts.push(account);
        } else if record.milestone > 0.0 {
            record.milestone = 0.0;
            due.flows.push(flow);
        } else {
            // So that no other mark of it is valid: it may have several of the same place.
            record.solo = f64::INFINITY;
            due.finished.push(flow);
            return;
        }
        self.remark(flow);
    }

    /// Moves the booked accounts that have reached their amounts to `due`.
    pub(super) fn take_due_accounts(&mut self, reach: f64, places: &mut Vec<u32>, due: &mut Vec<u32>) {
        places.clear();
        self.watches.up_to(reach, places);
        for &account in &*places {
            self.unwatch(account);
            due.push(account);
        }
    }
}

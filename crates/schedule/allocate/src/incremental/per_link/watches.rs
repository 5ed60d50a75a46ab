//! When a watched account has sent its bytes, without keeping account of it at each change of a
//! rate.
//!
//! An account cannot send faster than its link carries, so it reaches its amount at a bound at the
//! earliest. Only once a bound lies before whatever comes next are its flows looked at: then the
//! time is exact as long as rates stand.
//!
//! A look costs O(flows of the account); on the Facebook trace there is less than one at each
//! event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::progress::tolerance::{TOLERANCE, reaches_at};

/// What an account has sent and sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) bytes: f64,
    pub(super) rate: f64,
    /// The capacity of its link.
    pub(super) most: f64,
}

/// A watched account.
#[derive(Clone, Copy, Debug)]
struct Watch {
    bytes: f64,
    /// The earliest time at which it has sent so much; the time itself for as long as rates stand
    /// if it is `exact`.
    at: f64,
    is_exact: bool,
    /// What it had sent and sent when it was last looked at.
    sent: Sent,
    since: f64,
}

impl Watch {
    /// Returns a bound of the time: rates may be any from now on, and were what they were when it
    /// was looked at until now.
    fn bound(&self, now: f64) -> f64 {
        let sent = self.sent.bytes + self.sent.rate * (now - self.since);
        reaches_at(self.bytes - sent, self.sent.most, now)
    }
}

/// All watched accounts.
#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<u32, Watch>,
    /// Times as bits, and accounts; an entry that is not its account's time is outdated.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// Accounts with exact times.
    exact: Vec<u32>,
}

impl Watches {
    pub(super) fn watch(&mut self, account: u32, bytes: f64, sent: Sent, now: f64) {
        self.watches.insert(account, Watch { bytes, at: now, is_exact: false, sent, since: now });
        self.put_off(account, now);
    }

    pub(super) fn unwatch(&mut self, account: u32) {
        self.watches.remove(&account);
    }

    /// Goes back to a bound.
    fn put_off(&mut self, account: u32, now: f64) {
        let Some(watch) = self.watches.get_mut(&account) else { return };
        let at = watch.bound(now);
        (watch.at, watch.is_exact) = (at, false);
        if at < f64::INFINITY {
            self.next.push(Reverse((at.to_bits(), account)));
        }
    }

    /// Rates have changed: times that were exact are so no longer.
    pub(super) fn forget_times(&mut self, now: f64) {
        for account in std::mem::take(&mut self.exact) {
            if self.watches.get(&account).is_some_and(|watch| watch.is_exact) {
                self.put_off(account, now);
            }
        }
    }

    /// Looks at the accounts that may reach their amounts before `due`, so that [`Watches::next`]
    /// is right up to there.
    pub(super) fn look(&mut self, due: f64, sent: impl Fn(u32) -> Sent, now: f64) {
        let mut until = due.min(self.next_exact());
        while let Some(&Reverse((bits, account))) = self.next.peek()
            && f64::from_bits(bits) <= until
        {
            self.next.pop();
            let Some(watch) = self.watches.get_mut(&account) else { continue };
            if watch.is_exact || watch.at.to_bits() != bits {
                continue;
            }
            (watch.sent, watch.since) = (sent(account), now);
            watch.at = reaches_at(watch.bytes - watch.sent.bytes, watch.sent.rate, now);
            watch.is_exact = true;
            until = until.min(watch.at);
            self.exact.push(account);
        }
    }

    fn next_exact(&self) -> f64 {
        let exact = self.exact.iter().filter_map(|account| self.watches.get(account));
        exact.filter(|watch| watch.is_exact).fold(f64::INFINITY, |next, watch| next.min(watch.at))
    }

    /// Returns the time at which the next account reaches its amount, or a bound of it.
    pub(super) fn next(&self) -> f64 {
        let bound = self.next.peek().map_or(f64::INFINITY, |&Reverse((bits, _))| f64::from_bits(bits));
        bound.min(self.next_exact())
    }

    /// Takes those that have reached their amounts, which `reached` is told.
    pub(super) fn take_due(&mut self, now: f64, due: &mut Vec<u32>, mut reached: impl FnMut(u32, f64)) {
        let first = due.len();
        for &account in &self.exact {
            if let Some(watch) = self.watches.get(&account).copied()
                && watch.is_exact
                && watch.at <= now + TOLERANCE
            {
                self.watches.remove(&account);
                reached(account, watch.bytes);
                due.push(account);
            }
        }
        due[first..].sort_unstable();
    }

    /// Moves the origin of time.
    pub(super) fn rebase(&mut self, by: f64) {
        self.next.clear();
        for (&account, watch) in &mut self.watches {
            // No time is negative: what lies before the origin is looked at there.
            watch.at = (watch.at - by).max(0.0);
            watch.since -= by;
            if !watch.is_exact && watch.at < f64::INFINITY {
                self.next.push(Reverse((watch.at.to_bits(), account)));
            }
        }
    }
}

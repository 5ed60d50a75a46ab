//! What each account has been sent, and when it reaches the amount that it is watched for.
//!
//! An account's rate is the sum of its flows' rates. What it has been sent is settled only when
//! that sum changes, so a change costs O(1) however many flows there are. Watched accounts are few
//! and kept in a plain list.

use crate::progress::tolerance::{TOLERANCE, reaches_at};

#[derive(Clone, Debug)]
struct Account {
    sent: f64,
    rate: f64,
    since: f64,
    /// Flows being served.
    served: u32,
    watch: f64,
    watch_at: f64,
}

/// The book of all accounts.
#[derive(Debug, Default)]
pub(crate) struct Attained {
    accounts: Vec<Account>,
    watched: Vec<u32>,
}

impl Attained {
    pub(crate) fn reserve(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
    }

    /// Forgets everything about an account without flows.
    pub(crate) fn forget(&mut self, account: u32) {
        self.unwatch(account);
        self.accounts[account as usize] = Account::default();
    }

    /// Notes that a flow of `account` goes from one rate to another.
    #[inline]
    pub(crate) fn book(&mut self, account: u32, before: f64, rate: f64, now: f64) {
        let account = &mut self.accounts[account as usize];
        account.sent += account.rate * (now - account.since);
        account.since = now;
        account.rate += rate - before;
        account.served = account.served + u32::from(rate > 0.0) - u32::from(before > 0.0);
        if account.served == 0 {
            account.rate = 0.0;
        }
    }

    /// Bytes that `account` has been sent in all.
    pub(crate) fn at(&self, account: u32, now: f64) -> f64 {
        self.accounts[account as usize].sent_at(now)
    }

    pub(crate) fn watch(&mut self, account: u32, bytes: f64, now: f64) {
        let record = &mut self.accounts[account as usize];
        if record.watch == f64::INFINITY {
            self.watched.push(account);
        }
        record.watch = bytes;
        record.update_watch(now);
    }

    pub(crate) fn unwatch(&mut self, account: u32) {
        let watch = std::mem::replace(&mut self.accounts[account as usize].watch, f64::INFINITY);
        if watch < f64::INFINITY {
            self.watched.retain(|&other| other != account);
        }
    }

    /// After rates have changed: when watched accounts reach their amounts.
    pub(crate) fn update_watches(&mut self, now: f64) {
        for &account in &self.watched {
            self.accounts[account as usize].update_watch(now);
        }
    }

    /// Returns the time at which the next watched account reaches its amount.
    pub(crate) fn next(&self) -> f64 {
        let watches = self.watched.iter().map(|&account| self.accounts[account as usize].watch_at);
        watches.fold(f64::INFINITY, f64::min)
    }

    /// Moves the origin of time.
    pub(crate) fn rebase(&mut self, by: f64) {
        for account in &mut self.accounts {
            account.since -= by;
            account.watch_at -= by;
        }
    }

    /// Moves the accounts that have reached their amounts to `due`.
    pub(crate) fn take_due(&mut self, now: f64, due: &mut Vec<u32>) {
        let reach = now + TOLERANCE;
        let accounts = &mut self.accounts;
        self.watched.retain(|&account| {
            let record = &mut accounts[account as usize];
            let reached = record.watch_at <= reach;
            if reached {
                // Rounding may not take back what is reported as reached.
                record.sent = record.sent_at(now).max(record.watch);
                record.since = now;
                record.watch = f64::INFINITY;
                due.push(account);
            }
            !reached
        });
    }
}

impl Default for Account {
    fn default() -> Self {
        let never = f64::INFINITY;
        Self { sent: 0.0, rate: 0.0, since: 0.0, served: 0, watch: never, watch_at: never }
    }
}

impl Account {
    fn sent_at(&self, now: f64) -> f64 {
        self.sent + self.rate * (now - self.since)
    }

    fn update_watch(&mut self, now: f64) {
        let missing = self.watch - self.sent_at(now);
        self.watch_at = reaches_at(missing, self.rate, now);
    }
}

//! What accounts have been sent, and when that reaches the amounts that are watched.
//!
//! An account's bytes are those of its flows, which may be many; adding them up at each event would
//! cost more than filling. Mostly something else knows the sum: the group that holds nothing but
//! the account's flows, or the one row of a group that the account has to itself. Only otherwise
//! are flows added up.
//!
//! A watched amount is predicted from the account's present rate, again whenever a group changes
//! its rates. A bound on the rate says before when no prediction is needed.

use std::cell::Cell;

use super::MaxMinFill;
use crate::fill::{Due, Fill, Key, NONE};
use crate::incremental::max_min::group::RowUse;
use crate::progress::tolerance::reaches_at;

/// A set of flows with one key.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) key: Key,
    /// Its flows in the allocator.
    pub(super) flows: Vec<u32>,
    /// Bytes of all flows that it ever had.
    pub(super) added: f64,
    /// The link where its first flow entered, and whether all entered there, also those that are
    /// over.
    pub(super) row: u32,
    pub(super) one_row: bool,
    /// True if any of them ever had a key of its own, so that what the account was sent is not what
    /// one group sent.
    pub(super) strayed: bool,
    /// The bytes it had sent when it came into its group.
    pub(super) base: f64,
    /// The largest amount that it was reported to have reached: rounding may not take it back.
    reached: f64,
    pub(super) watch: f64,
    /// The number of the group in whose list of watched accounts it stands.
    listed_in: u32,
    /// Until then the watched amount cannot be reached at any rate.
    pub(super) not_before: f64,
    /// The rate that all its flows together cannot exceed.
    pub(super) fastest: f64,
    /// The bytes it had sent at some time, and its row's then.
    counted: Cell<Counted>,
}

/// The bytes an account had sent when its row had sent so much.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    group: u32,
    tenancy: Option<u32>,
    row_sent: f64,
    sent: f64,
}

impl Account {
    pub(super) fn new() -> Self {
        Self {
            key: Key::default(),
            flows: Vec::new(),
            added: 0.0,
            row: NONE,
            one_row: true,
            strayed: false,
            base: 0.0,
            reached: 0.0,
            watch: f64::INFINITY,
            listed_in: NONE,
            not_before: 0.0,
            fastest: 0.0,
            counted: Cell::default(),
        }
    }

    /// Notes that flows come into another group one by one.
    pub(super) fn forget_count(&mut self) {
        self.counted = Cell::default();
    }
}

impl MaxMinFill {
    fn account_rate(&self, account: u32) -> f64 {
        let flows = &self.accounts[account as usize].flows;
        if let Some(group) = self.sole_group(account) {
            return self.groups[group as usize].group.rate;
        }
        match self.row(account, 0.0) {
            Some((_, RowUse { tenancy: Some(_), rate, .. })) => rate,
            _ => flows.iter().map(|&flow| self.rate(flow)).sum(),
        }
    }

    /// The group in which `account` has always been alone.
    fn sole_group(&self, account: u32) -> Option<u32> {
        let holder = &self.accounts[account as usize];
        let group = self.flows[*holder.flows.first()? as usize].group;
        let ranked = self.groups.get(group as usize)?;
        (!ranked.mixed && !holder.strayed && ranked.first == account).then_some(group)
    }

    /// If all flows of `account` are in one row of a group: the number of the group, and what is
    /// known of the row.
    fn row(&self, account: u32, now: f64) -> Option<(u32, RowUse)> {
        let holder = &self.accounts[account as usize];
        if !holder.one_row || holder.strayed {
            return None;
        }
        let &flow = holder.flows.first()?;
        let ranked = self.groups.get(self.flows[flow as usize].group as usize)?;
        (ranked.strays == 0).then(|| (ranked.number, ranked.group.row_of(&self.flows, flow, now)))
    }

    pub(super) fn attained_by(&self, account: u32, now: f64) -> f64 {
        let holder = &self.accounts[account as usize];
        if let Some(group) = self.sole_group(account) {
            return (holder.base + self.groups[group as usize].sent_at(now)).max(holder.reached);
        }
        let row = self.row(account, now);
        let counted = holder.counted.get();
        if let Some((group, row)) = row
            && group == counted.group
        {
            // Where a row was sent nothing, its accounts were not either.
            let is_own = row.tenancy.is_some() && row.tenancy == counted.tenancy;
            if is_own || row.sent == counted.row_sent {
                return (counted.sent + row.sent - counted.row_sent).max(holder.reached);
            }
        }
        let sent = holder.added - self.left_of(account, now);
        self.count_from(account, sent, now);
        sent.max(holder.reached)
    }

    /// Bytes that the flows of an account have still to send, added up.
    fn left_of(&self, account: u32, now: f64) -> f64 {
        let Account { flows, strayed, .. } = &self.accounts[account as usize];
        let group = flows.first().map_or(NONE, |&flow| self.flows[flow as usize].group);
        match self.groups.get(group as usize) {
            Some(ranked) if !strayed => ranked.group.remaining_of(&self.flows, flows, now),
            _ => flows.iter().map(|&flow| self.remaining(flow, now)).sum(),
        }
    }

    /// Notes that `account` has sent `sent` by now, to add to that what its row is sent.
    pub(super) fn count_from(&self, account: u32, sent: f64, now: f64) {
        if let Some((group, row)) = self.row(account, now) {
            let counted = Counted { group, tenancy: row.tenancy, row_sent: row.sent, sent };
            self.accounts[account as usize].counted.set(counted);
        }
    }

    pub(super) fn set_watch(&mut self, account: u32, bytes: f64, now: f64) {
        self.accounts[account as usize].watch = bytes;
        if self.accounts[account as usize].strayed {
            self.stray_watches.push(account);
        }
        if let Some(group) = self.find(self.accounts[account as usize].key) {
            self.list_watch(account, group);
        }
        self.predict(account, now);
    }

    /// Has a watched account looked at whenever the group's rates change.
    pub(super) fn list_watch(&mut self, account: u32, group: u32) {
        let (holder, ranked) = (&mut self.accounts[account as usize], &mut self.groups[group as usize]);
        if holder.watch < f64::INFINITY && holder.listed_in != ranked.number {
            holder.listed_in = ranked.number;
            ranked.watched.push(account);
        }
    }

    /// Notes that a flow of the account is given a key of its own.
    pub(super) fn set_strayed(&mut self, account: u32) {
        let holder = &mut self.accounts[account as usize];
        if !std::mem::replace(&mut holder.strayed, true) && holder.watch < f64::INFINITY {
            self.stray_watches.push(account);
        }
    }

    /// After rates have changed: when watched accounts reach their amounts.
    pub(super) fn update_watches(&mut self, now: f64) {
        while let Some(group) = self.served.pop() {
            let ranked = &mut self.groups[group as usize];
            let (number, mut watched) = (ranked.number, std::mem::take(&mut ranked.watched));
            watched.retain(|&account| {
                let holder = &mut self.accounts[account as usize];
                if holder.listed_in != number {
                    return false;
                }
                if holder.watch == f64::INFINITY {
                    holder.listed_in = NONE;
                    return false;
                }
                if now >= holder.not_before {
                    self.predict(account, now);
                } else if self.watches.get(account as usize) != holder.not_before {
                    self.watches.set(account as usize, holder.not_before);
                }
                true
            });
            self.groups[group as usize].watched = watched;
        }
        let mut strays = std::mem::take(&mut self.stray_watches);
        strays.retain(|&account| self.accounts[account as usize].watch < f64::INFINITY);
        strays.iter().for_each(|&account| {
            self.predict(account, now);
        });
        self.stray_watches = strays;
    }

    /// Moves the origin of time, and of what groups and their rows were sent, which start again at
    /// zero.
    pub(super) fn rebase_accounts(&mut self, by: f64) {
        for account in 0..self.accounts.len() {
            let sole = self.sole_group(account as u32);
            let row = self.row(account as u32, 0.0);
            let holder = &mut self.accounts[account];
            holder.not_before -= by;
            if let Some(group) = sole {
                holder.base += self.groups[group as usize].sent;
            }
            let counted = holder.counted.get_mut();
            match row {
                Some((group, row)) if group == counted.group => counted.row_sent -= row.settled,
                _ => *counted = Counted::default(),
            }
        }
    }

    /// Finds out when `account` reaches its watched amount at the present rate, and before when it
    /// cannot at any. Returns whether it has.
    fn predict(&mut self, account: u32, now: f64) -> bool {
        let missing = self.accounts[account as usize].watch - self.attained(account, now);
        let rate = self.account_rate(account);
        let holder = &mut self.accounts[account as usize];
        holder.not_before = now + missing.max(0.0) / holder.fastest;
        let at = reaches_at(missing, rate, now);
        self.watches.set(account as usize, at);
        at <= now
    }

    /// Takes out the watches that have come due.
    pub(super) fn take_due_watches(&mut self, reach: f64, now: f64, due: &mut Due) {
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.watches.up_to(reach, &mut places);
        for &account in &places {
            if !self.predict(account, now) {
                continue;
            }
            let holder = &mut self.accounts[account as usize];
            holder.reached = holder.watch;
            holder.watch = f64::INFINITY;
            self.watches.set(account as usize, f64::INFINITY);
            due.accounts.push(account);
        }
        self.places = places;
    }

    /// Takes a finished flow off its account's list.
    pub(super) fn forget(&mut self, flow: u32) {
        let record = &self.flows[flow as usize];
        let (account, position) = (record.account as usize, record.in_account as usize);
        let flows = &mut self.accounts[account].flows;
        flows.swap_remove(position);
        if let Some(&moved) = flows.get(position) {
            self.flows[moved as usize].in_account = position as u32;
        } else if flows.is_empty() {
            self.watches.set(account, f64::INFINITY);
        }
    }
}

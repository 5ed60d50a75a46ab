//! Accounts that cannot be served yet, and are in no group.
//!
//! # The idea
//! Most accounts stand behind others and get nothing. Bits tell: unless some link where the account's flows enter and some
//! link where they leave have anything left at its key, its flows would be without a rate in the group. So an account that
//! gets another key, or its first flows, *waits* at the key, and its flows enter the group only when that group is about to
//! be served and links are open. Until then the account costs the group nothing, and moving it to another key costs O(1)
//! instead of a place in a table and a mark for each flow.
//!
//! # Invariants
//! - All flows of an account wait, or none. A flow that waits has no group, and its `end` is what it has to send.
//! - Accounts with flows that have keys of their own, or caps, do not wait.
//! - An account once in a group stays there, also without a rate, until it gets another key.
//!
//! # Cost
//! A few word operations for each waiting account when a link that it uses is marked.

use super::MaxMinFill;
use super::account::Account;
use crate::bits::set;
use crate::fill::{Key, NONE};
use crate::incremental::switch::max_min::group::{SERVICE, is_shut, meet};

/// The accounts that wait at one key.
#[derive(Debug)]
pub(super) struct Waiting {
    accounts: Vec<u32>,
    /// The links of all of them, as bits: where flows enter, and where they leave.
    links: [Vec<u64>; 2],
    /// True if accounts went since `links` was made.
    is_wide: bool,
    /// True if some have not been looked at yet at this place of the order.
    is_new: bool,
}

/// Where an account waits.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The group at whose key it waits; [`NONE`] where it does not wait.
    group: u32,
    /// Its place in the list there.
    index: u32,
    /// What it had sent when it began to wait.
    pub(super) sent: f64,
    /// The links of its flows, as bits: where they enter, and where they leave.
    links: [Vec<u64>; 2],
}

impl Place {
    pub(super) fn nowhere() -> Self {
        Self { group: NONE, index: 0, sent: 0.0, links: [Vec::new(), Vec::new()] }
    }

    /// Notes the links of a flow.
    fn add(&mut self, links: [u32; 2]) {
        for (bits, link) in self.links.iter_mut().zip(links) {
            set(bits, link, true);
        }
    }
}

impl Waiting {
    /// None yet; bit sets of links have so many words.
    pub(super) fn new(words: usize) -> Self {
        Self { accounts: Vec::new(), links: [vec![0; words], vec![0; words]], is_wide: false, is_new: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    /// How many accounts wait.
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    /// Notes that the key stands elsewhere in the order.
    pub(super) fn moved(&mut self) {
        self.is_new = true;
    }

    fn widen(&mut self, links: &[Vec<u64>; 2]) {
        for (all, more) in self.links.iter_mut().zip(links) {
            all.iter_mut().zip(more).for_each(|(all, more)| *all |= more);
        }
    }
}

impl MaxMinFill {
    /// The group at whose key an account waits.
    pub(super) fn waits_for(&self, account: u32) -> Option<u32> {
        let group = self.accounts[account as usize].place.group;
        (group != NONE).then_some(group)
    }

    /// Has an account without flows in groups wait; it has sent `sent` so far.
    pub(super) fn begin_waiting(&mut self, account: u32, group: u32, sent: f64) {
        let words = self.residual.open().len();
        let place = &mut self.accounts[account as usize].place;
        (place.group, place.sent) = (NONE, sent);
        for links in &mut place.links {
            links.clear();
            links.resize(words, 0);
        }
        self.join(account, group);
    }

    /// Has a flow of a waiting account wait with it.
    pub(super) fn wait(&mut self, flow: u32, bytes: f64) {
        let record = &mut self.flows[flow as usize];
        record.end = bytes;
        let place = &mut self.accounts[record.account as usize].place;
        let waiting = &mut self.groups[place.group as usize].waiting;
        waiting.is_new = true;
        place.add(self.links[flow as usize]);
        for (links, link) in waiting.links.iter_mut().zip(self.links[flow as usize]) {
            set(links, link, true);
        }
    }

    fn join(&mut self, account: u32, group: u32) {
        let waiting = &mut self.groups[group as usize].waiting;
        let place = &mut self.accounts[account as usize].place;
        (place.group, place.index) = (group, waiting.accounts.len() as u32);
        waiting.accounts.push(account);
        waiting.widen(&place.links);
        waiting.is_new = true;
    }

    /// Takes an account off the list where it waits.
    fn part(&mut self, account: u32) {
        let place = &mut self.accounts[account as usize].place;
        let index = place.index;
        let group = std::mem::replace(&mut place.group, NONE);
        let waiting = &mut self.groups[group as usize].waiting;
        waiting.is_wide = true;
        waiting.accounts.swap_remove(index as usize);
        if let Some(&moved) = waiting.accounts.get(index as usize) {
            self.accounts[moved as usize].place.index = index;
        }
    }

    /// Gives an account another key, its flows with it.
    pub(super) fn rekey_account(&mut self, account: u32, key: Key, now: f64) {
        let holder = &mut self.accounts[account as usize];
        let before = std::mem::replace(&mut holder.key, key);
        let (Some(&first), strayed) = (holder.flows.first(), holder.strayed) else { return };
        if let Some(group) = self.waits_for(account) {
            if before != key {
                self.part(account);
                let next = self.group_at(key, now);
                self.join(account, next);
                self.touch(key);
                if self.weighted.is_some() {
                    // Who waits gets nothing, but is present: its class no longer shares its links.
                    self.touch(before);
                }
                self.end_if_empty(group, now);
            }
        } else if strayed || self.groups[self.flows[first as usize].group as usize].group.has_caps() {
            self.move_flows(account, before, key, now);
        } else if before != key {
            self.send_to_wait(account, key, now);
        }
    }

    /// Takes all flows of an account out of their group, to wait at `key`.
    fn send_to_wait(&mut self, account: u32, key: Key, now: f64) {
        let sent = self.attained_by(account, now);
        self.leave_all(account, now);
        let group = self.group_at(key, now);
        self.begin_waiting(account, group, sent);
        let Account { flows, place, .. } = &mut self.accounts[account as usize];
        for &flow in flows.iter() {
            place.add(self.links[flow as usize]);
        }
        self.groups[group as usize].waiting.widen(&place.links);
        self.touch(key);
    }

    /// Moves the flows of an account one by one.
    fn move_flows(&mut self, account: u32, before: Key, key: Key, now: f64) {
        if before != key {
            self.accounts[account as usize].base = self.attained_by(account, now);
        }
        self.accounts[account as usize].forget_count();
        for index in 0..self.accounts[account as usize].flows.len() {
            let flow = self.accounts[account as usize].flows[index];
            if self.groups[self.flows[flow as usize].group as usize].key != key {
                self.move_flow(flow, key, now);
            }
        }
    }

    /// If `flow` waits, lets its account into the group.
    pub(super) fn end_waiting(&mut self, flow: u32, now: f64) {
        let account = self.flows[flow as usize].account;
        if account != NONE
            && let Some(group) = self.waits_for(account)
        {
            self.part(account);
            self.let_in(account, group, now);
            let key = self.groups[group as usize].key;
            self.touch(key);
        }
    }

    fn let_in(&mut self, account: u32, group: u32, now: f64) {
        let holder = &mut self.accounts[account as usize];
        holder.base = holder.place.sent;
        self.enter_all(account, group, now);
        self.count_from(account, self.accounts[account as usize].place.sent, now);
    }

    /// Lets into a group that is about to be served as `which` the waiting accounts that may get something of the residual.
    pub(super) fn admit(&mut self, group: u32, which: usize, now: f64) {
        let waiting = &mut self.groups[group as usize].waiting;
        if waiting.is_empty() || !(waiting.is_new || meet(&waiting.links, self.residual.marked())) {
            return;
        }
        // Trials come first, each on a residual and with marks of its own.
        waiting.is_new &= which != SERVICE;
        if is_shut(&waiting.links, self.residual.open()) {
            return;
        }
        let mut index = 0;
        while let Some(&account) = self.groups[group as usize].waiting.accounts.get(index) {
            if is_shut(&self.accounts[account as usize].place.links, self.residual.open()) {
                index += 1;
            } else {
                self.part(account);
                self.let_in(account, group, now);
            }
        }
        self.narrow(group);
    }

    /// The links of the accounts that wait for a group, as bits: where flows enter, and where they leave.
    pub(super) fn waiting_links(&mut self, group: u32) -> &[Vec<u64>; 2] {
        self.narrow(group);
        &self.groups[group as usize].waiting.links
    }

    /// Makes the links again if accounts went.
    fn narrow(&mut self, group: u32) {
        let waiting = &mut self.groups[group as usize].waiting;
        if std::mem::take(&mut waiting.is_wide) {
            waiting.links.iter_mut().for_each(|links| links.fill(0));
            for index in 0..waiting.accounts.len() {
                waiting.widen(&self.accounts[waiting.accounts[index] as usize].place.links);
            }
        }
    }
}

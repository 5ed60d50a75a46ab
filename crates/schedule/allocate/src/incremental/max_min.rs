//! Max-min groups in order of priority: each fills what those before it left.
//!
//! # The idea
//! Flows of equal [`Key`] form a [`Group`]. Groups are served in the order of keys, each on the
//! residual capacity of those before. A refill starts at the first group that changed. Behind it,
//! marks on links say where capacity differs from last time: groups on other links pass on what
//! they passed on before, and when no link is marked and no changed group is to come, the rest
//! stays as it is.
//!
//! Classes may share by weight instead: see [`weighted`]. Flows may also cross links between
//! switches, where all that crosses one comes from some ports and goes to some others: see
//! [`trunks`].
//!
//! # Cost
//! For each group: see [`group`]. Before the first group that changed, one subtraction for each
//! link in use.

mod account;
pub(crate) mod group;
#[cfg(test)]
mod tests;
pub(crate) mod trunks;
mod weighted;

use std::sync::Arc;

use cavalcade_model::{ClassShares, Excess, Path};

use crate::fill::{Due, Fill, Key, NONE, across_switch};
use crate::incremental::max_min::group::{Flow, Group, Residual, Scratch};
use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::TOLERANCE;
use crate::route::Route;
use account::Account;
use trunks::Trunks;
use weighted::Weighted;

#[derive(Debug)]
struct Ranked {
    key: Key,
    group: Group,
    /// Tells it from every other group there ever was.
    number: u32,
    /// The account that the group began with; [`NONE`] before any flow came.
    first: u32,
    /// True if there was ever anything else in the group; if not, what the group sent is what the
    /// account sent.
    mixed: bool,
    /// Number of flows that are here by a key of their own rather than that of their account.
    strays: u32,
    /// Watched accounts with this key, and others that were.
    watched: Vec<u32>,
    sent: f64,
    since: f64,
}

impl Ranked {
    /// An empty group without a key.
    fn new(group: Group) -> Self {
        Self {
            key: Key::default(),
            group,
            number: NONE,
            first: NONE,
            mixed: false,
            strays: 0,
            watched: Vec::new(),
            sent: 0.0,
            since: 0.0,
        }
    }

    fn sent_at(&self, now: f64) -> f64 {
        self.sent + self.group.rate * (now - self.since)
    }
}

/// Max-min inside a key, keys in order, classes strict or by weight.
#[derive(Debug)]
pub struct MaxMinFill {
    /// The capacity of each link, and of all together.
    capacity: Vec<f64>,
    total: f64,
    trunks: Arc<Trunks>,
    weighted: Option<Weighted>,
    flows: Vec<Flow>,
    links: Vec<[u32; 2]>,
    accounts: Vec<Account>,
    /// Time at which each account's watched amount is reached.
    watches: MinTree,
    /// Watched accounts with flows that have keys of their own.
    stray_watches: Vec<u32>,
    groups: Vec<Ranked>,
    /// Groups without a key.
    free_groups: Vec<u32>,
    numbers: u32,
    /// Time at which the first flow of each group comes due.
    ends: MinTree,
    /// Groups in order of key.
    order: Vec<(Key, u32)>,
    /// Keys at which anything changed since the last refill.
    touched: Vec<Key>,
    /// Links that were used at a key by a group that is not there any more.
    vacated: Vec<(Key, u32)>,
    /// Groups whose rates changed in this refill.
    served: Vec<u32>,
    residual: Residual,
    scratch: Scratch,
    due: Vec<u32>,
    places: Vec<u32>,
}

impl MaxMinFill {
    /// Creates an allocator for the links of a switch, those where flows enter first, of these
    /// capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, shares: &ClassShares, flows: usize) -> Self {
        let trunks = Trunks::none(capacity.len() / 2);
        Self::across(trunks, capacity, shares, flows)
    }

    /// The same for all links of a fabric, of which these lie between switches.
    pub(crate) fn across(trunks: Trunks, capacity: Vec<f64>, shares: &ClassShares, flows: usize) -> Self {
        let trunks = Arc::new(trunks);
        Self {
            weighted: match shares {
                ClassShares::Strict => None,
                ClassShares::Weighted { weights, excess } => {
                    Some(Weighted::new(weights, *excess == Excess::Highest, capacity.len()))
                }
                ClassShares::OfFlows { .. } => panic!("flows that have weights are not filled by pairs"),
            },
            residual: Residual::new(capacity.clone(), &trunks),
            trunks,
            total: capacity.iter().sum(),
            capacity,
            flows: vec![Flow::absent(); flows],
            links: vec![[0; 2]; flows],
            accounts: Vec::new(),
            watches: MinTree::new(0),
            stray_watches: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            numbers: 0,
            ends: MinTree::new(0),
            order: Vec::new(),
            touched: Vec::new(),
            vacated: Vec::new(),
            served: Vec::new(),
            scratch: Scratch::default(),
            due: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Returns the number of allotments that each group keeps.
    fn allotments(&self) -> usize {
        if self.weighted.is_some() { weighted::STAGES } else { 1 }
    }

    fn find(&self, key: Key) -> Option<u32> {
        self.order.binary_search_by_key(&key, |&(key, _)| key).ok().map(|rank| self.order[rank].1)
    }

    fn place(&mut self, key: Key, group: u32) {
        let rank = self.order.partition_point(|&(other, _)| other < key);
        self.order.insert(rank, (key, group));
    }

    /// Takes a group out of the order, and notes which links it leaves to others.
    fn displace(&mut self, group: u32) {
        let ranked = &self.groups[group as usize];
        let key = ranked.key;
        for which in 0..self.allotments() {
            self.vacated.extend(ranked.group.links_used(which).map(|link| (key, link)));
        }
        let rank = self.order.partition_point(|&(other, _)| other < key);
        self.order.remove(rank);
        self.touch(key);
    }

    fn touch(&mut self, key: Key) {
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }

    /// The group at `key`, a new one if there is none.
    fn group_at(&mut self, key: Key, now: f64) -> u32 {
        if let Some(group) = self.find(key) {
            return group;
        }
        self.numbers += 1;
        let group = self.free_groups.pop().unwrap_or_else(|| {
            self.groups.push(self.no_group());
            self.ends.reserve(self.groups.len());
            self.groups.len() as u32 - 1
        });
        let ranked = &mut self.groups[group as usize];
        (ranked.key, ranked.number, ranked.since) = (key, self.numbers, now);
        self.place(key, group);
        group
    }

    /// An empty group without a key.
    fn no_group(&self) -> Ranked {
        Ranked::new(Group::new(self.capacity.len(), &self.trunks, self.allotments()))
    }

    /// Takes a group without flows out of the order.
    fn end_if_empty(&mut self, group: u32) {
        if self.groups[group as usize].group.is_empty() {
            self.ends.set(group as usize, f64::INFINITY);
            self.displace(group);
            self.groups[group as usize] = self.no_group();
            self.free_groups.push(group);
        }
    }

    /// Puts a flow into a group.
    fn enter(&mut self, flow: u32, group: u32, bytes: f64, now: f64) {
        let account = self.flows[flow as usize].account;
        let ranked = &mut self.groups[group as usize];
        let at_home = ranked.key == self.accounts[account as usize].key;
        ranked.first = if ranked.first == NONE { account } else { ranked.first };
        ranked.group.add(&mut self.flows, flow, self.links[flow as usize], bytes, now);
        ranked.strays += u32::from(!at_home);
        ranked.mixed |= !at_home || ranked.first != account;
        let record = &mut self.flows[flow as usize];
        record.group = group;
        record.at_home = at_home;
        if at_home {
            self.list_watch(account, group);
        }
    }

    /// Takes a flow out of its group and returns what it has still to send.
    fn leave(&mut self, flow: u32, now: f64) -> f64 {
        let record = &self.flows[flow as usize];
        let (group, at_home) = (record.group, record.at_home);
        let ranked = &mut self.groups[group as usize];
        let bytes = ranked.group.remove(&mut self.flows, flow, now);
        ranked.strays -= u32::from(!at_home);
        let key = ranked.key;
        self.flows[flow as usize].group = NONE;
        self.touch(key);
        self.end_if_empty(group);
        bytes
    }

    /// Puts all flows of an account into the group at its key, each with its `end` to send. They
    /// come from no group.
    fn enter_all(&mut self, account: u32, group: u32, now: f64) {
        let Account { flows: added, key, .. } = &self.accounts[account as usize];
        let ranked = &mut self.groups[group as usize];
        assert!(ranked.key == *key, "an account enters the group at its key");
        ranked.first = if ranked.first == NONE { account } else { ranked.first };
        ranked.mixed |= ranked.first != account;
        ranked.group.add_all(&mut self.flows, added, &self.links, now);
        for &flow in added {
            let record = &mut self.flows[flow as usize];
            (record.group, record.at_home) = (group, true);
        }
        self.list_watch(account, group);
    }

    /// Takes all flows of an account out of their group, which they share, each at home there; what
    /// each has still to send becomes its `end`.
    fn leave_all(&mut self, account: u32, now: f64) {
        let removed = &self.accounts[account as usize].flows;
        let group = self.flows[removed[0] as usize].group;
        let ranked = &mut self.groups[group as usize];
        ranked.group.remove_all(&mut self.flows, removed, now);
        for &flow in removed {
            self.flows[flow as usize].group = NONE;
        }
        let key = ranked.key;
        self.touch(key);
        self.end_if_empty(group);
    }

    /// Moves one flow to the group at `key`, its cap with it.
    fn move_flow(&mut self, flow: u32, key: Key, now: f64) {
        let group = self.flows[flow as usize].group;
        let cap = self.groups[group as usize].group.cap_of(&self.flows, flow);
        let bytes = self.leave(flow, now);
        let group = self.group_at(key, now);
        self.enter(flow, group, bytes, now);
        self.touch(key);
        if cap.is_some() {
            self.set_cap(flow, cap, now);
        }
    }

    /// The group at whose key there are these accounts, whole, and nothing else, if there is one.
    fn common_group(&self, accounts: &[(u32, Key)]) -> Option<u32> {
        let group = accounts.iter().find_map(|&(account, _)| self.group_of(account))?;
        let mut flows = 0;
        for &(account, _) in accounts {
            let holder = &self.accounts[account as usize];
            // Flows without keys of their own are all where the first is.
            let told_apart = if holder.strayed { holder.flows.len() } else { 1 };
            if holder.flows.iter().take(told_apart).any(|&flow| self.flows[flow as usize].group != group) {
                return None;
            }
            flows += holder.flows.len();
        }
        (flows == self.groups[group as usize].group.len()).then_some(group)
    }

    /// The group that an account's first flow is in.
    fn group_of(&self, account: u32) -> Option<u32> {
        let flow = *self.accounts[account as usize].flows.first()?;
        Some(self.flows[flow as usize].group)
    }

    /// Gives the same new key to accounts that make up a whole group: the group moves, no flow
    /// does.
    fn rekey_group(&mut self, group: u32, key: Key) {
        self.displace(group);
        let ranked = &mut self.groups[group as usize];
        ranked.key = key;
        ranked.group.moved();
        self.place(key, group);
        self.touch(key);
    }

    /// Gives an account another key, its flows with it.
    fn rekey_account(&mut self, account: u32, key: Key, now: f64) {
        let holder = &mut self.accounts[account as usize];
        let before = std::mem::replace(&mut holder.key, key);
        let strayed = holder.strayed;
        let Some(group) = self.group_of(account) else { return };
        if strayed || self.groups[group as usize].group.has_caps() {
            self.move_flows(account, before, key, now);
        } else if before != key {
            let sent = self.attained_by(account, now);
            self.leave_all(account, now);
            let group = self.group_at(key, now);
            self.accounts[account as usize].base = sent;
            self.enter_all(account, group, now);
            self.count_from(account, sent, now);
            self.touch(key);
        }
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

    /// Serves one group as `which` (0: for real), as far as anything changed for it.
    fn serve(&mut self, group: u32, which: usize, now: f64) {
        let ranked = &mut self.groups[group as usize];
        let before = ranked.group.rate;
        if ranked.group.serve(&mut self.flows, which, &mut self.residual, now, &mut self.scratch) {
            ranked.sent += before * (now - ranked.since);
            ranked.since = now;
            self.ends.set(group as usize, ranked.group.next);
            self.served.push(group);
        }
    }

    fn refill_strict(&mut self, now: f64) {
        let first = self.touched[0].min(self.vacated.first().map_or(self.touched[0], |&(key, _)| key));
        let last = self.touched[self.touched.len() - 1];
        let first = self.order.partition_point(|&(key, _)| key < first);
        self.residual.restart();
        for &(_, group) in &self.order[..first] {
            self.groups[group as usize].group.pass(&mut self.residual);
        }
        let mut vacated = 0;
        for rank in first..self.order.len() {
            let (key, group) = self.order[rank];
            vacated = self.mark_vacated(vacated, key);
            if key > last && vacated == self.vacated.len() && self.residual.is_as_before() {
                break;
            }
            self.serve(group, 0, now);
        }
    }

    /// Marks the links that were vacated at keys up to `key`, from the `from`-th on; returns how
    /// far it came.
    fn mark_vacated(&mut self, from: usize, key: Key) -> usize {
        let mut at = from;
        while let Some(&(_, link)) = self.vacated.get(at).filter(|(vacated, _)| *vacated <= key) {
            self.residual.mark(link);
            at += 1;
        }
        at
    }
}

impl Fill for MaxMinFill {
    fn reserve_accounts(&mut self, count: usize) {
        if count > self.accounts.len() {
            self.accounts.resize(count, Account::new());
            self.watches.reserve(count);
        }
    }

    fn reserve_flows(&mut self, count: usize) {
        let count = count.max(self.flows.len());
        self.flows.resize(count, Flow::absent());
        self.links.resize(count, [0; 2]);
    }

    fn forget_account(&mut self, account: u32) -> bool {
        // Groups and their rows remember whose they were.
        self.accounts[account as usize] = Account::new();
        false
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        let links = if self.trunks.is_none() {
            across_switch(links)
        } else {
            Route::<{ Path::LONGEST }>::new(links).ends()
        };
        let account = accounts[0];
        self.links[flow as usize] = links;
        let record = &mut self.flows[flow as usize];
        record.account = account;
        record.milestone = 0.0;
        // Only with its first flow: to add up what a wide account has sent may take all of its
        // flows.
        if self.accounts[account as usize].flows.is_empty() {
            self.accounts[account as usize].base = self.attained_by(account, now);
            self.accounts[account as usize].forget_count();
        }
        let holder = &mut self.accounts[account as usize];
        holder.row = if holder.row == NONE { links[0] } else { holder.row };
        holder.one_row &= holder.row == links[0];
        holder.fastest = if holder.one_row { self.capacity[links[0] as usize] } else { self.total };
        // What bounded its rate so far does not bound it any more.
        holder.not_before = now;
        self.flows[flow as usize].in_account = holder.flows.len() as u32;
        holder.flows.push(flow);
        holder.added += bytes;
        let key = holder.key;
        self.touch(key);
        let group = self.group_at(key, now);
        self.enter(flow, group, bytes, now);
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64) {
        // Accounts that get the same key are often a whole group (a coflow whose hosts agreed):
        // then move that.
        let mut rest = keys;
        while let Some(&(_, key)) = rest.first() {
            let run = rest.iter().take_while(|(_, other)| *other == key).count();
            let (accounts, behind) = rest.split_at(run);
            rest = behind;
            match self.common_group(accounts).filter(|_| self.find(key).is_none()) {
                Some(group) => {
                    accounts.iter().for_each(|&(account, _)| self.accounts[account as usize].key = key);
                    self.rekey_group(group, key);
                }
                None => accounts.iter().for_each(|&(account, _)| self.rekey_account(account, key, now)),
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64) {
        let group = self.flows[flow as usize].group;
        if group != NONE && self.groups[group as usize].key != key {
            self.set_strayed(self.flows[flow as usize].account);
            self.move_flow(flow, key, now);
        }
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        let group = self.flows[flow as usize].group;
        if group != NONE {
            let ranked = &mut self.groups[group as usize];
            ranked.group.set_cap(&mut self.flows, flow, cap, now);
            let key = ranked.key;
            self.touch(key);
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, now: f64) {
        match self.flows[flow as usize].group {
            NONE => self.flows[flow as usize].milestone = remaining,
            group => {
                let ranked = &mut self.groups[group as usize];
                ranked.group.set_milestone(&mut self.flows, flow, remaining, now);
                self.ends.set(group as usize, ranked.group.next);
            }
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.set_watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.accounts[account as usize].watch = f64::INFINITY;
        self.watches.set(account as usize, f64::INFINITY);
    }

    fn next(&self) -> f64 {
        self.ends.min().min(self.watches.min())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + TOLERANCE;
        self.take_due_watches(reach, now, due);
        let mut groups = std::mem::take(&mut self.places);
        groups.clear();
        self.ends.up_to(reach, &mut groups);
        let mut flows = std::mem::take(&mut self.due);
        for &group in &groups {
            self.groups[group as usize].group.take_due(&self.flows, now, &mut flows);
        }
        self.places = groups;
        for flow in flows.drain(..) {
            if self.flows[flow as usize].milestone > 0.0 {
                self.watch_flow(flow, 0.0, now);
                due.flows.push(flow);
            } else {
                self.leave(flow, now);
                self.flows[flow as usize].end = 0.0;
                self.forget(flow);
                due.finished.push(flow);
            }
        }
        self.due = flows;
    }

    fn refill(&mut self, now: f64) {
        if self.touched.is_empty() {
            return;
        }
        self.touched.sort_unstable();
        self.vacated.sort_unstable();
        match self.weighted.take() {
            None => self.refill_strict(now),
            Some(mut weighted) => {
                weighted.refill(self, now);
                self.weighted = Some(weighted);
            }
        }
        self.touched.clear();
        self.vacated.clear();
        self.update_watches(now);
    }

    fn rebase(&mut self, by: f64) {
        self.rebase_accounts(by);
        for ranked in &mut self.groups {
            ranked.group.rebase(by, &mut self.flows);
            ranked.since -= by;
            ranked.sent = 0.0;
        }
        self.ends.rebase(by);
        self.watches.rebase(by);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        match self.flows[flow as usize].group {
            NONE => self.flows[flow as usize].end,
            group => self.groups[group as usize].group.remaining(&self.flows, flow, now),
        }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained_by(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        match self.flows[flow as usize].group {
            NONE => 0.0,
            group => self.groups[group as usize].group.rate_of(&self.flows, flow),
        }
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for &(_, group) in &self.order {
            self.groups[group as usize].group.add_use(use_of_link);
        }
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        for &flow in &self.accounts[account as usize].flows {
            visit(flow);
        }
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = vec![0.0; self.capacity.len()];
        for &flow in &self.accounts[account as usize].flows {
            let bytes = self.remaining(flow, now);
            let links = self.links[flow as usize];
            for link in links.into_iter().chain(self.trunks.links_between(links)) {
                loads[link as usize] += bytes;
            }
        }
        for (link, &bytes) in loads.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            visit(link as u32, bytes);
        }
    }
}

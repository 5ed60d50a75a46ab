//! Max-min groups in order of priority: each fills what those before it left.
//!
//! # The idea
//! Flows of equal [`Key`] form a [`Group`]. Groups are filled in the order of keys, each on the residual capacity of
//! those before. A group remembers the residual it was given and the one it left; a refill starts at the first group that
//! changed and ends as soon as a group is given what it was given last time and none behind it changed.
//!
//! # Weighted classes
//! With weights (Aalo Pseudocode 1), each class fills an *offer* of its own instead of what the class before left.
//! First, every link offers its capacity to the classes present there by weight. After all classes have filled their
//! offers, what is free on a link is offered on top to the classes that used up theirs (all of them by weight, or the
//! highest), and they fill again, until nothing is free where it is wanted or [`MAX_ROUNDS`] is reached. A class that left
//! some of its offer is offered what it used. In the end each class, highest first, is offered all that the others
//! do not use.
//!
//! # Cost
//! For each group that is filled: see [`crate::maxmin`]; for each that is only compared: one pass over the links.

use std::cell::Cell;
use std::collections::BTreeMap;

use crate::fill::{Due, Fill, Key, Shares};
use crate::marks::tolerance;
use crate::maxmin::{Flow, Group, NEGLIGIBLE, NONE, Scratch};

/// How often free capacity is offered again to weighted classes.
const MAX_ROUNDS: usize = 2;

/// A set of flows with one key.
#[derive(Clone, Debug)]
struct Account {
    key: Key,
    /// Its flows in the solver.
    flows: Vec<u32>,
    /// Bytes of all flows that it ever had.
    added: f64,
    /// Whether all of them enter on the same link.
    one_row: bool,
    /// Whether any of them ever had a key of its own, so that what the account was sent is not what one group sent.
    strayed: bool,
    /// What it had sent when it came alone into a group of its own.
    base: f64,
    /// The largest amount that it was reported to have reached: rounding may not take it back.
    reached: f64,
    watch: f64,
    /// When the watched amount is reached at the present rate, or when to look again.
    watch_at: f64,
    /// Until then it cannot be reached at any rate.
    not_before: f64,
    /// The rate that all its flows together cannot exceed.
    fastest: f64,
    /// What it had sent at some time, and what its row had then; see [`Group::row_of`].
    counted: Cell<Counted>,
}

/// What an account had sent when the row that it has to itself had sent so much.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    group: u32,
    tenancy: u32,
    row_sent: f64,
    sent: f64,
}

#[derive(Debug)]
struct Ranked {
    key: Key,
    group: Group,
    /// Tells it from every other group there ever was.
    number: u32,
    /// The account that the group began with.
    first: u32,
    /// Whether there was ever anything else in the group; if not, what the group sent is what the account sent.
    mixed: bool,
    /// How many of the flows are here by a key of their own rather than that of their account.
    strays: u32,
    /// Whether flows or caps changed since the last fill.
    changed: bool,
    filled: bool,
    input: Vec<f64>,
    output: Vec<f64>,
    sent: f64,
    since: f64,
}

impl Ranked {
    fn sent_at(&self, now: f64) -> f64 {
        self.sent + self.group.rate * (now - self.since)
    }
}

/// Max-min inside a key, keys in order, classes strict or by weight.
#[derive(Debug)]
pub struct MaxMinFill {
    capacity: Vec<f64>,
    shares: Shares,
    flows: Vec<Flow>,
    links: Vec<[u32; 2]>,
    accounts: Vec<Account>,
    watched: Vec<u32>,
    groups: Vec<Ranked>,
    free_groups: Vec<u32>,
    numbers: u32,
    by_key: BTreeMap<Key, u32>,
    /// Groups in order of key.
    order: Vec<u32>,
    order_changed: bool,
    changed: bool,
    scratch: Scratch,
    residual: Vec<f64>,
    /// The links with capacity left in `residual`, as bits.
    open: Vec<u64>,
    due: Vec<u32>,
}

impl MaxMinFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, shares: Shares, flows: usize) -> Self {
        Self {
            residual: capacity.clone(),
            capacity,
            shares,
            flows: vec![Flow::absent(); flows],
            links: vec![[0; 2]; flows],
            accounts: Vec::new(),
            watched: Vec::new(),
            groups: Vec::new(),
            free_groups: Vec::new(),
            numbers: 0,
            by_key: BTreeMap::new(),
            order: Vec::new(),
            order_changed: false,
            changed: false,
            scratch: Scratch::default(),
            open: Vec::new(),
            due: Vec::new(),
        }
    }

    fn group_at(&mut self, key: Key, account: u32, now: f64) -> u32 {
        if let Some(&group) = self.by_key.get(&key) {
            self.groups[group as usize].mixed |= self.groups[group as usize].first != account;
            return group;
        }
        self.numbers += 1;
        let fresh = Ranked {
            key,
            number: self.numbers,
            group: Group::new(self.capacity.len()),
            first: account,
            mixed: false,
            strays: 0,
            changed: true,
            filled: false,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0.0,
            since: now,
        };
        let group = match self.free_groups.pop() {
            Some(group) => {
                self.groups[group as usize] = fresh;
                group
            }
            None => {
                self.groups.push(fresh);
                self.groups.len() as u32 - 1
            }
        };
        self.by_key.insert(key, group);
        self.order_changed = true;
        group
    }

    fn enter(&mut self, flow: u32, key: Key, bytes: f64, now: f64) {
        let account = self.flows[flow as usize].account;
        let group = self.group_at(key, account, now);
        let at_home = key == self.accounts[account as usize].key;
        let ranked = &mut self.groups[group as usize];
        ranked.group.add(&mut self.flows, flow, self.links[flow as usize], bytes, now);
        ranked.changed = true;
        ranked.strays += u32::from(!at_home);
        ranked.mixed |= !at_home;
        let record = &mut self.flows[flow as usize];
        record.group = group;
        record.at_home = at_home;
        self.changed = true;
    }

    /// Takes a flow out of its group and returns what it has still to send.
    fn leave(&mut self, flow: u32, now: f64) -> f64 {
        let record = &self.flows[flow as usize];
        let (group, at_home) = (record.group, record.at_home);
        let ranked = &mut self.groups[group as usize];
        let bytes = ranked.group.remove(&mut self.flows, flow, now);
        ranked.changed = true;
        ranked.strays -= u32::from(!at_home);
        if ranked.group.is_empty() {
            let key = ranked.key;
            self.by_key.remove(&key);
            self.free_groups.push(group);
            self.order_changed = true;
        }
        self.flows[flow as usize].group = NONE;
        self.changed = true;
        bytes
    }

    /// Moves one flow to the group at `key`, its cap with it.
    fn move_flow(&mut self, flow: u32, key: Key, now: f64) {
        let group = self.flows[flow as usize].group;
        let cap = self.groups[group as usize].group.cap_of(&self.flows, flow);
        let bytes = self.leave(flow, now);
        self.enter(flow, key, bytes, now);
        if cap.is_some() {
            self.set_cap(flow, cap, now);
        }
    }

    /// The group that holds exactly the flows of these accounts, if there is one.
    fn common_group(&self, accounts: &[(u32, Key)]) -> Option<u32> {
        let flow = accounts.iter().find_map(|(account, _)| self.accounts[*account as usize].flows.first())?;
        let group = self.flows[*flow as usize].group;
        let mut flows = 0;
        for (account, _) in accounts {
            for &flow in &self.accounts[*account as usize].flows {
                if self.flows[flow as usize].group != group {
                    return None;
                }
                flows += 1;
            }
        }
        (flows == self.groups[group as usize].group.len()).then_some(group)
    }

    /// Gives the same new key to accounts that make up a whole group: the group moves, no flow does.
    fn rekey_group(&mut self, group: u32, key: Key) {
        let ranked = &mut self.groups[group as usize];
        let old = std::mem::replace(&mut ranked.key, key);
        self.by_key.remove(&old);
        self.by_key.insert(key, group);
        self.order_changed = true;
        self.changed = true;
    }

    fn account_rate(&self, account: u32) -> f64 {
        let flows = &self.accounts[account as usize].flows;
        match (self.sole_group(account), self.own_row(account, 0.0)) {
            (Some(group), _) => self.groups[group as usize].group.rate,
            (None, Some((.., rate))) => rate,
            (None, None) => flows.iter().map(|&flow| self.rate(flow)).sum(),
        }
    }

    /// The group in which `account` has always been alone.
    fn sole_group(&self, account: u32) -> Option<u32> {
        let holder = &self.accounts[account as usize];
        let group = self.flows[*holder.flows.first()? as usize].group;
        let ranked = self.groups.get(group as usize)?;
        (!ranked.mixed && !holder.strayed && ranked.first == account).then_some(group)
    }

    /// If `account` has a row of a group to itself and no flow elsewhere: the numbers of the group and of the tenancy, what
    /// the row was sent, and its rate.
    fn own_row(&self, account: u32, now: f64) -> Option<(u32, u32, f64, f64)> {
        let holder = &self.accounts[account as usize];
        if !holder.one_row || holder.strayed {
            return None;
        }
        let &flow = holder.flows.first()?;
        let ranked = self.groups.get(self.flows[flow as usize].group as usize)?;
        if ranked.strays > 0 {
            return None;
        }
        let (tenancy, sent, rate) = ranked.group.row_of(&self.flows, flow, now)?;
        Some((ranked.number, tenancy, sent, rate))
    }

    fn update_watches(&mut self, now: f64) {
        for index in 0..self.watched.len() {
            let account = self.watched[index];
            let touched = self.accounts[account as usize]
                .flows
                .first()
                .is_some_and(|&flow| self.groups[self.flows[flow as usize].group as usize].filled);
            if !touched {
                continue;
            }
            let holder = &mut self.accounts[account as usize];
            if now < holder.not_before {
                holder.watch_at = holder.not_before;
            } else {
                self.predict(account, now);
            }
        }
        for ranked in &mut self.groups {
            ranked.filled = false;
        }
    }

    /// Finds out when `account` reaches its watched amount at the present rate, and before when it cannot at any. Returns
    /// whether it has.
    fn predict(&mut self, account: u32, now: f64) -> bool {
        let missing = self.accounts[account as usize].watch - self.attained(account, now);
        let rate = self.account_rate(account);
        let holder = &mut self.accounts[account as usize];
        // A millibyte is rounding, far below any threshold.
        let reached = missing <= rate * tolerance(now) + 1e-3;
        holder.watch_at = if reached {
            now
        } else if rate > 0.0 {
            now + missing / rate
        } else {
            f64::INFINITY
        };
        holder.not_before = now + missing.max(0.0) / holder.fastest;
        reached
    }

    /// Brings `order` up to date and returns the ranks that must be looked at: from the first group that changed or
    /// moved to behind the last.
    fn changed_ranks(&mut self) -> std::ops::Range<usize> {
        let (mut first, mut last) = (usize::MAX, 0);
        if self.order_changed {
            let before = std::mem::take(&mut self.order);
            self.order.extend(self.by_key.values());
            let same = before.iter().zip(&self.order).take_while(|(a, b)| a == b).count();
            let same_behind =
                before.iter().rev().zip(self.order.iter().rev()).take_while(|(a, b)| a == b).count();
            first = same;
            last = (self.order.len() - same_behind).max(same);
            self.order_changed = false;
        }
        for (rank, &group) in self.order.iter().enumerate() {
            if self.groups[group as usize].changed {
                first = first.min(rank);
                last = last.max(rank + 1);
            }
        }
        first..last
    }

    /// Fills one group on `self.residual`, unless nothing changed for it.
    fn fill_group(&mut self, group: u32, now: f64) {
        let ranked = &mut self.groups[group as usize];
        if ranked.group.stays_idle(&self.open) {
            ranked.changed = false;
            ranked.input.clear();
            return;
        }
        if !ranked.changed && ranked.input == self.residual {
            self.residual.copy_from_slice(&ranked.output);
            self.note_open();
            return;
        }
        ranked.sent = ranked.sent_at(now);
        ranked.since = now;
        ranked.input.clone_from(&self.residual);
        ranked.group.fill(&mut self.flows, &mut self.residual, &self.capacity, now, &mut self.scratch);
        ranked.output.clone_from(&self.residual);
        ranked.changed = false;
        ranked.filled = true;
        self.note_open();
    }

    /// Notes which links have capacity left.
    fn note_open(&mut self) {
        self.open.clear();
        for (residual, full) in self.residual.chunks(64).zip(self.capacity.chunks(64)) {
            let bits = residual.iter().zip(full).map(|(left, full)| u64::from(*left > NEGLIGIBLE * full));
            self.open.push(bits.enumerate().fold(0, |word, (bit, open)| word | open << bit));
        }
    }

    fn fill_strict(&mut self, ranks: std::ops::Range<usize>, now: f64) {
        // An idle group does not remember what it was given; whoever comes before it left the same.
        let given = (0..ranks.start.min(self.order.len()))
            .rev()
            .map(|rank| &self.groups[self.order[rank] as usize])
            .find(|ranked| !ranked.input.is_empty());
        match given {
            Some(before) => self.residual.copy_from_slice(&before.output),
            None => self.residual.copy_from_slice(&self.capacity),
        }
        self.note_open();
        for rank in ranks.start..self.order.len() {
            let group = self.order[rank];
            if rank >= ranks.end && self.groups[group as usize].input == self.residual {
                return;
            }
            self.fill_group(group, now);
        }
    }

    fn fill_weighted(&mut self, now: f64) {
        let Shares::Weighted { weights, to_highest } = self.shares.clone() else { unreachable!() };
        let classes = self.classes();
        let links = self.capacity.len();
        let weight = |class: u16| f64::from(weights[usize::from(class).min(weights.len() - 1)]);
        let mut offers = vec![vec![0.0; links]; classes.len()];
        self.first_offers(&classes, &weight, &mut offers);
        let mut used = vec![vec![0.0; links]; classes.len()];
        for _ in 0..MAX_ROUNDS {
            for (index, (_, ranks)) in classes.iter().enumerate() {
                self.residual.copy_from_slice(&offers[index]);
                self.note_open();
                for rank in ranks.clone() {
                    self.try_group(self.order[rank], now);
                }
                for link in 0..links {
                    used[index][link] = offers[index][link] - self.residual[link];
                }
            }
            if !offer_again(&self.capacity, &classes, &weight, to_highest, &used, &mut offers) {
                break;
            }
        }
        // What is free after all that goes to the highest class that can use it.
        for (index, (_, ranks)) in classes.iter().enumerate() {
            for (link, residual) in self.residual.iter_mut().enumerate() {
                let others = used.iter().enumerate().filter(|(other, _)| *other != index);
                let others: f64 = others.map(|(_, used)| used[link]).sum();
                *residual = (self.capacity[link] - others).max(0.0);
            }
            let offer = self.residual.clone();
            self.note_open();
            for rank in ranks.clone() {
                self.fill_group(self.order[rank], now);
            }
            for link in 0..links {
                used[index][link] = offer[link] - self.residual[link];
            }
        }
    }

    /// Takes out of `self.residual` what one group would use of it.
    fn try_group(&mut self, group: u32, now: f64) {
        let ranked = &mut self.groups[group as usize];
        if ranked.group.is_shut(&self.open) {
            return;
        }
        if !ranked.changed && ranked.input == self.residual {
            self.residual.copy_from_slice(&ranked.output);
        } else {
            ranked.group.try_fill(
                &mut self.flows,
                &mut self.residual,
                &self.capacity,
                now,
                &mut self.scratch,
            );
        }
        self.note_open();
    }

    /// The classes present, each with the ranks of its groups.
    fn classes(&self) -> Vec<(u16, std::ops::Range<usize>)> {
        let mut classes: Vec<(u16, std::ops::Range<usize>)> = Vec::new();
        for (rank, &group) in self.order.iter().enumerate() {
            let class = self.groups[group as usize].key.class;
            match classes.last_mut() {
                Some((last, ranks)) if *last == class => ranks.end = rank + 1,
                _ => classes.push((class, rank..rank + 1)),
            }
        }
        classes
    }

    /// Splits each link by weight between the classes that have flows there.
    fn first_offers(
        &self,
        classes: &[(u16, std::ops::Range<usize>)],
        weight: &impl Fn(u16) -> f64,
        offers: &mut [Vec<f64>],
    ) {
        let mut total = vec![0.0; self.capacity.len()];
        for (index, (class, ranks)) in classes.iter().enumerate() {
            for &group in &self.order[ranks.clone()] {
                self.groups[group as usize].group.mark_links(&mut offers[index], weight(*class));
            }
            for (total, offer) in total.iter_mut().zip(&offers[index]) {
                *total += offer;
            }
        }
        for offer in offers {
            for (link, offer) in offer.iter_mut().enumerate() {
                if *offer > 0.0 {
                    *offer *= self.capacity[link] / total[link];
                }
            }
        }
    }
}

/// Offers free capacity to the classes that used up their offer. Returns whether any offer grew.
fn offer_again(
    capacity: &[f64],
    classes: &[(u16, std::ops::Range<usize>)],
    weight: &impl Fn(u16) -> f64,
    to_highest: bool,
    used: &[Vec<f64>],
    offers: &mut [Vec<f64>],
) -> bool {
    let mut grew = false;
    for link in 0..capacity.len() {
        let negligible = NEGLIGIBLE * capacity[link];
        let free = capacity[link] - used.iter().map(|used| used[link]).sum::<f64>();
        let wants =
            |index: usize| offers[index][link] > 0.0 && used[index][link] >= offers[index][link] - negligible;
        let wanting: Vec<usize> = (0..classes.len()).filter(|&index| wants(index)).collect();
        let total: f64 = wanting.iter().map(|&index| weight(classes[index].0)).sum();
        for (index, offer) in offers.iter_mut().enumerate() {
            offer[link] = used[index][link];
        }
        if free <= negligible || wanting.is_empty() {
            continue;
        }
        grew = true;
        if to_highest {
            offers[wanting[0]][link] += free;
        } else {
            for &index in &wanting {
                offers[index][link] += free * weight(classes[index].0) / total;
            }
        }
    }
    grew
}

impl Fill for MaxMinFill {
    fn reserve_accounts(&mut self, count: usize) {
        if count > self.accounts.len() {
            let fresh = Account {
                key: Key::default(),
                flows: Vec::new(),
                added: 0.0,
                one_row: true,
                strayed: false,
                base: 0.0,
                reached: 0.0,
                watch: f64::INFINITY,
                watch_at: f64::INFINITY,
                not_before: 0.0,
                fastest: 0.0,
                counted: Cell::default(),
            };
            self.accounts.resize(count, fresh);
        }
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        let account = accounts[0];
        self.links[flow as usize] = links;
        let record = &mut self.flows[flow as usize];
        record.account = account;
        record.milestone = 0.0;
        let key = self.accounts[account as usize].key;
        if !self.by_key.contains_key(&key) {
            self.accounts[account as usize].base = self.attained(account, now);
        }
        self.enter(flow, key, bytes, now);
        let holder = &mut self.accounts[account as usize];
        holder.one_row &= holder.flows.first().is_none_or(|&other| self.links[other as usize][0] == links[0]);
        let total: f64 = self.capacity.iter().sum();
        holder.fastest = if holder.one_row { self.capacity[links[0] as usize] } else { total };
        // What bounded its rate so far does not bound it any more.
        holder.not_before = now;
        self.flows[flow as usize].in_account = holder.flows.len() as u32;
        holder.flows.push(flow);
        holder.added += bytes;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64) {
        // Accounts that get the same key are often a whole group (a coflow whose hosts agreed): then move that.
        let mut rest = keys;
        while let Some(&(_, key)) = rest.first() {
            let run = rest.iter().take_while(|(_, other)| *other == key).count();
            let (accounts, behind) = rest.split_at(run);
            rest = behind;
            let whole = self.common_group(accounts).filter(|_| !self.by_key.contains_key(&key));
            for &(account, _) in accounts {
                if whole.is_none() && self.accounts[account as usize].key != key {
                    self.accounts[account as usize].base = self.attained(account, now);
                }
                self.accounts[account as usize].key = key;
            }
            if let Some(group) = whole {
                self.rekey_group(group, key);
                continue;
            }
            for &(account, _) in accounts {
                for index in 0..self.accounts[account as usize].flows.len() {
                    let flow = self.accounts[account as usize].flows[index];
                    if self.groups[self.flows[flow as usize].group as usize].key != key {
                        self.move_flow(flow, key, now);
                    }
                }
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64) {
        let group = self.flows[flow as usize].group;
        if group != NONE && self.groups[group as usize].key != key {
            self.accounts[self.flows[flow as usize].account as usize].strayed = true;
            self.move_flow(flow, key, now);
        }
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        let group = self.flows[flow as usize].group;
        if group != NONE {
            let ranked = &mut self.groups[group as usize];
            ranked.group.set_cap(&mut self.flows, flow, cap, now);
            ranked.changed = true;
            self.changed = true;
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, now: f64) {
        let group = self.flows[flow as usize].group;
        if group != NONE {
            self.groups[group as usize].group.set_milestone(&mut self.flows, flow, remaining, now);
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        if self.accounts[account as usize].watch == f64::INFINITY {
            self.watched.push(account);
        }
        self.accounts[account as usize].watch = bytes;
        self.predict(account, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.accounts[account as usize].watch = f64::INFINITY;
        self.watched.retain(|&other| other != account);
    }

    fn next(&self) -> f64 {
        let flows = self.order.iter().map(|&group| self.groups[group as usize].group.next);
        let accounts = self.watched.iter().map(|&account| self.accounts[account as usize].watch_at);
        flows.chain(accounts).fold(f64::INFINITY, f64::min)
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + tolerance(now);
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|&account| {
            if self.accounts[account as usize].watch_at > reach || !self.predict(account, now) {
                return true;
            }
            let holder = &mut self.accounts[account as usize];
            holder.reached = holder.watch;
            holder.watch = f64::INFINITY;
            holder.watch_at = f64::INFINITY;
            due.accounts.push(account);
            false
        });
        self.watched = watched;
        let mut flows = std::mem::take(&mut self.due);
        for rank in 0..self.order.len() {
            let ranked = &mut self.groups[self.order[rank] as usize];
            if ranked.group.next <= reach {
                ranked.group.take_due(&self.flows, now, &mut flows);
            }
        }
        for flow in flows.drain(..) {
            if self.flows[flow as usize].milestone > 0.0 {
                let group = self.flows[flow as usize].group;
                self.groups[group as usize].group.set_milestone(&mut self.flows, flow, 0.0, now);
                due.flows.push(flow);
            } else {
                self.leave(flow, now);
                self.forget(flow);
                due.finished.push(flow);
            }
        }
        self.due = flows;
    }

    fn refill(&mut self, now: f64) {
        if !self.changed {
            return;
        }
        self.changed = false;
        let ranks = self.changed_ranks();
        match self.shares {
            Shares::Strict => self.fill_strict(ranks, now),
            Shares::Weighted { .. } => self.fill_weighted(now),
        }
        self.update_watches(now);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        match self.flows[flow as usize].group {
            NONE => 0.0,
            group => self.groups[group as usize].group.remaining(&self.flows, flow, now),
        }
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        let holder = &self.accounts[account as usize];
        if let Some(group) = self.sole_group(account) {
            return (holder.base + self.groups[group as usize].sent_at(now)).max(holder.reached);
        }
        let row = self.own_row(account, now);
        let counted = holder.counted.get();
        if let Some((group, tenancy, row_sent, _)) = row
            && (group, tenancy) == (counted.group, counted.tenancy)
        {
            return (counted.sent + row_sent - counted.row_sent).max(holder.reached);
        }
        let sent = holder.added - holder.flows.iter().map(|&flow| self.remaining(flow, now)).sum::<f64>();
        if let Some((group, tenancy, row_sent, _)) = row {
            holder.counted.set(Counted { group, tenancy, row_sent, sent });
        }
        sent.max(holder.reached)
    }

    fn rate(&self, flow: u32) -> f64 {
        match self.flows[flow as usize].group {
            NONE => 0.0,
            group => self.groups[group as usize].group.rate_of(&self.flows, flow),
        }
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for &group in &self.order {
            let ranked = &self.groups[group as usize];
            for (link, (before, after)) in ranked.input.iter().zip(&ranked.output).enumerate() {
                use_of_link[link] += before - after;
            }
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
            for link in self.links[flow as usize] {
                loads[link as usize] += bytes;
            }
        }
        for (link, &bytes) in loads.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            visit(link as u32, bytes);
        }
    }
}

impl MaxMinFill {
    /// Takes a finished flow off its account's list.
    fn forget(&mut self, flow: u32) {
        let record = &self.flows[flow as usize];
        let (account, position) = (record.account as usize, record.in_account as usize);
        let flows = &mut self.accounts[account].flows;
        flows.swap_remove(position);
        if let Some(&moved) = flows.get(position) {
            self.flows[moved as usize].in_account = position as u32;
        } else if flows.is_empty() {
            self.accounts[account].watch_at = f64::INFINITY;
        }
    }
}

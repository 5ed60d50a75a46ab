//! Flows one by one in the order of (key, bytes left), preemptively: ideal pFabric where all keys are equal, and the
//! shortest flow of the first task where each task has a key.
//!
//! # The idea
//! Both links of a flow rank it alike, so the greedy filling in that order is the one allocation in which no flow could
//! displace a later one on all its links. It can be mended locally: what becomes free on a link is offered to the flows
//! waiting there, in order; who takes it may displace a later flow on the other link, whose first link is free in turn.
//!
//! While a flow is served it has ever fewer bytes left, so it only moves forward; a waiting flow keeps its place. Waiting
//! flows stand in sorted lists per link; the few that are served on a link are merged in when it is looked at.
//!
//! # Cost
//! Per completion: the waiting flows looked at on two links until one can be served, about 3 ns each.

use std::cmp::Ordering;

use crate::fill::{Due, Fill, Key};
use crate::maxmin::NEGLIGIBLE;
use crate::min_tree::MinTree;
use crate::service::Service;

/// A place in the order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rank {
    key: Key,
    left: f64,
    flow: u32,
}

impl Rank {
    fn is_before(&self, other: &Rank) -> bool {
        let by_key = self.key.cmp(&other.key);
        by_key.then(self.left.total_cmp(&other.left)).then(self.flow.cmp(&other.flow)).is_lt()
    }
}

/// A flow with a rate, as each of its links remembers it: looking at it must not miss the cache.
#[derive(Clone, Copy, Debug)]
struct Served {
    key: Key,
    /// Bytes left at `since`.
    left: f64,
    since: f64,
    rate: f64,
    flow: u32,
    /// The link at its other end.
    other: u32,
}

impl Served {
    fn rank(&self, now: f64) -> Rank {
        Rank { key: self.key, left: (self.left - self.rate * (now - self.since)).max(0.0), flow: self.flow }
    }
}

#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    flows: Vec<u32>,
}

/// Rates for the flow with the fewest bytes left first.
#[derive(Debug)]
pub struct ShortestFill {
    capacity: Vec<f64>,
    service: Service,
    keys: Vec<Key>,
    /// For each flow: where it stands in its account's list.
    in_account: Vec<u32>,
    accounts: Vec<Account>,
    /// Flows without a rate, by link, the first last, unless the link is in `unsorted`: flows leave from the front.
    waiting: Vec<Vec<Rank>>,
    unsorted: Vec<bool>,
    /// Flows with a rate, by link.
    served: Vec<Vec<Served>>,
    /// For each link: when a flow served there overtakes one before it, which takes two of them, at different rates.
    overtakes: MinTree,
    /// Links to be looked at.
    freed: Vec<u32>,
}

impl ShortestFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        Self {
            service: Service::new(capacity.len(), flows),
            keys: vec![Key::default(); flows],
            in_account: vec![0; flows],
            accounts: Vec::new(),
            waiting: vec![Vec::new(); capacity.len()],
            unsorted: vec![false; capacity.len()],
            served: vec![Vec::new(); capacity.len()],
            overtakes: MinTree::new(capacity.len()),
            freed: Vec::new(),
            capacity,
        }
    }

    fn rank(&self, flow: u32, now: f64) -> Rank {
        Rank { key: self.keys[flow as usize], left: self.service.flows[flow as usize].left_at(now), flow }
    }

    /// What `link` has for a flow: its capacity less the rates of the flows before it.
    fn available(&self, link: u32, rank: &Rank, now: f64) -> f64 {
        let mut left = self.capacity[link as usize];
        for served in &self.served[link as usize] {
            if served.flow != rank.flow && served.rank(now).is_before(rank) {
                left -= served.rate;
            }
        }
        if left > NEGLIGIBLE * self.capacity[link as usize] { left } else { 0.0 }
    }

    fn wait(&mut self, flow: u32, now: f64) {
        let rank = self.rank(flow, now);
        for link in self.service.flows[flow as usize].links {
            let waiting = &mut self.waiting[link as usize];
            if self.unsorted[link as usize] {
                waiting.push(rank);
            } else {
                let at = waiting.partition_point(|other| rank.is_before(other));
                waiting.insert(at, rank);
            }
        }
    }

    fn stop_waiting(&mut self, flow: u32, now: f64) {
        let rank = self.rank(flow, now);
        for link in self.service.flows[flow as usize].links {
            self.sort(link);
            let waiting = &mut self.waiting[link as usize];
            let at = waiting.partition_point(|other| rank.is_before(other));
            assert!(waiting.get(at) == Some(&rank), "a flow without a rate stands in its links' lists");
            waiting.remove(at);
        }
    }

    fn sort(&mut self, link: u32) {
        if std::mem::take(&mut self.unsorted[link as usize]) {
            self.waiting[link as usize].sort_unstable_by(|a, b| {
                b.key.cmp(&a.key).then(b.left.total_cmp(&a.left)).then(b.flow.cmp(&a.flow))
            });
        }
    }

    fn set_rate(&mut self, flow: u32, rate: f64, now: f64) {
        let before = self.service.flows[flow as usize].rate;
        if before == 0.0 && rate > 0.0 {
            self.stop_waiting(flow, now);
        }
        self.service.set_rate(flow, rate, now);
        self.remember(flow, now);
        if before > 0.0 && rate == 0.0 {
            self.wait(flow, now);
        }
    }

    /// Brings what its links remember of a flow up to date.
    fn remember(&mut self, flow: u32, now: f64) {
        let record = &self.service.flows[flow as usize];
        for (side, &link) in record.links.iter().enumerate() {
            let served = &mut self.served[link as usize];
            served.retain(|served| served.flow != flow);
            if record.rate > 0.0 {
                served.push(Served {
                    key: self.keys[flow as usize],
                    left: record.left,
                    since: record.since,
                    rate: record.rate,
                    flow,
                    other: record.links[1 - side],
                });
            }
            self.overtakes.set(link as usize, first_overtaking(&self.served[link as usize], now));
        }
    }

    /// Offers what `link` has to the flows on it, in order.
    fn offer(&mut self, link: u32, now: f64) {
        self.sort(link);
        let mut position = self.waiting[link as usize].len();
        // Flows that are served here already may want more; with equal links they never do.
        let mut served: Vec<Rank> =
            self.served[link as usize].iter().map(|served| served.rank(now)).collect();
        served.sort_unstable_by(|a, b| if a.is_before(b) { Ordering::Greater } else { Ordering::Less });
        loop {
            let waiting = position.checked_sub(1).map(|at| self.waiting[link as usize][at]);
            let rank = match (waiting, served.last()) {
                (Some(waiting), Some(first)) if !first.is_before(&waiting) => waiting,
                (Some(waiting), None) => waiting,
                (_, Some(first)) => *first,
                (None, None) => return,
            };
            if waiting == Some(rank) {
                position -= 1;
            } else {
                served.pop();
            }
            let here = self.available(link, &rank, now);
            if here <= 0.0 {
                return;
            }
            let [row, column] = self.service.flows[rank.flow as usize].links;
            let other = if row == link { column } else { row };
            let there = self.available(other, &rank, now);
            if there <= 0.0 {
                continue;
            }
            let record = &self.service.flows[rank.flow as usize];
            let rate = here.min(there).min(record.cap);
            if rate > record.rate * (1.0 + NEGLIGIBLE) {
                self.set_rate(rank.flow, rate, now);
                self.make_room(link, now);
                self.make_room(other, now);
                // The flow is gone from the list, and who had to make room for it has come in behind.
                position = self.waiting[link as usize].partition_point(|other| rank.is_before(other));
            }
        }
    }

    /// Takes from the last flows until `link` carries no more than it can.
    fn make_room(&mut self, link: u32, now: f64) {
        while self.served[link as usize].len() > 1 {
            let served = &self.served[link as usize];
            let over = served.iter().map(|served| served.rate).sum::<f64>() - self.capacity[link as usize];
            if over <= NEGLIGIBLE * self.capacity[link as usize] {
                return;
            }
            let later = |a: Served, b: Served| if a.rank(now).is_before(&b.rank(now)) { b } else { a };
            let Some(last) = served.iter().copied().reduce(later) else { return };
            let rate = last.rate - over;
            let kept = if rate > NEGLIGIBLE * self.capacity[link as usize] { rate } else { 0.0 };
            self.set_rate(last.flow, kept, now);
            self.freed.push(last.other);
        }
    }

    /// Gives a flow a new key, and looks at its links again.
    fn rekey(&mut self, flow: u32, key: Key, now: f64) {
        if self.keys[flow as usize] == key {
            return;
        }
        let waits = self.service.flows[flow as usize].rate == 0.0;
        if waits {
            self.stop_waiting(flow, now);
        }
        self.keys[flow as usize] = key;
        self.remember(flow, now);
        if waits {
            self.wait(flow, now);
        }
        self.freed.extend(self.service.flows[flow as usize].links);
    }
}

/// When the first of these flows has fewer bytes left than another of its key that has fewer now.
fn first_overtaking(served: &[Served], now: f64) -> f64 {
    let mut first = f64::INFINITY;
    for (index, a) in served.iter().enumerate() {
        for b in &served[index + 1..] {
            let (fast, slow) = if a.rate > b.rate { (a, b) } else { (b, a) };
            let (behind, before) = (fast.rank(now), slow.rank(now));
            // Of two with equal bytes left, the faster one is ahead a moment later.
            if fast.key == slow.key && fast.rate > slow.rate && before.is_before(&behind) {
                let ahead = behind.left - before.left;
                // Looked at when it is over and not just on, beyond what rounding could undo.
                let ahead = ahead + (1e-14 * behind.left).max(1e-6);
                let when = now + ahead / (fast.rate - slow.rate);
                first = first.min(when + 2e-15 * when);
            }
        }
    }
    first
}

impl Fill for ShortestFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.service.add(flow, links, accounts, bytes, now);
        let account = &mut self.accounts[accounts[0] as usize];
        self.keys[flow as usize] = account.key;
        self.in_account[flow as usize] = account.flows.len() as u32;
        account.flows.push(flow);
        for link in links {
            self.unsorted[link as usize] = true;
        }
        self.wait(flow, now);
        self.freed.extend(links);
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64) {
        for &(account, key) in keys {
            self.accounts[account as usize].key = key;
            for index in 0..self.accounts[account as usize].flows.len() {
                self.rekey(self.accounts[account as usize].flows[index], key, now);
            }
        }
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64) {
        if self.service.flows[flow as usize].is_present() {
            self.rekey(flow, key, now);
        }
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        if self.service.flows[flow as usize].is_present() {
            let cap = cap.unwrap_or(f64::INFINITY);
            self.service.flows[flow as usize].cap = cap;
            if self.service.flows[flow as usize].rate > cap {
                self.set_rate(flow, cap, now);
            }
            self.freed.extend(self.service.flows[flow as usize].links);
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        self.service.watch_flow(flow, remaining);
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.service.watch_account(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.service.unwatch_account(account);
    }

    fn next(&self) -> f64 {
        self.service.next().min(self.overtakes.min())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        self.overtakes.up_to(now, &mut self.freed);
        for index in 0..self.freed.len() {
            self.overtakes.set(self.freed[index] as usize, f64::INFINITY);
        }
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let record = &self.service.flows[flow as usize];
            let (links, account) = (record.links, record.accounts[0] as usize);
            self.freed.extend(links);
            self.service.remove(flow, now);
            self.remember(flow, now);
            let at = self.in_account[flow as usize] as usize;
            self.accounts[account].flows.swap_remove(at);
            if let Some(&moved) = self.accounts[account].flows.get(at) {
                self.in_account[moved as usize] = at as u32;
            }
        }
    }

    fn refill(&mut self, now: f64) {
        self.freed.sort_unstable_by(|a, b| b.cmp(a));
        self.freed.dedup();
        while let Some(link) = self.freed.pop() {
            self.offer(link, now);
            self.overtakes.set(link as usize, first_overtaking(&self.served[link as usize], now));
        }
        self.service.finish_refill(now);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.service.remaining(flow, now)
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.service.attained(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.service.flows[flow as usize].rate
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        self.service.add_use(use_of_link);
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.accounts[account as usize].flows.iter().for_each(|&flow| visit(flow));
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        self.service.loads(&self.accounts[account as usize].flows, now, visit);
    }
}

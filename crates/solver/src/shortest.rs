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

use crate::fill::{Due, Fill, Key};
use crate::maxmin::NEGLIGIBLE;
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
    /// Flows without a rate, by link, in order unless the link is in `unsorted`.
    waiting: Vec<Vec<Rank>>,
    unsorted: Vec<bool>,
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
        for &flow in &self.service.on_link[link as usize] {
            if flow != rank.flow && self.rank(flow, now).is_before(rank) {
                left -= self.service.flows[flow as usize].rate;
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
                let at = waiting.partition_point(|other| other.is_before(&rank));
                waiting.insert(at, rank);
            }
        }
    }

    fn stop_waiting(&mut self, flow: u32, now: f64) {
        let rank = self.rank(flow, now);
        for link in self.service.flows[flow as usize].links {
            self.sort(link);
            let waiting = &mut self.waiting[link as usize];
            let at = waiting.partition_point(|other| other.is_before(&rank));
            assert!(waiting.get(at) == Some(&rank), "a flow without a rate stands in its links' lists");
            waiting.remove(at);
        }
    }

    fn sort(&mut self, link: u32) {
        if std::mem::take(&mut self.unsorted[link as usize]) {
            self.waiting[link as usize].sort_unstable_by(|a, b| {
                a.key.cmp(&b.key).then(a.left.total_cmp(&b.left)).then(a.flow.cmp(&b.flow))
            });
        }
    }

    fn set_rate(&mut self, flow: u32, rate: f64, now: f64) {
        let before = self.service.flows[flow as usize].rate;
        if before == 0.0 && rate > 0.0 {
            self.stop_waiting(flow, now);
        }
        self.service.set_rate(flow, rate, now);
        if before > 0.0 && rate == 0.0 {
            self.wait(flow, now);
        }
    }

    /// Offers what `link` has to the flows on it, in order.
    fn offer(&mut self, link: u32, now: f64) {
        self.sort(link);
        let mut position = 0;
        let mut served: Vec<Rank> =
            self.service.on_link[link as usize].iter().map(|&flow| self.rank(flow, now)).collect();
        served.sort_unstable_by(|a, b| if a.is_before(b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater });
        let mut served = served.into_iter().peekable();
        loop {
            let waiting = self.waiting[link as usize].get(position).copied();
            let rank = match (waiting, served.peek()) {
                (Some(waiting), Some(first)) if !first.is_before(&waiting) => waiting,
                (Some(waiting), None) => waiting,
                (_, Some(first)) => *first,
                (None, None) => return,
            };
            let is_waiting = waiting == Some(rank);
            if !is_waiting {
                served.next();
            }
            let here = self.available(link, &rank, now);
            if here <= 0.0 {
                return;
            }
            let record = &self.service.flows[rank.flow as usize];
            let [row, column] = record.links;
            let other = if row == link { column } else { row };
            let rate = here.min(self.available(other, &rank, now)).min(record.cap);
            if rate > record.rate * (1.0 + NEGLIGIBLE) {
                self.set_rate(rank.flow, rate, now);
                self.make_room(link, now);
                self.make_room(other, now);
            } else if is_waiting {
                position += 1;
            }
        }
    }

    /// Takes from the last flows until `link` carries no more than it can.
    fn make_room(&mut self, link: u32, now: f64) {
        while self.service.on_link[link as usize].len() > 1 {
            let on_link = &self.service.on_link[link as usize];
            let used: f64 = on_link.iter().map(|&flow| self.service.flows[flow as usize].rate).sum();
            let over = used - self.capacity[link as usize];
            if over <= NEGLIGIBLE * self.capacity[link as usize] {
                return;
            }
            let ranks = on_link.iter().map(|&flow| self.rank(flow, now));
            let Some(last) = ranks.reduce(|a, b| if a.is_before(&b) { b } else { a }) else { return };
            let rate = self.service.flows[last.flow as usize].rate - over;
            let kept = if rate > NEGLIGIBLE * self.capacity[link as usize] { rate } else { 0.0 };
            self.set_rate(last.flow, kept, now);
            let [row, column] = self.service.flows[last.flow as usize].links;
            self.freed.push(if row == link { column } else { row });
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
        if waits {
            self.wait(flow, now);
        }
        self.freed.extend(self.service.flows[flow as usize].links);
    }
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

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let record = &self.service.flows[flow as usize];
            let (links, account) = (record.links, record.accounts[0] as usize);
            self.freed.extend(links);
            self.service.remove(flow, now);
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

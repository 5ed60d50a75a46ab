//! Flows that are served at rates set one by one: bytes left, when each ends, what each account has
//! been sent.
//!
//! The book of the allocator for shortest flow first. Bytes are settled only when a rate changes;
//! when a flow ends follows from its rate and is kept in a tree of minima by the link where it
//! enters, so changing a rate costs O(log links + flows served on the link).

use crate::fill::Due;
use crate::fill::NONE;
use crate::progress::attained::Attained;
use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::TOLERANCE;
use crate::route::Route;

/// The part of [`Fill`](crate::Fill) that is the same for every allocator with a `service` and
/// `accounts` that have lists of `flows`: what it is asked about flows and accounts, and what it is
/// to watch. With `with links`, also what links carry and have to carry.
macro_rules! leave_to_service {
    () => {
        fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
            self.service.watch_flow(flow, remaining);
        }

        fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
            self.service.watch_account(account, bytes, now);
        }

        fn unwatch_account(&mut self, account: u32) {
            self.service.unwatch_account(account);
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

        fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
            self.accounts[account as usize].flows.iter().for_each(|&flow| visit(flow));
        }
    };
    (with links) => {
        leave_to_service!();

        fn add_use(&self, use_of_link: &mut [f64]) {
            self.service.add_use(use_of_link);
        }

        fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
            self.service.loads(&self.accounts[account as usize].flows, now, visit);
        }
    };
}
pub(crate) use leave_to_service;

/// One flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow<const N: usize> {
    pub(crate) route: Route<N>,
    /// Its accounts, twice the same unless keys are per link; [`NONE`] when it is not in the
    /// allocator.
    pub(crate) accounts: [u32; 2],
    /// Bytes left at `since`.
    pub(crate) left: f64,
    pub(crate) rate: f64,
    pub(crate) since: f64,
    pub(crate) cap: f64,
    /// Bytes left at which it is next reported.
    milestone: f64,
}

/// Flows on paths of at most `N` links, links and accounts with their rates.
#[derive(Debug)]
pub(crate) struct Service<const N: usize> {
    pub(crate) flows: Vec<Flow<N>>,
    /// Flows with a rate, by link.
    pub(crate) on_link: Vec<Vec<u32>>,
    ends: MinTree,
    /// Links where flows enter whose entry in `ends` is outdated.
    outdated: Vec<u32>,
    is_outdated: Vec<bool>,
    attained: Attained,
    places: Vec<u32>,
}

impl<const N: usize> Flow<N> {
    const ABSENT: Self = Self {
        route: Route::NONE,
        accounts: [NONE; 2],
        left: 0.0,
        rate: 0.0,
        since: 0.0,
        cap: f64::INFINITY,
        milestone: 0.0,
    };

    /// Bytes left at `now`.
    pub(crate) fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }

    pub(crate) fn is_present(&self) -> bool {
        self.accounts[0] != NONE
    }
}

impl<const N: usize> Service<N> {
    pub(crate) fn new(links: usize, flows: usize) -> Self {
        Self {
            flows: vec![Flow::ABSENT; flows],
            on_link: vec![Vec::new(); links],
            ends: MinTree::new(links),
            outdated: Vec::new(),
            is_outdated: vec![false; links],
            attained: Attained::default(),
            places: Vec::new(),
        }
    }

    pub(crate) fn reserve_accounts(&mut self, count: usize) {
        self.attained.reserve(count);
    }

    pub(crate) fn reserve_flows(&mut self, count: usize) {
        self.flows.resize(count, Flow::ABSENT);
    }

    pub(crate) fn add(&mut self, flow: u32, route: Route<N>, accounts: &[u32], bytes: f64, now: f64) {
        let accounts = [accounts[0], accounts[accounts.len() - 1]];
        let record = &mut self.flows[flow as usize];
        *record = Flow { route, accounts, left: bytes, since: now, ..record.clone() };
    }

    /// Changes the rate of `flow` and returns the bytes that it has sent since the last change.
    pub(crate) fn set_rate(&mut self, flow: u32, rate: f64, now: f64) -> f64 {
        let record = &mut self.flows[flow as usize];
        let sent = (record.rate * (now - record.since)).min(record.left);
        record.left -= sent;
        record.since = now;
        let before = std::mem::replace(&mut record.rate, rate);
        let (route, [near, far]) = (record.route, record.accounts);
        let (starts, stops) = (before == 0.0 && rate > 0.0, before > 0.0 && rate == 0.0);
        self.attained.book(near, before, rate, now);
        if far != near {
            self.attained.book(far, before, rate, now);
        }
        for link in route.links() {
            let on_link = &mut self.on_link[link as usize];
            if starts {
                on_link.push(flow);
            } else if stops && let Some(at) = on_link.iter().position(|&other| other == flow) {
                on_link.swap_remove(at);
            }
        }
        let [row, _] = route.ends();
        if !std::mem::replace(&mut self.is_outdated[row as usize], true) {
            self.outdated.push(row);
        }
        sent
    }

    fn update_end(&mut self, link: u32) {
        let ends = self.on_link[link as usize].iter().map(|&flow| {
            let flow = &self.flows[flow as usize];
            flow.since + (flow.left - flow.milestone).max(0.0) / flow.rate
        });
        self.ends.set(link as usize, ends.fold(f64::INFINITY, f64::min));
    }

    /// Takes a flow that has nothing left out of the book.
    pub(crate) fn remove(&mut self, flow: u32, now: f64) {
        self.set_rate(flow, 0.0, now);
        let record = &mut self.flows[flow as usize];
        record.left = 0.0;
        record.cap = f64::INFINITY;
        record.accounts = [NONE; 2];
    }

    pub(crate) fn watch_flow(&mut self, flow: u32, remaining: f64) {
        if self.flows[flow as usize].is_present() {
            self.flows[flow as usize].milestone = remaining;
            self.update_end(self.flows[flow as usize].route.ends()[0]);
        }
    }

    pub(crate) fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.attained.watch(account, bytes, now);
    }

    pub(crate) fn unwatch_account(&mut self, account: u32) {
        self.attained.unwatch(account);
    }

    /// After rates have changed: when flows end and watched accounts reach their amounts.
    pub(crate) fn finish_refill(&mut self, now: f64) {
        while let Some(link) = self.outdated.pop() {
            self.is_outdated[link as usize] = false;
            self.update_end(link);
        }
        self.attained.update_watches(now);
    }

    pub(crate) fn next(&self) -> f64 {
        self.ends.min().min(self.attained.next())
    }

    /// Moves the origin of time.
    pub(crate) fn rebase(&mut self, by: f64) {
        self.flows.iter_mut().for_each(|flow| flow.since -= by);
        self.ends.rebase(by);
        self.attained.rebase(by);
    }

    /// Takes out what is due. Finished flows are still in the book, for the allocator to
    /// [`Service::remove`].
    pub(crate) fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + TOLERANCE;
        self.attained.take_due(now, &mut due.accounts);
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        self.ends.up_to(reach, &mut places);
        for &link in &places {
            self.is_outdated[link as usize] = true;
            self.outdated.push(link);
            for &flow in &self.on_link[link as usize] {
                let record = &mut self.flows[flow as usize];
                if record.since + (record.left - record.milestone) / record.rate > reach {
                    continue;
                }
                if record.milestone > 0.0 {
                    record.milestone = 0.0;
                    due.flows.push(flow);
                } else {
                    due.finished.push(flow);
                }
            }
        }
        self.places = places;
    }

    pub(crate) fn remaining(&self, flow: u32, now: f64) -> f64 {
        let record = &self.flows[flow as usize];
        if record.is_present() { record.left_at(now) } else { 0.0 }
    }

    pub(crate) fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    /// Calls `visit` with each link on which these flows have bytes left, and how many, in
    /// ascending order.
    pub(crate) fn loads(&self, flows: &[u32], now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = vec![0.0; self.on_link.len()];
        for &flow in flows {
            let record = &self.flows[flow as usize];
            for link in record.route.links() {
                loads[link as usize] += record.left_at(now);
            }
        }
        for (link, &bytes) in loads.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            visit(link as u32, bytes);
        }
    }

    pub(crate) fn add_use(&self, use_of_link: &mut [f64]) {
        for (link, flows) in self.on_link.iter().enumerate() {
            use_of_link[link] += flows.iter().map(|&flow| self.flows[flow as usize].rate).sum::<f64>();
        }
    }
}

//! Flows that are served at rates set one by one: bytes left, when each ends, what each account has been sent.
//!
//! Bytes are settled only when a rate changes; when a flow ends follows from its rate and is kept in a tree of minima by
//! the link where it enters, so changing a rate costs O(log links + flows served on the link).

use crate::fill::Due;
use crate::fill::NONE;
use crate::progress::attained::Attained;
use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::tolerance;

/// One flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) links: [u32; 2],
    /// Its account; [`NONE`] when it is not in the allocator.
    pub(super) account: u32,
    /// Bytes left at `since`.
    pub(super) left: f64,
    pub(super) rate: f64,
    pub(super) since: f64,
    pub(super) cap: f64,
    /// Bytes left at which it is next reported.
    milestone: f64,
}

/// Flows, links and accounts with their rates.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) flows: Vec<Flow>,
    /// Flows with a rate, by link.
    pub(super) on_link: Vec<Vec<u32>>,
    ends: MinTree,
    /// Links where flows enter whose entry in `ends` is outdated.
    outdated: Vec<u32>,
    is_outdated: Vec<bool>,
    attained: Attained,
    places: Vec<u32>,
}

impl Flow {
    /// Bytes left at `now`.
    pub(super) fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }

    pub(super) fn is_present(&self) -> bool {
        self.account != NONE
    }
}

impl Service {
    pub(super) fn new(links: usize, flows: usize) -> Self {
        let absent = Flow {
            links: [0; 2],
            account: NONE,
            left: 0.0,
            rate: 0.0,
            since: 0.0,
            cap: f64::INFINITY,
            milestone: 0.0,
        };
        Self {
            flows: vec![absent; flows],
            on_link: vec![Vec::new(); links],
            ends: MinTree::new(links),
            outdated: Vec::new(),
            is_outdated: vec![false; links],
            attained: Attained::default(),
            places: Vec::new(),
        }
    }

    pub(super) fn reserve_accounts(&mut self, count: usize) {
        self.attained.reserve(count);
    }

    pub(super) fn add(&mut self, flow: u32, links: [u32; 2], account: u32, bytes: f64, now: f64) {
        let record = &mut self.flows[flow as usize];
        *record = Flow { links, account, left: bytes, since: now, ..record.clone() };
    }

    /// Changes the rate of `flow` and returns the bytes that it has sent since the last change.
    pub(super) fn set_rate(&mut self, flow: u32, rate: f64, now: f64) -> f64 {
        let record = &mut self.flows[flow as usize];
        let sent = (record.rate * (now - record.since)).min(record.left);
        record.left -= sent;
        record.since = now;
        let before = std::mem::replace(&mut record.rate, rate);
        let (links, account) = (record.links, record.account);
        let (starts, stops) = (before == 0.0 && rate > 0.0, before > 0.0 && rate == 0.0);
        self.attained.book(account, before, rate, now);
        for link in links {
            let on_link = &mut self.on_link[link as usize];
            if starts {
                on_link.push(flow);
            } else if stops && let Some(at) = on_link.iter().position(|&other| other == flow) {
                on_link.swap_remove(at);
            }
        }
        if !std::mem::replace(&mut self.is_outdated[links[0] as usize], true) {
            self.outdated.push(links[0]);
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
    pub(super) fn remove(&mut self, flow: u32, now: f64) {
        self.set_rate(flow, 0.0, now);
        let record = &mut self.flows[flow as usize];
        record.left = 0.0;
        record.account = NONE;
    }

    pub(super) fn watch_flow(&mut self, flow: u32, remaining: f64) {
        if self.flows[flow as usize].is_present() {
            self.flows[flow as usize].milestone = remaining;
            self.update_end(self.flows[flow as usize].links[0]);
        }
    }

    pub(super) fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.attained.watch(account, bytes, now);
    }

    pub(super) fn unwatch_account(&mut self, account: u32) {
        self.attained.unwatch(account);
    }

    /// After rates have changed: when flows end and watched accounts reach their amounts.
    pub(super) fn finish_refill(&mut self, now: f64) {
        while let Some(link) = self.outdated.pop() {
            self.is_outdated[link as usize] = false;
            self.update_end(link);
        }
        self.attained.update_watches(now);
    }

    pub(super) fn next(&self) -> f64 {
        self.ends.min().min(self.attained.next())
    }

    /// Takes out what is due. Finished flows are still in the book, for the allocator to [`Service::remove`].
    pub(super) fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + tolerance(now);
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

    pub(super) fn remaining(&self, flow: u32, now: f64) -> f64 {
        let record = &self.flows[flow as usize];
        if record.is_present() { record.left_at(now) } else { 0.0 }
    }

    pub(super) fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    /// Calls `visit` with each link on which these flows have bytes left, and how many, in ascending order.
    pub(super) fn loads(&self, flows: &[u32], now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let mut loads = vec![0.0; self.on_link.len()];
        for &flow in flows {
            let record = &self.flows[flow as usize];
            for link in record.links {
                loads[link as usize] += record.left_at(now);
            }
        }
        for (link, &bytes) in loads.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
            visit(link as u32, bytes);
        }
    }

    pub(super) fn add_use(&self, use_of_link: &mut [f64]) {
        for (link, flows) in self.on_link.iter().enumerate() {
            use_of_link[link] += flows.iter().map(|&flow| self.flows[flow as usize].rate).sum::<f64>();
        }
    }
}

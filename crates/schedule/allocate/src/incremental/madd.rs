//! MADD on any fabric, coflow by coflow.
//!
//! # The problem
//! The definition (`reference/madd.rs`) looks at every flow whenever a coflow arrives or ends.
//! Under load most coflows wait: some link that they need is full with those before them.
//!
//! # The idea
//! A coflow that got nothing has on each link what it had last time, so its *loads* are kept, and
//! whether it waits again is read off its links. What coflows leave can only go to one with both an
//! open link where its flows enter and one where they leave; the flows of no other are looked at.
//! So a change costs the flows of those that are being served, were served before, or might be.
//!
//! # Invariants
//! - While no change is outstanding, rates are those of the definition at the last change, to the
//!   last bit: sums are made over the same flows in the same order.
//! - The loads of a coflow that is not `served` are those of its flows, unless flows came or went
//!   (`is_loaded`).
//! - A coflow's list has its flows in the order of their numbers. Those that have ended are taken
//!   out when the list is next gone through.
//!
//! # Cost
//! Whenever coflows or their order change: O(links) for each coflow, and O(hops) for each flow of
//! those that are looked at; O(log flows) at an event between.

use cavalcade_model::Path;

use crate::fill::{Due, Fill, Key, NONE};
use crate::progress::attained::Attained;
use crate::progress::ends::{Ends, Sending};
use crate::progress::tolerance::TOLERANCE;
use crate::reference::NEGLIGIBLE;

/// A flow: a cache line.
#[derive(Clone, Copy, Debug)]
struct Flow {
    sending: Sending,
    cap: f64,
    links: [u32; Path::LONGEST],
    hops: u32,
    /// Its coflow; [`NONE`] when it is not in the allocator.
    coflow: u32,
}

impl Flow {
    fn absent() -> Self {
        let links = [0; Path::LONGEST];
        Self { sending: Sending::default(), cap: f64::INFINITY, links, hops: 0, coflow: NONE }
    }

    fn path(&self) -> &[u32] {
        &self.links[..self.hops as usize]
    }

    /// The least value along the path.
    fn least(&self, of_link: &[f64]) -> f64 {
        self.path().iter().map(|&link| of_link[link as usize]).fold(f64::INFINITY, f64::min)
    }
}

/// A link that a coflow uses.
#[derive(Clone, Copy, Debug)]
struct Use {
    link: u32,
    /// Bytes that the coflow has to send over it.
    load: f64,
    /// True if any of its flows crosses the link, enters the fabric there, leaves it there.
    is_used: bool,
    is_entry: bool,
    is_exit: bool,
}

impl Use {
    fn none(link: u32) -> Self {
        Self { link, load: 0.0, is_used: false, is_entry: false, is_exit: false }
    }
}

#[derive(Clone, Debug, Default)]
struct Coflow {
    key: Key,
    /// How many coflows had come before it; `None` until it has a flow.
    came: Option<u64>,
    /// Its flows in order, among them some that have ended.
    flows: Vec<u32>,
    /// Those that have not ended.
    count: u32,
    /// Its links in order, as of when rates were computed.
    uses: Vec<Use>,
    is_loaded: bool,
    /// True if any of its flows has a rate.
    served: bool,
    /// True if it stands in the order.
    is_listed: bool,
}

/// Rates by MADD, kept up to date.
#[derive(Debug)]
pub struct MaddFill {
    capacity: Vec<f64>,
    /// A link that has no more than this left is closed to all.
    negligible: f64,
    flows: Vec<Flow>,
    coflows: Vec<Coflow>,
    /// Coflows that have flows, in the order in which they were served last.
    order: Vec<u32>,
    /// Number of coflows that have come.
    came: u64,
    attained: Attained,
    ends: Ends,
    /// Time at which rates were computed.
    since: f64,
    /// True if coflows or their order have changed since.
    changed: bool,
    /// What is left of each link, and the even part of it that a flow of a waiting coflow gets.
    left: Vec<f64>,
    parts: Vec<f64>,
    /// Buffers for the loads of one coflow, by link, and the links of which any were added.
    loads: Vec<Use>,
    touched: Vec<u32>,
}

impl MaddFill {
    /// Creates an allocator for links of these capacities (bytes per nanosecond).
    pub fn new(capacity: Vec<f64>) -> Self {
        Self {
            negligible: NEGLIGIBLE * capacity.iter().copied().fold(f64::INFINITY, f64::min),
            left: capacity.clone(),
            parts: vec![0.0; capacity.len()],
            loads: (0..capacity.len() as u32).map(Use::none).collect(),
            touched: Vec::new(),
            capacity,
            flows: Vec::new(),
            coflows: Vec::new(),
            order: Vec::new(),
            came: 0,
            attained: Attained::default(),
            ends: Ends::default(),
            since: 0.0,
            changed: false,
        }
    }

    /// The flow, if it is in the allocator.
    fn find(&self, flow: u32) -> Option<&Flow> {
        self.flows.get(flow as usize).filter(|flow| flow.coflow != NONE)
    }

    fn find_mut(&mut self, flow: u32) -> Option<&mut Flow> {
        self.flows.get_mut(flow as usize).filter(|flow| flow.coflow != NONE)
    }

    /// The flows of a coflow that have not ended.
    fn members(&self, coflow: u32) -> impl Iterator<Item = u32> {
        let flows = self.coflows[coflow as usize].flows.iter().copied();
        flows.filter(move |&flow| self.flows[flow as usize].coflow == coflow)
    }

    /// Notes that the end of a flow has changed.
    fn update_end(&mut self, flow: u32) {
        let (flows, since) = (&self.flows, self.since);
        self.ends.update(flow, |flow| flows[flow as usize].sending.end(since));
    }

    /// Computes rates.
    fn compute(&mut self, now: f64) {
        self.settle(now);
        self.left.copy_from_slice(&self.capacity);
        let order = std::mem::take(&mut self.order);
        order.iter().for_each(|&coflow| self.serve(coflow));
        self.share(&order);
        let mut as_they_came = order.clone();
        as_they_came.sort_by_key(|&coflow| self.coflows[coflow as usize].came);
        as_they_came.into_iter().for_each(|coflow| self.backfill(coflow));
        let served = || {
            let served =
                order.iter().map(|&coflow| &self.coflows[coflow as usize]).filter(|coflow| coflow.served);
            served.flat_map(|coflow| &coflow.flows).map(|&number| (&self.flows[number as usize], number))
        };
        served().for_each(|(flow, _)| self.attained.book(flow.coflow, 0.0, flow.sending.rate, now));
        self.ends.renew(served().map(|(flow, number)| (flow.sending.end(now), number)));
        self.order = order;
    }

    /// Brings what flows have left, the loads of coflows and their order up to date. No flow has a
    /// rate after that.
    fn settle(&mut self, now: f64) {
        let time = now - std::mem::replace(&mut self.since, now);
        let coflows = &mut self.coflows;
        self.order.retain(|&coflow| {
            let coflow = &mut coflows[coflow as usize];
            coflow.is_listed = coflow.count > 0;
            coflow.is_listed
        });
        self.order.sort_by_key(|&coflow| (coflows[coflow as usize].key, coflows[coflow as usize].came));
        for &number in &self.order {
            let Coflow { flows, count, uses, is_loaded, served, .. } = &mut self.coflows[number as usize];
            drop_ended(flows, *count, number, &self.flows);
            if *is_loaded && !*served {
                continue;
            }
            for &flow in &*flows {
                let record = &mut self.flows[flow as usize];
                if record.sending.rate > 0.0 {
                    record.sending.left = record.sending.left_after(time);
                    self.attained.book(number, record.sending.rate, 0.0, now);
                    record.sending.rate = 0.0;
                }
                add_loads(&mut self.loads, &mut self.touched, record);
            }
            self.touched.sort_unstable();
            let take = |link: u32| std::mem::replace(&mut self.loads[link as usize], Use::none(link));
            uses.clear();
            uses.extend(self.touched.drain(..).map(take));
            (*is_loaded, *served) = (true, false);
        }
    }

    /// Gives a coflow what lets all of its flows end together, if none of its links is full.
    fn serve(&mut self, number: u32) {
        let coflow = &mut self.coflows[number as usize];
        let mut duration: f64 = 0.0;
        for &Use { link, load, .. } in &coflow.uses {
            let left = self.left[link as usize];
            if left <= NEGLIGIBLE * self.capacity[link as usize] {
                return;
            }
            duration = duration.max(load / left);
        }
        if duration == 0.0 {
            return;
        }
        coflow.served = true;
        for &flow in &coflow.flows {
            let record = &mut self.flows[flow as usize];
            let rate = (record.sending.left / duration).min(record.cap);
            record.sending.rate = rate;
            for &link in record.path() {
                self.left[link as usize] = (self.left[link as usize] - rate).max(0.0);
            }
        }
    }

    /// Lets the coflows that wait share what is left evenly.
    fn share(&mut self, order: &[u32]) {
        let waiting = |&number: &u32| !self.coflows[number as usize].served && self.may_take(number);
        let waiting: Vec<u32> = order.iter().copied().filter(waiting).collect();
        self.parts.fill(0.0);
        let is_open = |&link: &u32| self.left[link as usize] > NEGLIGIBLE * self.capacity[link as usize];
        for &flow in waiting.iter().flat_map(|&number| &self.coflows[number as usize].flows) {
            let path = self.flows[flow as usize].path();
            if path.iter().all(is_open) {
                path.iter().for_each(|&link| self.parts[link as usize] += 1.0);
            }
        }
        // A link that is full, or where none finds room, has no parts.
        for (part, left) in self.parts.iter_mut().zip(&self.left).filter(|(part, _)| **part > 0.0) {
            *part = left / *part;
        }
        for number in waiting {
            let Self { coflows, flows, left, parts, .. } = self;
            let coflow = &mut coflows[number as usize];
            for &flow in &coflow.flows {
                let record = &mut flows[flow as usize];
                let rate = record.least(parts).min(record.cap);
                if rate > 0.0 {
                    record.sending.rate = rate;
                    for &link in record.path() {
                        left[link as usize] = (left[link as usize] - rate).max(0.0);
                    }
                    coflow.served = true;
                }
            }
        }
    }

    /// Returns whether any flow of a coflow might find room.
    fn may_take(&self, number: u32) -> bool {
        let uses = &self.coflows[number as usize].uses;
        let open = || uses.iter().filter(|of_link| self.left[of_link.link as usize] > self.negligible);
        open().any(|of_link| of_link.is_entry) && open().any(|of_link| of_link.is_exit)
    }

    /// Lets each flow of a coflow take all that its links have left.
    fn backfill(&mut self, number: u32) {
        if !self.may_take(number) {
            return;
        }
        let Self { coflows, flows, left, capacity, negligible, .. } = self;
        let coflow = &mut coflows[number as usize];
        for &flow in &coflow.flows {
            let record = &mut flows[flow as usize];
            let more = record.least(left).min(record.cap - record.sending.rate);
            if more > *negligible && more > NEGLIGIBLE * record.least(capacity) {
                record.sending.rate += more;
                record.path().iter().for_each(|&link| left[link as usize] -= more);
                coflow.served = true;
            }
        }
    }

    fn remove(&mut self, number: u32, now: f64) {
        let flow = std::mem::replace(&mut self.flows[number as usize], Flow::absent());
        self.attained.book(flow.coflow, flow.sending.rate, 0.0, now);
        let coflow = &mut self.coflows[flow.coflow as usize];
        coflow.count -= 1;
        coflow.is_loaded = false;
        self.changed |= coflow.count == 0;
    }
}

/// Adds what a flow has left to the loads of its links, and notes which links are new.
fn add_loads(loads: &mut [Use], touched: &mut Vec<u32>, flow: &Flow) {
    let path = flow.path();
    for &link in path {
        let of_link = &mut loads[link as usize];
        of_link.load += flow.sending.left;
        if !std::mem::replace(&mut of_link.is_used, true) {
            touched.push(link);
        }
    }
    loads[path[0] as usize].is_entry = true;
    loads[path[path.len() - 1] as usize].is_exit = true;
}

/// Takes those that have ended out of the list of a coflow that has `count` others.
fn drop_ended(list: &mut Vec<u32>, count: u32, coflow: u32, flows: &[Flow]) {
    if list.len() > count as usize {
        list.retain(|&flow| flows[flow as usize].coflow == coflow);
    }
}

impl Fill for MaddFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.coflows.resize(count.max(self.coflows.len()), Coflow::default());
        self.attained.reserve(count);
    }

    fn add(&mut self, flow: u32, path: &[u32], accounts: &[u32], bytes: f64, _now: f64) {
        if flow as usize >= self.flows.len() {
            self.flows.resize((flow as usize + 1).max(2 * self.flows.len()), Flow::absent());
        }
        let number = accounts[0];
        let Coflow { came, flows, count, is_loaded, is_listed, .. } = &mut self.coflows[number as usize];
        if came.is_none() {
            *came = Some(self.came);
            self.came += 1;
        }
        // The number of one that has ended may be used again.
        drop_ended(flows, *count, number, &self.flows);
        let place = flows.partition_point(|&other| other < flow);
        flows.insert(place, flow);
        (*count, *is_loaded) = (*count + 1, false);
        if !std::mem::replace(is_listed, true) {
            self.order.push(number);
        }
        let record = &mut self.flows[flow as usize];
        *record =
            Flow { sending: Sending::new(bytes), hops: path.len() as u32, coflow: number, ..Flow::absent() };
        record.links[..path.len()].copy_from_slice(path);
        self.changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let coflow = &mut self.coflows[account as usize];
            self.changed |= std::mem::replace(&mut coflow.key, key) != key && coflow.count > 0;
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("MADD orders coflows: flow {flow} cannot have a priority of its own");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        if let Some(record) = self.find_mut(flow) {
            record.cap = cap.unwrap_or(f64::INFINITY);
            self.changed = true;
        }
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, _now: f64) {
        if let Some(record) = self.find_mut(flow) {
            record.sending.milestone = remaining;
            self.update_end(flow);
        }
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.attained.watch(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.attained.unwatch(account);
    }

    fn forget_account(&mut self, account: u32) -> bool {
        let coflow = &mut self.coflows[account as usize];
        assert!(coflow.count == 0, "an account that is forgotten has no flows");
        *coflow = Coflow { is_listed: coflow.is_listed, ..Coflow::default() };
        self.attained.forget(account);
        true
    }

    fn next(&self) -> f64 {
        self.ends.next().min(self.attained.next())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let reach = now + TOLERANCE;
        self.attained.take_due(now, &mut due.accounts);
        while let Some(number) = self.ends.first_until(reach) {
            let milestone = &mut self.flows[number as usize].sending.milestone;
            if std::mem::replace(milestone, 0.0) > 0.0 {
                due.flows.push(number);
            } else {
                due.finished.push(number);
                self.remove(number, now);
            }
            self.update_end(number);
        }
    }

    fn refill(&mut self, now: f64) {
        if std::mem::take(&mut self.changed) {
            self.compute(now);
        }
        self.attained.update_watches(now);
    }

    fn rebase(&mut self, by: f64) {
        self.since -= by;
        self.attained.rebase(by);
        let flows = (0..).zip(&self.flows).filter(|(_, flow)| flow.sending.rate > 0.0);
        self.ends.renew(flows.map(|(number, flow)| (flow.sending.end(self.since), number)));
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.find(flow).map_or(0.0, |flow| flow.sending.left_after(now - self.since))
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.attained.at(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.find(flow).map_or(0.0, |flow| flow.sending.rate)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.members(account).for_each(visit);
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        let coflow = &self.coflows[account as usize];
        if coflow.is_loaded && !coflow.served {
            let loads = coflow.uses.iter().filter(|of_link| of_link.load > 0.0);
            return loads.for_each(|of_link| visit(of_link.link, of_link.load));
        }
        let mut loads = vec![0.0; self.capacity.len()];
        for flow in self.members(account).map(|flow| &self.flows[flow as usize]) {
            let left = flow.sending.left_after(now - self.since);
            flow.path().iter().for_each(|&link| loads[link as usize] += left);
        }
        let loads = (0..).zip(loads).filter(|&(_, bytes)| bytes > 0.0);
        loads.for_each(|(link, bytes)| visit(link, bytes));
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        for flow in self.flows.iter().filter(|flow| flow.sending.rate > 0.0) {
            flow.path().iter().for_each(|&link| use_of_link[link as usize] += flow.sending.rate);
        }
    }
}

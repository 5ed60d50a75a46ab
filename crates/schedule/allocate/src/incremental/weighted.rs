//! Max-min inside classes that share each link by weight (Aalo, Pseudocode 1), over paths of any
//! number of links, kept up to date where something changed.
//!
//! # The problem
//! [`reference`](mod@crate::reference) has the definition in `weighted`. Each link offers its
//! capacity by weight to the classes that have flows there, and every class tries what it can use
//! of that; what it used is *reserved* for it, and of what is then free on a link a part for the
//! classes that used up their offer. In the end each class, the highest first, is served from all
//! that those before it left and that is not reserved for those behind it.
//!
//! # The idea
//! A class that is served from an offer of its own is a case of strict classes on other links: its
//! *lanes*, one for each link, of which the capacity is the offer. So there are two [`PathFill`]s
//! over lanes ([`lanes`](super::paths)). In one flows never end: the *trial*. The other one has the
//! rates that are wanted: the *service*. Both move levels only where an offer changed or a flow
//! came or went, and both say on which lanes what is used may have changed. What is left to do here
//! goes link by link:
//!
//! 1. Where a class came or went, a link makes new first offers to the trial.
//! 2. Where a trial uses something else, what is reserved on the link is worked out again.
//! 3. Class by class, the links where anything changed offer the rest to the service; what the
//!    class then uses concerns the classes behind it.
//!
//! # Invariants
//! - After a refill the capacity of each lane with flows is the offer of the definition, to within
//!   [`STEADY`] of the link.
//! - A class's offers depend on the trial and on classes before it, so one pass over the classes
//!   settles all.
//!
//! # Cost
//! That of [`PathFill`] twice, for more changes: an event of one class moves the offers of all
//! classes on the links that it changes. What stands here is O(classes) for each such link. No link
//! is ample, since what is used of it has to be known; in weighted classes hardly any could be: a
//! class is held back by its part of a link long before the link is full.
//!
//! # Rejected
//! Passing on every change of what is used: sums differ in the last bit from event to event, and
//! each would have all classes of the link looked at.

use cavalcade_model::Excess;

use super::paths::PathFill;
use crate::fill::{Due, Fill, Key};
use crate::reference::NEGLIGIBLE;

/// What differs by less than this share of a link is the same.
const STEADY: f64 = 1e-12;

/// A class's share of a link, in bytes per nanosecond.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    /// What the trial is offered, and what it uses of that.
    offered: f64,
    tried: f64,
    /// What is kept from the classes before this one.
    reserved: f64,
    /// What the service is offered, and what it uses of that.
    rest: f64,
    used: f64,
}

/// A link, split between the classes that there ever were.
#[derive(Clone, Debug)]
struct Link {
    capacity: f64,
    shares: Vec<Share>,
    /// True if anything changed here in this refill.
    is_moved: bool,
}

impl Link {
    /// Returns whether two amounts are the same here.
    fn is_same(&self, one: f64, other: f64) -> bool {
        (one - other).abs() <= STEADY * self.capacity
    }

    /// Reserves for each class what it used in the trial and, of what is free then, a part for
    /// those that used up their offer.
    fn reserve(&mut self, weights: &[f64], excess: Excess) {
        let negligible = NEGLIGIBLE * self.capacity;
        let free = self.capacity - self.shares.iter().map(|share| share.tried).sum::<f64>();
        let wants = |share: &Share| share.offered > 0.0 && share.tried >= share.offered - negligible;
        let wanting = self.shares.iter().zip(weights).filter(|(share, _)| wants(share));
        let total: f64 = match excess {
            Excess::Weighted => wanting.map(|(_, weight)| weight).sum(),
            Excess::Highest => wanting.map(|(_, weight)| *weight).next().unwrap_or(0.0),
        };
        // By unit of weight.
        let mut free = if free > negligible { free / total } else { 0.0 };
        for (share, weight) in self.shares.iter_mut().zip(weights) {
            let is_wanting = wants(share);
            share.reserved = share.tried + if is_wanting { free * weight } else { 0.0 };
            free = if is_wanting && excess == Excess::Highest { 0.0 } else { free };
        }
    }

    /// What classes before a class do not use and is not reserved for those behind it.
    fn rest_for(&self, class: usize) -> f64 {
        let before: f64 = self.shares[..class].iter().map(|share| share.used).sum();
        let behind: f64 = self.shares[class + 1..].iter().map(|share| share.reserved).sum();
        (self.capacity - before - behind).max(0.0)
    }
}

/// Max-min inside a class along paths of several links, classes by weight.
#[derive(Debug)]
pub struct WeightedFill {
    /// The weight of each class that there ever was, and of those to come; the last stands for all
    /// behind it.
    weights: Vec<f64>,
    excess: Excess,
    links: Vec<Link>,
    trial: PathFill,
    service: PathFill,
    /// Links on which anything changed in this refill.
    moved: Vec<u32>,
    stirred: Vec<u32>,
}

impl WeightedFill {
    /// Creates an allocator for links of these capacities (bytes per nanosecond), with the weight
    /// of each class. The last weight is that of all classes behind it too.
    pub fn new(capacity: Vec<f64>, weights: &[u32], excess: Excess) -> Self {
        let link = |&capacity: &f64| Link { capacity, shares: Vec::new(), is_moved: false };
        Self {
            weights: weights.iter().copied().map(f64::from).collect(),
            excess,
            links: capacity.iter().map(link).collect(),
            trial: PathFill::by_class(capacity.clone()),
            service: PathFill::by_class(capacity),
            moved: Vec::new(),
            stirred: Vec::new(),
        }
    }

    /// Makes room for the classes that have come.
    fn reserve_classes(&mut self) {
        let classes = usize::from(self.trial.classes());
        if let Some(&last) = self.weights.last()
            && self.weights.len() < classes
        {
            self.weights.resize(classes, last);
        }
        for link in &mut self.links {
            link.shares.resize(classes, Share::default());
        }
    }

    /// Notes that something changed on a link.
    fn note(&mut self, link: u32) {
        if !std::mem::replace(&mut self.links[link as usize].is_moved, true) {
            self.moved.push(link);
        }
    }

    /// Makes new first offers where a class came or went.
    fn make_first_offers(&mut self) {
        for class in 0..self.trial.classes() {
            for nth in 0..self.trial.stirred(class).len() {
                let link = self.trial.stirred(class)[nth];
                let was_present = self.links[link as usize].shares[usize::from(class)].offered > 0.0;
                if was_present != self.trial.is_present(class, link) {
                    self.note(link);
                }
            }
        }
        for &number in &self.moved {
            let link = &mut self.links[number as usize];
            let present = (0u16..).zip(&self.weights).take(link.shares.len());
            let present = present.filter(|&(class, _)| self.trial.is_present(class, number));
            let total: f64 = present.map(|(_, weight)| weight).sum();
            for (class, (share, weight)) in (0u16..).zip(link.shares.iter_mut().zip(&self.weights)) {
                share.offered =
                    if self.trial.is_present(class, number) { weight * (link.capacity / total) } else { 0.0 };
                self.trial.offer_lane(class, number, share.offered);
            }
        }
    }

    /// Finds what each class uses of its first offers, and what is to be reserved for it.
    fn try_offers(&mut self, now: f64) {
        self.trial.settle_levels(now);
        for class in 0..self.trial.classes() {
            let mut stirred = std::mem::take(&mut self.stirred);
            self.trial.take_stirred(class, &mut stirred);
            for link in stirred.drain(..) {
                let tried = self.trial.used(class, link);
                let before = self.links[link as usize].shares[usize::from(class)].tried;
                if !self.links[link as usize].is_same(tried, before) {
                    self.links[link as usize].shares[usize::from(class)].tried = tried;
                    self.note(link);
                }
            }
            self.stirred = stirred;
        }
        for &link in &self.moved {
            self.links[link as usize].reserve(&self.weights, self.excess);
        }
    }

    /// Serves a class from all that is not used before it or reserved behind it.
    fn serve(&mut self, class: u16, now: f64) {
        for &number in &self.moved {
            let link = &mut self.links[number as usize];
            if !self.service.is_present(class, number) {
                continue;
            }
            let rest = link.rest_for(usize::from(class));
            if !link.is_same(rest, link.shares[usize::from(class)].rest) {
                link.shares[usize::from(class)].rest = rest;
                self.service.offer_lane(class, number, rest);
            }
        }
        self.service.settle_up_to(class, now);
        let mut stirred = std::mem::take(&mut self.stirred);
        self.service.take_stirred(class, &mut stirred);
        for link in stirred.drain(..) {
            let used = self.service.used(class, link);
            let before = self.links[link as usize].shares[usize::from(class)].used;
            if !self.links[link as usize].is_same(used, before) {
                self.links[link as usize].shares[usize::from(class)].used = used;
                self.note(link);
            }
        }
        self.stirred = stirred;
    }
}

impl Fill for WeightedFill {
    fn reserve_accounts(&mut self, count: usize) {
        self.trial.reserve_accounts(count);
        self.service.reserve_accounts(count);
    }

    fn forget_account(&mut self, account: u32) -> bool {
        self.trial.forget_account(account) && self.service.forget_account(account)
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        self.trial.add(flow, links, accounts, f64::INFINITY, now);
        self.service.add(flow, links, accounts, bytes, now);
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], now: f64) {
        self.trial.set_account_keys(keys, now);
        self.service.set_account_keys(keys, now);
    }

    fn set_flow_key(&mut self, flow: u32, key: Key, now: f64) {
        self.trial.set_flow_key(flow, key, now);
        self.service.set_flow_key(flow, key, now);
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, now: f64) {
        self.trial.set_cap(flow, cap, now);
        self.service.set_cap(flow, cap, now);
    }

    fn watch_flow(&mut self, flow: u32, remaining: f64, now: f64) {
        self.service.watch_flow(flow, remaining, now);
    }

    fn watch_account(&mut self, account: u32, bytes: f64, now: f64) {
        self.service.watch_account(account, bytes, now);
    }

    fn unwatch_account(&mut self, account: u32) {
        self.service.unwatch_account(account);
    }

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        self.service.take_due(now, due);
        due.finished.iter().for_each(|&flow| self.trial.remove(flow, now));
    }

    fn refill(&mut self, now: f64) {
        self.reserve_classes();
        self.make_first_offers();
        self.try_offers(now);
        // A second time only where a cell that waits to be looked at was closed meanwhile, and its
        // number now stands for one of a class before.
        loop {
            (0..self.service.classes()).for_each(|class| self.serve(class, now));
            if !self.service.is_stirred() {
                break;
            }
        }
        self.service.forget_looks();
        self.service.time_ends(now);
        for link in self.moved.drain(..) {
            self.links[link as usize].is_moved = false;
        }
    }

    fn rebase(&mut self, by: f64) {
        self.trial.rebase(by);
        self.service.rebase(by);
    }

    fn remaining(&self, flow: u32, now: f64) -> f64 {
        self.service.remaining(flow, now)
    }

    fn attained(&self, account: u32, now: f64) -> f64 {
        self.service.attained(account, now)
    }

    fn rate(&self, flow: u32) -> f64 {
        self.service.rate(flow)
    }

    fn visit_flows(&self, account: u32, visit: &mut dyn FnMut(u32)) {
        self.service.visit_flows(account, visit);
    }

    fn loads(&self, account: u32, now: f64, visit: &mut dyn FnMut(u32, f64)) {
        self.service.loads(account, now, visit);
    }

    fn add_use(&self, use_of_link: &mut [f64]) {
        self.service.add_use(use_of_link);
    }
}

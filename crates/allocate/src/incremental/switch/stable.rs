//! Rates where every link has priorities of its own.
//!
//! # The problem
//! A switch port orders what crosses it by what it has seen (Baraat §4.3: heavy tasks by the bytes at that port). A flow
//! crosses two ports that may disagree. What do explicit rates converge to? To a *stable* allocation: no flow could have
//! more by displacing, at each of its links, what that link ranks lower or has idle; and flows that a link ranks equal
//! share it max-min, each up to what its other link grants (Baraat Algorithms 1 and 2 in the fluid limit: a flow's demand
//! falls to what its bottleneck grants, and lower classes get what is left).
//!
//! # Deferred acceptance
//! Every link where flows enter offers its capacity down its classes, max-min inside a class, to no flow more than its
//! bound. Every link where flows leave grants the offers down its own classes likewise. Where it grants less than was
//! offered, the flow's bound falls to the grant, and the link that offered may offer the difference to others. Bounds
//! only fall, so this ends in the allocation that is best for the entering side (Gale and Shapley; Baïou and Balinski for
//! divisible amounts).
//!
//! # Cost
//! O(flows that are offered anything) per round and event, and a handful of rounds. A sharing of rates between links that
//! never quite settles is cut off after [`MAX_ROUNDS`] at a feasible point.
//!
//! # Rejected
//! Starting from the last allocation: bounds would have to rise again wherever a change frees capacity, and the result would
//! depend on the past.

use crate::fill::{Due, Fill, Key};
use crate::incremental::switch::max_min::group::{NEGLIGIBLE, NONE};
use crate::progress::service::{Service, leave_to_service};

/// Rounds after which the allocation is taken as it is.
const MAX_ROUNDS: u32 = 1000;

/// A change smaller than this share of a link is rounding.
const SETTLED: f64 = 1e-12;

#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    link: u32,
    flows: Vec<u32>,
    /// On the leaving side: how many of the flows are offered anything.
    offered: u32,
}

/// Rates for keys that hold per link; accounts are pairs of coflow and link.
#[derive(Debug)]
pub struct StableFill {
    capacity: Vec<f64>,
    service: Service,
    accounts: Vec<Account>,
    /// Accounts with flows, by link, in order of key.
    on_link: Vec<Vec<u32>>,
    unsorted: Vec<bool>,
    positions: Vec<[u32; 2]>,
    bound: Vec<f64>,
    offer: Vec<f64>,
    grant: Vec<f64>,
    /// Flows with a bound or offer from the present refill.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    /// Links to be looked at in the present round, with a flag for each.
    dirty: Vec<u32>,
    is_dirty: Vec<bool>,
    members: Vec<u32>,
    changed: bool,
}

impl StableFill {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let links = capacity.len();
        Self {
            service: Service::new(links, flows),
            accounts: Vec::new(),
            on_link: vec![Vec::new(); links],
            unsorted: vec![false; links],
            positions: vec![[NONE; 2]; flows],
            bound: vec![f64::INFINITY; flows],
            offer: vec![0.0; flows],
            grant: vec![0.0; flows],
            touched: Vec::new(),
            is_touched: vec![false; flows],
            dirty: Vec::new(),
            is_dirty: vec![false; links],
            members: Vec::new(),
            changed: false,
            capacity,
        }
    }

    fn mark(&mut self, link: u32) {
        if !std::mem::replace(&mut self.is_dirty[link as usize], true) {
            self.dirty.push(link);
        }
    }

    fn touch(&mut self, flow: u32) {
        if !std::mem::replace(&mut self.is_touched[flow as usize], true) {
            self.touched.push(flow);
        }
    }

    fn sort(&mut self, link: u32) {
        if std::mem::take(&mut self.unsorted[link as usize]) {
            let accounts = &self.accounts;
            self.on_link[link as usize]
                .sort_unstable_by_key(|&account| (accounts[account as usize].key, account));
        }
    }

    /// Offers the capacity of `link` down its classes and marks the links at which an offer changed.
    fn offer_link(&mut self, link: u32) {
        let mut left = self.capacity[link as usize];
        let negligible = NEGLIGIBLE * left;
        let mut index = 0;
        while index < self.on_link[link as usize].len() {
            let exhausted = left <= negligible;
            let mut members = std::mem::take(&mut self.members);
            members.clear();
            let key = self.accounts[self.on_link[link as usize][index] as usize].key;
            while let Some(&account) = self.on_link[link as usize].get(index) {
                let account = &mut self.accounts[account as usize];
                if account.key != key {
                    break;
                }
                index += 1;
                if !(exhausted && account.offered == 0) {
                    members.extend(&account.flows);
                }
            }
            if exhausted {
                members.iter().for_each(|&flow| self.set_offer(flow, 0.0));
            } else {
                let level = level(members.iter().map(|&flow| self.limit(flow)), left);
                for &flow in &members {
                    let offer = self.limit(flow).min(level);
                    left -= offer;
                    self.set_offer(flow, offer);
                }
            }
            self.members = members;
        }
    }

    /// What a flow can use at most: its bound or its own cap.
    fn limit(&self, flow: u32) -> f64 {
        self.bound[flow as usize].min(self.service.flows[flow as usize].cap)
    }

    fn set_offer(&mut self, flow: u32, offer: f64) {
        let before = std::mem::replace(&mut self.offer[flow as usize], offer);
        if before == offer {
            return;
        }
        self.touch(flow);
        let (near, far) = {
            let record = &self.service.flows[flow as usize];
            (record.accounts, record.links[1])
        };
        for account in near {
            let offered = &mut self.accounts[account as usize].offered;
            *offered = *offered + u32::from(offer > 0.0) - u32::from(before > 0.0);
        }
        self.mark(far);
    }

    /// Grants the offers at `link` down its classes, and marks the links whose offers were not fully granted.
    fn grant_link(&mut self, link: u32) {
        let mut left = self.capacity[link as usize];
        let settled = SETTLED * left;
        let mut index = 0;
        while index < self.on_link[link as usize].len() {
            let mut members = std::mem::take(&mut self.members);
            members.clear();
            let key = self.accounts[self.on_link[link as usize][index] as usize].key;
            while let Some(&account) = self.on_link[link as usize].get(index) {
                let account = &self.accounts[account as usize];
                if account.key != key {
                    break;
                }
                index += 1;
                if account.offered > 0 {
                    members.extend(account.flows.iter().filter(|&&flow| self.offer[flow as usize] > 0.0));
                }
            }
            let level = level(members.iter().map(|&flow| self.offer[flow as usize]), left);
            for &flow in &members {
                let offer = self.offer[flow as usize];
                let grant = offer.min(level);
                self.grant[flow as usize] = grant;
                left = (left - grant).max(0.0);
                if grant < offer - settled {
                    self.bound[flow as usize] = grant;
                    self.mark(self.service.flows[flow as usize].links[0]);
                }
            }
            self.members = members;
        }
    }

    /// Runs deferred acceptance to its end.
    fn settle_rates(&mut self, now: f64) {
        for link in 0..self.on_link.len() as u32 {
            self.sort(link);
            for index in 0..self.service.on_link[link as usize].len() {
                let flow = self.service.on_link[link as usize][index];
                self.touch(flow);
            }
            let enters = self.on_link[link as usize]
                .first()
                .and_then(|&account| self.accounts[account as usize].flows.first())
                .is_some_and(|&flow| self.service.flows[flow as usize].links[0] == link);
            if enters {
                self.mark(link);
            }
        }
        for _ in 0..MAX_ROUNDS {
            for offering in [true, false] {
                let mut links = std::mem::take(&mut self.dirty);
                for &link in &links {
                    self.is_dirty[link as usize] = false;
                }
                for link in links.drain(..) {
                    if offering { self.offer_link(link) } else { self.grant_link(link) }
                }
            }
            if self.dirty.is_empty() {
                break;
            }
        }
        while let Some(link) = self.dirty.pop() {
            self.is_dirty[link as usize] = false;
        }
        self.apply(now);
    }

    /// Turns offers and grants into rates and forgets them.
    fn apply(&mut self, now: f64) {
        let touched = std::mem::take(&mut self.touched);
        for &flow in &touched {
            self.is_touched[flow as usize] = false;
            if !self.service.flows[flow as usize].is_present() {
                continue;
            }
            let offer = std::mem::replace(&mut self.offer[flow as usize], 0.0);
            let rate = if offer > 0.0 { self.grant[flow as usize].min(offer) } else { 0.0 };
            if offer > 0.0 {
                for account in self.service.flows[flow as usize].accounts {
                    self.accounts[account as usize].offered -= 1;
                }
            }
            self.bound[flow as usize] = f64::INFINITY;
            if self.service.flows[flow as usize].rate != rate {
                self.service.set_rate(flow, rate, now);
            }
        }
        self.touched = touched;
        self.touched.clear();
    }

    fn leave_account(&mut self, flow: u32, account: u32, side: usize) {
        let at = self.positions[flow as usize][side] as usize;
        let flows = &mut self.accounts[account as usize].flows;
        flows.swap_remove(at);
        if let Some(&moved) = flows.get(at) {
            self.positions[moved as usize][side] = at as u32;
        }
        if flows.is_empty() {
            let link = self.accounts[account as usize].link;
            self.on_link[link as usize].retain(|&other| other != account);
        }
    }
}

/// The level at which flows that want at most these amounts share `capacity` max-min; infinity if it suffices for all.
fn level(wants: impl Iterator<Item = f64> + Clone, capacity: f64) -> f64 {
    // Below zero, so that flows that want nothing are counted out in the first round.
    let (mut left, mut count, mut level) = (capacity, wants.clone().count(), -1.0);
    if wants.clone().sum::<f64>() <= capacity {
        return f64::INFINITY;
    }
    loop {
        let share = left / count as f64;
        let (mut below, mut sum) = (0, 0.0);
        for want in wants.clone() {
            if want > level && want <= share {
                below += 1;
                sum += want;
            }
        }
        if below == 0 || below == count {
            return share;
        }
        left -= sum;
        count -= below;
        level = share;
    }
}

impl Fill for StableFill {
    leave_to_service!(on two links);

    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn add(&mut self, flow: u32, links: [u32; 2], accounts: [u32; 2], bytes: f64, now: f64) {
        self.service.add(flow, links, accounts, bytes, now);
        for side in 0..2 {
            let account = &mut self.accounts[accounts[side] as usize];
            account.link = links[side];
            if account.flows.is_empty() {
                self.on_link[links[side] as usize].push(accounts[side]);
                self.unsorted[links[side] as usize] = true;
            }
            self.positions[flow as usize][side] = account.flows.len() as u32;
            account.flows.push(flow);
        }
        self.changed = true;
    }

    fn set_account_keys(&mut self, keys: &[(u32, Key)], _now: f64) {
        for &(account, key) in keys {
            let record = &mut self.accounts[account as usize];
            record.key = key;
            self.unsorted[record.link as usize] = true;
            self.changed = true;
        }
    }

    fn set_flow_key(&mut self, flow: u32, _key: Key, _now: f64) {
        panic!("links order coflows; flow {flow} cannot have a priority of its own at one link");
    }

    fn set_cap(&mut self, flow: u32, cap: Option<f64>, _now: f64) {
        self.service.flows[flow as usize].cap = cap.unwrap_or(f64::INFINITY);
        self.changed = true;
    }

    fn next(&self) -> f64 {
        self.service.next()
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let accounts = self.service.flows[flow as usize].accounts;
            self.service.remove(flow, now);
            for (side, account) in accounts.into_iter().enumerate() {
                self.leave_account(flow, account, side);
            }
            self.changed = true;
        }
    }

    fn refill(&mut self, now: f64) {
        if std::mem::take(&mut self.changed) {
            self.settle_rates(now);
        }
        self.service.finish_refill(now);
    }
}

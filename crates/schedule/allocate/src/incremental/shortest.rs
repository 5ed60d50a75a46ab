//! Flows one by one in the order of (key, bytes left), preemptively: ideal pFabric where all keys
//! are equal, and the shortest flow of the first task where each task has a key.
//!
//! # The idea
//! All links of a flow rank it alike, so the greedy filling in that order is the one allocation in
//! which no flow could displace a later one on all its links. It can be mended locally: what
//! becomes free on a link is offered to the flows behind the one that has left it, in order; who
//! takes it may displace a later flow on its other links, and what that one had on links of its own
//! is free in turn. Of all links with something to offer the one whose next flow ranks first comes
//! first, so what a flow takes it keeps, and no rate is set that does not last.
//!
//! While a flow is served it has ever fewer bytes left, so it only moves forward; a waiting flow
//! keeps its place. So a flow that finds no room needs no second look until one of its links has
//! more for flows of its rank.
//!
//! # Invariant
//! In a refill, every flow that could have more is a candidate, or stands behind one in a list that
//! is being searched. Whatever gives a link more for those behind a rank therefore starts a search
//! of its lists, if the link was *full*: one that had something left was what held nobody back, and
//! the order on it did not matter. So the many links between switches that have enough for all cost
//! next to nothing.
//!
//! # Cost
//! For each link that something becomes free on: the heads of pairs ([`waiting`]) looked at until
//! one finds room on all links, about 3 ns each across one switch, and O(log candidates) whenever
//! another flow came first. Across a fabric that is so for each part of the heads there that no
//! other link between switches shuts out as a whole, which one look tells: the whole Facebook trace
//! under `sff` on a tree of 150 hosts, oversubscribed four times, has three times the events that
//! it has on one switch and takes almost six times as long. A new key costs one move in the lists
//! of the flow's links. A link with several flows (links differ, flows are capped, or it lies
//! between switches) adds them up again each time.
//!
//! # Rejected
//! - Deferred acceptance where all links are alike (Gale and Shapley): another 140 lines, and no
//!   more than a fifth faster.
//! - Leaving a flow whose key falls where it stands until it is looked at: all of them are, before
//!   the next key.
//! - Offering link by link: a third more flows take something that they lose again in the same
//!   refill.
//! - One sorted list of all waiting flows per link: three times as much to read and to move.
//! - One list of heads per link across a fabric, too: 1,400 pairs cross the uplink of a rack of ten
//!   hosts out of 150, and the run above takes half as long again.
//! - A port's heads by all links in between: on a leaf-spine of four spines a part then has two or
//!   three heads, and a run takes half as long again.

mod rank;
mod waiting;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::fill::{Due, Fill, Key, NONE};
use crate::progress::min_tree::MinTree;
use crate::progress::service::{Flow, Service, leave_to_service};
use crate::progress::tolerance::TOLERANCE;
use crate::reference::NEGLIGIBLE;
use crate::route::Route;
pub(crate) use rank::{Rank, STEP};
use waiting::{Head, Waiting};

/// A flow with a rate, as each of its links remembers it: looking at it must not miss the cache.
#[derive(Clone, Copy, Debug)]
struct Served<const N: usize> {
    key: Key,
    /// Bytes left at `since`.
    left: f64,
    since: f64,
    rate: f64,
    flow: u32,
    route: Route<N>,
}

impl<const N: usize> Served<N> {
    fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }

    fn rank(&self, now: f64) -> Rank {
        Rank::new(self.key, self.left_at(now), self.flow)
    }
}

/// For whom a link has something, told from what it serves.
#[derive(Clone, Copy, Debug)]
enum Gate<const N: usize> {
    /// For everybody: it is not full.
    Open,
    /// For those before the one flow that fills it.
    Before(Served<N>),
    /// Several, to be added up.
    Several,
}

/// A flow that may be able to have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate<const N: usize> {
    rank: Rank,
    route: Route<N>,
    source: Source,
}

/// Where a candidate was found, and those behind it are to be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// Nowhere: it was noted alone.
    Noted,
    /// Among the heads of a part, with this index.
    Waiting { part: u32, at: u32 },
    /// Among the flows served on a link.
    Served { link: u32 },
}

impl<const N: usize> Ord for Candidate<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank.cmp(&other.rank).then_with(|| self.source.cmp(&other.source))
    }
}

impl<const N: usize> PartialOrd for Candidate<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Clone, Debug, Default)]
struct Account {
    key: Key,
    flows: Vec<u32>,
}

/// Rates for the flow with the fewest bytes left first, on paths of at most `N` links: two across
/// one switch.
#[derive(Debug)]
pub struct ShortestFill<const N: usize> {
    capacity: Vec<f64>,
    service: Service<N>,
    keys: Vec<Key>,
    /// For each flow: where it stands in its account's list.
    in_account: Vec<u32>,
    accounts: Vec<Account>,
    /// Flows that have no rate and could have one.
    waiting: Waiting<N>,
    /// Flows that have come since the last refill, with a flag for each. They are not in the queues
    /// yet: mostly their account is given a key first.
    arrived: Vec<u32>,
    is_new: Vec<bool>,
    /// Flows with a rate, by link, in the order that they had when one of them last changed.
    served: Vec<Vec<Served<N>>>,
    gates: Vec<Gate<N>>,
    /// For each link: a rank from which on it has nothing for sure, though the flow that fills it
    /// may have moved forward.
    closed_from: Vec<Rank>,
    /// For each link: when a flow served there overtakes one before it, which takes two of them, at
    /// different rates.
    overtakes: MinTree,
    /// Links that have more for the flows behind a rank.
    freed: Vec<(u32, Rank)>,
    /// Flows that have come, have come forward, or may have more.
    hopeful: Vec<u32>,
    /// Flows that may be able to have more, in order; empty but in a refill.
    candidates: BinaryHeap<Reverse<Candidate<N>>>,
    due_links: Vec<u32>,
}

impl<const N: usize> ShortestFill<N> {
    /// For links of these capacities (bytes per nanosecond) and flows numbered below `flows`.
    pub fn new(capacity: Vec<f64>, flows: usize) -> Self {
        let links = capacity.len();
        Self {
            service: Service::new(links, flows),
            keys: vec![Key::default(); flows],
            in_account: vec![0; flows],
            accounts: Vec::new(),
            waiting: Waiting::new(links, flows),
            arrived: Vec::new(),
            is_new: vec![false; flows],
            served: vec![Vec::new(); links],
            gates: vec![Gate::Open; links],
            closed_from: vec![Rank::LAST; links],
            overtakes: MinTree::new(links),
            freed: Vec::new(),
            hopeful: Vec::new(),
            candidates: BinaryHeap::new(),
            due_links: Vec::new(),
            capacity,
        }
    }

    fn rank(&self, flow: u32, now: f64) -> Rank {
        Rank::new(self.keys[flow as usize], self.service.flows[flow as usize].left_at(now), flow)
    }

    fn is_waiting(&self, flow: u32) -> bool {
        let record = &self.service.flows[flow as usize];
        record.rate == 0.0 && record.cap > 0.0 && !self.is_new[flow as usize]
    }

    /// Returns what `link` has for a flow: its capacity less the rates of the flows before it.
    fn available(&self, link: u32, rank: Rank, now: f64) -> f64 {
        let mut left = self.capacity[link as usize];
        for served in &self.served[link as usize] {
            if served.flow != rank.flow() && served.rank(now) < rank {
                left -= served.rate;
            }
        }
        if left > NEGLIGIBLE * self.capacity[link as usize] { left } else { 0.0 }
    }

    /// Returns whether `link` has anything for a flow without a rate.
    #[inline]
    fn is_open(&self, link: u32, rank: Rank, now: f64) -> bool {
        rank < self.closed_from[link as usize]
            && match &self.gates[link as usize] {
                Gate::Open => true,
                Gate::Before(served) => rank < served.rank(now),
                Gate::Several => {
                    self.served[link as usize].iter().rev().any(|served| rank < served.rank(now))
                }
            }
    }

    fn set_rate(&mut self, flow: u32, rate: f64, now: f64) {
        if self.is_waiting(flow) && rate > 0.0 {
            self.waiting.remove(self.rank(flow, now));
        }
        let before = self.service.flows[flow as usize].rate;
        self.service.set_rate(flow, rate, now);
        self.remember(flow, now);
        if before > 0.0 && self.is_waiting(flow) {
            self.waiting.insert(self.rank(flow, now));
        }
    }

    /// Brings what its links remember of a flow up to date.
    fn remember(&mut self, flow: u32, now: f64) {
        let record = &self.service.flows[flow as usize];
        let Flow { route, left, since, rate, .. } = *record;
        let entry = Served { key: self.keys[flow as usize], left, since, rate, flow, route };
        for link in route.links() {
            let served = &mut self.served[link as usize];
            let several = served.len() > 1;
            served.retain(|served| served.flow != flow);
            if !served.is_sorted_by_key(|served| served.rank(now)) {
                // Some drew level a moment ago, which is forgotten with the old rates.
                self.hopeful.extend(served.iter().map(|served| served.flow));
                served.sort_unstable_by_key(|served| served.rank(now));
            }
            if rate > 0.0 {
                let at = served.partition_point(|other| other.rank(now) < entry.rank(now));
                served.insert(at, entry);
            }
            let used: f64 = served.iter().map(|served| served.rate).sum();
            let is_full = used >= (1.0 - NEGLIGIBLE) * self.capacity[link as usize];
            let gate = match served.as_slice() {
                [only] if is_full => Gate::Before(*only),
                [_, _, ..] if is_full => Gate::Several,
                _ => Gate::Open,
            };
            let last = served.last().filter(|_| is_full);
            self.closed_from[link as usize] = last.map_or(Rank::LAST, |last| last.rank(now));
            self.gates[link as usize] = gate;
            if several || served.len() > 1 {
                // Who is before whom does not matter where there is enough for all.
                let first = if is_full { first_overtaking(served, now) } else { f64::INFINITY };
                self.overtakes.set(link as usize, first);
            }
        }
    }

    /// Returns whether all links of a route have something for a flow without a rate.
    fn has_room(&self, route: &Route<N>, rank: Rank, now: f64) -> bool {
        route.links().all(|link| self.is_open(link, rank, now))
    }

    /// Returns whether a flow with a rate could have more.
    fn can_grow(&self, route: &Route<N>, rank: Rank, rate: f64, now: f64) -> bool {
        let more = rate * (1.0 + NEGLIGIBLE);
        route.links().all(|link| self.available(link, rank, now) > more)
    }

    /// Finds the first flows on `link` behind `rank` that may be able to have more.
    fn look_behind(&mut self, link: u32, rank: Rank, now: f64) {
        if self.closed_from[link as usize] <= rank {
            return;
        }
        if let Some(candidate) = self.served_behind(link, rank, now) {
            self.candidates.push(Reverse(candidate));
        }
        for part in self.waiting.parts_on(link) {
            if let Some(candidate) = self.head_behind(part, rank, NONE, now) {
                self.candidates.push(Reverse(candidate));
            }
        }
    }

    /// The candidate behind another one.
    fn next_candidate(&self, after: Candidate<N>, now: f64) -> Option<Candidate<N>> {
        match after.source {
            Source::Noted => None,
            Source::Waiting { part, at } => self.head_behind(part, after.rank, at, now),
            Source::Served { link } => self.served_behind(link, after.rank, now),
        }
    }

    /// Finds the first flow served on `link` behind `rank` that can have more. With equal links
    /// none ever can.
    fn served_behind(&self, link: u32, rank: Rank, now: f64) -> Option<Candidate<N>> {
        let full = self.capacity[link as usize] * (1.0 - NEGLIGIBLE);
        let served = self.served[link as usize].iter().filter(|served| served.rate < full);
        let behind = served.map(|served| (served.rank(now), served)).filter(|(own, _)| *own > rank);
        let able = behind.filter(|(rank, served)| self.can_grow(&served.route, *rank, served.rate, now));
        let (rank, served) = able.min_by_key(|&(rank, _)| rank)?;
        Some(Candidate { rank, route: served.route, source: Source::Served { link } })
    }

    /// Finds the first head of a part behind `rank` that may be able to have more; `hint` is the
    /// index of the head of that rank, if it was one.
    fn head_behind(&self, part: u32, rank: Rank, hint: u32, now: f64) -> Option<Candidate<N>> {
        let heads = self.waiting.part(part);
        let closed_from = heads.shared().iter().map(|&link| self.closed_from[link as usize]).min()?;
        if closed_from <= rank.max(heads.first()) {
            return None;
        }
        let mut able = heads
            .behind(rank, hint)
            .take_while(|(_, head)| head.rank < closed_from)
            .filter(|(_, head)| self.has_room(&head.route, head.rank, now));
        let (at, &Head { rank, route }) = able.next()?;
        Some(Candidate { rank, route, source: Source::Waiting { part, at } })
    }

    /// Makes candidates of those that have been noted one by one.
    fn consider_hopeful(&mut self, now: f64) {
        while let Some(flow) = self.hopeful.pop() {
            // A flow that finds no room now is looked at again once there is some.
            let record = &self.service.flows[flow as usize];
            let (rank, route) = (self.rank(flow, now), record.route);
            let is_able = match record.rate {
                0.0 => self.has_room(&route, rank, now),
                rate => self.can_grow(&route, rank, rate, now),
            };
            if record.is_present() && is_able {
                self.candidates.push(Reverse(Candidate { rank, route, source: Source::Noted }));
            }
        }
    }

    /// Gives a flow all that its links have for it.
    fn serve(&mut self, rank: Rank, now: f64) {
        let record = &self.service.flows[rank.flow() as usize];
        let (route, cap, before) = (record.route, record.cap, record.rate);
        let rate = route.links().map(|link| self.available(link, rank, now)).fold(cap, f64::min);
        if rate > before * (1.0 + NEGLIGIBLE) {
            self.set_rate(rank.flow(), rate, now);
            route.links().for_each(|link| self.make_room(link, rank, now));
            if rate == cap {
                // It leaves something to those behind it in the queue of its links, which it has
                // been hiding.
                self.look_behind(route.ends()[0], rank, now);
            }
        }
    }

    /// Takes from the last flows on `link`, behind the flow of this rank, until it carries no more
    /// than it can.
    fn make_room(&mut self, link: u32, rank: Rank, now: f64) {
        let capacity = self.capacity[link as usize];
        loop {
            let served = &self.served[link as usize];
            let over = served.iter().map(|served| served.rate).sum::<f64>() - capacity;
            let Some(last) =
                served.last().copied().filter(|last| over > NEGLIGIBLE * capacity && last.rank(now) > rank)
            else {
                return;
            };
            let kept = if last.rate - over > NEGLIGIBLE * capacity { last.rate - over } else { 0.0 };
            let full = self.full(&last.route);
            self.set_rate(last.flow, kept, now);
            for (other, _) in
                last.route.links().zip(full).filter(|&(other, is_full)| is_full && other != link)
            {
                self.look_behind(other, last.rank(now), now);
            }
        }
    }

    /// The links of a route that hold flows back, by place: on one with enough for all nobody has
    /// less for it.
    fn full(&self, route: &Route<N>) -> [bool; N] {
        route.places().map(|link| link != NONE && !matches!(self.gates[link as usize], Gate::Open))
    }

    /// Notes that the full links of a flow have more for the flows behind it.
    fn free_links(&mut self, flow: u32, full: [bool; N], now: f64) {
        let (rank, route) = (self.rank(flow, now), self.service.flows[flow as usize].route);
        let freed = route.places().iter().zip(full).filter(|(_, is_full)| *is_full);
        self.freed.extend(freed.map(|(&link, _)| (link, rank)));
    }

    /// Gives a flow a new key.
    fn rekey(&mut self, flow: u32, key: Key, now: f64) {
        let old_key = self.keys[flow as usize];
        if old_key == key {
            return;
        }
        if self.is_new[flow as usize] {
            self.keys[flow as usize] = key;
            return;
        }
        if self.is_waiting(flow) {
            let old = self.rank(flow, now);
            self.keys[flow as usize] = key;
            self.waiting.change(old, self.rank(flow, now));
            if key > old_key {
                return; // It has no more of a chance than before.
            }
        } else {
            self.free_links(flow, self.full(&self.service.flows[flow as usize].route), now);
            self.keys[flow as usize] = key;
            self.remember(flow, now);
        }
        self.hopeful.push(flow);
    }

    /// Gives links one by one to those who come first on them.
    fn hand_out(&mut self, now: f64) {
        while let Some((link, rank)) = self.freed.pop() {
            self.look_behind(link, rank, now);
        }
        self.consider_hopeful(now);
        while let Some(&Reverse(candidate)) = self.candidates.peek() {
            if self.has_room(&candidate.route, candidate.rank, now) {
                self.candidates.pop();
                self.serve(candidate.rank, now);
                self.candidates.extend(self.next_candidate(candidate, now).map(Reverse));
                self.consider_hopeful(now);
                continue;
            }
            // Another has taken one of its links. The next one takes its place at the top of the
            // heap.
            let next = self.next_candidate(candidate, now);
            let Some(mut top) = self.candidates.peek_mut() else { break };
            match next {
                Some(next) => *top = Reverse(next),
                None => drop(PeekMut::pop(top)),
            }
        }
        for &link in &self.due_links {
            self.overtakes.set(link as usize, first_overtaking(&self.served[link as usize], now));
        }
    }
}

/// Returns the time at which the first of these flows ranks before another of its key that ranks
/// before it now.
fn first_overtaking<const N: usize>(served: &[Served<N>], now: f64) -> f64 {
    let mut first = f64::INFINITY;
    for (index, a) in served.iter().enumerate() {
        for b in &served[index + 1..] {
            let (fast, slow) = if a.rate > b.rate { (a, b) } else { (b, a) };
            let gain = fast.rate - slow.rate;
            if fast.key == slow.key && gain > NEGLIGIBLE * fast.rate && fast.rank(now) > slow.rank(now) {
                let ahead = fast.left_at(now) - slow.left_at(now);
                // Once they are a step apart, and a moment later, it is over whatever the rounding.
                let when = now + (ahead + STEP) / gain;
                first = first.min(when + 2.0 * TOLERANCE);
            }
        }
    }
    first
}

impl<const N: usize> Fill for ShortestFill<N> {
    leave_to_service!(with links);

    fn reserve_accounts(&mut self, count: usize) {
        self.accounts.resize(count.max(self.accounts.len()), Account::default());
        self.service.reserve_accounts(count);
    }

    fn reserve_flows(&mut self, count: usize) {
        let count = count.max(self.keys.len());
        self.service.reserve_flows(count);
        self.waiting.reserve_flows(count);
        self.keys.resize(count, Key::default());
        self.in_account.resize(count, 0);
        self.is_new.resize(count, false);
    }

    fn add(&mut self, flow: u32, links: &[u32], accounts: &[u32], bytes: f64, now: f64) {
        let route = Route::new(links);
        self.service.add(flow, route, accounts, bytes, now);
        let account = &mut self.accounts[accounts[0] as usize];
        self.keys[flow as usize] = account.key;
        self.in_account[flow as usize] = account.flows.len() as u32;
        account.flows.push(flow);
        self.waiting.introduce(flow, route);
        self.is_new[flow as usize] = true;
        self.arrived.push(flow);
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
        let record = &self.service.flows[flow as usize];
        if !record.is_present() {
            return;
        }
        let cap = cap.unwrap_or(f64::INFINITY);
        if self.is_waiting(flow) {
            self.waiting.remove(self.rank(flow, now));
        }
        self.service.flows[flow as usize].cap = cap;
        if self.is_waiting(flow) {
            self.waiting.insert(self.rank(flow, now));
        }
        if self.service.flows[flow as usize].rate > cap {
            self.free_links(flow, self.full(&self.service.flows[flow as usize].route), now);
            self.set_rate(flow, cap, now);
        }
        self.hopeful.push(flow);
    }

    fn next(&self) -> f64 {
        self.service.next().min(self.overtakes.min())
    }

    fn take_due(&mut self, now: f64, due: &mut Due) {
        self.due_links.clear();
        self.overtakes.up_to(now, &mut self.due_links);
        for &link in &self.due_links {
            self.overtakes.set(link as usize, f64::INFINITY);
            self.hopeful.extend(self.served[link as usize].iter().map(|served| served.flow));
        }
        let first = due.finished.len();
        self.service.take_due(now, due);
        for &flow in &due.finished[first..] {
            let account = self.service.flows[flow as usize].accounts[0] as usize;
            let full = self.full(&self.service.flows[flow as usize].route);
            self.service.remove(flow, now);
            self.remember(flow, now);
            self.free_links(flow, full, now);
            let at = self.in_account[flow as usize] as usize;
            self.accounts[account].flows.swap_remove(at);
            if let Some(&moved) = self.accounts[account].flows.get(at) {
                self.in_account[moved as usize] = at as u32;
            }
        }
    }

    fn refill(&mut self, now: f64) {
        while let Some(flow) = self.arrived.pop() {
            self.is_new[flow as usize] = false;
            if self.is_waiting(flow) {
                self.waiting.insert(self.rank(flow, now));
            }
            self.hopeful.push(flow);
        }
        self.hand_out(now);
        self.service.finish_refill(now);
    }

    fn rebase(&mut self, by: f64) {
        self.service.rebase(by);
        self.overtakes.rebase(by);
        self.served.iter_mut().flatten().for_each(|served| served.since -= by);
        for gate in &mut self.gates {
            if let Gate::Before(served) = gate {
                served.since -= by;
            }
        }
    }
}

//! The flows that are being served: their rates, when each ends, and which links they are on.
//!
//! Only the few flows with a rate are here, close together, however many wait. Those on a link are
//! chained through their records: with equal links there is mostly one, with others a handful.
//! Bytes are settled only when a rate changes.

use std::ops::Range;

use crate::fill::NONE;
use crate::progress::min_tree::MinTree;
use crate::progress::tolerance::TOLERANCE;
use crate::reference::NEGLIGIBLE;
use crate::route::Route;

/// The rank after which a link that always has something left is used up.
pub(crate) const NEVER: u32 = u32::MAX;

/// A flow with a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served<const N: usize> {
    pub(crate) account: u32,
    /// The rank of its account.
    pub(crate) rank: u32,
    pub(crate) number: u32,
    /// Its place in the account's demand.
    pub(crate) place: u32,
    pub(crate) route: Route<N>,
    pub(crate) rate: f64,
    /// Bytes left at `since`.
    pub(crate) left: f64,
    pub(crate) since: f64,
    /// The bytes left at which it is reported; zero where that is its end.
    pub(crate) milestone: f64,
    /// The next one on each of its links.
    pub(crate) next: [u32; N],
}

impl<const N: usize> Served<N> {
    /// Returns the time at which it ends or reaches its milestone.
    fn end(&self) -> f64 {
        self.since + (self.left - self.milestone).max(0.0) / self.rate
    }

    /// Bytes left at `now`.
    pub(crate) fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }
}

/// How far down the ranks a link reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The rank after which nothing is left.
    pub(crate) used_up: u32,
    /// The first rank that has more than is left to it: a higher one took some.
    pub(crate) overdrawn: u32,
}

/// All flows with a rate, by slot.
#[derive(Debug)]
pub(crate) struct Running<const N: usize> {
    capacity: Vec<f64>,
    /// For each link: the slot of the first flow on it.
    first: Vec<u32>,
    slots: Vec<Served<N>>,
    vacant: Vec<u32>,
    /// By slot: when the flow ends or reaches its milestone.
    ends: MinTree,
    /// A buffer: ranks and rates of the flows on a link.
    by_rank: Vec<(u32, f64)>,
}

impl<const N: usize> std::ops::Index<u32> for Running<N> {
    type Output = Served<N>;

    fn index(&self, slot: u32) -> &Served<N> {
        &self.slots[slot as usize]
    }
}

impl<const N: usize> Running<N> {
    pub(crate) fn new(capacity: Vec<f64>) -> Self {
        Self {
            first: vec![NONE; capacity.len()],
            capacity,
            slots: Vec::new(),
            vacant: Vec::new(),
            ends: MinTree::new(0),
            by_rank: Vec::new(),
        }
    }

    /// The capacity of the narrowest link of a path.
    #[inline]
    pub(crate) fn least_capacity(&self, route: &Route<N>) -> f64 {
        route.links().map(|link| self.capacity[link as usize]).fold(f64::INFINITY, f64::min)
    }

    /// All links.
    pub(crate) fn links(&self) -> Range<u32> {
        0..self.first.len() as u32
    }

    /// The slots of the flows on `link`.
    #[inline]
    pub(crate) fn on_link(&self, link: u32) -> impl Iterator<Item = u32> + Clone {
        let mut slot = self.first[link as usize];
        std::iter::from_fn(move || {
            let here = slot;
            let served = self.slots.get(here as usize)?;
            slot = served.next[served.route.place(link)];
            Some(here)
        })
    }

    /// Returns what is left of `link` after the flows that `counts` picks; zero where it is only
    /// rounding.
    #[inline]
    fn left_after(&self, link: u32, counts: impl Fn(&Served<N>) -> bool) -> f64 {
        let capacity = self.capacity[link as usize];
        let on_link = self.on_link(link).map(|slot| &self[slot]).filter(|served| counts(served));
        let left = on_link.fold(capacity, |left, served| left - served.rate);
        if left > NEGLIGIBLE * capacity { left } else { 0.0 }
    }

    /// Returns what is left of `link` after all ranks up to `rank`.
    #[inline]
    pub(crate) fn left_after_rank(&self, link: u32, rank: u32) -> f64 {
        self.left_after(link, |served| served.rank <= rank)
    }

    /// Returns what `link` leaves to the flow at `slot`: what higher ranks do not use, nor flows of
    /// its own account with lower numbers.
    pub(crate) fn left_for(&self, slot: u32, link: u32) -> f64 {
        let Served { rank, number, .. } = self[slot];
        self.left_after(link, |served| (served.rank, served.number) < (rank, number))
    }

    /// Finds how far down the ranks `link` reaches.
    #[inline]
    pub(crate) fn reach(&mut self, link: u32) -> Reach {
        if self.left_after(link, |_| true) > 0.0 {
            return Reach { used_up: NEVER, overdrawn: NEVER };
        }
        let mut by_rank = std::mem::take(&mut self.by_rank);
        by_rank.extend(self.on_link(link).map(|slot| (self[slot].rank, self[slot].rate)));
        by_rank.sort_unstable_by_key(|&(rank, _)| rank);
        let capacity = self.capacity[link as usize];
        let (mut left, mut reach) = (capacity, Reach { used_up: NEVER, overdrawn: NEVER });
        for of_rank in by_rank.chunk_by(|(one, _), (other, _)| one == other) {
            let rank = of_rank[0].0;
            left = of_rank.iter().fold(left, |left, (_, rate)| left - rate);
            if left <= NEGLIGIBLE * capacity {
                reach.used_up = reach.used_up.min(rank);
            }
            if left < -NEGLIGIBLE * capacity {
                reach.overdrawn = rank;
                break;
            }
        }
        by_rank.clear();
        self.by_rank = by_rank;
        reach
    }

    /// Gives every flow the rank that its account now has.
    pub(crate) fn update_ranks(&mut self, rank_of: impl Fn(u32) -> u32) {
        for served in &mut self.slots {
            served.rank = rank_of(served.account);
        }
    }

    /// Starts to serve a flow. Returns its slot.
    #[inline]
    pub(crate) fn start(&mut self, mut served: Served<N>) -> u32 {
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        for (next, link) in served.next.iter_mut().zip(served.route.links()) {
            *next = std::mem::replace(&mut self.first[link as usize], slot);
        }
        match self.slots.get_mut(slot as usize) {
            Some(vacant) => *vacant = served,
            None => self.slots.push(served),
        }
        self.ends.reserve(self.slots.len());
        self.ends.set(slot as usize, served.end());
        slot
    }

    /// Changes a rate, and returns the bytes sent since the last change.
    #[inline]
    pub(crate) fn change(&mut self, slot: u32, rate: f64, now: f64) -> f64 {
        let sent = self.settle(slot, now);
        let served = &mut self.slots[slot as usize];
        served.rate = rate;
        self.ends.set(slot as usize, served.end());
        sent
    }

    /// Settles the bytes that the flow at `slot` has sent, and returns those since the last time.
    #[inline]
    pub(crate) fn settle(&mut self, slot: u32, now: f64) -> f64 {
        let served = &mut self.slots[slot as usize];
        let sent = (served.rate * (now - served.since)).min(served.left);
        served.left -= sent;
        served.since = now;
        sent
    }

    /// Takes a flow out.
    #[inline]
    pub(crate) fn stop(&mut self, slot: u32) {
        let Served { route, next, .. } = self[slot];
        for (link, next) in route.links().zip(next) {
            let before = self.on_link(link).take_while(|&other| other != slot).last();
            match before {
                None => self.first[link as usize] = next,
                Some(before) => {
                    let place = self[before].route.place(link);
                    self.slots[before as usize].next[place] = next;
                }
            }
        }
        self.ends.set(slot as usize, f64::INFINITY);
        self.vacant.push(slot);
    }

    /// Notes that the flow at `slot` has another place in its account's demand.
    pub(crate) fn replace(&mut self, slot: u32, place: u32) {
        self.slots[slot as usize].place = place;
    }

    /// Reports the flow at `slot` once only `remaining` bytes are left.
    pub(crate) fn watch(&mut self, slot: u32, remaining: f64) {
        self.slots[slot as usize].milestone = remaining;
        self.ends.set(slot as usize, self[slot].end());
    }

    /// Returns the time at which the first flow ends or reaches its milestone.
    pub(crate) fn next(&self) -> f64 {
        self.ends.min()
    }

    /// Moves the origin of time.
    pub(crate) fn rebase(&mut self, by: f64) {
        self.slots.iter_mut().for_each(|served| served.since -= by);
        self.ends.rebase(by);
    }

    /// Appends the slots of the flows that have ended or reached their milestones by `now`.
    pub(crate) fn take_due(&self, now: f64, due: &mut Vec<u32>) {
        self.ends.up_to(now + TOLERANCE, due);
    }
}

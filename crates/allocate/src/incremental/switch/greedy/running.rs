//! Flows that are being served: their rates, when each ends, and which links they are on.
//!
//! Only the few flows with a rate are here, close together, so that the work of an event stays in the nearest cache however
//! many flows wait. Those on a link are chained through their records: with equal links there is never more than one, and
//! with others a handful. Bytes are settled only when a rate changes; when a flow ends follows from its rate and is kept
//! by row, in blocks with the least of each, brought up to date once per instant. Most instants change rows in most blocks,
//! so a tree of minima, which hears of every row by itself, costs half as much again.

use crate::bits::{ones, pack};
use crate::incremental::switch::max_min::group::{Block, NEGLIGIBLE, NONE, least};
use crate::progress::tolerance::tolerance;

/// The rank after which a link that always has something left is used up.
pub(crate) const NEVER: u32 = u32::MAX;

/// A flow with a rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) account: u32,
    /// The rank of its account.
    pub(crate) rank: u32,
    /// Its place in the account's demand.
    pub(crate) place: u32,
    pub(crate) links: [u32; 2],
    /// The next one on each of its links.
    next: [u32; 2],
    pub(crate) rate: f64,
    /// Bytes left at `since`.
    pub(crate) left: f64,
    pub(crate) since: f64,
    /// Bytes left at which it is reported; zero where that is its end.
    pub(crate) milestone: f64,
}

impl Served {
    /// A flow about to be served.
    pub(crate) fn new(account: u32, place: u32, links: [u32; 2], left: f64) -> Self {
        let (rate, since, milestone) = (0.0, 0.0, 0.0);
        Self { account, rank: 0, place, links, next: [NONE; 2], rate, left, since, milestone }
    }

    /// When it ends or reaches its milestone.
    fn end(&self) -> f64 {
        self.since + (self.left - self.milestone).max(0.0) / self.rate
    }

    /// Bytes left at `now`.
    pub(crate) fn left_at(&self, now: f64) -> f64 {
        (self.left - self.rate * (now - self.since)).max(0.0)
    }

    fn side(&self, link: u32) -> usize {
        usize::from(self.links[0] != link)
    }
}

#[derive(Clone, Debug)]
struct Link {
    capacity: f64,
    /// The slot of the first flow on it.
    first: u32,
    /// Whether its entry in `ends` is outdated, if flows enter here.
    is_outdated: bool,
}

/// All flows with a rate, by the slot that each stands in.
#[derive(Debug)]
pub(crate) struct Running {
    slots: Vec<Served>,
    vacant: Vec<u32>,
    links: Vec<Link>,
    /// When the first flow on each row ends, infinity where none does: in blocks, with the least of each.
    ends: Vec<Block>,
    least: Vec<f64>,
    /// Rows whose ends are outdated.
    outdated: Vec<u32>,
}

impl std::ops::Index<u32> for Running {
    type Output = Served;

    fn index(&self, slot: u32) -> &Served {
        &self.slots[slot as usize]
    }
}

impl Running {
    /// For links of these capacities.
    pub(crate) fn new(capacity: &[f64]) -> Self {
        let link = |&capacity: &f64| Link { capacity, first: NONE, is_outdated: false };
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
            links: capacity.iter().map(link).collect(),
            ends: vec![[f64::INFINITY; 64]; capacity.len().div_ceil(64)],
            least: vec![f64::INFINITY; capacity.len().div_ceil(64)],
            outdated: Vec::new(),
        }
    }

    /// The first slot on `link`, and whether it is the only one.
    fn first_on(&self, link: u32) -> Option<(&Served, bool)> {
        let served = self.slots.get(self.links[link as usize].first as usize)?;
        Some((served, served.next[served.side(link)] == NONE))
    }

    /// The slot of some flow on `link`.
    pub(crate) fn first_slot(&self, link: u32) -> Option<u32> {
        let slot = self.links[link as usize].first;
        (slot != NONE).then_some(slot)
    }

    /// Whether several flows are served on `link`.
    pub(crate) fn is_shared(&self, link: u32) -> bool {
        self.first_on(link).is_some_and(|(_, alone)| !alone)
    }

    /// What is left of `link` after ranks up to `rank`.
    pub(crate) fn left_after(&self, link: u32, rank: u32) -> f64 {
        let Link { capacity, first, .. } = self.links[link as usize];
        if first == NONE {
            return capacity;
        }
        let slots = self.on_link(link).map(|slot| &self[slot]);
        let left = slots.fold(capacity, |left, on| if on.rank <= rank { left - on.rate } else { left });
        if left > NEGLIGIBLE * capacity { left } else { 0.0 }
    }

    /// How much more than its capacity `link` is to carry; zero or less where it is not.
    pub(crate) fn excess(&self, link: u32) -> f64 {
        self.on_link(link).map(|slot| self[slot].rate).sum::<f64>() - self.links[link as usize].capacity
    }

    /// The rank after which nothing is left of `link`.
    pub(crate) fn used_up_after(&self, link: u32) -> u32 {
        match self.first_on(link) {
            None => NEVER,
            Some((served, true)) => {
                let capacity = self.links[link as usize].capacity;
                if capacity - served.rate > NEGLIGIBLE * capacity { NEVER } else { served.rank }
            }
            Some((_, false)) => {
                let ranks = self.on_link(link).map(|slot| self[slot].rank);
                ranks.filter(|&rank| self.left_after(link, rank) <= 0.0).min().unwrap_or(NEVER)
            }
        }
    }

    /// Gives every flow the rank that its account now has.
    pub(crate) fn update_ranks(&mut self, rank_of: impl Fn(u32) -> u32) {
        for served in &mut self.slots {
            served.rank = rank_of(served.account);
        }
    }

    /// The slots of the flows on `link`.
    pub(crate) fn on_link(&self, link: u32) -> impl Iterator<Item = u32> + Clone {
        let mut slot = self.links[link as usize].first;
        std::iter::from_fn(move || {
            let here = slot;
            if here == NONE {
                return None;
            }
            let served = &self.slots[here as usize];
            slot = served.next[served.side(link)];
            Some(here)
        })
    }

    /// Starts to serve a flow.
    #[inline]
    pub(crate) fn start(&mut self, mut served: Served, now: f64) {
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        served.since = now;
        for side in 0..2 {
            let link = &mut self.links[served.links[side] as usize];
            served.next[side] = std::mem::replace(&mut link.first, slot);
        }
        match self.slots.get_mut(slot as usize) {
            Some(vacant) => *vacant = served,
            None => self.slots.push(served),
        }
        self.outdate(served.links[0]);
    }

    /// Changes a rate, and returns the bytes sent since the last change.
    #[inline]
    pub(crate) fn change(&mut self, slot: u32, rate: f64, now: f64) -> f64 {
        let served = &mut self.slots[slot as usize];
        let sent = (served.rate * (now - served.since)).min(served.left);
        served.left -= sent;
        (served.rate, served.since) = (rate, now);
        let row = served.links[0];
        self.outdate(row);
        sent
    }

    /// Takes a flow out.
    #[inline]
    pub(crate) fn stop(&mut self, slot: u32) {
        let Served { links, next, .. } = self.slots[slot as usize];
        for side in 0..2 {
            let first = &mut self.links[links[side] as usize].first;
            if *first == slot {
                *first = next[side];
                continue;
            }
            let mut at = *first;
            loop {
                let served = &mut self.slots[at as usize];
                let its_side = served.side(links[side]);
                if served.next[its_side] == slot {
                    served.next[its_side] = next[side];
                    break;
                }
                at = served.next[its_side];
            }
        }
        self.outdate(links[0]);
        self.vacant.push(slot);
    }

    /// The flow at `slot` now has another place in its account's demand.
    pub(crate) fn replace(&mut self, slot: u32, place: u32) {
        self.slots[slot as usize].place = place;
    }

    /// Reports the flow at `slot` once only `remaining` bytes are left.
    pub(crate) fn watch(&mut self, slot: u32, remaining: f64) {
        self.slots[slot as usize].milestone = remaining;
        self.outdate(self.slots[slot as usize].links[0]);
    }

    #[inline]
    fn outdate(&mut self, row: u32) {
        if !std::mem::replace(&mut self.links[row as usize].is_outdated, true) {
            self.outdated.push(row);
        }
    }

    /// After rates have changed: when flows end.
    pub(crate) fn update_ends(&mut self) {
        for row in &self.outdated {
            self.links[*row as usize].is_outdated = false;
            let ends = self.on_link(*row).map(|slot| self[slot].end());
            let block = *row as usize / 64;
            self.ends[block][*row as usize % 64] = ends.fold(f64::INFINITY, f64::min);
            self.least[block] = f64::NAN;
        }
        self.outdated.clear();
        for (first, ends) in self.least.iter_mut().zip(&self.ends).filter(|(first, _)| first.is_nan()) {
            *first = least(ends);
        }
    }

    /// When the first flow ends or reaches its milestone.
    pub(crate) fn next(&self) -> f64 {
        self.least.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Finds the flows that are due by `now`: the slots of those that have ended, which stay until they are stopped, and
    /// of those that have reached their milestones.
    pub(crate) fn take_due(&mut self, now: f64, ended: &mut Vec<u32>, reached: &mut Vec<u32>) {
        let reach = now + tolerance(now);
        for block in 0..self.ends.len() {
            if self.least[block] > reach {
                continue;
            }
            let ends = &self.ends[block];
            for bit in ones(pack(|row| ends[row] <= reach)) {
                let row = block as u32 * 64 + bit;
                self.outdate(row);
                for slot in self.on_link(row).filter(|&slot| self[slot].end() <= reach) {
                    if self[slot].milestone > 0.0 { reached.push(slot) } else { ended.push(slot) }
                }
            }
        }
        for &slot in reached.iter() {
            self.slots[slot as usize].milestone = 0.0;
        }
    }
}

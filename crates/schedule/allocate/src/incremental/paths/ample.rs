//! Links that cannot be short, of which nothing is kept.
//!
//! On a tree most links have room to spare: a server sends little of what it could, the core never
//! fills. A link is *ample* while each of its flows is sent at no more than an *allowance*, which
//! is at most an even share of the link: then all of them together fit, in whatever classes. No
//! level, no use and no class of such a link is kept, and no look is taken at it; so a cell whose
//! flows cross ample links else moves all of them together, whatever their number.
//!
//! A flow that is to be sent at more than the allowance makes its link *attended*: what its classes
//! use is added up, and from then on it is as the [`super`] module says. It becomes ample again
//! when no flow is held there and every flow has half of a new allowance or less; that is tried
//! after so many departures that it costs O(1) each.
//!
//! When more flows crowd onto an ample link its allowance falls, by half at once, so that this too
//! is O(1) for each flow.

//! # What it brings
//! Baraat's tree with two-stage partition-aggregate tasks at 80 % load, `fair`, processor time for
//! each flow on a busy machine: 2.2 µs without and 0.9 to 1.1 with 1,200 servers, 4.2 and 1.6 to
//! 2.0 with 9,600, 2.9 with 36,000 (12.3 million flows in 36 s and 230 MB). Looks no longer grow
//! with what is active; what still grows is how far flows lie apart in memory. That is less than
//! the factor of three that an allocator of its own would have to bring; without it runs on 36,000
//! servers, for which a minute is asked (`fair` takes 34 s, `fifo_lm` 58), would take more than
//! twice as long.

use super::PathFill;
use super::cell::NOWHERE;

#[derive(Clone, Copy, Debug)]
struct Link {
    is_ample: bool,
    /// Flows on it.
    flows: u32,
    /// Flows that have left since it was last tried whether it is ample.
    departures: u32,
    /// No flow has more while the link is ample; bytes per nanosecond.
    allowance: f64,
}

/// On so few flows it is tried at once whether their link is ample when that would help.
const FEW: u32 = 32;

/// The links that are ample.
#[derive(Debug)]
pub(super) struct Links {
    links: Vec<Link>,
    /// Ample links that have a flow with more than the allowance now.
    short: Vec<u32>,
}

impl Links {
    /// Starts with all links ample; one that is not known here never is.
    pub(super) fn new(capacity: &[f64]) -> Self {
        let link = |&allowance: &f64| Link { is_ample: true, flows: 0, departures: 0, allowance };
        Self { links: capacity.iter().map(link).collect(), short: Vec::new() }
    }
}

impl PathFill {
    /// Returns whether the link of a cell is ample.
    pub(super) fn is_ample(&self, cell: u32) -> bool {
        let link = self.cells.hot[cell as usize].link;
        self.ample.links.get(link as usize).is_some_and(|link| link.is_ample)
    }

    /// Returns each flow's share of what is offered to a cell, or of its link where that is not
    /// known.
    pub(super) fn even_share(&self, cell: u32) -> f64 {
        let link = self.cells.hot[cell as usize].link as usize;
        match self.ample.links.get(link) {
            Some(&Link { is_ample: true, flows, .. }) => self.cells.capacity[link] / f64::from(flows),
            _ => self.cells.share(cell),
        }
    }

    /// One flow more is on a link.
    pub(super) fn crowd(&mut self, link: u32) {
        let Some(record) = self.ample.links.get_mut(link as usize) else { return };
        record.flows += 1;
        let (flows, capacity) = (f64::from(record.flows), self.cells.capacity[link as usize]);
        if !record.is_ample || record.allowance * flows <= capacity {
            return;
        }
        record.allowance = capacity / (2.0 * flows);
        let allowance = record.allowance;
        for &(_, cell) in &self.cells.on_link[link as usize] {
            for &flow in &self.cells.contents[cell as usize].members {
                let holder = &mut self.cells.hot[self.routes[flow as usize].held_by as usize];
                holder.safe = holder.safe.min(allowance);
                if holder.level > allowance && holder.level < f64::INFINITY {
                    self.ample.short.push(link);
                }
            }
        }
    }

    /// One flow less is on a link.
    pub(super) fn thin_out(&mut self, link: u32) {
        let Some(record) = self.ample.links.get_mut(link as usize) else { return };
        record.flows -= 1;
        if record.is_ample {
            return;
        }
        record.departures += 1;
        if 4 * record.departures > record.flows {
            record.departures = 0;
            self.try_ample(link);
        }
    }

    /// Makes a link ample if it is.
    fn try_ample(&mut self, link: u32) {
        let allowance = self.cells.capacity[link as usize]
            / f64::from(2 * self.ample.links[link as usize].flows).max(1.0);
        let on_link = &self.cells.on_link[link as usize];
        let is_slow = |cell: &u32| {
            let mut flows = self.cells.contents[*cell as usize].members.iter();
            flows.all(|&flow| self.rate_of(flow) <= 0.5 * allowance)
        };
        // A cell that is still to be visited may have to hold flows.
        let holds_none =
            |cell: &u32| self.cells.hot[*cell as usize].level == f64::INFINITY && !self.is_outdated(*cell);
        if on_link.iter().all(|(_, cell)| holds_none(cell)) && on_link.iter().all(|(_, cell)| is_slow(cell)) {
            let record = &mut self.ample.links[link as usize];
            (record.is_ample, record.allowance) = (true, allowance);
        }
    }

    /// A flow of a cell, whose link is ample, is now sent at `rate`.
    pub(super) fn check_allowance(&mut self, cell: u32, rate: f64) {
        let link = self.cells.hot[cell as usize].link;
        if rate > self.ample.links[link as usize].allowance {
            self.ample.short.push(link);
        }
    }

    /// Attends to the links that are no longer ample.
    pub(super) fn attend_short(&mut self) {
        while let Some(link) = self.ample.short.pop() {
            self.attend(link);
        }
    }

    /// Keeps from now on what the classes of a link use, and notes which of them have too little.
    pub(super) fn attend(&mut self, link: u32) {
        let Some(record) = self.ample.links.get_mut(link as usize) else { return };
        if !std::mem::replace(&mut record.is_ample, false) {
            return;
        }
        record.departures = 0;
        for rank in 0..self.cells.on_link[link as usize].len() {
            let (_, cell) = self.cells.on_link[link as usize][rank];
            let mut used = 0.0;
            for &flow in &self.cells.contents[cell as usize].members {
                used += self.rate_of(flow);
                self.cells.hot[self.routes[flow as usize].held_by as usize].safe = -1.0;
            }
            let given = self.cells.offered(cell);
            let record = &mut self.cells.hot[cell as usize];
            (record.used, record.given) = (used, given);
            if used > given * (1.0 + super::FULL) {
                self.outdate(cell);
            }
        }
    }

    /// Returns what each flow of a cell may have without a look at the link; below zero where that
    /// is not known.
    fn allowance(&mut self, cell: u32) -> f64 {
        let link = self.cells.hot[cell as usize].link;
        match self.ample.links.get(link as usize) {
            Some(&Link { is_ample: true, allowance, .. }) => return allowance,
            Some(&Link { flows, .. }) if flows <= FEW => self.try_ample(link),
            _ => return -1.0,
        }
        let Link { is_ample, allowance, .. } = self.ample.links[link as usize];
        if is_ample { allowance } else { -1.0 }
    }

    /// Finds how far the level of a cell may rise without a look at its flows.
    pub(super) fn find_safe(&mut self, cell: u32) {
        let mut safe = f64::INFINITY;
        let members = self.cells.contents[cell as usize].members.len();
        if self.cells.hot[cell as usize].held as usize != members {
            return;
        }
        for nth in 0..members {
            let flow = self.cells.contents[cell as usize].members[nth];
            for other in self.routes[flow as usize].cells {
                if other == NOWHERE {
                    break;
                }
                let of_other = if other == cell { f64::INFINITY } else { self.allowance(other) };
                safe = if of_other < safe { of_other } else { safe };
                if safe < 0.0 {
                    return;
                }
            }
            if self.is_booked(flow) {
                return;
            }
        }
        self.cells.hot[cell as usize].safe = safe;
    }

    /// Gives a cell that holds all of its flows a new level, if that takes no look at them. Returns
    /// whether it did.
    pub(super) fn move_together(&mut self, cell: u32, offered: f64, now: f64) -> bool {
        let flows = self.cells.contents[cell as usize].members.len();
        let record = &self.cells.hot[cell as usize];
        let (before, level) = (record.level, offered / flows as f64);
        if record.held as usize != flows || before == f64::INFINITY || level > record.safe {
            return false;
        }
        self.cells.hot[cell as usize].given = offered;
        if level != before {
            self.cells.set_level(cell, level, now);
            self.outdate_end(cell);
        }
        true
    }
}

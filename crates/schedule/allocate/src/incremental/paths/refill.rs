//! From outdated cells to levels for which everything fits again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::cell::NOWHERE;
use super::{FEASIBLE, FULL, MOST_LOOKS, PathFill, SETTLED, TIE};
use crate::fill::Key;

/// The cells that are to be looked at.
#[derive(Debug, Default)]
pub(super) struct Worklist {
    /// By class and level, as bits, which for numbers that are not negative are in the same order.
    queue: BinaryHeap<Reverse<(Key, u64, u32)>>,
    is_queued: Vec<bool>,
    /// Looks at each cell in this refill, and the cells looked at.
    looked: Vec<u32>,
    seen: Vec<u32>,
    /// The limits of each flow by its other cells, in order of members.
    limits: Vec<f64>,
    rising: Vec<f64>,
}

impl PathFill {
    /// Notes that a cell is to be looked at.
    pub(super) fn outdate(&mut self, cell: u32) {
        if self.is_ample(cell) {
            return;
        }
        let list = &mut self.refill;
        if list.is_queued.len() <= cell as usize {
            list.is_queued.resize(self.cells.len(), false);
            list.looked.resize(self.cells.len(), 0);
        }
        if !std::mem::replace(&mut list.is_queued[cell as usize], true) {
            let level = self.cells.hot[cell as usize].level;
            let about = if level < f64::INFINITY { level } else { self.cells.share(cell) };
            list.queue.push(Reverse((self.cells.contents[cell as usize].key, about.to_bits(), cell)));
        }
    }

    /// Returns whether a cell is to be looked at.
    pub(super) fn is_outdated(&self, cell: u32) -> bool {
        self.refill.is_queued.get(cell as usize).is_some_and(|&is_queued| is_queued)
    }

    /// A cell's flows use so much less, one flow more or less.
    pub(super) fn lose(&mut self, cell: u32, rate: f64) {
        if self.cells.hot[cell as usize].level < f64::INFINITY {
            self.outdate(cell);
        } else {
            self.change_use(cell, -rate);
        }
    }

    /// The flows of a cell that holds none back use so much more or less.
    fn change_use(&mut self, cell: u32, change: f64) {
        if change == 0.0 || self.is_ample(cell) {
            return;
        }
        self.stir(cell);
        let used = &mut self.cells.hot[cell as usize].used;
        *used += change;
        if *used > self.cells.hot[cell as usize].given * (1.0 + FULL) {
            self.outdate(cell);
        }
        if let Some(next) = self.cells.after(cell) {
            self.offer(next);
        }
    }

    /// Takes in that what is left to a cell has changed. One that holds no flow back takes note, if
    /// it still has enough, and so do those after it; else it is to be looked at, and then those
    /// after it hear of it if that matters to them.
    pub(super) fn offer(&mut self, mut cell: u32) {
        if self.is_ample(cell) {
            return;
        }
        let mut offered = self.cells.offered(cell);
        while self.pass_on(cell, &mut offered)
            && let Some(next) = self.cells.after(cell)
        {
            cell = next;
        }
    }

    /// Tells one cell what it is offered, which becomes what it leaves. Returns whether that
    /// concerns the next.
    fn pass_on(&mut self, cell: u32, offered: &mut f64) -> bool {
        if self.is_outdated(cell) {
            return false;
        }
        self.stir(cell);
        let record = &mut self.cells.hot[cell as usize];
        if record.level < f64::INFINITY || record.used > *offered * (1.0 + FULL) {
            self.outdate(cell);
            return false;
        }
        if record.given == *offered {
            return false;
        }
        record.given = *offered;
        *offered = self.cells.left_by(cell);
        true
    }

    /// Has flows that no cell holds looked at where they are most likely to be held.
    fn place_loose(&mut self) {
        while let Some(flow) = self.loose.pop() {
            if self.flows[flow as usize].hops > 0 {
                self.outdate_least(flow);
            }
        }
    }

    /// Looks at outdated cells until there are none.
    pub(crate) fn settle_levels(&mut self, now: f64) {
        self.settle_up_to(u16::MAX, now);
        self.forget_looks();
    }

    /// Looks at outdated cells until there are none up to a class.
    pub(crate) fn settle_up_to(&mut self, class: u16, now: f64) {
        loop {
            self.place_loose();
            self.attend_short();
            let Some(first) = self.refill.queue.peek_mut().filter(|first| first.0.0.class <= class) else {
                return;
            };
            let Reverse((key, _, cell)) = PeekMut::pop(first);
            self.refill.is_queued[cell as usize] = false;
            // A cell may have been closed, and its number used again for another, since it was
            // queued.
            let is_there = !self.cells.is_cap(cell) && self.cells.contents[cell as usize].key == key;
            if is_there && !self.cells.contents[cell as usize].members.is_empty() {
                self.look(cell, now);
            } else if !self.cells.is_cap(cell) && !self.cells.contents[cell as usize].members.is_empty() {
                self.outdate(cell);
            }
        }
    }

    /// Ends the count of looks at each cell, once all are settled.
    pub(crate) fn forget_looks(&mut self) {
        while let Some(cell) = self.refill.seen.pop() {
            self.refill.looked[cell as usize] = 0;
        }
    }

    /// Finds the level of a cell, and who is held by it.
    fn look(&mut self, cell: u32, now: f64) {
        if self.is_ample(cell) {
            return;
        }
        let looked = &mut self.refill.looked[cell as usize];
        if *looked == 0 {
            self.refill.seen.push(cell);
        }
        *looked += 1;
        let may_only_fall = *looked > MOST_LOOKS;
        let offered = self.cells.offered(cell);
        if self.move_together(cell, offered, now) {
            return;
        }
        self.stir(cell);
        let had_left = self.left_behind(cell);
        self.cells.hot[cell as usize].given = offered;
        self.find_limits(cell);
        let mut level = self.find_level(cell, offered);
        let before = self.cells.hot[cell as usize].level;
        let settled = if may_only_fall { FEASIBLE } else { SETTLED };
        if may_only_fall {
            level = level.min(before);
        }
        if before < f64::INFINITY && (level - before).abs() <= settled * before {
            // Those who have just come are still to be held.
            level = before;
        }
        self.move_holds(cell, before, level, now);
        self.find_safe(cell);
        if self.left_behind(cell) != had_left
            && let Some(next) = self.cells.after(cell)
        {
            self.offer(next);
        }
    }

    /// Returns what a cell leaves to the next class.
    fn left_behind(&self, cell: u32) -> f64 {
        let is_held_back = self.cells.hot[cell as usize].level < f64::INFINITY;
        if is_held_back {
            0.0
        } else {
            self.cells.hot[cell as usize].given - self.cells.hot[cell as usize].used
        }
    }

    /// Finds the limits of each member by its other cells.
    fn find_limits(&mut self, cell: u32) {
        let (cells, routes) = (&self.cells.hot, &self.routes);
        self.refill.limits.clear();
        self.refill.limits.extend(self.cells.contents[cell as usize].members.iter().map(|&flow| {
            let mut least = f64::INFINITY;
            for other in routes[flow as usize].cells {
                if other == NOWHERE {
                    break;
                }
                let level = cells[other as usize].level;
                least = if other != cell && level < least { level } else { least };
            }
            least
        }));
    }

    /// The level at which the members, each up to its limit, use what is offered; infinite, with
    /// what they use noted, where that is more than they can use.
    fn find_level(&mut self, cell: u32, offered: f64) -> f64 {
        let rising = &mut self.refill.rising;
        rising.clone_from(&self.refill.limits);
        let mut left = offered;
        loop {
            let share = (left / rising.len() as f64).max(0.0);
            let mut bound = 0.0;
            let count = rising.len();
            let within = share * (1.0 + TIE);
            rising.retain(|&limit| {
                let rises = limit > within;
                bound += if rises { 0.0 } else { limit };
                rises
            });
            left -= bound;
            if rising.is_empty() {
                self.cells.hot[cell as usize].used = offered - left;
                return f64::INFINITY;
            }
            if rising.len() == count {
                return share;
            }
        }
    }

    /// Gives a cell its new level: takes hold of those it limits, lets go of those it does not
    /// limit any more, and notes which other cells that concerns.
    fn move_holds(&mut self, cell: u32, before: f64, level: f64, now: f64) {
        let changes = level != before;
        if changes {
            self.cells.set_level(cell, level, now);
            self.outdate_end(cell);
        }
        for index in 0..self.refill.limits.len() {
            let flow = self.cells.contents[cell as usize].members[index];
            let limit = self.refill.limits[index];
            let held_by = self.routes[flow as usize].held_by;
            let is_held = level * (1.0 + TIE) < limit;
            // Of two cells that allow it the same, the one that holds it keeps it.
            if held_by == cell && (is_held || level * (1.0 - TIE) <= limit) {
                if changes {
                    self.book(flow, level - before, now);
                    self.tell_others(flow, cell, level - before);
                }
            } else if is_held {
                // From another cell, which allows more, or from nowhere.
                let rate = self.rate_of(flow);
                self.release(flow, now);
                self.hold(flow, cell, now);
                self.book(flow, level, now);
                self.tell_others(flow, cell, level - rate);
            } else if held_by == cell || held_by == NOWHERE {
                let rate = if held_by == cell { before } else { 0.0 };
                self.let_go(flow, cell, rate, limit, now);
            }
        }
    }

    /// Hands a flow that `cell` does not limit to the cell that does.
    fn let_go(&mut self, flow: u32, cell: u32, rate: f64, limit: f64, now: f64) {
        let cells = self.routes[flow as usize].cells;
        let holder = cells.into_iter().find(|&other| {
            other != cell && other != NOWHERE && self.cells.hot[other as usize].level == limit
        });
        let holder = holder.expect("the least level on a path is that of one of its cells");
        if self.routes[flow as usize].held_by == cell {
            // What it was sent until now, it was sent at the level of before.
            self.flows[flow as usize].end = self.bytes_left(flow, now);
            self.routes[flow as usize].held_by = NOWHERE;
            self.cells.hot[cell as usize].held -= 1;
            self.book(flow, -rate, now);
        }
        self.hold(flow, holder, now);
        self.book(flow, limit, now);
        self.tell_others(flow, cell, limit - rate);
    }

    /// A flow is sent faster or slower: notes what that means for its cells other than `cell`.
    fn tell_others(&mut self, flow: u32, cell: u32, change: f64) {
        let rate = self.rate_of(flow);
        for other in self.routes[flow as usize].cells {
            if other == NOWHERE {
                break;
            }
            if other == cell || self.cells.is_cap(other) {
                continue;
            }
            if self.is_ample(other) {
                self.check_allowance(other, rate);
                continue;
            }
            if self.cells.hot[other as usize].level < f64::INFINITY {
                self.outdate(other);
            } else {
                self.change_use(other, change);
            }
        }
    }
}

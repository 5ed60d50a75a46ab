//! When the first flow of a group is done, or has sent so much that it is to be reported, and which
//! flows are.
//!
//! A line knows a time before which none of its pairs is due. Only of a line that seems to be next
//! are pairs looked at.

use std::cmp::Ordering;

use super::residual::blocks;
use super::{COLUMNS, Flow, Group, ROWS, SIDES, Side, TRUNKS, least};
use crate::bits::{members, ones, pack};
use crate::progress::pairing::{self, Queued as _};
use crate::progress::tolerance::TOLERANCE;

impl Group {
    /// Finds when the first flow reaches its milestone.
    pub(super) fn find_next(&mut self, flows: &[Flow], now: f64) {
        self.next = self.next_capped(flows);
        for side in SIDES {
            let soonest = self.sides[side].find_waits(&mut self.waits);
            self.find_next_on(side, soonest, now);
        }
    }

    /// Returns the time at which the first flow with a cap reaches its milestone.
    pub(super) fn next_capped(&self, flows: &[Flow]) -> f64 {
        self.capped.iter().map(|capped| capped.next(flows)).fold(f64::INFINITY, f64::min)
    }

    /// Looks for an earlier milestone on a side, where lines have to wait for `waits`, and
    /// `soonest` is the least of them. What a line has as its first may be gone; that is only
    /// looked into for a line that seems to be next.
    pub(super) fn find_next_on(&mut self, side: usize, mut soonest: f64, now: f64) {
        loop {
            let next = (self.since + soonest).max(now);
            if next >= self.next {
                return;
            }
            let waits = &mut self.waits;
            let line =
                waits.iter().position(|&wait| wait == soonest).expect("the least of them is one of them");
            if side == TRUNKS {
                self.on_trunks.find_first(line as u32, &self.trunks, &mut self.sides);
            } else {
                self.sides[side].find_first(line as u32);
            }
            waits[line] = self.sides[side].wait(line);
            if waits[line] == soonest {
                self.next = next;
                return;
            }
            soonest = least(waits);
        }
    }

    /// Moves the origins of time, of what was sent, and of the scales on which flows end: that of
    /// each pair and that of its line begin again together.
    pub(crate) fn rebase(&mut self, by: f64, flows: &mut [Flow]) {
        let mut listed = Vec::new();
        for row in self.sides[ROWS].listed.clone() {
            for column in members(self.sides[ROWS].partners(row).iter().copied()).collect::<Vec<_>>() {
                let lines = [row, column];
                let places = self.places(lines);
                let (side, line) = self.bottleneck(lines, places);
                let pair = &mut self.pairs[places[ROWS] as usize];
                let served = self.sides[side].served[line as usize] - pair.offset;
                pair.offset = 0.0;
                listed.clear();
                pairing::list(flows, pair.head, |_| true, &mut listed);
                listed.iter().for_each(|&flow| flows[flow as usize].end -= served);
                let due = flows[pair.head as usize].due();
                self.set_due(side, line, places, due);
            }
        }
        self.sides.iter_mut().for_each(Side::restart);
        self.on_trunks.restart();
        let trunks = self.sides[TRUNKS].present.clone();
        for trunk in members(trunks.into_iter()) {
            self.on_trunks.find_first(trunk, &self.trunks, &mut self.sides);
        }
        self.capped.iter_mut().for_each(|capped| capped.since -= by);
        self.since -= by;
        self.next -= by;
    }

    /// Appends the flows that have reached their milestone at `now` to `due`. Each must then be
    /// removed or given another milestone.
    pub(crate) fn take_due(&self, flows: &[Flow], now: f64, due: &mut Vec<u32>) {
        let elapsed = now - self.since + TOLERANCE;
        for (which, side) in self.sides.iter().enumerate() {
            let (served, levels) = (blocks(&side.served), blocks(&side.level));
            for (block, ((served, level), first)) in
                served.iter().zip(levels).zip(blocks(&side.first)).enumerate()
            {
                let reached = |line: usize| served[line] * (1.0 + 1e-14) + level[line] * elapsed;
                let is_due = |line: usize| (level[line] > 0.0) & (first[line] <= reached(line));
                for line in ones(pack(is_due)) {
                    self.take_due_of(flows, which, 64 * block as u32 + line, reached(line as usize), due);
                }
            }
        }
        for capped in self.capped.iter().filter(|capped| capped.next(flows) <= now + TOLERANCE) {
            due.push(capped.flow);
        }
    }

    fn take_due_of(&self, flows: &[Flow], side: usize, line: u32, reached: f64, due: &mut Vec<u32>) {
        if side == TRUNKS {
            return self.take_due_of_trunk(flows, line, reached, due);
        }
        let lines_of = &self.sides[side];
        for partner in members(lines_of.attached(line).iter().copied()) {
            if lines_of.due(lines_of.place(line, partner)) <= reached {
                let lines = if side == ROWS { [line, partner] } else { [partner, line] };
                self.take_due_of_pair(
                    flows,
                    self.sides[ROWS].place(lines[ROWS], lines[COLUMNS]),
                    reached,
                    due,
                );
            }
        }
    }

    #[inline(never)]
    fn take_due_of_trunk(&self, flows: &[Flow], trunk: u32, reached: f64, due: &mut Vec<u32>) {
        self.on_trunks.visit(trunk, &self.trunks, &self.sides[ROWS], |place, at| {
            if at <= reached {
                self.take_due_of_pair(flows, place, reached, due);
            }
        });
    }

    #[inline(always)]
    fn take_due_of_pair(&self, flows: &[Flow], place: u32, reached: f64, due: &mut Vec<u32>) {
        let pair = self.pairs[place as usize];
        // Of the first, what is noted at the line counts, where rounding has it otherwise.
        let reached = reached.max(pair.offset + flows[pair.head as usize].due());
        let at = due.len();
        let is_due = |flow: u32| pair.offset + flows[flow as usize].due() <= reached;
        pairing::list(flows, pair.head, is_due, due);
        let key = |flow: u32| (flows[flow as usize].due(), flow);
        due[at..].sort_unstable_by(|&a, &b| key(a).partial_cmp(&key(b)).unwrap_or(Ordering::Equal));
    }
}

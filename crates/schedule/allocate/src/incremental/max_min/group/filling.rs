//! Progressive filling of a group: what rate each link's flows get from the capacity that is left.
//!
//! Links are rows (where flows enter) and columns (where they leave). Every row whose level is at
//! most the lowest level of a column or a trunk can be frozen at once: freezing a row at a level
//! below a column's can only raise that column's level, and never touches another row. So filling
//! alternates between the sides in a few rounds, where the textbook freezes one link a round. Who
//! is connected to whom, and which pairs are bottlenecked where, are bit sets: finding the few that
//! move costs a word operation per 64. Lines that meet the same partners (a shuffle), or that have
//! one level, are taken together; only where neither is so is each pair looked at.
//!
//! Trunks are frozen one by one, since a flow may cross several: what that takes of other lines is
//! in [`by_trunk`](super::by_trunk).
//!
//! A trial finds the same levels and changes nothing but the residual; it is how weighted classes
//! try out their offers.

use std::array;

use super::residual::{Eight, Residual, blocks, blocks_mut, eights, eights_mut};
use super::{COLUMNS, Flow, Group, Lowest, ROWS, SERVICE, SIDES, TRUNKS, intersects, is_shut, path};
use crate::bits::{has, ones, pack, set};

/// From this many lines of one level on it is cheaper to count whom they meet than to visit their
/// pairs.
const MANY: usize = 6;

/// The capacity of a line that is left for the flows that have no rate yet, and how many those are:
/// side by side, since both change with every pair that gets a rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    pub(super) room: f64,
    pub(super) count: f64,
}

/// Buffers for filling, shared by all groups. One entry for each side, in it one for each line.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(super) given: [Vec<f64>; 3],
    pub(super) rest: [Vec<Rest>; 3],
    /// The level at which a line would be full if only it counted; infinite where no flow is
    /// without a rate.
    pub(super) estimate: [Vec<f64>; 3],
    /// The level at which a line was frozen; infinite where it was not, 0 where there is no
    /// capacity.
    pub(super) level: [Vec<f64>; 3],
    /// Lines with capacity, and those of them that are not frozen yet, as bits.
    pub(super) open: [Vec<u64>; 3],
    pub(super) unfrozen: [Vec<u64>; 3],
    /// By line, over the blocks of the other side: the lines behind no trunk that is frozen or has
    /// no capacity; nothing where there are no trunks.
    pub(super) reach: [Vec<u64>; 2],
    /// Buffers: flows with each line, and with all lines up to each.
    pub(super) counted: Vec<u32>,
    pub(super) up_to: Vec<u32>,
    caps: Vec<u32>,
    /// Lines being frozen, and the same as bits.
    batch: Vec<u32>,
    freezing: Vec<u64>,
    /// True if only levels are asked for: nothing is attached again.
    is_trial: bool,
}

impl Scratch {
    /// Makes room for so many blocks of lines of a side.
    fn resize(&mut self, side: usize, blocks: usize) {
        for values in [&mut self.given, &mut self.level, &mut self.estimate] {
            values[side].resize(64 * blocks, 0.0);
        }
        self.rest[side].resize(64 * blocks, Rest::default());
        for bits in [&mut self.open, &mut self.unfrozen] {
            bits[side].resize(blocks, 0);
        }
    }

    /// Brings the estimates of a side up to date and returns the lowest.
    fn lowest(&mut self, side: usize) -> f64 {
        let mut lowest = Lowest::new();
        let rests = self.rest[side].as_chunks().0;
        for (estimate, rest) in eights_mut(&mut self.estimate[side]).iter_mut().zip(rests) {
            let estimates = estimates_of(rest);
            lowest.take(&estimates);
            *estimate = estimates;
        }
        lowest.found()
    }

    /// Chooses the lines of a side with an estimate of at most `limit` to be frozen.
    fn choose(&mut self, side: usize, limit: f64) {
        self.batch.clear();
        self.freezing.clear();
        if side == TRUNKS {
            return self.choose_trunk();
        }
        for (first, estimate) in (0..).step_by(64).zip(blocks(&self.estimate[side])) {
            let chosen = pack(|line| estimate[line] <= limit);
            self.freezing.push(chosen);
            for line in ones(chosen) {
                self.batch.push(first + line);
            }
        }
    }

    /// Chooses the trunk with the lowest estimate: a flow may cross several, and what one takes of
    /// another counts.
    fn choose_trunk(&mut self) {
        let estimates = (0u32..).zip(&self.estimate[TRUNKS]);
        let lowest = estimates.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let (trunk, _) = lowest.expect("a trunk is chosen where there are some");
        self.freezing.resize(self.unfrozen[TRUNKS].len(), 0);
        set(&mut self.freezing, trunk, true);
        self.batch.push(trunk);
    }

    /// Freezes the lines that were chosen, at their estimates. Returns the lowest estimate of the
    /// others.
    fn freeze(&mut self, side: usize) -> f64 {
        let mut lowest = Lowest::new();
        let found = blocks_mut(&mut self.estimate[side]).iter_mut();
        let found = found.zip(blocks_mut(&mut self.level[side]));
        let rests: &mut [[Rest; 64]] = self.rest[side].as_chunks_mut().0;
        let bits = self.freezing.iter().zip(&mut self.unfrozen[side]);
        for (((chosen, unfrozen), (estimate, level)), rest) in bits.zip(found).zip(rests) {
            *unfrozen &= !chosen;
            for line in ones(*chosen).map(|line| line as usize) {
                level[line] = estimate[line];
                estimate[line] = f64::INFINITY;
                rest[line] = Rest::default();
            }
            eights(estimate).iter().for_each(|estimates| lowest.take(estimates));
        }
        lowest.found()
    }

    /// Takes up what lines are given and how many flows could use each. Returns the lowest
    /// estimate.
    fn open(&mut self, side: usize, flows: &[f64]) -> f64 {
        let mut lowest = Lowest::new();
        let lines = eights(&self.given[side]).iter().zip(eights(flows));
        let rests = self.rest[side].as_chunks_mut().0;
        let found = eights_mut(&mut self.estimate[side]).iter_mut().zip(eights_mut(&mut self.level[side]));
        for ((given, flows), (rest, (estimate, level))) in lines.zip(rests.iter_mut().zip(found)) {
            let open = given.map(|given| given > 0.0);
            let fresh = array::from_fn(|line| Rest {
                room: given[line],
                count: if open[line] { flows[line] } else { 0.0 },
            });
            let estimates = estimates_of(&fresh);
            lowest.take(&estimates);
            *level = open.map(|open| if open { f64::INFINITY } else { 0.0 });
            (*rest, *estimate) = (fresh, estimates);
        }
        lowest.found()
    }
}

/// Returns the estimates of some lines.
#[inline]
fn estimates_of(rests: &[Rest; 8]) -> Eight {
    rests.map(Rest::estimate)
}

impl Rest {
    /// The level at which a line would be full if only it counted; infinite where no flow is
    /// without a rate.
    #[inline]
    fn estimate(self) -> f64 {
        let level = if self.room > 0.0 { self.room / self.count } else { 0.0 };
        if self.count > 0.0 { level } else { f64::INFINITY }
    }

    /// Takes out some flows at `rate` together.
    #[inline]
    pub(super) fn take(&mut self, rate: f64, flows: f64) {
        self.room -= rate;
        self.count -= flows;
    }
}

impl Group {
    /// Lets the group take its max-min fair share of `residual` as the allotment `which`: 0 is what
    /// flows are served by, the others are trials. Returns whether any flow is served at another
    /// rate than before.
    pub(crate) fn serve(
        &mut self,
        flows: &mut [Flow],
        which: usize,
        residual: &mut Residual,
        now: f64,
        scratch: &mut Scratch,
    ) -> bool {
        let allotment = &mut self.allotments[which];
        if allotment.is_untouched() && !intersects(&self.links, residual.marked()) {
            allotment.take_from(&self.sides, residual);
            return false;
        }
        let idle = allotment.rate == 0.0;
        if idle && (is_shut(&self.links, residual.open()) || self.has_trunks() && !self.may_send(residual)) {
            self.allotments[which].stay_idle();
            return false;
        }
        let allotment = &mut self.allotments[which];
        let holds = !idle
            && !allotment.outdated
            && self.capped.is_empty()
            && allotment.still_holds(&self.sides, residual);
        if !holds {
            for (side, lines) in self.sides.iter().enumerate() {
                scratch.resize(side, lines.blocks().len());
                scratch.open[side].copy_from_slice(&residual.open()[lines.blocks()]);
                blocks_mut(&mut scratch.given[side]).copy_from_slice(&residual.left()[lines.blocks()]);
            }
            if self.has_trunks() {
                scratch.reach.clone_from(residual.find_reach());
            }
            scratch.is_trial = which != SERVICE;
            let lowest = self.open_lines(flows, which, now, scratch);
            if idle && lowest[ROWS] == f64::INFINITY {
                self.allotments[which].stay_idle();
                return false;
            }
            self.freeze_rounds(flows, lowest, now, scratch);
            self.note_levels(which, scratch);
        }
        self.allotments[which].hand_on(&self.sides, residual);
        if which == SERVICE {
            self.apply_levels(flows, now);
        }
        which == SERVICE
    }

    /// Writes down what filling found.
    fn note_levels(&mut self, which: usize, scratch: &mut Scratch) {
        let allotment = &mut self.allotments[which];
        for side in SIDES {
            std::mem::swap(&mut allotment.given[side], &mut scratch.given[side]);
            std::mem::swap(&mut allotment.level[side], &mut scratch.level[side]);
            let rests = allotment.given[side].iter().zip(&scratch.rest[side]);
            for (used, (given, rest)) in allotment.used[side].iter_mut().zip(rests) {
                *used = given - rest.room;
            }
        }
    }

    /// Serves flows at the levels of the allotment: settles what they were served so far, and finds
    /// when the first is done.
    fn apply_levels(&mut self, flows: &[Flow], now: f64) {
        let elapsed = now - self.since;
        self.since = now;
        self.rate = self.allotments[SERVICE].rate;
        self.sides[ROWS].settle_use(elapsed, &self.allotments[SERVICE].used[ROWS]);
        self.next = self.next_capped(flows);
        for side in SIDES {
            let levels = &self.allotments[SERVICE].level[side];
            let soonest = self.sides[side].settle(elapsed, levels, &mut self.waits);
            self.find_next_on(side, soonest, now);
        }
    }

    /// Finds which lines have capacity and how many flows could use each. Returns the lowest
    /// estimate on each side.
    fn open_lines(&mut self, flows: &[Flow], which: usize, now: f64, scratch: &mut Scratch) -> [f64; 3] {
        for side in SIDES {
            scratch.unfrozen[side].copy_from_slice(&scratch.open[side]);
        }
        if !self.has_trunks() {
            self.count_open(flows, which, scratch);
        } else {
            self.count_by_trunk(flows, which, scratch);
        }
        self.ready_caps(flows, now, scratch);
        SIDES.map(|side| scratch.open(side, &self.allotments[which].count[side]))
    }

    /// Counts, for all lines, the flows whose other line is open, by what opened or closed since
    /// that was last done.
    fn count_open(&mut self, flows: &[Flow], which: usize, scratch: &Scratch) {
        for side in [ROWS, COLUMNS] {
            for (block, &open) in scratch.open[side].iter().enumerate() {
                let before = std::mem::replace(&mut self.allotments[which].open[side][block], open);
                for bit in ones((open ^ before) & self.sides[side].present[block]) {
                    let by = if open >> bit & 1 != 0 { 1.0 } else { -1.0 };
                    self.count_partners(flows, which, side, 64 * block as u32 + bit, by);
                }
            }
        }
    }

    /// Counts the flows of a line for its partners: 1 if it opened, -1 if it closed.
    fn count_partners(&mut self, flows: &[Flow], which: usize, side: usize, line: u32, by: f64) {
        let lines = &self.sides[side];
        let counts = &mut self.allotments[which].count[1 - side];
        for (word, (&partners, counts)) in lines.partners(line).iter().zip(blocks_mut(counts)).enumerate() {
            ones(partners).for_each(|partner| counts[partner as usize] += by);
            if lines.several(line)[word] != 0 {
                for (count, surplus) in counts.iter_mut().zip(lines.surplus(line, word)) {
                    *count += by * f64::from(*surplus);
                }
            }
        }
        for capped in &self.capped {
            let lines = flows[capped.flow as usize].lines;
            if lines[side] == line {
                counts[lines[1 - side] as usize] += by;
            }
        }
    }

    /// Settles capped flows and puts those with open links in order, the lowest cap last.
    fn ready_caps(&mut self, flows: &[Flow], now: f64, scratch: &mut Scratch) {
        scratch.caps.clear();
        for (index, capped) in self.capped.iter_mut().enumerate() {
            if !scratch.is_trial {
                capped.left = capped.left_at(now);
                capped.since = now;
                capped.rate = 0.0;
            }
            let lines = flows[capped.flow as usize].lines;
            let crossed = self.trunks.between(lines);
            capped.frozen = !path(lines, &crossed).all(|(side, line)| has(&scratch.open[side], line));
            if !capped.frozen {
                scratch.caps.push(index as u32);
            }
        }
        scratch.caps.sort_by(|&a, &b| {
            let (a, b) = (&self.capped[a as usize], &self.capped[b as usize]);
            b.limit.total_cmp(&a.limit).then_with(|| b.flow.cmp(&a.flow))
        });
    }

    /// Freezes lines in rounds, lowest levels first, until no flow is left without a rate.
    fn freeze_rounds(&mut self, flows: &[Flow], mut lowest: [f64; 3], now: f64, scratch: &mut Scratch) {
        loop {
            let [rows, columns, trunks] = lowest;
            let side = if trunks < rows && trunks < columns {
                TRUNKS
            } else if rows <= columns {
                ROWS
            } else {
                COLUMNS
            };
            if lowest[side] == f64::INFINITY {
                return;
            }
            let cap = self.lowest_cap(scratch);
            if let Some((index, limit)) = cap
                && limit <= lowest[side]
            {
                self.freeze_capped(flows, index, limit, scratch);
            } else {
                let others = SIDES.into_iter().filter(|&other| other != side).map(|other| lowest[other]);
                // With caps waiting, a level may not pass the lowest cap.
                let limit = others.fold(cap.map_or(f64::INFINITY, |(_, limit)| limit), f64::min);
                let rest = self.freeze_up_to(flows, side, limit, now, scratch);
                if self.capped.is_empty() && !self.has_trunks() {
                    // Nothing changed on this side but for what was frozen.
                    lowest[side] = rest;
                    lowest[1 - side] = scratch.lowest(1 - side);
                    continue;
                }
            }
            lowest = SIDES.map(|side| scratch.lowest(side));
        }
    }

    /// The lowest cap of a flow that has no rate yet.
    fn lowest_cap(&self, scratch: &mut Scratch) -> Option<(u32, f64)> {
        while let Some(&index) = scratch.caps.last() {
            let capped = &self.capped[index as usize];
            if !capped.frozen {
                return Some((index, capped.limit));
            }
            scratch.caps.pop();
        }
        None
    }

    fn freeze_capped(&mut self, flows: &[Flow], index: u32, rate: f64, scratch: &mut Scratch) {
        let capped = &mut self.capped[index as usize];
        capped.frozen = true;
        capped.rate = if scratch.is_trial { capped.rate } else { rate };
        let lines = flows[capped.flow as usize].lines;
        for (side, line) in path(lines, &self.trunks.between(lines)) {
            scratch.rest[side][line as usize].take(rate, 1.0);
        }
    }

    /// Freezes the lines of `side` with a level of at most `limit`. Returns the lowest estimate of
    /// the others.
    fn freeze_up_to(
        &mut self,
        flows: &[Flow],
        side: usize,
        limit: f64,
        now: f64,
        scratch: &mut Scratch,
    ) -> f64 {
        scratch.choose(side, limit.min(f64::MAX));
        let batch = std::mem::take(&mut scratch.batch);
        if !self.has_trunks() {
            self.take_rates(side, &batch, scratch);
        } else {
            self.take_rates_by_trunk(side, &batch, scratch);
        }
        if !scratch.is_trial {
            for &line in &batch {
                match side {
                    TRUNKS => self.attach_to_trunk(line, now, scratch),
                    _ => self.attach_frozen(side, line, now, scratch),
                }
            }
        }
        for at in 0..self.capped.len() {
            let capped = &self.capped[at];
            let lines = flows[capped.flow as usize].lines;
            let crossed = self.trunks.between(lines);
            let mut frozen = path(lines, &crossed).filter(|&(at, _)| at == side);
            let line = frozen.find(|&(_, line)| has(&scratch.freezing, line));
            if let Some((_, line)) = line.filter(|_| !capped.frozen) {
                let level = scratch.estimate[side][line as usize];
                self.freeze_capped(flows, at as u32, level, scratch);
            }
        }
        let rest = scratch.freeze(side);
        if side == TRUNKS {
            batch.iter().for_each(|&trunk| self.trunks.part(trunk, &mut scratch.reach));
        }
        scratch.batch = batch;
        rest
    }

    /// Takes the rates of the pairs of frozen lines out of the other side, many pairs at a time
    /// where that is possible.
    fn take_rates(&self, side: usize, batch: &[u32], scratch: &mut Scratch) {
        let Some(&first) = batch.first() else { return };
        let (lines, estimate) = (&self.sides[side], &scratch.estimate[side]);
        let level = estimate[first as usize];
        let is_common = || batch.iter().all(|&line| estimate[line as usize] == level);
        if batch.len() >= MANY && is_common() && lines.alike(batch).nth(MANY - 1).is_some() {
            self.take_by_count(side, level, scratch);
        } else {
            for alike in lines.alike(batch) {
                let sum = alike.iter().map(|&line| scratch.estimate[side][line as usize]).sum();
                self.take_alike(side, alike, sum, scratch);
            }
        }
        if self.surplus > 0 {
            for &line in batch {
                self.take_surplus(side, line, scratch.estimate[side][line as usize], scratch);
            }
        }
    }

    /// Takes the rates of the flows of a line beyond the first with each partner.
    fn take_surplus(&self, side: usize, line: u32, level: f64, scratch: &mut Scratch) {
        let several = self.sides[side].several(line).iter().zip(&scratch.unfrozen[1 - side]).enumerate();
        let rests: &mut [[Rest; 64]] = scratch.rest[1 - side].as_chunks_mut().0;
        for ((word, (several, unfrozen)), rests) in several.zip(rests) {
            let (several, surplus) = (several & unfrozen, self.sides[side].surplus(line, word));
            ones(several).map(|partner| partner as usize).for_each(|partner| {
                let flows = f64::from(surplus[partner]);
                rests[partner].take(level * flows, flows);
            });
        }
    }

    /// Takes the rates of lines that meet the same partners, as in a shuffle; `sum` is that of
    /// their levels.
    fn take_alike(&self, side: usize, lines: &[u32], sum: f64, scratch: &mut Scratch) {
        let partners = self.sides[side].partners(lines[0]).iter().zip(&scratch.unfrozen[1 - side]);
        let rests: &mut [[Rest; 64]] = scratch.rest[1 - side].as_chunks_mut().0;
        for ((partners, unfrozen), rests) in partners.zip(rests) {
            ones(partners & unfrozen)
                .for_each(|partner| rests[partner as usize].take(sum, lines.len() as f64));
        }
    }

    /// Takes the rates of lines with one common level: what matters is only how many of them each
    /// partner meets.
    fn take_by_count(&self, side: usize, level: f64, scratch: &mut Scratch) {
        let others = &self.sides[1 - side];
        for (&line, partners) in others.listed.iter().zip(others.partners.chunks_exact(others.words)) {
            let rest = &mut scratch.rest[1 - side][line as usize];
            if rest.count > 0.0 {
                let flows = f64::from(met(partners, &scratch.freezing));
                rest.take(level * flows, flows);
            }
        }
    }

    /// Attaches to a line that is being frozen the pairs that get their rate from it, and the
    /// others to their closed lines.
    fn attach_frozen(&mut self, side: usize, line: u32, now: f64, scratch: &Scratch) {
        // A pair that got its rate before was attached elsewhere then, so whatever is attached here
        // and gets none now has a closed line.
        let lines = &self.sides[side];
        let attached = lines.attached(line).iter();
        let has_trunks = self.has_trunks();
        let any = if has_trunks {
            attached.enumerate().any(|(word, attached)| self.waiting(side, line, word, scratch) != *attached)
        } else {
            let waiting = lines.partners(line).iter().zip(&scratch.unfrozen[1 - side]);
            attached.zip(waiting).fold(0, |any, (at, (met, free))| any | (met & free) ^ at) != 0
        };
        if !any {
            return;
        }
        for word in 0..self.sides[side].words {
            let served = self.waiting(side, line, word, scratch);
            for bit in ones(served ^ self.sides[side].attached(line)[word]) {
                let partner = 64 * word as u32 + bit;
                let lines = if side == ROWS { [line, partner] } else { [partner, line] };
                let is_here = served >> bit & 1 != 0;
                if !has_trunks {
                    self.attach(lines, if is_here { side } else { 1 - side }, now);
                } else if is_here {
                    self.attach_across(lines, (side, line), now);
                } else {
                    self.attach_across(lines, self.closed(lines, scratch), now);
                }
            }
        }
    }

    /// The partners of a line, of the 64 of a word, with which its flows have no rate yet and may
    /// get one.
    #[inline]
    pub(super) fn waiting(&self, side: usize, line: u32, word: usize, scratch: &Scratch) -> u64 {
        let waiting = self.sides[side].partners(line)[word] & scratch.unfrozen[1 - side][word];
        if !self.has_trunks() {
            return waiting;
        }
        waiting & scratch.reach[side][line as usize * self.sides[side].words + word]
    }

    /// A line of a flow that has no capacity, and its side.
    pub(super) fn closed(&self, lines: [u32; 2], scratch: &Scratch) -> (usize, u32) {
        let crossed = self.trunks.between(lines);
        let closed = path(lines, &crossed).find(|&(side, line)| !has(&scratch.open[side], line));
        closed.expect("a flow without a rate has a link without capacity")
    }
}

/// Returns the number of bits that two sets have in common.
fn met(a: &[u64], b: &[u64]) -> u32 {
    match (a, b) {
        // Without a loop: three words are 192 ports.
        ([a0, a1, a2], [b0, b1, b2]) => {
            (a0 & b0).count_ones() + (a1 & b1).count_ones() + (a2 & b2).count_ones()
        }
        _ => a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum(),
    }
}

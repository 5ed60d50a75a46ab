//! Progressive filling of a group: what rate each link's flows get from the capacity that is left.
//!
//! Links are rows (where flows enter) and columns (where they leave). Every row whose level is at
//! most the lowest column level can be frozen at once: freezing a row at a level below a column's
//! can only raise that column's level, and never touches another row. So filling alternates between
//! the sides in a few rounds, where the textbook freezes one link a round. Who is connected to
//! whom, and which pairs are bottlenecked where, are bit sets: finding the few that move costs a
//! word operation per 64. Lines that meet the same partners (a shuffle), or that have one level,
//! are taken together; only where neither is so is each pair looked at.
//!
//! A trial finds the same levels and changes nothing but the residual; it is how weighted classes
//! try out their offers.

use std::array;

use super::residual::{Eight, Residual, blocks, blocks_mut, eights, eights_mut};
use super::{COLUMNS, Flow, Group, Lowest, ROWS, SERVICE, is_shut, meet};
use crate::bits::{has, ones, pack};

/// From this many lines of one level on it is cheaper to count whom they meet than to visit their
/// pairs.
const MANY: usize = 6;

/// The capacity of a line that is left for the flows that have no rate yet, and how many those are:
/// side by side, since both change with every pair that gets a rate.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    room: f64,
    count: f64,
}

/// Buffers for filling, shared by all groups. One entry for each side, in it one for each line.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    given: [Vec<f64>; 2],
    rest: [Vec<Rest>; 2],
    /// The level at which a line would be full if only it counted; infinite where no flow is
    /// without a rate.
    estimate: [Vec<f64>; 2],
    /// The level at which a line was frozen; infinite where it was not, 0 where there is no
    /// capacity.
    level: [Vec<f64>; 2],
    /// Lines with capacity, and those of them that are not frozen yet, as bits.
    open: [Vec<u64>; 2],
    unfrozen: [Vec<u64>; 2],
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
        for (first, estimate) in (0..).step_by(64).zip(blocks(&self.estimate[side])) {
            let chosen = pack(|line| estimate[line] <= limit);
            self.freezing.push(chosen);
            for line in ones(chosen) {
                self.batch.push(first + line);
            }
        }
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
    fn take(&mut self, rate: f64, flows: f64) {
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
        if allotment.is_untouched() && !meet(&self.links, residual.marked()) {
            allotment.take_from(&self.sides, residual);
            return false;
        }
        let idle = allotment.rate == 0.0;
        if idle && is_shut(&self.links, residual.open()) {
            allotment.stay_idle();
            return false;
        }
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
        for side in [ROWS, COLUMNS] {
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
        for side in [ROWS, COLUMNS] {
            let levels = &self.allotments[SERVICE].level[side];
            let soonest = self.sides[side].settle(elapsed, levels, &mut self.waits);
            self.find_next_on(side, soonest, now);
        }
    }

    /// Finds which lines have capacity and how many flows could use each. Returns the lowest
    /// estimate on either side.
    fn open_lines(&mut self, flows: &[Flow], which: usize, now: f64, scratch: &mut Scratch) -> [f64; 2] {
        for side in [ROWS, COLUMNS] {
            scratch.unfrozen[side].copy_from_slice(&scratch.open[side]);
        }
        self.count_open(flows, which, scratch);
        self.ready_caps(flows, now, scratch);
        [ROWS, COLUMNS].map(|side| scratch.open(side, &self.allotments[which].count[side]))
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
            capped.frozen =
                !(has(&scratch.open[ROWS], lines[ROWS]) && has(&scratch.open[COLUMNS], lines[COLUMNS]));
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
    fn freeze_rounds(&mut self, flows: &[Flow], mut lowest: [f64; 2], now: f64, scratch: &mut Scratch) {
        while lowest[ROWS].min(lowest[COLUMNS]) < f64::INFINITY {
            let cap = self.lowest_cap(scratch);
            if let Some((index, limit)) = cap
                && limit <= lowest[ROWS].min(lowest[COLUMNS])
            {
                self.freeze_capped(flows, index, limit, scratch);
            } else {
                let side = if lowest[ROWS] <= lowest[COLUMNS] { ROWS } else { COLUMNS };
                // With caps waiting, a level may not pass the lowest cap.
                let limit = cap.map_or(lowest[1 - side], |(_, limit)| limit.min(lowest[1 - side]));
                let rest = self.freeze_up_to(flows, side, limit, now, scratch);
                if self.capped.is_empty() {
                    // Nothing changed on this side but for what was frozen.
                    lowest[side] = rest;
                    lowest[1 - side] = scratch.lowest(1 - side);
                    continue;
                }
            }
            lowest = [scratch.lowest(ROWS), scratch.lowest(COLUMNS)];
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
        for side in [ROWS, COLUMNS] {
            scratch.rest[side][lines[side] as usize].take(rate, 1.0);
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
        self.take_rates(side, &batch, scratch);
        if !scratch.is_trial {
            for &line in &batch {
                self.attach_frozen(side, line, now, scratch);
            }
        }
        for at in 0..self.capped.len() {
            let capped = &self.capped[at];
            let line = flows[capped.flow as usize].lines[side];
            if !capped.frozen && has(&scratch.freezing, line) {
                let level = scratch.estimate[side][line as usize];
                self.freeze_capped(flows, at as u32, level, scratch);
            }
        }
        scratch.batch = batch;
        scratch.freeze(side)
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
        let lines = &self.sides[side];
        let pairs = lines.partners(line).iter().zip(lines.attached(line));
        let others = scratch.unfrozen[1 - side].iter().zip(&scratch.open[1 - side]);
        let moves = |((partners, attached), (unfrozen, open)): ((&u64, &u64), (&u64, &u64))| {
            (partners & unfrozen & !attached, partners & !open & attached)
        };
        let any = pairs.zip(others).map(moves).fold(0, |any, (here, away)| any | here | away);
        if any == 0 {
            return;
        }
        for word in 0..self.sides[side].words {
            let lines = &self.sides[side];
            let pairs = (&lines.partners(line)[word], &lines.attached(line)[word]);
            let (here, away) =
                moves((pairs, (&scratch.unfrozen[1 - side][word], &scratch.open[1 - side][word])));
            self.attach_all(side, line, side, word, here, now);
            self.attach_all(side, line, 1 - side, word, away, now);
        }
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

//! Progressive filling of a group: what rate each link's flows get from the capacity that is left.
//!
//! Links are rows (where flows enter) and columns (where they leave). Every row whose level is at most the lowest
//! column level can be frozen at once: freezing a row at a level below a column's can only raise that column's level,
//! and never touches another row. So filling alternates between the sides in a few rounds, where the textbook freezes
//! one link a round. Who is connected to whom, and which pairs are bottlenecked where, are bit sets, so each pair is
//! looked at once, and finding the few that move costs a word operation per 64.
//!
//! A trial finds the same levels and changes nothing but the residual; it is how weighted classes try out their offers.

use super::residual::Residual;
use super::{COLUMNS, Flow, Group, ROWS, SERVICE, has, is_shut, meet, set};

/// From this many lines of equal level on it is cheaper to count whom they meet than to visit each pair.
const MANY: usize = 4;

/// What a line has for the flows on it that have no rate yet.
#[derive(Clone, Copy, Debug)]
struct Room {
    capacity: f64,
    count: u32,
}

impl Room {
    fn take(&mut self, level: f64, flows: u32) {
        self.capacity -= level * f64::from(flows);
        self.count -= flows;
    }
}

/// Buffers for filling, shared by all groups. One entry for each side.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// What lines are given, what they have left, and what a flow there gets.
    given: [Vec<f64>; 2],
    rooms: [Vec<Room>; 2],
    level: [Vec<f64>; 2],
    /// Lines with capacity, and those of them that are not frozen yet.
    open: [Vec<u64>; 2],
    unfrozen: [Vec<u64>; 2],
    /// Open lines with flows that have no rate yet.
    waiting: [Vec<u32>; 2],
    caps: Vec<u32>,
    /// Lines being frozen, and the same as a bit set.
    batch: Vec<u32>,
    members: Vec<u64>,
    /// Whether only levels are asked for: nothing is attached anew.
    is_trial: bool,
}

impl Group {
    /// Lets the group take its max-min fair share of `residual` as the allotment `which`: 0 is what flows are served by,
    /// the others are trials. Returns whether any flow is served at another rate than before.
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
            allotment.take_from(residual);
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
            && allotment.still_holds(&self.sides, &self.links, &self.line_of_link, residual);
        if !holds {
            scratch.is_trial = which != SERVICE;
            self.open_lines(flows, residual, now, scratch);
            if idle && scratch.waiting[ROWS].is_empty() {
                self.allotments[which].stay_idle();
                return false;
            }
            self.freeze_rounds(flows, now, scratch);
            self.note_levels(which, scratch);
        }
        self.allotments[which].hand_on(&self.link, residual);
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
            let rooms = allotment.given[side].iter().zip(&scratch.rooms[side]);
            for (used, (given, room)) in allotment.used[side].iter_mut().zip(rooms) {
                *used = given - room.capacity;
            }
        }
    }

    /// Serves flows at the levels of the allotment.
    fn apply_levels(&mut self, flows: &[Flow], now: f64) {
        self.rate = self.allotments[SERVICE].rate;
        for (row, used) in self.used.iter_mut().enumerate() {
            let allotted = self.allotments[SERVICE].used[ROWS][row];
            if *used != allotted {
                let line = &mut self.sides[ROWS][row];
                line.sent += *used * (now - line.counted);
                line.counted = now;
                *used = allotted;
            }
        }
        for side in [ROWS, COLUMNS] {
            for index in 0..self.level[side].len() {
                let level = self.allotments[SERVICE].level[side][index];
                let level = if level < f64::INFINITY { level } else { 0.0 };
                if self.level[side][index] != level {
                    let line = &mut self.sides[side][index];
                    line.served += self.level[side][index] * (now - line.since);
                    line.since = now;
                    self.level[side][index] = level;
                    self.refresh(flows, side, index, now);
                } else if has(&self.stale[side], index as u32) {
                    self.refresh(flows, side, index, now);
                }
            }
        }
        self.find_next(flows);
    }

    /// Finds which lines have capacity and how many flows could use each.
    fn open_lines(&mut self, flows: &[Flow], residual: &Residual, now: f64, scratch: &mut Scratch) {
        let mut some_closed = false;
        for side in [ROWS, COLUMNS] {
            let lines = self.sides[side].len();
            for values in [&mut scratch.given[side], &mut scratch.level[side]] {
                values.clear();
                values.resize(lines, 0.0);
            }
            scratch.rooms[side].clear();
            scratch.rooms[side].resize(lines, Room { capacity: 0.0, count: 0 });
            scratch.open[side].clear();
            scratch.open[side].resize(self.words[side], 0);
            scratch.waiting[side].clear();
            for (word, (here, open)) in self.links[side].iter().zip(residual.open()).enumerate() {
                some_closed |= here & !open != 0;
                let mut bits = here & open;
                while bits != 0 {
                    let link = word as u32 * 64 + bits.trailing_zeros();
                    bits &= bits - 1;
                    let index = self.line_of_link[link as usize];
                    set(&mut scratch.open[side], index, true);
                    scratch.waiting[side].push(index);
                    let (capacity, count) = (residual.left(link), self.sides[side][index as usize].flows);
                    scratch.rooms[side][index as usize] = Room { capacity, count };
                    scratch.given[side][index as usize] = capacity;
                }
            }
            scratch.unfrozen[side].clone_from(&scratch.open[side]);
        }
        if some_closed {
            self.count_open(flows, scratch);
        }
        for side in [ROWS, COLUMNS] {
            let (rooms, level) = (&scratch.rooms[side], &mut scratch.level[side]);
            scratch.waiting[side].retain(|&index| {
                // Without flows it is infinite, as it should be: nobody has a bottleneck there.
                let room = rooms[index as usize];
                level[index as usize] = room.capacity / f64::from(room.count);
                room.count > 0
            });
        }
        self.ready_caps(flows, now, scratch);
    }

    /// Counts, for open lines, the flows whose other line is open too.
    fn count_open(&self, flows: &[Flow], scratch: &mut Scratch) {
        for side in [ROWS, COLUMNS] {
            let partners = &scratch.open[1 - side];
            for &index in &scratch.waiting[side] {
                scratch.rooms[side][index as usize].count = if self.multiple == 0 {
                    let words = self.sides[side][index as usize].partners.iter().zip(partners);
                    words.map(|(line, open)| (line & open).count_ones()).sum()
                } else {
                    self.count_flows(side, index, partners)
                };
            }
        }
        for capped in &self.capped {
            let lines = flows[capped.flow as usize].lines;
            if has(&scratch.open[ROWS], lines[ROWS]) && has(&scratch.open[COLUMNS], lines[COLUMNS]) {
                scratch.rooms[ROWS][lines[ROWS] as usize].count += 1;
                scratch.rooms[COLUMNS][lines[COLUMNS] as usize].count += 1;
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

    /// The flows between a line and those of the other side in `partners`, caps aside.
    fn count_flows(&self, side: usize, line: u32, partners: &[u64]) -> u32 {
        let mut count = 0;
        for (word, open) in partners.iter().enumerate() {
            let mut bits = self.sides[side][line as usize].partners[word] & open;
            while bits != 0 {
                let partner = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let lines = if side == ROWS { [line, partner] } else { [partner, line] };
                count += self.counts[self.pair_at(lines)];
            }
        }
        count
    }

    /// Freezes lines in rounds, lowest levels first, until no flow is left without a rate.
    fn freeze_rounds(&mut self, flows: &[Flow], now: f64, scratch: &mut Scratch) {
        let mut lowest = [lowest_level(ROWS, false, scratch), lowest_level(COLUMNS, false, scratch)];
        while lowest[ROWS].min(lowest[COLUMNS]) < f64::INFINITY {
            let cap = self.lowest_cap(scratch);
            if let Some((index, limit)) = cap
                && limit <= lowest[ROWS].min(lowest[COLUMNS])
            {
                self.freeze_capped(flows, index, limit, scratch);
                lowest = [lowest_level(ROWS, true, scratch), lowest_level(COLUMNS, true, scratch)];
                continue;
            }
            let side = if lowest[ROWS] <= lowest[COLUMNS] { ROWS } else { COLUMNS };
            // With caps waiting, a level may not pass the lowest cap.
            let limit = cap.map_or(lowest[1 - side], |(_, limit)| limit.min(lowest[1 - side]));
            self.freeze_up_to(flows, side, limit, now, scratch);
            // Freezing one side changes only the levels of the other.
            lowest[side] = lowest_level(side, !self.capped.is_empty(), scratch);
            lowest[1 - side] = lowest_level(1 - side, true, scratch);
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
            scratch.rooms[side][lines[side] as usize].take(rate, 1);
        }
    }

    /// Freezes the lines of `side` with a level of at most `limit`, those of equal level together.
    fn freeze_up_to(&mut self, flows: &[Flow], side: usize, limit: f64, now: f64, scratch: &mut Scratch) {
        let mut batch = std::mem::take(&mut scratch.batch);
        let level = &scratch.level[side];
        batch.clear();
        batch.extend(scratch.waiting[side].iter().filter(|&&line| level[line as usize] <= limit));
        batch.sort_unstable_by(|&a, &b| level[a as usize].total_cmp(&level[b as usize]).then(a.cmp(&b)));
        let mut rest = batch.as_slice();
        while let Some(&first) = rest.first() {
            let level = scratch.level[side][first as usize];
            let run = rest.iter().take_while(|&&line| scratch.level[side][line as usize] == level).count();
            let (lines, behind) = rest.split_at(run);
            rest = behind;
            if run >= MANY && self.multiple == 0 {
                self.take_together(side, lines, level, scratch);
            } else {
                lines.iter().for_each(|&line| self.take_alone(side, line, level, scratch));
            }
            for &line in lines {
                if !scratch.is_trial {
                    self.attach_frozen(flows, side, line, now, scratch);
                }
                for at in 0..self.capped.len() {
                    let capped = &self.capped[at];
                    if !capped.frozen && flows[capped.flow as usize].lines[side] == line {
                        self.freeze_capped(flows, at as u32, level, scratch);
                    }
                }
                scratch.rooms[side][line as usize] = Room { capacity: 0.0, count: 0 };
                set(&mut scratch.unfrozen[side], line, false);
            }
        }
        scratch.batch = batch;
    }

    /// Takes the rates of the pairs of one line out of the other side.
    fn take_alone(&self, side: usize, index: u32, level: f64, scratch: &mut Scratch) {
        let rooms = &mut scratch.rooms[1 - side];
        for (word, open) in scratch.unfrozen[1 - side].iter().enumerate() {
            let mut bits = self.sides[side][index as usize].partners[word] & open;
            while bits != 0 {
                let partner = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                let flows = if self.multiple == 0 {
                    1
                } else {
                    self.counts[self.pair_at(if side == ROWS { [index, partner] } else { [partner, index] })]
                };
                rooms[partner as usize].take(level, flows);
            }
        }
    }

    /// Takes the rates of the pairs of lines with one common level out of the other side: what matters there is only
    /// how many of them each line meets.
    fn take_together(&self, side: usize, lines: &[u32], level: f64, scratch: &mut Scratch) {
        scratch.members.clear();
        scratch.members.resize(self.words[side], 0);
        for &line in lines {
            set(&mut scratch.members, line, true);
        }
        for &partner in &scratch.waiting[1 - side] {
            let met = self.sides[1 - side][partner as usize].partners.iter().zip(&scratch.members);
            let flows: u32 = met.map(|(partners, members)| (partners & members).count_ones()).sum();
            scratch.rooms[1 - side][partner as usize].take(level, flows);
        }
    }

    /// Attaches to a line that is being frozen the pairs that get their rate from it, and the others to their closed lines.
    fn attach_frozen(&mut self, flows: &[Flow], side: usize, index: u32, now: f64, scratch: &Scratch) {
        for word in 0..self.words[1 - side] {
            let line = &self.sides[side][index as usize];
            let here = line.partners[word] & scratch.unfrozen[1 - side][word] & !line.attached[word];
            let away = line.partners[word] & !scratch.open[1 - side][word] & line.attached[word];
            self.attach_all(flows, side, index, side, word, here, now);
            self.attach_all(flows, side, index, 1 - side, word, away, now);
        }
    }
}

/// Drops the lines of `side` that are frozen or have no flow left, and returns the lowest level of the rest, brought up to
/// date first if `changed`.
fn lowest_level(side: usize, changed: bool, scratch: &mut Scratch) -> f64 {
    let mut lowest = f64::INFINITY;
    let (rooms, level) = (&scratch.rooms[side], &mut scratch.level[side]);
    let unfrozen = &scratch.unfrozen[side];
    scratch.waiting[side].retain(|&line| {
        let index = line as usize;
        let room = rooms[index];
        if room.count == 0 {
            if has(unfrozen, line) {
                level[index] = f64::INFINITY;
            }
            return false;
        }
        if changed {
            level[index] = (room.capacity / f64::from(room.count)).max(0.0);
        }
        lowest = lowest.min(level[index]);
        true
    });
    lowest
}

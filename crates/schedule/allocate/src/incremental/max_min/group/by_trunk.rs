//! Filling where flows also cross links between switches.
//!
//! What of a line's flows still waits for a rate is its partners, less those that are frozen, less
//! those beyond a trunk that is. Lines that are frozen at one level and have the same trunks are
//! taken together: their flows are counted by partner, and what a trunk carries of them is a
//! difference of two running sums over the partners.

use super::filling::Scratch;
use super::{COLUMNS, Flow, Group, ROWS, Residual, SIDES, TRUNKS, path};
use crate::bits::{has, members, ones};

impl Group {
    /// Returns whether any flow has something left on all of its links.
    pub(super) fn may_send(&self, residual: &mut Residual) -> bool {
        if !self.capped.is_empty() {
            return true;
        }
        let [rows, columns] = [ROWS, COLUMNS].map(|side| self.sides[side].blocks());
        residual.find_reach();
        let reach = &residual.reach()[ROWS];
        let open = &residual.open()[columns];
        let own = self.sides[ROWS].present.iter().zip(&residual.open()[rows]);
        members(own.map(|(present, open)| present & open)).any(|row| {
            let reach = &reach[row as usize * open.len()..];
            let words = self.sides[ROWS].partners(row).iter().zip(open).zip(reach);
            words.into_iter().any(|((partners, open), reach)| partners & open & reach != 0)
        })
    }

    /// Counts the flows of each line whose lines are all open, if any line opened or closed since
    /// that was last done.
    pub(super) fn count_by_trunk(&mut self, flows: &[Flow], which: usize, scratch: &mut Scratch) {
        let mut has_changed = false;
        for side in SIDES {
            let open = self.allotments[which].open[side].iter_mut().zip(&scratch.open[side]);
            for ((before, open), present) in open.zip(&self.sides[side].present) {
                has_changed |= (*before ^ open) & present != 0;
                *before = *open;
            }
        }
        if !has_changed {
            return;
        }
        let mut counts = std::mem::take(&mut self.allotments[which].count);
        counts.iter_mut().for_each(|counts| counts.fill(0.0));
        let open = self.sides[ROWS].present.iter().zip(&scratch.open[ROWS]);
        let open: Vec<u64> = open.map(|(present, open)| present & open).collect();
        for alike in self.trunks.alike(ROWS, members(open.into_iter())) {
            scratch.counted.clear();
            scratch.counted.resize(64 * self.sides[ROWS].words, 0);
            for &row in &alike {
                counts[ROWS][row as usize] = f64::from(self.add_waiting(ROWS, row, |_| !0, scratch));
            }
            self.spread(ROWS, alike[0], scratch, |_, side, line, flows| counts[side][line] += flows);
        }
        for capped in &self.capped {
            let lines = flows[capped.flow as usize].lines;
            let crossed = self.trunks.between(lines);
            if path(lines, &crossed).all(|(side, line)| has(&scratch.open[side], line)) {
                path(lines, &crossed).for_each(|(side, line)| counts[side][line as usize] += 1.0);
            }
        }
        self.allotments[which].count = counts;
    }

    /// Takes the rates of the waiting flows of lines that are being frozen out of all other lines.
    pub(super) fn take_rates_by_trunk(&self, side: usize, batch: &[u32], scratch: &mut Scratch) {
        for &line in batch {
            let level = scratch.estimate[side][line as usize];
            if side == TRUNKS {
                self.take_trunk(line, level, scratch);
            } else {
                self.take_common(side, &[line], level, |_| !0, scratch);
            }
        }
    }

    /// The same for the flows of one trunk.
    fn take_trunk(&self, trunk: u32, level: f64, scratch: &mut Scratch) {
        let side = self.trunks.narrow_side(trunk);
        let [own, beyond] = [side, 1 - side].map(|side| &self.trunks.reach(side, trunk).lines);
        let lines = own.iter().zip(&scratch.unfrozen[side]).zip(&self.sides[side].present);
        let lines: Vec<u64> = lines.map(|((own, unfrozen), present)| own & unfrozen & present).collect();
        for alike in self.trunks.alike(side, members(lines.into_iter())) {
            self.take_common(side, &alike, level, |word| beyond[word], scratch);
        }
    }

    /// Takes the rates of the waiting flows between lines that have the same trunks and those of
    /// their partners that `among` has in each word out of all of these.
    fn take_common(
        &self,
        side: usize,
        lines: &[u32],
        level: f64,
        among: impl Fn(usize) -> u64,
        scratch: &mut Scratch,
    ) {
        scratch.counted.clear();
        scratch.counted.resize(64 * self.sides[side].words, 0);
        for &line in lines {
            let flows = f64::from(self.add_waiting(side, line, &among, scratch));
            scratch.rest[side][line as usize].take(level * flows, flows);
        }
        self.spread(side, lines[0], scratch, |scratch, side, line, flows| {
            scratch.rest[side][line].take(level * flows, flows);
        });
    }

    /// Adds the waiting flows of a line to those counted for each partner, if it is one of those
    /// that `among` has in each word. Returns how many flows these are.
    fn add_waiting(
        &self,
        side: usize,
        line: u32,
        among: impl Fn(usize) -> u64,
        scratch: &mut Scratch,
    ) -> u32 {
        let mut counted = std::mem::take(&mut scratch.counted);
        let mut sum = 0;
        for (word, counted) in counted.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let waiting = self.waiting(side, line, word, scratch) & among(word);
            ones(waiting).for_each(|bit| counted[bit as usize] += 1);
            sum += waiting.count_ones();
            let several = self.sides[side].several(line)[word] & waiting;
            if several != 0 {
                let surplus = self.sides[side].surplus(line, word);
                for bit in ones(several).map(|bit| bit as usize) {
                    counted[bit] += surplus[bit];
                    sum += surplus[bit];
                }
            }
        }
        scratch.counted = counted;
        sum
    }

    /// Calls `take` with every partner for which flows are counted, and with every trunk of lines
    /// like this one that these flows cross: its side, its number and its flows.
    fn spread(
        &self,
        side: usize,
        line: u32,
        scratch: &mut Scratch,
        mut take: impl FnMut(&mut Scratch, usize, usize, f64),
    ) {
        let (counted, mut up_to) = (std::mem::take(&mut scratch.counted), std::mem::take(&mut scratch.up_to));
        up_to.resize(counted.len() + 1, 0);
        let mut sum = 0;
        for (partner, (&counted, up_to)) in counted.iter().zip(&mut up_to[1..]).enumerate() {
            sum += counted;
            *up_to = sum;
            if counted > 0 {
                take(scratch, 1 - side, partner, f64::from(counted));
            }
        }
        for &trunk in self.trunks.of_port(side, line) {
            let flows = self.trunks.reach(1 - side, trunk).sum(&up_to);
            if flows > 0 {
                take(scratch, TRUNKS, trunk as usize, f64::from(flows));
            }
        }
        (scratch.counted, scratch.up_to) = (counted, up_to);
    }

    /// Attaches to a trunk that is being frozen the pairs that get their rate from it, and the
    /// others to their closed lines.
    pub(super) fn attach_to_trunk(&mut self, trunk: u32, now: f64, scratch: &Scratch) {
        let trunks = std::sync::Arc::clone(&self.trunks);
        let side = trunks.narrow_side(trunk);
        let [own, beyond] = [side, 1 - side].map(|side| &trunks.reach(side, trunk).lines);
        let lines = own.iter().zip(&self.sides[side].present).map(|(own, present)| own & present);
        let lines: Vec<u64> = lines.collect();
        for line in members(lines.into_iter()) {
            let is_waiting = has(&scratch.unfrozen[side], line);
            for (word, beyond) in beyond.iter().enumerate() {
                let attached = self.on_trunks.attached(trunk, line, word, &trunks);
                let waiting = if is_waiting { self.waiting(side, line, word, scratch) & beyond } else { 0 };
                for bit in ones(waiting ^ attached) {
                    let partner = 64 * word as u32 + bit;
                    let lines = if side == ROWS { [line, partner] } else { [partner, line] };
                    let is_here = waiting >> bit & 1 != 0;
                    let to = if is_here { (TRUNKS, trunk) } else { self.closed(lines, scratch) };
                    self.attach_across(lines, to, now);
                }
            }
        }
    }
}

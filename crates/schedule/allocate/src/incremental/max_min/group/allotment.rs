//! What a group makes of the capacity that it is given, and whether that still holds.
//!
//! # The idea
//! Rates are max-min fair exactly if every flow has a bottleneck: a link that is used up and on
//! which no flow is faster. So most changes need no filling. More or less capacity on a link that
//! is no flow's bottleneck changes nothing while it suffices for what is used; a flow that ends
//! changes nothing for the others if none of them has its bottleneck where the flow went. What was
//! used is then corrected, and what is left is handed on.
//!
//! # Invariants
//! Unless the allotment is `outdated`:
//! - A flow without a cap gets the lowest of its lines' levels. A line that is no flow's
//!   bottleneck has level infinity, one without capacity level 0.
//! - `given` holds for every line with flows if the group has a rate. An idle group passes on what
//!   it is given, does not look at it, and so remembers nothing of what it handed on.
//!
//! # Cost
//! For a group none of whose links is marked, a look at the bits and at what it uses; otherwise a
//! look at each marked line, and a few passes over all lines.

use super::super::trunks::Trunks;
use super::residual::{Residual, blocks, blocks_mut};
use super::{COLUMNS, ROWS, SIDES, Side, TRUNKS, path};
use crate::bits::{has, members, ones, pack};
use crate::reference::NEGLIGIBLE;

/// The rates that each line is given and uses, by side.
#[derive(Debug)]
pub(super) struct Allotment {
    /// Bytes per nanosecond that were left of the link for the group.
    pub(super) given: [Vec<f64>; 3],
    /// Bytes per nanosecond of all flows on the line.
    pub(super) used: [Vec<f64>; 3],
    /// Bytes per nanosecond of one flow that has its bottleneck at the line.
    pub(super) level: [Vec<f64>; 3],
    /// Lines that had capacity when rates were last found, as bits.
    pub(super) open: [Vec<u64>; 3],
    /// Across one switch flows whose other line is one of those, with trunks flows of which all
    /// lines are.
    pub(super) count: [Vec<f64>; 3],
    /// Lines of which something was used when that was last handed on, as bits; no others are in
    /// use.
    uses: [Vec<u64>; 3],
    /// The rest of those for the groups to come.
    handed_on: [Vec<f64>; 3],
    /// Lines that had no capacity and now have; a buffer.
    opened: Vec<(usize, u32)>,
    /// Bytes per nanosecond of all flows.
    pub(super) rate: f64,
    /// True if rates have to be found again.
    pub(super) outdated: bool,
    /// True if flows ended in a way that left all other rates as they were.
    touched: bool,
    /// True if the group stands elsewhere in the order, so that unmarked links may differ too.
    pub(super) moved: bool,
}

impl Allotment {
    /// Of a group with so many blocks of lines on its sides.
    pub(super) fn new(blocks: [usize; 3]) -> Self {
        let values = |fresh: f64| blocks.map(|blocks| vec![fresh; 64 * blocks]);
        let bits = || blocks.map(|blocks| vec![0; blocks]);
        Self {
            given: values(0.0),
            used: values(0.0),
            level: values(f64::INFINITY),
            open: bits(),
            count: values(0.0),
            uses: bits(),
            handed_on: values(0.0),
            opened: Vec::new(),
            rate: 0.0,
            outdated: false,
            touched: false,
            moved: false,
        }
    }

    /// Counts a flow that comes (1) or goes (-1) and crosses these trunks, if all of its lines are
    /// open: when any line opens or closes all flows are counted again.
    pub(super) fn count_flow_across(&mut self, lines: [u32; 2], crossed: &[u32], by: f64) {
        if path(lines, crossed).all(|(side, line)| has(&self.open[side], line)) {
            path(lines, crossed).for_each(|(side, line)| self.count[side][line as usize] += by);
        }
    }

    /// Counts a flow that comes (1) or goes (-1) across one switch.
    pub(super) fn count_flow(&mut self, lines: [u32; 2], by: f64) {
        for side in [ROWS, COLUMNS] {
            if has(&self.open[1 - side], lines[1 - side]) {
                self.count[side][lines[side] as usize] += by;
            }
        }
    }

    /// Returns whether nothing happened to the group itself.
    pub(super) fn is_untouched(&self) -> bool {
        !(self.outdated || self.touched || self.moved)
    }

    /// The links that were used when the group was last served.
    pub(super) fn links_used(&self, sides: &[Side; 3]) -> impl Iterator<Item = u32> {
        sides
            .iter()
            .zip(&self.uses)
            .flat_map(|(side, uses)| members(uses.iter().copied()).map(|line| side.link(line)))
    }

    /// Takes note that one flow without a cap went from a pair. `sides` are without it already.
    #[inline]
    pub(super) fn flow_left(&mut self, lines: [u32; 2], trunks: &Trunks, sides: &[Side; 3]) {
        if !self.outdated && self.rate > 0.0 {
            self.correct(lines, &trunks.between(lines), sides);
        }
    }

    /// Corrects what is used. Apart, since most flows that go leave a group whose rates have to be
    /// found again anyway.
    #[inline(never)]
    fn correct(&mut self, lines: [u32; 2], crossed: &[u32], sides: &[Side; 3]) {
        let levels = path(lines, crossed).map(|(side, line)| self.level[side][line as usize]);
        let rate = levels.fold(f64::INFINITY, f64::min);
        if rate == 0.0 {
            return;
        }
        assert!(rate < f64::INFINITY, "every flow has a bottleneck");
        self.touched = true;
        for (side, line) in path(lines, crossed) {
            let index = line as usize;
            if sides[side].flows[index] == 0 {
                self.used[side][index] = 0.0;
                self.level[side][index] = f64::INFINITY;
                continue;
            }
            self.used[side][index] -= rate;
            if self.level[side][index] == f64::INFINITY {
                continue;
            }
            // Whose bottleneck a trunk is would take long to find out.
            if side == TRUNKS || self.is_bottleneck(side, index, sides[side].partners(line)) {
                self.outdated = true;
                return;
            }
            self.level[side][index] = f64::INFINITY;
        }
    }

    /// Returns whether any flow of a line may have its bottleneck there. Where both of its lines
    /// have one level but for rounding, either may be it.
    fn is_bottleneck(&self, side: usize, index: usize, partners: &[u64]) -> bool {
        let level = self.level[side][index] * (1.0 - NEGLIGIBLE);
        members(partners.iter().copied()).any(|partner| self.level[1 - side][partner as usize] >= level)
    }

    /// Takes note of what lines are given now. Returns whether all rates stay as they are; if not,
    /// `given` is to be set again.
    pub(super) fn still_holds(&mut self, sides: &[Side; 3], residual: &Residual) -> bool {
        self.opened.clear();
        for (side, lines) in sides.iter().enumerate() {
            let blocks = lines.blocks().zip(&lines.present).enumerate();
            for (block, (word, &present)) in blocks {
                let marked = if self.moved { !0 } else { residual.marked()[word] };
                let now = &residual.left()[word];
                for bit in ones(marked & present) {
                    let line = 64 * block as u32 + bit;
                    if self.is_another_bottleneck(side, line as usize, now[bit as usize]) {
                        return false;
                    }
                    if self.give(side, line as usize, now[bit as usize]) {
                        self.opened.push((side, line));
                    }
                }
            }
        }
        // A link that had nothing to give is of use only to flows whose other link has something.
        !self.opened.iter().any(|&(side, line)| {
            if side == TRUNKS {
                return true;
            }
            let mut partners = members(sides[side].partners(line).iter().copied());
            partners.any(|partner| self.given[1 - side][partner as usize] > 0.0)
        })
    }

    /// Returns whether a line that is now given so much was a bottleneck and is given something
    /// else than before, or is a bottleneck now.
    fn is_another_bottleneck(&self, side: usize, line: usize, now: f64) -> bool {
        let level = self.level[side][line];
        let was = level > 0.0 && level < f64::INFINITY;
        self.given[side][line] != now && (was || now < self.used[side][line])
    }

    /// Takes note of what a line is given that is no bottleneck. Returns whether it had no capacity
    /// and now has.
    fn give(&mut self, side: usize, line: usize, now: f64) -> bool {
        let before = std::mem::replace(&mut self.given[side][line], now);
        if before != now {
            self.level[side][line] = if now > 0.0 { f64::INFINITY } else { 0.0 };
        }
        before == 0.0 && now > 0.0
    }

    /// The group can still not use anything that it is given.
    pub(super) fn stay_idle(&mut self) {
        (self.outdated, self.touched, self.moved) = (false, false, false);
    }

    /// Takes what was used last time out of `residual`.
    pub(super) fn take_from(&self, sides: &[Side; 3], residual: &mut Residual) {
        if self.rate == 0.0 {
            return;
        }
        for (side, (used, uses)) in sides.iter().zip(self.used.iter().zip(&self.uses)) {
            for (block, (used, _)) in
                blocks(used).iter().zip(uses).enumerate().filter(|(_, (_, uses))| **uses != 0)
            {
                residual.take(side.first_word + block, used);
            }
        }
    }

    /// Takes what is used out of `residual`, and marks the links where what is handed on differs
    /// from last time.
    pub(super) fn hand_on(&mut self, sides: &[Side; 3], residual: &mut Residual) {
        let moved = self.moved;
        (self.outdated, self.touched, self.moved) = (false, false, false);
        self.rate = sum(&self.used[ROWS]);
        if self.rate == 0.0 {
            // A flow that ended may have left on its column what rounding makes of its rate less
            // its rate.
            self.used.iter_mut().for_each(|used| used.fill(0.0));
        }
        for side in SIDES {
            let before = blocks_mut(&mut self.handed_on[side]).iter_mut().zip(&mut self.uses[side]);
            for (block, (used, (before, used_before))) in
                blocks(&self.used[side]).iter().zip(before).enumerate()
            {
                let uses = pack(|line| used[line] > 0.0);
                let parted = std::mem::replace(used_before, uses) ^ uses;
                if uses | parted == 0 {
                    continue;
                }
                let word = sides[side].first_word + block;
                let left = residual.take(word, used);
                let differs = parted | uses & pack(|line| left[line] != before[line]);
                *before = *left;
                residual.mark_block(word, uses | parted, if moved { uses | parted } else { differs });
            }
        }
    }
}

/// The sum of `values`, in eight strands so that it takes a fraction of the time.
fn sum(values: &[f64]) -> f64 {
    let mut strands = [0.0; 8];
    for eight in values.as_chunks::<8>().0 {
        strands.iter_mut().zip(eight).for_each(|(strand, value)| *strand += value);
    }
    strands.iter().sum()
}

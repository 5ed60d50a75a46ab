//! What a group makes of the capacity that it is given, and whether that still holds.
//!
//! # The idea
//! Rates are max-min fair exactly if every flow has a bottleneck: a link that is used up and on which no flow is faster.
//! So most changes need no filling. More or less capacity on a link that is nobody's bottleneck changes nothing while
//! it suffices for what is used; a flow that ends changes nothing for the others if none of them has its bottleneck
//! where the flow went. What was used is then corrected, and what is left is handed on.
//!
//! # Invariants
//! Unless the allotment is `outdated`:
//! - A flow without a cap gets the lower of its two lines' levels. A line that is nobody's bottleneck has level
//!   infinity, one without capacity level 0.
//! - `given` holds for every line with flows if the group has a rate. An idle group passes on what it is given, does not
//!   look at it, and so remembers nothing of what it handed on.
//!
//! # Cost
//! Nothing for a group none of whose links is marked but a look at the bits; about 3 ns per line otherwise.

use super::residual::Residual;
use super::{COLUMNS, NEGLIGIBLE, ROWS, Side};
use crate::bits::{common, members};

/// What each line is given and uses, by side.
#[derive(Debug, Default)]
pub(super) struct Allotment {
    /// Bytes per nanosecond that were left of the link for the group.
    pub(super) given: [Vec<f64>; 2],
    /// Bytes per nanosecond of all flows on the line.
    pub(super) used: [Vec<f64>; 2],
    /// Bytes per nanosecond of one flow that has its bottleneck at the line.
    pub(super) level: [Vec<f64>; 2],
    /// What was left for the groups to come; NaN where the line passed on what it was given.
    handed_on: [Vec<f64>; 2],
    /// The links that are used and how much.
    uses: Vec<(u32, f64)>,
    /// Lines that had no capacity and now have; a buffer.
    opened: Vec<(usize, usize)>,
    /// Bytes per nanosecond of all flows.
    pub(super) rate: f64,
    /// Whether rates have to be found anew.
    pub(super) outdated: bool,
    /// Whether flows ended in a way that left all other rates as they were.
    touched: bool,
    /// Whether the group stands elsewhere in the order, so that unmarked links may differ too.
    pub(super) moved: bool,
}

impl Allotment {
    pub(super) fn add_line(&mut self, side: usize) {
        self.given[side].push(0.0);
        self.used[side].push(0.0);
        self.level[side].push(f64::INFINITY);
        self.handed_on[side].push(f64::NAN);
    }

    /// Whether nothing happened to the group itself.
    pub(super) fn is_untouched(&self) -> bool {
        !(self.outdated || self.touched || self.moved)
    }

    /// The links that are used and how much.
    pub(super) fn uses(&self) -> &[(u32, f64)] {
        &self.uses
    }

    /// Corrects what is used after one flow without a cap went from a pair. `sides` are without it already.
    pub(super) fn flow_left(&mut self, lines: [u32; 2], sides: &[Side; 2]) {
        if self.outdated || self.rate == 0.0 {
            return;
        }
        let level = |side: usize| self.level[side][lines[side] as usize];
        let rate = level(ROWS).min(level(COLUMNS));
        if rate == 0.0 {
            return;
        }
        assert!(rate < f64::INFINITY, "every flow has a bottleneck");
        self.touched = true;
        for side in [ROWS, COLUMNS] {
            let index = lines[side] as usize;
            if sides[side].flows[index] == 0 {
                self.used[side][index] = 0.0;
                self.level[side][index] = f64::INFINITY;
                continue;
            }
            self.used[side][index] -= rate;
            if self.level[side][index] == f64::INFINITY {
                continue;
            }
            if self.is_bottleneck(side, index, sides[side].partners(index as u32)) {
                self.outdated = true;
                return;
            }
            self.level[side][index] = f64::INFINITY;
        }
    }

    /// Whether any flow of a line may have its bottleneck there. Where both of its lines have one level but for rounding,
    /// either may be it.
    fn is_bottleneck(&self, side: usize, index: usize, partners: &[u64]) -> bool {
        let level = self.level[side][index] * (1.0 - NEGLIGIBLE);
        members(partners.iter().copied()).any(|partner| self.level[1 - side][partner as usize] >= level)
    }

    /// Takes note of what is given on marked links. Returns whether all rates stay as they are; if not, `given` is to be
    /// set anew.
    pub(super) fn still_holds(
        &mut self,
        sides: &[Side; 2],
        links: &[Vec<u64>; 2],
        line_of_link: &[u32],
        residual: &Residual,
    ) -> bool {
        self.opened.clear();
        for side in [ROWS, COLUMNS] {
            let marked = if self.moved { &links[side] } else { residual.marked() };
            for link in common(&links[side], marked) {
                let index = line_of_link[link as usize] as usize;
                let (before, given) = (self.given[side][index], residual.left(link));
                if before == given {
                    continue;
                }
                let level = self.level[side][index];
                if given < self.used[side][index] || (level > 0.0 && level < f64::INFINITY) {
                    return false;
                }
                if before == 0.0 {
                    self.opened.push((side, index));
                }
                self.given[side][index] = given;
                self.level[side][index] = if given > 0.0 { f64::INFINITY } else { 0.0 };
            }
        }
        // A link that had nothing to give is of use only to flows whose other link has something.
        !self.opened.iter().any(|&(side, index)| {
            let mut partners = members(sides[side].partners(index as u32).iter().copied());
            partners.any(|partner| self.given[1 - side][partner as usize] > 0.0)
        })
    }

    /// The group can still not use anything that it is given.
    pub(super) fn stay_idle(&mut self) {
        (self.outdated, self.touched, self.moved) = (false, false, false);
    }

    /// Takes what was used last time out of `residual`.
    pub(super) fn take_from(&self, residual: &mut Residual) {
        for &(link, used) in &self.uses {
            residual.take(link, used);
        }
    }

    /// Takes what is used out of `residual`, and marks the links where what is handed on differs from last time.
    pub(super) fn hand_on(&mut self, sides: &[Side; 2], residual: &mut Residual) {
        let moved = self.moved;
        (self.outdated, self.touched, self.moved) = (false, false, false);
        self.rate = self.used[ROWS].iter().sum();
        if self.rate == 0.0 {
            // A flow that ended may have left on its column what rounding makes of its rate less its rate.
            self.used.iter_mut().for_each(|used| used.fill(0.0));
        }
        self.uses.clear();
        for side in [ROWS, COLUMNS] {
            let lines = sides[side].link.iter().zip(&self.used[side]).zip(&mut self.handed_on[side]);
            for ((&link, &used), before) in lines {
                if used > 0.0 {
                    let left = residual.take(link, used);
                    residual.mark(link, moved || left != *before);
                    *before = left;
                    self.uses.push((link, used));
                } else if !before.is_nan() {
                    residual.mark(link, true);
                    *before = f64::NAN;
                }
            }
        }
    }
}

//! The pairs that have their bottleneck at a link between switches.
//!
//! A pair knows which trunk it is attached to. Of a trunk, a set for each line of the side on which
//! it has fewer lines says which pairs are attached to it: the hosts of one rack, and not those of
//! all others.

use super::super::trunks::Trunks;
use super::{ROWS, Side};
use crate::bits::{members, set};

/// The trunk of a pair that is at none.
const NO_TRUNK: u16 = u16::MAX;

/// The pairs at trunks.
#[derive(Debug, Default)]
pub(super) struct OnTrunks {
    /// By the place of a pair in its row: the trunk that it is attached to, and where on the scale
    /// of that it is due.
    trunk: Vec<u16>,
    due: Vec<f64>,
    /// By [`Trunks::narrow_line`]: the partners whose pair is attached to the trunk.
    attached: Vec<u64>,
    /// The words of each set.
    words: usize,
}

impl OnTrunks {
    /// Makes room for so many pairs.
    pub(super) fn reserve(&mut self, pairs: usize, trunks: &Trunks) {
        self.trunk.resize(pairs, NO_TRUNK);
        self.due.resize(pairs, f64::INFINITY);
        self.words = (2 * trunks.ports).div_ceil(64) - trunks.ports / 64;
        self.attached.resize(self.words * trunks.narrow_lines(), 0);
    }

    /// The trunk that a pair is attached to, if it is to one.
    #[inline]
    pub(super) fn trunk(&self, place: u32) -> Option<u32> {
        let trunk = *self.trunk.get(place as usize)?;
        (trunk != NO_TRUNK).then_some(u32::from(trunk))
    }

    /// Attaches a pair to a trunk; when it is due there is still to be set.
    pub(super) fn attach(&mut self, place: u32, trunk: u32, lines: [u32; 2], trunks: &Trunks) {
        self.trunk[place as usize] = trunk as u16;
        self.put(trunk, lines, trunks, true);
    }

    pub(super) fn set_due(&mut self, place: u32, at: f64) {
        self.due[place as usize] = at;
    }

    /// Takes a pair off its trunk. Returns where it was due.
    pub(super) fn detach(&mut self, place: u32, trunk: u32, lines: [u32; 2], trunks: &Trunks) -> f64 {
        self.trunk[place as usize] = NO_TRUNK;
        self.put(trunk, lines, trunks, false);
        std::mem::replace(&mut self.due[place as usize], f64::INFINITY)
    }

    fn put(&mut self, trunk: u32, lines: [u32; 2], trunks: &Trunks, value: bool) {
        let side = trunks.narrow_side(trunk);
        let first = trunks.narrow_line(trunk, lines[side]) * self.words;
        set(&mut self.attached[first..], lines[1 - side], value);
    }

    /// The partners of a line whose pair is attached to a trunk, as bits, where the line is on the
    /// side on which the trunk has fewer.
    #[inline]
    pub(super) fn attached(&self, trunk: u32, line: u32, trunks: &Trunks) -> &[u64] {
        &self.attached[trunks.narrow_line(trunk, line) * self.words..][..self.words]
    }

    /// Returns where the pair at a place is due.
    pub(super) fn due(&self, place: u32) -> f64 {
        self.due[place as usize]
    }

    /// Returns when the first of the pairs attached to a trunk is due.
    pub(super) fn first(&self, trunk: u32, trunks: &Trunks, rows: &Side) -> f64 {
        self.places(trunk, trunks, rows).map(|place| self.due(place)).fold(f64::INFINITY, f64::min)
    }

    /// The places of the pairs that are attached to a trunk.
    pub(super) fn places(&self, trunk: u32, trunks: &Trunks, rows: &Side) -> impl Iterator<Item = u32> {
        let side = trunks.narrow_side(trunk);
        members(trunks.reach(side, trunk).lines.iter().copied()).flat_map(move |line| {
            members(self.attached(trunk, line, trunks).iter().copied()).map(move |partner| {
                if side == ROWS { rows.place(line, partner) } else { rows.place(partner, line) }
            })
        })
    }
}

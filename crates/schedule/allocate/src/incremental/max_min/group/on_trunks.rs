//! The pairs that have their bottleneck at a link between switches.
//!
//! A pair knows which trunk it is attached to. Of a trunk, a set for each line of the side on which
//! it has fewer lines says which pairs are attached to it: the hosts of one rack, and not those of
//! all others.

use super::super::trunks::Trunks;
use super::{COLUMNS, ROWS, Side, TRUNKS};
use crate::bits::{ones, set};

/// The trunk of a pair that is at none.
const NO_TRUNK: u16 = u16::MAX;

/// The pairs at trunks.
#[derive(Debug, Default)]
pub(super) struct OnTrunks {
    /// By the place of a pair in its row: the trunk that it is attached to, and where on the scale
    /// of that it is due.
    trunk: Vec<u16>,
    due: Vec<f64>,
    /// By [`Trunks::narrow_line`]: the partners whose pair is attached to the trunk. Empty until
    /// one is.
    attached: Vec<u64>,
    /// The words of each set: columns take no fewer than rows.
    words: usize,
    /// By trunk: true if it is known when the first of its pairs is due.
    is_sure: Vec<bool>,
}

impl OnTrunks {
    /// Makes room for so many pairs.
    pub(super) fn reserve(&mut self, pairs: usize, trunks: &Trunks) {
        self.trunk.resize(pairs, NO_TRUNK);
        self.due.resize(pairs, f64::INFINITY);
        self.words = trunks.blocks()[COLUMNS].len();
        self.is_sure.resize(64 * trunks.words.len(), false);
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

    /// Notes when a pair is due at its trunk.
    pub(super) fn set_due(&mut self, place: u32, trunk: u32, at: f64) {
        let before = std::mem::replace(&mut self.due[place as usize], at);
        self.is_sure[trunk as usize] &= at <= before;
    }

    /// Takes a pair off its trunk. Returns where it was due.
    pub(super) fn detach(&mut self, place: u32, trunk: u32, lines: [u32; 2], trunks: &Trunks) -> f64 {
        self.trunk[place as usize] = NO_TRUNK;
        self.is_sure[trunk as usize] = false;
        self.put(trunk, lines, trunks, false);
        std::mem::replace(&mut self.due[place as usize], f64::INFINITY)
    }

    fn put(&mut self, trunk: u32, lines: [u32; 2], trunks: &Trunks, value: bool) {
        let side = trunks.narrow_side(trunk);
        self.attached.resize(self.words * trunks.narrow_lines(), 0);
        let first = trunks.narrow_line(trunk, lines[side]) * self.words;
        set(&mut self.attached[first..], lines[1 - side], value);
    }

    /// A word of the partners of a line whose pair is attached to a trunk, where the line is on the
    /// side on which the trunk has fewer.
    #[inline]
    pub(super) fn attached(&self, trunk: u32, line: u32, word: usize, trunks: &Trunks) -> u64 {
        let at = trunks.narrow_line(trunk, line) * self.words + word;
        self.attached.get(at).copied().unwrap_or(0)
    }

    /// Finds when the first of the pairs attached to a trunk is due, if that is not known.
    pub(super) fn find_first(&mut self, trunk: u32, trunks: &Trunks, sides: &mut [Side; 3]) {
        if std::mem::replace(&mut self.is_sure[trunk as usize], true) {
            return;
        }
        let mut first = f64::INFINITY;
        self.visit(trunk, trunks, &sides[ROWS], |_, due| first = if due < first { due } else { first });
        sides[TRUNKS].first[trunk as usize] = first;
    }

    /// Forgets when the first pair of each trunk is due: all scales begin again.
    pub(super) fn restart(&mut self) {
        self.is_sure.fill(false);
    }

    /// Calls `visit` with the place of each pair that is attached to a trunk, and where it is due.
    #[inline]
    pub(super) fn visit(&self, trunk: u32, trunks: &Trunks, rows: &Side, mut visit: impl FnMut(u32, f64)) {
        let side = trunks.narrow_side(trunk);
        for line in trunks.reach(side, trunk).runs().flatten() {
            for word in 0..self.words {
                let attached = self.attached(trunk, line as u32, word, trunks);
                for partner in ones(attached).map(|bit| 64 * word as u32 + bit) {
                    let [row, column] =
                        if side == ROWS { [line as u32, partner] } else { [partner, line as u32] };
                    let place = rows.place(row, column);
                    visit(place, self.due[place as usize]);
                }
            }
        }
    }
}

//! What is left of every link for the next group, and on which links that differs from last time.
//!
//! Groups are filled one after the other, each on what those before it left. Most events change a
//! few links, so beside what is left there is a bit for each link that says whether the groups to
//! come are given something else there than at the last refill. A group none of whose links is
//! marked does what it did before. Marks may be too many, never too few.
//!
//! Values lie in whole words of 64 links; links that make the last one full have no capacity.

use std::sync::Arc;

use super::super::trunks::Trunks;
use crate::bits::{members, pack, set};
use crate::reference::NEGLIGIBLE;

/// One value for each of 64 links or lines.
pub(crate) type Block = [f64; 64];

/// One value for each of 8 lines: as many as fit in registers. All are read before any is written,
/// so the compiler may compute several at a time without knowing that nothing else sees them.
pub(super) type Eight = [f64; 8];

/// Capacity left, by link.
#[derive(Debug)]
pub(crate) struct Residual {
    full: Vec<f64>,
    /// So much or less of a link is rounding.
    negligible: Vec<f64>,
    left: Vec<f64>,
    /// Links with anything left, as bits.
    open: Vec<u64>,
    /// The same when nothing is used.
    all_open: Vec<u64>,
    /// Links where what is left may differ from last time, as bits.
    marked: Vec<u64>,
    trunks: Arc<Trunks>,
    /// The trunks with anything left when it was last found which lines those let reach which, as
    /// bits; and that, as [`Trunks::part`] has it.
    passable: Vec<u64>,
    reach: [Vec<u64>; 2],
}

impl Residual {
    /// Of links of these capacities (bytes per nanosecond), some of which are trunks.
    pub(crate) fn new(mut full: Vec<f64>, trunks: &Arc<Trunks>) -> Self {
        let words = full.len().div_ceil(64);
        full.resize(64 * words, 0.0);
        let all_open: Vec<u64> = blocks(&full).iter().map(|full| pack(|link| full[link] > 0.0)).collect();
        Self {
            negligible: full.iter().map(|full| NEGLIGIBLE * full).collect(),
            left: full.clone(),
            full,
            open: all_open.clone(),
            all_open,
            marked: vec![0; words],
            passable: trunks.lines.clone(),
            reach: trunks.all_reached(),
            trunks: Arc::clone(trunks),
        }
    }

    /// Returns the capacity of each link.
    pub(crate) fn full(&self) -> &[Block] {
        blocks(&self.full)
    }

    /// Returns the rate of each link below which it is rounding.
    pub(crate) fn negligible(&self) -> &[Block] {
        blocks(&self.negligible)
    }

    /// Returns what is left of each link: 0, or more than rounding.
    pub(crate) fn left(&self) -> &[Block] {
        blocks(&self.left)
    }

    /// Starts again from whole links, with nothing marked.
    pub(crate) fn restart(&mut self) {
        self.left.copy_from_slice(&self.full);
        self.open.copy_from_slice(&self.all_open);
        self.marked.fill(0);
    }

    /// Starts again from `offer`, with the links in `marks` marked.
    pub(crate) fn restart_from(&mut self, offer: &[f64], marks: &[u64]) {
        self.marked.copy_from_slice(marks);
        let left = blocks_mut(&mut self.left).iter_mut().zip(blocks(&self.negligible));
        for ((open, offer), (left, negligible)) in self.open.iter_mut().zip(blocks(offer)).zip(left) {
            for ((left, offer), negligible) in left.iter_mut().zip(offer).zip(negligible) {
                *left = rest(*offer, *negligible);
            }
            *open = pack(|link| left[link] > 0.0);
        }
    }

    /// Takes out what is used of the links of a word and returns what is left.
    #[inline]
    pub(crate) fn take(&mut self, word: usize, used: &Block) -> &Block {
        let left = &mut blocks_mut(&mut self.left)[word];
        let negligible = &blocks(&self.negligible)[word];
        for ((left, used), negligible) in left.iter_mut().zip(used).zip(negligible) {
            *left = rest(*left - used, *negligible);
        }
        self.open[word] = pack(|link| left[link] > 0.0);
        left
    }

    /// Which lines reached which others when that was last found.
    pub(crate) fn reach(&self) -> &[Vec<u64>; 2] {
        &self.reach
    }

    /// Finds which lines reach which others over trunks that have anything left, as
    /// [`Trunks::part`] has it.
    pub(crate) fn find_reach(&mut self) -> &[Vec<u64>; 2] {
        let Self { trunks, open, passable, reach, .. } = self;
        let now = open[trunks.words.clone()].iter().zip(&trunks.lines).map(|(open, trunks)| open & trunks);
        if now.clone().zip(&*passable).any(|(now, before)| now & !before != 0) {
            passable.copy_from_slice(&trunks.lines);
            reach.iter_mut().for_each(|reach| reach.fill(!0));
        }
        let shut: Vec<u64> = now.clone().zip(&*passable).map(|(now, before)| before & !now).collect();
        members(shut.into_iter()).for_each(|trunk| trunks.part(trunk, reach));
        passable.iter_mut().zip(now).for_each(|(before, now)| *before = now);
        reach
    }

    /// Links with anything left, as bits.
    pub(crate) fn open(&self) -> &[u64] {
        &self.open
    }

    /// Marked links, as bits.
    pub(crate) fn marked(&self) -> &[u64] {
        &self.marked
    }

    /// Notes that what the next groups are given on a link differs from last time.
    pub(crate) fn mark(&mut self, link: u32) {
        set(&mut self.marked, link, true);
    }

    /// Says of the links `which` of a word whether what the next groups are given there differs
    /// from last time.
    pub(crate) fn mark_block(&mut self, word: usize, which: u64, differs: u64) {
        self.marked[word] = self.marked[word] & !which | which & differs;
    }

    /// Returns whether nothing is marked.
    pub(crate) fn is_as_before(&self) -> bool {
        self.marked.iter().all(|word| *word == 0)
    }
}

/// Returns what is left of a link, where so much or less is rounding.
fn rest(left: f64, negligible: f64) -> f64 {
    if left > negligible { left } else { 0.0 }
}

/// Values 64 at a time.
pub(crate) fn blocks(values: &[f64]) -> &[Block] {
    values.as_chunks().0
}

/// The same, to be changed.
pub(crate) fn blocks_mut(values: &mut [f64]) -> &mut [Block] {
    values.as_chunks_mut().0
}

/// Values 8 at a time.
pub(super) fn eights(values: &[f64]) -> &[Eight] {
    values.as_chunks().0
}

/// The same, to be changed.
pub(super) fn eights_mut(values: &mut [f64]) -> &mut [Eight] {
    values.as_chunks_mut().0
}

//! What is left of every link for the next group, and on which links that differs from last time.
//!
//! Groups are filled one after the other, each on what those before it left. Most events change a few links, so beside
//! what is left there is a bit for each link that says whether the groups to come are given something else there than
//! at the last refill. A group none of whose links is marked does what it did before. Marks may be too many, never too
//! few.

use super::NEGLIGIBLE;
use crate::bits::set;

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
}

impl Residual {
    /// Of links of these capacities (bytes per nanosecond).
    pub(crate) fn new(full: Vec<f64>) -> Self {
        let words = full.len().div_ceil(64);
        let mut all_open = vec![0; words];
        for (link, capacity) in (0..).zip(&full) {
            set(&mut all_open, link, *capacity > 0.0);
        }
        let negligible = full.iter().map(|full| NEGLIGIBLE * full).collect();
        Self {
            left: full.clone(),
            full,
            negligible,
            open: all_open.clone(),
            all_open,
            marked: vec![0; words],
        }
    }

    /// Starts again from whole links, with nothing marked.
    pub(crate) fn restart(&mut self) {
        self.left.copy_from_slice(&self.full);
        self.open.copy_from_slice(&self.all_open);
        self.marked.fill(0);
    }

    /// Starts again from `offer`, with the links in `marks` marked.
    pub(crate) fn restart_from(&mut self, offer: &[f64], marks: &[u64]) {
        for (link, &offer) in offer.iter().enumerate() {
            self.set_left(link as u32, offer);
        }
        self.marked.copy_from_slice(marks);
    }

    /// What is left of a link: 0, or more than rounding.
    pub(crate) fn left(&self, link: u32) -> f64 {
        self.left[link as usize]
    }

    /// Sets what is left of a link; what is only rounding counts as nothing.
    fn set_left(&mut self, link: u32, left: f64) {
        let some = left > self.negligible[link as usize];
        self.left[link as usize] = if some { left } else { 0.0 };
        set(&mut self.open, link, some);
    }

    /// Takes out what is used of a link and returns what is left.
    pub(crate) fn take(&mut self, link: u32, used: f64) -> f64 {
        let left = self.left[link as usize] - used;
        if left > self.negligible[link as usize] {
            // What is used was open; a bit that stays as it is need not be written, and this is done for every use.
            self.left[link as usize] = left;
            return left;
        }
        self.set_left(link, 0.0);
        0.0
    }

    /// Links with anything left, as bits.
    pub(crate) fn open(&self) -> &[u64] {
        &self.open
    }

    /// Marked links, as bits.
    pub(crate) fn marked(&self) -> &[u64] {
        &self.marked
    }

    /// Says whether what the next groups are given on a link differs from last time.
    pub(crate) fn mark(&mut self, link: u32, differs: bool) {
        set(&mut self.marked, link, differs);
    }

    /// Whether nothing is marked.
    pub(crate) fn is_as_before(&self) -> bool {
        self.marked.iter().all(|word| *word == 0)
    }
}

//! What is left of every link for the next group, and on which links that differs from last time.
//!
//! Groups are filled one after the other, each on what those before it left. Most events change a few links, so beside
//! what is left there is a bit for each link that says whether the groups to come are given something else there than
//! at the last refill. A group none of whose links is marked does what it did before. Marks may be too many, never too
//! few.
//!
//! Values lie in whole words of 64 links; links that make the last one full have no capacity.

use super::{NEGLIGIBLE, NONE};
use crate::bits::{ones, pack, set};

/// One value for each of 64 links or lines.
pub(crate) type Block = [f64; 64];

/// Which links a block of values stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Links<'a> {
    /// Those of one word, in order.
    Word(usize),
    /// Any; [`NONE`] where a value stands for nothing.
    Any(&'a [u32; 64]),
}

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
    /// A buffer.
    scattered: Block,
}

impl Residual {
    /// Of links of these capacities (bytes per nanosecond).
    pub(crate) fn new(mut full: Vec<f64>) -> Self {
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
            scattered: [0.0; 64],
        }
    }

    /// What there is of each link when nothing is used.
    pub(crate) fn full(&self) -> &[Block] {
        blocks(&self.full)
    }

    /// How much or less of each link is rounding.
    pub(crate) fn negligible(&self) -> &[Block] {
        blocks(&self.negligible)
    }

    /// What is left of each link: 0, or more than rounding.
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

    /// Copies what is left of 64 links. Returns which have anything left, as bits.
    pub(crate) fn read(&self, links: Links<'_>, left: &mut Block) -> u64 {
        match links {
            Links::Word(word) => {
                *left = self.left()[word];
                self.open[word]
            }
            Links::Any(links) => {
                for (left, &link) in left.iter_mut().zip(links) {
                    *left = if link == NONE { 0.0 } else { self.left[link as usize] };
                }
                pack(|line| left[line] > 0.0)
            }
        }
    }

    /// Takes out what is used of 64 links and returns what is left where any was.
    pub(crate) fn take(&mut self, links: Links<'_>, used: &Block) -> &Block {
        match links {
            Links::Word(word) => {
                let left = &mut blocks_mut(&mut self.left)[word];
                let negligible = &blocks(&self.negligible)[word];
                for ((left, used), negligible) in left.iter_mut().zip(used).zip(negligible) {
                    *left = rest(*left - used, *negligible);
                }
                self.open[word] = pack(|link| left[link] > 0.0);
                left
            }
            Links::Any(links) => {
                for line in ones(pack(|line| used[line] > 0.0)) {
                    let (line, link) = (line as usize, links[line as usize] as usize);
                    self.left[link] = rest(self.left[link] - used[line], self.negligible[link]);
                    if self.left[link] == 0.0 {
                        set(&mut self.open, link as u32, false);
                    }
                    self.scattered[line] = self.left[link];
                }
                &self.scattered
            }
        }
    }

    /// Links with anything left, as bits.
    pub(crate) fn open(&self) -> &[u64] {
        &self.open
    }

    /// Marked links, as bits.
    pub(crate) fn marked(&self) -> &[u64] {
        &self.marked
    }

    /// Returns whether any of 64 links may be marked.
    pub(crate) fn any_marked(&self, links: Links<'_>) -> bool {
        match links {
            Links::Word(word) => self.marked[word] != 0,
            Links::Any(_) => true,
        }
    }

    /// Notes that what the next groups are given on a link differs from last time.
    pub(crate) fn mark(&mut self, link: u32) {
        set(&mut self.marked, link, true);
    }

    /// Says of the links in `which` whether what the next groups are given there differs from last time.
    pub(crate) fn mark_block(&mut self, links: Links<'_>, which: u64, differs: u64) {
        match links {
            Links::Word(word) => self.marked[word] = self.marked[word] & !which | which & differs,
            Links::Any(links) => ones(which).for_each(|line| {
                set(&mut self.marked, links[line as usize], differs >> line & 1 != 0);
            }),
        }
    }

    /// Returns whether nothing is marked.
    pub(crate) fn is_as_before(&self) -> bool {
        self.marked.iter().all(|word| *word == 0)
    }
}

/// What is left of a link, where so much or less is rounding.
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

//! Marks on a scale of service in a heap: the earliest first, ties by number, so that order never
//! depends on the history of the heap.

use std::cmp::Ordering;

/// Something that happens at a point of the scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) at: f64,
    /// The flow or milestone it is for.
    pub(super) what: u32,
}

impl Eq for Mark {}

impl Ord for Mark {
    /// Reversed, since the standard heap keeps the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then_with(|| other.what.cmp(&self.what))
    }
}

impl PartialOrd for Mark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

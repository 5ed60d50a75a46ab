//! Marks on a scale (of time or of service) in a heap: the earliest first, ties by flow, so that order never depends
//! on the history of the heap.

use std::cmp::Ordering;

/// A flow and where on the scale something happens to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: f64,
    pub(crate) flow: u32,
}

impl Eq for Mark {}

impl Ord for Mark {
    /// Reversed, since the standard heap keeps the greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at).then_with(|| other.flow.cmp(&self.flow))
    }
}

impl PartialOrd for Mark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// How close to `now` (nanoseconds) counts as now: a thousandth of a nanosecond, or what rounding leaves of it late
/// in a long run.
pub(crate) fn tolerance(now: f64) -> f64 {
    (now * 1e-15).max(1e-3)
}

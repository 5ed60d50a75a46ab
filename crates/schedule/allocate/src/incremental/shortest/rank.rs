//! The order in which flows are served: key, bytes left, number.
//!
//! Bytes left are compared as whole 1024ths of a byte. Flows that draw level do so but for
//! rounding, which depends on when their bytes were last settled; what decides between them is to
//! be their number and not that. Rounding is far smaller: 10⁻⁴ of a byte for a flow of a terabyte.

use crate::fill::Key;

/// Steps to a byte.
const STEPS: f64 = 1024.0;

/// The distance in bytes at which two flows do not count as level.
pub(crate) const STEP: f64 = 1.0 / STEPS;

/// A place in the order, of a flow at an instant.
///
/// Class (16 bits), order (64), steps of bytes left (64) and flow (32) in three words, the first
/// counting most. No two flows have the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u64, u64, u64);

impl Rank {
    /// Behind that of every flow.
    pub(super) const LAST: Self = Self(u64::MAX, u64::MAX, u64::MAX);

    pub(crate) fn new(key: Key, left: f64, flow: u32) -> Self {
        let steps = (left * STEPS + 0.5) as u64;
        Self(
            u64::from(key.class) << 48 | key.order >> 16,
            key.order << 48 | steps >> 16,
            (steps & 0xffff) << 32 | u64::from(flow),
        )
    }

    pub(crate) fn flow(self) -> u32 {
        self.2 as u32
    }
}

//! The order in which flows are served: key, bytes left, number.
//!
//! Bytes left are compared as whole 1024ths of a byte. Flows that draw level do so but for rounding, which depends on
//! when their bytes were last settled; what decides between them is to be their number and not that. Rounding is far
//! smaller: 10⁻⁴ of a byte for a flow of a terabyte.

use crate::fill::Key;

/// Steps to a byte.
const STEPS: f64 = 1024.0;

/// How many bytes apart two flows certainly do not count as level.
pub(super) const STEP: f64 = 1.0 / STEPS;

/// A place in the order, of a flow at an instant.
///
/// The fields are compared from first to last. No two flows have the same rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    class: u16,
    order: u64,
    /// Steps of bytes left.
    left: u64,
    flow: u32,
}

impl Rank {
    pub(super) fn new(key: Key, left: f64, flow: u32) -> Self {
        Self { class: key.class, order: key.order, left: (left * STEPS + 0.5) as u64, flow }
    }

    pub(super) fn flow(self) -> u32 {
        self.flow
    }
}

//! Flows whose rates all stand since one instant: what each has left, and which ends next.
//!
//! The book of the allocators that give all flows their rates together. A rate that is computed
//! again moves the flow's end, so the heap is made again with them; what changes in between leaves
//! an outdated entry behind, which is dropped when it comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a flow has left, and how fast it goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sending {
    /// Bytes left when rates were computed.
    pub(crate) left: f64,
    pub(crate) rate: f64,
    /// Bytes left at which it is next reported.
    pub(crate) milestone: f64,
}

impl Sending {
    /// A flow that has `bytes` to send and no rate yet.
    pub(crate) fn new(bytes: f64) -> Self {
        Self { left: bytes, rate: 0.0, milestone: 0.0 }
    }

    /// Returns when it ends or reaches its milestone, if rates were computed at `since`; infinity
    /// if it has no rate.
    pub(crate) fn end(&self, since: f64) -> f64 {
        if self.rate > 0.0 {
            since + (self.left - self.milestone).max(0.0) / self.rate
        } else {
            f64::INFINITY
        }
    }

    /// Bytes left so long after rates were computed.
    pub(crate) fn left_after(&self, time: f64) -> f64 {
        (self.left - self.rate * time).max(0.0)
    }
}

/// A time as its bits: no time is negative, so bits order as times do.
type Bits = u64;

/// The times at which flows end or reach their milestones. An entry that is not its flow's time is
/// outdated; the first never is.
#[derive(Debug, Default)]
pub(crate) struct Ends(BinaryHeap<Reverse<(Bits, u32)>>);

impl Ends {
    /// Begins again with these flows; one that ends at infinity does not.
    pub(crate) fn renew(&mut self, ends: impl Iterator<Item = (f64, u32)>) {
        let mut entries = std::mem::take(&mut self.0).into_vec();
        entries.clear();
        let finite = ends.filter(|&(end, _)| end < f64::INFINITY);
        entries.extend(finite.map(|(end, flow)| Reverse((end.to_bits(), flow))));
        self.0 = BinaryHeap::from(entries);
    }

    /// Notes that the time of a flow has changed. `end` has the times of all.
    pub(crate) fn update(&mut self, flow: u32, end: impl Fn(u32) -> f64) {
        let own = end(flow);
        if own < f64::INFINITY {
            self.0.push(Reverse((own.to_bits(), flow)));
        }
        while let Some(&Reverse((bits, first))) = self.0.peek()
            && end(first).to_bits() != bits
        {
            self.0.pop();
        }
    }

    /// Returns the time of the first flow; infinity if there is none.
    pub(crate) fn next(&self) -> f64 {
        self.0.peek().map_or(f64::INFINITY, |&Reverse((bits, _))| f64::from_bits(bits))
    }

    /// Returns the first flow, if its time is not after `reach`.
    pub(crate) fn first_until(&self, reach: f64) -> Option<u32> {
        self.0
            .peek()
            .filter(|&&Reverse((bits, _))| f64::from_bits(bits) <= reach)
            .map(|&Reverse((_, flow))| flow)
    }
}

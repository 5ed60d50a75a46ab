//! Flows that have arrived in this very instant and are not in the allocator yet.
//!
//! They come in runs of successive numbers, mostly a whole coflow at once, and are kept as such: a
//! wide coflow has tens of thousands of flows, and nothing here is done for each of them.

use std::ops::Range;

use cavalcade_model::CoflowId;

/// Runs of flows, each of one coflow.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Ascending by coflow, those of one coflow by number.
    runs: Vec<(CoflowId, Range<u32>)>,
}

impl Pending {
    /// Adds a run, which comes after those that were added since all were taken out.
    pub(crate) fn push(&mut self, coflow: CoflowId, run: Range<u32>) {
        let key = |(coflow, run): &(CoflowId, Range<u32>)| (*coflow, run.start);
        debug_assert!(self.runs.last().is_none_or(|last| key(last) < (coflow, run.start)), "runs ascend");
        self.runs.push((coflow, run));
    }

    /// The runs of a coflow, ascending.
    pub(crate) fn of(&self, coflow: CoflowId) -> &[(CoflowId, Range<u32>)] {
        let from = self.runs.partition_point(|(other, _)| *other < coflow);
        let count = self.runs[from..].partition_point(|(other, _)| *other == coflow);
        &self.runs[from..from + count]
    }

    /// Returns whether a flow of `coflow` is among them.
    pub(crate) fn contains(&self, coflow: CoflowId, flow: u32) -> bool {
        self.of(coflow).iter().any(|(_, run)| run.contains(&flow))
    }

    /// Returns whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Takes out all runs, ascending.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.drain(..).map(|(_, run)| run)
    }
}

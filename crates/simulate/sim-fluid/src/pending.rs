//! Flows that have arrived in this very instant and are not in the allocator yet.
//!
//! They come in runs of successive numbers, mostly a whole coflow at once, and are kept as such: a
//! wide coflow has tens of thousands of flows, and nothing here is done for each of them.

use std::ops::Range;

/// Runs of flows, each of one coflow.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Ascending once they are sorted.
    runs: Vec<Range<u32>>,
}

impl Pending {
    pub(crate) fn push(&mut self, run: Range<u32>) {
        self.runs.push(run);
    }

    /// Puts the runs in order of flow, and so of coflow where ids ascend with coflows.
    pub(crate) fn sort(&mut self) {
        self.runs.sort_unstable_by_key(|run| run.start);
    }

    /// The runs among the flows `ids` of a coflow, ascending.
    pub(crate) fn among(&self, ids: Range<u32>) -> &[Range<u32>] {
        let from = self.runs.partition_point(|run| run.start < ids.start);
        let count = self.runs[from..].partition_point(|run| run.start < ids.end);
        &self.runs[from..from + count]
    }

    pub(crate) fn contains(&self, flow: u32) -> bool {
        let behind = self.runs.partition_point(|run| run.start <= flow);
        self.runs[..behind].last().is_some_and(|run| run.contains(&flow))
    }

    /// Takes out all runs, ascending.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.drain(..)
    }
}

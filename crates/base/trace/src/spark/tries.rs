//! The attempts of stages of a query, in an order in which each comes after what it waits for.
//!
//! A stage that is tried again because outputs of an earlier one were lost runs several times:
//! first the reader, which fails, then what is missing of the stage that it reads, then the reader
//! again. Each of these is a stage here.

use std::collections::BTreeMap;

use super::dag::proportion;
use super::log::{Application, Run};
use cavalcade_model::Nanos;

/// An attempt of a stage that is known as a whole.
pub(super) struct Try<'l> {
    pub(super) stage: u32,
    pub(super) attempt: u32,
    /// Its tasks in order of their launch.
    pub(super) runs: Vec<&'l Run>,
    pub(super) span: Span,
}

/// What is not whole of a query's stages.
#[derive(Default)]
pub(super) struct Unfinished {
    /// Attempts of stages.
    pub(super) stages: usize,
    /// Bytes that they had read from elsewhere.
    pub(super) bytes: u64,
}

/// The attempts of `stages`, which are in order of id.
pub(super) fn tries<'l>(application: &'l Application, stages: &[u32]) -> (Vec<Try<'l>>, Unfinished) {
    let mut unfinished = Unfinished::default();
    let mut tries: Vec<(u64, Try<'l>)> = Vec::new();
    // Clocks are set while applications run. A stage never comes before those that it reads,
    // whatever the times say.
    let mut began: BTreeMap<u32, u64> = BTreeMap::new();
    for &id in stages {
        let stage = &application.stages[&id];
        let mut attempts: BTreeMap<u32, Vec<&Run>> = BTreeMap::new();
        for run in &stage.runs {
            attempts.entry(run.attempt).or_default().push(run);
        }
        let parents = stage.parents.iter().filter_map(|parent| began.get(parent));
        let mut earliest = parents.copied().max().unwrap_or(0);
        for (attempt, mut runs) in attempts {
            if !application.is_whole(id, attempt) {
                unfinished.stages += 1;
                unfinished.bytes =
                    runs.iter().fold(unfinished.bytes, |sum, run| sum.saturating_add(run.remote));
                continue;
            }
            runs.sort_by_key(|run| run.launched);
            let span = Span::of(&runs);
            earliest = earliest.max(span.launched);
            began.entry(id).or_insert(earliest);
            tries.push((earliest, Try { stage: id, attempt, runs, span }));
        }
    }
    tries.sort_by_key(|(began, one)| (*began, one.stage, one.attempt));
    (tries.into_iter().map(|(_, one)| one).collect(), unfinished)
}

/// Time at which an attempt of a stage ran, and how much of its tasks' time was waiting.
/// Milliseconds.
pub(super) struct Span {
    pub(super) launched: u64,
    pub(super) finished: u64,
    busy: u128,
    waited: u128,
}

impl Span {
    /// Of at least one run.
    fn of(runs: &[&Run]) -> Self {
        let length = |run: &Run| run.finished - run.launched;
        Self {
            launched: runs.iter().map(|run| run.launched).min().unwrap_or(0),
            finished: runs.iter().map(|run| run.finished).max().unwrap_or(0),
            busy: runs.iter().map(|run| u128::from(length(run))).sum(),
            waited: runs.iter().map(|run| u128::from(run.wait_ms.min(length(run)))).sum(),
        }
    }

    /// Returns the duration of the stage had no task waited for blocks.
    pub(super) fn computation(&self) -> Nanos {
        let whole = (self.finished - self.launched) * 1_000_000;
        if self.busy == 0 {
            Nanos(whole)
        } else {
            Nanos(proportion(whole, self.busy - self.waited, self.busy))
        }
    }
}

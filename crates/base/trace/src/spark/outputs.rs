//! Which copy of a map output a reader got: outputs that are lost are written again, and from then
//! on come from where that ran.
//!
//! A stage is tried again after a fetch failure, for the partitions that are missing. A task of a
//! later attempt then replaces the one of the same partition. Since Spark 3.3 tasks say their
//! partition. Before, all they say is their place among the tasks of their attempt, which is the
//! partition only in the first one; but the log says which executors were lost, and so what was
//! missing. Inside an attempt Spark says what it runs again (`Resubmitted`). Two tasks of one
//! attempt are never taken for one otherwise.

use super::log::{Application, Run};

/// Output of one map task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Output {
    pub(super) executor: u32,
    pub(super) bytes: u64,
    /// From when on it is read; 0 for what replaced nothing.
    from: u64,
    /// From when on another one is read.
    until: Option<u64>,
}

/// Outputs of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs {
    all: Vec<Output>,
    /// When one took the place of another, in order.
    changes: Vec<u64>,
    /// The bytes of those that stand in the end: each reader asks for them.
    bytes: u64,
}

impl Outputs {
    /// Those of `stage`.
    pub(super) fn of(application: &Application, stage: u32) -> Self {
        let runs = application.stages.get(&stage).map_or(&[][..], |stage| &stage.runs);
        let mut written: Vec<&Run> = runs.iter().filter(|run| run.succeeded).collect();
        written.sort_by_key(|run| (run.attempt, run.finished));
        let first = written.first().map_or(0, |run| run.attempt);
        let output = |run: &&Run| Output {
            executor: run.executor,
            bytes: run.written,
            from: if run.attempt == first { 0 } else { run.finished },
            until: None,
        };
        let mut all: Vec<Output> = written.iter().map(output).collect();
        // Most stages run once, and are not searched.
        if written.iter().any(|run| run.attempt != first || run.resubmitted) {
            for old in 0..written.len() {
                if let Some(new) = successor(application, &written, old) {
                    let at = written[new].finished;
                    all[old].until = Some(at);
                    all[new].from = at;
                }
            }
        }
        let mut changes: Vec<u64> = all.iter().filter_map(|output| output.until).collect();
        changes.sort_unstable();
        let last = all.iter().filter(|output| output.until.is_none());
        let bytes = last.fold(0, |sum, output| u64::saturating_add(sum, output.bytes));
        Self { all, changes, bytes }
    }

    /// Those that a task reads that is launched at a time.
    pub(super) fn at(&self, launched: u64) -> impl Iterator<Item = &Output> {
        let stands = move |output: &&Output| {
            output.from <= launched && output.until.is_none_or(|until| launched < until)
        };
        self.all.iter().filter(stands)
    }

    /// Of how many replacements a task knows that is launched at a time.
    pub(super) fn changes_before(&self, launched: u64) -> usize {
        self.changes.partition_point(|&change| change <= launched)
    }

    /// The bytes of those that stand in the end.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many were replaced, and their bytes.
    pub(super) fn replaced(&self) -> (usize, u64) {
        let replaced = || self.all.iter().filter(|output| output.until.is_some());
        (replaced().count(), replaced().fold(0, |sum, output| u64::saturating_add(sum, output.bytes)))
    }
}

/// The task that wrote again what the one at `old` had written: the first of a later attempt, or of
/// the same one if Spark said so. `written` is in order of attempt and end.
fn successor(application: &Application, written: &[&Run], old: usize) -> Option<usize> {
    let run = written[old];
    let first = |is_it: &dyn Fn(&Run) -> bool| (old + 1..written.len()).find(|&next| is_it(written[next]));
    let is_later = |next: &Run| next.attempt > run.attempt;
    if run.resubmitted
        && let Some(next) = first(&|next| next.attempt == run.attempt && next.index == run.index)
    {
        return Some(next);
    }
    let next = first(&is_later)?;
    if run.partition.is_some() || written[next].partition.is_some() {
        return first(&|next| is_later(next) && next.partition == run.partition);
    }
    // Without partitions: which executors were lost says what was missing, as far as it is known.
    let attempt = written[next].attempt;
    let of_attempt = written.iter().filter(|next| next.attempt == attempt);
    let began = of_attempt.map(|next| next.launched).min().unwrap_or(0);
    let is_lost = |run: &Run| {
        let name = &application.executors[run.executor as usize].0;
        let losses = application.losses.get(name).map_or(&[][..], Vec::as_slice);
        losses.iter().any(|loss| (run.finished..=began).contains(loss))
    };
    if written.iter().take_while(|before| before.attempt < attempt).any(|before| is_lost(before)) {
        return is_lost(run).then_some(next);
    }
    first(&|next| is_later(next) && next.index == run.index)
}

//! What scheduling would have saved in a Spark application, shuffle by shuffle and query by query.
//!
//! The table of `compare` speaks of means over all coflows. Somebody who ran an application wants to know which of its
//! stages would have had their input sooner, and whether a query as a whole would have been done sooner: a shuffle that
//! hides behind computation saves nothing however fast it is.

use std::fmt::Write as _;

use cavalcade_metrics::Comparison;
use cavalcade_model::{Nanos, TaskId, Workload};
use cavalcade_trace::spark::Shuffle;

/// The most rows of each kind: those that save most.
const ROWS: usize = 20;

/// What one shuffle or query took under the baseline, and at best.
struct Row {
    what: String,
    baseline: Nanos,
    best: Nanos,
    /// The first of the runs that had it.
    by: String,
}

/// The table; empty for a workload that is no Spark log.
pub(crate) fn table(workload: &Workload, shuffles: &[Shuffle], comparison: &Comparison) -> String {
    if shuffles.is_empty() || comparison.runs.len() < 2 {
        return String::new();
    }
    let row = |what: String, times: &dyn Fn(usize) -> Nanos| {
        // The first of equals, and the baseline where nobody is better.
        let baseline = comparison.baseline;
        let best = (0..comparison.runs.len()).min_by_key(|&run| (times(run), run != baseline));
        let best = best.expect("a comparison has runs");
        let by = if best == baseline { "-".to_owned() } else { comparison.runs[best].label.clone() };
        Row { what, baseline: times(baseline), best: times(best), by }
    };
    let of_shuffle = |shuffle: &Shuffle| {
        let name = workload.coflow_name(shuffle.coflow);
        let what = format!("{name}  stage {} to {}", shuffle.map_stage, shuffle.reduce_stage);
        row(what, &|run| comparison.runs[run].cct[shuffle.coflow.index()])
    };
    let of_task = |task: usize| {
        let what = workload.task(TaskId::from_index(task)).name.clone();
        row(what, &|run| comparison.runs[run].tct[task])
    };
    let baseline = &comparison.runs[comparison.baseline].label;
    let mut text = String::new();
    write_rows(&mut text, "shuffle", baseline, shuffles.iter().map(of_shuffle).collect());
    write_rows(&mut text, "query or job", baseline, (0..workload.tasks().len()).map(of_task).collect());
    text
}

fn write_rows(text: &mut String, heading: &str, baseline: &str, mut rows: Vec<Row>) {
    let saved = |row: &Row| row.baseline.saturating_sub(row.best);
    let count = rows.len();
    if count > ROWS {
        rows.sort_by_key(|row| core::cmp::Reverse(saved(row)));
        rows.truncate(ROWS);
    }
    let wide = |cells: &mut dyn Iterator<Item = usize>, least: usize| cells.max().unwrap_or(0).max(least);
    let first = wide(&mut rows.iter().map(|row| row.what.len()), heading.len());
    let middle = baseline.len().max(10);
    let mut line = |cells: std::fmt::Arguments<'_>| {
        text.write_fmt(cells).expect("a string takes all text");
        text.push('\n');
    };
    line(format_args!("\n{heading:first$}  {baseline:>middle$}        best       saved          by"));
    for row in &rows {
        let seconds = [row.baseline, row.best, saved(row)].map(Nanos::as_secs_f64);
        let [before, best, saved] = seconds.map(|time| format!("{time:.3} s"));
        let Row { what, by, .. } = row;
        line(format_args!("{what:first$}  {before:>middle$}  {best:>10}  {saved:>10}  {by:>10}"));
    }
    if count > ROWS {
        line(format_args!("… and {} more that save less", count - ROWS));
    }
}

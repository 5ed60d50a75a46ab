//! The table of tasks: how long each took, where tasks are more than one coflow.
//!
//! It shows the policies that the charts begin with, and of many tasks the longest under the
//! baseline: all of them are in the files of `--out`.

use cavalcade_metrics::{Comparison, Ranked, RunFigures};
use cavalcade_model::Instant;

use crate::figures;
use crate::grid::{Grid, NOTHING};

/// The most rows.
const ROWS: usize = 50;

/// The caption and the table; `None` where every task is a single coflow.
pub(super) fn table(comparison: &Comparison) -> Option<(String, Grid)> {
    if comparison.ranked() == Ranked::Coflows {
        return None;
    }
    let baseline = comparison.baseline_run();
    let mut rows: Vec<usize> = (0..comparison.tasks.len()).collect();
    rows.sort_by_key(|&task| core::cmp::Reverse(baseline.tct[task]));
    rows.truncate(ROWS);
    let shown = match comparison.tasks.len() {
        all if all > rows.len() => {
            format!(" The {} longest of {} are shown.", rows.len(), figures::count(all))
        }
        _ => String::new(),
    };
    let caption = format!(
        "From a task’s arrival, counted from the first, to the end of its last stage, and in parentheses its slowdown: that time over the \
         longest chain \
         of its stages, each alone on the fabric. Longest under {} first.{shown}",
        baseline.label
    );
    let facts = |of: &dyn Fn(usize) -> String| rows.iter().map(|&task| of(task)).collect::<Vec<String>>();
    let alone: Vec<f64> = rows.iter().map(|&task| comparison.tasks[task].alone.as_secs_f64()).collect();
    let first = comparison.tasks.iter().map(|task| task.arrival).min().unwrap_or(Instant::ZERO);
    let arrives = |task: usize| comparison.tasks[task].arrival.since(first).as_secs_f64();
    let mut grid = Grid::default()
        .text("task", facts(&|task| comparison.tasks[task].name.clone()))
        .figures("arrives", facts(&|task| figures::time(arrives(task))))
        .figures("alone", figures::times(&alone));
    if comparison.trace.deadlines > 0 {
        let deadline = |task: usize| {
            let deadline = comparison.tasks[task].deadline;
            deadline.map_or(NOTHING.to_owned(), |deadline| figures::time(deadline.as_secs_f64()))
        };
        grid = grid.figures("deadline", facts(&deadline));
    }
    for run in comparison.featured() {
        let run = &comparison.runs[run];
        grid = grid.figures(run.label.clone(), facts(&|task| took(comparison, run, task)));
    }
    Some((caption, grid))
}

/// How long a task took, its slowdown, and whether it missed its deadline.
fn took(comparison: &Comparison, run: &RunFigures, task: usize) -> String {
    let missed = match comparison.tasks[task].deadline_met(run.tct[task]) {
        Some(false) => ", missed",
        Some(true) | None => "",
    };
    let time = figures::time(run.tct[task].as_secs_f64());
    format!("{time} ({}{missed})", figures::factor(run.task_slowdown[task]))
}

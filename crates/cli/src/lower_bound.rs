//! A bound beside the runs of a comparison, for as much work as nobody notices.
//!
//! What a comparison prints is the same on every machine, so unless a time was asked for the search is given a number of
//! linear programs. How many depends on the workload alone: on the Facebook trace they take less than a second.

use std::time::Instant;

use cavalcade_bound::{Conditions, Objective, Progress, deadlines_met, lower_bounds};
use cavalcade_metrics::LowerBound;
use cavalcade_model::Workload;

use crate::budget::Budget;
use crate::parallel;
use crate::scene::{Meter, Scene};

/// Programs for a workload of few flows; their price grows with the flows.
const PROGRAMS: u64 = 200;

/// What a search may cost where nobody said; `None` for workloads so large that it would be noticed.
pub(crate) fn budget_beside_runs(_workload: &Workload) -> Option<Budget> {
    Some(Budget::Programs(PROGRAMS))
}

/// Bounds every schedule of `scene`: the mean CCT, and how many tasks miss their deadline.
pub(crate) fn lower_bound(scene: &Scene, budget: Budget, progress: &parallel::Progress) -> LowerBound {
    let Scene { workload, fabric, .. } = scene;
    let start = Instant::now();
    let mut meter = Meter::new(progress);
    let coflows = workload.coflow_count();
    // The workload is as the conditions have it: offline already where that was asked for.
    let conditions = Conditions::default();
    let mut go_on = |found: &Progress| {
        let spent = budget.spent(start.elapsed(), found);
        meter.reach((spent * coflows as f64) as usize);
        spent < 1.0
    };
    let bounds = lower_bounds(workload, fabric, conditions, &mut go_on);
    let mut repeatable = bounds.exhausted;
    let misses = if workload.tasks().iter().any(|task| task.deadline.is_some()) {
        let conditions = Conditions { objective: Objective::Tasks, ..conditions };
        let start = Instant::now();
        let met = deadlines_met(workload, fabric, conditions, &mut |found| {
            budget.spent(start.elapsed(), found) < 1.0
        });
        repeatable &= met.exhausted;
        usize::try_from(met.of - met.at_most).unwrap_or(usize::MAX)
    } else {
        0
    };
    let best = bounds.best();
    LowerBound {
        mean_cct: best.mean(),
        misses,
        method: best.method.name().to_owned(),
        budget: budget.to_string(),
        repeatable: repeatable || budget.is_repeatable(),
    }
}

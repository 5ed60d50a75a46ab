//! A bound beside the runs of a comparison, for little work.
//!
//! What a comparison prints is the same on every machine, so unless a time was asked for the search
//! is given a number of linear programs. How many depends on the number of coflows alone: where all
//! of them compete, a program's cost grows with their square. It comes to a second at most, half of
//! one on the Facebook trace.

use std::time::Instant;

use cavalcade_bound::{Conditions, Objective, Progress, deadlines_met, lower_bounds};
use cavalcade_metrics::{LowerBound, Ranked};
use cavalcade_model::Workload;

use crate::budget::Budget;
use crate::parallel;
use crate::scenario::Scenario;

/// The most programs that are worth their time beside a comparison.
const MOST: u64 = 2_000;
/// Pairs of coflows that programs may look at in about a second.
const PAIRS: u64 = 280_000_000;

/// The budget of a search beside runs, unless another is given.
pub fn budget_beside_runs(workload: &Workload) -> Budget {
    let coflows = workload.coflow_count() as u64;
    Budget::Programs((PAIRS / coflows.saturating_mul(coflows).max(1)).min(MOST))
}

/// Bounds every schedule of a scenario: the mean that runs are ranked by, and how many tasks miss
/// their deadline.
pub fn bound_of(scenario: &Scenario, budget: Budget, progress: &parallel::Progress) -> LowerBound {
    let (workload, fabric) = (scenario.workload(), scenario.fabric());
    let start = Instant::now();
    let mut reached = 0;
    let coflows = workload.coflow_count();
    // The workload is as the conditions have it: offline already where that was asked for.
    let objective = match Ranked::of(workload) {
        Ranked::Coflows => Objective::Coflows,
        Ranked::Tasks => Objective::Tasks,
    };
    let conditions = Conditions { objective, ..Conditions::default() };
    let mut go_on = |found: &Progress| {
        let spent = budget.spent(start.elapsed(), found);
        let done = (spent * coflows as f64) as usize;
        progress.add(done.saturating_sub(reached));
        reached = reached.max(done);
        spent < 1.0 && !progress.is_cancelled()
    };
    let fits = "a scenario's fabric has the ports of its workload";
    let bounds = lower_bounds(workload, fabric, conditions, &mut go_on).expect(fits);
    let mut repeatable = bounds.exhausted;
    let misses = if workload.tasks().iter().any(|task| task.deadline.is_some()) {
        let conditions = Conditions { objective: Objective::Tasks, ..conditions };
        let start = Instant::now();
        let met = deadlines_met(workload, fabric, conditions, &mut |found| {
            budget.spent(start.elapsed(), found) < 1.0 && !progress.is_cancelled()
        })
        .expect(fits);
        repeatable &= met.exhausted;
        usize::try_from(met.of - met.at_most).unwrap_or(usize::MAX)
    } else {
        0
    };
    let best = bounds.best();
    LowerBound {
        mean: best.mean(),
        misses,
        method: best.method.name().to_owned(),
        budget: budget.to_string(),
        repeatable: repeatable || budget.is_repeatable(),
    }
}

//! What the end of a stage costs, and whom it lets go.

use cavalcade_model::{Compute, Task, WorkloadBuilder};

use super::*;

const MANY: u32 = 40_000;

/// A computation of a nanosecond.
fn computes(starts_after: &[u32], finishes_after: &[u32]) -> Stage {
    let stages = |numbers: &[u32]| numbers.iter().copied().map(StageIndex).collect();
    let work = Work::Compute(Compute { duration: Nanos(1), host: None });
    Stage { starts_after: stages(starts_after), finishes_after: stages(finishes_after), work }
}

/// Runs a task of these computations. Returns when it was done and how many successors were looked
/// at on the way.
fn run(stages: Vec<Stage>) -> (u64, u64) {
    let mut builder = WorkloadBuilder::new(2);
    builder.push(Task { stages, ..Task::of_coflow("task", Instant::ZERO) }, Vec::new());
    let workload = builder.build().expect("this is a workload");
    let mut releases = Releases::new(&workload);
    while let Some(next) = releases.next(&workload) {
        releases.take(&workload, next, &mut Vec::new());
    }
    assert_eq!(releases.done, [TaskId(0)], "all stages have been done");
    assert!(releases.successors.is_empty(), "nothing is kept of a task that is done");
    (releases.task_finish[0].0, releases.looks)
}

#[test]
fn a_chain_costs_one_look_for_each_dependency() {
    let mut stages = vec![computes(&[], &[])];
    stages.extend((1..MANY).map(|stage| computes(&[stage - 1], &[])));
    assert_eq!(run(stages), (u64::from(MANY), u64::from(MANY) - 1));
}

#[test]
fn a_fan_costs_one_look_for_each_dependency() {
    let fan = |first: u32| (first..=MANY).map(|_| computes(&[0], &[]));
    let mut stages = vec![computes(&[], &[])];
    stages.extend(fan(1));
    assert_eq!(run(stages), (2, u64::from(MANY)));
    // The other way round: many that one waits for.
    let mut stages: Vec<Stage> = (0..MANY).map(|_| computes(&[], &[])).collect();
    stages.push(computes(&(0..MANY).collect::<Vec<u32>>(), &[]));
    assert_eq!(run(stages), (2, u64::from(MANY)));
}

#[test]
fn a_chain_of_stages_that_end_together_ends_at_once() {
    // All are computed at once, but for the first, which holds up the end of the second, and that
    // the end of the third.
    let mut stages = vec![computes(&[], &[]), computes(&[0], &[])];
    stages.extend((2..MANY).map(|stage| computes(&[], &[stage - 1])));
    assert_eq!(run(stages), (2, u64::from(MANY) - 1));
}

#[test]
fn those_that_wait_for_a_stage_stand_in_their_own_order() {
    let stages = [computes(&[], &[]), computes(&[], &[0]), computes(&[0, 1], &[1]), computes(&[0], &[0, 2])];
    let successors = Successors::of(&stages);
    let of = |stage| {
        let range = successors.range(StageIndex(stage));
        successors.all[range.start as usize..range.end as usize].to_vec()
    };
    let [starts, finishes] = [Successor::Starts, Successor::Finishes];
    let at = StageIndex;
    assert_eq!(of(0), [finishes(at(1)), starts(at(2)), finishes(at(3)), starts(at(3))]);
    assert_eq!(of(1), [finishes(at(2)), starts(at(2))]);
    assert_eq!(of(2), [finishes(at(3))]);
    assert_eq!(of(3), []);
}

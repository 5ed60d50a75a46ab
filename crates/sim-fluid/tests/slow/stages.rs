//! When stages are done and flows arrive, as a plain function of the flows that have finished so far.

use cavalcade_model::{Instant, StageIndex, Work, Workload};

use super::FlowState;

/// The latest of some stages; `None` while one of them is not done.
fn latest(from: Instant, stages: &[StageIndex], done: &[Option<Instant>]) -> Option<Instant> {
    stages.iter().try_fold(from, |latest, stage| done[stage.index()].map(|instant| instant.max(latest)))
}

/// For each task and stage: when it is done, as far as that is known.
pub(crate) fn done(workload: &Workload, flows: &[FlowState]) -> Vec<Vec<Option<Instant>>> {
    let mut tasks = Vec::new();
    for task in workload.tasks() {
        let mut done: Vec<Option<Instant>> = Vec::new();
        for stage in &task.stages {
            let start = latest(task.arrival, &stage.starts_after, &done);
            let own = match &stage.work {
                Work::Compute(compute) => start.map(|start| start + compute.duration),
                Work::Transfer(coflow) => workload
                    .flow_ids(*coflow)
                    .map(|flow| flows[flow as usize].finish)
                    .try_fold(Instant::ZERO, |last, finish| finish.map(|finish| finish.max(last))),
            };
            done.push(own.and_then(|own| latest(own, &stage.finishes_after, &done)));
        }
        tasks.push(done);
    }
    tasks
}

/// For each flow: when it arrives, as far as that is known.
pub(crate) fn releases(workload: &Workload, flows: &[FlowState]) -> Vec<Option<Instant>> {
    let mut releases = vec![None; flows.len()];
    for (task, done) in workload.tasks().iter().zip(done(workload, flows)) {
        for stage in &task.stages {
            let Work::Transfer(coflow) = stage.work else { continue };
            let start = latest(task.arrival, &stage.starts_after, &done);
            for (flow, facts) in workload.flow_ids(coflow).zip(workload.flows_of(coflow)) {
                releases[flow as usize] = start.map(|start| start + facts.wave);
            }
        }
    }
    releases
}

//! When everything is done, from a schedule alone: for schedules that come without an outcome.
//!
//! The times are the earliest that the segments and the order of stages allow: a flow is done with
//! its last segment, a coflow with its last flow, computation after its duration, each not before
//! what it finishes after. Times are rounded up to whole nanoseconds, as drivers do, but not for
//! the noise of floating-point numbers.
//!
//! How long computation waits for a slot of its host does not follow from flows, so a workload with
//! slots is refused.

use cavalcade_metrics::{EngineCounts, Outcome};
use cavalcade_model::{CoflowId, FineInstant, FlowId, Instant, Nanos, StageIndex, TaskId, Work, Workload};

use crate::schedule::Segment;
use crate::tolerance::grain_ns;
use crate::violation::Violation;

/// Works out when flows, coflows and tasks are done under the schedule `segments`, and when coflows
/// arrive. It checks nothing else: that is [`crate::validate`]'s, which takes the result.
///
/// # Errors
/// If computation has to wait for slots of hosts.
pub fn completions(workload: &Workload, segments: &[Segment]) -> Result<Outcome, Violation> {
    let mut outcome = Outcome {
        coflow_arrival: vec![Instant::ZERO; workload.coflow_count()],
        coflow_finish: vec![Instant::ZERO; workload.coflow_count()],
        flow_finish: flow_finishes(workload, segments),
        task_finish: Vec::with_capacity(workload.tasks().len()),
        counts: EngineCounts::default(),
        link_use: None,
        queue_use: None,
        messages: None,
    };
    for (index, task) in workload.tasks().iter().enumerate() {
        let mut done: Vec<Instant> = Vec::with_capacity(task.stages.len());
        for stage in &task.stages {
            let start = latest(task.arrival, &stage.starts_after, &done);
            let own = match stage.work {
                Work::Compute(compute) if workload.host_of(&compute).is_some() => {
                    return Err(Violation::Slots { task: TaskId::from_index(index) });
                }
                Work::Compute(compute) => later(start, compute.duration),
                Work::Transfer(coflow) => {
                    outcome.coflow_arrival[coflow.index()] = later(start, first_wave(workload, coflow));
                    let flows = workload.flow_ids(coflow).map(FlowId);
                    flows.map(|flow| outcome.flow_finish[flow.index()]).max().unwrap_or(start)
                }
            };
            let own = latest(own, &stage.finishes_after, &done);
            if let Work::Transfer(coflow) = stage.work {
                outcome.coflow_finish[coflow.index()] = own;
            }
            done.push(own);
        }
        outcome.task_finish.push(done.into_iter().fold(task.arrival, Instant::max));
    }
    Ok(outcome)
}

fn flow_finishes(workload: &Workload, segments: &[Segment]) -> Vec<Instant> {
    let mut ends = vec![FineInstant::default(); workload.flows().len()];
    for segment in segments.iter().filter(|segment| segment.bytes_per_nano > 0.0) {
        // A flow that the workload does not have is for `validate` to find.
        if let Some(end) = ends.get_mut(segment.flow.index())
            && segment.to > segment.from
            && segment.to > *end
        {
            *end = segment.to;
        }
    }
    ends.into_iter().map(rounded_up).collect()
}

fn rounded_up(point: FineInstant) -> Instant {
    if point.fraction() <= grain_ns(point.as_f64()) { point.whole() } else { later(point.whole(), Nanos(1)) }
}

/// The latest of `stages`, but not before `moment`.
fn latest(moment: Instant, stages: &[StageIndex], done: &[Instant]) -> Instant {
    stages.iter().fold(moment, |moment, stage| moment.max(done[stage.index()]))
}

fn later(instant: Instant, span: Nanos) -> Instant {
    instant.checked_add(span).unwrap_or(Instant::MAX)
}

fn first_wave(workload: &Workload, coflow: CoflowId) -> Nanos {
    workload.flows_of(coflow).iter().map(|flow| flow.wave).min().unwrap_or(Nanos::ZERO)
}

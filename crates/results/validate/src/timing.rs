//! When each stage could start and was done, from the ends of segments alone.
//!
//! A stage starts when its task has arrived and all stages that it starts after are done. A
//! transfer is done with its last byte, computation after its duration; both not before the stages
//! that they finish after. Times that come out of segments are exact while recorded ones are
//! rounded up, and a driver may carry on from either, so every time is kept as a pair: the earliest
//! that it can be, and the latest. Computation on a host with slots is done no earlier than after
//! its duration; how long it waits for a slot is not checked, so what comes after begins when the
//! record says. Where waves come in turn, one begins no sooner than the last byte of those before
//! it.

use cavalcade_metrics::Outcome;
use cavalcade_model::{CoflowId, FlowId, Instant, StageIndex, Task, TaskId, Work, Workload};

use crate::check::Sent;
use crate::tolerance::grain_ns;
use crate::violation::Violation;
use crate::violations::Found;

/// A point in time that is known up to rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Moment {
    earliest_ns: f64,
    latest_ns: f64,
}

impl Moment {
    fn at(instant: Instant) -> Self {
        Self { earliest_ns: instant.as_f64(), latest_ns: instant.as_f64() }
    }

    fn max(self, other: Self) -> Self {
        Self {
            earliest_ns: self.earliest_ns.max(other.earliest_ns),
            latest_ns: self.latest_ns.max(other.latest_ns),
        }
    }

    fn later(self, ns: f64) -> Self {
        Self { earliest_ns: self.earliest_ns + ns, latest_ns: self.latest_ns + ns }
    }

    /// The latest of `stages`, but not before `self`.
    fn after(self, stages: &[StageIndex], done: &[Moment]) -> Self {
        stages.iter().fold(self, |moment, stage| moment.max(done[stage.index()]))
    }

    fn holds(self, recorded: Instant) -> bool {
        let grain = grain_ns(self.latest_ns);
        recorded.as_f64() >= self.earliest_ns - grain && recorded.as_f64() <= self.latest_ns + grain
    }
}

/// Checks arrivals and finishes of coflows and tasks, and that no flow is sent before it arrives.
/// Returns when each flow arrives, at the earliest.
pub(crate) fn check_times(
    workload: &Workload,
    sent: &Sent,
    outcome: &Outcome,
    found: &mut Found,
) -> Vec<f64> {
    let mut releases = vec![0.0; workload.flows().len()];
    for (index, task) in workload.tasks().iter().enumerate() {
        let mut done = Vec::with_capacity(task.stages.len());
        for stage in &task.stages {
            let start = Moment::at(task.arrival).after(&stage.starts_after, &done);
            let own = match stage.work {
                Work::Compute(compute) => {
                    let end = start.later(compute.duration.as_f64());
                    // How long it waits for a slot of its host is not in the outcome.
                    let waits = workload.host_of(&compute).is_some();
                    if waits { Moment { latest_ns: f64::INFINITY, ..end } } else { end }
                }
                Work::Transfer(coflow) => {
                    check_releases(workload, coflow, start, (sent, outcome), &mut releases, found);
                    last_byte(workload, coflow, sent, outcome)
                }
            };
            let own = own.after(&stage.finishes_after, &done);
            done.push(match stage.work {
                Work::Compute(_) => own,
                Work::Transfer(coflow) => check_finish(coflow, own, outcome, found),
            });
        }
        check_task(TaskId::from_index(index), task, &done, outcome, found);
    }
    releases
}

fn check_releases(
    workload: &Workload,
    coflow: CoflowId,
    start: Moment,
    (sent, outcome): (&Sent, &Outcome),
    releases: &mut [f64],
    found: &mut Found,
) {
    let flows = workload.flows_of(coflow);
    let first_wave = flows.iter().map(|flow| flow.wave.as_f64()).fold(f64::INFINITY, f64::min);
    let arrival = start.later(first_wave);
    let recorded = outcome.coflow_arrival[coflow.index()];
    if !arrival.holds(recorded) {
        let Moment { earliest_ns, latest_ns } = arrival;
        found.add(Violation::CoflowArrival { coflow, recorded, earliest_ns, latest_ns });
    }
    // What computed before it may have waited for a slot; that its flows began is then known from
    // the record alone.
    let waited = start.latest_ns.is_infinite();
    let start_ns = if waited { recorded.as_f64() - first_wave } else { start.earliest_ns };
    let in_turn = workload.waves_in_turn(workload.place(coflow).task);
    let turns = in_turn.then(|| turns(workload, coflow, sent));
    for (at, (flow, facts)) in workload.flow_ids(coflow).map(FlowId).zip(flows).enumerate() {
        let turn_ns = turns.as_ref().map_or(0.0, |turns| turns[at]);
        let release_ns = turn_ns.max(start_ns + facts.wave.as_f64());
        releases[flow.index()] = release_ns;
        if let Some(first) = sent.of(flow).first()
            && first.from.as_f64() < release_ns - grain_ns(release_ns)
        {
            found.add(Violation::BeforeRelease { flow, coflow, from_ns: first.from.as_f64(), release_ns });
        }
    }
}

/// For each flow of a coflow: when the last byte of the waves before its own was sent.
fn turns(workload: &Workload, coflow: CoflowId, sent: &Sent) -> Vec<f64> {
    let (first, flows) = (workload.flow_ids(coflow).start as usize, workload.flows_of(coflow));
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&at| flows[at].wave);
    let (mut turns, mut ended) = (vec![0.0; flows.len()], 0.0f64);
    for wave in order.chunk_by(|&a, &b| flows[a].wave == flows[b].wave) {
        wave.iter().for_each(|&at| turns[at] = ended);
        ended = wave.iter().map(|&at| sent.end_ns(FlowId::from_index(first + at))).fold(ended, f64::max);
    }
    turns
}

fn last_byte(workload: &Workload, coflow: CoflowId, sent: &Sent, outcome: &Outcome) -> Moment {
    workload
        .flow_ids(coflow)
        .map(FlowId)
        .map(|flow| Moment {
            earliest_ns: sent.end_ns(flow),
            latest_ns: outcome.flow_finish[flow.index()].as_f64(),
        })
        .fold(Moment::at(Instant::ZERO), Moment::max)
}

/// Checks a recorded finish. What comes after goes by the record; if that is wrong, by what the
/// flows make of it as well, so that one mistake is found once.
fn check_finish(coflow: CoflowId, own: Moment, outcome: &Outcome, found: &mut Found) -> Moment {
    let recorded = outcome.coflow_finish[coflow.index()];
    let Moment { earliest_ns, latest_ns } = own;
    if own.holds(recorded) {
        return Moment { earliest_ns, latest_ns: recorded.as_f64() };
    }
    found.add(Violation::CoflowFinish { coflow, recorded, earliest_ns, latest_ns });
    Moment { earliest_ns, latest_ns: latest_ns.max(recorded.as_f64()) }
}

fn check_task(id: TaskId, task: &Task, done: &[Moment], outcome: &Outcome, found: &mut Found) {
    let recorded = outcome.task_finish[id.index()];
    let finish = done.iter().copied().fold(Moment::at(task.arrival), Moment::max);
    if finish.holds(recorded) {
        return;
    }
    let last = done.iter().position(|moment| moment.latest_ns >= finish.latest_ns).unwrap_or(0);
    found.add(Violation::TaskFinish {
        task: id,
        recorded,
        stage: StageIndex::from_index(last),
        earliest_ns: finish.earliest_ns,
        latest_ns: finish.latest_ns,
    });
}

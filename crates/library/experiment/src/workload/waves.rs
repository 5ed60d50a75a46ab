//! Coflows that come in waves (Aalo Table 4).
//!
//! Aalo's Table 4 says how many coflows have how many waves, and not when a wave starts. Here those
//! with the most senders have most: with `waves 4`, 6 % have four, 4 % three, 9 % two. Senders are
//! dealt to waves in turn, and a wave starts when the one before could have ended at the earliest:
//! after the bottleneck time of its flows alone on `rate`; or, with `turns`, when it has ended.

use cavalcade_model::{
    BitsPerSec, Coflow, CoflowId, Compute, Flow, Nanos, Stage, StageIndex, TaskId, Work, Workload,
    WorkloadBuilder, WorkloadError,
};

use super::alone;

/// What becomes of a coflow that comes in waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One coflow, whose later flows start later.
    Late,
    /// Each wave is a coflow of its own.
    Split,
    /// One coflow, all of whose flows wait for the last wave.
    Held,
}

/// Shares of coflows with two, three and four waves, for each maximum (Aalo Table 4).
const WAVES: [&[f64]; 3] = [&[0.10], &[0.10, 0.0], &[0.09, 0.04, 0.06]];

/// Time at which a wave starts.
#[derive(Clone, Copy)]
pub(super) enum Apart {
    /// Time at which the one before could have ended at the earliest.
    AtRate(BitsPerSec),
    /// Time at which the one before has ended.
    InTurn,
}

/// Gives tasks of one coflow waves; others stay as they are.
pub(super) fn in_waves(
    workload: &Workload,
    most: usize,
    shape: Shape,
    apart: Apart,
) -> Result<Workload, WorkloadError> {
    let split = shape == Shape::Split;
    let waves_of = waves(workload, WAVES[most - 2]);
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.hosts(workload.hosts().to_vec()).port_names(workload.port_names().to_vec());
    let in_turn = matches!(apart, Apart::InTurn) && !split;
    for ((index, task), &waves) in workload.tasks().iter().enumerate().zip(&waves_of) {
        let mut task = task.clone();
        let names = workload.given_coflow_names(TaskId::from_index(index));
        let is_split = split && waves > 1 && task.stages.len() == 1;
        let coflows = task.stages.iter().filter_map(|stage| match stage.work {
            Work::Transfer(id) => Some(workload.flows_of(id)),
            Work::Compute(_) => None,
        });
        let mut transfers: Vec<Vec<Flow>> = coflows.map(<[Flow]>::to_vec).collect();
        if waves > 1 && task.stages.len() == 1 {
            let parts = deal(&transfers[0], waves, apart);
            if split {
                task.stages = separate_stages(&parts, apart);
                transfers = parts.into_iter().map(|(_, flows)| flows).collect();
            } else {
                let last = parts.iter().map(|(wave, _)| *wave).max().unwrap_or(Nanos::ZERO);
                let late = |(wave, flows): (Nanos, Vec<Flow>)| {
                    let wave = if shape == Shape::Held { last } else { wave };
                    flows.into_iter().map(move |flow| Flow { wave, ..flow })
                };
                transfers = vec![parts.into_iter().flat_map(late).collect()];
            }
        }
        builder.push(task, transfers.into_iter().map(|flows| Coflow { flows }).collect());
        builder.waves_in_turn(in_turn && waves > 1);
        if !is_split {
            builder.coflow_names(names);
        }
    }
    builder.build()
}

/// Returns the number of waves of each task: the more senders, the more.
fn waves(workload: &Workload, shares: &[f64]) -> Vec<usize> {
    let tasks = workload.tasks();
    let senders = |index: usize| match tasks[index].stages[0].work {
        Work::Transfer(id) => senders(workload.flows_of(id)).len(),
        Work::Compute(_) => 0,
    };
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&index| (core::cmp::Reverse(senders(index)), index));
    let mut order = order.into_iter();
    let mut waves = vec![1; tasks.len()];
    for (index, share) in shares.iter().enumerate().rev() {
        let count = (share * tasks.len() as f64 + 0.5) as usize;
        for task in order.by_ref().take(count) {
            waves[task] = (index + 2).min(senders(task).max(1));
        }
    }
    waves
}

fn senders(flows: &[Flow]) -> Vec<u32> {
    let mut senders: Vec<u32> = flows.iter().map(|flow| flow.src.0).collect();
    senders.sort_unstable();
    senders.dedup();
    senders
}

/// The flows by wave, each with its start after the coflow's.
pub(super) fn deal(flows: &[Flow], waves: usize, apart: Apart) -> Vec<(Nanos, Vec<Flow>)> {
    let senders = senders(flows);
    let mut parts: Vec<Vec<Flow>> = vec![Vec::new(); waves];
    for flow in flows {
        let rank = senders.partition_point(|&sender| sender < flow.src.0);
        parts[rank % waves].push(*flow);
    }
    let mut start = Nanos::ZERO;
    parts
        .into_iter()
        .map(|part| {
            let begins = start;
            let later = match apart {
                Apart::AtRate(rate) => alone(&part, rate).0,
                // Apart from one another is all that waves in turn have to be.
                Apart::InTurn => 1,
            };
            start = Nanos(start.0 + later);
            (begins, part)
        })
        .collect()
}

/// A stage for each wave, behind a wait for its start, or for the wave before.
fn separate_stages(parts: &[(Nanos, Vec<Flow>)], apart: Apart) -> Vec<Stage> {
    let stage =
        |starts_after: Vec<StageIndex>, work: Work| Stage { starts_after, finishes_after: Vec::new(), work };
    let mut stages = Vec::new();
    for &(start, _) in parts {
        let mut after = Vec::new();
        if let (Apart::InTurn, Some(last)) = (apart, stages.len().checked_sub(1)) {
            after.push(StageIndex::from_index(last));
        } else if start > Nanos::ZERO {
            after.push(StageIndex::from_index(stages.len()));
            stages.push(stage(Vec::new(), Work::Compute(Compute { duration: start, host: None })));
        }
        stages.push(stage(after, Work::Transfer(CoflowId::default())));
    }
    stages
}

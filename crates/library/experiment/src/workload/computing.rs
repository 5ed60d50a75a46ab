//! Jobs that compute before they communicate (Aalo Table 2).

use cavalcade_model::{
    BitsPerSec, Coflow, Compute, Nanos, SplitMix64, Stage, StageIndex, TaskId, Work, Workload,
    WorkloadBuilder, WorkloadError,
};

use super::alone;

/// Jobs by the share of their time that they communicate (Aalo Table 2): the part of all jobs, and
/// the middle of the bin.
const COMMUNICATING: [(f64, f64); 4] = [(0.61, 0.125), (0.13, 0.37), (0.14, 0.62), (0.12, 0.875)];

/// Puts a computation in front of each job that is a single shuffle, with `share` of the job's time
/// alone on ports of `rate`, or with what a bin drawn from Aalo's Table 2 has.
pub(super) fn computing(
    workload: &Workload,
    share: Option<f64>,
    rate: BitsPerSec,
    seed: u64,
) -> Result<Workload, WorkloadError> {
    let mut random = SplitMix64::new(seed);
    let mut drawn = || {
        let mut at = random.fraction();
        let bin = COMMUNICATING.iter().find(|(part, _)| {
            at -= part;
            at < 0.0
        });
        1.0 - bin.unwrap_or(&COMMUNICATING[3]).1
    };
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.hosts(workload.hosts().to_vec()).port_names(workload.port_names().to_vec());
    for (index, task) in workload.tasks().iter().enumerate() {
        let mut task = task.clone();
        let share = share.unwrap_or_else(&mut drawn);
        let coflows = task.stages.iter().filter_map(|stage| match stage.work {
            Work::Transfer(id) => Some(workload.flows_of(id)),
            Work::Compute(_) => None,
        });
        let transfers: Vec<Coflow> = coflows.map(|flows| Coflow { flows: flows.to_vec() }).collect();
        if let ([stage], [coflow]) = (&mut task.stages[..], &transfers[..]) {
            let duration = alone(&coflow.flows, rate).as_f64() * share / (1.0 - share);
            stage.starts_after.push(StageIndex::from_index(0));
            let work = Work::Compute(Compute { duration: Nanos(duration as u64), host: None });
            task.stages.insert(0, Stage { starts_after: Vec::new(), finishes_after: Vec::new(), work });
        }
        builder.push(task, transfers);
        let id = TaskId::from_index(index);
        builder.coflow_names(workload.given_coflow_names(id)).waves_in_turn(workload.waves_in_turn(id));
    }
    builder.build()
}

//! A workload again with something changed: what every transformation of a trace has in common.

use cavalcade_model::{Coflow, Flow, Instant, TaskId, Work, Workload, WorkloadBuilder, WorkloadError};

/// The workload with new arrivals, `None` leaving a task out, and new flows for each coflow. Tasks
/// and coflows are visited in order.
pub(super) fn rebuild(
    workload: &Workload,
    arrival: impl FnMut(TaskId) -> Option<Instant>,
    flows: impl FnMut(&[Flow]) -> Vec<Flow>,
) -> Result<Workload, WorkloadError> {
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.hosts(workload.hosts().to_vec()).port_names(workload.port_names().to_vec());
    rebuild_in(builder, workload, arrival, flows)
}

/// The same in a builder that has its own ports.
pub(super) fn rebuild_in(
    mut builder: WorkloadBuilder,
    workload: &Workload,
    mut arrival: impl FnMut(TaskId) -> Option<Instant>,
    mut flows: impl FnMut(&[Flow]) -> Vec<Flow>,
) -> Result<Workload, WorkloadError> {
    for (index, task) in workload.tasks().iter().enumerate() {
        let Some(arrival) = arrival(TaskId::from_index(index)) else { continue };
        let mut task = task.clone();
        task.arrival = arrival;
        let transfers = task.stages.iter().filter_map(|stage| match stage.work {
            Work::Transfer(coflow) => Some(Coflow { flows: flows(workload.flows_of(coflow)) }),
            Work::Compute(_) => None,
        });
        let transfers = transfers.collect();
        builder.push(task, transfers);
        let id = TaskId::from_index(index);
        if let Some(iterations) = workload.iterations(id) {
            builder.iterations(iterations.clone());
        }
        builder.coflow_names(workload.given_coflow_names(id)).waves_in_turn(workload.waves_in_turn(id));
    }
    builder.build()
}

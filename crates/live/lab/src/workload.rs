//! Traces as a lab can replay them.

use cavalcade_model::{Bytes, Flow, Instant, Nanos, Work, Workload, WorkloadBuilder};

use crate::error::LabError;

/// The system that decides in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// None: plain TCP, without agents.
    Tcp,
    /// A policy at a coordinator, by its specification.
    Coordinator(String),
    /// A policy at every host, by its specification.
    Hosts(String),
    /// The switches: flows are SPC streams under the ids of their tasks.
    Spc,
    /// The switches, which give each flow its fair share: the same streams, with RCP's rates.
    Rcp,
}

impl Scheduler {
    /// Returns whether hosts have agents under it.
    pub(crate) fn has_agents(&self) -> bool {
        matches!(self, Self::Coordinator(_) | Self::Hosts(_))
    }
}

/// A trace that can be replayed, and what was left out of it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The replayed tasks.
    pub workload: Workload,
    /// Flows that stay on their host, and cross no port in a lab.
    pub local_flows: usize,
    /// Their bytes.
    pub local_bytes: Bytes,
}

/// Makes of `workload` what a lab replays: sizes and times `scale` times as large, so that load
/// stays what it was, and no flow that stays on its host.
///
/// # Errors
/// If tasks have several stages, or nothing is left.
pub fn prepare(workload: &Workload, scale: f64) -> Result<Prepared, LabError> {
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.port_names(workload.port_names().to_vec());
    let (mut local_flows, mut local_bytes) = (0, Bytes::ZERO);
    for task in workload.tasks() {
        let [stage] = &task.stages[..] else {
            return Err(LabError::Trace(format!(
                "task {} has several stages: a lab replays coflows",
                task.name
            )));
        };
        let Work::Transfer(coflow) = stage.work else {
            return Err(LabError::Trace(format!("task {} computes: a lab replays coflows", task.name)));
        };
        let (kept, local): (Vec<&Flow>, Vec<&Flow>) =
            workload.flows_of(coflow).iter().partition(|flow| flow.src != flow.dst);
        local_flows += local.len();
        local_bytes = Bytes(local_bytes.0 + local.iter().map(|flow| flow.size.0).sum::<u64>());
        if !kept.is_empty() {
            let flows = kept.into_iter().map(|flow| Flow {
                size: Bytes(scaled(flow.size.0, scale).max(1)),
                wave: Nanos(scaled(flow.wave.0, scale)),
                ..*flow
            });
            let arrival = Instant(scaled(task.arrival.0, scale));
            builder.coflow(task.name.clone(), arrival, flows.collect());
            builder.coflow_names(workload.given_coflow_name(coflow).map(str::to_owned).into_iter().collect());
        }
    }
    if builder.is_empty() {
        return Err(LabError::Trace("the trace has no flow between two ports".to_owned()));
    }
    let workload = builder.build().map_err(|error| LabError::Trace(error.to_string()))?;
    Ok(Prepared { workload, local_flows, local_bytes })
}

fn scaled(value: u64, scale: f64) -> u64 {
    (value as f64 * scale) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::PortId;

    #[test]
    fn a_scaled_trace_keeps_its_load_and_loses_what_stays_on_a_host() {
        let flow = |src, dst, size| Flow {
            src: PortId(src),
            dst: PortId(dst),
            size: Bytes(size),
            wave: Nanos::ZERO,
        };
        let mut builder = WorkloadBuilder::new(3);
        builder.coflow("a", Instant(0), vec![flow(0, 1, 1000), flow(1, 1, 50)]);
        builder.coflow("b", Instant(400), vec![flow(2, 2, 7)]);
        builder.coflow("c", Instant(800), vec![flow(2, 0, 1)]);
        let prepared = prepare(&builder.build().unwrap(), 0.5).unwrap();
        assert_eq!((prepared.local_flows, prepared.local_bytes), (2, Bytes(57)));
        let kept = &prepared.workload;
        assert_eq!(kept.flows().iter().map(|flow| flow.size.0).collect::<Vec<_>>(), [500, 1]);
        assert_eq!(kept.tasks().iter().map(|task| task.arrival.0).collect::<Vec<_>>(), [0, 400]);
    }
}

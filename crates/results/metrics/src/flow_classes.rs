//! Flow completion times by size, as papers on flows show them: up to 100 KB, up to 10 MB, and
//! above.
//!
//! Short flows feel delay, long ones throughput, and a mean over both shows neither.

use cavalcade_model::{Bytes, Nanos, Workload};

use crate::outcome::Outcome;
use crate::summary::Summary;

/// The largest size of each class but the last (DCTCP §4.3, pFabric §5.3, Karuna §8).
pub const FLOW_CLASSES: [Bytes; 2] = [Bytes(100_000), Bytes(10_000_000)];

/// The completion times of the flows of each class, from a flow's arrival to its last byte; `None`
/// where a class is empty, as all are where the run forgot flows. O(n log n).
pub fn flow_completion_times(workload: &Workload, outcome: &Outcome) -> [Option<Summary>; 3] {
    let mut classes: [Vec<Nanos>; 3] = Default::default();
    if outcome.flow_finish.is_empty() {
        return classes.map(|_| None);
    }
    for coflow in workload.coflows() {
        // A coflow arrives with its first wave.
        let first = coflow.flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        for (flow, id) in coflow.flows.iter().zip(workload.flow_ids(coflow.id)) {
            let arrival = outcome.coflow_arrival[coflow.id.index()] + flow.wave.saturating_sub(first);
            let class = FLOW_CLASSES.partition_point(|&largest| largest < flow.size);
            classes[class].push(outcome.flow_finish[id as usize].since(arrival));
        }
    }
    classes.map(|times| if times.is_empty() { None } else { Some(Summary::of(&times)) })
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Flow, Instant, PortId, WorkloadBuilder};

    use super::*;
    use crate::outcome::EngineCounts;

    #[test]
    fn a_flow_counts_from_its_own_wave_and_in_the_class_of_its_size() {
        let flow = |size, wave| Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos(wave) };
        let mut builder = WorkloadBuilder::new(2);
        builder.coflow("a", Instant(1_000), vec![flow(100_000, 0), flow(1, 500), flow(20_000_000, 0)]);
        let workload = builder.build().unwrap();
        let outcome = Outcome {
            coflow_arrival: vec![Instant(1_000)],
            coflow_finish: vec![Instant(9_000)],
            flow_finish: vec![Instant(3_000), Instant(2_500), Instant(9_000)],
            task_finish: vec![Instant(9_000)],
            counts: EngineCounts::default(),
            link_use: None,
            queue_use: None,
            messages: None,
        };
        let [short, middle, long] = flow_completion_times(&workload, &outcome);
        assert_eq!(short.map(|short| (short.mean_s, short.max_s)), Some((1.5e-6, 2e-6)));
        assert_eq!(middle, None);
        assert_eq!(long.map(|long| long.max_s), Some(8e-6));
        let forgotten = Outcome { flow_finish: Vec::new(), ..outcome };
        assert_eq!(flow_completion_times(&workload, &forgotten), [None; 3]);
    }
}

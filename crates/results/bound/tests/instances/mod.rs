//! Small random workloads: ties, waves, stages, weights, deadlines, links that differ.

pub(crate) mod slots;

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Compute, Fabric, Flow, Instant, Nanos, PortId, Stage, StageIndex,
    Task, TaskClass, Work, Workload, WorkloadBuilder,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A workload and what it runs on.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) fabric: Fabric,
}

const PORTS: u32 = 4;

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let rates = vec(prop_oneof![3 => Just(8_000_000u64), 1 => 1_000_000u64..50_000_000], 2 * PORTS as usize);
    (rates, vec(task(), 1..9)).prop_map(|(rates, tasks)| {
        let rates: Vec<BitsPerSec> = rates.into_iter().map(BitsPerSec).collect();
        let (ingress, egress) = rates.split_at(PORTS as usize);
        let fabric = Fabric::uneven_big_switch(ingress, egress).expect("rates are above zero");
        let mut builder = WorkloadBuilder::new(PORTS);
        for (index, (mut task, coflows)) in tasks.into_iter().enumerate() {
            task.name = index.to_string();
            builder.push(task, coflows);
        }
        Case { workload: builder.build().expect("what is drawn is valid"), fabric }
    })
}

fn task() -> impl Strategy<Value = (Task, Vec<Coflow>)> {
    let stages = prop_oneof![3 => vec(stage(), 1..2), 1 => vec(stage(), 2..5)];
    let arrival = prop_oneof![1 => Just(0), 2 => 0u64..20].prop_map(|ms| Instant(ms * 1_000_000));
    let deadline = proptest::option::of(0u64..40).prop_map(|ms| ms.map(Nanos::from_millis));
    let weight = prop_oneof![2 => Just(1u32), 1 => 1u32..10];
    (stages, arrival, deadline, weight).prop_map(|(drawn, arrival, deadline, weight)| {
        let mut coflows = Vec::new();
        let mut stages = Vec::new();
        for (index, (flows, compute, after, beside)) in drawn.into_iter().enumerate() {
            let before = |mask: u8| {
                (0..index).filter(|on| mask >> on & 1 == 1).map(StageIndex::from_index).collect::<Vec<_>>()
            };
            let work = match compute {
                Some(ms) => Work::Compute(Compute::lasting(Nanos::from_millis(ms))),
                None => {
                    coflows.push(Coflow { flows });
                    Work::Transfer(CoflowId::default())
                }
            };
            stages.push(Stage { starts_after: before(after), finishes_after: before(beside & !after), work });
        }
        let task = Task {
            name: String::new(),
            job: None,
            arrival,
            deadline,
            class: TaskClass::Online,
            weight,
            stages,
        };
        (task, coflows)
    })
}

type DrawnStage = (Vec<Flow>, Option<u64>, u8, u8);

fn stage() -> impl Strategy<Value = DrawnStage> {
    let compute = prop_oneof![4 => Just(None), 1 => (0u64..10).prop_map(Some)];
    (vec(flow(), 1..6), compute, any::<u8>(), any::<u8>())
}

fn flow() -> impl Strategy<Value = Flow> {
    let size = prop_oneof![2 => Just(1_000u64), 2 => 1u64..5_000, 1 => 1u64..20_000];
    let wave = prop_oneof![4 => Just(0), 1 => 1u64..10];
    (0..PORTS, 0..PORTS, size, wave).prop_map(|(src, dst, size, wave)| Flow {
        src: PortId(src),
        dst: PortId(dst),
        size: Bytes(size),
        wave: Nanos::from_millis(wave),
    })
}

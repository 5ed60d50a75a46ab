//! Limits that papers state of their policies, held on random workloads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cavalcade_model::{
    BitsPerSec, Bytes, Fabric, FabricSpec, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder,
};
use cavalcade_sim_fluid::{Options, simulate};
use proptest::prelude::*;

const PORTS: u32 = 8;

/// Tasks of one coflow, with flows of 10 KB to 10 MB.
fn workload() -> impl Strategy<Value = Workload> {
    let flow = (0..PORTS, 0..PORTS, 10_000u64..10_000_000);
    let task = (0u64..40_000_000, prop::collection::vec(flow, 1..6));
    prop::collection::vec(task, 1..8).prop_map(|tasks| {
        let mut builder = WorkloadBuilder::new(PORTS);
        for (number, (arrival, flows)) in tasks.into_iter().enumerate() {
            let flow = |(src, dst, size)| Flow {
                src: PortId(src),
                dst: PortId(dst),
                size: Bytes(size),
                wave: Nanos::ZERO,
            };
            builder.coflow(format!("{number}"), Instant(arrival), flows.into_iter().map(flow).collect());
        }
        builder.build().unwrap()
    })
}

/// One switch, and a tree of four racks whose uplinks carry half of what hosts may send.
fn fabrics() -> [Fabric; 2] {
    let tree: FabricSpec = "tree:pods=2,racks=2,hosts=2,oversubscription=2".parse().unwrap();
    let rate = BitsPerSec(1_000_000_000);
    [Fabric::big_switch(PORTS, rate).unwrap(), tree.build(rate).unwrap()]
}

fn finish(workload: &Workload, fabric: &Fabric, spec: &str) -> Vec<Instant> {
    let policy = cavalcade_policy::parse(spec).unwrap();
    simulate(workload, fabric, &policy, &Options::default(), None).unwrap().flow_finish
}

/// The largest difference between two runs: in nanoseconds beyond a share of the time.
fn apart(a: &[Instant], b: &[Instant], share: f64) -> f64 {
    let apart = |(a, b): (&Instant, &Instant)| a.0.abs_diff(b.0) as f64 - share * b.as_f64();
    a.iter().zip(b).map(apart).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Baraat §5.3.2: "if the threshold is too low, the policy will converge to fair-sharing". A
    /// task is light until its first byte, and flows of tasks that arrive together are a few
    /// nanoseconds apart for that.
    #[test]
    fn baraat_with_everything_heavy_is_fair_sharing(workload in workload()) {
        for fabric in fabrics() {
            let (baraat, fair) = (finish(&workload, &fabric, "baraat:heavy_threshold=1B"), finish(&workload, &fabric, "fair"));
            prop_assert!(apart(&baraat, &fair, 1e-4) < 10_000.0, "{baraat:?} and {fair:?}");
        }
    }

    /// Baraat §3.3, §5.3.2: with a degree of multiplexing of one it is FIFO, which is how it
    /// describes Orchestra.
    #[test]
    fn baraat_with_nothing_heavy_is_fifo(workload in workload()) {
        for fabric in fabrics() {
            let (baraat, fifo) = (finish(&workload, &fabric, "baraat:heavy_percentile=none"), finish(&workload, &fabric, "fifo"));
            prop_assert!(apart(&baraat, &fifo, 1e-9) < 10.0, "{baraat:?} and {fifo:?}");
        }
    }

    /// Baraat's footnote 1: limited processor sharing among one task at a time is FIFO, whatever is
    /// heavy.
    #[test]
    fn baraat_with_a_degree_of_one_is_fifo(workload in workload()) {
        for fabric in fabrics() {
            let one = finish(&workload, &fabric, "baraat:heavy_threshold=1B,degree=1");
            let fifo = finish(&workload, &fabric, "fifo");
            prop_assert!(apart(&one, &fifo, 1e-9) < 10.0, "{one:?} and {fifo:?}");
        }
    }
}

/// D-CAS §V-B: less than 15 % behind Varys, which is SEBF there, on a loaded fabric, where the lift
/// of starved subcoflows ends when they are served.
#[test]
fn dcas_is_near_varys_on_a_loaded_fabric() {
    let generator = "classes:coflows=80,ports=16".parse().unwrap();
    let fabric = Fabric::big_switch(16, BitsPerSec(1_000_000_000)).unwrap();
    let behind: Vec<f64> = (1..=3)
        .map(|seed| {
            let workload = cavalcade_trace::generate(&generator, seed).unwrap();
            let mean = |spec: &str| -> f64 {
                let policy = cavalcade_policy::parse(spec).unwrap();
                let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).unwrap();
                workload.coflows().map(|coflow| outcome.cct(coflow.id).as_f64()).sum()
            };
            mean("dcas-quiet:lift=served") / mean("sebf")
        })
        .collect();
    let mean = behind.iter().sum::<f64>() / 3.0;
    assert!((0.95..1.15).contains(&mean), "{behind:?}");
}

//! One flow at a time between two hosts: by hand, and beside fair sharing where no pair has two.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{BitsPerSec, Bytes, Fabric, Flow, Instant, Nanos, PortId, WorkloadBuilder};
use cavalcade_sim_fluid::{Options, simulate};

/// A coflow: its arrival in milliseconds, and its flows by source, destination and size in
/// megabytes.
type Coflow<'a> = (u64, &'a [(u32, u32, u64)]);

/// Returns how long each takes on five ports of 1 Gbps, in milliseconds.
fn times(coflows: &[Coflow<'_>], spec: &str) -> Vec<u64> {
    let mut builder = WorkloadBuilder::new(5);
    for (number, &(arrival, flows)) in coflows.iter().enumerate() {
        let flow = |&(src, dst, size)| {
            let (src, dst, size) = (PortId(src), PortId(dst), Bytes(size * 1_000_000));
            Flow { src, dst, size, wave: Nanos::ZERO }
        };
        builder.coflow(
            format!("{number}"),
            Instant(arrival * 1_000_000),
            flows.iter().map(flow).collect::<Vec<_>>(),
        );
    }
    let workload = builder.build().unwrap();
    let fabric = Fabric::big_switch(5, BitsPerSec(1_000_000_000)).unwrap();
    let policy = cavalcade_policy::parse(spec).unwrap();
    let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).expect("the run ends");
    workload.coflows().map(|coflow| outcome.cct(coflow.id).0 / 1_000_000).collect()
}

#[test]
fn a_small_shuffle_waits_for_a_large_one_of_its_pair_and_shares_with_other_pairs() {
    // Ports 0 and 1 send to port 2: their first flows have half of its link each, and the small one
    // waits for 100 MB.
    let coflows: [Coflow<'_>; 3] = [(0, &[(0, 2, 100)]), (0, &[(1, 2, 100)]), (1, &[(0, 2, 10)])];
    assert_eq!(times(&coflows, "spark"), [1_600, 1_600, 1_679]);
    assert!(times(&coflows, "fair")[2] < 300, "with connections of its own it has a third of the link");
}

#[test]
fn what_leaves_a_busy_receiver_of_its_pairs_first_flow_is_not_used_by_the_second() {
    // The pair 0 to 1 has half of link 1. Its sender's other half is for other pairs, not for its
    // own second flow.
    let coflows: [Coflow<'_>; 3] = [(0, &[(0, 1, 50), (0, 1, 50)]), (0, &[(2, 1, 50)]), (0, &[(0, 3, 50)])];
    assert_eq!(times(&coflows, "spark"), [1_200, 800, 800]);
}

#[test]
fn where_no_pair_has_two_flows_at_once_it_is_fair_sharing() {
    let coflows: [Coflow<'_>; 3] =
        [(0, &[(0, 2, 30), (1, 3, 70)]), (5, &[(0, 3, 20), (4, 2, 10)]), (9, &[(1, 2, 40), (4, 3, 25)])];
    assert_eq!(times(&coflows, "spark"), times(&coflows, "fair"));
}

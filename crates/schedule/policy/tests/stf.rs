//! Shortest task first with and without preemption, on one link, with exact times.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{BitsPerSec, Bytes, Fabric, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};
use cavalcade_sim_fluid::{Options, simulate};

/// Tasks of one flow each from port 0 to 1, given by arrival in milliseconds and size in megabytes.
/// Returns how long each takes at 1 Gbps, in milliseconds.
fn times(tasks: &[(u64, u64)], spec: &str) -> Vec<u64> {
    let fabric = Fabric::big_switch(2, BitsPerSec(1_000_000_000)).unwrap();
    let policy = cavalcade_policy::parse(spec).unwrap();
    let workload = workload(tasks);
    let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).expect("the run ends");
    workload.coflows().map(|coflow| outcome.cct(coflow.id).0 / 1_000_000).collect()
}

fn workload(tasks: &[(u64, u64)]) -> Workload {
    let mut builder = WorkloadBuilder::new(2);
    for (number, &(arrival, size)) in tasks.iter().enumerate() {
        let (src, dst, size) = (PortId(0), PortId(1), Bytes(size * 1_000_000));
        let flow = Flow { src, dst, size, wave: Nanos::ZERO };
        builder.coflow(format!("{number}"), Instant(arrival * 1_000_000), vec![flow]);
    }
    builder.build().unwrap()
}

/// 200 MB need 1.6 s. After half a second 137.5 MB are left, more than the 100 MB that come then.
const TWO: [(u64, u64); 2] = [(0, 200), (500, 100)];

#[test]
fn preemptively_a_smaller_task_goes_before_one_that_has_begun() {
    assert_eq!(times(&TWO, "stf"), [2_400, 800]);
    assert_eq!(times(&TWO, "stf:remaining=false"), [2_400, 800]);
}

#[test]
fn without_preemption_what_has_begun_is_finished_first() {
    assert_eq!(times(&TWO, "stf:preemptive=false"), [1_600, 1_900]);
}

#[test]
fn without_preemption_the_smallest_of_those_that_wait_is_next() {
    // The second and the third wait for the first; the third is smaller. The fourth, smallest of
    // all, comes while it is sent.
    let tasks = [(0, 200), (100, 100), (200, 50), (1_700, 25)];
    assert_eq!(times(&tasks, "stf:preemptive=false"), [1_600, 2_900, 1_800, 500]);
    assert_eq!(times(&tasks, "stf"), [3_000, 1_200, 400, 200]);
}

#[test]
fn of_tasks_that_arrive_together_the_smallest_begins() {
    assert_eq!(times(&[(0, 100), (0, 50), (0, 75)], "stf:preemptive=false"), [1_800, 400, 1_000]);
}

#[test]
fn by_size_a_task_that_is_nearly_done_gives_way_to_a_smaller_one() {
    // 150 of 200 MB are sent when 100 MB come.
    let tasks = [(0, 200), (1_200, 100)];
    assert_eq!(times(&tasks, "stf"), [1_600, 1_200]);
    assert_eq!(times(&tasks, "stf:remaining=false"), [2_400, 800]);
    assert_eq!(times(&tasks, "stf:preemptive=false"), [1_600, 1_200]);
}

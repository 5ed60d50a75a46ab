//! Idle time costs nothing, however long, and changes nothing of what comes after it.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_control::Factory;
use cavalcade_metrics::Outcome;
use cavalcade_model::{BitsPerSec, Bytes, CoflowId, Fabric, Flow, Instant, Nanos, PortId, WorkloadBuilder};
use cavalcade_policy::parse;
use cavalcade_sim_control::{Coordination, simulate};
use cavalcade_sim_fluid::Options;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Two coflows that contend, at each of these times.
fn run(policy: &str, times: &[u64]) -> Outcome {
    let flow =
        |src, dst, size| Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
    let mut builder = WorkloadBuilder::new(4);
    for &time in times {
        let large = vec![flow(0, 1, 60_000_000), flow(0, 2, 30_000_000)];
        builder.coflow(format!("large at {time}"), Instant(time), large);
        builder.coflow(format!("small at {time}"), Instant(time + 50_000_000), vec![flow(0, 3, 5_000_000)]);
    }
    let workload = builder.build().unwrap();
    let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000_000)).unwrap();
    let policy = parse(policy).unwrap();
    let factory = Box::new(move || Box::new(policy.clone()) as Factory);
    simulate(&workload, &fabric, factory, &Coordination::default(), &Options::default(), None).unwrap().0
}

fn ccts(outcome: &Outcome) -> Vec<u64> {
    (0..outcome.coflow_finish.len()).map(|coflow| outcome.cct(CoflowId::from_index(coflow)).0).collect()
}

#[test]
fn what_comes_after_idle_time_takes_as_long_as_before_it() {
    for policy in ["sebf", "dclas", "dcas", "learn"] {
        let soon = run(policy, &[0, 60 * SECOND]);
        for gap in [DAY, 365 * DAY, 99 * 365 * DAY] {
            let late = run(policy, &[0, gap]);
            assert_eq!(ccts(&late), ccts(&soon), "{policy} after {gap} ns");
            let messages = late.counts.messages.abs_diff(soon.counts.messages);
            assert!(messages < 10_000, "{policy}: {messages} messages more");
        }
    }
}

#[test]
fn a_trace_that_begins_late_is_run_as_one_that_begins_at_once() {
    for policy in ["sebf", "dcas"] {
        let early = run(policy, &[0, SECOND]);
        let late = run(policy, &[1_700_000_000 * SECOND + 7, 1_700_000_001 * SECOND + 7]);
        assert_eq!(early, late, "{policy}");
    }
}

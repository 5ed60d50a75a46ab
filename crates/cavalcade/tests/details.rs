//! Coflows up close: what is looked at, and what is left out.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::{Comparison, Conditions, MOST_COFLOWS, MOST_FLOWS, Progress, Scenario, compare, details_of};
use cavalcade_metrics::Details;
use cavalcade_model::{Bytes, Flow, Instant, Nanos, PortId, WorkloadBuilder};

/// Runs policies over so many coflows of so many flows.
fn looked_at(coflows: usize, flows: usize, policies: &[&str], baseline: usize) -> (Comparison, Details) {
    let mut builder = WorkloadBuilder::new(2);
    let flow = |size| Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos::ZERO };
    for coflow in 0..coflows {
        let flows = (0..flows).map(|index| flow(1 + (coflow + index) as u64)).collect();
        builder.coflow(format!("c{coflow}"), Instant(coflow as u64), flows);
    }
    let scenario = Scenario::new(builder.build().unwrap(), Conditions::default()).unwrap();
    let scenarios: Vec<Scenario> = policies.iter().map(|policy| scenario.under(policy).unwrap()).collect();
    let mut comparison = compare(&scenarios, baseline).unwrap();
    comparison.runs.iter_mut().for_each(|run| run.named = true);
    let details = details_of(&scenarios, &comparison, &Progress::default()).unwrap();
    (comparison, details)
}

#[test]
fn the_longest_coflows_are_looked_at_under_few_runs_with_the_baseline_among_them() {
    let policies = ["sebf", "fair", "fifo", "dclas", "learn", "sincronia", "edf", "stf"];
    for baseline in 0..policies.len() {
        let (comparison, details) = looked_at(MOST_COFLOWS + 1, 1, &policies, baseline);
        assert_eq!(details.left_out, None);
        assert_eq!((details.runs.len(), details.coflows.len()), (6, MOST_COFLOWS));
        assert!(details.runs.contains(&comparison.baseline), "{baseline}: {:?}", details.runs);
        let times = &comparison.baseline_run().cct;
        let least = details.coflows.iter().map(|coflow| times[coflow.coflow]).min().unwrap();
        assert!(times.iter().filter(|&&time| time > least).count() < MOST_COFLOWS);
        assert!(details.coflows.iter().all(|coflow| coflow.runs.len() == 6));
    }
}

#[test]
fn a_trace_of_too_many_flows_is_left_out_with_the_reason() {
    let (_, details) = looked_at(2, MOST_FLOWS / 2 + 1, &["fair"], 0);
    assert!(details.left_out.unwrap().contains("20000 flows"));
    assert!(details.coflows.is_empty());
}

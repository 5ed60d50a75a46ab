//! Coflows up close: what is looked at, and what is left out.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade::{Comparison, Conditions, MOST_COFLOWS, MOST_FLOWS, Progress, Scenario, compare, details_of};
use cavalcade_metrics::Details;
use cavalcade_model::{Bytes, Flow, Instant, Nanos, PortId, WorkloadBuilder};

/// Runs policies over so many coflows of so many flows.
fn looked_at(coflows: usize, flows: usize, policies: &[&str], baseline: usize) -> (Comparison, Details) {
    // Of many each has two ports of its own beside few others, and they end together, or the run
    // itself would take long.
    let (sizes, ports) = if flows > 1 { (1, 1001) } else { (coflows, 2) };
    let mut builder = WorkloadBuilder::new(ports);
    let flow = |index: usize, size| {
        let src = index as u32 / (ports - 1) % ports;
        let dst = (src + 1 + index as u32 % (ports - 1)) % ports;
        Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO }
    };
    for coflow in 0..coflows {
        let size = |index| 1 + ((coflow + index) % sizes) as u64;
        let flows = (0..flows).map(|index| flow(coflow * (flows - 1) + index, size(index))).collect();
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
    assert!(details.left_out.unwrap().contains("1000000 flows"));
    assert!(details.coflows.is_empty());
}

#[test]
fn a_run_of_too_many_pieces_is_left_out_by_its_name_and_the_others_are_looked_at() {
    // Each of 2,900 flows gets another rate whenever one of the others ends: four million pieces
    // under fair sharing, 2,900 in turn.
    let (comparison, details) = looked_at(2_900, 1, &["fair", "fifo"], 0);
    assert_eq!(details.left_out.as_deref(), Some("fair (more than 4000000 pieces)"));
    assert_eq!(
        details.runs.iter().map(|&run| comparison.runs[run].label.as_str()).collect::<Vec<_>>(),
        ["fifo"]
    );
    assert!(
        details.coflows.len() == MOST_COFLOWS && details.coflows.iter().all(|coflow| coflow.runs.len() == 1)
    );
}

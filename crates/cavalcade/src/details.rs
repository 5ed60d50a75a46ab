//! Some coflows of a comparison up close: the runs that it shows first are repeated, and what they send is looked at.
//!
//! Runs are repeated, since which ones are shown first is known only after all of them, and what a run sends takes far more memory than when its
//! coflows finish. So it is done for traces that are small beside it, and for a few runs and coflows: those that a person would
//! look at.

use cavalcade_metrics::{CoflowDetails, Comparison, Details, SentByLink};
use cavalcade_model::{CoflowId, FlowId};

use crate::engine::{Engine, MOST_SENT, Watch};
use crate::error::Error;
use crate::parallel::{Progress, map};
use crate::scenario::Scenario;

/// The most flows of a workload whose coflows are looked at.
pub const MOST_FLOWS: usize = 20_000;
/// The most coflows that are looked at: those that take longest under the baseline.
pub const MOST_COFLOWS: usize = 200;
/// The most runs.
const MOST_RUNS: usize = 6;
/// Flows that are shown, of all coflows together, and of one coflow at least and at most.
const SHOWN: usize = 3_000;
const SHOWN_OF_ONE: (usize, usize) = (10, 60);

/// Looks at coflows of `comparison`, which is of `scenarios`: the longest under the baseline, under the runs that are shown first,
/// with those of their flows that finish last. Where the workload has more than [`MOST_FLOWS`] flows, a run sends in more than a
/// million pieces, or no run is on the fluid engine, it says so instead.
///
/// # Errors
/// If a run fails, which has not failed before, or was cancelled.
pub fn details_of(
    scenarios: &[Scenario],
    comparison: &Comparison,
    progress: &Progress,
) -> Result<Details, Error> {
    let is_fluid = |run: &usize| scenarios.get(*run).is_some_and(|one| *one.engine() == Engine::Fluid);
    let mut runs = comparison.featured();
    runs.retain(is_fluid);
    // The baseline stays: coflows are chosen by it.
    if let Some(at) = runs.iter().position(|&run| run == comparison.baseline).filter(|&at| at >= MOST_RUNS) {
        runs.swap(MOST_RUNS - 1, at);
    }
    runs.truncate(MOST_RUNS);
    let left_out = |reason: String| Ok(Details { left_out: Some(reason), ..Details::default() });
    let Some(first) = runs.first().map(|&run| &scenarios[run]) else {
        return left_out("no run is on the fluid engine".to_owned());
    };
    let workload = first.workload();
    if workload.flows().len() > MOST_FLOWS {
        return left_out(format!("the trace has more than {MOST_FLOWS} flows"));
    }
    let baseline = &comparison.baseline_run().cct;
    let mut coflows: Vec<usize> = (0..comparison.coflows.len()).collect();
    coflows.sort_by_key(|&coflow| (core::cmp::Reverse(baseline[coflow]), coflow));
    coflows.truncate(MOST_COFLOWS);
    let shown = (SHOWN / coflows.len().max(1)).clamp(SHOWN_OF_ONE.0, SHOWN_OF_ONE.1);
    let sent = map(runs.len(), |index| {
        let mut sent = Vec::new();
        let watch = Watch { progress: Some(progress), sent: Some(&mut sent), ..Watch::default() };
        scenarios[runs[index]].run_with(watch).map(|outcome| (outcome, sent))
    });
    let sent = sent.into_iter().collect::<Result<Vec<_>, Error>>()?;
    if sent.iter().any(|(_, sent)| sent.len() >= MOST_SENT) {
        return left_out(format!("a run sends in more than {MOST_SENT} pieces"));
    }
    let finish = &sent[0].0.flow_finish;
    let of = |&coflow: &usize| {
        let mut flows: Vec<FlowId> = workload
            .flow_ids(CoflowId::from_index(coflow))
            .map(|id| FlowId::from_index(id as usize))
            .collect();
        flows.sort_by_key(|flow| (core::cmp::Reverse(finish.get(flow.index())), *flow));
        flows.truncate(shown);
        let ends = |flow: &FlowId| {
            let flow = workload.flow(*flow);
            (flow.src.0, flow.dst.0, flow.size.get())
        };
        CoflowDetails { coflow, ends: flows.iter().map(ends).collect(), flows, runs: Vec::new() }
    };
    let mut coflows: Vec<CoflowDetails> = coflows.iter().map(of).collect();
    for (outcome, sent) in &sent {
        let by_link = SentByLink::new(workload, first.fabric(), sent);
        for details in &mut coflows {
            let id = CoflowId::from_index(details.coflow);
            details.runs.push(by_link.coflow(id, outcome.coflow_arrival[details.coflow], &details.flows));
        }
    }
    Ok(Details { left_out: None, runs, coflows })
}

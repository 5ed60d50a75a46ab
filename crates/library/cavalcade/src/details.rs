//! Some coflows of a comparison up close: the runs that it shows first are repeated, and what they
//! send is looked at.
//!
//! Runs are repeated, since which ones are shown first is known only after all of them, and what a
//! run sends takes far more memory than when its coflows finish. So it is done for a few runs and
//! coflows, those that a person would look at, and a run that sends in too many pieces is left out:
//! under fair sharing every flow has another rate at every event.

use cavalcade_metrics::{CoflowDetails, CoflowRun, Comparison, Details, Sent, SentByLink};
use cavalcade_model::{CoflowId, FlowId};

use crate::Outcome;
use crate::engine::{Engine, MOST_SENT, Watch};
use crate::error::Error;
use crate::parallel::{Progress, map};
use crate::scenario::Scenario;

/// The most flows of a workload whose coflows are looked at, so that repeating runs takes minutes.
pub const MOST_FLOWS: usize = 1_000_000;
/// The most coflows that are looked at: those that take longest under the baseline.
pub const MOST_COFLOWS: usize = 200;
/// The most runs.
const MOST_RUNS: usize = 6;
/// Flows that are shown, of all coflows together, and of one coflow at least and at most.
const SHOWN: usize = 3_000;
const SHOWN_OF_ONE: (usize, usize) = (10, 60);

/// Looks at coflows of `comparison`, which is of `scenarios`: the longest under the baseline, under
/// the runs that are shown first, with those of their flows that finish last. Notes instead what it
/// has left out: runs that send in more than four million pieces, or all, where the workload has
/// more than [`MOST_FLOWS`] flows or no run is on the fluid engine.
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
    let Some(&first) = runs.iter().find(|&&run| run == comparison.baseline).or(runs.first()) else {
        return left_out("no run is on the fluid engine".to_owned());
    };
    let flows = scenarios[first].workload().flows().len();
    if flows > MOST_FLOWS {
        return left_out(format!("the trace has more than {MOST_FLOWS} flows"));
    }
    let coflows = chosen(&scenarios[first], comparison, progress)?;
    let looked_at = map(runs.len(), |index| look(&scenarios[runs[index]], &coflows, progress));
    let looked_at = looked_at.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let mut details = Details { left_out: None, runs: Vec::new(), coflows };
    let mut without = Vec::new();
    for (run, looks) in runs.into_iter().zip(looked_at) {
        let Some(looks) = looks else {
            without.push(comparison.runs[run].label.as_str());
            continue;
        };
        details.runs.push(run);
        details.coflows.iter_mut().zip(looks).for_each(|(coflow, look)| coflow.runs.push(look));
    }
    if !without.is_empty() {
        details.left_out = Some(format!("{} (more than {MOST_SENT} pieces)", without.join(", ")));
    }
    if details.runs.is_empty() {
        details.coflows.clear();
    }
    Ok(details)
}

/// The coflows that are looked at, with those of their flows that finish last in this run.
fn chosen(
    scenario: &Scenario,
    comparison: &Comparison,
    progress: &Progress,
) -> Result<Vec<CoflowDetails>, Error> {
    let workload = scenario.workload();
    let finish = scenario.run_with(Watch { progress: Some(progress), ..Watch::default() })?.flow_finish;
    let baseline = &comparison.baseline_run().cct;
    let mut coflows: Vec<usize> = (0..comparison.coflows.len()).collect();
    coflows.sort_by_key(|&coflow| (core::cmp::Reverse(baseline[coflow]), coflow));
    coflows.truncate(MOST_COFLOWS);
    let shown = (SHOWN / coflows.len().max(1)).clamp(SHOWN_OF_ONE.0, SHOWN_OF_ONE.1);
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
    Ok(coflows.iter().map(of).collect())
}

/// The history of each coflow in a run; `None` if it sends in too many pieces.
fn look(
    scenario: &Scenario,
    coflows: &[CoflowDetails],
    progress: &Progress,
) -> Result<Option<Vec<CoflowRun>>, Error> {
    let Some((outcome, sent)) = sent_in(scenario, progress)? else { return Ok(None) };
    let by_link = SentByLink::new(scenario.workload(), scenario.fabric(), &sent);
    let of = |details: &CoflowDetails| {
        let id = CoflowId::from_index(details.coflow);
        by_link.coflow(id, outcome.coflow_arrival[details.coflow], &details.flows)
    };
    Ok(Some(coflows.iter().map(of).collect()))
}

/// Runs a scenario and keeps what it sends. Returns `None` as soon as that is more than
/// [`MOST_SENT`] pieces: the run is cancelled there.
///
/// # Errors
/// If the run fails or was cancelled.
pub(crate) fn sent_in(
    scenario: &Scenario,
    progress: &Progress,
) -> Result<Option<(Outcome, Vec<Sent>)>, Error> {
    let mut sent = Vec::new();
    let ran =
        scenario.run_with(Watch { progress: Some(progress), sent: Some(&mut sent), ..Watch::default() });
    if sent.len() > MOST_SENT && !progress.is_cancelled() {
        return Ok(None);
    }
    ran.map(|outcome| Some((outcome, sent)))
}

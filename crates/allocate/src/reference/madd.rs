//! MADD, minimum allocation for desired duration (Varys §5.3, Pseudocode 1, `allocBandwidth`).
//!
//! Coflow after coflow, by priority: Γ is the time that the coflow needs on what is left, the largest load over capacity;
//! each of its flows is sent at bytes left over Γ, so that all end together. A coflow with a link on which nothing is left
//! waits. What is left over at the end goes out in the same order, each flow taking all that it can (Varys §5.3.4).
//!
//! Varys computes rates when a coflow arrives or ends; between two such events they stay (see [`Past`](super::Past)).

use std::ops::Range;

use super::greedy::take;
use super::{Flow, NEGLIGIBLE};

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    let mut loads = vec![0.0; capacity.len()];
    // Runs of flows of one coflow, put in order.
    let coflow_of = |run: &Range<usize>| (flows[run.start].priority(), flows[run.start].coflow);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for run in flows.chunk_by(|a, b| a.coflow == b.coflow) {
        let first = runs.last().map_or(0, |last| last.end);
        runs.push(first..first + run.len());
    }
    runs.sort_by_key(coflow_of);
    for coflow in runs.chunk_by(|a, b| coflow_of(a) == coflow_of(b)) {
        let members = || coflow.iter().cloned().flatten();
        let links =
            || members().flat_map(|flow| flows[flow].path.iter().map(move |&link| (flow, link as usize)));
        links().for_each(|(_, link)| loads[link] = 0.0);
        links().for_each(|(flow, link)| loads[link] += flows[flow].remaining);
        let is_full = |link: usize| left[link] <= NEGLIGIBLE * capacity[link];
        let time = |(_, link)| if is_full(link) { f64::INFINITY } else { loads[link] / left[link] };
        let duration = links().map(time).fold(0.0, f64::max);
        for flow in members() {
            rates[flow] =
                if duration > 0.0 { flows[flow].remaining / duration } else { 0.0 }.min(flows[flow].cap);
            for &link in flows[flow].path {
                left[link as usize] = (left[link as usize] - rates[flow]).max(0.0);
            }
        }
    }
    for flow in runs.into_iter().flatten() {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

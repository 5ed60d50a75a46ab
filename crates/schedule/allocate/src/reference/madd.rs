//! MADD, minimum allocation for desired duration (Varys §5.3, Pseudocode 1, `allocBandwidth`), and
//! who gets what it leaves.
//!
//! 1. Coflow after coflow, by priority: Γ is the time that the coflow needs on what is left, the
//!    largest load over capacity; each of its flows is sent at bytes left over Γ, so that all end
//!    together. A coflow with a full link waits.
//! 2. The coflows that wait share what is left: each link is parted evenly between those of their
//!    flows that find room on all of their links, and a flow gets the least of its parts.
//! 3. What is left then goes out flow by flow, coflows in the order of their numbers, which is that
//!    of arrival, each flow taking all that it can.
//!
//! The last two are what the authors' simulator does, which the paper sums up as giving unused
//! bandwidth out. Without the second a waiting coflow gets whole links for some of its flows and
//! nothing for others, and goes on so until a coflow arrives or ends: on the Facebook trace the
//! mean completion time is nearly twice as long (`docs/policies.md`, Varys).
//!
//! Varys computes rates when a coflow arrives or ends; between two such events they stay (see
//! [`Past`](super::Past)).

use std::ops::Range;

use cavalcade_model::Priority;

use super::even_parts;
use super::greedy::take;
use super::{Flow, NEGLIGIBLE};

/// The priority of all that wait, when they share.
const ALIKE: Priority = Priority::new(0, 0);

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
    let mut waiting: Vec<usize> = Vec::new();
    for coflow in runs.chunk_by(|a, b| coflow_of(a) == coflow_of(b)) {
        let members = || coflow.iter().cloned().flatten();
        let links =
            || members().flat_map(|flow| flows[flow].path.iter().map(move |&link| (flow, link as usize)));
        if links().any(|(_, link)| is_full(capacity, &left, link)) {
            waiting.extend(members());
            continue;
        }
        links().for_each(|(_, link)| loads[link] = 0.0);
        links().for_each(|(flow, link)| loads[link] += flows[flow].remaining);
        let duration = links().map(|(_, link)| loads[link] / left[link]).fold(0.0, f64::max);
        for flow in members().filter(|_| duration > 0.0) {
            rates[flow] = (flows[flow].remaining / duration).min(flows[flow].cap);
            give(&flows[flow], rates[flow], &mut left);
        }
    }
    share(capacity, flows, waiting, &mut left, &mut rates);
    let mut all: Vec<usize> = (0..flows.len()).collect();
    all.sort_by_key(|&flow| (flows[flow].coflow, flow));
    for flow in all {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

fn is_full(capacity: &[f64], left: &[f64], link: usize) -> bool {
    left[link] <= NEGLIGIBLE * capacity[link]
}

fn give(flow: &Flow<'_>, rate: f64, left: &mut [f64]) {
    flow.path.iter().for_each(|&link| left[link as usize] = (left[link as usize] - rate).max(0.0));
}

/// Gives those of these flows that find room even parts of what links have left.
fn share(capacity: &[f64], flows: &[Flow<'_>], mut waiting: Vec<usize>, left: &mut [f64], rates: &mut [f64]) {
    waiting.retain(|&flow| !flows[flow].path.iter().any(|&link| is_full(capacity, left, link as usize)));
    let alike = |&flow: &usize| Flow { priorities: &[ALIKE], ..flows[flow] };
    let parts = even_parts::allocate(left, &waiting.iter().map(alike).collect::<Vec<_>>(), None);
    for (flow, part) in waiting.into_iter().zip(parts) {
        rates[flow] = part;
        give(&flows[flow], part, left);
    }
}

//! MADD, minimum allocation for desired duration (Varys §5.3, Pseudocode 1, `allocBandwidth`).
//!
//! Coflow after coflow, by priority: Γ is the time that the coflow needs on what is left, the largest load over capacity;
//! each of its flows is sent at bytes left over Γ, so that all end together. A coflow with a link on which nothing is left
//! waits. What is left over at the end goes out in the same order, each flow taking all that it can (Varys §5.3.4).
//!
//! Varys computes rates when a coflow arrives or ends; between two such events they stay (see [`Past`](super::Past)).

use super::greedy::{loads, take};
use super::{Flow, NEGLIGIBLE};

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| (flows[flow].priority(), flows[flow].coflow, flow));
    for coflow in order.chunk_by(|&a, &b| flows[a].coflow == flows[b].coflow) {
        let members: Vec<Flow<'_>> = coflow.iter().map(|&flow| flows[flow]).collect();
        let time = |((_, link), bytes): (&(u32, u32), &f64)| {
            let left = left[*link as usize];
            if left > NEGLIGIBLE * capacity[*link as usize] { bytes / left } else { f64::INFINITY }
        };
        let duration = loads(&members, |flow| flow.remaining).iter().map(time).fold(0.0, f64::max);
        for &flow in coflow {
            rates[flow] = (flows[flow].remaining / duration).min(flows[flow].cap);
            for &link in flows[flow].path {
                left[link as usize] = (left[link as usize] - rates[flow]).max(0.0);
            }
        }
    }
    for flow in order {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

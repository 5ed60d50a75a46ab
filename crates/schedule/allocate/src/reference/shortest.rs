//! Shortest flow first, preemptively: what pFabric (§3) approximates.
//!
//! By priority; inside, the flow with the fewest bytes left takes all that its links have left,
//! then the next.

use super::greedy::take;
use super::{Flow, steps};

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    for flow in order(flows) {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

fn order(flows: &[Flow<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| (flows[flow].priority(), steps(flows[flow].remaining), flow));
    order
}

/// Returns after how many nanoseconds at these rates the order may change although no flow has
/// come, gone or ended: when a flow has caught up with the one before it, and is a 1024th of a byte
/// further on.
pub fn next_overtaking(flows: &[Flow<'_>], rates: &[f64]) -> f64 {
    const STEP: f64 = 1.0 / 1024.0;
    let mut soonest = f64::INFINITY;
    for pair in order(flows).windows(2) {
        let (ahead, behind) = (pair[0], pair[1]);
        let closing = rates[behind] - rates[ahead];
        if closing > 0.0 && flows[ahead].priority() == flows[behind].priority() {
            let apart = flows[behind].remaining - flows[ahead].remaining;
            // Level flows go by number; a step further on that is decided as well.
            soonest = soonest.min((if apart > STEP { apart } else { apart.max(0.0) + STEP }) / closing);
        }
    }
    soonest
}

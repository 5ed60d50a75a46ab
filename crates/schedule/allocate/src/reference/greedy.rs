//! Greedy: each flow in turn takes all that its links have left.
//!
//! Coflows go by priority. Inside a coflow what is being served comes first: it keeps its rate, as
//! far as coflows before it leave that, so that no flow is interrupted for another one of its own
//! coflow. Then all flows take what is left, those on the fullest links first, since the link with
//! the most bytes of a coflow decides when it ends (Varys §5.3). Any allocation in which flows go
//! by a fixed order of coflows, and none waits while its links are idle, is within four times of
//! the best for that order (Sincronia, Theorem 1).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Flow, NEGLIGIBLE, steps};

/// `weight` is what a flow adds to its links: its bytes left; or one, where the order may not
/// depend on sizes.
pub(super) fn allocate(
    capacity: &[f64],
    flows: &[Flow<'_>],
    rates_before: &[f64],
    weight: impl Fn(&Flow<'_>) -> f64,
) -> Vec<f64> {
    let loads = loads(flows, weight);
    // Its links, the fullest first.
    let fullest = |flow: &Flow<'_>| {
        let load = |&link: &u32| (Reverse(steps(loads[&(flow.coflow, link)])), link);
        let mut links: Vec<(Reverse<u64>, u32)> = flow.path.iter().map(load).collect();
        links.sort_unstable();
        links
    };
    let rank = |flow: usize| (flows[flow].priority(), flows[flow].coflow);
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| (rank(flow), flow));
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    for coflow in order.chunk_by_mut(|&a, &b| rank(a) == rank(b)) {
        for &flow in &*coflow {
            let kept = Flow { cap: flows[flow].cap.min(rates_before[flow]), ..flows[flow] };
            take(capacity, &kept, &mut left, &mut rates[flow]);
        }
        coflow.sort_by_cached_key(|&flow| (fullest(&flows[flow]), flow));
        for &flow in &*coflow {
            take(capacity, &flows[flow], &mut left, &mut rates[flow]);
        }
    }
    rates
}

/// Lets a flow take all that its links have left, up to its cap.
pub(super) fn take(capacity: &[f64], flow: &Flow<'_>, left: &mut [f64], rate: &mut f64) {
    let more = flow.least(left).min(flow.cap - *rate);
    if more > NEGLIGIBLE * flow.least(capacity) {
        *rate += more;
        flow.path.iter().for_each(|&link| left[link as usize] -= more);
    }
}

/// The sum of the weights of each coflow's flows on each link.
pub(super) fn loads(flows: &[Flow<'_>], weight: impl Fn(&Flow<'_>) -> f64) -> BTreeMap<(u32, u32), f64> {
    let mut loads = BTreeMap::new();
    for flow in flows {
        for &link in flow.path {
            *loads.entry((flow.coflow, link)).or_insert(0.0) += weight(flow);
        }
    }
    loads
}

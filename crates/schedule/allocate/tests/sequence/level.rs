//! Shortest flow first where one flow is just drawing level with another.
//!
//! Within a 1024th of a byte rounding decides which of the two ranks first, and the allocator
//! reorders them once they are that far apart and two of its tolerances, of a thousandth of a
//! nanosecond, have passed. Until then either may be first.

use cavalcade_allocate::reference::{self, Past};
use cavalcade_model::Terms;

const STEP: f64 = 1.0 / 1024.0;

/// Returns the rates by the definition, with flows that are level in the order for which
/// `is_found` holds, if it does for one.
pub(crate) fn allocate(
    terms: &Terms,
    capacity: &[f64],
    flows: &mut [reference::Flow<'_>],
    past: Past<'_>,
    is_found: impl Fn(&[f64]) -> bool,
) -> Vec<f64> {
    let mut rates = reference::allocate(terms, capacity, flows, past);
    if is_found(&rates) {
        return rates;
    }
    for (first, second) in level(flows, past.rates) {
        flows[first].remaining = flows[second].remaining + STEP;
        rates = reference::allocate(terms, capacity, flows, past);
        if is_found(&rates) {
            break;
        }
    }
    rates
}

/// Finds all pairs of flows of which one is just drawing level with the other, the one that ranks
/// first before the other one.
fn level(flows: &[reference::Flow<'_>], rates: &[f64]) -> Vec<(usize, usize)> {
    let rank = |flow: usize| ((flows[flow].remaining / STEP + 0.5) as u64, flow);
    let pairs = (0..flows.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let is_level = |&(one, other): &(usize, usize)| {
        let [a, b] = [&flows[one], &flows[other]];
        let (apart, gain) = ((a.remaining - b.remaining).abs(), (rates[one] - rates[other]).abs());
        a.priorities == b.priorities && gain > 0.0 && apart < 1.01 * STEP + 2.02e-3 * gain
    };
    let in_order = |(one, other)| if rank(one) < rank(other) { (one, other) } else { (other, one) };
    pairs.filter(is_level).map(in_order).collect()
}

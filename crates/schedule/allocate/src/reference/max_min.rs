//! Max-min fairness in strict classes (Bertsekas and Gallager, §6.5.2: progressive filling).
//!
//! Priority after priority, on what those before it left. Within one, all flows rise together;
//! where a link is full, its flows stop; so on with the others. A cap is a link that only its flow
//! crosses. Where flows have weights, one of weight two rises twice as fast.
//!
//! O(flows × hops × log links).

use std::collections::{BTreeMap, BTreeSet};

use super::{Flow, NEGLIGIBLE};

/// Returns max-min rates in strict classes.
pub fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let members: Vec<usize> = (0..flows.len()).collect();
    let mut rates = vec![0.0; flows.len()];
    strict(capacity, flows, members, &mut capacity.to_vec(), &mut rates);
    rates
}

/// Returns max-min rates where a flow counts for as much as its class says.
pub(super) fn by_weight(capacity: &[f64], flows: &[Flow<'_>], weights: &[u32]) -> Vec<f64> {
    let members: Vec<usize> = (0..flows.len()).collect();
    let mut rates = vec![0.0; flows.len()];
    let last = weights.len() - 1;
    let weight = |flow: usize| f64::from(weights[usize::from(flows[flow].priority().class).min(last)]);
    fill(flows, &members, weight, &mut capacity.to_vec(), &mut rates);
    rates
}

/// Gives `members` their rates by priority, max-min among equals, out of what links have `left`.
pub(super) fn strict(
    capacity: &[f64],
    flows: &[Flow<'_>],
    mut members: Vec<usize>,
    left: &mut [f64],
    rates: &mut [f64],
) {
    members.sort_by_key(|&flow| (flows[flow].priority(), flow));
    for equals in members.chunk_by(|&a, &b| flows[a].priority() == flows[b].priority()) {
        fill(flows, equals, |_| 1.0, left, rates);
        for &link in equals.iter().flat_map(|&flow| flows[flow].path) {
            let left = &mut left[link as usize];
            *left = if *left <= NEGLIGIBLE * capacity[link as usize] { 0.0 } else { *left };
        }
    }
}

/// A link that is being filled.
#[derive(Default)]
struct Filling {
    left: f64,
    /// The weight of the flows that still rise, which is a whole number, and all that did.
    rising: f64,
    flows: Vec<usize>,
}

impl Filling {
    /// The rate, for a weight of one, at which the link is full if all that rise have it. Bits of
    /// numbers that are not negative order as they do.
    fn level(&self) -> u64 {
        (self.left / self.rising).to_bits()
    }
}

/// Raises the rates of these flows together until each has met a full link.
pub(super) fn fill(
    flows: &[Flow<'_>],
    equals: &[usize],
    weight: impl Fn(usize) -> f64,
    left: &mut [f64],
    rates: &mut [f64],
) {
    let own = |flow: usize| (left.len() + flow) as u32;
    let links_of = |flow: usize| flows[flow].path.iter().copied().chain([own(flow)]);
    let mut filling: BTreeMap<u32, Filling> = BTreeMap::new();
    for &flow in equals {
        rates[flow] = 0.0;
        // One that meets a full link before it rises is no part of it.
        if flows[flow].least(left) > 0.0 {
            for link in links_of(flow).filter(|&link| link != own(flow) || flows[flow].cap < f64::INFINITY) {
                let entry = filling.entry(link).or_default();
                entry.left = left.get(link as usize).copied().unwrap_or(flows[flow].cap.max(0.0));
                entry.rising += weight(flow);
                entry.flows.push(flow);
            }
        }
    }
    let mut next: BTreeSet<(u64, u32)> = filling.iter().map(|(&link, entry)| (entry.level(), link)).collect();
    let mut rising: BTreeSet<usize> =
        filling.values().flat_map(|entry| entry.flows.iter().copied()).collect();
    while let Some((level, full)) = next.pop_first() {
        for flow in std::mem::take(&mut filling.get_mut(&full).expect("it waits to be full").flows) {
            if !rising.remove(&flow) {
                continue;
            }
            rates[flow] = f64::from_bits(level) * weight(flow);
            for link in links_of(flow) {
                let Some(entry) = filling.get_mut(&link) else { continue };
                next.remove(&(entry.level(), link));
                entry.left = (entry.left - rates[flow]).max(0.0);
                entry.rising -= weight(flow);
                if entry.rising > 0.0 && link != full {
                    next.insert((entry.level(), link));
                }
            }
        }
    }
    for (&link, entry) in filling.range(..left.len() as u32) {
        left[link as usize] = entry.left;
    }
}

//! Max-min fairness in strict classes where every link has priorities of its own: what the explicit rates of Baraat's
//! switches come to (§4.3.2 Algorithm 1, §4.3.3 Algorithm 2).
//!
//! # Derivation
//! Algorithm 1: a link gives a class what the demands of the classes before it leave, C − Σ D. A flow whose demand fits in
//! is not held back there (NR = D); else the flows of the class share what it is given, max-min (line 8 divides evenly; virtual
//! capacity gives out again what some of them cannot use). Algorithm 2: a sender demands the least that any link on its path
//! grants it, and its line rate as soon as none holds it back. In the limit (δ and the round trip going to zero) a flow's
//! demand at a link is what its *other* links grant, and rates stand still exactly where both hold at once: every flow
//! that could use more crosses a link that is full, and on which all that have more go before it. So no link idles while a
//! flow that could use all of its links waits.
//!
//! # Which of several
//! Where links rank flows alike along paths there is one such allocation. Where they contradict each other there may be
//! several: of two flows over the same two links, ranked A, B and B, A, either may have everything. A model of the two
//! algorithms, with delays, ends in one or the other, by who asks first; SPC over packets has not been tried. Here links answer
//! in order of their numbers, from demands that are not held back, so that the links where flows enter decide: that is
//! deferred acceptance (Gale and Shapley; Baïou and Balinski for amounts), with the best result for the entering side.
//!
//! On one switch that always settles, since demands only fall. Behind three hops and more there are rings that never do, nor
//! does SPC on them: three links, each of which ranks another of three flows first. After [`SWEEPS`] rounds demands may only
//! fall, which ends; what links then have left goes out by the best priority that a flow has anywhere.

use cavalcade_model::Priority;

use super::greedy::take;
use super::{Flow, NEGLIGIBLE};

/// Rounds of answers after which links are taken to chase each other.
const SWEEPS: u32 = 2_000;

/// A change below this share of itself is rounding.
const SETTLED: f64 = 1e-13;

/// The flows at a link: number, and which hop of its path the link is.
type Crossing = Vec<(usize, usize)>;

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>]) -> Vec<f64> {
    let mut links: Vec<Crossing> = vec![Vec::new(); capacity.len()];
    for (number, flow) in flows.iter().enumerate() {
        for (hop, &link) in flow.path.iter().enumerate() {
            links[link as usize].push((number, hop));
        }
    }
    for (number, crossing) in links.iter_mut().enumerate() {
        crossing.sort_by_key(|&(flow, hop)| (flows[flow].priorities[hop], flow));
        debug_assert!(crossing.iter().all(|&(flow, hop)| flows[flow].path[hop] as usize == number));
    }
    // What each link of its path lets a flow have; infinite where it does not hold the flow back.
    let mut granted: Vec<Vec<f64>> = flows.iter().map(|flow| vec![f64::INFINITY; flow.path.len()]).collect();
    let mut sweep = 0;
    let mut moved = true;
    while moved && sweep < 2 * SWEEPS {
        moved = false;
        for (crossing, &capacity) in links.iter().zip(capacity) {
            moved |= answer(crossing, capacity, flows, &mut granted, sweep >= SWEEPS);
        }
        sweep += 1;
    }
    let bound = |flow: usize| granted[flow].iter().copied().fold(flows[flow].cap, f64::min);
    if !moved && sweep <= SWEEPS {
        return (0..flows.len()).map(bound).collect();
    }
    let best = |flow: usize| flows[flow].priorities.iter().copied().min().unwrap_or_default();
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&flow| (best(flow), flow));
    let (mut left, mut rates) = (capacity.to_vec(), vec![0.0; flows.len()]);
    for &flow in &order {
        take(capacity, &Flow { cap: bound(flow), ..flows[flow] }, &mut left, &mut rates[flow]);
    }
    for &flow in &order {
        take(capacity, &flows[flow], &mut left, &mut rates[flow]);
    }
    rates
}

/// Lets a link grant its capacity down its classes. Returns whether any grant has changed.
fn answer(
    crossing: &Crossing,
    capacity: f64,
    flows: &[Flow<'_>],
    granted: &mut [Vec<f64>],
    only_fall: bool,
) -> bool {
    let priority = |&(flow, hop): &(usize, usize)| -> Priority { flows[flow].priorities[hop] };
    let (mut left, mut moved) = (capacity, false);
    for class in crossing.chunk_by(|a, b| priority(a) == priority(b)) {
        let demand = |&(flow, hop): &(usize, usize)| {
            let elsewhere = granted[flow].iter().enumerate().filter(|(other, _)| *other != hop);
            elsewhere.map(|(_, &granted)| granted).fold(flows[flow].cap, f64::min)
        };
        let demands: Vec<f64> = class.iter().map(demand).collect();
        let level = level(&demands, left);
        for (&(flow, hop), demand) in class.iter().zip(demands) {
            left = (left - demand.min(level)).max(0.0);
            let before = granted[flow][hop];
            let mut grant = if demand > level { level } else { f64::INFINITY };
            if only_fall {
                grant = grant.min(before);
            }
            let is_settled = grant == before || (grant - before).abs() <= SETTLED * before.min(capacity);
            if !is_settled {
                granted[flow][hop] = grant;
                moved = true;
            }
        }
        if left <= NEGLIGIBLE * capacity {
            left = 0.0;
        }
    }
    moved
}

/// The level at which flows of these demands share `capacity` max-min; infinite if it is enough for all.
fn level(demands: &[f64], mut capacity: f64) -> f64 {
    let mut ascending = demands.to_vec();
    ascending.sort_by(f64::total_cmp);
    for (index, &demand) in ascending.iter().enumerate() {
        let share = capacity / (ascending.len() - index) as f64;
        if demand > share {
            return share;
        }
        capacity -= demand;
    }
    f64::INFINITY
}

//! The best schedule of a tiny workload whose sizes and arrivals are whole slots, by exhaustive
//! search over matchings.
//!
//! In a slot, each ingress sends at most one unit and each egress receives at most one. Slotted
//! schedules are schedules, so the best of them is at or above the optimum.

use std::collections::HashMap;

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Fabric, Flow, Instant, Nanos, PortId, Stage, Task, TaskClass, Work,
    Workload, WorkloadBuilder,
};
use proptest::collection::vec;
use proptest::prelude::*;

const PORTS: u32 = 2;
/// Nanoseconds; a unit is one byte at eight bits a second.
const SLOT: u64 = 1_000_000_000;
/// The pairs of ports that can be served together, at most.
const MATCHINGS: [[usize; 2]; 2] = [[0, 3], [1, 2]];

/// Arrival, weight, and units from port to port: 0→0, 0→1, 1→0, 1→1.
pub(crate) type Drawn = (u64, u32, [u8; 4]);

pub(crate) fn coflows() -> impl Strategy<Value = Vec<Drawn>> {
    let units = [0u8..3, 0u8..3, 0u8..3, 0u8..3];
    let units = units.prop_filter("a coflow needs a flow", |units| units.iter().any(|&unit| unit > 0));
    vec((0u64..3, 1u32..4, units), 1..4)
}

pub(crate) fn workload(coflows: &[Drawn]) -> (Workload, Fabric) {
    let mut builder = WorkloadBuilder::new(PORTS);
    for (index, &(arrival, weight, units)) in coflows.iter().enumerate() {
        let flow = |pair: u32| Flow {
            src: PortId(pair / 2),
            dst: PortId(pair % 2),
            size: Bytes(u64::from(units[pair as usize])),
            wave: Nanos::ZERO,
        };
        let flows = (0..4).map(flow).filter(|flow| flow.size > Bytes::ZERO).collect();
        let work = Work::Transfer(CoflowId::default());
        let stage = Stage { starts_after: Vec::new(), finishes_after: Vec::new(), work };
        let task = Task {
            name: index.to_string(),
            job: None,
            arrival: Instant(arrival * SLOT),
            deadline: None,
            class: TaskClass::Online,
            weight,
            stages: vec![stage],
        };
        builder.push(task, vec![Coflow { flows }]);
    }
    let fabric = Fabric::big_switch(PORTS, BitsPerSec(8)).expect("two ports at eight bits a second");
    (builder.build().expect("what is drawn is valid"), fabric)
}

/// The least sum of weight times completion time of any slotted schedule, in nanoseconds.
pub(crate) fn least_sum(coflows: &[Drawn], offline: bool, weighted: bool) -> u128 {
    let terms = coflows.iter().map(|&(arrival, weight, _)| {
        (if offline { 0 } else { arrival }, if weighted { u64::from(weight) } else { 1 })
    });
    let mut search = Search { terms: terms.collect(), known: HashMap::new() };
    let left: Vec<[u8; 4]> = coflows.iter().map(|&(.., units)| units).collect();
    u128::from(search.least(0, &left)) * u128::from(SLOT)
}

struct Search {
    /// Arrival and weight of each coflow.
    terms: Vec<(u64, u64)>,
    known: HashMap<(u64, Vec<[u8; 4]>), u64>,
}

impl Search {
    /// The least weight that waits, added up over the slots from `now` on.
    fn least(&mut self, now: u64, left: &[[u8; 4]]) -> u64 {
        if left.iter().flatten().all(|&units| units == 0) {
            return 0;
        }
        let state = (now, left.to_vec());
        if let Some(&least) = self.known.get(&state) {
            return least;
        }
        let there: Vec<usize> = (0..left.len()).filter(|&coflow| self.terms[coflow].0 <= now).collect();
        let waits = |&&coflow: &&usize| left[coflow].iter().any(|&units| units > 0);
        let waiting: u64 = there.iter().filter(waits).map(|&coflow| self.terms[coflow].1).sum();
        let mut best = u64::MAX;
        for [first, second] in MATCHINGS {
            for a in takers(&there, left, first) {
                for b in takers(&there, left, second) {
                    // Idling never helps, and a slot that serves no job would be met again and
                    // again.
                    if a.is_none() && b.is_none() && waiting > 0 {
                        continue;
                    }
                    let mut next = left.to_vec();
                    a.into_iter().for_each(|coflow| next[coflow][first] -= 1);
                    b.into_iter().for_each(|coflow| next[coflow][second] -= 1);
                    best = best.min(self.least(now + 1, &next));
                }
            }
        }
        self.known.insert(state, waiting + best);
        waiting + best
    }
}

/// Lists the jobs that could be served on a pair, and none.
fn takers(there: &[usize], left: &[[u8; 4]], pair: usize) -> Vec<Option<usize>> {
    let able: Vec<Option<usize>> = there.iter().copied().filter(|&c| left[c][pair] > 0).map(Some).collect();
    if able.is_empty() { vec![None] } else { able }
}

#[test]
fn two_coflows_on_one_pair_go_one_after_the_other() {
    let coflows = [(0, 1, [2, 0, 0, 0]), (0, 1, [1, 0, 0, 0])];
    assert_eq!(least_sum(&coflows, false, false), u128::from(SLOT) * (1 + 3));
}

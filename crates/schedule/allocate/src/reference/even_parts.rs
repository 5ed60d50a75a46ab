//! Even parts: each link parts its capacity by itself, and nothing is given on.
//!
//! On each link the flows of the best priority have even parts of the capacity; where classes are
//! weighted, each class that is present has its part by weight, for its flows of the best order. A
//! flow is sent at the least of its parts. What it cannot use of the others is lost, which is what
//! tells this from max-min: so simulators share that go over the flows once.
//!
//! Links that disagree on who goes first lose most: each serves a flow that the other holds back.
//! In strict classes two may wait for each other for ever; whether they can is up to the policy.
//!
//! O(flows × hops × log flows).

use std::collections::BTreeMap;

use cavalcade_model::Priority;

use super::Flow;

impl Flow<'_> {
    fn priority_at(&self, hop: usize) -> Priority {
        self.priorities.get(hop).copied().unwrap_or(self.priorities[0])
    }
}

/// The flows of the best priority in each class on a link; without weights all classes are one.
type Served = BTreeMap<u16, (Priority, usize)>;

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>], weights: Option<&Vec<u32>>) -> Vec<f64> {
    let class = |priority: Priority| if weights.is_some() { priority.class } else { 0 };
    let weight = |class: u16| weights.map_or(1.0, |weights| f64::from(weights[usize::from(class)]));
    let mut served: Vec<Served> = vec![Served::new(); capacity.len()];
    for flow in flows {
        for (hop, &link) in flow.path.iter().enumerate() {
            let priority = flow.priority_at(hop);
            let (best, count) = served[link as usize].entry(class(priority)).or_insert((priority, 0));
            match priority.cmp(best) {
                core::cmp::Ordering::Less => (*best, *count) = (priority, 1),
                core::cmp::Ordering::Equal => *count += 1,
                core::cmp::Ordering::Greater => {}
            }
        }
    }
    let total: Vec<f64> =
        served.iter().map(|served| served.keys().map(|&class| weight(class)).sum::<f64>()).collect();
    let part = |flow: &Flow<'_>, hop: usize, link: usize| {
        let priority = flow.priority_at(hop);
        let (best, count) = served[link][&class(priority)];
        let share = weight(class(priority)) / total[link];
        if priority == best { capacity[link] * share / count as f64 } else { 0.0 }
    };
    let least = |flow: &Flow<'_>| {
        let parts = flow.path.iter().enumerate().map(|(hop, &link)| part(flow, hop, link as usize));
        parts.fold(flow.cap.max(0.0), f64::min)
    };
    flows.iter().map(least).collect()
}

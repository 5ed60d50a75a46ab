//! Max-min fairness in weighted classes (Aalo, Pseudocode 1).
//!
//! 1. Each link offers its capacity by weight to the classes that are present there; each class
//!    fills what it is offered, by order and max-min inside.
//! 2. What is then free on a link is reserved for the classes that used up their offer there: by
//!    weight, or for the highest of them ([`Excess`]).
//! 3. From the highest class on, each fills all that the others neither use nor have reserved.

use std::collections::BTreeMap;

use cavalcade_model::Excess;

use super::max_min::strict;
use super::{Flow, NEGLIGIBLE};

/// A class, with what each link offers it and what of that it uses.
struct Class {
    weight: f64,
    members: Vec<usize>,
    offered: Vec<f64>,
    used: Vec<f64>,
}

impl Class {
    fn fill(&mut self, capacity: &[f64], flows: &[Flow<'_>], rates: &mut [f64]) {
        let mut left = self.offered.clone();
        strict(capacity, flows, self.members.clone(), &mut left, rates);
        self.used = self.offered.iter().zip(left).map(|(offered, left)| offered - left).collect();
    }

    fn wants_more(&self, link: usize, capacity: &[f64]) -> bool {
        let offered = self.offered[link];
        offered > 0.0 && self.used[link] >= offered - NEGLIGIBLE * capacity[link]
    }
}

pub(super) fn allocate(capacity: &[f64], flows: &[Flow<'_>], weights: &[u32], excess: Excess) -> Vec<f64> {
    let mut rates = vec![0.0; flows.len()];
    let mut classes = first_offers(capacity, flows, weights);
    classes.iter_mut().for_each(|class| class.fill(capacity, flows, &mut rates));
    // What each class uses or has reserved, and of each link the sum of that.
    let mut claims: Vec<Vec<f64>> = classes.iter().map(|class| class.used.clone()).collect();
    for link in 0..capacity.len() {
        let free = capacity[link] - classes.iter().map(|class| class.used[link]).sum::<f64>();
        let mut wanting: Vec<usize> =
            (0..classes.len()).filter(|&class| classes[class].wants_more(link, capacity)).collect();
        if excess == Excess::Highest {
            wanting.truncate(1);
        }
        let total: f64 = wanting.iter().map(|&class| classes[class].weight).sum();
        for class in wanting.into_iter().filter(|_| free > NEGLIGIBLE * capacity[link]) {
            claims[class][link] += free * classes[class].weight / total;
        }
    }
    let mut claimed: Vec<f64> =
        (0..capacity.len()).map(|link| claims.iter().map(|claim| claim[link]).sum()).collect();
    for (class, claim) in classes.iter_mut().zip(&claims) {
        for (link, claimed) in claimed.iter_mut().enumerate() {
            *claimed -= claim[link];
            class.offered[link] = (capacity[link] - *claimed).max(0.0);
        }
        class.fill(capacity, flows, &mut rates);
        claimed.iter_mut().zip(&class.used).for_each(|(claimed, used)| *claimed += used);
    }
    rates
}

/// Splits each link by weight between the classes that have flows there.
fn first_offers(capacity: &[f64], flows: &[Flow<'_>], weights: &[u32]) -> Vec<Class> {
    let mut members: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (number, flow) in flows.iter().enumerate() {
        members.entry(flow.priority().class).or_default().push(number);
    }
    let mut classes = Vec::new();
    let mut present = vec![0.0; capacity.len()];
    for (class, members) in members {
        let weight = f64::from(weights[usize::from(class).min(weights.len() - 1)]);
        let mut offered = vec![0.0; capacity.len()];
        for &link in members.iter().flat_map(|&flow| flows[flow].path) {
            if offered[link as usize] == 0.0 {
                offered[link as usize] = weight;
                present[link as usize] += weight;
            }
        }
        classes.push(Class { weight, members, offered, used: Vec::new() });
    }
    for class in &mut classes {
        for (link, offered) in class.offered.iter_mut().enumerate().filter(|(_, offered)| **offered > 0.0) {
            *offered *= capacity[link] / present[link];
        }
    }
    classes
}

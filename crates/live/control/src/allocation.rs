//! From priorities to gates: which flows may send now, and which of them at a rate.
//!
//! The definition of the policy's discipline gives each flow's rate. Gates carry that out with as
//! little as is needed:
//!
//! - A flow without a rate is *off*: it would only contend at its receiver (Aalo §6.2).
//! - A flow that gets all that its links have, or that has no flow of higher priority beside it, is
//!   *open*: TCP shares among equals by itself, and takes up what others leave.
//! - A flow that gets what others of higher priority leave over, or a share by weight, is *paced*
//!   at its rate, or it would take from them. So is every flow under MADD and even parts, whose
//!   rates are exact, and each with a cap. The rate is rounded up to one of 32 steps to the
//!   power of two, so that it changes only when it matters, and orders with it.
//!
//! Where the network itself serves classes in order (`by_class`), all of that is left to it:
//! packets carry their class, a flow is open or paced at its cap, and its order inside the class is
//! not carried out. Then a link is never idle because a sender far away could not know that it
//! would be.
//!
//! # Cost
//! Rates are those of the discipline's definition ([`cavalcade_allocate::reference`]), computed
//! once in each round: a function of what is active and of which gates were on, so a restarted
//! coordinator decides as one that was not restarted, except that it may interrupt flows which a
//! greedy policy would have gone on serving. O(flows · log flows); keeping an incremental allocator
//! up to date from round to round would cost less, but rounds are far apart. A [`Filling`] has all
//! that the rates depend on, so that a large one can be computed on another thread while its
//! coordinator goes on.

use cavalcade_allocate::reference::{self, Past};
use cavalcade_model::{BitsPerSec, ClassShares, Discipline, FlowId, Priority, Scope, Terms};
use cavalcade_protocol::Gate;

use crate::table::FlowName;

/// The input of a round's gates: all flows, and those of them that contend.
#[derive(Debug)]
pub struct Filling {
    pub(crate) terms: Terms,
    pub(crate) capacity: Vec<BitsPerSec>,
    pub(crate) flows: Vec<Listed>,
    /// Those of the flows that contend, in the same order.
    pub(crate) contenders: Vec<Contender>,
    /// True if the network serves packets by their classes.
    pub(crate) by_class: bool,
}

/// The gates that a round has found.
#[derive(Debug)]
pub struct Filled {
    pub(crate) flows: Vec<Listed>,
    /// Of those that contend, in the same order.
    pub(crate) gates: Vec<Gate>,
}

/// A flow in a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) id: FlowId,
    pub(crate) name: FlowName,
    pub(crate) is_drained: bool,
    pub(crate) contends: bool,
}

impl Filling {
    /// Finds the gates.
    pub fn fill(self) -> Filled {
        let gates = match self.by_class {
            true => self.contenders.iter().map(capped).collect(),
            false => allocate(&self.terms, &self.capacity, &self.contenders),
        };
        Filled { gates, flows: self.flows }
    }
}

/// A flow that has something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) links: [u32; 2],
    /// The place of its coflow.
    pub(crate) coflow: u32,
    pub(crate) priority: Priority,
    pub(crate) remaining: f64,
    /// True if the last round let it send.
    pub(crate) is_served: bool,
    pub(crate) cap: Option<BitsPerSec>,
}

/// The gate of a contender that nothing but its own cap holds back.
fn capped(contender: &Contender) -> Gate {
    contender.cap.map_or(Gate::Open {}, |rate| Gate::Paced { rate })
}

/// The gate of each contender.
fn allocate(terms: &Terms, capacity: &[BitsPerSec], contenders: &[Contender]) -> Vec<Gate> {
    let speeds: Vec<f64> = capacity.iter().map(|rate| rate.bytes_per_nano()).collect();
    let flows: Vec<reference::Flow<'_>> = (contenders.iter())
        .map(|one| reference::Flow {
            path: &one.links,
            coflow: one.coflow,
            priorities: std::slice::from_ref(&one.priority),
            remaining: one.remaining,
            cap: one.cap.map_or(f64::INFINITY, BitsPerSec::bytes_per_nano),
        })
        .collect();
    // What was served is known, at what rate is not: as far as its links allow.
    let before: Vec<f64> =
        contenders.iter().map(|one| if one.is_served { f64::INFINITY } else { 0.0 }).collect();
    // Hosts report in rounds, so each round may have new coflows.
    let past = Past { rates: &before, same_coflows: false };
    // Where priorities hold at one link, a coordinator knows those of the host's own.
    let one_priority = Terms { scope: Scope::Host, ..terms.clone() };
    let rates = reference::allocate(&one_priority, &speeds, &flows, past);
    let is_paced = paced(terms, capacity.len(), contenders, &rates);
    let each = contenders.iter().zip(rates).zip(is_paced);
    each.map(|((contender, rate), is_paced)| {
        let line = contender.links.iter().map(|&link| speeds[link as usize]).fold(f64::INFINITY, f64::min);
        if rate <= line * 1e-6 {
            Gate::Off {}
        } else if contender.cap.is_none() && (!is_paced || rate >= line * 0.99) {
            Gate::Open {}
        } else {
            Gate::Paced { rate: BitsPerSec(step_up((rate * 8e9) as u64)) }
        }
    })
    .collect()
}

/// Returns which flows would take from others if they were not held to their rates.
fn paced(terms: &Terms, links: usize, contenders: &[Contender], rates: &[f64]) -> Vec<bool> {
    let is_weighted = matches!(terms.shares, ClassShares::Weighted { .. } | ClassShares::OfFlows { .. });
    let alike = |priority: Priority| if is_weighted { Priority::new(priority.class, 0) } else { priority };
    let mut first: Vec<Option<(Priority, Priority)>> = vec![None; links];
    let serving = |(one, rate): &(&Contender, &f64)| **rate > 0.0 && !one.links.is_empty();
    for (one, _) in contenders.iter().zip(rates).filter(serving) {
        for link in one.links {
            let (best, worst) = first[link as usize].get_or_insert((one.priority, one.priority));
            (*best, *worst) = ((*best).min(one.priority), (*worst).max(one.priority));
        }
    }
    let holds_back = |one: &Contender| {
        one.links.iter().any(|&link| {
            let Some((best, worst)) = first[link as usize] else { return false };
            // By weights also the first take no more than their share, where there are others.
            best < one.priority || is_weighted && alike(best) != alike(worst)
        })
    };
    let is_exact = matches!(terms.discipline, Discipline::Madd | Discipline::EvenParts);
    contenders.iter().map(|one| is_exact || holds_back(one)).collect()
}

/// `rate` rounded up to six significant bits.
fn step_up(rate: u64) -> u64 {
    let step = 1u64 << rate.checked_ilog2().unwrap_or(0).saturating_sub(5);
    rate.div_ceil(step).saturating_mul(step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::PolicyFactory;

    const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

    /// Gates of flows (from, to, order) on three ports under strict priorities.
    fn gates(spec: &str, flows: &[(u32, u32, u64)]) -> Vec<Gate> {
        let terms = cavalcade_policy::parse(spec).unwrap().terms();
        let contenders: Vec<Contender> = flows
            .iter()
            .enumerate()
            .map(|(coflow, &(from, to, order))| Contender {
                links: [from, 3 + to],
                coflow: coflow as u32,
                priority: Priority::new(0, order),
                remaining: 1e15,
                is_served: false,
                cap: None,
            })
            .collect();
        allocate(&terms, &[RATE; 6], &contenders)
    }

    #[test]
    fn who_comes_second_at_its_receiver_is_off() {
        assert_eq!(gates("fifo", &[(0, 2, 0), (1, 2, 1)]), [Gate::Open {}, Gate::Off {}]);
    }

    #[test]
    fn equals_are_left_to_tcp() {
        assert_eq!(gates("fifo", &[(0, 2, 7), (1, 2, 7)]), [Gate::Open {}; 2]);
    }

    #[test]
    fn who_gets_what_is_left_over_is_paced() {
        let gates = gates("fifo", &[(0, 2, 0), (1, 2, 0), (0, 1, 1)]);
        assert_eq!(gates[..2], [Gate::Open {}; 2]);
        assert_eq!(gates[2], Gate::Paced { rate: BitsPerSec(step_up(500_000_000)) });
    }

    #[test]
    fn where_the_network_holds_to_classes_only_caps_hold_flows_back() {
        let contender = |order, cap| Contender {
            links: [0, 4],
            coflow: order as u32,
            priority: Priority::new(0, order),
            remaining: 1e15,
            is_served: false,
            cap,
        };
        let cap = BitsPerSec(30_000_000);
        let fill = |by_class| {
            let terms = cavalcade_policy::parse("fifo").unwrap().terms();
            let contenders = vec![contender(0, None), contender(1, None), contender(2, Some(cap))];
            Filling { terms, capacity: vec![RATE; 6], flows: Vec::new(), contenders, by_class }.fill().gates
        };
        assert_eq!(fill(true), [Gate::Open {}, Gate::Open {}, Gate::Paced { rate: cap }]);
        assert_eq!(fill(false), [Gate::Open {}, Gate::Off {}, Gate::Off {}]);
    }

    #[test]
    fn rounding_is_up_and_by_less_than_a_thirtysecond() {
        for rate in [1, 31, 32, 33, 999, 123_456_789, u64::MAX] {
            let stepped = step_up(rate);
            assert!(stepped >= rate && (stepped - rate) as f64 <= rate as f64 / 32.0, "{rate} {stepped}");
            assert_eq!(step_up(stepped), stepped);
        }
    }
}

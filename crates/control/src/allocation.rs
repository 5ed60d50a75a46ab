//! From priorities to gates: which flows may send now, and which of them at a rate.
//!
//! The solvers that the fluid driver uses say what rate each flow would get. That is carried out with as little as does:
//!
//! - A flow without a rate is *off*: it would only contend at its receiver (Aalo §6.2).
//! - A flow that gets all that its links have, or that has nobody of higher priority beside it, is *open*: TCP shares
//!   among equals by itself, and takes up what others leave.
//! - A flow that gets what others of higher priority leave over, or a share by weight, is *paced* at its rate, or it would
//!   take from them. The rate is rounded up to one of 32 steps to the power of two, so that it changes only when it
//!   matters, and orders with it.
//!
//! # Cost
//! One filling from nothing: rates are a function of what is active and not of how it came about, so a coordinator that has
//! started again decides as one that has not. Keeping a solver up to date from round to round would cost less and lose
//! that; rounds are far apart. Strict classes with max-min sharing, which is what most coordinators run, have a solver
//! made for this ([`StrictFill`]), with O(flows · log links) whatever the number of ports. The one for classes
//! that share by weight has a table of pairs of links, which is quadratic in the ports that are in use.

use std::collections::BTreeMap;

use cavalcade_allocate::{
    Fill, GreedyFill, Key, MaddFill, MaxMinFill, Setup, Shares, ShortestFill, StrictFill,
};
use cavalcade_model::{BitsPerSec, ClassShares, Discipline, Excess, Priority, Scope, Terms};
use cavalcade_protocol::Gate;

/// A flow that has something to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contender {
    pub(crate) links: [u32; 2],
    /// The place of its coflow.
    pub(crate) account: u32,
    pub(crate) priority: Priority,
    pub(crate) coflow_priority: Priority,
    pub(crate) remaining: f64,
    pub(crate) cap: Option<BitsPerSec>,
}

/// The gate of each contender.
pub(crate) fn allocate(terms: &Terms, capacity: &[BitsPerSec], contenders: &[Contender]) -> Vec<Gate> {
    let speeds: Vec<f64> = capacity.iter().map(|rate| rate.bytes_per_nano()).collect();
    let flows = contenders.len();
    let rates = match terms.discipline {
        // Where priorities hold at one link, that is the host's own: they are filled as a host's are.
        Discipline::MaxMin if terms.scope == Scope::Link || terms.shares == ClassShares::Strict => {
            strict(&speeds, contenders)
        }
        Discipline::MaxMin => fill(MaxMinFill::new(speeds.clone(), shares(&terms.shares), flows), contenders),
        Discipline::Greedy => fill(GreedyFill::new(speeds.clone(), flows), contenders),
        Discipline::InTurn => fill(GreedyFill::in_turn(speeds.clone(), flows), contenders),
        Discipline::Madd => fill(MaddFill::new(speeds.clone(), flows), contenders),
        Discipline::ShortestFlow => fill(ShortestFill::new(speeds.clone(), flows), contenders),
    };
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

/// The solver's form of class shares.
fn shares(shares: &ClassShares) -> Shares {
    match shares {
        ClassShares::Strict => Shares::Strict,
        ClassShares::Weighted { weights, excess } => {
            Shares::Weighted { weights: weights.clone(), to_highest: *excess == Excess::Highest }
        }
    }
}

fn key(priority: Priority) -> Key {
    Key { class: priority.class, order: priority.order }
}

fn strict(speeds: &[f64], contenders: &[Contender]) -> Vec<f64> {
    let keys = contenders.iter().map(|one| key(one.priority));
    let mut order: Vec<(Key, u32)> = keys.zip(0..).collect();
    let (mut left, mut rates) = (speeds.to_vec(), vec![0.0; contenders.len()]);
    let path = |flow: u32| &contenders[flow as usize].links[..];
    let cap = |flow: u32| contenders[flow as usize].cap.map_or(f64::INFINITY, BitsPerSec::bytes_per_nano);
    let mut setup = Setup { path, cap, capacity: speeds, left: &mut left, rates: &mut rates };
    StrictFill::default().fill(&mut order, &mut setup);
    rates
}

fn fill(mut solver: impl Fill, contenders: &[Contender]) -> Vec<f64> {
    let accounts: BTreeMap<u32, Key> =
        contenders.iter().map(|one| (one.account, key(one.coflow_priority))).collect();
    solver.reserve_accounts(accounts.keys().next_back().map_or(0, |last| *last as usize + 1));
    let mut keys: Vec<(u32, Key)> = accounts.into_iter().collect();
    keys.sort_by_key(|&(account, key)| (key, account));
    solver.set_account_keys(&keys, 0.0);
    for (flow, one) in contenders.iter().enumerate() {
        solver.add(flow as u32, one.links, [one.account; 2], one.remaining, 0.0);
    }
    for (flow, one) in contenders.iter().enumerate() {
        if one.priority != one.coflow_priority {
            solver.set_flow_key(flow as u32, key(one.priority), 0.0);
        }
        if let Some(cap) = one.cap {
            solver.set_cap(flow as u32, Some(cap.bytes_per_nano()), 0.0);
        }
    }
    solver.refill(0.0);
    (0..contenders.len() as u32).map(|flow| solver.rate(flow)).collect()
}

/// Which flows would take from others if they were not held to their rates.
fn paced(terms: &Terms, links: usize, contenders: &[Contender], rates: &[f64]) -> Vec<bool> {
    let is_weighted = matches!(terms.shares, ClassShares::Weighted { .. });
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
    contenders.iter().map(|one| terms.discipline == Discipline::Madd || holds_back(one)).collect()
}

/// `rate` rounded up to five leading bits.
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
            .map(|(account, &(from, to, order))| Contender {
                links: [from, 3 + to],
                account: account as u32,
                priority: Priority::new(0, order),
                coflow_priority: Priority::new(0, order),
                remaining: 1e15,
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
    fn rounding_is_up_and_by_less_than_a_thirtysecond() {
        for rate in [1, 31, 32, 33, 999, 123_456_789, u64::MAX] {
            let stepped = step_up(rate);
            assert!(stepped >= rate && (stepped - rate) as f64 <= rate as f64 / 32.0, "{rate} {stepped}");
            assert_eq!(step_up(stepped), stepped);
        }
    }
}

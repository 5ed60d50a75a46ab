//! The definition of every discipline: rates from links, paths, bytes left, priorities and caps.
//!
//! [`allocate`] is what a discipline *means*, on one switch and on a tree, simulated and live. Each
//! discipline is one short function in a file of its own, written to be read next to the paper that
//! it is from; nothing here is kept between two calls. The allocators of `incremental` give the
//! same rates at less cost, and are tested against these. `--allocator reference` runs a simulation
//! by the definitions alone, through [`Recompute`](crate::Recompute).
//!
//! | discipline | file | source |
//! |---|---|---|
//! | max-min, strict classes | `max_min` | Bertsekas and Gallager, Data Networks, §6.5.2 |
//! | max-min, weighted classes | `weighted` | Aalo (SIGCOMM 2015), Pseudocode 1 |
//! | max-min, weighted flows | `max_min` | the same, where each flow rises by its weight; MLTCP |
//! | max-min, each link's own priorities | `per_link` | Baraat (SIGCOMM 2014), §4.3.2, Algorithms 1 and 2 |
//! | greedy | `greedy` | Sincronia (SIGCOMM 2018), §3.2; ports: Varys §5.3 |
//! | in turn: greedy by number of flows | `greedy` | of ours, for policies that know no sizes |
//! | MADD | `madd` | Varys (SIGCOMM 2014), §5.3 |
//! | shortest flow first | `shortest` | pFabric (SIGCOMM 2013), §3 |
//! | even parts | `even_parts` | CoflowSim, `fairShare`; with priorities at links, of ours |
//!
//! # History
//! Three disciplines depend on what was before, which is therefore an argument ([`Past`]): greedy
//! and in turn go on serving what is being served, and MADD keeps its rates until the set of
//! coflows or their order changes. For all others the present is enough.
//!
//! # Links
//! Paths list only the links that can be short ([`Contended`](cavalcade_model::Contended)). A link
//! with room for all would otherwise decide the order of greedy by its bytes, and be split between
//! weighted classes. Where links have priorities of their own, paths list all.
//!
//! # Conventions
//! Bytes, nanoseconds, and bytes per nanosecond. Capacity of at most [`NEGLIGIBLE`] of a link is
//! rounding and counts as none. Flows stand in the order of their numbers, which decides where
//! nothing else does; so do coflows, in the order of theirs, which is that of arrival.

mod even_parts;
mod greedy;
mod madd;
mod max_min;
mod per_link;
mod shortest;
mod weighted;

use cavalcade_model::{ClassShares, Discipline, Priority, Scope, Terms};

pub use max_min::allocate as max_min;
pub(crate) use per_link::{SAME, allocate as per_link};
pub use shortest::next_overtaking;

/// The share of a link below which what is left is rounding.
pub const NEGLIGIBLE: f64 = 1e-9;

/// An unfinished flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// The links that it crosses.
    pub path: &'a [u32],
    /// The number of its coflow.
    pub coflow: u32,
    /// Its priority; where links have priorities of their own, one for each link of the path.
    pub priorities: &'a [Priority],
    /// Bytes left.
    pub remaining: f64,
    /// The most that it may be sent at; infinite if it has no cap.
    pub cap: f64,
}

impl Flow<'_> {
    fn priority(&self) -> Priority {
        self.priorities[0]
    }

    /// The least value along the path.
    fn least(&self, of_link: &[f64]) -> f64 {
        self.path.iter().map(|&link| of_link[link as usize]).fold(f64::INFINITY, f64::min)
    }
}

/// The history that rates depend on.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// The rate of each flow until now; zero for one that was not being served.
    pub rates: &'a [f64],
    /// True if coflows and priorities are as they were: all that has happened since is that flows
    /// have ended.
    pub same_coflows: bool,
}

/// Returns the rate of each flow on links of these capacities.
///
/// # Panics
/// If links have priorities of their own and the terms ask for anything but max-min in strict
/// classes or even parts.
pub fn allocate(terms: &Terms, capacity: &[f64], flows: &[Flow<'_>], past: Past<'_>) -> Vec<f64> {
    match (terms.scope, terms.discipline, &terms.shares) {
        (_, Discipline::EvenParts, ClassShares::Strict) => even_parts::allocate(capacity, flows, None),
        (_, Discipline::EvenParts, ClassShares::Weighted { weights, .. }) => {
            even_parts::allocate(capacity, flows, Some(weights))
        }
        (Scope::Link, Discipline::MaxMin, ClassShares::Strict) => per_link::allocate(capacity, flows),
        (Scope::Link, other, shares) => {
            panic!("links cannot have priorities of their own under {other:?}, {shares:?}")
        }
        (_, Discipline::MaxMin, ClassShares::Strict) => max_min::allocate(capacity, flows),
        (_, Discipline::MaxMin, ClassShares::OfFlows { weights }) => {
            max_min::by_weight(capacity, flows, weights)
        }
        (_, other, ClassShares::OfFlows { .. }) => panic!("flows have no weights under {other:?}"),
        (_, Discipline::MaxMin, ClassShares::Weighted { weights, excess }) => {
            weighted::allocate(capacity, flows, weights, *excess)
        }
        (_, Discipline::Greedy, _) => greedy::allocate(capacity, flows, past.rates, |flow| flow.remaining),
        (_, Discipline::InTurn, _) => greedy::allocate(capacity, flows, past.rates, |_| 1.0),
        (_, Discipline::Madd, _) if past.same_coflows => past.rates.to_vec(),
        (_, Discipline::Madd, _) => madd::allocate(capacity, flows),
        (_, Discipline::ShortestFlow, _) => shortest::allocate(capacity, flows),
    }
}

/// Bytes left in 1024ths. Amounts are compared in these, so that what is equal but for rounding is
/// equal.
fn steps(bytes: f64) -> u64 {
    (bytes * 1024.0 + 0.5) as u64
}

#[cfg(test)]
mod tests;

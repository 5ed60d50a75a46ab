//! How good could any schedule be? Lower bounds on mean completion times, with proofs that others
//! can check.
//!
//! That one policy beats another says little unless the gain that is left is known. The bounds here
//! hold for every schedule on the fabric, clairvoyant or not, preemptive or not, at any rates:
//! [`lower_bounds`] for the mean CCT or TCT, [`deadlines_met`] for how many tasks can meet their
//! deadlines.
//!
//! | method | idea | holds for |
//! |---|---|---|
//! | [`Method::Isolation`] | no coflow is faster than alone (Γ) | everything |
//! | [`Method::SingleLink`] | one link, scheduled best, and isolation for the rest | everything |
//! | [`Method::Counts`] | at each time the worst link: how many it can have done by then | equal weights |
//! | [`Method::PrimalDual`] | the dual that the BSSI order yields (Sincronia, SIGCOMM 2018) | all releases equal |
//! | [`Method::Parallel`] | the best dual of that kind, with releases ([`parallel_bound`]) | everything, up to 2,000 jobs |
//! | [`Method::Completions`] | at each time, at most so many can be done | everything; nearly exact |
//!
//! On the Facebook trace (1 Gbps = 125 MiB/s) the last gives 21.63 s online, where the best
//! schedule known has 21.83.
//!
//! # Trust
//! A bound is only worth its proof. Each comes with a [`Certificate`], a JSON value of hints: which
//! link, which prices, which case distinctions. `cavalcade_validate::certificate` derives the
//! figure from the workload and those hints, with code that shares nothing with this crate. Search
//! is in floating point; what it finds is evaluated in whole numbers, rounded towards the safe
//! side, so a figure is never above what is proven.
//!
//! # Words
//! *Jobs* are what finishes as one, coflows or tasks; `problem.rs` says what is kept of them. A
//! *cover* is a choice of jobs to drop so that the rest fits in time; a *price* for an interval of
//! a link is a proof of what must be dropped.
//!
//! # Rejected
//! - An outside MIP solver: see `simplex.rs`.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod branch;
mod certificate;
mod completions;
mod counts;
mod cover;
mod parallel;
mod primal_dual;
mod problem;
mod simplex;
mod single_link;

pub use certificate::{Because, Certificate, Claim, PriceRow, PricedSet, Proof, Step};

use cavalcade_model::{Fabric, FabricError, Nanos, Workload};

use crate::completions::Known;
use crate::problem::Problem;

/// Completion times that are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Coflows: CCT, from the arrival of the first flow.
    #[default]
    Coflows,
    /// Tasks: TCT, from the arrival of the task to the end of its last stage.
    Tasks,
}

/// Quantity to bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Coflows or tasks.
    pub objective: Objective,
    /// True if all tasks are taken to arrive at time zero.
    pub offline: bool,
    /// True if each counts as often as its task's weight says, instead of once.
    pub weighted: bool,
}

/// Method that found a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Everyone alone on the fabric.
    Isolation,
    /// The best single link, isolation for those that do not use it.
    SingleLink,
    /// Number that each link can have done; at each time, the tightest link counts.
    Counts,
    /// The dual solution behind the BSSI order.
    PrimalDual,
    /// The linear program over parallel inequalities.
    Parallel,
    /// Bound on the completions possible by each time.
    Completions,
}

impl Method {
    /// Its name on the command line and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Isolation => "isolation",
            Self::SingleLink => "single-link",
            Self::Counts => "counts",
            Self::PrimalDual => "primal-dual",
            Self::Parallel => "parallel",
            Self::Completions => "completions",
        }
    }
}

/// A lower bound on the mean completion time.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Method that found it.
    pub method: Method,
    /// No schedule's sum of weight times completion time is less, in nanoseconds.
    pub sum: u128,
    /// The sum of the weights: how many there are, where each counts once.
    pub weight: u64,
    /// The proof.
    pub certificate: Certificate,
}

impl Bound {
    fn new(method: Method, conditions: Conditions, sum: u128, weight: u64, proof: Proof) -> Self {
        let certificate = Certificate::new(conditions, Claim::Sum { nanos: sum.to_string(), proof });
        Self { method, sum, weight, certificate }
    }

    /// No schedule's mean is less than this; rounded down. Zero for an empty workload.
    pub fn mean(&self) -> Nanos {
        mean(self.sum, self.weight)
    }
}

/// All lower bounds that apply.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// In the order of the table above.
    pub bounds: Vec<Bound>,
    /// True if the search for [`Method::Completions`] ended by itself: then more time gains
    /// nothing.
    pub exhausted: bool,
}

impl Bounds {
    /// The largest. Of equals the one with the simplest proof.
    pub fn best(&self) -> &Bound {
        let better = |best: &'_ Bound, next: &Bound| next.sum > best.sum;
        let first = &self.bounds[0];
        self.bounds.iter().fold(first, |best, next| if better(best, next) { next } else { best })
    }
}

/// Progress of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Times at which it has looked.
    pub looks: u64,
    /// Linear programs that it has solved.
    pub programs: u64,
    /// The mean that is proven so far.
    pub mean: Nanos,
}

/// Bounds the mean from below. `go_on` is asked again and again, after at most one linear program
/// (milliseconds, for a thousand jobs); when it says no, what is proven so far is the result. With
/// a `go_on` that counts programs the result is the same on every machine.
///
/// # Errors
/// If the fabric cannot carry the workload: too few ports, or no path.
pub fn lower_bounds(
    workload: &Workload,
    fabric: &Fabric,
    conditions: Conditions,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Bounds, FabricError> {
    let problem = Problem::new(workload, fabric, conditions)?;
    let weight = problem.weight();
    let make = |method, sum, proof| Bound::new(method, conditions, sum, weight, proof);
    let mut bounds = vec![make(Method::Isolation, problem.isolation(), Proof::Isolation)];
    if let Some((sum, link)) = single_link::best(&problem) {
        bounds.push(make(Method::SingleLink, sum, Proof::SingleLink { link }));
    }
    if let Some((sum, links)) = counts::bound(&problem) {
        bounds.push(make(Method::Counts, sum, Proof::Counts { links }));
    }
    if let Some((sum, prices)) = primal_dual::bound(&problem) {
        bounds.push(make(Method::PrimalDual, sum, Proof::PrimalDual { prices }));
    }
    let mut known = Known::new(&problem);
    let exhausted = known.search(go_on);
    bounds.push(make(Method::Completions, known.sum(), Proof::Completions { steps: known.into_steps() }));
    Ok(Bounds { bounds, exhausted })
}

/// The bound of the linear program over parallel inequalities. [`lower_bounds`] leaves it out: it
/// takes about a second for 500 jobs, and [`Method::Completions`] is above it after as long. `None`
/// without jobs or with more than 2,000.
///
/// # Errors
/// If the fabric cannot carry the workload: too few ports, or no path.
pub fn parallel_bound(
    workload: &Workload,
    fabric: &Fabric,
    conditions: Conditions,
) -> Result<Option<Bound>, FabricError> {
    let problem = Problem::new(workload, fabric, conditions)?;
    let found = parallel::bound(&problem);
    let bound = |(sum, sets)| {
        Bound::new(Method::Parallel, conditions, sum, problem.weight(), Proof::Parallel { sets })
    };
    Ok(found.map(bound))
}

/// An upper bound on how many tasks can meet their deadlines.
#[derive(Clone, Debug)]
pub struct DeadlineBound {
    /// No schedule lets more than this much weight (so many tasks, where each counts once) meet its
    /// deadline.
    pub at_most: u64,
    /// The weight of all tasks that have a deadline.
    pub of: u64,
    /// True if some set of this weight passes every test, so that the search cannot lower the
    /// figure.
    pub exhausted: bool,
    /// The proof.
    pub certificate: Certificate,
}

/// Bounds the number of tasks that can meet their deadlines from above. `conditions.objective`
/// plays no part: deadlines belong to tasks. `go_on` is as in [`lower_bounds`], and told a mean of
/// zero.
///
/// # Errors
/// If the fabric cannot carry the workload: too few ports, or no path.
pub fn deadlines_met(
    workload: &Workload,
    fabric: &Fabric,
    conditions: Conditions,
    go_on: &mut dyn FnMut(&Progress) -> bool,
) -> Result<DeadlineBound, FabricError> {
    let conditions = Conditions { objective: Objective::Tasks, ..conditions };
    let problem = Problem::new(workload, fabric, conditions)?;
    let of = problem.jobs.iter().filter(|job| job.due.is_some()).map(|job| job.weight).sum();
    let (at_most, exhausted, because) = completions::in_time(&problem, go_on);
    let certificate = Certificate::new(conditions, Claim::Deadlines { at_most, because });
    Ok(DeadlineBound { at_most, of, exhausted, certificate })
}

fn mean(sum: u128, weight: u64) -> Nanos {
    Nanos(u64::try_from(sum / u128::from(weight.max(1))).unwrap_or(u64::MAX))
}

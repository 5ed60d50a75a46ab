//! A proof as a file: a JSON value that says what is claimed and gives the hints from which it can
//! be derived.
//!
//! It holds no facts: a checker takes sizes, times and capacities from the workload and fabric
//! themselves. The version goes up with every change that an older checker would misread. Sums are
//! text, since JSON readers lose digits beyond 2⁵³. Links count as in [`cavalcade_model::Fabric`]:
//! ingress of all ports, then egress; jobs as coflows or tasks do.

use serde::Serialize;

use crate::{Conditions, Objective};

/// Claim, its subject, and its proof.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// Always `cavalcade-bound`.
    pub format: &'static str,
    /// The version of this layout.
    pub version: u32,
    /// Completion times of tasks or of coflows.
    pub objective: Objective,
    /// True if all tasks arrive at time zero.
    pub offline: bool,
    /// True if weights count.
    pub weighted: bool,
    /// The claim.
    pub claim: Claim,
}

impl Certificate {
    /// The version that is written.
    pub const VERSION: u32 = 1;

    pub(crate) fn new(conditions: Conditions, claim: Claim) -> Self {
        let Conditions { objective, offline, weighted } = conditions;
        Self { format: "cavalcade-bound", version: Self::VERSION, objective, offline, weighted, claim }
    }
}

/// The claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Claim {
    /// The sum of weight times completion time is at least `nanos`.
    Sum {
        /// The sum, in decimal digits.
        nanos: String,
        /// The proof.
        proof: Proof,
    },
    /// The weight of tasks that meet their deadlines is at most `at_most`.
    Deadlines {
        /// The weight.
        at_most: u64,
        /// Proof that some of those fast enough alone must be dropped; `None` if none must.
        because: Option<Because>,
    },
}

/// Proof of a lower bound on a sum.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
pub enum Proof {
    /// Everyone alone.
    Isolation,
    /// One link alone, and isolation for those that do not use it.
    SingleLink {
        /// The link.
        link: u32,
    },
    /// At each time the link, of these, that holds up most jobs.
    Counts {
        /// The links.
        links: Vec<u32>,
    },
    /// The dual: from the last place on, the link that is the bottleneck, the job that goes last,
    /// and the price of the link for all jobs not placed yet, in units of 2⁻⁶⁴ of weight for each
    /// nanosecond.
    PrimalDual {
        /// Link, job, price in decimal digits.
        prices: Vec<(u32, u32, String)>,
    },
    /// Prices of links for sets of their jobs, whatever their releases.
    Parallel {
        /// The sets.
        sets: Vec<PricedSet>,
    },
    /// Bound on the completions possible by each time.
    Completions {
        /// In order of time.
        steps: Vec<Step>,
    },
}

/// A set of jobs on a link, and the price of the link for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PricedSet {
    /// The link.
    pub link: u32,
    /// The jobs, each once; all use the link.
    pub jobs: Vec<u32>,
    /// The price in decimal digits, in units of 2⁻⁶⁴ of weight for each nanosecond.
    pub price: String,
}

/// By `by_ns`, jobs of at most this weight can be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The time.
    pub by_ns: u64,
    /// The weight.
    pub at_most: u64,
    /// Proof that no more is possible; `None` if no other could finish by then even alone.
    pub because: Option<Because>,
}

/// Proof that so much must be dropped.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// Prices of intervals of links.
    Prices {
        /// Sets of jobs that some rows are counted without.
        without: Vec<Vec<u32>>,
        /// The rows.
        rows: Vec<PriceRow>,
    },
    /// It must in either case.
    Split {
        /// The job.
        job: u32,
        /// Proof if it is done in time.
        kept: Box<Because>,
        /// Proof if it is dropped.
        dropped: Box<Because>,
    },
}

/// Link, from, to, which of the sets it is counted without, price in units of 2⁻³² of weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PriceRow(pub u32, pub u64, pub u64, pub u32, pub u64);

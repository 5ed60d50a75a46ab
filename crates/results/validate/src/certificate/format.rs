//! A certificate as it stands in a file.
//!
//! Written down a second time, apart from the writer's types, so that a change of one alone is
//! found by the tests that read what the solver writes.

use serde::Deserialize;

use crate::certificate::CertificateError;

/// A claim about all schedules, and why it holds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Certificate {
    /// Always `cavalcade-bound`.
    pub format: String,
    /// The version of the layout.
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

/// Completion times of tasks or of coflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Coflows.
    Coflows,
    /// Tasks.
    Tasks,
}

/// The claim.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Claim {
    /// A lower bound on the sum of weight times completion time.
    Sum {
        /// The sum in nanoseconds, in decimal digits.
        nanos: String,
        /// The proof.
        proof: Proof,
    },
    /// An upper bound on the weight of tasks that meet their deadlines.
    Deadlines {
        /// The weight.
        at_most: u64,
        /// The proof.
        because: Option<Because>,
    },
}

/// A proof that a sum is at least so large.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "method")]
pub enum Proof {
    /// Everyone alone.
    Isolation,
    /// One link, and isolation for those that do not use it.
    SingleLink {
        /// The link.
        link: u32,
    },
    /// Links of which at each time the worst counts.
    Counts {
        /// The links.
        links: Vec<u32>,
    },
    /// Link, job that is placed last, and price (decimal digits, units of 2⁻⁶⁴) for each place from
    /// the last on.
    PrimalDual {
        /// Link, job and price of each place.
        prices: Vec<(u32, u32, String)>,
    },
    /// Prices of links for sets of their jobs.
    Parallel {
        /// The sets.
        sets: Vec<PricedSet>,
    },
    /// The work that can be done by each time.
    Completions {
        /// In order of time.
        steps: Vec<Step>,
    },
}

/// A set of jobs on a link, and a price.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PricedSet {
    /// The link.
    pub link: u32,
    /// The jobs.
    pub jobs: Vec<u32>,
    /// The price (decimal digits, units of 2⁻⁶⁴).
    pub price: String,
}

/// By some time at most so much can be done.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Step {
    /// The time.
    pub by_ns: u64,
    /// The weight.
    pub at_most: u64,
    /// The proof.
    pub because: Option<Because>,
}

/// A proof that so much must be dropped.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// Prices of intervals of links.
    Prices {
        /// Sets of jobs that some rows are counted without.
        without: Vec<Vec<u32>>,
        /// Link, from, to, number of the set, price (units of 2⁻³²).
        rows: Vec<(u32, u64, u64, u32, u64)>,
    },
    /// It must in either case.
    Split {
        /// The job.
        job: u32,
        /// If it is done in time.
        kept: Box<Because>,
        /// If it is not.
        dropped: Box<Because>,
    },
}

/// The head, which tells whether the rest can be read.
#[derive(Deserialize)]
#[serde(expecting = "an object with a format and a version")]
struct Header {
    format: String,
    version: u32,
}

impl Certificate {
    /// Reads a certificate.
    ///
    /// # Errors
    /// If it is no JSON, of another format or version, or not laid out as that version is.
    pub fn read(json: &[u8]) -> Result<Self, CertificateError> {
        let Header { format, version } = parse(json)?;
        if format != "cavalcade-bound" || version != 1 {
            return Err(CertificateError::Format { format, version });
        }
        parse(json)
    }
}

fn parse<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, CertificateError> {
    serde_json::from_slice(json).map_err(|error| CertificateError::unreadable(&error))
}

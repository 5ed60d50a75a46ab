//! Experiments: what a paper claims, run again, with the answer beside the claim.
//!
//! An experiment is a text, `experiment.toml` in a folder of its own: workloads, policies, seeds,
//! what the paper says, and what it leaves open and we chose. From that text alone follow the
//! [`Run`]s ([`Experiment::runs`]); each gives one [`Row`] of figures ([`Run::row`]); and from the
//! rows follow estimates with intervals, verdicts, a chart and a page. So a figure can be traced
//! back to a row and made again, and no measured number is written by hand.
//!
//! - `definition`: the text and what it means, checked; `claims`: the list of the papers'
//!   statements, each with its answer.
//! - `workload`: where a workload comes from: a generator, a trace, a file beside the text; and
//!   what is done to it.
//! - `run`, `row`: one run, and the figures kept of it.
//! - `estimate`: seeds become a value with a 95 % interval.
//! - `verdict`: a claim against the estimate.
//! - `criterion`: a law of the speedup, fitted at half of the workloads and tested at the others.
//! - `figure`, `page`, `summary`: the chart, the page of one experiment, the page of all.
//!
//! # Invariants
//! - Nothing here opens a file or reads a clock: bytes in, values out, and the same bytes on every
//!   machine.
//! - Seeds are paired: a factor compares two policies on the same workload, seed by seed, and the
//!   interval is that of those factors. Policies of different workloads are never divided by one
//!   another.
//! - A verdict follows from intervals by rule. What is not reproduced is marked in the same place
//!   and in the same type size.
//! - Every claim of the list has an outcome with its cause, and statements of experiments or named
//!   tests that bear it out. A list that says more for a paper, or against it, is refused.
//!
//! # Rejected
//! - Experiments as code: a change of a parameter would need a compiler, and what was assumed would
//!   hide in functions.
//! - One resample of coflows within one run as the interval: it covers the choice of coflows, while
//!   coflows that were scheduled together are not independent. Seeds are.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

mod claims;
mod criterion;
mod definition;
mod figure;
mod page;
mod row;
mod run;
mod standing;
mod summary;
mod verdict;
mod workload;

pub use claims::{Cause, Claim, Claims, ClaimsError, Outcome, Paper};
pub use definition::{
    Axis, Criterion, DefinitionError, Expectation, Expected, Experiment, Form, OURS, Panel, Series,
};
pub use figure::{criterion_figure, figure};
pub use page::page;
pub use row::{ALWAYS, Figure, Measure, Row, Statistic, Subject};
pub use run::{Conditions, Key, Run, RunError};
pub use summary::summary;
pub use verdict::{Finding, Verdict, findings};
pub use workload::{Files, Needed, WorkloadError, WorkloadSpec};

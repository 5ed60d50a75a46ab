//! What a run came to: completion times of flows, coflows and tasks, and the figures made of them.
//!
//! - [`Outcome`]: the raw result, as every driver writes it.
//! - [`analyse`]: several runs of one workload as a [`Comparison`]: means and nearest-rank
//!   percentiles, slowdown against the coflow alone on the fabric, the four bins, deadline misses,
//!   and the factor over a baseline with its spread.
//! - [`Savings`]: recorded times of an application against simulated ones, and the seconds that
//!   policies save.
//! - [`Assertion`]: a claim such as `p99(cct) < 2s`, read from text and held against a comparison.
//!
//! Nothing here does I/O, and the same input gives the same bits on every machine.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod assertion;
mod backlog;
mod bins;
mod bootstrap;
mod comparison;
mod details;
mod estimate;
mod facts;
mod flow_classes;
mod improvement;
mod isolation;
mod lower_bound;
mod outcome;
mod percentile;
mod queue_use;
mod savings;
mod summary;

pub use assertion::{
    Assertion, AssertionError, Bound, Case, Function, Measure, Measured, Quantity, Relation, UnknownRun,
    Verdict,
};
pub use backlog::{Classed, ClassedFlows, backlog_by_class};
pub use bins::{Bin, BinThresholds};
pub use bootstrap::Interval;
pub use comparison::{
    Analysis, AnalysisError, BinFigures, Comparison, ControlFacts, PolicyFacts, RunFigures, RunResult,
    TransportFacts, Utilisation, analyse,
};
pub use details::{CoflowDetails, CoflowRun, Details, Sent, SentByLink, Wait};
pub use estimate::Estimate;
pub use facts::{
    BinFacts, CoflowFacts, FabricFacts, Ranked, Survey, TaskFacts, TraceFacts, WorkloadFacts,
    task_completion_times,
};
pub use flow_classes::{FLOW_CLASSES, flow_completion_times};
pub use improvement::Improvement;
pub use isolation::{isolation_time, isolation_times};
pub use lower_bound::LowerBound;
pub use outcome::{EngineCounts, LinkUse, MessageUse, Outcome};
pub use percentile::{NotAPercent, Percent, percentile};
pub use queue_use::{Occupancy, PortUse, QueueTotals, QueueUse};
pub use savings::{
    AtUsual, Calibration, ENDLESS, Elsewhere, ImportNote, QuerySavings, RateChoice, RecordedApplication,
    RecordedQuery, RecordedSetup, Recording, Savings, USUAL, calibrate,
};
pub use summary::{SlowdownSummary, Summary, mean, weighted_mean};

//! The policies: who goes first, and nothing else.
//!
//! Each policy is one file: a struct of typed parameters with the paper's defaults, a table that
//! names them, and what it decides at each event. [`registry()`] lists all of them; [`parse()`]
//! makes one from text such as `dclas:queues=4,weighted=false`; the [`Configured`] that comes out
//! builds instances for any driver.
//!
//! Adding a policy is one new file in `policies/` (start from `fifo.rs`), its
//! `mod` line in `policies.rs`, and its line in `registry.rs`. Code that
//! several share is in `support/`. Every driver, command and property test then has it.
//!
//! [`Listed`] stands beside the registry: an order of the coflows of one workload that a user
//! brings.
//!
//! # What the policies expect of a driver
//! - At `Reached(target)` the view's attained service of the target is at least what was watched;
//!   else a policy that reads its level from the counter would ask for the same watch for ever.
//! - During `CoflowFinished` the facts and the attained service of that coflow can still be read.
//! - A wake lies ahead of the present instant. A watch that is reached already is delivered at
//!   once, after the decision is carried out.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod definition;
mod listed;
mod policies;
mod registry;
mod support;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod scripted;

pub use definition::{Follows, OwnTransport, Paper};
pub use listed::Listed;
pub use registry::{Configured, ORDER, PolicyInfo, parse, registry};
pub use support::thresholds::{ThresholdChoice, threshold_choices};

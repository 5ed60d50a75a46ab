//! What every driver of a policy shares, so that a policy means the same in each of them.
//!
//! - [`Accounts`]: where a policy's instances stand, and what a coflow is at each of them.
//! - [`PolicyHost`]: the instances, what they are told and in which order, and what their decisions
//!   mean ([`Driver`]).
//! - [`Releases`]: when a flow may start, and when computation on hosts is done.
//! - [`RunError`]: why a run has no outcome.
//!
//! The nouns and the contract itself are in `cavalcade-model`. Nothing here does I/O, reads a
//! clock, or knows which driver (fluid, packet, live) is running.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod accounts;
mod agenda;
mod computing;
mod host;
mod release;
mod run_error;

pub use accounts::{Account, Accounts, Few};
pub use computing::CpuOrder;
pub use host::{Driver, PolicyHost, Watch};
pub use release::{Release, Releases};
pub use run_error::{END_OF_TIME, MOST_FRUITLESS, Mistake, PolicyFault, RunError, check, end_of_time};

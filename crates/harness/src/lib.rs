//! What every driver of a policy shares, so that a policy means the same in each of them.
//!
//! - [`Accounts`]: where a policy's instances stand, and what a coflow is at each of them.
//! - [`Agenda`]: what the instances are to be told, and in which order: amounts reached, messages, wake-ups.
//! - [`Releases`]: when a flow may start, and when computation on hosts is done.
//!
//! The nouns and the contract itself are in `cavalcade-model`. Nothing here does I/O, reads a clock, or knows which driver
//! (fluid, packet, live) is running.

mod accounts;
mod agenda;
mod computing;
mod release;

pub use accounts::{Account, Accounts, Few};
pub use agenda::Agenda;
pub use computing::CpuOrder;
pub use release::{Release, Releases};

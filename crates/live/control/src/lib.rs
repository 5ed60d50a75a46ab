//! The live control plane, as state machines without sockets or clocks.
//!
//! A policy decides which coflows go first; that is of use only when every sender gets the decision
//! in time, and no flow is stuck when something breaks. This crate is that part: [`Coordinator`]
//! and [`Agent`]; the client's side and the negotiation between hosts are in `cavalcade-protocol`.
//! All have the same interface: `handle_*` takes an input and its time, `poll_*` returns messages
//! to send and the next timer. The tokio shell, the fault simulator and tests drive the same code.
//!
//! # What holds when things fail
//! | what fails | what happens |
//! |---|---|
//! | coordinator | agents obey for one lease, then all flows are open; a new one rebuilds its state from snapshots in a round |
//! | agent hangs | clients obey for one lease, then all flows are open |
//! | agent's connection ends | all flows are open at once; clients send their state to the next |
//! | client | its flows end; its coflows last until they are unregistered, or a linger |
//! | messages | a gap in the numbers requests a snapshot; duplicate and late ones are ignored |
//! | coordinator, kill switch thrown | agents remember that, and report it to the next one |
//! | two coordinators | agents obey the higher term, and the lower one learns of it from their reports |
//!
//! # What was rejected
//! - Acknowledging and resending single messages: connections do that, and what was missed is out
//!   of date by then.
//! - A log of events replicated between coordinators: what it would save is one snapshot of each
//!   agent.
//! - Keeping what a lost agent had reported: its clients know better, and report it again.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod agent;
mod allocation;
mod coordinator;
mod desk;
mod drains;
mod explanation;
mod hosted;
mod numbering;
mod patience;
mod room;
mod table;

pub use agent::{
    Agent, AgentConfig, AgentCounters, AgentOutput, Budget, CLASSES, ClientId, Decentralised, FlowStatus,
    Mode, PartStatus, Usage,
};
pub use allocation::{Filled, Filling};
pub use coordinator::{
    CoflowFlow, CoflowStatus, Coordinator, CoordinatorConfig, CoordinatorCounters, Notary, PastCoflow,
};
pub use drains::TooManyDrains;
pub use explanation::{Blocker, Direction, Explanation};
pub use hosted::Factory;

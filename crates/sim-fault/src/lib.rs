//! Seeded faults against the control plane: the code that runs live, in a world in which everything breaks.
//!
//! A seed decides everything: policy, workload, clocks that are off and drift, and faults. Messages are lost, doubled, late
//! and out of order; hosts are cut off; agents, clients and coordinators crash and start again, agents hang. Then faults
//! stop. In some worlds nothing breaks and one host is in somebody else's hands (`hostile`). Time goes in steps of a millisecond; all messages pass through their byte formats.
//!
//! | what must hold | how it is checked |
//! |---|---|
//! | no byte is counted twice | at every step nobody believes that a coflow has sent more than it has |
//! | none is lost | after the faults the coordinator believes what the agents do; agents believe what clients do; and where no process crashed, that is what was sent |
//! | nobody waits for nothing | no flow is off for [`PATIENCE_MS`] while its links are idle; in the end all bytes arrive |
//! | one coordinator at a time | no two believe that they lead; no agent goes back to a lower term |
//! | the kill switch stays where it was put | whoever has heard that it was thrown obeys nobody until its end is said, whichever coordinators come and go; unless all who knew are gone at once, all know after the faults |
//! | a host harms only itself | terms come from the store and throws from the operator; no flow is off for [`HOSTILE_PATIENCE_MS`] while its links are idle; no bytes count but those that were sent |
//! | the schedule recovers | [`RECOVERY_ROUNDS`] rounds after the faults, each flow is told what a coordinator tells it that was given the same state at once and never saw a fault |
//!
//! The last comparison is made while no bytes move and after one more coflow has arrived: policies that look at sizes only
//! at arrivals (`sebf`) have looked again by then.
//!
//! # Can it fail?
//! [`Bug`] plants a bug between the parts; tests hold that each is found.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod check;
mod dice;
mod host;
mod hostile;
mod network;
mod operator;
mod traffic;
mod world;

use thiserror::Error;

/// How long faults go on, in milliseconds.
pub const FAULTS_MS: u64 = 1500;
/// Rounds (of 10 ms) after the end of the faults in which the schedule has to recover: what remains of the lease of a
/// coordinator that crashed (100 ms), of an agent's (100 ms), and ten to connect, report and decide.
pub const RECOVERY_ROUNDS: u64 = 30;
/// How long a flow may be off while nobody uses its links, in milliseconds: leases of coordinator, agent and client, and the
/// time after which a flow that hangs gives up its place.
pub const PATIENCE_MS: u64 = 1500;

/// The same where a host claims flows that move nothing, and nothing else breaks.
pub const HOSTILE_PATIENCE_MS: u64 = 950;

/// A bug to be planted between the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Agents obey a coordinator that is gone: something keeps telling them that it is there.
    EternalLease,
    /// The coordinator counts some progress twice.
    DoubleCount,
    /// A coordinator goes on leading when its lease is over.
    TwoLeaders,
    /// Some orders say nothing of what they should, and nobody can see that they do not.
    SilentLoss,
    /// A coordinator that has not heard of the kill switch says that it is off.
    LiftedSwitch,
    /// A coordinator believes any host about terms and the kill switch.
    ForgedStanding,
    /// A flow that moves nothing holds others for ever.
    PhantomFlow,
}

impl Bug {
    /// All of them, with the names by which they are asked for.
    pub const ALL: [(&'static str, Bug); 7] = [
        ("eternal-lease", Bug::EternalLease),
        ("double-count", Bug::DoubleCount),
        ("two-leaders", Bug::TwoLeaders),
        ("silent-loss", Bug::SilentLoss),
        ("lifted-switch", Bug::LiftedSwitch),
        ("forged-standing", Bug::ForgedStanding),
        ("phantom-flow", Bug::PhantomFlow),
    ];
}

/// What must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at {at_ms} ms: {what}")]
pub struct Violation {
    /// When, in milliseconds from the start.
    pub at_ms: u64,
    /// What.
    pub what: String,
}

/// What a run consisted of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The policy, with its parameters.
    pub policy: String,
    /// When the last byte arrived, in milliseconds.
    pub end_ms: u64,
    /// Coflows and flows.
    pub coflows: usize,
    /// Flows.
    pub flows: usize,
    /// Messages between hosts.
    pub messages: u64,
    /// How many of them were lost.
    pub lost: u64,
    /// How many came twice.
    pub doubled: u64,
    /// Processes that crashed or hung, and connections that were cut.
    pub faults: u64,
    /// How many coordinators there were.
    pub terms: u64,
    /// Times at which a client fell back to plain TCP.
    pub fallbacks: u64,
    /// What broke, and when: one line each.
    pub log: Vec<String>,
}

/// Runs the world of `seed`.
///
/// # Errors
/// What must never happen, and did; with the account up to then.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Account, Box<(Violation, Account)>> {
    let mut world = world::World::new(seed, bug);
    match world.run() {
        Ok(()) => Ok(world.account()),
        Err(violation) => Err(Box::new((violation, world.account()))),
    }
}

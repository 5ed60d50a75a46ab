//! Seeded faults against the control plane: the code that runs live, while everything around it
//! breaks.
//!
//! A seed decides policy, clocks that are off, drift and step, faults and, unless one is given, the
//! workload. In half of the runs messages are lost, doubled, late and out of order; in the other
//! half connections carry them, and outlive the machines at their ends. Hosts are cut off; agents,
//! clients and coordinators crash and start again, or hang; machines vanish without a word; the
//! store that says who leads is away. Processes are of one user, or of several who share coflows.
//! Then faults stop. In some runs nothing breaks and one host is in an attacker's hands
//! (`hostile`). What else may be in a run (`additions`): processes read connections late, and then
//! several messages or half of one; a user takes all that they may on each host (`greedy`); flows
//! have many connections, which an enforcer reports as one.
//!
//! | what must hold | how it is checked |
//! |---|---|
//! | no byte is counted twice | every [`INSPECTION`] no coordinator believes that a coflow has sent more than it has |
//! | none is lost | after the faults the coordinator believes what the agents do; agents believe what clients do; and where no process crashed, that is what was sent |
//! | no flow waits for nothing | none is off for [`PATIENCE`] while its links are idle; in the end all bytes arrive |
//! | one coordinator at a time | no two believe that they lead; no agent goes back to a lower term |
//! | agents find the leader | where they are connected, no agent that can reach the leader obeys another or none for longer than [`FAILOVER`]; a fault that ends its connection begins the time again |
//! | the kill switch stays where it was put | an agent that has heard that it was thrown obeys nothing until its end is said, whichever coordinators come and go; unless all who knew are gone at once, all know after the faults |
//! | a host harms only itself | terms come from the store and throws from the operator; no flow is off for [`HOSTILE_PATIENCE`] while its links are idle; no bytes count but those that were sent |
//! | honest machines understand each other | no reader gives up a connection on which honest messages come, however many in one read |
//! | a user has their budget | none has more than it at any time, and it counts what there is; no honest user is refused anything, none changes what is another's, and nothing counts of who has left |
//! | a rate is that of a flow | an enforcer's connections with data to send have all of its rate together, and no more; of one that is off all together send a trickle |
//! | the schedule recovers | [`RECOVERY`] after the faults, each flow is told what a coordinator tells it that was given the same state at once and never saw a fault; not where a user has had others wait in vain |
//!
//! For the last comparison the workload is held: nothing arrives and no byte moves until it is
//! made. One coflow more is registered meanwhile: policies that look at sizes only at arrivals
//! (`sebf`) have looked again by then.
//!
//! # Can it fail?
//! [`Bug`] plants a bug between the parts; tests hold that each is found.

mod additions;
mod check;
mod choice;
mod greedy;
mod hostile;
mod operator;
mod tamper;
mod trial;

use cavalcade_model::{BitsPerSec, Fabric, Instant, Nanos, SplitMix64, Workload};
use thiserror::Error;

pub(crate) use tamper::Tamper;

use crate::clock::EPOCH;

/// The span of faults; over a workload that was given, until its last task has arrived, if that is
/// later.
pub const FAULTS: Nanos = Nanos::from_millis(1500);
/// The time from the last fault to a schedule that has recovered: what remains of the lease of a
/// coordinator that crashed (100 ms), of an agent's (100 ms), and ten rounds to connect, report and
/// decide.
pub const RECOVERY: Nanos = Nanos::from_millis(300);
/// The same where agents have to find the leader by connecting to one machine after the other.
pub const RECOVERY_CONNECTED: Nanos = Nanos::from_millis(500);
/// The longest time for which an agent that could reach the leader obeys another or none: three
/// leases (its own, and two of patience with one that hangs and accepts), an attempt to connect,
/// and four messages of up to 31 ms.
pub const FAILOVER: Nanos = Nanos::from_millis(500);
/// The longest time that a flow may be off while its links are idle: leases of coordinator, agent
/// and client, and the time after which a flow that hangs gives up its place.
pub const PATIENCE: Nanos = Nanos::from_millis(1500);
/// The same where a host claims flows that move nothing, and nothing else breaks.
pub const HOSTILE_PATIENCE: Nanos = Nanos::from_millis(950);
/// The pause between two comparisons of amounts.
pub const INSPECTION: Nanos = Nanos::from_millis(10);
/// The rate of each port.
pub const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// A bug to be planted between the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Agents obey a coordinator that is gone: something keeps telling them that it is there.
    EternalLease,
    /// The coordinator counts some progress twice.
    DoubleCount,
    /// A coordinator goes on leading when its lease is over.
    TwoLeaders,
    /// Some orders say nothing of what they should, and nothing shows that they do not.
    SilentLoss,
    /// A coordinator that has not heard of the kill switch says that it is off.
    LiftedSwitch,
    /// A coordinator believes any host about terms and the kill switch.
    ForgedStanding,
    /// A flow that moves nothing holds others for ever.
    PhantomFlow,
    /// A coordinator takes a sender's word for what has arrived.
    UnconfirmedBytes,
    /// An agent never gives up a silent connection.
    EternalConnection,
    /// A coordinator that loses its lease ends, and does not stand by.
    LeaseLostForGood,
    /// Clients go by a clock that is set back.
    ClockSetBack,
    /// A user's flows are not counted.
    BoundlessUser,
    /// An enforcer gives each connection the whole rate, or the whole trickle, of its flow.
    RateOfEach,
}

impl Bug {
    /// All of them, with the names by which they are asked for.
    pub const ALL: [(&'static str, Bug); 13] = [
        ("eternal-lease", Bug::EternalLease),
        ("double-count", Bug::DoubleCount),
        ("two-leaders", Bug::TwoLeaders),
        ("silent-loss", Bug::SilentLoss),
        ("lifted-switch", Bug::LiftedSwitch),
        ("forged-standing", Bug::ForgedStanding),
        ("phantom-flow", Bug::PhantomFlow),
        ("unconfirmed-bytes", Bug::UnconfirmedBytes),
        ("eternal-connection", Bug::EternalConnection),
        ("lease-lost-for-good", Bug::LeaseLostForGood),
        ("clock-set-back", Bug::ClockSetBack),
        ("boundless-user", Bug::BoundlessUser),
        ("rate-of-each", Bug::RateOfEach),
    ];
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("at {} ms: {what}", millis(*at))]
pub struct Violation {
    /// The time from the start.
    pub at: Nanos,
    /// The invariant that was broken, in words.
    pub what: String,
}

/// A run in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// The policy, with its parameters.
    pub policy: String,
    /// What was added to the run, in words: late reads, a greedy user, enforcers.
    pub additions: Vec<&'static str>,
    /// The time from the start to the last byte.
    pub end: Nanos,
    /// Coflows.
    pub coflows: usize,
    /// Flows.
    pub flows: usize,
    /// Messages between machines.
    pub messages: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Messages that came twice.
    pub doubled: u64,
    /// Processes that crashed or hung, and connections that were cut.
    pub faults: u64,
    /// Terms of coordinators.
    pub terms: u64,
    /// Times at which a client fell back to plain TCP.
    pub fallbacks: u64,
    /// Faults with their times: one line each.
    pub log: Vec<String>,
}

/// Runs what `seed` decides: over `workload`, or one that the seed draws.
///
/// # Errors
/// If an invariant did not hold; with the account up to then.
pub fn run(
    seed: u64,
    bug: Option<Bug>,
    workload: Option<&Workload>,
) -> Result<Account, Box<(Violation, Account)>> {
    let mut dice = SplitMix64::new(seed);
    let additions = additions::Additions::new(seed);
    let choice = choice::Choice::new(&mut dice, additions);
    let drawn = additions.split(choice.workload(&mut dice));
    let workload = workload.unwrap_or(&drawn);
    let ports = workload.ports() + u32::from(choice.is_hostile);
    let fabric = Fabric::big_switch(ports, RATE).expect("a workload has ports");
    let mut trial = trial::Trial::new(choice, bug, workload, &fabric, dice);
    match trial.run() {
        Ok(()) => Ok(trial.account()),
        Err(violation) => Err(Box::new((violation, trial.account()))),
    }
}

/// Returns the time since the beginning of a run.
fn passed(now: Instant) -> Nanos {
    now.since(EPOCH)
}

/// Returns whole milliseconds.
fn millis(span: Nanos) -> u64 {
    span.0 / 1_000_000
}

//! Between an agent and the coordinator: what changed, each round.
//!
//! A report says what changed at the agent since its last one; orders say what changed in the
//! schedule as far as it concerns the agent. Both are numbered. Who misses a number asks for a
//! snapshot (`resync`), who sees one twice leaves it; a snapshot says everything and stands for all
//! before it. So deltas are safe over any network, and a coordinator that has lost all its state
//! needs one snapshot from each agent.
//!
//! The one thing that only a coordinator is told from outside, its [`KillSwitch`], goes both ways
//! in snapshots: agents keep it for the next coordinator. They keep it sealed ([`Sealed`]), because
//! no agent may depose a coordinator or throw the switch.
//!
//! Coflows and flows go by numbers of the agent's own, small and close together; a coflow's key
//! crosses the wire once.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, Priority};

use super::bytes::{Field, Reader, fields, put_varint, variants};
use super::drains::Drain;
use super::error::WireError;
use super::keyed::Keyed;
use super::names::{CoflowKey, Facts};

fields! {
    /// The report of an agent on its flows.
    Report ("a report") {
        /// The agent's [`PROTOCOL`](crate::PROTOCOL).
        protocol: u16,
        /// The port that it stands at.
        port: PortId,
        /// Start of the agent, by its clock: numbers of flows and coflows mean something within one
        /// session only.
        session: u64,
        /// Counts the reports of the session.
        sequence: u64,
        /// Time at which it was made, by the agent's clock.
        clock: Instant,
        /// True if it says everything, and stands for all before.
        snapshot: bool,
        /// True if the agent has missed orders and wants a snapshot of them.
        resync: bool,
        /// In a snapshot, what the last coordinator that the agent obeyed has sealed.
        standing: Sealed,
        /// Rate at which the port can send.
        up: BitsPerSec,
        /// Rate at which the port can receive.
        down: BitsPerSec,
        /// Bytes that have come in from other ports in all, by their numbers, as the host's kernel
        /// has counted them: those that have changed, and all in a snapshot. Said where the
        /// coordinator asks for it.
        arrived: Keyed<Bytes>,
        /// Coflows that appeared, or of which more is known.
        coflows: Keyed<CoflowEntry>,
        /// Other users whom the owners of coflows in this report let take part in them.
        grants: Keyed<Vec<u32>>,
        /// Flows that appeared.
        flows: Keyed<FlowEntry>,
        /// Progress of flows reported before.
        progress: Keyed<Progress>,
        /// Flows that are over, with what they have sent since it was last said.
        closed: Keyed<Bytes>,
        /// Coflows that are over here, after all else in this report.
        left: Keyed<()>,
    }
}

impl Report {
    /// Makes a report of nothing, of an agent whose port sends and receives at `rate`.
    pub fn new(port: PortId, session: u64, sequence: u64, clock: Instant, rate: BitsPerSec) -> Self {
        Self {
            protocol: crate::PROTOCOL,
            port,
            session,
            sequence,
            clock,
            snapshot: false,
            resync: false,
            standing: Sealed::default(),
            up: rate,
            down: rate,
            arrived: Keyed::default(),
            coflows: Keyed::default(),
            grants: Keyed::default(),
            flows: Keyed::default(),
            progress: Keyed::default(),
            closed: Keyed::default(),
            left: Keyed::default(),
        }
    }

    /// The most that one report says of coflows and flows, so that its coordinator is busy with it
    /// for some tens of milliseconds at most: what is left over follows in the next one. That is 1
    /// MB where all have names.
    pub const MOST_ITEMS: usize = 8_192;

    /// Returns how much it says of coflows and flows.
    pub fn items(&self) -> usize {
        self.coflows.len() + self.flows.len() + self.progress.len() + self.closed.len() + self.left.len()
    }
}

fields! {
    /// The position of a fabric's kill switch, and the number of its throw. Of two that differ the
    /// greater is the newer.
    #[derive(Copy, PartialOrd, Ord)]
    KillSwitch ("a kill switch") {
        /// The term of the coordinator at which it was thrown.
        term: u64,
        /// Counts the throws of the term.
        throw: u64,
        /// True if every flow goes as plain TCP.
        is_on: bool,
    }
}

fields! {
    /// A coflow at an agent.
    #[derive(Copy)]
    CoflowEntry ("a coflow") {
        /// Its name.
        key: CoflowKey,
        /// The facts known here, if any.
        facts: Option<Facts>,
        /// Bytes sent here by flows that are over.
        sent: Bytes,
        /// The user of the host whose client spoke of it first there, as the kernel says.
        owner: u32,
    }
}

fields! {
    /// A flow at an agent.
    #[derive(Copy)]
    FlowEntry ("a flow") {
        /// The agent's number of its coflow.
        coflow: u32,
        /// The receiving port.
        to: PortId,
        /// Its bytes, if they are known.
        size: Option<Bytes>,
        /// Bytes sent.
        sent: Bytes,
        /// True if it has nothing to send, or makes no progress though it may.
        idle: bool,
    }
}

fields! {
    /// The progress of a flow since the last report.
    #[derive(Copy)]
    Progress ("progress") {
        /// Bytes sent since.
        sent: Bytes,
        /// True if it has nothing to send, or makes no progress though it may.
        idle: bool,
    }
}

fields! {
    /// The orders of the coordinator to an agent.
    Orders ("orders") {
        /// The coordinator's [`PROTOCOL`](crate::PROTOCOL).
        protocol: u16,
        /// The coordinator's term: each that takes over has a higher one, and agents obey the
        /// highest that they have heard.
        term: u64,
        /// The session that these orders are for.
        session: u64,
        /// Counts the orders of the term to this session.
        sequence: u64,
        /// True if they say everything, and stand for all before.
        snapshot: bool,
        /// True if the coordinator has missed a report and wants a snapshot.
        resync: bool,
        /// True if they are to be carried out. If not, they are for looking at: every flow goes as
        /// plain TCP.
        enforce: bool,
        /// True if the agent is to say what arrives.
        confirm: bool,
        /// In a snapshot, where the kill switch of the fabric stands, if it was ever thrown.
        switch: Option<KillSwitch>,
        /// In a snapshot, term and kill switch as the coordinator has sealed them, for the
        /// coordinator after it.
        standing: Sealed,
        /// Time that they hold; then the agent is without a coordinator.
        lease: Nanos,
        /// Time between the agent's reports.
        period: Nanos,
        /// Bytes that a coflow has to send at the agent before other hosts need know of it.
        quiet: Bytes,
        /// New priorities of coflows, which their flows have unless they have their own; by the
        /// agent's numbers.
        priorities: Keyed<Priority>,
        /// New orders for flows, by the agent's numbers.
        flows: Keyed<FlowOrder>,
        /// Coflows of which the agent may have no part, by the agent's numbers: their flows go as
        /// plain TCP.
        refused: Keyed<()>,
    }
}

fields! {
    /// The term of a coordinator, where the kill switch stood then, and what was drained.
    Standing ("a standing") {
        /// The term.
        term: u64,
        /// The latest throw of the kill switch that it knew of. Each change of `drains` counts as a
        /// throw.
        switch: Option<KillSwitch>,
        /// The drains of administrators, with their reasons.
        drains: Vec<Drain>,
    }
}

/// A [`Standing`] that only coordinators can make: agents keep it and hand it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// The most bytes.
    pub const LONGEST: usize = 4_096;

    /// Makes it of what was sealed.
    ///
    /// # Panics
    /// If it is longer than [`Sealed::LONGEST`].
    pub fn new(bytes: Vec<u8>) -> Self {
        assert!(bytes.len() <= Self::LONGEST, "a standing and its seal are short");
        Self(bytes)
    }

    /// Its bytes; none where there is no standing.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Field for Sealed {
    const NAME: &'static str = "a sealed standing";

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.0.len() as u64, out);
        out.extend_from_slice(&self.0);
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = reader.varint(Self::NAME, Self::LONGEST as u64)?;
        Ok(Self(reader.raw(length as usize, Self::NAME)?.to_vec()))
    }
}

fields! {
    /// The order for a flow.
    #[derive(Copy)]
    FlowOrder ("an order for a flow") {
        /// Its gate.
        gate: Gate,
        /// Its priority.
        rank: Rank,
    }
}

variants! {
    /// The priority of a flow.
    #[derive(Copy)]
    Rank ("a rank") {
        /// That of its coflow.
        0 => OfCoflow {},
        /// One of its own.
        1 => Own {
            /// The priority.
            priority: Priority,
        },
        /// None: it goes as plain TCP, also where other orders hold.
        2 => Plain {},
    }
}

variants! {
    /// A flow's permission to send, and its rate.
    #[derive(Copy)]
    Gate ("a gate") {
        /// It may not.
        0 => Off {},
        /// Open, as fast as TCP goes.
        1 => Open {},
        /// At most so fast.
        2 => Paced {
            /// The rate.
            rate: BitsPerSec,
        },
    }
}

impl core::fmt::Display for Gate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Off {} => f.write_str("off"),
            Self::Open {} => f.write_str("open"),
            Self::Paced { rate } => write!(f, "paced at {rate}"),
        }
    }
}

/// The gate of a flow without a decision.
impl Default for Gate {
    fn default() -> Self {
        Gate::Open {}
    }
}

fields! {
    /// The directive for a flow: its gate, and the class for its packets. By default it is plain
    /// TCP.
    #[derive(Copy, Default)]
    Directive ("a directive") {
        /// Its gate.
        gate: Gate,
        /// Its priority's class, for the network: the agent has folded classes into the few that
        /// there are. None where no decision holds: packets are marked as the application has them.
        class: Option<u16>,
    }
}

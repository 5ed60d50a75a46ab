//! The state of each agent, and the changes that its next orders have to carry.
//!
//! Ports are dense numbers, so agents stand in an array: with a hundred thousand of them a look-up
//! is a step where a map's is seventeen, and a report takes several.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{BitsPerSec, FlowId, Instant, PortId};
use cavalcade_protocol::CoflowKey;

/// The coordinator's knowledge of an agent, and its last orders.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) session: u64,
    /// The number of its last report.
    pub(super) heard: u64,
    pub(super) heard_at: Instant,
    /// Offset of its clock, in nanoseconds.
    pub(super) offset: i128,
    /// Rate at which its port can send, as it reports.
    pub(super) up: BitsPerSec,
    /// True if a snapshot from it is needed.
    pub(super) is_unknown: bool,
    /// True if it needs a snapshot from here.
    pub(super) owes_snapshot: bool,
    /// True if it is on the list of those with pending changes.
    pub(super) is_listed: bool,
    /// The number of the last orders.
    pub(super) sent: u64,
    pub(super) sent_at: Option<Instant>,
    pub(super) parts: BTreeMap<u32, Part>,
    /// Open flows.
    pub(super) flows: BTreeMap<u32, OpenFlow>,
    /// Flows and coflows whose changes go into the next orders, in any order.
    pub(super) new_orders: Vec<u32>,
    pub(super) new_priorities: Vec<u32>,
    /// Coflows of which it may have no part, with the refusal still to be sent.
    pub(super) refused: Vec<u32>,
    /// Parts and flows with an excess, and the one that was looked at last.
    pub(super) overdrawn: BTreeSet<Claim>,
    pub(super) last_overdrawn: Option<Claim>,
    /// Parts with bytes that no receiver has confirmed yet.
    pub(super) unconfirmed: BTreeSet<u32>,
}

/// Something with more reported bytes than count, by the agent's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// The flows of a part that are over.
    Part(u32),
    /// An open flow.
    Flow(u32),
}

/// An agent's part of a coflow.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) key: CoflowKey,
    /// Its owner there.
    pub(super) user: u32,
    /// Bytes of its flows that are over.
    pub(super) sent: u64,
    /// Reported bytes of those beyond that: they count once the line can have carried them.
    pub(super) excess: u64,
    /// Bytes of its open flows.
    pub(super) open: u64,
    /// True if bytes count only as receivers confirm them.
    pub(super) needs_confirmation: bool,
    /// The part of them that counts then.
    pub(super) counted: u64,
    pub(super) flows: BTreeSet<u32>,
}

impl Part {
    pub(super) fn new(key: CoflowKey, user: u32, needs_confirmation: bool) -> Self {
        let flows = BTreeSet::new();
        Self { key, user, sent: 0, excess: 0, open: 0, needs_confirmation, counted: 0, flows }
    }
}

/// A flow that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFlow {
    /// The agent's number of its coflow.
    pub(super) part: u32,
    /// The id of its record, unless that is of another flow by now.
    pub(super) id: FlowId,
    /// Reported bytes beyond those that count: they count once its line can have carried them.
    pub(super) excess: u64,
}

impl Peer {
    /// Records whether more bytes of something are reported than count.
    pub(super) fn set_overdrawn(&mut self, claim: Claim, is_overdrawn: bool) {
        if is_overdrawn {
            self.overdrawn.insert(claim);
        } else {
            self.overdrawn.remove(&claim);
        }
    }

    pub(super) fn new(session: u64, now: Instant, sent: u64, offset: i128) -> Self {
        Self {
            session,
            heard: 0,
            heard_at: now,
            offset,
            up: BitsPerSec::ZERO,
            is_unknown: true,
            owes_snapshot: true,
            is_listed: false,
            sent,
            sent_at: None,
            parts: BTreeMap::new(),
            flows: BTreeMap::new(),
            new_orders: Vec::new(),
            new_priorities: Vec::new(),
            refused: Vec::new(),
            overdrawn: BTreeSet::new(),
            last_overdrawn: None,
            unconfirmed: BTreeSet::new(),
        }
    }

    /// Returns whether its orders would be more than a sign of life.
    pub(super) fn has_news(&self) -> bool {
        let has_changes =
            !self.new_orders.is_empty() || !self.new_priorities.is_empty() || !self.refused.is_empty();
        self.owes_snapshot || self.is_unknown || has_changes
    }
}

/// Agents by port.
#[derive(Debug)]
pub(super) struct Peers {
    places: Vec<Option<Box<Peer>>>,
    count: usize,
}

impl Peers {
    /// For agents at so many ports, none of them connected yet.
    pub(super) fn new(ports: u32) -> Self {
        Self { places: (0..ports).map(|_| None).collect(), count: 0 }
    }

    /// Returns their number.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn get(&self, port: PortId) -> Option<&Peer> {
        self.places.get(port.index())?.as_deref()
    }

    pub(super) fn get_mut(&mut self, port: PortId) -> Option<&mut Peer> {
        self.places.get_mut(port.index())?.as_deref_mut()
    }

    /// Puts an agent at a port of the fabric that had no agent.
    pub(super) fn insert(&mut self, port: PortId, peer: Peer) {
        let former = self.places[port.index()].replace(Box::new(peer));
        assert!(former.is_none(), "the former agent at port {port:?} has been forgotten");
        self.count += 1;
    }

    pub(super) fn remove(&mut self, port: PortId) -> Option<Peer> {
        let peer = self.places.get_mut(port.index())?.take()?;
        self.count -= 1;
        Some(*peer)
    }

    /// All of them, in the order of ports.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PortId, &Peer)> {
        let named = self.places.iter().enumerate();
        named.filter_map(|(port, peer)| Some((PortId(port as u32), peer.as_deref()?)))
    }
}

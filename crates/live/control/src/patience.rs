//! The patience of a coordinator with flows that may send and make no progress.
//!
//! Such a flow holds others, so a coordinator waits for it no longer than the *stall*. Another flow
//! could be put in its place before that, in the same session or in a new one, and hold others
//! without end. So the time that was waited in vain is kept in two accounts, that of its host and
//! that of its user there ([`Senders`]): the stall of a flow that is let go begins as much earlier.
//! Once all of it is used up, a flow that is let go, or is new, or has something to send again,
//! holds others only after it has moved.
//!
//! - As soon as any flow of the host (or the user) moves, no time was waited for it in vain; only
//!   new flows are distrusted for a while ([`DISTRUST`]).
//! - Of two accounts the worse one counts. A compromised host may name a new user for each flow:
//!   the account of the host stays. A user on an honest host whose other users' flows move gets the
//!   host's patience back by them, not their own.
//! - A host may falsely report progress. So where receivers report arrivals (`confirm`), the same
//!   account is kept of each *way*, from a sender to a receiver, as the receiver confirms it
//!   ([`Ways`]).
//! - Time in which no flow was waited for does not count: an honest host that starts again has what
//!   was left.
//! - An honest host that is distrusted loses little: its flows go at once, and count when the first
//!   bytes are reported.
//! - A flow with a low rate moves seldom, as hosts write much at once: it is waited for longer
//!   ([`stall_at`]). It holds no more than that rate.
//!
//! State: at most two entries for each port, two for each user who was waited for within 20 s, and
//! four for each way that had flows. Cost: O(log n) of them where a flow moves, is let go, held or
//! over; O(flows) where something comes on a way whose flows rest.
//!
//! Rejected: to distrust a host as soon as a flow ends that has moved nothing. Those of an honest
//! agent that starts again do, and gates then differed for 10 s from those without faults.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{BitsPerSec, Bytes, FlowFacts, Instant, Nanos, PortId};
use cavalcade_protocol::Gate;

/// Time for which a host is distrusted, and for which time waited in vain is remembered.
const DISTRUST: Nanos = Nanos::from_secs(10);

/// Number of entries from which on old ones are forgotten.
const KEPT: usize = 1_024;

/// The most bytes that a host writes at once.
const WRITTEN_AT_ONCE: Bytes = Bytes(256 << 10);
/// The most times the stall that a slow flow is waited for.
const LONGEST: u64 = 4;

/// The longest stall for which the line alone is the reason.
const SLOWEST: Nanos = Nanos::from_secs(2);

/// Returns the stall at a line: `least`, or where that is longer the time in which it carries four
/// writes, two seconds at most. Several flows share a line, and one that waits behind the writes of
/// others has not stalled: were it taken for idle others would be let go, and it would be slower
/// still.
pub(crate) fn stall_on(line_rate: BitsPerSec, least: Nanos) -> Nanos {
    Bytes(4 * WRITTEN_AT_ONCE.0).time_at(line_rate).unwrap_or(SLOWEST).min(SLOWEST).max(least)
}

/// Returns the time for which a flow with this gate is waited for: the stall, or where that is
/// longer the time in which it is to write twice.
pub(crate) fn stall_at(gate: Gate, stall: Nanos) -> Nanos {
    let Gate::Paced { rate } = gate else { return stall };
    let longest = Nanos(stall.0.saturating_mul(LONGEST));
    let twice = Bytes(2 * WRITTEN_AT_ONCE.0).time_at(rate).unwrap_or(longest);
    twice.clamp(stall, longest)
}

/// The patience with all hosts, with all users, or with all ways.
#[derive(Debug)]
struct Patience<With> {
    /// The most time to wait for one.
    stall: Nanos,
    /// Time waited for each in vain, and until when that was.
    in_vain: BTreeMap<With, (Nanos, Instant)>,
    /// Time at which each distrusted one became so last.
    distrusted: BTreeMap<With, Instant>,
    /// Number of entries at which old ones are forgotten again.
    most: usize,
}

impl<With: Copy + Ord> Patience<With> {
    fn new(stall: Nanos) -> Self {
        Self { stall, in_vain: BTreeMap::new(), distrusted: BTreeMap::new(), most: KEPT }
    }

    /// Notes that a flow has moved.
    fn moved(&mut self, with: With) {
        self.in_vain.remove(&with);
    }

    /// Notes that a flow was waited for since `moved_at` and is no longer.
    fn give_up(&mut self, now: Instant, with: With, moved_at: Instant) {
        let span = now.since(moved_at).max(self.in_vain(now, with));
        self.in_vain.insert(with, (span, now));
        if span >= self.stall {
            self.distrusted.insert(with, now);
        }
        if self.in_vain.len() + self.distrusted.len() > self.most {
            self.forget_old(now);
        }
    }

    /// Returns since when a flow that is let go now counts as not having moved.
    fn begins_at(&self, now: Instant, with: With) -> Instant {
        Instant(now.0.saturating_sub(self.in_vain(now, with).0))
    }

    /// Returns whether new flows hold others only after they have moved.
    fn distrusts(&self, now: Instant, with: With) -> bool {
        self.distrusted.get(&with).is_some_and(|&since| now.since(since) < DISTRUST)
    }

    fn in_vain(&self, now: Instant, with: With) -> Nanos {
        let recent = self.in_vain.get(&with).filter(|(_, until)| now.since(*until) < DISTRUST);
        recent.map_or(Nanos::ZERO, |&(span, _)| span)
    }

    /// Drops what no longer counts; again when there are twice as many entries as are left, so that
    /// it costs little for each.
    fn forget_old(&mut self, now: Instant) {
        self.in_vain.retain(|_, (_, until)| now.since(*until) < DISTRUST);
        self.distrusted.retain(|_, since| now.since(*since) < DISTRUST);
        self.most = KEPT.max(2 * (self.in_vain.len() + self.distrusted.len()));
    }
}

/// A host and one of its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sender {
    pub(crate) port: PortId,
    /// The owner of the flow's coflow at that host.
    pub(crate) user: u32,
}

/// The patience with hosts and with each of their users, of which the lesser counts.
#[derive(Debug)]
pub(crate) struct Senders {
    hosts: Patience<PortId>,
    users: Patience<Sender>,
}

impl Senders {
    pub(crate) fn new(stall: Nanos) -> Self {
        Self { hosts: Patience::new(stall), users: Patience::new(stall) }
    }

    pub(crate) fn stall(&self) -> Nanos {
        self.hosts.stall
    }

    /// Notes that a flow of a sender has moved.
    pub(crate) fn moved(&mut self, sender: Sender) {
        self.hosts.moved(sender.port);
        self.users.moved(sender);
    }

    /// Notes that a flow was waited for since `moved_at` and is no longer.
    pub(crate) fn give_up(&mut self, now: Instant, sender: Sender, moved_at: Instant) {
        self.hosts.give_up(now, sender.port, moved_at);
        self.users.give_up(now, sender, moved_at);
    }

    /// Returns since when a flow that is let go now counts as not having moved.
    pub(crate) fn begins_at(&self, now: Instant, sender: Sender) -> Instant {
        self.hosts.begins_at(now, sender.port).min(self.users.begins_at(now, sender))
    }

    /// Returns whether new flows hold others only after they have moved.
    pub(crate) fn distrusts(&self, now: Instant, sender: Sender) -> bool {
        self.hosts.distrusts(now, sender.port) || self.users.distrusts(now, sender)
    }
}

/// A sender and a receiver.
type Way = (PortId, PortId);

/// The patience with ways, on which a flow is waited for only while its receiver gets something
/// from its sender. What a host sends to itself crosses no link, and no receiver confirms what it
/// sends out of the site: both are waited for.
#[derive(Debug)]
pub(crate) struct Ways {
    patience: Patience<Way>,
    /// Time at which something came on each way last.
    grew_at: BTreeMap<Way, Instant>,
    /// Ways with flows that rest until something comes.
    resting: BTreeSet<Way>,
    /// Number of hosts.
    hosts: u32,
}

impl Ways {
    pub(crate) fn new(stall: Nanos, hosts: u32) -> Self {
        Self { patience: Patience::new(stall), grew_at: BTreeMap::new(), resting: BTreeSet::new(), hosts }
    }

    /// Returns whether a flow has a receiver that confirms arrivals.
    fn is_told_of(&self, flow: FlowFacts) -> bool {
        flow.src != flow.dst && flow.dst.0 < self.hosts
    }

    /// Something has come on a way. Returns whether flows rested for want of that.
    pub(crate) fn grew(&mut self, now: Instant, way: Way) -> bool {
        self.grew_at.insert(way, now);
        self.patience.moved(way);
        self.resting.remove(&way)
    }

    /// Returns whether a new flow rests until something comes.
    pub(crate) fn distrusts(&mut self, now: Instant, flow: FlowFacts) -> bool {
        let way = (flow.src, flow.dst);
        let distrusts = self.patience.distrusts(now, way);
        if distrusts {
            self.resting.insert(way);
        }
        distrusts
    }

    /// A flow is let go. Returns since when it counts as waited for, and whether it rests because
    /// all patience is used up.
    pub(crate) fn let_go(&mut self, now: Instant, flow: FlowFacts) -> (Instant, bool) {
        let since = self.patience.begins_at(now, (flow.src, flow.dst));
        (since, self.rests(now, flow, since))
    }

    /// Returns whether a flow that has been waited for since then rests from now on, as nothing has
    /// come for the stall.
    pub(crate) fn rests(&mut self, now: Instant, flow: FlowFacts, since: Instant) -> bool {
        let rests = self.is_told_of(flow) && now.since(self.waited_since(flow, since)) >= self.patience.stall;
        if rests {
            self.give_up(now, flow, since);
            self.resting.insert((flow.src, flow.dst));
        }
        rests
    }

    /// Notes that a flow was waited for since then and is no longer.
    pub(crate) fn give_up(&mut self, now: Instant, flow: FlowFacts, since: Instant) {
        let since = self.waited_since(flow, since);
        if self.is_told_of(flow) {
            self.patience.give_up(now, (flow.src, flow.dst), since);
        }
    }

    fn waited_since(&self, flow: FlowFacts, since: Instant) -> Instant {
        self.grew_at.get(&(flow.src, flow.dst)).map_or(since, |&grew_at| grew_at.max(since))
    }
}

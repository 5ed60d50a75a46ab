//! The patience of a coordinator with flows that may send and move nothing.
//!
//! Such a flow holds others, so a coordinator waits for it no longer than the *stall*. A host could put another flow in its
//! place before that, in the same session or in a new one, and hold others for ever. So the time that was waited in vain is
//! kept for the host: the stall of a flow that is let go begins as much earlier. Once all of it is used up, a flow that is
//! let go, or is new, or has something to send again, holds others only after it has moved.
//!
//! - As soon as any flow of the host moves, no time was waited in vain; only new flows are distrusted for a while
//!   ([`DISTRUST`]).
//! - A host may say falsely that flows move. So where receivers are asked what has arrived (`confirm`), the same account is kept
//!   of each *way*, from a sender to a receiver, by the receiver's word ([`Ways`]).
//! - Time in which no flow of the host was waited for does not count: an honest host that starts again has what was left.
//! - An honest host that is distrusted loses little: its flows go at once, and count when the first bytes are reported.
//!
//! State: at most two entries for each port, and four for each way that had flows. Cost: O(log ports) where a flow moves, is let
//! go, held or over; O(flows) where something comes on a way whose flows rest.
//!
//! Rejected: to distrust a host as soon as a flow ends that has moved nothing. Those of an honest agent that starts again do,
//! and gates then differed for 10 s from those without faults.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{FlowFacts, Instant, Nanos, PortId};

/// Time for which a host is distrusted, and for which time waited in vain is remembered.
const DISTRUST: Nanos = Nanos::from_secs(10);

/// The patience with all hosts, or with all ways.
#[derive(Debug)]
pub(crate) struct Patience<With = PortId> {
    /// The most time to wait for one.
    stall: Nanos,
    /// Time waited for each in vain, and until when that was.
    in_vain: BTreeMap<With, (Nanos, Instant)>,
    /// Time at which each distrusted one became so last.
    distrusted: BTreeMap<With, Instant>,
}

impl<With: Copy + Ord> Patience<With> {
    pub(crate) fn new(stall: Nanos) -> Self {
        Self { stall, in_vain: BTreeMap::new(), distrusted: BTreeMap::new() }
    }

    pub(crate) fn stall(&self) -> Nanos {
        self.stall
    }

    /// Notes that a flow has moved.
    pub(crate) fn moved(&mut self, with: With) {
        self.in_vain.remove(&with);
    }

    /// Notes that a flow was waited for since `moved_at` and is no longer.
    pub(crate) fn give_up(&mut self, now: Instant, with: With, moved_at: Instant) {
        let span = now.since(moved_at).max(self.in_vain(now, with));
        self.in_vain.insert(with, (span, now));
        if span >= self.stall {
            self.distrusted.insert(with, now);
        }
    }

    /// Returns since when a flow that is let go now counts as not having moved.
    pub(crate) fn begins_at(&self, now: Instant, with: With) -> Instant {
        Instant(now.0.saturating_sub(self.in_vain(now, with).0))
    }

    /// Returns whether new flows hold others only after they have moved.
    pub(crate) fn distrusts(&self, now: Instant, with: With) -> bool {
        self.distrusted.get(&with).is_some_and(|&since| now.since(since) < DISTRUST)
    }

    fn in_vain(&self, now: Instant, with: With) -> Nanos {
        let recent = self.in_vain.get(&with).filter(|(_, until)| now.since(*until) < DISTRUST);
        recent.map_or(Nanos::ZERO, |&(span, _)| span)
    }
}

/// A sender and a receiver.
type Way = (PortId, PortId);

/// The patience with ways, on which a flow is waited for only while its receiver gets something from its sender. What a host
/// sends to itself crosses no link, and is waited for.
#[derive(Debug)]
pub(crate) struct Ways {
    patience: Patience<Way>,
    /// Time at which something came on each way last.
    grew_at: BTreeMap<Way, Instant>,
    /// Ways with flows that rest until something comes.
    resting: BTreeSet<Way>,
}

impl Ways {
    pub(crate) fn new(stall: Nanos) -> Self {
        Self { patience: Patience::new(stall), grew_at: BTreeMap::new(), resting: BTreeSet::new() }
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

    /// A flow is let go. Returns since when it counts as waited for, and whether it rests because all patience is used up.
    pub(crate) fn let_go(&mut self, now: Instant, flow: FlowFacts) -> (Instant, bool) {
        let since = self.patience.begins_at(now, (flow.src, flow.dst));
        (since, self.rests(now, flow, since))
    }

    /// Returns whether a flow that has been waited for since then rests from now on, as nothing has come for the stall.
    pub(crate) fn rests(&mut self, now: Instant, flow: FlowFacts, since: Instant) -> bool {
        let rests =
            flow.src != flow.dst && now.since(self.waited_since(flow, since)) >= self.patience.stall();
        if rests {
            self.give_up(now, flow, since);
            self.resting.insert((flow.src, flow.dst));
        }
        rests
    }

    /// Notes that a flow was waited for since then and is no longer.
    pub(crate) fn give_up(&mut self, now: Instant, flow: FlowFacts, since: Instant) {
        let since = self.waited_since(flow, since);
        if flow.src != flow.dst {
            self.patience.give_up(now, (flow.src, flow.dst), since);
        }
    }

    fn waited_since(&self, flow: FlowFacts, since: Instant) -> Instant {
        self.grew_at.get(&(flow.src, flow.dst)).map_or(since, |&grew_at| grew_at.max(since))
    }
}

//! The patience of a coordinator with flows that may send and move nothing.
//!
//! Such a flow holds others, so a coordinator waits for it no longer than the *stall*. A host could put another flow in its
//! place before that, in the same session or in a new one, and hold others for ever. So the time that was waited in vain is
//! kept for the host: the stall of a flow that is let go begins as much earlier. Once all of it is used up, a flow that is
//! let go, or is new, or has something to send again, holds others only after it has moved.
//!
//! - As soon as any flow of the host moves, no time was waited in vain; only new flows are distrusted for a while
//!   ([`DISTRUST`]). A host may say falsely that flows move; against that there is `confirm`.
//! - Time in which no flow of the host was waited for does not count: an honest host that starts again has what was left.
//! - An honest host that is distrusted loses little: its flows go at once, and count when the first bytes are reported.
//!
//! State: at most two entries for each port. Cost: O(log ports) where a flow moves, is let go, held or over.
//!
//! Rejected: to distrust a host as soon as a flow ends that has moved nothing. Those of an honest agent that starts again do,
//! and gates then differed for 10 s from those without faults.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, Nanos, PortId};

/// Time for which a host is distrusted, and for which time waited in vain is remembered.
pub(crate) const DISTRUST: Nanos = Nanos::from_secs(10);

/// The patience with all hosts.
#[derive(Debug)]
pub(crate) struct Patience {
    /// The most time to wait for a host.
    stall: Nanos,
    /// Time waited for each host in vain, and until when that was.
    in_vain: BTreeMap<PortId, (Nanos, Instant)>,
    /// Time at which each distrusted host became so last.
    distrusted: BTreeMap<PortId, Instant>,
}

impl Patience {
    pub(crate) fn new(stall: Nanos) -> Self {
        Self { stall, in_vain: BTreeMap::new(), distrusted: BTreeMap::new() }
    }

    pub(crate) fn stall(&self) -> Nanos {
        self.stall
    }

    /// Notes that a flow of a host has moved.
    pub(crate) fn moved(&mut self, port: PortId) {
        self.in_vain.remove(&port);
    }

    /// Notes that a flow of a host was waited for since `moved_at` and is no longer.
    pub(crate) fn give_up(&mut self, now: Instant, port: PortId, moved_at: Instant) {
        let span = now.since(moved_at).max(self.in_vain(now, port));
        self.in_vain.insert(port, (span, now));
        if span >= self.stall {
            self.distrusted.insert(port, now);
        }
    }

    /// Returns since when a flow that is let go now counts as not having moved.
    pub(crate) fn begins_at(&self, now: Instant, port: PortId) -> Instant {
        Instant(now.0.saturating_sub(self.in_vain(now, port).0))
    }

    /// Returns whether new flows of a host hold others only after they have moved.
    pub(crate) fn distrusts(&self, now: Instant, port: PortId) -> bool {
        self.distrusted.get(&port).is_some_and(|&since| now.since(since) < DISTRUST)
    }

    fn in_vain(&self, now: Instant, port: PortId) -> Nanos {
        let recent = self.in_vain.get(&port).filter(|(_, until)| now.since(*until) < DISTRUST);
        recent.map_or(Nanos::ZERO, |&(span, _)| span)
    }
}

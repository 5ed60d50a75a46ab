//! Ended coflows, for questions an hour later.
//!
//! Kept in memory by the coordinator that saw them end, for an hour and 10,000 of them at most; one
//! that takes over begins with none. A log on disk was rejected: what has to last belongs to the
//! collector of messages and figures.
//!
//! A coflow's time ends with its last flow: that it is kept for a while afterwards, because its
//! program may open more, or has not reported that it is over, is no time of its own. A key stands
//! here once: one that was taken for lost with its host and came back is the same coflow.
//!
//! # Cost
//! O(log n) for each end.

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, Instant, Nanos, PortId, Priority};
use cavalcade_protocol::{CoflowKey, Drain, Facts};

use super::Coordinator;

/// Time that an ended coflow is kept.
const KEPT: Nanos = Nanos::from_secs(3_600);

/// Number of those at most.
const MOST: usize = 10_000;

/// A coflow that is over, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastCoflow {
    /// Its key.
    pub key: CoflowKey,
    /// The facts known of it.
    pub facts: Option<Facts>,
    /// Its owner.
    pub owner: Option<u32>,
    /// Bytes that it had sent, as reported; with the last report of a host that is lost.
    pub sent: Bytes,
    /// The priority that it had at the end.
    pub priority: Priority,
    /// Time at which its last flow was over, or its last part where it had no flow.
    pub ended: Instant,
    /// True if its last host went silent, and has not returned with it since.
    pub is_lost: bool,
    /// The first drain under which flows of it went as plain TCP.
    pub drain: Option<Drain>,
}

/// Coflows that are over, the last one last.
#[derive(Debug, Default)]
pub(super) struct History {
    rows: BTreeMap<u64, PastCoflow>,
    /// The number of the one row that each key has.
    numbers: BTreeMap<CoflowKey, u64>,
    next: u64,
}

impl History {
    fn push(&mut self, past: PastCoflow) {
        let former = self.numbers.remove(&past.key).and_then(|number| self.rows.remove(&number));
        if self.rows.len() >= MOST {
            self.pop();
        }
        let number = self.next;
        self.next += 1;
        self.numbers.insert(past.key, number);
        let Some(former) = former else {
            self.rows.insert(number, past);
            return;
        };
        // A host that returns reports all again; a part that was over stays so, and another follows
        // it.
        let sent = match former.is_lost {
            true => former.sent.0.max(past.sent.0),
            false => former.sent.0.saturating_add(past.sent.0),
        };
        let whole = PastCoflow {
            sent: Bytes(sent),
            facts: past.facts.or(former.facts),
            owner: past.owner.or(former.owner),
            drain: former.drain.or(past.drain),
            ..past
        };
        self.rows.insert(number, whole);
    }

    fn pop(&mut self) {
        if let Some((_, past)) = self.rows.pop_first() {
            self.numbers.remove(&past.key);
        }
    }

    /// Forgets what was over too long ago.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.rows.values().next().is_some_and(|past| now.since(past.ended) > KEPT) {
            self.pop();
        }
    }
}

impl Coordinator {
    /// Coflows that were over within the last hour, the last one first.
    pub fn history(&self) -> impl Iterator<Item = &PastCoflow> {
        self.history.rows.values().rev()
    }

    /// Notes that a coflow is over, of which the agent at `port` had the last part, before it is
    /// forgotten; where that agent is lost, with the bytes that the coflow had before.
    pub(super) fn note_end(&mut self, now: Instant, port: PortId, key: CoflowKey, lost: Option<u64>) {
        let present = self.drains.of_all().or_else(|| self.drain_of_part(port, key)).cloned();
        let drain = self.drained.remove(&key).or(present);
        let Some(coflow) = self.hosted.coflow(key) else { return };
        let (facts, priority) = (coflow.facts, coflow.priority);
        let sent = Bytes(lost.unwrap_or(coflow.attained));
        let ended = coflow.done_at.filter(|_| coflow.flows.is_empty()).unwrap_or(now);
        let (owner, is_lost) = (self.owners.of(key), lost.is_some());
        self.history.push(PastCoflow { key, facts, owner, sent, priority, ended, is_lost, drain });
    }
}

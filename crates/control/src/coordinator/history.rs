//! Coflows that are over: what became of those that people ask about an hour later.
//!
//! Kept in memory by the coordinator that saw them end, for an hour and 10,000 of them at most; one that takes
//! over begins with none. A log on disk was rejected: what has to last belongs to the collector of messages and figures.

use std::collections::VecDeque;

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
    /// Bytes that it had sent, as reported; without what a host had said that is lost.
    pub sent: Bytes,
    /// The priority that it had at the end.
    pub priority: Priority,
    /// Time at which its last part was over.
    pub ended: Instant,
    /// True if its last host was no longer heard: it may have come back since, and then stands here twice.
    pub is_lost: bool,
    /// The first drain under which flows of it went as plain TCP.
    pub drain: Option<Drain>,
}

/// Coflows that are over, the last one last.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<PastCoflow>);

impl History {
    fn push(&mut self, past: PastCoflow) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(past);
    }

    /// Forgets what was over too long ago.
    pub(super) fn forget(&mut self, now: Instant) {
        while self.0.front().is_some_and(|past| now.since(past.ended) > KEPT) {
            self.0.pop_front();
        }
    }
}

impl Coordinator {
    /// Coflows that were over within the last hour, the last one first.
    pub fn history(&self) -> impl Iterator<Item = &PastCoflow> {
        self.history.0.iter().rev()
    }

    /// Notes that a coflow is over, of which the agent at `port` had the last part, before it is forgotten.
    pub(super) fn note_end(&mut self, now: Instant, port: PortId, key: CoflowKey, is_lost: bool) {
        let present = self.drains.of_all().or_else(|| self.drain_of_part(port, key)).cloned();
        let drain = self.drained.remove(&key).or(present);
        let Some(coflow) = self.hosted.coflow(key) else { return };
        let (facts, sent, priority) = (coflow.facts, Bytes(coflow.attained), coflow.priority);
        let owner = self.owners.of(key);
        self.history.push(PastCoflow { key, facts, owner, sent, priority, ended: now, is_lost, drain });
    }
}

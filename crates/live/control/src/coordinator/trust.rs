//! Which reports of agents a coordinator accepts.
//!
//! A compromised agent has a valid certificate; it may report false things about its own port, and
//! must not be able to do more harm than that (`docs/threats.md`). So:
//!
//! - Terms and positions of the kill switch count only as a coordinator has sealed them
//!   ([`Notary`]). Agents keep them for the next coordinator and cannot make one.
//! - A part of a coflow has sent no more bytes than the line rate allows since the coflow was
//!   registered, and one of another host's coflow no more than receivers confirm, where
//!   confirmation is on (`confirm`). Reported bytes of an open flow beyond that count later: a
//!   report that was held up makes its host's clock look late, and coflows too young, until the
//!   next.
//! - A coflow that is new here and whose number lies far in the past is refused: it would go before
//!   all others. Where agents keep small coflows to themselves
//!   ([`CoordinatorConfig::quiet`](super::CoordinatorConfig::quiet)) it is accepted: it may have
//!   been small for long, and its order counts only among those that have sent as much.
//! - A flow that may send and makes no progress for
//!   [`CoordinatorConfig::stall`](super::CoordinatorConfig::stall) no longer holds others, and
//!   another flow or session in its place has what is left of that time (`patience`).
//!
//! Ages are measured by the clock of the agent that gave out the number, whose offset to this
//! host's is known. A host that reports false times makes its own coflows old or young, and no
//! other's.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{CoflowKey, Message, Sealed, Standing, TaskCounter};

use super::Coordinator;

/// Time that the numbers of ended coflows are remembered: their hosts may have been cut off
/// meanwhile.
pub(super) const REMEMBERED: Nanos = Nanos::from_secs(600);

/// The most of those.
const MOST_REMEMBERED: usize = 1 << 20;

/// The most that the number of a coflow new here may lie in the past: clients without an agent
/// number their coflows themselves and join them later.
const STALE: Nanos = Nanos::from_secs(60);

/// The most that clocks of hosts that are not connected may be off.
const CLOCKS: Nanos = Nanos::from_secs(5);

/// Leases after its start for which a coordinator accepts coflows of any age: it has just taken
/// over.
pub(super) const YOUNG_LEASES: u64 = 10;

/// By how much an agent's own line rate may exceed the fabric's.
const FASTER: u64 = 10;

/// Seals what agents keep for coordinators.
pub trait Notary: Send {
    /// The statement with its seal.
    fn seal(&self, statement: &[u8]) -> Vec<u8>;
    /// The statement, if the seal is a coordinator's.
    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>>;
}

/// Accepts all: for a site without certificates, where every host is trusted.
pub(super) struct Unsealed;

impl Notary for Unsealed {
    fn seal(&self, statement: &[u8]) -> Vec<u8> {
        statement.to_vec()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        Some(sealed.to_vec())
    }
}

impl std::fmt::Debug for dyn Notary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a notary")
    }
}

impl Coordinator {
    /// Its own standing, sealed.
    pub(super) fn standing(&self) -> Sealed {
        let standing =
            Standing { term: self.config.term, switch: self.switch, drains: self.drains.list().to_vec() };
        Sealed::new(self.notary.seal(&standing.to_bytes()))
    }

    /// Handles a standing that another coordinator has sealed.
    pub(super) fn receive_standing(&mut self, sealed: &Sealed) {
        if sealed.as_bytes().is_empty() {
            return;
        }
        let opened = self.notary.open(sealed.as_bytes());
        let Some(standing) = opened.and_then(|bytes| Standing::decode(&bytes).ok()) else {
            self.counters.forged_standings += 1;
            return;
        };
        self.term = self.term.max(standing.term);
        self.receive_switch(standing);
    }

    /// The time that it is by the clocks of most agents.
    fn common_time(&self, now: Instant) -> i128 {
        i128::from(now.0) + self.offset
    }

    /// Measures how far most agents' clocks are ahead of the own.
    pub(super) fn compare_clocks(&mut self) {
        let mut offsets: Vec<i128> = self.peers.iter().map(|(_, peer)| peer.offset).collect();
        if !offsets.is_empty() {
            let middle = offsets.len() / 2;
            self.offset = *offsets.select_nth_unstable(middle).1;
        }
    }

    /// Returns the age of a coflow at most.
    fn age(&self, now: Instant, key: CoflowKey) -> Nanos {
        let home = TaskCounter::agent_of(key.serial, self.config.ports);
        let there = match home.and_then(|port| self.peers.get(port)) {
            Some(home) => i128::from(now.0) + home.offset,
            None => self.common_time(now) + i128::from(CLOCKS.0),
        };
        Nanos((there - i128::from(key.serial)).clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// The most bytes that the agent at `port` can have sent of a coflow by now.
    pub(super) fn allowance(&self, now: Instant, port: PortId, key: CoflowKey) -> u64 {
        let line = self.config.line_rate.0;
        let own = self.peers.get(port).map_or(0, |peer| peer.up.0).min(line.saturating_mul(FASTER));
        let time = self.age(now, key).0.saturating_add(self.config.lease.0);
        let bytes = u128::from(BitsPerSec(line.max(own)).0) * u128::from(time) / 8_000_000_000;
        bytes.min(u128::from(u64::MAX)) as u64
    }

    /// Returns whether a coflow that is not known here has too old a number to be new.
    pub(super) fn is_stale(&self, now: Instant, key: CoflowKey) -> bool {
        let young = Nanos(YOUNG_LEASES * self.config.lease.0);
        let is_young = self.started.is_none_or(|started| now.since(started) <= young);
        let is_old = i128::from(key.serial) + i128::from(STALE.0) < self.common_time(now);
        let may_be_old = self.config.quiet > Bytes::ZERO;
        is_old
            && !may_be_old
            && !is_young
            && !self.holders.contains_key(&key)
            && !self.remembered.contains_key(&key)
    }

    /// Remembers the number of a coflow that is over.
    pub(super) fn remember(&mut self, now: Instant, key: CoflowKey) {
        if self.remembered.len() >= MOST_REMEMBERED {
            self.remembered.pop_first();
        }
        self.remembered.insert(key, now);
    }
}

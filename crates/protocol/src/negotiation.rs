//! Statements between hosts over datagrams that are lost, late, doubled and out of order.
//!
//! Each statement is complete in itself and is repeated while it matters (D-CAS §IV), so nothing is acknowledged or sent
//! again here. What has to be kept out is the past: a datagram that overtakes nothing new. The receiver therefore keeps,
//! for each peer, the session and number of the newest datagram, and leaves out what is not newer.
//!
//! A datagram may also be the newest and still be old, where the network held it back. Clocks differ, so its time of
//! sending cannot be compared with the receiver's; but the smallest difference ever seen is the clocks' difference plus
//! the shortest way, and what exceeds that by more than [`EXPIRY`] is dropped (D-CAS: expired messages are removed).
//! Clocks that drift by 100 ppm move that by 0.4 s in an hour; the smallest is therefore taken anew from time to time.

use std::collections::BTreeMap;

use crate::{Datagram, MAX_DATAGRAM, Message, PROTOCOL, Statement};
use cavalcade_model::{Instant, Nanos, PortId};

/// After how long what a peer said is dropped (D-CAS §V-A).
const EXPIRY: Nanos = Nanos::from_secs(2);

/// Periods of [`EXPIRY`] after which the smallest difference of clocks is measured anew.
const REMEASURE: u64 = 64;

/// What one host knows of its peers' datagrams.
#[derive(Debug)]
pub struct Negotiation {
    port: PortId,
    session: u64,
    sent: BTreeMap<PortId, u64>,
    peers: BTreeMap<PortId, Peer>,
}

#[derive(Debug)]
struct Peer {
    session: u64,
    sequence: u64,
    heard: Instant,
    /// The smallest of arrival minus sending, over this span of measuring and the one before. Clocks may differ either
    /// way: a wrapping difference read as signed.
    least: i64,
    least_before: i64,
    measured_from: Instant,
}

impl Peer {
    fn new(session: u64, now: Instant) -> Self {
        let least = i64::MAX;
        Self { session, sequence: 0, heard: now, least, least_before: least, measured_from: now }
    }

    /// Takes in a way's duration (with the clocks' difference in it); returns by how much it exceeds the least.
    fn excess(&mut self, way: i64, now: Instant) -> u64 {
        if now.since(self.measured_from).0 > EXPIRY.0 * REMEASURE {
            (self.least_before, self.least, self.measured_from) = (self.least, way, now);
        }
        self.least = self.least.min(way);
        way.saturating_sub(self.least.min(self.least_before)).unsigned_abs()
    }
}

impl Negotiation {
    /// For the host at `port`, started at `session` by its clock.
    pub fn new(port: PortId, session: u64) -> Self {
        Self { port, session, sent: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// The datagrams that say `statements` to `to`, none longer than fits.
    pub fn send(&mut self, now: Instant, to: PortId, statements: &[Statement]) -> Vec<Datagram> {
        let mut datagrams: Vec<Datagram> = Vec::new();
        let mut length = 0;
        for statement in statements {
            let more = statement.to_bytes().len();
            // A head is at most 40 bytes, and so is a statement.
            if datagrams.is_empty() || length + more > MAX_DATAGRAM - 48 {
                let sequence = self.sent.entry(to).or_default();
                *sequence += 1;
                datagrams.push(Datagram {
                    protocol: PROTOCOL,
                    from: self.port,
                    session: self.session,
                    sequence: *sequence,
                    sent_at: now,
                    statements: Vec::new(),
                });
                length = 0;
            }
            length += more;
            if let Some(last) = datagrams.last_mut() {
                last.statements.push(*statement);
            }
        }
        datagrams
    }

    /// Takes in a datagram; returns what it says unless that is not to be heeded.
    pub fn receive(&mut self, now: Instant, datagram: Datagram) -> Option<Vec<Statement>> {
        if datagram.protocol != PROTOCOL {
            return None;
        }
        let peer = self.peers.entry(datagram.from).or_insert_with(|| Peer::new(datagram.session, now));
        if datagram.session != peer.session {
            // A lower session is the past, unless the peer's clock was set back: then the higher one is silent.
            if datagram.session < peer.session && now.since(peer.heard) <= EXPIRY {
                return None;
            }
            *peer = Peer::new(datagram.session, now);
        }
        if datagram.sequence <= peer.sequence {
            return None;
        }
        let way = now.0.wrapping_sub(datagram.sent_at.0) as i64;
        if peer.excess(way, now) > EXPIRY.0 {
            return None;
        }
        peer.sequence = datagram.sequence;
        peer.heard = now;
        Some(datagram.statements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CoflowKey;
    use cavalcade_model::Payload;

    fn desired(order: u64) -> Statement {
        Statement { coflow: CoflowKey::new(u64::MAX / 2, &[]), payload: Payload::of_number(0, order) }
    }

    fn pair() -> (Negotiation, Negotiation) {
        (Negotiation::new(PortId(0), 7), Negotiation::new(PortId(1), 9))
    }

    /// A datagram of one statement, sent by `from` at `now`.
    fn one(from: &mut Negotiation, now: u64, order: u64) -> Datagram {
        from.send(Instant(now), PortId(1), &[desired(order)]).remove(0)
    }

    #[test]
    fn what_was_overtaken_or_comes_twice_is_left_out() {
        let (mut near, mut far) = pair();
        let (first, second) = (one(&mut near, 100, 1), one(&mut near, 200, 2));
        assert_eq!(far.receive(Instant(300), second.clone()), Some(vec![desired(2)]));
        assert_eq!(far.receive(Instant(301), first), None);
        assert_eq!(far.receive(Instant(302), second), None);
    }

    #[test]
    fn what_the_network_held_back_is_dropped_whatever_the_clocks_say() {
        for skew in [0, u64::MAX / 3] {
            let (mut near, mut far) = pair();
            let at = |now: u64| Instant(now.wrapping_add(skew));
            assert!(far.receive(at(1_000), one(&mut near, 1_000_000, 1)).is_some());
            let held = one(&mut near, 2_000_000, 2);
            assert_eq!(far.receive(at(5_000_000_000), held), None);
            assert!(far.receive(at(5_000_001_000), one(&mut near, 5_001_000_000, 3)).is_some());
        }
    }

    #[test]
    fn a_peer_that_started_again_is_heard_and_its_former_life_is_not() {
        let (mut near, mut far) = pair();
        let old = one(&mut near, 100, 1);
        far.receive(Instant(100), one(&mut near, 100, 1));
        let mut again = Negotiation::new(PortId(0), 8);
        assert!(far.receive(Instant(200), one(&mut again, 200, 2)).is_some());
        assert_eq!(far.receive(Instant(300), old), None);
    }

    #[test]
    fn many_statements_go_in_several_datagrams_each_of_which_fits() {
        let (mut near, mut far) = pair();
        let said: Vec<Statement> = (0..500).map(|order| desired(u64::MAX - order)).collect();
        let datagrams = near.send(Instant(1), PortId(1), &said);
        assert!(datagrams.len() > 1 && datagrams.iter().all(|one| one.to_bytes().len() <= MAX_DATAGRAM));
        let heard = datagrams.into_iter().flat_map(|one| far.receive(Instant(2), one).unwrap());
        assert_eq!(heard.collect::<Vec<_>>(), said);
    }
}

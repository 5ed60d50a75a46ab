//! Statements between hosts over datagrams that are lost, late, doubled and out of order.
//!
//! Each statement is complete in itself and is repeated while it matters (D-CAS §IV), so nothing is
//! acknowledged or sent again here. What has to be kept out is the past: a datagram that overtakes
//! nothing new. The receiver therefore keeps, for each peer, the session and number of the newest
//! datagram, and leaves out what is not newer.
//!
//! A datagram may also be the newest and still be old, where the network held it back. Clocks
//! differ, so its time of sending cannot be compared with the receiver's; but the smallest
//! difference ever seen is the clocks' difference plus the shortest way, and what exceeds that by
//! more than [`EXPIRY`] is dropped (D-CAS: expired messages are removed). Clocks that drift by 100
//! ppm move that by 0.4 s in an hour; the smallest is therefore taken again from time to time.
//!
//! A datagram names its receiver and the receiver's session, both under the tag of the shell: one
//! that was recorded is of no use at another host or in a later session of the receiver, which
//! answers with its present session. What remains: a host that has just started accepts the
//! first datagram of a former session of its peer until it receives one of the present.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Datagram, MAX_DATAGRAM, Message, PROTOCOL, Statement};
use cavalcade_model::{Instant, Nanos, PortId};

/// After how long what a peer said is dropped (D-CAS §V-A).
const EXPIRY: Nanos = Nanos::from_secs(2);

/// The silence of a host after which a lower session of it is accepted: long enough that a recorded
/// datagram is of no use, and a clock that was set back does not silence a host for a day.
const FORMER_SESSION: Nanos = Nanos::from_secs(3600);

/// The least time between two greetings to one peer.
const GREETING_PAUSE: Nanos = Nanos::from_millis(100);

/// Periods of [`EXPIRY`] after which the smallest difference of clocks is measured again.
const REMEASURE: u64 = 64;

/// The state of one host's datagrams with its peers.
#[derive(Debug)]
pub struct Negotiation {
    port: PortId,
    session: u64,
    sent: BTreeMap<PortId, u64>,
    peers: BTreeMap<PortId, Peer>,
    /// Time at which each peer was greeted last, and who is to be greeted.
    greeted: BTreeMap<PortId, Instant>,
    to_greet: BTreeSet<PortId>,
}

#[derive(Debug)]
struct Peer {
    session: u64,
    sequence: u64,
    heard: Instant,
    /// The smallest of arrival minus sending, over this span of measuring and the one before.
    /// Clocks may differ either way: a wrapping difference read as signed.
    least: i64,
    least_before: i64,
    measured_from: Instant,
}

impl Peer {
    fn new(session: u64, now: Instant) -> Self {
        let least = i64::MAX;
        Self { session, sequence: 0, heard: now, least, least_before: least, measured_from: now }
    }

    /// Takes in a way's duration (with the clocks' difference in it); returns by how much it
    /// exceeds the least.
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
        let (greeted, to_greet) = (BTreeMap::new(), BTreeSet::new());
        Self { port, session, sent: BTreeMap::new(), peers: BTreeMap::new(), greeted, to_greet }
    }

    /// The datagrams that say `statements` to `to`, none longer than fits.
    pub fn send(&mut self, now: Instant, to: PortId, statements: &[Statement]) -> Vec<Datagram> {
        let mut datagrams: Vec<Datagram> = Vec::new();
        let mut length = 0;
        for statement in statements {
            let more = statement.to_bytes().len();
            // A head is at most 56 bytes.
            if datagrams.is_empty() || length + more > MAX_DATAGRAM - 64 {
                datagrams.push(self.datagram(now, to));
                length = 0;
            }
            length += more;
            if let Some(last) = datagrams.last_mut() {
                last.statements.push(*statement);
            }
        }
        datagrams
    }

    fn datagram(&mut self, now: Instant, to: PortId) -> Datagram {
        let sequence = self.sent.entry(to).or_default();
        *sequence += 1;
        Datagram {
            protocol: PROTOCOL,
            from: self.port,
            session: self.session,
            to,
            to_session: self.peers.get(&to).map(|peer| peer.session),
            sequence: *sequence,
            sent_at: now,
            statements: Vec::new(),
        }
    }

    /// Datagrams without statements for peers that spoke to a former session of this host: they
    /// learn the present one.
    pub fn greetings(&mut self, now: Instant) -> Vec<(PortId, Datagram)> {
        let due = std::mem::take(&mut self.to_greet);
        due.into_iter().map(|to| (to, self.datagram(now, to))).collect()
    }

    /// Takes in a datagram; returns what it says unless that is not to be heeded.
    pub fn receive(&mut self, now: Instant, datagram: Datagram) -> Option<Vec<Statement>> {
        if datagram.protocol != PROTOCOL || datagram.to != self.port {
            return None;
        }
        if datagram.to_session.is_some_and(|session| session != self.session) {
            let last = self.greeted.entry(datagram.from).or_insert(Instant::ZERO);
            if now.since(*last) >= GREETING_PAUSE {
                *last = now;
                self.to_greet.insert(datagram.from);
            }
            return None;
        }
        let peer = self.peers.entry(datagram.from).or_insert_with(|| Peer::new(datagram.session, now));
        if datagram.session != peer.session {
            // A lower session is the past, unless the peer's clock was set back: then the higher
            // one is silent for long.
            if datagram.session < peer.session && now.since(peer.heard) <= FORMER_SESSION {
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
    fn a_recorded_datagram_is_refused_at_another_host_and_by_a_later_session() {
        let (mut near, mut far) = pair();
        let mut third = Negotiation::new(PortId(2), 5);
        let first = one(&mut near, 100, 1);
        assert_eq!(third.receive(Instant(101), first.clone()), None, "it is for another host");
        assert!(far.receive(Instant(101), first).is_some());
        near.receive(Instant(102), far.send(Instant(102), PortId(0), &[desired(1)]).remove(0));
        let recorded = one(&mut near, 200, 2);
        let mut again = Negotiation::new(PortId(1), 10);
        let started = Instant(5_000_000_000);
        assert_eq!(again.receive(started, recorded.clone()), None, "it is for a former session");
        let greetings = again.greetings(started);
        assert_eq!(greetings.len(), 1);
        assert!(again.receive(started, recorded).is_none() && again.greetings(started).is_empty());
        near.receive(started, greetings[0].1.clone());
        assert!(again.receive(started, one(&mut near, 5_000_000_000, 3)).is_some());
    }

    #[test]
    fn a_former_session_is_not_heard_because_the_present_one_is_silent_for_a_while() {
        let (mut near, mut far) = pair();
        let old = one(&mut near, 100, 1);
        let mut again = Negotiation::new(PortId(0), 8);
        assert!(far.receive(Instant(200), one(&mut again, 200, 2)).is_some());
        assert_eq!(far.receive(Instant(200) + Nanos::from_secs(60), old), None);
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

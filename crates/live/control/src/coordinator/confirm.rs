//! What receivers report as arrived, and how much of a host's claims it confirms.
//!
//! A host reports itself what its flows have sent. For its own coflows that is accepted up to what
//! its line carries: a false report harms that host alone. With
//! [`CoordinatorConfig::confirm`](super::CoordinatorConfig::confirm) two things depend on
//! receivers, whose kernels count what comes in from each port:
//!
//! - Bytes of a **foreign part**, of a coflow whose number another host gave out, count only as far
//!   as receivers got as many bytes from the host. What is not confirmed yet counts once it is;
//!   credit that is not claimed within some leases expires, so that no host can hoard it.
//! - A flow that may send holds others only while its receiver gets something from its host. If it
//!   gets nothing for [`CoordinatorConfig::stall`](super::CoordinatorConfig::stall) the flow rests,
//!   and so do new ones on that way, until something arrives (`patience`).
//!
//! A receiver can so report too little of what came to itself, and nothing of others. What a host
//! sends to itself crosses no link and is confirmed by no other host: it counts in its own coflows
//! only.
//!
//! # What was rejected
//! - Reports of the receiving application: it would have to use the client library only to count.
//! - Counts for each connection: the sender declares in any case which coflow a connection belongs
//!   to, and closed connections would have to be kept until they are queried.

use std::collections::BTreeMap;

use cavalcade_model::{BitsPerSec, Instant, Nanos, PortId};
use cavalcade_protocol::{Report, TaskCounter};

use super::Coordinator;
use super::trust::YOUNG_LEASES;

/// The bytes that one port has received from another.
#[derive(Debug)]
struct Arrival {
    /// The session of the receiver that counts.
    session: u64,
    total: u64,
}

/// The bytes that receivers have confirmed to a sender, and those that it has used.
#[derive(Clone, Copy, Debug, Default)]
struct Credit {
    /// Wider than any report can fill: were it full, what honest receivers confirm would be lost to
    /// the sender.
    confirmed: u128,
    /// Bytes of parts that are over, and bytes that were not claimed in time.
    spent: u128,
    /// Bytes of present foreign parts that count.
    counted: u64,
    /// Bytes that counted before the host was forgotten: it reports them again.
    returning: u64,
    /// Time of the host's first report.
    since: Instant,
}

impl Credit {
    fn room(&self) -> u64 {
        let room = self.confirmed.saturating_sub(self.spent).saturating_sub(self.counted.into());
        room.try_into().unwrap_or(u64::MAX)
    }
}

/// The confirmed bytes.
#[derive(Debug, Default)]
pub(super) struct Confirmations {
    /// By receiver and sender.
    arrivals: BTreeMap<(PortId, PortId), Arrival>,
    credits: BTreeMap<PortId, Credit>,
}

impl Confirmations {
    /// A part is over: what counted of it is used up.
    pub(super) fn end(&mut self, from: PortId, counted: u64) {
        if let Some(credit) = self.credits.get_mut(&from) {
            credit.counted = credit.counted.saturating_sub(counted);
            credit.spent += u128::from(counted);
        }
    }

    /// So many bytes of a part that is over are reported again: they were not used up.
    pub(super) fn give_back(&mut self, from: PortId, counted: u64) {
        if let Some(credit) = self.credits.get_mut(&from) {
            credit.spent = credit.spent.saturating_sub(counted.into());
            credit.returning = credit.returning.saturating_add(counted);
        }
    }

    /// A host is forgotten: it reports again what counted.
    pub(super) fn forget(&mut self, from: PortId) {
        if let Some(credit) = self.credits.get_mut(&from) {
            credit.returning = credit.returning.saturating_add(credit.counted);
            credit.counted = 0;
        }
    }

    /// Counts `claimed` bytes where `counted` counted before, as far as there is room. Returns how
    /// many count now.
    fn count(&mut self, from: PortId, counted: u64, claimed: u64) -> u64 {
        let Some(credit) = self.credits.get_mut(&from) else { return 0 };
        let now_counted = claimed.min(counted.saturating_add(credit.room()));
        credit.counted = credit.counted.saturating_sub(counted).saturating_add(now_counted);
        credit.returning = credit.returning.saturating_sub(now_counted.saturating_sub(counted));
        now_counted
    }
}

impl Coordinator {
    /// Returns whether a coflow at `port` is another host's, so that its bytes count only as
    /// receivers confirm them.
    pub(super) fn needs_confirmation(&self, port: PortId, key: cavalcade_protocol::CoflowKey) -> bool {
        self.config.confirm && TaskCounter::agent_of(key.serial, self.config.ports) != Some(port)
    }

    /// Handles a host's report of arrivals.
    pub(super) fn take_arrivals(&mut self, now: Instant, report: &Report) {
        if !self.config.confirm {
            return;
        }
        let to = report.port;
        self.confirmations.credits.entry(to).or_insert(Credit { since: now, ..Credit::default() });
        for (from, total) in report.arrived.iter().map(|(from, total)| (PortId(from), total.0)) {
            if from != to && from.0 < self.config.ports {
                self.take_arrival(now, (to, from), report.session, total);
            }
        }
    }

    fn take_arrival(&mut self, now: Instant, way: (PortId, PortId), session: u64, total: u64) {
        let fresh = Arrival { session, total: 0 };
        let arrival = self.confirmations.arrivals.entry(way).or_insert(fresh);
        // A receiver that has started again counts from another base.
        let before = if arrival.session == session { arrival.total } else { total };
        (arrival.session, arrival.total) = (session, total);
        let more = total.saturating_sub(before);
        if more == 0 {
            return;
        }
        let (to, from) = way;
        self.hosted.confirm_way(now, from, to);
        let most = self.most_credit();
        let young = Nanos(YOUNG_LEASES * self.config.lease.0);
        let fresh = Credit { since: now, ..Credit::default() };
        let credit = self.confirmations.credits.entry(from).or_insert(fresh);
        credit.confirmed += u128::from(more);
        let unclaimed = credit.room();
        let most = most.saturating_add(credit.returning);
        if now.since(credit.since) > young && unclaimed > most {
            credit.spent += u128::from(unclaimed - most);
        }
        self.count_waiting(now, from);
    }

    /// The most that may be confirmed and not claimed yet: what the line carries in the time that
    /// claims may take.
    fn most_credit(&self) -> u64 {
        let BitsPerSec(rate) = self.config.line_rate;
        let bytes = u128::from(rate) * u128::from(YOUNG_LEASES * self.config.lease.0) / 8_000_000_000;
        bytes.min(u128::from(u64::MAX)) as u64
    }

    /// Counts what has waited for a confirmation.
    fn count_waiting(&mut self, now: Instant, from: PortId) {
        let Some(peer) = self.peers.get_mut(from) else { return };
        for number in std::mem::take(&mut peer.unconfirmed) {
            self.count_part(now, from, number);
        }
    }

    /// Brings up to date what of a foreign part counts.
    pub(super) fn count_part(&mut self, now: Instant, port: PortId, number: u32) {
        let Some(peer) = self.peers.get_mut(port) else { return };
        let Some(part) = peer.parts.get_mut(&number).filter(|part| part.needs_confirmation) else { return };
        let claimed = part.sent.saturating_add(part.open);
        let before = part.counted;
        part.counted = self.confirmations.count(port, before, claimed);
        let (key, counted) = (part.key, part.counted);
        if counted < claimed {
            peer.unconfirmed.insert(number);
        } else {
            peer.unconfirmed.remove(&number);
        }
        self.hosted.adjust(now, key, i128::from(counted) - i128::from(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_part_that_was_taken_away_count_when_they_are_said_again_and_those_of_one_that_ended_do_not()
    {
        let (from, mut confirmations) = (PortId(0), Confirmations::default());
        confirmations.credits.insert(from, Credit { confirmed: 100, ..Credit::default() });
        assert_eq!(confirmations.count(from, 0, 80), 80);
        confirmations.end(from, 80);
        assert_eq!(confirmations.count(from, 0, 80), 20);
        assert_eq!(confirmations.count(from, 20, 0), 0);
        confirmations.give_back(from, 80);
        assert_eq!(confirmations.count(from, 0, 80), 80);
    }

    #[test]
    fn a_receiver_that_confirms_the_most_that_can_be_said_leaves_room_for_what_others_confirm() {
        let (from, mut confirmations) = (PortId(0), Confirmations::default());
        let most = u128::from(u64::MAX);
        confirmations
            .credits
            .insert(from, Credit { confirmed: 2 * most, spent: 2 * most, ..Credit::default() });
        confirmations.credits.get_mut(&from).expect("it was put in").confirmed += 100;
        assert_eq!(confirmations.count(from, 0, 80), 80);
    }
}

//! Reliability, once for all senders: which segments are out, which have arrived, which are lost,
//! and when to stop waiting.
//!
//! The idea is that of TCP with selective acknowledgements (RFC 6675), in segments. An
//! acknowledgement says how far everything has arrived and names the run of segments around the one
//! that it answers. A segment is taken for lost once `tolerance` segments above it have arrived, or
//! once nothing has moved for the retransmission timeout (RFC 6298); then all that is out and not
//! known to have arrived is taken for lost.
//!
//! # Invariants
//! - `una ≤ next ≤ end`; every segment below `una` has arrived; every one in `sacked` lies in
//!   `una..next`.
//! - In recovery, `resend..lost_edge` less `sacked` is what is lost and not sent again yet: all
//!   that `in_flight` leaves out.
//! - While anything is out, a timer runs. So whatever the network loses, something is sent again,
//!   and only a network that carries nothing for ever stops a flow.
//! - A timeout that has doubled stays so until a round trip is measured, of a segment that was sent
//!   once (Karn; RFC 6298, §5). Were it halved by the answer to a segment sent again, a sender
//!   whose queue takes longer than the timeout would never learn of that, and send everything again
//!   and again.
//! - A receiver never takes back what it acknowledged, so `sacked` survives a timeout.
//!
//! Reordering: an answer that a segment had arrived twice says that it was sent again for nothing.
//! The tolerance then doubles (RFC 4653 in spirit), from 3 up to 64. Near the end of a flow, where
//! fewer segments are out than the tolerance needs, all above a hole are enough (RFC 5827).
//!
//! Cost: constant for what arrives in order; for what does not, linear in the number of holes.
//! Rejected: a record for each segment that is out, which costs memory for what almost never
//! happens.

use cavalcade_model::{Instant, Nanos};

use crate::contract::FlowSetup;
use crate::packet::{Flags, Header, Kind};
use crate::rtt::RoundTrip;
use crate::segments::SegmentSet;

/// Loss recovery of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reliability {
    /// True if segments are sent again once later ones have arrived, without waiting for the timer.
    pub fast_retransmit: bool,
    /// The least time before what is out is given up.
    pub minimum_rto: Nanos,
    /// True if the timeout follows the round trip time; else it is `minimum_rto`.
    pub adaptive_rto: bool,
    /// True if the timeout doubles each time that it passes in vain.
    pub backoff: bool,
    /// After so many timeouts in a row only probes are sent until an answer comes; 0 for never
    /// (pFabric §4.2).
    pub probe_after: u32,
}

impl Reliability {
    /// TCP's: fast retransmission, a timeout that follows the round trip and doubles.
    pub const fn tcp(minimum_rto: Nanos) -> Self {
        Self { fast_retransmit: true, minimum_rto, adaptive_rto: true, backoff: true, probe_after: 0 }
    }
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Delivery {
    /// Segments of which the arrival became known.
    pub segments: u32,
    /// Segments are taken for lost, and none were before: the beginning of a recovery.
    pub loss: bool,
    /// True once all that was out when the recovery began has arrived.
    pub recovered: bool,
}

/// Next segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A segment, for the first time or again.
    Segment(u32),
    /// A header that asks what has arrived.
    Probe,
}

/// Segments taken for lost once this many above them have arrived (RFC 6675's DupThresh).
const TOLERANCE: u32 = 3;
const MOST_TOLERANCE: u32 = 64;
/// A timeout doubles at most so often.
const MOST_DOUBLINGS: u32 = 6;

/// The sending side's knowledge of one flow.
#[derive(Clone, Debug)]
pub struct Scoreboard {
    una: u32,
    next: u32,
    end: u32,
    tolerance: u32,
    recovering: bool,
    probe_due: bool,
    recovery_point: u32,
    resend: u32,
    lost_edge: u32,
    /// Timeouts since anything arrived.
    timeouts: u32,
    /// Timeouts since a round trip was last measured.
    doublings: u32,
    deadline: Option<Instant>,
    /// A segment sent once, and when.
    timed: Option<(u32, Instant)>,
    round_trip: RoundTrip,
    sacked: SegmentSet,
    reliability: Reliability,
}

impl Scoreboard {
    /// For a flow of `segments`, none sent; `base_rtt` stands for the round trip until one is seen.
    pub fn new(segments: u32, base_rtt: Nanos, reliability: Reliability) -> Self {
        Self {
            una: 0,
            next: 0,
            end: segments,
            tolerance: TOLERANCE,
            recovering: false,
            probe_due: false,
            recovery_point: 0,
            resend: 0,
            lost_edge: 0,
            timeouts: 0,
            doublings: 0,
            deadline: None,
            timed: None,
            round_trip: RoundTrip::new(base_rtt),
            sacked: SegmentSet::default(),
            reliability,
        }
    }

    /// All segments below have arrived.
    pub fn una(&self) -> u32 {
        self.una
    }

    /// All segments below have been sent.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Number of segments of the flow.
    pub fn end(&self) -> u32 {
        self.end
    }

    /// Lets the flow have `segments` in all, no fewer than before: a stream's length shows as it
    /// goes.
    pub fn extend(&mut self, segments: u32) {
        assert!(segments >= self.end, "a stream does not become shorter");
        self.end = segments;
    }

    /// Returns whether everything has arrived.
    pub fn is_done(&self) -> bool {
        self.una == self.end
    }

    /// Returns whether losses are being repaired.
    pub fn is_recovering(&self) -> bool {
        self.recovering
    }

    /// Segments not known to have arrived, sent or not.
    #[inline]
    pub fn remaining(&self) -> u32 {
        self.end - self.una - self.sacked.count()
    }

    /// The round trip time.
    pub fn round_trip(&self) -> &RoundTrip {
        &self.round_trip
    }

    /// Segments that are taken to be on the way.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        let out = self.next - self.una - self.sacked.count();
        if !self.recovering {
            return out;
        }
        let from = self.resend.max(self.una);
        let lost = self.lost_edge.saturating_sub(from);
        out - (lost - if lost > 0 { self.sacked.count_in(from, self.lost_edge) } else { 0 })
    }

    /// Returns the time at which [`Scoreboard::handle_timeout`] is due.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Takes an acknowledgement.
    #[inline]
    pub fn handle_ack(&mut self, now: Instant, header: &Header) -> Delivery {
        let mut delivery = Delivery::default();
        let una = header.segment.min(self.next);
        let (from, to) = (header.sack_from.max(self.una), header.sack_to.min(self.next));
        if self.is_probing() {
            // Something comes through again.
            self.timeouts = 0;
            self.probe_due = false;
        }
        if una > self.una {
            delivery.segments += una - self.una - self.sacked.count_in(self.una, una);
            self.una = una;
            self.sacked.remove_below(una);
            self.timeouts = 0;
            self.deadline = (self.una < self.next).then(|| now + self.timeout());
        }
        if to > from.max(self.una) {
            delivery.segments += self.sacked.insert(from.max(self.una), to);
        }
        if let Some((segment, sent)) = self.timed
            && (segment < self.una || self.sacked.contains(segment))
        {
            self.round_trip.sample(now.since(sent));
            self.timed = None;
            self.doublings = 0;
        }
        if header.flags.contains(Flags::DUPLICATE) && self.resend > 0 {
            self.tolerance = (self.tolerance * 2).min(MOST_TOLERANCE);
        }
        if self.recovering && self.una >= self.recovery_point {
            self.recovering = false;
            delivery.recovered = true;
        }
        if self.reliability.fast_retransmit && !self.sacked.is_empty() {
            delivery.loss = self.find_losses();
        }
        delivery
    }

    /// Moves the edge below which what has not arrived is lost. Returns whether that begins a
    /// recovery.
    fn find_losses(&mut self) -> bool {
        let mut tolerance = self.tolerance;
        if self.next == self.end {
            tolerance = tolerance.min((self.next - self.una - 1).max(1));
        }
        let Some(edge) = self.sacked.highest(tolerance) else { return false };
        if self.sacked.first_gap(self.una) >= edge {
            return false;
        }
        if self.recovering {
            self.lost_edge = self.lost_edge.max(edge);
            return false;
        }
        self.recovering = true;
        self.recovery_point = self.next;
        self.resend = self.una;
        self.lost_edge = edge;
        self.timed = None;
        true
    }

    /// Returns whether the time to wait has passed: then everything that is out counts as lost.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return false;
        }
        assert!(self.una < self.next, "a timer runs only while segments are out");
        self.timeouts += 1;
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        self.recovering = true;
        self.recovery_point = self.next;
        self.resend = self.una;
        self.lost_edge = self.next;
        self.timed = None;
        self.probe_due = self.is_probing();
        self.deadline = Some(now + self.timeout());
        true
    }

    #[inline]
    fn is_probing(&self) -> bool {
        self.reliability.probe_after > 0 && self.timeouts >= self.reliability.probe_after
    }

    /// Returns whether [`Scoreboard::poll`] has a segment to send.
    pub fn can_send(&self, window: u32) -> bool {
        let lost = self.recovering && self.sacked.first_gap(self.resend.max(self.una)) < self.lost_edge;
        (lost || self.next < self.end) && self.in_flight() < window && !self.is_probing()
    }

    /// The header of what [`Scoreboard::poll`] says to send, for the flow of `setup`.
    #[inline]
    pub(crate) fn header(&self, next: Next, setup: &FlowSetup, flags: Flags) -> Header {
        let header = Header { flow: setup.flow, remaining: self.remaining(), ..Header::default() };
        match next {
            Next::Segment(segment) => Header {
                segment,
                size: setup.wire_size(segment),
                flags: flags.with_if(segment + 1 == self.end, Flags::LAST),
                ..header
            },
            Next::Probe => Header { kind: Kind::Probe, size: setup.overhead, flags, ..header },
        }
    }

    /// Returns the next segment to send while fewer than `window` are in flight; the caller must
    /// send it.
    #[inline]
    pub fn poll(&mut self, now: Instant, window: u32) -> Option<Next> {
        if self.is_probing() {
            return std::mem::take(&mut self.probe_due).then_some(Next::Probe);
        }
        if self.recovering {
            let segment = self.sacked.first_gap(self.resend.max(self.una));
            if segment < self.lost_edge {
                if self.in_flight() >= window {
                    return None;
                }
                self.resend = segment + 1;
                self.deadline.get_or_insert(now + self.timeout());
                return Some(Next::Segment(segment));
            }
        }
        if self.next == self.end || self.in_flight() >= window {
            return None;
        }
        let segment = self.next;
        self.next += 1;
        if self.timed.is_none() {
            self.timed = Some((segment, now));
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + self.timeout());
        }
        Some(Next::Segment(segment))
    }

    /// Returns the retransmission timeout from now on.
    fn timeout(&self) -> Nanos {
        let Reliability { minimum_rto, adaptive_rto, backoff, .. } = self.reliability;
        let patience = if adaptive_rto { self.round_trip.patience().max(minimum_rto) } else { minimum_rto };
        let doublings = if backoff { self.doublings } else { 0 };
        Nanos(patience.get().max(1) << doublings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(segments: u32) -> Scoreboard {
        Scoreboard::new(segments, Nanos(100), Reliability::tcp(Nanos(1_000)))
    }

    fn ack(segment: u32, sack: std::ops::Range<u32>) -> Header {
        let (sack_from, sack_to) = (sack.start, sack.end);
        Header { kind: Kind::Ack, segment, sack_from, sack_to, ..Header::default() }
    }

    fn send_all(board: &mut Scoreboard, window: u32) -> Vec<u32> {
        send_all_at(Instant(0), board, window)
    }

    fn send_all_at(now: Instant, board: &mut Scoreboard, window: u32) -> Vec<u32> {
        std::iter::from_fn(|| board.poll(now, window))
            .map(|next| match next {
                Next::Segment(segment) => segment,
                Next::Probe => panic!("no probe is due"),
            })
            .collect()
    }

    #[test]
    fn what_three_later_segments_overtook_is_sent_again_once() {
        let mut board = board(100);
        assert_eq!(send_all(&mut board, 10), (0..10).collect::<Vec<_>>());
        // Segments 0 and 4 are lost.
        assert!(!board.handle_ack(Instant(10), &ack(0, 1..2)).loss);
        assert!(!board.handle_ack(Instant(10), &ack(0, 1..3)).loss);
        assert!(board.handle_ack(Instant(10), &ack(0, 1..4)).loss);
        assert_eq!(board.in_flight(), 6);
        assert_eq!(send_all(&mut board, 7), [0]);
        for to in 6..9 {
            assert!(!board.handle_ack(Instant(11), &ack(0, 5..to)).loss, "one recovery for both");
        }
        assert_eq!(send_all(&mut board, 4), [4]);
        let delivery = board.handle_ack(Instant(12), &ack(10, 0..0));
        assert_eq!(delivery, Delivery { segments: 4, loss: false, recovered: true });
        assert_eq!(board.in_flight(), 0);
    }

    #[test]
    fn a_timeout_sends_again_all_that_has_not_arrived_and_doubles() {
        let mut board = board(6);
        send_all(&mut board, 6);
        board.handle_ack(Instant(10), &ack(2, 4..5));
        assert!(!board.handle_timeout(Instant(1_009)), "it is early");
        assert_eq!(board.deadline(), Some(Instant(1_010)));
        assert!(board.handle_timeout(Instant(1_010)));
        assert_eq!(board.deadline(), Some(Instant(3_010)));
        assert_eq!(board.in_flight(), 0);
        assert_eq!(send_all(&mut board, 9), [2, 3, 5]);
    }

    #[test]
    fn a_doubled_timeout_stays_until_a_round_trip_is_measured() {
        let mut board = board(10);
        send_all(&mut board, 2);
        assert!(board.handle_timeout(Instant(1_000)));
        assert_eq!(send_all(&mut board, 1), [0]);
        board.handle_ack(Instant(1_500), &ack(1, 0..0));
        assert_eq!(board.deadline(), Some(Instant(3_500)), "the answer may be to either copy");
        assert_eq!(send_all_at(Instant(1_500), &mut board, 2), [1, 2]);
        board.handle_ack(Instant(1_600), &ack(2, 0..0));
        assert_eq!(board.deadline(), Some(Instant(3_600)));
        board.handle_ack(Instant(1_700), &ack(3, 0..0));
        assert_eq!(send_all_at(Instant(1_700), &mut board, 1), [3]);
        assert_eq!(board.deadline(), Some(Instant(2_700)), "segment 2 was sent once");
    }

    #[test]
    fn segments_sent_again_for_nothing_make_it_more_patient() {
        let mut board = board(100);
        send_all(&mut board, 20);
        board.handle_ack(Instant(10), &ack(0, 1..4));
        assert_eq!(send_all(&mut board, 17), [0]);
        let duplicate = Header { flags: Flags::DUPLICATE, ..ack(5, 0..0) };
        board.handle_ack(Instant(11), &duplicate);
        board.handle_ack(Instant(11), &ack(20, 0..0));
        send_all(&mut board, 20);
        assert!(!board.handle_ack(Instant(12), &ack(20, 21..26)).loss, "five are no longer enough");
        assert!(board.handle_ack(Instant(12), &ack(20, 21..27)).loss);
    }

    #[test]
    fn after_timeouts_in_vain_only_probes_are_sent_until_an_answer_comes() {
        let reliability = Reliability { probe_after: 2, backoff: false, ..Reliability::tcp(Nanos(1_000)) };
        let mut board = Scoreboard::new(4, Nanos(100), reliability);
        send_all(&mut board, 4);
        assert!(board.handle_timeout(Instant(1_000)));
        assert_eq!(send_all(&mut board, 4), [0, 1, 2, 3]);
        assert!(board.handle_timeout(Instant(2_000)));
        assert_eq!(board.poll(Instant(2_000), 4), Some(Next::Probe));
        assert_eq!(board.poll(Instant(2_000), 4), None);
        board.handle_ack(Instant(2_100), &ack(1, 0..0));
        assert_eq!(send_all(&mut board, 4), [1, 2, 3]);
    }

    #[test]
    fn near_the_end_all_segments_above_a_hole_are_enough() {
        let mut board = board(3);
        send_all(&mut board, 3);
        assert!(!board.handle_ack(Instant(10), &ack(0, 1..2)).loss);
        assert!(board.handle_ack(Instant(10), &ack(0, 1..3)).loss);
    }
}

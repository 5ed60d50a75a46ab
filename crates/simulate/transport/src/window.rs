//! The sender and the receiver of all window transports.
//!
//! A window transport sends while fewer segments are on the way than its window allows; what the
//! window is, is its law: slow start and halving (Reno), cutting by the marked share (DCTCP), by
//! that share and the deadline (D2TCP), and so on. Everything else is the same and stands here:
//! [`WindowSender`] puts a [`WindowLaw`] on a [`Scoreboard`], [`WindowReceiver`] acknowledges.
//!
//! # Echo of congestion marks
//! The receiver follows the two-state rule of DCTCP (SIGCOMM 2010, §3.1; docs/protocols.md §3.1):
//! where it acknowledges several packets at once (`ack_every`), a change of the mark makes it
//! acknowledge what came before at once and with the old state. So the sender can count marked
//! segments exactly.
//!
//! # A window that does not bind
//! A sender that its own link holds back says nothing about the network, so its window does not
//! grow (RFC 7661): [`Ack::limited`] tells the law.
//!
//! # Rates below one window
//! One segment in each round trip is the least that a window can say, and in a datacenter's round
//! trip that may be a gigabit. A law that means less has [`WindowLaw::PACED`]: then
//! [`WindowLaw::gap`] passes between two segments. For the others nothing of it is compiled.

use cavalcade_model::{Bytes, Instant, Nanos};

use crate::contract::{FlowSetup, Receiver, Sender};
use crate::packet::{Flags, Header, Kind};
use crate::scoreboard::{Delivery, Reliability, Scoreboard};
use crate::segments::SegmentSet;

/// Acknowledgement as a window law sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// The time.
    pub now: Instant,
    /// Segments of which the arrival became known.
    pub segments: u32,
    /// True if they were marked on the way.
    pub marked: bool,
    /// All segments below have arrived.
    pub una: u32,
    /// All segments below have been sent.
    pub next: u32,
    /// Number of segments of the flow.
    pub end: u32,
    /// True if losses are being repaired.
    pub recovering: bool,
    /// True if the window was what held the sender back.
    pub limited: bool,
    /// The smoothed round trip time.
    pub round_trip: Nanos,
}

/// Window law. Segments are the unit.
pub trait WindowLaw {
    /// True if packets ask for marks in place of drops.
    const ECN: bool;
    /// True if segments are spaced by [`WindowLaw::gap`].
    const PACED: bool = false;

    /// Returns the number of segments that may be in flight; at least one.
    fn window(&self) -> u32;
    /// An acknowledgement came. One that begins a recovery is followed by [`WindowLaw::on_loss`].
    fn on_ack(&mut self, ack: &Ack);
    /// Segments were lost; once for each recovery.
    fn on_loss(&mut self, ack: &Ack);
    /// Reacts to a time-out.
    fn on_timeout(&mut self, now: Instant);
    /// Returns the gap between segments.
    fn gap(&self) -> Nanos {
        Nanos::ZERO
    }
    /// The priority class of its flow, 0 highest.
    fn class(&self) -> u8 {
        0
    }
    /// By how much the window grows from now on, in thousandths of what it would.
    fn set_weight(&mut self, thousandths: u32) {
        let _ = thousandths;
    }
}

/// The sending end: a law on a scoreboard.
#[derive(Clone, Debug)]
pub struct WindowSender<L> {
    board: Scoreboard,
    law: L,
    setup: FlowSetup,
    /// Until when a paced sender holds its next segment back; zero when it does not.
    held: Instant,
}

impl<L: WindowLaw> WindowSender<L> {
    /// For a flow that starts.
    pub fn new(setup: &FlowSetup, law: L, reliability: Reliability) -> Self {
        let board = Scoreboard::new(setup.segments(), setup.base_rtt, reliability);
        Self { board, law, setup: *setup, held: Instant::ZERO }
    }

    /// Its law.
    pub fn law(&self) -> &L {
        &self.law
    }
}

impl<L: WindowLaw, Extra: Default> Sender<Extra> for WindowSender<L> {
    fn handle_packet(&mut self, now: Instant, header: &Header, _: &Extra) {
        let limited = self.board.in_flight() >= self.law.window();
        let Delivery { segments, loss, .. } = self.board.handle_ack(now, header);
        let ack = Ack {
            now,
            segments,
            marked: header.flags.contains(Flags::ECHO),
            una: self.board.una(),
            next: self.board.next(),
            end: self.board.end(),
            recovering: self.board.is_recovering(),
            limited,
            round_trip: self.board.round_trip().smoothed(),
        };
        self.law.on_ack(&ack);
        if loss {
            self.law.on_loss(&ack);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if L::PACED && self.held <= now {
            self.held = Instant::ZERO;
        }
        if self.board.handle_timeout(now) {
            self.law.on_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Extra)> {
        if L::PACED && now < self.held {
            return None;
        }
        let next = self.board.poll(now, self.law.window())?;
        if L::PACED {
            let gap = self.law.gap();
            self.held = if gap == Nanos::ZERO { Instant::ZERO } else { now + gap };
        }
        let flags = Flags::NONE.with_if(L::ECN, Flags::ECN_CAPABLE);
        Some((self.board.header(next, &self.setup, flags), Extra::default()))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.board.deadline();
        if !L::PACED || self.held == Instant::ZERO {
            return deadline;
        }
        Some(deadline.map_or(self.held, |deadline| deadline.min(self.held)))
    }

    fn sent(&self) -> Bytes {
        let sent = u64::from(self.board.next()) * u64::from(self.setup.payload);
        Bytes(sent).min(self.setup.size)
    }

    fn is_done(&self) -> bool {
        self.board.is_done()
    }

    fn class(&self) -> u8 {
        self.law.class()
    }

    fn set_weight(&mut self, thousandths: u32) {
        self.law.set_weight(thousandths);
    }
}

/// Acknowledgement of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledging {
    /// An acknowledgement for so many segments that come in order; at least 1.
    pub every: u32,
    /// The longest that one is held back.
    pub delay: Nanos,
}

impl Default for Acknowledging {
    fn default() -> Self {
        Self { every: 1, delay: Nanos(500_000) }
    }
}

/// An acknowledgement that is to be sent.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    segment: u32,
    sack: (u32, u32),
    flags: Flags,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct WindowReceiver {
    flow: u32,
    overhead: u16,
    /// All segments below have arrived.
    expected: u32,
    /// Number of segments, once the last has been seen.
    end: u32,
    beyond: SegmentSet,
    received: u64,
    /// True if the last packet was marked.
    marked: bool,
    /// Segments that came in order since the last acknowledgement.
    unanswered: u32,
    due: Option<Instant>,
    owed: [Owed; 2],
    owing: u8,
    acknowledging: Acknowledging,
}

impl WindowReceiver {
    /// For a flow that starts.
    pub fn new(setup: &FlowSetup, acknowledging: Acknowledging) -> Self {
        Self {
            flow: setup.flow,
            overhead: setup.overhead,
            expected: 0,
            end: u32::MAX,
            beyond: SegmentSet::default(),
            received: 0,
            marked: false,
            unanswered: 0,
            due: None,
            owed: [Owed::default(); 2],
            owing: 0,
            acknowledging,
        }
    }

    #[inline]
    fn owe(&mut self, sack: (u32, u32), duplicate: bool) {
        let flags = Flags::NONE.with_if(self.marked, Flags::ECHO).with_if(duplicate, Flags::DUPLICATE);
        // A driver asks after each packet, so that two are never exceeded; one that did not would
        // lose the older answer.
        let place = usize::from(self.owing.min(1));
        self.owed[place] = Owed { segment: self.expected, sack, flags };
        self.owing = place as u8 + 1;
        self.unanswered = 0;
        self.due = None;
    }

    /// Takes a segment in. Returns the run around it where it lies beyond a hole, and whether it
    /// had arrived before.
    #[inline]
    fn take(&mut self, header: &Header) -> ((u32, u32), bool) {
        let segment = header.segment;
        let duplicate = segment < self.expected || self.beyond.contains(segment);
        if !duplicate {
            self.received += u64::from(header.payload(self.overhead));
            if segment == self.expected {
                self.expected = self.beyond.first_gap(segment + 1);
                self.beyond.remove_below(self.expected);
            } else {
                self.beyond.insert(segment, segment + 1);
            }
        }
        (self.beyond.run_of(segment).unwrap_or((0, 0)), duplicate)
    }
}

impl<Extra: Default> Receiver<Extra> for WindowReceiver {
    fn handle_packet(&mut self, now: Instant, header: &Header, _: &Extra) {
        if header.kind != Kind::Data {
            self.owe((0, 0), false);
            return;
        }
        let marked = header.flags.contains(Flags::CONGESTED);
        if marked != self.marked {
            if self.unanswered > 0 {
                self.owe((0, 0), false);
            }
            self.marked = marked;
        }
        if header.flags.contains(Flags::LAST) {
            self.end = header.segment + 1;
        }
        let in_order = header.segment == self.expected && self.beyond.is_empty();
        let (sack, duplicate) = self.take(header);
        self.unanswered += 1;
        if !in_order || self.unanswered >= self.acknowledging.every || self.expected == self.end {
            self.owe(sack, duplicate);
        } else {
            self.due.get_or_insert(now + self.acknowledging.delay);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.owe((0, 0), false);
        }
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<(Header, Extra)> {
        if self.owing == 0 {
            return None;
        }
        let Owed { segment, sack, flags } = self.owed[0];
        self.owed[0] = self.owed[1];
        self.owing -= 1;
        let header = Header {
            flow: self.flow,
            kind: Kind::Ack,
            segment,
            sack_from: sack.0,
            sack_to: sack.1,
            size: self.overhead,
            flags,
            ..Header::default()
        };
        Some((header, Extra::default()))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    fn received(&self) -> Bytes {
        Bytes(self.received)
    }

    fn is_complete(&self) -> bool {
        self.expected == self.end
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, TaskId};

    use super::*;

    fn setup() -> FlowSetup {
        FlowSetup {
            flow: 7,
            size: Bytes(14_600),
            start: Instant::ZERO,
            deadline: None,
            task: TaskId(0),
            task_size: Bytes(14_600),
            line_rate: BitsPerSec(10_000_000_000),
            base_rtt: Nanos(10_000),
            payload: 1_460,
            overhead: 40,
        }
    }

    fn arrive(receiver: &mut WindowReceiver, segment: u32, marked: bool) -> Vec<(u32, bool)> {
        let flags = Flags::ECN_CAPABLE.with_if(marked, Flags::CONGESTED).with_if(segment == 9, Flags::LAST);
        let header = Header { segment, size: 1_500, flags, ..Header::default() };
        Receiver::<()>::handle_packet(receiver, Instant(u64::from(segment)), &header, &());
        answers(receiver)
    }

    fn answers(receiver: &mut WindowReceiver) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| Receiver::<()>::poll_transmit(receiver, Instant::ZERO))
            .map(|(header, ())| (header.segment, header.flags.contains(Flags::ECHO)))
            .collect()
    }

    #[test]
    fn a_change_of_the_mark_is_answered_at_once_with_the_old_state() {
        let acknowledging = Acknowledging { every: 4, delay: Nanos(1_000) };
        let mut receiver = WindowReceiver::new(&setup(), acknowledging);
        assert_eq!(arrive(&mut receiver, 0, false), []);
        assert_eq!(arrive(&mut receiver, 1, false), []);
        assert_eq!(arrive(&mut receiver, 2, true), [(2, false)], "the two before, unmarked");
        assert_eq!(arrive(&mut receiver, 3, true), []);
        assert_eq!(arrive(&mut receiver, 4, true), []);
        assert_eq!(arrive(&mut receiver, 5, true), [(6, true)], "four marked ones");
        assert_eq!(arrive(&mut receiver, 6, true), []);
        assert_eq!(arrive(&mut receiver, 7, false), [(7, true)]);
        assert_eq!(Receiver::<()>::poll_timeout(&receiver), Some(Instant(1_007)));
        Receiver::<()>::handle_timeout(&mut receiver, Instant(1_007));
        assert_eq!(answers(&mut receiver), [(8, false)]);
    }

    #[test]
    fn what_is_out_of_order_and_what_is_last_is_answered_at_once() {
        let acknowledging = Acknowledging { every: 4, delay: Nanos(1_000) };
        let mut receiver = WindowReceiver::new(&setup(), acknowledging);
        assert_eq!(arrive(&mut receiver, 1, false), [(0, false)]);
        assert_eq!(arrive(&mut receiver, 0, false), [(2, false)]);
        for segment in 2..9 {
            arrive(&mut receiver, segment, false);
        }
        assert!(!Receiver::<()>::is_complete(&receiver));
        assert_eq!(arrive(&mut receiver, 9, false), [(10, false)]);
        assert!(Receiver::<()>::is_complete(&receiver));
        assert_eq!(Receiver::<()>::received(&receiver), Bytes(14_600));
    }
}

//! The sender and the receiver of all transports with explicit rates: ask, be told a rate, send at
//! it.
//!
//! A flow begins with a header that asks; ports along its path write what they grant, and the
//! receiver sends that back. From then on packets leave at the granted rate, and every so often one
//! of them asks again. What is asked and how answers become a rate is the transport's [`RateLaw`];
//! reliability is the [`Scoreboard`]'s, as for window transports.
//!
//! # Invariants
//! - While anything is unsent, a time is set at which something will be sent: data at the granted
//!   rate, or a header that asks. An unanswered question is asked again, with its patience doubled
//!   up to 64 times; so whatever is lost, the flow goes on.
//! - A question is given up after four round trips at least: to ask again while an answer is on its
//!   way makes ports count the flow with what it no longer has.
//! - A question rides on data that leaves within half a round trip; else it is a packet of its own.
//! - Who holds a grant gives it back ([`RateLaw::leave`]) with the last segment, or, where a
//!   question is open then, once it is answered.
//! - No more than the receiver's window is on the way (flow control).
//!
//! # Streams
//! A flow has a size, a stream has not: it grows ([`PacedSender::extend`]), and its segments may be
//! shorter than full ([`PacedSender::poll_sized`]). With nothing to send it gives back its grant
//! like a flow at its end, and asks as a new one when it grows. [`crate::stream`] makes connections
//! of it. A real clock is late: a sender told so ([`PacedSender::tolerate`]) makes up for packets
//! that its timer held up.
//!
//! A flow's round trip is its own path's, and no answer is sooner. Streams are told the fabric's,
//! and answers may be sooner: so they ask once in the told time ([`PacedSender::stream`]). To ask
//! on every answer fills slow links with questions (`docs/spc.md`, "What was measured").
//!
//! Rejected: to send a window at line rate while the first question is on its way. It saves a round
//! trip for flows that are alone, and breaks what priorities promise to those who are not.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};

use crate::contract::{FlowSetup, Receiver, Sender};
use crate::packet::{Flags, Header, Kind};
use crate::rtt::RoundTrip;
use crate::scoreboard::{Next, Reliability, Scoreboard};
use crate::window::{Acknowledging, WindowReceiver};

/// Effect of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answers nothing that is still asked.
    Stale,
    /// Ask again after this time.
    AskIn(Nanos),
    /// No question is needed from here on: all packets bring answers.
    Settled,
}

/// Requests of a sender and its reaction to replies.
pub trait RateLaw {
    /// The header fields.
    type Extra: Copy + Default + core::fmt::Debug;

    /// Returns the sending rate on the wire; zero if paused.
    fn rate(&self, now: Instant) -> BitsPerSec;
    /// Returns whether ports count this flow, so that it has to leave.
    fn holds(&self) -> bool;
    /// A packet that asks; `unsent` bytes are to be sent.
    fn ask(&mut self, now: Instant, unsent: Bytes, round_trip: Nanos) -> Self::Extra;
    /// Any other packet; `unsent` bytes are to be sent, those of the packet among them.
    fn plain(&self, now: Instant, unsent: Bytes) -> Self::Extra;
    /// The packet that gives back what the flow holds.
    fn leave(&mut self, now: Instant) -> Self::Extra;
    /// An answer has come.
    fn answer(&mut self, now: Instant, extra: &Self::Extra) -> Answer;
}

/// A question's patience doubles at most so often.
const MOST_DOUBLINGS: u32 = 6;

/// The sending end: a law on a scoreboard, and a pace.
#[derive(Clone, Debug)]
pub struct PacedSender<L> {
    board: Scoreboard,
    law: L,
    setup: FlowSetup,
    /// The receiver's, in segments.
    window: u32,
    /// The round trip of questions.
    round_trip: RoundTrip,
    /// Time at which the question that is open was asked.
    asked: Option<Instant>,
    /// Number of repeats.
    repeats: u32,
    /// Time of the next request; while one is open, the time at which it is given up.
    ask_at: Option<Instant>,
    /// Time at which the pace lets the next packet go, in picoseconds.
    free_at: u64,
    /// The most that it may be behind its pace and still catch up, in picoseconds; one packet's
    /// time at least.
    late: u64,
    /// The least time from a question to the next.
    least_gap: Nanos,
    wake: Instant,
}

impl<L: RateLaw> PacedSender<L> {
    /// For a flow that starts; at most `window` segments may be on the way.
    pub fn new(setup: &FlowSetup, law: L, reliability: Reliability, window: u32) -> Self {
        Self {
            board: Scoreboard::new(setup.segments(), setup.base_rtt, reliability),
            law,
            setup: *setup,
            window,
            round_trip: RoundTrip::new(setup.base_rtt),
            asked: None,
            repeats: 0,
            ask_at: Some(setup.start),
            free_at: 0,
            late: 0,
            least_gap: Nanos::ZERO,
            wake: setup.start + setup.base_rtt,
        }
    }

    /// For a stream, which has nothing to send yet. The setup's size is a bound on what it may ever
    /// have, and its round trip that of the fabric's longest path: an answer that is here sooner
    /// does not make the next question come sooner.
    pub fn stream(setup: &FlowSetup, law: L, reliability: Reliability, window: u32) -> Self {
        let board = Scoreboard::new(0, setup.base_rtt, reliability);
        Self { board, least_gap: setup.base_rtt, ..Self::new(setup, law, reliability, window) }
    }

    /// Lets it catch up with what the driver's timers hold up, by `late` at most.
    #[must_use]
    pub fn tolerate(self, late: Nanos) -> Self {
        Self { late: late.get().saturating_mul(1_000), ..self }
    }

    /// Lets a stream have `segments` in all.
    pub fn extend(&mut self, now: Instant, segments: u32) {
        if self.board.is_done() {
            // An idle time is nothing to catch up with.
            self.free_at = self.free_at.max(now.get().saturating_mul(1_000));
        }
        self.board.extend(segments);
        self.plan(now);
    }

    /// All segments below have arrived.
    pub fn acknowledged(&self) -> u32 {
        self.board.una()
    }

    /// All segments below have been sent.
    pub fn begun(&self) -> u32 {
        self.board.next()
    }

    /// Returns the longest time before an answer is given up.
    pub fn patience(&self) -> Nanos {
        self.round_trip.patience()
    }

    /// The next packet that may leave now, of a stream whose segments have `size` bytes on the
    /// wire.
    pub fn poll_sized(&mut self, now: Instant, size: impl Fn(u32) -> u16) -> Option<(Header, L::Extra)> {
        if self.next_time(now).is_none_or(|next| next > now) {
            return None;
        }
        let packet = self.send(now, size);
        self.plan(now);
        packet
    }

    /// A packet that says nothing but asks for an acknowledgement.
    pub fn inquiry(&self, now: Instant) -> (Header, L::Extra) {
        (self.probe(), self.law.plain(now, Bytes::ZERO))
    }

    /// Its law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Segments that are to be sent, for the first time or again.
    fn unsent(&self) -> u32 {
        self.board.remaining() - self.board.in_flight()
    }

    /// Returns the time of the next request, if any: a sender that ends within a round trip needs
    /// no further reply.
    fn question(&self, now: Instant) -> Option<Instant> {
        let in_a_round_trip = self.law.rate(now).bytes_in(self.round_trip.smoothed());
        self.ask_at.filter(|_| self.asked.is_some() || self.unsent_bytes() > in_a_round_trip)
    }

    /// Bytes on the wire that are to be sent.
    fn unsent_bytes(&self) -> Bytes {
        let wire = u64::from(self.setup.payload) + u64::from(self.setup.overhead);
        Bytes(u64::from(self.unsent()) * wire)
    }

    /// Returns the earliest time at which something may leave, by what is known now.
    fn next_time(&self, now: Instant) -> Option<Instant> {
        if self.unsent() == 0 {
            let open = self.asked.and(self.ask_at);
            return self.law.holds().then_some(open.unwrap_or(now));
        }
        let may = self.law.rate(now) > BitsPerSec::ZERO && self.board.can_send(self.window);
        let data = may.then_some(Instant(self.free_at.div_ceil(1_000)));
        match (self.question(now), data) {
            (Some(ask), Some(data)) if data > ask.max(now) + Nanos(self.setup.base_rtt.get() / 2) => {
                Some(ask.min(data))
            }
            (ask, data) => data.or(ask),
        }
    }

    /// Sets the timer: where something may leave now, the driver is about to ask, and this is for
    /// the case that it cannot take it before the grant expires.
    fn plan(&mut self, now: Instant) {
        let later = now + self.setup.base_rtt.max(Nanos(1));
        self.wake = self.next_time(now).filter(|&next| next > now).unwrap_or(later);
    }

    fn ask(&mut self, now: Instant) -> L::Extra {
        self.repeats = if self.asked.is_some() { self.repeats + 1 } else { 0 };
        let least = 4 * self.round_trip.smoothed().max(self.setup.base_rtt).get();
        let patience = self.round_trip.patience().get().max(least).max(1) << self.repeats.min(MOST_DOUBLINGS);
        self.asked = Some(now);
        self.ask_at = Some(now + Nanos(patience));
        self.law.ask(now, self.unsent_bytes(), self.round_trip.smoothed())
    }

    /// Gives back what is held; data to be sent again needs a new request.
    fn depart(&mut self, now: Instant) -> L::Extra {
        self.asked = None;
        self.ask_at = Some(now);
        self.law.leave(now)
    }

    fn probe(&self) -> Header {
        self.board.header(Next::Probe, &self.setup, Flags::NONE)
    }

    fn send(&mut self, now: Instant, size: impl Fn(u32) -> u16) -> Option<(Header, L::Extra)> {
        if self.unsent() == 0 {
            return Some((self.probe(), self.depart(now)));
        }
        let due = self.question(now).is_some_and(|at| at <= now);
        let rate = self.law.rate(now).get();
        let free = self.free_at <= now.get().saturating_mul(1_000);
        if rate > 0 && free && self.board.can_send(self.window) {
            let unsent = self.unsent_bytes();
            let asking = due.then(|| self.ask(now));
            let next = self.board.poll(now, self.window)?;
            let last = self.unsent() == 0 && self.asked.is_none() && self.law.holds();
            let extra = match asking {
                Some(question) => question,
                None if last => self.depart(now),
                None => self.law.plain(now, unsent),
            };
            let mut header = self.board.header(next, &self.setup, Flags::NONE);
            if header.kind == Kind::Data {
                header.size = size(header.segment);
            }
            let gap = u64::from(header.size) * 8_000_000_000_000 / rate;
            // A packet that the link held up is caught up with, but no more than one unless timers
            // are late.
            let behind = now.get().saturating_mul(1_000).saturating_sub(gap.max(self.late));
            self.free_at = self.free_at.max(behind).saturating_add(gap);
            return Some((header, extra));
        }
        due.then(|| {
            let extra = self.ask(now);
            (self.probe(), extra)
        })
    }
}

impl<L: RateLaw> Sender<L::Extra> for PacedSender<L> {
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &L::Extra) {
        self.board.handle_ack(now, header);
        let before = self.law.rate(now);
        let least = self.asked.map_or(now, |asked| asked + self.least_gap);
        let next = match self.law.answer(now, extra) {
            Answer::Stale => None,
            Answer::AskIn(time) => Some(Some((now + time).max(least))),
            Answer::Settled => Some(None),
        };
        if let Some(ask_at) = next {
            if let Some(asked) = self.asked.take() {
                self.round_trip.sample(now.since(asked));
            }
            self.ask_at = ask_at;
        }
        if self.law.rate(now) > before {
            // What waits for a slow rate's next packet does not wait for a faster one's.
            let gap = u64::from(self.setup.payload) * 8_000_000_000_000 / self.law.rate(now).get();
            self.free_at = self.free_at.min(now.get().saturating_mul(1_000).saturating_add(gap));
            if before == BitsPerSec::ZERO && self.late > 0 {
                self.free_at = self.free_at.max(now.get().saturating_mul(1_000));
            }
        }
        self.plan(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due = self.poll_timeout().is_some_and(|due| due <= now);
        self.board.handle_timeout(now);
        if due {
            self.plan(now);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, L::Extra)> {
        let setup = self.setup;
        self.poll_sized(now, |segment| setup.wire_size(segment))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.is_done() {
            return None;
        }
        Some(self.board.deadline().map_or(self.wake, |deadline| deadline.min(self.wake)))
    }

    fn sent(&self) -> Bytes {
        let sent = u64::from(self.board.next()) * u64::from(self.setup.payload);
        Bytes(sent).min(self.setup.size)
    }

    fn is_done(&self) -> bool {
        self.board.is_done() && !self.law.holds()
    }
}

/// The receiving end: acknowledges each packet and sends back what ports wrote on it.
#[derive(Clone, Debug)]
pub struct EchoingReceiver<Extra> {
    inner: WindowReceiver,
    last: Extra,
}

impl<Extra: Default> EchoingReceiver<Extra> {
    /// For a flow that starts.
    pub fn new(setup: &FlowSetup) -> Self {
        Self { inner: WindowReceiver::new(setup, Acknowledging::default()), last: Extra::default() }
    }
}

impl<Extra: Copy> Receiver<Extra> for EchoingReceiver<Extra> {
    fn handle_packet(&mut self, now: Instant, header: &Header, extra: &Extra) {
        self.last = *extra;
        Receiver::<()>::handle_packet(&mut self.inner, now, header, &());
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Header, Extra)> {
        Receiver::<()>::poll_transmit(&mut self.inner, now).map(|(header, ())| (header, self.last))
    }

    fn received(&self) -> Bytes {
        Receiver::<()>::received(&self.inner)
    }

    fn is_complete(&self) -> bool {
        Receiver::<()>::is_complete(&self.inner)
    }
}

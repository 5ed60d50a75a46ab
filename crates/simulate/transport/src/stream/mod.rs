//! Connections: what SPC needs to stand under a socket.
//!
//! The simulator's flows know their size and both of their ends. A socket has to find its peer,
//! carries bytes both ways without knowing how many, and is closed one way at a time. A
//! [`Connection`] adds that to the flow's machines ([`PacedSender`], [`EchoingReceiver`]) and
//! copies nothing of them: either direction is one flow that grows. It is sans-IO as they are:
//! `handle`, `handle_timeout`, `poll_transmit`, `poll_timeout`.
//!
//! - [`frame`]: packets as bytes. `outgoing`, `incoming`: the halves.
//!
//! # Opening
//! The opening packet is as large as a full segment will be, and so is its answer: what arrives is
//! the segment's size for both directions, and an opening that gets no answer is tried smaller. The
//! opening asks switches for nothing, but they count themselves in it, so that a path of too many
//! is refused here. The answer's receiver confirms it, and only then is the connection accepted: an
//! old copy of an opening finds no one to confirm. All of it takes one round trip; the first
//! question takes the next.
//!
//! # Ends
//! Each direction ends with a marked segment, acknowledged like any other. Once both have (or one
//! has, and the application does not read the other), a connection lingers for [`LINGER`] to
//! acknowledge again what comes again. A peer that says nothing for the patience is given up; one
//! without anything to say is asked four times in that time.
//!
//! # Paths that shrink
//! Segments keep the size of the opening. Where the path carries smaller packets later, they leave
//! in fragments that every link carries, each in a packet of its own, and are acknowledged once
//! they are whole: so numbers, windows and grants stay what they are. The sender learns of it from
//! its own interface, or from a segment that it has sent [`TRIES_OF_A_SEGMENT`] times in vain.
//!
//! # Paths that go round
//! A question with six answers comes back refused. That ends an opening at once. On an open
//! connection it may be a loop in which frames go round until a switch finds it; so the connection
//! goes on, and ends with that if it comes again and again for the patience and nothing is
//! acknowledged meanwhile.

pub mod frame;
mod incoming;
mod law;
mod outgoing;
#[cfg(test)]
mod tests;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, TaskId};

use crate::contract::FlowSetup;
use crate::paced::{EchoingReceiver, PacedSender};
use crate::rcp;
use crate::scoreboard::Reliability;
use crate::spc::{Returned, Spc, SpcHeader, scale_for};
use frame::{Frame, FrameKind, OVERHEAD, Rates, Reason};
use incoming::Incoming;
use law::StreamLaw;
use outgoing::Outgoing;

/// The time for which a connection that is over answers what comes again.
pub const LINGER: Nanos = Nanos(300_000_000);
/// The first wait for an answer to an opening; it doubles.
const OPENING_WAIT: Nanos = Nanos(20_000_000);
const MOST_DOUBLINGS: u32 = 5;
/// An opening is sent so often before a smaller one is.
const TRIES_OF_A_SIZE: u32 = 3;
/// A segment that is sent so often without an answer is too large for the path.
pub const TRIES_OF_A_SEGMENT: u32 = 5;
/// In so many parts of the patience a silent peer is asked whether it is there.
const INQUIRIES: u64 = 4;

/// The largest packet that is ever sent, IP header included.
pub const LARGEST: u16 = 9_000;
/// The smallest that an opening tries: what every IPv6 link carries.
pub const SMALLEST: u16 = 1_280;
static PADDING: [u8; LARGEST as usize] = [0; LARGEST as usize];

/// The parameters of one end of a connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// SPC's parameters.
    pub spc: Spc,
    /// The rates that connections opened here ask of switches; those that are accepted do as their
    /// openers.
    pub rates: Rates,
    /// The rate of the host's link.
    pub line_rate: BitsPerSec,
    /// The round trip of the idle fabric, across its longest path: the same at all hosts and
    /// switches.
    pub base_rtt: Nanos,
    /// The most that the driver's timers may be late.
    pub late: Nanos,
    /// Bytes that may wait to be sent or acknowledged.
    pub send_buffer: usize,
    /// Bytes that may wait to be read.
    pub receive_buffer: usize,
    /// The longest silence of the peer.
    pub patience: Nanos,
    /// The sizes of packets that an opening tries, IP header included, largest first.
    pub sizes: Vec<u16>,
    /// The part of a packet that is not payload: [`frame::overhead`] of the peer.
    pub overhead: u16,
}

impl Default for Settings {
    /// For a link of 1 Gbps and a round trip of 1 ms, which is Baraat's testbed.
    fn default() -> Self {
        Self {
            spc: Spc { minimum_rto: Nanos(10_000_000), ..Spc::default() },
            rates: Rates::default(),
            line_rate: BitsPerSec(1_000_000_000),
            base_rtt: Nanos(1_000_000),
            late: Nanos(1_000_000),
            send_buffer: 1 << 20,
            receive_buffer: 1 << 20,
            patience: Nanos(30_000_000_000),
            sizes: vec![LARGEST, 1_500, SMALLEST],
            overhead: OVERHEAD,
        }
    }
}

impl Settings {
    fn setup(&self, connection: u64, task: u32, payload: u16, now: Instant) -> FlowSetup {
        FlowSetup {
            flow: connection as u32,
            size: Bytes(u64::from(u32::MAX) * u64::from(payload)),
            start: now,
            deadline: None,
            task: TaskId(task),
            task_size: Bytes::ZERO,
            line_rate: self.line_rate,
            base_rtt: self.base_rtt,
            payload,
            overhead: self.overhead,
        }
    }

    fn plain(&self, task: u32) -> SpcHeader {
        SpcHeader::new(task, scale_for(self.line_rate))
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both directions were closed, and all has arrived.
    Done,
    /// The peer or a switch ended it.
    Reset(Reason),
    /// This end gave it up.
    Aborted,
    /// The peer said nothing for the patience.
    TimedOut,
}

#[derive(Debug)]
enum Phase {
    /// Asked; to be sent again at this time, the `try`-th time with this size.
    Opening {
        size: usize,
        tries: u32,
        at: Instant,
    },
    /// Answered, not confirmed; to be sent again at this time.
    Answering {
        tries: u32,
        at: Instant,
    },
    Open,
    /// Over; the peer is told, where there is a reason.
    Over {
        ending: Ending,
        tell: Option<Reason>,
    },
}

/// Both directions between this end and its peer.
#[derive(Debug)]
pub struct Connection {
    id: u64,
    task: u32,
    /// True if this end accepted it.
    accepted: bool,
    settings: Settings,
    phase: Phase,
    halves: Option<Halves>,
    /// The time the peer was last heard, and the time it is to be asked whether it is there.
    heard: Instant,
    inquire_at: Instant,
    /// The time at which both directions were done.
    done: Option<Instant>,
    /// The first and the last time that a switch refused what is sent, with nothing acknowledged in
    /// between.
    refused: Option<(Instant, Instant)>,
}

#[derive(Debug)]
struct Halves {
    payload: u16,
    outgoing: Outgoing,
    incoming: Incoming,
}

impl Halves {
    fn is_done(&self) -> bool {
        self.outgoing.is_done() && self.incoming.is_done()
    }
}

impl Connection {
    /// Opens the connection `id` for `task`; the caller chooses an id that is not in use.
    ///
    /// # Panics
    /// Where the settings have no size, or one outside [`SMALLEST`] to [`LARGEST`].
    pub fn connect(now: Instant, id: u64, task: u32, settings: Settings) -> Self {
        let right = settings.sizes.iter().all(|size| (SMALLEST..=LARGEST).contains(size));
        assert!(right && !settings.sizes.is_empty(), "sizes of packets lie from {SMALLEST} to {LARGEST}");
        Self::new(now, id, task, settings, Phase::Opening { size: 0, tries: 0, at: now })
    }

    /// Answers an opening; `None` where the frame is none.
    pub fn accept(now: Instant, frame: &Frame<'_>, settings: Settings) -> Option<Self> {
        let payload = u16::try_from(frame.segment).ok()?;
        let right = frame.kind == FrameKind::Probe
            && frame.opening
            && usize::from(payload) == frame.payload.len()
            && (SMALLEST - settings.overhead..=LARGEST - settings.overhead).contains(&payload);
        if !right {
            return None;
        }
        let settings = Settings { rates: frame.rates, ..settings };
        let phase = Phase::Answering { tries: 0, at: now };
        let mut connection = Self::new(now, frame.connection, frame.spc.task(), settings, phase);
        connection.halves = Some(connection.halves(now, payload, frame.room));
        Some(connection)
    }

    fn new(now: Instant, id: u64, task: u32, settings: Settings, phase: Phase) -> Self {
        let inquire_at = now + Nanos(settings.patience.get() / INQUIRIES);
        let accepted = matches!(phase, Phase::Answering { .. });
        let (halves, done, refused) = (None, None, None);
        Self { id, task, accepted, settings, phase, halves, heard: now, inquire_at, done, refused }
    }

    fn halves(&self, now: Instant, payload: u16, room: u32) -> Halves {
        let setup = self.settings.setup(self.id, self.task, payload, now);
        let plain = self.settings.plain(self.task);
        let Spc { minimum_rto, window, .. } = self.settings.spc;
        let law = match self.settings.rates {
            Rates::OfTasks => StreamLaw::Spc(self.settings.spc.law(&setup)),
            Rates::OfFlows => StreamLaw::Rcp(rcp::Law::new(setup.line_rate), plain),
        };
        let reliability = Reliability::tcp(minimum_rto);
        let sender = PacedSender::stream(&setup, law, reliability, window).tolerate(self.settings.late);
        let full = usize::from(payload);
        Halves {
            payload,
            outgoing: Outgoing::new(sender, &setup, self.settings.send_buffer.max(full), room),
            incoming: Incoming::new(
                EchoingReceiver::new(&setup),
                plain,
                full,
                self.settings.receive_buffer.max(full),
            ),
        }
    }

    /// Returns its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns its task.
    pub fn task(&self) -> u32 {
        self.task
    }

    /// Returns whether both ends know of each other.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns its end, once it has one.
    pub fn ending(&self) -> Option<Ending> {
        match self.phase {
            Phase::Over { ending, .. } => Some(ending),
            _ => None,
        }
    }

    /// The payload of a full segment, once it is known.
    pub fn payload(&self) -> Option<u16> {
        self.halves.as_ref().map(|halves| halves.payload)
    }

    /// Takes bytes to send, as many as there is room for, and returns how many; none before it is
    /// open.
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        match &mut self.halves {
            Some(halves) if matches!(self.phase, Phase::Open) => halves.outgoing.write(now, bytes),
            _ => 0,
        }
    }

    /// Returns whether nothing more can be written: its end was, or it has as many segments as
    /// there are numbers.
    pub fn is_write_closed(&self) -> bool {
        let of = |halves: &Halves| halves.outgoing.is_finished() || halves.outgoing.is_used_up();
        self.halves.as_ref().is_some_and(of)
    }

    /// Returns how many bytes may be written now.
    pub fn room(&self) -> usize {
        self.halves.as_ref().map_or(0, |halves| halves.outgoing.room())
    }

    /// Returns whether something written has not been acknowledged.
    pub fn is_sending(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.outgoing.is_waiting())
    }

    /// Returns the time at which the peer was last heard.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    /// Returns whether something is written that the peer has no room for.
    pub fn is_held_back(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.outgoing.is_held_back())
    }

    /// Ends what is written.
    pub fn finish(&mut self, now: Instant) {
        if let Some(halves) = &mut self.halves {
            halves.outgoing.finish(now);
        }
    }

    /// Gives out bytes in their order and returns how many.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        self.halves.as_mut().map_or(0, |halves| halves.incoming.read(out))
    }

    /// Returns whether there is something to read.
    pub fn is_readable(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.incoming.is_ready())
    }

    /// Returns whether nothing more will be read.
    pub fn is_at_end(&self) -> bool {
        self.halves.as_ref().is_some_and(|halves| halves.incoming.is_at_end())
    }

    /// Throws away what has arrived; a peer that sends more is told that it is not read.
    pub fn stop_reading(&mut self) {
        if let Some(halves) = &mut self.halves {
            halves.incoming.stop_reading();
        }
    }

    /// Gives it up and tells the peer.
    pub fn abort(&mut self) {
        self.end(Ending::Aborted, Some(Reason::Aborted));
    }

    fn end(&mut self, ending: Ending, tell: Option<Reason>) {
        if self.ending().is_none() {
            self.phase = Phase::Over { ending, tell };
        }
    }

    /// A frame of this connection has arrived.
    pub fn handle(&mut self, now: Instant, frame: &Frame<'_>) {
        let is_refusal = frame.kind == FrameKind::Reset && frame.reason() == Reason::TooManySwitches;
        if is_refusal && self.is_open() {
            self.refused = Some((self.refused_since(now).unwrap_or(now), now));
            return;
        }
        self.heard = now;
        self.inquire_at = now + Nanos(self.settings.patience.get() / INQUIRIES);
        if frame.kind == FrameKind::Reset {
            // A switch tells one end only.
            let tell = is_refusal.then_some(Reason::TooManySwitches);
            self.end(Ending::Reset(frame.reason()), tell);
            return;
        }
        match self.phase {
            Phase::Opening { .. } => self.handle_answer(now, frame),
            Phase::Answering { tries, .. } if frame.opening => {
                self.phase = Phase::Answering { tries, at: now };
            }
            Phase::Answering { .. } => {
                self.phase = Phase::Open;
                self.handle_open(now, frame);
            }
            Phase::Open => self.handle_open(now, frame),
            Phase::Over { .. } => {}
        }
    }

    /// Returns when a switch began to refuse what is sent, if it still does: on a path that is too
    /// long every question is refused.
    fn refused_since(&self, now: Instant) -> Option<Instant> {
        let pause = Nanos(self.settings.patience.get() / INQUIRIES);
        self.refused.filter(|&(_, last)| now.since(last) < pause).map(|(first, _)| first)
    }

    fn handle_answer(&mut self, now: Instant, frame: &Frame<'_>) {
        let Ok(payload) = u16::try_from(frame.segment) else { return };
        let fits = self.settings.sizes.iter().any(|size| size - self.settings.overhead == payload);
        if frame.kind != FrameKind::Ack || !frame.opening || !fits {
            return;
        }
        let mut halves = self.halves(now, payload, frame.room);
        halves.incoming.announce();
        self.halves = Some(halves);
        self.phase = Phase::Open;
    }

    fn handle_open(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(halves) = &mut self.halves else { return };
        match frame.kind {
            // A copy of the answer: the confirmation was lost.
            FrameKind::Ack if frame.opening => halves.incoming.announce(),
            FrameKind::Ack => {
                if halves.outgoing.handle_ack(now, frame) {
                    self.refused = None;
                }
            }
            _ if frame.opening => {}
            _ => {
                if halves.incoming.handle(now, frame) {
                    self.end(Ending::Aborted, Some(Reason::Aborted));
                }
            }
        }
    }

    /// The time that [`Connection::poll_timeout`] named may have come.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_late = |since: Instant| now.since(since) >= self.settings.patience;
        match self.refused_since(now) {
            Some(first) if is_late(first) || is_late(self.heard) => {
                self.end(Ending::Reset(Reason::TooManySwitches), Some(Reason::Aborted));
            }
            None if is_late(self.heard) => self.end(Ending::TimedOut, Some(Reason::Aborted)),
            None => self.refused = None,
            Some(_) => {}
        }
        if self.done.is_some_and(|done| now.since(done) >= LINGER) {
            self.end(Ending::Done, None);
        }
        if let Some(halves) = &mut self.halves {
            halves.outgoing.handle_timeout(now);
        }
    }

    /// The driver cannot send packets of this size: the next opening is smaller, and segments leave
    /// in fragments.
    pub fn handle_too_large(&mut self, now: Instant) {
        match (&self.phase, &mut self.halves) {
            (&Phase::Opening { size, .. }, _) if size + 1 < self.settings.sizes.len() => {
                self.phase = Phase::Opening { size: size + 1, tries: 0, at: now };
            }
            (Phase::Open, Some(halves)) => halves.outgoing.shrink(),
            _ => {}
        }
    }

    /// The next packet that may leave now.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Frame<'_>> {
        let (accepted, rates) = (self.accepted, self.settings.rates);
        self.poll_frame(now).map(|frame| Frame { accepted, rates, ..frame })
    }

    fn poll_frame(&mut self, now: Instant) -> Option<Frame<'_>> {
        match &mut self.phase {
            Phase::Opening { .. } => self.poll_opening(now),
            Phase::Answering { tries, at } => {
                if *at > now {
                    return None;
                }
                *at = now + wait(*tries);
                *tries += 1;
                let halves = self.halves.as_ref()?;
                let frame = Frame::new(FrameKind::Ack, self.id, self.settings.plain(self.task));
                Some(opening(frame, halves.payload, halves.incoming.room()))
            }
            Phase::Open => self.poll_open(now),
            Phase::Over { tell, .. } => tell.take().map(|reason| Frame::reset(self.id, self.task, reason)),
        }
    }

    fn poll_opening(&mut self, now: Instant) -> Option<Frame<'_>> {
        let Phase::Opening { size, tries, at } = &mut self.phase else { return None };
        if *at > now {
            return None;
        }
        if *tries > 0 && tries.is_multiple_of(TRIES_OF_A_SIZE) && *size + 1 < self.settings.sizes.len() {
            *size += 1;
        }
        *at = now + wait(*tries);
        *tries += 1;
        let payload = self.settings.sizes[*size] - self.settings.overhead;
        let room = (self.settings.receive_buffer / usize::from(payload)).max(1);
        let counting = self.settings.plain(self.task).asking(0, 0, &Returned::default());
        Some(opening(Frame::new(FrameKind::Probe, self.id, counting), payload, room as u32))
    }

    fn poll_open(&mut self, now: Instant) -> Option<Frame<'_>> {
        let id = self.id;
        let silent = now >= self.inquire_at;
        let halves = self.halves.as_mut()?;
        if halves.is_done() {
            self.done.get_or_insert(now);
        }
        // What acknowledges goes first: the peer's pace hangs on it.
        if let Some(answer) = halves.incoming.poll_transmit(now, id) {
            return Some(answer);
        }
        if silent {
            self.inquire_at = now + Nanos(self.settings.patience.get() / INQUIRIES);
            return Some(halves.outgoing.inquiry(now, id));
        }
        halves.outgoing.poll_transmit(now, id)
    }

    /// Returns the time at which [`Connection::handle_timeout`] and [`Connection::poll_transmit`]
    /// are due; `None` once it is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let silence =
            self.refused.map_or(self.heard, |(first, _)| first.min(self.heard)) + self.settings.patience;
        let linger = self.done.map(|done| done + LINGER);
        let next = match &self.phase {
            Phase::Opening { at, .. } | Phase::Answering { at, .. } => Some(*at),
            Phase::Open => {
                let halves = self.halves.as_ref();
                let outgoing = halves.and_then(|halves| halves.outgoing.poll_timeout());
                [outgoing, Some(self.inquire_at)].into_iter().flatten().min()
            }
            Phase::Over { .. } => return None,
        };
        [Some(silence), linger, next].into_iter().flatten().min()
    }
}

fn wait(tries: u32) -> Nanos {
    Nanos(OPENING_WAIT.get() << tries.min(MOST_DOUBLINGS))
}

fn opening(frame: Frame<'_>, payload: u16, room: u32) -> Frame<'_> {
    Frame {
        opening: true,
        segment: u32::from(payload),
        room,
        payload: &PADDING[..usize::from(payload)],
        ..frame
    }
}

//! The sending half of a connection: bytes in, segments out.
//!
//! Bytes are cut into segments when they are written: full ones, and at the end one that later
//! bytes join until it is sent. A segment keeps its bytes for ever, so a retransmission is the same
//! packet again and the scoreboard need not know bytes.
//!
//! # Flow control
//! The receiver says up to which segment it has room. What lies beyond is not the sender's yet
//! ([`PacedSender::extend`]): so a stream that waits for its receiver has nothing to send, and
//! gives back its grant for others to use. It then asks now and then whether there is room, since
//! the packet that says so can be lost.

use std::collections::VecDeque;

use cavalcade_model::{Instant, Nanos};

use super::frame::{Frame, FrameKind};
use super::law::StreamLaw;
use super::{SMALLEST, TRIES_OF_A_SEGMENT};
use crate::contract::{FlowSetup, Sender};
use crate::paced::PacedSender;
use crate::packet::{Flags, Header, Kind};
use crate::spc::SpcHeader;

/// The most segments that a stream can have: numbers have 32 bits.
const MOST_SEGMENTS: u32 = u32::MAX - 1;
/// A receiver without room is asked again after this time, doubled up to so often.
const INQUIRY: Nanos = Nanos(10_000_000);
const MOST_DOUBLINGS: u32 = 6;

/// The sending half.
#[derive(Debug)]
pub(crate) struct Outgoing {
    sender: PacedSender<StreamLaw>,
    /// The payload of a full segment.
    full: usize,
    /// Bytes of a packet that are not payload.
    overhead: u16,
    /// The number of the first segment that is kept.
    first: u32,
    segments: VecDeque<Vec<u8>>,
    /// Bytes in `segments`, and how many there may be.
    buffered: usize,
    capacity: usize,
    /// The receiver has room for all segments below.
    edge: u32,
    finished: bool,
    /// The most payload of a packet: less than a segment's where the path has shrunk.
    limit: usize,
    /// The segment of which a fragment has been sent, and where the next fragment begins.
    rest: Option<(u32, usize)>,
    /// Number of times that the first unacknowledged segment was sent.
    tries: u32,
    /// The time to ask the receiver whether it has room, and the number of such questions in a row.
    inquire_at: Option<Instant>,
    inquiries: u32,
}

impl Outgoing {
    /// For a stream whose receiver has room for `room` segments.
    pub(crate) fn new(sender: PacedSender<StreamLaw>, setup: &FlowSetup, capacity: usize, room: u32) -> Self {
        let full = usize::from(setup.payload);
        Self {
            sender,
            full,
            overhead: setup.overhead,
            first: 0,
            segments: VecDeque::new(),
            buffered: 0,
            capacity,
            edge: room,
            finished: false,
            limit: full,
            rest: None,
            tries: 0,
            inquire_at: None,
            inquiries: 0,
        }
    }

    /// One more than the last segment's number.
    fn end(&self) -> u32 {
        self.first + self.segments.len() as u32
    }

    /// Returns how many bytes may be written now.
    pub(crate) fn room(&self) -> usize {
        if self.finished || self.end() >= MOST_SEGMENTS {
            0
        } else {
            self.capacity.saturating_sub(self.buffered)
        }
    }

    /// Returns whether the numbers of segments are used up.
    pub(crate) fn is_used_up(&self) -> bool {
        self.end() >= MOST_SEGMENTS
    }

    /// Returns whether the stream has got its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns whether all has arrived, the end as well.
    pub(crate) fn is_done(&self) -> bool {
        self.finished && self.segments.is_empty()
    }

    /// Returns whether something is to arrive that has not.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.segments.is_empty()
    }

    /// Returns whether all has arrived that the receiver has room for, and there is more.
    pub(crate) fn is_held_back(&self) -> bool {
        self.edge < self.end() && self.sender.is_done()
    }

    /// Takes bytes, as many as there is room for, and returns how many.
    pub(crate) fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        let mut left = &bytes[..taken];
        if self.last_is_open()
            && let Some(last) = self.segments.back_mut()
        {
            let (head, rest) = left.split_at(left.len().min(self.full - last.len()));
            last.extend(head);
            left = rest;
        }
        for chunk in left.chunks(self.full) {
            self.segments.push_back(chunk.to_vec());
        }
        self.buffered += taken;
        self.extend(now);
        taken
    }

    fn last_is_open(&self) -> bool {
        self.end() > self.sender.begun().max(self.first)
    }

    /// Ends the stream: its last segment says so, an empty one where that has been sent.
    pub(crate) fn finish(&mut self, now: Instant) {
        if self.finished {
            return;
        }
        if !self.last_is_open() {
            self.segments.push_back(Vec::new());
        }
        self.finished = true;
        self.extend(now);
    }

    fn extend(&mut self, now: Instant) {
        let may = self.end().min(self.edge.max(self.sender.begun()));
        self.sender.extend(now, may.max(self.sender.begun()));
        if !self.is_held_back() {
            (self.inquire_at, self.inquiries) = (None, 0);
        } else if self.inquire_at.is_none() {
            self.inquire_at = Some(now + Nanos(INQUIRY.get() << self.inquiries.min(MOST_DOUBLINGS)));
        }
    }

    /// Takes an acknowledgement, and returns whether it is of something new.
    pub(crate) fn handle_ack(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let before = self.first;
        self.edge = self.edge.max(frame.segment.saturating_add(frame.room));
        let header = Header {
            segment: frame.segment,
            sack_from: frame.run.0,
            sack_to: frame.run.1,
            kind: Kind::Ack,
            flags: Flags::NONE.with_if(frame.duplicate, Flags::DUPLICATE),
            ..Header::default()
        };
        self.sender.handle_packet(now, &header, &frame.spc);
        while self.first < self.sender.acknowledged() {
            let segment = self.segments.pop_front();
            self.buffered -= segment.map_or(0, |segment| segment.len());
            self.first += 1;
            self.tries = 0;
        }
        self.extend(now);
        self.first > before
    }

    /// Sends segments in fragments that every link carries, from here on.
    pub(crate) fn shrink(&mut self) {
        self.limit = self.limit.min(usize::from(SMALLEST - self.overhead));
    }

    /// The time that [`Outgoing::poll_timeout`] named may have come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.sender.handle_timeout(now);
        // Where the last grant has been given back since, the stream may be held back now.
        self.extend(now);
    }

    /// The next packet that may leave now.
    pub(crate) fn poll_transmit(&mut self, now: Instant, connection: u64) -> Option<Frame<'_>> {
        if let Some((segment, offset)) = self.rest.take().filter(|(segment, _)| *segment >= self.first) {
            let (_, spc) = self.sender.inquiry(now);
            return Some(self.fragment(connection, segment, offset, spc));
        }
        let (first, segments, limit, overhead) = (self.first, &self.segments, self.limit, self.overhead);
        let size = |segment: u32| {
            let length = segments[(segment - first) as usize].len();
            (length + length.div_ceil(limit).max(1) * usize::from(overhead)) as u16
        };
        if let Some((header, spc)) = self.sender.poll_sized(now, size) {
            // It may have been the packet that gives the grant back: then nothing else sets a time.
            self.extend(now);
            if header.kind != Kind::Data {
                return Some(Frame::new(FrameKind::Probe, connection, spc));
            }
            if header.segment == self.first {
                self.tries += 1;
                if self.tries > TRIES_OF_A_SEGMENT {
                    self.shrink();
                }
            }
            return Some(self.fragment(connection, header.segment, 0, spc));
        }
        self.inquire_at.take_if(|at| *at <= now)?;
        self.inquiries += 1;
        self.extend(now);
        Some(self.inquiry(now, connection))
    }

    /// A packet that asks for an acknowledgement.
    pub(crate) fn inquiry(&self, now: Instant, connection: u64) -> Frame<'_> {
        let (_, spc) = self.sender.inquiry(now);
        Frame::new(FrameKind::Probe, connection, spc)
    }

    /// A segment, or as much of it from `offset` on as a packet holds; the rest is kept for the
    /// next one.
    fn fragment(&mut self, connection: u64, segment: u32, offset: usize, spc: SpcHeader) -> Frame<'_> {
        let last = self.finished && segment + 1 == self.end();
        let whole = self.segments[(segment - self.first) as usize].len();
        let end = whole.min(offset + self.limit);
        self.rest = (end < whole).then_some((segment, end));
        let run = if whole > self.limit { (offset as u32, whole as u32) } else { (0, 0) };
        let payload = &self.segments[(segment - self.first) as usize][offset..end];
        Frame { last, segment, run, payload, ..Frame::new(FrameKind::Data, connection, spc) }
    }

    /// Returns when something is to be done.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let times = [self.sender.poll_timeout(), self.inquire_at];
        times.into_iter().flatten().min()
    }
}

//! The receiving half of a connection: segments in, bytes in order out.
//!
//! # Invariants
//! - What is kept never exceeds the capacity: a segment for which no room was told is not taken in.
//!   Room that was told is never taken back.
//! - Each segment is delivered once, and none after the last.

use std::collections::{BTreeMap, VecDeque};

use cavalcade_model::Instant;

use super::frame::{Frame, FrameKind};
use crate::contract::Receiver;
use crate::paced::EchoingReceiver;
use crate::packet::{Flags, Header, Kind};
use crate::spc::SpcHeader;

/// The fragments of a segment.
#[derive(Debug)]
struct Partial {
    bytes: Vec<u8>,
    /// The beginnings of fragments, and their lengths.
    fragments: BTreeMap<usize, usize>,
    /// The header of the fragment that asks, else of any.
    spc: SpcHeader,
}

impl Partial {
    fn is_whole(&self) -> bool {
        let reach = self.fragments.iter().try_fold(0, |reach, (&at, &length)| {
            if at > reach { Err(reach) } else { Ok(reach.max(at + length)) }
        });
        reach == Ok(self.bytes.len())
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Incoming {
    receiver: EchoingReceiver<SpcHeader>,
    plain: SpcHeader,
    full: usize,
    capacity: usize,
    /// All segments below have arrived.
    expected: u32,
    beyond: BTreeMap<u32, Vec<u8>>,
    /// Segments of which fragments have arrived, all below `edge`.
    partial: BTreeMap<u32, Partial>,
    ready: VecDeque<u8>,
    /// There is room for all segments below, as the sender has been told.
    edge: u32,
    /// One more than the last segment's number, once that has arrived.
    end: Option<u32>,
    /// True once the reader has gone.
    unread: bool,
    /// True if the sender is to be told of room.
    announce: bool,
}

impl Incoming {
    /// For a stream of `full` bytes of payload in a segment, of which up to `capacity` are kept.
    pub(crate) fn new(
        receiver: EchoingReceiver<SpcHeader>,
        plain: SpcHeader,
        full: usize,
        capacity: usize,
    ) -> Self {
        let mut incoming = Self {
            receiver,
            plain,
            full,
            capacity,
            expected: 0,
            beyond: BTreeMap::new(),
            partial: BTreeMap::new(),
            ready: VecDeque::new(),
            edge: 0,
            end: None,
            unread: false,
            announce: false,
        };
        incoming.edge = incoming.new_edge();
        incoming
    }

    fn new_edge(&self) -> u32 {
        let free = self.capacity.saturating_sub(self.ready.len()) / self.full;
        self.expected.saturating_add(free as u32).max(self.edge)
    }

    /// For how many segments the sender may be told that there is room.
    pub(crate) fn room(&self) -> u32 {
        self.edge - self.expected.min(self.edge)
    }

    /// Returns whether everything has arrived.
    fn is_complete(&self) -> bool {
        self.end == Some(self.expected)
    }

    /// Returns whether nothing is awaited any more.
    pub(crate) fn is_done(&self) -> bool {
        self.unread || self.is_complete()
    }

    /// Returns whether nothing more will be read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.unread || (self.is_complete() && self.ready.is_empty())
    }

    /// Returns whether there is something to read.
    pub(crate) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Has a packet say how much room there is.
    pub(crate) fn announce(&mut self) {
        self.announce = true;
    }

    /// Takes a segment or a probe. Returns whether it brought bytes that there is no reader for.
    pub(crate) fn handle(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let has_arrived = frame.segment < self.expected || self.beyond.contains_key(&frame.segment);
        if frame.kind != FrameKind::Data || frame.run.1 == 0 || has_arrived {
            return self.handle_whole(now, frame);
        }
        let Some(Partial { bytes, spc, .. }) = self.join(frame) else { return false };
        self.handle_whole(now, &Frame { payload: &bytes, spc, ..*frame })
    }

    /// Adds a fragment to the others of its segment, and returns that once it is whole.
    fn join(&mut self, frame: &Frame<'_>) -> Option<Partial> {
        let (offset, whole) = (frame.run.0 as usize, frame.run.1 as usize);
        let end = offset.saturating_add(frame.payload.len());
        if frame.segment >= self.edge || whole > self.full || end > whole {
            return None;
        }
        let partial = self.partial.entry(frame.segment).or_insert_with(|| Partial {
            bytes: vec![0; whole],
            fragments: BTreeMap::new(),
            spc: frame.spc,
        });
        if partial.bytes.len() != whole {
            return None;
        }
        partial.bytes[offset..end].copy_from_slice(frame.payload);
        partial.fragments.insert(offset, frame.payload.len());
        if frame.spc.asks() || !partial.spc.asks() {
            partial.spc = frame.spc;
        }
        if partial.is_whole() { self.partial.remove(&frame.segment) } else { None }
    }

    fn handle_whole(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let beyond_end = self.end.is_some_and(|end| frame.segment >= end && frame.segment >= self.expected);
        let taken = frame.kind == FrameKind::Data
            && frame.segment < self.edge
            && frame.payload.len() <= self.full
            && !beyond_end;
        let kind = if taken { Kind::Data } else { Kind::Probe };
        let new = frame.segment >= self.expected && !self.beyond.contains_key(&frame.segment);
        let flags = Flags::NONE.with_if(frame.last, Flags::LAST);
        let header = Header { kind, segment: frame.segment, flags, ..Header::default() };
        self.receiver.handle_packet(now, &header, &frame.spc);
        if !taken || !new {
            return false;
        }
        if frame.last {
            self.end = Some(frame.segment + 1);
        }
        if frame.segment == self.expected {
            self.deliver(frame.payload);
            while let Some(payload) = self.beyond.remove(&self.expected) {
                self.deliver(&payload);
            }
        } else {
            self.beyond.insert(frame.segment, frame.payload.to_vec());
        }
        self.unread && !frame.payload.is_empty()
    }

    fn deliver(&mut self, payload: &[u8]) {
        self.expected += 1;
        if !self.unread {
            self.ready.extend(payload);
        }
    }

    /// Gives out bytes and returns how many.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> usize {
        let count = out.len().min(self.ready.len());
        for (place, byte) in out.iter_mut().zip(self.ready.drain(..count)) {
            *place = byte;
        }
        // To tell of each segment's room would be a packet for each read.
        let more = self.new_edge() - self.edge;
        if more as usize * self.full * 4 >= self.capacity || (more > 0 && self.room() == 0) {
            self.announce = true;
        }
        count
    }

    /// Throws away what has arrived and what will.
    pub(crate) fn stop_reading(&mut self) {
        self.unread = true;
        self.ready = VecDeque::new();
    }

    /// The next acknowledgement.
    pub(crate) fn poll_transmit(&mut self, now: Instant, connection: u64) -> Option<Frame<'static>> {
        let (header, spc) = match self.receiver.poll_transmit(now) {
            Some(answer) => answer,
            None if self.announce => (Header { segment: self.expected, ..Header::default() }, self.plain),
            None => return None,
        };
        self.announce = false;
        self.edge = self.new_edge();
        Some(Frame {
            segment: header.segment,
            room: self.edge - header.segment.min(self.edge),
            run: (header.sack_from, header.sack_to),
            duplicate: header.flags.contains(Flags::DUPLICATE),
            ..Frame::new(FrameKind::Ack, connection, spc)
        })
    }
}

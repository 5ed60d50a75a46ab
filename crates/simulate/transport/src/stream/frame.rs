//! A packet of a stream as bytes: what follows the UDP header.
//!
//! | bytes | field |
//! |---|---|
//! | 0–25 | the SPC header, which switches read and write |
//! | 26–29 | "SPC" and the version, 1: by this a switch tells SPC from other UDP; "RCP" where the header has a rate of RCP's ([`Rates`]) |
//! | 30 | kind: data 0, acknowledgement 1, probe 2, reset 3 |
//! | 31 | marks: opening 1, last segment of the stream 2, arrived before 4, from the end that accepted 8 |
//! | 32–39 | the connection |
//! | 40–43 | data: the segment's number. Acknowledgement: all segments below have arrived. Opening: the most payload of a segment |
//! | 44–47 | acknowledgement, opening: for how many more segments there is room. Reset: the [`Reason`] |
//! | 48–55 | acknowledgement: the run of segments around the one that it answers. Data: where its payload begins in the segment, and how long that is, where it is a fragment; else zeros |
//! | 56–59 | CRC-32 of the task-id, bytes 26–55 and the payload |
//! | 60– | the payload |
//!
//! Numbers are big endian. The checksum leaves out what switches change. They keep the UDP checksum
//! right, so that the rest of the header is covered from hop to hop; and a rate that is wrong
//! nevertheless does harm until it expires.
//!
//! Rejected: to trust the UDP checksum alone. 16 bits let one broken packet in 65,536 through, and
//! on virtual links it is often never computed.

use std::fmt;
use std::net::IpAddr;

use crate::spc::{BYTES, SpcHeader};

/// Bytes of all that stands before the payload.
pub const HEADER: usize = 60;
/// Bytes of an IPv4 and a UDP header and of a frame without payload: what each packet costs.
pub const OVERHEAD: u16 = 28 + HEADER as u16;

/// Returns what each packet to `peer` costs: an IPv6 header has 20 bytes more.
pub fn overhead(peer: IpAddr) -> u16 {
    match peer.to_canonical() {
        IpAddr::V4(_) => OVERHEAD,
        IpAddr::V6(_) => OVERHEAD + 20,
    }
}

/// Offset of the frame's kind.
const KIND: usize = 30;

/// The rates that a stream asks of switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rates {
    /// SPC: rates by the order of tasks.
    #[default]
    OfTasks,
    /// RCP: each flow its fair share. With this Baraat was compared.
    OfFlows,
}

impl Rates {
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::OfTasks => *b"SPC\x01",
            Self::OfFlows => *b"RCP\x01",
        }
    }
}

/// The kind of a packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A segment.
    Data,
    /// A report of what has arrived.
    Ack,
    /// A header that asks for an acknowledgement.
    Probe,
    /// The connection is over.
    Reset,
}

impl FrameKind {
    const ALL: [Self; 4] = [Self::Data, Self::Ack, Self::Probe, Self::Reset];

    /// Returns whether a flow's sender sent it: what the logic of ports is for.
    pub const fn is_of_sender(self) -> bool {
        matches!(self, Self::Data | Self::Probe)
    }
}

/// The reason for which a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The other end knows no such connection.
    Unknown,
    /// There is no listener, or too many connections wait to be accepted.
    Refused,
    /// The path has more switches than the header has room for.
    TooManySwitches,
    /// The other end gave up.
    Aborted,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Unknown, Self::Refused, Self::TooManySwitches, Self::Aborted];
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "the other end knows no such connection",
            Self::Refused => "nothing listens there, or its queue of connections is full",
            Self::TooManySwitches => {
                "the path has more than six SPC switches, and the header has room for six; shorten the path"
            }
            Self::Aborted => "the other end gave the connection up",
        })
    }
}

/// The reason for which bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// They do not begin as one: they belong to something else.
    Foreign,
    /// They end within the header.
    Short,
    /// A field has a value that it cannot have.
    Field,
    /// The checksum is another.
    Checksum,
}

/// A packet of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header that switches read and write.
    pub spc: SpcHeader,
    /// The rates that the header asks for.
    pub rates: Rates,
    /// The frame's kind.
    pub kind: FrameKind,
    /// True if it opens the connection, or answers one that does.
    pub opening: bool,
    /// True if its segment is the stream's last.
    pub last: bool,
    /// True if what it acknowledges had arrived before.
    pub duplicate: bool,
    /// True if it comes from the end that accepted the connection, not from the one that opened it.
    pub accepted: bool,
    /// The connection.
    pub connection: u64,
    /// See the table.
    pub segment: u32,
    /// See the table.
    pub room: u32,
    /// The run of segments around the one that is acknowledged; of a fragment of a segment, its
    /// begin and the whole length.
    pub run: (u32, u32),
    /// The delivered bytes.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame without payload or marks.
    pub fn new(kind: FrameKind, connection: u64, spc: SpcHeader) -> Self {
        Self {
            spc,
            rates: Rates::default(),
            kind,
            opening: false,
            last: false,
            duplicate: false,
            accepted: false,
            connection,
            segment: 0,
            room: 0,
            run: (0, 0),
            payload: &[],
        }
    }

    /// One that ends a connection.
    pub fn reset(connection: u64, task: u32, reason: Reason) -> Self {
        Self { room: reason as u32, ..Self::new(FrameKind::Reset, connection, SpcHeader::new(task, 0)) }
    }

    /// Why it ends the connection.
    pub fn reason(&self) -> Reason {
        Reason::ALL.get(self.room as usize).copied().unwrap_or(Reason::Aborted)
    }

    /// Replaces `out` by the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend(self.spc.to_bytes());
        out.extend(self.rates.magic());
        let marks = [self.opening, self.last, self.duplicate, self.accepted];
        let marks = (0..).zip(marks).fold(0, |all, (bit, set)| all | u8::from(set) << bit);
        out.extend([self.kind as u8, marks]);
        out.extend(self.connection.to_be_bytes());
        for number in [self.segment, self.room, self.run.0, self.run.1] {
            out.extend(number.to_be_bytes());
        }
        out.extend([0; 4]);
        out.extend(self.payload);
        let sum = checksum(out);
        out[HEADER - 4..HEADER].copy_from_slice(&sum.to_be_bytes());
    }

    /// Reads a frame.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let Peeked { header: spc, rates, kind, .. } = peek(bytes)?;
        if bytes[HEADER - 4..HEADER] != checksum(bytes).to_be_bytes() {
            return Err(Malformed::Checksum);
        }
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let marks = bytes[KIND + 1];
        let mark = |bit: u8| marks & 1 << bit != 0;
        if marks > 15 {
            return Err(Malformed::Field);
        }
        Ok(Self {
            spc,
            rates,
            kind,
            opening: mark(0),
            last: mark(1),
            duplicate: mark(2),
            accepted: mark(3),
            connection: u64::from(number(32)) << 32 | u64::from(number(36)),
            segment: number(40),
            room: number(44),
            run: (number(48), number(52)),
            payload: &bytes[HEADER..],
        })
    }
}

/// The part of a frame that a switch needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The header that it reads and writes.
    pub header: SpcHeader,
    /// The rates that the header asks for.
    pub rates: Rates,
    /// The frame's kind.
    pub kind: FrameKind,
    /// True if it opens a connection.
    pub opening: bool,
    /// True if its segment is the last.
    pub last: bool,
    /// A number for the direction of its connection.
    pub flow: u32,
}

/// Reads what a switch needs of a frame, without the checksum.
pub fn peek(bytes: &[u8]) -> Result<Peeked, Malformed> {
    let magic = bytes.get(BYTES..KIND).ok_or(Malformed::Foreign)?;
    let known = [Rates::OfTasks, Rates::OfFlows].into_iter().find(|rates| rates.magic() == magic);
    let rates = known.ok_or(Malformed::Foreign)?;
    if bytes.len() < HEADER {
        return Err(Malformed::Short);
    }
    let kind = FrameKind::ALL.get(usize::from(bytes[KIND])).ok_or(Malformed::Field)?;
    let header = bytes.first_chunk().and_then(SpcHeader::from_bytes).ok_or(Malformed::Field)?;
    let marks = bytes[KIND + 1];
    let flow = (32..40)
        .step_by(4)
        .map(|at| bytes[at..at + 4].iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte)));
    let flow = flow.fold(u32::from(marks >> 3 & 1), |all, half| all ^ half);
    Ok(Peeked { header, rates, kind: *kind, opening: marks & 1 != 0, last: marks & 2 != 0, flow })
}

fn checksum(frame: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&frame[..4]);
    sum.update(&frame[BYTES..HEADER - 4]);
    sum.update(&frame[HEADER..]);
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes_of(frame: &Frame<'_>) -> Vec<u8> {
        let mut out = vec![9; 3];
        frame.encode(&mut out);
        out
    }

    proptest! {
        #[test]
        fn the_wire_gives_back_every_field(
            kind in 0usize..4, marks in any::<[bool; 4]>(), connection in any::<u64>(),
            numbers in any::<[u32; 4]>(), shares in any::<bool>(), payload in prop::collection::vec(any::<u8>(), 0..50), task in any::<u32>(),
        ) {
            let frame = Frame {
                opening: marks[0], last: marks[1], duplicate: marks[2], accepted: marks[3],
                rates: if shares { Rates::OfFlows } else { Rates::OfTasks },
                segment: numbers[0], room: numbers[1], run: (numbers[2], numbers[3]),
                payload: &payload,
                ..Frame::new(FrameKind::ALL[kind], connection, SpcHeader::new(task, 3))
            };
            let bytes = bytes_of(&frame);
            prop_assert_eq!(bytes.len(), HEADER + payload.len());
            prop_assert_eq!(Frame::decode(&bytes), Ok(frame));
            let seen = peek(&bytes).unwrap();
            prop_assert_eq!((seen.header, seen.rates, seen.kind), (frame.spc, frame.rates, frame.kind));
            prop_assert_eq!((seen.opening, seen.last), (frame.opening, frame.last));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..90), whole in any::<bool>()) {
            let mut bytes = bytes;
            if whole && bytes.len() >= KIND {
                bytes[BYTES..KIND].copy_from_slice(&Rates::OfTasks.magic());
            }
            let _ = (Frame::decode(&bytes), peek(&bytes));
        }
    }

    #[test]
    fn every_flipped_bit_that_switches_leave_alone_is_noticed() {
        let frame = Frame { payload: b"payload", ..Frame::new(FrameKind::Data, 7, SpcHeader::new(5, 0)) };
        let bytes = bytes_of(&frame);
        for at in (0..4).chain(BYTES..bytes.len()) {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                assert!(Frame::decode(&broken).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn what_a_switch_writes_leaves_the_checksum_right() {
        let asking = SpcHeader::new(5, 0).asking(1, 100, &crate::spc::Returned::default());
        let frame = Frame { payload: b"payload", ..Frame::new(FrameKind::Data, 7, asking) };
        let mut bytes = bytes_of(&frame);
        let mut header = asking;
        header.answer(90, 80, true);
        bytes[..BYTES].copy_from_slice(&header.to_bytes());
        assert_eq!(Frame::decode(&bytes).map(|frame| frame.spc.least()), Ok(Some((90, 80))));
    }

    #[test]
    fn more_ports_than_the_header_has_room_for_are_malformed() {
        let mut bytes = bytes_of(&Frame::new(FrameKind::Data, 7, SpcHeader::new(5, 0)));
        bytes[23] |= 7;
        assert_eq!(peek(&bytes), Err(Malformed::Field));
        assert_eq!(peek(&bytes[..40]), Err(Malformed::Short));
        assert_eq!(peek(b"GET / HTTP/1.1"), Err(Malformed::Foreign));
    }
}

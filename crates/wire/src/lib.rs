//! Byte formats of the live system: what its parts say to each other, and nothing of when or why.
//!
//! | between | carried by | messages |
//! |---|---|---|
//! | client library and agent | frames over a Unix socket | [`ClientMessage`], [`AgentMessage`] |
//! | agent and coordinator | frames over TCP | [`Report`], [`Orders`]: deltas, by round |
//! | agent and agent | one UDP datagram each | [`Datagram`]: what instances of a host-scope policy say |
//!
//! # The idea
//! There is one legal value for each legal run of bytes and the reverse. [`Message::decode`] checks everything at the
//! door: a number in more bytes than it needs, a list out of order, a byte too many are errors, so what has been decoded
//! encodes to the same bytes, and nobody behind the door checks again. Decoding allocates no more than a small multiple of
//! what arrived, whatever a length field claims.
//!
//! Numbers are little-endian base-128 varints, since most are small: counts, gaps between ascending numbers, bytes sent
//! since the last report. Lists by number are [`Keyed`] and hold gaps.
//!
//! # What was rejected
//! - Protocol Buffers: several encodings of one value, and every list item carries its field tags. A report of 100 flows
//!   takes 341 bytes here. Other languages reach the system through the client protocol, which is eleven messages.
//! - Version numbers in every message: a connection begins with one (a datagram carries it), and stays with it.

mod bytes;
mod client;
mod coordination;
mod error;
mod frame;
mod keyed;
mod names;
mod negotiation;

pub use bytes::Message;
pub use client::{AgentMessage, ClientMessage, Endpoints, Refusal};
pub use coordination::{
    CoflowEntry, Directive, FlowEntry, FlowOrder, Gate, KillSwitch, Orders, Progress, Report,
};
pub use error::WireError;
pub use frame::{Frames, MAX_FRAME, frame};
pub use keyed::Keyed;
pub use names::{CoflowKey, Facts};
pub use negotiation::{Datagram, MAX_DATAGRAM, Statement};

/// The version of all formats. Parts of different versions refuse each other at the first message.
pub const PROTOCOL: u16 = 1;

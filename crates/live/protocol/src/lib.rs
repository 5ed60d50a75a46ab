//! What the parts of the live system say to each other, and the two machines that need nothing
//! else.
//!
//! | between | carried by | messages |
//! |---|---|---|
//! | client library and agent | frames over a Unix socket | [`ClientMessage`], [`AgentMessage`] |
//! | client library and enforcer | lines over a Unix socket | [`Handover`]: a connection becomes the kernel's |
//! | agent and coordinator | frames over TCP | [`Report`], [`Orders`]: deltas, by round |
//! | agent and agent | one UDP datagram each | [`Datagram`]: what instances of a host-scope policy say |
//!
//! `formats` holds the messages as bytes. [`Client`] is the application's side of the agent
//! protocol, [`Negotiation`] the exchange of datagrams between hosts, [`TaskCounter`] the numbers
//! that name coflows. They are here and not in `cavalcade-control` so that an application that
//! links the client library links no coordinator and no allocator.
//!
//! # What was rejected
//! - Protocol Buffers: several encodings of one value, and every list item carries its field tags.
//!   A report of 100 flows takes 343 bytes here. Other languages reach the system through the
//!   client protocol, which is thirteen messages.
//! - Version numbers in every message: a connection begins with one (a datagram carries it), and
//!   stays with it.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

mod arguments;
mod client;
mod counter;
mod directory;
mod formats;
mod handover;
mod negotiation;

pub use arguments::Invalid;
pub use client::{Client, ClientEvent, Registration};
pub use counter::TaskCounter;
pub use directory::{Directory, Host, Prefix, outside};
pub use formats::{
    AgentMessage, ClientMessage, CoflowEntry, CoflowKey, CoflowName, Datagram, Directive, Drain, Drained,
    Endpoints, Facts, FlowEntry, FlowOrder, Frames, Gate, Keyed, KillSwitch, Limit, MAX_DATAGRAM, MAX_FRAME,
    Message, NameError, Orders, Progress, Rank, Refusal, Remark, RemarkError, Report, Sealed, Standing,
    Statement, Subject, WireError, frame,
};
pub use handover::{Connection, Handover, enforcer_beside};
pub use negotiation::Negotiation;

/// The version of all formats. Parts of different versions refuse each other at the first message.
pub const PROTOCOL: u16 = 4;

//! Byte formats: one legal value for each legal run of bytes, and the reverse.
//!
//! [`Message::decode`] checks everything at the door: a number in more bytes than it needs, a list
//! out of order, a byte too many are errors. What has been decoded encodes to the same bytes, so
//! later code does not check again. Decoding allocates no more than a small multiple of what
//! arrived, whatever a length field claims.
//!
//! Numbers are little-endian base-128 varints, since most are small: counts, gaps between ascending
//! numbers, bytes sent since the last report. Lists by number are [`Keyed`] and hold gaps.

pub(crate) mod bytes;
mod client;
mod coordination;
mod drains;
mod error;
mod frame;
mod keyed;
mod names;
mod negotiation;

pub use bytes::Message;
pub use client::{AgentMessage, ClientMessage, Endpoints, Limit, Refusal, Subject};
pub use coordination::{
    CoflowEntry, Directive, FlowEntry, FlowOrder, Gate, KillSwitch, Orders, Progress, Rank, Report, Sealed,
    Standing,
};
pub use drains::{Drain, Drained, Remark, RemarkError};
pub use error::WireError;
pub use frame::{Frames, MAX_FRAME, frame};
pub use keyed::Keyed;
pub use names::{CoflowKey, CoflowName, Facts, NameError};
pub use negotiation::{Datagram, MAX_DATAGRAM, Statement};

//! Transports as sans-IO machines: a sender and a receiver for each flow, and the logic that a
//! transport puts into switches.
//!
//! A machine has no clock, no socket and no thread. Its driver (the packet simulator today, a live
//! host later) tells it what arrived and what time it is, and asks what to send and when to look
//! again:
//!
//! | call | direction |
//! |---|---|
//! | `handle_packet`, `handle_timeout` | driver → machine: what happened |
//! | `poll_transmit` | machine → driver: the next packet that may leave now, until `None` |
//! | `poll_timeout` | machine → driver: when `handle_timeout` is due |
//!
//! So one machine runs in the simulator and on hosts, and can be tested against a network made of a
//! random number generator (`trials`), which is how every registered transport is held to its first
//! duty: deliver every byte, whatever is lost, delayed or reordered.
//!
//! - [`contract`]: the traits, and what a flow and a port are told at their start.
//! - [`packet`]: the header, small and `Copy`.
//! - [`scoreboard`]: reliability, once for all: which segments are sent, arrived, lost; when to
//!   give up waiting.
//! - [`window`]: the sender and receiver of all window transports; they differ in their
//!   [`WindowLaw`] alone.
//! - [`reno`], [`dctcp`], [`d2tcp`], [`tafe`], [`mcp`], [`pfabric`]: the laws, one file each.
//! - [`paced`]: the sender and receiver of all explicit-rate transports; [`capacity`]: what their
//!   ports give away.
//! - [`rcp`], [`spc`], [`d3`], [`pdq`]: the explicit-rate transports, one file each.
//! - [`stream`]: connections for real sockets: handshake, bytes in order both ways, flow control,
//!   half-close.
//! - [`internet`]: the checksum of IP, TCP and UDP, for drivers that write packets.
//! - [`mod@registry`]: from text to a transport. The only list of transports.
//!
//! # To add a transport
//! A window law is one file with a `WindowLaw` and a `Definition`; an explicit-rate transport has a
//! [`paced::RateLaw`], its header fields in [`Transport::Extra`] and its switch side in
//! [`PortLogic`]. Either gets one line in `registry.rs`, and with it every test.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

pub mod capacity;
pub mod contract;
pub mod internet;
pub mod paced;
pub mod packet;
pub mod registry;
pub mod scoreboard;
pub mod segments;
pub mod stream;
pub mod window;

pub mod d2tcp;
pub mod d3;
pub mod dctcp;
pub mod mcp;
pub mod pdq;
pub mod pfabric;
pub mod rcp;
pub mod reno;
pub mod spc;
pub mod tafe;

mod aimd;
mod known_flows;
mod parameters;
mod rtt;
#[cfg(test)]
mod trials;

pub use aimd::Aimd;
pub use contract::{FlowSetup, NoLogic, PortLogic, PortSetup, Receiver, Sender, SwitchNeeds, Transport};
pub use packet::{Flags, Header, Kind};
pub use registry::{Configured, Definition, Visitor, parse, registry};
pub use rtt::RoundTrip;
pub use scoreboard::{Delivery, Reliability, Scoreboard};
pub use segments::SegmentSet;
pub use window::{Ack, WindowLaw, WindowReceiver, WindowSender};

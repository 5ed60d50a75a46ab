//! Between agents: what instances of a host-scope policy tell each other, a datagram at a time (D-CAS §III-C).
//!
//! Datagrams get lost, come late, twice and in any order. Each has a number within its sender's session and the sender's
//! time, from which the receiver leaves out what is old (`control::negotiation`); statements are complete in themselves.

use cavalcade_model::{Instant, PortId};

use super::bytes::{fields, variants};
use super::names::CoflowKey;

/// The longest datagram in bytes: fits an Ethernet frame behind IPv6 and UDP headers.
pub const MAX_DATAGRAM: usize = 1400;

fields! {
    /// One datagram.
    Datagram ("a datagram") {
        /// The sender's [`PROTOCOL`](crate::PROTOCOL).
        protocol: u16,
        /// Who speaks.
        from: PortId,
        /// When the speaker started, by its clock.
        session: u64,
        /// Counts the speaker's datagrams to this receiver.
        sequence: u64,
        /// When it was sent, by the speaker's clock.
        sent_at: Instant,
        /// What is said.
        statements: Vec<Statement>,
    }
}

variants! {
    /// What one instance says to another.
    #[derive(Copy)]
    Statement ("a statement") {
        /// The order that a sender would like for its subcoflow.
        0 => Desired {
            /// The coflow.
            coflow: CoflowKey,
            /// The order.
            order: u64,
        },
        /// What a receiver makes of all that it heard.
        1 => Feedback {
            /// The coflow.
            coflow: CoflowKey,
            /// The order.
            order: u64,
        },
    }
}

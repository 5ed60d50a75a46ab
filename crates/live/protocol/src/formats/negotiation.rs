//! Between agents: what instances of a host-scope policy tell each other, a datagram at a time.
//!
//! Datagrams get lost, come late, twice and in any order. Each has a number within its sender's
//! session and the sender's time, from which the receiver leaves out what is old
//! ([`Negotiation`](crate::Negotiation)); statements are complete in themselves.

use cavalcade_model::{Instant, Payload, PortId};

use super::bytes::{Field, Reader, fields, put_varint};
use super::error::WireError;
use super::names::CoflowKey;

/// The longest datagram in bytes: fits an Ethernet frame behind IPv6 and UDP headers.
pub const MAX_DATAGRAM: usize = 1400;

fields! {
    /// One datagram.
    Datagram ("a datagram") {
        /// The sender's [`PROTOCOL`](crate::PROTOCOL).
        protocol: u16,
        /// The sending host.
        from: PortId,
        /// Time at which the speaker started, by its clock.
        session: u64,
        /// The receiving host.
        to: PortId,
        /// Time at which the receiver started, by its clock; none where the speaker has not heard
        /// from it.
        to_session: Option<u64>,
        /// Counts the speaker's datagrams to this receiver.
        sequence: u64,
        /// Time at which it was sent, by the speaker's clock.
        sent_at: Instant,
        /// The statements.
        statements: Vec<Statement>,
    }
}

fields! {
    /// A statement of one instance to another on a coflow, in an encoding of the policy's own.
    #[derive(Copy)]
    Statement ("a statement") {
        /// The coflow.
        coflow: CoflowKey,
        /// The statements of it.
        payload: Payload,
    }
}

impl Field for Payload {
    const NAME: &'static str = "what a policy says";

    fn put(&self, out: &mut Vec<u8>) {
        put_varint(self.as_bytes().len() as u64, out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let length = reader.varint(Self::NAME, Self::LONGEST as u64)?;
        let bytes = reader.raw(length as usize, Self::NAME)?;
        Ok(Self::new(bytes).expect("the length was just checked"))
    }
}

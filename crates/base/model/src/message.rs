//! Messages between instances of a host-scope policy.
//!
//! A message is about one coflow, because that is what has another name in every driver; everything
//! else is bytes in an encoding of the policy's own. So a second policy that negotiates is one
//! file: no driver and no wire format knows the encoding. A policy reads what any host may have
//! sent, and must ignore bytes that it cannot decode.

use crate::CoflowId;

/// Message from one instance of a policy to the instance at another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The coflow that it is about.
    pub coflow: CoflowId,
    /// Content of the message.
    pub payload: Payload,
}

/// At most [`Payload::LONGEST`] bytes, in an encoding of the policy's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    bytes: [u8; Self::LONGEST],
    length: u8,
}

impl Payload {
    /// The most bytes: a kind and a 64-bit number, and some room.
    pub const LONGEST: usize = 15;

    /// The payload of these bytes; `None` where they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut payload = Self { bytes: [0; Self::LONGEST], length: bytes.len().try_into().ok()? };
        payload.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(payload)
    }

    /// A kind of message with one number, in as few bytes as they take.
    pub fn of_number(kind: u8, number: u64) -> Self {
        let mut payload = Self::default();
        payload.bytes[0] = kind;
        payload.bytes[1..9].copy_from_slice(&number.to_le_bytes());
        payload.length = 1 + (64 - number.leading_zeros()).div_ceil(8) as u8;
        payload
    }

    /// Reads what [`Payload::of_number`] writes; `None` for anything else.
    pub fn number(&self) -> Option<(u8, u64)> {
        let (&kind, rest) = self.as_bytes().split_first()?;
        let mut number = [0; 8];
        number.get_mut(..rest.len())?.copy_from_slice(rest);
        let number = u64::from_le_bytes(number);
        (*self == Self::of_number(kind, number)).then_some((kind, number))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_out_as_they_went_in(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            match Payload::new(&bytes) {
                Some(payload) => prop_assert_eq!(payload.as_bytes(), &bytes[..]),
                None => prop_assert!(bytes.len() > Payload::LONGEST),
            }
        }

        #[test]
        fn a_number_has_one_form(kind: u8, number: u64, bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let payload = Payload::of_number(kind, number);
            prop_assert_eq!(payload.number(), Some((kind, number)));
            if let Some((kind, number)) = Payload::new(&bytes).and_then(|payload| payload.number()) {
                let again = Payload::of_number(kind, number);
                prop_assert_eq!(again.as_bytes(), &bytes[..]);
            }
        }
    }
}

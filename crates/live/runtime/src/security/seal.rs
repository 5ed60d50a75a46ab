//! The tag of datagrams: HMAC-SHA-256, cut to 16 bytes, behind the message.
//!
//! What is old or comes twice is left out by its number and time
//! (`cavalcade_protocol::Negotiation`), so the tag only has to say that a site's agent has made the
//! datagram, and that it was not changed.

use cavalcade_control::Notary;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a tag: forging one takes 2¹²⁷ attempts on average.
pub(crate) const TAG: usize = 16;
const KEY: usize = 32;

/// A key that tags datagrams and checks tags.
#[derive(Clone)]
pub struct Seal {
    bytes: [u8; KEY],
    key: hmac::Key,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    fn new(bytes: [u8; KEY]) -> Self {
        Self { bytes, key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) }
    }

    /// A random one; `None` where the operating system gives no random numbers.
    pub fn generate() -> Option<Self> {
        let mut bytes = [0; KEY];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self::new(bytes))
    }

    /// The one that everybody makes of the same `secret`, for one purpose.
    pub(crate) fn derived(secret: &[u8], purpose: &str) -> Self {
        let made = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), purpose.as_bytes());
        let mut bytes = [0; KEY];
        bytes.copy_from_slice(made.as_ref());
        Self::new(bytes)
    }

    /// The one that [`Seal::to_text`] wrote.
    pub fn from_text(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?.trim();
        if text.len() != 2 * KEY || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; KEY];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(Self::new(bytes))
    }

    /// Formats it as 64 hexadecimal digits and the end of a line.
    pub fn to_text(&self) -> String {
        let digits: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    }

    /// Adds the tag of `message` behind it.
    pub fn close(&self, message: &mut Vec<u8>) {
        let tag = hmac::sign(&self.key, message);
        message.extend_from_slice(&tag.as_ref()[..TAG]);
    }

    /// The message in front of its tag; `None` unless the tag is right.
    pub fn open<'a>(&self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (message, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG)?)?;
        let right = hmac::sign(&self.key, message);
        // In a time that does not depend on where they differ.
        let differs = right.as_ref()[..TAG].iter().zip(tag).fold(0, |all, (a, b)| all | (a ^ b));
        (std::hint::black_box(differs) == 0).then_some(message)
    }
}

/// Coordinators of a site have one key in common, that of their certificate; what it seals no agent
/// can make.
impl Notary for Seal {
    fn seal(&self, statement: &[u8]) -> Vec<u8> {
        let mut sealed = statement.to_vec();
        self.close(&mut sealed);
        sealed
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        Seal::open(self, sealed).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_same_key_has_sealed_opens_and_no_changed_bit_goes_unseen() {
        let (ours, theirs) = (Seal::generate().unwrap(), Seal::generate().unwrap());
        let mut sealed = b"desired".to_vec();
        ours.close(&mut sealed);
        let read = Seal::from_text(ours.to_text().as_bytes()).unwrap();
        assert_eq!(read.open(&sealed), Some(&b"desired"[..]));
        assert_eq!(theirs.open(&sealed), None);
        for bit in 0..8 * sealed.len() {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.open(&changed), None, "bit {bit}");
        }
        assert_eq!(ours.open(&sealed[..TAG - 1]), None);
    }

    #[test]
    fn a_key_that_is_not_64_digits_is_none() {
        let digits = "0123456789abcdef".repeat(4);
        assert!(Seal::from_text(digits.as_bytes()).is_some());
        for text in ["", &digits[1..], &"é".repeat(32), &"+1".repeat(32)] {
            assert!(Seal::from_text(text.as_bytes()).is_none(), "{text}");
        }
    }
}

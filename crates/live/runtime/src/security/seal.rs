//! A tag behind a message: HMAC-SHA-256, cut to 16 bytes. Only who has the key can make it.

use cavalcade_control::Notary;
use ring::hmac;

/// Bytes of a tag: forging one takes 2¹²⁷ attempts on average.
pub(crate) const TAG: usize = 16;

/// A key that tags messages and checks tags.
#[derive(Clone)]
pub(crate) struct Seal(hmac::Key);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

impl Seal {
    /// The one that everybody makes of the same `secret`, for one purpose.
    pub(crate) fn derived(secret: &[u8], purpose: &str) -> Self {
        let made = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), purpose.as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, made.as_ref()))
    }

    /// Adds the tag of `message` behind it.
    pub(crate) fn close(&self, message: &mut Vec<u8>) {
        let tag = hmac::sign(&self.0, message);
        message.extend_from_slice(&tag.as_ref()[..TAG]);
    }

    /// The message in front of its tag; `None` unless the tag is right.
    pub(crate) fn open<'a>(&self, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (message, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG)?)?;
        let right = hmac::sign(&self.0, message);
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
        let made = |secret: &[u8], purpose| Seal::derived(secret, purpose);
        let ours = made(b"secret", "one");
        let mut sealed = b"desired".to_vec();
        ours.close(&mut sealed);
        assert_eq!(made(b"secret", "one").open(&sealed), Some(&b"desired"[..]));
        assert_eq!(made(b"secret", "other").open(&sealed), None);
        assert_eq!(made(b"public", "one").open(&sealed), None);
        for bit in 0..8 * sealed.len() {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ours.open(&changed), None, "bit {bit}");
        }
        assert_eq!(ours.open(&sealed[..TAG - 1]), None);
    }
}

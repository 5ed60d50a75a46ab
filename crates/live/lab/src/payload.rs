//! The payload of transfers, made such that a byte that is wrong, missing, doubled or out of place
//! shows in a digest.
//!
//! All flows are windows onto one ring of pseudo-random bytes, each from a place of its own. So a
//! sender copies nothing and computes nothing, and the receiver's digest (XXH3, 64 bits) costs less
//! than reading. The ring's length is prime: pieces of any size that goes by powers of two begin
//! somewhere else each time.

use twox_hash::XxHash3_64;

/// The length of the ring: the first prime above a mebibyte.
const LENGTH: usize = 1_048_583;
/// The distance between the beginnings of two flows.
const STEP: u64 = 611_953;

/// The bytes of all flows.
#[derive(Debug)]
pub(crate) struct Payload {
    ring: Vec<u8>,
}

impl Payload {
    /// Always the same bytes.
    pub(crate) fn new() -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let byte = || {
            // SplitMix64, of which each step gives one byte.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed >> 56) as u8
        };
        Self { ring: std::iter::repeat_with(byte).take(LENGTH).collect() }
    }

    /// Bytes of `flow` from `offset` on, at least one and at most `most`.
    pub(crate) fn piece(&self, flow: u32, offset: u64, most: usize) -> &[u8] {
        let place = ((u64::from(flow) * STEP + offset) % LENGTH as u64) as usize;
        &self.ring[place..(place + most.max(1)).min(LENGTH)]
    }

    /// The digest of the first `size` bytes of `flow`.
    pub(crate) fn digest(&self, flow: u32, size: u64) -> u64 {
        let mut digest = Digest::default();
        while digest.length < size {
            let left = usize::try_from(size - digest.length).unwrap_or(usize::MAX).min(LENGTH);
            digest.take(self.piece(flow, digest.length, left));
        }
        digest.finish()
    }
}

/// Returns the digest of a flow of `size` bytes as [`serve_host`](crate::serve_host) sends it.
pub fn digest_of(flow: u32, size: u64) -> u64 {
    Payload::new().digest(flow, size)
}

/// A digest of bytes as they come.
#[derive(Default)]
pub(crate) struct Digest {
    hash: XxHash3_64,
    length: u64,
}

impl Digest {
    /// Takes in further bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        std::hash::Hasher::write(&mut self.hash, bytes);
        self.length += bytes.len() as u64;
    }

    /// The number of bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The digest of all bytes so far.
    pub(crate) fn finish(&self) -> u64 {
        std::hash::Hasher::finish(&self.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(bytes: &[u8]) -> u64 {
        let mut digest = Digest::default();
        bytes.chunks(1000).for_each(|piece| digest.take(piece));
        digest.finish()
    }

    fn contents(payload: &Payload, flow: u32, size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let left = size as usize - bytes.len();
            bytes.extend_from_slice(payload.piece(flow, bytes.len() as u64, left.min(65_536)));
        }
        bytes
    }

    #[test]
    fn the_digest_is_that_of_the_bytes_also_past_the_end_of_the_ring() {
        let payload = Payload::new();
        for size in [1, 4096, LENGTH as u64 - 1, 3 * LENGTH as u64 + 17] {
            assert_eq!(digest(&contents(&payload, 7, size)), payload.digest(7, size));
        }
    }

    #[test]
    fn a_byte_that_is_wrong_a_piece_that_is_missing_doubled_or_another_flows_shows() {
        let payload = Payload::new();
        let good = contents(&payload, 3, 300_000);
        let right = payload.digest(3, 300_000);
        let mut wrong = good.clone();
        wrong[123_456] ^= 1;
        let missing = [&good[..65_536], &good[131_072..], &good[..65_536]].concat();
        let doubled = [&good[..65_536], &good[..65_536], &good[131_072..]].concat();
        for broken in [wrong, missing, doubled, contents(&payload, 4, 300_000)] {
            assert_eq!(broken.len(), good.len());
            assert_ne!(digest(&broken), right);
        }
    }
}

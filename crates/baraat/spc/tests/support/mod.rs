//! What tests of streams carry.

/// Bytes that differ from place to place, and from seed to seed.
pub(crate) fn text(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 251) as u8 ^ seed).collect()
}

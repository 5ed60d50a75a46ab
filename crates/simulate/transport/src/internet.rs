//! The Internet checksum (RFC 1071), of headers on the wire and in captures.

/// Folds a sum of words into one word, which has the same remainder.
pub fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    ((once & 0xffff) + (once >> 16)) as u16
}

/// Sums up to 64 KB as big-endian words; an odd last byte counts as the first of a word.
pub fn sum(bytes: &[u8]) -> u32 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)])));
    // 64 KB of words fit 32 bits.
    words.sum()
}

/// Computes the checksum of bytes on top of a sum, such as that of a pseudo-header.
pub fn checksum(bytes: &[u8], before: u32) -> u16 {
    !fold(u32::from(fold(before)) + u32::from(fold(sum(bytes))))
}

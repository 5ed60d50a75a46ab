//! Compressed traces, told by their first bytes: gzip (`1f 8b`) and Zstandard (`28 b5 2f fd`).
//!
//! Spark can also write its logs with LZ4, LZF and Snappy, each in a framing of its own. Zstandard has been its default
//! since 3.2, so the others are recognised only to say so.
//!
//! A kilobyte can decompress to gigabytes, so what comes out is bounded, not what goes in.

use std::borrow::Cow;
use std::io::{self, Read};

use cavalcade_model::Bytes;
use flate2::bufread::MultiGzDecoder;

use crate::error::TraceErrorKind;

/// The text of a trace, decompressed where it was compressed.
pub(crate) fn decompress(bytes: &[u8], limit: Bytes) -> Result<Cow<'_, [u8]>, TraceErrorKind> {
    match bytes {
        [0x1f, 0x8b, ..] => read_bounded(MultiGzDecoder::new(bytes), "gzip", limit).map(Cow::Owned),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => zstd::stream::read::Decoder::with_buffer(bytes)
            .map_err(|error| damaged("Zstandard", &error))
            .and_then(|decoder| read_bounded(decoder, "Zstandard", limit))
            .map(Cow::Owned),
        _ => match unsupported(bytes) {
            Some(codec) => Err(TraceErrorKind::UnsupportedCompression { codec }),
            None => Ok(Cow::Borrowed(bytes)),
        },
    }
}

/// The codec of a Spark log that is not read here. No trace in text begins like any of these: each has a byte that is no
/// text or a control character (behind `LZ4Block` the top byte of a length of at most 32 MB), and names have none.
fn unsupported(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'L', b'Z', b'4', b'B', b'l', b'o', b'c', b'k', _, _, _, _, 0..=2, ..]
        | [0x04, 0x22, 0x4d, 0x18, ..] => Some("lz4"),
        [b'Z', b'V', 0 | 1, ..] => Some("lzf"),
        [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0, ..] => Some("snappy"),
        _ => None,
    }
}

fn read_bounded(
    decoder: impl Read,
    compression: &'static str,
    limit: Bytes,
) -> Result<Vec<u8>, TraceErrorKind> {
    let mut text = Vec::new();
    decoder
        .take(limit.0.saturating_add(1))
        .read_to_end(&mut text)
        .map_err(|error| damaged(compression, &error))?;
    if text.len() as u64 > limit.0 { Err(TraceErrorKind::TooLong { limit }) } else { Ok(text) }
}

fn damaged(compression: &'static str, error: &io::Error) -> TraceErrorKind {
    TraceErrorKind::Damaged { compression, reason: error.to_string() }
}

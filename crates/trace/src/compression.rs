//! Compressed traces, told by their first bytes: gzip (`1f 8b`) and Zstandard (`28 b5 2f fd`).
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
        _ => Ok(Cow::Borrowed(bytes)),
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

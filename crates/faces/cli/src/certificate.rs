//! The certificate of a bound as a file: the proof, and which trace and rate it is about.
//!
//! The proof is as `cavalcade_bound::Certificate` writes it, with three keys more at the front: a
//! certificate that is checked against another trace or at another rate than its own would only be
//! found to prove too little, which tells no reader what went wrong.

use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use cavalcade::manifest::TraceRecord;
use cavalcade::read_file;
use cavalcade_model::BitsPerSec;
use cavalcade_validate::certificate::{Certificate, CertificateError};
use flate2::read::MultiGzDecoder;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The most bytes that a certificate may unfold into, so that a small file cannot fill the memory.
const LONGEST: u64 = 2 << 30;

/// The part of the file beside the proof.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subject {
    /// The version of the program that wrote it.
    pub(crate) cavalcade: String,
    /// The trace.
    pub(crate) trace: TraceRecord,
    /// The capacity of every port in each direction.
    pub(crate) rate_bps: u64,
}

impl Subject {
    /// A bound of this program for `trace` at `rate`.
    pub(crate) fn new(trace: TraceRecord, rate: BitsPerSec) -> Self {
        Self { cavalcade: env!("CARGO_PKG_VERSION").to_owned(), trace, rate_bps: rate.get() }
    }
}

/// Writes a certificate.
///
/// # Errors
/// If `out` cannot be written.
pub(crate) fn write(
    subject: &Subject,
    proof: &cavalcade_bound::Certificate,
    out: &mut dyn Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        subject: &'a Subject,
        #[serde(flatten)]
        proof: &'a cavalcade_bound::Certificate,
    }
    let mut out = BufWriter::with_capacity(1 << 16, out);
    serde_json::to_writer(&mut out, &Whole { subject, proof })?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Reads a certificate, compressed or not.
///
/// # Errors
/// If there is none, or it is not one of this version.
pub(crate) fn read(path: &Path) -> Result<(Subject, Certificate), Failure> {
    let (name, bytes) = read_file(path);
    let bytes = bytes.and_then(decompressed).map_err(|error| {
        Failure::input(format!("cannot read {name}: {error}")).help(
            "name a folder that 'cavalcade simulate --out' wrote, or a file that 'cavalcade bound --certificate' wrote",
        )
    })?;
    let invalid = |error: CertificateError| {
        Failure::input(format!("{name}: {error}")).help(
            "name a file that 'cavalcade bound --certificate' wrote, or a folder of 'cavalcade simulate --dump-schedule'",
        )
    };
    let proof = Certificate::read(&bytes).map_err(invalid)?;
    let subject =
        serde_json::from_slice(&bytes).map_err(|error| invalid(CertificateError::unreadable(&error)))?;
    Ok((subject, proof))
}

fn decompressed(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let unfold = |decoder: &mut dyn Read| {
        let mut text = Vec::new();
        decoder.take(LONGEST + 1).read_to_end(&mut text)?;
        if text.len() as u64 > LONGEST {
            return Err(io::Error::other(format!("it decompresses to more than {LONGEST} bytes")));
        }
        Ok(text)
    };
    match &bytes[..] {
        [0x1f, 0x8b, ..] => unfold(&mut MultiGzDecoder::new(&bytes[..])),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unfold(&mut zstd::Decoder::with_buffer(&bytes[..])?),
        _ => Ok(bytes),
    }
}

//! Traces: a [`Workload`] from the formats that people have, back into them, and out of seeded generators.
//!
//! [`read()`] takes the bytes of a trace, plain or compressed, finds out which [`Format`] it is, and builds a checked
//! workload. [`write()`] is its inverse: what a format can carry comes back equal, and what it cannot carry is refused by
//! name rather than dropped. [`generate()`] makes workloads from a line of text such as `facebook:coflows=200,ports=50`.
//!
//! | format | carries | module |
//! |---|---|---|
//! | `coflow-benchmark` | coflows of mappers × reducers | [`coflow_benchmark`] |
//! | `sincronia` | coflows of any flows | [`sincronia`] |
//! | `flows` | flows with start times, so waves; not how many ports there are | [`flow_list`] |
//! | `csv` | the same below a header that names columns, with hosts by name: read only | [`csv_list`] |
//! | `spark` | event logs of Spark, plain or rolling: read only, with [`Note`]s on what is estimated | [`spark`] |
//! | `native` | everything: DAGs, waves, computation, hosts, deadlines, classes, weights | [`native`] |
//!
//! # Invariants
//! - Nothing here opens a file or socket: bytes in, values out. Callers name the source for messages.
//! - Bytes from outside never panic and never take memory out of proportion: [`Limits`] bounds what a small file may
//!   unfold into, be it compressed or a line that says "a million mappers, a million reducers".
//! - A message names the place, what was found, what was expected and the cure. Places are worked out when a message is
//!   made, so that the happy path counts no lines.
//! - The same text gives the same workload, and the same generator and seed the same workload, on every machine.
//!
//! # Cost
//! Reading is one pass over the text and one over the flows: the Facebook trace (706,397 flows) takes about
//! five milliseconds, nearly all of it spent on writing the flows to memory.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

pub mod coflow_benchmark;
mod compression;
pub mod csv_list;
mod decimal;
mod detection;
mod error;
pub mod flow_list;
mod format;
pub mod generate;
mod json;
mod lines;
mod names;
pub mod native;
mod notes;
pub mod shapes;
pub mod sincronia;
mod size_distribution;
pub mod spark;
mod table;
mod tokens;

use std::borrow::Cow;
use std::io;

use cavalcade_model::{Bytes, Workload};

pub use detection::{Opening, opening};
pub use error::{Expectation, Fault, TraceError, TraceErrorKind, WriteError};
pub use format::{Content, Format, Syntax, Writer};
pub use generate::{Failures, GenerateError, Generator, generate, with_failures};
pub use notes::{Certainty, Note};
pub use size_distribution::{SizeDistribution, read_size_distribution};

/// Options for reading a trace. The default detects everything from the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// The format; `None` to find it out from the content.
    pub format: Option<Format>,
    /// Number of ports of the fabric, which overrides the trace. Flow lists do not give it; for them `None` means one more
    /// than the largest port named.
    pub ports: Option<u32>,
    /// Limits on the size of a workload.
    pub limits: Limits,
}

/// Size of a workload from which a trace counts as hostile or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text after decompression: 2 GiB unless set, some fifty million flows as text.
    pub text: Bytes,
    /// The most flows: 2²⁷ unless set, which take 3.5 GiB.
    pub flows: u64,
    /// The most ports: 2²⁰ unless set.
    pub ports: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: Bytes(2 << 30), flows: 1 << 27, ports: 1 << 20 }
    }
}

/// A file of a trace: one of several where a log was rolled over.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// Its content, which may be compressed with gzip or Zstandard.
    pub bytes: &'a [u8],
}

/// Result of reading a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The workload.
    pub workload: Workload,
    /// The format that it was read from.
    pub format: Format,
    /// Notes on what is exact, estimated and left out; empty for formats that give everything.
    pub notes: Vec<Note>,
    /// For a Spark log, where each coflow comes from, in order of coflow; else empty.
    pub shuffles: Vec<spark::Shuffle>,
    /// For a Spark log, each task as it was recorded, in order of task; else empty.
    pub queries: Vec<spark::Query>,
}

/// Reads a trace from its bytes, which may be compressed with gzip or Zstandard. Also says which format it was.
/// `source_name` is what messages call it.
///
/// # Errors
/// The first thing found wrong and where.
pub fn read(
    bytes: &[u8],
    source_name: &str,
    options: &ReadOptions,
) -> Result<(Workload, Format), TraceError> {
    let reading = read_files(&[File { name: source_name, bytes }], options)?;
    Ok((reading.workload, reading.format))
}

/// Reads a trace that lies in several files, one after the other, each with its own compression.
///
/// # Errors
/// The first thing found wrong, with the file it is in.
///
/// # Panics
/// If `files` is empty.
pub fn read_files(files: &[File<'_>], options: &ReadOptions) -> Result<Reading, TraceError> {
    assert!(!files.is_empty(), "a trace is at least one file");
    let limit = options.limits.text;
    let mut left = limit;
    let mut texts = Vec::with_capacity(files.len());
    for file in files {
        let text = compression::decompress(file.bytes, left).map_err(|kind| {
            let too_long = matches!(kind, TraceErrorKind::TooLong { .. });
            TraceError::of_whole(file.name, if too_long { TraceErrorKind::TooLong { limit } } else { kind })
        })?;
        left = Bytes(left.0.saturating_sub(text.len() as u64));
        texts.push(text);
    }
    // Most traces are one file, which is not copied.
    let whole =
        if let [text] = texts.as_slice() { Cow::Borrowed(text.as_ref()) } else { Cow::Owned(texts.concat()) };
    as_text(&whole).and_then(|text| parse(text, options)).map_err(|fault| {
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        let (file, fault) = fault.in_file(&lengths);
        TraceError::locate(files[file].name, &texts[file], fault)
    })
}

/// Reads a file of text, which may be compressed, as `parse` does.
pub(crate) fn read_text<T>(
    bytes: &[u8],
    source_name: &str,
    limits: &Limits,
    parse: impl FnOnce(&str) -> Result<T, Fault>,
) -> Result<T, TraceError> {
    let content = compression::decompress(bytes, limits.text)
        .map_err(|kind| TraceError::of_whole(source_name, kind))?;
    as_text(&content).and_then(parse).map_err(|fault| TraceError::locate(source_name, &content, fault))
}

fn as_text(content: &[u8]) -> Result<&str, Fault> {
    core::str::from_utf8(content).map_err(|error| {
        let at = error.valid_up_to();
        Fault::new(at..at + 1, TraceErrorKind::NotUtf8 { byte: content[at] })
    })
}

fn parse(text: &str, options: &ReadOptions) -> Result<Reading, Fault> {
    let format = match options.format {
        Some(format) => format,
        None => detection::detect(text)?,
    };
    let Content { workload, notes, shuffles, queries } = (format.syntax().read)(text, options)?;
    Ok(Reading { workload, format, notes, shuffles, queries })
}

/// Writes a workload so that [`read()`] gives an equal one. What the format cannot carry is found before the first byte is
/// written.
///
/// # Errors
/// What the format cannot carry, with the task that has it; or what `out` reports.
pub fn write(workload: &Workload, format: Format, out: &mut impl io::Write) -> Result<(), WriteError> {
    if let (Some(task), false, true) =
        (workload.tasks().first(), workload.hosts().is_empty(), format != Format::NATIVE)
    {
        let (task, what) = (task.name.clone(), "what its hosts compute".to_owned());
        return Err(WriteError::CannotCarry { task, format, what, instead: Format::NATIVE });
    }
    if format != Format::NATIVE
        && let Some(task) = workload.tasks().iter().find(|task| task.job.is_some())
    {
        let (task, what) = (task.name.clone(), "its job".to_owned());
        return Err(WriteError::CannotCarry { task, format, what, instead: Format::NATIVE });
    }
    match format.syntax().write {
        Some(write) => write(workload, out),
        None => Err(WriteError::ReadOnly { format }),
    }
}

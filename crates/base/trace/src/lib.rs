//! Traces: a [`Workload`] from the formats that people have, back into them, and out of seeded
//! generators.
//!
//! [`read()`] takes the bytes of a trace, plain or compressed, finds out which [`Format`] it is,
//! and builds a checked workload. [`write()`] is its inverse: what a format can carry comes back
//! equal, and what it cannot carry is refused by name rather than dropped. [`generate()`] makes
//! workloads from a line of text such as `facebook:coflows=200,ports=50`. A [`TaskStream`] reads a
//! trace as it goes, and holds none of it.
//!
//! | format | carries | module |
//! |---|---|---|
//! | `coflow-benchmark` | coflows of mappers × reducers | [`coflow_benchmark`] |
//! | `sincronia` | coflows of any flows | [`sincronia`] |
//! | `flows` | flows with start times, so waves; not how many ports there are | [`flow_list`] |
//! | `csv` | the same below a header that names columns, with hosts by name: read only | [`csv_list`] |
//! | `spark` | event logs of Spark, of one or several applications: read only, with [`Note`]s on what is estimated | [`spark`] |
//! | `native` | everything: DAGs, waves, computation, hosts, deadlines, classes, weights | [`native`] |
//!
//! # Invariants
//! - Nothing here opens a file or socket: bytes in, values out. Callers name the source for
//!   messages, and open files when they are asked for them.
//! - Bytes from outside never panic and never take memory out of proportion: [`Limits`] bounds what
//!   a small file may unfold into, be it compressed or a line that says "a million mappers, a
//!   million reducers".
//! - A message names the place, what was found, what was expected and the cure. Places are worked
//!   out when a message is made, so that the happy path counts no lines.
//! - The same text gives the same workload, and the same generator and seed the same workload, on
//!   every machine.
//!
//! # Cost
//! Reading is one pass over the text and one over the flows: the Facebook trace (706,397 flows)
//! takes about five milliseconds, nearly all of it spent on writing the flows to memory.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

pub mod coflow_benchmark;
mod coflow_lines;
mod compression;
pub mod csv_list;
mod decimal;
mod detection;
mod error;
pub mod flow_columns;
pub mod flow_list;
pub mod flow_rows;
mod format;
pub mod generate;
mod input;
mod java_blocks;
mod json;
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

use cavalcade_model::{Bytes, TaskId, Workload};

pub use coflow_lines::{CoflowReader, TaskStream};
pub use detection::{Opening, opening};
pub use error::{Excerpt, Expectation, Fault, TraceError, TraceErrorKind, WriteError};
pub use format::{Content, Format, Reader, Syntax, Writer};
pub use generate::{Failures, GenerateError, Generator, generate, with_failures};
use input::Feed;
pub use input::{Decompressed, Input, LogLines};
pub use notes::{Certainty, Note};
pub use size_distribution::{SizeDistribution, read_size_distribution};

/// Options for reading a trace. The default detects everything from the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// The format; `None` to find it out from the content.
    pub format: Option<Format>,
    /// Number of ports of the fabric, which overrides the trace. Flow lists do not give it; for
    /// them `None` means one more than the largest port named.
    pub ports: Option<u32>,
    /// Limits on the size of a workload.
    pub limits: Limits,
}

/// Size of a workload from which a trace counts as hostile or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest text after decompression: 2 GiB unless set, some fifty million flows as text.
    /// Logs are not held as text, and may be longer.
    pub text: Bytes,
    /// The longest line of a log: 256 MiB unless set. Plans of queries make lines of some
    /// megabytes.
    pub line: Bytes,
    /// The most attempts of tasks in logs: 2²⁵ unless set, which take 3 GiB.
    pub tasks: u64,
    /// The most flows: 2²⁷ unless set, which take 3.5 GiB.
    pub flows: u64,
    /// The most ports: 2²⁰ unless set.
    pub ports: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { text: Bytes(2 << 30), line: Bytes(256 << 20), tasks: 1 << 25, flows: 1 << 27, ports: 1 << 20 }
    }
}

/// A file of a trace: one of several where a log was rolled over.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// Its content, which may be compressed: see [`read()`].
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
    /// For a Spark log, the cluster that it was written on.
    pub setup: Option<spark::Setup>,
}

/// Reads a trace from its bytes, which may be compressed with gzip, Zstandard, LZ4 or Snappy. Also
/// says which format it was. `source_name` is what messages call it.
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
/// The first thing found wrong, with the file it is in; or that there is no file.
pub fn read_files(files: &[File<'_>], options: &ReadOptions) -> Result<Reading, TraceError> {
    let inputs = files.iter().map(|file| Input::of_bytes(file.name, file.bytes)).collect();
    read_inputs(vec![inputs], options)
}

/// Reads traces, each of one or several files. Several are read together only if they are logs of
/// Spark, as one cluster on a common clock. Files are opened one after the other, and read to their
/// ends.
///
/// # Errors
/// The first thing found wrong, with the file it is in; or that there is no file.
pub fn read_inputs(traces: Vec<Vec<Input<'_>>>, options: &ReadOptions) -> Result<Reading, TraceError> {
    let mut traces = traces.into_iter();
    let mut files = traces.next().unwrap_or_default().into_iter();
    let Some(first) = files.next() else {
        return Err(TraceError::of_whole("trace", TraceErrorKind::NoFiles));
    };
    let mut first = first.open()?;
    let others = traces.next();
    let known = match options.format {
        Some(format) => Some(format),
        None => {
            let is_log = begins_log(&mut first, options.limits.text)?;
            // Of several, one may have just been begun.
            let says_nothing = others.is_some() && first.ahead().is_empty();
            (is_log || says_nothing).then_some(Format::SPARK)
        }
    };
    if let Some(format) = known
        && let Reader::Log(read) = format.syntax().read
    {
        let logs = others.into_iter().chain(traces).collect();
        let content = read(&mut LogLines::new(first, files.collect(), logs, options.limits.line), options)?;
        return Ok(content.read_from(format));
    }
    let limit = options.limits.text;
    let mut texts = vec![first.into_text(limit)?];
    for file in files {
        let taken = texts.iter().map(|(_, text)| text.len() as u64).sum();
        let text = file.open()?.into_text(Bytes(limit.0.saturating_sub(taken)));
        texts.push(text.map_err(|mut fault| {
            if let TraceErrorKind::TooLong { limit: left } = &mut fault.kind {
                *left = limit;
            }
            fault
        })?);
    }
    let reading = parse_files(&texts, options)?;
    if others.is_some() {
        let kind = TraceErrorKind::NotTogether { format: reading.format.name() };
        return Err(TraceError::of_whole(&texts[0].0, kind));
    }
    Ok(reading)
}

/// Whether a file begins with an event of a log, of which as much is looked at as a text may be
/// long.
fn begins_log(file: &mut Feed<'_>, limit: Bytes) -> Result<bool, TraceError> {
    loop {
        let ahead = file.ahead();
        let valid = core::str::from_utf8(ahead).map_or_else(|error| error.valid_up_to(), |_| ahead.len());
        let text = core::str::from_utf8(&ahead[..valid]).expect("valid up to here");
        let (is_log, is_open) = detection::begins_log(text);
        if is_log || !is_open || ahead.len() as u64 > limit.0 || !file.more()? {
            return Ok(is_log);
        }
    }
}

/// Reads the texts of files, one after the other, as one.
fn parse_files(texts: &[(String, Vec<u8>)], options: &ReadOptions) -> Result<Reading, TraceError> {
    // Most traces are one file, which is not copied.
    let whole = match texts {
        [(_, text)] => Cow::Borrowed(text),
        _ => Cow::Owned(texts.iter().flat_map(|(_, text)| text).copied().collect()),
    };
    let locate = |fault: Fault| {
        let lengths: Vec<usize> = texts.iter().map(|(_, text)| text.len()).collect();
        let (file, fault) = fault.in_file(&lengths);
        TraceError::locate(&texts[file].0, &texts[file].1, fault)
    };
    let text = as_text(&whole).map_err(locate)?;
    let format = options.format.map_or_else(|| detection::detect(text), Ok).map_err(locate)?;
    match format.syntax().read {
        Reader::Coflows(reader) => {
            Ok(Content::from(reader.read(text, options).map_err(locate)?).read_from(format))
        }
        Reader::Text(read) => Ok(read(text, options).map_err(locate)?.read_from(format)),
        Reader::Log(read) => {
            let mut files = texts.iter().map(|(name, text)| Input::of_bytes(name, text));
            let first = files.next().expect("a trace is at least one file").open()?;
            let mut lines = LogLines::new(first, files.collect(), Vec::new(), options.limits.line);
            Ok(read(&mut lines, options)?.read_from(format))
        }
    }
}

/// Reads a file of text, which may be compressed, as `parse` does.
pub(crate) fn read_text<T>(
    bytes: &[u8],
    source_name: &str,
    limits: &Limits,
    parse: impl FnOnce(&str) -> Result<T, Fault>,
) -> Result<T, TraceError> {
    let (_, content) = Input::of_bytes(source_name, bytes).open()?.into_text(limits.text)?;
    as_text(&content).and_then(parse).map_err(|fault| TraceError::locate(source_name, &content, fault))
}

fn as_text(content: &[u8]) -> Result<&str, Fault> {
    core::str::from_utf8(content).map_err(|error| {
        let at = error.valid_up_to();
        Fault::new(at..at + 1, TraceErrorKind::NotUtf8 { byte: content[at] })
    })
}

/// Writes a workload so that [`read()`] gives an equal one. What the format cannot carry is found
/// before the first byte is written.
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
    let repeating = |index: &usize| workload.iterations(TaskId::from_index(*index)).is_some();
    if format != Format::NATIVE
        && let Some(task) = (0..workload.tasks().len()).find(repeating)
    {
        let (task, what) = (workload.tasks()[task].name.clone(), "its iterations".to_owned());
        return Err(WriteError::CannotCarry { task, format, what, instead: Format::NATIVE });
    }
    match format.syntax().write {
        Some(write) => write(workload, out),
        None => Err(WriteError::ReadOnly { format }),
    }
}

//! The formats of traces: one table entry for each, in the file of the format.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::str::FromStr;
use std::io;

use cavalcade_model::Workload;
use cavalcade_spec::{Kind, SpecError, find};

use crate::coflow_lines::CoflowReader;
use crate::detection::Opening;
use crate::error::{Fault, TraceError, WriteError};
use crate::input::LogLines;
use crate::{Note, ReadOptions, Reading, coflow_benchmark, csv_list, flow_list, native, sincronia, spark};

/// A format: its recognition, reader and writer.
pub struct Syntax {
    /// The name by which it is chosen.
    pub name: &'static str,
    /// Tells whether a text that begins so is of this format. No two formats recognise the same
    /// text.
    pub recognises: fn(&Opening<'_>) -> bool,
    /// Reads it.
    pub read: Reader,
    /// Writes a workload; `None` for formats that are only read.
    pub write: Option<Writer>,
}

/// Reads a trace.
#[derive(Clone, Copy)]
pub enum Reader {
    /// One coflow a line behind a header: from the whole text, or as it goes.
    Coflows(CoflowReader),
    /// From its whole text.
    Text(fn(&str, &ReadOptions) -> Result<Content, Fault>),
    /// From logs that may be longer than memory, line by line.
    Log(fn(&mut LogLines<'_>, &ReadOptions) -> Result<Content, TraceError>),
}

/// Writes a workload as text.
pub type Writer = fn(&Workload, &mut dyn io::Write) -> Result<(), WriteError>;

/// Result of reading a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    /// The workload.
    pub workload: Workload,
    /// Notes on what is exact, estimated and left out; empty for formats that give everything.
    pub notes: Vec<Note>,
    /// For a Spark log, where each coflow comes from, in order of coflow; else empty.
    pub shuffles: Vec<spark::Shuffle>,
    /// For a Spark log, its queries and jobs as they were recorded; else empty.
    pub queries: Vec<spark::Query>,
    /// For a Spark log, the cluster that it was written on.
    pub setup: Option<spark::Setup>,
}

impl Content {
    pub(crate) fn read_from(self, format: Format) -> Reading {
        let Self { workload, mut notes, shuffles, queries, setup } = self;
        // What people write down themselves has times of day as often as times from zero.
        if [Format::FLOW_LIST, Format::CSV].contains(&format) {
            notes.extend(Note::of_origin(&workload));
        }
        Reading { workload, format, notes, shuffles, queries, setup }
    }
}

impl From<Workload> for Content {
    fn from(workload: Workload) -> Self {
        Self { workload, notes: Vec::new(), shuffles: Vec::new(), queries: Vec::new(), setup: None }
    }
}

/// A format of traces.
#[derive(Clone, Copy)]
pub struct Format(&'static Syntax);

impl Format {
    /// The format of the Facebook trace: see [`coflow_benchmark`].
    pub const COFLOW_BENCHMARK: Self = Self(&coflow_benchmark::SYNTAX);
    /// The format of the Sincronia implementation: see [`sincronia`].
    pub const SINCRONIA: Self = Self(&sincronia::SYNTAX);
    /// One flow per line: see [`flow_list`].
    pub const FLOW_LIST: Self = Self(&flow_list::SYNTAX);
    /// JSON Lines that carry all that the model knows: see [`native`].
    pub const NATIVE: Self = Self(&native::SYNTAX);
    /// Event logs of Apache Spark, which are only read: see [`spark`].
    pub const SPARK: Self = Self(&spark::SYNTAX);

    /// One flow per line below a header that names columns: see [`csv_list`].
    pub const CSV: Self = Self(&csv_list::SYNTAX);

    /// All formats: one entry for each, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::COFLOW_BENCHMARK, Self::SINCRONIA, Self::FLOW_LIST, Self::CSV, Self::NATIVE, Self::SPARK];

    /// A format of your own.
    pub const fn new(syntax: &'static Syntax) -> Self {
        Self(syntax)
    }

    /// The formats that [`crate::write()`] writes.
    pub fn written() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|format| format.0.write.is_some())
    }

    /// Returns whether a trace of it can be read as it goes ([`crate::TaskStream`]).
    pub const fn is_streamed(self) -> bool {
        matches!(self.0.read, Reader::Coflows(_))
    }

    /// The name by which it is chosen.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Its reader and writer.
    pub const fn syntax(self) -> &'static Syntax {
        self.0
    }
}

/// The names of all formats, for messages.
pub(crate) fn names() -> String {
    Format::ALL.map(Format::name).join(", ")
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Format {}

impl PartialOrd for Format {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Format {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl FromStr for Format {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (place, _) = find(Kind::Format, text, &Self::ALL.map(Format::name))?;
        Ok(Self::ALL[place])
    }
}

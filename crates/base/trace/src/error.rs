//! What can be wrong with a trace, told so that a person can mend it: the place, what was found,
//! what was expected, and the cure.
//!
//! Parsers raise a [`Fault`], a byte range and a kind; line and column are counted from it once,
//! here.

use core::fmt;
use core::ops::Range;
use std::io;

use cavalcade_model::{Bytes, WorkloadError};

use crate::Format;

/// A trace that cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Name of the trace, as the caller gave it.
    pub source_name: Box<str>,
    /// The line, from 1; `None` where the trace as a whole is meant.
    pub line: Option<u64>,
    /// The column in characters, from 1; `None` where a whole line is meant.
    pub column: Option<u64>,
    /// The problem.
    pub kind: TraceErrorKind,
    /// The line at fault, where one can be shown.
    pub excerpt: Option<Box<Excerpt>>,
}

/// A line at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Its text, without the end of the line.
    pub text: String,
    /// The byte in it at which the fault begins.
    pub at: usize,
}

/// Problem of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceErrorKind {
    /// The trace is blank.
    #[error("the trace is empty: expected the text of a trace; check that the file was written to its end")]
    Empty,
    /// No file at all.
    #[error("there is no file to read a trace from: name at least one")]
    NoFiles,
    /// A header, and no coflow after it.
    #[error("the trace has no coflows: expected at least one; add some or choose another trace")]
    NoCoflows,
    /// Bytes that are no text.
    #[error("found byte 0x{byte:02x}, expected UTF-8 text: save the trace as UTF-8 (or as .gz or .zst)")]
    NotUtf8 {
        /// The first byte that is not UTF-8.
        byte: u8,
    },
    /// The first line is like that of no format.
    #[error(
        "cannot tell the format from the first line, {found:?}: expected `ports coflows`, a flow `id src dst bytes start_ns`, a CSV header `src,dst,bytes,start_ns` or a JSON object; if the trace is one of {known}, name the format"
    )]
    UnknownFormat {
        /// The line's beginning.
        found: String,
        /// The names of all formats.
        known: String,
    },
    /// A table of jobs, which says nothing of hosts.
    #[error(
        "this is a SWIM table of jobs, which says how much they move and not between which hosts: expected a trace of transfers; 'cavalcade trace generate facebook' makes one like it"
    )]
    Swim,
    /// Compressed data that does not decompress.
    #[error("the {compression} data is damaged or cut off ({reason}): fetch or compress the trace again")]
    Damaged {
        /// The codec.
        compression: &'static str,
        /// Message of the decompressor.
        reason: String,
    },
    /// Compressed in a way that this program cannot read.
    #[error(
        "the trace is compressed with {codec}, expected plain text, gzip, Zstandard, LZ4 or Snappy: decompress it first, or have Spark write it with spark.eventLog.compression.codec=zstd"
    )]
    UnsupportedCompression {
        /// The codec, as Spark names it.
        codec: &'static str,
    },
    /// A file that cannot be read.
    #[error("it cannot be read ({reason}): check that it is there and that you may read it")]
    Unreadable {
        /// What the system says.
        reason: String,
    },
    /// A text longer than [`crate::Limits::text`] after decompression.
    #[error(
        "the trace is longer than {limit} once decompressed, which is the most that is read: keep the coflows of a shorter time"
    )]
    TooLong {
        /// The limit.
        limit: Bytes,
    },
    /// A line longer than [`crate::Limits::line`].
    #[error(
        "a line is longer than {limit}, expected an event on each line, or a coflow: check that this is a trace, or the event log of a Spark application"
    )]
    LineTooLong {
        /// The limit.
        limit: Bytes,
    },
    /// More tasks than [`crate::Limits::tasks`].
    #[error(
        "the log has more than {limit} attempts of tasks up to here: read the logs of fewer applications together, or the log of a shorter run"
    )]
    TooManyTasks {
        /// The limit.
        limit: u64,
    },
    /// Several traces of a format that is read alone.
    #[error(
        "this is a trace of the format {format}, expected a log of Spark: only such logs are read together; name one file"
    )]
    NotTogether {
        /// The format.
        format: &'static str,
    },
    /// A format that is only read as a whole.
    #[error(
        "this is a trace of the format {format}, which is only read as a whole, expected {expected}: convert it, or read it as a whole"
    )]
    NotStreamed {
        /// The format.
        format: &'static str,
        /// Formats that are read as they go.
        expected: String,
    },
    /// A coflow that arrives before one ahead of it, in a trace that is read as it goes.
    #[error(
        "the coflow arrives at {arrival} ms, before the one above it at {latest} ms: a trace that is read as it goes has its coflows in order of arrival; sort its lines by the second column, or read it as a whole"
    )]
    OutOfOrder {
        /// Its arrival in milliseconds.
        arrival: String,
        /// That of the one above it.
        latest: String,
    },
    /// More flows than [`crate::Limits::flows`].
    #[error(
        "the trace has more than {limit} flows up to here, which is the most that is read: check the numbers on this line, or keep the coflows of a shorter time"
    )]
    TooManyFlows {
        /// The limit.
        limit: u64,
    },
    /// More ports than [`crate::Limits::ports`].
    #[error(
        "the trace needs {ports} ports, more than {limit}: number ports densely from 0, or write a CSV, where hosts have names"
    )]
    TooManyPorts {
        /// Ports needed.
        ports: u64,
        /// The limit.
        limit: u32,
    },
    /// Something else than what the format has here.
    #[error("expected {}, found {found}: {}", expected.what, expected.cure)]
    Expected {
        /// Content that the format has here.
        expected: &'static Expectation,
        /// Content found, in quotes, or "the end of the line".
        found: String,
    },
    /// A port beyond the number of ports.
    #[error(
        "port {port} is out of range, expected 0 to {last}: number ports from 0, or raise the number in the first line"
    )]
    PortOutOfRange {
        /// The port named.
        port: u32,
        /// The last port there is.
        last: u32,
    },
    /// Fewer coflows (or tasks) than the header promised.
    #[error(
        "found {found} {noun}, expected {said} as the header says: the trace is cut off, or its header is wrong"
    )]
    TooFew {
        /// Things counted: `coflows` or `tasks`.
        noun: &'static str,
        /// The header's number.
        said: u64,
        /// Number found.
        found: u64,
    },
    /// More coflows (or tasks) than the header promised.
    #[error(
        "found more {noun} than the {said} that the header speaks of: correct the header, or remove the rest"
    )]
    TooMany {
        /// Things counted: `coflows` or `tasks`.
        noun: &'static str,
        /// The header's number.
        said: u64,
    },
    /// Two flows of one id.
    #[error("flow {id} is given twice, expected ids to be unique: renumber the flows")]
    DuplicateFlow {
        /// The id.
        id: String,
    },
    /// A line that is not what the native schema says.
    #[error("{problem}: expected {expected}")]
    Schema {
        /// Message of the JSON parser.
        problem: String,
        /// An example of what was expected.
        expected: &'static str,
    },
    /// A native trace of a version that this program does not know.
    #[error(
        "the trace has version {found} of the native schema, expected version {known}: read it with a newer cavalcade, or write it again"
    )]
    Version {
        /// The trace's version.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// Events, and none that starts a job.
    #[error(
        "no job starts in this log, expected an event SparkListenerJobStart: check that it is the event log of a Spark application that ran jobs, and that its first file is there"
    )]
    NoSparkJobs,
    /// A Spark log that ends while something runs, and before any shuffle has ended.
    #[error(
        "the log ends while {open} runs, and before any stage that shuffles from host to host has ended: copy it again when the application has gone on"
    )]
    LogCutOff {
        /// Open item: `stage 3` or `job 1`.
        open: String,
    },
    /// A job that starts twice in one application.
    #[error(
        "job {job} starts twice in one application: two logs were joined without their beginnings; keep the logs of applications apart, or whole"
    )]
    JobTwice {
        /// The job.
        job: u64,
    },
    /// One attempt of an application in two logs.
    #[error("the application {id} is in these logs twice, expected each once: keep one log of it")]
    ApplicationTwice {
        /// Its id.
        id: String,
    },
    /// A Spark stage that reads a later one.
    #[error(
        "stage {stage} reads stage {parent}, expected a stage with a lower id: the log is damaged; copy it again"
    )]
    StageOrder {
        /// The stage.
        stage: u32,
        /// The stage that it is said to read.
        parent: u32,
    },
    /// A Spark log without traffic.
    #[error(
        "nothing was shuffled from host to host (tasks ran on {hosts} hosts), expected at least one shuffle between two: there is nothing to schedule in this application"
    )]
    NoShuffle {
        /// On how many hosts tasks ran.
        hosts: usize,
    },
    /// A task whose times lie too far out to be added up.
    #[error("the task's times reach beyond 2^62 ns (146 years): expected nanoseconds; check their unit")]
    TooLate,
    /// A workload that cannot be.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

impl TraceErrorKind {
    /// What was expected there, where the format says so.
    pub fn expected(&self) -> Option<&'static str> {
        match self {
            Self::Expected { expected, .. } => Some(expected.what),
            Self::Schema { expected, .. } => Some(expected),
            _ => None,
        }
    }
}

/// Content that a format has at some place, and the cure if something else is there.
#[derive(Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Content that belongs there.
    pub what: &'static str,
    /// Cure.
    pub cure: &'static str,
}

impl Expectation {
    pub(crate) const fn new(what: &'static str, cure: &'static str) -> Self {
        Self { what, cure }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source_name)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl core::error::Error for TraceError {}

/// Problem, the bytes meant, and whether they stand for their whole line.
#[derive(Debug)]
pub struct Fault {
    span: Range<usize>,
    whole_line: bool,
    pub(crate) kind: TraceErrorKind,
}

impl Fault {
    /// Where it is.
    #[cfg(test)]
    pub(crate) fn start(&self) -> usize {
        self.span.start
    }

    pub(crate) fn new(span: Range<usize>, kind: TraceErrorKind) -> Self {
        Self { span, whole_line: false, kind }
    }

    /// A fault of the line that `span` covers.
    pub(crate) fn of_line(span: Range<usize>, kind: TraceErrorKind) -> Self {
        Self { span, whole_line: true, kind }
    }
}

impl Fault {
    /// In which of several files, of `lengths`, the fault is, and where there. One behind the end
    /// is in the last.
    pub(crate) fn in_file(mut self, lengths: &[usize]) -> (usize, Self) {
        let mut file = 0;
        while file + 1 < lengths.len() && self.span.start >= lengths[file] {
            self.span.start -= lengths[file];
            self.span.end -= lengths[file];
            file += 1;
        }
        (file, self)
    }
}

impl TraceError {
    pub(crate) fn of_whole(source_name: &str, kind: TraceErrorKind) -> Self {
        Self { source_name: source_name.into(), line: None, column: None, kind, excerpt: None }
    }

    /// A fault at byte `at` of a text.
    pub(crate) fn in_text(source_name: &str, content: &[u8], at: usize, kind: TraceErrorKind) -> Self {
        let before = &content[..at.min(content.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let rest = &content[line_start..];
        let line = &rest[..rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())];
        let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        let excerpt = Excerpt { text: line, at: before.len() - line_start };
        Self {
            source_name: source_name.into(),
            line: Some(1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64),
            column: Some(1 + String::from_utf8_lossy(&before[line_start..]).chars().count() as u64),
            kind,
            excerpt: Some(Box::new(excerpt)).filter(|excerpt| !excerpt.text.trim_ascii().is_empty()),
        }
    }

    /// Counts out the place of a fault. A workload that is too large as a whole has none.
    pub(crate) fn locate(source_name: &str, content: &[u8], fault: Fault) -> Self {
        if matches!(
            fault.kind,
            TraceErrorKind::Empty
                | TraceErrorKind::NoCoflows
                | TraceErrorKind::NoSparkJobs
                | TraceErrorKind::NoShuffle { .. }
                | TraceErrorKind::Workload(WorkloadError::TooLarge | WorkloadError::NoPorts)
        ) {
            return Self::of_whole(source_name, fault.kind);
        }
        let located = Self::in_text(source_name, content, fault.span.start, fault.kind);
        Self { column: located.column.filter(|_| !fault.whole_line), ..located }
    }
}

/// Reason that a workload cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The format has no place for something in the workload.
    #[error("task {task}: the {format} format cannot carry {what}: write it as {instead}")]
    CannotCarry {
        /// The task that has it.
        task: String,
        /// The format asked for.
        format: Format,
        /// Part that the format cannot hold.
        what: String,
        /// A format that could.
        instead: Format,
    },
    /// A format that is only read.
    #[error("the {format} format is read and never written: write the workload as native")]
    ReadOnly {
        /// The format asked for.
        format: Format,
    },
    /// The writer failed.
    #[error("cannot write the trace: {0}")]
    Io(#[from] io::Error),
}

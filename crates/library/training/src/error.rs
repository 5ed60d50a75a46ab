//! What can be wrong with the file of a workload, described so that a person can mend it.

use core::fmt;

use cavalcade_trace::TraceError;

use crate::program::ProgramError;

/// A workload that cannot be read, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The file, as the caller named it.
    pub source_name: String,
    /// The place in it.
    pub place: Place,
    /// The problem.
    pub kind: ReadErrorKind,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// A line and a column, from 1.
    Column(u64, u64),
    /// A byte, from 0.
    Byte(u64),
}

impl ReadError {
    /// An error at a place.
    pub(crate) fn at(source_name: &str, place: Place, kind: ReadErrorKind) -> Self {
        Self { source_name: source_name.to_owned(), place, kind }
    }

    /// An error of a file as a whole.
    pub(crate) fn of_whole(source_name: &str, kind: ReadErrorKind) -> Self {
        Self::at(source_name, Place::Whole, kind)
    }
}

/// Problem of a workload's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadErrorKind {
    /// A file that is compressed in a way that cannot be read, or cannot be read at all.
    #[error("{0}")]
    Source(Box<TraceError>),
    /// A file of no known format.
    #[error(
        "cannot tell the format: expected the text of an AICB or SimAI workload, the JSON of a PyTorch profiler, or a Chakra trace"
    )]
    UnknownFormat,
    /// Another kind of parallelism than AICB writes.
    #[error("found the kind {found:?}, expected HYBRID_TRANSFORMER_FWD_IN_BCKWD or MICRO in the first line")]
    UnknownParallelism {
        /// The first word.
        found: String,
    },
    /// Something else than a column has.
    #[error("column {column} is {found:?}, expected {expected}")]
    BadColumn {
        /// The column, from 1.
        column: usize,
        /// What is there.
        found: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A line that ends too early.
    #[error(
        "the line has {found} columns, expected 12: a name, -1, three times compute, collective and bytes, and a number"
    )]
    FewColumns {
        /// Columns found.
        found: usize,
    },
    /// A file without a layer.
    #[error("no layer follows the header: expected one on each line; the file may be cut off")]
    NoLayers,
    /// A size that must be given.
    #[error("the file does not say {what}: say it for the job")]
    Unsaid {
        /// The size.
        what: &'static str,
    },
    /// Sizes that do not fit each other.
    #[error("{ranks} ranks are not a multiple of {what} = {by}: correct one of them")]
    Indivisible {
        /// Ranks, or what is left of them.
        ranks: u32,
        /// By what they were divided.
        what: &'static str,
        /// How many.
        by: u32,
    },
    /// JSON that does not parse.
    #[error("{problem}: expected the JSON of one object; the file may be cut off")]
    Json {
        /// The parser's message.
        problem: String,
    },
    /// JSON with something else than is expected where it stands.
    #[error("{problem}: correct it, or record the trace again")]
    JsonValue {
        /// The parser's message: what is there, and what was expected.
        problem: String,
    },
    /// Text that is longer than is held.
    #[error("the text is longer than {most} MiB, which is the most that is held: give a shorter one")]
    TooLong {
        /// The most, in MiB.
        most: u64,
    },
    /// Something said of a job that its format has no use for.
    #[error("{what} says nothing of {format}: leave it out")]
    NoEffect {
        /// What was said.
        what: &'static str,
        /// The format.
        format: &'static str,
    },
    /// A trace without a collective that can be read.
    #[error("{found}: expected {expected}")]
    Missing {
        /// What is not there.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A name that stands for nothing known.
    #[error("{what} {found:?} is not known: expected one of {known}")]
    Unknown {
        /// What kind of name.
        what: &'static str,
        /// The name.
        found: String,
        /// Known ones.
        known: &'static str,
    },
    /// Times that go backwards.
    #[error("{what} ends {by_ns} ns before it begins: the trace is damaged, record it again")]
    Backwards {
        /// What has these times.
        what: String,
        /// By how much.
        by_ns: u64,
    },
    /// Ranks that are not there.
    #[error("the traces are of {found} ranks, and the job has {expected}: {cure}")]
    MissingRanks {
        /// Ranks found.
        found: u32,
        /// Ranks of the job.
        expected: u32,
        /// What to do.
        cure: &'static str,
    },
    /// Ranks whose traces contradict each other.
    #[error("{problem}: expected traces of one run of one job")]
    Contradiction {
        /// How.
        problem: String,
    },
    /// A binary file that ends or differs where it must not.
    #[error("{problem}: expected a Chakra trace, a length before each message; the file may be cut off")]
    Binary {
        /// What is wrong.
        problem: String,
    },
    /// A program that cannot be.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

impl ReadErrorKind {
    /// The message of a parser of JSON, without the place, which stands beside.
    pub(crate) fn of_json(error: &serde_json::Error) -> Self {
        let said = error.to_string();
        let problem = said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
        let problem = problem.to_owned();
        match error.classify() {
            serde_json::error::Category::Data => Self::JsonValue { problem },
            _ => Self::Json { problem },
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ReadErrorKind::Source(error) = &self.kind {
            // It names the file itself.
            return error.fmt(f);
        }
        f.write_str(&self.source_name)?;
        match self.place {
            Place::Whole => {}
            Place::Line(line) => write!(f, ":{line}")?,
            Place::Column(line, column) => write!(f, ":{line}:{column}")?,
            Place::Byte(at) => write!(f, ": byte {at}")?,
        }
        write!(f, ": {}", self.kind)
    }
}

impl core::error::Error for ReadError {}

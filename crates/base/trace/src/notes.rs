//! What a reader says of its own work: which figures stand in the trace, which it had to estimate,
//! and what it left out.
//!
//! Formats made for workloads say all that the model asks, so their readers have nothing to note.
//! An importer of logs that were written for another purpose has; a person who compares policies on
//! its result must be able to see which part of the answer was measured.

use core::fmt;

use cavalcade_model::{Instant, Workload};

/// Certainty of a part of an imported workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// It stands in the log.
    Exact,
    /// The log does not say it; it was worked out from what it says.
    Estimated,
    /// It is no part of the workload.
    LeftOut,
}

/// One thing to know about an imported workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Certainty.
    pub certainty: Certainty,
    /// Description.
    pub text: String,
}

impl Note {
    /// Where time zero is, unless the first task arrives then.
    pub(crate) fn of_origin(workload: &Workload) -> Option<Self> {
        let first = workload.origin();
        (first > Instant::ZERO).then(|| {
            Self::exact(format!(
                "time zero is the first arrival, at {} s of this file; tables of --out have arrivals as they were",
                first.0 as f64 / 1e9
            ))
        })
    }

    /// Something that stands in the log.
    pub fn exact(text: impl Into<String>) -> Self {
        Self { certainty: Certainty::Exact, text: text.into() }
    }

    /// Something that was worked out from the log.
    pub fn estimated(text: impl Into<String>) -> Self {
        Self { certainty: Certainty::Estimated, text: text.into() }
    }

    /// Something that is no part of the workload.
    pub fn left_out(text: impl Into<String>) -> Self {
        Self { certainty: Certainty::LeftOut, text: text.into() }
    }
}

impl Certainty {
    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Certainty::Exact => "exact",
            Certainty::Estimated => "estimated",
            Certainty::LeftOut => "left out",
        }
    }
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.certainty, self.text)
    }
}

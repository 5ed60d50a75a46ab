//! Errors of a lab.

use std::io;

/// Why a lab cannot be built, or a run in it does not count.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The machine lacks something.
    #[error("{what}")]
    Missing {
        /// The problem, and how it shows.
        what: String,
        /// The cure.
        cure: &'static str,
    },
    /// The trace is not one that can be replayed.
    #[error("{0}")]
    Trace(String),
    /// A process cannot be started, or ended when it should not have.
    #[error("{what} {how}")]
    Process {
        /// Its name.
        what: String,
        /// Its end, and its last words.
        how: String,
    },
    /// A transfer failed.
    #[error("flow {flow} of coflow {coflow} failed: {reason}")]
    Transfer {
        /// The flow's place in the trace.
        flow: u32,
        /// The coflow's name.
        coflow: String,
        /// Why.
        reason: String,
    },
    /// A transfer arrived with other bytes than were sent.
    #[error("flow {flow} of coflow {coflow} arrived with {received} bytes of {sent} or with wrong ones")]
    Corrupt {
        /// The flow's place in the trace.
        flow: u32,
        /// The coflow's name.
        coflow: String,
        /// Bytes that arrived.
        received: u64,
        /// Bytes that were to be sent.
        sent: u64,
    },
    /// The run took too long.
    #[error("{unfinished} transfers had not arrived after {seconds} s")]
    TimedOut {
        /// The number.
        unfinished: usize,
        /// After how long.
        seconds: u64,
    },
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    System {
        /// The problem.
        what: String,
        /// Why.
        error: io::Error,
    },
}

impl LabError {
    /// Makes the error that the system refused to do `what`.
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |error| LabError::System { what: what.into(), error }
    }
}

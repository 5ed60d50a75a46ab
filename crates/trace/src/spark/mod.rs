//! Event logs of Apache Spark: what an application transferred, as a workload.
//!
//! A log is JSON Lines, one event each, written by the driver for Spark's history server. It was never meant to tell who
//! sent what to whom, so this reader takes what stands there, works out the rest by rules that can be stated in a
//! sentence, and says which is which in the [`Note`]s of the [`Reading`](crate::Reading).
//!
//! | Spark | here |
//! |---|---|
//! | a host that ran tasks | a port, numbered by the host's name |
//! | a query (`spark.sql.execution.root.id`), or a job outside of any | a task; arrives when the query began (planning is computation), or its first job was submitted |
//! | a stage that ran | a stage of computation |
//! | what a stage reads of one earlier stage's output | a coflow, before that computation |
//! | what a reduce task reads from one host | a flow, whose wave is the launch of the reduce task |
//!
//! # Exact
//! Which stage reads which; when stages and tasks ran, to the millisecond; how many bytes each reduce task got from
//! elsewhere (`Remote Bytes Read`), so the bytes that each host received in each stage; how many bytes each executor
//! wrote for each shuffle. Failed and speculative attempts count with what they read, as Aalo has it (§5.2: restarted
//! and speculative flows add to their coflow).
//!
//! # Estimated
//! - **Sources.** A reduce task's bytes are shared among the other hosts (and among the shuffles that the stage reads) in
//!   proportion to what each of them wrote. Shares are whole bytes and add up exactly. With two hosts and one shuffle
//!   there is nothing to estimate. Fitting the matrix to both margins (iterative proportional fitting) was rejected: it
//!   needs every byte written to be read exactly once, which retries, adaptive plans and cached reads break.
//! - **Computation.** A stage computes for as long as it ran, less the share of its tasks' time that was spent waiting
//!   for blocks (`Fetch Wait Time`).
//! - **Local reads.** Whether `Local Bytes Read` means "by this executor" or "on this host" depends on Spark's version and
//!   settings; either way those bytes cross no port.
//!
//! # Time
//! A reduce stage starts when all stages that it reads are done, and fetches while it computes: its computation starts
//! beside its coflows and must not end before them (Aalo §5.1, Finishes-Before). The pause between the end of the last
//! stage read (or the arrival of the query) and the launch of the first task becomes a stage of its own. So on a network
//! that is never short every stage ends when the log says, less what its tasks waited for blocks. The alternative, fetch
//! first and compute afterwards, would count as network time what Spark hides behind computation, and every policy would
//! look better than it is. What the driver did between the last stage and the end of the query is one more computation.
//! Time zero is the arrival of the first task that is kept: an application that reads files for a minute before its first
//! shuffle does not make every figure a minute longer.
//!
//! # Left out
//! Reads from storage, broadcasts and results sent to the driver: the log does not say between whom they went. Queries
//! and jobs that shuffle nothing from host to host.
//!
//! # Incomplete logs
//! A log that ends inside a line, or while stages or jobs run and without the application's end, is refused: what is
//! missing cannot be told from what never was. A rolling log is a folder of files; [`rolling_order`] says which of them,
//! in which order, and [`crate::read_files`] reads them as one.

mod account;
mod dag;
mod events;
mod log;
mod rolling;

use cavalcade_model::{Bytes, CoflowId, Instant, Nanos, Workload};

use crate::error::Fault;
use crate::{Content, Note, ReadOptions, Syntax};

pub use rolling::{RollingError, is_rolling_name, rolling_order};

/// Origin of a coflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The coflow.
    pub coflow: CoflowId,
    /// The id of the Spark stage that wrote the bytes.
    pub map_stage: u32,
    /// The id of the Spark stage that read them.
    pub reduce_stage: u32,
    /// Bytes written by all tasks of the map stage.
    pub written: Bytes,
    /// Bytes that cross from host to host: the coflow's size.
    pub moved: Bytes,
}

/// A task as the log recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name, which is the task's.
    pub name: String,
    /// Its arrival, which is the task's.
    pub arrival: Instant,
    /// The time from there to its end, on the network of the application.
    pub took: Nanos,
}

/// Result of importing a log.
pub(crate) struct Import {
    pub(crate) workload: Workload,
    pub(crate) notes: Vec<Note>,
    pub(crate) shuffles: Vec<Shuffle>,
    pub(crate) queries: Vec<Query>,
}

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "spark",
    recognises: |opening| opening.is_event(),
    read: |text, options| {
        let Import { workload, notes, shuffles, queries } = read(text, options)?;
        Ok(Content { workload, notes, shuffles, queries })
    },
    write: None,
};

pub(crate) fn read(text: &str, options: &ReadOptions) -> Result<Import, Fault> {
    let log = events::scan(text)?;
    dag::import(&log, text.len(), options)
}

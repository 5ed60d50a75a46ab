//! Event logs of Apache Spark: what an application transferred, as a workload.
//!
//! A log is JSON Lines, one event each, written by the driver for Spark's history server. It was
//! never meant to tell who sent what to whom, so this reader takes what stands there, works out the
//! rest by rules that can be stated in a sentence, and says which is which in the [`Note`]s of the
//! [`Reading`](crate::Reading).
//!
//! | Spark | here |
//! |---|---|
//! | a host that ran tasks | a port of that name, numbered in order of name |
//! | a query (`spark.sql.execution.root.id`), or a job outside of any | a task; arrives when the query began (planning is computation), or its first job was submitted |
//! | a stage that ran | a stage of computation |
//! | what a stage reads of one earlier stage's output | a coflow, before that computation, called as `query72, stage 3 to 7 (count at Q.scala:12)` |
//! | what a reduce task reads from one host | a flow, whose wave is the launch of the reduce task |
//!
//! # Exact
//! Which stage reads which; when stages and tasks ran, to the millisecond; how many bytes each
//! reduce task got from elsewhere (`Remote Bytes Read`), so the bytes that each host received in
//! each stage; how many bytes each executor wrote for each shuffle. Failed and speculative attempts
//! count with what they read, as Aalo has it (§5.2: restarted and speculative flows add to their
//! coflow).
//!
//! # Estimated
//! - **Sources.** A reduce task's bytes are shared among the other hosts (and among the shuffles
//!   that the stage reads) in proportion to what each of them wrote. Shares are whole bytes and add
//!   up exactly. Where one other host wrote, there is nothing to estimate. Fitting the matrix to
//!   both margins (iterative proportional fitting) was rejected: it needs every byte written to be
//!   read exactly once, which retries, adaptive plans and cached reads break.
//! - **Computation.** A stage computes for as long as it ran, less the share of its tasks' time
//!   that was spent waiting for blocks (`Fetch Wait Time`).
//! - **Local reads.** Whether `Local Bytes Read` means "by this executor" or "on this host" depends
//!   on Spark's version and settings; either way those bytes cross no port. Where it means the
//!   executor, the share of what others on the host wrote is taken from what was read from
//!   elsewhere.
//! - **Hosts that are not in the log.** A remote shuffle service takes all that map tasks write and
//!   serves it; a push-based shuffle serves blocks from where they were merged. Of that the log has
//!   bytes and no hosts. Each host then exchanges them with a port of its own, so that its own port
//!   is all that limits them. One port for the whole service, or as many as there are hosts, was
//!   rejected: either claims a bottleneck, or none, that nobody has seen.
//!
//! # Lost and written again
//! A map output that is lost is written again, and from then on read from where that was
//! (`outputs.rs`). Each attempt of a stage is a stage of its own here, since the first reader, the
//! map tasks that are run again and the second reader come one after the other (`tries.rs`).
//!
//! # Time
//! A reduce stage starts when all stages that it reads are done, and fetches while it computes: its
//! computation starts beside its coflows and must not end before them (Aalo §5.1, Finishes-Before).
//! The pause between the end of the last stage read (or the arrival of the query) and the launch of
//! the first task becomes a stage of its own. So on a network that is never short every stage ends
//! when the log says, less what its tasks waited for blocks. The alternative, fetch first and
//! compute afterwards, would count as network time what Spark hides behind computation, and every
//! policy would look better than it is. What the driver did between the last stage and the end of
//! the query is one more computation. Time zero is the arrival of the first task that is kept: an
//! application that reads files for a minute before its first shuffle does not make every figure a
//! minute longer.
//!
//! # Several applications
//! Logs that are read together, and logs that were joined into one file, are one cluster on a
//! common clock: a second beginning in a file is another application, hosts of one name are one
//! host, and tasks are called after their application. Of the attempts of one application the last
//! counts (`attempts.rs`).
//!
//! # Left out
//! Reads from storage, broadcasts and results sent to the driver: the log does not say between whom
//! they went. Queries and jobs that shuffle nothing from host to host.
//!
//! # Incomplete logs
//! A log may end anywhere: an application that still runs has not written its end, a driver that
//! was killed never will, and a file may be cut inside a line or inside its compressed data. It is
//! read up to where it is whole: attempts of stages that had not ended are left out, and the notes
//! say where the log ends. Damage elsewhere is refused. A rolling log is a folder of files;
//! [`files_of_log`] says which of them, in which order, and [`crate::read_inputs`] reads them as
//! one.
//!
//! # Cost
//! One pass over the lines, of which one is held, and about a hundred bytes for each attempt of a
//! task.

mod account;
mod attempts;
mod dag;
mod events;
mod log;
mod outputs;
mod rolling;
mod schema;
mod service;
mod setup;
mod sources;
mod tries;
mod values;

use cavalcade_model::{Bytes, CoflowId, Instant, Nanos, Workload};

use crate::error::TraceError;
use crate::input::LogLines;
use crate::{Content, Note, ReadOptions, Reader, Syntax};

pub use rolling::{RollingError, files_of_log};
pub use setup::{Setup, Started};

/// Origin of a coflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The coflow.
    pub coflow: CoflowId,
    /// The id of the Spark stage that wrote the bytes.
    pub map_stage: u32,
    /// The id of the Spark stage that read them; `None` where a shuffle service took them.
    pub reduce_stage: Option<u32>,
    /// Bytes written by all tasks of the map stage, without what was lost and written again.
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
    pub(crate) setup: Setup,
}

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "spark",
    recognises: |opening| opening.is_event(),
    read: Reader::Log(|lines, options| {
        let Import { workload, notes, shuffles, queries, setup } = read(lines, options)?;
        Ok(Content { workload, notes, shuffles, queries, setup: Some(setup) })
    }),
    write: None,
};

fn read(lines: &mut LogLines<'_>, options: &ReadOptions) -> Result<Import, TraceError> {
    let cluster = events::scan(lines, options)?;
    dag::import(&cluster, lines, options)
}

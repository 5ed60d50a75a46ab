//! Training jobs on a cluster of GPUs: from what practitioners have in their hands to a workload,
//! and from a run of it to what they ask for.
//!
//! A reader makes a [`Program`] of a file: one iteration, as a DAG of computation and collectives
//! of ranks. [`plan()`] puts jobs on a [`Cluster`] and writes their iterations out as a
//! [`cavalcade_model::Workload`], which every driver runs under every policy. [`measure()`] derives
//! from the outcome how long iterations took, how busy GPUs were, and where communication was
//! exposed.
//!
//! | module | what |
//! |---|---|
//! | [`program`] | an iteration, and its builder |
//! | [`collective`] | kinds, groups and algorithms of collectives, down to flows |
//! | [`cluster`] | hosts with GPUs, their two networks, as a shape of fabric |
//! | [`jobs_file`] | jobs and cluster as text |
//! | [`aicb`] | workloads of AICB and SimAI |
//! | [`kineto`] | recordings of torch.profiler |
//! | [`chakra`] | execution traces of Chakra |
//! | [`mod@read`] | which reader a file needs, and what files leave out |
//! | [`mod@plan`] | jobs as a workload; jobs of equal replicas by one of them |
//! | [`timeline`], [`mod@measure`] | what a run shows |
//!
//! # Invariants
//! - A reader takes **bytes from collectives and times from computation**. How long a collective
//!   lasted in a recording shows mostly how long it waited for other ranks; here that follows from
//!   the others.
//! - Nothing here opens a file: readers take bytes and the names that messages call them.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

pub mod aicb;
pub mod chakra;
pub mod cluster;
pub mod collective;
pub mod error;
pub mod jobs_file;
pub mod kineto;
pub mod measure;
pub mod plan;
pub mod program;
mod rank_sets;
pub mod read;
#[cfg(test)]
mod real;
mod replicas;
mod row;
pub mod timeline;

pub use aicb::Groups;
pub use cavalcade_trace::{Certainty, Note};
pub use cluster::{Cluster, ClusterError, ClusterOptions, Gpu, Leaves};
pub use collective::{Algorithm, Collective, CollectiveKind, Group, GroupId, GroupKind};
pub use error::{Place, ReadError, ReadErrorKind};
pub use jobs_file::{JobText, JobWork, JobsError, JobsFile};
pub use measure::{Bandwidth, Figures, JobFigures, LinkFigures, Shares, measure};
pub use plan::{Job, Plan, PlanError, PlannedJob, plan};
pub use program::{Op, OpId, OpWork, OpsAlike, Program, ProgramBuilder, ProgramError, Stream};
pub use read::{Host, Measured, Options, Read, WorkloadFile, read};
pub use timeline::{Doing, Span, Timeline};

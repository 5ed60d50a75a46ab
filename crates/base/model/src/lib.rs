//! The nouns of the project and the contract between a policy and whatever drives it.
//!
//! - [`Workload`]: [`Task`]s, each a DAG of [`Stage`]s; a stage is a [`Coflow`] (flows that matter
//!   only together) or computation. This is what a trace holds.
//! - [`Fabric`]: links with capacities and the path between two hosts: the big switch, trees,
//!   leaf–spines and fat-trees.
//! - [`SplitMix64`]: the random numbers of drivers and statistics, and [`mix`], the hash of small
//!   numbers.
//! - [`MeasuredSizes`]: the flow sizes of web search and data mining.
//! - [`Demotion`]: how hosts sort flows by themselves, by bytes sent or sizes.
//! - [`contract`]: what a policy receives ([`Event`]), may look at ([`Observe`], [`Foresee`]) and
//!   decides ([`Decision`]).
//!
//! Nothing here does I/O, reads a clock, or knows which driver (fluid, packet, live) is running.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

pub mod contract;
mod demotion;
mod fabric;
mod flow_sizes;
mod ids;
mod message;
mod random;
mod scope;
mod words;
mod workload;

pub use cavalcade_units::{BitsPerSec, Bytes, FineInstant, Instant, Nanos};
pub use contract::{
    Clairvoyant, ClassShares, CoflowFacts, Decision, Discipline, Event, Excess, FlowFacts, Foresee, History,
    NonClairvoyant, Observe, Policy, PolicyFactory, Priority, Scope, Setting, SizeHistogram, Target, Terms,
    Ticks,
};
pub use demotion::{Demotion, Progress};
pub use fabric::{
    BigSwitch, Contended, Exception, Fabric, FabricError, FabricSpec, FabricSpecError, FatTree, LeafSpine,
    Level, LinkException, Node, Oversubscription, Path, Shape, Tier, Topology, Tree, shapes,
};
pub use flow_sizes::MeasuredSizes;
pub use ids::{CoflowId, FlowId, JobId, LinkId, PortId, StageIndex, TaskId};
pub use message::{Message, Payload};
pub use random::{SplitMix64, mix};
pub use workload::{
    Coflow, CoflowRef, Compute, Flow, Flows, FlowsIter, FreeNumbers, Host, Iteration, Iterations, LATEST,
    Place, Stage, Task, TaskClass, Window, Work, Workload, WorkloadBuilder, WorkloadError,
};

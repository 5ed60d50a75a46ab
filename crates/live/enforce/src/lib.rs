//! The kernel path: unmodified programs are scheduled by eBPF programs in their hosts' kernels.
//!
//! # The idea
//! A process in a control group that stands for a coflow makes sockets that carry the coflow, and
//! what they accept inherits it. The kernel counts what each *flow* (all connections of a coflow to
//! one peer) sends, and applies the flow's order: it refuses new data at the group's egress while
//! the flow is off, holds connections to a rate, and marks their packets. `bpf/enforce.bpf.c` has
//! the programs, `bpf/enforce.h` the data that they share with this crate.
//!
//! Where flows sort themselves by bytes sent (PIAS; Karuna's types 2 and 3), no coordinator is
//! needed: the kernel demotes a connection's message with the very packet that reaches a threshold,
//! and lifts it when it starves ([`Kernel::demote`], `bpf/demotion.h`), beside gates and rates.
//!
//! To the agent the kernel is one more client ([`Enforcer`]): it opens flows, reports what they
//! have sent, and receives directives. Each coflow has its own connection to the agent, under the
//! user who asked for it, so ownership is the agent's alone. A client library may hand its
//! connections over (`cavalcade_protocol::Handover`); until the enforcer ends, it then neither
//! gates, paces nor counts them.
//!
//! # Invariants
//! - Whatever dies, limits end. The programs expect a sign of life; without one for `silence`
//!   ([`Limits`]) gates are open, and connections that send get back their own rate and class
//!   within a round trip. Programs are pinned, because a process that is killed could lift nothing
//!   and unpinned programs would be gone before they could.
//! - Loading is whole or not at all, and lifts what a former enforcer has left ([`leftovers`]).
//! - No module, no patched kernel, no queueing discipline; [`probe`] tries what a kernel offers.
//!
//! # Cost
//! An order costs one write; one that opens a gate also some microseconds for each descriptor of
//! the coflow's processes ([`Kernel::push`]). Connections that only a rule has tagged need a walk,
//! whose time grows with the host's table of TCP connections, full or empty; one walk serves all
//! that wait for it. Looking at counts takes at most a twentieth of the thread's time.
//! `docs/kernel-path.md` has the figures, the limits, and the capabilities that this takes in place
//! of root.
//!
//! # Rejected
//! - libbpf: it needs libelf, zlib and make at build time, which a plain build must not. aya needs
//!   nothing; what it lacks, congestion controls (struct_ops), has a loader here ([`congestion`]).
//! - A low rate for OFF: connections wake up tenths of seconds to minutes late.
//! - A program at the egress of interfaces that writes DSCPs of sockets for both families: it would
//!   have to be attached to each interface of each network namespace, also to later ones.
//! - A process that watches the enforcer and cleans up: a service manager ends the whole group.

pub mod bench;
pub mod congestion;
pub mod containers;
mod demotion;
mod door;
mod enforcer;
mod error;
mod flow;
#[cfg(test)]
mod functions;
mod groups;
mod inherited;
mod kept;
mod kernel;
pub mod leftovers;
mod link;
mod namespaces;
mod pins;
mod place;
pub mod probe;
mod shared;
mod status;
mod subordinates;
mod urgency;
mod vouch;

pub use congestion::{Control, Goal, Law};
pub use door::{Amount, Name, Request};
pub use enforcer::{Conditions, Enforcer, Rule, Subject};
pub use error::Error;
pub use flow::{Count, Flow, Order};
pub use groups::{Group, Hierarchy};
pub use kept::Kept;
pub use kernel::{Kernel, Limits};
pub use place::Place;
pub use status::{Status, Stray, Trouble, Window};
pub use vouch::{Seal, Site};

/// Tells why this build has no programs for the kernel; `None` where it has them.
pub fn missing() -> Option<&'static str> {
    shared::PROGRAMS.err()
}

//! The lab: a trace replayed as real TCP transfers, under the coordinator, agents and client
//! library that are deployed.
//!
//! # The idea
//! A simulation says what a policy would be worth; the lab measures it through sockets, a kernel, a
//! network and a control plane whose knowledge is late. Every component is the program's own:
//! `cavalcade coordinator`, `cavalcade agent` at each host, and at each host one process that sends
//! and receives ([`serve_host`]) as an application with the client library does. In racks
//! `cavalcade switch` carries the frames as well, and flows go over TCP or as SPC streams.
//!
//! What differs between runs is the network ([`Transport`]), who carries out orders
//! ([`Enforcement`]: library, kernel, or the kernel for connections that the library hands over),
//! and where priorities are enforced: by gates and rates at senders, or by the classes of the
//! lab's own ports, which alone know what meets at a receiver. Ports mark for congestion controls.
//! `docs/lab.md` describes each of them, how close runs come to their predictions, and what a lab
//! cannot show.
//!
//! On loopback nothing limits a connection but its ends, so the lab's processes do: all flows that
//! leave a host take tokens of one bucket before they write, and all that arrive take tokens of
//! another before they read, with receive buffers so short that a slow reader blocks its senders.
//!
//! # Invariants
//! - Every byte received is digested, and every transfer's digest and length compared with what was
//!   to be sent: a run with a wrong, missing or duplicate byte is an error and has no figures.
//! - Nothing outlives a run. The kernel ends processes with their parent, namespaces and files go
//!   when the lab is dropped, and the next lab finds by process id what a killed one left behind
//!   (namespaces, control groups, programs) and removes it.
//! - Completion times are counted from a coflow's arrival in the trace to the read of its last
//!   byte, with what the live system adds: registration, connection set-up, waiting for orders.
//!
//! # Cost
//! Components cost by the clock (some wake-ups per host in each Δ), transfers by their packets.
//! Hosts' tables of connections are small (`namespaces`), because an enforcer walks over them.
//!
//! # Rejected
//! - Threads in place of processes: no test of what happens when a process is killed.
//! - netlink in place of `ip` and `tc`: a lab is built once a run, and can be rebuilt by hand.
//! - A netem delay: many kernels lack it. Round trips here are those of a rack.

mod bucket;
mod decisions;
mod enforcers;
mod error;
mod host;
mod marks;
mod message;
mod namespaces;
mod payload;
mod process;
mod racks;
mod replay;
mod run;
mod senders;
mod site;
mod workload;

pub use decisions::Decision;
pub use error::LabError;
pub use host::{HostSetup, Streams, serve_host};
pub use marks::{Marking, missing as marks_missing};
pub use namespaces::{
    CONTROL_PORT, Losses, Namespaces, Ports, coordinator_address, host_address, port_buffer,
};
pub use payload::digest_of;
pub use replay::{Fault, Victim};
pub use run::{
    Burst, Congestion, Cost, Enforcement, Measured, Racks, Recovery, Setup, SwitchedBy, Transport, run,
};
pub use senders::{KernelPath, serve_sender};
pub use site::{find_stale, remove_stale};
pub use workload::{Prepared, Scheduler, prepare};

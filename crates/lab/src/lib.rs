//! The lab: a trace replayed as real TCP transfers, under the coordinator, agents and client library that are deployed.
//!
//! A simulation says what a policy would be worth; this says what it is worth through sockets, a kernel, a network and
//! a control plane that is late. Every part is the program's own: `cavalcade coordinator`, `cavalcade agent` at each host,
//! and at each host one process that sends and receives ([`serve_host`]), as an application with the client library does.
//!
//! # Two networks
//! | transport | a host is | a port's rate is held by | needs |
//! |---|---|---|---|
//! | `netns` | a network namespace, joined to a bridge by a veth pair | HTB at both ends of the pair | root on Linux, `ip`, `tc` |
//! | `loopback` | an address of 127.77.0.0/16 | token buckets in the processes that send and receive | Linux |
//!
//! On loopback nothing limits a connection but its ends, so the lab's own processes do: all flows that leave a host take
//! tokens of one bucket before they write, and all that arrive take tokens of another before they read, with receive
//! buffers so short that a reader who waits makes its senders wait. Plain TCP is limited by it as everything else
//! is. Rates are those of payload; for the headers of packets HTB is given as much more as full packets need.
//!
//! # Invariants
//! - Every byte received is digested, and every transfer's digest and length compared with what was to be sent: a run in
//!   which a byte is wrong, missing or twice is an error and has no figures.
//! - Nothing outlives a run. Processes die with their parent (the kernel sees to it), namespaces and files go when the lab is
//!   dropped, and what a killed lab left behind is found by the number of its process and removed when the next begins.
//! - Completion times are counted from when the trace says that a coflow arrives to when the last byte was read. Whatever the
//!   live system adds is in them: registration, connection set-up, waiting for the first orders.
//!
//! # What was rejected
//! - Threads in place of processes for the small version: what breaks when a process is killed is then not tried.
//! - netlink in place of `ip` and `tc`: a lab is built once a run, and what it does can be typed by hand.
//! - A netem delay: many kernels lack it. Round trips here are those of a rack.

mod bucket;
mod error;
mod host;
mod message;
mod namespaces;
mod payload;
mod process;
mod replay;
mod run;
mod site;
mod workload;

pub use error::LabError;
pub use host::{HostSetup, serve_host};
pub use replay::{Fault, Victim};
pub use run::{Cost, Measured, Recovery, Setup, Transport, run};
pub use site::remove_stale;
pub use workload::{Prepared, Scheduler, prepare};

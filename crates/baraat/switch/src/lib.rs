//! A software switch that speaks SPC (Baraat, SIGCOMM 2014, §4.3, §4.4): Ethernet frames between
//! ports, and at each output port `transport`'s logic, the same that the packet simulator runs.
//!
//! - [`packet`]: what a frame is: SPC, anything else, or malformed. [`offload`]: frames that the
//!   kernel has not finished.
//! - [`port`]: an output port: the logic, two queues, the pace of the link.
//! - [`table`]: which address is behind which port. [`Switch`]: all of that, sans-IO.
//! - [`device`]: real interfaces (AF_PACKET). [`run()`]: the thread that runs a switch.
//!   [`mod@bench`]: what it costs.
//! - [`kernel`]: the second carrier of the same logic, as XDP programs, which leaves to that thread
//!   only what is rare.
//!
//! # Who goes first
//! SPC has the first class, in order of arrival as in the simulator: its senders keep to their
//! grants, so its queue is short, and the order of tasks is in the grants. All other traffic has
//! the second class. It has what SPC leaves, and never less than one part in [`port::PLAIN_SHARE`]
//! of the link.
//!
//! # Invariants
//! - A switch counts itself once in each question that it passes on. The header has room for six;
//!   the seventh sends the question back as a refusal.
//! - Tables are bounded: tasks of each port, addresses, bytes of each queue. The oldest idle entry
//!   makes room.
//! - A malformed header is dropped and counted. No sender's packets leave faster than the link.
//! - Nothing of the system is changed but for the sockets' own settings, which go with the process,
//!   however that ends.
//!
//! # What is trusted
//! The fabric's hosts, with their task-ids: who claims an early one goes first, whether they send
//! or only ask. A flow that asks for more than it sends holds one link at most, later tasks are
//! given what it leaves unused, and all of its grant after two epochs of silence. There is no
//! authentication in the header's 26 bytes.
//!
//! # Cost
//! A system call for up to 64 packets each way and one copy of each packet; no allocation once
//! buffers are there, but for a refusal. System calls are nearly all of it, and the port logic does
//! not show: `docs/spc.md`, "Profiles", has the figures of both carriers.
//!
//! # Rejected
//! With figures in the same section:
//! - AF_PACKET's ring of version 3, whose block timer adds a millisecond to each round trip, which
//!   is as much as the round trip of the paper's testbed; and that of version 2, which saves
//!   little.
//! - AF_XDP: no better than that ring in copying mode, which is all that virtual cables offer; and
//!   it needs a program in the kernel, which can as well carry the frames alone ([`kernel`]).
//! - A thread for each core: the processor is the limit, not the thread.

pub mod bench;
pub mod device;
mod error;
pub mod kernel;
pub mod offload;
pub mod packet;
pub mod port;
mod run;
mod shared;
mod switch;
pub mod table;

pub use error::SwitchError;
pub use run::{Carrier, Running, Stop, run};
pub use switch::{Counters, PortReport, Report, Setup, Switch};

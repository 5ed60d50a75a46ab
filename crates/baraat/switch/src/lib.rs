//! A software switch that speaks SPC (Baraat, SIGCOMM 2014, §4.3, §4.4): Ethernet frames between ports, and at each output port
//! `transport`'s logic, the same that the packet simulator runs.
//!
//! - [`packet`]: what a frame is: SPC, anything else, or malformed. [`offload`]: frames that the kernel has not finished.
//! - [`port`]: an output port: the logic, two queues, the pace of the link.
//! - [`table`]: which address is behind which port. [`Switch`]: all of that, sans-IO.
//! - [`device`]: real interfaces (AF_PACKET). [`run()`]: the thread that turns a switch. [`mod@bench`]: what it costs.
//! - [`kernel`]: the second carrier of the same logic, as XDP programs, which leaves to that thread only what is rare.
//!
//! # Who goes first
//! SPC has the first class, in order of arrival as in the simulator: its senders keep to their grants, so its queue is short, and
//! the order of tasks is in the grants. All other traffic has the second class. It has what SPC leaves, and never less than
//! one part in [`port::PLAIN_SHARE`] of the link.
//!
//! # Invariants
//! - A switch counts itself once in each question that it passes on. The header has room for six; the seventh sends the question
//!   back as a refusal.
//! - Tables are bounded: tasks of each port, addresses, bytes of each queue. The oldest idle entry makes room.
//! - A malformed header is dropped and counted. No sender's packets leave faster than the link.
//! - Nothing of the system is changed but for the sockets' own settings, which go with the process, however that ends.
//!
//! # What is trusted
//! The fabric's hosts, with their task-ids: who claims an early one goes first, whether they send or only ask. A flow that asks for more
//! than it sends holds one link at most, later tasks are given what it leaves unused, and all of its grant after two epochs of silence. There
//! is no authentication in the header's 26 bytes.
//!
//! # Cost
//! A system call for up to 64 packets each way, one copy of each packet, no allocation once buffers are there but for a refusal. What
//! limits is the kernel: of the time of hosts and switch at 4 × 0.9 Gbps, packets of 1,500 bytes and SPC, 85 % pass in system calls: 39 in `sendmmsg` (17 of them at the
//! other end of the virtual cable), 33 in `recvmmsg` (9 of them the copy), 5 in `ppoll` (`perf record`). The port logic does not show.
//!
//! XDP with packets of 1,500 bytes is limited by the thread that plays all hosts (`bench switch`): `perf record` of plain packets and SPC at 2 Gbps
//! offered at each of four ports, nothing beside it, finds that thread on one processor all the time and the other one idle. 76 % of it is
//! `sendmmsg`, in which the kernel also forwards and delivers (43 %: 11 to copy each packet into memory that a program may write, 10 to
//! hand packets to the sockets, 6 the program), and 21 % `recvmmsg`. So the program is a seventeenth of what a packet costs. That was on a
//! machine where all of it took 4.4 µs a packet and XDP carried the 2.9 Gbps that were offered without loss (3.8 to 4.0 Gbps of
//! the process and 7.05 of XDP in `docs/spc.md` are of a faster day).
//!
//! # Rejected
//! - AF_PACKET's ring of version 3, whose block timer adds a millisecond to each round trip, which is as much as the
//!   round trip of the paper's testbed. That of version 2 took 0.91 of a core for plain packets at 4 × 1 Gbps, and this takes 0.93.
//! - AF_XDP. Virtual cables here (Linux 6.18) take a socket in copying mode and refuse one without copies ("operation not supported").
//!   A probe in C carried frames of 1,500 bytes one way between two cables, with a generator and a sink beside it. Processor time of
//!   the forwarder, and of all three, for a frame, in µs; medians of three runs of 2 s, a compiler beside them:
//!
//!   | offered | `recvmmsg`, `sendmmsg`, as here | ring of AF_PACKET V2, `sendmmsg` | AF_XDP |
//!   |---|---|---|---|
//!   | 1 Gbps | 3.4, 8.2 | 2.6, 7.2 | 2.8, 8.5 |
//!   | 2 Gbps (carried: 1.5, 1.7, 1.7) | 2.9, 6.8 | 2.0, 5.3 | 1.9, 5.8 |
//!
//!   Of packets one by one (100 Mbps, one run) AF_XDP's took 18 µs of the forwarder and the others' 12. It makes its copy in the sender's time,
//!   is no better than the ring, and would need a program in the kernel as well, and these carry frames alone.
//!   The ring is ahead of `recvmmsg` here, which whole switches did not show.
//! - A thread for each core. Hosts and switch take 5.83 µs for a packet at 4 × 1 Gbps on two cores, which are full with that. Two switches
//!   of two ports, each with hosts of its own, are what threads would be that share nothing and wait for no lock: 5.72 µs. They carry 4.00
//!   Gbps and one thread 3.94 to 3.98, so at the very best there are 2 % to be had.

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

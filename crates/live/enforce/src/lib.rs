//! The kernel path: programs that were never told of coflows are scheduled as they are.
//!
//! # The idea
//! A process in a control group that stands for a coflow makes sockets that carry the coflow, and what they accept inherits
//! it. The kernel counts what each *flow* (all connections of a coflow to one peer) sends, and does what the flow's order
//! says: it refuses new data at the group's egress while the flow is off, holds connections to a rate, and marks their
//! packets. `bpf/enforce.bpf.c` has the programs, `bpf/enforce.h` what they and this crate say to each other.
//!
//! Where flows sort themselves by what they send (PIAS; Karuna's types 2 and 3), no coordinator is needed: the kernel demotes each
//! connection's message at its thresholds, with the very packet that reaches one, and lifts it when it starves ([`Kernel::demote`],
//! `bpf/demotion.h`). Gates and rates of orders hold beside it.
//!
//! To the agent the kernel is one more client ([`Enforcer`]): it opens flows, says what they have sent, and is told how to
//! send. So the live system has one way to carry out orders, and each user's coflows stay that user's: for each coflow there
//! is a connection to the agent under the user who asked for it.
//!
//! # Invariants
//! - Whatever dies, limits end. The programs look for a sign of life; without one for `silence` ([`Limits`]) gates are
//!   open, and connections that send get back their own rate and class within a round trip. They are pinned, because a
//!   process that is killed could lift nothing and its programs would be gone before they could.
//! - Loading is whole or not at all, and lifts what a former enforcer has left behind ([`leftovers`]).
//! - No module, no patched kernel, no queueing discipline. What a kernel lacks, [`probe`] says by trying it.
//!
//! Tried on distributions' kernels from 5.4 to 6.18: it loads from Linux 5.15 on, with congestion controls from 6.5 on (6.2 refuses),
//! and tags connections of before from 6.12 on. Before 6.1 a walk sets rates but cannot push: what waits at a gate that it opens
//! begins when TCP itself tries next. Before 6.12 what opens to a rate waits for a walk, and client libraries keep their connections.
//!
//! # Cost
//! An order costs one write. One that opens a gate also has the connections of the coflow's processes take on their rate and send at
//! once ([`Kernel::push`]: some microseconds for each descriptor of theirs). For what only a rule has tagged, or for a connection that
//! its program has closed with bytes left to send, it takes a walk over the host's table of TCP connections, with all others of its
//! turn; with 262,144 entries that is 1.7 ms of processor time, whatever is in it. The enforcer's thread goes before all ordinary ones
//! (`urgency`), and therefore spends no more than a twentieth of its time on looking at counts. It looks at what begins and ends 2 ms
//! after its last look, or at once where that is past, and else each Δ while a flow moves; at flows that are all off, ten times a second.
//!
//! Measured with [`mod@bench`] (`cavalcade bench enforce`, release build, in a network namespace with packets of 1,500 B) on two cores of a
//! virtual machine with Linux 6.18 and nothing else on it, bbr; medians of three runs with `net.ipv4.tcp_tso_rtt_log` 0:
//!
//! | what | figure |
//! |---|---|
//! | verifier | `gate` 1,002 instructions, `connections` 61,360, `refresh` 92,432 |
//! | `gate`, for a packet of up to 64 KB as it leaves TCP; `connections`, a run | 240 and 417 ns; 305 ns a packet in all |
//! | the same where messages are sorted by the bytes that they have sent | 204 and 221 ns, with nine times as many runs of `connections`; 614 ns a packet |
//! | rates of 1 Mbps over 10 s; 5, 50, 500 Mbps, 2 and 10 Gbps over 1 s | 0.3 %; 0.1, −0.1, 0.0, 0.0, −0.3 % (19.8 Gbps without limits) |
//! | the same with the kernel's own `tcp_tso_rtt_log`, 9 (two runs) | 3.6, 1.2 %; at most 3.3 % |
//! | OFF, ON: p50, p99 | 0.12, 0.24 ms; 0.16, 0.21 ms |
//! | agents and enforcers of both hosts: one flow of 18 Gbps; 2,000 short flows a second | 1.6 and 0.6 %; 2.8 and 3.6 % of a core |
//!
//! Since parts sleep until something is due, by a timer of the kernel, with the kernel's own `tcp_tso_rtt_log` (two runs, the longer):
//!
//! | what | figure |
//! |---|---|
//! | rates of 1 Mbps over 10 s; 5, 50, 500 Mbps, 2 and 10 Gbps over 1 s | 4.8 %; 4.8, 0.6, −0.1, −0.1, −0.2 % (29.9 Gbps without limits) |
//! | OFF, ON: p99 | 0.15, 0.11 ms |
//! | agents and enforcers of both hosts: one flow of 32 Gbps; 2,000 short flows a second | 1.4 and 0.9 %; 2.0 and 3.7 % of a core |
//! | from a coordinator's decision to the first bytes at the receiver, up to 108 of each: p50, p99 | 0.4, 10.4 ms with Δ of 10 ms; 0.4, 1.4 ms with 1 ms |
//! | from the end of a coflow to the first bytes of the next, report and round included: p50, p99 | 1.5, 19.3 ms; 1.5, 3.3 ms (before: 6.8, 20.6; 2.3, 7.3) |
//!
//! A decision is late by up to Δ where the coordinator has just sent that host other orders: the next ones follow a period later.
//!
//! Under bbr a rate raised from 1 to 5 Mbps used to stay a third too low, because bbr sends at the rate it has measured; a raise now restarts
//! it. With 15 to 17 other busy threads, rates up to 500 Mbps were within 1.6 % with one exception, and 10 Gbps up to 48 % too
//! low: one connection needs more than a core there. A sender that is preempted in the middle of a system call holds its socket's lock
//! until it runs again, so at p99 ON then took up to 5.4 ms under reno and 36 under bbr. Opening by a walk alone takes 3.0 ms.
//!
//! Flows that begin and end share looks, 2 ms apart at least. Before, wakes took most of what 2,000 connections a second cost an enforcer: beside
//! 6,000 of 10 KB, two runs each, 11,770 and 10,477 wakes came down to 2,401 and 2,708, and 276 and 488 ms of processor time to 122 and 170.
//!
//! # Client libraries
//! A program with a client library hands its connections over to the enforcer, which it finds beside the agent's socket
//! (`cavalcade_protocol::Handover`, `enforcer/handovers.rs`). Each is tagged as if its process were, so the library neither gates nor paces
//! it nor counts its bytes, and all of this crate's invariants hold for it. When the enforcer ends, the library carries orders out itself.
//!
//! Those for Rust and Python name a connection by its descriptor, which costs some 10 µs to find. Java tells a program none, so its library
//! names both ends, and the enforcer looks through the process's descriptors: 6 µs of processor time for each socket and 3 for anything else
//! (two cores with seven busy threads). Four of them count as a line of what a user's libraries may say, 500 in 0.1 s, so looking takes at
//! most 12 ms of these; one look may take longer, and is made up for. What is handed over while it looks takes the same look: of 300
//! connections that a program with both their ends opened in a row, the last was tagged 0.01 to 0.17 s later, and 0.23 to 0.36 s later with
//! 1,000 other descriptors (three rounds each). With a look for each it took 4.4 to 4.6 and 18 to 20 s.
//!
//! What a program pays for the library, beyond plain TCP, with a coflow of its own for each of some 370 streams a second (one run each):
//! 153 µs a stream of 100 KB and 148 µs one of 1 MB, 191 and 241 µs without an enforcer. Most of that is the question for a key.
//!
//! # Unmodified applications
//! `crates/faces/cli/tests/applications.rs` has two jobs share a link of 200 Mbps with a bulk copy that came first: two of iperf3 with a base
//! backup of PostgreSQL, and a value from memcached and an all-reduce of Open MPI with a download from nginx. Under `fifo` the copy
//! ends first, without it a job does. By hand, with a base backup and jobs of iperf3
//! of 15 and 30 MB that began a second after the backup (some 100 MB), on two cores with 20 to 30 other threads; seconds until
//! each had ended, two runs each:
//!
//! | | backup | first job | second job |
//! |---|---|---|---|
//! | plain TCP | 9.8, 11.0 | 3.8, 3.1 | 5.8, 5.1 |
//! | `fifo` | 7.4, 8.6 | 7.6, 7.9 | 8.8, 7.5 |
//! | `dclas:queues=20,factor=2,first_threshold=1MB,weighted=false` | 9.5, 12.9 | 3.0, 4.8 | 4.7, 6.3 |
//!
//! In the second run under `fifo` the backup ended last: pg_basebackup also flushed its files to disk then, which the test leaves
//! out; how long that took was not measured. With the first threshold of 10 MB that the paper has, jobs of this size fall into the backup's class and wait for it.
//!
//! # Limits
//! - TCP, and MPTCP from Linux 5.19 on, subflow by subflow; a connection of MPTCP from before its process was tagged stays plain TCP. What else
//!   a coflow's sockets send is counted ([`Kernel::strayed`]) and passes. A server's bytes belong to the server's coflow where its processes are tagged; else to the client's, where the
//!   client's enforcer vouches for the connection (`vouch.rs`): between hosts of a site with certificates.
//! - IPv4 connections of sockets made for both families, as all of Java's are, are marked through their descriptors, since the kernel lets
//!   no program set their TOS. The mark therefore follows some 10 ms later, and not with the packet; looking through descriptors takes no
//!   more than a twentieth of the enforcer's time, so with very many of them it takes longer. Connections that only a rule for a port, or
//!   another host's enforcer, has given to a coflow have no mark: nothing says whose descriptors they are. And when the enforcer is killed,
//!   the mark stays as long as the connection.
//! - Of a process's descriptors the first 16,384 are looked at, and 4,096 for a connection that its library names by its ends. If those
//!   are another connection's of the same process by the time that they are read, that is the one which is tagged.
//! - A program with a time-out of its own may give up while its flow is off. libmemcached's `memccp`, which waits 5 s for its socket to
//!   take more, failed behind a download of 150 MB under `fifo`.
//! - No rate is lower than 1 Mbps: whole packets would be seconds apart, and the pause behind the last one cannot be called off. Below
//!   0.1 Mbps a flow whose size is known waits at its gate instead, and opens in less than a millisecond.
//! - Of a write that a rate stretches, the first burst may count as a message of its own where demotion is on: what leaves with the
//!   first bytes is all that has been written so far.
//! - Of a flow's rate a connection has 24 kbps at least: with more connections than that allows they send more together. A connection that
//!   has data and does not send it, because its receiver is slow, keeps its part all the same.
//! - A rate is held over the time of some bursts. At round trips of microseconds a burst is 64 KB unless
//!   `net.ipv4.tcp_tso_rtt_log` is 0, which `cavalcade doctor` asks for and nothing here sets: it holds for a whole network namespace,
//!   and would outlive an enforcer that is killed. No socket has a setting of its own for it. What comes nearest is a limit
//!   on the window (TCP_BPF_SNDCWND_CLAMP), which Reno and CUBIC apply only when the window would grow, and which sets the threshold of slow
//!   start besides.
//! - All flows share one table of 65,536, of which a user may have as many as are free (`bpf/share.h`); the connections beyond are plain TCP.
//! - Connections that only a rule for a port or user has tagged wait for a walk when their gate opens. One that was held to a low rate
//!   finishes the pause behind its last burst first.
//! - What a connection of a client library sends before the enforcer has read that it is handed over is plain TCP, and not counted.
//!   A flow whose size was told keeps that size, so a further connection to the same peer with a size of its own stays with the library.
//! - A connection from before the enforcer that a rule for a port names stays plain TCP before Linux 6.12, and where it was accepted at
//!   a listener with a backlog of 0: it looks like one that was made from there.
//! - What has connected to a listener before its process is tagged, and has not been accepted yet, stays plain TCP before Linux 6.12: with
//!   activation by sockets that is the connection for which a service is started. From 6.12 on up to 1,024 of each listener are tagged, and
//!   4,096 of all that one walk comes to.
//!
//! # Rights
//! Root, or: CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON for the programs; CAP_DAC_OVERRIDE for groups below those of others, and for
//! /sys/fs/bpf where that is root's alone; CAP_SETUID to speak to the agent for other users; CAP_SYS_PTRACE for connections from before a
//! process was tagged, for those that client libraries hand over, to push, and to mark IPv4 connections of sockets for both families;
//! CAP_SYS_NICE to go before other threads. CAP_SYS_ADMIN walks in other network namespaces, where connections are reached by their
//! descriptors alone without it, and mounts /sys/fs/bpf where that is not.
//!
//! # Rejected
//! - libbpf: it needs libelf, zlib and make at build time, which a plain build must not. aya needs nothing; what it lacks,
//!   congestion controls (struct_ops), has a small loader of its own ([`congestion`]).
//! - A low rate for OFF: connections wake up tenths of seconds to minutes late (`bpf/enforce.bpf.c`).
//! - A program at the egress of interfaces that writes DSCPs of sockets for both families into packets: it would have to be attached to
//!   each interface of each network namespace, also to those that come later.
//! - A process that watches the enforcer and cleans up: it dies with it where a service manager ends the whole group.

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

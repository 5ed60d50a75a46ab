//! The kernel path: programs that were never told of coflows are scheduled as they are.
//!
//! # The idea
//! A process in a control group that stands for a coflow makes sockets that carry the coflow, and what they accept inherits
//! it. The kernel counts what each *flow* (all connections of a coflow to one peer) sends, and does what the flow's order
//! says: it refuses new data at the group's egress while the flow is off, holds connections to a rate, and marks their
//! packets. `bpf/enforce.bpf.c` has the programs, `bpf/enforce.h` what they and this crate say to each other.
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
//! # Cost
//! An order costs one write. One that opens a gate also takes a walk over the host's table of TCP connections, with all others
//! of its turn; with 262,144 entries that is 1.7 ms of processor time, whatever is in it (measured).
//!
//! Measured with [`mod@bench`] (`cavalcade bench enforce`, here at the highest priority, in a network namespace with packets of
//! 1,500 B and `net.ipv4.tcp_tso_rtt_log` 0) on two cores of a virtual machine with Linux 6.18 that did other work all the
//! while (load 13 to 20), so times are too long rather than too short:
//!
//! | what | figure |
//! |---|---|
//! | verifier | `gate` 359 instructions, `connections` 1,002 |
//! | `gate`, for a packet of up to 64 KB as it leaves TCP | 380 to 550 ns |
//! | `connections`, once in a round trip | 380 to 790 ns |
//! | rates of 1 Mbps over 10 s; 5, 50, 500 Mbps over 1 s | within 0.3 % under bbr, 1.4 % under reno |
//! | rates of 2 and 10 Gbps, where 4.5 Gbps went through without limits | 1.8 and 4.0 Gbps |
//! | 5 Mbps over 1 s with the kernel's own `tcp_tso_rtt_log`, 9 | −39 % |
//! | from OFF to the last new byte: p50, p99 | 0.09, 0.16 ms |
//! | from ON to the first new byte: p50, p99 | 6.9, 32 ms with reno; 21, 45 ms with bbr, which paces by itself (2 ms were aimed at; the walk alone took 1.6 to 18 ms there, 4.5 at the median) |
//! | the enforcer's processor time: idle; one flow of 1.8 Gbps; 456 short connections a second | 0; 0.7 %; 1.7 % of a core |
//!
//! # Limits
//! - TCP only. A server's bytes belong to the server's coflow: its clients' do not reach it yet.
//! - IPv4 connections of sockets made for both families are gated and paced, but not marked: the kernel lets no program set
//!   their TOS.
//! - A rate is held over the time of some bursts. At round trips of microseconds a burst is 64 KB unless
//!   `net.ipv4.tcp_tso_rtt_log` is 0, which `cavalcade doctor` asks for and nothing here sets.
//! - A flow that is off wakes within a walk; one that was held to a low rate finishes the pause behind its last burst first.
//!
//! # Rights
//! Root, or: CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON for the programs; CAP_DAC_OVERRIDE for groups below those of others;
//! CAP_SETUID to speak to the agent for other users; CAP_SYS_PTRACE for connections from before a process was tagged. Where
//! /sys/fs/bpf is not mounted, CAP_SYS_ADMIN mounts it.
//!
//! # Rejected
//! - libbpf: it needs libelf, zlib and make at build time, which a plain build must not. aya needs nothing; it cannot load
//!   congestion controls (struct_ops) yet, which need a loader of their own or libbpf behind a feature.
//! - A low rate for OFF: connections wake up tenths of seconds to minutes late (`bpf/enforce.bpf.c`).
//! - A process that watches the enforcer and cleans up: it dies with it where a service manager ends the whole group.

pub mod bench;
mod door;
mod enforcer;
mod error;
mod flow;
mod groups;
mod inherited;
mod kernel;
pub mod leftovers;
mod link;
mod namespaces;
mod pins;
pub mod probe;
mod shared;

pub use door::{Name, Request};
pub use enforcer::{Enforcer, Rule};
pub use error::Error;
pub use flow::{Count, Flow, Order};
pub use groups::{Group, Hierarchy};
pub use kernel::{Kernel, Limits, Place};

/// Tells why this build has no programs for the kernel; `None` where it has them.
pub fn missing() -> Option<&'static str> {
    shared::PROGRAMS.err()
}

//! Congestion controls of the kernel's TCP for connections of coflows: the transports that are
//! simulated, on real sockets.
//!
//! # The idea
//! DCTCP and what is built on it (D2TCP, TAFE, Karuna's MCP) need little of a sender: a window that
//! follows the share of packets that switches marked, and what is known of the flow's deadline and
//! size. The kernel lets programs be congestion controls (*struct_ops*). Four of them are here,
//! `cv_dctcp`, `cv_d2tcp`, `cv_tafe` and `cv_mcp`. They are one set of programs around one set of
//! laws in `bpf/laws.h`, which are those of `cavalcade-transport` in whole numbers; `golden` runs
//! both over the same sequences of acknowledgements, marks, losses and time-outs. DCTCP, D2TCP and
//! TAFE have the same window after each event there. MCP's equations (its form `published=false`)
//! are floats on the other side, so each step of them is off by eight millionths of a segment and
//! two hundred-thousandths of the window at most; `golden` says where that comes from.
//!
//! A connection gets its control from the enforcer (`bpf/steer.h`): before it sends its SYN, when
//! it is accepted, or later where both ends have agreed on marks already. The control's own flag
//! then asks for ECN, whatever `net.ipv4.tcp_ecn` says. An ordinary listener refuses what asks so,
//! since such a SYN may itself be marked; the enforcer has the listeners below its group accept. A
//! connection whose other end agrees to nothing keeps its own control.
//!
//! # Invariants
//! - A control is registered by a *link* that this process holds and nothing pins. So it is gone
//!   with the process, however that ends. Connections that have it hold it themselves and go on;
//!   when the enforcer's limits end (at once, or after `silence` where it was killed) they get back
//!   their own with the next round trip, and the kernel frees it with the last of them. Nothing is
//!   left for `doctor --fix-leftovers` but what the enforcer leaves anyway.
//! - No process can choose one without CAP_NET_ADMIN, unless the administrator allows it
//!   (`net.ipv4.tcp_allowed_congestion_control`).
//! - Names are one for all network namespaces, and programs belong to the tables of one enforcer.
//!   The host's enforcer has the plain names; one below a control group adds six letters made from
//!   its place.
//! - The window is the law's alone (`cong_control`): the kernel neither cuts nor grows it besides.
//!
//! # Cost
//! A run of the law for each acknowledgement, and for all but DCTCP a look-up of the flow's goal.
//! The section on congestion controls in `docs/kernel-path.md` has the figures.
//!
//! # What differs from the transports
//! - After a time-out the window grows as RFC 5681 has it; the transport holds one segment until
//!   all is repaired.
//! - The first window is the kernel's (10 segments), also for MCP.
//! - A flow's size is what its coflow's commands said they send to that peer in all
//!   (`cavalcade run --sends`); parallel connections of a flow each take what remains of it for
//!   theirs. Without a size D2TCP has urgency 1, TAFE takes the flow for the largest, MCP is DCTCP.
//! - Marks are told exactly only by another end that has a control of these as well: one that is
//!   tagged, or whose enforcer gives it to all that is accepted with marks ([`Control::answers`]).
//!
//! # Rejected
//! - aya: up to 0.16 it parses no such programs and makes no such tables. Its parser does the
//!   relocations all the same; the rest are five calls (`loader`).
//! - libbpf behind a feature: libelf, zlib and make at build time for what is 200 lines, and two
//!   builds to test.
//! - Pinning the link: a control would outlive its enforcer, and with it tables that say nothing
//!   any more.
//! - The kernel's usual way (`ssthresh` and `cong_avoid`): it reduces the window over a round trip,
//!   so that windows would be compared with something that no law says.
//! - A second copy of the laws, compiled for this processor, in tests: what runs in the kernel is
//!   tested there.

#[cfg(test)]
mod golden;
#[cfg(test)]
mod live;
mod loader;
mod types;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::str::FromStr;

use cavalcade_model::{BitsPerSec, Bytes, Nanos};

use crate::Error;
use crate::shared::{self, CONTROLS};
use loader::{Kinds, Programs, Registered};

/// A law of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Cut by the marked share.
    Dctcp,
    /// By the share to the power of the deadline's urgency.
    D2tcp,
    /// By the share and by what the flow has still to send.
    Tafe,
    /// Flows whose deadline and size are known take the rate that they need; others are as under
    /// DCTCP.
    Mcp,
}

impl Law {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Dctcp, Self::D2tcp, Self::Tafe, Self::Mcp];

    /// Its name, which is that of its transport.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dctcp => "dctcp",
            Self::D2tcp => "d2tcp",
            Self::Tafe => "tafe",
            Self::Mcp => "mcp",
        }
    }

    /// The laws by name, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    fn on_ack(self) -> &'static str {
        match self {
            Self::Dctcp => "on_ack_dctcp",
            Self::D2tcp => "on_ack_d2tcp",
            Self::Tafe => "on_ack_tafe",
            Self::Mcp => "on_ack_mcp",
        }
    }
}

impl FromStr for Law {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|law| law.name() == text);
        found.ok_or_else(|| format!("'{text}': expected one of {}", Self::names()))
    }
}

/// A congestion control, and what its law is told of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// The law.
    pub law: Law,
    /// The rate of the host's link.
    pub line_rate: BitsPerSec,
    /// Switches mark what joins a queue of so much or more.
    pub marking: Bytes,
    /// The size of the largest flow.
    pub largest: Bytes,
    /// True if connections that listeners of the place accept with marks get it as well when they
    /// belong to no coflow: a server that nothing has tagged tells marks exactly only so.
    pub answers: bool,
}

impl Control {
    /// A law in a network of 10 Gbps as in the papers.
    pub fn new(law: Law) -> Self {
        Self {
            law,
            line_rate: BitsPerSec(10_000_000_000),
            marking: Bytes(65 * 1_500),
            largest: Bytes(30_000_000),
            answers: false,
        }
    }

    pub(crate) fn to_kernel(self) -> shared::Network {
        let Self { line_rate, marking, largest, .. } = self;
        shared::Network { line_rate: line_rate.get() / 8, marking: marking.get(), largest: largest.get() }
    }
}

/// What a flow is to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goal {
    /// When it is to be done, by this host's monotonic clock.
    pub deadline: Option<Nanos>,
    /// The bytes of payload that it has in all.
    pub size: Option<Bytes>,
}

impl Goal {
    pub(crate) fn to_kernel(self) -> shared::Goal {
        let deadline = self.deadline.map_or(0, |deadline| deadline.0.max(1));
        shared::Goal { deadline, size: self.size.map_or(0, Bytes::get) }
    }
}

/// The tables of a place that controls use.
pub(crate) const TABLES: [&str; 4] = ["sockets", "counts", "goals", "network"];

/// Members of the kernel's structure that are the same for all laws, with the programs for them.
const COMMON: [(&str, &str); 4] =
    [("ssthresh", "threshold"), ("undo_cwnd", "undo"), ("set_state", "on_state"), ("cwnd_event", "on_event")];

/// A control that is registered until this is dropped.
#[derive(Debug)]
pub(crate) struct Loaded {
    name: String,
    /// As [`Control::answers`].
    pub(crate) answers: bool,
    _registered: Registered,
}

impl Loaded {
    /// Registers the control of a place, whose tables are given.
    pub(crate) fn new(
        control: Control,
        place: &str,
        tables: &BTreeMap<&str, BorrowedFd<'_>>,
    ) -> Result<Self, Error> {
        let Control { law, answers, .. } = control;
        let kinds = Kinds::read()?;
        let programs = Programs::read(CONTROLS.map_err(Error::NotBuilt)?, tables)?;
        let name = name_at(law, place);
        let members: Vec<(&str, &str)> = COMMON.into_iter().chain([("cong_control", law.on_ack())]).collect();
        let registered = loader::register(&kinds, &programs, &name, &members)?;
        Ok(Self { name, answers, _registered: registered })
    }

    /// Its name in two words.
    pub(crate) fn name_words(&self) -> [u64; 2] {
        let mut bytes = [0; 16];
        bytes[..self.name.len()].copy_from_slice(self.name.as_bytes());
        [0, 8].map(|at| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte])))
    }
}

/// The name of the host's enforcer.
const OF_HOST: &str = "cavalcade";

/// The name of a place's control: the kernel's names are one for all network namespaces, and
/// programs belong to a place.
fn name_at(law: Law, place: &str) -> String {
    let name = format!("cv_{}", law.name());
    if place == OF_HOST {
        return name;
    }
    // FNV-1a; six digits of base 36 fill the kernel's fifteen letters.
    let hash = place.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let digit = |power| char::from_digit((hash / 36_u64.pow(power) % 36) as u32, 36).unwrap_or('0');
    format!("{name}.{}", (0..6).map(digit).collect::<String>())
}

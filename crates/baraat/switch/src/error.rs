//! What can go wrong with a switch.

use std::io;

/// The reason for which a switch cannot start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// There is no such interface.
    #[error("there is no interface {name}")]
    NoInterface {
        /// Its name.
        name: String,
    },
    /// The interface went away while the switch ran.
    #[error("the interface {name} went away")]
    Gone {
        /// Its name.
        name: String,
    },
    /// The interface is not up.
    #[error("the interface {name} is down")]
    Down {
        /// Its name.
        name: String,
    },
    /// The interface carries packets that are too small.
    #[error("the interface {name} carries packets of {mtu} bytes, and SPC needs {least}")]
    SmallMtu {
        /// Its name.
        name: String,
        /// Its MTU.
        mtu: u32,
        /// The least that will do.
        least: u16,
    },
    /// An interface was named twice.
    #[error("the interface {name} is named twice")]
    Twice {
        /// Its name.
        name: String,
    },
    /// The process may not open packet sockets.
    #[error("this process may not send and receive raw packets on {name}")]
    NoPrivilege {
        /// The interface.
        name: String,
    },
    /// Packets that leave one port come back by another.
    #[error("the topology has a loop: what leaves {out} comes back by {back}")]
    Loop {
        /// The port they left by.
        out: String,
        /// The port they came back by.
        back: String,
    },
    /// Another switch has the same id.
    #[error("another switch, behind {port}, has the id {id} as well")]
    SameId {
        /// The id.
        id: u64,
        /// By which port it was heard.
        port: String,
    },
    /// This build has no program for the kernel.
    #[error("this build cannot switch in the kernel: {why}")]
    NoPrograms {
        /// Why.
        why: &'static str,
    },
    /// There are more than the kernel's tables are made for.
    #[error("a switch in the kernel has at most {most} {what}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The most.
        most: u32,
    },
    /// The kernel refused the program or a table.
    #[error("the kernel refused {what}: {why}")]
    KernelRefused {
        /// The thing refused.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// Another program is at the interface.
    #[error("the interface {name} has an XDP program already")]
    Occupied {
        /// Its name.
        name: String,
    },
    /// The interface has fewer receive queues than its other end sends on.
    #[error("the interface {name} has fewer receive queues than its other end sends on, which XDP needs")]
    FewQueues {
        /// Its name.
        name: String,
    },
    /// The driver of the interface has no XDP.
    #[error("the driver of {name} has no XDP")]
    NoXdp {
        /// Its name.
        name: String,
    },
    /// The interface loses what XDP redirects to it.
    #[error("the interface {name} would lose all that the kernel's switch sends by it")]
    NoRedirect {
        /// Its name.
        name: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    System {
        /// The subject.
        what: String,
        /// Why.
        error: io::Error,
    },
}

impl SwitchError {
    /// Returns what to do about it.
    pub fn cure(&self) -> &'static str {
        match self {
            Self::NoInterface { .. } => "list the interfaces with 'ip link'",
            Self::Gone { .. } => "start the switch again once the interface is back",
            Self::Down { .. } => "bring it up: 'ip link set IF up'",
            Self::SmallMtu { .. } => "raise it: 'ip link set IF mtu 1500'",
            Self::Twice { .. } => "name each interface once",
            Self::NoPrivilege { .. } => "run as root, or give the program the capability CAP_NET_RAW",
            Self::Loop { .. } => "take one of the links away: switches here build no spanning tree",
            Self::SameId { .. } => "give each switch its own --id",
            Self::NoPrograms { .. } => "build with clang installed, or take '--carrier process'",
            Self::TooMany { .. } => "name fewer ports, lower --tasks, or take '--carrier process'",
            Self::KernelRefused { .. } => {
                "run as root on Linux 5.18 or newer (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW), or take '--carrier process'"
            }
            Self::Occupied { .. } => {
                "end the other switch, or take its program off: 'ip link set IF xdp off'"
            }
            Self::FewQueues { .. } => {
                "give it as many: 'ethtool -L IF rx N', or 'numrxqueues' and 'numtxqueues' when the cable is made"
            }
            Self::NoXdp { .. } => "take '--carrier process'",
            Self::NoRedirect { .. } => {
                "of a virtual cable, turn on receive offload at its other end: 'ethtool -K OTHER gro on'; else take '--carrier process'"
            }
            Self::System { .. } => "see the system's reason",
        }
    }

    pub(crate) fn system(what: impl Into<String>) -> Self {
        Self::System { what: what.into(), error: io::Error::last_os_error() }
    }
}

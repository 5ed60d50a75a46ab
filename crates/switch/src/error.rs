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
            Self::System { .. } => "see the system's reason",
        }
    }

    pub(crate) fn system(what: impl Into<String>) -> Self {
        Self::System { what: what.into(), error: io::Error::last_os_error() }
    }
}

//! Limits of one process: connections, and bytes waiting in its buffers.
//!
//! File descriptors run out first, and without one a process can neither accept a connection nor
//! open a file. So the limit is raised as far as the system allows, and some are reserved for
//! files, other parts and administrators.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept back.
const RESERVE: u64 = 64;
/// Connections where the system sets no limit.
const MANY: u64 = 1 << 20;

/// The cure where bytes that wait have no room in this process.
pub(crate) const MORE_BUFFERS: &str =
    "that is the limit of all connections together, and --max-buffers raises it";

/// The limits of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Connections of clients or agents.
    pub connections: usize,
    /// Bytes that wait, from them and for them.
    pub bytes: usize,
}

impl Capacity {
    /// Returns as many connections as descriptors allow, of which as many are asked for as the
    /// system gives; and 256 MiB.
    pub fn of_system() -> Self {
        let limit = raise_descriptors().unwrap_or(MANY);
        let connections = limit.saturating_sub(RESERVE.min(limit / 2)).min(MANY) as usize;
        Self { connections, bytes: 256 << 20 }
    }
}

/// Raises this process's limit of descriptors as far as the system lets it; returns it, unless
/// there is none.
pub fn raise_descriptors() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum && setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok() {
        return maximum;
    }
    current
}

/// Returns the number of open descriptors, and their limit; `None` where the system does not say.
pub(crate) fn descriptors() -> Option<(usize, usize)> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    let most = getrlimit(Resource::Nofile).current.unwrap_or(MANY);
    Some((open, usize::try_from(most).unwrap_or(usize::MAX)))
}

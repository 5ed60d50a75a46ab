//! How an enforcer stands, for people and monitoring systems: it is asked for by another thread
//! than the one that enforces.

use std::sync::{Arc, Mutex, PoisonError};

use cavalcade_protocol::CoflowKey;

/// How an enforcer stands; some tenths of a second old at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// True once it serves.
    pub is_serving: bool,
    /// Coflows that are tagged.
    pub coflows: usize,
    /// Those of them that the agent answers for at present.
    pub obedient: usize,
    /// Flows that are counted.
    pub flows: usize,
    /// Client libraries that hand connections over.
    pub libraries: usize,
    /// Coflows whose processes are still being let go, as the agent refuses them.
    pub releasing: usize,
    /// Bytes that sockets of coflows have sent by other means than TCP since the enforcer started:
    /// nothing orders them.
    pub unscheduled: u64,
    /// The same of coflows that are tagged, where there is any.
    pub strays: Vec<Stray>,
    /// What could not be done for a client, by what was to be done.
    pub troubles: Vec<Trouble>,
}

/// A coflow that sends by other means than TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Its key, once that is known.
    pub key: Option<CoflowKey>,
    /// The name of its task, if it has one that a coflow may have.
    pub task: Option<String>,
    /// Bytes.
    pub bytes: u64,
}

/// Something that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What was to be done.
    pub what: &'static str,
    /// How often it failed.
    pub times: u64,
    /// Why it failed last.
    pub reason: String,
}

/// The status that an enforcer keeps up to date for other threads.
#[derive(Clone, Debug, Default)]
pub struct Window(Arc<Mutex<Status>>);

impl Window {
    /// How the enforcer stands.
    pub fn look(&self) -> Status {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn show(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

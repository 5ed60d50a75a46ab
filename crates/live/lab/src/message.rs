//! Messages between the lab and its hosts: a line of JSON each, over standard input and output.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// To a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// A coflow arrives of which this host sends a part, by a process that is tagged.
    Part(Part),
    /// Send a flow.
    Start(Start),
    /// A coflow, by its key, has no further flows.
    Over(String),
}

/// A host's part of a coflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The key of the coflow.
    pub(crate) coflow: String,
    /// The bytes that it sends to each peer.
    pub(crate) sends: Vec<(IpAddr, u64)>,
}

/// A flow that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// The flow's place in the trace.
    pub(crate) flow: u32,
    /// The number of earlier attempts: after a crash it begins again.
    pub(crate) attempt: u32,
    /// The address of its receiver.
    pub(crate) to: SocketAddr,
    /// Its bytes.
    pub(crate) size: u64,
    /// The id of its task, which switches go by.
    pub(crate) task: u32,
    /// The key of its coflow; none where it has no agent.
    pub(crate) coflow: Option<String>,
}

/// From a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It listens here, and its agent has answered if it has one.
    Ready(SocketAddr),
    /// A flow has arrived, or as much of it as will.
    Received {
        /// The transfer.
        flow: u32,
        /// The attempt.
        attempt: u32,
        /// Its bytes.
        bytes: u64,
        /// Their digest.
        digest: u64,
        /// The time at which the last one was read, in nanoseconds since 1970.
        at: u64,
        /// When each of its bursts began, likewise, and the bytes of the burst.
        bursts: Vec<(u64, u64)>,
    },
    /// A flow could not be sent or received.
    Failed {
        /// The transfer, where that is known.
        flow: Option<(u32, u32)>,
        /// Why.
        reason: String,
    },
    /// The cost of the client library's own threads, in nanoseconds of a processor; the host's last
    /// word.
    Cost(u64),
}

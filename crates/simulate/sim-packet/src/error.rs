//! Why there is no outcome: what is found wrong before a run starts, or ends it.

use cavalcade_harness::RunError;
use cavalcade_model::{Bytes, FabricError, Nanos};

use crate::queue::QueueError;

/// Reason that a simulation cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The workload names hosts that the network lacks, or that failed cables cut off.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Packets without payload.
    #[error("packets of {packet} bytes have no room for payload beside {overhead} bytes of headers")]
    NoPayload {
        /// A full packet.
        packet: u16,
        /// Its headers.
        overhead: u16,
    },
    /// A flow that 32 bits cannot number.
    #[error(
        "a flow of {size} has more than 2^32 packets of {payload} bytes: the packet engine cannot number them"
    )]
    FlowTooLarge {
        /// The flow's size.
        size: Bytes,
        /// Payload of a packet.
        payload: u16,
    },
    /// A span beyond the engine's clock.
    #[error(
        "the packet engine's clock ends 100 days after the first arrival, but something is to happen after {span}: use the fluid engine, or a part of the trace"
    )]
    TooLong {
        /// The time after the first arrival.
        span: Nanos,
    },
    /// A run that has failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A share outside 0 to 1, or one that lets nothing through.
    #[error("a loss of {share} lets no flow finish: give a share from 0 to 0.9")]
    Loss {
        /// The share.
        share: String,
    },
    /// An outage of a link that there is not, or that ends before it begins.
    #[error("the outage of link {link} cannot be: there are {links} links, and it must end after it begins")]
    Outage {
        /// The link.
        link: u32,
        /// Number of entries.
        links: usize,
    },
    /// A path with more ports than the transport's header has room for.
    #[error(
        "from {src} to {dst} there are {hops} links, but the transport's header has room for {most}: use a smaller fabric, or another transport"
    )]
    TooManyHops {
        /// The name of the port that sends.
        src: String,
        /// The name of the port that receives.
        dst: String,
        /// The links between them.
        hops: usize,
        /// Limit.
        most: usize,
    },
    /// A link that there is not.
    #[error("link {link} cannot be watched: there are {links} links, counted from 0")]
    Watch {
        /// The link.
        link: u32,
        /// Number of entries.
        links: usize,
    },
    /// Packets that are too small for the live system's datagrams.
    #[error(
        "packets with {payload} bytes of payload cannot carry datagrams of up to {longest}: make packets larger"
    )]
    DatagramsDoNotFit {
        /// Payload of a packet.
        payload: u16,
        /// The longest datagram.
        longest: usize,
    },
    /// Looking without end at one time.
    #[error("queues cannot be sampled every 0ns: give a time above it")]
    Sampling,
    /// A queue that cannot work.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A policy that decides for each link by itself.
    #[error(
        "a policy of scope link cannot be carried out by hosts: its priorities differ from link to link; use the fluid engine"
    )]
    LinkScope,
    /// A policy that weighs flows over a transport that knows no weights.
    #[error(
        "the policy weighs flows, and this transport knows no weights: use dctcp or reno, or the fluid engine"
    )]
    NoWeights,
}

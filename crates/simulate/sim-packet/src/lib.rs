//! Driver 2: a packet-level simulation of transports, queues and policies.
//!
//! Where the fluid driver has rates, here every packet is sent, waits, is marked or dropped, and
//! answered. The transports are those of `cavalcade-transport`, the same machines that run on
//! hosts; the policies are those of every driver, and what they decide becomes the priorities that
//! packets carry.
//!
//! - [`network`]: hosts, switches and links of a fabric of the model; paths.
//! - `engine`: the loop: packets arrive, links become free, timers go off.
//! - `wheel`: the pending events. `pool`: the packets.
//! - `port`: a link and what waits for it. [`queue`]: who waits, who is marked, who goes next; one
//!   file each.
//! - [`capture`]: packets as files that Wireshark reads.
//! - `nic`: which of a host's senders goes next. `flows`: both ends of each flow that is under way.
//! - `occupancy`, `link_use`: how full queues and how busy links were.
//! - `coupling`: a policy and what it sees; its decisions as priorities of packets. `negotiation`:
//!   what its instances say to each other, in datagrams.
//!
//! # What the speed is made of
//! A packet that is sent on one link is a *hop*; the engine does some ten to twenty million in a
//! second on one core.
//! - A port in order of arrival has one event for each hop, not two (`port`).
//! - Events have fixed places: nothing is allocated, no heap is sifted (`wheel`).
//! - A packet is one cache line and lies still; queues are lists through it (`pool`).
//! - Everything that a hop touches (ports, routes, both ends of its flow) fits the L2 cache.
//!
//! Generic functions are compiled where they are used, one unit for each module: what a hop calls
//! across modules and crates is marked to be inlined. Without that `incast32` took a fifth more
//! instructions (302 M in place of 253 M for 425,000 hops), and ran at 16 in place of 20 million
//! hops in a second.
//!
//! Where the time goes (`perf record`, `cavalcade bench packet`, all four lines): 44 % in the loop
//! with what the compiler put into it (arrivals, admission, delivery, taking events off the wheel),
//! 17 % putting events onto the wheel, 11 % choosing a host's next packet, 5 % putting packets on
//! links, some 12 % in the transports, 4 % in pFabric's queue, the rest in bookkeeping of flows.
//! Nothing is allocated for a packet or an event.
//!
//! # Determinism
//! Time is whole picoseconds. What happens at one time happens in the order in which it was
//! scheduled. Random loss comes from a pinned generator, paths from a pinned hash. One run uses one
//! thread.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]

pub mod capture;
pub mod network;
pub mod queue;

mod coupling;
mod engine;
mod error;
mod flows;
mod link_use;
mod negotiation;
mod nic;
mod occupancy;
mod options;
mod pace;
mod pool;
mod port;
mod setup;
mod wheel;

pub use engine::{Observer, Run, simulate};
pub use error::SimulationError;
pub use network::{Link, Network, NetworkError, Route};
pub use options::{Options, Outage};
pub use port::PortCounts;
pub use queue::{Alpha, Buffer, Discipline, Marking, Measured, QueueConfig, QueueError};

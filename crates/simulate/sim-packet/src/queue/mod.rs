//! Queues at output ports: who is admitted, who is marked, who goes next.
//!
//! A queue is a discipline (one file each: `drop_tail`, `strict`, `weighted`, `pfabric`) behind an
//! admission: a buffer of its own or a share of the switch's (`shared_buffer`), and marks
//! (`marking`). pFabric admits everything and drops what is least urgent instead.
//!
//! Bytes that are being sent have left the queue, but what of them is still to be sent counts for
//! marks and limits of a port (`unsent` here), so that a queue behind a busy link is the same
//! whether it is simulated here or as times (see `port`).

mod drop_tail;
mod marking;
mod pfabric;
mod shared_buffer;
mod strict;
mod weighted;

use cavalcade_model::Bytes;
use cavalcade_transport::Flags;

pub use marking::{Marking, Measured};
pub use shared_buffer::{Alpha, Buffer};

use crate::pool::Pool;
use drop_tail::DropTail;
use pfabric::ShortestFirst;
pub(crate) use shared_buffer::SharedBuffer;
use strict::Strict;
use weighted::Weighted;

/// Most priority classes that a switch tells apart.
pub const MOST_CLASSES: usize = 8;

/// Service order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival.
    DropTail,
    /// By class, 0 first; in a class in order of arrival. Classes beyond the last queue share it.
    Strict {
        /// Number of queues, 1 to [`MOST_CLASSES`].
        queues: usize,
    },
    /// Weighted shares among the classes present (deficit round robin).
    Weighted {
        /// The weight of each queue, 1 or more; up to [`MOST_CLASSES`].
        weights: Vec<u32>,
    },
    /// The flow of the most urgent packet: by class, then order, then what remains of its flow
    /// (pFabric).
    ShortestFirst,
}

/// Configuration of switch queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Service order.
    pub discipline: Discipline,
    /// Buffer.
    pub buffer: Buffer,
    /// ECN marking.
    pub marking: Option<Marking>,
}

/// The queue of one port.
#[derive(Debug)]
pub(crate) struct Queue {
    order: Order,
    buffer: Buffer,
    marking: Option<Marking>,
    /// Bytes that wait.
    bytes: u64,
}

#[derive(Debug)]
enum Order {
    DropTail(DropTail),
    Strict(Strict),
    Weighted(Weighted),
    ShortestFirst(ShortestFirst),
}

/// Fate of an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It waits.
    Waits { marked: bool },
    /// There was no room for it, or for others that are in the list of what was dropped.
    Dropped,
}

impl Queue {
    pub(crate) fn new(config: &QueueConfig) -> Self {
        let order = match &config.discipline {
            Discipline::DropTail => Order::DropTail(DropTail::default()),
            Discipline::Strict { queues } => Order::Strict(Strict::new(*queues)),
            Discipline::Weighted { weights } => Order::Weighted(Weighted::new(weights)),
            Discipline::ShortestFirst => Order::ShortestFirst(ShortestFirst::default()),
        };
        Self { order, buffer: config.buffer, marking: config.marking, bytes: 0 }
    }

    /// Bytes that wait.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Lets packet `id` in, or drops it or others into `dropped`. `unsent` is what the link has
    /// still to send of the packet before.
    #[inline]
    pub(crate) fn push<E: Copy + Default>(
        &mut self,
        pool: &mut Pool<E>,
        id: u32,
        unsent: u64,
        shared: Option<&mut SharedBuffer>,
        dropped: &mut Vec<u32>,
    ) -> Joined {
        let size = u64::from(pool[id].header.size);
        if let Order::ShortestFirst(order) = &mut self.order {
            order.push(pool, id);
            self.bytes += size;
            while self.bytes + unsent > self.buffer.per_port().get() {
                let Some(worst) = order.take_least_urgent() else { break };
                self.bytes -= u64::from(pool[worst].header.size);
                dropped.push(worst);
            }
            return if dropped.is_empty() { Joined::Waits { marked: false } } else { Joined::Dropped };
        }
        let queue = self.order.bytes_in(usize::from(pool[id].header.class), self.bytes);
        if !self.buffer.admits(size, self.bytes + unsent, queue, shared) {
            dropped.push(id);
            return Joined::Dropped;
        }
        let flags = &mut pool[id].header.flags;
        let full = self.marking.is_some_and(|marking| marking.applies(self.bytes, queue, unsent));
        let marked = full && flags.contains(Flags::ECN_CAPABLE);
        *flags = flags.with_if(marked, Flags::CONGESTED);
        self.order.push(pool, id);
        self.bytes += size;
        Joined::Waits { marked }
    }

    /// Takes the packet that goes next.
    #[inline]
    pub(crate) fn pop<E: Copy + Default>(
        &mut self,
        pool: &mut Pool<E>,
        shared: Option<&mut SharedBuffer>,
    ) -> Option<u32> {
        let id = match &mut self.order {
            Order::DropTail(order) => order.pop(pool),
            Order::Strict(order) => order.pop(pool),
            Order::Weighted(order) => order.pop(pool),
            Order::ShortestFirst(order) => order.pop(),
        }?;
        let size = u64::from(pool[id].header.size);
        self.bytes -= size;
        if let Some(shared) = shared {
            shared.leave(size);
        }
        Some(id)
    }
}

impl Order {
    /// Bytes in the queue that `class` joins; `all` where there is one.
    #[inline]
    fn bytes_in(&self, class: usize, all: u64) -> u64 {
        match self {
            Order::DropTail(_) | Order::ShortestFirst(_) => all,
            Order::Strict(order) => order.bytes_in(class),
            Order::Weighted(order) => order.bytes_in(class),
        }
    }

    #[inline]
    fn push<E: Copy + Default>(&mut self, pool: &mut Pool<E>, id: u32) {
        match self {
            Order::DropTail(order) => order.push(pool, id),
            Order::Strict(order) => order.push(pool, id),
            Order::Weighted(order) => order.push(pool, id),
            Order::ShortestFirst(order) => order.push(pool, id),
        }
    }
}

/// Reason that a queue configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// No full packet fits.
    #[error("a buffer of {buffer} holds no packet of {packet} bytes: give it at least {packet}B")]
    NoRoom {
        /// The buffer given.
        buffer: Bytes,
        /// A full packet.
        packet: u16,
    },
    /// Packets would be dropped before any is marked.
    #[error(
        "the marking threshold {at} is not below the buffer of {buffer}: packets are dropped before they are marked; lower it or give more buffer"
    )]
    MarksTooLate {
        /// The threshold.
        at: Bytes,
        /// The buffer.
        buffer: Bytes,
    },
    /// No queues, too many, or one without weight.
    #[error("invalid number of queues {queues}: expected 1 to 8, each with a weight of at least 1")]
    Queues {
        /// Number requested.
        queues: usize,
    },
    /// A share of nothing.
    #[error("a share of 0 of the free buffer holds nothing: give an alpha above 0")]
    Alpha,
}

impl QueueConfig {
    /// Checks that packets of `packet` bytes can pass.
    ///
    /// # Errors
    /// The first thing found wrong.
    pub fn check(&self, packet: u16) -> Result<(), QueueError> {
        let buffer = self.buffer.per_port();
        if buffer.get() < u64::from(packet) {
            return Err(QueueError::NoRoom { buffer, packet });
        }
        if let Some(Marking { at, .. }) = self.marking
            && at >= buffer
        {
            return Err(QueueError::MarksTooLate { at, buffer });
        }
        if let Buffer::Shared { alpha, .. } = self.buffer
            && alpha.is_zero()
        {
            return Err(QueueError::Alpha);
        }
        let queues = match &self.discipline {
            Discipline::Strict { queues } => *queues,
            Discipline::Weighted { weights } if weights.contains(&0) => 0,
            Discipline::Weighted { weights } => weights.len(),
            Discipline::DropTail | Discipline::ShortestFirst => 1,
        };
        if (1..=MOST_CLASSES).contains(&queues) { Ok(()) } else { Err(QueueError::Queues { queues }) }
    }
}

#[cfg(test)]
mod tests;

//! Marks in place of drops (ECN, RFC 3168, as DCTCP uses it): a packet that joins a queue of so
//! many bytes is marked.
//!
//! Where a port has several queues, it is measured in one of two ways. Per queue, each class marks
//! by itself: low classes keep their throughput, but all of them together may hold k thresholds.
//! Per port, the sum counts: delay stays low, but a full low class marks the packets of high ones
//! (MQ-ECN, NSDI 2016, §2).

use cavalcade_model::Bytes;

/// Measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// The queue that a packet joins.
    Queue,
    /// All queues of the port.
    Port,
}

/// Time at which packets are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// At so many bytes or more.
    pub at: Bytes,
    /// The measured quantity.
    pub measured: Measured,
}

impl Marking {
    /// Returns whether to mark a packet that finds `queue` bytes in its queue, `port` in all, and
    /// `unsent` on the link.
    pub(crate) fn applies(&self, port: u64, queue: u64, unsent: u64) -> bool {
        let found = match self.measured {
            Measured::Queue => queue,
            Measured::Port => port,
        };
        found + unsent >= self.at.get()
    }
}

//! An output port: a link, what is on it, and the queue in front of it.
//!
//! A queue that serves in order of arrival and has a buffer of its own needs no events of its own:
//! when a packet joins, it is known when the link will be free for it, so its arrival at the far
//! end is known too. Such a port is a clock (`free_at`) and one list of all that waits or travels,
//! with one pending event: the arrival of the head. That is half of the events of a queue whose
//! head is chosen when the link is free, which [`crate::queue`] simulates. Both give the same times
//! and marks (`tests` hold that).
//!
//! Thresholds of such a port are times: what waits is `free_at − now`, and K bytes take K times as
//! long as one.

use crate::network::Link;
use crate::pool::List;
use crate::queue::QueueConfig;
use crate::wheel::Picos;

/// Queue in front of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A host, which asks its senders when the link is free.
    Host(u32),
    /// A queue in order of arrival, as a clock.
    InOrder,
    /// The queue of this number.
    Queued(u32),
}

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Packets sent on the link, acknowledgements included: hops.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets for which there was no room.
    pub dropped: u64,
    /// Packets marked.
    pub marked: u64,
    /// Packets lost on the link: by chance, or because it went away.
    pub lost: u64,
}

#[derive(Debug)]
pub(crate) struct Port {
    /// Packets on the link and, if the port is a clock, packets that wait for it.
    pub(crate) pipe: List,
    /// Time at which the link has sent all that it was given.
    pub(crate) free_at: Picos,
    delay: Picos,
    /// Picoseconds for a byte, where they are whole; else zero.
    byte: Picos,
    rate: u64,
    /// Backlog, as time, from which packets are marked.
    mark_from: Picos,
    /// Limit of the backlog, as time.
    limit: Picos,
    pub(crate) kind: Kind,
    /// True if the event of the link's becoming free is pending.
    pub(crate) waking: bool,
    /// Number of outages in force.
    pub(crate) down: u16,
    /// True if an observer is shown what arrives.
    pub(crate) tapped: bool,
    pub(crate) counts: PortCounts,
}

const PICOS_PER_BYTE_AT_ONE_BPS: u64 = 8_000_000_000_000;

impl Port {
    pub(crate) fn new(link: Link, kind: Kind, config: &QueueConfig) -> Self {
        let rate = link.rate.get();
        let time_of = |bytes: u64| {
            let time = u128::from(bytes) * u128::from(PICOS_PER_BYTE_AT_ONE_BPS) / u128::from(rate);
            u64::try_from(time).unwrap_or(u64::MAX)
        };
        Self {
            pipe: List::default(),
            free_at: 0,
            delay: link.delay.get().saturating_mul(1_000),
            byte: if PICOS_PER_BYTE_AT_ONE_BPS.is_multiple_of(rate) {
                PICOS_PER_BYTE_AT_ONE_BPS / rate
            } else {
                0
            },
            rate,
            mark_from: config.marking.map_or(u64::MAX, |marking| time_of(marking.at.get())),
            limit: time_of(config.buffer.per_port().get().saturating_add(1)),
            kind,
            waking: false,
            down: 0,
            tapped: false,
            counts: PortCounts::default(),
        }
    }

    /// Returns the transmission time of `size` bytes, rounded up.
    #[inline]
    pub(crate) fn time_of(&self, size: u16) -> Picos {
        let size = u64::from(size);
        if self.byte > 0 { size * self.byte } else { (size * PICOS_PER_BYTE_AT_ONE_BPS).div_ceil(self.rate) }
    }

    /// Returns the time until the link has sent what it was given.
    #[inline]
    pub(crate) fn busy_for(&self, now: Picos) -> Picos {
        self.free_at.saturating_sub(now)
    }

    /// Returns it in bytes, rounded down.
    pub(crate) fn unsent(&self, now: Picos) -> u64 {
        let time = self.busy_for(now);
        time.checked_div(self.byte).unwrap_or_else(|| {
            let bytes = u128::from(time) * u128::from(self.rate) / u128::from(PICOS_PER_BYTE_AT_ONE_BPS);
            bytes as u64
        })
    }

    /// At a port that is a clock: whether there is room for `size` more bytes, and if so whether
    /// they are to be marked.
    #[inline]
    pub(crate) fn admit(&self, now: Picos, size: u16) -> Option<bool> {
        let wait = self.busy_for(now);
        (wait + self.time_of(size) < self.limit).then_some(wait >= self.mark_from)
    }

    /// Gives the link `size` bytes behind what it has. Returns when they arrive at its far end.
    #[inline]
    pub(crate) fn send(&mut self, now: Picos, size: u16) -> Picos {
        self.free_at = self.free_at.max(now) + self.time_of(size);
        self.counts.packets += 1;
        self.counts.bytes += u64::from(size);
        self.free_at + self.delay
    }
}

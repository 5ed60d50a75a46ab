//! A few queues, of which a higher one always goes first: what commodity switches offer (PIAS §3.1,
//! Karuna §4, TAFE).
//!
//! A bit map of the occupied queues finds the next one in one instruction.

use super::MOST_CLASSES;
use crate::pool::{List, Pool};

#[derive(Debug)]
pub(crate) struct Strict {
    lists: [List; MOST_CLASSES],
    bytes: [u64; MOST_CLASSES],
    occupied: u32,
    last: usize,
}

impl Strict {
    /// With `queues` queues, 1 to [`MOST_CLASSES`].
    pub(crate) fn new(queues: usize) -> Self {
        assert!((1..=MOST_CLASSES).contains(&queues), "queues are checked before a run");
        Self {
            lists: [List::default(); MOST_CLASSES],
            bytes: [0; MOST_CLASSES],
            occupied: 0,
            last: queues - 1,
        }
    }

    #[inline]
    pub(crate) fn bytes_in(&self, class: usize) -> u64 {
        self.bytes[class.min(self.last)]
    }

    #[inline]
    pub(crate) fn push<E: Copy + Default>(&mut self, pool: &mut Pool<E>, id: u32) {
        let queue = usize::from(pool[id].header.class).min(self.last);
        self.bytes[queue] += u64::from(pool[id].header.size);
        self.lists[queue].push(pool, id);
        self.occupied |= 1 << queue;
    }

    #[inline]
    pub(crate) fn pop<E: Copy + Default>(&mut self, pool: &Pool<E>) -> Option<u32> {
        if self.occupied == 0 {
            return None;
        }
        let queue = self.occupied.trailing_zeros() as usize;
        let id = self.lists[queue].pop(pool)?;
        self.bytes[queue] -= u64::from(pool[id].header.size);
        if self.lists[queue].is_empty() {
            self.occupied &= !(1 << queue);
        }
        Some(id)
    }
}

//! pFabric's queue (SIGCOMM 2013, §4.1; docs/protocols.md §4): send the earliest packet of the flow
//! whose packet is most urgent, and where there is no room drop what is least urgent, the one
//! nearest the tail among equals.
//!
//! Urgency is class, then order (both a policy's), then what remains of the flow. "The earliest
//! packet of that flow" keeps a flow in order: its later packets have less remaining and so are
//! more urgent.
//!
//! Queues hold some two dozen packets, so a search through an array of their keys beats a heap,
//! which would also have to find the earliest of a flow and the least urgent. Keys lie beside each
//! other, not in the packets.

use crate::pool::Pool;

#[derive(Clone, Copy, Debug)]
struct Entry {
    order: u64,
    /// Class, then remaining.
    class: u32,
    remaining: u32,
    flow: u32,
    id: u32,
}

impl Entry {
    fn urgency(&self) -> (u32, u64, u32) {
        (self.class, self.order, self.remaining)
    }
}

/// Packets in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ShortestFirst {
    entries: Vec<Entry>,
}

impl ShortestFirst {
    #[inline]
    pub(crate) fn push<E: Copy + Default>(&mut self, pool: &Pool<E>, id: u32) {
        let header = &pool[id].header;
        self.entries.push(Entry {
            order: header.order,
            class: u32::from(header.class),
            remaining: header.remaining,
            flow: header.flow,
            id,
        });
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let most = self.entries.iter().min_by_key(|entry| entry.urgency())?;
        let flow = most.flow;
        let at = self.entries.iter().position(|entry| entry.flow == flow)?;
        Some(self.entries.remove(at).id)
    }

    /// Takes out the least urgent packet, the latest among equals.
    pub(crate) fn take_least_urgent(&mut self) -> Option<u32> {
        let places = self.entries.iter().enumerate();
        let (at, _) = places.max_by_key(|(_, entry)| entry.urgency())?;
        Some(self.entries.remove(at).id)
    }
}

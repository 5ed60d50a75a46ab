//! Where all packets are: one array, a cache line for each, freed places used again at once.
//!
//! A packet lies still from its sender to its receiver; queues and links are lists through it. So a
//! hop copies nothing, and what was freed last, and is in the cache, is used next.

use cavalcade_transport::Header;

use crate::wheel::Picos;

/// No packet.
pub(crate) const NIL: u32 = u32::MAX;

/// A packet and its place in a list.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Packet {
    pub(crate) header: Header,
    /// Time at which it arrives at the far end of the link that it is on, or waits for.
    pub(crate) due: Picos,
    /// The next of its list.
    pub(crate) next: u32,
    /// Number of links crossed.
    pub(crate) hop: u8,
}

const _: () = assert!(size_of::<Packet>() == 64, "a packet is a cache line");

/// All packets, and beside each what only its transport knows.
#[derive(Debug)]
pub(crate) struct Pool<E> {
    packets: Vec<Packet>,
    extras: Vec<E>,
    free: u32,
}

impl<E: Copy + Default> Pool<E> {
    pub(crate) fn new() -> Self {
        Self { packets: Vec::new(), extras: Vec::new(), free: NIL }
    }

    /// A new packet.
    #[inline]
    pub(crate) fn add(&mut self, header: Header, extra: E) -> u32 {
        let packet = Packet { header, due: 0, next: NIL, hop: 0 };
        match self.free {
            NIL => {
                self.packets.push(packet);
                self.extras.push(extra);
                self.packets.len() as u32 - 1
            }
            id => {
                self.free = self.packets[id as usize].next;
                self.packets[id as usize] = packet;
                self.extras[id as usize] = extra;
                id
            }
        }
    }

    /// A packet that is no longer needed.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.packets[id as usize].next = self.free;
        self.free = id;
    }

    #[inline]
    pub(crate) fn extra(&self, id: u32) -> &E {
        &self.extras[id as usize]
    }

    /// A packet with what only its transport knows.
    #[inline]
    pub(crate) fn both(&mut self, id: u32) -> (&mut Packet, &mut E) {
        (&mut self.packets[id as usize], &mut self.extras[id as usize])
    }

    /// Returns the largest number of packets at one time.
    pub(crate) fn most(&self) -> usize {
        self.packets.len()
    }
}

impl<E> std::ops::Index<u32> for Pool<E> {
    type Output = Packet;
    #[inline]
    fn index(&self, id: u32) -> &Packet {
        &self.packets[id as usize]
    }
}

impl<E> std::ops::IndexMut<u32> for Pool<E> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.packets[id as usize]
    }
}

/// A first-in-first-out list of packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NIL, last: NIL }
    }
}

impl List {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NIL
    }

    /// The packet at the head.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NIL).then_some(self.first)
    }

    /// Adds a packet at the tail. Returns whether it is alone.
    #[inline]
    pub(crate) fn push<E>(&mut self, pool: &mut Pool<E>, id: u32) -> bool {
        pool[id].next = NIL;
        let last = std::mem::replace(&mut self.last, id);
        if last == NIL {
            self.first = id;
            return true;
        }
        pool[last].next = id;
        false
    }

    /// Takes the packet at the head.
    #[inline]
    pub(crate) fn pop<E>(&mut self, pool: &Pool<E>) -> Option<u32> {
        let id = self.first()?;
        self.first = pool[id].next;
        if self.first == NIL {
            self.last = NIL;
        }
        Some(id)
    }
}

//! The event queue: a timing wheel with bit maps, in which every event that can ever be pending has
//! a place of its own.
//!
//! Most events of a network lie a few microseconds ahead, and there are at most a few for each
//! port. So an event is known by a small number (the far end of link 7, the timer of flow 12) and
//! is pending at most once; what is stored is only when. Nothing is allocated, nothing is boxed,
//! and a pending event can be moved.
//!
//! Level 0 has 4,096 slots of 8.2 ns: the current block of 33.6 µs. Each level above has 64 slots,
//! each as long as all of the level below, up to the whole of time. An event goes to the level of
//! the highest bit in which its time differs from now; when time enters a slot of a higher level,
//! its events move down, once for each level. Bit maps say where the next occupied slot is, so that
//! empty time costs nothing. A slot of level 0 is a list in order of time.
//!
//! # Invariants
//! - No pending event is earlier than `now`. Level 0 holds exactly those of the current block.
//! - Events of one and the same time come out in the order in which they were scheduled.
//!
//! Cost: a few nanoseconds for what is near, plus a move for each level for what is far. Rejected:
//! a binary heap (logarithmic, and its moves miss the cache); a ring of slots without levels
//! (timeouts of milliseconds would need 10⁵ slots, which do not stay in the L1 cache).

/// Picoseconds since the start: 800 of them are a byte at 10 Gbps, and 2⁶⁴ are 213 days.
pub(crate) type Picos = u64;

const SLOT_BITS: u32 = 13;
const NEAR_BITS: u32 = 12;
const NEAR: usize = 1 << NEAR_BITS;
const BLOCK_BITS: u32 = SLOT_BITS + NEAR_BITS;
const FAR_BITS: u32 = 6;
const FAR: usize = 1 << FAR_BITS;
const LEVELS: usize = (64 - BLOCK_BITS).div_ceil(FAR_BITS) as usize;

const NIL: u32 = u32::MAX;
/// The slot of an event that is not pending.
const IDLE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    at: Picos,
    next: u32,
    previous: u32,
    slot: u32,
}

const FREE: Node = Node { at: 0, next: NIL, previous: NIL, slot: IDLE };

#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

const EMPTY: Slot = Slot { first: NIL, last: NIL };

/// The events that are pending.
#[derive(Debug)]
pub(crate) struct Wheel {
    now: Picos,
    nodes: Vec<Node>,
    /// Words of `near_bits` that have a bit.
    near_words: u64,
    near_bits: [u64; NEAR / 64],
    far_bits: [u64; LEVELS],
    /// Level 0, then the others.
    slots: Box<[Slot; NEAR + LEVELS * FAR]>,
}

impl Wheel {
    /// For events 0..`events`.
    pub(crate) fn new(events: usize) -> Self {
        Self {
            now: 0,
            nodes: vec![FREE; events],
            near_words: 0,
            near_bits: [0; NEAR / 64],
            far_bits: [0; LEVELS],
            slots: Box::new([EMPTY; NEAR + LEVELS * FAR]),
        }
    }

    /// Makes room for events 0..`events`.
    pub(crate) fn reserve(&mut self, events: usize) {
        if self.nodes.len() < events {
            self.nodes.resize(events, FREE);
        }
    }

    /// Returns the time at which `event` is pending.
    pub(crate) fn pending(&self, event: u32) -> Option<Picos> {
        let node = &self.nodes[event as usize];
        (node.slot != IDLE).then_some(node.at)
    }

    /// Schedules `event`, which is not pending, for `at`.
    #[inline]
    pub(crate) fn schedule(&mut self, event: u32, at: Picos) {
        debug_assert!(at >= self.now, "events are not in the past");
        debug_assert!(self.nodes[event as usize].slot == IDLE, "an event is pending once");
        self.nodes[event as usize].at = at;
        self.place(event, at);
    }

    /// Schedules `event` for `at`, in place of when it was pending before.
    pub(crate) fn reschedule(&mut self, event: u32, at: Picos) {
        self.cancel(event);
        self.schedule(event, at);
    }

    /// Forgets `event` if it is pending.
    pub(crate) fn cancel(&mut self, event: u32) {
        let Node { slot, next, previous, .. } = self.nodes[event as usize];
        if slot == IDLE {
            return;
        }
        self.nodes[event as usize].slot = IDLE;
        match previous {
            NIL => self.slots[slot as usize].first = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NIL => self.slots[slot as usize].last = previous,
            next => self.nodes[next as usize].previous = previous,
        }
        if self.slots[slot as usize].first == NIL {
            self.clear_bit(slot as usize);
        }
    }

    /// The next event, which is no longer pending then.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Picos, u32)> {
        while self.near_words == 0 {
            self.enter_next_block()?;
        }
        let word = self.near_words.trailing_zeros() as usize;
        let slot =
            (word * 64 + self.near_bits[word & (NEAR / 64 - 1)].trailing_zeros() as usize) & (NEAR - 1);
        let event = self.slots[slot].first;
        let node = &mut self.nodes[event as usize];
        let (at, next) = (node.at, node.next);
        node.slot = IDLE;
        self.slots[slot].first = next;
        if next == NIL {
            self.slots[slot].last = NIL;
            self.clear_bit(slot);
        } else {
            self.nodes[next as usize].previous = NIL;
        }
        self.now = at;
        Some((at, event))
    }

    #[inline]
    fn place(&mut self, event: u32, at: Picos) {
        let differs = at ^ self.now;
        if differs >> BLOCK_BITS == 0 {
            let slot = (at >> SLOT_BITS) as usize & (NEAR - 1);
            self.near_bits[slot / 64] |= 1 << (slot % 64);
            self.near_words |= 1 << (slot / 64);
            self.insert(slot, event, at);
        } else {
            let level = ((63 - differs.leading_zeros() - BLOCK_BITS) / FAR_BITS) as usize;
            let within = (at >> (BLOCK_BITS + level as u32 * FAR_BITS)) as usize & (FAR - 1);
            self.far_bits[level] |= 1 << within;
            self.append(NEAR + level * FAR + within, event);
        }
    }

    /// Into a slot of level 0, behind what is not later.
    #[inline]
    fn insert(&mut self, slot: usize, event: u32, at: Picos) {
        let mut after = self.slots[slot].last;
        while after != NIL && self.nodes[after as usize].at > at {
            after = self.nodes[after as usize].previous;
        }
        let before = match after {
            NIL => std::mem::replace(&mut self.slots[slot].first, event),
            after => std::mem::replace(&mut self.nodes[after as usize].next, event),
        };
        match before {
            NIL => self.slots[slot].last = event,
            before => self.nodes[before as usize].previous = event,
        }
        let node = &mut self.nodes[event as usize];
        (node.next, node.previous, node.slot) = (before, after, slot as u32);
    }

    fn append(&mut self, slot: usize, event: u32) {
        let last = std::mem::replace(&mut self.slots[slot].last, event);
        match last {
            NIL => self.slots[slot].first = event,
            last => self.nodes[last as usize].next = event,
        }
        let node = &mut self.nodes[event as usize];
        (node.next, node.previous, node.slot) = (NIL, last, slot as u32);
    }

    /// Level 0 is empty: moves time to the next occupied slot above, and its events down.
    fn enter_next_block(&mut self) -> Option<()> {
        let level = self.far_bits.iter().position(|&bits| bits != 0)?;
        let within = self.far_bits[level].trailing_zeros();
        let shift = BLOCK_BITS + level as u32 * FAR_BITS;
        // All bits from the slot's down are replaced; those above are the same for all that is
        // pending at this level.
        let above =
            if shift + FAR_BITS >= 64 { 0 } else { self.now >> (shift + FAR_BITS) << (shift + FAR_BITS) };
        self.now = above | u64::from(within) << shift;
        let slot = NEAR + level * FAR + within as usize;
        self.far_bits[level] &= !(1 << within);
        let mut event = std::mem::replace(&mut self.slots[slot], EMPTY).first;
        while event != NIL {
            let Node { at, next, .. } = self.nodes[event as usize];
            self.place(event, at);
            event = next;
        }
        Some(())
    }

    #[inline]
    fn clear_bit(&mut self, slot: usize) {
        if slot >= NEAR {
            let far = slot - NEAR;
            self.far_bits[far / FAR] &= !(1 << (far % FAR));
            return;
        }
        let word = &mut self.near_bits[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.near_words &= !(1 << (slot / 64));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Schedule { event: u32, ahead: u64 },
        Cancel { event: u32 },
        Pop,
    }

    fn step() -> impl Strategy<Value = Step> {
        let ahead = prop_oneof![
            0u64..100,
            0u64..100_000,
            0u64..100_000_000,
            0u64..1_000_000_000_000,
            0u64..1_000_000_000_000_000_000
        ];
        prop_oneof![
            3 => (0u32..20, ahead).prop_map(|(event, ahead)| Step::Schedule { event, ahead }),
            1 => (0u32..20).prop_map(|event| Step::Cancel { event }),
            3 => Just(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn events_come_in_order_of_time_and_then_of_scheduling(
            steps in prop::collection::vec(step(), 0..200)
        ) {
            let mut wheel = Wheel::new(20);
            let mut list: Vec<(u64, usize, u32)> = Vec::new();
            let mut now = 0;
            for (turn, step) in steps.into_iter().chain(std::iter::repeat_n(Step::Pop, 21)).enumerate() {
                match step {
                    Step::Schedule { event, ahead } => {
                        list.retain(|&(_, _, other)| other != event);
                        list.push((now + ahead, turn, event));
                        wheel.reschedule(event, now + ahead);
                    }
                    Step::Cancel { event } => {
                        list.retain(|&(_, _, other)| other != event);
                        wheel.cancel(event);
                    }
                    Step::Pop => {
                        list.sort_unstable();
                        let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                        let expected = expected.map(|(at, _, event)| (at, event));
                        prop_assert_eq!(wheel.pop(), expected);
                        now = expected.map_or(now, |(at, _)| at);
                    }
                }
                for event in 0..20 {
                    let pending = list.iter().find(|&&(_, _, other)| other == event).map(|&(at, ..)| at);
                    prop_assert_eq!(wheel.pending(event), pending);
                }
            }
            prop_assert_eq!(wheel.pop(), None);
        }
    }
}

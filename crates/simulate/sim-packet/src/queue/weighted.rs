//! Deficit round robin (Shreedhar, Varghese, SIGCOMM 1995): each queue that waits sends as many
//! bytes in a turn as its weight says, and keeps what it could not use because the next packet was
//! larger.
//!
//! What Aalo's weighted sharing between classes becomes in a switch. An empty queue saves nothing
//! up.

use std::collections::VecDeque;

use super::MOST_CLASSES;
use crate::pool::{List, Pool};

/// Bytes that a weight of one is worth in a turn: a full packet, so that no turn is in vain.
const QUANTUM: u64 = 1_500;

#[derive(Debug)]
pub(crate) struct Weighted {
    queues: Vec<Share>,
    /// The queues that wait, the one whose turn it is first.
    turn: VecDeque<u8>,
}

#[derive(Debug, Default)]
struct Share {
    list: List,
    bytes: u64,
    quantum: u64,
    deficit: u64,
}

impl Weighted {
    pub(crate) fn new(weights: &[u32]) -> Self {
        assert!((1..=MOST_CLASSES).contains(&weights.len()), "queues are checked before a run");
        let share = |&weight| Share { quantum: u64::from(weight) * QUANTUM, ..Share::default() };
        Self { queues: weights.iter().map(share).collect(), turn: VecDeque::new() }
    }

    fn queue_of(&self, class: usize) -> usize {
        class.min(self.queues.len() - 1)
    }

    pub(crate) fn bytes_in(&self, class: usize) -> u64 {
        self.queues[self.queue_of(class)].bytes
    }

    pub(crate) fn push<E: Copy + Default>(&mut self, pool: &mut Pool<E>, id: u32) {
        let queue = self.queue_of(usize::from(pool[id].header.class));
        let share = &mut self.queues[queue];
        share.bytes += u64::from(pool[id].header.size);
        if share.list.push(pool, id) {
            share.deficit = share.quantum;
            self.turn.push_back(queue as u8);
        }
    }

    pub(crate) fn pop<E: Copy + Default>(&mut self, pool: &Pool<E>) -> Option<u32> {
        loop {
            let share = &mut self.queues[usize::from(*self.turn.front()?)];
            let head = share.list.first().expect("a queue that waits has a packet");
            let size = u64::from(pool[head].header.size);
            if size > share.deficit {
                share.deficit += share.quantum;
                self.turn.rotate_left(1);
                continue;
            }
            share.deficit -= size;
            share.bytes -= size;
            share.list.pop(pool);
            if share.list.is_empty() {
                self.turn.pop_front();
            }
            return Some(head);
        }
    }
}

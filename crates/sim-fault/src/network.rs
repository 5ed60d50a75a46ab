//! Messages on their way, and what happens to them there.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::dice::Dice;

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// A host with an agent and clients.
    Host(usize),
    /// A machine on which a coordinator may run.
    Machine(usize),
    /// Where the lease of leadership is kept.
    Store,
}

/// Something on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) bytes: Vec<u8>,
}

/// What the network does to messages, in times of a thousand and milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    pub(crate) delay_ms: u64,
}

impl Weather {
    /// Without faults: all arrive, in a millisecond or two, perhaps out of order.
    pub(crate) const FAIR: Self = Self { loss: 0, doubling: 0, delay_ms: 1 };
}

/// All messages on their way between machines.
#[derive(Debug)]
pub(crate) struct Network {
    on_the_way: BinaryHeap<Reverse<(u64, u64, Parcel)>>,
    /// Until when nothing passes between two machines.
    cut: BTreeMap<(Node, Node), u64>,
    pub(crate) weather: Weather,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
}

impl Network {
    pub(crate) fn new(weather: Weather) -> Self {
        Self { on_the_way: BinaryHeap::new(), cut: BTreeMap::new(), weather, sent: 0, lost: 0, doubled: 0 }
    }

    /// Nothing passes between two machines until `until`.
    pub(crate) fn cut(&mut self, a: Node, b: Node, until: u64) {
        self.cut.insert((a.min(b), a.max(b)), until);
    }

    pub(crate) fn is_cut(&self, a: Node, b: Node, now: u64) -> bool {
        self.cut.get(&(a.min(b), a.max(b))).is_some_and(|&until| now < until)
    }

    /// Ends all faults.
    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.weather = Weather::FAIR;
    }

    pub(crate) fn send(&mut self, now: u64, dice: &mut Dice, from: Node, to: Node, bytes: Vec<u8>) {
        self.sent += 1;
        if self.is_cut(from, to, now) || dice.chance(self.weather.loss) {
            self.lost += 1;
            return;
        }
        let copies = if dice.chance(self.weather.doubling) { 2 } else { 1 };
        self.doubled += copies - 1;
        for _ in 0..copies {
            let due = now + 1 + dice.below(self.weather.delay_ms + 1);
            self.hold(due, Parcel { from, to, bytes: bytes.clone() });
        }
    }

    /// Delivers a message at `due`, whatever the weather.
    pub(crate) fn hold(&mut self, due: u64, parcel: Parcel) {
        let order = self.sent * 4 + self.on_the_way.len() as u64 % 4;
        self.on_the_way.push(Reverse((due, order, parcel)));
    }

    /// The next message that has arrived.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Parcel> {
        let is_due = self.on_the_way.peek().is_some_and(|Reverse((due, ..))| *due <= now);
        if !is_due {
            return None;
        }
        self.on_the_way.pop().map(|Reverse((_, _, parcel))| parcel)
    }
}

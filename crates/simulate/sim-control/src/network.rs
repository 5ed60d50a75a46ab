//! Messages between machines, and what happens to them on their way.
//!
//! A reliable network delivers after a fixed delay and in order; of datagrams, which agents send
//! each other over UDP, a share may be lost. [`Weather`] and cuts are faults on top: all messages
//! may be lost, doubled, late and out of order. State machines number their messages, so the faults
//! of a network stand for those of connections and processes as well.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cavalcade_model::{Instant, Nanos, PortId, SplitMix64};

/// The longest time after the end of a cut until a connection tries again.
const LONGEST_RETRY: Nanos = Nanos::from_millis(200);

/// An end of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    /// A host with an agent and clients.
    Host(PortId),
    /// A machine on which a coordinator may run.
    Machine(usize),
    /// The store that holds the lease of leadership.
    Store,
}

/// A message as the network sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Segment {
    /// Of no connection: anything may become of it.
    Single,
    /// Asks for a connection of this number.
    Open(u64),
    /// Accepts it.
    Accepted(u64),
    /// A message on it.
    Data(u64),
    /// It is over.
    Reset(u64),
}

impl Segment {
    fn number(self) -> u64 {
        match self {
            Self::Single => 0,
            Self::Open(number) | Self::Accepted(number) | Self::Data(number) | Self::Reset(number) => number,
        }
    }
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Parcel {
    pub(crate) from: Node,
    pub(crate) to: Node,
    pub(crate) segment: Segment,
    pub(crate) bytes: Vec<u8>,
}

/// Faults that hit any message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// The share that is lost.
    pub(crate) loss: f64,
    /// The share that comes twice.
    pub(crate) doubling: f64,
    /// The longest further delay.
    pub(crate) jitter: Nanos,
}

/// All messages on their way between machines.
#[derive(Debug)]
pub(crate) struct Network {
    delay: Nanos,
    datagram_loss: f64,
    pub(crate) weather: Weather,
    /// Until when nothing passes between two nodes.
    cuts: BTreeMap<(Node, Node), Instant>,
    /// By arrival, then in the order in which they were sent.
    on_the_way: BinaryHeap<Reverse<(Instant, u64, Parcel)>>,
    held: u64,
    /// The arrival of the last message each way of each connection.
    last: BTreeMap<(u64, Node), Instant>,
    dice: SplitMix64,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
}

impl Network {
    /// A reliable network, but for the share of datagrams that is lost.
    pub(crate) fn new(delay: Nanos, datagram_loss: f64, seed: u64) -> Self {
        Self {
            delay,
            datagram_loss,
            weather: Weather::default(),
            cuts: BTreeMap::new(),
            on_the_way: BinaryHeap::new(),
            held: 0,
            last: BTreeMap::new(),
            dice: SplitMix64::new(seed),
            sent: 0,
            lost: 0,
            doubled: 0,
        }
    }

    /// Lets nothing pass between two nodes until `until`.
    pub(crate) fn cut(&mut self, a: Node, b: Node, until: Instant) {
        self.cuts.insert((a.min(b), a.max(b)), until);
    }

    pub(crate) fn is_cut(&self, a: Node, b: Node, now: Instant) -> bool {
        self.cuts.get(&(a.min(b), a.max(b))).is_some_and(|&until| now < until)
    }

    /// Ends all faults but a little disorder.
    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.weather = Weather { jitter: Nanos::from_millis(1), ..Weather::default() };
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, now: Instant, from: Node, to: Node, bytes: Vec<u8>) {
        self.sent += 1;
        let is_datagram = matches!((from, to), (Node::Host(_), Node::Host(_)));
        let Weather { loss, doubling, jitter } = self.weather;
        if self.is_cut(from, to, now)
            || is_datagram && self.dice.happens(self.datagram_loss)
            || self.dice.happens(loss)
        {
            self.lost += 1;
            return;
        }
        let parcel = Parcel { from, to, segment: Segment::Single, bytes };
        if self.dice.happens(doubling) {
            self.doubled += 1;
            let due = self.due(now, jitter);
            self.hold(due, parcel.clone());
        }
        let due = self.due(now, jitter);
        self.hold(due, parcel);
    }

    /// Sends a message on a connection: it arrives once, behind those before it, and where the way
    /// is cut after that.
    pub(crate) fn stream(&mut self, now: Instant, from: Node, to: Node, segment: Segment, bytes: Vec<u8>) {
        self.sent += 1;
        let cut = self.cuts.get(&(from.min(to), from.max(to))).copied().filter(|until| now < *until);
        let again = cut.map(|until| until + Nanos(self.dice.below(LONGEST_RETRY.0)));
        let jitter = self.weather.jitter;
        let due = self.due(again.unwrap_or(now), jitter);
        let last = self.last.entry((segment.number(), to)).or_insert(Instant::ZERO);
        *last = due.max(*last + Nanos(1));
        let due = *last;
        self.hold(due, Parcel { from, to, segment, bytes });
        if matches!(segment, Segment::Reset(_)) {
            self.last.remove(&(segment.number(), to));
        }
    }

    fn due(&mut self, now: Instant, jitter: Nanos) -> Instant {
        let further = if jitter == Nanos::ZERO { 0 } else { self.dice.below(jitter.0 + 1) };
        now + self.delay + Nanos(further)
    }

    /// Delivers a message at `due`, whatever the weather.
    pub(crate) fn hold(&mut self, due: Instant, parcel: Parcel) {
        self.held += 1;
        self.on_the_way.push(Reverse((due, self.held, parcel)));
    }

    /// Returns when the next message arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.on_the_way.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes the next message that has arrived.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Parcel> {
        self.next().filter(|due| *due <= now)?;
        self.on_the_way.pop().map(|Reverse((_, _, parcel))| parcel)
    }
}

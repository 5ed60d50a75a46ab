//! Messages between machines, and what happens to them on their way.
//!
//! A reliable network delivers after a fixed delay and in order; of datagrams, which agents send
//! each other over UDP, a share may be lost. [`Weather`] and cuts are faults on top: all messages
//! may be lost, doubled, late and out of order. State machines number their messages, so the faults
//! of a network stand for those of connections and processes as well.
//!
//! A connection carries bytes. [`Reads`] say when a busy process reads them: then it gets all that
//! has come, several messages or half of one, and does nothing else before it has handled those.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use cavalcade_model::{Instant, Nanos, PortId, SplitMix64};

/// The longest time after the end of a cut until a connection tries again.
const LONGEST_RETRY: Nanos = Nanos::from_millis(200);

/// The longest further delay once faults are over.
const CALM: Nanos = Nanos::from_millis(1);

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

/// How processes read connections: late, and then all that has come.
#[derive(Debug)]
pub(crate) struct Reads {
    /// The longest time from the sending of what is read to the read.
    longest: Nanos,
    dice: SplitMix64,
}

impl Reads {
    /// The share of messages whose bytes come apart.
    const SPLIT: f64 = 0.2;

    pub(crate) fn new(longest: Nanos, seed: u64) -> Self {
        Self { longest, dice: SplitMix64::new(seed) }
    }

    /// Returns when bytes are read that come at `due` behind those that are read at `last`: with
    /// them, where they have come by then.
    fn at(&mut self, sent: Instant, due: Instant, last: Instant) -> Instant {
        if due <= last { last } else { due.max(sent + Nanos(self.dice.below(self.longest.0 + 1))) }
    }

    /// Cuts a message where its bytes come apart. Returns the second part, and how much later it
    /// comes.
    fn split(&mut self, bytes: &mut Vec<u8>) -> Option<(Vec<u8>, Nanos)> {
        let is_split = self.dice.happens(Self::SPLIT);
        is_split.then(|| {
            let rest = bytes.split_off(self.dice.below(bytes.len() as u64) as usize);
            (rest, Nanos(1 + self.dice.below(CALM.0)))
        })
    }
}

/// All messages on their way between machines.
#[derive(Debug)]
pub(crate) struct Network {
    delay: Nanos,
    datagram_loss: f64,
    pub(crate) weather: Weather,
    /// How connections are read; `None` where each message is read as it comes.
    pub(crate) reads: Option<Reads>,
    /// Until when nothing passes between two nodes.
    cuts: BTreeMap<(Node, Node), Instant>,
    /// By arrival, then in the order in which they were sent.
    on_the_way: BinaryHeap<Reverse<(Instant, u64, Parcel)>>,
    held: u64,
    /// The arrival of the last message each way of each connection.
    last: BTreeMap<(u64, Node), Instant>,
    /// What has come on a connection to a process that hangs, where [`Reads`] say how it is read.
    unread: BTreeMap<(Segment, Node), Vec<u8>>,
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
            reads: None,
            cuts: BTreeMap::new(),
            on_the_way: BinaryHeap::new(),
            held: 0,
            last: BTreeMap::new(),
            unread: BTreeMap::new(),
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
        self.weather = Weather { jitter: CALM, ..Weather::default() };
        if let Some(reads) = &mut self.reads {
            reads.longest = CALM;
        }
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
    pub(crate) fn stream(
        &mut self,
        now: Instant,
        from: Node,
        to: Node,
        segment: Segment,
        mut bytes: Vec<u8>,
    ) {
        self.sent += 1;
        let cut = self.cuts.get(&(from.min(to), from.max(to))).copied().filter(|until| now < *until);
        let again = cut.map(|until| until + Nanos(self.dice.below(LONGEST_RETRY.0)));
        let jitter = self.weather.jitter;
        let sent = again.unwrap_or(now);
        let due = self.due(sent, jitter);
        let is_data = matches!(segment, Segment::Data(_));
        let reads = self.reads.as_mut().filter(|_| is_data);
        let rest = reads.and_then(|reads| reads.split(&mut bytes));
        let first = (bytes, Nanos::ZERO);
        for (bytes, later) in [Some(first), rest].into_iter().flatten() {
            let last = self.last.entry((segment.number(), to)).or_insert(Instant::ZERO);
            let due = if later == Nanos::ZERO { due } else { *last + later };
            *last = match &mut self.reads {
                Some(reads) if is_data => reads.at(sent, due, *last),
                _ => due.max(*last + Nanos(1)),
            };
            let due = *last;
            self.hold(due, Parcel { from, to, segment, bytes });
        }
        if matches!(segment, Segment::Reset(_)) {
            self.last.remove(&(segment.number(), to));
        }
    }

    fn due(&mut self, now: Instant, jitter: Nanos) -> Instant {
        let further = if jitter == Nanos::ZERO { 0 } else { self.dice.below(jitter.0 + 1) };
        now + self.delay + Nanos(further)
    }

    /// Delivers a message to a process that hangs when it comes to; on a connection that is read at
    /// once no later than what comes behind it.
    pub(crate) fn hold_back(&mut self, until: Instant, mut parcel: Parcel) {
        if self.reads.is_some() && matches!(parcel.segment, Segment::Data(_)) {
            let unread = self.unread.entry((parcel.segment, parcel.to)).or_default();
            unread.append(&mut parcel.bytes);
        }
        self.hold(until, parcel);
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

    /// Takes the next message that has arrived; of a connection all that is read with it.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Parcel> {
        self.next().filter(|due| *due <= now)?;
        let Reverse((_, _, mut parcel)) = self.on_the_way.pop()?;
        if self.reads.is_none() || !matches!(parcel.segment, Segment::Data(_)) {
            return Some(parcel);
        }
        if let Some(mut unread) = self.unread.remove(&(parcel.segment, parcel.to)) {
            unread.append(&mut parcel.bytes);
            parcel.bytes = unread;
        }
        let ends = |parcel: &Parcel| (parcel.from, parcel.to, parcel.segment);
        while let Some(Reverse((due, _, next))) = self.on_the_way.peek()
            && *due <= now
            && ends(next) == ends(&parcel)
        {
            let Some(Reverse((_, _, next))) = self.on_the_way.pop() else { break };
            parcel.bytes.extend(next.bytes);
        }
        Some(parcel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_connection_that_is_read_late_bytes_come_in_order_several_messages_at_once_and_halves() {
        let (from, to) = (Node::Host(PortId(0)), Node::Machine(0));
        let mut network = Network::new(Nanos::from_millis(1), 0.0, 1);
        network.weather.jitter = Nanos::from_millis(5);
        network.reads = Some(Reads::new(Nanos::from_millis(30), 2));
        let (mut now, mut hangs_until) = (Instant(1), Instant::ZERO);
        let (mut read, mut lengths) = (Vec::new(), Vec::new());
        let mut next = 0;
        while read.len() < 3_000 {
            if next < 1_000 {
                let bytes = [next as u8, (next >> 8) as u8, 7].to_vec();
                network.stream(now, from, to, Segment::Data(1), bytes);
                next += 1;
            }
            if next % 50 == 0 && hangs_until <= now {
                // It comes to before that: what was held back is read before what comes then.
                hangs_until = now + Nanos::from_millis(40);
            }
            if next % 50 == 10 {
                hangs_until = now;
            }
            now = now + Nanos::from_millis(4);
            while let Some(parcel) = network.pop(now) {
                if now < hangs_until {
                    network.hold_back(hangs_until, parcel);
                } else {
                    lengths.extend(Some(parcel.bytes.len()).filter(|&length| length > 0));
                    read.extend(parcel.bytes);
                }
            }
        }
        let sent: Vec<u8> = (0..1_000).flat_map(|next: i32| [next as u8, (next >> 8) as u8, 7]).collect();
        assert_eq!(read, sent);
        assert!(lengths.iter().any(|length| *length > 9), "several at once");
        assert!(lengths.iter().any(|length| length % 3 != 0), "halves");
    }
}

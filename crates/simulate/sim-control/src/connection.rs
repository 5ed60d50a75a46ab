//! Connections between agents and coordinators, as TCP has them.
//!
//! A connection is an object of its own: it outlives the machine at either end. Messages on it
//! arrive once and in order, after a cut link late. Its end is told to the other side only where
//! that gets through: a process that is killed has its connections closed by the kernel, a machine
//! that vanishes says nothing, and one that hangs goes on accepting. An agent connects to the
//! machines in turn, as the live shell does, until one stays.
//!
//! What is read is cut into messages by the live shell's own [`Frames`]. A coordinator holds the
//! first message on a connection to a limit of its own; here to the least that lets it pass, so
//! that it shows where that limit is applied to another.

use std::collections::BTreeMap;

use cavalcade_model::{Instant, Nanos, PortId, SplitMix64};
use cavalcade_protocol::{Frames, MAX_FRAME, Message, WireError};

use crate::network::{Network, Node, Segment};

/// The time that an agent waits for a connection to be accepted: longer than two messages are on
/// their way.
const ATTEMPT: Nanos = Nanos::from_millis(80);
/// The longest pause between two attempts.
const PAUSE: Nanos = Nanos::from_millis(20);

#[derive(Clone, Copy, Debug)]
enum State {
    Down { dials_at: Instant },
    Dialing { number: u64, until: Instant },
    Up { number: u64 },
}

/// An agent's side.
#[derive(Debug)]
struct Caller {
    machine: usize,
    state: State,
    /// What has come of orders.
    frames: Frames,
}

/// A machine's side.
#[derive(Debug)]
struct Line {
    number: u64,
    /// What has come of reports; `None` until something has.
    frames: Option<Frames>,
}

/// All connections, by number.
#[derive(Debug)]
pub(crate) struct Connections {
    callers: Vec<Caller>,
    /// The connections that each machine has accepted.
    accepted: Vec<BTreeMap<PortId, Line>>,
    /// The bytes of the first report on each connection, until that has come.
    first_reports: BTreeMap<u64, usize>,
    next: u64,
    dice: SplitMix64,
    /// Agents never give one up: a planted bug.
    is_stubborn: bool,
}

impl Connections {
    /// No connections yet between so many hosts and machines. A stubborn agent waits for the end of
    /// what it has.
    pub(crate) fn new(hosts: usize, machines: usize, start: Instant, seed: u64, is_stubborn: bool) -> Self {
        let (dials_at, frames) = (start, Frames::default);
        let caller =
            |host| Caller { machine: host % machines, state: State::Down { dials_at }, frames: frames() };
        Self {
            callers: (0..hosts).map(caller).collect(),
            accepted: (0..machines).map(|_| BTreeMap::new()).collect(),
            first_reports: BTreeMap::new(),
            next: 1,
            dice: SplitMix64::new(seed),
            is_stubborn,
        }
    }

    /// Returns when the agent at `port` has something to do about its connection.
    pub(crate) fn due(&self, port: PortId) -> Option<Instant> {
        match self.callers.get(port.index())?.state {
            State::Down { dials_at } => Some(dials_at),
            State::Dialing { until, .. } => Some(until),
            State::Up { .. } => None,
        }
    }

    /// Dials where it is time, and gives up what is not accepted.
    pub(crate) fn dial(&mut self, now: Instant, port: PortId, network: &mut Network) {
        match self.callers[port.index()].state {
            State::Down { dials_at } if dials_at <= now => {
                let number = self.next;
                self.next += 1;
                let machine = self.callers[port.index()].machine;
                self.callers[port.index()].state = State::Dialing { number, until: now + ATTEMPT };
                let (from, to) = (Node::Host(port), Node::Machine(machine));
                // What is lost of this is tried again too late.
                if !network.is_cut(from, to, now) {
                    network.stream(now, from, to, Segment::Open(number), Vec::new());
                }
            }
            State::Dialing { until, .. } if until <= now => self.give_up(now, port),
            _ => {}
        }
    }

    /// Returns the machine and number of the connection of the agent at `port`.
    pub(crate) fn of_host(&self, port: PortId) -> Option<(usize, u64)> {
        let caller = &self.callers[port.index()];
        match caller.state {
            State::Up { number } => Some((caller.machine, number)),
            _ => None,
        }
    }

    /// The number of the connection that a machine has from the agent at `port`.
    pub(crate) fn at_machine(&self, machine: usize, port: PortId) -> Option<u64> {
        self.accepted[machine].get(&port).map(|line| line.number)
    }

    /// A machine has accepted a connection; the newest of a host counts.
    pub(crate) fn accept(&mut self, machine: usize, port: PortId, number: u64) {
        self.accepted[machine].insert(port, Line { number, frames: None });
    }

    /// A report of so many bytes is sent on a connection.
    pub(crate) fn note_report(&mut self, number: u64, bytes: usize) {
        self.first_reports.entry(number).or_insert(bytes);
    }

    /// Returns the messages that a machine reads on the connection that it has from `port`.
    ///
    /// # Errors
    /// If what was read is none that it accepts.
    pub(crate) fn read_at_machine<M: Message>(
        &mut self,
        machine: usize,
        port: PortId,
        bytes: &[u8],
    ) -> Result<Vec<M>, WireError> {
        let Some(line) = self.accepted[machine].get_mut(&port) else { return Ok(Vec::new()) };
        let first = self.first_reports.get(&line.number).copied().unwrap_or(MAX_FRAME);
        cut(line.frames.get_or_insert_with(|| Frames::with_limits(first, MAX_FRAME)), bytes)
    }

    /// Returns the messages that the agent at `port` reads on its connection.
    ///
    /// # Errors
    /// If what was read is none that it accepts.
    pub(crate) fn read_at_host<M: Message>(
        &mut self,
        port: PortId,
        bytes: &[u8],
    ) -> Result<Vec<M>, WireError> {
        cut(&mut self.callers[port.index()].frames, bytes)
    }

    /// An agent hears that its connection is accepted. Returns whether it still wants it.
    pub(crate) fn accepted(&mut self, port: PortId, number: u64) -> bool {
        let caller = &mut self.callers[port.index()];
        let is_it = matches!(caller.state, State::Dialing { number: dialed, .. } if dialed == number);
        if is_it {
            (caller.state, caller.frames) = (State::Up { number }, Frames::default());
        }
        is_it
    }

    /// An agent hears that a connection is over.
    pub(crate) fn reset_host(&mut self, now: Instant, port: PortId, number: u64) {
        let own = match self.callers[port.index()].state {
            State::Dialing { number, .. } | State::Up { number } => Some(number),
            State::Down { .. } => None,
        };
        if own == Some(number) {
            self.give_up(now, port);
        }
    }

    /// A machine hears that a connection is over. Returns whether that was the one it has.
    pub(crate) fn reset_machine(&mut self, machine: usize, port: PortId, number: u64) -> bool {
        let is_it = self.at_machine(machine, port) == Some(number);
        if is_it {
            self.accepted[machine].remove(&port);
        }
        is_it
    }

    /// An agent closes its connection, or its kernel does when it has crashed, and turns to the
    /// next machine.
    pub(crate) fn hang_up(&mut self, now: Instant, port: PortId, has_crashed: bool, network: &mut Network) {
        if self.is_stubborn && !has_crashed {
            return;
        }
        if let Some((machine, number)) = self.of_host(port) {
            let (from, to) = (Node::Host(port), Node::Machine(machine));
            network.stream(now, from, to, Segment::Reset(number), Vec::new());
        }
        self.give_up(now, port);
    }

    /// All connections of a machine's process end; where its host has vanished, without a word.
    pub(crate) fn end_all(&mut self, now: Instant, machine: usize, in_silence: bool, network: &mut Network) {
        for (port, Line { number, .. }) in std::mem::take(&mut self.accepted[machine]) {
            if !in_silence {
                let (from, to) = (Node::Machine(machine), Node::Host(port));
                network.stream(now, from, to, Segment::Reset(number), Vec::new());
            }
        }
    }

    fn give_up(&mut self, now: Instant, port: PortId) {
        let pause = Nanos(1 + self.dice.below(PAUSE.0));
        let machines = self.accepted.len();
        let caller = &mut self.callers[port.index()];
        caller.machine = (caller.machine + 1) % machines;
        caller.state = State::Down { dials_at: now + pause };
    }
}

/// Takes in what was read, and cuts it into messages.
fn cut<M: Message>(frames: &mut Frames, bytes: &[u8]) -> Result<Vec<M>, WireError> {
    frames.push(bytes);
    std::iter::from_fn(|| frames.pop().transpose()).collect()
}

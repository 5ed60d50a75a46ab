//! The switch itself, sans-IO: frames in by a port, frames out by others.
//!
//! # Loops
//! There is no spanning tree here: a frame for an unknown address goes to all ports, so a loop
//! would carry it round for ever. Each switch therefore says who it is on all ports, and for a
//! while does nothing else; its beacon passes through other switches as any frame for a group does.
//! One that comes back proves a loop, one with its own id from another process a wrong
//! configuration; either stops the switch with an error before it has forwarded anything, or, where
//! the link came later, then. A switch that forwards is not stopped by one of its id that only
//! watches yet, but answers it at once: that one stops. Of two that forward the one of the higher
//! life stops.
//!
//! While there is a loop, frames come in by it whose senders are elsewhere. So a switch that has
//! forwarded and leaves for a loop says so to all (it parts), and those that stay forget what they
//! have learned: at once, and again a second later, when all that went round has arrived. Until
//! they hear a host again, frames for it go to all ports. Any host can say the same; so they forget
//! once a second at most.

use cavalcade_model::{BitsPerSec, Instant, Nanos};
use cavalcade_transport::spc::Spc;
use cavalcade_transport::stream::frame::Reason;

use crate::error::SwitchError;
use crate::offload;
use crate::packet::{
    Address, Content, ETHERNET, Unfinished, addresses, classify, is_group, refusal, rewrite,
};
use crate::port::{ClassCounters, Offered, OutputPort, PLAIN_CLASS, Packet, SPC_CLASS};
use crate::table::Table;

/// The type of beacons: for experiments (IEEE 802).
const BEACON: [u8; 2] = [0x88, 0xb5];
const BEACON_GROUP: Address = [3, 0, 0, 0xca, 0x7a, 1];
const BEACON_MAGIC: [u8; 4] = *b"CVSW";
const BEACON_LENGTH: usize = 60;
const BEACON_EVERY: Nanos = Nanos(1_000_000_000);
/// Beacons are sent this often while a switch only watches.
const FIRST_BEACONS: Nanos = Nanos(50_000_000);
/// Switches that a beacon passes at most.
const BEACON_HOPS: u8 = 16;
/// What a beacon says of its switch: it watches, it forwards, it leaves for a loop.
const WATCHES: u8 = 0;
const FORWARDS: u8 = 1;
const PARTS: u8 = 2;
/// Between two times at which a switch forgets all that it has learned, and how many there are
/// after another switch has parted.
const FORGETS_EVERY: Nanos = Nanos(1_000_000_000);
const FORGETS: u8 = 2;
/// Buffers that are kept for later.
const KEPT_BUFFERS: usize = 4_096;

/// The parameters of a switch.
#[derive(Clone, Debug)]
pub struct Setup {
    /// SPC's parameters.
    pub spc: Spc,
    /// The idle fabric's longest round trip, the same at hosts and switches.
    pub base_rtt: Nanos,
    /// The switch's number, different from all others'.
    pub id: u64,
    /// The number of this life of it, at random.
    pub life: u64,
    /// The time for which it only looks for loops.
    pub watch: Nanos,
    /// The most tasks that a port keeps.
    pub tasks: usize,
    /// The most addresses that it learns.
    pub addresses: usize,
    /// Each port's name, link rate and MTU.
    pub ports: Vec<(String, BitsPerSec, u32)>,
    /// Addresses that are known beforehand, and their ports.
    pub routes: Vec<(Address, usize)>,
}

impl Default for Setup {
    /// A switch without ports, for a fabric with a round trip of 1 ms.
    fn default() -> Self {
        Self {
            spc: Spc::default(),
            base_rtt: Nanos(1_000_000),
            id: 0,
            life: 0,
            watch: Nanos(200_000_000),
            tasks: 4_096,
            addresses: 16_384,
            ports: Vec::new(),
            routes: Vec::new(),
        }
    }
}

/// Counts of a whole switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in.
    pub received: u64,
    /// Frames that went to all ports, for want of a known one.
    pub flooded: u64,
    /// SPC packets with a header that cannot be.
    pub malformed: u64,
    /// Questions that had six answers already.
    pub refused: u64,
    /// Frames that are too large for the link that they would take.
    pub too_large: u64,
    /// Frames that stay on the link that they came by.
    pub filtered: u64,
}

/// A port as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortReport {
    /// Its name.
    pub name: String,
    /// Its link's rate.
    pub rate: BitsPerSec,
    /// SPC.
    pub spc: ClassCounters,
    /// All else.
    pub plain: ClassCounters,
    /// Tasks that it keeps anything of.
    pub tasks: usize,
    /// The sum of its grants.
    pub granted: BitsPerSec,
    /// Questions that it has answered.
    pub questions: u64,
}

/// A switch as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The counts of the whole.
    pub counters: Counters,
    /// Its addresses.
    pub addresses: usize,
    /// Its ports.
    pub ports: Vec<PortReport>,
}

/// A switch.
#[derive(Debug)]
pub struct Switch {
    setup: Setup,
    ports: Vec<OutputPort>,
    table: Table,
    counters: Counters,
    buffers: Vec<Vec<u8>>,
    /// Time at which it begins to forward.
    opens: Instant,
    beacon_at: Instant,
    /// How many times it is still to forget what it has learned, and from when on it may.
    forgets: u8,
    may_forget: Instant,
}

impl Switch {
    /// Makes a switch, which at first only watches.
    pub fn new(now: Instant, setup: Setup) -> Self {
        let port = |&(_, rate, _): &(String, BitsPerSec, u32)| {
            OutputPort::new(rate, setup.base_rtt, &setup.spc, setup.tasks)
        };
        let ports = setup.ports.iter().map(port).collect();
        let mut table = Table::new(setup.addresses);
        for &(address, port) in &setup.routes {
            table.fix(address, port);
        }
        let opens = now + setup.watch;
        let counters = Counters::default();
        Self {
            setup,
            ports,
            table,
            counters,
            buffers: Vec::new(),
            opens,
            beacon_at: now,
            forgets: 0,
            may_forget: now,
        }
    }

    /// Takes a frame that came in by a port. `piece` is the payload of a segment, where the kernel
    /// has left TCP uncut.
    ///
    /// # Errors
    /// If it proves a loop, or another switch of the same id.
    pub fn handle(
        &mut self,
        now: Instant,
        from: usize,
        frame: &[u8],
        unfinished: Option<Unfinished>,
        piece: Option<u16>,
    ) -> Result<(), SwitchError> {
        self.counters.received += 1;
        let Some((destination, source)) = addresses(frame) else { return Ok(()) };
        if frame[12..14] == BEACON && destination == BEACON_GROUP {
            return self.handle_beacon(now, from, frame);
        }
        if now < self.opens {
            return Ok(());
        }
        self.table.learn(now, source, from);
        if let Some(most) = piece {
            // Where a piece of TCP is cut, each segment goes its way; anything else that is so
            // large goes nowhere.
            let mut room = self.packet(&[], None);
            let cut = offload::cut(frame, most, &mut room.bytes, |segment| {
                self.forward(now, from, destination, segment, None)
            });
            self.recycle(room);
            self.counters.too_large += u64::from(cut.is_none());
            return Ok(());
        }
        let unfinished = unfinished.filter(|unfinished| offload::is_possible(*unfinished, frame.len()));
        self.forward(now, from, destination, frame, unfinished);
        Ok(())
    }

    /// Learns, from elsewhere, behind which port an address is.
    pub fn learn(&mut self, now: Instant, address: Address, port: usize) {
        self.table.learn(now, address, port);
    }

    /// Forgets the addresses behind a port whose link is cut.
    pub fn forget(&mut self, port: usize) {
        self.table.forget(port);
    }

    /// Forgets all that it has learned where that is due, since another switch has left for a loop.
    /// Returns whether it was.
    pub fn forget_if_due(&mut self, now: Instant) -> bool {
        let is_due = self.forgets > 0 && now >= self.may_forget;
        if is_due {
            self.forgets -= 1;
            self.may_forget = now + FORGETS_EVERY;
            self.table.forget_learned();
        }
        is_due
    }

    /// Makes what a switch that leaves for a loop says by a port behind its last frame; `None`
    /// where it has forwarded none.
    pub fn parting(&mut self, now: Instant, port: usize) -> Option<Packet> {
        let Setup { id, life, .. } = self.setup;
        (now >= self.opens).then(|| self.beacon(port as u8, id, life, BEACON_HOPS, PARTS))
    }

    /// Returns the bytes that have left by a port.
    pub fn sent(&self, port: usize) -> u64 {
        self.ports[port].class(SPC_CLASS).bytes + self.ports[port].class(PLAIN_CLASS).bytes
    }

    fn forward(
        &mut self,
        now: Instant,
        from: usize,
        destination: Address,
        frame: &[u8],
        unfinished: Option<Unfinished>,
    ) {
        let content = classify(frame);
        if content == Content::Malformed {
            self.counters.malformed += 1;
            return;
        }
        let known = (!is_group(destination)).then(|| self.table.port_of(now, destination)).flatten();
        match known {
            Some(to) if to == from => self.counters.filtered += 1,
            Some(to) => self.offer(now, from, to, frame, unfinished, content),
            None => {
                self.counters.flooded += 1;
                for to in (0..self.ports.len()).filter(|&to| to != from) {
                    self.offer(now, from, to, frame, unfinished, content);
                }
            }
        }
    }

    fn offer(
        &mut self,
        now: Instant,
        from: usize,
        to: usize,
        frame: &[u8],
        unfinished: Option<Unfinished>,
        content: Content,
    ) {
        let size = frame.len() - ETHERNET;
        if size > self.setup.ports[to].2 as usize {
            self.counters.too_large += 1;
            return;
        }
        let Content::Spc { at, mut seen } = content else {
            let packet = self.packet(frame, unfinished);
            self.push(to, PLAIN_CLASS, packet);
            return;
        };
        match self.ports[to].offer(now, size as u64, &mut seen) {
            Offered::Dropped => {}
            Offered::Queued => {
                let mut packet = self.packet(frame, unfinished);
                rewrite(&mut packet.bytes, at, &seen.header, unfinished.is_some());
                self.push(to, SPC_CLASS, packet);
            }
            Offered::TooManySwitches => {
                self.counters.refused += 1;
                if let Some(answer) = refusal(frame, at, Reason::TooManySwitches) {
                    self.push(from, SPC_CLASS, Packet { bytes: answer, unfinished: None });
                }
            }
        }
    }

    fn packet(&mut self, frame: &[u8], unfinished: Option<Unfinished>) -> Packet {
        let mut bytes = self.buffers.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(frame);
        Packet { bytes, unfinished }
    }

    fn push(&mut self, to: usize, class: usize, packet: Packet) {
        if let Err(packet) = self.ports[to].push(class, packet) {
            self.recycle(packet);
        }
    }

    /// Takes a packet's memory back.
    pub fn recycle(&mut self, packet: Packet) {
        if self.buffers.len() < KEPT_BUFFERS {
            self.buffers.push(packet.bytes);
        }
    }

    /// Gives out the next packet that may leave by a port now.
    pub fn poll_transmit(&mut self, now: Instant, port: usize) -> Option<Packet> {
        if now >= self.beacon_at {
            self.beacon_at = now + if now < self.opens { FIRST_BEACONS } else { BEACON_EVERY };
            for port in 0..self.ports.len() {
                let state = if now < self.opens { WATCHES } else { FORWARDS };
                let beacon = self.beacon(port as u8, self.setup.id, self.setup.life, BEACON_HOPS, state);
                self.push(port, SPC_CLASS, beacon);
            }
        }
        self.ports[port].pop(now)
    }

    /// Returns the time at which something may leave.
    pub fn poll_timeout(&self) -> Instant {
        let ports = self.ports.iter().filter_map(OutputPort::next_time);
        ports.chain([self.beacon_at]).min().unwrap_or(self.beacon_at)
    }

    fn beacon(&mut self, port: u8, id: u64, life: u64, hops: u8, state: u8) -> Packet {
        let mut packet = self.packet(&BEACON_GROUP, None);
        let bytes = &mut packet.bytes;
        // A local address, of no station.
        bytes.extend([2, 0xca, 0x7a]);
        bytes.extend(&id.to_be_bytes()[5..]);
        bytes.extend(BEACON);
        bytes.extend(BEACON_MAGIC);
        bytes.extend(id.to_be_bytes());
        bytes.extend(life.to_be_bytes());
        bytes.extend([port, hops, state]);
        bytes.resize(BEACON_LENGTH, 0);
        packet
    }

    fn handle_beacon(&mut self, now: Instant, from: usize, frame: &[u8]) -> Result<(), SwitchError> {
        let body = &frame[ETHERNET..];
        let number = |at: usize| {
            body.get(at..).and_then(|rest| rest.first_chunk()).map(|bytes| u64::from_be_bytes(*bytes))
        };
        let (Some(id), Some(life), Some(&[port, hops, state])) =
            (number(4), number(12), body.get(20..).and_then(|rest| rest.first_chunk::<3>()))
        else {
            return Ok(());
        };
        if body[..4] != BEACON_MAGIC {
            return Ok(());
        }
        let name =
            |port: usize| self.setup.ports.get(port).map_or_else(|| port.to_string(), |port| port.0.clone());
        if life == self.setup.life {
            return Err(SwitchError::Loop { out: name(usize::from(port)), back: name(from) });
        }
        let forwards = state != WATCHES;
        let yields = now < self.opens || (forwards && life < self.setup.life);
        if id == self.setup.id && yields {
            return Err(SwitchError::SameId { id, port: name(from) });
        }
        if now >= self.opens && !forwards {
            // Who watches is to hear of this switch before it forwards.
            self.beacon_at = now;
        }
        if now < self.opens || hops == 0 {
            return Ok(());
        }
        if state == PARTS {
            self.forgets = FORGETS;
        }
        for to in (0..self.ports.len()).filter(|&to| to != from) {
            let beacon = self.beacon(port, id, life, hops - 1, state);
            self.push(to, SPC_CLASS, beacon);
        }
        Ok(())
    }

    /// Returns a report of its state.
    pub fn report(&self) -> Report {
        let port = |(port, (name, _, _)): (&OutputPort, &(String, BitsPerSec, u32))| PortReport {
            name: name.clone(),
            rate: port.rate(),
            spc: port.class(SPC_CLASS),
            plain: port.class(PLAIN_CLASS),
            tasks: port.tasks(),
            granted: port.granted(),
            questions: port.questions(),
        };
        Report {
            counters: self.counters,
            addresses: self.table.len(),
            ports: self.ports.iter().zip(&self.setup.ports).map(port).collect(),
        }
    }
}

#[cfg(test)]
mod tests;

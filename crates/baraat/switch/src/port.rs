//! An output port: SPC's logic, two queues, and the pace of the link.
//!
//! A virtual interface takes packets as fast as it is given them; so the port itself lets the next
//! one go when the link would be free. Bytes are those of IP packets, as in the packet simulator:
//! 1,500 take 12 µs at 1 Gbps.
//!
//! The second class has what the first leaves. So that it never starves, each byte of SPC that
//! leaves while something plain waits earns it 1/([`PLAIN_SHARE`] − 1) of a byte ahead of SPC. The
//! logic sees that as a queue and lowers what it gives away.

use std::collections::VecDeque;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_transport::rcp::{self, Rate, Rcp};
use cavalcade_transport::spc::{PORTS, Port, Spc};
use cavalcade_transport::stream::frame::{FrameKind, Peeked, Rates};
use cavalcade_transport::{Flags, Header, Kind, PortLogic, PortSetup, Transport};

use crate::packet::{ETHERNET, Unfinished};

/// Plain traffic has one part in this many of a link, where it wants it.
pub const PLAIN_SHARE: u64 = 16;
/// A port catches up with what a late timer held up, by this much.
pub(crate) const LATE: Nanos = Nanos(1_000_000);
const CLASSES: usize = 2;
/// The class of SPC, and that of all else.
pub const SPC_CLASS: usize = 0;
/// See [`SPC_CLASS`].
pub const PLAIN_CLASS: usize = 1;

/// A packet in a switch.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    /// The Ethernet frame.
    pub bytes: Vec<u8>,
    /// The checksum that the kernel has left to the device.
    pub unfinished: Option<Unfinished>,
}

impl Packet {
    fn size(&self) -> u64 {
        self.bytes.len().saturating_sub(ETHERNET) as u64
    }
}

/// Counts of one class at one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets for which the queue had no room.
    pub dropped: u64,
    /// Bytes that wait.
    pub queued: u64,
    /// The most that have waited.
    pub longest: u64,
}

/// The outcome of a packet offered to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It waits for the link.
    Queued,
    /// There was no room.
    Dropped,
    /// It asks, and six switches have answered already.
    TooManySwitches,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Packet>,
    counters: ClassCounters,
}

/// The output side of one port.
#[derive(Debug)]
pub struct OutputPort {
    rate: BitsPerSec,
    logic: Port,
    /// The logic of RCP, for streams that ask for fair shares.
    shares: rcp::Port,
    most_flows: usize,
    buffer: u64,
    queues: [Queue; CLASSES],
    /// Time at which the link is free, in picoseconds.
    free_at: u64,
    /// Bytes that plain traffic may send ahead of SPC, times `PLAIN_SHARE` − 1.
    earned: u64,
    /// Questions answered.
    questions: u64,
}

impl OutputPort {
    /// Makes the port of a link of `rate` in a fabric whose idle round trip is `base_rtt`; it keeps
    /// at most `tasks` tasks.
    pub fn new(rate: BitsPerSec, base_rtt: Nanos, spc: &Spc, tasks: usize) -> Self {
        let setup = PortSetup { rate, delay: Nanos::ZERO, base_rtt, port: 0 };
        Self {
            rate,
            logic: spc.port_logic(&setup).with_at_most(tasks),
            shares: Rcp { spare_gain: spc.spare_gain, queue_gain: spc.queue_gain, ..Rcp::default() }
                .port_logic(&setup),
            most_flows: tasks,
            buffer: spc.buffer.get(),
            queues: Default::default(),
            free_at: 0,
            earned: 0,
            questions: 0,
        }
    }

    /// Offers a packet of SPC, or of RCP in its form: the logic answers it where it asks, and its
    /// header is to be written back.
    pub fn offer(&mut self, now: Instant, size: u64, seen: &mut Peeked) -> Offered {
        let Peeked { header, rates, kind, opening, last, flow } = seen;
        let queue = &mut self.queues[SPC_CLASS];
        if kind.is_of_sender() && header.asks() && header.hop() >= PORTS {
            return Offered::TooManySwitches;
        }
        if queue.counters.queued + size > self.buffer {
            queue.counters.dropped += 1;
            return Offered::Dropped;
        }
        if kind.is_of_sender() {
            let backlog = Bytes(queue.counters.queued);
            let kind = if *kind == FrameKind::Data { Kind::Data } else { Kind::Probe };
            let size = size.min(u64::from(u16::MAX)) as u16;
            let flags = Flags::NONE.with_if(*last, Flags::LAST);
            let mut packet = Header { kind, size, flow: *flow, flags, ..Header::default() };
            match rates {
                Rates::OfTasks => {
                    self.questions += u64::from(header.asks());
                    self.logic.arrive(now, backlog, &mut packet, header);
                }
                // An opening is no flow yet; it only counts switches.
                Rates::OfFlows if *opening && header.asks() => header.answer(0, 0, false),
                // The logic keeps state per flow: a flood of flows may exhaust neither memory nor
                // the service of those without shares.
                Rates::OfFlows if self.shares.flows() >= self.most_flows => {
                    queue.counters.dropped += 1;
                    return Offered::Dropped;
                }
                Rates::OfFlows => {
                    let mut rate = Rate { rate: header.rate() };
                    self.shares.arrive(now, backlog, &mut packet, &mut rate);
                    *header = header.with_rate(rate.rate);
                }
            }
        }
        Offered::Queued
    }

    /// Puts a packet behind its class. One of SPC has been offered before; one without room is
    /// given back.
    pub fn push(&mut self, class: usize, packet: Packet) -> Result<(), Packet> {
        let queue = &mut self.queues[class];
        if queue.counters.queued + packet.size() > self.buffer {
            queue.counters.dropped += 1;
            return Err(packet);
        }
        queue.counters.queued += packet.size();
        queue.counters.longest = queue.counters.longest.max(queue.counters.queued);
        queue.packets.push_back(packet);
        Ok(())
    }

    fn next_class(&self) -> Option<usize> {
        let [spc, plain] = [SPC_CLASS, PLAIN_CLASS].map(|class| self.queues[class].packets.front());
        match (spc, plain) {
            (Some(_), Some(plain)) if self.earned >= plain.size() * (PLAIN_SHARE - 1) => Some(PLAIN_CLASS),
            (Some(_), _) => Some(SPC_CLASS),
            (None, Some(_)) => Some(PLAIN_CLASS),
            (None, None) => None,
        }
    }

    /// Takes the next packet that may leave now.
    pub fn pop(&mut self, now: Instant) -> Option<Packet> {
        let class = self.next_class()?;
        let now_picos = now.get().saturating_mul(1_000);
        if self.free_at > now_picos {
            return None;
        }
        let queue = &mut self.queues[class];
        let packet = queue.packets.pop_front()?;
        let size = packet.size();
        queue.counters.queued -= size;
        queue.counters.packets += 1;
        queue.counters.bytes += size;
        let plain_waits = !self.queues[PLAIN_CLASS].packets.is_empty();
        self.earned = match class {
            SPC_CLASS if plain_waits => self.earned + size,
            PLAIN_CLASS if plain_waits => self.earned.saturating_sub(size * (PLAIN_SHARE - 1)),
            _ => 0,
        };
        let time = size * 8_000_000_000_000 / self.rate.get().max(1);
        let behind = now_picos.saturating_sub(LATE.get() * 1_000);
        self.free_at = self.free_at.max(behind) + time;
        Some(packet)
    }

    /// Returns the time at which the next packet may leave; `None` where none waits.
    pub fn next_time(&self) -> Option<Instant> {
        self.next_class().map(|_| Instant(self.free_at.div_ceil(1_000)))
    }

    /// Returns the counts of a class.
    pub fn class(&self, class: usize) -> ClassCounters {
        self.queues[class].counters
    }

    /// Returns the link's rate.
    pub fn rate(&self) -> BitsPerSec {
        self.rate
    }

    /// Returns the number of tasks that the port keeps anything of.
    pub fn tasks(&self) -> usize {
        self.logic.tasks()
    }

    /// Returns all that is granted.
    pub fn granted(&self) -> BitsPerSec {
        self.logic.granted()
    }

    /// Returns the number of questions answered.
    pub fn questions(&self) -> u64 {
        self.questions
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_transport::spc::{Returned, SpcHeader};

    use super::*;

    const RATE: BitsPerSec = BitsPerSec(100_000_000);

    /// Offers a packet of a flow of task 1 to a port.
    fn offer(port: &mut OutputPort, header: &mut SpcHeader, kind: FrameKind) -> Offered {
        let rates = Rates::OfTasks;
        let mut seen = Peeked { header: *header, rates, kind, opening: false, last: false, flow: 1 };
        let offered = port.offer(Instant(1), 100, &mut seen);
        *header = seen.header;
        offered
    }

    #[test]
    fn flows_that_ask_for_shares_have_equal_ones_and_leave_with_their_last_packet() {
        let mut port = port();
        let mut share = |flow: u32, last: bool| {
            let header = SpcHeader::new(flow, 0).with_rate(BitsPerSec(1_000_000_000));
            let kind = FrameKind::Data;
            let mut seen = Peeked { header, rates: Rates::OfFlows, kind, opening: false, last, flow };
            assert_eq!(port.offer(Instant(1), 1_500, &mut seen), Offered::Queued);
            seen.header.rate().get()
        };
        assert_eq!(
            [share(1, false), share(2, false), share(2, false)],
            [RATE.get(), RATE.get() / 2, RATE.get() / 2]
        );
        share(1, true);
        assert_eq!(share(2, false), RATE.get());
    }

    fn port() -> OutputPort {
        OutputPort::new(RATE, Nanos(1_000_000), &Spc::default(), 16)
    }

    fn packet(size: usize) -> Packet {
        Packet { bytes: vec![0; size + ETHERNET], unfinished: None }
    }

    /// Offers both classes more than the link, for `millis`; returns bytes sent of each.
    fn share(millis: u64, spc: bool, plain: bool) -> [u64; 2] {
        let mut port = port();
        for tick in 0..millis * 10 {
            for class in [SPC_CLASS, PLAIN_CLASS] {
                let wanted = if class == SPC_CLASS { spc } else { plain };
                while wanted && port.push(class, packet(1_500)).is_ok() {}
            }
            while port.pop(Instant(tick * 100_000)).is_some() {}
        }
        [port.class(SPC_CLASS).bytes, port.class(PLAIN_CLASS).bytes]
    }

    #[test]
    fn plain_traffic_has_what_is_left_and_never_starves() {
        let link = 100_000_000 / 8;
        let [spc, plain] = share(1_000, true, true);
        assert!((spc + plain).abs_diff(link) < link / 200, "{spc} {plain}");
        assert!(plain.abs_diff(link / PLAIN_SHARE) < link / 200, "{plain}");
        let [_, alone] = share(1_000, false, true);
        assert!(alone.abs_diff(link) < link / 200, "{alone}");
    }

    #[test]
    fn no_more_leaves_than_the_link_carries_however_late_the_timer_is() {
        let mut port = port();
        while port.push(PLAIN_CLASS, packet(1_500)).is_ok() {}
        let first = std::iter::from_fn(|| port.pop(Instant(50_000_000))).count();
        // A millisecond is 8.3 packets of 120 µs, and the one that is let go at its end.
        assert_eq!(first, 9);
        assert_eq!(port.class(PLAIN_CLASS).dropped, 1);
    }

    #[test]
    fn the_seventh_switch_refuses_a_question_and_lets_data_pass() {
        let mut header = SpcHeader::new(1, 0).asking(1, 10, &Returned::default());
        for _ in 0..6 {
            assert_eq!(offer(&mut port(), &mut header, FrameKind::Data), Offered::Queued);
        }
        let refused = offer(&mut port(), &mut header, FrameKind::Probe);
        assert_eq!(refused, Offered::TooManySwitches);
        assert_eq!(offer(&mut port(), &mut header, FrameKind::Ack), Offered::Queued);
        let mut plain = SpcHeader::new(1, 0);
        assert_eq!(offer(&mut port(), &mut plain, FrameKind::Data), Offered::Queued);
    }

    #[test]
    fn a_port_keeps_state_for_tasks_not_flows() {
        let mut port = port();
        for _ in 0..100 {
            let mut header = SpcHeader::new(1, 0).asking(1, 1, &Returned::default());
            offer(&mut port, &mut header, FrameKind::Data);
        }
        assert_eq!((port.tasks(), port.questions()), (1, 100));
    }
}

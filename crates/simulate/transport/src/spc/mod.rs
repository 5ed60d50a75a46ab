//! `spc`: Baraat's Smart Priority Class: switches give tasks rates in the order of their arrival
//! (Dogar et al., SIGCOMM 2014, §4.3).
//!
//! A priority queue lets the first task send at line rate into a link that it will only lose at the
//! next one. SPC tells each flow two rates instead: what it may send now (AR), and what its
//! priority entitles it to (NR). A sender that learns a bottleneck from NR lowers what it demands
//! of all links to that, and links give the rest to later tasks: work is conserved over several
//! hops though switches know tasks, not flows.
//!
//! - `header`: the 26 bytes. `port`: classes and Algorithm 1, and how sums survive lost headers.
//!   Here: Algorithm 2.
//!
//! # What is the paper's and what is not
//! The paper's: header, Algorithms 1 and 2, classes by task-id, heavy tasks by reserved bytes,
//! virtual capacity. It leaves open, and is decided here:
//! - δ of Algorithm 2 is `delta` units of the header's rates; see below.
//! - A flow whose NR is zero asks each round trip, but not more often than each `pause` packets'
//!   times of its link, nor before a 32nd of the time has gone by that it has waited. Flows
//!   wait for long where they are many, so requests take a share of the link that does not grow
//!   with the queue. The price: a flow that has waited for long asks a little late.
//! - What was granted expires: after `epoch` idle round trips without an answer a sender holds
//!   nothing and asks as a new flow; ports forget as `port` says.
//! - A flow whose packets are more than two round trips apart asks with its packets, or each
//!   `pause`: forty flows at 10 Gbps else spend a sixth of the link on requests.
//! - A flow asks while it has more to send than its grant carries in a round trip, and returns the
//!   grant with its last segment.
//! - NR is never above the demand. As printed, line 8 can say more, which changes nothing: the
//!   sender takes it for "no bottleneck" either way; but AR would be unused capacity.
//! - A task's id is the number that a counter gave it (one counter: the order of arrival); smaller
//!   is earlier.
//!
//! # Findings
//! As printed, flows of one class that are held back elsewhere leave capacity unused: line 8
//! divides by all flows of the class. It is the virtual capacity that gives it away, over some of
//! its intervals.
//!
//! δ decides whether links with a queue of tasks are used. A flow that is entitled to nothing
//! demands δ. Where that much is left by chance, since V moves with the queue, it assumes that its
//! bottleneck is gone, demands all, and keeps later tasks off its other links for a round trip. So
//! δ must be above what V moves by; and it must be small beside the link, since the demands of
//! those that wait count as well: 4 units. `docs/spc.md`, "Constants", has the figures of both
//! choices.
//!
//! A link is handed from task to task in three to four round trips: freed, asked for with δ, asked
//! for with all. That is little at 30 µs, and a third of a task of 10 ms at 1 ms (`sim-packet`'s
//! tests of Baraat's Fig 7).
//!
//! Rates are of bytes on the wire. The header's 26 bytes are part of a driver's overhead for each
//! packet.

mod header;
mod port;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

pub use header::{BYTES, GRAIN, PORTS, Returned, SpcHeader, scale_for};
pub use port::{Port, PortConstants};

use crate::capacity::Gains;
use crate::contract::{FlowSetup, PortSetup, SwitchNeeds, Transport};
use crate::paced::{Answer, EchoingReceiver, PacedSender, RateLaw};
use crate::parameters::{self, at_least_one};
use crate::registry::Definition;
use crate::scoreboard::Reliability;

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spc {
    /// Bytes that a task has reserved at a port from which it is heavy there; zero for never.
    pub heavy: Bytes,
    /// Algorithm 2's δ, in units of the header's rates.
    pub delta: u32,
    /// Round trips of an epoch: how long grants last unanswered, and how often sums are rebuilt.
    pub epoch: u32,
    /// Full packets' times on the sender's link between two questions of a flow that is entitled to
    /// nothing, at least.
    pub pause: u32,
    /// [`Gains::spare`].
    pub spare_gain: u32,
    /// [`Gains::queue`].
    pub queue_gain: u32,
    /// Segments that the receiver has room for.
    pub window: u32,
    /// The least retransmission timeout.
    pub minimum_rto: Nanos,
    /// Buffer of a switch port.
    pub buffer: Bytes,
}

impl Default for Spc {
    /// No task is heavy: the threshold is the workload's 80th to 90th percentile (§3.3), which no
    /// default knows. Gains and the rest as for RCP.
    fn default() -> Self {
        Self {
            heavy: Bytes::ZERO,
            delta: 4,
            epoch: 32,
            pause: 16,
            spare_gain: 40,
            queue_gain: 23,
            window: 4_096,
            minimum_rto: Nanos(2_000_000),
            buffer: Bytes(240 * 1_500),
        }
    }
}

/// The part of the time that a flow has waited which passes before it asks again.
const WAITED: u64 = 32;

/// Requests and grants of one sender. Rates are in the header's units.
#[derive(Clone, Debug)]
pub struct Law {
    plain: SpcHeader,
    line: u8,
    delta: u8,
    pause: Nanos,
    /// Time since which it has been entitled to nothing, if it is.
    waits: Option<Instant>,
    /// Bytes of a full packet.
    packet: u64,
    base_rtt: Nanos,
    expires: Nanos,
    round: u8,
    asked: Instant,
    /// Grants counted by ports at the last answered request, and its time.
    returned: Returned,
    counted: Instant,
    granted: u8,
    /// The least NR of the last answer.
    nominal: Option<u8>,
}

impl Law {
    fn new(setup: &FlowSetup, spc: &Spc) -> Self {
        let scale = scale_for(setup.line_rate);
        let packet = u64::from(setup.payload) + u64::from(setup.overhead);
        let pause = packet * 8_000_000_000 / setup.line_rate.get().max(1) * u64::from(spc.pause);
        let expires = setup.base_rtt.get().saturating_mul(u64::from(spc.epoch));
        Self {
            plain: SpcHeader::new(setup.task.0, scale),
            line: setup.line_rate.get().div_ceil(GRAIN.get() << scale).clamp(1, 255) as u8,
            delta: spc.delta.min(255) as u8,
            // Well within the time after which ports forget the flow, which costs one that has
            // waited for long nothing.
            pause: Nanos(pause.min(expires / 4)),
            waits: None,
            packet,
            base_rtt: setup.base_rtt,
            expires: Nanos(expires),
            round: 0,
            asked: setup.start,
            returned: Returned::default(),
            counted: setup.start,
            granted: 0,
            nominal: None,
        }
    }

    fn has_expired(&self, now: Instant) -> bool {
        now.since(self.counted) >= self.expires
    }

    /// Forgets a grant that ports have forgotten as well.
    fn expire(&mut self, now: Instant) {
        if self.has_expired(now) {
            self.returned = Returned::default();
            self.granted = 0;
            // One that waits asks for no more than before: it would keep later tasks off its other
            // links.
            self.nominal = self.nominal.filter(|&nominal| nominal == 0);
        }
    }

    /// Algorithm 2.
    fn demand(&self, unsent: Bytes, round_trip: Nanos) -> u8 {
        let buffered = u128::from(unsent.get()) * 8_000_000_000;
        let unit = u128::from(self.plain.unit() * GRAIN.get()) * u128::from(round_trip.get().max(1));
        let demand = u128::from(self.line).min(buffered.div_ceil(unit)).max(1) as u8;
        match self.nominal {
            Some(nominal) if nominal == 0 || nominal < self.returned.demand => {
                demand.min(nominal.saturating_add(self.delta)).max(1)
            }
            _ => demand,
        }
    }
}

impl RateLaw for Law {
    type Extra = SpcHeader;

    fn rate(&self, now: Instant) -> BitsPerSec {
        if self.has_expired(now) {
            return BitsPerSec::ZERO;
        }
        BitsPerSec(u64::from(self.granted) * self.plain.unit() * GRAIN.get())
    }

    fn holds(&self) -> bool {
        self.returned.demand > 0
    }

    fn ask(&mut self, now: Instant, unsent: Bytes, round_trip: Nanos) -> SpcHeader {
        self.expire(now);
        self.round = self.round.wrapping_add(1);
        self.asked = now;
        self.plain.asking(self.round, self.demand(unsent, round_trip), &self.returned)
    }

    fn plain(&self, _: Instant, _: Bytes) -> SpcHeader {
        self.plain
    }

    fn leave(&mut self, now: Instant) -> SpcHeader {
        self.expire(now);
        self.round = self.round.wrapping_add(1);
        let farewell = self.plain.asking(self.round, 0, &self.returned);
        (self.returned, self.granted, self.nominal) = (Returned::default(), 0, None);
        self.waits = None;
        farewell
    }

    fn answer(&mut self, now: Instant, answer: &SpcHeader) -> Answer {
        let awaited = answer.asks() && answer.round() == self.round & 3 && answer.demand > 0;
        if !awaited {
            return Answer::Stale;
        }
        // Where no port has any logic, nothing holds a flow back.
        let (nominal, actual) = answer.least().unwrap_or((answer.demand, answer.demand));
        self.returned = answer.returned();
        self.counted = self.asked;
        self.granted = actual;
        self.nominal = Some(nominal);
        self.waits = (nominal == 0).then(|| self.waits.unwrap_or(now));
        let waited = self.waits.map_or(Nanos::ZERO, |since| now.since(since));
        let pause = self.pause.get();
        let wait = match (nominal, self.rate(now).get()) {
            (0, _) => pause.max(waited.get() / WAITED).saturating_sub(now.since(self.asked).get()),
            (_, 0) => 0,
            // Its bottleneck is gone: it asks for more at once.
            _ if nominal >= answer.demand => 0,
            (_, rate) => {
                // The next question of a flow with a packet in many round trips rides on that,
                // where it can.
                let gap = self.packet * 8_000_000_000 / rate;
                if gap > 2 * self.base_rtt.get() { gap.min(pause) } else { 0 }
            }
        };
        Answer::AskIn(Nanos(wait))
    }
}

impl Spc {
    /// The law of a flow.
    pub(crate) fn law(&self, setup: &FlowSetup) -> Law {
        Law::new(setup, self)
    }
}

impl Transport for Spc {
    type Extra = SpcHeader;
    type Sender = PacedSender<Law>;
    type Receiver = EchoingReceiver<SpcHeader>;
    type PortLogic = Port;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        PacedSender::new(setup, Law::new(setup, self), Reliability::tcp(self.minimum_rto), self.window)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        EchoingReceiver::new(setup)
    }

    fn port_logic(&self, setup: &PortSetup) -> Port {
        let gains = Gains { spare: self.spare_gain, queue: self.queue_gain };
        let epoch = Nanos(setup.base_rtt.get().max(1).saturating_mul(u64::from(self.epoch)));
        let heavy = (self.heavy > Bytes::ZERO).then_some(self.heavy);
        Port::new(setup, gains, epoch, heavy)
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: false }
    }

    fn wire(header: &SpcHeader, out: &mut Vec<u8>) {
        out.extend(header.to_bytes());
    }

    fn most_hops() -> usize {
        header::PORTS
    }
}

impl Definition for Spc {
    const NAME: &'static str = "spc";
    const TITLE: &'static str = "Baraat: switches give tasks rates in the order of their arrival";
    const SOURCE: &'static str = "Dogar et al., SIGCOMM 2014, §4.3";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "heavy",
            meaning: "bytes reserved at a port from which a task shares its class with the next; 0B for never",
            field: |p| &mut p.heavy,
        },
        Parameter {
            name: "delta",
            meaning: "what a sender asks for above its bottleneck's share, in units of the header (1 to 255)",
            field: |p| &mut p.delta,
        },
        Parameter {
            name: "epoch",
            meaning: "round trips after which unanswered grants expire and ports rebuild their sums",
            field: |p| &mut p.epoch,
        },
        Parameter {
            name: "pause",
            meaning: "full packets' times between two questions of a flow entitled to nothing, at least",
            field: |p| &mut p.pause,
        },
        parameters::spare_gain(|p| &mut p.spare_gain),
        parameters::queue_gain(|p| &mut p.queue_gain),
        parameters::receive_window(|p| &mut p.window),
        parameters::minimum_rto(|p| &mut p.minimum_rto),
        parameters::buffer(|p| &mut p.buffer),
    ];

    fn check(&self) -> Result<(), Complaint> {
        at_least_one("window", self.window)?;
        if !(1..=255).contains(&self.delta) {
            return Err(Complaint::new("delta", "from 1 to 255".to_owned()));
        }
        if !(16..=1 << 16).contains(&self.epoch) {
            // A question is given up after four round trips, and then after eight.
            return Err(Complaint::new("epoch", "from 16 to 65536".to_owned()));
        }
        Ok(())
    }
}

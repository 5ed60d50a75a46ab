//! `rcp`: fair shares told by switches that count flows (RCP, with the exact count of Baraat's
//! baseline).
//!
//! RCP's switches estimate one rate for all their flows (Dukkipati, thesis 2008; docs/protocols.md
//! §5.1). Baraat compares itself with a form that knows more: "information about the exact number
//! of active flows at the router", so that "sources know exactly the rate they should transmit at"
//! (§5.1, footnote 6). A port here keeps the list of its flows, and grants each
//!
//! > R = min(C, V / N)
//!
//! with the virtual capacity V of [`crate::capacity`], C at every change of N. So N flows with one
//! bottleneck have their share one round trip after the last of them came; and where flows are held
//! back elsewhere, V rises until the link is full, which is max–min fairness.
//!
//! # Invariants
//! - State per flow: 12 bytes of number and time, in a tree. That is what SPC does without.
//! - A flow joins with its first header and leaves with its last segment. One that fell silent is
//!   forgotten: after four times as long as a packet of each flow and a round trip take. So lost
//!   headers cost bandwidth for no longer.
//! - A header's rate only falls along the path; the sender follows each answer.
//!
//! The rate is not held above a packet for each round trip, as RCP's code does: with exact counts
//! and paced senders, slower is as exact.

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::capacity::{Gains, VirtualCapacity};
use crate::contract::{FlowSetup, PortLogic, PortSetup, SwitchNeeds, Transport};
use crate::known_flows::KnownFlows;
use crate::paced::{Answer, EchoingReceiver, PacedSender, RateLaw};
use crate::packet::{Flags, Header};
use crate::parameters::{self, at_least_one};
use crate::registry::Definition;
use crate::scoreboard::Reliability;

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rcp {
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

impl Default for Rcp {
    /// The gains for which RCP's thesis shows stability, 0.4 and 0.226 (remembered). Its authors'
    /// scripts have 0.4 and 1 (docs/protocols.md §5.1), which oscillates here: 24 flows that begin
    /// at once over 1 ms and 1 Gbps then take 17 % longer than their bytes do, in place of 3 %. The
    /// rest as for the window transports.
    fn default() -> Self {
        Self {
            spare_gain: 40,
            queue_gain: 23,
            window: 4_096,
            minimum_rto: Nanos(2_000_000),
            buffer: Bytes(240 * 1_500),
        }
    }
}

/// Content of an RCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// The least that a port of the path has granted.
    pub rate: BitsPerSec,
}

/// State of one sender.
#[derive(Clone, Debug)]
pub struct Law {
    line: BitsPerSec,
    granted: BitsPerSec,
}

impl Law {
    /// For a flow on a line; it is granted nothing yet.
    pub(crate) fn new(line: BitsPerSec) -> Self {
        Self { line, granted: BitsPerSec::ZERO }
    }
}

impl RateLaw for Law {
    type Extra = Rate;

    fn rate(&self, _: Instant) -> BitsPerSec {
        self.granted
    }

    fn holds(&self) -> bool {
        false
    }

    fn ask(&mut self, now: Instant, unsent: Bytes, _: Nanos) -> Rate {
        self.plain(now, unsent)
    }

    fn plain(&self, _: Instant, _: Bytes) -> Rate {
        Rate { rate: self.line }
    }

    fn leave(&mut self, _: Instant) -> Rate {
        unreachable!("a flow leaves with its last segment: `holds` is never true")
    }

    fn answer(&mut self, _: Instant, answer: &Rate) -> Answer {
        self.granted = answer.rate;
        Answer::Settled
    }
}

/// One port: who its flows are.
#[derive(Clone, Debug)]
pub struct Port {
    rate: BitsPerSec,
    capacity: VirtualCapacity,
    flows: KnownFlows<()>,
}

impl Port {
    /// Returns the number of flows counted.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }
}

impl PortLogic<Rate> for Port {
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, extra: &mut Rate) {
        let changed = if header.flags.contains(Flags::LAST) {
            self.flows.leave(header.flow).is_some()
        } else {
            self.flows.hear(header.flow, now)
        };
        let flows = self.flows.len().max(1);
        let most = BitsPerSec(self.rate.get().saturating_mul(flows as u64));
        let ended = self.capacity.arrive(now, header.size, backlog, most, flows);
        if changed || (ended && self.flows.forget_the_silent(now, |()| ())) {
            self.capacity.hold(now);
        }
        let share = self.capacity.rate().get() / self.flows.len().max(1) as u64;
        extra.rate = extra.rate.min(BitsPerSec(share.clamp(1, self.rate.get().max(1))));
    }
}

impl Transport for Rcp {
    type Extra = Rate;
    type Sender = PacedSender<Law>;
    type Receiver = EchoingReceiver<Rate>;
    type PortLogic = Port;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        PacedSender::new(setup, Law::new(setup.line_rate), Reliability::tcp(self.minimum_rto), self.window)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        EchoingReceiver::new(setup)
    }

    fn port_logic(&self, setup: &PortSetup) -> Port {
        let gains = Gains { spare: self.spare_gain, queue: self.queue_gain };
        Port {
            rate: setup.rate,
            capacity: VirtualCapacity::new(setup.rate, setup.base_rtt, gains),
            flows: KnownFlows::new(setup.rate, setup.base_rtt),
        }
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: false }
    }
}

impl Definition for Rcp {
    const NAME: &'static str = "rcp";
    const TITLE: &'static str = "RCP: switches that count flows tell each its fair share";
    const SOURCE: &'static str =
        "Dukkipati, 2008; with the exact number of flows of Dogar et al., SIGCOMM 2014, §5.1";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        parameters::spare_gain(|p| &mut p.spare_gain),
        parameters::queue_gain(|p| &mut p.queue_gain),
        parameters::receive_window(|p| &mut p.window),
        parameters::minimum_rto(|p| &mut p.minimum_rto),
        parameters::buffer(|p| &mut p.buffer),
    ];

    fn check(&self) -> Result<(), Complaint> {
        at_least_one("window", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Kind;

    const LINK: BitsPerSec = BitsPerSec(1_000_000_000);

    fn port() -> Port {
        let setup = PortSetup { rate: LINK, delay: Nanos(1_000), base_rtt: Nanos(20_000), port: 0 };
        Rcp::default().port_logic(&setup)
    }

    fn grant(port: &mut Port, now: u64, flow: u32, flags: Flags) -> u64 {
        let mut header = Header { flow, kind: Kind::Data, size: 1_500, flags, ..Header::default() };
        let mut extra = Rate { rate: LINK };
        port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut extra);
        extra.rate.get()
    }

    #[test]
    fn each_flow_is_told_its_share_of_the_exact_number() {
        let mut port = port();
        for flow in 0..10u64 {
            assert_eq!(grant(&mut port, flow, flow as u32, Flags::NONE), LINK.get() / (flow + 1));
        }
        assert_eq!(grant(&mut port, 20, 3, Flags::NONE), LINK.get() / 10, "known already");
        for flow in 0..9 {
            grant(&mut port, 30, flow, Flags::LAST);
        }
        assert_eq!(grant(&mut port, 40, 9, Flags::NONE), LINK.get(), "nine have sent their last");
    }

    #[test]
    fn a_flow_whose_last_segment_was_lost_is_forgotten() {
        let mut port = port();
        grant(&mut port, 0, 1, Flags::NONE);
        grant(&mut port, 0, 2, Flags::NONE);
        let patience = port.flows.patience().get();
        for now in (0..patience).step_by(10_000) {
            assert_eq!(port.flows(), 2);
            grant(&mut port, now, 1, Flags::NONE);
        }
        grant(&mut port, patience + 30_000, 1, Flags::NONE);
        assert_eq!(port.flows(), 1);
    }

    #[test]
    fn a_rate_only_falls_along_the_path() {
        let mut header = Header::default();
        let mut extra = Rate { rate: BitsPerSec(5) };
        port().arrive(Instant(1), Bytes::ZERO, &mut header, &mut extra);
        assert_eq!(extra.rate, BitsPerSec(5));
    }
}

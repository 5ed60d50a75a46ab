//! `d3`: flows ask for the rate that meets their deadline, and switches reserve it, first come,
//! first served (Wilson, Ballani, Karagiannis, Rowstron, SIGCOMM 2011; docs/protocols.md §5.2).
//!
//! A flow with a deadline asks for r = remaining / time left, one without asks for nothing. A port
//! that has so much left grants it and a fair share of unrequested capacity; else it grants what is
//! left:
//!
//! > A ← A − a⁻, D ← D − r⁻ + r, left = C − A, fs = max(0, (C − D) / N),
//! > a = r + fs if left > r, else left
//!
//! Once in a round trip each flow returns its grant and asks again. First come is first served: a
//! request that came a moment earlier is kept, however far its deadline is. That is D3's known
//! weakness (PDQ §2.2), and it is kept.
//!
//! # What differs from the paper
//! - The header of the paper holds the last request and every hop's last grant, so that routers
//!   need no state for flows; whatever header is lost leaks bandwidth. A port here keeps both for
//!   each flow (`KnownFlows`), and forgets who is silent. Where nothing is lost, grants are the
//!   same.
//! - The paper ends a flow whose deadline has passed, or needs more than its link (quenching). Here
//!   every byte is to be delivered, so such a flow goes on as one without a deadline.
//! - A flow that is granted nothing may send no data, and asks again a round trip later: the
//!   paper's base rate.
//! - C is the virtual capacity of [`crate::capacity`], never above the link's rate.

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
pub struct D3 {
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

impl Default for D3 {
    /// The same as RCP's.
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

/// Content of a D3 header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Number of the request, if it makes one.
    pub asks: Option<u8>,
    /// Rate that meets the flow's deadline.
    pub desired: BitsPerSec,
    /// The least that a port of the path has granted.
    pub granted: BitsPerSec,
}

/// Requests and grants of one sender.
#[derive(Clone, Debug)]
pub struct Law {
    line: BitsPerSec,
    deadline: Option<Instant>,
    base_rtt: Nanos,
    granted: BitsPerSec,
    round: u8,
}

impl Law {
    /// remaining / time left; nothing where there is no deadline, or it cannot be met.
    fn desired(&self, now: Instant, unsent: Bytes) -> BitsPerSec {
        let left = self.deadline.filter(|&deadline| deadline > now).map(|deadline| deadline.since(now));
        let needed = left.map(|left| {
            let bits = u128::from(unsent.get()) * 8_000_000_000;
            u64::try_from(bits.div_ceil(u128::from(left.get()))).unwrap_or(u64::MAX)
        });
        needed.map(BitsPerSec).filter(|&needed| needed <= self.line).unwrap_or(BitsPerSec::ZERO)
    }
}

impl RateLaw for Law {
    type Extra = Request;

    fn rate(&self, _: Instant) -> BitsPerSec {
        self.granted
    }

    fn holds(&self) -> bool {
        // A port forgets a flow at its last segment.
        false
    }

    fn ask(&mut self, now: Instant, unsent: Bytes, _: Nanos) -> Request {
        self.round = self.round.wrapping_add(1);
        Request { asks: Some(self.round), desired: self.desired(now, unsent), granted: self.line }
    }

    fn plain(&self, _: Instant, _: Bytes) -> Request {
        Request::default()
    }

    fn leave(&mut self, _: Instant) -> Request {
        unreachable!("a flow leaves with its last segment: `holds` is never true")
    }

    fn answer(&mut self, _: Instant, answer: &Request) -> Answer {
        if answer.asks != Some(self.round) {
            return Answer::Stale;
        }
        self.granted = answer.granted;
        // The answer took a round trip, so who asks at once asks once in each.
        Answer::AskIn(if self.granted > BitsPerSec::ZERO { Nanos::ZERO } else { self.base_rtt })
    }
}

/// Reservation of one flow at a port.
#[derive(Clone, Copy, Debug, Default)]
struct Reserved {
    desired: u64,
    granted: u64,
}

/// One port: what it has given away.
#[derive(Clone, Debug)]
pub struct Port {
    rate: BitsPerSec,
    capacity: VirtualCapacity,
    flows: KnownFlows<Reserved>,
    /// A: the sum of all grants. D: the sum of all requests.
    granted: u64,
    desired: u64,
}

impl Port {
    fn give_back(&mut self, reserved: Reserved) {
        self.granted -= reserved.granted;
        self.desired -= reserved.desired;
    }

    /// Returns the rate handed out.
    pub fn granted(&self) -> BitsPerSec {
        BitsPerSec(self.granted)
    }

    /// D3's allocation, for a flow that is known and has returned what it had.
    fn allocate(&self, desired: u64) -> u64 {
        let capacity = self.capacity.rate().get().min(self.rate.get());
        let left = capacity.saturating_sub(self.granted);
        let share = capacity.saturating_sub(self.desired) / self.flows.len().max(1) as u64;
        if left > desired { desired + share } else { left }
    }
}

impl PortLogic<Request> for Port {
    fn arrive(&mut self, now: Instant, backlog: Bytes, header: &mut Header, request: &mut Request) {
        if self.capacity.arrive(now, header.size, backlog, self.rate, 0) {
            let mut gone = Reserved::default();
            self.flows.forget_the_silent(now, |reserved| {
                gone.granted += reserved.granted;
                gone.desired += reserved.desired;
            });
            self.give_back(gone);
        }
        if header.flags.contains(Flags::LAST) {
            if let Some(reserved) = self.flows.leave(header.flow) {
                self.give_back(reserved);
            }
            return;
        }
        if request.asks.is_none() {
            if self.flows.get_mut(header.flow).is_some() {
                self.flows.hear(header.flow, now);
            }
            return;
        }
        self.flows.hear(header.flow, now);
        let before = self.flows.get_mut(header.flow).map(std::mem::take).unwrap_or_default();
        self.give_back(before);
        let desired = request.desired.get();
        self.desired += desired;
        let granted = self.allocate(desired).min(request.granted.get());
        self.granted += granted;
        if let Some(reserved) = self.flows.get_mut(header.flow) {
            *reserved = Reserved { desired, granted };
        }
        request.granted = BitsPerSec(granted);
    }
}

impl Transport for D3 {
    type Extra = Request;
    type Sender = PacedSender<Law>;
    type Receiver = EchoingReceiver<Request>;
    type PortLogic = Port;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        let law = Law {
            line: setup.line_rate,
            deadline: setup.deadline,
            base_rtt: setup.base_rtt,
            granted: BitsPerSec::ZERO,
            round: 0,
        };
        PacedSender::new(setup, law, Reliability::tcp(self.minimum_rto), self.window)
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
            granted: 0,
            desired: 0,
        }
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: false }
    }
}

impl Definition for D3 {
    const NAME: &'static str = "d3";
    const TITLE: &'static str =
        "D3: switches reserve the rates that deadlines need, first come, first served";
    const SOURCE: &'static str = "Wilson et al., SIGCOMM 2011";
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

    const LINK: u64 = 1_000_000_000;

    fn port() -> Port {
        let rate = BitsPerSec(LINK);
        let setup = PortSetup { rate, delay: Nanos(1_000), base_rtt: Nanos(20_000), port: 0 };
        D3::default().port_logic(&setup)
    }

    fn ask(port: &mut Port, now: u64, flow: u32, desired: u64, flags: Flags) -> u64 {
        let mut header = Header { flow, kind: Kind::Probe, size: 40, flags, ..Header::default() };
        let (desired, granted) = (BitsPerSec(desired), BitsPerSec(LINK));
        let mut request = Request { asks: Some(1), desired, granted };
        port.arrive(Instant(now), Bytes::ZERO, &mut header, &mut request);
        request.granted.get()
    }

    #[test]
    fn a_request_is_granted_with_a_share_of_what_nobody_asked_for() {
        let mut port = port();
        assert_eq!(ask(&mut port, 1, 0, LINK / 4, Flags::NONE), LINK);
        // The first has all of it; the second has nothing until the first asks again.
        assert_eq!(ask(&mut port, 2, 1, LINK / 4, Flags::NONE), 0);
        assert_eq!(ask(&mut port, 3, 0, LINK / 4, Flags::NONE), LINK / 2);
        assert_eq!(ask(&mut port, 4, 1, LINK / 4, Flags::NONE), LINK / 2);
        assert_eq!(port.granted(), BitsPerSec(LINK));
    }

    #[test]
    fn who_came_first_is_served_first_however_far_its_deadline_is() {
        let mut port = port();
        ask(&mut port, 1, 0, LINK * 8 / 10, Flags::NONE);
        ask(&mut port, 2, 1, LINK * 9 / 10, Flags::NONE);
        // The second is nearer to its deadline, and has what the first leaves.
        assert_eq!(ask(&mut port, 3, 0, LINK * 8 / 10, Flags::NONE), LINK * 8 / 10);
        assert_eq!(ask(&mut port, 4, 1, LINK * 9 / 10, Flags::NONE), LINK * 2 / 10);
    }

    #[test]
    fn what_left_or_fell_silent_holds_nothing() {
        let mut port = port();
        ask(&mut port, 1, 0, LINK / 4, Flags::NONE);
        ask(&mut port, 2, 0, LINK / 4, Flags::LAST);
        assert_eq!(port.granted(), BitsPerSec::ZERO);
        ask(&mut port, 3, 1, LINK / 4, Flags::NONE);
        let patience = port.flows.patience().get();
        let late = 3 + patience + 1_000_000;
        ask(&mut port, late, 2, 0, Flags::NONE);
        assert_eq!(ask(&mut port, late + 1, 2, 0, Flags::NONE), LINK, "the silent one is forgotten");
    }

    #[test]
    fn a_deadline_that_cannot_be_met_asks_for_nothing() {
        let law = Law {
            line: BitsPerSec(LINK),
            deadline: Some(Instant(1_000_000)),
            base_rtt: Nanos(20_000),
            granted: BitsPerSec::ZERO,
            round: 0,
        };
        assert_eq!(law.desired(Instant(0), Bytes(62_500)), BitsPerSec(LINK / 2));
        assert_eq!(law.desired(Instant(600_000), Bytes(62_500)), BitsPerSec::ZERO);
        assert_eq!(law.desired(Instant(1_000_000), Bytes(1)), BitsPerSec::ZERO);
    }
}

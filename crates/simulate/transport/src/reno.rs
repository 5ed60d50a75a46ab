//! `reno`: the window law of TCP before marks (RFC 5681): slow start, one segment more for each
//! round trip, half after a loss, one after a timeout.
//!
//! The baseline that everything is compared with; its queues fill until they overflow. Loss
//! recovery is that of the [`crate::scoreboard`], with selective acknowledgements, so this is what
//! the literature calls NewReno with SACK.

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::aimd::Aimd;
use crate::contract::{FlowSetup, NoLogic, PortSetup, SwitchNeeds, Transport};
use crate::parameters::{self, at_least_one};
use crate::registry::Definition;
use crate::scoreboard::Reliability;
use crate::window::{Ack, Acknowledging, WindowLaw, WindowReceiver, WindowSender};

/// The parameters of [`Law`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reno {
    /// Segments that a flow starts with (RFC 6928: 10).
    pub initial_window: u32,
    /// The least retransmission timeout.
    pub minimum_rto: Nanos,
    /// An acknowledgement for so many segments.
    pub ack_every: u32,
    /// Segments that the receiver has room for.
    pub window: u32,
    /// Buffer of a switch port.
    pub buffer: Bytes,
}

impl Default for Reno {
    /// The settings of PIAS's scripts (docs/protocols.md §2.2) but for the initial window: 2 ms,
    /// 240 packets; and more room than any of its flows fills.
    fn default() -> Self {
        Self {
            initial_window: 10,
            minimum_rto: Nanos(2_000_000),
            ack_every: 1,
            window: 4_096,
            buffer: Bytes(240 * 1_500),
        }
    }
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Law {
    window: Aimd,
    /// The receiver's.
    room: u32,
}

impl WindowLaw for Law {
    const ECN: bool = false;

    fn window(&self) -> u32 {
        self.window.window().min(self.room)
    }

    fn on_ack(&mut self, ack: &Ack) {
        // Beyond what the receiver has room for it grows in slow start alone, to twice that, as in
        // Linux.
        let most = if self.window.in_slow_start() { self.room.saturating_mul(2) } else { self.room };
        if ack.limited && !ack.recovering && self.window.window() < most {
            self.window.grow(ack.segments);
        }
    }

    fn on_loss(&mut self, _: &Ack) {
        self.window.cut_to(self.window.window() / 2, 2);
    }

    fn on_timeout(&mut self, _: Instant) {
        self.window.restart();
    }

    fn set_weight(&mut self, thousandths: u32) {
        self.window.set_weight(thousandths);
    }
}

impl Transport for Reno {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        let law = Law { window: Aimd::new(self.initial_window), room: self.window };
        WindowSender::new(setup, law, Reliability::tcp(self.minimum_rto))
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        WindowReceiver::new(setup, Acknowledging { every: self.ack_every, ..Acknowledging::default() })
    }

    fn port_logic(&self, _: &PortSetup) -> Self::PortLogic {
        NoLogic
    }

    fn weighs() -> bool {
        true
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: false }
    }
}

impl Definition for Reno {
    const NAME: &'static str = "reno";
    const TITLE: &'static str = "TCP Reno with selective acknowledgements over drop-tail queues";
    const SOURCE: &'static str = "RFC 5681, RFC 6675, RFC 6298";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        parameters::initial_window(|p| &mut p.initial_window),
        parameters::minimum_rto(|p| &mut p.minimum_rto),
        parameters::ack_every(|p| &mut p.ack_every),
        parameters::receive_window(|p| &mut p.window),
        parameters::buffer(|p| &mut p.buffer),
    ];

    fn check(&self) -> Result<(), Complaint> {
        at_least_one("initial_window", self.initial_window)?;
        at_least_one("ack_every", self.ack_every)?;
        at_least_one("window", self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments that were acknowledged while the window was what held the sender back.
    fn ack(segments: u32) -> Ack {
        Ack {
            now: Instant::ZERO,
            segments,
            marked: false,
            una: 200,
            next: 216,
            end: 400,
            recovering: false,
            limited: true,
            round_trip: Nanos(1),
        }
    }

    #[test]
    fn a_receiver_without_room_holds_the_window_and_ends_its_growth() {
        let mut law = Law { window: Aimd::new(10), room: 16 };
        (0..100).for_each(|_| law.on_ack(&ack(2)));
        assert_eq!((law.window(), law.window.window()), (16, 32));
        law.on_loss(&ack(0));
        (0..100).for_each(|_| law.on_ack(&ack(2)));
        assert_eq!((law.window(), law.window.window()), (16, 16), "after slow start it grows no further");
    }
}

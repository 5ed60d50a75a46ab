//! `pfabric`: send at line rate, and let switches keep what is most urgent (Alizadeh et al.,
//! SIGCOMM 2013).
//!
//! Each packet carries how much of its flow remains. A switch with a very small buffer sends the
//! flow with the least remaining first and drops from the one with the most, so the sender needs
//! next to no rate control (§4.2): it starts with a bandwidth–delay product, waits for a fixed and
//! short timeout without backoff, and sends nothing twice before. After `probe_after` timeouts in a
//! row it sends headers only, until one is answered: losses are what scheduling does to it here,
//! and a starved flow must not fill the links to its first switch.
//!
//! The numbers are those of docs/protocols.md §4. The timeout is three base round trips there (45
//! µs at 14.6 µs) and follows the base round trip here, so that it means the same on other fabrics.

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
pub struct Pfabric {
    /// Segments that a flow starts with and has at most.
    pub window: u32,
    /// The retransmission timeout.
    pub rto: Nanos,
    /// After so many timeouts in a row only probes are sent.
    pub probe_after: u32,
    /// Buffer of a switch port.
    pub buffer: Bytes,
}

impl Default for Pfabric {
    /// Those of the simulator of pFabric's and pHost's comparison (docs/protocols.md §4: yaps): 12
    /// segments, 45 µs, 36,864 B.
    fn default() -> Self {
        Self { window: 12, rto: Nanos(45_000), probe_after: 5, buffer: Bytes(36_864) }
    }
}

/// The window of one flow: slow start after a timeout, and never above the first.
#[derive(Clone, Debug)]
pub struct Law {
    window: Aimd,
    most: u32,
}

impl WindowLaw for Law {
    const ECN: bool = false;

    fn window(&self) -> u32 {
        self.window.window().min(self.most)
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.window.window() < self.most {
            self.window.grow(ack.segments);
        }
    }

    fn on_loss(&mut self, _: &Ack) {}

    fn on_timeout(&mut self, _: Instant) {
        self.window.restart();
    }
}

impl Transport for Pfabric {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        let law = Law { window: Aimd::new(self.window), most: self.window };
        let reliability = Reliability {
            fast_retransmit: false,
            minimum_rto: self.rto,
            adaptive_rto: false,
            backoff: false,
            probe_after: self.probe_after,
        };
        WindowSender::new(setup, law, reliability)
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        WindowReceiver::new(setup, Acknowledging::default())
    }

    fn port_logic(&self, _: &PortSetup) -> Self::PortLogic {
        NoLogic
    }

    fn needs(&self) -> SwitchNeeds {
        SwitchNeeds { marking: None, buffer: self.buffer, shortest_first: true }
    }
}

impl Definition for Pfabric {
    const NAME: &'static str = "pfabric";
    const TITLE: &'static str = "pFabric: switches send what has least remaining and drop what has most";
    const SOURCE: &'static str = "Alizadeh et al., SIGCOMM 2013, §4";
    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "window",
            meaning: "segments that a flow starts with and has at most",
            field: |p| &mut p.window,
        },
        Parameter { name: "rto", meaning: "the retransmission timeout", field: |p| &mut p.rto },
        Parameter {
            name: "probe_after",
            meaning: "timeouts in a row after which only probes are sent; 0 for never",
            field: |p| &mut p.probe_after,
        },
        parameters::buffer(|p| &mut p.buffer),
    ];

    fn check(&self) -> Result<(), Complaint> {
        at_least_one("window", self.window)?;
        if self.rto == Nanos::ZERO {
            return Err(Complaint::new("rto", "a time above 0ns".to_owned()));
        }
        Ok(())
    }
}

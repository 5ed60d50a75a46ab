//! `dctcp`: cut the window by the share of packets that met a queue (Alizadeh et al., SIGCOMM 2010;
//! RFC 8257).
//!
//! A switch marks every packet that joins a queue of `marking` bytes or more. A sender estimates
//! the share of marked segments, once for each window, and on a mark cuts its window by half of
//! that share, at most once for each window: one marked packet costs little, a window full of them
//! as much as a loss. So queues stay short and links stay busy.
//!
//! # The law (docs/protocols.md §3.1)
//! `α ← (1 − g)·α + g·F` for each window, F the marked share of what was delivered, g =
//! 1/`gain_divisor`, α = 1 at the start; on a mark `W ← max(2, W·(1 − α/2))`, and no growth until
//! the window that was out then has arrived. Loss halves, as in Reno.
//!
//! α is a fraction of 2²⁰: Linux's 2¹⁰ stops falling at 15/1024, which keeps cutting flows that are
//! never marked much.

use cavalcade_model::{Bytes, Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::aimd::Aimd;
use crate::contract::{FlowSetup, NoLogic, PortSetup, SwitchNeeds, Transport};
use crate::parameters::at_least_one;
use crate::registry::Definition;
use crate::scoreboard::Reliability;
use crate::window::{Ack, Acknowledging, WindowLaw, WindowReceiver, WindowSender};

/// The parameters of [`Law`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dctcp {
    /// Segments that a flow starts with.
    pub initial_window: u32,
    /// 1/g; at least 1.
    pub gain_divisor: u32,
    /// The least retransmission timeout.
    pub minimum_rto: Nanos,
    /// An acknowledgement for so many segments.
    pub ack_every: u32,
    /// Switches mark what joins a queue that holds so much or more: K.
    pub marking: Bytes,
    /// Buffer of a switch port.
    pub buffer: Bytes,
}

impl Default for Dctcp {
    /// K = 65 packets as in the paper for 10 Gbps, g = 1/16, and the buffers and timers of PIAS's
    /// scripts.
    fn default() -> Self {
        Self {
            initial_window: 10,
            gain_divisor: 16,
            minimum_rto: Nanos(2_000_000),
            ack_every: 1,
            marking: Bytes(65 * 1_500),
            buffer: Bytes(240 * 1_500),
        }
    }
}

impl Dctcp {
    /// The law of a flow that starts: for drivers that have a scoreboard of their own, such as the
    /// kernel's TCP.
    pub fn law(&self, _: &FlowSetup) -> Law {
        Law::new(self)
    }
}

/// One, as a fraction of 2²⁰.
pub const ONE: u32 = 1 << 20;

/// The running estimate of the share of segments that are marked.
#[derive(Clone, Debug)]
pub struct MarkedShare {
    alpha: u32,
    gain_divisor: u32,
    delivered: u32,
    marked: u32,
    /// The window under observation ends when this segment arrives.
    window_end: u32,
}

impl MarkedShare {
    /// Begins with α = 1, as Linux does: the first mark counts as a loss.
    pub fn new(gain_divisor: u32) -> Self {
        Self { alpha: ONE, gain_divisor: gain_divisor.max(1), delivered: 0, marked: 0, window_end: 0 }
    }

    /// α, as a fraction of [`ONE`].
    pub fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Counts an acknowledgement. Returns whether it ended a window.
    #[inline]
    pub fn count(&mut self, ack: &Ack) -> bool {
        self.delivered += ack.segments;
        if ack.marked {
            self.marked += ack.segments;
        }
        if ack.una < self.window_end {
            return false;
        }
        if self.delivered > 0 {
            let share = (u64::from(self.marked) * u64::from(ONE) / u64::from(self.delivered)) as u32;
            self.alpha = self.alpha - self.alpha / self.gain_divisor + share / self.gain_divisor;
            self.alpha = self.alpha.min(ONE);
        }
        (self.delivered, self.marked) = (0, 0);
        self.window_end = ack.next;
        true
    }
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Law {
    window: Aimd,
    share: MarkedShare,
    /// The window was cut when this segment was the next to send; it is not cut again before all
    /// below have arrived.
    cut_end: u32,
}

impl Law {
    /// For a flow that starts.
    pub(crate) fn new(settings: &Dctcp) -> Self {
        let share = MarkedShare::new(settings.gain_divisor);
        Self { window: Aimd::new(settings.initial_window), share, cut_end: 0 }
    }

    /// α, as a fraction of [`ONE`].
    pub fn alpha(&self) -> u32 {
        self.share.alpha()
    }

    /// Takes an acknowledgement; where a mark cuts the window, `cut` says of window and α by how
    /// many segments. What D2TCP and TAFE change of DCTCP is this function alone.
    #[inline]
    pub(crate) fn acknowledge(&mut self, ack: &Ack, cut: impl FnOnce(u32, u32) -> u32) {
        self.share.count(ack);
        if ack.una < self.cut_end || ack.recovering {
            return;
        }
        if ack.marked && ack.segments > 0 {
            let window = self.window.window();
            self.window.cut_to(window.saturating_sub(cut(window, self.share.alpha())), 2);
            self.cut_end = ack.next;
        } else if ack.limited {
            self.window.grow(ack.segments);
        }
    }
}

impl WindowLaw for Law {
    const ECN: bool = true;

    fn window(&self) -> u32 {
        self.window.window()
    }

    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        self.acknowledge(ack, |window, alpha| {
            (u64::from(window) * u64::from(alpha) / (2 * u64::from(ONE))) as u32
        });
    }

    fn on_loss(&mut self, ack: &Ack) {
        // A window that marks have cut in this round trip is not cut again.
        if ack.una >= self.cut_end {
            self.window.cut_to(self.window.window() / 2, 2);
            self.cut_end = ack.next;
        }
    }

    fn on_timeout(&mut self, _: Instant) {
        self.window.restart();
    }

    fn set_weight(&mut self, thousandths: u32) {
        self.window.set_weight(thousandths);
    }
}

/// The parameters of a transport that has a [`Dctcp`] in the field named, or is one; its own behind
/// them.
macro_rules! dctcp_parameters {
    ($($field:ident)? $(; $($own:expr),+ $(,)?)?) => {
        &[
            $crate::parameters::initial_window(|p| &mut p.$($field.)?initial_window),
            Parameter {
                name: "gain_divisor",
                meaning: "1/g: over how many windows the marked share is averaged",
                field: |p| &mut p.$($field.)?gain_divisor,
            },
            $crate::parameters::minimum_rto(|p| &mut p.$($field.)?minimum_rto),
            $crate::parameters::ack_every(|p| &mut p.$($field.)?ack_every),
            Parameter {
                name: "marking",
                meaning: "K: switches mark what joins a queue of so much or more",
                field: |p| &mut p.$($field.)?marking,
            },
            $crate::parameters::buffer(|p| &mut p.$($field.)?buffer),
            $($($own),+)?
        ]
    };
}
pub(crate) use dctcp_parameters;

impl Transport for Dctcp {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        WindowSender::new(setup, self.law(setup), Reliability::tcp(self.minimum_rto))
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
        SwitchNeeds { marking: Some(self.marking), buffer: self.buffer, shortest_first: false }
    }
}

impl Definition for Dctcp {
    const NAME: &'static str = "dctcp";
    const TITLE: &'static str = "DCTCP: the window is cut by the share of packets that met a queue";
    const SOURCE: &'static str = "Alizadeh et al., SIGCOMM 2010, §3; RFC 8257";
    const PARAMETERS: &'static [Parameter<Self>] = dctcp_parameters!();

    fn check(&self) -> Result<(), Complaint> {
        if self.marking >= self.buffer {
            return Err(Complaint::new("marking", format!("less than the buffer of {}", self.buffer)));
        }
        at_least_one("initial_window", self.initial_window)?;
        at_least_one("gain_divisor", self.gain_divisor)?;
        at_least_one("ack_every", self.ack_every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(una: u32, next: u32, marked: bool) -> Ack {
        Ack {
            now: Instant::ZERO,
            segments: 1,
            marked,
            una,
            next,
            end: u32::MAX,
            recovering: false,
            limited: true,
            round_trip: Nanos(1),
        }
    }

    impl Law {
        /// Puts α to a value that stays until segment `window_end` arrives: for the tests of laws
        /// built on this one.
        pub(crate) fn observe(&mut self, alpha: u32, window_end: u32) {
            (self.share.alpha, self.share.window_end) = (alpha, window_end);
        }
    }

    fn law() -> Law {
        Law::new(&Dctcp { initial_window: 20, ..Dctcp::default() })
    }

    #[test]
    fn one_mark_cuts_once_for_a_window_by_half_of_alpha() {
        let mut law = law();
        law.observe(ONE / 4, 1_000);
        law.on_ack(&ack(1, 21, true));
        assert_eq!(law.window(), 20 - 2, "20 · ¼ / 2, rounded down");
        law.on_ack(&ack(2, 22, true));
        assert_eq!(law.window(), 18, "not again in this window");
        law.on_ack(&ack(21, 40, true));
        assert_eq!(law.window(), 16);
    }

    #[test]
    fn alpha_is_the_average_of_marked_shares_over_windows() {
        let mut share = MarkedShare::new(16);
        share.count(&ack(0, 10, false));
        for una in 1..=10 {
            share.count(&ack(una, 20, una <= 5));
        }
        // After the first window (of one, unmarked) 15/16; then 15/16 of that and 1/16 of a half.
        let expected = 15.0 / 16.0 * 15.0 / 16.0 + 0.5 / 16.0;
        assert!((f64::from(share.alpha()) / f64::from(ONE) - expected).abs() < 1e-5);
    }
}

//! `d2tcp`: DCTCP in which a flow whose deadline is near gives less of its window away (Vamanan et
//! al., SIGCOMM 2012).
//!
//! DCTCP cuts all flows by the same share, whether they have a millisecond left or a second. D2TCP
//! raises the marked share to the power of an urgency: `p = α^d`. Since α ≤ 1, an urgent flow
//! (d > 1) has the smaller p and keeps what a flow with time to spare (d < 1) lets go. Where α is 1
//! all cut alike, so that no urgency can make congestion collapse.
//!
//! # The law (docs/protocols.md §3.2)
//! - `T_c = B / (¾·W) · RTT`: what the B remaining segments take at the mean of the sawtooth;
//! - `d = clamp(T_c / D, least_percent, most_percent)`, D what is left until the deadline;
//! - on a mark `W ← W·(1 − α^d / 2)`, once for each window; everything else as in [`crate::dctcp`].
//!
//! # What is doubtful
//! - Without a deadline d = 1, which is DCTCP: the paper's rule as we remember it. The code of
//!   pFabric's authors has p = 1.
//! - Past the deadline that code takes the flow for the least urgent, `d = least_percent`: it
//!   cannot be helped any more and makes room. `late_yields=false` takes it for the most urgent.

use cavalcade_model::{Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::contract::{FlowSetup, NoLogic, PortSetup, SwitchNeeds, Transport};
use crate::dctcp::{self, Dctcp, ONE, dctcp_parameters};
use crate::parameters::at_least_one;
use crate::registry::Definition;
use crate::scoreboard::Reliability;
use crate::window::{Ack, WindowLaw, WindowReceiver, WindowSender};

/// The parameters of [`Law`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct D2tcp {
    /// Parameters shared with DCTCP.
    pub dctcp: Dctcp,
    /// The least urgency, in hundredths; at least 1.
    pub least_percent: u32,
    /// The greatest urgency, in hundredths; not below the least.
    pub most_percent: u32,
    /// True if a flow past its deadline has the least urgency; else it has the greatest.
    pub late_yields: bool,
}

impl Default for D2tcp {
    /// The bounds of the paper, 0.5 and 2.
    fn default() -> Self {
        Self { dctcp: Dctcp::default(), least_percent: 50, most_percent: 200, late_yields: true }
    }
}

impl D2tcp {
    /// The law of a flow that starts ([`Dctcp::law`]).
    pub fn law(&self, setup: &FlowSetup) -> Law {
        Law { window: dctcp::Law::new(&self.dctcp), deadline: setup.deadline, settings: self.clone() }
    }

    /// d of a flow with `remaining` segments and `left` until its deadline, none once it has
    /// passed.
    fn urgency(&self, remaining: u32, window: u32, round_trip: Nanos, left: Option<Nanos>) -> f64 {
        let (least, most) = (f64::from(self.least_percent) / 100.0, f64::from(self.most_percent) / 100.0);
        match left.filter(|&left| left > Nanos::ZERO) {
            None if self.late_yields => least,
            None => most,
            Some(left) => {
                let needed = f64::from(remaining) / (0.75 * f64::from(window)) * round_trip.as_f64();
                (needed / left.as_f64()).clamp(least, most)
            }
        }
    }
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Law {
    window: dctcp::Law,
    deadline: Option<Instant>,
    settings: D2tcp,
}

impl WindowLaw for Law {
    const ECN: bool = true;

    fn window(&self) -> u32 {
        self.window.window()
    }

    fn on_ack(&mut self, ack: &Ack) {
        let Self { window, deadline, settings } = self;
        window.acknowledge(ack, |window, alpha| {
            let urgency = deadline.map_or(1.0, |deadline| {
                let left = (deadline > ack.now).then(|| deadline.since(ack.now));
                settings.urgency(ack.end - ack.una, window, ack.round_trip, left)
            });
            let penalty = libm::pow(f64::from(alpha) / f64::from(ONE), urgency);
            (f64::from(window) * penalty / 2.0) as u32
        });
    }

    fn on_loss(&mut self, ack: &Ack) {
        self.window.on_loss(ack);
    }

    fn on_timeout(&mut self, now: Instant) {
        self.window.on_timeout(now);
    }
}

impl Transport for D2tcp {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        WindowSender::new(setup, self.law(setup), Reliability::tcp(self.dctcp.minimum_rto))
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        self.dctcp.receiver(setup)
    }

    fn port_logic(&self, _: &PortSetup) -> Self::PortLogic {
        NoLogic
    }

    fn needs(&self) -> SwitchNeeds {
        self.dctcp.needs()
    }
}

impl Definition for D2tcp {
    const NAME: &'static str = "d2tcp";
    const TITLE: &'static str = "D2TCP: flows whose deadline is near are cut less";
    const SOURCE: &'static str = "Vamanan et al., SIGCOMM 2012, §3";
    const PARAMETERS: &'static [Parameter<Self>] = dctcp_parameters!(dctcp;
        Parameter {
            name: "least_percent",
            meaning: "the least urgency d, in hundredths",
            field: |p| &mut p.least_percent,
        },
        Parameter {
            name: "most_percent",
            meaning: "the greatest urgency d, in hundredths",
            field: |p| &mut p.most_percent,
        },
        Parameter {
            name: "late_yields",
            meaning: "whether a flow past its deadline has the least urgency; else the greatest",
            field: |p| &mut p.late_yields,
        },
    );

    fn check(&self) -> Result<(), Complaint> {
        self.dctcp.check()?;
        at_least_one("least_percent", self.least_percent)?;
        if self.most_percent < self.least_percent {
            return Err(Complaint::new(
                "most_percent",
                format!("at least least_percent, which is {}", self.least_percent),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Nanos = Nanos(100_000);

    /// The window after one mark: 64 segments and α = 1/4 before it, 480 segments to go, so
    /// `T_c = 480/48 · 100 µs = 1 ms`.
    fn after_a_mark(settings: D2tcp, now: u64, deadline: Option<u64>) -> u32 {
        let mut window = dctcp::Law::new(&Dctcp { initial_window: 64, ..Dctcp::default() });
        window.observe(ONE / 4, 1_000);
        let mut law = Law { window, deadline: deadline.map(Instant), settings };
        let ack = Ack {
            now: Instant(now),
            segments: 1,
            marked: true,
            una: 20,
            next: 84,
            end: 500,
            recovering: false,
            limited: true,
            round_trip: RTT,
        };
        law.on_ack(&ack);
        law.window()
    }

    #[test]
    fn a_cut_is_half_of_alpha_to_the_urgency() {
        let after = |deadline| after_a_mark(D2tcp::default(), 0, deadline);
        assert_eq!(after(Some(1_000_000)), 56, "d = 1: 64 · ¼ / 2 = 8");
        assert_eq!(after(Some(500_000)), 62, "d = 2: 64 · 1/16 / 2 = 2");
        assert_eq!(after(Some(2_000_000)), 48, "d = ½: 64 · ½ / 2 = 16");
        assert_eq!(after(Some(1)), 62, "no urgency above 2");
        assert_eq!(after(Some(u64::MAX)), 48, "nor below ½");
        assert_eq!(after(None), 56, "without a deadline it is DCTCP");
    }

    #[test]
    fn a_flow_past_its_deadline_makes_room_unless_told_otherwise() {
        assert_eq!(after_a_mark(D2tcp::default(), 5, Some(5)), 48);
        let insists = D2tcp { late_yields: false, ..D2tcp::default() };
        assert_eq!(after_a_mark(insists, 5, Some(5)), 62);
    }

    #[test]
    fn bounds_that_cross_are_refused() {
        let message = crate::parse("d2tcp:least_percent=300").unwrap_err().to_string();
        assert!(message.contains("most_percent=200 cannot be used: expected at least"), "{message}");
    }
}

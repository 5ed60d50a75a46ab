//! `las`: at each link, the coflow that has had the least service there; no coordination at all.
//!
//! Least attained service is near optimal on one link with heavy-tailed sizes, and needs to know
//! nothing. Applied link by link it is what Aalo's §2.3 and Theorem A.1 warn of: links disagree
//! about who goes first, so a coflow waits at one for what another has already served.
//!
//! Ideal LAS changes the order at every byte. Here service is counted in levels: equal levels
//! share, and a coflow's level changes only when it crosses a boundary. Up to `even_steps` quanta
//! every quantum is a level; beyond, the width of a level doubles with every doubling of the
//! service, so that a level is never wider than `2/even_steps` of what a coflow has had. With the
//! defaults a coflow crosses some 90 levels by 10 GB (10,000 if all were even), about 0.9 million
//! for the Facebook trace. The limit of a small quantum and many steps is ideal LAS.
//!
//! With `at=link` every link keeps an order of its own, and a flow gets the least that its links
//! allow. Orders contradict each other in circles, so rates are computed from their definition at
//! most events: it is for small traces, of thousands of flows. With `at=sender`, the default, the
//! port that sends decides and its flows carry their level with them: still nothing but local
//! knowledge, at a hundredth of the cost.
//!
//! Nothing is stored: the level follows from the driver's counter. Equals share between flows, not
//! between coflows, as switches do: LAS brings coflows of different widths level all the same.

use cavalcade_model::{
    Bytes, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Priority, Scope, Setting,
    Target, Terms,
};

use crate::definition::{About, Definition};
use cavalcade_spec::{Complaint, Parameter};

/// Parameters of `las`.
#[derive(Clone)]
pub(crate) struct Las {
    quantum: Bytes,
    even_steps: u32,
    at: Scope,
}

impl Default for Las {
    fn default() -> Self {
        Self { quantum: Bytes(1_000_000), even_steps: 16, at: Scope::Host }
    }
}

impl Definition for Las {
    const ABOUT: About = About {
        name: "las",
        title: "Local least attained service: who has had least from this port goes first",
        source: "Aalo §2.3, §7.2.1, Theorem A.1 (non-clairvoyant without coordination)",
        paper: None,
        knows: "the bytes that each coflow has sent from this port (or across this link)",
        cost: "O(1) each time a coflow crosses a level at a link",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "quantum",
            meaning: "smallest difference in service that counts",
            field: |p| &mut p.quantum,
        },
        Parameter {
            name: "even_steps",
            meaning: "levels of one quantum, before widths double with the service (even number)",
            field: |p| &mut p.even_steps,
        },
        Parameter {
            name: "at",
            meaning: "place of decisions: each sender for what it sends, or each link",
            field: |p| &mut p.at,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless(self.quantum > Bytes::ZERO, "quantum", "at least 1B")?;
        let even = self.even_steps >= 2 && self.even_steps.is_multiple_of(2);
        Complaint::unless(even, "even_steps", "an even number, at least 2")
    }

    fn terms(&self) -> Terms {
        Terms::strict(self.at, Discipline::MaxMin)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl Las {
    /// The level of `attained`, and the service at which the next one begins.
    fn level(&self, attained: Bytes) -> (u64, Bytes) {
        let steps = u64::from(self.even_steps);
        let quanta = attained.0 / self.quantum.0;
        // Each octave above the even part, [steps·2^k, steps·2^(k+1)) quanta, has steps/2 levels of
        // 2^(k+1) quanta.
        let octave = (quanta / steps).checked_ilog2();
        let (width, start, first) = match octave {
            None => (1, 0, 0),
            Some(k) => (2 << k, steps << k, steps + u64::from(k) * (steps / 2)),
        };
        let inside = (quanta - start) / width;
        let next = u128::from(start + (inside + 1) * width) * u128::from(self.quantum.0);
        (first + inside, Bytes(u64::try_from(next).unwrap_or(u64::MAX)))
    }
}

impl NonClairvoyant for Las {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        let (Event::CoflowArrived(coflow) | Event::Reached(Target::Coflow(coflow))) = event else {
            return;
        };
        let (level, next) = self.level(view.attained(coflow));
        decision.set_coflow(coflow, Priority::new(0, level));
        decision.watch(Target::Coflow(coflow), next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use proptest::prelude::*;

    #[test]
    fn the_order_is_the_level_at_this_link() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.add_flow(coflow, 0, 1, 100_000_000);
        let mut las = drive("las");
        let arrived = las.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!(arrived.priorities, [(Target::Coflow(coflow), Priority::new(0, 0))]);
        assert_eq!(arrived.watches, [(Target::Coflow(coflow), Bytes(1_000_000))]);
        script.send(0, 15_000_000);
        let reached = las.at(5, Event::Reached(Target::Coflow(coflow)), &script);
        assert_eq!(reached.priorities, [(Target::Coflow(coflow), Priority::new(0, 15))]);
        script.send(0, 2_000_000);
        let coarse = las.at(6, Event::Reached(Target::Coflow(coflow)), &script);
        assert_eq!(coarse.priorities, [(Target::Coflow(coflow), Priority::new(0, 16))]);
        assert_eq!(coarse.watches, [(Target::Coflow(coflow), Bytes(18_000_000))]);
    }

    #[test]
    fn ten_gigabytes_cross_about_ninety_levels() {
        assert!((85..95).contains(&Las::default().level(Bytes(10_000_000_000)).0));
    }

    proptest! {
        #[test]
        fn levels_follow_one_another_without_gap(attained in 0u64..1 << 50, quantum in 1u64..1 << 21, half in 1u32..40) {
            let las = Las { quantum: Bytes(quantum), even_steps: 2 * half, ..Las::default() };
            let (level, next) = las.level(Bytes(attained));
            prop_assert!(next.0 > attained);
            prop_assert_eq!(las.level(next).0, level + 1);
            prop_assert_eq!(las.level(Bytes(next.0 - 1)).0, level);
        }
    }
}

//! `fair`: every flow for itself, max-min fair: what TCP, DCTCP and RCP aim at, without their
//! convergence time.
//!
//! The baseline of the papers. It decides nothing: all flows keep the default priority, and the
//! discipline does the rest.
//!
//! # A weaker baseline
//! CoflowSim, which the coflow papers' authors released, has another fair sharing: each link gives
//! every flow an even part, the flow is sent at the least of its parts, and what it cannot use of
//! the others is lost. With `conserving=false` this is it ([`Discipline::EvenParts`]). A speedup
//! over this baseline is larger than one over max-min, by as much as links are unevenly crowded.

use cavalcade_model::{
    Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Scope, Setting, Terms,
};
use cavalcade_spec::Parameter;

use crate::definition::{About, CONSERVING, Definition};

/// Parameters of `fair`.
#[derive(Clone)]
pub(crate) struct Fair {
    conserving: bool,
}

impl Default for Fair {
    fn default() -> Self {
        Self { conserving: true }
    }
}

impl Definition for Fair {
    const ABOUT: About = About {
        name: "fair",
        title: "Max-min fair sharing between flows: ideal TCP or RCP",
        source: "Baraat §2.2 (fair sharing), Aalo §7.1 (per-flow fairness)",
        paper: None,
        knows: "nothing",
        cost: "none",
    };

    const STANDS_FOR: Option<&'static str> = Some("TCP");

    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "conserving", meaning: CONSERVING, field: |p| &mut p.conserving }];

    fn terms(&self) -> Terms {
        let discipline = if self.conserving { Discipline::MaxMin } else { Discipline::EvenParts };
        Terms { starvation_free: true, ..Terms::strict(Scope::Fabric, discipline) }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl NonClairvoyant for Fair {
    fn handle(&mut self, _: Instant, _: Event, _: &dyn Observe, _: &mut Decision) {}
}

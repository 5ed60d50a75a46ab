//! `fair`: every flow for itself, max-min fair: what TCP, DCTCP and RCP aim at, without their convergence time.
//!
//! The baseline of the papers. It decides nothing: all flows keep the default priority, and the discipline does the
//! rest.

use cavalcade_model::{
    Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Scope, Setting, Terms,
};

use crate::definition::{About, Definition};

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Fair;

impl Definition for Fair {
    const ABOUT: About = About {
        name: "fair",
        title: "Max-min fair sharing between flows: ideal TCP or RCP",
        source: "Baraat §2.2 (fair sharing), Aalo §7.1 (per-flow fairness)",
        paper: None,
        knows: "nothing",
        cost: "none",
    };

    fn terms(&self) -> Terms {
        Terms { starvation_free: true, ..Terms::strict(Scope::Fabric, Discipline::MaxMin) }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl NonClairvoyant for Fair {
    fn handle(&mut self, _: Instant, _: Event, _: &dyn Observe, _: &mut Decision) {}
}

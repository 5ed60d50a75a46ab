//! `sff`: the flow with the fewest remaining bytes first: pFabric without packets.
//!
//! Flow-aware and blind to coflows: the mean flow completion time is near its best, and a coflow waits for its largest
//! flow all the same (D-CAS Fig 1). It decides nothing itself; the driver reads the sizes, so it counts as clairvoyant.

use cavalcade_model::{
    Clairvoyant, ClassShares, Decision, Discipline, Event, Foresee, Instant, Policy, Scope, Setting, Terms,
};

use crate::definition::{About, Definition};

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Sff;

impl Definition for Sff {
    const ABOUT: About = About {
        name: "sff",
        title: "Shortest remaining flow first: ideal pFabric",
        source: "pFabric (SIGCOMM 2013) §4; D-CAS §II (smallest flow first)",
        knows: "the remaining bytes of every flow",
        cost: "none",
    };

    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::ShortestFlow,
            shares: ClassShares::Strict,
            flow_events: false,
            work_conserving: true,
            starvation_free: false,
        }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(self.clone()))
    }
}

impl Clairvoyant for Sff {
    fn handle(&mut self, _: Instant, _: Event, _: &dyn Foresee, _: &mut Decision) {}
}

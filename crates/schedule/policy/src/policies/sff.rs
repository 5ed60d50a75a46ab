//! `sff`: the flow with the fewest remaining bytes first: pFabric without packets.
//!
//! Flow-aware and blind to coflows: the mean flow completion time is near its best, and a coflow
//! waits for its largest flow all the same (D-CAS Fig 1). It decides nothing itself; the driver
//! reads the sizes, so it counts as clairvoyant.

use cavalcade_model::{
    Clairvoyant, Decision, Discipline, Event, Foresee, Instant, Policy, Scope, Setting, Terms,
};

use crate::definition::{About, Definition, Follows, Named, OwnTransport, Paper};

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Sff;

impl Definition for Sff {
    const ABOUT: About = About {
        name: "sff",
        title: "Shortest remaining flow first: ideal pFabric",
        source: "pFabric (SIGCOMM 2013) §4; D-CAS §II (smallest flow first)",
        paper: None,
        knows: "the remaining bytes of every flow",
        cost: "none",
    };

    const NAMES: &'static [Named] = &[Named {
        name: "pfabric",
        title: "Shortest remaining flow first; over packets, the transport pfabric with its queues",
        source: "pFabric (SIGCOMM 2013) §4",
        paper: Some(Paper {
            system: "pFabric",
            venue: "SIGCOMM",
            year: 2013,
            follows: Follows::ReleasedCode,
            transport: OwnTransport::alone("pfabric"),
        }),
        settings: "",
    }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::ShortestFlow)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(self.clone()))
    }
}

impl Clairvoyant for Sff {
    fn handle(&mut self, _: Instant, _: Event, _: &dyn Foresee, _: &mut Decision) {}
}

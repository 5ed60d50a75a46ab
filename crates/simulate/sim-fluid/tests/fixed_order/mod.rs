//! A policy that only tests have: coflows in an order that is given.

use std::fmt;

use cavalcade_model::{
    ClassShares, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, PolicyFactory,
    Priority, Scope, Setting, Terms,
};

/// Coflows in a fixed order, max-min inside: `rank[coflow]`, equal ranks sharing.
#[derive(Clone)]
pub(crate) struct FixedOrder {
    pub(crate) rank: Vec<u64>,
}

impl fmt::Debug for FixedOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ranks {}", self.rank.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
    }
}

impl PolicyFactory for FixedOrder {
    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::MaxMin,
            shares: ClassShares::Strict,
            flow_events: false,
            work_conserving: true,
            starvation_free: false,
            ticks: None,
        }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl NonClairvoyant for FixedOrder {
    fn handle(&mut self, _: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, Priority::new(0, self.rank[coflow.index()]));
        }
    }
}

//! `edf`: earliest deadline first; what has no deadline shares the rest fairly.
//!
//! The order is the absolute deadline, so it is set once and never changes. Sizes are not asked for: EDF does not know
//! when a deadline is out of reach, which is its weakness under overload (Karuna §2.2).

use cavalcade_model::{
    ClassShares, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Priority, Scope,
    Setting, Terms,
};

use crate::definition::{About, Definition};

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Edf;

impl Definition for Edf {
    const ABOUT: About = About {
        name: "edf",
        title: "Earliest deadline first; the rest share fairly what is left",
        source: "Liu and Layland (1973); Karuna §2.2, Fig 2",
        knows: "the deadlines of tasks",
        cost: "O(1) for each coflow",
    };

    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::MaxMin,
            shares: ClassShares::Strict,
            flow_events: false,
            work_conserving: true,
            starvation_free: false,
        }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl NonClairvoyant for Edf {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            let priority = match view.coflow(coflow).deadline {
                Some(deadline) => Priority::new(0, deadline.0),
                None => Priority::new(1, 0),
            };
            decision.set_coflow(coflow, priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::Target;

    #[test]
    fn the_deadline_is_the_order_and_the_rest_are_equal() {
        let mut script = Script::new();
        let (free, urgent) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.facts_mut(urgent).deadline = Some(Instant(77));
        let mut edf = drive("edf");
        let mut set = |coflow| edf.at(0, Event::CoflowArrived(coflow), &script).priorities;
        assert_eq!(set(free), [(Target::Coflow(free), Priority::new(1, 0))]);
        assert_eq!(set(urgent), [(Target::Coflow(urgent), Priority::new(0, 77))]);
    }
}

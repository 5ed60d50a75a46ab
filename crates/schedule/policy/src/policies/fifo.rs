//! `fifo`: coflows one after the other in order of arrival.
//!
//! The rank is the task-id, which is in order of arrival unless several counters give ids out
//! (Baraat §4.1); inside a task, the order of its stages. Background tasks come after all online
//! ones: Baraat §4.1 gives them a later range of ids. A coflow that cannot fill its links lets the
//! next one through, so nothing is idle; but one heavy coflow holds up all that follow it on its
//! links.
//!
//! Among online tasks none starves: only what came before goes first. Background coflows can, under
//! an endless stream of online ones, which is why [`Terms::starvation_free`] is not claimed.
//!
//! # Orchestra
//! Its text could not be had. Aalo's Table 1 says: sizes are known on arrival, one queue, first in,
//! first out, and inside a coflow weighted shuffle scheduling (WSS), by which the rates of flows
//! follow their sizes so that all end together; what a coflow leaves goes to the next. That is
//! `discipline=madd`. Baraat compares itself with the order alone, which is `fifo`.

use cavalcade_model::{
    Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Priority, Scope, Setting, Terms,
};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition, Follows, Named, Paper};
use crate::support::task_ids::range;
use crate::support::told::told_where_needed;

/// Parameters of `fifo`.
#[derive(Clone)]
pub(crate) struct Fifo {
    discipline: Discipline,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { discipline: Discipline::MaxMin }
    }
}

impl Definition for Fifo {
    const ABOUT: About = About {
        name: "fifo",
        title: "Coflows one after the other in order of arrival, background tasks last",
        source: "Baraat §3.2, §4.1",
        paper: None,
        knows: "the order of arrival; with a discipline that reads sizes also these",
        cost: "O(1) for each coflow",
    };

    const NAMES: &'static [Named] = &[Named {
        name: "orchestra",
        title: "Coflows first in, first out; inside one, rates by size so that its flows end together (WSS)",
        source: "Orchestra (SIGCOMM 2011), by Aalo §4.4, Table 1, and Baraat §5.2",
        paper: Some(Paper {
            system: "Orchestra",
            venue: "SIGCOMM",
            year: 2011,
            follows: Follows::SecondarySources,
            transport: None,
        }),
        settings: "discipline=madd",
    }];

    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        told_where_needed(self.clone(), self.discipline)
    }
}

impl NonClairvoyant for Fifo {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            let facts = view.coflow(coflow);
            let order = u64::from(facts.number) << 32 | u64::from(coflow.0);
            decision.set_coflow(coflow, Priority::new(range(&facts), order));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::{CoflowId, Target, TaskClass};

    #[test]
    fn ids_rank_and_background_tasks_go_last() {
        let mut script = Script::new();
        let first = script.add_coflow(0, 0);
        script.facts_mut(first).class = TaskClass::Background;
        let second = script.add_coflow(1, 0);
        let mut fifo = drive("fifo");
        let arrived = |coflow| Event::CoflowArrived(coflow);
        assert_eq!(
            fifo.at(0, arrived(first), &script).priorities,
            [(Target::Coflow(CoflowId(0)), Priority::new(1, 0))]
        );
        assert_eq!(
            fifo.at(0, arrived(second), &script).priorities,
            [(Target::Coflow(CoflowId(1)), Priority::new(0, 1 << 32 | 1))]
        );
        assert!(fifo.at(9, Event::CoflowFinished(first), &script).priorities.is_empty());
    }
}

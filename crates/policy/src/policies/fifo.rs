//! `fifo`: coflows one after the other in order of arrival.
//!
//! The rank is the task-id, which is in order of arrival unless several counters give ids out (Baraat §4.1); inside a task,
//! the order of its stages. Background tasks come after all online
//! ones: Baraat §4.1 gives them a later range of ids. A coflow that cannot fill its links lets the next one through,
//! so nothing is idle; but one heavy coflow holds up all that follow it on its links.
//!
//! Among online tasks nobody starves: only what came before goes first. Background coflows can, under an endless stream
//! of online ones, which is why [`Terms::starvation_free`] is not claimed.

use cavalcade_model::{
    ClassShares, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Priority, Scope,
    Setting, Terms,
};

use crate::definition::{About, Definition};
use crate::support::task_ids::range;

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Fifo;

impl Definition for Fifo {
    const ABOUT: About = About {
        name: "fifo",
        title: "Coflows one after the other in order of arrival, background tasks last",
        source: "Orchestra (SIGCOMM 2011) §5; Baraat §3.2, §4.1",
        knows: "the order of arrival",
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

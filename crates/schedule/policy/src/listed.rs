//! An order of coflows that is given: made elsewhere, for one workload, by whatever means.
//!
//! The order is a list of coflows. Those that it leaves out come after it, in order of arrival. It
//! is no policy of the registry: a text names a policy for any workload, and a list is of one. Who
//! makes it has seen the whole workload, so it is to be compared with policies that are told sizes.
//!
//! # Cost
//! O(1) for each coflow, and four bytes for each up to the last that is listed.
//!
//! # Rejected
//! - Numbers as priorities, with equals: the disciplines would have to say how equals share, and an
//!   order says it all.

use std::sync::Arc;

use cavalcade_model::{
    CoflowId, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, PolicyFactory, Priority,
    Scope, Setting, Terms,
};

use crate::support::told::told_where_needed;

/// The place of a coflow that is not listed.
const UNLISTED: u32 = u32::MAX;

/// Coflows in a given order, the others after them.
#[derive(Clone, Debug)]
pub struct Listed {
    /// For each coflow its place.
    places: Arc<[u32]>,
    /// The place of the next coflow that is not listed.
    next: u64,
    discipline: Discipline,
}

impl Listed {
    /// The order in which `coflows` stand; of a coflow that occurs twice the first place counts.
    /// `discipline` shares what the order leaves to a coflow among its flows.
    pub fn new(coflows: &[CoflowId], discipline: Discipline) -> Self {
        let size = coflows.iter().map(|coflow| coflow.index() + 1).max().unwrap_or(0);
        let mut places = vec![UNLISTED; size];
        for (place, coflow) in (0..UNLISTED).zip(coflows).rev() {
            places[coflow.index()] = place;
        }
        Self { places: places.into(), next: coflows.len() as u64, discipline }
    }

    /// The priority of a coflow that has just arrived.
    fn priority(&mut self, coflow: CoflowId) -> Priority {
        let place = self.places.get(coflow.index()).copied().filter(|&place| place != UNLISTED);
        let place = place.map_or(self.next, u64::from);
        self.next += u64::from(place == self.next);
        Priority::new(0, place)
    }
}

impl PolicyFactory for Listed {
    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        told_where_needed(self.clone(), self.discipline)
    }
}

impl NonClairvoyant for Listed {
    fn handle(&mut self, _: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, self.priority(coflow));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Script;

    #[test]
    fn what_is_not_listed_follows_in_order_of_arrival() {
        let mut listed = Listed::new(&[CoflowId(3), CoflowId(1)], Discipline::Greedy);
        // A late stage of the first task has a low number, and arrives last.
        let arrivals = [2, 1, 4, 3, 0].map(CoflowId);
        let mut order: Vec<_> = arrivals.map(|coflow| (listed.priority(coflow), coflow)).into();
        order.sort_unstable();
        assert_eq!(order.iter().map(|(_, coflow)| coflow.0).collect::<Vec<_>>(), [3, 1, 2, 4, 0]);
    }

    #[test]
    fn a_coflow_gets_its_place_when_it_arrives_under_any_discipline() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        for discipline in [Discipline::MaxMin, Discipline::Greedy, Discipline::Madd] {
            let mut decision = Decision::default();
            let listed = Listed::new(&[CoflowId(7), coflow], discipline);
            let history = cavalcade_model::History::default();
            let setting = Setting { ports: 1, line_rate: cavalcade_model::BitsPerSec(1), history: &history };
            listed.build(&setting).handle(
                Instant::ZERO,
                Event::CoflowArrived(coflow),
                &script,
                &mut decision,
            );
            assert_eq!(decision.priorities.last().map(|decided| decided.1), Some(Priority::new(0, 1)));
            assert_eq!(listed.terms().discipline, discipline);
        }
    }
}

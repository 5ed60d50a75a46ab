//! An order of all active coflows that is made again whenever one arrives or ends, sent only where it has changed.
//!
//! What is left to a policy is the order itself: [`Order`].

use std::collections::BTreeMap;

use cavalcade_model::{Clairvoyant, CoflowId, Decision, Event, Foresee, Instant, Priority};

/// The priorities of all active coflows, from what is known of them now.
pub(crate) trait Order {
    /// Gives `coflows`, ascending by id, their priorities, one for each.
    fn order(&mut self, now: Instant, coflows: &[CoflowId], view: &dyn Foresee) -> Vec<Priority>;
}

/// A policy that consists of an [`Order`].
#[derive(Debug, Default)]
pub(crate) struct Ordered<O> {
    order: O,
    /// Active coflows, each with the priority that it was last given.
    active: BTreeMap<CoflowId, Option<Priority>>,
}

impl<O> Ordered<O> {
    pub(crate) fn new(order: O) -> Self {
        Self { order, active: BTreeMap::new() }
    }
}

impl<O: Order> Clairvoyant for Ordered<O> {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => drop(self.active.insert(coflow, None)),
            Event::CoflowFinished(coflow) => drop(self.active.remove(&coflow)),
            _ => return,
        }
        let coflows: Vec<CoflowId> = self.active.keys().copied().collect();
        let priorities = self.order.order(now, &coflows, view);
        assert_eq!(priorities.len(), coflows.len(), "each coflow has a priority");
        for ((&coflow, given), priority) in self.active.iter_mut().zip(priorities) {
            if given.replace(priority) != Some(priority) {
                decision.set_coflow(coflow, priority);
            }
        }
    }
}

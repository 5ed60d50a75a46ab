//! An order of all active coflows that is made again whenever one arrives or ends, sent only where
//! it has changed.
//!
//! What is left to a policy is the order itself: [`Order`]. Where many coflows arrive or end at
//! once, it is made once.

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
    /// True if a new order has been put off.
    is_due: bool,
}

impl<O> Ordered<O> {
    pub(crate) fn new(order: O) -> Self {
        Self { order, active: BTreeMap::new(), is_due: false }
    }
}

impl<O: Order> Clairvoyant for Ordered<O> {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => drop(self.active.insert(coflow, None)),
            Event::CoflowFinished(coflow) => drop(self.active.remove(&coflow)),
            _ if self.is_due => {}
            _ => return,
        }
        self.is_due = decision.put_off();
        if self.is_due {
            return;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::scripted::Script;

    /// Counts how often an order was made.
    struct Made(Rc<Cell<u32>>);

    impl Order for Made {
        fn order(&mut self, _: Instant, coflows: &[CoflowId], _: &dyn Foresee) -> Vec<Priority> {
            self.0.set(self.0.get() + 1);
            coflows.iter().map(|coflow| Priority::new(0, u64::from(coflow.0))).collect()
        }
    }

    #[test]
    fn of_many_that_arrive_together_one_order_is_made_and_it_has_all() {
        let (mut script, made) = (Script::new(), Rc::new(Cell::new(0)));
        let coflows: Vec<CoflowId> = (0..100).map(|task| script.add_coflow(task, 0)).collect();
        let mut ordered = Ordered::new(Made(Rc::clone(&made)));
        for &coflow in &coflows {
            let mut decision = Decision { more: true, ..Decision::default() };
            ordered.handle(Instant(1), Event::CoflowArrived(coflow), &script, &mut decision);
            assert!(decision.is_put_off && decision.priorities.is_empty());
        }
        let mut decision = Decision::default();
        ordered.handle(Instant(1), Event::Wake, &script, &mut decision);
        assert_eq!((made.get(), decision.priorities.len()), (1, 100));
        decision.clear();
        ordered.handle(Instant(2), Event::Wake, &script, &mut decision);
        ordered.handle(Instant(2), Event::CoflowFinished(coflows[0]), &script, &mut decision);
        assert_eq!((made.get(), decision.priorities.len()), (2, 0), "nothing is owed any more");
    }
}

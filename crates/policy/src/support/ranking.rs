//! The orders that a policy has given to active coflows, so that only those that change are sent.

use std::collections::BTreeMap;

use cavalcade_model::{CoflowId, Decision, Priority};

/// Active coflows, in order of id, each with the order that it was last given.
#[derive(Debug, Default)]
pub(crate) struct Ranking {
    active: BTreeMap<CoflowId, Option<u64>>,
}

impl Ranking {
    /// `coflow` becomes active, as yet without an order.
    pub(crate) fn enter(&mut self, coflow: CoflowId) {
        self.active.insert(coflow, None);
    }

    /// `coflow` is done.
    pub(crate) fn leave(&mut self, coflow: CoflowId) {
        self.active.remove(&coflow);
    }

    /// The active coflows.
    pub(crate) fn coflows(&self) -> impl Iterator<Item = CoflowId> {
        self.active.keys().copied()
    }

    /// Gives every active coflow the order that `order` says.
    pub(crate) fn update(&mut self, decision: &mut Decision, mut order: impl FnMut(CoflowId) -> u64) {
        for (&coflow, given) in &mut self.active {
            let order = order(coflow);
            if *given != Some(order) {
                *given = Some(order);
                decision.set_coflow(coflow, Priority::new(0, order));
            }
        }
    }
}

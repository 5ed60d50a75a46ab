//! How much a task has sent in scope, when drivers count by coflow.
//!
//! A threshold of a task with several coflows cannot be watched directly. But if the task is to
//! send `m` more bytes with `k` coflows, one of them must send at least `m / k`: so that much is
//! watched at each, and the sum is looked at again when one gets there. Every round leaves at most
//! `1 - 1/k` of what was missing, so there are O(k log threshold) rounds, and one for a task of one
//! coflow.

use cavalcade_model::{Bytes, CoflowId, Decision, Observe, Target};

/// The counters of one task.
#[derive(Debug, Default)]
pub(crate) struct TaskMeter {
    /// The active coflow, which mostly is the only one: then it takes no list, of which there would
    /// be one for each task at each host.
    only: Option<CoflowId>,
    /// All active ones, where there have been several.
    several: Vec<CoflowId>,
    finished: Bytes,
}

impl TaskMeter {
    /// A coflow of the task becomes active.
    pub(crate) fn join(&mut self, coflow: CoflowId) {
        match self.only.take() {
            Some(only) => self.several = vec![only, coflow],
            None if self.several.is_empty() => self.only = Some(coflow),
            None => self.several.push(coflow),
        }
    }

    /// A coflow of the task is done; what it has sent goes on counting.
    pub(crate) fn leave(&mut self, coflow: CoflowId, view: &dyn Observe) {
        self.only.take_if(|only| *only == coflow);
        self.several.retain(|&active| active != coflow);
        self.finished += view.attained(coflow);
    }

    /// The active coflows, in order of arrival.
    pub(crate) fn coflows(&self) -> &[CoflowId] {
        if self.several.is_empty() { self.only.as_slice() } else { &self.several }
    }

    /// Returns the bytes that the task has sent.
    pub(crate) fn sent(&self, view: &dyn Observe) -> Bytes {
        self.coflows().iter().fold(self.finished, |sum, &coflow| sum + view.attained(coflow))
    }

    /// Asks to be told no later than when the task has sent `threshold`, unless it has already.
    /// Returns whether it has.
    pub(crate) fn watch(&self, threshold: Bytes, view: &dyn Observe, decision: &mut Decision) -> bool {
        let sent = self.sent(view);
        if sent >= threshold {
            return true;
        }
        if let [only] = *self.coflows() {
            decision.watch(Target::Coflow(only), threshold.saturating_sub(self.finished));
            return false;
        }
        let missing = threshold.saturating_sub(sent);
        for &coflow in self.coflows() {
            let share = Bytes(missing.0.div_ceil(self.coflows().len() as u64));
            decision.watch(Target::Coflow(coflow), view.attained(coflow) + share);
        }
        false
    }
}

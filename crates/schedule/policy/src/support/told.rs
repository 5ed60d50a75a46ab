//! Policies that look at no size themselves, under disciplines that may.

use cavalcade_model::{Clairvoyant, Decision, Discipline, Event, Foresee, Instant, NonClairvoyant, Policy};

/// A policy that is told sizes, which only its discipline reads.
struct AsClairvoyant<P>(P);

impl<P: NonClairvoyant> Clairvoyant for AsClairvoyant<P> {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        self.0.handle(now, event, view, decision);
    }
}

/// Makes a policy one that is told sizes where its discipline reads them, and one that is not
/// elsewhere.
pub(crate) fn told_where_needed(policy: impl NonClairvoyant + 'static, discipline: Discipline) -> Policy {
    match discipline {
        Discipline::MaxMin | Discipline::InTurn => Policy::NonClairvoyant(Box::new(policy)),
        _ => Policy::Clairvoyant(Box::new(AsClairvoyant(policy))),
    }
}

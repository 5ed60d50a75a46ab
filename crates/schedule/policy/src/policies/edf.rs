//! `edf`: earliest deadline first; what has no deadline comes behind, in fair shares or shortest
//! first.
//!
//! The order is the absolute deadline, so it is set once and never changes. Sizes are not asked
//! for: EDF does not know when a deadline is out of reach, which is its weakness under overload
//! (Karuna §2.2). With `by_size` they are, of coflows without deadline alone: EDF before shortest
//! job first is what Karuna finds prior work to do, and its Fig 2 to fail.

use cavalcade_model::{
    Clairvoyant, CoflowId, Decision, Discipline, Event, Foresee, Instant, NonClairvoyant, Observe, Policy,
    Priority, Scope, Setting, Terms,
};

use crate::definition::{About, Definition};
use cavalcade_spec::Parameter;

/// Parameters of `edf`.
#[derive(Clone, Default)]
pub(crate) struct Edf {
    by_size: bool,
}

impl Definition for Edf {
    const ABOUT: About = About {
        name: "edf",
        title: "Earliest deadline first; the rest share what is left, or go by size",
        source: "Liu and Layland (1973); Karuna §2.2, Fig 2",
        paper: None,
        knows: "the deadlines of tasks",
        cost: "O(1) for each coflow",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "by_size",
        meaning: "coflows without deadline go smallest first; false: they share fairly",
        field: |p| &mut p.by_size,
    }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::MaxMin)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        match self.by_size {
            false => Policy::NonClairvoyant(Box::new(FairBehind)),
            true => Policy::Clairvoyant(Box::new(ShortestBehind)),
        }
    }
}

/// Ranks coflows with a deadline by it, the others behind in this order.
fn place(coflow: CoflowId, view: &dyn Observe, behind: u64) -> Priority {
    match view.coflow(coflow).deadline {
        Some(deadline) => Priority::new(0, deadline.0),
        None => Priority::new(1, behind),
    }
}

/// The rest is shared.
struct FairBehind;

impl NonClairvoyant for FairBehind {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, place(coflow, view, 0));
        }
    }
}

/// The rest goes by size.
struct ShortestBehind;

impl Clairvoyant for ShortestBehind {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            decision.set_coflow(coflow, place(coflow, view, view.remaining(coflow).0));
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

    #[test]
    fn by_size_orders_what_has_no_deadline_and_nothing_else() {
        let mut script = Script::new();
        let (free, urgent) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.facts_mut(urgent).deadline = Some(Instant(77));
        for (coflow, size) in [(free, 500), (urgent, 900)] {
            script.add_flow(coflow, 0, 1, size);
        }
        let mut edf = drive("edf:by_size=true");
        let mut set = |coflow| edf.at(0, Event::CoflowArrived(coflow), &script).priorities;
        assert_eq!(set(free), [(Target::Coflow(free), Priority::new(1, 500))]);
        assert_eq!(set(urgent), [(Target::Coflow(urgent), Priority::new(0, 77))]);
    }
}

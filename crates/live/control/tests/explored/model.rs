//! The sites as a model for the checker.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cavalcade_control::Coordinator;
use stateright::{Model, Property};

use super::print::Print;
use super::site::{Broken, Kind, Plan, Rule, Site, Step};

/// What is explored.
pub(super) struct Explored {
    pub(super) plan: Plan,
}

/// A state: the way to it, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) way: Vec<Step>,
    /// Number of steps that are still gone from here.
    left: usize,
    print: Print,
    /// What may happen next.
    next: Vec<Step>,
    broken: Option<Broken>,
    /// True if a machine has panicked.
    panics: bool,
    seen: Seen,
}

/// What shows that exploring leads anywhere.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_held: bool,
    has_fallen_back: bool,
    follows_another: bool,
    is_found_out: bool,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.print.0.hash(hasher);
    }
}

impl State {
    /// What does not hold there.
    pub(super) fn what(&self, plan: &Plan) -> String {
        match &self.broken {
            Some((_, what)) => what.clone(),
            None => recovery(plan, self).err().unwrap_or_else(|| "a machine panics".to_owned()),
        }
    }
}

/// Goes a way again.
fn go<'a>(plan: &'a Plan, way: &[Step]) -> Site<'a> {
    let mut site = Site::new(plan);
    way.iter().for_each(|step| site.step(*step));
    site
}

/// The state to which a way leads, on which so many steps are left to go.
fn arrive(plan: &Plan, way: Vec<Step>, left: usize) -> State {
    let arrived = catch_unwind(AssertUnwindSafe(|| {
        let mut site = go(plan, &way);
        (Print::of_site(&site), site.steps(), site.broken.take(), Seen::at(&site))
    }));
    match arrived {
        Ok((print, next, broken, seen)) => State { way, left, print, next, broken, panics: false, seen },
        Err(_) => {
            let print = Print::of(&way);
            State { way, left, print, next: Vec::new(), broken: None, panics: true, seen: Seen::default() }
        }
    }
}

fn recovery(plan: &Plan, state: &State) -> Result<(), String> {
    let recovers = || go(plan, &state.way).recovers();
    catch_unwind(AssertUnwindSafe(recovers)).unwrap_or_else(|_| Err("a machine panics".to_owned()))
}

impl Seen {
    fn at(site: &Site<'_>) -> Self {
        let found_out = |coordinator: &Coordinator| {
            let counts = coordinator.counters();
            counts.foreign_parts + counts.forged_standings + counts.unconfirmed_flows > 0
        };
        Self {
            is_found_out: site.coordinators.iter().flatten().any(found_out),
            is_held: site.hosts.iter().any(|host| host.flows.iter().any(|(flow, _)| !host.may_send(*flow))),
            has_fallen_back: site.hosts.iter().any(|host| host.agent.counters().fallbacks > 0),
            follows_another: site.hosts.iter().any(|host| host.agent.obeys().is_some_and(|term| term > 1)),
        }
    }
}

impl Model for Explored {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let idle: &[Step] = &[];
        let all = [idle].into_iter().chain(self.plan.begins.iter().copied());
        all.map(|way| {
            let mut site = Site::new(&self.plan);
            for step in way {
                assert!(site.steps().contains(step), "{step:?} of {way:?} may not happen");
                site.step(*step);
            }
            arrive(&self.plan, way.to_vec(), self.plan.depth)
        })
        .collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.left > 0 && state.broken.is_none() {
            steps.extend(&state.next);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let way = state.way.iter().copied().chain([step]).collect();
        Some(arrive(&self.plan, way, state.left - 1))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn holds(state: &State, rule: Rule) -> bool {
            state.broken.as_ref().is_none_or(|(broken, _)| *broken != rule)
        }
        vec![
            Property::always("no machine panics", |_, state: &State| !state.panics),
            Property::always("outdated orders change nothing", |_, state: &State| {
                holds(state, Rule::Outdated)
            }),
            Property::always("terms that an agent obeys rise", |_, state: &State| holds(state, Rule::Terms)),
            Property::always("flows are open without orders", |_, state: &State| {
                holds(state, Rule::FailOpen)
            }),
            Property::always("a report changes no other host's flows", |_, state: &State| {
                holds(state, Rule::Foreign)
            }),
            Property::always("no byte counts twice", |_, state: &State| holds(state, Rule::Bytes)),
            Property::always("terms and switch are coordinators'", |_, state: &State| {
                holds(state, Rule::Standing)
            }),
            Property::always("budgets hold", |_, state: &State| holds(state, Rule::Budget)),
            Property::always("all is right once faults are over", |model: &Self, state: &State| {
                state.broken.is_some() || state.panics || recovery(&model.plan, state).is_ok()
            }),
            Property::sometimes("a flow is held", |_, state: &State| state.seen.is_held),
            Property::sometimes("an agent falls back", |model: &Self, state: &State| {
                state.seen.has_fallen_back || !model.plan.kinds.contains(&Kind::Silence)
            }),
            Property::sometimes("an agent follows another coordinator", |model: &Self, state: &State| {
                state.seen.follows_another || !model.plan.kinds.contains(&Kind::Coordinator)
            }),
            Property::sometimes("a lie is found out", |model: &Self, state: &State| {
                state.seen.is_found_out || model.plan.lies == 0
            }),
        ]
    }
}

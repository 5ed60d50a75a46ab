//! Small sites, explored exhaustively: every order in which messages arrive, time passes and things
//! break, up to a number of steps.
//!
//! The machines are the real ones. A coordinator owns its policy and cannot be copied, so a state is
//! the way that leads to it, and is reached by going that way again: at most a dozen steps, each of
//! microseconds. What tells states apart is all that the machines show of themselves (`print`), so
//! ways that lead to the same are gone on from once. `stateright` searches breadth-first, so what it
//! finds is a shortest way to a fault.
//!
//! In each state the rules of `site::Rule` hold. And from *each* state faults are taken to be over:
//! within 32 periods agents have to obey the leader and be told what a coordinator would say that is
//! given all at once, and applications have to come to their ends (`checks`).
//!
//! `CAVALCADE_EXPLORE=N` goes N steps further; `docs/threats.md` says how far was gone, and what is
//! not in it.
//!
//! # What was rejected
//! - The checker's actors and networks: they want machines that are written for them, and know no
//!   connections that break at one end first.
//! - Its `eventually` for what comes right in the end: it is decided only for ways without cycles.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(clippy::print_stdout, reason = "how much was explored is worth knowing")]

mod checks;
mod host;
mod lies;
mod model;
mod print;
mod site;

use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use model::Explored;
use site::{Act, Kind, Plan, Step};

/// A site where each host has flows open, some of them held.
const BOTH_IN_USE: &[Step] = &[Step::Act(0), Step::Calm, Step::Act(1), Step::Calm, Step::Calm];

/// The same of one host.
const IN_USE: &[Step] = &[Step::Act(0), Step::Act(0), Step::Calm, Step::Calm];

/// The same, where a standby has just got the lease, and the former leader does not know.
const TWO_LEAD: &[Step] =
    &[Step::Act(0), Step::Act(0), Step::Calm, Step::Calm, Step::Fault(Kind::Expire, 0, true), Step::Lead(1)];

const TWO_AGENTS: Plan = Plan {
    name: "one coordinator, two agents",
    scripts: &[
        &[Act::Open, Act::Send, Act::Exceed, Act::Close],
        &[Act::Open, Act::Join, Act::Send, Act::Close],
    ],
    receiver: 2,
    coordinators: 1,
    lies: 0,
    faults: 2,
    kinds: &[Kind::Agent, Kind::Coordinator, Kind::Cut, Kind::Silence, Kind::Hang, Kind::Loss, Kind::Repeat],
    begins: &[BOTH_IN_USE],
    depth: 4,
};

const TWO_COORDINATORS: Plan = Plan {
    name: "two coordinators, one agent",
    scripts: &[&[Act::Open, Act::Open, Act::Send, Act::Close]],
    receiver: 1,
    coordinators: 2,
    lies: 0,
    faults: 3,
    kinds: &[
        Kind::Agent,
        Kind::Coordinator,
        Kind::Cut,
        Kind::Silence,
        Kind::Expire,
        Kind::Repeat,
        Kind::Throw,
    ],
    begins: &[IN_USE, TWO_LEAD],
    depth: 4,
};

const ALL: Plan = Plan {
    name: "two coordinators, two agents",
    scripts: &[&[Act::Open, Act::Send, Act::Close], &[Act::Open, Act::Send, Act::Close]],
    receiver: 2,
    coordinators: 2,
    lies: 0,
    faults: 2,
    kinds: &[Kind::Agent, Kind::Coordinator, Kind::Cut, Kind::Silence, Kind::Expire, Kind::Throw],
    begins: &[BOTH_IN_USE],
    depth: 4,
};

const HOSTILE: Plan = Plan {
    name: "one coordinator, two agents, an attacker",
    scripts: &[&[Act::Open, Act::Open, Act::Send, Act::Close], &[]],
    receiver: 1,
    coordinators: 1,
    lies: 2,
    faults: 1,
    kinds: &[Kind::Agent, Kind::Coordinator, Kind::Cut],
    begins: &[IN_USE],
    depth: 4,
};

/// Explores a site, as many steps as its plan says and more where that is asked for.
fn explore(plan: &Plan) {
    let more: usize = std::env::var("CAVALCADE_EXPLORE").map_or(0, |steps| steps.parse().unwrap());
    let depth = plan.depth + more;
    let began = Instant::now();
    let checker = Explored { plan: Plan { depth, ..*plan } }.checker();
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (name, states, took) = (plan.name, checker.unique_state_count(), began.elapsed());
    let ways = checker.state_count();
    println!("{name}: {states} states, {ways} steps, {depth} deep, {:.1} s", took.as_secs_f64());
    for (rule, way) in checker.discoveries() {
        let is_failure = checker.discovery_classification(rule).to_string() == "counterexample";
        let last = way.last_state();
        assert!(!is_failure, "{name}: {rule}: {}\nafter {:?}", last.what(plan), last.way);
    }
    checker.assert_properties();
}

#[test]
fn two_agents_of_a_coordinator_keep_every_rule_and_recover_from_every_state() {
    explore(&TWO_AGENTS);
}

#[test]
fn an_agent_of_two_coordinators_keeps_every_rule_and_recovers_from_every_state() {
    explore(&TWO_COORDINATORS);
}

#[test]
fn two_agents_of_two_coordinators_keep_every_rule_and_recover_from_every_state() {
    explore(&ALL);
}

#[test]
fn no_attacker_breaks_a_rule_or_holds_others_for_good() {
    explore(&HOSTILE);
}

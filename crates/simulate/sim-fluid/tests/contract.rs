//! The engine's side of the contract with policies: what it tells them, when, and what they can see
//! at that moment.
//!
//! Every registered policy is run with a checker around it that looks at each event before the
//! policy does. The slow engine has to keep the contract as well, or agreeing with it would mean
//! little.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

mod instances;
mod scripted;
mod slow;

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_harness::RunError;
use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, CoflowId, Decision, Discipline, Event, Fabric, Flow, FlowId, Foresee,
    Instant, Nanos, NonClairvoyant, Observe, Policy, PolicyFactory, PortId, Scope, Setting, Target, Terms,
    Ticks, WorkloadBuilder,
};
use cavalcade_policy::{parse, registry};
use cavalcade_sim_fluid::{Observer, Options, simulate};
use instances::{ALL, Instance, cases, instance};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use scripted::Scripted;

/// A policy with a checker around each instance.
struct Checked<'a>(&'a dyn PolicyFactory);

struct Checker {
    policy: Policy,
    flow_events: bool,
    ticks: Option<Ticks>,
    /// True if a coflow may have begun elsewhere before it comes here.
    sees_a_part: bool,
    last: Instant,
    coflows: BTreeSet<CoflowId>,
    over: BTreeSet<CoflowId>,
    flows: BTreeSet<FlowId>,
    watched: BTreeMap<Target, Bytes>,
    wake_at: Option<Instant>,
}

impl PolicyFactory for Checked<'_> {
    fn terms(&self) -> Terms {
        self.0.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Checker {
            policy: self.0.build(setting),
            flow_events: self.0.terms().flow_events,
            ticks: self.0.terms().ticks,
            sees_a_part: self.0.terms().scope != Scope::Fabric,
            last: Instant::ZERO,
            coflows: BTreeSet::new(),
            over: BTreeSet::new(),
            flows: BTreeSet::new(),
            watched: BTreeMap::new(),
            wake_at: None,
        }))
    }
}

impl Checker {
    fn assert_current(&self, coflow: CoflowId, event: Event) {
        assert!(self.coflows.contains(&coflow), "{event:?}, but the coflow has not arrived");
        assert!(!self.over.contains(&coflow), "{event:?}, but the coflow has finished");
    }

    fn check(&mut self, now: Instant, event: Event, view: &dyn Foresee) {
        assert!(now >= self.last, "{event:?} at {now:?} after something at {:?}", self.last);
        self.last = now;
        match event {
            Event::CoflowArrived(coflow) => {
                assert!(self.coflows.insert(coflow), "{event:?} twice");
                assert!(view.remaining(coflow) > Bytes::ZERO, "{event:?} without bytes");
                let arrival = view.coflow(coflow).arrival;
                assert!(
                    arrival == now || (self.sees_a_part && arrival < now),
                    "{event:?} is news of {arrival:?}"
                );
            }
            Event::FlowArrived(flow) => {
                assert!(self.flow_events, "{event:?} was not asked for");
                assert!(self.flows.insert(flow), "{event:?} twice");
                self.assert_current(view.flow(flow).coflow, event);
                assert_eq!(view.flow_attained(flow), Bytes::ZERO);
            }
            Event::FlowFinished(flow) => {
                assert!(self.flow_events, "{event:?} was not asked for");
                assert!(self.flows.remove(&flow), "{event:?}, but it has not arrived or finished before");
                self.assert_current(view.flow(flow).coflow, event);
            }
            Event::CoflowFinished(coflow) => {
                self.assert_current(coflow, event);
                assert_eq!(view.remaining(coflow), Bytes::ZERO, "{event:?}");
                assert!(view.attained(coflow) > Bytes::ZERO, "{event:?}: the counter is gone");
                self.over.insert(coflow);
            }
            Event::Reached(target) => {
                let attained = match target {
                    Target::Coflow(coflow) => {
                        self.assert_current(coflow, event);
                        view.attained(coflow)
                    }
                    Target::Flow(flow) => view.flow_attained(flow),
                };
                let watched = self.watched.remove(&target);
                assert!(watched.is_some(), "{event:?} was not asked for");
                assert!(
                    watched.is_some_and(|bytes| attained >= bytes),
                    "{event:?}: {attained} of {watched:?}"
                );
            }
            Event::Wake => {
                let asked = self.wake_at.take().expect("woken without having asked");
                // Ticks that change nothing may be left out.
                let late = now.since(asked).0.checked_rem(self.ticks.map_or(0, |ticks| ticks.every.0));
                assert!(
                    now >= asked && late.unwrap_or(now.0 - asked.0) == 0,
                    "asked for {asked:?}, woken at {now:?}"
                );
            }
            Event::Received { .. } => {}
        }
        self.check_sums(view);
    }

    /// Sent and unsent of a coflow are those of its flows.
    fn check_sums(&self, view: &dyn Foresee) {
        for &coflow in self.coflows.difference(&self.over) {
            let (mut flows, mut remaining) = (0, 0);
            view.flows(coflow, &mut |flow| {
                flows += 1;
                remaining += view.flow_remaining(flow).0;
            });
            let apart = view.remaining(coflow).0.abs_diff(remaining);
            assert!(apart <= flows, "{coflow:?} has {} left, its flows {remaining}", view.remaining(coflow));
        }
    }
}

impl Clairvoyant for Checker {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        self.check(now, event, view);
        self.policy.handle(now, event, view, decision);
        self.watched.extend(decision.watches.iter().copied());
        self.wake_at = decision.wake_at.or(self.wake_at);
    }
}

fn is_kept(factory: &dyn PolicyFactory, instance: &Instance, delay: u64) {
    let options = Options { control_delay: Nanos(delay), ..Options::default() };
    slow::simulate(&instance.workload, &instance.fabric, &Checked(factory), &options);
    simulate(&instance.workload, &instance.fabric, &Checked(factory), &options, None).unwrap();
}

#[test]
fn the_contract_is_kept_with_every_registered_policy() {
    let mut failures = Vec::new();
    for info in registry() {
        let policy = parse(info.name).unwrap();
        let config = cases(100);
        let result = TestRunner::new(config).run(&(instance(ALL), 0..2_000_000u64), |(instance, delay)| {
            is_kept(&policy, &instance, delay);
            Ok(())
        });
        failures.extend(result.err().map(|error| format!("{}: {error}", info.name)));
    }
    assert!(failures.is_empty(), "{} policies\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Asks for amounts of all coflows whenever it is told of any of them, always a little more than
/// they have sent: in one instant, watches that have been reached are replaced before they are told
/// of.
struct Raising;

impl PolicyFactory for Raising {
    fn terms(&self) -> Terms {
        parse("fair").unwrap().terms()
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Raiser(Vec::new())))
    }
}

struct Raiser(Vec<CoflowId>);

impl NonClairvoyant for Raiser {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.0.push(coflow),
            Event::CoflowFinished(coflow) => self.0.retain(|&other| other != coflow),
            _ => {}
        }
        for &coflow in &self.0 {
            decision.watch(Target::Coflow(coflow), view.attained(coflow) + Bytes(1));
        }
    }
}

#[test]
fn a_watch_that_is_replaced_in_the_instant_in_which_it_is_reached_is_not_told_of() {
    // Two coflows beside each other, so that each amount is reached by both at once.
    let mut builder = WorkloadBuilder::new(4);
    for (name, src, dst) in [("a", 0, 1), ("b", 2, 3)] {
        let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(40), wave: Nanos::ZERO };
        builder.coflow(name, Instant::ZERO, vec![flow; 3]);
    }
    let workload = builder.build().unwrap();
    let fabric = Fabric::big_switch(4, BitsPerSec(1_000_000_000)).unwrap();
    is_kept(&Raising, &Instance { workload, fabric }, 0);
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn the_contract_is_kept_whatever_is_decided(
        instance in instance(ALL),
        scope in prop_oneof![Just(Scope::Fabric), Just(Scope::Host), Just(Scope::Link)],
        caps: bool,
        seed: u64,
    ) {
        let script = Scripted { scope, discipline: Discipline::MaxMin, weights: None, caps, seed };
        is_kept(&script, &instance, 1_000_000);
    }
}

/// Cancels a run once so many coflows are done.
struct StopsAt {
    wanted: usize,
    done: usize,
}

impl Observer for StopsAt {
    fn progress(&mut self, done_coflows: usize) {
        self.done = done_coflows;
    }

    fn is_cancelled(&self) -> bool {
        self.done >= self.wanted
    }
}

#[test]
fn a_cancelled_run_ends_within_a_few_events() {
    let mut builder = WorkloadBuilder::new(2);
    for at in 0..200 {
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1000), wave: Nanos::ZERO };
        builder.coflow(format!("{at}"), Instant(at * 1_000_000), vec![flow]);
    }
    let (workload, fabric) =
        (builder.build().unwrap(), Fabric::big_switch(2, BitsPerSec(1_000_000_000)).unwrap());
    let mut stops = StopsAt { wanted: 10, done: 0 };
    let policy = parse("fair").unwrap();
    let cancelled = simulate(&workload, &fabric, &policy, &Options::default(), Some(&mut stops));
    assert!(matches!(cancelled, Err(RunError::Cancelled)), "{cancelled:?}");
    assert!(stops.done < 30, "{} coflows were done when it ended", stops.done);
}

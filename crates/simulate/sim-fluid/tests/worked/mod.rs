//! The setting of the papers' examples: one data unit takes one time unit on one link.
//!
//! A unit is 125 MB, a link carries 1 Gbps, so a time unit is a second and every time below is a
//! whole number of nanoseconds. Where a paper looks at one side of the fabric only, the links of
//! the other side are a thousand times as fast. Every schedule goes through the validator, and
//! wherever sharing is fully determined the slow engine has to agree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cavalcade_metrics::Outcome;
use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, Coflow, CoflowId, Decision, Event, Fabric, FineInstant, Flow, FlowId,
    Foresee, Instant, Nanos, Policy, PolicyFactory, PortId, Setting, Stage, StageIndex, Task, TaskClass,
    Terms, Work, Workload, WorkloadBuilder,
};
use cavalcade_policy::{Configured, parse};
use cavalcade_sim_fluid::{Observer, Options, simulate};
use cavalcade_validate::{Checks, Segment, validate};

use crate::slow;

/// Bytes in a unit.
pub(crate) const UNIT: u64 = 125_000_000;
/// Nanoseconds in a unit.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A flow of so many units between ports that count from 1, as in the papers.
pub(crate) fn flow(src: u32, dst: u32, units: f64) -> Flow {
    let size = Bytes((units * UNIT as f64).round() as u64);
    Flow { src: PortId(src - 1), dst: PortId(dst - 1), size, wave: Nanos::ZERO }
}

/// A task of one coflow that arrives after so many units.
pub(crate) fn task(name: &str, arrival: f64, flows: &[Flow]) -> (Task, Vec<Coflow>) {
    staged(name, arrival, &[(&[], flows)])
}

/// A task of several transfers, each after others.
pub(crate) fn staged(name: &str, arrival: f64, stages: &[(&[u32], &[Flow])]) -> (Task, Vec<Coflow>) {
    let stage = |after: &[u32]| Stage {
        starts_after: after.iter().map(|&index| StageIndex(index)).collect(),
        finishes_after: Vec::new(),
        work: Work::Transfer(CoflowId::default()),
    };
    let task = Task {
        name: name.to_owned(),
        job: None,
        arrival: Instant((arrival * SECOND as f64) as u64),
        deadline: None,
        class: TaskClass::Online,
        weight: 1,
        stages: stages.iter().map(|(after, _)| stage(after)).collect(),
    };
    (task, stages.iter().map(|(_, flows)| Coflow { flows: flows.to_vec() }).collect())
}

/// A workload; among tasks that arrive together, the first given is the first in order.
pub(crate) fn workload(ports: u32, tasks: Vec<(Task, Vec<Coflow>)>) -> Workload {
    let mut builder = WorkloadBuilder::new(ports);
    for (task, coflows) in tasks {
        builder.push(task, coflows);
    }
    builder.build().expect("an example is a valid workload")
}

/// A fabric on which only what ports send is limited.
pub(crate) fn senders_only(ports: u32) -> Fabric {
    let slow = vec![BitsPerSec(1_000_000_000); ports as usize];
    let fast = vec![BitsPerSec(1_000_000_000_000); ports as usize];
    Fabric::uneven_big_switch(&slow, &fast).expect("there are ports")
}

/// A fabric on which both sides are.
pub(crate) fn both_sides(ports: u32) -> Fabric {
    Fabric::big_switch(ports, BitsPerSec(1_000_000_000)).expect("there are ports")
}

/// A registered policy.
pub(crate) fn policy(spec: &str) -> Configured {
    parse(spec).expect("the policy is registered")
}

struct Schedule(Vec<Segment>);

impl Observer for Schedule {
    fn segment(&mut self, flow: FlowId, from: FineInstant, to: FineInstant, bytes_per_nano: f64) {
        self.0.push(Segment { flow, from, to, bytes_per_nano });
    }
}

/// Runs a policy and has its schedule checked. The slow engine must agree.
pub(crate) fn run(workload: &Workload, fabric: &Fabric, policy: &dyn PolicyFactory) -> Outcome {
    let mut schedule = Schedule(Vec::new());
    let outcome = simulate(workload, fabric, policy, &Options::default(), Some(&mut schedule))
        .unwrap_or_else(|error| panic!("{error}"));
    let terms = policy.terms();
    let checks = Checks { work_conservation: terms.work_conserving };
    let mut schedules = vec![schedule.0];
    let (expected, segments) = slow::simulate(workload, fabric, policy, &Options::default());
    assert_eq!(outcome.flow_finish, expected.flow_finish, "fast (left) and slow (right) engine");
    assert_eq!(outcome.task_finish, expected.task_finish, "fast (left) and slow (right) engine");
    schedules.push(segments);
    for segments in schedules {
        validate(workload, fabric, segments, &outcome, checks)
            .unwrap_or_else(|violation| panic!("{violation}"));
    }
    outcome
}

/// The completion time of each task by name, in nanoseconds.
pub(crate) type Times = BTreeMap<String, u64>;

/// The completion times of all tasks under a policy.
pub(crate) fn times(workload: &Workload, fabric: &Fabric, policy: &dyn PolicyFactory) -> Times {
    let outcome = run(workload, fabric, policy);
    let tasks = workload.tasks().iter().zip(&outcome.task_finish);
    tasks.map(|(task, finish)| (task.name.clone(), finish.since(task.arrival).0)).collect()
}

/// Expected times, in units.
pub(crate) fn units<const N: usize>(expected: [(&str, f64); N]) -> Times {
    expected
        .into_iter()
        .map(|(name, units)| (name.to_owned(), (units * SECOND as f64).round() as u64))
        .collect()
}

/// The sum of times, in nanoseconds.
pub(crate) fn sum(times: &Times) -> u64 {
    times.values().sum()
}

/// Everything that the instances of a policy decided: place, time, decision. Places are numbered as
/// they are built.
pub(crate) type Log = Rc<RefCell<Vec<(u32, Instant, Decision)>>>;

/// A policy with its decisions written down.
pub(crate) struct Overheard {
    pub(crate) policy: Configured,
    pub(crate) log: Log,
    pub(crate) built: RefCell<u32>,
}

struct OverheardAt {
    place: u32,
    policy: Policy,
    log: Log,
}

impl PolicyFactory for Overheard {
    fn terms(&self) -> Terms {
        self.policy.terms()
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let place = self.built.replace_with(|&mut built| built + 1);
        let policy = self.policy.build(setting);
        Policy::Clairvoyant(Box::new(OverheardAt { place, policy, log: Rc::clone(&self.log) }))
    }
}

impl Clairvoyant for OverheardAt {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        self.policy.handle(now, event, view, decision);
        self.log.borrow_mut().push((self.place, now, decision.clone()));
    }
}

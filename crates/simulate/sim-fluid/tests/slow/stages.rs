//! When stages are done and flows arrive, as a plain function of the flows that have finished so
//! far.
//!
//! What lies ahead is what happens if no more flow finishes: a computation on a host ends later
//! than said here if another starts beside it before. That is no matter, since the next thing that
//! happens is the same, and then all is worked out afresh.
//!
//! Convention, as in the real one: what is left of a computation is counted in 2⁻²⁰ ns and brought
//! up to date whenever one starts or ends at its host, rounded to its disadvantage.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_harness::CpuOrder;
use cavalcade_model::{Host, Instant, Nanos, StageIndex, TaskId, Work, Workload};

use super::FlowState;

/// A task and a stage of it.
type Place = (usize, usize);

/// The latest of some stages; `None` while one of them is not done.
fn latest(from: Instant, stages: &[StageIndex], done: &[Option<Instant>]) -> Option<Instant> {
    stages.iter().try_fold(from, |latest, stage| done[stage.index()].map(|instant| instant.max(latest)))
}

/// For each task and stage: when it is done, as far as that is known.
pub(crate) fn done(workload: &Workload, flows: &[FlowState], order: CpuOrder) -> Vec<Vec<Option<Instant>>> {
    let mut hosts: Vec<Busy> = workload.hosts().iter().map(|&host| Busy::new(host)).collect();
    let (mut started, mut ended) = (BTreeSet::new(), BTreeMap::new());
    loop {
        let (done, starts) = known(workload, flows, &ended);
        let waiting = || starts.iter().filter(|(place, _)| !started.contains(*place));
        let times = waiting().map(|(_, &start)| start).chain(hosts.iter().filter_map(Busy::next));
        let Some(now) = times.min() else { return done };
        let mut any = false;
        for host in hosts.iter_mut().filter(|host| host.next() == Some(now)) {
            any = true;
            ended.extend(host.end(now).into_iter().map(|place| (place, now)));
        }
        if any {
            // What ended may let others start at the same instant, and these end at once.
            continue;
        }
        let due: Vec<Place> =
            waiting().filter(|(_, start)| **start == now).map(|(place, _)| *place).collect();
        for place in due {
            started.insert(place);
            let (task, stage) = place;
            let Work::Compute(compute) = workload.tasks()[task].stages[stage].work else { continue };
            let number = workload.number(TaskId::from_index(task));
            let key = match order {
                CpuOrder::Fair => (0, 0),
                CpuOrder::Task => (number, 0),
                CpuOrder::Stage => (number, stage as u32),
            };
            let host = compute.host.expect("only what needs a host is started on one");
            hosts[host.index()].start(now, key, place, compute.duration);
        }
    }
}

/// Returns when each stage is done, and when each computation on a host starts, given when those
/// that have ended did.
fn known(
    workload: &Workload,
    flows: &[FlowState],
    ended: &BTreeMap<Place, Instant>,
) -> (Vec<Vec<Option<Instant>>>, BTreeMap<Place, Instant>) {
    let (mut tasks, mut starts) = (Vec::new(), BTreeMap::new());
    for (index, task) in workload.tasks().iter().enumerate() {
        let mut done: Vec<Option<Instant>> = Vec::new();
        for stage in &task.stages {
            let start = latest(task.arrival, &stage.starts_after, &done);
            let own = match &stage.work {
                Work::Compute(compute) if workload.host_of(compute).is_some() => {
                    let place = (index, done.len());
                    starts.extend(start.map(|start| (place, start)));
                    ended.get(&place).copied()
                }
                Work::Compute(compute) => start.map(|start| start + compute.duration),
                Work::Transfer(coflow) => workload
                    .flow_ids(*coflow)
                    .map(|flow| flows[flow as usize].finish)
                    .try_fold(Instant::ZERO, |last, finish| finish.map(|finish| finish.max(last))),
            };
            done.push(own.and_then(|own| latest(own, &stage.finishes_after, &done)));
        }
        tasks.push(done);
    }
    (tasks, starts)
}

const PARTS: u128 = 1 << 20;

/// A host and what computes there.
struct Busy {
    host: Host,
    /// By whom they go, whose they are, and what is left in parts of a nanosecond; in order.
    running: Vec<((u32, u32), Place, u128)>,
    since: Instant,
}

impl Busy {
    fn new(host: Host) -> Self {
        Self { host, running: Vec::new(), since: Instant::ZERO }
    }

    /// Returns the number of slots that those with the same key share, and their number.
    fn share(&self, key: (u32, u32)) -> (u128, u128) {
        let before = self.running.iter().filter(|(other, ..)| *other < key).count() as u128;
        let among = self.running.iter().filter(|(other, ..)| *other == key).count() as u128;
        (u128::from(self.host.slots).saturating_sub(before).min(among), among)
    }

    fn settle(&mut self, now: Instant) {
        let parts = u128::from(now.since(self.since).0) * PARTS * u128::from(self.host.speed_percent);
        let shares: Vec<(u128, u128)> = self.running.iter().map(|&(key, ..)| self.share(key)).collect();
        for ((_, _, left), (slots, among)) in self.running.iter_mut().zip(shares) {
            *left = left.saturating_sub(parts * slots / (100 * among));
        }
        self.since = now;
    }

    /// Returns the time at which the first ends, if nothing else starts.
    fn next(&self) -> Option<Instant> {
        let wait = |&(key, _, left): &((u32, u32), Place, u128)| {
            let (slots, among) = self.share(key);
            let speed = PARTS * u128::from(self.host.speed_percent) * slots;
            if left == 0 { Some(0) } else { (speed > 0).then(|| (left * 100 * among).div_ceil(speed)) }
        };
        let first = self.running.iter().filter_map(wait).min();
        first.map(|wait| self.since + Nanos(u64::try_from(wait).expect("times are short")))
    }

    fn start(&mut self, now: Instant, key: (u32, u32), place: Place, duration: Nanos) {
        self.settle(now);
        self.running.push((key, place, u128::from(duration.0) * PARTS));
    }

    /// Takes out what has ended.
    fn end(&mut self, now: Instant) -> Vec<Place> {
        self.settle(now);
        self.running.extract_if(.., |(_, _, left)| *left == 0).map(|(_, place, _)| place).collect()
    }
}

/// For each flow: when it arrives, as far as that is known.
pub(crate) fn releases(workload: &Workload, flows: &[FlowState], order: CpuOrder) -> Vec<Option<Instant>> {
    let mut releases = vec![None; flows.len()];
    for (index, (task, done)) in workload.tasks().iter().zip(done(workload, flows, order)).enumerate() {
        for stage in &task.stages {
            let Work::Transfer(coflow) = stage.work else { continue };
            let start = latest(task.arrival, &stage.starts_after, &done);
            let facts = workload.flows_of(coflow);
            let first = workload.flow_ids(coflow).start as usize;
            for (at, flow) in facts.iter().enumerate() {
                let timed = start.map(|start| start + flow.wave);
                let before = |&other: &usize| {
                    workload.waves_in_turn(TaskId::from_index(index)) && facts[other].wave < flow.wave
                };
                releases[first + at] = (0..facts.len())
                    .filter(before)
                    .try_fold(timed, |release, other| {
                        let finish = flows[first + other].finish?;
                        Some(release.map(|release| release.max(finish)))
                    })
                    .flatten();
            }
        }
    }
    releases
}

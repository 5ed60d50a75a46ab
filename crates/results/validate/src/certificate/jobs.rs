//! The jobs that proofs speak of, from the workload and nothing else.
//!
//! A job is a coflow, or a whole task. Times are in nanoseconds. How long bytes keep a link busy is
//! rounded down, for each job, link and earliest time at which they can be there; a stage can start
//! once what it starts after could be done at the earliest. A coflow behind another transfer has no
//! release of its own: it counts as released at zero, with the time that it takes alone as its
//! floor and nothing on any link.

use std::collections::BTreeMap;

use cavalcade_model::{Fabric, LinkId, Task, Work, Workload};

use crate::certificate::{Certificate, Objective};

/// A job.
pub(crate) struct Job {
    pub(crate) release: u64,
    pub(crate) floor: u64,
    pub(crate) weight: u64,
    pub(crate) due: Option<u64>,
}

/// All jobs.
pub(crate) struct Jobs {
    pub(crate) all: Vec<Job>,
    /// For each link: release, job and busy time of every load.
    pub(crate) on_link: Vec<Vec<(u64, usize, u64)>>,
}

/// Bytes by link and the earliest time at which they can be there.
type Bytes = BTreeMap<(usize, u64), u64>;

impl Jobs {
    pub(crate) fn new(workload: &Workload, fabric: &Fabric, conditions: &Certificate) -> Self {
        let mut jobs = Self { all: Vec::new(), on_link: vec![Vec::new(); fabric.link_count()] };
        for task in workload.tasks() {
            let arrival = if conditions.offline { 0 } else { task.arrival.get() };
            let weight = if conditions.weighted { u64::from(task.weight) } else { 1 };
            jobs.add_task(workload, fabric, task, arrival, weight, conditions.objective);
        }
        jobs
    }

    fn add_task(
        &mut self,
        workload: &Workload,
        fabric: &Fabric,
        task: &Task,
        arrival: u64,
        weight: u64,
        objective: Objective,
    ) {
        // For each stage: the earliest time at which it can be done, and whether a transfer, or a
        // wait for a slot of a host, is behind that time.
        let mut ends: Vec<(u64, bool)> = Vec::new();
        let mut whole = Bytes::new();
        for stage in &task.stages {
            let (mut start, mut moves) = (arrival, false);
            for before in &stage.starts_after {
                start = start.max(ends[before.index()].0);
                moves |= ends[before.index()].1;
            }
            let beside = stage.finishes_after.iter().map(|other| ends[other.index()]);
            let held = beside.fold((arrival, false), |a, b| (a.0.max(b.0), a.1 | b.1));
            match stage.work {
                Work::Compute(compute) => {
                    let end = start.saturating_add(compute.duration.get());
                    let waits = workload.host_of(&compute).is_some();
                    ends.push((end.max(held.0), moves | held.1 | waits));
                }
                Work::Transfer(coflow) => {
                    let mut bytes = Bytes::new();
                    let mut first = u64::MAX;
                    for flow in workload.flows_of(coflow) {
                        let release = start.saturating_add(flow.wave.get());
                        first = first.min(release);
                        for link in fabric.path(flow.src, flow.dst) {
                            *bytes.entry((link.index(), release)).or_default() += flow.size.get();
                        }
                    }
                    let alone = end_alone(fabric, &bytes);
                    ends.push((alone.max(held.0), true));
                    match objective {
                        Objective::Tasks => {
                            bytes.into_iter().for_each(|(key, more)| *whole.entry(key).or_default() += more);
                        }
                        Objective::Coflows if moves => {
                            self.all.push(Job { release: 0, floor: alone - first, weight, due: None });
                        }
                        Objective::Coflows => {
                            self.load(fabric, &bytes);
                            let floor = alone.max(held.0);
                            self.all.push(Job { release: first, floor, weight, due: None });
                        }
                    }
                }
            }
        }
        if objective == Objective::Tasks {
            self.load(fabric, &whole);
            let stages = ends.iter().map(|end| end.0).fold(arrival, u64::max);
            let due = task.deadline.map(|deadline| arrival.saturating_add(deadline.get()));
            self.all.push(Job {
                release: arrival,
                floor: stages.max(end_alone(fabric, &whole)),
                weight,
                due,
            });
        }
    }

    /// Enters the loads of the job that comes next.
    fn load(&mut self, fabric: &Fabric, bytes: &Bytes) {
        for (&(link, release), &bytes) in bytes {
            self.on_link[link].push((release, self.all.len(), busy(fabric, link, bytes)));
        }
    }

    /// The weight of all jobs.
    pub(crate) fn weight(&self) -> u64 {
        self.all.iter().map(|job| job.weight).sum()
    }

    /// The sum of weight times time from release to floor, over some jobs.
    pub(crate) fn alone(&self, which: impl Fn(usize) -> bool) -> u128 {
        let some = self.all.iter().enumerate().filter(|(index, _)| which(*index));
        some.map(|(_, job)| u128::from(job.weight) * u128::from(job.floor - job.release)).sum()
    }
}

/// Returns the earliest time at which `bytes` can all be across.
fn end_alone(fabric: &Fabric, bytes: &Bytes) -> u64 {
    let mut end = 0;
    let (mut at, mut sum) = (usize::MAX, 0);
    for (&(link, release), &more) in bytes.iter().rev() {
        sum = if link == at { sum + more } else { more };
        at = link;
        end = end.max(release.saturating_add(busy(fabric, link, sum)));
    }
    end
}

fn busy(fabric: &Fabric, link: usize, bytes: u64) -> u64 {
    let rate = fabric.capacity(LinkId::from_index(link)).get();
    (u128::from(bytes) * 8_000_000_000 / u128::from(rate)).try_into().unwrap_or(u64::MAX)
}

//! Crux on jobs that compute and send in turn over one link: whom it puts first, and how busy that
//! keeps their processors.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, CoflowId, Compute, Fabric, Flow, Instant, Nanos, PortId, Stage, StageIndex,
    Task, Work, Workload, WorkloadBuilder,
};
use cavalcade_sim_fluid::{Options, simulate};

/// A unit of time, in which the link carries as many bytes as it has nanoseconds.
const UNIT: u64 = 1_000_000;
const RATE: BitsPerSec = BitsPerSec(8_000_000_000);
/// How long jobs are looked at, in units.
const HORIZON: u64 = 300;

/// An iteration of a job: it computes so long, sends so much, and again.
type Job = Vec<(u64, u64)>;

/// Each job sends from a port of its own into the one behind all of them, for longer than the
/// horizon.
fn workload(jobs: &[Job]) -> Workload {
    let mut builder = WorkloadBuilder::new(jobs.len() as u32 + 1);
    for (port, job) in (0..).zip(jobs) {
        let (mut stages, mut coflows): (Vec<Stage>, Vec<Coflow>) = (Vec::new(), Vec::new());
        let iterations = HORIZON / job.iter().map(|(computes, sends)| computes + sends).sum::<u64>() + 1;
        for &(computes, sends) in job.iter().cycle().take(iterations as usize * job.len()) {
            let computation = Compute { duration: Nanos(computes * UNIT), host: None };
            let computation = (computes > 0).then_some(Work::Compute(computation));
            for work in computation.into_iter().chain([Work::Transfer(CoflowId::default())]) {
                let before = stages.len().checked_sub(1).map(StageIndex::from_index);
                let starts_after = before.into_iter().collect();
                stages.push(Stage { starts_after, finishes_after: Vec::new(), work });
            }
            let (src, dst) = (PortId(port), PortId(jobs.len() as u32));
            let flow = Flow { src, dst, size: Bytes(sends * UNIT), wave: Nanos::ZERO };
            coflows.push(Coflow { flows: vec![flow] });
        }
        builder.push(Task { stages, ..Task::of_coflow(format!("{port}"), Instant::ZERO) }, coflows);
    }
    builder.build().unwrap()
}

/// For how many units jobs compute within the horizon, all together.
fn computed(jobs: &[Job], spec: &str) -> f64 {
    let workload = workload(jobs);
    let fabric = Fabric::big_switch(workload.ports(), RATE).unwrap();
    let policy = cavalcade_policy::parse(spec).unwrap();
    let outcome = simulate(&workload, &fabric, &policy, &Options::default(), None).expect("the run ends");
    let mut nanos = 0;
    for task in workload.tasks() {
        let mut since = 0;
        for stage in &task.stages {
            let Work::Transfer(coflow) = stage.work else { continue };
            let end = HORIZON * UNIT;
            nanos += outcome.coflow_arrival[coflow.index()].0.min(end).saturating_sub(since);
            since = outcome.coflow_finish[coflow.index()].0.min(end);
        }
    }
    nanos as f64 / UNIT as f64
}

/// Two jobs of an iteration each of computation and one transfer, by units that have passed of it.
#[derive(Clone, Copy, Debug)]
struct Pair {
    computes: [u64; 2],
    sends: [u64; 2],
}

impl Pair {
    fn wants_link(&self, at: [u64; 2], job: usize) -> bool {
        at[job] >= self.computes[job]
    }

    /// A unit of time in which `served` has the link. Returns where jobs are then, and how many
    /// computed.
    fn step(&self, at: [u64; 2], served: Option<usize>) -> ([u64; 2], u64) {
        let mut next = at;
        for job in 0..2 {
            if !self.wants_link(at, job) || served == Some(job) {
                next[job] = (at[job] + 1) % (self.computes[job] + self.sends[job]);
            }
        }
        (next, (0..2).filter(|&job| !self.wants_link(at, job)).count() as u64)
    }

    /// The job of the two that comes first in `order` and wants the link.
    fn first(&self, at: [u64; 2], order: [usize; 2]) -> Option<usize> {
        order.into_iter().find(|&job| self.wants_link(at, job))
    }

    /// For how many units jobs compute where the link goes by this order, and whether it is never
    /// idle after a while.
    fn in_order(&self, order: [usize; 2]) -> (u64, bool) {
        let (mut at, mut sum, mut is_full) = ([0, 0], 0, true);
        for unit in 0..HORIZON {
            let served = self.first(at, order);
            is_full &= served.is_some() || unit < 60;
            let (next, computed) = self.step(at, served);
            (at, sum) = (next, sum + computed);
        }
        (sum, is_full)
    }

    /// The most units that jobs can compute, whoever has the link in each unit.
    fn best(&self) -> u64 {
        let lengths = [0, 1].map(|job| self.computes[job] + self.sends[job]);
        let index = |at: [u64; 2]| (at[0] * lengths[1] + at[1]) as usize;
        let mut best = vec![0; (lengths[0] * lengths[1]) as usize];
        for _ in 0..HORIZON {
            let mut before = vec![0; best.len()];
            for at in (0..lengths[0]).flat_map(|a| (0..lengths[1]).map(move |b| [a, b])) {
                let served = [None, Some(0), Some(1)]
                    .into_iter()
                    .filter(|served| served.is_none_or(|job| self.wants_link(at, job)));
                let after = |served| {
                    let (next, computed) = self.step(at, served);
                    computed + best[index(next)]
                };
                before[index(at)] = served.map(after).max().unwrap();
            }
            best = before;
        }
        best[0]
    }

    fn jobs(&self) -> [Job; 2] {
        [0, 1].map(|job| vec![(self.computes[job], self.sends[job])])
    }
}

/// What is lost until Crux has seen an iteration of each job, in units.
const LEARNING: f64 = 15.0;

/// Crux, Theorem 1, by trying all schedules of two jobs: where the link is never idle, none keeps
/// processors busier than the order by intensity, and Crux finds that order.
#[test]
fn on_a_link_that_is_never_idle_no_schedule_of_two_jobs_computes_more_than_crux() {
    let lengths = || 1..=5u64;
    let (mut tried, mut told_apart) = (0, 0);
    for computes in lengths().flat_map(|a| lengths().map(move |b| [a, b])) {
        for sends in lengths().flat_map(|a| lengths().map(move |b| [a, b])) {
            let pair = Pair { computes, sends };
            let (by_intensity, is_full) = pair.in_order([0, 1]);
            // The first job is to have the higher intensity.
            if computes[0] * sends[1] <= computes[1] * sends[0] || !is_full {
                continue;
            }
            let best = pair.best() as f64;
            assert!(by_intensity as f64 > best - LEARNING, "{pair:?}: {by_intensity} of {best}");
            let crux = computed(&pair.jobs(), "crux");
            assert!(crux > best - LEARNING, "{pair:?}: {crux} of {best}");
            tried += 1;
            told_apart += usize::from((pair.in_order([1, 0]).0 as f64) < best - 2.0 * LEARNING);
        }
    }
    assert_eq!(
        (tried, told_apart),
        (55, 32),
        "pairs that were tried, and those in which the other order is far off"
    );
}

/// Where the link idles the theorem is silent: here the job that can use the pause of the other
/// should not wait for it.
#[test]
fn where_the_link_idles_the_order_by_intensity_can_be_beaten() {
    let pair = Pair { computes: [4, 4], sends: [4, 5] };
    let [(by_intensity, is_full), (other, _)] = [[0, 1], [1, 0]].map(|order| pair.in_order(order));
    assert!(!is_full);
    assert_eq!((by_intensity, other, pair.best()), (228, 267, 268));
}

/// What jobs compute beside a job that computes less for its bytes and one that computes still
/// less.
fn computed_beside_others(first: &[(u64, u64)], spec: &str) -> f64 {
    computed(&[first.to_vec(), vec![(2, 4)], vec![(3, 3)]], spec)
}

/// A reduce-scatter and an all-gather right behind it are one exchange.
#[test]
fn two_transfers_in_a_row_are_no_iterations_of_their_own() {
    let [in_one, in_parts] =
        [&[(6, 4)][..], &[(6, 2), (0, 2)]].map(|job| computed_beside_others(job, "crux"));
    let fair = computed_beside_others(&[(6, 2), (0, 2)], "fair");
    assert!(in_parts > 1.1 * fair, "{in_parts} and {fair}");
    assert!((in_parts - in_one).abs() < LEARNING, "{in_parts} and {in_one}");
}

/// A job may compute between its transfers, more or less: what counts is the sum over all.
#[test]
fn pauses_and_transfers_count_together_however_they_are_cut() {
    let cuts = [&[(6, 4)][..], &[(3, 2), (3, 2)], &[(5, 2), (1, 2)], &[(4, 1), (1, 1), (0, 1), (1, 1)]];
    let computed = cuts.map(|job| computed_beside_others(job, "crux"));
    assert!(computed.iter().all(|other| (other - computed[0]).abs() < 2.0 * LEARNING), "{computed:?}");
}

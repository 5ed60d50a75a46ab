//! The figures of a plan's run, by job: iterations, use of processors, exposed communication,
//! bandwidths, links.
//!
//! A driver reports when each coflow ended. Every other time follows: a stage begins when all that
//! it waits for is done, and computation takes its time. So the timeline of every rank is worked
//! out here, whatever the driver.
//!
//! # Words
//! - An *iteration* lasts from the end of the one before, at the last rank, to its own end there.
//! - *GPU use* is computation over the time of all GPUs, from the arrival of their job up to the
//!   end of the job that ends first: behind that fewer jobs share the network, and every policy
//!   looks better.
//! - Communication is *exposed* where a rank does not compute. That time belongs to the collective
//!   that runs there (of several to the kind of group that stands first in [`GroupKind`]), else to
//!   *waiting* for other members of one, else it is *idle*. Idle is also a rank that is done while
//!   others of its job are not: in a pipeline that is the last part of its bubble.
//! - *algbw* is a collective's bytes over its time from the last member's arrival, *busbw* that
//!   times the factor of nccl-tests.

use std::collections::BTreeMap;

use cavalcade_metrics::{Outcome, Summary};
use cavalcade_model::{Bytes, Fabric, Instant, LinkId, Nanos};
use cavalcade_spec::Choice;

use crate::collective::{CollectiveKind, GroupKind};
use crate::plan::{Job, Plan};
use crate::program::OpWork;
use crate::timeline::{Doing, Timeline};

/// Collectives of a kind in groups of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// The collective.
    pub kind: CollectiveKind,
    /// The group.
    pub group: GroupKind,
    /// How many there were.
    pub count: u64,
    /// The sum of their buffers, each counted once.
    pub bytes: Bytes,
    /// The sum of their times.
    pub time: Nanos,
    /// Bytes over time, in bytes a nanosecond.
    pub algbw: f64,
    /// The same times the factor of nccl-tests.
    pub busbw: f64,
}

/// Shares of the time of all GPUs of a job, from its arrival to its end; they add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Computation.
    pub computing: f64,
    /// Exposed communication by the kind of group; only kinds that there are.
    pub exposed: BTreeMap<GroupKind, f64>,
    /// Waiting for other members of a collective.
    pub waiting: f64,
    /// Nothing of these: bubbles of a pipeline, latency between, and at the end of the job the time
    /// of ranks that are done before others.
    pub idle: f64,
}

/// Figures of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFigures {
    /// Its name.
    pub name: String,
    /// Each iteration.
    pub iterations: Vec<Nanos>,
    /// Their distribution.
    pub times: Summary,
    /// Its end.
    pub end: Instant,
    /// GPU use over the window of the run, from its arrival.
    pub gpu_use: f64,
    /// How the time of its GPUs was spent.
    pub shares: Shares,
    /// Its collectives.
    pub bandwidths: Vec<Bandwidth>,
}

/// A link by what it carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFigures {
    /// The link.
    pub link: LinkId,
    /// Bytes that it carried.
    pub bytes: Bytes,
    /// The share of the run in which it would have carried them at its full rate.
    pub busy: f64,
}

/// Figures of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// One for each job, in the order in which they were given.
    pub jobs: Vec<JobFigures>,
    /// From the first arrival to the end of the job that ends first.
    pub window: [Instant; 2],
    /// GPU use of all jobs over the window.
    pub gpu_use: f64,
    /// All links that carried anything, the busiest first.
    pub links: Vec<LinkFigures>,
}

/// Collectives of a kind in groups of a kind, added up.
#[derive(Default)]
struct Sums {
    count: u64,
    time: u128,
    /// Bytes by the number of members.
    bytes: BTreeMap<usize, u128>,
}

/// Works the figures of a run out. `jobs` are those that the plan was made of, and `outcome` is
/// that of its workload on `fabric`.
pub fn measure(plan: &Plan, jobs: &[Job], fabric: &Fabric, outcome: &Outcome) -> Figures {
    let timelines: Vec<Timeline> = (0..jobs.len()).map(|job| Timeline::of(plan, job, outcome)).collect();
    let begin = plan.workload.tasks().iter().map(|task| task.arrival).min().unwrap_or_default();
    let end = timelines.iter().map(Timeline::end).min().unwrap_or_default();
    let window = [begin, end];
    let (mut computed, mut of_all) = (0.0, 0.0);
    let mut figures = Vec::with_capacity(jobs.len());
    for (timeline, job) in timelines.iter().zip(jobs) {
        let busy = timeline.computed_within(job, window);
        let gpus = f64::from(job.program.ranks());
        let from = window[0].max(timeline.arrival());
        let whole = gpus * window[1].0.saturating_sub(from.0) as f64;
        computed += busy;
        of_all += whole;
        let times = timeline.iterations();
        figures.push(JobFigures {
            name: job.name.clone(),
            times: Summary::of(&times),
            iterations: times,
            end: timeline.end(),
            gpu_use: if whole > 0.0 { busy / whole } else { 0.0 },
            shares: shares(timeline, job),
            bandwidths: bandwidths(timeline, job),
        });
    }
    let gpu_use = if of_all > 0.0 { computed / of_all } else { 0.0 };
    Figures { jobs: figures, window, gpu_use, links: busiest(plan, jobs, fabric, outcome) }
}

/// Adds up what the ranks of a job did.
fn shares(timeline: &Timeline, job: &Job) -> Shares {
    let mut sums: BTreeMap<Doing, u128> = BTreeMap::new();
    timeline.each_ranks(job, |ranks, spans| {
        for span in spans {
            let all = u128::from(span.end.since(span.begin).0) * ranks.len() as u128;
            *sums.entry(span.doing).or_default() += all;
        }
    });
    let whole: u128 = sums.values().sum();
    let share = |doing: Doing| {
        let sum = sums.get(&doing).copied().unwrap_or(0);
        if whole == 0 { 0.0 } else { sum as f64 / whole as f64 }
    };
    let exposed = GroupKind::WORDS.iter().map(|&(_, kind)| (kind, share(Doing::Communicating(kind))));
    Shares {
        computing: share(Doing::Computing),
        exposed: exposed.filter(|(_, share)| *share > 0.0).collect(),
        waiting: share(Doing::Waiting),
        idle: share(Doing::Idle),
    }
}

fn bandwidths(timeline: &Timeline, job: &Job) -> Vec<Bandwidth> {
    let program = timeline.program(job);
    let mut sums: BTreeMap<(CollectiveKind, GroupKind), Sums> = BTreeMap::new();
    timeline.each_op(|op, begin, end| {
        let OpWork::Collective(collective) = &program.ops()[op.index()].work else { return };
        let group = program.group(collective.group);
        if group.members.len() < 2 || collective.kind == CollectiveKind::Barrier {
            return;
        }
        let alike = u128::from(timeline.alike(op));
        let bytes = u128::from(collective.bytes.0) * alike;
        let sum = sums.entry((collective.kind, group.kind)).or_default();
        sum.count += alike as u64;
        sum.time += u128::from(end.since(begin).0) * alike;
        *sum.bytes.entry(group.members.len()).or_default() += bytes;
    });
    let figures = sums.into_iter().map(|((kind, group), Sums { count, time, bytes: by_members })| {
        let bytes = by_members.values().sum::<u128>();
        let on_bus: f64 =
            by_members.iter().map(|(&members, &bytes)| bytes as f64 * kind.bus_factor(members)).sum();
        let per_time = |amount: f64| if time == 0 { 0.0 } else { amount / time as f64 };
        let whole = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
        Bandwidth {
            kind,
            group,
            count,
            bytes: Bytes(whole(bytes)),
            time: Nanos(whole(time)),
            algbw: per_time(bytes as f64),
            busbw: per_time(on_bus),
        }
    });
    figures.collect()
}

fn busiest(plan: &Plan, jobs: &[Job], fabric: &Fabric, outcome: &Outcome) -> Vec<LinkFigures> {
    let mut carried = vec![0_u64; fabric.link_count()];
    for flow in plan.workload.flows() {
        for link in fabric.path(flow.src, flow.dst) {
            carried[link.index()] += flow.size.0;
        }
    }
    for (planned, job) in plan.jobs.iter().zip(jobs) {
        for (&(src, dst), bytes) in &planned.others {
            for link in fabric.path(src, dst) {
                let all = bytes.0.saturating_mul(job.iterations.into());
                carried[link.index()] = carried[link.index()].saturating_add(all);
            }
        }
    }
    let span = outcome.makespan().as_secs_f64() * 1e9;
    let figures = carried.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0).map(|(link, bytes)| {
        let link = LinkId::from_index(link);
        let full = bytes as f64 / fabric.capacity(link).bytes_per_nano();
        LinkFigures { link, bytes: Bytes(bytes), busy: if span > 0.0 { full / span } else { 0.0 } }
    });
    let mut figures: Vec<LinkFigures> = figures.collect();
    figures.sort_by(|a, b| b.busy.total_cmp(&a.busy).then(a.link.cmp(&b.link)));
    figures
}

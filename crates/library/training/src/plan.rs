//! Jobs on a cluster as a workload: every iteration written out as stages, and what each stage
//! stands for.
//!
//! A job becomes one task. Computation is a plain span of time, since a GPU has one job and its
//! order is in the program; a collective is the latency of its steps, if there is any, and a coflow
//! for each of its rounds. The next iteration of a rank begins after the rank's last operations of
//! the one before, so that ranks of a pipeline are in different iterations at once. Each job
//! declares its iterations to policies: its GPUs, their computation, and which coflow is of which
//! iteration. Where rank 0 of each job in which all ranks do the same stands for all of them, only
//! its operations are written: [`PlannedJob::first`].
//!
//! # Cost
//! A stage of each iteration takes about 100 bytes, and one that transfers as much again in each
//! run. A flow takes 4 in each iteration: what it is is held once
//! ([`WorkloadBuilder::push_repeating`]). Runs keep nothing of flows that have ended where they are
//! asked to forget them. [`MOST_STAGES`] and [`MOST_FLOWS`] bound stages and flows; they are
//! counted before any is written.
//!
//! Rejected:
//! - A task for each iteration, which would need an arrival that is known only once the one before
//!   has ended.
//! - Stages that are made while they run, in a task that grows and sheds them. Written out, flows
//!   and what engines keep of each outweigh stages twenty to one in a day of jobs, and these are
//!   held once or forgotten without it. All drivers, the validator and bounds read the stages of a
//!   task; a second form of a task for the fluid alone would be another account of when a stage may
//!   start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cavalcade_model::{
    BitsPerSec, Bytes, Coflow, Compute, Flow, Instant, Iterations, JobId, Nanos, PortId, Stage, StageIndex,
    Task, TaskClass, TaskId, Work, Workload, WorkloadBuilder, WorkloadError,
};

use crate::cluster::{Cluster, Gpu};
use crate::collective::{Algorithm, Collective, NotPowerOfTwo, Part, Round, rounds, size};
use crate::program::{OpId, OpWork, Program};
use crate::replicas::{First, are_apart, size_of_row};

/// The most stages of all jobs.
pub const MOST_STAGES: usize = 1 << 25;
/// The most flows of all jobs.
pub const MOST_FLOWS: usize = 1 << 27;

/// A job: a program that is run so many times on these GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name; unique.
    pub name: String,
    /// What its ranks do in an iteration.
    pub program: Program,
    /// For each rank its GPU.
    pub gpus: Vec<Gpu>,
    /// When it begins.
    pub arrival: Instant,
    /// How many iterations it has.
    pub iterations: u32,
    /// How its collectives go.
    pub algorithm: Algorithm,
}

/// Jobs that cannot be on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No job.
    #[error("there are no jobs: expected at least one")]
    NoJobs,
    /// A job that never iterates.
    #[error("job {job} has 0 iterations: expected at least 1")]
    NoIterations {
        /// The job.
        job: String,
    },
    /// A placement of another size than the job.
    #[error("job {job} has {ranks} ranks and is placed on {gpus} GPUs: expected one for each rank")]
    Placement {
        /// The job.
        job: String,
        /// Its ranks.
        ranks: u32,
        /// GPUs that it is placed on.
        gpus: usize,
    },
    /// A GPU that the cluster does not have.
    #[error(
        "job {job} is placed on GPU {place} of host {host}, and the cluster has {hosts} hosts with {gpus} GPUs: count both from 0"
    )]
    NoSuchGpu {
        /// The job.
        job: String,
        /// The host named.
        host: u32,
        /// The GPU's place named.
        place: u32,
        /// Hosts of the cluster.
        hosts: u32,
        /// GPUs of each.
        gpus: u32,
    },
    /// A GPU of two ranks.
    #[error(
        "jobs {job} and {other} are both placed on GPU {place} of host {host}: expected one rank on each GPU"
    )]
    Taken {
        /// The job.
        job: String,
        /// The one that was there first; maybe the same.
        other: String,
        /// The host.
        host: u32,
        /// The GPU's place.
        place: u32,
    },
    /// A group that an algorithm does not fit.
    #[error("job {job}: {problem}")]
    Algorithm {
        /// The job.
        job: String,
        /// What does not fit.
        problem: NotPowerOfTwo,
    },
    /// Too many stages or flows.
    #[error(
        "the jobs have more than {stages} stages or {flows} flows in all iterations: run fewer iterations, or take another algorithm"
    )]
    TooLarge {
        /// The most stages.
        stages: usize,
        /// The most flows.
        flows: usize,
    },
    /// A workload that cannot be.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// What a stage stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTag {
    /// The operation; `None` where stages only meet between iterations.
    pub op: Option<OpId>,
    /// The iteration, from 0.
    pub iteration: u32,
}

/// A job of a plan.
#[derive(Clone, Debug)]
pub struct PlannedJob {
    /// Its task in the workload.
    pub task: TaskId,
    /// For each of its stages what it stands for.
    pub tags: Vec<StageTag>,
    /// The operations of rank 0, where these alone are written and stand for those of all ranks;
    /// then tags count in them.
    pub first: Option<Program>,
    /// Then what other ranks send from port to port in an iteration.
    pub others: BTreeMap<(PortId, PortId), Bytes>,
}

/// Jobs as a workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A task for each job.
    pub workload: Arc<Workload>,
    /// The jobs, in the order in which they were given.
    pub jobs: Vec<PlannedJob>,
}

/// Writes jobs on a cluster out as a workload.
///
/// # Errors
/// If a job has no iteration, does not fit its GPUs, or all together are too large.
pub fn plan(cluster: &Cluster, jobs: &[Job]) -> Result<Plan, PlanError> {
    check(cluster, jobs)?;
    let firsts = firsts(cluster, jobs)?;
    written(cluster, jobs, firsts)
}

/// The same with all operations of all ranks.
#[cfg(test)]
pub(crate) fn plan_whole(cluster: &Cluster, jobs: &[Job]) -> Result<Plan, PlanError> {
    check(cluster, jobs)?;
    written(cluster, jobs, jobs.iter().map(|_| None).collect())
}

/// For each job the operations of rank 0, if they stand for those of all. One that shares a link
/// with another is not alone with its replicas, so then none does.
fn firsts(cluster: &Cluster, jobs: &[Job]) -> Result<Vec<Option<First>>, PlanError> {
    let none = || jobs.iter().map(|_| None).collect();
    // A fabric that cannot be built is told where it is run on.
    let fabric = match cluster.fabric().build(BitsPerSec(1)) {
        Ok(fabric) if jobs.iter().any(|job| job.program.row().is_some()) => fabric,
        _ => return Ok(none()),
    };
    let first = |job: &Job| match job.program.row() {
        Some(row) => First::of(cluster, &fabric, job, row),
        None => Ok(None),
    };
    let firsts = jobs.iter().map(first).collect::<Result<Vec<_>, _>>()?;
    if jobs.len() == 1 || firsts.iter().all(Option::is_none) {
        return Ok(firsts);
    }
    check_counts(jobs, &firsts)?;
    let ports = |parts: &[Unfolded]| {
        let flows = parts.iter().flat_map(|part| &part.flows);
        flows.map(|flow| (flow.src, flow.dst)).collect::<Vec<_>>()
    };
    let pairs = |(job, first): (&Job, &Option<First>)| -> Result<BTreeSet<(PortId, PortId)>, PlanError> {
        Ok(match first {
            Some(first) => {
                let others = first.others.keys().copied();
                first.unfolded().into_iter().flat_map(ports).chain(others).collect()
            }
            None => unfolded(cluster, job)?.iter().flat_map(|parts| ports(parts)).collect(),
        })
    };
    let pairs = jobs.iter().zip(&firsts).map(pairs).collect::<Result<Vec<_>, PlanError>>()?;
    let is_apart = are_apart(&fabric, &pairs);
    Ok(if is_apart { firsts } else { none() })
}

/// Writes jobs out, those of which there is a first rank as that alone.
fn written(cluster: &Cluster, jobs: &[Job], firsts: Vec<Option<First>>) -> Result<Plan, PlanError> {
    check_counts(jobs, &firsts)?;
    let mut builder = WorkloadBuilder::new(cluster.ports());
    let mut planned = Vec::with_capacity(jobs.len());
    for (index, (job, first)) in jobs.iter().zip(firsts).enumerate() {
        let (Written { stages, tags, coflows, of_coflows }, first, others) = match first {
            Some(first) => {
                let edges = Edges::of_chain(&first.program);
                let written = write_out(&first.program, &edges, &first.unfolded(), job.iterations);
                (written, Some(first.program), first.others)
            }
            None => {
                let unfolded = unfolded(cluster, job)?;
                let unfolded: Vec<&[Unfolded]> = unfolded.iter().map(Vec::as_slice).collect();
                let edges = Edges::of(&job.program);
                (write_out(&job.program, &edges, &unfolded, job.iterations), None, BTreeMap::new())
            }
        };
        let (gpus, compute) = (job.program.ranks(), mean(&job.program.computation()));
        let task = Task {
            name: job.name.clone(),
            job: Some(JobId(index as u64)),
            arrival: job.arrival,
            deadline: None,
            class: TaskClass::Online,
            weight: 1,
            stages,
        };
        let times = job.iterations as usize;
        builder.push_repeating(task, coflows, times).iterations(Iterations { gpus, compute, of_coflows });
        planned.push((tags, first, others));
    }
    // A workload numbers tasks in order of arrival, and equals as they were given.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&job| jobs[job].arrival);
    let mut tasks = vec![TaskId::default(); jobs.len()];
    order.iter().enumerate().for_each(|(task, &job)| tasks[job] = TaskId::from_index(task));
    let planned = planned.into_iter().zip(tasks);
    let jobs =
        planned.map(|((tags, first, others), task)| PlannedJob { task, tags, first, others }).collect();
    Ok(Plan { workload: Arc::new(builder.build()?), jobs })
}

/// The mean of times, rounded down; zero of an empty list.
fn mean(times: &[Nanos]) -> Nanos {
    let sum: u128 = times.iter().map(|time| u128::from(time.0)).sum();
    Nanos(sum.checked_div(times.len() as u128).unwrap_or(0) as u64)
}

fn check(cluster: &Cluster, jobs: &[Job]) -> Result<(), PlanError> {
    if jobs.is_empty() {
        return Err(PlanError::NoJobs);
    }
    let mut taken = BTreeMap::new();
    for job in jobs {
        let name = || job.name.clone();
        if job.iterations == 0 {
            return Err(PlanError::NoIterations { job: name() });
        }
        let (ranks, gpus) = (job.program.ranks(), job.gpus.len());
        if ranks as usize != gpus {
            return Err(PlanError::Placement { job: name(), ranks, gpus });
        }
        for &gpu in &job.gpus {
            let Gpu { host, place } = gpu;
            if !cluster.has(gpu) {
                let (hosts, gpus) = (cluster.hosts(), cluster.gpus());
                return Err(PlanError::NoSuchGpu { job: name(), host, place, hosts, gpus });
            }
            if let Some(other) = taken.insert(gpu, &job.name) {
                return Err(PlanError::Taken { job: name(), other: other.clone(), host, place });
            }
        }
    }
    Ok(())
}

/// Checks that no more is to be written than is held. An all-to-all of many ranks has flows for
/// each two of them.
fn check_counts(jobs: &[Job], firsts: &[Option<First>]) -> Result<(), PlanError> {
    let (mut stages, mut flows) = (0_usize, 0_usize);
    for (job, first) in jobs.iter().zip(firsts) {
        let iterations = job.iterations as usize;
        // Each rank may add a stage at which an iteration meets the next.
        let ranks = if first.is_some() { 1 } else { job.gpus.len() };
        let (parts, carried) = match (first, job.program.row()) {
            (Some(First { program, .. }), _) => size_of(job, program),
            (None, Some(row)) => size_of_row(job, row),
            (None, None) => size_of(job, &job.program),
        };
        let each = parts.saturating_mul(2).saturating_add(ranks);
        stages = stages.saturating_add(each.saturating_mul(iterations));
        flows = flows.saturating_add(carried.saturating_mul(iterations));
        if stages > MOST_STAGES || flows > MOST_FLOWS {
            return Err(PlanError::TooLarge { stages: MOST_STAGES, flows: MOST_FLOWS });
        }
    }
    Ok(())
}

/// How many rounds and flows the operations of an iteration have.
fn size_of(job: &Job, program: &Program) -> (usize, usize) {
    program.ops().iter().fold((0_usize, 0_usize), |(parts, flows), op| {
        let (more_parts, more_flows) = match &op.work {
            OpWork::Compute { .. } => (1, 0),
            OpWork::Transfer { bytes, .. } => (1, usize::from(*bytes > Bytes::ZERO)),
            OpWork::Collective(collective) => {
                let members = &program.group(collective.group).members;
                size(collective, &hosts_of(job, members), job.algorithm)
            }
        };
        (parts.saturating_add(more_parts), flows.saturating_add(more_flows))
    })
}

/// The hosts of these ranks.
pub(crate) fn hosts_of(job: &Job, ranks: &[u32]) -> Vec<u32> {
    ranks.iter().map(|&rank| job.gpus[rank as usize].host).collect()
}

/// A part of an operation: a wait, and then flows, either of which may be nothing.
#[derive(Clone, Debug)]
pub(crate) struct Unfolded {
    pub(crate) wait: Nanos,
    pub(crate) flows: Vec<Flow>,
}

impl Unfolded {
    /// A wait alone.
    pub(crate) fn lasting(wait: Nanos) -> Self {
        Self { wait, flows: Vec::new() }
    }
}

/// The parts of each operation of a job on the cluster: one at least.
fn unfolded(cluster: &Cluster, job: &Job) -> Result<Vec<Vec<Unfolded>>, PlanError> {
    let ops = job.program.ops().iter();
    ops.map(|op| match &op.work {
        OpWork::Compute { duration, .. } => Ok(vec![Unfolded::lasting(*duration)]),
        OpWork::Transfer { from, to, bytes } => {
            let part = Part { from: 0, to: 1, bytes: *bytes };
            let parts = if *bytes == Bytes::ZERO { Vec::new() } else { vec![part] };
            Ok(vec![placed(cluster, job, &[*from, *to], &Round { parts, steps: 1 })])
        }
        OpWork::Collective(collective) => {
            unfolded_collective(cluster, job, &job.program.group(collective.group).members, collective)
        }
    })
    .collect()
}

/// What a collective of these members comes to.
pub(crate) fn unfolded_collective(
    cluster: &Cluster,
    job: &Job,
    members: &[u32],
    collective: &Collective,
) -> Result<Vec<Unfolded>, PlanError> {
    let rounds = rounds(collective, &hosts_of(job, members), job.algorithm)
        .map_err(|problem| PlanError::Algorithm { job: job.name.clone(), problem })?;
    Ok(rounds.iter().map(|round| placed(cluster, job, members, round)).collect())
}

/// A round between these ranks.
fn placed(cluster: &Cluster, job: &Job, ranks: &[u32], round: &Round) -> Unfolded {
    let gpu = |member: u32| job.gpus[ranks[member as usize] as usize];
    let flows = round.parts.iter().map(|part| {
        let (src, dst, _) = cluster.between(gpu(part.from), gpu(part.to));
        Flow { src, dst, size: part.bytes, wave: Nanos::ZERO }
    });
    let hosts = hosts_of(job, ranks);
    let leaves_host = hosts.iter().any(|&host| host != hosts[0]);
    let latency = cluster.latency(leaves_host).0.saturating_mul(round.steps.into());
    Unfolded { wait: Nanos(latency), flows: flows.collect() }
}

/// The stages of a task, with what each stands for, and its coflows.
struct Written {
    stages: Vec<Stage>,
    tags: Vec<StageTag>,
    /// Those of an iteration; all have the same.
    coflows: Vec<Coflow>,
    /// The iteration of each coflow.
    of_coflows: Vec<u32>,
}

impl Written {
    fn push(&mut self, after: Vec<StageIndex>, work: Work, tag: StageTag) -> StageIndex {
        let index = StageIndex::from_index(self.stages.len());
        self.stages.push(Stage { starts_after: after, finishes_after: Vec::new(), work });
        self.tags.push(tag);
        index
    }
}

/// For each rank the operations that begin its iteration, and those that end it.
struct Edges {
    first: Vec<Vec<OpId>>,
    last: Vec<Vec<OpId>>,
}

impl Edges {
    /// Those of rank 0 alone, whose operations follow each other.
    fn of_chain(program: &Program) -> Self {
        let last = OpId(program.ops().len() as u32 - 1);
        Self { first: vec![vec![OpId(0)]], last: vec![vec![last]] }
    }

    fn of(program: &Program) -> Self {
        let ranks = program.ranks() as usize;
        let (mut first, mut last) = (vec![Vec::new(); ranks], vec![Vec::new(); ranks]);
        // Ranks of an operation that a later one of the same rank waits for.
        let mut followed = vec![Vec::new(); program.ops().len()];
        for (index, op) in program.ops().iter().enumerate() {
            let id = OpId(index as u32);
            let mut own = BTreeSet::new();
            for &before in &op.after {
                for rank in program.shared_ranks(before, id) {
                    own.insert(rank);
                    followed[before.index()].push(rank);
                }
            }
            let begun = program.ranks_of(id).filter(|rank| !own.contains(rank));
            begun.for_each(|rank| first[rank as usize].push(id));
        }
        for (index, followed) in followed.iter_mut().enumerate() {
            followed.sort_unstable();
            let id = OpId(index as u32);
            let ended = program.ranks_of(id).filter(|rank| followed.binary_search(rank).is_err());
            ended.for_each(|rank| last[rank as usize].push(id));
        }
        Self { first, last }
    }
}

fn write_out(program: &Program, edges: &Edges, unfolded: &[&[Unfolded]], iterations: u32) -> Written {
    // For each operation the ranks that it begins an iteration of.
    let mut begins: Vec<Vec<u32>> = vec![Vec::new(); program.ops().len()];
    for (rank, first) in edges.first.iter().enumerate() {
        first.iter().for_each(|op| begins[op.index()].push(rank as u32));
    }
    let mut written =
        Written { stages: Vec::new(), tags: Vec::new(), coflows: Vec::new(), of_coflows: Vec::new() };
    // The stages with which each rank ended the iteration before, and each operation of this one
    // its own.
    let mut ended: Vec<Vec<StageIndex>> = vec![Vec::new(); edges.first.len()];
    let mut ends = vec![StageIndex(0); program.ops().len()];
    for iteration in 0..iterations {
        for (index, (op, parts)) in program.ops().iter().zip(unfolded).enumerate() {
            let before = op.after.iter().map(|before| ends[before.index()]);
            let earlier = begins[index].iter().flat_map(|&rank| &ended[rank as usize]).copied();
            let mut after: Vec<StageIndex> = before.chain(earlier).collect();
            after.sort_unstable();
            after.dedup();
            let tag = StageTag { op: Some(OpId(index as u32)), iteration };
            for part in *parts {
                if part.wait > Nanos::ZERO || part.flows.is_empty() {
                    let work = Work::Compute(Compute::lasting(part.wait));
                    after = vec![written.push(after, work, tag)];
                }
                if !part.flows.is_empty() {
                    let work = Work::Transfer(Default::default());
                    if iteration == 0 {
                        written.coflows.push(Coflow { flows: part.flows.clone() });
                    }
                    written.of_coflows.push(iteration);
                    after = vec![written.push(after, work, tag)];
                }
            }
            ends[index] = after[0];
        }
        if iteration + 1 < iterations {
            for (rank, last) in edges.last.iter().enumerate() {
                let mut stages: Vec<StageIndex> = last.iter().map(|op| ends[op.index()]).collect();
                // Where several meet several, one between them keeps the edges few.
                if stages.len() > 1 && edges.first[rank].len() > 1 {
                    let work = Work::Compute(Compute::lasting(Nanos::ZERO));
                    stages = vec![written.push(stages, work, StageTag { op: None, iteration })];
                }
                ended[rank] = stages;
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterOptions;
    use crate::collective::{CollectiveKind, GroupKind};
    use crate::program::{ProgramBuilder, Stream};
    use cavalcade_model::{BitsPerSec, CoflowId, Iteration};

    fn cluster() -> Cluster {
        Cluster::new(&ClusterOptions {
            hosts: 2,
            gpus: 2,
            nics: 1,
            nic: BitsPerSec(8_000_000_000),
            scale_up: None,
            leaves: None,
            alpha: Nanos(3),
            scale_up_alpha: Nanos::ZERO,
        })
        .unwrap()
    }

    /// Two ranks that compute for 5 ns and exchange 8 bytes, on GPU `place` of both hosts.
    fn job(name: &str, place: u32) -> Job {
        let mut builder = ProgramBuilder::new(2);
        for rank in 0..2 {
            builder.compute(Stream { rank, number: 0 }, Nanos(5));
        }
        let group = builder.group(GroupKind::Data, vec![0, 1]).unwrap();
        builder.collective(Collective::new(group, CollectiveKind::AllReduce, Bytes(8)), 0).unwrap();
        Job {
            name: name.to_owned(),
            program: builder.build().unwrap(),
            gpus: vec![Gpu { host: 0, place }, Gpu { host: 1, place }],
            arrival: Instant::ZERO,
            iterations: 2,
            algorithm: Algorithm::Auto,
        }
    }

    #[test]
    fn an_iteration_begins_rank_by_rank_after_the_one_before() {
        let plan = plan(&cluster(), &[job("a", 0)]).unwrap();
        let stages = &plan.workload.tasks()[0].stages;
        let after = |stage: usize| stages[stage].starts_after.iter().map(|on| on.0).collect::<Vec<_>>();
        // Two computations, the latency of two steps, a coflow; then the same again.
        assert_eq!(stages.len(), 8);
        assert_eq!([after(2), after(3), after(4), after(6)], [vec![0, 1], vec![2], vec![3], vec![4, 5]]);
        assert_eq!(stages[2].work, Work::Compute(Compute::lasting(Nanos(6))));
        assert_eq!(plan.jobs[0].tags[7], StageTag { op: Some(OpId(2)), iteration: 1 });
        assert_eq!(plan.workload.bytes(), Bytes(32));
        let declared = |coflow| plan.workload.iteration(CoflowId(coflow));
        let first = Iteration { number: 0, bytes: Bytes(16), gpus: 2, compute: Nanos(5) };
        assert_eq!([declared(0), declared(1)], [Some(first), Some(Iteration { number: 1, ..first })]);
    }

    #[test]
    fn jobs_keep_their_order_whatever_that_of_their_arrivals() {
        let late = Job { arrival: Instant(9), ..job("late", 0) };
        let plan = plan(&cluster(), &[late, job("early", 1)]).unwrap();
        let names = plan.jobs.iter().map(|job| plan.workload.task(job.task).name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["late", "early"]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |jobs: &[Job]| plan(&cluster(), jobs).unwrap_err().to_string();
        assert_eq!(refused(&[]), "there are no jobs: expected at least one");
        assert!(refused(&[Job { iterations: 0, ..job("a", 0) }]).starts_with("job a has 0 iterations"));
        assert!(refused(&[job("a", 0), job("b", 0)]).starts_with("jobs b and a are both placed on GPU 0"));
        assert!(refused(&[job("a", 2)]).contains("GPU 2 of host 0, and the cluster has 2 hosts"));
        let short = Job { gpus: vec![Gpu { host: 0, place: 0 }], ..job("a", 0) };
        assert!(refused(&[short]).contains("2 ranks and is placed on 1 GPUs"));
        assert!(refused(&[Job { iterations: u32::MAX, ..job("a", 0) }]).contains("fewer iterations"));
    }

    #[test]
    fn flows_for_each_two_of_many_ranks_are_refused_before_they_are_written() {
        let ranks = 1 << 16;
        let cluster = Cluster::new(&ClusterOptions {
            hosts: ranks,
            gpus: 1,
            nics: 1,
            nic: BitsPerSec(8_000_000_000),
            scale_up: None,
            leaves: None,
            alpha: Nanos::ZERO,
            scale_up_alpha: Nanos::ZERO,
        })
        .unwrap();
        let refused = |kind, algorithm| {
            let mut builder = ProgramBuilder::new(ranks);
            let group = builder.group(GroupKind::Data, (0..ranks).collect()).unwrap();
            builder.collective(Collective::new(group, kind, Bytes(1 << 20)), 0).unwrap();
            let program = builder.build().unwrap();
            let gpus = (0..ranks).map(|host| Gpu { host, place: 0 }).collect();
            plan(&cluster, &[Job { program, gpus, algorithm, iterations: 1, ..job("a", 0) }]).unwrap_err()
        };
        let too_large = PlanError::TooLarge { stages: MOST_STAGES, flows: MOST_FLOWS };
        for (kind, algorithm) in [
            (CollectiveKind::AllToAll, Algorithm::Auto),
            (CollectiveKind::AllReduce, Algorithm::Direct),
            (CollectiveKind::AllReduce, Algorithm::RingSteps),
        ] {
            assert_eq!(refused(kind, algorithm), too_large, "{kind} by {algorithm}");
        }
    }
}

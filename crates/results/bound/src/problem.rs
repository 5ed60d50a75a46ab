//! What all bounds look at: jobs with a release, a floor and loads on links. Everything else about
//! a schedule is relaxed.
//!
//! A **job** is whatever finishes as one: a coflow, or a task with all its stages. It is
//! characterised by
//!
//! - `release`: the time from which its completion time counts;
//! - `floor`: the earliest time at which any schedule could finish it, even with the fabric to
//!   itself;
//! - for each link, how long it keeps the link busy, split by the time from which those bytes can
//!   be there (waves, and stages behind other stages).
//!
//! Relaxed are: which link meets which (the matching), the order of stages beyond what their
//! earliest starts say, and that one coflow's flows share its fate on several links.
//!
//! # Numbers
//! Times are whole nanoseconds. The time that a job keeps a link busy is rounded *down*, once for
//! each link and start; so every figure made of it is at most what exact arithmetic would give, and
//! nothing here is floating point.
//!
//! # A coflow whose arrival depends on the schedule
//! A coflow behind other transfers arrives when they end, so its release is not known. It takes at
//! least Γ from then on. It is entered as a job that is released at zero, loads nothing and has Γ
//! as its floor, which says just that.

use cavalcade_model::{BitsPerSec, Fabric, FabricError, Flow, LinkId, StageIndex, Task, Work, Workload};

use crate::{Conditions, Objective};

/// Something that finishes as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Time at which its completion time starts to count, in nanoseconds.
    pub(crate) release: u64,
    /// The earliest time at which any schedule could finish it.
    pub(crate) floor: u64,
    /// Weight.
    pub(crate) weight: u64,
    /// Time at which it should be done, where it has a deadline.
    pub(crate) due: Option<u64>,
}

/// Work that one job releases on one link at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// The earliest time at which these bytes can cross the link.
    pub(crate) release: u64,
    /// Owner.
    pub(crate) job: u32,
    /// Time that it keeps the link busy, rounded down; never zero.
    pub(crate) busy: u64,
}

/// The relaxed problem.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) jobs: Vec<Job>,
    /// For each link: its loads, the latest release first.
    pub(crate) links: Vec<Vec<Load>>,
}

impl Problem {
    pub(crate) fn new(
        workload: &Workload,
        fabric: &Fabric,
        conditions: Conditions,
    ) -> Result<Self, FabricError> {
        fabric.check(workload)?;
        let Conditions { objective, offline, weighted } = conditions;
        let empty = Self { jobs: Vec::new(), links: vec![Vec::new(); fabric.link_count()] };
        let mut maker = Maker { workload, fabric, objective, problem: empty };
        for task in workload.tasks() {
            let arrival = if offline { 0 } else { task.arrival.get() };
            maker.task(task, arrival, if weighted { u64::from(task.weight) } else { 1 });
        }
        for loads in &mut maker.problem.links {
            loads.sort_by(|a, b| b.release.cmp(&a.release).then(a.job.cmp(&b.job)));
        }
        Ok(maker.problem)
    }

    /// The weights of all jobs together.
    pub(crate) fn weight(&self) -> u64 {
        self.jobs.iter().map(|job| job.weight).sum()
    }

    /// The floors, as if every job had the fabric to itself: the sum of weight times completion
    /// time.
    pub(crate) fn isolation(&self) -> u128 {
        self.jobs.iter().map(|job| u128::from(job.weight) * u128::from(job.floor - job.release)).sum()
    }
}

/// Time at which a stage can be done at the earliest.
#[derive(Clone, Copy)]
struct Done {
    at: u64,
    /// True if it and all before it are computation that needs no slot, so that it is done at that
    /// time in every schedule.
    certain: bool,
}

/// Bytes of a job on one link, and the earliest time at which they can cross it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    link: LinkId,
    release: u64,
    bytes: u64,
}

struct Maker<'a> {
    workload: &'a Workload,
    fabric: &'a Fabric,
    objective: Objective,
    problem: Problem,
}

impl Maker<'_> {
    /// Enters the jobs of one task.
    fn task(&mut self, task: &Task, arrival: u64, weight: u64) {
        let mut done: Vec<Done> = Vec::with_capacity(task.stages.len());
        let mut all = Vec::new();
        for stage in &task.stages {
            let start = latest(arrival, &stage.starts_after, &done);
            let held = latest(arrival, &stage.finishes_after, &done);
            let own = match stage.work {
                Work::Compute(compute) => Done {
                    at: start.at.saturating_add(compute.duration.get()),
                    // Where it needs a slot of a host it may take longer.
                    certain: start.certain && self.workload.host_of(&compute).is_none(),
                },
                Work::Transfer(coflow) => {
                    let flows = self.workload.flows_of(coflow);
                    let mut pieces = self.pieces(flows, start.at);
                    let at = self.floor(&pieces);
                    match self.objective {
                        Objective::Coflows => self.coflow(flows, start, pieces, at.max(held.at), weight),
                        Objective::Tasks => all.append(&mut pieces),
                    }
                    Done { at, certain: false }
                }
            };
            done.push(Done { at: own.at.max(held.at), certain: own.certain && held.certain });
        }
        if self.objective == Objective::Tasks {
            all.sort_unstable();
            let end = done.iter().map(|done| done.at).fold(arrival, u64::max);
            let due = task.deadline.map(|deadline| arrival.saturating_add(deadline.get()));
            self.enter(Job { release: arrival, floor: end.max(self.floor(&all)), weight, due }, &all);
        }
    }

    /// Enters one coflow that is done at `floor` at the earliest.
    fn coflow(&mut self, flows: &[Flow], start: Done, pieces: Vec<Piece>, floor: u64, weight: u64) {
        let first_wave = flows.iter().map(|flow| flow.wave.get()).min().unwrap_or_default();
        let release = start.at.saturating_add(first_wave);
        if start.certain {
            self.enter(Job { release, floor, weight, due: None }, &pieces);
        } else {
            let floor = self.floor(&pieces) - release;
            self.enter(Job { release: 0, floor, weight, due: None }, &[]);
        }
    }

    /// Returns the work of `flows` on each link, by link and release.
    fn pieces(&self, flows: &[Flow], start: u64) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(2 * flows.len());
        for flow in flows {
            let release = start.saturating_add(flow.wave.get());
            let path = self.fabric.path(flow.src, flow.dst);
            pieces.extend(path.iter().map(|&link| Piece { link, release, bytes: flow.size.get() }));
        }
        pieces.sort_unstable();
        pieces
    }

    /// Returns the earliest time at which `pieces` can be across: on each link, work released at
    /// some time or later needs its time from then on.
    fn floor(&self, pieces: &[Piece]) -> u64 {
        let on_links = pieces.chunk_by(|a, b| a.link == b.link);
        let across = on_links.flat_map(|pieces| {
            let capacity = self.fabric.capacity(pieces[0].link);
            let mut bytes = 0;
            pieces.iter().rev().map(move |piece| {
                bytes += piece.bytes;
                piece.release.saturating_add(nanos(bytes, capacity))
            })
        });
        across.max().unwrap_or_default()
    }

    fn enter(&mut self, job: Job, pieces: &[Piece]) {
        let index = self.problem.jobs.len() as u32;
        for pieces in pieces.chunk_by(|a, b| (a.link, a.release) == (b.link, b.release)) {
            let Piece { link, release, .. } = pieces[0];
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            let busy = nanos(bytes, self.fabric.capacity(link));
            if busy > 0 {
                self.problem.links[link.index()].push(Load { release, job: index, busy });
            }
        }
        self.problem.jobs.push(job);
    }
}

/// Returns the time at which all of `stages` are done at the earliest, but not before `arrival`.
fn latest(arrival: u64, stages: &[StageIndex], done: &[Done]) -> Done {
    stages.iter().map(|stage| done[stage.index()]).fold(Done { at: arrival, certain: true }, |a, b| Done {
        at: a.at.max(b.at),
        certain: a.certain && b.certain,
    })
}

/// The time that `bytes` take at `capacity`, rounded down.
fn nanos(bytes: u64, capacity: BitsPerSec) -> u64 {
    let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(capacity.get());
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

//! When each stage of a job began and ended in a run, and what each rank did in between.

use core::ops::Range;

use cavalcade_metrics::Outcome;
use cavalcade_model::{Instant, Nanos, Work};

use crate::collective::GroupKind;
use crate::plan::{Job, Plan, StageTag};
use crate::program::{OpId, OpWork, Program};

/// What a rank does. Where several are under way at once, the first in this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Doing {
    /// It computes.
    Computing,
    /// A collective or transfer of the rank is under way.
    Communicating(GroupKind),
    /// It has reached a collective, and others have not.
    Waiting,
    /// Nothing of these.
    Idle,
}

/// A span of time in which a rank does one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What it does.
    pub doing: Doing,
    /// When it begins.
    pub begin: Instant,
    /// When it ends; later.
    pub end: Instant,
}

/// The stages of a job in time.
#[derive(Clone, Debug)]
pub struct Timeline {
    arrival: Instant,
    /// The operations of rank 0, where they stand for those of all.
    first: Option<Program>,
    /// The first and last instant of each operation in each iteration, iteration by iteration, in
    /// order of operation.
    ops: Vec<[Instant; 2]>,
    each: usize,
    end: Instant,
    iteration_ends: Vec<Instant>,
}

impl Timeline {
    /// That of the `job`th job of a plan.
    pub fn of(plan: &Plan, job: usize, outcome: &Outcome) -> Self {
        let planned = &plan.jobs[job];
        let task = plan.workload.task(planned.task);
        let mut ends: Vec<Instant> = Vec::with_capacity(task.stages.len());
        let each = planned.tags.iter().filter_map(|tag| tag.op).map(|op| op.index() + 1).max().unwrap_or(0);
        let iterations = planned.tags.last().map_or(0, |tag| tag.iteration as usize + 1);
        let mut ops = vec![[Instant(u64::MAX), Instant::ZERO]; each * iterations];
        let mut iteration_ends = vec![task.arrival; iterations];
        for (stage, &StageTag { op, iteration }) in task.stages.iter().zip(&planned.tags) {
            let ready = stage.starts_after.iter().map(|before| ends[before.index()]).max();
            let begin = ready.unwrap_or(task.arrival);
            let end = match stage.work {
                Work::Compute(compute) => begin + compute.duration,
                Work::Transfer(coflow) => outcome.coflow_finish[coflow.index()],
            };
            ends.push(end);
            let iteration = iteration as usize;
            iteration_ends[iteration] = iteration_ends[iteration].max(end);
            if let Some(op) = op {
                let span = &mut ops[iteration * each + op.index()];
                *span = [span[0].min(begin), span[1].max(end)];
            }
        }
        let end = iteration_ends.iter().copied().max().unwrap_or(task.arrival);
        let (arrival, first) = (task.arrival, planned.first.clone());
        Self { arrival, first, ops, each, end, iteration_ends }
    }

    /// The beginning of the job.
    pub fn arrival(&self) -> Instant {
        self.arrival
    }

    /// The end of the job.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// How long each iteration lasted, from the end of the one before.
    pub fn iterations(&self) -> Vec<Nanos> {
        let before = [self.arrival].into_iter().chain(self.iteration_ends.iter().copied());
        // Ranks of a pipeline end iterations out of order only where they share nothing.
        self.iteration_ends
            .iter()
            .zip(before)
            .map(|(end, before)| Nanos(end.0.saturating_sub(before.0)))
            .collect()
    }

    /// The operations that are told of.
    pub fn program<'a>(&'a self, job: &'a Job) -> &'a Program {
        self.first.as_ref().unwrap_or(&job.program)
    }

    /// How many operations of the job one stands for: more than one where rank 0 stands for all.
    pub fn alike(&self, op: OpId) -> u64 {
        let of_program = |program: &Program| {
            let members = program.ranks_of(op).count() as u64;
            u64::from(program.ranks()) / members
        };
        self.first.as_ref().map_or(1, of_program)
    }

    /// The ranks for which an operation of [`Timeline::program`] stands: all, where rank 0 stands
    /// for all.
    pub fn ranks_of<'a>(&'a self, job: &'a Job, op: OpId) -> impl Iterator<Item = u32> + 'a {
        let all = if self.first.is_some() { 0..job.program.ranks() } else { 0..0 };
        let own = self.first.is_none().then(|| job.program.ranks_of(op));
        all.chain(own.into_iter().flatten())
    }

    /// Calls `visit` with operations of [`Timeline::program`] in all iterations, and when each
    /// began and ended.
    pub fn each_op(&self, mut visit: impl FnMut(OpId, Instant, Instant)) {
        for iteration in self.ops.chunks(self.each.max(1)) {
            for (op, [begin, end]) in iteration.iter().enumerate() {
                visit(OpId(op as u32), *begin, *end);
            }
        }
    }

    /// For each iteration when each operation began and ended.
    pub fn passes(&self) -> impl Iterator<Item = &[[Instant; 2]]> {
        self.ops.chunks(self.each.max(1))
    }

    /// Computation of all ranks within a window, in nanoseconds.
    pub fn computed_within(&self, job: &Job, window: [Instant; 2]) -> f64 {
        let mut sum = 0_u128;
        let program = self.program(job);
        self.each_op(|op, begin, end| {
            if matches!(program.ops()[op.index()].work, OpWork::Compute { .. }) {
                let (begin, end) = (begin.max(window[0]), end.min(window[1]));
                sum += u128::from(end.0.saturating_sub(begin.0)) * u128::from(self.alike(op));
            }
        });
        sum as f64
    }

    /// Calls `visit` with each rank and what it does from the arrival of its job to the end,
    /// without gaps.
    pub fn each_rank(&self, job: &Job, mut visit: impl FnMut(u32, &[Span])) {
        self.each_ranks(job, |ranks, spans| ranks.for_each(|rank| visit(rank, spans)));
    }

    /// The same, with ranks that do the same at the same times together.
    pub(crate) fn each_ranks(&self, job: &Job, mut visit: impl FnMut(Range<u32>, &[Span])) {
        let program = self.program(job);
        let ranks = if self.first.is_some() { 1 } else { program.ranks() };
        let mut own = self.spans(program, ranks as usize);
        for (rank, spans) in (0_u32..).zip(&mut own) {
            let flat = flattened(spans, [self.arrival, self.end]);
            let ranks = if self.first.is_some() { 0..program.ranks() } else { rank..rank + 1 };
            visit(ranks, &flat);
        }
    }

    /// What the first ranks, so many, do; spans may overlap.
    fn spans(&self, program: &Program, ranks: usize) -> Vec<Vec<Span>> {
        let is_told = |rank: &u32| (*rank as usize) < ranks;
        let mut own: Vec<Vec<Span>> = vec![Vec::new(); ranks];
        // For each rank when it last was done with something: what it waits since.
        let mut done = vec![self.arrival; ranks];
        // When each rank of an operation came to it.
        let mut came = vec![None; ranks];
        for iteration in self.ops.chunks(self.each.max(1)) {
            let began = done.clone();
            for (index, &[begin, end]) in iteration.iter().enumerate() {
                let id = OpId(index as u32);
                let doing = program.group_kind(id).map_or(Doing::Computing, Doing::Communicating);
                let is_transfer = matches!(program.ops()[index].work, OpWork::Transfer { .. });
                if doing != Doing::Computing {
                    for &before in &program.ops()[index].after {
                        let ended = Some(iteration[before.index()][1]);
                        for rank in program.shared_ranks(before, id).filter(is_told) {
                            came[rank as usize] = came[rank as usize].max(ended);
                        }
                    }
                }
                for rank in program.ranks_of(id).filter(is_told) {
                    let spans = &mut own[rank as usize];
                    if begin < end {
                        spans.push(Span { doing, begin, end });
                    }
                    if doing != Doing::Computing {
                        let came = came[rank as usize].take().unwrap_or(began[rank as usize]);
                        // Who is to receive from another stage of a pipeline has nothing to do: a
                        // bubble.
                        if came < begin && !is_transfer {
                            spans.push(Span { doing: Doing::Waiting, begin: came, end: begin });
                        }
                    }
                    done[rank as usize] = done[rank as usize].max(end);
                }
            }
        }
        own
    }
}

/// What counts at each time of a window, of spans that overlap.
fn flattened(spans: &[Span], window: [Instant; 2]) -> Vec<Span> {
    const KINDS: usize = 9;
    let place = |doing: Doing| match doing {
        Doing::Computing => 0,
        Doing::Communicating(kind) => 1 + kind as usize,
        Doing::Waiting => KINDS - 2,
        Doing::Idle => KINDS - 1,
    };
    let mut doings = [Doing::Idle; KINDS];
    let mut edges: Vec<(Instant, usize, i32)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        let at = place(span.doing);
        doings[at] = span.doing;
        edges.extend([(span.begin, at, 1), (span.end, at, -1)]);
    }
    edges.sort_unstable();
    let mut open = [0_i32; KINDS];
    let mut flat: Vec<Span> = Vec::new();
    let mut since = window[0];
    let mut add = |begin: Instant, end: Instant, open: &[i32; KINDS]| {
        if begin >= end {
            return;
        }
        let doing = open.iter().position(|&count| count > 0).map_or(Doing::Idle, |at| doings[at]);
        match flat.last_mut() {
            Some(last) if last.doing == doing => last.end = end,
            _ => flat.push(Span { doing, begin, end }),
        }
    };
    for (at, kind, change) in edges {
        add(since, at, &open);
        since = since.max(at);
        open[kind] += change;
    }
    add(since, window[1], &open);
    flat
}

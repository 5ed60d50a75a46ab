//! When a flow may start: its task must have arrived, the stages before it must be done, and its
//! wave must have come.
//!
//! The idea: everything that waits for time alone sits in one heap (task arrivals in a sorted list
//! beside it); what waits for other stages sits in counters per stage. A stage is done when its own
//! work is and every stage that it must not finish before (Aalo's Finishes-Before) is; then those
//! that wait for it are counted down, which a list names that is made when its task arrives and
//! dropped when the task is done. Where waves come in turn, a wave also waits until all flows
//! before it are done; for such coflows alone flows are counted here. Computation that needs a slot
//! of a host waits for it (`computing`). Every driver starts flows by it.
//!
//! # Cost
//! O(stages + dependencies) for a task's life, in time and, while it is there, in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use std::ops::Range;

use crate::computing::{CpuOrder, Hosts};
use cavalcade_model::{CoflowId, FlowId, Instant, Nanos, Stage, StageIndex, TaskId, Work, Workload};

/// Something that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// The flows `first..end` of a coflow, all of one wave.
    Flows {
        /// Their coflow.
        coflow: CoflowId,
        /// The first flow.
        first: u32,
        /// Behind the last flow.
        end: u32,
        /// True if they are its first.
        opens: bool,
    },
    /// A stage of computation is over.
    Computed {
        /// Its task.
        task: TaskId,
        /// The stage.
        stage: StageIndex,
    },
}

#[derive(Clone, Copy, Debug, Default)]
struct StageState {
    /// Stages that it starts after and that are not done.
    blocked_by: u32,
    /// Its own work, and stages that it must not finish before, that are not done.
    unfinished: u32,
}

/// A stage that waits for another, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    /// It may not end before.
    Finishes(StageIndex),
    /// It may not start before.
    Starts(StageIndex),
}

/// The stages that wait for each stage of a task.
#[derive(Debug)]
struct Successors {
    /// For each stage where those that wait for it begin in `all`, and behind the last stage the
    /// end.
    first: Vec<u32>,
    all: Vec<Successor>,
}

impl Successors {
    /// Turns the dependencies of a task's stages around. Those that wait for a stage stand in their
    /// own order.
    fn of(stages: &[Stage]) -> Self {
        let mut first = vec![0; stages.len() + 1];
        for before in stages.iter().flat_map(|stage| stage.finishes_after.iter().chain(&stage.starts_after)) {
            first[before.index() + 1] += 1;
        }
        for stage in 0..stages.len() {
            first[stage + 1] += first[stage];
        }
        let mut next = first.clone();
        let mut all = vec![Successor::Starts(StageIndex(0)); first[stages.len()] as usize];
        let mut place = |before: &StageIndex, successor| {
            let place = &mut next[before.index()];
            all[*place as usize] = successor;
            *place += 1;
        };
        for (index, stage) in stages.iter().enumerate() {
            let index = StageIndex::from_index(index);
            stage.finishes_after.iter().for_each(|before| place(before, Successor::Finishes(index)));
            stage.starts_after.iter().for_each(|before| place(before, Successor::Starts(index)));
        }
        Self { first, all }
    }

    /// Where those that wait for `stage` stand in `all`.
    fn range(&self, stage: StageIndex) -> Range<u32> {
        self.first[stage.index()]..self.first[stage.index() + 1]
    }
}

/// A coflow whose waves come in turn, and which has not ended.
#[derive(Clone, Copy, Debug)]
struct Turn {
    started: Instant,
    /// The wave that is there.
    wave: Nanos,
    /// Number of its flows that are not done.
    left: usize,
}

/// Decides what starts when.
///
/// It holds no workload but is handed the same one at each call, which may have grown at its end
/// ([`Releases::grow`]).
#[derive(Debug)]
pub struct Releases {
    next_task: usize,
    timed: BinaryHeap<Reverse<(Instant, u64, Release)>>,
    sequence: u64,
    /// For each task: where its stages begin in `stages`.
    first_stage: Vec<u32>,
    stages: Vec<StageState>,
    stages_left: Vec<u32>,
    /// Of tasks that have arrived, are not done, and have more than one stage.
    successors: BTreeMap<TaskId, Successors>,
    /// How many successors have been looked at.
    #[cfg(test)]
    looks: u64,
    hosts: Hosts,
    turns: BTreeMap<CoflowId, Turn>,
    /// Time at which each coflow was done, as it becomes known.
    pub coflow_finish: Vec<Instant>,
    /// Time at which each task was done, as it becomes known.
    pub task_finish: Vec<Instant>,
    /// Tasks that are done, for the driver to take out once it has taken note.
    pub done: Vec<TaskId>,
}

impl Releases {
    /// Makes the releases of a workload before anything has started.
    pub fn new(workload: &Workload) -> Self {
        let mut releases = Self {
            next_task: 0,
            timed: BinaryHeap::new(),
            sequence: 0,
            first_stage: Vec::new(),
            stages: Vec::new(),
            stages_left: Vec::new(),
            successors: BTreeMap::new(),
            #[cfg(test)]
            looks: 0,
            hosts: Hosts::new(workload, CpuOrder::default()),
            turns: BTreeMap::new(),
            coflow_finish: Vec::new(),
            task_finish: Vec::new(),
            done: Vec::new(),
        };
        releases.grow(workload);
        releases
    }

    /// Takes note of tasks that have come into the workload.
    pub fn grow(&mut self, workload: &Workload) {
        for task in &workload.tasks()[self.first_stage.len()..] {
            self.first_stage.push(self.stages.len() as u32);
            self.stages.extend(task.stages.iter().map(|stage| StageState {
                blocked_by: stage.starts_after.len() as u32,
                unfinished: stage.finishes_after.len() as u32 + 1,
            }));
            self.stages_left.push(task.stages.len() as u32);
        }
        self.coflow_finish.resize(workload.coflow_count(), Instant::ZERO);
        self.task_finish.resize(workload.tasks().len(), Instant::ZERO);
    }

    /// The same, with hosts that compute in this order. For a workload without hosts it makes no
    /// difference.
    pub fn with_cpu_order(mut self, workload: &Workload, order: CpuOrder) -> Self {
        self.hosts = Hosts::new(workload, order);
        self
    }

    /// Returns the time at which the next thing is released.
    pub fn next(&self, workload: &Workload) -> Option<Instant> {
        // Without a list of what may be there: this is asked at every instant of a run.
        let never = Instant(u64::MAX);
        let task = workload.tasks().get(self.next_task).map_or(never, |task| task.arrival);
        let timed = self.timed.peek().map_or(never, |Reverse((when, ..))| *when);
        let next = task.min(timed).min(self.hosts.next().unwrap_or(never));
        (next < never).then_some(next)
    }

    /// Appends the flows released by `now` to `out`, in order of coflow.
    pub fn take(&mut self, workload: &Workload, now: Instant, out: &mut Vec<Release>) {
        while workload.tasks().get(self.next_task).is_some_and(|task| task.arrival <= now) {
            let task = TaskId::from_index(self.next_task);
            self.next_task += 1;
            let stages = &workload.task(task).stages;
            if stages.len() > 1 {
                self.successors.insert(task, Successors::of(stages));
            }
            for stage in 0..stages.len() {
                self.start_if_unblocked(workload, task, StageIndex::from_index(stage), now);
            }
        }
        loop {
            self.take_timed(workload, now, out);
            let computed = self.hosts.take(now);
            if computed.is_empty() {
                break;
            }
            computed.into_iter().for_each(|(task, stage)| self.work_done(workload, task, stage, now));
        }
        out.sort_unstable();
    }

    /// Takes what waited for time alone.
    fn take_timed(&mut self, workload: &Workload, now: Instant, out: &mut Vec<Release>) {
        while self.timed.peek().is_some_and(|Reverse((when, ..))| *when <= now) {
            let Some(Reverse((_, _, release))) = self.timed.pop() else { break };
            match release {
                Release::Flows { .. } => out.push(release),
                Release::Computed { task, stage } => self.work_done(workload, task, stage, now),
            }
        }
    }

    /// A flow has finished. To be told before [`Releases::coflow_done`]; only coflows whose waves
    /// come in turn care.
    #[inline]
    pub fn flow_done(&mut self, workload: &Workload, flow: FlowId, now: Instant) {
        if !self.turns.is_empty() {
            self.flow_in_turn_done(workload, flow, now);
        }
    }

    fn flow_in_turn_done(&mut self, workload: &Workload, flow: FlowId, now: Instant) {
        let coflow = workload.coflow_of(flow);
        let Some(turn) = self.turns.get_mut(&coflow) else { return };
        turn.left -= 1;
        if turn.left > 0 {
            return;
        }
        let Turn { started, wave, .. } = *turn;
        match workload.flows_of(coflow).iter().map(|flow| flow.wave).filter(|&later| later > wave).min() {
            Some(next) => self.release_turn(workload, coflow, Turn { started, wave: next, left: 0 }, now),
            None => drop(self.turns.remove(&coflow)),
        }
    }

    /// All flows of `coflow` have finished.
    pub fn coflow_done(&mut self, workload: &Workload, coflow: CoflowId, now: Instant) {
        let place = workload.place(coflow);
        self.work_done(workload, place.task, place.stage, now);
    }

    fn state(&mut self, task: TaskId, stage: StageIndex) -> &mut StageState {
        &mut self.stages[self.first_stage[task.index()] as usize + stage.index()]
    }

    fn start_if_unblocked(&mut self, workload: &Workload, task: TaskId, stage: StageIndex, now: Instant) {
        if self.state(task, stage).blocked_by > 0 {
            return;
        }
        match workload.task(task).stages[stage.index()].work {
            Work::Compute(compute) => match compute.host.filter(|_| !workload.hosts().is_empty()) {
                Some(host) => {
                    let computation = (task, workload.number(task), stage);
                    self.hosts.start(now, host.index(), computation, compute.duration);
                }
                None => self.at(now + compute.duration, Release::Computed { task, stage }),
            },
            Work::Transfer(coflow) => self.release_flows(workload, coflow, now),
        }
    }

    /// Releases the flows of a coflow in runs of equal wave.
    fn release_flows(&mut self, workload: &Workload, coflow: CoflowId, now: Instant) {
        let earliest = workload.flows_of(coflow).iter().map(|flow| flow.wave).min().unwrap_or_default();
        if workload.waves_in_turn(workload.place(coflow).task) {
            let turn = Turn { started: now, wave: earliest, left: 0 };
            self.release_turn(workload, coflow, turn, now);
        } else {
            self.release_runs(workload, coflow, now, now, |_| true);
        }
    }

    /// Releases the wave whose turn it is.
    fn release_turn(&mut self, workload: &Workload, coflow: CoflowId, turn: Turn, now: Instant) {
        let Turn { started, wave, .. } = turn;
        let left = workload.flows_of(coflow).iter().filter(|flow| flow.wave == wave).count();
        self.turns.insert(coflow, Turn { left, ..turn });
        self.release_runs(workload, coflow, started, now, |other| other == wave);
    }

    /// Releases those runs of a coflow that started at `started` whose wave is wanted, but not
    /// before `now`.
    fn release_runs(
        &mut self,
        workload: &Workload,
        coflow: CoflowId,
        started: Instant,
        now: Instant,
        wanted: impl Fn(Nanos) -> bool,
    ) {
        let flows = workload.flows_of(coflow);
        let earliest = flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        let mut first = workload.flow_ids(coflow).start;
        for run in flows.chunk_by(|a, b| a.wave == b.wave) {
            let (wave, end) = (run[0].wave, first + run.len() as u32);
            if wanted(wave) {
                let opens = wave == earliest;
                self.at((started + wave).max(now), Release::Flows { first, end, coflow, opens });
            }
            first = end;
        }
    }

    fn at(&mut self, when: Instant, release: Release) {
        self.sequence += 1;
        self.timed.push(Reverse((when, self.sequence, release)));
    }

    /// One of the things that a stage's end waits for is done. Goes on with the stages that end
    /// with it, each with those that wait for it before the next, and keeps its own list of them: a
    /// chain of any length ends at once.
    fn work_done(&mut self, workload: &Workload, task: TaskId, stage: StageIndex, now: Instant) {
        let mut open: Vec<Range<u32>> =
            self.end_if_finished(workload, task, stage, now).into_iter().collect();
        while let Some(range) = open.last_mut() {
            let Some(at) = range.next() else {
                open.pop();
                continue;
            };
            #[cfg(test)]
            {
                self.looks += 1;
            }
            match self.successors[&task].all[at as usize] {
                Successor::Finishes(stage) => open.extend(self.end_if_finished(workload, task, stage, now)),
                Successor::Starts(stage) => {
                    self.state(task, stage).blocked_by -= 1;
                    self.start_if_unblocked(workload, task, stage, now);
                }
            }
        }
    }

    /// Counts one of the things that a stage's end waits for. Returns where those that wait for the
    /// stage stand, if it has ended and its task has not.
    fn end_if_finished(
        &mut self,
        workload: &Workload,
        task: TaskId,
        stage: StageIndex,
        now: Instant,
    ) -> Option<Range<u32>> {
        let state = self.state(task, stage);
        state.unfinished -= 1;
        if state.unfinished > 0 {
            return None;
        }
        if let Work::Transfer(coflow) = workload.task(task).stages[stage.index()].work {
            self.coflow_finish[coflow.index()] = now;
        }
        self.stages_left[task.index()] -= 1;
        if self.stages_left[task.index()] > 0 {
            return Some(self.successors[&task].range(stage));
        }
        self.task_finish[task.index()] = now;
        self.done.push(task);
        self.successors.remove(&task);
        None
    }
}

#[cfg(test)]
mod tests;

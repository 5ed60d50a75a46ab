//! A workload in figures: all that an analysis needs of it.
//!
//! They are gathered task by task, so that a trace need not be held to be analysed: a [`Survey`] is
//! given a workload as a whole or in parts, and the facts are the same.
//!
//! Cost: O(flows), and for each coflow and task what is kept.

use cavalcade_model::{
    Bytes, CoflowRef, Fabric, FabricError, Instant, Nanos, StageIndex, Task, TaskClass, TaskId, Work,
    Workload,
};

use crate::bins::{Bin, BinThresholds};
use crate::isolation::{IsolationMeter, task_isolation_times};
use crate::outcome::Outcome;

/// A workload in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFacts {
    /// The trace as a whole.
    pub trace: TraceFacts,
    /// The limits between short and long, narrow and wide.
    pub thresholds: BinThresholds,
    /// For each coflow: its name and sizes.
    pub coflows: Vec<CoflowFacts>,
    /// For each coflow: its bin.
    pub bin_of: Vec<Bin>,
    /// For each coflow: its completion time alone on the fabric (Γ).
    pub isolation: Vec<Nanos>,
    /// For each task: its name, and what it takes alone.
    pub tasks: Vec<TaskFacts>,
}

/// What a comparison ranks runs by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranked {
    /// The mean CCT: every task is a single coflow.
    Coflows,
    /// The mean TCT: some tasks are more than one coflow, and their users wait for all of it.
    Tasks,
}

impl Ranked {
    /// What runs over a workload are ranked by: tasks, unless each is nothing but a single coflow.
    pub fn of(workload: &Workload) -> Self {
        let is_one_coflow =
            |task: &Task| matches!(&task.stages[..], [stage] if matches!(stage.work, Work::Transfer(_)));
        if workload.tasks().iter().all(is_one_coflow) { Self::Coflows } else { Self::Tasks }
    }

    /// What is ranked, in a word: `coflow`.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Coflows => "coflow",
            Self::Tasks => "task",
        }
    }

    /// The name of its completion time: `CCT`.
    pub fn time(self) -> &'static str {
        match self {
            Self::Coflows => "CCT",
            Self::Tasks => "TCT",
        }
    }
}

/// A task in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFacts {
    /// Its name in the trace.
    pub name: String,
    /// Its arrival, in the time of the trace.
    pub arrival: Instant,
    /// The time after its arrival by which it should be done.
    pub deadline: Option<Nanos>,
    /// The least time that it takes alone.
    pub alone: Nanos,
    /// Its weight in weighted means.
    pub weight: u32,
    /// Whether a user waits for it.
    pub class: TaskClass,
}

impl TaskFacts {
    /// Whether a completion time meets the deadline; `None` where there is none.
    pub fn deadline_met(&self, tct: Nanos) -> Option<bool> {
        self.deadline.map(|deadline| tct <= deadline)
    }

    /// A completion time over the least one. A task that takes no time alone counts as a
    /// nanosecond.
    pub fn slowdown(&self, tct: Nanos) -> f64 {
        tct.get().max(1) as f64 / self.alone.get().max(1) as f64
    }
}

/// A coflow in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoflowFacts {
    /// Its name in the trace.
    pub name: String,
    /// Its bytes.
    pub size: Bytes,
    /// The bytes of its largest flow.
    pub length: Bytes,
    /// The number of its flows.
    pub width: usize,
    /// Its task.
    pub task: TaskId,
    /// Its stage in that task.
    pub stage: StageIndex,
}

/// A workload in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFacts {
    /// The arrival of the first task, in the time of the trace: all times of a run count from it.
    pub origin: Instant,
    /// The number of tasks.
    pub tasks: usize,
    /// What runs over it are ranked by.
    pub ranked: Ranked,
    /// The number of coflows.
    pub coflows: usize,
    /// The number of flows.
    pub flows: usize,
    /// The number of ports in the trace.
    pub ports: u32,
    /// Names of ports, as [`Workload::port_names`] has them; empty where the trace gives none.
    pub port_names: Vec<String>,
    /// All bytes.
    pub bytes: Bytes,
    /// The arrival of the last task.
    pub last_arrival: Instant,
    /// The number of tasks with a deadline.
    pub deadlines: usize,
    /// True if some task's weight is not 1, so that weighted means differ from plain ones.
    pub weighted: bool,
    /// The content of each bin, in the order of [`Bin::ALL`].
    pub bins: [BinFacts; 4],
}

/// The part of a workload in one bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BinFacts {
    /// Coflows.
    pub coflows: usize,
    /// Their bytes.
    pub bytes: Bytes,
}

/// A fabric in figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricFacts {
    /// The number of ports.
    pub ports: u32,
    /// The rate of its slowest link, in bits per second.
    pub slowest_bps: u64,
    /// The rate of its fastest link, in bits per second.
    pub fastest_bps: u64,
}

/// Gathers the facts of a workload that comes in parts.
#[derive(Debug)]
pub struct Survey<'a> {
    fabric: &'a Fabric,
    meter: IsolationMeter<'a>,
    facts: WorkloadFacts,
}

impl<'a> Survey<'a> {
    /// Nothing yet, of a workload that crosses `fabric`.
    pub fn new(fabric: &'a Fabric, thresholds: BinThresholds) -> Self {
        let trace = TraceFacts {
            origin: Instant::ZERO,
            tasks: 0,
            ranked: Ranked::Coflows,
            coflows: 0,
            flows: 0,
            ports: 0,
            port_names: Vec::new(),
            bytes: Bytes::ZERO,
            last_arrival: Instant::ZERO,
            deadlines: 0,
            weighted: false,
            bins: [BinFacts::default(); 4],
        };
        let (coflows, bin_of, isolation, tasks) = Default::default();
        let facts = WorkloadFacts { trace, thresholds, coflows, bin_of, isolation, tasks };
        Self { fabric, meter: IsolationMeter::new(fabric), facts }
    }

    /// Adds a part, whose tasks arrive after those of all parts before it.
    ///
    /// # Errors
    /// If the fabric cannot carry it.
    pub fn add(&mut self, part: &Workload) -> Result<(), FabricError> {
        self.fabric.check(part)?;
        let facts = &mut self.facts;
        let first = (facts.tasks.len(), facts.isolation.len());
        for coflow in part.coflows() {
            let bin = facts.thresholds.bin_of(&coflow);
            let in_bin = &mut facts.trace.bins[bin.index()];
            in_bin.coflows += 1;
            in_bin.bytes += coflow.size();
            facts.bin_of.push(bin);
            facts.isolation.push(self.meter.isolation(coflow.flows));
            facts.coflows.push(coflow_facts(part, &coflow, first.0));
        }
        facts.tasks.extend(task_facts(part, &facts.isolation[first.1..]));
        let trace = &mut facts.trace;
        if trace.tasks == 0 {
            trace.origin = part.origin();
        }
        if Ranked::of(part) == Ranked::Tasks {
            trace.ranked = Ranked::Tasks;
        }
        if let Some(last) = part.tasks().last() {
            trace.last_arrival =
                Instant((part.origin() + last.arrival.since(Instant::ZERO)).since(trace.origin).0);
        }
        trace.tasks += part.tasks().len();
        trace.coflows += part.coflow_count();
        trace.flows += part.flows().len();
        trace.ports = trace.ports.max(part.ports());
        if trace.port_names.is_empty() {
            trace.port_names = part.port_names().to_vec();
        }
        trace.bytes += part.bytes();
        trace.deadlines += part.tasks().iter().filter(|task| task.deadline.is_some()).count();
        trace.weighted |= part.tasks().iter().any(|task| task.weight != 1);
        Ok(())
    }

    /// The facts of all parts.
    pub fn finish(self) -> WorkloadFacts {
        self.facts
    }
}

impl WorkloadFacts {
    /// The facts of a workload that is there as a whole.
    ///
    /// # Errors
    /// If the fabric cannot carry it.
    pub fn of(workload: &Workload, fabric: &Fabric, thresholds: BinThresholds) -> Result<Self, FabricError> {
        let mut survey = Survey::new(fabric, thresholds);
        survey.add(workload)?;
        Ok(survey.finish())
    }

    /// For each task of a run: from its arrival to the end of its last stage.
    pub fn task_completion_times(&self, outcome: &Outcome) -> Vec<Nanos> {
        since(self.tasks.iter().map(|task| Instant(task.arrival.since(self.trace.origin).0)), outcome)
    }
}

/// For each task of a run: from its arrival to the end of its last stage.
pub fn task_completion_times(workload: &Workload, outcome: &Outcome) -> Vec<Nanos> {
    since(workload.tasks().iter().map(|task| task.arrival), outcome)
}

/// How long tasks with these arrivals took.
fn since(arrivals: impl Iterator<Item = Instant>, outcome: &Outcome) -> Vec<Nanos> {
    arrivals.zip(&outcome.task_finish).map(|(arrival, finish)| finish.since(arrival)).collect()
}

/// The facts of each task, given the times that coflows take alone.
fn task_facts(workload: &Workload, isolation: &[Nanos]) -> Vec<TaskFacts> {
    let alone = task_isolation_times(workload, isolation);
    let facts = |(index, alone): (usize, Nanos)| {
        let id = TaskId::from_index(index);
        let Task { name, deadline, weight, class, .. } = workload.task(id);
        let (name, arrival) = (name.clone(), workload.submitted(id));
        TaskFacts { name, arrival, deadline: *deadline, alone, weight: *weight, class: *class }
    };
    alone.into_iter().enumerate().map(facts).collect()
}

/// The facts of a coflow of a part before which there are so many `tasks`.
fn coflow_facts(workload: &Workload, coflow: &CoflowRef<'_>, tasks: usize) -> CoflowFacts {
    let place = workload.place(coflow.id);
    CoflowFacts {
        name: workload.coflow_name(coflow.id),
        size: coflow.size(),
        length: coflow.length(),
        width: coflow.width(),
        task: TaskId::from_index(tasks + place.task.index()),
        stage: place.stage,
    }
}

/// A fabric in figures.
pub(crate) fn fabric_facts(fabric: &Fabric) -> FabricFacts {
    let rates = || fabric.links().map(|link| fabric.capacity(link).get());
    FabricFacts {
        ports: fabric.ports(),
        slowest_bps: rates().min().expect("a fabric has links"),
        fastest_bps: rates().max().expect("a fabric has links"),
    }
}

//! What is to be transferred: tasks, their stages, and the flows of each coflow.
//!
//! A [`Workload`] is built once through [`WorkloadBuilder`], which checks everything that a reader
//! cannot know to be true and puts tasks in order of arrival; after that every part may trust it.
//! Ids are dense: tasks by arrival (ties in the order given), coflows by task and stage, flows by
//! coflow. Flows of all coflows lie in one array, those of coflows that repeat once.

mod build;
mod flows;
mod free;
mod iterations;
mod names;
mod window;

use core::num::NonZeroU32;
use core::ops::Range;

use crate::{Bytes, CoflowId, FlowId, Instant, JobId, Nanos, PortId, StageIndex, TaskId};

pub use build::{LATEST, WorkloadBuilder};
use flows::FlowTable;
pub use flows::{Flows, FlowsIter};
pub use free::FreeNumbers;
use iterations::Repeating;
pub use iterations::{Iteration, Iterations};
use names::Names;
pub use window::Window;

/// All tasks of a trace, checked and in order of arrival.
///
/// Its time begins with the first task: [`Task::arrival`] counts from [`Workload::origin`], the
/// time of that in the trace. So nothing that is computed from a workload depends on when its trace
/// was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    ports: u32,
    origin: Instant,
    /// Compute slots behind each port; empty if computation never waits for a slot.
    hosts: Vec<Host>,
    tasks: Vec<Task>,
    /// For each task: its task-id.
    numbers: Vec<u32>,
    /// Tasks whose waves come in turn, in order.
    in_turn: Vec<TaskId>,
    /// Iterations of tasks that declare them, in order.
    repeating: Vec<Repeating>,
    /// For each coflow: its task and stage.
    coflows: Vec<Place>,
    flows: FlowTable,
    names: Names,
}

/// The unit that a user waits for (Baraat §2.1): one coflow in the common case, else a DAG of
/// stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The name that the trace gives it; unique, never used to decide anything.
    pub name: String,
    /// The recurring job that it is a run of, if that is known.
    pub job: Option<JobId>,
    /// Time at which it is submitted: in a [`WorkloadBuilder`] that of the trace, in a [`Workload`]
    /// since its origin.
    pub arrival: Instant,
    /// The time after arrival by which it should be done.
    pub deadline: Option<Nanos>,
    /// Online tasks have users waiting; background tasks yield to them (Baraat §4.1).
    pub class: TaskClass,
    /// Its weight in weighted means; 1 unless the trace says otherwise.
    pub weight: u32,
    /// Its stages, each after those it starts after.
    pub stages: Vec<Stage>,
}

impl Task {
    /// Makes a task of one coflow, whose user waits: for [`WorkloadBuilder::push`], with what
    /// differs set.
    pub fn of_coflow(name: impl Into<String>, arrival: Instant) -> Self {
        let work = Work::Transfer(CoflowId::default());
        let stages = vec![Stage { starts_after: Vec::new(), finishes_after: Vec::new(), work }];
        let class = TaskClass::Online;
        Self { name: name.into(), job: None, arrival, deadline: None, class, weight: 1, stages }
    }
}

/// Kind of user that waits for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum TaskClass {
    /// A user waits.
    #[default]
    Online,
    /// No user waits: index updates, re-replication.
    Background,
}

/// One node of a task's DAG.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Stages of the same task that must be done before this one starts (Starts-After, Aalo §5.1).
    pub starts_after: Vec<StageIndex>,
    /// Stages that this one runs beside but must not finish before (Finishes-Before, Aalo §5.1).
    pub finishes_after: Vec<StageIndex>,
    /// Work of the stage.
    pub work: Work,
}

/// Work of a stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// A transfer; the coflow's flows are found through [`Workload::flows_of`].
    Transfer(CoflowId),
    /// Computation that takes no network.
    Compute(Compute),
}

/// Computation between transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compute {
    /// Duration alone on a slot of a full-speed host.
    pub duration: Nanos,
    /// Host that must have a free slot; `None` for a plain delay, which needs no slot.
    pub host: Option<PortId>,
}

impl Compute {
    /// A plain span of time.
    pub const fn lasting(duration: Nanos) -> Self {
        Self { duration, host: None }
    }
}

/// Compute capacity behind a port: slots and speed (TAFE §V-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// Number of concurrent computations; at least 1.
    pub slots: u32,
    /// Its speed in per cent of the fastest host's: 1 to 100, so that no computation is shorter
    /// than its duration.
    pub speed_percent: u32,
}

/// One transfer between two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Source port.
    pub src: PortId,
    /// Destination port. May equal `src`: rack-level traces keep bytes that stay in a rack.
    pub dst: PortId,
    /// Number of bytes; never zero.
    pub size: Bytes,
    /// Time from its coflow's start to the flow's arrival: its wave (Aalo §5.2). Zero for the first
    /// wave. Where waves come in turn ([`Workload::waves_in_turn`]), this is the earliest arrival.
    pub wave: Nanos,
}

/// Position of a coflow in the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its task.
    pub task: TaskId,
    /// Its stage in that task.
    pub stage: StageIndex,
    /// The internal part of its CoflowId (Aalo Pseudocode 2): 0 for a coflow that depends on none,
    /// else one more than the largest among those that it depends on, be it through computation or
    /// side by side.
    pub internal: u32,
}

/// A coflow on its way into a [`WorkloadBuilder`].
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Coflow {
    /// Its flows, in any order.
    pub flows: Vec<Flow>,
}

/// A coflow as stored: its task and flows.
#[derive(Clone, Copy, Debug)]
pub struct CoflowRef<'a> {
    /// Its id.
    pub id: CoflowId,
    /// The task that it belongs to.
    pub task: &'a Task,
    /// The trace's time at which that is submitted.
    pub submitted: Instant,
    /// Its flows.
    pub flows: &'a [Flow],
}

/// A task that cannot be part of a workload. `task` is the name in the trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// A workload without ports.
    #[error("the workload has no ports: say how many ports the fabric has (at least 1)")]
    NoPorts,
    /// A flow between ports that do not exist.
    #[error("task {task}: port {port} is out of range: ports count from 0 to {last}")]
    PortOutOfRange {
        /// The task.
        task: String,
        /// The port named.
        port: u32,
        /// The last valid port.
        last: u32,
    },
    /// A flow of no bytes.
    #[error(
        "task {task}: a flow from port {src} to port {dst} has no bytes: give it a size of at least 1 or leave it out"
    )]
    EmptyFlow {
        /// The task.
        task: String,
        /// The flow's source.
        src: u32,
        /// The flow's destination.
        dst: u32,
    },
    /// A coflow without flows.
    #[error("task {task}: stage {stage} has no flows: a coflow needs at least one")]
    NoFlows {
        /// The task.
        task: String,
        /// The stage.
        stage: u32,
    },
    /// A task without stages.
    #[error("task {task} has no stages: a task needs at least one")]
    NoStages {
        /// The task.
        task: String,
    },
    /// More names than ports.
    #[error("{given} names are given for {ports} ports: give each port one at most")]
    TooManyNames {
        /// Number of names given.
        given: usize,
        /// Number of ports.
        ports: u32,
    },
    /// More names than coflows of a task.
    #[error("task {task}: {given} names are given for {coflows} coflows: give each one at most")]
    StrangeNames {
        /// The task.
        task: String,
        /// Number of names given.
        given: usize,
        /// Number of its coflows.
        coflows: usize,
    },
    /// Iterations that are not one for each coflow of a task.
    #[error("task {task}: iterations are given for {given} coflows, and it has {coflows}: give one for each")]
    StrangeIterations {
        /// The task.
        task: String,
        /// Number of coflows that iterations are given for.
        given: usize,
        /// Number of its coflows.
        coflows: usize,
    },
    /// Two ports of one name.
    #[error("port {name} is given twice: names must be unique")]
    DuplicatePort {
        /// The name.
        name: String,
    },
    /// Two coflows of one name.
    #[error("task {task}: another coflow is called {name}, too: names must be unique")]
    DuplicateCoflow {
        /// The task of the second one.
        task: String,
        /// The name.
        name: String,
    },
    /// Two tasks of one name.
    #[error("task {task} is given twice: names must be unique")]
    DuplicateTask {
        /// The name.
        task: String,
    },
    /// A dependency on a stage that is not earlier, as in every cycle.
    #[error(
        "task {task}: stage {stage} depends on stage {on}, which is not before it: list stages after those that they depend on; where that cannot be done there is a cycle"
    )]
    BadDependency {
        /// The task.
        task: String,
        /// The dependent stage.
        stage: u32,
        /// The stage named.
        on: u32,
    },
    /// A dependency on a stage that is not there.
    #[error(
        "task {task}: stage {stage} depends on stage {on}, which there is not: stages count from 0 to {last}"
    )]
    UnknownStage {
        /// The task.
        task: String,
        /// The dependent stage.
        stage: u32,
        /// The stage named.
        on: u32,
        /// The last stage.
        last: u32,
    },
    /// Hosts that are not one for each port.
    #[error(
        "{found} hosts are given for {ports} ports: give slots and speed of one host for each port, or none"
    )]
    HostCount {
        /// Number of hosts given.
        found: usize,
        /// Number of ports.
        ports: u32,
    },
    /// A host that cannot compute.
    #[error(
        "host {host}: {slots} slots at {speed_percent} % speed: a host has at least 1 slot and a speed of 1 to 100 %"
    )]
    BadHost {
        /// The host's port.
        host: u32,
        /// Its slots.
        slots: u32,
        /// Its speed.
        speed_percent: u32,
    },
    /// More than 2³² flows, or bytes beyond 2⁶³.
    #[error("the workload is too large: at most 4294967295 flows and 2^63 bytes")]
    TooLarge,
    /// A task whose arrival, waves and computation do not fit the scale of time together.
    #[error("task {task}: its times add up to more than 2^62 ns (146 years): give them in nanoseconds")]
    TooLate {
        /// The task.
        task: String,
    },
    /// A weight of zero.
    #[error("task {task} has a weight of 0: weights are at least 1")]
    ZeroWeight {
        /// The task.
        task: String,
    },
}

impl Workload {
    /// Returns the number of ports that the trace names.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// The trace's time of the first task, from which all times of the workload count.
    pub fn origin(&self) -> Instant {
        self.origin
    }

    /// The trace's time of an instant of the workload; `None` where it does not fit.
    pub fn in_trace(&self, instant: Instant) -> Option<Instant> {
        instant.checked_add(Nanos(self.origin.0))
    }

    /// The trace's time at which a task is submitted.
    pub fn submitted(&self, id: TaskId) -> Instant {
        self.task(id).arrival + Nanos(self.origin.0)
    }

    /// Compute slots behind each port; empty if computation never waits for a slot.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host on which a computation needs a slot; `None` where it is a plain span of time.
    pub fn host_of(&self, compute: &Compute) -> Option<Host> {
        compute.host.and_then(|port| self.hosts.get(port.index())).copied()
    }

    /// The task-id of a task: a lower one goes first where tasks are served first in, first out.
    /// The number of the task itself unless several counters gave them out
    /// ([`Workload::with_counters`]).
    pub fn number(&self, id: TaskId) -> u32 {
        self.numbers[id.index()]
    }

    /// Returns whether the waves of a task's coflows come in turn: a wave then arrives at its time,
    /// but not before all flows of the waves before it have ended, as where tasks of a stage wait
    /// for the slots of those before them (Aalo §5.2, §7.3). With waves a nanosecond apart each
    /// starts when the one before it ends.
    pub fn waves_in_turn(&self, id: TaskId) -> bool {
        self.in_turn.binary_search(&id).is_ok()
    }

    /// The same tasks, with task-ids from so many counters that do not communicate: counter k gives
    /// out k, k + n, k + 2n … (Baraat §4.1, §5: a client each). Tasks with the same destination,
    /// that of the first flow of their last transfer, use the same counter; its port modulo
    /// `counters` is k. With one counter ids are in order of arrival.
    ///
    /// # Errors
    /// If task-ids would not fit.
    pub fn with_counters(mut self, counters: NonZeroU32) -> Result<Self, WorkloadError> {
        let mut next: Vec<u32> = (0..counters.get()).collect();
        for (index, task) in self.tasks.iter().enumerate() {
            let mut transfers = task.stages.iter().rev().filter_map(|stage| match stage.work {
                Work::Transfer(coflow) => Some(self.flows_of(coflow)[0].dst.0),
                Work::Compute(_) => None,
            });
            let client = transfers.next().unwrap_or(0);
            let counter = &mut next[(client % counters) as usize];
            self.numbers[index] = *counter;
            *counter = counter.checked_add(counters.get()).ok_or(WorkloadError::TooLarge)?;
        }
        Ok(self)
    }

    /// The tasks, in order of arrival.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// One task.
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// Returns the number of coflows.
    pub fn coflow_count(&self) -> usize {
        self.coflows.len()
    }

    /// All coflows in order of id.
    pub fn coflows(&self) -> impl ExactSizeIterator<Item = CoflowRef<'_>> {
        (0..self.coflows.len()).map(|index| self.coflow(CoflowId::from_index(index)))
    }

    /// One coflow.
    pub fn coflow(&self, id: CoflowId) -> CoflowRef<'_> {
        let task = self.place(id).task;
        CoflowRef { id, task: self.task(task), submitted: self.submitted(task), flows: self.flows_of(id) }
    }

    /// Position of a coflow in the workload.
    pub fn place(&self, id: CoflowId) -> Place {
        self.coflows[id.index()]
    }

    /// The ids of a coflow's flows.
    pub fn flow_ids(&self, id: CoflowId) -> Range<u32> {
        self.flows.ids(id)
    }

    /// A coflow's flows.
    pub fn flows_of(&self, id: CoflowId) -> &[Flow] {
        self.flows.of_coflow(id)
    }

    /// All flows, in order of coflow.
    pub fn flows(&self) -> Flows<'_> {
        self.flows.all()
    }

    /// One flow.
    pub fn flow(&self, id: FlowId) -> &Flow {
        self.flows.get(id)
    }

    /// The coflow that a flow belongs to.
    pub fn coflow_of(&self, id: FlowId) -> CoflowId {
        self.flows.coflow(id)
    }

    /// The bytes of all flows.
    pub fn bytes(&self) -> Bytes {
        self.flows().iter().map(|flow| flow.size).sum()
    }

    /// The size of one coflow: the bytes of its flows.
    pub fn coflow_bytes(&self, id: CoflowId) -> Bytes {
        self.flows_of(id).iter().map(|flow| flow.size).sum()
    }

    /// The same tasks, all submitted at time zero (the off-line problem). Ids stay the same.
    pub fn offline(mut self) -> Self {
        for task in &mut self.tasks {
            task.arrival = Instant::ZERO;
        }
        self.origin = Instant::ZERO;
        self
    }

    /// Hands the parts back to a builder, to change and check again.
    pub fn into_builder(self) -> WorkloadBuilder {
        let mut builder = WorkloadBuilder::new(self.ports);
        builder.hosts(self.hosts).port_names(self.names.ports);
        let (flows, in_turn) = (self.flows, self.in_turn);
        let mut repeating = self.repeating.into_iter().peekable();
        let mut names = self.names.coflows.into_iter();
        for (index, mut task) in self.tasks.into_iter().enumerate() {
            task.arrival = task.arrival + Nanos(self.origin.0);
            let mut transfers = Vec::new();
            for stage in &task.stages {
                if let Work::Transfer(id) = stage.work {
                    transfers.push(Coflow { flows: flows.of_coflow(id).to_vec() });
                }
            }
            let names = names.by_ref().take(transfers.len()).collect();
            builder.push(task, transfers).coflow_names(names);
            let task = TaskId::from_index(index);
            builder.waves_in_turn(in_turn.binary_search(&task).is_ok());
            if let Some(repeating) = repeating.next_if(|repeating| repeating.task() == task) {
                builder.iterations(repeating.into_declared());
            }
        }
        builder
    }
}

impl CoflowRef<'_> {
    /// Its length: the bytes of its largest flow (Varys, D-CAS §III-A).
    pub fn length(&self) -> Bytes {
        self.flows.iter().map(|flow| flow.size).max().unwrap_or_default()
    }

    /// Its width: how many flows it has.
    pub fn width(&self) -> usize {
        self.flows.len()
    }

    /// Its size: the bytes of all its flows.
    pub fn size(&self) -> Bytes {
        self.flows.iter().map(|flow| flow.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(wave: u64) -> Flow {
        Flow { src: PortId(0), dst: PortId(1), size: Bytes(1), wave: Nanos(wave) }
    }

    fn build(arrival: u64, compute: u64, waves: &[u64]) -> Result<Workload, WorkloadError> {
        let stage = |work| Stage { starts_after: Vec::new(), finishes_after: Vec::new(), work };
        let task = Task {
            name: "late".to_owned(),
            job: None,
            arrival: Instant(arrival),
            deadline: None,
            class: TaskClass::Online,
            weight: 1,
            stages: vec![
                stage(Work::Compute(Compute::lasting(Nanos(compute)))),
                stage(Work::Transfer(CoflowId::default())),
            ],
        };
        let mut builder = WorkloadBuilder::new(2);
        builder.push(task, vec![Coflow { flows: waves.iter().map(|&wave| flow(wave)).collect() }]);
        builder.build()
    }

    #[test]
    fn a_task_whose_times_do_not_fit_is_refused() {
        let refused = Err(WorkloadError::TooLate { task: "late".to_owned() });
        assert_eq!(build(u64::MAX, 0, &[0, 1]), refused);
        assert_eq!(build(1, 0, &[0, LATEST.0]), refused);
        assert_eq!(build(0, u64::MAX, &[1]), refused);
        assert!(build(LATEST.0 - 7, 4, &[3, 0]).is_ok());
    }
}

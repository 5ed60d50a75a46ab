//! Building a workload: everything that a reader cannot know to be true is checked here, once.
//!
//! Tasks are appended one by one in order of arrival, and each is checked when it is; what concerns
//! all of them (names, hosts, the sum of bytes) is checked before and after.

use core::ops::Range;

use super::flows::FlowTable;
use super::names::Names;
use super::{Coflow, Compute, Flow, Host, Iterations, Place, Task, Work, Workload, WorkloadError};
use crate::{Bytes, CoflowId, Instant, StageIndex, TaskId};

/// A task on its way into a workload.
#[derive(Clone, Debug, PartialEq)]
struct Pushed {
    task: Task,
    /// The flows of each of its coflows, as ranges of what is held of flows.
    ranges: Vec<Range<usize>>,
    /// How many times over it has these coflows.
    times: usize,
    in_turn: bool,
    /// Its iterations, where it declares them.
    iterations: Option<Iterations>,
    /// Names of its coflows, where they have any.
    names: Vec<String>,
}

/// Collects tasks in any order; [`WorkloadBuilder::build`] checks and sorts them.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct WorkloadBuilder {
    ports: u32,
    hosts: Vec<Host>,
    port_names: Vec<String>,
    tasks: Vec<Pushed>,
    /// The flows of all coflows, in the order in which they were given. Where tasks are given in
    /// order of arrival, as traces do, this becomes the array of the workload: flows are many, and
    /// moving them costs more than reading them.
    flows: Vec<Flow>,
}

impl WorkloadBuilder {
    /// An empty workload on `ports` ports.
    pub fn new(ports: u32) -> Self {
        Self { ports, ..Self::default() }
    }

    /// Adds a task of one coflow: the common case.
    pub fn coflow(&mut self, name: impl Into<String>, arrival: Instant, flows: Vec<Flow>) -> &mut Self {
        self.push(Task::of_coflow(name, arrival), vec![Coflow { flows }])
    }

    /// Adds a task. `transfers` holds one coflow for each of its stages whose work is a transfer,
    /// in the order of the stages; the ids inside [`Work::Transfer`] are assigned by
    /// [`WorkloadBuilder::build`].
    pub fn push(&mut self, task: Task, transfers: Vec<Coflow>) -> &mut Self {
        self.push_repeating(task, transfers, 1)
    }

    /// Adds a task that has the same transfers so many times over, one after the other in the order
    /// of its stages; their flows are held once. [`Workload::into_builder`] writes them out.
    ///
    /// # Panics
    /// [`WorkloadBuilder::build`] does if there are not as many as the task has stages that
    /// transfer.
    pub fn push_repeating(&mut self, task: Task, transfers: Vec<Coflow>, times: usize) -> &mut Self {
        let ranges = transfers.into_iter().map(|coflow| {
            let start = self.flows.len();
            self.flows.extend(coflow.flows);
            start..self.flows.len()
        });
        let ranges = ranges.collect();
        self.tasks.push(Pushed { task, ranges, times, in_turn: false, iterations: None, names: Vec::new() });
        self
    }

    /// Sets whether the waves of the task that was added last come in turn
    /// ([`Workload::waves_in_turn`]).
    pub fn waves_in_turn(&mut self, in_turn: bool) -> &mut Self {
        if let Some(last) = self.tasks.last_mut() {
            last.in_turn = in_turn;
        }
        self
    }

    /// Declares iterations of the task that was added last, so that policies can look at them.
    pub fn iterations(&mut self, iterations: Iterations) -> &mut Self {
        if let Some(last) = self.tasks.last_mut() {
            last.iterations = Some(iterations);
        }
        self
    }

    /// Names the coflows of the task that was added last, in the order of its transfers; an empty
    /// text leaves one without. Without it they are called after their task.
    pub fn coflow_names(&mut self, names: Vec<String>) -> &mut Self {
        if let Some(last) = self.tasks.last_mut() {
            last.names = names;
        }
        self
    }

    /// Names ports, from port 0 on; an empty text leaves one without. Without it they are called by
    /// their numbers.
    pub fn port_names(&mut self, names: Vec<String>) -> &mut Self {
        self.port_names = names;
        self
    }

    /// Sets the compute slots behind each port, one host for each. Without it, computation never
    /// waits for a slot.
    pub fn hosts(&mut self, hosts: Vec<Host>) -> &mut Self {
        self.hosts = hosts;
        self
    }

    /// Returns the number of tasks so far.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Checks everything and gives out ids.
    ///
    /// # Errors
    /// The first thing found wrong, with the task's name.
    pub fn build(mut self) -> Result<Workload, WorkloadError> {
        if self.ports == 0 {
            return Err(WorkloadError::NoPorts);
        }
        self.check_hosts()?;
        self.sort();
        self.check_tasks()?;
        let mut out = Workload {
            ports: self.ports,
            origin: Instant::ZERO,
            hosts: self.hosts,
            numbers: (0..self.tasks.len() as u32).collect(),
            in_turn: Vec::new(),
            repeating: Vec::new(),
            tasks: Vec::with_capacity(self.tasks.len()),
            coflows: Vec::new(),
            flows: FlowTable::of(self.flows),
            names: Names { ports: self.port_names, coflows: Vec::new() },
        };
        let names_coflows = self.tasks.iter().any(|pushed| !pushed.names.is_empty());
        let mut computed = 0;
        for Pushed { task, ranges, times, in_turn, iterations, mut names } in self.tasks {
            computed += out.computed_ns(&task);
            if computed > u128::from(LATEST.0) {
                return Err(WorkloadError::TooLate { task: task.name });
            }
            if in_turn {
                out.in_turn.push(TaskId::from_index(out.tasks.len()));
            }
            if names_coflows {
                let coflows = ranges.len() * times;
                if names.len() > coflows {
                    let (task, given) = (task.name, names.len());
                    return Err(WorkloadError::StrangeNames { task, given, coflows });
                }
                names.resize(coflows, String::new());
                out.names.coflows.append(&mut names);
            }
            let first = CoflowId::from_index(out.coflows.len());
            out.append(task, ranges, times, Numbering::Next)?;
            if let Some(iterations) = iterations {
                out.declare(iterations, first)?;
            }
        }
        out.check_names()?;
        let total = out.flows().iter().map(|flow| u128::from(flow.size.0)).sum::<u128>();
        if total > 1 << 63 { Err(WorkloadError::TooLarge) } else { Ok(out) }
    }

    /// Puts tasks in order of arrival, and their flows with them.
    fn sort(&mut self) {
        if self.tasks.is_sorted_by_key(|pushed| pushed.task.arrival) {
            return;
        }
        self.tasks.sort_by_key(|pushed| pushed.task.arrival);
        let mut sorted = Vec::with_capacity(self.flows.len());
        for range in self.tasks.iter_mut().flat_map(|pushed| &mut pushed.ranges) {
            let start = sorted.len();
            sorted.extend_from_slice(&self.flows[range.clone()]);
            *range = start..sorted.len();
        }
        self.flows = sorted;
    }

    fn check_hosts(&self) -> Result<(), WorkloadError> {
        if !self.hosts.is_empty() && self.hosts.len() != self.ports as usize {
            return Err(WorkloadError::HostCount { found: self.hosts.len(), ports: self.ports });
        }
        let bad = |host: &Host| host.slots == 0 || !(1..=100).contains(&host.speed_percent);
        match self.hosts.iter().position(bad) {
            Some(index) => {
                let Host { slots, speed_percent } = self.hosts[index];
                Err(WorkloadError::BadHost { host: index as u32, slots, speed_percent })
            }
            None => Ok(()),
        }
    }

    fn check_tasks(&self) -> Result<(), WorkloadError> {
        let mut names: Vec<&str> = self.tasks.iter().map(|pushed| pushed.task.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(WorkloadError::DuplicateTask { task: pair[0].to_owned() }),
            None => Ok(()),
        }
    }
}

/// The latest that a task may be arriving or computing, were its transfers to take no time: 146
/// years. There is as much room again for these.
pub const LATEST: Instant = Instant(1 << 62);

/// The ids of flows that are appended.
#[derive(Clone, Copy)]
pub(super) enum Numbering {
    /// Those behind all others.
    Next,
    /// Where they are held.
    AsHeld,
}

/// Returns whether a task's arrival, and the waits of all its stages one after the other, stay
/// within [`LATEST`]. It has these transfers so many times over.
fn is_in_time<'a>(task: &Task, transfers: impl Iterator<Item = &'a [Flow]>, times: usize) -> bool {
    let waves = transfers.filter_map(|flows| flows.iter().map(|flow| flow.wave.0).max());
    let waves = waves.map(|wave| wave.saturating_mul(times as u64));
    let computed = task.stages.iter().map(|stage| match stage.work {
        Work::Compute(compute) => compute.duration.0,
        Work::Transfer(_) => 0,
    });
    waves.chain(computed).try_fold(task.arrival.0, u64::checked_add).is_some_and(|end| end <= LATEST.0)
}

impl Workload {
    /// Returns the total time of a task's computations that need a slot: others may have to wait as
    /// long.
    fn computed_ns(&self, task: &Task) -> u128 {
        let on_hosts = task.stages.iter().filter_map(|stage| match &stage.work {
            Work::Compute(compute) => {
                self.host_of(compute).map(|host| (compute.duration, host.speed_percent))
            }
            Work::Transfer(_) => None,
        });
        on_hosts.map(|(duration, speed)| (u128::from(duration.0) * 100).div_ceil(speed.into())).sum()
    }

    /// Appends a task that arrives no earlier than those before it, whose flows lie at `transfers`.
    /// It has these transfers so many times over.
    pub(super) fn append(
        &mut self,
        mut task: Task,
        transfers: Vec<Range<usize>>,
        times: usize,
        numbering: Numbering,
    ) -> Result<(), WorkloadError> {
        if task.stages.is_empty() {
            return Err(WorkloadError::NoStages { task: task.name });
        }
        if task.weight == 0 {
            return Err(WorkloadError::ZeroWeight { task: task.name });
        }
        if !is_in_time(&task, transfers.iter().map(|range| &self.flows.held[range.clone()]), times) {
            return Err(WorkloadError::TooLate { task: task.name });
        }
        if self.tasks.is_empty() {
            self.origin = task.arrival;
        }
        task.arrival = Instant(task.arrival.0 - self.origin.0);
        let id = TaskId::from_index(self.tasks.len());
        let count = transfers.len() * times;
        let mut transfers = transfers.into_iter().cycle().take(count);
        // For each stage one more than the internal id of the last coflow on the way to it; 0 where
        // there is none.
        let mut depths: Vec<u32> = Vec::with_capacity(task.stages.len());
        for index in 0..task.stages.len() {
            let stage = &mut task.stages[index];
            for dependencies in [&mut stage.starts_after, &mut stage.finishes_after] {
                dependencies.sort_unstable();
                dependencies.dedup();
            }
            let on = check_dependencies(&task, index)?;
            let depth = on.map(|on| depths[on.index()]).max().unwrap_or(0);
            depths.push(depth);
            match task.stages[index].work {
                Work::Transfer(_) => {
                    let flows = transfers.next().expect("a coflow for every transfer stage");
                    let place = Place { task: id, stage: StageIndex::from_index(index), internal: depth };
                    task.stages[index].work =
                        Work::Transfer(self.append_coflow(&task.name, place, flows, numbering)?);
                    depths[index] += 1;
                }
                Work::Compute(Compute { host, .. }) => {
                    if let Some(port) = host.filter(|host| host.0 >= self.ports) {
                        let (port, last) = (port.0, self.ports - 1);
                        return Err(WorkloadError::PortOutOfRange { task: task.name, port, last });
                    }
                }
            }
        }
        assert!(transfers.next().is_none(), "task {}: more coflows than transfer stages", task.name);
        self.tasks.push(task);
        Ok(())
    }

    /// Appends the coflow that has the next flows.
    fn append_coflow(
        &mut self,
        task: &str,
        place: Place,
        range: Range<usize>,
        numbering: Numbering,
    ) -> Result<CoflowId, WorkloadError> {
        let task = || task.to_owned();
        if range.is_empty() {
            return Err(WorkloadError::NoFlows { task: task(), stage: place.stage.0 });
        }
        for flow in &self.flows.held[range.clone()] {
            if let Some(port) = [flow.src, flow.dst].into_iter().find(|port| port.0 >= self.ports) {
                let (port, last) = (port.0, self.ports - 1);
                return Err(WorkloadError::PortOutOfRange { task: task(), port, last });
            }
            if flow.size == Bytes::ZERO {
                return Err(WorkloadError::EmptyFlow { task: task(), src: flow.src.0, dst: flow.dst.0 });
            }
        }
        let start = match numbering {
            Numbering::Next => self.flows().len(),
            Numbering::AsHeld => range.start,
        };
        let id = self.flows.append(start, range).ok_or(WorkloadError::TooLarge)?;
        self.coflows.push(place);
        Ok(id)
    }
}

/// The stages on which a stage depends, in any way; all are before it.
fn check_dependencies(task: &Task, index: usize) -> Result<impl Iterator<Item = StageIndex>, WorkloadError> {
    let stage = &task.stages[index];
    let on = stage.starts_after.iter().chain(&stage.finishes_after).copied();
    let Some(bad) = on.clone().find(|on| on.index() >= index) else { return Ok(on) };
    let (name, stage, on, last) = (task.name.clone(), index as u32, bad.0, task.stages.len() as u32 - 1);
    Err(match on > last {
        true => WorkloadError::UnknownStage { task: name, stage, on, last },
        false => WorkloadError::BadDependency { task: name, stage, on },
    })
}

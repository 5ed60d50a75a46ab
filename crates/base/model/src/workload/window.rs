//! Workloads that are too large to hold: a window over those of their tasks that are active.

use core::ops::Range;
use std::collections::BTreeMap;

use super::names::Names;
use super::{Coflow, Flow, Task, Work, Workload, WorkloadError};
use crate::{Instant, TaskId};

/// A workload of which only a part is held: tasks come when they arrive and go when they are done.
///
/// Task and coflow ids go on counting; flow ids of what is gone are used again, so that what is
/// held is bounded by what is active. A task that is gone leaves an entry without stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    workload: Workload,
    /// Ranges of flow ids out of use, by length.
    free: BTreeMap<usize, Vec<usize>>,
}

impl Window {
    /// Makes an empty window on so many ports.
    pub fn new(ports: u32) -> Self {
        let (tasks, coflows, ranges) = (Vec::new(), Vec::new(), Vec::new());
        let (hosts, numbers, in_turn) = (Vec::new(), Vec::new(), Vec::new());
        let (flows, flow_coflow) = (Vec::new(), Vec::new());
        let (origin, repeating, names) = (Instant::ZERO, Vec::new(), Names::default());
        let workload = Workload {
            ports,
            origin,
            hosts,
            tasks,
            numbers,
            in_turn,
            repeating,
            coflows,
            ranges,
            flows,
            flow_coflow,
            names,
        };
        Self { workload, free: BTreeMap::new() }
    }

    /// Returns the workload held.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Adds a task, as [`WorkloadBuilder::push`](super::WorkloadBuilder::push) does. There are no
    /// hosts here, no waves in turn, no iterations, and no names of ports and coflows. It must not
    /// arrive before those added so far.
    ///
    /// # Errors
    /// If [`WorkloadBuilder::build`](super::WorkloadBuilder::build) would give one, but for names
    /// that are given twice.
    pub fn admit(&mut self, task: Task, transfers: Vec<Coflow>) -> Result<TaskId, WorkloadError> {
        let id = TaskId::from_index(self.workload.tasks.len());
        let ranges = transfers.into_iter().map(|coflow| self.place(&coflow.flows)).collect();
        self.workload.append(task, ranges)?;
        self.workload.numbers.push(id.0);
        Ok(id)
    }

    /// Lets go of a task that is done.
    pub fn retire(&mut self, task: TaskId) {
        let task = &mut self.workload.tasks[task.index()];
        task.name = String::new();
        for stage in std::mem::take(&mut task.stages) {
            if let Work::Transfer(coflow) = stage.work {
                let Range { start, end } = self.workload.ranges[coflow.index()];
                self.free.entry((end - start) as usize).or_default().push(start as usize);
            }
        }
    }

    /// Finds room for flows: the shortest free range that is long enough, else at the end.
    fn place(&mut self, flows: &[Flow]) -> Range<usize> {
        let held = &mut self.workload.flows;
        let found = self.free.range_mut(flows.len()..).next();
        let Some((&length, starts)) = found else {
            held.extend_from_slice(flows);
            return held.len() - flows.len()..held.len();
        };
        let start = starts.pop().expect("no length is kept without a range");
        if starts.is_empty() {
            self.free.remove(&length);
        }
        if length > flows.len() {
            self.free.entry(length - flows.len()).or_default().push(start + flows.len());
        }
        held[start..start + flows.len()].copy_from_slice(flows);
        start..start + flows.len()
    }
}

//! Workloads that are too large to hold: a window over those of their tasks that are active.

use core::ops::Range;

use super::build::Numbering;
use super::flows::FlowTable;
use super::free::FreeNumbers;
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
    free: FreeNumbers,
}

impl Window {
    /// Makes an empty window on so many ports.
    pub fn new(ports: u32) -> Self {
        let (tasks, coflows, flows) = (Vec::new(), Vec::new(), FlowTable::default());
        let (hosts, numbers, in_turn) = (Vec::new(), Vec::new(), Vec::new());
        let (origin, repeating, names) = (Instant::ZERO, Vec::new(), Names::default());
        let workload =
            Workload { ports, origin, hosts, tasks, numbers, in_turn, repeating, coflows, flows, names };
        Self { workload, free: FreeNumbers::default() }
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
        self.workload.append(task, ranges, 1, Numbering::AsHeld)?;
        self.workload.numbers.push(id.0);
        Ok(id)
    }

    /// Lets go of a task that is done.
    pub fn retire(&mut self, task: TaskId) {
        let task = &mut self.workload.tasks[task.index()];
        task.name = String::new();
        for stage in std::mem::take(&mut task.stages) {
            if let Work::Transfer(coflow) = stage.work {
                let Range { start, end } = self.workload.flow_ids(coflow);
                self.free.add(start as usize..end as usize);
            }
        }
    }

    /// Finds room for flows: the shortest free range that is long enough, else at the end.
    fn place(&mut self, flows: &[Flow]) -> Range<usize> {
        let held = &mut self.workload.flows.held;
        let start = self.free.take(flows.len(), held.len());
        let inside = flows.len().min(held.len() - start);
        held[start..start + inside].copy_from_slice(&flows[..inside]);
        held.extend_from_slice(&flows[inside..]);
        start..start + flows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Nanos, PortId, SplitMix64};

    /// The flows of a task are those given, whatever has come and gone before, and no more ids are
    /// held than twice the most that were in use at once.
    #[test]
    fn what_is_held_is_bounded_by_what_is_there() {
        let mut random = SplitMix64::new(3);
        let (mut window, mut there, mut in_use, mut most) = (Window::new(2), Vec::new(), 0, 0);
        for number in 0..4_000_u64 {
            let most_wide = 1 << random.below(9);
            let width = 1 + random.below(most_wide) as usize;
            let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1 + number), wave: Nanos::ZERO };
            let task = Task::of_coflow(number.to_string(), Instant(number));
            let id = window.admit(task, vec![Coflow { flows: vec![flow; width] }]).expect("this is a task");
            there.push((id, width, flow));
            in_use += width;
            most = most.max(in_use);
            while in_use > 2_000 || random.below(2) == 0 && !there.is_empty() {
                let (id, width, flow) = there.swap_remove(random.below(there.len() as u64) as usize);
                let coflow = crate::CoflowId(id.0);
                assert_eq!(window.workload().flows_of(coflow), vec![flow; width]);
                assert!(
                    window
                        .workload()
                        .flow_ids(coflow)
                        .all(|id| window.workload().coflow_of(crate::FlowId(id)) == coflow)
                );
                window.retire(id);
                in_use -= width;
            }
        }
        let held = window.workload().flows().len();
        assert!(held <= 2 * most, "{held} ids are held for {most} flows");
        there.into_iter().for_each(|(id, ..)| window.retire(id));
        assert!(window.free.ranges().eq(std::iter::once(0..held)), "all are joined");
    }
}

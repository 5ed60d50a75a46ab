//! The flows of all coflows, held once where coflows of a task repeat.

use core::fmt;
use core::ops::{Index, Range};

use super::Flow;
use crate::{CoflowId, FlowId};

/// The flows of a workload.
#[derive(Clone, Default)]
pub(super) struct FlowTable {
    /// For each coflow.
    spans: Vec<Span>,
    /// For each flow: its coflow.
    coflows: Vec<CoflowId>,
    /// What is held of flows.
    pub(super) held: Vec<Flow>,
}

/// The flows of a coflow: their ids, and where what they are is held.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    at: u32,
}

impl FlowTable {
    /// A table of coflows to come, whose flows are held.
    pub(super) fn of(held: Vec<Flow>) -> Self {
        Self { coflows: Vec::with_capacity(held.len()), held, ..Self::default() }
    }

    /// Appends a coflow that has the flows held at `at`, and ids from `start` on. Returns `None` if
    /// ids do not fit.
    pub(super) fn append(&mut self, start: usize, at: Range<usize>) -> Option<CoflowId> {
        let ids = start..start + at.len();
        let span = Span { start: start as u32, end: u32::try_from(ids.end).ok()?, at: at.start as u32 };
        let id = CoflowId::from_index(self.spans.len());
        self.coflows.resize(self.coflows.len().max(ids.end), id);
        self.coflows[ids].fill(id);
        self.spans.push(span);
        Some(id)
    }

    pub(super) fn ids(&self, coflow: CoflowId) -> Range<u32> {
        let Span { start, end, .. } = self.spans[coflow.index()];
        start..end
    }

    pub(super) fn of_coflow(&self, coflow: CoflowId) -> &[Flow] {
        let Span { start, end, at } = self.spans[coflow.index()];
        &self.held[at as usize..][..(end - start) as usize]
    }

    pub(super) fn coflow(&self, id: FlowId) -> CoflowId {
        self.coflows[id.index()]
    }

    pub(super) fn get(&self, id: FlowId) -> &Flow {
        let Span { start, at, .. } = self.spans[self.coflow(id).index()];
        &self.held[(at + (id.0 - start)) as usize]
    }

    pub(super) fn all(&self) -> Flows<'_> {
        Flows(self)
    }
}

impl PartialEq for FlowTable {
    /// Compares flows, wherever they are held.
    fn eq(&self, other: &Self) -> bool {
        self.coflows == other.coflows && self.all() == other.all()
    }
}

impl fmt::Debug for FlowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all().fmt(f)
    }
}

/// All flows of a workload, in order of coflow. Read as a slice would be; but coflows that repeat
/// have one place in memory.
#[derive(Clone, Copy)]
pub struct Flows<'a>(&'a FlowTable);

/// Goes through flows in order.
#[derive(Clone)]
pub struct FlowsIter<'a> {
    flows: Flows<'a>,
    left: Range<usize>,
}

impl<'a> Iterator for FlowsIter<'a> {
    type Item = &'a Flow;

    fn next(&mut self) -> Option<&'a Flow> {
        self.left.next().and_then(|index| self.flows.get(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl ExactSizeIterator for FlowsIter<'_> {}

impl<'a> IntoIterator for Flows<'a> {
    type Item = &'a Flow;
    type IntoIter = FlowsIter<'a>;

    fn into_iter(self) -> FlowsIter<'a> {
        FlowsIter { flows: self, left: 0..self.len() }
    }
}

impl<'a> Flows<'a> {
    /// Returns how many there are.
    pub fn len(self) -> usize {
        self.0.coflows.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// One flow; `None` where there is no such id.
    pub fn get(self, index: usize) -> Option<&'a Flow> {
        (index < self.len()).then(|| self.0.get(FlowId::from_index(index)))
    }

    /// All of them.
    pub fn iter(self) -> FlowsIter<'a> {
        self.into_iter()
    }
}

impl Index<usize> for Flows<'_> {
    type Output = Flow;

    fn index(&self, index: usize) -> &Flow {
        self.0.get(FlowId::from_index(index))
    }
}

impl PartialEq for Flows<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl PartialEq<[Flow]> for Flows<'_> {
    fn eq(&self, other: &[Flow]) -> bool {
        self.iter().eq(other)
    }
}

impl<const N: usize> PartialEq<[Flow; N]> for Flows<'_> {
    fn eq(&self, other: &[Flow; N]) -> bool {
        self.iter().eq(other)
    }
}

impl fmt::Debug for Flows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Coflow, Iterations, Stage, Task, Work, WorkloadBuilder, WorkloadError};
    use super::*;
    use crate::{Bytes, Instant, Nanos, PortId, TaskId};

    fn flow(size: u64, wave: u64) -> Flow {
        Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos(wave) }
    }

    fn coflow(sizes: &[u64]) -> Coflow {
        Coflow { flows: sizes.iter().map(|&size| flow(size, 0)).collect() }
    }

    /// A task of so many transfers, one after the other.
    fn chain(name: &str, arrival: u64, transfers: u32) -> Task {
        let stage = |after: u32| Stage {
            starts_after: after.checked_sub(1).map(crate::StageIndex).into_iter().collect(),
            finishes_after: Vec::new(),
            work: Work::Transfer(CoflowId::default()),
        };
        Task { stages: (0..transfers).map(stage).collect(), ..Task::of_coflow(name, Instant(arrival)) }
    }

    #[test]
    fn transfers_that_repeat_are_those_that_are_written_out_and_are_held_once() {
        let transfers = [coflow(&[3, 5]), coflow(&[7])];
        let (mut short, mut long) = (WorkloadBuilder::new(2), WorkloadBuilder::new(2));
        for (name, arrival) in [("late", 9), ("early", 4)] {
            let (task, times) = (chain(name, arrival, 6), 3);
            let declared = Iterations { gpus: 1, compute: Nanos(1), of_coflows: vec![0, 0, 1, 1, 2, 2] };
            short.push_repeating(task.clone(), transfers.to_vec(), times).iterations(declared.clone());
            let all = transfers.iter().cycle().take(2 * times).cloned().collect();
            long.push(task, all).iterations(declared);
        }
        let (short, long) = (short.build().unwrap(), long.build().unwrap());
        assert_eq!(short, long);
        assert_eq!([short.flows.held.len(), long.flows.held.len(), short.flows().len()], [6, 18, 18]);
        let sizes =
            |coflow| short.flows_of(CoflowId(coflow)).iter().map(|flow| flow.size.0).collect::<Vec<_>>();
        assert_eq!([sizes(4), sizes(5)], [vec![3, 5], vec![7]]);
        for id in 0..18 {
            let coflow = short.coflow_of(FlowId(id));
            assert!(short.flow_ids(coflow).contains(&id));
            assert_eq!(short.flow(FlowId(id)), long.flow(FlowId(id)));
        }
        assert_eq!(short.iteration(CoflowId(3)).unwrap().bytes, Bytes(15));
        assert_eq!(short.clone().into_builder().build(), Ok(short));
    }

    #[test]
    fn waves_of_transfers_that_repeat_count_as_often() {
        let built = |times: u32, wave: u64| {
            let mut builder = WorkloadBuilder::new(2);
            let transfers = vec![Coflow { flows: vec![flow(1, wave)] }];
            builder.push_repeating(chain("a", 0, times), transfers, times as usize);
            builder.build()
        };
        assert!(built(4, 1 << 60).is_ok());
        assert_eq!(built(5, 1 << 60), Err(WorkloadError::TooLate { task: "a".to_owned() }));
        assert_eq!(built(3, u64::MAX), Err(WorkloadError::TooLate { task: "a".to_owned() }));
    }

    #[test]
    fn flows_read_as_a_slice_does() {
        let mut builder = WorkloadBuilder::new(2);
        builder.push_repeating(chain("a", 0, 2), vec![coflow(&[3, 5])], 2);
        let workload = builder.build().unwrap();
        let flows = workload.flows();
        assert_eq!(flows, [3, 5, 3, 5].map(|size| flow(size, 0)));
        assert_eq!((flows[2], flows.get(3), flows.get(4)), (flow(3, 0), Some(&flow(5, 0)), None));
        assert_eq!(flows.iter().len(), 4);
        assert_eq!(workload.task(TaskId(0)).stages.len(), 2);
    }
}

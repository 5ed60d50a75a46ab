//! The numbers under which the allocator knows flows.
//!
//! Each flow has its own, or those under way have some, and give them back when their coflow has
//! ended. Then the allocator has room for the flows that are under way at once, however many a run
//! has: a training job has those of an iteration, a thousand times.
//!
//! # Invariants
//! Flows of a coflow have numbers that follow each other as theirs do, so that ties between them go
//! the same way. What is decided of a flow that has ended never reaches the next that has its
//! number.

use core::ops::Range;

use cavalcade_model::{CoflowId, FlowId, FreeNumbers, Workload};

/// No flow.
const NONE: u32 = u32::MAX;

/// Numbers of flows in the allocator.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Each flow has its own.
    Own,
    /// Those of coflows under way.
    Lent(Lent),
}

#[derive(Debug, Default)]
pub(crate) struct Lent {
    free: FreeNumbers,
    /// For each coflow that has come the number of its first flow, even once others have it.
    first: Vec<u32>,
    /// For each number the flow that has it, until that ends.
    flows: Vec<u32>,
    /// Numbers that were given back in this instant.
    back: Vec<Range<usize>>,
}

impl Numbers {
    /// Numbers for the flows of a workload that are under way.
    pub(crate) fn lent(workload: &Workload) -> Self {
        Self::Lent(Lent { first: vec![0; workload.coflow_count()], ..Lent::default() })
    }

    /// Returns the number of a flow; `None` if it has ended or its coflow has not come.
    #[inline]
    pub(crate) fn of(&self, workload: &Workload, flow: u32) -> Option<u32> {
        let Self::Lent(Lent { first, flows, .. }) = self else { return Some(flow) };
        let coflow = workload.coflow_of(FlowId(flow));
        let number = first[coflow.index()] + (flow - workload.flow_ids(coflow).start);
        (flows.get(number as usize) == Some(&flow)).then_some(number)
    }

    /// The flow that has a number.
    #[inline]
    pub(crate) fn flow(&self, number: u32) -> u32 {
        match self {
            Self::Own => number,
            Self::Lent(Lent { flows, .. }) => flows[number as usize],
        }
    }

    /// Gives numbers to the flows of a coflow that has come. Returns how many numbers there are
    /// now, if that is more than before.
    pub(crate) fn open(&mut self, workload: &Workload, coflow: CoflowId) -> Option<usize> {
        let Self::Lent(Lent { free, first, flows, .. }) = self else { return None };
        let (mut ids, held) = (workload.flow_ids(coflow), flows.len());
        let start = free.take(ids.len(), held);
        first[coflow.index()] = start as u32;
        flows[start..].iter_mut().zip(&mut ids).for_each(|(number, flow)| *number = flow);
        flows.extend(ids);
        (flows.len() > held).then_some(flows.len())
    }

    /// A flow has ended.
    #[inline]
    pub(crate) fn end(&mut self, workload: &Workload, flow: u32) {
        let number = self.of(workload, flow);
        if let (Self::Lent(Lent { flows, .. }), Some(number)) = (self, number) {
            flows[number as usize] = NONE;
        }
    }

    /// Takes the numbers of a coflow that has ended back. Nobody gets them in this instant.
    pub(crate) fn close(&mut self, workload: &Workload, coflow: CoflowId) {
        if let Self::Lent(Lent { first, back, .. }) = self {
            let start = first[coflow.index()] as usize;
            back.push(start..start + workload.flow_ids(coflow).len());
        }
    }

    /// The instant is over.
    pub(crate) fn retire(&mut self) {
        if let Self::Lent(Lent { free, back, .. }) = self {
            back.drain(..).for_each(|range| free.add(range));
        }
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{Bytes, Flow, Instant, Nanos, PortId, WorkloadBuilder};

    use super::*;

    #[test]
    fn numbers_are_those_of_flows_under_way_and_used_again_only_after_the_instant() {
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1), wave: Nanos::ZERO };
        let mut builder = WorkloadBuilder::new(2);
        for (name, width) in [("a", 2), ("b", 1), ("c", 3)] {
            builder.coflow(name, Instant::ZERO, vec![flow; width]);
        }
        let workload = builder.build().unwrap();
        let mut numbers = Numbers::lent(&workload);
        let of = |numbers: &Numbers| (0..6).map(|flow| numbers.of(&workload, flow)).collect::<Vec<_>>();
        assert_eq!(numbers.open(&workload, CoflowId(0)), Some(2));
        assert_eq!(of(&numbers), [Some(0), Some(1), None, None, None, None]);
        numbers.end(&workload, 0);
        assert_eq!(of(&numbers)[..2], [None, Some(1)], "what has ended has none, though its coflow goes on");
        numbers.end(&workload, 1);
        numbers.close(&workload, CoflowId(0));
        assert_eq!(numbers.open(&workload, CoflowId(1)), Some(3));
        numbers.retire();
        numbers.end(&workload, 2);
        numbers.close(&workload, CoflowId(1));
        numbers.retire();
        assert_eq!(numbers.open(&workload, CoflowId(2)), None);
        assert_eq!(of(&numbers), [None, None, None, Some(0), Some(1), Some(2)]);
        assert_eq!([0, 1, 2].map(|number| numbers.flow(number)), [3, 4, 5]);
    }
}

//! What a task that repeats, as a training job does, declares of its iterations.

use std::collections::BTreeMap;

use super::{Workload, WorkloadError};
use crate::{Bytes, CoflowId, Nanos, TaskId};

/// The iterations of a task, on their way into a [`WorkloadBuilder`](super::WorkloadBuilder).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Iterations {
    /// How many GPUs the job has.
    pub gpus: u32,
    /// How long each of them computes in an iteration, on average.
    pub compute: Nanos,
    /// For each coflow of the task, in the order of its transfers, the number of the iteration that
    /// it is part of.
    pub of_coflows: Vec<u32>,
}

/// The iteration of a job that a coflow is part of, as the job declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Its number: later ones have higher numbers.
    pub number: u32,
    /// Bytes of all its coflows.
    pub bytes: Bytes,
    /// How many GPUs the job has.
    pub gpus: u32,
    /// How long each of them computes in an iteration, on average.
    pub compute: Nanos,
}

/// The iterations of a task in a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Repeating {
    task: TaskId,
    /// The first coflow of the task.
    first: CoflowId,
    declared: Iterations,
    /// Bytes of each iteration.
    bytes: BTreeMap<u32, Bytes>,
}

impl Repeating {
    pub(super) fn task(&self) -> TaskId {
        self.task
    }

    pub(super) fn into_declared(self) -> Iterations {
        self.declared
    }
}

impl Workload {
    /// The iteration that a coflow is part of; `None` where its task declares none.
    pub fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        if self.repeating.is_empty() {
            return None;
        }
        let repeating = self.repeating(self.place(coflow).task)?;
        let number = repeating.declared.of_coflows[coflow.index() - repeating.first.index()];
        let Iterations { gpus, compute, .. } = repeating.declared;
        Some(Iteration { number, bytes: repeating.bytes[&number], gpus, compute })
    }

    /// What a task declares of its iterations, if it does.
    pub fn iterations(&self, task: TaskId) -> Option<&Iterations> {
        self.repeating(task).map(|repeating| &repeating.declared)
    }

    fn repeating(&self, task: TaskId) -> Option<&Repeating> {
        let at = self.repeating.binary_search_by_key(&task, |repeating| repeating.task).ok()?;
        self.repeating.get(at)
    }

    /// Takes what the task that was appended last declares.
    pub(super) fn declare(&mut self, declared: Iterations, first: CoflowId) -> Result<(), WorkloadError> {
        let task = TaskId::from_index(self.tasks.len() - 1);
        let (given, coflows) = (declared.of_coflows.len(), self.coflows.len() - first.index());
        if given != coflows {
            let task = self.task(task).name.clone();
            return Err(WorkloadError::StrangeIterations { task, given, coflows });
        }
        let mut bytes: BTreeMap<u32, Bytes> = BTreeMap::new();
        for (at, &number) in declared.of_coflows.iter().enumerate() {
            let size = self.coflow(CoflowId::from_index(first.index() + at)).size();
            *bytes.entry(number).or_default() += size;
        }
        self.repeating.push(Repeating { task, first, declared, bytes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Coflow, Flow, Task, WorkloadBuilder};
    use super::*;
    use crate::{Instant, PortId};

    /// A task of one coflow of so many bytes.
    fn push(builder: &mut WorkloadBuilder, name: &str, arrival: u64, bytes: u64) {
        let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(bytes), wave: Nanos::ZERO };
        builder.push(Task::of_coflow(name, Instant(arrival)), vec![Coflow { flows: vec![flow] }]);
    }

    fn declared(of_coflows: &[u32]) -> Iterations {
        Iterations { gpus: 8, compute: Nanos(5), of_coflows: of_coflows.to_vec() }
    }

    #[test]
    fn iterations_stay_with_their_task_whatever_it_is_sorted_behind() {
        let mut builder = WorkloadBuilder::new(2);
        push(&mut builder, "late", 9, 100);
        builder.iterations(declared(&[7]));
        push(&mut builder, "early", 3, 50);
        let workload = builder.build().unwrap();
        let found = Iteration { number: 7, bytes: Bytes(100), gpus: 8, compute: Nanos(5) };
        assert_eq!([0, 1].map(|coflow| workload.iteration(CoflowId(coflow))), [None, Some(found)]);
        assert_eq!(workload.iterations(TaskId(0)), None);
        assert_eq!(workload.clone().into_builder().build(), Ok(workload));
    }

    #[test]
    fn iterations_of_other_coflows_than_there_are_are_refused() {
        let mut builder = WorkloadBuilder::new(2);
        push(&mut builder, "a", 0, 1);
        builder.iterations(declared(&[0, 1]));
        let error = WorkloadError::StrangeIterations { task: "a".to_owned(), given: 2, coflows: 1 };
        assert_eq!(builder.build(), Err(error));
    }
}

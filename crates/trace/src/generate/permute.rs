//! A trace again, but otherwise: how much of a figure is owed to the order in which one hour happened to bring its coflows?
//!
//! A published trace is one sample, and a run of it one number without a spread. [`permute_arrivals`] gives the arrival
//! times of the trace to its tasks anew, at random: sizes, structures and the process of arrivals stay exactly those of
//! the trace, and what varies is who comes when. Rejected: resampling coflows with replacement, which would draw the few
//! largest, that have nearly all bytes, three times or never, and so change the load.

use cavalcade_model::{Coflow, Instant, TaskId, Work, Workload, WorkloadBuilder, WorkloadError};

use super::random::{Purpose, Random};

/// The same tasks with their arrival times permuted. The same seed gives the same workload on every machine.
///
/// # Errors
/// Where the times of a task no longer fit the scale, which only happens to times of a century.
pub fn permute_arrivals(workload: &Workload, seed: u64) -> Result<Workload, WorkloadError> {
    let mut arrivals: Vec<Instant> = workload.tasks().iter().map(|task| task.arrival).collect();
    Random::new(seed, Purpose::Arrivals).shuffle(&mut arrivals);
    let mut builder = WorkloadBuilder::new(workload.ports());
    builder.hosts(workload.hosts().to_vec());
    for (index, (task, arrival)) in workload.tasks().iter().zip(arrivals).enumerate() {
        let mut task = task.clone();
        task.arrival = arrival;
        let transfers = task.stages.iter().filter_map(|stage| match stage.work {
            Work::Transfer(coflow) => Some(Coflow { flows: workload.flows_of(coflow).to_vec() }),
            Work::Compute(_) => None,
        });
        let transfers = transfers.collect();
        builder.push(task, transfers);
        builder.waves_in_turn(workload.waves_in_turn(TaskId::from_index(index)));
    }
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Generator, generate};

    #[test]
    fn tasks_and_times_stay_and_only_who_comes_when_changes() {
        let generator: Generator = "classes:coflows=50,ports=10".parse().unwrap();
        let before = generate(&generator, 1).unwrap();
        let after = permute_arrivals(&before, 3).unwrap();
        let times =
            |workload: &Workload| workload.tasks().iter().map(|task| task.arrival).collect::<Vec<_>>();
        let names = |workload: &Workload| {
            workload.tasks().iter().map(|task| task.name.clone()).collect::<Vec<String>>()
        };
        let sizes = |workload: &Workload| {
            let mut sizes: Vec<(String, u64)> =
                workload.coflows().map(|coflow| (coflow.task.name.clone(), coflow.size().0)).collect();
            sizes.sort();
            sizes
        };
        assert_eq!((times(&before), sizes(&before)), (times(&after), sizes(&after)));
        assert_ne!(names(&before), names(&after));
        assert_eq!(after, permute_arrivals(&before, 3).unwrap());
        assert_ne!(after, permute_arrivals(&before, 4).unwrap());
    }
}

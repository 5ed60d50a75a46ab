//! Other arrivals for the tasks of a trace, and parts of one.
//!
//! A published trace is one sample, and a run of it one number without a spread.
//! [`permute_arrivals`] gives its arrival times to its tasks in random order: sizes, structures and
//! the arrival process stay those of the trace, and only the order of the tasks varies. Rejected:
//! resampling coflows with replacement, which would draw the few largest, that have nearly all
//! bytes, three times or never, and so change the load.

use cavalcade_model::{Instant, TaskId, Workload, WorkloadError};

use super::random::{Purpose, Random};
use super::rebuild::rebuild;

/// The same tasks with their arrival times permuted. The same seed gives the same workload on every
/// machine.
///
/// # Errors
/// If the times of a task no longer fit the scale, which only happens to times of a century.
pub fn permute_arrivals(workload: &Workload, seed: u64) -> Result<Workload, WorkloadError> {
    let tasks = (0..workload.tasks().len()).map(TaskId::from_index);
    let mut arrivals: Vec<Instant> = tasks.map(|task| workload.submitted(task)).collect();
    Random::new(seed, Purpose::Arrivals).shuffle(&mut arrivals);
    rebuild(workload, |task| Some(arrivals[task.index()]), <[_]>::to_vec)
}

/// The tasks that arrive from `from` on and before `until`, as a trace that begins at `from`: one
/// half of a trace to choose parameters on, the other to report them on.
///
/// # Errors
/// None that a valid workload could give.
pub fn between(workload: &Workload, from: Instant, until: Instant) -> Result<Workload, WorkloadError> {
    let shifted =
        |arrival: Instant| (from <= arrival && arrival < until).then(|| Instant(arrival.0 - from.0));
    rebuild(workload, |task| shifted(workload.submitted(task)), <[_]>::to_vec)
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

    #[test]
    fn two_halves_are_the_whole() {
        let generator: Generator = "classes:coflows=50,ports=10".parse().unwrap();
        let whole = generate(&generator, 1).unwrap();
        let middle = whole.submitted(TaskId(20));
        let (first, second) = (
            between(&whole, Instant::ZERO, middle).unwrap(),
            between(&whole, middle, Instant(u64::MAX)).unwrap(),
        );
        assert_eq!((first.tasks().len(), second.tasks().len()), (20, 30));
        assert_eq!(second.origin(), Instant::ZERO);
        assert_eq!(second.tasks()[29].name, whole.tasks()[49].name);
    }
}

//! Independent runs on all cores, and their progress.
//!
//! Workers take the next run from a shared counter, so that a long run does not hold up short ones;
//! results come back in the order of the runs. A single run stays on the calling thread: starting
//! threads costs more than a small simulation.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Counts units of work that are done, from any thread, and cancels the rest.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicUsize,
    cancelled: AtomicBool,
    /// Cancels as well once it is true.
    stop: OnceLock<&'static AtomicBool>,
    /// The latest news, for people.
    news: Mutex<String>,
    /// Every run that has begun, and how far it is.
    runs: Mutex<Vec<Run>>,
}

/// The progress of a run.
#[derive(Debug)]
struct Run {
    began: Instant,
    done: usize,
    of: usize,
}

/// The share of the work, one in this many, below which no estimate of the rest is given: the first
/// units of a run may take as long as all others together.
const EARLY: usize = 200;

impl Run {
    /// The time left at `now` if it goes on as fast as so far; `None` while it has hardly begun and
    /// when all is done.
    fn left(&self, now: Instant) -> Option<Duration> {
        let gone = now.saturating_duration_since(self.began);
        let rest = self.of.saturating_sub(self.done) as f64 / self.done as f64;
        (0 < self.done && self.of <= self.done.saturating_mul(EARLY) && self.done < self.of)
            .then(|| gone.mul_f64(rest))
    }
}

impl Progress {
    /// Adds `units` that are done.
    pub fn add(&self, units: usize) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// The units that are done.
    pub fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// The time left of `units` that began at `began`, if all goes on as fast as so far: by all
    /// units that are done, or by the slowest run that goes on, because one slow run among fast
    /// ones is not seen in those. `None` where it is not known.
    pub fn left(&self, began: Instant, units: usize) -> Option<Duration> {
        let now = Instant::now();
        let all = Run { began, done: self.done(), of: units };
        self.runs().iter().chain([&all]).filter_map(|run| run.left(now)).max()
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the news.
    pub fn tell(&self, news: String) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = news;
    }

    /// The latest news.
    pub fn news(&self) -> String {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cancels the runs that it watches: each ends with an error within milliseconds.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// From now on `flag` cancels as well, once it is true: what a handler of signals can set. Of
    /// several the first counts.
    pub fn stop_at(&self, flag: &'static AtomicBool) {
        self.stop.get_or_init(|| flag);
    }

    /// Checks whether the work was cancelled.
    pub fn is_cancelled(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.cancelled) || self.stop.get().is_some_and(|flag| is_set(flag))
    }
}

/// Turns a running total of coflows into progress.
pub(crate) struct Meter<'a> {
    progress: Option<&'a Progress>,
    /// The place of its run among those of the progress.
    run: usize,
    done: usize,
}

impl<'a> Meter<'a> {
    /// A meter of one run of so many coflows.
    pub(crate) fn new(progress: Option<&'a Progress>, coflows: usize) -> Self {
        let begin = |progress: &Progress| {
            let mut runs = progress.runs();
            runs.push(Run { began: Instant::now(), done: 0, of: coflows });
            runs.len() - 1
        };
        Self { progress, run: progress.map_or(0, begin), done: 0 }
    }

    /// Checks whether its run is to stop.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.progress.is_some_and(Progress::is_cancelled)
    }

    /// Takes the number of coflows that are done.
    pub(crate) fn reach(&mut self, done: usize) {
        let Some(progress) = self.progress else { return };
        progress.add(done.saturating_sub(self.done));
        self.done = self.done.max(done);
        progress.runs()[self.run].done = self.done;
    }
}

/// Calls `run` with each index below `runs` on all cores and returns the results in order.
pub fn map<T: Send>(runs: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    work(runs, cores.min(runs), run)
}

fn work<T: Send>(runs: usize, workers: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if workers <= 1 {
        return (0..runs).map(run).collect();
    }
    let next = AtomicUsize::new(0);
    let take_all = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= runs {
                return results;
            }
            results.push((index, run(index)));
        }
    };
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(take_all)).collect();
        let mut results = take_all();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_runs_with_any_number_of_workers() {
        for workers in 1..5 {
            let results = work(100, workers, |index| {
                // Later runs are shorter, so that they would overtake.
                for step in 0..(100 - index) * 1000 {
                    std::hint::black_box(step);
                }
                index
            });
            assert_eq!(results, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_run_is_estimated_by_its_own_pace() {
        let began = Instant::now();
        let now = began + Duration::from_secs(6);
        let left = |done| Run { began, done, of: 100 }.left(now);
        assert_eq!((left(0), left(100)), (None, None));
        assert_eq!((left(1), left(60)), (Some(Duration::from_secs(594)), Some(Duration::from_secs(4))));
        assert_eq!(Run { began, done: 1, of: 201 }.left(now), None, "its first unit tells little");
        let progress = Progress::default();
        let (mut fast, mut slow) = (Meter::new(Some(&progress), 100), Meter::new(Some(&progress), 100));
        fast.reach(99);
        assert!(progress.left(began, 1_000).is_some());
        slow.reach(100);
        fast.reach(100);
        assert_eq!((progress.left(began, 200), progress.done()), (None, 200));
        let ten = Duration::from_secs(10);
        let earlier = began.checked_sub(ten).expect("the clock runs");
        assert!(progress.left(earlier, 2_000).is_some_and(|left| left >= 9 * ten), "a tenth is done");
    }

    #[test]
    fn no_runs_give_no_results() {
        assert!(map(0, |index| index).is_empty());
    }

    #[test]
    fn a_panic_in_a_run_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| work(8, 2, |index| assert!(index != 5, "run 5 is broken")));
        assert!(caught.is_err());
    }
}

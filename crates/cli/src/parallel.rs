//! Independent runs on all cores, and a progress bar for people who wait.
//!
//! Workers take the next run from a shared counter, so that a long run does not hold up short ones; results come back in
//! the order of the runs, whoever finished first. A single run stays on the calling thread: starting threads costs more
//! than a small simulation.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Nobody wants a bar for less.
const PATIENCE: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_millis(100);

/// Counts units of work that are done, from any thread.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    done: AtomicUsize,
    /// What stands behind the bar.
    news: Mutex<String>,
}

impl Progress {
    /// Adds `units` that are done.
    pub(crate) fn add(&self, units: usize) {
        self.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Puts `news` behind the bar.
    pub(crate) fn tell(&self, news: String) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = news;
    }
}

/// Calls `work` and shows what it makes of `units` of progress, where somebody looks and it takes long.
pub(crate) fn watched<T>(units: usize, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    let finished = Finished::default();
    thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(|| draw(&progress, units, &finished));
        }
        // Also where the work panics: the scope waits for the bar.
        let _finish = Finish(&finished);
        work(&progress)
    })
}

/// Calls `run` with each index below `runs` on all cores and returns the results in order.
pub(crate) fn map<T: Send>(runs: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
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
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Whether all work is done, for the thread that draws.
#[derive(Default)]
struct Finished {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl Finished {
    /// Waits up to `time`; whether all is done.
    fn within(&self, time: Duration) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, time, |done| !*done);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says that all is done when it is dropped.
struct Finish<'a>(&'a Finished);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        *self.0.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.changed.notify_all();
    }
}

/// Draws the bar on standard error until all is done.
fn draw(progress: &Progress, units: usize, finished: &Finished) {
    if finished.within(PATIENCE) {
        return;
    }
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} gone, {eta} to go  {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(units as u64).with_style(style).with_elapsed(PATIENCE);
    loop {
        bar.set_position(progress.done.load(Ordering::Relaxed) as u64);
        bar.set_message(progress.news.lock().unwrap_or_else(PoisonError::into_inner).clone());
        if finished.within(REFRESH) {
            bar.finish_and_clear();
            return;
        }
    }
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
    fn no_runs_give_no_results() {
        assert!(map(0, |index| index).is_empty());
    }

    #[test]
    fn a_panic_in_a_run_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| work(8, 2, |index| assert!(index != 5, "run 5 is broken")));
        assert!(caught.is_err());
    }
}

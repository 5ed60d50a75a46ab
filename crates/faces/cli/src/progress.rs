//! Progress for people who wait: a bar on a terminal, a line every ten seconds elsewhere, and in
//! the first seconds a warning where it will take minutes.

use std::io::IsTerminal;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cavalcade::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::output::tell;

/// The time before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time between two pictures of the bar.
const REFRESH: Duration = Duration::from_millis(100);
/// The time between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(10);
/// The time between two looks where there is no terminal.
const LOOK: Duration = Duration::from_secs(1);
/// The time before which nothing is said of how long it will take.
const FIRST: Duration = Duration::from_secs(3);
/// The time above which a warning is given.
const LONG: Duration = Duration::from_secs(60);

/// Calls `work` and shows what it makes of `units` of progress, if it takes long.
pub(crate) fn watched<T>(units: usize, work: impl FnOnce(&Progress) -> T) -> T {
    let progress = Progress::default();
    let finished = Finished::default();
    thread::scope(|scope| {
        if std::io::stderr().is_terminal() {
            scope.spawn(|| draw(&progress, units, &finished));
        } else {
            scope.spawn(|| report(&progress, units, &finished));
        }
        // Also where the work panics: the scope waits for the bar.
        let _finish = Finish(&finished);
        work(&progress)
    })
}

/// Writes a line of progress now and then until all is done.
fn report(progress: &Progress, units: usize, finished: &Finished) {
    let mut estimate = Estimate::new(units);
    let mut next = LINE;
    while !finished.within(LOOK) {
        if let Some(warning) = estimate.warning(progress) {
            tell(&warning);
        }
        let gone = estimate.start.elapsed();
        if gone >= next {
            next += LINE;
            let percent = 100.0 * estimate.share(progress);
            let said = [estimate.to_go(progress), progress.news()];
            let said: String =
                said.iter().filter(|text| !text.is_empty()).map(|text| format!(", {text}")).collect();
            tell(&format!("{percent:.0} % after {}{said}", in_words(gone)));
        }
    }
}

/// An estimate of the time to go.
struct Estimate {
    start: Instant,
    units: usize,
    has_warned: bool,
}

impl Estimate {
    fn new(units: usize) -> Self {
        Self { start: Instant::now(), units: units.max(1), has_warned: false }
    }

    /// The share of the units that are done.
    fn share(&self, progress: &Progress) -> f64 {
        (progress.done() as f64 / self.units as f64).min(1.0)
    }

    /// Returns the time to go in words; empty where it is not known.
    fn to_go(&self, progress: &Progress) -> String {
        progress
            .left(self.start, self.units)
            .map_or_else(String::new, |left| format!("about {} to go", in_words(left)))
    }

    /// Warns once, as soon as it is known, of what will take minutes.
    fn warning(&mut self, progress: &Progress) -> Option<String> {
        let gone = self.start.elapsed();
        let left = progress.left(self.start, self.units);
        let left = left.filter(|&left| left >= LONG && gone >= FIRST && !self.has_warned)?;
        self.has_warned = true;
        Some(format!("This will take about {}. Ctrl-C ends it.", in_words(gone + left)))
    }
}

/// A time as people say it: `40 s`, `4 min`, `2 h`.
fn in_words(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    }
}

/// The end of all work, for the thread that draws.
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
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed} elapsed  {msg}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(units as u64).with_style(style).with_elapsed(PATIENCE);
    let mut estimate = Estimate::new(units);
    loop {
        if let Some(warning) = estimate.warning(progress) {
            bar.println(warning);
        }
        bar.set_position(progress.done() as u64);
        bar.set_message(format!("{}  {}", estimate.to_go(progress), progress.news()));
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
    fn times_are_said_as_people_say_them() {
        let shown = [0, 89, 90, 240, 5400, 7200].map(|seconds| in_words(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "89 s", "2 min", "4 min", "2 h", "2 h"]);
    }

    #[test]
    fn minutes_are_announced_once_and_seconds_never() {
        let progress = Progress::default();
        progress.add(1);
        let began =
            |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).expect("the clock runs");
        let mut slow = Estimate { start: began(6), ..Estimate::new(100) };
        assert!(slow.warning(&progress).is_some_and(|warning| warning.starts_with("This will take about ")));
        assert_eq!(slow.warning(&progress), None);
        let mut fast = Estimate { start: began(6), ..Estimate::new(5) };
        assert_eq!(fast.warning(&progress), None);
        let mut early = Estimate::new(100_000_000);
        assert_eq!(early.warning(&progress), None);
    }
}

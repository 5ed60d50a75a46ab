//! Progress for people who wait: a bar on a terminal, a line every ten seconds elsewhere.

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
    let start = Instant::now();
    while !finished.within(LINE) {
        let share = progress.done() as f64 / units.max(1) as f64;
        let gone = start.elapsed().as_secs_f64();
        let left = match share {
            share if share > 0.0 => format!(", about {:.0} s to go", gone / share.min(1.0) - gone),
            _ => String::new(),
        };
        let news = progress.news();
        let news = if news.is_empty() { news } else { format!(", {news}") };
        tell(&format!("{:.0} % after {gone:.0} s{left}{news}", 100.0 * share.min(1.0)));
    }
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
        bar.set_position(progress.done() as u64);
        bar.set_message(progress.news());
        if finished.within(REFRESH) {
            bar.finish_and_clear();
            return;
        }
    }
}

//! The page of the docs: what came of each fault.

use std::fmt;
use std::time::Duration;

use crate::faults::{Fault, Since};
use crate::traffic::Totals;

/// The recoveries from one kind of fault.
struct Line {
    name: &'static str,
    since: Since,
    recoveries: Vec<Duration>,
    longest_pause: Duration,
}

/// All that was measured.
pub(crate) struct Page {
    lines: Vec<Line>,
    lease: &'static str,
    length: Duration,
    totals: Totals,
}

impl Page {
    pub(crate) fn new(faults: &[Fault], lease: &'static str) -> Self {
        let line = |fault: &Fault| Line {
            name: fault.name,
            since: fault.since,
            recoveries: Vec::new(),
            longest_pause: Duration::ZERO,
        };
        let lines = faults.iter().map(line).collect();
        Self { lines, lease, length: Duration::ZERO, totals: Totals::default() }
    }

    /// Takes in a recovery from the fault of that number.
    pub(crate) fn add(&mut self, number: usize, recovery: Duration, pause: Duration) {
        let line = &mut self.lines[number];
        line.recoveries.push(recovery);
        line.longest_pause = line.longest_pause.max(pause);
    }

    pub(crate) fn finish(&mut self, length: Duration, totals: Totals) {
        (self.length, self.totals) = (length, totals);
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let Totals { transfers, bytes, begun_again, slowest } = self.totals;
        f.write_str(include_str!("page.md"))?;
        writeln!(
            f,
            "{:.1} minutes on {cores} cores with a load of {} (mean of the last 15 minutes, of everything on the machine); \
             leadership held by {}. {transfers} transfers of {:.1} GB arrived, every byte as it was sent; the slowest took \
             {:.1} s, and {begun_again} connections were opened again, because a link was cut. No component panicked or ended by itself.\n",
            self.length.as_secs_f64() / 60.0,
            load.split(' ').nth(2).unwrap_or("?"),
            self.lease,
            bytes as f64 / 1e9,
            slowest.as_secs_f64(),
        )?;
        writeln!(f, "| fault | times | obeyed after, median | longest | nothing arrived for, at most |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        self.lines.iter().try_for_each(|line| write_line(f, line))
    }
}

fn write_line(f: &mut fmt::Formatter<'_>, line: &Line) -> fmt::Result {
    let mut recoveries = line.recoveries.clone();
    recoveries.sort_unstable();
    let Some(longest) = recoveries.last() else { return writeln!(f, "| {} | 0 | | | |", line.name) };
    let median = recoveries[recoveries.len() / 2];
    let [median, longest, pause] = [median, *longest, line.longest_pause].map(|span| span.as_secs_f64());
    let star = if line.since == Since::End { " *" } else { "" };
    writeln!(
        f,
        "| {}{star} | {} | {median:.2} s | {longest:.2} s | {pause:.2} s |",
        line.name,
        recoveries.len()
    )
}

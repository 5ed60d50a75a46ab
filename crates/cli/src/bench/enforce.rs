//! `cavalcade bench enforce`: what the kernel path costs on this machine, and how exactly it does as it is told.

use std::fmt::Write as _;
use std::time::Duration;

use cavalcade_enforce::bench::{Figures, measure};

use crate::failure::{Failure, Kind};
use crate::output::print;

/// Runs the benchmark.
///
/// # Errors
/// If this host cannot load programs, or the output cannot be written.
pub(crate) fn run() -> Result<(), Failure> {
    let figures = measure().map_err(|error| Failure::new(Kind::Capability, error.to_string()))?;
    print(&text(&figures))
}

fn text(figures: &Figures) -> String {
    let mut text = String::from("program      verified instructions        runs   ns a run\n");
    for cost in &figures.costs {
        let (program, verified, runs, nanos) = (cost.program, cost.verified, cost.runs, cost.nanos);
        _ = writeln!(text, "{program:<13}{verified:>21}{runs:>12}{nanos:>11.0}");
    }
    _ = writeln!(text, "\nwithout limits {:.1} Gbps\n", figures.unlimited / 1e9);
    text += "asked Mbps   reached Mbps   off by   over s\n";
    for pace in &figures.paces {
        let (asked, reached) = (pace.asked.0 as f64 / 1e6, pace.reached / 1e6);
        let off_by = (reached / asked - 1.0) * 100.0;
        _ = writeln!(text, "{asked:>10.0}{reached:>15.2}{off_by:>8.1}%{:>9.0}", pace.seconds);
    }
    text += "\n           p50 ms   p99 ms   worst ms\n";
    for (name, times) in [("off", &figures.off), ("on", &figures.on)] {
        let at = |share: usize| millis(times[(times.len() * share).div_ceil(100) - 1]);
        _ = writeln!(text, "{name:<7}{:>10.3}{:>9.3}{:>11.3}", at(50), at(99), at(100));
    }
    text
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

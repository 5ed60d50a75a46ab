//! Searches for a mean that no schedule can be below, and has its proof checked by code that shares
//! nothing with the search.
//!
//! ```text
//! cargo run --release -p cavalcade --example certified_bound
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use cavalcade::bound::{self, lower_bounds};
use cavalcade::validate::certificate::{Certificate, Verified, check};
use cavalcade::{Conditions, Scenario, compare, generate};

/// Linear programs that the search may solve: a count, and not a time, so that the figure is the
/// same everywhere.
const PROGRAMS: u64 = 100;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = generate("facebook:coflows=40,ports=12", 1)?;
    let scenario = Scenario::new(workload, Conditions::default())?;
    let (workload, fabric) = (scenario.workload(), scenario.fabric());
    let mut go_on = |progress: &bound::Progress| progress.programs < PROGRAMS;
    let bounds = lower_bounds(workload, fabric, bound::Conditions::default(), &mut go_on)?;
    let best = bounds.best();
    // The proof is a file of hints. Whoever has it and the workload derives the figure again.
    let file = serde_json::to_vec(&best.certificate)?;
    let verified = check(workload, fabric, &Certificate::read(&file)?)?;
    let Verified::Sum { nanos, weight } = verified else {
        return Err("a bound on a mean was asked for".into());
    };
    let proven_s = nanos as f64 / weight as f64 / 1e9;
    println!("no schedule has a mean CCT below {proven_s:.3} s: {} bytes of proof, checked", file.len());
    for name in ["fair", "aalo", "sebf"] {
        let mean_s = compare(&[scenario.under(name)?], 0)?.runs[0].cct_summary.mean_s;
        println!("{name:<6} {mean_s:.3} s, {:.1} % above it", (mean_s / proven_s - 1.0) * 100.0);
    }
    Ok(())
}

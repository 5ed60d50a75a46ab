//! Compares published policies over a generated workload, beside a bound that no schedule can beat.
//!
//! ```text
//! cargo run --release -p cavalcade --example compare
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use cavalcade::{Beside, Budget, Conditions, Progress, Scenario, compare_with, generate};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = generate("facebook:coflows=60,ports=20", 1)?;
    let scenario = Scenario::new(workload, Conditions::default())?;
    let names = ["fair", "aalo", "baraat", "varys"];
    let runs = names.into_iter().map(|name| scenario.under(name)).collect::<Result<Vec<_>, _>>()?;
    let beside = Beside { budget: Some(Budget::Programs(100)), ..Beside::default() };
    let comparison = compare_with(&runs, 0, &beside, &Progress::default())?.comparison;
    for run in &comparison.runs {
        let gap = comparison
            .gap(run)
            .map_or(String::new(), |gap| format!(", {:.1} % above the bound", gap * 100.0));
        println!("{:<8} mean CCT {:.3} s{gap}", run.label, run.cct_summary.mean_s);
    }
    Ok(())
}

//! Sweeps a condition: the mean gain of Aalo over fair sharing at several rates of links, over several seeds.
//!
//! ```text
//! cargo run --release -p cavalcade --example sweep
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use cavalcade::model::BitsPerSec;
use cavalcade::{Conditions, Scenario, compare, generate};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workloads = (1..=5).map(|seed| generate("facebook:coflows=40,ports=10", seed));
    let scenarios = workloads
        .map(|workload| Scenario::new(workload?, Conditions::default()))
        .collect::<Result<Vec<_>, _>>()?;
    for gbps in [1, 2, 10] {
        let rate = BitsPerSec(gbps * 1_000_000_000);
        let mut gains = Vec::new();
        for scenario in &scenarios {
            // A scenario's parts fit each other: another rate is another scenario.
            let scenario = scenario.with_conditions(Conditions { rate, ..scenario.conditions().clone() })?;
            let runs = compare(&[scenario.under("fair")?, scenario.under("aalo")?], 0)?.runs;
            gains.push(runs[0].cct_summary.mean_s / runs[1].cct_summary.mean_s);
        }
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        println!(
            "{gbps:>2} Gbps: {mean:.2} times ahead of fair sharing in the mean of {} seeds",
            gains.len()
        );
    }
    Ok(())
}

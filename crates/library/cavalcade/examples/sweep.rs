//! Sweeps a condition: how far Aalo and Varys are ahead of fair sharing at several rates of links,
//! over five seeds, as a figure.
//!
//! ```text
//! cargo run --release -p cavalcade --example sweep > sweep.svg
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use cavalcade::report::FigureWidth;
use cavalcade::{Axis, Choice, Conditions, Progress, Show, Sweep, generate};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let axis = Axis::new("rate", ["1Gbps", "2Gbps", "10Gbps"])?;
    let policies = ["fair", "aalo", "varys"].into_iter().map(Choice::named).collect::<Result<_, _>>()?;
    let sweep = Sweep::new(axis, policies, 0, Conditions::default(), (1..=5).collect())?;
    let workload = |seed| generate("facebook:coflows=40,ports=10", seed).map(Arc::new);
    let swept = sweep.run(workload, &Progress::default())?;
    println!("{}", swept.figure(Show::Speedup, FigureWidth::Column)?);
    Ok(())
}

//! Compares policies on a trace, or on a workload made from a seed:
//! `cargo run --release -p cavalcade --example compare -- [TRACE]`.

use cavalcade::report::{TableOptions, table};
use cavalcade::{Conditions, Error, Scenario, compare, generate, read};

fn main() -> Result<(), Error> {
    let workload = match std::env::args_os().nth(1) {
        Some(path) => read(path)?,
        None => generate("facebook:coflows=100,ports=30", 1)?,
    };
    let scenario = Scenario::new(workload, Conditions::default())?;
    let runs = ["fair", "sebf", "dclas:queues=4"].map(|policy| scenario.under(policy));
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let comparison = compare(&runs, 0)?;
    #[expect(clippy::print_stdout, reason = "an example shows what it finds")]
    {
        print!("{}", table(&comparison, TableOptions::default()));
    }
    Ok(())
}

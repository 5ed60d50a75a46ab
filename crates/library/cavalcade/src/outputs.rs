//! All tables that runs and comparisons are written as: what `docs/outputs.md` is made from.

use cavalcade_model::{Bytes, Flow, Instant, Nanos, PortId, Workload, WorkloadBuilder};

use crate::columns::Column;
use crate::compare::{Beside, compare_with};
use crate::error::Error;
use crate::kept;
use crate::parallel::Progress;
use crate::scenario::{Conditions, Scenario};
use crate::tables;

/// A table, with the columns of a small run.
pub struct Table {
    /// Its name, without the ending of a file.
    pub name: &'static str,
    /// What its rows are, and where it is written only sometimes, when.
    pub rows: &'static str,
    /// True if it has several runs, false if it is of one.
    pub of_comparison: bool,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// The workload of the small run. Its hosts have names, so that no column is left out.
fn small() -> Result<Workload, Error> {
    let mut builder = WorkloadBuilder::new(2);
    builder.port_names(vec!["web".to_owned(), "db".to_owned()]);
    let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(1_000), wave: Nanos::ZERO };
    builder.coflow("lookup", Instant::ZERO, vec![flow]);
    builder.build().map_err(|error| Error::input(error.to_string()))
}

/// All tables, each as CSV and as Parquet.
///
/// # Errors
/// If the small run fails: a mistake of this program.
pub fn tables() -> Result<Vec<Table>, Error> {
    let scenario = Scenario::new(small()?, Conditions::default())?;
    let outcome = scenario.run()?;
    let compared =
        compare_with(std::slice::from_ref(&scenario), 0, &Beside::default(), &Progress::default())?;
    let (workload, comparison) = (scenario.workload(), &compared.comparison);
    let run = &comparison.runs[0];
    let mut tables: Vec<Table> = kept::tables(&compared)
        .into_iter()
        .zip(["a row for each run", "a row for each coflow in each run", "a row for each task in each run"])
        .map(|((name, columns), rows)| Table { name, rows, of_comparison: true, columns })
        .collect();
    let of_run = |name, rows, columns| Table { name, rows, of_comparison: false, columns };
    tables.extend([
        of_run("coflows", "a row for each coflow", tables::coflows(comparison, run)),
        of_run("tasks", "a row for each task", tables::tasks(comparison, run)),
        of_run(
            "flows",
            "a row for each flow, with `--dump-schedule`",
            tables::flows(workload, &outcome.flow_finish),
        ),
    ]);
    Ok(tables)
}

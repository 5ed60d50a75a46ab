//! Tables in, tables out: flows from Arrow arrays, a comparison over them, and its figures as a
//! record batch.
//!
//! ```text
//! cargo run --release -p cavalcade-arrow --example tables
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use cavalcade::{Beside, Conditions, Progress, Scenario, compare_with, tables};
use cavalcade_arrow::{TableOptions, batch, workload};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let flows = RecordBatch::try_from_iter([
        ("src", Arc::new(StringArray::from(vec!["web1", "web1", "web2"])) as ArrayRef),
        ("dst", Arc::new(StringArray::from(vec!["db", "db", "db"]))),
        ("bytes", Arc::new(Int64Array::from(vec![40_000_000, 1_000_000, 2_000_000]))),
        ("start_ms", Arc::new(Int64Array::from(vec![0, 3, 3]))),
        ("coflow", Arc::new(StringArray::from(vec!["report", "lookup", "lookup"]))),
    ])?;
    let batches = RecordBatchIterator::new([Ok(flows.clone())], flows.schema());
    let workload = workload(batches, &TableOptions { name: "flows", ..TableOptions::default() })?;

    let scenario = Scenario::new(workload, Conditions::default())?;
    let runs = ["fair", "aalo", "sebf"]
        .map(|name| scenario.under(name))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let compared = compare_with(&runs, 0, &Beside::default(), &Progress::default())?;

    let figures = batch(&tables::runs(&compared))?;
    let column = |name| figures.column_by_name(name).ok_or(format!("no column {name}"));
    let (names, means) =
        (column("run")?.as_string::<i32>(), column("cct_mean_s")?.as_primitive::<Float64Type>());
    for (name, mean) in names.iter().flatten().zip(means.values()) {
        println!("{name:<5} mean CCT {:.1} ms", mean * 1e3);
    }
    Ok(())
}

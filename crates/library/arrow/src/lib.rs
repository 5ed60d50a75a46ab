//! Arrow record batches in and out: a workload from a table with a row for each flow, and results
//! as columns.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
//! use cavalcade::{Conditions, Scenario, tables};
//! use cavalcade_arrow::{TableOptions, batch, workload};
//!
//! let flows = RecordBatch::try_from_iter([
//!     ("src", Arc::new(StringArray::from(vec!["web1", "web2"])) as ArrayRef),
//!     ("dst", Arc::new(StringArray::from(vec!["db", "db"]))),
//!     ("bytes", Arc::new(Int64Array::from(vec![4_000_000, 1_000_000]))),
//!     ("start_ms", Arc::new(Int64Array::from(vec![0, 3]))),
//!     ("coflow", Arc::new(StringArray::from(vec!["report", "lookup"]))),
//! ])?;
//! let batches = RecordBatchIterator::new([Ok(flows.clone())], flows.schema());
//! let workload = workload(batches, &TableOptions { name: "flows", ..Default::default() })?;
//!
//! let scenario = Scenario::new(workload, Conditions::default())?;
//! let outcome = scenario.under("sebf")?.run()?;
//! let ends = batch(&tables::flows(scenario.workload(), &outcome.flow_finish))?;
//! assert_eq!(ends.num_rows(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! |---|---|
//! | read a table of flows | [`workload`], or [`FlowTable`] piece by piece |
//! | have a table of results ([`cavalcade::tables`]) as a batch | [`batch`] |
//!
//! The crate is apart from [`cavalcade`], so that a user without Arrow does not build it. Its
//! columns of results are those of the program's files, from the same definitions
//! ([`cavalcade::columns`]).

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_types, clippy::disallowed_methods, clippy::iter_over_hash_type)
)]
#![forbid(unsafe_code)]

mod flows;
mod out;

pub use flows::{FlowTable, TableOptions, unread, workload};
pub use out::{batch, schema};

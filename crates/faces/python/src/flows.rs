//! A trace of a table with a row for each flow: of anything that speaks Arrow's C stream interface,
//! or of columns by name.
//!
//! The rows become a workload in [`cavalcade_arrow::FlowTable`]. Arrays of NumPy and lists speak no
//! Arrow: they are cut into pieces and made into Arrow's arrays first, by asking Python for
//! little-endian bytes or for a list, as a buffer of NumPy cannot be looked at under Python 3.10's
//! stable interface.

use arrow_array::RecordBatchReader;
use cavalcade_arrow::{FlowTable, TableOptions, unread};
use pyo3::prelude::*;

use crate::capsule::stream_of;
use crate::errors::{Raise as _, raised};
use crate::trace::Loaded;

mod arrays;

/// Rows between two looks at signals.
const PIECE: usize = 1 << 16;

/// Reads a table.
///
/// # Errors
/// If it is no table, or holds what a trace cannot; the place is a row and a column.
pub(crate) fn read(py: Python<'_>, table: &Bound<'_, PyAny>, options: &TableOptions<'_>) -> PyResult<Loaded> {
    let flows = match stream(table)? {
        Some(capsule) => {
            let stream = stream_of(&capsule)?.map_err(|error| raised(py, &unread(options.name, &error)))?;
            let schema = stream.schema();
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let mut flows = FlowTable::new(&names, options).or_raise(py)?;
            for batch in stream {
                let batch = batch.map_err(|error| raised(py, &unread(options.name, &error)))?;
                for from in (0..batch.num_rows()).step_by(PIECE) {
                    let piece = batch.slice(from, PIECE.min(batch.num_rows() - from));
                    py.detach(|| flows.add_batch(&piece)).or_raise(py)?;
                    py.check_signals()?;
                }
            }
            flows
        }
        None => arrays::read(py, table, options)?,
    };
    let workload = py.detach(|| flows.finish()).or_raise(py)?;
    Ok(Loaded::made(workload, options.name.to_owned()))
}

/// The capsule of a table that speaks Arrow; `None` if its columns have to be asked for by name.
fn stream<'py>(table: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = table.py();
    if !table.hasattr("__arrow_c_stream__")? {
        return Ok(None);
    }
    match table.call_method0("__arrow_c_stream__") {
        Ok(capsule) => Ok(Some(capsule)),
        // A pandas frame needs PyArrow for it.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyImportError>(py) => Ok(None),
        Err(error) => {
            let made = raised(py, &unread("table", &error));
            made.set_cause(py, Some(error));
            Err(made)
        }
    }
}

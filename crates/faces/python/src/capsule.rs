//! Arrow's C stream interface: tables come in and go out as a capsule called `arrow_array_stream`.
//!
//! The one place where memory of other libraries is touched. A capsule that comes in is emptied, as
//! the interface asks: its stream is moved out and released by us, and what is left in the capsule
//! is a stream that has been released. A capsule that goes out is dropped by Python, and so is its
//! stream, unless it was moved out.

#![allow(unsafe_code, reason = "the interface passes pointers; each use says why it holds")]

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_schema::ArrowError;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Reads a stream out of its capsule.
///
/// # Errors
/// If it is no such capsule, or the stream has been read before.
pub(crate) fn stream_of(capsule: &Bound<'_, PyAny>) -> PyResult<Result<RecordBatchStreamReader, ArrowError>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.as_ptr().cast::<FFI_ArrowArrayStream>();
    // SAFETY: the name says that the pointer is to a stream; the capsule is alive, and the
    // interpreter's lock keeps others from it. A stream that was moved out before is marked as
    // released, which the reader refuses.
    Ok(unsafe { RecordBatchStreamReader::from_raw(stream) })
}

/// Puts a stream into a capsule.
///
/// # Errors
/// If Python has no memory for it.
pub(crate) fn of_stream<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)
}

/// Puts a schema into a capsule.
///
/// # Errors
/// If Python has no memory for it.
pub(crate) fn of_schema<'py>(py: Python<'py>, schema: FFI_ArrowSchema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

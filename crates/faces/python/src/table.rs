//! Tables of results: columns that are made when they are asked for, run by run.
//!
//! The columns are those of the program's files, from the same definitions ([`cavalcade::tables`]),
//! as Arrow has them ([`cavalcade_arrow`]). In front stand the conditions of a run. A reader of
//! Arrow gets a batch for each run, made when it asks for it, so that no more than a run is there
//! twice.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatchIterator;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, Schema};
use cavalcade::columns::{Column, below, write_csv, write_parquet};
use cavalcade::output::write_file;
use cavalcade::{Error, Kind};
use cavalcade_arrow::{batch, schema};
use pyo3::exceptions::{PyAttributeError, PyImportError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsule;
use crate::errors::Raise as _;

/// What makes the columns of a table, piece by piece. The first piece has all columns.
pub(crate) type Pieces = Arc<dyn Fn(usize) -> Vec<Column> + Send + Sync>;

/// Columns of results. Any library that reads Arrow takes it as it is; what else is asked of it, is
/// asked of `to_polars()`.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Table {
    pieces: Pieces,
    count: usize,
}

impl Table {
    pub(crate) fn new(count: usize, pieces: Pieces) -> Self {
        Self { pieces, count }
    }

    fn schema(&self) -> Schema {
        schema(&(self.pieces)(0))
    }

    fn whole(&self) -> Vec<Column> {
        below((0..self.count).map(|piece| (self.pieces)(piece)))
    }

    fn lacks(py: Python<'_>, name: &str) -> PyErr {
        let error = Error::new(Kind::Capability, format!("{name} is not installed")).place(name);
        crate::errors::raised(py, &error.help(format!("pip install {name}")))
    }

    /// A library, or the error that it is not there.
    fn library<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
        py.import(name).map_err(|error| match error.is_instance_of::<PyImportError>(py) {
            true => Self::lacks(py, name),
            false => error,
        })
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Arrow's C stream interface: a batch for each run. A schema that is asked for is not
    /// followed, as the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = Arc::new(self.schema());
        let pieces = Arc::clone(&self.pieces);
        let made =
            move |piece| batch(&pieces(piece)).map_err(|error| ArrowError::ComputeError(error.to_string()));
        let batches = (0..self.count).map(made);
        capsule::of_stream(py, Box::new(RecordBatchIterator::new(batches, schema)))
    }

    /// Arrow's C schema interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&self.schema());
        let schema = schema.map_err(|error| Error::new(Kind::Runtime, error.to_string())).or_raise(py)?;
        capsule::of_schema(py, schema)
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        let rows = |piece| (self.pieces)(piece).first().map_or(0, Column::rows);
        py.detach(|| (0..self.count).map(rows).sum())
    }

    /// As a Polars frame.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::library(slf.py(), "polars")?.call_method1("DataFrame", (slf,))
    }

    /// As a PyArrow table.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::library(slf.py(), "pyarrow")?.call_method1("table", (slf,))
    }

    /// As a pandas frame; by way of PyArrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::library(slf.py(), "pandas")?;
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    /// As CSV, as the program writes it.
    fn to_csv(&self, py: Python<'_>) -> PyResult<String> {
        let write = || {
            let mut text = Vec::new();
            write_csv(&self.whole(), &mut text).map(|()| String::from_utf8_lossy(&text).into_owned())
        };
        py.detach(write).map_err(|error| Error::new(Kind::Runtime, error.to_string())).or_raise(py)
    }

    /// Writes a file by its ending: .csv or .parquet, as the program writes them.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let write = || match ending.as_deref() {
            Some("csv") => write_file(&path, |mut out| write_csv(&self.whole(), &mut out)),
            Some("parquet") => {
                let mut bytes = Vec::new();
                write_parquet(&self.whole(), &mut bytes)
                    .map_err(|error| Error::file("write", &path, &error))?;
                write_file(&path, |out| out.write_all(&bytes))
            }
            _ => Err(Error::usage(format!("{}: a table is CSV or Parquet", path.display()))
                .place("path")
                .expected("a name that ends with .csv or .parquet")),
        };
        py.detach(write).or_raise(py)
    }

    /// What is not here is asked of the Polars frame: `filter`, `group_by`, `sort`, ….
    fn __getattr__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let is_own = name.starts_with('_');
        if is_own || slf.py().import("polars").is_err() {
            let cure = if is_own { "" } else { ": install Polars, or call to_pandas()" };
            return Err(PyAttributeError::new_err(format!("a Table has no {name}{cure}")));
        }
        Self::to_polars(slf)?.getattr(name)
    }

    /// A column by its name, as a Polars series.
    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        Self::to_polars(slf)?.get_item(name)
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        if slf.py().import("polars").is_ok() {
            return Ok(Self::to_polars(slf)?.repr()?.to_string());
        }
        let table = slf.get();
        Ok(format!("Table({} rows: {})", table.__len__(slf.py()), table.names().join(", ")))
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<Option<String>> {
        if slf.py().import("polars").is_err() {
            return Ok(None);
        }
        Self::to_polars(slf)?.call_method0("_repr_html_")?.extract().map(Some)
    }
}

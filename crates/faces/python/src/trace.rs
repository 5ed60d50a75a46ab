//! A trace: a workload, what it is called, and where a manifest finds it again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cavalcade::manifest::{TraceRecord, sha256};
use cavalcade::model::Workload;
use cavalcade::output::write_file;
use cavalcade::trace::flow_columns::Chosen;
use cavalcade::trace::{File, Format, ReadOptions, read_files};
use cavalcade::{Error, Source};
use cavalcade_arrow::TableOptions;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use crate::errors::Raise as _;
use crate::flows;

/// The name of the file of a trace that came from no file, in the folder of the runs over it.
pub(crate) const OWN_FILE: &str = "trace.jsonl";

/// How much a trace is compressed where it is sent to another process: little, as it is read once.
const LEVEL: i32 = 3;

/// What a trace holds.
pub(crate) struct Loaded {
    pub(crate) workload: Arc<Workload>,
    /// What messages and manifests call it.
    pub(crate) name: String,
    /// The file that it was read from, if it was.
    file: Option<TraceRecord>,
    notes: Vec<String>,
    /// True for a log with recorded times, from which a rate could be inferred.
    pub(crate) has_recording: bool,
    digest: OnceLock<String>,
}

impl Loaded {
    /// A trace that came from no file.
    pub(crate) fn made(workload: Workload, name: String) -> Self {
        let (file, notes, digest) = (None, Vec::new(), OnceLock::new());
        Self { workload: Arc::new(workload), name, file, notes, has_recording: false, digest }
    }

    fn read(paths: &[PathBuf], format: Option<Format>) -> Result<Self, Error> {
        let source = Source::open_all(paths)?;
        let reading = source.read(format)?;
        let file = TraceRecord::new(&source, reading.format)?;
        let notes = reading.notes.iter().map(ToString::to_string).collect();
        let has_recording = !reading.queries.is_empty();
        let made = Self::made(reading.workload, source.name().to_owned());
        Ok(Self { file: Some(file), notes, has_recording, ..made })
    }

    fn of_bytes(bytes: &[u8], name: &str, format: Option<Format>) -> Result<Self, Error> {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let reading = read_files(&[File { name, bytes }], &options)?;
        Ok(Self::made(reading.workload, name.to_owned()))
    }

    fn native(&self) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        cavalcade::trace::write(&self.workload, Format::NATIVE, &mut text)
            .map_err(|error| Error::input(error.to_string()))?;
        Ok(text)
    }

    fn digest(&self) -> Result<&str, Error> {
        if let Some(file) = &self.file {
            return Ok(&file.sha256);
        }
        if self.digest.get().is_none() {
            let digest = sha256(&self.native()?);
            return Ok(self.digest.get_or_init(|| digest));
        }
        Ok(self.digest.get().map_or("", String::as_str))
    }

    /// What manifests in `folder` say of it, and the content of a file that has to be put there, if
    /// it is in none.
    pub(crate) fn record(&self, folder: &Path) -> Result<(TraceRecord, Option<Vec<u8>>), Error> {
        if let Some(file) = &self.file {
            return Ok((file.clone(), None));
        }
        let text = self.native()?;
        let path = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned()).join(OWN_FILE);
        Ok((TraceRecord::of_file(path, &text), Some(text)))
    }
}

/// Reads the name of a format.
fn format_named(name: Option<&str>) -> Result<Option<Format>, Error> {
    Ok(name.map(str::parse::<Format>).transpose()?)
}

/// A workload of coflows, and where it is from. It is never changed, and pickles.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Trace(pub(crate) Arc<Loaded>);

impl Trace {
    pub(crate) fn of(loaded: Loaded) -> Self {
        Self(Arc::new(loaded))
    }
}

/// Reads a trace: `Trace.read`.
#[pyfunction]
#[pyo3(signature = (path, format=None))]
pub(crate) fn read(py: Python<'_>, path: Paths, format: Option<&str>) -> PyResult<Trace> {
    let format = format_named(format).or_raise(py)?;
    let paths = match path {
        Paths::One(path) => vec![path],
        Paths::Several(paths) => paths,
    };
    py.detach(|| Loaded::read(&paths, format)).or_raise(py).map(Trace::of)
}

/// Where a trace lies: a path, or those of several logs.
#[derive(FromPyObject)]
pub(crate) enum Paths {
    One(PathBuf),
    Several(Vec<PathBuf>),
}

/// How a trace is made again elsewhere: from its content, name, file as JSON, and notes.
type Parts<'py> = (Bound<'py, PyBytes>, String, Option<String>, Vec<String>, bool);

#[pymethods]
impl Trace {
    /// Reads a trace: a file of any format that the program reads, a folder of Spark logs, or a
    /// list of logs, which are read as one cluster.
    #[staticmethod]
    #[pyo3(name = "read", signature = (path, format=None))]
    fn read_again(py: Python<'_>, path: Paths, format: Option<&str>) -> PyResult<Self> {
        read(py, path, format)
    }

    /// Makes a trace of a table with a row for each flow.
    ///
    /// Columns that are not named are found by their names, as in a CSV: src, dst, bytes, start_s
    /// (or _ms, _us, _ns), coflow, and what else these are often called. Rows may stand in any
    /// order. A row without a coflow is a coflow of its own.
    ///
    /// The table is read in pieces. Ten million flows of whole numbers took 620 MiB beside it and
    /// 13 s of one core.
    #[staticmethod]
    #[pyo3(signature = (table, *, start=None, size=None, source=None, destination=None, coflow=None, unit=None,
        size_unit="bytes", ports=None, name="table"))]
    #[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
    fn from_flows(
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        start: Option<&str>,
        size: Option<&str>,
        source: Option<&str>,
        destination: Option<&str>,
        coflow: Option<&str>,
        unit: Option<&str>,
        size_unit: &str,
        ports: Option<u32>,
        name: &str,
    ) -> PyResult<Self> {
        let columns = Chosen { src: source, dst: destination, bytes: size, start, coflow };
        let read = ReadOptions { ports, ..ReadOptions::default() };
        let options = TableOptions { columns, unit, size_unit: Some(size_unit), name, read };
        flows::read(py, table, &options).map(Self::of)
    }

    /// Generates a trace, as `facebook:coflows=100,ports=50`.
    #[staticmethod]
    #[pyo3(signature = (spec, *, seed=1))]
    fn generate(py: Python<'_>, spec: &str, seed: u64) -> PyResult<Self> {
        let workload = py.detach(|| cavalcade::generate(spec, seed)).or_raise(py)?;
        Ok(Self::of(Loaded::made(workload, format!("{spec} of seed {seed}"))))
    }

    /// Reads a trace out of bytes.
    #[staticmethod]
    #[pyo3(signature = (content, *, name="bytes", format=None))]
    fn from_bytes(py: Python<'_>, content: &[u8], name: &str, format: Option<&str>) -> PyResult<Self> {
        let format = format_named(format).or_raise(py)?;
        py.detach(|| Loaded::of_bytes(content, name, format)).or_raise(py).map(Self::of)
    }

    /// The trace in the native format, as `from_bytes` reads it; the same bytes for equal traces.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = py.detach(|| self.0.native()).or_raise(py)?;
        Ok(PyBytes::new(py, &text))
    }

    /// Writes the trace in the native format; compressed if the name ends in .gz or .zst.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || {
            let text = self.0.native()?;
            write_file(&path, |out| out.write_all(&text))
        };
        py.detach(write).or_raise(py)
    }

    /// What messages and manifests call it.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of coflows.
    #[getter]
    fn coflows(&self) -> usize {
        self.0.workload.coflow_count()
    }

    /// Number of flows.
    #[getter]
    fn flows(&self) -> usize {
        self.0.workload.flows().len()
    }

    /// Number of tasks.
    #[getter]
    fn tasks(&self) -> usize {
        self.0.workload.tasks().len()
    }

    /// Number of ports.
    #[getter]
    fn ports(&self) -> u32 {
        self.0.workload.ports()
    }

    /// Bytes of all flows.
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.workload.bytes().get()
    }

    /// Names of the hosts, by port; None where they are numbers.
    #[getter]
    fn hosts(&self) -> Option<Vec<String>> {
        self.0.workload.names_ports().then(|| self.0.workload.port_names().to_vec())
    }

    /// SHA-256, in hexadecimal: of the file that was read, or of `to_bytes()` where there was none.
    #[getter]
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.0.digest().map(str::to_owned)).or_raise(py)
    }

    /// What the reader of a log estimated or left out.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.0.notes.clone()
    }

    fn __repr__(&self) -> String {
        let (coflows, flows, ports) = (self.coflows(), self.flows(), self.ports());
        let bytes = self.0.workload.bytes();
        format!(
            "Trace({:?}: {coflows} coflows, {flows} flows, {} on {ports} ports)",
            self.0.name,
            bytes.rounded()
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Parts<'py>)> {
        let packed = py.detach(|| {
            let text = self.0.native()?;
            zstd::bulk::compress(&text, LEVEL)
                .map_err(|error| Error::new(cavalcade::Kind::Runtime, error.to_string()))
        });
        let content = PyBytes::new(py, &packed.or_raise(py)?);
        let file = self.0.file.as_ref().map(serde_json::to_string).transpose();
        let file =
            file.map_err(|error| Error::input(format!("a trace cannot be pickled: {error}"))).or_raise(py)?;
        let restore = PyType::new::<Self>(py).getattr("_restored")?;
        Ok((restore, (content, self.0.name.clone(), file, self.0.notes.clone(), self.0.has_recording)))
    }

    #[staticmethod]
    fn _restored(
        py: Python<'_>,
        content: &[u8],
        name: &str,
        file: Option<&str>,
        notes: Vec<String>,
        has_recording: bool,
    ) -> PyResult<Self> {
        let made = py.detach(|| Loaded::of_bytes(content, name, Some(Format::NATIVE))).or_raise(py)?;
        let file = file.map(serde_json::from_str).transpose();
        let file = file.map_err(|error| Error::input(format!("a pickled trace: {error}"))).or_raise(py)?;
        Ok(Self::of(Loaded { file, notes, has_recording, ..made }))
    }
}

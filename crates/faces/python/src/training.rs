//! Training jobs that share a cluster: `workload` and `compare_jobs`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cavalcade::columns::Column;
use cavalcade::output::write_file;
use cavalcade::report::Fit;
use cavalcade::spec::{Choice, nearest};
use cavalcade::trace::Note;
use cavalcade::training::{self, ComparedJobs, Groups, Host, Jobs, Options, Read};
use cavalcade::{Error, Policy};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::asked::Words;
use crate::errors::Raise as _;
use crate::running::{Told, watched};
use crate::table::Table;

/// One of a few words that an argument takes.
fn word<T: Choice>(argument: &'static str, given: &str) -> Result<T, Error> {
    let found = T::WORDS.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let error = Error::usage(format!("{given:?} is none of {}", words.join(", "))).place(argument);
        match nearest(given, words.iter().copied()) {
            Some(near) => error.help(format!("did you mean {near}?")),
            None => error,
        }
    })
}

/// Notes as tuples of two words: how certain, and what.
fn told(notes: &[Note]) -> Vec<(&'static str, String)> {
    notes.iter().map(|note| (note.certainty.name(), note.text.clone())).collect()
}

fn table(columns: impl Fn() -> Vec<Column> + Send + Sync + 'static) -> Table {
    Table::new(1, Arc::new(move |_| columns()))
}

/// What a training job does in an iteration, as its file has it.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct Workload(Arc<Read>);

#[pymethods]
impl Workload {
    /// How many ranks the job has.
    #[getter]
    fn ranks(&self) -> u32 {
        self.0.program.ranks()
    }

    /// The computation of each rank in an iteration, in seconds.
    #[getter]
    fn computation_s(&self) -> Vec<f64> {
        self.0.program.computation().iter().map(|span| span.as_secs_f64()).collect()
    }

    /// A row for each collective and transfer.
    #[getter]
    fn communication(&self, py: Python<'_>) -> PyResult<Table> {
        training::check_operations(&self.0).or_raise(py)?;
        let read = Arc::clone(&self.0);
        Ok(table(move || training::workload_columns(&read).expect("its operations can be listed")))
    }

    /// What is exact, estimated and left out.
    #[getter]
    fn notes(&self) -> Vec<(&'static str, String)> {
        told(&self.0.notes)
    }

    fn json(&self) -> String {
        training::workload_json(&self.0)
    }

    fn __repr__(&self) -> String {
        training::workload_text(&self.0, Fit::default())
    }
}

/// Reads the workload of a training job: a file, or a folder with one for each rank.
#[pyfunction]
#[pyo3(signature = (path, *, ranks=None, tensor=None, pipeline=None, expert=None, groups="phase", overlap=false,
    one_for_all=false, host="kept"))]
#[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
pub(crate) fn workload(
    py: Python<'_>,
    path: PathBuf,
    ranks: Option<u32>,
    tensor: Option<u32>,
    pipeline: Option<u32>,
    expert: Option<u32>,
    groups: &str,
    overlap: bool,
    one_for_all: bool,
    host: &str,
) -> PyResult<Workload> {
    let groups = word::<Groups>("groups", groups).or_raise(py)?;
    let host = word::<Host>("host", host).or_raise(py)?;
    let options = Options { ranks, tensor, pipeline, expert, groups, overlap, one_for_all, host };
    py.detach(|| training::workload(&path, &options)).or_raise(py).map(|read| Workload(Arc::new(read)))
}

/// Training jobs under several policies, and each of them alone.
#[pyclass(frozen, module = "cavalcade")]
pub(crate) struct JobRuns(Arc<ComparedJobs>);

#[pymethods]
impl JobRuns {
    /// What the runs are called.
    #[getter]
    fn policies(&self) -> Vec<String> {
        self.0.runs().map(|(policy, _)| policy.to_owned()).collect()
    }

    /// GPU use of all jobs together under each policy, until the first job of the run ends.
    #[getter]
    fn gpu_use(&self) -> BTreeMap<String, f64> {
        self.0.runs().map(|(policy, figures)| (policy.to_owned(), figures.gpu_use)).collect()
    }

    /// A row for each job under each policy.
    #[getter]
    fn jobs(&self) -> Table {
        let found = Arc::clone(&self.0);
        table(move || found.job_columns())
    }

    /// A row for each iteration.
    #[getter]
    fn iterations(&self) -> Table {
        let found = Arc::clone(&self.0);
        table(move || found.iteration_columns())
    }

    /// A row for each kind of collective in each kind of group.
    #[getter]
    fn collectives(&self) -> Table {
        let found = Arc::clone(&self.0);
        table(move || found.collective_columns())
    }

    /// A row for each link that carried anything, under each policy the busiest first.
    #[getter]
    fn links(&self) -> Table {
        let found = Arc::clone(&self.0);
        table(move || found.link_columns())
    }

    /// What readers of workloads note, by job.
    #[getter]
    fn notes(&self) -> BTreeMap<String, Vec<(&'static str, String)>> {
        self.0.notes().map(|(job, notes)| (job.to_owned(), told(notes))).collect()
    }

    fn json(&self) -> String {
        self.0.json()
    }

    /// Writes a page of HTML for people, with what each rank did when.
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let page = self.0.page();
        write_file(&path, |out| out.write_all(page.as_bytes())).or_raise(py)
    }

    /// Writes what each rank did when, as trace events for ui.perfetto.dev.
    fn events(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        write_file(&path, |out| self.0.write_events(out)).or_raise(py)
    }

    fn __repr__(&self) -> String {
        self.0.text(Fit::default())
    }
}

/// Compares policies for the training jobs of a jobs file.
#[pyfunction]
#[pyo3(signature = (jobs, policies=None, *, iterations=None, engine="fluid", transport=None, period="10ms",
    link_delay="1us", mtu=1500, headers=40, progress=None))]
#[allow(clippy::too_many_arguments, reason = "arguments by name are what callers in Python expect")]
pub(crate) fn compare_jobs<'py>(
    py: Python<'py>,
    jobs: PathBuf,
    policies: Option<&Bound<'py, PyAny>>,
    iterations: Option<u32>,
    engine: &str,
    transport: Option<&Bound<'py, PyAny>>,
    period: &str,
    link_delay: &str,
    mtu: u32,
    headers: u32,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<JobRuns> {
    let words = Words { engine, transport, period, link_delay, mtu, headers, ..Words::default() };
    let engine = words.setup(py)?.engine;
    let names = match policies.filter(|given| !given.is_none()) {
        None => ["fair", "sebf", "crux"].map(str::to_owned).to_vec(),
        Some(one) if one.is_instance_of::<PyString>() => vec![one.extract()?],
        Some(several) => {
            let names = several.try_iter()?.map(|one| one?.str()?.extract());
            names.collect::<PyResult<Vec<String>>>()?
        }
    };
    let policies =
        names.iter().map(|name| Policy::named(name)).collect::<Result<Vec<_>, _>>().or_raise(py)?;
    if policies.is_empty() || iterations == Some(0) {
        let argument = if policies.is_empty() { "policies" } else { "iterations" };
        return Err(Error::usage("there is nothing to run").place(argument).expected("at least one"))
            .or_raise(py);
    }
    let read = py.detach(|| Jobs::read(&jobs)).or_raise(py)?;
    let read = match iterations {
        Some(iterations) => read.with_iterations(iterations),
        None => read,
    };
    let units = read.units(policies.len()).or_raise(py)?;
    let run =
        |progress: &cavalcade::Progress| training::compare_jobs(read, &policies, &[engine], true, progress);
    let found = watched(py, units, Told::of(progress)?, &[], run)?.or_raise(py)?;
    Ok(JobRuns(Arc::new(found)))
}

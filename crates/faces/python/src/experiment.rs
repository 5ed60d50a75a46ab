//! Runs of an experiment, as workers make them for `cavalcade experiment run --on`.
//!
//! The program reads experiments and keeps rows; here is what lies between the two. A worker has
//! the text and the files that runs need, all as bytes, since it may be on a machine that has
//! neither. A run is asked for by its key, which is its identity in the file of rows as well.

use std::collections::{BTreeMap, HashMap};

use cavalcade::Error;
use cavalcade_experiment::{Experiment as Definition, Files, Key, Run};
use pyo3::prelude::*;

use crate::errors::Raise as _;

/// Files by their names in a definition.
type Contents = HashMap<String, Vec<u8>>;

/// An experiment whose runs can be made here. It is never changed.
#[pyclass(frozen, module = "cavalcade._native")]
pub(crate) struct Experiment {
    name: String,
    held: Held,
    runs: BTreeMap<Key, Run>,
}

/// The files that came along.
struct Held {
    data: Contents,
    beside: Contents,
}

impl Files for Held {
    fn data(&self, path: &str) -> Option<Vec<u8>> {
        self.data.get(path).cloned()
    }

    fn beside(&self, path: &str) -> Option<Vec<u8>> {
        self.beside.get(path).cloned()
    }
}

#[pymethods]
impl Experiment {
    #[new]
    fn new(py: Python<'_>, name: String, text: &str, data: Contents, beside: Contents) -> PyResult<Self> {
        let read = Definition::read(&name, text)
            .map_err(|error| Error::input(error.to_string()).place(name.clone()))
            .or_raise(py)?;
        let runs = read.runs().into_iter().map(|run| (run.key().clone(), run)).collect();
        Ok(Self { name, held: Held { data, beside }, runs })
    }

    /// Makes one run and returns its row in words of 64 bits.
    fn row(
        &self,
        py: Python<'_>,
        workload: String,
        policy: String,
        conditions: String,
        seed: u64,
    ) -> PyResult<Vec<u64>> {
        let key = Key { workload, policy, conditions, seed };
        let run = self.runs.get(&key).ok_or_else(|| {
            let Key { workload, policy, .. } = &key;
            Error::usage(format!("{}: no run of {policy} on {workload}, seed {seed}", self.name))
        });
        let run = run.or_raise(py)?;
        let row = py.detach(|| run.row(&self.held));
        Ok(row.map_err(|error| Error::input(error.to_string())).or_raise(py)?.words())
    }
}

//! `cavalcade._native`: what the package for Python offers for analysis, as a thin layer over the
//! crate [`cavalcade`].
//!
//! Nothing is computed here: arguments of Python become a [`cavalcade::Scenario`], and what comes
//! out becomes tables of Arrow, text and figures. So a result is the one of the program, to the
//! byte, and a mistake has the same words in both.
//!
//! | module | what |
//! |---|---|
//! | `trace` | [`trace::Trace`], and where it is from |
//! | `flows` | a trace of a table with a row for each flow, batch by batch |
//! | `choices` | policies, transports, fabrics and generators by name |
//! | `asked` | arguments as conditions, engines and policies |
//! | `running` | runs without the interpreter's lock, which Ctrl-C ends |
//! | `compare` | `compare`, `simulate`, `bound`, `validate`, `replay` |
//! | `results`, `figures`, `table` | what came out |
//! | `training` | training jobs that share a cluster |
//! | `policy`, `view` | a policy that is written in Python |
//! | `experiment` | runs of an experiment, as workers make them |
//! | `capsule` | Arrow's C stream interface |
//! | `errors` | a [`cavalcade::Error`] as an exception |
//!
//! # Invariants
//! - Whatever runs for long does so without the interpreter's lock, on threads of its own that end
//!   before the call returns. So calls from several threads do not wait for each other, and a
//!   process that forks between calls has nothing left behind.
//! - Objects are never changed after they are made.
//!
//! # Rejected
//! - A library that hands tables to Python (`pyo3-arrow`): it brings NumPy's bindings and time
//!   zones for what is two capsules.
//! - A copy of each trace for each run: runs share what was read.

use pyo3::prelude::*;

mod asked;
mod capsule;
mod choices;
mod compare;
mod errors;
mod experiment;
mod figures;
mod flows;
mod policy;
mod results;
mod running;
mod table;
mod trace;
mod training;
mod view;

/// The module, with all names that `cavalcade` offers from it.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<choices::Parameter>()?;
    module.add_class::<choices::Description>()?;
    module.add_class::<choices::NamedPolicy>()?;
    module.add_class::<choices::Transport>()?;
    module.add_class::<choices::Fabric>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<figures::Figure>()?;
    module.add_class::<figures::Plots>()?;
    module.add_class::<results::Bound>()?;
    module.add_class::<results::Runs>()?;
    module.add_class::<compare::Verdict>()?;
    module.add_class::<compare::Replay>()?;
    module.add_class::<experiment::Experiment>()?;
    module.add_class::<training::Workload>()?;
    module.add_class::<training::JobRuns>()?;
    module.add_class::<view::Flow>()?;
    module.add_class::<view::Iteration>()?;
    module.add_class::<view::Coflow>()?;
    module.add_function(wrap_pyfunction!(trace::read, module)?)?;
    module.add_function(wrap_pyfunction!(choices::policies, module)?)?;
    module.add_function(wrap_pyfunction!(choices::transports, module)?)?;
    module.add_function(wrap_pyfunction!(choices::generators, module)?)?;
    module.add_function(wrap_pyfunction!(choices::policy, module)?)?;
    module.add_function(wrap_pyfunction!(choices::transport, module)?)?;
    module.add_function(wrap_pyfunction!(choices::fabric, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(compare::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(compare::rate, module)?)?;
    module.add_function(wrap_pyfunction!(figures::sweep_figure, module)?)?;
    module.add_function(wrap_pyfunction!(compare::bound, module)?)?;
    module.add_function(wrap_pyfunction!(compare::validate, module)?)?;
    module.add_function(wrap_pyfunction!(compare::replay, module)?)?;
    module.add_function(wrap_pyfunction!(training::workload, module)?)?;
    module.add_function(wrap_pyfunction!(training::compare_jobs, module)?)?;
    Ok(())
}

//! A failure of the library as an exception of Python.

use cavalcade::{Error, Kind};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The module that has the classes: written in Python, so that they pickle and have ordinary
/// attributes.
const MODULE: &str = "cavalcade.errors";

/// The exception that says what `error` says.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        Kind::Usage => "UsageError",
        Kind::Input => "InputError",
        Kind::Assertion => "CheckError",
        Kind::Capability => "CapabilityError",
        Kind::Interrupted => return PyKeyboardInterrupt::new_err(error.to_string()),
        Kind::Runtime | Kind::CannotRun | Kind::NoCommand => "RunError",
    };
    let cure = error.cure().map(|cure| match error.remedy() {
        // What the program dumps, a method of Python keeps.
        Some((option, "")) => format!("{cure} with {}=True", option.trim_start_matches("dump_")),
        Some((option, takes)) => format!("{cure} with {option}={takes}"),
        None => cure.to_owned(),
    });
    let made = py
        .import(MODULE)
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((error.to_string(), error.at_place(), error.was_expected(), cure)));
    made.map_or_else(|failure| failure, PyErr::from_value)
}

/// Turns the error of a result into an exception.
pub(crate) trait Raise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T, E: Into<Error>> Raise<T> for Result<T, E> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error.into()))
    }
}

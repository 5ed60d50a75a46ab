//! Why a command did not succeed, and the exit code that reports it to a script.
//!
//! Every error ends here, with a place where there is one, what was expected, and the cure. Errors
//! inside a trace show the line: only a window of it, because a line of a real trace is thousands
//! of characters long.

use std::fmt;
use std::io;
use std::path::Path;

use cavalcade_spec::SpecError;

use crate::invalid::Invalid;

/// A kind of failure; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something went wrong while running: a file cannot be written, a check did not hold.
    Runtime = 1,
    /// Invalid usage of the command line.
    Usage = 2,
    /// A trace or a run's folder holds something that it must not.
    Input = 3,
    /// A figure does not meet an `--assert`.
    Assertion = 4,
    /// This machine lacks something that was asked for.
    Capability = 5,
    /// A command exists and cannot be run; the code of env, nice and timeout.
    CannotRun = 126,
    /// A command does not exist.
    NoCommand = 127,
    /// It was interrupted.
    Interrupted = 130,
}

/// A failure, ready to be shown. It is one pointer, since results carry it everywhere.
#[derive(Debug)]
pub struct Error(Box<Parts>);

#[derive(Debug)]
struct Parts {
    kind: Kind,
    /// The option that it is about, as callers in Rust and Python name it.
    option: Option<&'static str>,
    message: String,
    place: Option<String>,
    expected: Option<String>,
    help: Option<String>,
    /// The option with which to follow the cure, and what it takes.
    remedy: Option<(&'static str, &'static str)>,
    excerpt: Option<Excerpt>,
    invalid: Option<Invalid>,
    is_too_large: bool,
}

/// The line of a file that an error is about.
#[derive(Debug)]
pub struct Excerpt {
    /// The file's name.
    pub name: String,
    /// The text of the line.
    pub text: String,
    /// Its number, from 1.
    pub line: usize,
    /// The byte in the line at which the fault begins, from 1.
    pub column: usize,
}

impl Error {
    /// A failure of `kind`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Parts {
            kind,
            option: None,
            message,
            place: None,
            expected: None,
            help: None,
            remedy: None,
            excerpt: None,
            invalid: None,
            is_too_large: false,
        }))
    }

    /// A failure of the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// A value of an option of [`crate::Conditions`] or an engine that cannot be used. It is shown
    /// as `rate 0bps: …`; a command line adds the dashes.
    pub fn option(name: &'static str, value: impl fmt::Display, problem: impl fmt::Display) -> Self {
        let mut made = Self::usage(format!("{name} {value}: {problem}"));
        made.0.option = Some(name);
        made
    }

    /// A failure of what was read.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// A file that could not be read or written.
    pub fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        let failure = Self::new(Kind::Runtime, format!("cannot {action} {}: {error}", path.display()));
        // What is written is new, so what is not there is its folder.
        match (action, error.kind()) {
            ("write" | "make the folder", io::ErrorKind::NotFound) => {
                failure.help("create the folder, or name another")
            }
            _ => failure,
        }
    }

    /// Adds the cure.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Adds the option with which to follow the cure, and what it takes: a command line says
    /// `with --trace FILE` behind the cure, Python `with trace=FILE`. One that takes nothing is
    /// switched on.
    pub fn with_option(mut self, option: &'static str, takes: &'static str) -> Self {
        self.0.remedy = Some((option, takes));
        self
    }

    /// Adds where it is: a file with line and column, or a row and a column of a table.
    pub fn place(mut self, place: impl Into<String>) -> Self {
        self.0.place = Some(place.into());
        self
    }

    /// Adds what was expected there.
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.0.expected = Some(expected.into());
        self
    }

    /// Adds the line that it is about.
    pub fn at(mut self, excerpt: Option<Excerpt>) -> Self {
        self.0.excerpt = excerpt;
        self
    }

    /// Adds all that is wrong with a schedule.
    pub(crate) fn that_is_invalid(mut self, invalid: Invalid) -> Self {
        self.0.invalid = Some(invalid);
        self
    }

    /// Notes that it is of a trace that is too large to be held.
    pub(crate) fn of_size(mut self) -> Self {
        self.0.is_too_large = true;
        self
    }

    /// Returns whether it is that a trace is too large to be held: it may still be read as it goes
    /// ([`crate::Stream`]).
    pub fn is_too_large(&self) -> bool {
        self.0.is_too_large
    }

    /// The kind.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The option that it is about, with which the message then begins.
    pub fn of_option(&self) -> Option<&'static str> {
        self.0.option
    }

    /// Where it is.
    pub fn at_place(&self) -> Option<&str> {
        self.0.place.as_deref().or(self.0.option)
    }

    /// What was expected there.
    pub fn was_expected(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.0.kind as u8
    }

    /// The cure.
    pub fn cure(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The option with which to follow the cure, and what it takes.
    pub fn remedy(&self) -> Option<(&'static str, &'static str)> {
        self.0.remedy
    }

    /// All that is wrong with the schedule that was checked, if that is the failure.
    pub fn invalid(&self) -> Option<&Invalid> {
        self.0.invalid.as_ref()
    }

    /// The line that it is about.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        self.0.excerpt.as_ref()
    }
}

impl From<cavalcade_metrics::AnalysisError> for Error {
    fn from(error: cavalcade_metrics::AnalysisError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::usage(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

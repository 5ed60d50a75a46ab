//! Running commands and timing them.

use std::ffi::OsStr;
use std::fmt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Why a task did not succeed, in words for a developer.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// A failure with the text that is to be shown.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}

/// A command whose output goes straight to the terminal and whose failure is ours.
pub(crate) struct Run(Command);

impl Run {
    /// Wraps `command`.
    pub(crate) fn new(command: Command) -> Self {
        Self(command)
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Runs it to its end.
    pub(crate) fn check(mut self) -> Result<(), Failure> {
        let shown = self.shown();
        eprintln!("$ {shown}");
        let status = self.0.status().map_err(|error| Failure::new(format!("cannot run {shown}: {error}")))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("{shown}: {status}"))) }
    }

    fn shown(&self) -> String {
        let program = std::path::Path::new(self.0.get_program()).file_name().unwrap_or_default();
        let words = std::iter::once(program).chain(self.0.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// Steps done so far, each with the time it took and why it failed, if it did.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration, Option<Failure>)>,
}

impl Steps {
    /// Runs one step and notes how it went; `None` where it failed. Later steps still run.
    pub(crate) fn run<T>(
        &mut self,
        name: &'static str,
        step: impl FnOnce() -> Result<T, Failure>,
    ) -> Option<T> {
        eprintln!("\n== {name}");
        let start = Instant::now();
        let (value, failure) = match step() {
            Ok(value) => (Some(value), None),
            Err(failure) => {
                eprintln!("{failure}");
                (None, Some(failure))
            }
        };
        self.done.push((name, start.elapsed(), failure));
        value
    }

    /// Prints what each step took and fails if any did.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        println!();
        for (name, took, failure) in &self.done {
            let verdict = if failure.is_none() { "ok" } else { "FAILED" };
            println!("{:>8.1} s  {verdict:<6}  {name}", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        println!("{:>8.1} s  in all", total.as_secs_f64());
        let failed: Vec<String> = self
            .done
            .into_iter()
            .filter_map(|(name, _, failure)| failure.map(|failure| format!("{name} failed: {failure}")))
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_does_not_stop_the_next_but_fails_the_whole() {
        let mut steps = Steps::default();
        assert!(steps.run("first", || Err::<(), _>(Failure::new("broken"))).is_none());
        assert_eq!(steps.run("second", || Ok(7)), Some(7));
        let failure = steps.finish().unwrap_err().to_string();
        assert_eq!(failure, "first failed: broken");
    }

    #[test]
    fn a_command_that_exits_nonzero_is_a_failure_that_names_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        let failure = Run::new(command).check().unwrap_err().to_string();
        assert!(failure.contains("sh -c exit 3") && failure.contains('3'), "{failure}");
    }
}

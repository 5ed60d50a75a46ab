//! Running commands, timing them, and the summary at the end.

use std::ffi::OsStr;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
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

/// A command whose failure is ours.
pub(crate) struct Run(Command);

impl Run {
    /// Wraps `command`.
    pub(crate) fn new(command: Command) -> Self {
        Self(command)
    }

    /// Adds arguments.
    pub(crate) fn args(mut self, arguments: &[&str]) -> Self {
        self.0.args(arguments);
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Clears the environment but for what [`Self::env`] sets afterwards.
    pub(crate) fn without_environment(mut self) -> Self {
        self.0.env_clear();
        self
    }

    /// Runs it in `folder`.
    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Runs it to its end; its output goes to the terminal.
    pub(crate) fn check(self) -> Result<(), Failure> {
        self.check_lines(|_| {})
    }

    /// Runs it to its end; its output goes to the terminal, and each line of its standard error to
    /// `see` as well.
    pub(crate) fn check_lines(mut self, mut see: impl FnMut(&str)) -> Result<(), Failure> {
        let shown = self.shown();
        eprintln!("$ {shown}");
        let cannot = |error| Failure::new(format!("cannot run {shown}: {error}"));
        let mut child = self.0.stderr(Stdio::piped()).spawn().map_err(cannot)?;
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            std::io::stderr().write_all(&line)?;
            see(String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
        let status = child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("{shown}: {status}"))) }
    }

    /// Has it give way to others.
    pub(crate) fn gently(self) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(self.0.get_program()).args(self.0.get_args());
        for (name, value) in self.0.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(folder) = self.0.get_current_dir() {
            command.current_dir(folder);
        }
        Self(command)
    }

    /// Runs it to its end; returns what it printed, and whether it succeeded.
    pub(crate) fn kept(mut self) -> Result<(String, Result<(), Failure>), Failure> {
        let shown = self.shown();
        let output = self.0.output().map_err(|error| Failure::new(format!("cannot run {shown}: {error}")))?;
        let printed = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let success = output.status.success();
        let end = if success { Ok(()) } else { Err(Failure::new(format!("{shown}: {}", output.status))) };
        Ok((format!("$ {shown}\n{}", printed.concat()), end))
    }

    /// Runs it to its end and shows nothing; a failure holds what it wrote to standard error.
    pub(crate) fn quietly(self) -> Result<(), Failure> {
        self.printed().map(drop)
    }

    /// Runs it to its end and returns what it wrote to standard output; a failure holds what it
    /// wrote to standard error.
    pub(crate) fn printed(mut self) -> Result<String, Failure> {
        let shown = self.shown();
        let output = self.0.output().map_err(|error| Failure::new(format!("cannot run {shown}: {error}")))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Failure::new(String::from_utf8_lossy(&output.stderr)))
    }

    fn shown(&self) -> String {
        let program = Path::new(self.0.get_program()).file_name().unwrap_or_default();
        let words = std::iter::once(program).chain(self.0.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    }
}

/// The end of a step.
enum End {
    Passed,
    Failed(Failure),
    /// It was left out, for want of this.
    LeftOut(String),
}

/// Steps so far, each with the time it took and how it ended; and the tests that were skipped.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration, End)>,
    skipped: Vec<String>,
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
        let (value, end) = match step() {
            Ok(value) => (Some(value), End::Passed),
            Err(failure) => {
                eprintln!("{failure}");
                (None, End::Failed(failure))
            }
        };
        self.done.push((name, start.elapsed(), end));
        value
    }

    /// Notes that a step is left out, and what would make it run.
    pub(crate) fn leave_out(&mut self, name: &'static str, needs: impl Into<String>) {
        self.done.push((name, Duration::ZERO, End::LeftOut(needs.into())));
    }

    /// Notes that a test was skipped: its name and what it needs.
    pub(crate) fn skipped(&mut self, test: String) {
        self.skipped.push(test);
    }

    /// Prints the summary and fails if any step did. It ends as `cargo test` does, with the steps
    /// as the tests, so that what reads one reads the other.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        print!("{}", self.summary());
        let failed: Vec<String> = self
            .done
            .into_iter()
            .filter_map(|(name, _, end)| match end {
                End::Failed(failure) => Some(format!("{name} failed: {failure}")),
                End::Passed | End::LeftOut(_) => None,
            })
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
    }

    fn summary(&self) -> String {
        let mut text = format!("\n{} tests skipped\n", self.skipped.len());
        for test in &self.skipped {
            text += &format!("  {test}\n");
        }
        text += "\ntime of each step\n";
        for (name, took, _) in &self.done {
            text += &format!("{:>8.1} s  {name}\n", took.as_secs_f64());
        }
        text += &format!("\nrunning {} tests\n", self.done.len());
        let mut counts = [0; 3];
        for (name, _, end) in &self.done {
            let (at, verdict) = match end {
                End::Passed => (0, "ok".to_owned()),
                End::Failed(_) => (1, "FAILED".to_owned()),
                End::LeftOut(needs) => (2, format!("ignored, needs {needs}")),
            };
            counts[at] += 1;
            text += &format!("test {} ... {verdict}\n", name.replace(' ', "_"));
        }
        let [passed, failed, ignored] = counts;
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        let total: Duration = self.done.iter().map(|(_, took, _)| *took).sum();
        text += &format!(
            "\ntest result: {verdict}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
             0 filtered out; finished in {:.2}s\n\n",
            total.as_secs_f64()
        );
        text
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
    fn the_summary_names_what_was_left_out_and_ends_as_cargo_test_does() {
        let mut steps = Steps::default();
        steps.run("build it", || Ok(()));
        steps.leave_out("fuzz", "a C++ compiler");
        steps.skipped("reads_a_capture: needs tshark".to_owned());
        let text = steps.summary();
        assert!(text.contains("1 tests skipped\n  reads_a_capture: needs tshark\n"), "{text}");
        assert!(
            text.contains("test build_it ... ok\ntest fuzz ... ignored, needs a C++ compiler\n"),
            "{text}"
        );
        let last = text.trim_end().lines().last().unwrap();
        assert!(last.starts_with("test result: ok. 1 passed; 0 failed; 1 ignored;"), "{last}");
    }

    #[test]
    fn a_command_that_exits_nonzero_is_a_failure_that_names_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'a line' >&2; exit 3"]);
        let mut lines = Vec::new();
        let failure = Run::new(command).check_lines(|line| lines.push(line.to_owned())).unwrap_err();
        assert!(failure.to_string().contains("exit 3"), "{failure}");
        assert_eq!(lines, ["a line"]);
    }
}

//! Runs of experiments on workers of Python: processes of this machine, Dask, Ray.
//!
//! The package for Python can reach all of these, and has this program's code in its compiled part.
//! So `cavalcade.experiments` is started as a child, is asked for all runs in one line of JSON, and
//! answers with a line for each row as it comes. Rows are kept here, as if they had been made here:
//! an interrupt costs what has not come back, and what is started again asks for what is missing.
//! The child ends when this program hangs up, however that ends.
//!
//! Rejected: clients of Dask and Ray in Rust, which speak pickles; and runs by this program on each
//! worker, which a killed worker would leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cavalcade_experiment::{Key, Needed, Row, Run};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Study;
use crate::failure::{Failure, Kind};

/// The module that is started.
const MODULE: &str = "cavalcade.experiments";

/// A line of the child.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Row { unit: usize, seconds: f64, words: Vec<u64> },
    Failed { unit: usize, error: String },
    Refused { refused: String },
}

/// Makes all runs of the queue, each of the study with its number, and gives `keep` each row as it
/// comes, with the number of the run and its time. Returns what `keep` does, and what went wrong.
pub(crate) fn run<T>(
    on: &str,
    studies: &[Study],
    queue: &[(usize, Run)],
    keep: impl Fn(usize, Row, Duration) -> Result<T, Failure>,
) -> Vec<Result<T, Failure>> {
    if queue.is_empty() {
        return Vec::new();
    }
    let mut results = Vec::new();
    if let Err(failure) = ask(on, studies, queue, |result| results.push(result), keep) {
        results.push(Err(failure));
    }
    results
}

fn ask<T>(
    on: &str,
    studies: &[Study],
    queue: &[(usize, Run)],
    mut came: impl FnMut(Result<T, Failure>),
    keep: impl Fn(usize, Row, Duration) -> Result<T, Failure>,
) -> Result<(), Failure> {
    let python = python();
    let shown = format!("{} -m {MODULE}", python.display());
    let went_wrong = |what: String| Failure::new(Kind::Runtime, what);
    // Or Python would look for its modules in the present folder first.
    let child = Command::new(&python)
        .args(["-m", MODULE, on])
        .env("PYTHONSAFEPATH", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| lacks(format!("cannot run {shown}: {error}")))?;
    let Ended(child) = &mut Ended(child);
    let mut asking = child.stdin.take().expect("it is piped");
    // If the child has exited, its output ends, which is handled below.
    let _ = writeln!(asking, "{}", question(studies, queue)).and_then(|()| asking.flush());
    let mut open: BTreeSet<usize> = (0..queue.len()).collect();
    let answers = BufReader::new(child.stdout.take().expect("it is piped"));
    for line in answers.lines() {
        let line = line.map_err(|error| Failure::file("read from", Path::new(&shown), &error))?;
        let no_answer = || went_wrong(format!("{shown}: '{line}' is no answer"));
        let (unit, row) = match serde_json::from_str(&line) {
            Ok(Answer::Row { unit, seconds, words }) => (unit, Ok((seconds, words))),
            Ok(Answer::Failed { unit, error }) => (unit, Err(error)),
            Ok(Answer::Refused { refused }) => return Err(went_wrong(refused)),
            Err(_) => return Err(no_answer()),
        };
        let (study, run) = queue.get(unit).filter(|_| open.remove(&unit)).ok_or_else(no_answer)?;
        came(
            row_of(run, row)
                .map_err(|what| went_wrong(format!("{}: {what}", studies[*study].name)))
                .and_then(|(row, took)| keep(unit, row, took)),
        );
    }
    drop(asking);
    let status = child.wait().map_err(|error| Failure::file("wait for", Path::new(&shown), &error))?;
    match open.len() {
        0 => Ok(()),
        missing if missing == queue.len() => Err(lacks(format!("{shown} made no run: {status}"))),
        missing => Err(went_wrong(format!("{shown} ended before {missing} runs: {status}"))
            .help("start it again: it makes those that are missing")),
    }
}

/// A child that does not outlive its use.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Where it has ended by itself, and been waited for, neither does anything.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The row that a worker sent, with its time; or what went wrong with the run, in words.
fn row_of(run: &Run, came: Result<(f64, Vec<u64>), String>) -> Result<(Row, Duration), String> {
    let Key { workload, policy, seed, .. } = run.key();
    came.and_then(|(seconds, words)| {
        let row = Row::of_words(run.key().clone(), &words).ok_or("what came back is no row")?;
        Ok((row, Duration::try_from_secs_f64(seconds).unwrap_or_default()))
    })
    .map_err(|what| format!("{policy} on {workload}, seed {seed}: {what}"))
}

fn lacks(what: String) -> Failure {
    let cure = "install the package beside this program: pip install 'cavalcade[dask]', or [ray], or [sweep]";
    Failure::new(Kind::Capability, what).help(cure)
}

/// The Python that has the package: a wheel puts it beside this program. Else it is the first on
/// the path.
fn python() -> PathBuf {
    let beside = env::current_exe().ok().map(|program| program.with_file_name("python3"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| "python3".into())
}

/// All that is asked for: experiments with the files that their runs need, and runs by their keys.
fn question(studies: &[Study], queue: &[(usize, Run)]) -> Value {
    let mut files = vec![[const { BTreeMap::<&str, String>::new() }; 2]; studies.len()];
    for (study, run) in queue {
        for file in run.needs() {
            let folders = &studies[*study].files;
            let (which, name, folder) = match file {
                Needed::Data(name) => (0, name, &folders.data),
                Needed::Beside(name) => (1, name, &folders.beside),
            };
            files[*study][which].insert(name, folder.join(name).to_string_lossy().into_owned());
        }
    }
    let experiments = studies.iter().zip(&files).map(|(study, [data, beside])| {
        json!({ "name": study.name, "text": study.text, "data": data, "beside": beside })
    });
    let units = queue.iter().map(|(study, run)| {
        let Key { workload, policy, conditions, seed } = run.key();
        json!([study, workload, policy, conditions, seed])
    });
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "experiments": experiments.collect::<Vec<_>>(),
        "units": units.collect::<Vec<_>>(),
    })
}

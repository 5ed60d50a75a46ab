//! The folder of a comparison: a folder for each run, and tables of all of them.
//!
//! | path | content |
//! |---|---|
//! | `runs.csv`, `runs.parquet` | one row for each run: its folder and its figures |
//! | `coflows.csv`, `coflows.parquet` | one row for each coflow in each run |
//! | `tasks.csv`, `tasks.parquet` | one row for each task in each run |
//! | `runs/NAME/` | what `cavalcade simulate --out` writes of that run ([`crate::folder`]) |
//! | `missing.txt` | the runs that were interrupted, if any were |
//!
//! # Invariant
//! A run's folder is whole or not there: it is removed when its run fails, and all of them with the
//! folder around them when that is not kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::columns::{Column, stacked, write_csv, write_parquet};
use crate::compare::{Compared, Finished};
use crate::engine::Watch;
use crate::error::{Error, Kind};
use crate::folder::{keep, write_completions};
use crate::manifest::{Manifest, TraceRecord};
use crate::output::Folder;
use crate::results::Results;
use crate::scenario::Scenario;
use crate::tables;

/// The folder of all runs.
pub(crate) const RUNS: &str = "runs";

/// The column that names the run of a row.
const RUN: (&str, &str) = ("run", "name of the run, as in runs.csv");

/// A note of runs that were interrupted.
const MISSING: &str = "missing.txt";

/// The most bytes of a run's folder's name, well below what file systems take.
const LONGEST: usize = 120;

/// The place where the runs of a comparison are kept.
pub struct Keep<'a> {
    folder: &'a Folder,
    /// Where in it; empty for the whole.
    inside: PathBuf,
    trace: TraceRecord,
    dump_schedule: bool,
}

impl<'a> Keep<'a> {
    /// Keeps runs over `trace` in `folder`, with schedules if `dump_schedule`, which only the fluid
    /// engine has.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(folder: &'a Folder, trace: TraceRecord, dump_schedule: bool) -> Result<Self, Error> {
        Self { folder, inside: PathBuf::new(), trace, dump_schedule }.begun()
    }

    /// [`Keep::new`], in a new folder called `inside` within `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn inside(
        folder: &'a Folder,
        inside: &str,
        trace: TraceRecord,
        dump_schedule: bool,
    ) -> Result<Self, Error> {
        std::fs::create_dir(folder.path(inside)).map_err(|error| folder.failure(inside, &error))?;
        Self { folder, inside: inside.into(), trace, dump_schedule }.begun()
    }

    fn begun(self) -> Result<Self, Error> {
        let runs = self.inside.join(RUNS);
        std::fs::create_dir(self.folder.path(&runs)).map_err(|error| self.folder.failure(&runs, &error))?;
        Ok(self)
    }

    /// Runs `scenario` and keeps its results in the folder `name`; nothing if it fails.
    pub(crate) fn run(
        &self,
        scenario: &Scenario,
        name: &str,
        watch: Watch<'_, '_>,
    ) -> Result<Finished, Error> {
        let path = self.inside.join(RUNS).join(name);
        let results = Results::inside(self.folder, &path)?;
        let finished = keep(scenario, &self.trace, self.dump_schedule, watch, results);
        if finished.is_err() {
            // What made the run fail says more than that its folder cannot be removed.
            let _ = std::fs::remove_dir_all(self.folder.path(path));
        }
        finished
    }

    /// Keeps runs that are done, without schedules, and the tables of all of them: the same bytes
    /// as if they were run here.
    ///
    /// # Errors
    /// If a policy is one of a caller's own, as its text could not make it again, or something
    /// cannot be written.
    pub fn put(&self, scenarios: &[Scenario], compared: &Compared) -> Result<(), Error> {
        let comparison = &compared.comparison;
        for ((scenario, name), run) in scenarios.iter().zip(&compared.folders).zip(&comparison.runs) {
            let mut results = Results::inside(self.folder, &self.inside.join(RUNS).join(name))?;
            write_completions(
                &mut results,
                &tables::coflows(comparison, run),
                &tables::tasks(comparison, run),
            )?;
            results.finish(Manifest::new(self.trace.clone(), scenario)?)?;
        }
        self.write_tables(compared)
    }

    /// Writes the tables of all runs, and which are missing.
    ///
    /// # Errors
    /// If something cannot be written.
    pub fn write_tables(&self, compared: &Compared) -> Result<(), Error> {
        let missing = &compared.missing;
        let mut results = Results::within(self.folder, self.inside.clone());
        write_all(&mut results, compared)?;
        if !missing.is_empty() {
            results.write(MISSING, |out| missing.iter().try_for_each(|label| writeln!(out, "{label}")))?;
        }
        Ok(())
    }
}

/// The error that a comparison was interrupted and is kept as far as it came.
pub fn interrupted(folder: &Path, compared: &Compared) -> Error {
    let Compared { folders, missing, .. } = compared;
    let problem = format!(
        "interrupted: {} of {} runs are in {}, without {}",
        folders.len(),
        folders.len() + missing.len(),
        folder.display(),
        missing.join(", ")
    );
    Error::new(Kind::Interrupted, problem).help(format!("{MISSING} lists the runs that are missing"))
}

/// Writes the tables of all runs of a comparison into a folder, each as CSV and as Parquet.
///
/// # Errors
/// If something cannot be written.
pub fn write_tables(folder: &Folder, compared: &Compared) -> Result<(), Error> {
    write_all(&mut Results::new(Some(folder)), compared)
}

fn write_all(results: &mut Results<'_>, compared: &Compared) -> Result<(), Error> {
    for (name, columns) in tables(compared) {
        results.write(&format!("{name}.csv"), |mut out| write_csv(&columns, &mut out))?;
        results.write(&format!("{name}.parquet"), |out| write_parquet(&columns, out))?;
    }
    Ok(())
}

/// The tables of all runs, by name.
pub(crate) fn tables(compared: &Compared) -> [(&'static str, Vec<Column>); 3] {
    let comparison = &compared.comparison;
    let runs = || comparison.runs.iter().map(|run| (run.label.as_str(), run));
    let of_coflows = runs().map(|(label, run)| (label, tables::coflows(comparison, run)));
    let of_tasks = runs().map(|(label, run)| (label, tables::tasks(comparison, run)));
    [
        ("runs", tables::runs(compared)),
        ("coflows", stacked(RUN, of_coflows)),
        ("tasks", stacked(RUN, of_tasks)),
    ]
}

/// A name of a folder for each label: what file systems and shells take as it is, each once, also
/// where capitals do not count.
pub(crate) fn run_folders(labels: &[String]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._=+-".contains(c) { c } else { '-' };
    let name = |label: &String| {
        let short: String = label.chars().map(plain).take(LONGEST).collect();
        let numbered = (2..).map(|number| format!("{short}-{number}"));
        let mut names = std::iter::once(short.clone()).chain(numbered);
        names.find(|name| taken.insert(name.to_ascii_lowercase())).expect("there is always another number")
    };
    labels.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_folder_that_a_shell_takes_as_it_is() {
        let labels =
            ["fair", "dclas:queues=3,factor=2", "dclas-queues=3-factor=2", "pias over dctcp", "Fair"];
        let labels = labels.map(str::to_owned);
        let expected =
            ["fair", "dclas-queues=3-factor=2", "dclas-queues=3-factor=2-2", "pias-over-dctcp", "Fair-2"];
        assert_eq!(run_folders(&labels), expected);
        let long = "order:".to_owned() + &"é/".repeat(500);
        assert!(run_folders(&[long])[0].len() <= LONGEST);
    }
}

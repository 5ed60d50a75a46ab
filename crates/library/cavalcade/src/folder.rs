//! The folder of one run: `cavalcade simulate --out` writes it, `compare --out` one for each run;
//! `replay` and `validate` read it.
//!
//! | file | rows | for |
//! |---|---|---|
//! | `manifest.json` | | running it again |
//! | `coflows.csv`, `coflows.parquet` | one for each coflow | people and notebooks |
//! | `tasks.csv`, `tasks.parquet` | one for each task | the same |
//! | `flows.csv`, `flows.parquet` | one for each flow | with `--dump-schedule`: checking the run |
//! | `schedule.csv` | one for each flow and rate | the same; written as it comes, so it has no columns to write as Parquet |
//!
//! Times are those of the trace; in the program those of its workload, which begins with the first
//! arrival.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use cavalcade_metrics::{BinThresholds, EngineCounts, Outcome, WorkloadFacts};
use cavalcade_model::{Instant, Nanos, PolicyFactory as _};
use cavalcade_validate::{ScheduleReader, Segment};

use crate::columns::{Column, read_whole, write_csv, write_parquet};
use crate::compare::Finished;
use crate::engine::Watch;
use crate::error::Error;
use crate::manifest::{self, Manifest, TraceRecord};
use crate::results::Results;
use crate::scenario::Scenario;
use crate::tables;

pub(crate) const COFLOWS: &str = "coflows.csv";
const COFLOWS_PARQUET: &str = "coflows.parquet";
pub(crate) const TASKS: &str = "tasks.csv";
const TASKS_PARQUET: &str = "tasks.parquet";
pub(crate) const FLOWS: &str = "flows.csv";
const FLOWS_PARQUET: &str = "flows.parquet";
/// The dumped schedule.
pub const SCHEDULE: &str = "schedule.csv";

/// Runs a scenario over a trace and writes its results, the manifest last.
///
/// # Errors
/// If the policy is one of a caller's own, as its text could not make it again, the run is refused,
/// or something cannot be written.
pub fn keep(
    scenario: &Scenario,
    trace: &TraceRecord,
    dump_schedule: bool,
    watch: Watch<'_, '_>,
    mut results: Results<'_>,
) -> Result<Finished, Error> {
    let manifest = Manifest::new(trace.clone(), scenario)?;
    let finished = produce(scenario, dump_schedule, watch, &mut results)?;
    results.finish(manifest)?;
    Ok(finished)
}

/// Runs a scenario and writes its results. The seconds are those of the run without the writing,
/// but with that of a schedule, which is written as it comes.
///
/// # Errors
/// If the run is refused, or something cannot be written.
pub fn produce(
    scenario: &Scenario,
    dump_schedule: bool,
    watch: Watch<'_, '_>,
    results: &mut Results<'_>,
) -> Result<Finished, Error> {
    let start = std::time::Instant::now();
    let outcome = if dump_schedule {
        let mut outcome = None;
        let Watch { progress, link_use, .. } = watch;
        let written = results.write(SCHEDULE, |out| {
            let done =
                scenario.run_with(Watch { progress, link_use, schedule: Some(out), ..Watch::default() });
            outcome.insert(done).as_ref().map(drop).map_err(|error| io::Error::other(error.to_string()))
        });
        // Why a run failed says more than that its schedule is not written.
        match outcome {
            Some(Err(error)) => return Err(error),
            Some(Ok(outcome)) => written.map(|()| outcome)?,
            None => return Err(written.expect_err("where it is written the scenario has run")),
        }
    } else {
        scenario.run_with(watch)?
    };
    let wall_s = start.elapsed().as_secs_f64();
    let workload = scenario.workload();
    let ccts: Vec<Nanos> = workload.coflows().map(|coflow| outcome.cct(coflow.id)).collect();
    let facts = WorkloadFacts::of(workload, scenario.fabric(), BinThresholds::default())
        .expect("a scenario's fabric has the ports of its workload");
    let origin = workload.origin();
    let coflows =
        tables::of_coflows(origin, &facts.coflows, &facts.isolation, &outcome.coflow_arrival, &ccts);
    let tasks = tables::of_tasks(origin, &facts.tasks, &facts.task_completion_times(&outcome));
    write_completions(results, &coflows, &tasks)?;
    if dump_schedule {
        let flows = tables::flows(workload, &outcome.flow_finish);
        results.write(FLOWS, |mut out| write_csv(&flows, &mut out))?;
        results.write(FLOWS_PARQUET, |out| write_parquet(&flows, out))?;
    }
    Ok(Finished { outcome, wall_s })
}

/// Writes the tables that every run has.
pub(crate) fn write_completions(
    results: &mut Results<'_>,
    coflows: &[Column],
    tasks: &[Column],
) -> Result<(), Error> {
    results.write(COFLOWS, |mut out| write_csv(coflows, &mut out))?;
    results.write(COFLOWS_PARQUET, |out| write_parquet(coflows, out))?;
    results.write(TASKS, |mut out| write_csv(tasks, &mut out))?;
    results.write(TASKS_PARQUET, |out| write_parquet(tasks, out))
}

/// A run found again from its folder.
pub struct Recorded {
    /// The folder.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// The scenario, with the same parameters.
    pub scenario: Scenario,
}

impl Recorded {
    /// Reads the manifest of `folder` and the trace that it names, or the one at `trace`.
    ///
    /// # Errors
    /// If the manifest or the trace is not there, is not valid, or the trace is another one.
    pub fn open(folder: &Path, trace: Option<&Path>) -> Result<Self, Error> {
        let manifest = Manifest::read(folder)?;
        let place = folder.join(manifest::NAME);
        let workload = manifest.trace.read_again(trace, "run", &place)?;
        let fault = |what: String| Error::input(format!("{}: {what}", place.display()));
        let engine = manifest.engine().map_err(|error| fault(error.to_string()))?;
        let scenario = Scenario::new(workload, manifest.conditions())?.on(engine);
        let policy = manifest.policy(scenario.workload()).map_err(|error| fault(error.to_string()))?;
        let scenario = scenario.ordered_by(policy);
        Ok(Self { folder: folder.to_owned(), manifest, scenario })
    }

    /// Checks whether its policy leaves no capacity idle.
    pub fn work_conserving(&self) -> bool {
        self.scenario.policy().is_some_and(|policy| policy.terms().work_conserving)
    }

    /// Checks whether the schedule was dumped.
    pub fn has_schedule(&self) -> bool {
        self.manifest.results.contains_key(SCHEDULE)
    }

    /// One of its files, to read.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn file(&self, name: &str) -> Result<BufReader<File>, Error> {
        let path = self.folder.join(name);
        File::open(&path)
            .map(|file| BufReader::with_capacity(1 << 16, file))
            .map_err(|error| Error::input(format!("cannot read {}: {error}", path.display())))
    }

    /// The schedule that was dumped: when each flow was sent at what rate.
    ///
    /// # Errors
    /// If it was not dumped, or is broken.
    pub fn schedule(&self) -> Result<Vec<Segment>, Error> {
        if !self.has_schedule() {
            return Err(Error::input(format!("{} has no schedule", self.folder.display()))
                .help("make the run again, and keep its schedule")
                .with_option("dump_schedule", ""));
        }
        ScheduleReader::new(self.file(SCHEDULE)?, self.scenario.workload().origin())
            .and_then(Iterator::collect)
            .map_err(|error| Error::input(format!("{}: {error}", self.folder.join(SCHEDULE).display())))
    }

    /// The times that the files of the folder claim.
    ///
    /// # Errors
    /// If one is missing or broken.
    pub fn outcome(&self) -> Result<Outcome, Error> {
        let [flow_finish] = self.times(FLOWS, ["finish_ns"])?;
        Ok(Outcome { flow_finish, ..self.completions()? })
    }

    /// The times of coflows and tasks that the files of the folder claim, without those of flows.
    ///
    /// # Errors
    /// If one is missing, broken, or of another workload.
    pub fn completions(&self) -> Result<Outcome, Error> {
        let [coflow_arrival, coflow_finish] = self.times(COFLOWS, ["arrival_ns", "finish_ns"])?;
        let [task_finish] = self.times(TASKS, ["finish_ns"])?;
        let workload = self.scenario.workload();
        for (file, rows, expected) in [
            (COFLOWS, coflow_finish.len(), workload.coflow_count()),
            (TASKS, task_finish.len(), workload.tasks().len()),
        ] {
            if rows != expected {
                let place = self.folder.join(file);
                let problem = format!("{}: found {rows} rows, expected {expected}", place.display());
                return Err(Error::input(problem).help("make the run again, and keep it"));
            }
        }
        let counts = EngineCounts::default();
        Ok(Outcome {
            coflow_arrival,
            coflow_finish,
            flow_finish: Vec::new(),
            task_finish,
            counts,
            link_use: None,
            queue_use: None,
            messages: None,
        })
    }

    fn times<const N: usize>(&self, name: &str, columns: [&str; N]) -> Result<[Vec<Instant>; N], Error> {
        let read = read_whole(self.file(name)?, columns)
            .map_err(|fault| Error::input(format!("{}: {fault}", self.folder.join(name).display())))?;
        let origin = self.scenario.workload().origin();
        let since = |time: u64| {
            let before = || {
                let place = self.folder.join(name);
                Error::input(format!(
                    "{}: a time of {time} ns lies before {} ns, where the trace begins",
                    place.display(),
                    origin.get()
                ))
            };
            time.checked_sub(origin.get()).map(Instant).ok_or_else(before)
        };
        let mut times = [const { Vec::new() }; N];
        for (times, column) in times.iter_mut().zip(read) {
            *times = column.into_iter().map(since).collect::<Result<_, _>>()?;
        }
        Ok(times)
    }
}

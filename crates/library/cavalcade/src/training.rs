//! Training jobs that share a cluster, compared under several policies: reading them, runs, and
//! what is shown.
//!
//! Programs of ranks, clusters and measures are those of [`cavalcade_training`]. Here files are
//! opened, jobs run alone and together on all cores, and the outcome becomes text, JSON and
//! columns, so that every face shows the same.

mod beside;
mod columns;
mod events;
mod files;
mod json;
mod page;
mod table;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use cavalcade_metrics::Outcome;
use cavalcade_model::{Bytes, Fabric, Instant, Nanos, Work};
use cavalcade_report::Fit;
use cavalcade_training::{
    Cluster, JobFigures, JobWork, Measured, Note, Plan, PlannedJob, Timeline, measure, plan,
};
pub use cavalcade_training::{Figures, Groups, Host, Job, JobsFile, Options, Read};

use crate::columns::{Column, write_csv, write_parquet};
use crate::compare::labels;
use crate::engine::{Engine, Watch};
use crate::error::Error;
use crate::output::Folder;
use crate::parallel::{Progress, map};
use crate::policies::Policy;
use crate::scenario::{Conditions, Scenario};
use beside::Parts;

/// Reads the workload at `path`: a file, or a folder with one for each rank. Files may be
/// compressed.
///
/// # Errors
/// If it cannot be read, or is not valid, with the file and the place.
pub fn workload(path: &Path, options: &Options) -> Result<Read, Error> {
    files::read(path, options)
}

/// What a workload does in an iteration, and what its file leaves out, as text.
pub fn workload_text(read: &Read, fit: Fit) -> String {
    table::info(read, fit)
}

/// The same for programs, with each collective and transfer, unless there are more than 2¹⁸
/// operations.
pub fn workload_json(read: &Read) -> String {
    json::info(read)
}

/// The collectives and transfers of a workload, a row for each.
///
/// # Errors
/// If there are more than are held.
pub fn workload_columns(read: &Read) -> Result<Vec<Column>, Error> {
    check_operations(read)?;
    Ok(columns::of_workload(read))
}

/// Checks that the operations of a workload can be listed one by one.
///
/// # Errors
/// If there are more than are held.
pub fn check_operations(read: &Read) -> Result<(), Error> {
    read.program.check_operations().map_err(|error| Error::input(error.to_string()))
}

/// Jobs of a jobs file, with the workloads that it names.
#[derive(Clone, Debug)]
pub struct Jobs {
    /// The file, as messages call it, and the line of each job.
    source_name: String,
    lines: Vec<usize>,
    cluster: Cluster,
    jobs: Vec<Job>,
    about: Vec<About>,
}

/// What the reader of a job's workload found beside it.
#[derive(Clone, Debug, Default)]
struct About {
    notes: Vec<Note>,
    measured: Option<Measured>,
    host: Host,
}

impl Jobs {
    /// Reads a jobs file.
    ///
    /// # Errors
    /// If it or a workload cannot be read or is not valid, with the file and the place.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let (name, bytes) = crate::source::read_file(path);
        let bytes = bytes.map_err(|error| Error::file("read", path, &error))?;
        let text =
            String::from_utf8(bytes).map_err(|_| Error::input(format!("{name}: expected UTF-8 text")))?;
        let file = JobsFile::read(&text, &name).map_err(|error| Error::input(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let (mut jobs, mut about, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for job in file.jobs {
            lines.push(job.line);
            let (program, said) = match &job.work {
                JobWork::Steps(program) => (program.clone(), About::default()),
                JobWork::File { path, options } => {
                    let Read { program, notes, measured } = files::read(&folder.join(path), options)?;
                    (program, About { notes, measured, host: options.host })
                }
            };
            jobs.push(job.with(program));
            about.push(said);
        }
        Ok(Self { source_name: name, lines, cluster: file.cluster, jobs, about })
    }

    /// The same with so many iterations of each job.
    #[must_use]
    pub fn with_iterations(mut self, iterations: u32) -> Self {
        self.jobs.iter_mut().for_each(|job| job.iterations = iterations);
        self
    }

    /// The names of the jobs, and what the readers of their workloads note.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &[Note])> {
        self.jobs.iter().zip(&self.about).map(|(job, about)| (job.name.as_str(), &about.notes[..]))
    }

    /// Units of [`Progress`] that so many runs of all jobs take, and one of each alone: coflows
    /// that are done.
    ///
    /// # Errors
    /// If the jobs do not fit their cluster.
    pub fn units(&self, runs: usize) -> Result<usize, Error> {
        let coflows = |jobs: &[Job]| Ok(self.plan(jobs)?.workload.coflow_count());
        let alone = (0..self.jobs.len()).map(|job| coflows(&[self.alone(job)]));
        let alone = alone.sum::<Result<usize, Error>>()?;
        Ok(runs * coflows(&self.jobs)? + alone)
    }

    /// A job as if no other were there.
    fn alone(&self, job: usize) -> Job {
        Job { arrival: Instant::ZERO, ..self.jobs[job].clone() }
    }

    fn plan(&self, jobs: &[Job]) -> Result<Plan, Error> {
        plan(&self.cluster, jobs).map_err(|error| Error::input(format!("{}: {error}", self.source_name)))
    }

    /// Checks that each job takes time: that of one that takes none is nothing to compare with.
    fn check_times(&self, plan: &Plan) -> Result<(), Error> {
        let takes_none = |planned: &PlannedJob| {
            plan.workload.task(planned.task).stages.iter().all(|stage| match stage.work {
                Work::Compute(compute) => compute.duration == Nanos::ZERO,
                Work::Transfer(coflow) => plan.workload.coflow(coflow).size() == Bytes::ZERO,
            })
        };
        let Some(job) = plan.jobs.iter().position(takes_none) else { return Ok(()) };
        Err(Error::input(format!(
            "{}:{}: job {} takes no time: it computes for none and sends nothing; give it computation or bytes",
            self.source_name, self.lines[job], self.jobs[job].name
        )))
    }

    fn planned<'a>(&self, jobs: &'a [Job]) -> Result<Planned<'a>, Error> {
        let plan = self.plan(jobs)?;
        let conditions = Conditions { fabric: Some(self.cluster.fabric()), ..Conditions::default() };
        let scenario = Scenario::new(Arc::clone(&plan.workload), conditions)?;
        Ok(Planned { jobs, plan, scenario })
    }
}

/// Jobs as a workload, on their cluster.
struct Planned<'a> {
    jobs: &'a [Job],
    plan: Plan,
    scenario: Scenario,
}

impl Planned<'_> {
    /// Runs a scenario of these jobs.
    fn run(&self, scenario: &Scenario, timelines: bool, progress: &Progress) -> Result<JobRun, Error> {
        let watch = Watch { progress: Some(progress), forgets_flows: true, ..Watch::default() };
        let outcome: Outcome = scenario.run_with(watch)?;
        let kept = if timelines { self.jobs.len() } else { 0 };
        let timelines = (0..kept).map(|job| Timeline::of(&self.plan, job, &outcome)).collect();
        Ok(JobRun { figures: measure(&self.plan, self.jobs, scenario.fabric(), &outcome), timelines })
    }
}

/// A run of jobs.
#[derive(Clone, Debug)]
struct JobRun {
    figures: Figures,
    /// What each job did when; empty where that was not asked for.
    timelines: Vec<Timeline>,
}

/// The policy of runs alone: where no other job sends, it only decides among a job's own flows.
const ALONE: &str = "fair";

/// Runs of the same jobs under several policies and on several engines, and of each alone.
#[derive(Clone, Debug)]
pub struct ComparedJobs {
    jobs: Jobs,
    /// Each job alone on the cluster under fair sharing, in the fluid.
    alone: Vec<JobFigures>,
    fabric: Fabric,
    /// Each run with its label: its policy, and its engine where there are several.
    runs: Vec<(String, JobRun)>,
}

/// Runs jobs under each policy on each engine, and each job alone in the fluid, on all cores.
/// `timelines` keeps what each rank did when. A policy that is named twice is run once.
///
/// # Errors
/// If the jobs do not fit their cluster, a run has no end, or it was cancelled.
pub fn compare_jobs(
    jobs: Jobs,
    policies: &[Policy],
    engines: &[Engine],
    timelines: bool,
    progress: &Progress,
) -> Result<ComparedJobs, Error> {
    let together = jobs.planned(&jobs.jobs)?;
    jobs.check_times(&together.plan)?;
    let on_engines = |policy: &Policy| {
        let scenario = together.scenario.with_policy(policy.clone());
        engines.iter().map(move |engine| scenario.on(engine.clone())).collect::<Vec<_>>()
    };
    let is_first = |(nth, policy): &(usize, &Policy)| !policies[..*nth].contains(policy);
    let distinct = policies.iter().enumerate().filter(is_first).map(|(_, policy)| policy);
    let scenarios: Vec<Scenario> = distinct.flat_map(on_engines).collect();
    let runs = map(scenarios.len() + jobs.jobs.len(), |index| match scenarios.get(index) {
        Some(scenario) => together.run(scenario, timelines, progress),
        None => {
            let alone = [jobs.alone(index - scenarios.len())];
            let alone = jobs.planned(&alone)?;
            alone.run(&alone.scenario.under(ALONE)?, false, progress)
        }
    });
    let mut runs = runs.into_iter().collect::<Result<Vec<_>, Error>>()?;
    let alone = runs.split_off(scenarios.len());
    let alone = alone.into_iter().filter_map(|mut run| run.figures.jobs.pop()).collect();
    let named: Vec<_> = scenarios.iter().map(|scenario| (scenario.policy(), scenario.engine())).collect();
    let runs = labels(&named).into_iter().zip(runs).collect();
    let fabric = together.scenario.fabric().clone();
    Ok(ComparedJobs { jobs, alone, fabric, runs })
}

/// A table of a comparison of jobs.
pub struct JobTable {
    /// Its name, which is that of its files.
    pub name: &'static str,
    /// What its rows are.
    pub rows: &'static str,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl ComparedJobs {
    /// The iteration of a job as it was recorded, and as it is in each run, first alone; `None`
    /// where no recording has it.
    fn beside(&self, job: usize) -> Option<(Parts, Vec<(&str, Parts)>)> {
        let about = &self.jobs.about[job];
        let measured = Parts::measured(about.measured.as_ref()?, about.host);
        let alone = ("alone", Parts::simulated(&self.alone[job], Instant::ZERO));
        let arrival = self.jobs.jobs[job].arrival;
        let runs =
            self.runs().map(|(policy, figures)| (policy, Parts::simulated(&figures.jobs[job], arrival)));
        Some((measured, [alone].into_iter().chain(runs).collect()))
    }

    /// The names of the jobs, and what the readers of their workloads note.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &[Note])> {
        self.jobs.notes()
    }

    /// Each run's label, which is its policy, and its engine where there are several; with its
    /// figures.
    pub fn runs(&self) -> impl Iterator<Item = (&str, &Figures)> + Clone {
        self.runs.iter().map(|(policy, run)| (policy.as_str(), &run.figures))
    }

    /// What each rank did when, as trace events for ui.perfetto.dev, where timelines were kept.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_events(&self, out: &mut dyn Write) -> io::Result<()> {
        events::write(self, out)
    }

    /// A page for people: all tables, and where timelines were kept what each rank did when.
    pub fn page(&self) -> String {
        page::of(self)
    }

    /// Tables for people: jobs as rows, policies as columns.
    pub fn text(&self, fit: Fit) -> String {
        table::of(self, fit)
    }

    /// All of it for programs.
    pub fn json(&self) -> String {
        json::of(self)
    }

    /// Writes jobs, iterations, collectives and links into a folder, each as CSV and as Parquet.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, folder: Folder) -> Result<(), Error> {
        for JobTable { name, columns, .. } in self.tables() {
            let name = |ending: &str| format!("{name}.{ending}");
            let mut out = folder.file(name("csv"))?;
            write_csv(&columns, &mut out).map_err(|error| folder.failure(name("csv"), &error))?;
            let mut out = folder.file(name("parquet"))?;
            write_parquet(&columns, &mut out).map_err(|error| folder.failure(name("parquet"), &error))?;
        }
        folder.keep().map(drop)
    }

    /// The tables that [`ComparedJobs::keep`] writes.
    pub fn tables(&self) -> [JobTable; 4] {
        let table = |name, rows, columns| JobTable { name, rows, columns };
        [
            table("jobs", "a row for each job under each policy", self.job_columns()),
            table(
                "iterations",
                "a row for each iteration of each job under each policy",
                self.iteration_columns(),
            ),
            table(
                "collectives",
                "a row for each kind of collective in each kind of group of each job under each policy",
                self.collective_columns(),
            ),
            table(
                "links",
                "a row for each link that carried anything under each policy, the busiest first",
                self.link_columns(),
            ),
        ]
    }

    /// A row for each job under each policy.
    pub fn job_columns(&self) -> Vec<Column> {
        columns::of_jobs(self)
    }

    /// A row for each iteration of each job under each policy.
    pub fn iteration_columns(&self) -> Vec<Column> {
        columns::of_iterations(self)
    }

    /// A row for each kind of collective in each kind of group of each job under each policy.
    pub fn collective_columns(&self) -> Vec<Column> {
        columns::of_collectives(self)
    }

    /// A row for each link that carried anything, under each policy the busiest first.
    pub fn link_columns(&self) -> Vec<Column> {
        columns::of_links(self)
    }
}

//! `cavalcade train`: training jobs that share a cluster, under several policies.

mod files;
mod json;
mod table;

use std::path::Path;
use std::sync::Arc;

use cavalcade::{Conditions, Policy, Scenario, labels, map};
use cavalcade_model::Instant;
use cavalcade_training::{Cluster, Figures, Job, JobWork, JobsFile, Note, Options, Plan, measure, plan};

use crate::arguments::{Train, TrainCompare, TrainInfo};
use crate::engines;
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::terminal::fit;

/// Runs the command.
///
/// # Errors
/// If a file is not valid, jobs do not fit their cluster, or a run has no end.
pub(crate) fn run(command: &Train) -> Result<(), Failure> {
    match command {
        Train::Compare(options) => compare(options),
        Train::Info(options) => info(options),
    }
}

/// Several runs of the same jobs.
struct Compared {
    cluster: Cluster,
    jobs: Vec<Job>,
    /// What the reader of each job notes.
    notes: Vec<Vec<Note>>,
    /// Each job's mean iteration in seconds, alone on the cluster under fair sharing, in the fluid.
    alone: Vec<f64>,
    /// The fabric of all runs.
    fabric: cavalcade_model::Fabric,
    /// Each policy with the figures of its run.
    runs: Vec<(String, Figures)>,
}

/// The policy of runs alone: where nobody else sends, it only decides among a job's own flows.
const ALONE: &str = "fair";

fn compare(options: &TrainCompare) -> Result<(), Failure> {
    // All that can be wrong with the command line comes before files are read.
    let engines = engines::selected(&options.engine)?;
    let policies = options.policies.iter().map(|text| Policy::named(text)).collect::<Result<Vec<_>, _>>()?;
    let (cluster, mut jobs, notes) = jobs(&options.jobs)?;
    if let Some(iterations) = options.iterations {
        jobs.iter_mut().for_each(|job| job.iterations = iterations.get());
    }
    let together = Planned::of(&cluster, &jobs)?;
    let on_engines = |policy: &Policy| {
        let scenario = together.scenario.with_policy(policy.clone());
        engines.iter().map(move |engine| scenario.on(engine.clone())).collect::<Vec<_>>()
    };
    let scenarios: Vec<Scenario> = policies.iter().flat_map(on_engines).collect();
    let runs = map(scenarios.len() + jobs.len(), |index| match scenarios.get(index) {
        Some(scenario) => figures(&together.plan, &jobs, scenario),
        None => {
            let jobs = [Job { arrival: Instant::ZERO, ..jobs[index - scenarios.len()].clone() }];
            let alone = Planned::of(&cluster, &jobs)?;
            figures(&alone.plan, &jobs, &alone.scenario.under(ALONE)?)
        }
    });
    let mut runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let alone = runs.split_off(scenarios.len());
    let alone = alone.iter().map(|figures| figures.jobs[0].times.mean_s).collect();
    let named: Vec<_> = scenarios.iter().map(|scenario| (scenario.policy(), scenario.engine())).collect();
    let runs = labels(&named).into_iter().zip(runs).collect();
    let compared = Compared { cluster, jobs, notes, alone, fabric: together.scenario.fabric().clone(), runs };
    print(&if options.json { json::of(&compared) } else { table::of(&compared, fit(options.room.wide)) })?;
    for (job, notes) in compared.jobs.iter().zip(&compared.notes) {
        print_notes(&job.name, notes);
    }
    Ok(())
}

/// Says on standard error what a reader notes.
fn print_notes(name: &str, notes: &[Note]) {
    if !notes.is_empty() {
        tell(&format!("{name} as its file was read:"));
    }
    for note in notes {
        tell(&format!("  {:9}  {}", note.certainty, note.text));
    }
}

/// A cluster, the jobs of a jobs file, and what the reader of each notes.
type Read = (Cluster, Vec<Job>, Vec<Vec<Note>>);

/// Reads a jobs file and the workloads that it names.
fn jobs(path: &Path) -> Result<Read, Failure> {
    let (name, bytes) = cavalcade::read_file(path);
    let bytes = bytes.map_err(|error| Failure::file("read", path, &error))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::input(format!("{name}: expected UTF-8 text")))?;
    let file = JobsFile::read(&text, &name).map_err(|error| Failure::input(error.to_string()))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (mut jobs, mut notes) = (Vec::new(), Vec::new());
    for job in file.jobs {
        let read = match &job.work {
            JobWork::Steps(program) => (program.clone(), Vec::new()),
            JobWork::File { path, options } => {
                let read = files::read(&folder.join(path), options)?;
                (read.program, read.notes)
            }
        };
        jobs.push(job.with(read.0));
        notes.push(read.1);
    }
    Ok((file.cluster, jobs, notes))
}

/// Jobs as a workload, on their cluster.
struct Planned {
    plan: Plan,
    scenario: Scenario,
}

impl Planned {
    fn of(cluster: &Cluster, jobs: &[Job]) -> Result<Self, Failure> {
        let plan = plan(cluster, jobs).map_err(|error| Failure::input(error.to_string()))?;
        let conditions = Conditions { fabric: Some(cluster.fabric()), ..Conditions::default() };
        let scenario = Scenario::new(Arc::clone(&plan.workload), conditions)?;
        Ok(Self { plan, scenario })
    }
}

/// Runs a scenario of these jobs.
fn figures(plan: &Plan, jobs: &[Job], scenario: &Scenario) -> Result<Figures, Failure> {
    let outcome = scenario.run()?;
    Ok(measure(plan, jobs, scenario.fabric(), &outcome))
}

fn info(options: &TrainInfo) -> Result<(), Failure> {
    let read = files::read(
        &options.workload,
        &Options {
            ranks: options.ranks,
            tensor: options.tensor,
            pipeline: options.pipeline,
            expert: options.expert,
            groups: options.groups,
            overlap: options.overlap,
            one_for_all: options.one_for_all,
        },
    )?;
    if options.json {
        read.program.check_operations().map_err(|error| Failure::input(error.to_string()))?;
        return print(&json::info(&read));
    }
    print(&table::info(&read, fit(options.room.wide)))
}

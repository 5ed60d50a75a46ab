//! `cavalcade train`: training jobs that share a cluster, under several policies.

use cavalcade::output::{Folder, check_writable, write_file};
use cavalcade::trace::Note;
use cavalcade::training::{Jobs, Options, compare_jobs, workload, workload_json, workload_text};
use cavalcade::{Engine, Policy, Progress};

use crate::arguments::{Train, TrainCompare, TrainInfo};
use crate::engines;
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::terminal::fit;

/// Policies that go by the iterations of jobs.
const BY_ITERATIONS: [&str; 3] = ["crux", "cassini", "mltcp"];

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

fn compare(options: &TrainCompare) -> Result<(), Failure> {
    // All that can be wrong with the command line comes before files are read.
    let engines = engines::selected(&options.engine)?;
    let policies = options.policies.iter().map(|text| Policy::named(text)).collect::<Result<Vec<_>, _>>()?;
    let mut jobs = Jobs::read(&options.jobs)?;
    if let Some(iterations) = options.iterations {
        jobs = jobs.with_iterations(iterations.get());
    }
    for path in [&options.report, &options.events].into_iter().flatten() {
        check_writable(path)?;
    }
    let folder = options.out.as_deref().map(Folder::create).transpose()?;
    let timelines = options.report.is_some() || options.events.is_some();
    let compared = compare_jobs(jobs, &policies, &engines, timelines, &Progress::default())?;
    if let Some(folder) = folder {
        compared.keep(folder)?;
    }
    if let Some(path) = &options.report {
        let page = compared.page();
        write_file(path, |out| out.write_all(page.as_bytes()))?;
    }
    if let Some(path) = &options.events {
        write_file(path, |out| compared.write_events(out))?;
    }
    print(&if options.json { compared.json() } else { compared.text(fit(options.room.wide)) })?;
    compared.notes().for_each(|(name, notes)| print_notes(name, notes));
    let of_iterations = policies.iter().map(Policy::name).filter(|name| BY_ITERATIONS.contains(name));
    let of_iterations: Vec<&str> = of_iterations.collect();
    if engines.iter().any(|engine| matches!(engine, Engine::Control { .. })) && !of_iterations.is_empty() {
        tell(&format!(
            "Clients of the live system declare no iterations, so under --engine control {} cannot go by them.",
            of_iterations.join(", ")
        ));
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

fn info(options: &TrainInfo) -> Result<(), Failure> {
    let read = workload(
        &options.workload,
        &Options {
            ranks: options.ranks,
            tensor: options.tensor,
            pipeline: options.pipeline,
            expert: options.expert,
            groups: options.groups,
            overlap: options.overlap,
            one_for_all: options.one_for_all,
            host: options.host,
        },
    )?;
    print(&if options.json { workload_json(&read) } else { workload_text(&read, fit(options.room.wide)) })
}

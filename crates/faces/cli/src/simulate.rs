//! `cavalcade simulate`: one policy, and a folder with what came out.

use std::io;
use std::time::Instant;

use cavalcade::folder::keep;
use cavalcade::manifest::TraceRecord;
use cavalcade::output::{Folder, check_writable, write_file};
use cavalcade::results::Results;
use cavalcade::{
    Beside, Capture, Choice, Comparison, Engine, Finished, Scenario, Watch, analyse, budget_beside_runs,
    run_conditions,
};

use cavalcade_report::{RunConditions, TableOptions};

use crate::arguments::Simulate;
use crate::compare::{no_rates, run_all};
use crate::engines;
use crate::failure::Failure;
use crate::input::read;
use crate::output::{print, tell};
use crate::policies;
use crate::progress::watched;
use crate::recorded::at_recorded_rate;
use crate::terminal::fit;

/// Runs the command.
///
/// # Errors
/// If an argument or the trace is not valid, or an output cannot be written.
pub(crate) fn run(options: &Simulate) -> Result<(), Failure> {
    let Choice { policy, transport, .. } = Choice::named(&options.policy)?;
    let engines = engines::selected(&options.engine)?;
    let [engine] = engines.as_slice() else {
        return Err(Failure::usage("--engine, --transport: one run has one of each".to_owned())
            .help("'cavalcade compare' runs several"));
    };
    let engine = transport.map_or_else(|| engine.clone(), |transport| engine.over(transport));
    if options.dump_schedule && engine != Engine::Fluid {
        return Err(no_rates());
    }
    if options.pcap.is_some() {
        engine.check_capture()?;
    }
    options.pcap.iter().try_for_each(|path| check_writable(path))?;
    let folder = options.out.as_deref().map(Folder::create).transpose()?;
    options.conditions.of_run()?;
    let source = options.input.open()?;
    let (reading, _notes) = read(&source, options.input.format)?;
    let conditions = at_recorded_rate(&reading, &options.conditions)?.of_run()?;
    let scenario = Scenario::new(reading.workload, conditions)?.on(engine).ordered_by(policy);
    scenario.check()?;
    policies::note_unlisted(std::slice::from_ref(&scenario))?;
    let Some(folder) = folder else {
        let comparison = if options.pcap.is_some() {
            let start = Instant::now();
            let outcome = captured(options, |capture| {
                watched(scenario.workload().coflow_count(), |progress| {
                    let watch = Watch { progress: Some(progress), capture, ..Watch::default() };
                    scenario.run_with(watch)
                })
            })?;
            let finished = Finished { outcome, wall_s: start.elapsed().as_secs_f64() };
            analyse(std::slice::from_ref(&scenario), vec![finished], 0, None)?
        } else {
            let budget = Some(budget_beside_runs(scenario.workload()));
            run_all(std::slice::from_ref(&scenario), 0, &Beside { budget, ..Beside::default() })?.comparison
        };
        return print_result(options, &run_conditions(source.name(), scenario.conditions()), &comparison);
    };
    let trace = TraceRecord::new(&source, reading.format)?;
    let finished = captured(options, |capture| {
        watched(scenario.workload().coflow_count(), |progress| {
            let watch = Watch { progress: Some(progress), capture, ..Watch::default() };
            keep(&scenario, &trace, options.dump_schedule, watch, Results::new(Some(&folder)))
        })
    })?;
    let out = folder.keep()?;
    let comparison = analyse(std::slice::from_ref(&scenario), vec![finished], 0, None)?;
    print_result(options, &run_conditions(source.name(), scenario.conditions()), &comparison)?;
    tell(&format!("Results are in {}; 'cavalcade replay {0}' reproduces them.", out.display()));
    Ok(())
}

/// Prints the table, or JSON where that was asked for.
fn print_result(
    options: &Simulate,
    conditions: &RunConditions,
    comparison: &Comparison,
) -> Result<(), Failure> {
    print(&if options.json {
        cavalcade_report::json(comparison, conditions)
    } else {
        let fit = fit(options.room.wide);
        cavalcade_report::table(comparison, TableOptions { by_bin: false, fit })
    })
}

/// Does `work`, and writes what it captures into the file of `--pcap`, where there is one: whole,
/// or not at all.
fn captured<T>(
    options: &Simulate,
    work: impl FnOnce(Option<Capture<'_>>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(path) = &options.pcap else { return work(None) };
    let mut done = None;
    let written = write_file(path, |out| {
        let found = done.insert(work(Some(Capture { links: &options.pcap_link, out })));
        if found.is_ok() { Ok(()) } else { Err(io::Error::other("nothing was captured")) }
    });
    match (done, written) {
        // Why the work failed says more than that its file is missing.
        (Some(Err(failure)), _) | (_, Err(failure)) => Err(failure),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (None, Ok(())) => unreachable!("what is written has been done"),
    }
}

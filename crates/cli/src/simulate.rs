//! `cavalcade simulate`: one policy, and a folder with what came out.

use std::io;
use std::time::Instant;

use cavalcade_metrics::analyse;

use crate::arguments::Simulate;
use crate::carriers::{Capture, Carrier};
use crate::compare::{compare, contenders, result};
use crate::failure::Failure;
use crate::input::Source;
use crate::lower_bound::budget_beside_runs;
use crate::manifest::{self, Manifest, TraceRecord};
use crate::output::{Folder, print, tell, write_file};
use crate::parallel::watched;
use crate::policies::{configured, record};
use crate::results::Results;
use crate::run_folder::produce;
use crate::scene::Scene;
use crate::terminal::table_options;

/// Runs the command.
///
/// # Errors
/// Where an argument or the trace is not valid, or an output cannot be written.
pub(crate) fn run(options: &Simulate) -> Result<(), Failure> {
    let policies = [configured(&options.policy)?];
    let carriers = Carrier::selected(&options.carriage)?;
    let [carrier] = carriers.as_slice() else {
        return Err(Failure::usage("--engine, --transport: one run has one of each".to_owned())
            .help("'cavalcade compare' runs several"));
    };
    let carrier = &carrier.of(&policies[0]);
    let contenders = contenders(&policies, &carriers)?;
    if options.dump_schedule && *carrier != Carrier::Fluid {
        return Err(Failure::usage("--dump-schedule: only the fluid engine writes rates down".to_owned())
            .help("leave it out, or leave out --engine"));
    }
    if options.pcap.is_some() {
        carrier.check_capture()?;
    }
    let source = Source::open(&options.input.trace)?;
    let (workload, format) = source.parse(options.input.format)?;
    let scene = Scene::new(workload, options.conditions.clone())?;
    let Some(out) = &options.out else {
        let comparison = if options.pcap.is_some() {
            let start = Instant::now();
            let work = |capture: Option<Capture<'_>>| {
                watched(scene.workload.coflow_count(), |progress| {
                    carrier.run(&scene, &policies[0], false, capture, progress)
                })
            };
            let outcome = captured(options, work)?;
            let result = result(&contenders[0], outcome, start.elapsed().as_secs_f64());
            analyse(&scene.workload, &scene.fabric, &[result], 0)
        } else {
            compare(&scene, &contenders, 0, Some(budget_beside_runs(&scene.workload)), false)?
        };
        return print(&cavalcade_report::table(&comparison, table_options(false)));
    };
    let folder = Folder::create(out)?;
    let trace = TraceRecord::new(&options.input.trace, &source, format);
    let mut manifest = Manifest::new(trace, &options.conditions, record(&policies[0]), carrier);
    let mut results = Results::new(Some(&folder));
    let work = |capture: Option<Capture<'_>>| {
        produce(&scene, &policies[0], carrier, options.dump_schedule, capture, &mut results)
    };
    let (outcome, wall_s) = captured(options, work)?;
    let result = result(&contenders[0], outcome, wall_s);
    manifest.results = results.digests();
    std::fs::write(folder.path(manifest::NAME), manifest.text())
        .map_err(|error| folder.failure(manifest::NAME, &error))?;
    folder.keep()?;
    print(&cavalcade_report::table(
        &analyse(&scene.workload, &scene.fabric, &[result], 0),
        table_options(false),
    ))?;
    tell(&format!("Results are in {}; 'cavalcade replay {0}' makes them again.", out.display()));
    Ok(())
}

/// Does `work`, and writes what it captures into the file of `--pcap`, where there is one: whole, or not at all.
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

//! `cavalcade simulate`: one policy, and a folder with what came out.

use cavalcade_metrics::analyse;

use crate::arguments::Simulate;
use crate::compare::{compare, result};
use crate::failure::Failure;
use crate::input::Source;
use crate::lower_bound::budget_beside_runs;
use crate::manifest::{self, Manifest, TraceRecord};
use crate::output::{Folder, print, tell};
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
    let policy = configured(&options.policy)?;
    let source = Source::open(&options.input.trace)?;
    let (workload, format) = source.parse(options.input.format)?;
    let scene = Scene::new(workload, options.conditions)?;
    let Some(out) = &options.out else {
        let budget = Some(budget_beside_runs(&scene.workload));
        let comparison = compare(&scene, &[policy], 0, budget, false);
        return print(&cavalcade_report::table(&comparison, table_options(false)));
    };
    let folder = Folder::create(out)?;
    let trace = TraceRecord::new(&options.input.trace, &source, format);
    let mut manifest = Manifest::new(trace, &options.conditions, record(&policy));
    let mut results = Results::new(Some(&folder));
    let (outcome, wall_s) = produce(&scene, &policy, options.dump_schedule, &mut results)?;
    let result = result(&policy, outcome, wall_s);
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

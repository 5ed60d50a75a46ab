//! `cavalcade demo`: the main job on a workload that the program makes itself, with nothing to install or fetch.

use cavalcade_report::ReportInfo;

use crate::arguments::{Conditions, Demo};
use crate::carriers::Carrier;
use crate::compare::{compare, contenders, write_report};
use crate::failure::Failure;
use crate::lower_bound::budget_beside_runs;
use crate::output::{print, tell};
use crate::policies::all;
use crate::scene::Scene;
use crate::terminal::table_options;
use crate::trace::generated;

/// Like an hour of the Facebook cluster that most papers use, at a size that takes seconds.
const WORKLOAD: &str = "facebook:coflows=200,ports=50,load=0.8";

/// Runs the command.
///
/// # Errors
/// Where the report cannot be written.
pub(crate) fn run(options: &Demo) -> Result<(), Failure> {
    let workload = generated(WORKLOAD, None, options.seed)?;
    let scene = Scene::new(workload, Conditions::default())?;
    tell(&format!(
        "{} coflows on {} ports, made from seed {}: like an hour of a MapReduce cluster at Facebook",
        scene.workload.coflow_count(),
        scene.workload.ports(),
        options.seed
    ));
    let (policies, baseline) = all();
    let budget = Some(budget_beside_runs(&scene.workload));
    let contenders = contenders(&policies, &[Carrier::Fluid])?;
    let comparison = compare(&scene, &contenders, baseline, budget, true)?;
    print(&cavalcade_report::table(&comparison, table_options(false)))?;
    let info = ReportInfo {
        command: format!("cavalcade demo --seed {}", options.seed),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: format!("generated: {WORKLOAD}"),
        seed: Some(options.seed),
    };
    write_report(&options.report, &comparison, &info)?;
    print(&format!("\nReport: {}\n", options.report.display()))
}

//! `cavalcade demo`: the main job on a workload that the program makes itself, with nothing to install or fetch; and then
//! a small one over real sockets.

use cavalcade_model::BitsPerSec;
use cavalcade_report::ReportInfo;

use crate::arguments::{Conditions, Demo};
use crate::carriers::Carrier;
use crate::compare::{compare, contenders, write_report};
use crate::failure::Failure;
use crate::lab;
use crate::lower_bound::budget_beside_runs;
use crate::output::{print, tell};
use crate::policies::all;
use crate::scene::Scene;
use crate::terminal::table_options;
use crate::trace::generated;

/// Like an hour of the Facebook cluster that most papers use, at a size that takes seconds.
const WORKLOAD: &str = "facebook:coflows=200,ports=50,load=0.8";

/// What is replayed over sockets: narrow coflows among a few wide ones, so that there is something to win for who goes first. All
/// is made a fifth as large, which leaves flows of up to 2 MB: 80 ms, long beside a round of the coordinator.
const LIVE_WORKLOAD: &str =
    "classes:coflows=20,ports=4,load=1.2,longest=10MiB,narrow=3,mix=60/30/5/5,rate=200Mbps";
const LIVE_SCALE: f64 = 0.2;
const LIVE_RATE: BitsPerSec = BitsPerSec(200_000_000);
/// Under what.
const LIVE_POLICIES: [&str; 3] = ["tcp", "dclas:first_threshold=1MB,weighted=false", "sebf"];

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
    print(&format!("\nReport: {}\n", options.report.display()))?;
    live(options.seed)
}

/// The same over real sockets, on a workload of a few seconds. A machine without sockets has seen enough by then.
fn live(seed: u64) -> Result<(), Failure> {
    let workload = generated(LIVE_WORKLOAD, None, seed)?;
    tell("\nLive: four hosts on loopback, a coordinator, an agent for each, and real TCP transfers");
    match lab::demonstrate(workload, LIVE_SCALE, &LIVE_POLICIES, LIVE_RATE) {
        Ok(table) => print(&format!(
            "\n{table}\nMeasured beside predicted; 'cavalcade lab' does this to a trace of yours.\n"
        )),
        Err(failure) => {
            tell(&format!("The live part is left out: {failure}"));
            Ok(())
        }
    }
}

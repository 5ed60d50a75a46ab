//! `cavalcade demo`: the main job on a workload that the program makes itself, with nothing to
//! install or fetch; and then a small one over real sockets.

use cavalcade::output::check_writable;
use cavalcade::{Beside, Conditions, Engine, Runnable, Scenario, budget_beside_runs};
#[cfg(feature = "live")]
use cavalcade_model::BitsPerSec;
use cavalcade_policy::registry;
use cavalcade_report::{Fit, ReportInfo, TableOptions, wrapped};

use crate::arguments::{Demo, Selection};
use crate::compare::{look_closer, run_all, runnable, write_report};
use crate::failure::Failure;
#[cfg(feature = "live")]
use crate::lab;
use crate::output::{print, tell};
use crate::policies::selected;
use crate::terminal::fit;
use crate::trace::generated;

/// The policies of the papers that this project began with, in the order of their years.
const PAPERS: [&str; 5] = ["baraat", "aalo", "karuna", "tafe", "dcas"];

/// Like an hour of the Facebook cluster that most papers use, at a size that takes seconds.
const WORKLOAD: &str = "facebook:coflows=200,ports=50,load=0.8";

/// The workload replayed over sockets: narrow coflows among a few wide ones, so that there is
/// something to win for who goes first. All is made a fifth as large, which leaves flows of up to 2
/// MB: 80 ms, long beside a round of the coordinator.
#[cfg(feature = "live")]
const LIVE_WORKLOAD: &str =
    "classes:coflows=20,ports=4,load=1.2,longest=10MiB,narrow=3,mix=60/30/5/5,rate=200Mbps";
#[cfg(feature = "live")]
const LIVE_SCALE: f64 = 0.2;
#[cfg(feature = "live")]
const LIVE_RATE: BitsPerSec = BitsPerSec(200_000_000);
/// Under what.
#[cfg(feature = "live")]
const LIVE_POLICIES: [&str; 3] = ["tcp", "dclas:first_threshold=1MB,weighted=false", "sebf"];

/// Runs the command.
///
/// # Errors
/// If the report cannot be written.
pub(crate) fn run(options: &Demo) -> Result<(), Failure> {
    check_writable(&options.report)?;
    let workload = generated(WORKLOAD, None, options.seed)?;
    let scenario = Scenario::new(workload, Conditions::default())?;
    tell(&format!(
        "{} coflows on {} ports, made from seed {}: like an hour of a MapReduce cluster at Facebook",
        scenario.workload().coflow_count(),
        scenario.workload().ports(),
        options.seed
    ));
    let (choices, baseline) = selected(&Selection::default())?;
    let Runnable { scenarios, baseline, .. } = runnable(&scenario, &choices, &[Engine::Fluid], baseline)?;
    let budget = Some(budget_beside_runs(scenario.workload()));
    let beside = Beside { budget, link_use: true, ..Beside::default() };
    let mut comparison = run_all(&scenarios, baseline, &beside)?.comparison;
    let fit = fit(options.room.wide);
    print(&cavalcade_report::table(&comparison, TableOptions { by_bin: false, fit }))?;
    print(&format!("\n{}\n", papers(fit)))?;
    let info = ReportInfo {
        command: format!("cavalcade demo --seed {}", options.seed),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        trace: format!("generated: {WORKLOAD}"),
        seed: Some(options.seed),
    };
    look_closer(&scenarios, &mut comparison)?;
    write_report(&options.report, &comparison, &info)?;
    print(&format!("\nReport: {}\n", options.report.display()))?;
    #[cfg(feature = "live")]
    live(options.seed, fit)?;
    Ok(())
}

/// Says which papers the rows of the table are.
fn papers(fit: Fit) -> String {
    let named = |name: &&str| {
        let info = registry().iter().find(|info| info.name == *name)?;
        let paper = info.paper?;
        Some(format!("{name} is {} ({} {})", paper.system, paper.venue, paper.year))
    };
    let papers: Vec<String> = PAPERS.iter().filter_map(named).collect();
    let text = format!(
        "Under their papers' names: {}. 'cavalcade policies NAME' shows what each does, and what it is told.",
        papers.join(", ")
    );
    wrapped(&text, fit.width)
}

#[cfg(feature = "live")]
/// The same over real sockets, on a workload of a few seconds. A machine without sockets has seen
/// enough by then.
fn live(seed: u64, fit: Fit) -> Result<(), Failure> {
    let workload = generated(LIVE_WORKLOAD, None, seed)?;
    tell("\nLive: four hosts on loopback, a coordinator, an agent for each, and real TCP transfers");
    match lab::demonstrate(workload, LIVE_SCALE, &LIVE_POLICIES, LIVE_RATE) {
        Ok(table) => print(&format!(
            "\n{}\nMeasured beside predicted; 'cavalcade lab' does this to a trace of yours.\n",
            table.show(fit)
        )),
        Err(failure) => {
            tell(&format!("The live part is left out: {failure}"));
            Ok(())
        }
    }
}

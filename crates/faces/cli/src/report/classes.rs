//! `cavalcade report figure classes`: what waits in each priority class of policies that have them.

use cavalcade::folder::Recorded;
use cavalcade::{Engine, Runnable, Scenario, map, waiting_by_class};
use cavalcade_model::{PolicyFactory as _, Scope};
use cavalcade_report::{ClassSide, FigureWidth, class_figure};

use super::{Figure, Origin, undrawn};
use crate::compare::runnable;
use crate::failure::Failure;
use crate::output::tell;
use crate::policies::{note_unlisted, selected};
use crate::progress::watched;

/// Runs what is asked for, and draws it.
///
/// # Errors
/// If no policy is named, one cannot be run or has no class for a flow, or the inputs cannot be
/// read.
pub(super) fn drawn(options: &Figure, are_runs: bool, width: FigureWidth) -> Result<String, Failure> {
    let scenarios = if are_runs { of_runs(options)? } else { of_workload(options)? };
    let units = scenarios.iter().map(|scenario| scenario.workload().coflow_count()).sum();
    let waiting = watched(units, |progress| {
        map(scenarios.len(), |index| waiting_by_class(&scenarios[index], progress))
    });
    let waiting = waiting.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let labels: Vec<String> = scenarios.iter().map(Scenario::label).collect();
    let name = |scenario: &Scenario| scenario.policy().map_or_else(String::new, |one| one.name().to_owned());
    let policies: Vec<String> = scenarios.iter().map(name).collect();
    let side =
        |index: usize| ClassSide { name: &labels[index], policy: &policies[index], bytes: &waiting[index] };
    let sides: Vec<ClassSide<'_>> = (0..scenarios.len()).map(side).collect();
    class_figure(&sides, width).map_err(undrawn)
}

fn of_workload(options: &Figure) -> Result<Vec<Scenario>, Failure> {
    if !options.selection.is_made() {
        return Err(Failure::usage("classes shows policies that have classes, and none is named")
            .help("name some, as --policies aalo,pias,karuna"));
    }
    let (choices, baseline) = selected(&options.selection)?;
    let (origin, conditions) = Origin::of(options, &options.conditions)?;
    let scenario = Scenario::new(origin.workload(conditions.seed)?, conditions.of_run()?)?;
    let Runnable { scenarios, named, .. } = runnable(&scenario, &choices, &[Engine::Fluid], baseline)?;
    note_unlisted(&scenarios)?;
    // Of sets what has classes of its flows; one that is named is refused.
    let at_links = |one: &Scenario| one.policy().is_some_and(|policy| policy.terms().scope == Scope::Link);
    let all = scenarios.into_iter().zip(named);
    let (left_out, shown): (Vec<_>, Vec<_>) = all.partition(|(one, named)| !named && at_links(one));
    if !left_out.is_empty() {
        let labels: Vec<String> = left_out.iter().map(|(one, _)| one.label()).collect();
        tell(&format!("left out, since it decides at links: {}", labels.join(", ")));
    }
    Ok(shown.into_iter().map(|(one, _)| one).collect())
}

/// The scenarios of runs that were kept, to be run again: classes are not kept.
fn of_runs(options: &Figure) -> Result<Vec<Scenario>, Failure> {
    if options.selection.is_made() || options.selection.baseline.is_some() {
        return Err(Failure::usage("--policies, --policy and --baseline choose among policies to run")
            .help("leave them out, or name a trace instead of the runs"));
    }
    let open = |folder| Recorded::open(folder, None).map(|run| run.scenario);
    options.inputs.iter().map(|folder| open(folder)).collect()
}

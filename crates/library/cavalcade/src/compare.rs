//! Several runs on all cores, and what sets them apart.

use std::sync::OnceLock;
use std::time::Instant;

use cavalcade_metrics::{Comparison, LowerBound, Outcome, RunResult};
use cavalcade_model::{PolicyFactory as _, Scope};

use crate::budget::Budget;
use crate::elsewhere::Elsewhere;
use crate::engine::{Engine, Watch};
use crate::error::{Error, Kind};
use crate::kept::{Keep, run_folders};
use crate::lower_bound::bound_of;
use crate::parallel::{Progress, map};
use crate::policies::Policy;
use crate::scenario::Scenario;

/// A run that is done.
pub struct Finished {
    /// The outcome.
    pub outcome: Outcome,
    /// The seconds that it took.
    pub wall_s: f64,
}

/// What a comparison does beside its runs.
#[derive(Default)]
pub struct Beside<'a> {
    /// Searches for a bound on all of them, within this budget.
    pub budget: Option<Budget>,
    /// Records how busy links were.
    pub link_use: bool,
    /// Hands back when each flow ended.
    pub flow_ends: bool,
    /// Keeps each run.
    pub keep: Option<Keep<'a>>,
    /// Schedules that were made elsewhere, to stand behind the runs.
    pub schedules: Vec<Elsewhere>,
}

/// The runs of a comparison, and what is missing.
pub struct Compared {
    /// The runs that are done.
    pub comparison: Comparison,
    /// For each of them the name of its folder, where runs are kept.
    pub(crate) folders: Vec<String>,
    /// For each of them when each flow ended, since the first arrival, where that was asked for.
    pub flow_ends: Vec<Vec<cavalcade_model::Instant>>,
    /// The labels of those that are not, because the comparison was cancelled while others were
    /// kept.
    pub missing: Vec<String>,
}

/// Runs all `scenarios` on all cores and compares them with the one at `baseline`.
///
/// # Errors
/// If they differ in anything but engine and policy, no scenario is at `baseline`, an engine cannot
/// run a policy, or a run fails.
pub fn compare(scenarios: &[Scenario], baseline: usize) -> Result<Comparison, Error> {
    Ok(compare_with(scenarios, baseline, &Beside::default(), &Progress::default())?.comparison)
}

/// [`compare`], and what stands `beside` it. Where runs are kept and the comparison is cancelled,
/// those that are done are compared with each other, without a bound.
///
/// # Errors
/// As [`compare`], where it was cancelled before a run was kept, where a run cannot be kept, and
/// where one is below the bound.
pub fn compare_with(
    scenarios: &[Scenario],
    baseline: usize,
    beside: &Beside<'_>,
    progress: &Progress,
) -> Result<Compared, Error> {
    alike(scenarios, baseline)?;
    scenarios.iter().try_for_each(Scenario::check)?;
    let names = run_folders(&labels_of(scenarios));
    let search = beside.budget.map(Job::Search).into_iter();
    let mut jobs: Vec<Job<'_>> = search.chain(scenarios.iter().enumerate().map(Job::Run)).collect();
    jobs.sort_by_key(Job::turn);
    if beside.keep.is_some() {
        // Cheap runs first: a user who cancels during the slow ones keeps all the others.
        jobs.reverse();
    }
    let found = OnceLock::new();
    let runs = map(jobs.len(), |index| match jobs[index] {
        Job::Search(budget) => {
            found.get_or_init(|| bound_of(&scenarios[0], budget, progress));
            None
        }
        Job::Run((rank, scenario)) => {
            let watch = Watch { progress: Some(progress), link_use: beside.link_use, ..Watch::default() };
            let finished = match &beside.keep {
                Some(keep) => keep.run(scenario, &names[rank], watch),
                None => timed(scenario, watch),
            };
            Some((rank, finished))
        }
    });
    let mut runs: Vec<_> = runs.into_iter().flatten().collect();
    runs.sort_by_key(|&(rank, _)| rank);
    let are_done = runs.iter().all(|(_, finished)| finished.is_ok());
    let runs = runs.into_iter().map(|(_, finished)| finished);
    if beside.keep.is_some() && progress.is_cancelled() && !are_done {
        return what_is_done(scenarios, baseline, names, runs, &beside.schedules);
    }
    let (finished, bound) = (runs.collect::<Result<Vec<Finished>, _>>()?, found.into_inner());
    let ends = |run: &Finished| run.outcome.flow_finish.clone();
    let flow_ends = if beside.flow_ends { finished.iter().map(ends).collect() } else { Vec::new() };
    let comparison = analysed(scenarios, finished, &beside.schedules, baseline, bound)?;
    check_bound(&comparison)?;
    Ok(Compared { comparison, folders: names, flow_ends, missing: Vec::new() })
}

fn timed(scenario: &Scenario, watch: Watch<'_, '_>) -> Result<Finished, Error> {
    let start = Instant::now();
    let outcome = scenario.run_with(watch)?;
    Ok(Finished { outcome, wall_s: start.elapsed().as_secs_f64() })
}

/// Compares the runs that were done before the cancellation, with the first where the baseline is
/// not among them.
fn what_is_done(
    scenarios: &[Scenario],
    baseline: usize,
    names: Vec<String>,
    runs: impl Iterator<Item = Result<Finished, Error>>,
    schedules: &[Elsewhere],
) -> Result<Compared, Error> {
    let (mut done, mut finished, mut missing, mut place) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let (mut labels, mut folders, mut cancelled) = (Vec::new(), Vec::new(), None);
    for (((rank, label), name), run) in labels_of(scenarios).into_iter().enumerate().zip(names).zip(runs) {
        match run {
            Ok(run) => {
                if rank == baseline {
                    place = done.len();
                }
                done.push(scenarios[rank].clone());
                finished.push(run);
                labels.push(label);
                folders.push(name);
            }
            Err(error) if error.code() == Kind::Interrupted as u8 => {
                missing.push(label);
                cancelled.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = cancelled.filter(|_| done.is_empty()) {
        return Err(error);
    }
    let mut comparison = analysed(&done, finished, schedules, place, None)?;
    // As they are called among all.
    comparison.runs.iter_mut().zip(labels).for_each(|(run, label)| run.label = label);
    Ok(Compared { comparison, folders, flow_ends: Vec::new(), missing })
}

fn labels_of(scenarios: &[Scenario]) -> Vec<String> {
    let named: Vec<_> = scenarios.iter().map(|scenario| (scenario.policy(), scenario.engine())).collect();
    labels(&named)
}

/// Checks that no run is below the bound: that would be a mistake of this program, and none of the
/// figures could be trusted.
fn check_bound(comparison: &Comparison) -> Result<(), Error> {
    let Some(bound) = &comparison.bound else { return Ok(()) };
    let Some(run) = comparison.runs.iter().find(|run| bound.is_broken_by(comparison.times(run))) else {
        return Ok(());
    };
    let (mean, least) = (comparison.summary(run).mean_s, bound.mean);
    let time = comparison.ranked().time();
    let problem = format!(
        "{} has a mean {time} of {mean} s, below the proven bound of {least:?}: this is a mistake of Cavalcade",
        run.label
    );
    Err(Error::new(Kind::Runtime, problem)
        .help("report it with the trace; a comparison without a bound shows the figures"))
}

/// Checks that figures of `scenarios` can stand beside each other.
fn alike(scenarios: &[Scenario], baseline: usize) -> Result<&Scenario, Error> {
    let Some(base) = scenarios.get(baseline) else {
        return Err(Error::usage(format!("run {baseline} of {} is the baseline", scenarios.len()))
            .help("count runs from 0"));
    };
    let different = scenarios.iter().find_map(|scenario| Some((scenario, base.difference(scenario)?)));
    match different {
        None => Ok(base),
        Some((scenario, what)) => Err(Error::usage(format!(
            "{} and {} have different {what}: their figures say nothing about policies",
            base.label(),
            scenario.label()
        ))
        .help("compare runs of one workload under the same conditions")),
    }
}

/// Compares runs that are done, one of each of `scenarios`.
///
/// # Errors
/// If the scenarios differ in anything but engine and policy, no scenario is at `baseline`, or
/// there is not one run for each.
pub fn analyse(
    scenarios: &[Scenario],
    finished: Vec<Finished>,
    baseline: usize,
    bound: Option<LowerBound>,
) -> Result<Comparison, Error> {
    analysed(scenarios, finished, &[], baseline, bound)
}

/// [`analyse`], with schedules that were made elsewhere behind the runs.
fn analysed(
    scenarios: &[Scenario],
    finished: Vec<Finished>,
    schedules: &[Elsewhere],
    baseline: usize,
    bound: Option<LowerBound>,
) -> Result<Comparison, Error> {
    let base = alike(scenarios, baseline)?;
    if scenarios.len() != finished.len() {
        let (runs, of) = (finished.len(), scenarios.len());
        return Err(Error::usage(format!("there are {runs} runs of {of} scenarios: expected one for each")));
    }
    let labels = labels_of(scenarios);
    let runs: Vec<RunResult> = scenarios
        .iter()
        .zip(finished)
        .zip(labels)
        .map(|((scenario, Finished { outcome, wall_s }), label)| RunResult {
            label,
            policy: scenario.policy().map_or(String::new(), |policy| policy.name().to_owned()),
            params: scenario.policy().map_or(Vec::new(), |policy| policy.params().to_vec()),
            about: scenario.policy().map(Policy::about).unwrap_or_default(),
            named: false,
            transport: scenario.engine().transport(),
            control: scenario.engine().control(),
            outcome,
            wall_s,
        })
        .chain(schedules.iter().map(Elsewhere::result))
        .collect();
    let mut comparison = cavalcade_metrics::analyse(base.workload(), base.fabric(), &runs, baseline)?;
    comparison.bound = bound;
    Ok(comparison)
}

/// Names runs for tables: the policy, with the engine behind it where others run on another.
pub fn labels(runs: &[(Option<&Policy>, &Engine)]) -> Vec<String> {
    let differ = runs.windows(2).any(|pair| pair[0].1 != pair[1].1);
    let label =
        |&(policy, engine): &(Option<&Policy>, &Engine)| match (policy.map(Policy::label), engine.name()) {
            (Some(policy), Some(engine)) if differ => format!("{policy}/{engine}"),
            (Some(policy), _) => policy.to_owned(),
            (None, engine) => format!("over {}", engine.unwrap_or_default()),
        };
    runs.iter().map(label).collect()
}

/// A run, or the search beside them.
#[derive(Clone, Copy)]
enum Job<'a> {
    Search(Budget),
    /// A run, and its place among the others.
    Run((usize, &'a Scenario)),
}

impl Job<'_> {
    /// The rank by which jobs begin: what takes longest goes first, so that no core is left with it
    /// in the end. Policies that decide in many places take longest by far.
    fn turn(&self) -> u8 {
        match self {
            Job::Run((_, scenario)) if *scenario.engine() != Engine::Fluid => 0,
            Job::Run((_, scenario))
                if scenario.policy().is_some_and(|policy| policy.terms().scope != Scope::Fabric) =>
            {
                0
            }
            Job::Search(_) => 1,
            Job::Run(_) => 2,
        }
    }
}

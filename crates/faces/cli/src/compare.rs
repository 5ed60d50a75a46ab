//! `cavalcade compare`: several policies over one trace, and which of them finishes coflows sooner.

mod streamed;

use std::path::Path;

use cavalcade::kept::{Keep, interrupted};
use cavalcade::manifest::TraceRecord;
use cavalcade::output::{Folder, check_writable, write_file};
use cavalcade::{
    Beside, Choice, Compared, Comparison, Elsewhere, Engine, Progress, Runnable, Scenario,
    budget_beside_runs, compare_with, details_of, labels, run_conditions,
};
use cavalcade_metrics::{Assertion, AssertionError, Quantity, Verdict};
use cavalcade_report::{ReportInfo, TableOptions};

use crate::arguments::Compare;
use crate::engines;
use crate::failure::{Failure, Kind};
use crate::input::read;
use crate::interrupt;
use crate::output::{print, tell};
use crate::policies::{note_unlisted, selected};
use crate::progress::watched;
use crate::recorded::OnRecord;
use crate::terminal::fit;

/// Runs the command.
///
/// # Errors
/// If an argument or the trace is not valid, an output cannot be written, or a claim does not hold.
pub(crate) fn run(options: &Compare) -> Result<(), Failure> {
    if options.stream {
        return streamed::run(options);
    }
    // All that can be wrong with the command line comes before the trace is read.
    let (mut choices, mut baseline) = selected(&options.selection)?;
    let engines = engines::selected(&options.engine)?;
    options.conditions.of_run()?;
    let setups = setups(&choices, &engines);
    if options.dump_schedule && setups.iter().any(|(_, engine)| *engine != Engine::Fluid) {
        return Err(no_rates());
    }
    let names = names(&setups);
    let schedules = named_schedules(&options.schedule, &names)?;
    let claims = claims(&options.claims, &names, &schedules)?;
    options.report.iter().try_for_each(|path| check_writable(path))?;
    let folder = options.out.as_deref().map(Folder::create).transpose()?;
    let source = options.input.open()?;
    let (reading, _notes) = read(&source, options.input.format).map_err(streamed::instead)?;
    streamed::note_size(&reading);
    let recorded = OnRecord::of(&reading, &options.conditions)?;
    let has_fair = choices.iter().any(|choice| choice.label() == Choice::BASELINE);
    if recorded.is_some() && options.selection.baseline.is_none() && !has_fair {
        // What is saved is saved over what the application had.
        baseline = choices.len();
        choices.push(Choice::named(Choice::BASELINE)?);
        tell("The log was recorded under TCP, so fair is compared as well, as the baseline.");
    }
    let mut conditions = options.conditions.clone();
    conditions.rate = recorded.as_ref().map(OnRecord::rate).or(conditions.rate);
    let scenario = Scenario::new(reading.workload, conditions.of_run()?)?;
    let Runnable { scenarios, named, baseline, .. } = runnable(&scenario, &choices, &engines, baseline)?;
    note_unlisted(&scenarios)?;
    let budget = match options.bound {
        Some(budget) => Some(budget),
        None if options.no_bound || options.json => None,
        None => Some(budget_beside_runs(scenario.workload())),
    };
    let schedules = schedules
        .into_iter()
        .map(|(name, path)| Elsewhere::read(name, path, &scenario))
        .collect::<Result<Vec<_>, _>>()?;
    let keep = folder.as_ref().map(|folder| {
        let trace = TraceRecord::new(&source, reading.format)?;
        Keep::new(folder, trace, options.dump_schedule)
    });
    let (link_use, keep) = (options.report.is_some(), keep.transpose()?);
    let beside = Beside { budget, link_use, keep, schedules, ..Beside::default() };
    let mut compared = run_all(&scenarios, baseline, &beside)?;
    if let Some(keep) = &beside.keep {
        keep.write_tables(&compared)?;
    }
    if let Some(folder) = folder {
        let out = folder.keep()?;
        if !compared.missing.is_empty() {
            return Err(interrupted(&out, &compared));
        }
        tell(&format!(
            "All runs are in {0}; 'cavalcade replay' reproduces any of {0}/runs, and {0}/runs.csv lists them.",
            out.display()
        ));
    }
    let comparison = &mut compared.comparison;
    if let Some(recorded) = recorded {
        recorded.add_to(comparison)?;
    }
    comparison.runs.iter_mut().zip(named).for_each(|(run, named)| run.named = named);
    if options.report.is_some() {
        look_closer(&scenarios, comparison)?;
    }
    if options.json {
        let conditions = run_conditions(source.name(), scenario.conditions());
        print(&cavalcade_report::json(comparison, &conditions))?;
    } else {
        let fit = fit(options.room.wide);
        print_text(comparison, TableOptions { by_bin: options.by_bin, fit })?;
    }
    if let Some(path) = &options.report {
        let info = ReportInfo {
            command: command_line(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trace: source.name().to_owned(),
            seed: None,
        };
        write_report(path, comparison, &info)?;
    }
    check(&claims, comparison)
}

/// Prints the tables: what was recorded first, and ratios of coflows only where the network
/// matters.
fn print_text(comparison: &Comparison, options: TableOptions) -> Result<(), Failure> {
    print(&cavalcade_report::savings(comparison, options.fit))?;
    match &comparison.savings {
        Some(savings) if !savings.whole().waits_for_network => {}
        Some(_) => print(&format!("\n{}", cavalcade_report::table(comparison, options)))?,
        None => print(&cavalcade_report::table(comparison, options))?,
    }
    print(&cavalcade_report::after_savings(comparison, options.fit))
}

/// The error that runs have no schedule to write.
pub(crate) fn no_rates() -> Failure {
    Failure::usage("--dump-schedule: only the fluid engine has rates to write".to_owned())
        .help("leave it out, or leave out --engine")
}

/// A policy and an engine: what stands beside others in a comparison.
type Setup<'a> = (&'a Choice, Engine);

/// Combines each choice with each engine, or with its own transport.
fn setups<'a>(choices: &'a [Choice], engines: &[Engine]) -> Vec<Setup<'a>> {
    let of = |choice: &'a Choice| choice.engines(engines).into_iter().map(move |engine| (choice, engine));
    choices.iter().flat_map(of).collect()
}

/// Finds what can be run of `choices`, and says what is left out.
///
/// # Errors
/// If one that is named cannot be run.
pub(crate) fn runnable(
    scenario: &Scenario,
    choices: &[Choice],
    engines: &[Engine],
    baseline: usize,
) -> Result<Runnable, Failure> {
    let found = Runnable::of(scenario, choices, engines, baseline)?;
    note_costly(&found.costly, "of this size");
    if !found.unfit.is_empty() {
        tell(&format!("Left out because they cannot run on this fabric: {}.", found.unfit.join(", ")));
    }
    Ok(found)
}

/// Says which policies of a set are left out because of their cost on such a trace, and what stands
/// for them.
fn note_costly(costly: &[(String, Option<String>)], trace: &str) {
    if costly.is_empty() {
        return;
    }
    let said = |(name, instead): &(String, Option<String>)| match instead {
        Some(other) => format!("{name}, for which {other} stands"),
        None => name.clone(),
    };
    let names: Vec<&str> = costly.iter().map(|(name, _)| name.as_str()).collect();
    tell(&format!(
        "Left out because of their cost on a trace {trace}: {}. To run them as well: --policies default,{}",
        costly.iter().map(said).collect::<Vec<_>>().join("; "),
        names.join(",")
    ));
}

/// Runs all `scenarios` on all cores, and what stands `beside` them. Where runs are kept, an
/// interrupt ends those that go on.
///
/// # Errors
/// If a scenario cannot be run or kept.
pub(crate) fn run_all(
    scenarios: &[Scenario],
    baseline: usize,
    beside: &Beside<'_>,
) -> Result<Compared, Failure> {
    let jobs = scenarios.len() + usize::from(beside.budget.is_some());
    let coflows = scenarios.first().map_or(0, |scenario| scenario.workload().coflow_count());
    let run = |progress: &Progress| compare_with(scenarios, baseline, beside, progress);
    if beside.keep.is_none() {
        return watched(jobs * coflows, run);
    }
    interrupt::stops(|_| {
        watched(jobs * coflows, |progress| {
            progress.stop_at(interrupt::flag());
            run(progress)
        })
    })
}

/// Adds coflows up close for a report, where the workload is small enough.
///
/// # Errors
/// If a run fails that has not failed before.
pub(crate) fn look_closer(scenarios: &[Scenario], comparison: &mut Comparison) -> Result<(), Failure> {
    let units = comparison.featured().len() * comparison.coflows.len();
    comparison.details = Some(watched(units, |progress| details_of(scenarios, comparison, progress))?);
    Ok(())
}

/// Writes the report, whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_report(path: &Path, comparison: &Comparison, info: &ReportInfo) -> Result<(), Failure> {
    let page = cavalcade_report::html(comparison, info);
    write_file(path, |out| out.write_all(page.as_bytes()))
}

/// The command line that was given, as a shell would take it.
fn command_line() -> String {
    let quoted = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("cavalcade".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// What runs may be called: their labels, and the names of their policies.
fn names(setups: &[Setup<'_>]) -> Vec<String> {
    let runs: Vec<_> = setups.iter().map(|(choice, engine)| (choice.policy.as_ref(), engine)).collect();
    let policies = runs.iter().filter_map(|(policy, _)| Some(policy.as_ref()?.name().to_owned()));
    labels(&runs).into_iter().chain(policies).collect()
}

/// Reads names and files of schedules that were made elsewhere, and refuses a name that a policy
/// has or that is there twice.
fn named_schedules<'a>(texts: &'a [String], names: &[String]) -> Result<Vec<(&'a str, &'a Path)>, Failure> {
    let mut named: Vec<(&str, &Path)> = Vec::new();
    for text in texts {
        let fault = |what: &str| Failure::usage(format!("--schedule {text}: {what}"));
        let (name, path) = match text.split_once('=') {
            Some((name, path)) if !name.trim().is_empty() && !path.is_empty() => (name.trim(), path),
            _ => return Err(fault("expected NAME=FILE").help("name the row, as in theirs=schedule.csv")),
        };
        if names.iter().any(|known| known == name) || named.iter().any(|(known, _)| *known == name) {
            return Err(fault("another row has this name").help("give it another"));
        }
        named.push((name, Path::new(path)));
    }
    Ok(named)
}

/// Reads the claims, and refuses one about a policy that is not among those that are run.
fn claims(
    texts: &[String],
    names: &[String],
    schedules: &[(&str, &Path)],
) -> Result<Vec<Assertion>, Failure> {
    let read = |text: &String| {
        let fault = |what: String| Failure::usage(format!("--assert '{text}': {what}"));
        let claim: Assertion = text.parse().map_err(|error: AssertionError| fault(error.to_string()))?;
        let named = match &claim.quantity {
            Quantity::Factor { policy } => Some(policy),
            _ => claim.policy.as_ref(),
        };
        let is_run =
            |name: &String| names.contains(name) || schedules.iter().any(|(schedule, _)| schedule == name);
        match named.filter(|name| !is_run(name)) {
            Some(name) => {
                Err(fault(format!("{name} is not among the policies")).help("add it with --policy"))
            }
            None => Ok(claim),
        }
    };
    texts.iter().map(read).collect()
}

/// Holds the claims against what came out; all that do not hold are named.
fn check(claims: &[Assertion], comparison: &Comparison) -> Result<(), Failure> {
    let mut broken = Vec::new();
    for claim in claims {
        let checked = claim.check(comparison);
        let Verdict { cases, .. } =
            checked.map_err(|error| Failure::usage(format!("--assert '{claim}': {error}")))?;
        for case in cases.iter().filter(|case| !case.holds) {
            let Assertion { quantity, relation, bound, .. } = claim;
            broken.push(format!("{}: {quantity} is {}, not {relation} {bound}", case.label, case.measured));
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(Failure::new(Kind::Assertion, broken.join("\n"))) }
}

//! `cavalcade compare`: several policies over one trace, and which of them finishes coflows sooner.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use cavalcade_metrics::{
    Assertion, AssertionError, Comparison, Outcome, Quantity, RunResult, Verdict, analyse,
};
use cavalcade_model::{PolicyFactory, Scope};
use cavalcade_policy::Configured;
use cavalcade_report::ReportInfo;

use crate::arguments::Compare;
use crate::budget::Budget;
use crate::carriers::Carrier;
use crate::failure::{Failure, Kind};
use crate::input::Source;
use crate::lower_bound::{budget_beside_runs, lower_bound};
use crate::output::{print, write_file};
use crate::parallel::{map, watched};
use crate::policies::{about, selected};
use crate::recorded::OnRecord;
use crate::scene::Scene;
use crate::terminal::table_options;

/// Runs the command.
///
/// # Errors
/// Where an argument or the trace is not valid, an output cannot be written, or a claim does not hold.
pub(crate) fn run(options: &Compare) -> Result<(), Failure> {
    // All that can be wrong with the command line comes before the trace is read.
    let (policies, baseline) = selected(&options.selection)?;
    let carriers = Carrier::selected(&options.carriage)?;
    let contenders = contenders(&policies, &carriers)?;
    let claims = claims(&options.claims, &contenders)?;
    let source = Source::open(&options.input.trace)?;
    let reading = source.read(options.input.format)?;
    source.tell_all(&reading.notes);
    let recorded = OnRecord::of(&reading, &options.conditions)?;
    let mut conditions = options.conditions.clone();
    conditions.rate = recorded.as_ref().map(OnRecord::rate).or(conditions.rate);
    let scene = Scene::new(reading.workload, conditions)?;
    let budget = match options.bound {
        Some(budget) => Some(budget),
        None if options.no_bound || options.json => None,
        None => Some(budget_beside_runs(&scene.workload)),
    };
    let baseline = baseline * carriers.len();
    let mut comparison = compare(&scene, &contenders, baseline, budget, options.report.is_some())?;
    if let Some(recorded) = recorded {
        recorded.add_to(&mut comparison);
    }
    comparison.runs.iter_mut().for_each(|run| run.named = options.selection.is_made());
    if options.json {
        print(&cavalcade_report::json(&comparison))?;
    } else {
        print_text(&comparison, options.by_bin)?;
    }
    if let Some(path) = &options.report {
        let info = ReportInfo {
            command: command_line(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trace: source.name().to_owned(),
            seed: None,
        };
        write_report(path, &comparison, &info)?;
    }
    check(&claims, &comparison)
}

/// Prints the tables: what was recorded first, and ratios of coflows only where the network matters.
fn print_text(comparison: &Comparison, by_bin: bool) -> Result<(), Failure> {
    let options = table_options(by_bin);
    print(&cavalcade_report::savings(comparison, options.width))?;
    match &comparison.savings {
        Some(savings) if !savings.application.waits_for_network => Ok(()),
        Some(_) => print(&format!("\n{}", cavalcade_report::table(comparison, options))),
        None => print(&cavalcade_report::table(comparison, options)),
    }
}

/// A policy, and what carries the bytes.
#[derive(Clone)]
pub(crate) struct Contender<'a> {
    policy: &'a Configured,
    carrier: Carrier,
    /// Whether others differ from it in what carries them alone.
    has_rivals: bool,
}

impl Contender<'_> {
    /// What tables call it.
    fn label(&self) -> String {
        let policy = self.policy.label();
        match self.carrier.name() {
            Some(carrier) if self.has_rivals => format!("{policy}/{carrier}"),
            _ => policy,
        }
    }
}

/// Each policy over each carrier.
///
/// # Errors
/// Where one cannot be carried.
pub(crate) fn contenders<'a>(
    policies: &'a [Configured],
    carriers: &[Carrier],
) -> Result<Vec<Contender<'a>>, Failure> {
    let mut contenders = Vec::new();
    for policy in policies {
        for carrier in carriers {
            let carrier = carrier.of(policy);
            carrier.check(policy)?;
            contenders.push(Contender { policy, carrier, has_rivals: false });
        }
    }
    let has_rivals = contenders.windows(2).any(|pair| pair[0].carrier.name() != pair[1].carrier.name());
    contenders.iter_mut().for_each(|contender| contender.has_rivals = has_rivals || carriers.len() > 1);
    Ok(contenders)
}

/// Runs all `contenders` on all cores, and with a `budget` searches for a bound on all of them beside that. `link_use` records
/// how busy links were.
///
/// # Errors
/// Where a run is asked for as it cannot be.
pub(crate) fn compare(
    scene: &Scene,
    contenders: &[Contender<'_>],
    baseline: usize,
    budget: Option<Budget>,
    link_use: bool,
) -> Result<Comparison, Failure> {
    let search = budget.map(Job::Search).into_iter();
    let mut jobs: Vec<Job<'_>> = search.chain(contenders.iter().enumerate().map(Job::Run)).collect();
    jobs.sort_by_key(Job::turn);
    let found = OnceLock::new();
    let runs = watched(jobs.len() * scene.workload.coflow_count(), |progress| {
        map(jobs.len(), |index| match jobs[index] {
            Job::Search(budget) => {
                found.get_or_init(|| lower_bound(scene, budget, progress));
                None
            }
            Job::Run((rank, contender)) => {
                let start = Instant::now();
                let outcome = contender.carrier.run(scene, contender.policy, link_use, None, progress);
                let wall_s = || start.elapsed().as_secs_f64();
                Some(outcome.map(|outcome| (rank, result(contender, outcome, wall_s()))))
            }
        })
    });
    let mut runs = runs.into_iter().flatten().collect::<Result<Vec<(usize, RunResult)>, Failure>>()?;
    runs.sort_by_key(|&(rank, _)| rank);
    let runs: Vec<RunResult> = runs.into_iter().map(|(_, run)| run).collect();
    let mut comparison = analyse(&scene.workload, &scene.fabric, &runs, baseline);
    comparison.bound = found.into_inner();
    Ok(comparison)
}

/// What is done beside the others.
#[derive(Clone, Copy)]
enum Job<'a> {
    Search(Budget),
    /// A run, and where it stands among the others.
    Run((usize, &'a Contender<'a>)),
}

impl Job<'_> {
    /// Who begins first: what takes longest, so that no core is left with it in the end. Policies that decide in many
    /// places take longest by far.
    fn turn(&self) -> u8 {
        match self {
            Job::Run((_, contender)) if contender.carrier != Carrier::Fluid => 0,
            Job::Run((_, contender)) if contender.policy.terms().scope != Scope::Fabric => 0,
            Job::Search(_) => 1,
            Job::Run(_) => 2,
        }
    }
}

/// A finished run with what it is called and the seconds that it took.
pub(crate) fn result(contender: &Contender<'_>, outcome: Outcome, wall_s: f64) -> RunResult {
    let policy = contender.policy;
    RunResult {
        label: contender.label(),
        policy: policy.name().to_owned(),
        params: policy.params().into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        about: about(policy),
        named: false,
        transport: contender.carrier.facts(),
        control: contender.carrier.control(),
        outcome,
        wall_s,
    }
}

/// Writes the report, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
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

/// Reads the claims, and refuses one about a policy that is not among `contenders`.
fn claims(texts: &[String], contenders: &[Contender<'_>]) -> Result<Vec<Assertion>, Failure> {
    let read = |text: &String| {
        let fault = |what: String| Failure::usage(format!("--assert '{text}': {what}"));
        let claim: Assertion = text.parse().map_err(|error: AssertionError| fault(error.to_string()))?;
        let named = match &claim.quantity {
            Quantity::Factor { policy } => Some(policy),
            _ => claim.policy.as_ref(),
        };
        let is_run =
            |name: &String| contenders.iter().any(|run| run.label() == *name || run.policy.name() == name);
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

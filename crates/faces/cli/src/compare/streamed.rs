//! `cavalcade compare --stream`: traces that do not fit into memory.

use cavalcade::kept::write_tables;
use cavalcade::output::Folder;
use cavalcade::{Afforded, Choice, Engine, Stream, labels, run_conditions};
use cavalcade_report::TableOptions;
use cavalcade_trace::Reading;

use super::{check, claims, note_costly, print_text};
use crate::arguments::Compare;
use crate::engines;
use crate::failure::Failure;
use crate::output::{print, tell};
use crate::policies::selected;
use crate::progress::watched;
use crate::terminal::fit;

/// The flows from which it is said what a run holds.
const MANY: usize = 20_000_000;

/// Bytes of memory that a run over a whole trace takes for a flow, at least.
const FOR_EACH: usize = 100;

/// Runs the command.
///
/// # Errors
/// If an argument or the trace is not valid, an output cannot be written, or a claim does not hold.
pub(super) fn run(options: &Compare) -> Result<(), Failure> {
    let (choices, baseline) = selected(&options.selection)?;
    if engines::selected(&options.engine)?.iter().any(|engine| *engine != Engine::Fluid) {
        return Err(Failure::usage("--stream: only the fluid engine reads a trace as it goes")
            .help("leave it out, or leave out --engine and --transport"));
    }
    let Afforded { choices, baseline, costly } = Afforded::of_stream(&choices, baseline);
    let policies = choices.iter().map(policy).collect::<Result<Vec<_>, _>>()?;
    let named: Vec<_> = policies.iter().map(|policy| (Some(policy), &Engine::Fluid)).collect();
    let names: Vec<String> =
        labels(&named).into_iter().chain(policies.iter().map(|policy| policy.name().to_owned())).collect();
    let claims = claims(&options.claims, &names, &[])?;
    let conditions = options.conditions.of_run()?;
    let folder = options.out.as_deref().map(Folder::create).transpose()?;
    let source = options.input.open()?;
    let stream = Stream::open(&source, options.input.format, conditions)?;
    policies.iter().try_for_each(|policy| stream.check(policy))?;
    note_costly(&costly, "that is read as it goes");
    let units = stream.coflows().saturating_mul(1 + policies.len());
    let mut compared = watched(units, |progress| stream.compare(&policies, baseline, progress))?;
    let runs = compared.comparison.runs.iter_mut();
    runs.zip(&choices).for_each(|(run, choice)| run.named = choice.is_named());
    if let Some(folder) = folder {
        write_tables(&folder, &compared)?;
        let out = folder.keep()?;
        tell(&format!("The tables of all runs are in {}.", out.display()));
    }
    let comparison = &compared.comparison;
    if options.json {
        print(&cavalcade_report::json(comparison, &run_conditions(source.name(), stream.conditions())))?;
    } else {
        let fit = fit(options.room.wide);
        print_text(comparison, TableOptions { by_bin: options.by_bin, fit })?;
    }
    check(&claims, comparison)
}

/// The policy of a choice, which a transport may not order.
fn policy(choice: &Choice) -> Result<cavalcade::Policy, Failure> {
    match (&choice.policy, &choice.transport) {
        (Some(policy), None) => Ok(policy.clone()),
        _ => {
            let problem = format!(
                "--stream: {} needs packets, and only the fluid engine reads a trace as it goes",
                choice.label()
            );
            Err(Failure::usage(problem).help("leave out the transport, or --stream"))
        }
    }
}

/// Adds to the failure that a trace is too large how it can be run.
pub(super) fn instead(failure: Failure) -> Failure {
    if failure.is_too_large() {
        failure.help("or read it as it goes").with_option("stream", "")
    } else {
        failure
    }
}

/// Says what runs over a large trace hold, and how they hold less.
pub(super) fn note_size(reading: &Reading) {
    let flows = reading.workload.flows().len();
    if flows >= MANY && reading.format.is_streamed() {
        tell(&format!(
            "Each run holds all {} million flows, {} GB or more; with --stream it holds those that are under way.",
            flows / 1_000_000,
            (flows * FOR_EACH).div_ceil(1_000_000_000)
        ));
    }
}

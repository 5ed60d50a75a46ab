//! `cavalcade fault`: the control plane while everything around it breaks, one run for each seed.

use std::fmt::Write as _;

use cavalcade::model::Workload;
use cavalcade::{Progress, Source};
use cavalcade_sim_control::fault::{Account, Bug, Violation, run as run_seed};
use serde_json::json;

use crate::arguments::Fault;
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::progress::watched;

/// Runs the command.
///
/// # Errors
/// With exit code 4 where something happened that must not; 2 where the bug is unknown.
pub(crate) fn run(options: &Fault) -> Result<(), Failure> {
    let bug = options.plant.as_deref().map(bug).transpose()?;
    let workload = options.trace.as_deref().map(|path| Source::open(path)?.read(None)).transpose()?;
    let workload = workload.map(|read| read.workload);
    let workload = workload.as_ref();
    if options.seeds == 1 && !options.json {
        return one(options, bug, workload);
    }
    let seeds = usize::try_from(options.seeds).unwrap_or(usize::MAX);
    let total = watched(seeds, |progress| several(options, bug, workload, progress))?;
    if options.json {
        let document = json!({
            "schema_version": 1,
            "seed": options.seed,
            "seeds": options.seeds,
            "held": true,
            "faults": total.faults,
            "messages": total.messages,
            "lost": total.lost,
            "fallbacks": total.fallbacks,
        });
        return print(&format!("{document}\n"));
    }
    print(&format!(
        "{} seeds from {}: everything held\n{} faults, {} messages of which {} were lost, {} fallbacks to plain TCP\n",
        options.seeds, options.seed, total.faults, total.messages, total.lost, total.fallbacks
    ))
}

/// Runs all seeds and sums up what happened, up to the first that something must not happen in.
fn several(
    options: &Fault,
    bug: Option<Bug>,
    workload: Option<&Workload>,
    progress: &Progress,
) -> Result<Account, Failure> {
    let mut total = Account::default();
    for seed in options.seed..options.seed.saturating_add(options.seeds) {
        let account =
            run_seed(seed, bug, workload).map_err(|found| failure(options, seed, &found.0, &found.1))?;
        total.messages += account.messages;
        total.lost += account.lost;
        total.faults += account.faults;
        total.fallbacks += account.fallbacks;
        progress.add(1);
    }
    Ok(total)
}

/// Runs one seed and prints all that broke.
fn one(options: &Fault, bug: Option<Bug>, workload: Option<&Workload>) -> Result<(), Failure> {
    let seed = options.seed;
    let (account, violation) = match run_seed(seed, bug, workload) {
        Ok(account) => (account, None),
        Err(found) => (found.1, Some(found.0)),
    };
    print(&shown(seed, &account))?;
    match violation {
        None => print("everything held\n"),
        Some(violation) => Err(failure(options, seed, &violation, &account)),
    }
}

fn shown(seed: u64, account: &Account) -> String {
    let mut text = String::new();
    let Account { policy, end, coflows, flows, messages, lost, doubled, faults, terms, fallbacks, .. } =
        account;
    let end_ms = end.0 / 1_000_000;
    let additions = match account.additions.join(", ") {
        none if none.is_empty() => "none".to_owned(),
        some => some,
    };
    let lines = [
        format!("seed       {seed}"),
        format!("policy     {policy}"),
        format!("additions  {additions}"),
        format!("workload   {coflows} coflows, {flows} flows; the last byte arrived at {end_ms} ms"),
        format!("messages   {messages}, of which {lost} were lost and {doubled} came twice"),
        format!("faults     {faults}; {terms} terms of coordinators, {fallbacks} fallbacks to plain TCP"),
    ];
    for line in lines.iter().chain(&account.log) {
        writeln!(text, "{line}").expect("a string takes all text");
    }
    text
}

fn failure(options: &Fault, seed: u64, violation: &Violation, account: &Account) -> Failure {
    let planted = options.plant.as_ref().map(|name| format!(" --plant {name}")).unwrap_or_default();
    let trace = options.trace.as_ref().map(|path| format!(" --trace {}", path.display())).unwrap_or_default();
    Failure::new(Kind::Assertion, format!("seed {seed}, {}: {violation}", account.policy))
        .help(format!("'cavalcade fault --seed {seed}{trace}{planted}' shows what broke before"))
}

fn bug(name: &str) -> Result<Bug, Failure> {
    let found = Bug::ALL.iter().find(|(known, _)| *known == name);
    found.map(|(_, bug)| *bug).ok_or_else(|| {
        let known: Vec<&str> = Bug::ALL.iter().map(|(name, _)| *name).collect();
        Failure::usage(format!("there is no bug {name} to plant"))
            .help(format!("plant one of {}", known.join(", ")))
    })
}

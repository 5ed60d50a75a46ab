//! Every development task, as `cargo xtask …`: what CI runs is what a developer runs, with nothing
//! hidden in between.
//!
//! `cargo xtask test` is the whole gate. It goes on after a step has failed, so that one run tells
//! everything that is wrong, and ends with what each step took. Nothing here is clever: each task
//! is the cargo command that a person would type, named once.
//!
//! Rejected: a Makefile or shell scripts (a second language, not checked by anything), and a task
//! runner that would itself have to be installed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a task prints is its product")]

mod api;
mod arrows;
mod bench;
mod debian;
mod deny;
mod features;
mod fetch;
mod fresh;
mod fuzz;
mod growth;
mod instructions;
mod readme;
mod soak;
mod sources;
mod spark;
mod steps;
mod suite;
mod wheel;
mod without_clang;
mod workspace;

use std::process::ExitCode;

use steps::{Failure, Steps};
use workspace::Workspace;

const HELP: &str = "\
cargo xtask TASK

  test            everything below but fresh and bench, as CI runs it; soak for three minutes, spark without faults
  quick           formatting, arrows, and the tests of all that needs no process, namespace or kernel: minutes
  suite           all tests, those that compute beside those that wait
  fetch           the dependencies of all workspaces, for all platforms
  fmt             formatting (add --fix to mend it)
  clippy          lints, warnings as errors
  doc             documentation, warnings as errors
  api             the public interface of the library against api/ (--update rewrites that)
  deny            licences, duplicate and banned dependencies, sources
  arrows          which crate may use which, which may do I/O, what a build without features needs, and how
                  long files are
  fuzz [SECONDS]  every fuzz target for so long (default 60)
  readme          the commands of the README and the tutorial, as they are pasted
  wheel           the package for Python into target/wheels, out of the release build; installs it beside its
                  tools, runs its tests and the notebooks, checks types and style, and tries it on a machine with
                  Python and nothing else (--build only builds; --clean only tries what is built; --portable builds
                  for glibc 2.28, and --portable aarch64 for that processor)
  experiments     one seed of the cheap experiments gives the rows that are kept; their pages are up to date
  instructions    instructions of small runs against the committed counts (--update rewrites those); needs valgrind
  without-clang   a build without clang says that it has no programs for the kernel, and does all else
  spark           the plugin in the oldest and the newest Spark that it is for, rows compared with stock Spark's, also
                  with executors killed and agents that hang in mid-shuffle (with --briefly without that, with --program
                  FILE that cavalcade); needs a JDK, Maven and Python 3, and fetches 750 MB once
  fresh           the README's commands as on a new machine: a fresh clone, empty homes, nothing cached
                  (with COMMAND… those; with --homes only what fetches)
  soak            the live system for 20 minutes while everything around it breaks (--minutes N; --record writes
                  docs/soak.md); needs root for network namespaces
  bench           CPU seconds of each policy on the Facebook trace against its target (growth: how CPU seconds and
                  memory grow with a trace, up to 100,000 coflows or the number given; --record writes
                  docs/growth.md, and takes an hour)
  help            this text

`cargo xtask test` builds what it needs (cargo-deny, once) into the target directory.";

/// Inputs that each fuzz target tries inside `cargo xtask test`, the same each time: what is new is
/// found by longer runs.
const BRIEF_FUZZ_RUNS: u32 = 30_000;
/// The step that tries the package on a machine with Python and nothing else.
const CLEAN: &str = "the package for Python on a clean machine";
/// Seconds that each fuzz target gets by default.
const LONG_FUZZ_SECONDS: u32 = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[&str]) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    match words {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        ["test"] => test(workspace),
        ["quick"] => {
            fmt(&workspace)?;
            arrows(&workspace)?;
            suite::quick(&workspace)
        }
        ["suite"] => suite::run(&workspace, &mut Vec::new()),
        ["fmt"] => fmt(&workspace),
        ["fmt", "--fix"] => workspace.cargo(&["fmt", "--all"]).check(),
        ["clippy"] => clippy(&workspace),
        ["doc"] => doc(&workspace),
        ["fetch"] => fetch::all(&workspace),
        ["api"] => api::check(&workspace),
        ["api", "--update"] => api::update(&workspace),
        ["deny"] => {
            fetch::all(&workspace)?;
            deny::check(&workspace, &deny::installed(&workspace)?, |run| run)
        }
        ["fresh", "--homes"] => fresh::fetching(&workspace, &deny::installed(&workspace)?),
        ["fresh", commands @ ..] => fresh::whole(&workspace, commands),
        ["arrows"] => arrows(&workspace),
        ["fuzz"] => fuzz::run(&workspace, fuzz::Budget::Seconds(LONG_FUZZ_SECONDS)),
        ["fuzz", seconds] => match seconds.parse() {
            Ok(seconds) => fuzz::run(&workspace, fuzz::Budget::Seconds(seconds)),
            Err(_) => Err(Failure::new(format!("'{seconds}' is not a number of seconds"))),
        },
        ["readme"] => readme::check(&workspace).and_then(|()| readme::tutorial(&workspace)),
        ["wheel"] => match wheel::missing() {
            Some(needs) => Err(Failure::new(format!("this needs {needs}"))),
            None => wheel(&workspace),
        },
        ["wheel", "--clean"] => match wheel::missing().or(wheel::missing_for_clean()) {
            Some(needs) => Err(Failure::new(format!("this needs {needs}"))),
            None => wheel::fetch(&workspace).and_then(|()| wheel::clean(&workspace)),
        },
        ["wheel", "--build"] => wheel::build(&workspace).map(drop),
        ["wheel", "--portable"] => wheel::build_portable(&workspace, None).map(drop),
        ["wheel", "--portable", machine] => wheel::build_portable(&workspace, Some(machine)).map(drop),
        ["experiments"] => experiments(&workspace),
        ["instructions"] => instructions::check(&workspace),
        ["instructions", "--update"] => instructions::update(&workspace),
        ["without-clang"] => without_clang::check(&workspace),
        ["soak", words @ ..] => soak::dispatch(&workspace, words),
        ["spark"] => match spark::missing() {
            Some(needs) => Err(Failure::new(format!("this needs {needs}"))),
            None => spark::check(&workspace),
        },
        ["spark", "--briefly"] => match spark::missing() {
            Some(needs) => Err(Failure::new(format!("this needs {needs}"))),
            None => spark::fetch(&workspace).and_then(|()| spark::briefly(&workspace)),
        },
        ["spark", "--program", program] => spark::check_with(&workspace, program.as_ref()),
        ["bench"] => bench::run(&workspace),
        ["bench", "growth"] => growth::run(&workspace, usize::MAX, false),
        ["bench", "growth", "--record"] => growth::run(&workspace, usize::MAX, true),
        ["bench", "growth", most] if most.parse::<usize>().is_ok() => {
            growth::run(&workspace, most.parse().unwrap_or(usize::MAX), false)
        }
        _ => Err(Failure::new(format!("no task '{}'\n\n{HELP}", words.join(" ")))),
    }
}

/// Builds the package for Python and tries it here, and where it can be made on a clean machine.
fn wheel(workspace: &Workspace) -> Result<(), Failure> {
    wheel::fetch(workspace)?;
    wheel::check(workspace)?;
    if let Some(needs) = wheel::missing_for_clean() {
        eprintln!("left out: {CLEAN}, which needs {needs}");
        return Ok(());
    }
    wheel::clean(workspace)
}

/// The whole gate, cheapest first. What fetches comes before all else; the rest runs offline, so
/// that a step which needs what no earlier one fetched fails everywhere and not only on a new
/// machine.
fn test(mut workspace: Workspace) -> Result<(), Failure> {
    let mut steps = Steps::default();
    steps.run("fetch", || fetch::all(&workspace));
    let tool = steps.run("install cargo-deny", || deny::installed(&workspace));
    match debian::missing() {
        Some(needs) => steps.leave_out("install from Debian", needs),
        None => {
            steps.run("install from Debian", debian::install);
        }
    }
    let package = match wheel::missing() {
        Some(needs) => Err(needs.to_owned()),
        // Without the index of Python there is nothing to try the package with, and all else still
        // holds.
        None => wheel::fetch(&workspace)
            .map_err(|failure| format!("tools from the Python Package Index: {failure}")),
    };
    let spark = match spark::missing() {
        Some(needs) => Err(needs.to_owned()),
        None => spark::fetch(&workspace).map_err(|failure| {
            format!("Spark from the Python Package Index, and what Maven fetches: {failure}")
        }),
    };
    workspace.go_offline();
    let workspace = &workspace;
    steps.run("fmt", || fmt(workspace));
    steps.run("arrows", || arrows(workspace));
    steps.run("clippy", || clippy(workspace));
    steps.run("doc", || doc(workspace));
    match api::missing(workspace) {
        Some(needs) => steps.leave_out("public interface", &needs),
        None => {
            steps.run("public interface", || api::check(workspace));
        }
    }
    if let Some(tool) = tool {
        steps.run("deny", || deny::check(workspace, &tool, |run| run));
        steps.run("fresh homes", || fresh::fetching(workspace, &tool));
    }
    match fuzz::missing() {
        Some(needs) => steps.leave_out("fuzz, briefly", needs),
        None => {
            steps.run("fuzz, briefly", || fuzz::run(workspace, fuzz::Budget::Runs(BRIEF_FUZZ_RUNS)));
        }
    }
    steps.run("the commands of the README", || readme::check(workspace));
    if fetch::runs("python3", "--version") {
        steps.run("the tutorial", || readme::tutorial(workspace));
    } else {
        steps.leave_out("the tutorial", "Python 3 as 'python3'");
    }
    match package {
        Ok(()) => {
            let is_built = steps.run("the package for Python", || wheel::check(workspace)).is_some();
            match wheel::missing_for_clean() {
                Some(needs) => steps.leave_out(CLEAN, needs),
                // Else that of an earlier run would be tried.
                None if is_built => {
                    steps.run(CLEAN, || wheel::clean(workspace));
                }
                None => {}
            }
        }
        Err(needs) => {
            steps.leave_out("the package for Python", &needs);
            steps.leave_out(CLEAN, &needs);
        }
    }
    match spark {
        Ok(()) => {
            steps.run("the plugin in Spark, briefly", || spark::briefly(workspace));
        }
        Err(needs) => steps.leave_out("the plugin in Spark, briefly", needs),
    }
    steps.run("experiments, briefly", || experiments(workspace));
    match instructions::missing(workspace) {
        Some(needs) => steps.leave_out("instructions", needs),
        None => {
            steps.run("instructions", || instructions::check(workspace));
        }
    }
    steps.run("without clang", || without_clang::check(workspace));
    match soak::missing() {
        Some(needs) => steps.leave_out("soak, briefly", needs),
        None => {
            steps.run("soak, briefly, while tests are built", || soak::beside_a_build(workspace));
        }
    }
    let mut skipped = Vec::new();
    let of_before = steps.run("leftovers of before", || leftovers(workspace));
    steps.run("tests", || suite::run(workspace, &mut skipped));
    if of_before.is_some() {
        steps.run("no leftovers of tests", || match leftovers(workspace)?.as_str() {
            NO_LEFTOVERS => Ok(()),
            found => Err(Failure::new(format!("tests have left behind what was removed now:\n{found}"))),
        });
    }
    skipped.into_iter().for_each(|test| steps.skipped(test));
    steps.finish()
}

/// What `cavalcade doctor` says where it finds nothing.
const NO_LEFTOVERS: &str = "nothing was left behind\n";

/// Removes what killed processes have left behind, and returns what `cavalcade doctor` says of it.
fn leftovers(workspace: &Workspace) -> Result<String, Failure> {
    let doctor = ["run", "-q", "--release", "-p", "cavalcade-cli", "--", "doctor", "--fix-leftovers"];
    workspace.cargo(&doctor).printed()
}

fn fmt(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&["fmt", "--all", "--check"]).check()
}

fn clippy(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).check()
}

fn doc(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").check()
}

fn arrows(workspace: &Workspace) -> Result<(), Failure> {
    let mut faults = arrows::faults(&workspace.packages);
    faults.extend(arrows::mistold(&workspace.read("ARCHITECTURE.md")?));
    faults.extend(sources::faults(&workspace.packages)?);
    faults.extend(features::faults(workspace)?);
    if faults.is_empty() { Ok(()) } else { Err(Failure::new(faults.join("\n"))) }
}

/// Runs one seed of the experiments that are cheap and compares it bit for bit with the rows that
/// are kept; then compares the pages that are kept with those that follow from the rows.
fn experiments(workspace: &Workspace) -> Result<(), Failure> {
    for words in [["run", "--smoke"], ["report", "--check"]] {
        workspace.cargo(&[&["run", "--release", "--", "experiment"], &words[..]].concat()).check()?;
    }
    Ok(())
}

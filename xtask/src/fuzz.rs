//! Fuzzing every target of `fuzz/` with libFuzzer.
//!
//! The targets are built here rather than by cargo-fuzz: the compiler's coverage passes are plain
//! codegen options, so a stable toolchain does, and there is one tool fewer to install. What is
//! lost is the address sanitizer, which finds little in code without `unsafe`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::fetch;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// The flags of a build that libFuzzer can steer, with debug assertions and overflow checks on.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// The target has to be named: without it the flags would also reach build scripts, which cannot
/// link them.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Returns what this machine lacks for fuzzing, if anything.
pub(crate) fn missing() -> Option<&'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Some("x86-64 Linux");
    }
    (!fetch::runs("c++", "--version")).then_some("a C++ compiler as 'c++', for libFuzzer (Debian: g++)")
}

/// Targets that run at the same time: each is one thread.
const AT_ONCE: usize = 2;

/// The length of each target's run.
#[derive(Clone, Copy)]
pub(crate) enum Budget {
    /// The same inputs each time, so that a verdict of `cargo xtask test` does not change from run
    /// to run.
    Runs(u32),
    /// New inputs each time.
    Seconds(u32),
}

impl Budget {
    fn arguments(self) -> Vec<String> {
        match self {
            // Libfuzzer draws a seed of its own where none is given.
            Self::Runs(runs) => vec![format!("-runs={runs}"), "-seed=1".to_owned()],
            Self::Seconds(seconds) => vec![format!("-max_total_time={seconds}")],
        }
    }
}

/// Builds all targets and runs each within `budget`, on top of what earlier runs found.
pub(crate) fn run(workspace: &Workspace, budget: Budget) -> Result<(), Failure> {
    let names = targets(workspace)?;
    let build = workspace.target.join("fuzz");
    workspace
        .cargo(&["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"])
        .args(&["--bins", "--target", TARGET])
        .env("CARGO_TARGET_DIR", &build)
        .env("RUSTFLAGS", COVERAGE)
        .check()?;
    let programs = build.join(TARGET).join("release");
    let turn = &|first: usize| {
        let mut own = names.iter().skip(first).step_by(AT_ONCE);
        own.try_for_each(|name| run_one(workspace, &programs, name, budget))
    };
    thread::scope(|scope| {
        let turns: Vec<_> = (0..AT_ONCE).map(|first| scope.spawn(move || turn(first))).collect();
        turns.into_iter().try_for_each(|turn| turn.join().expect("a turn does not panic"))
    })
}

/// Runs a target within `budget`, on top of what earlier runs found.
fn run_one(workspace: &Workspace, programs: &Path, name: &str, budget: Budget) -> Result<(), Failure> {
    let corpus = workspace.root.join("fuzz/corpus").join(name);
    let artifacts = workspace.root.join("fuzz/artifacts").join(name);
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&artifacts)?;
    let mut command = Command::new(programs.join(name));
    command
        .args(budget.arguments())
        .arg("-print_final_stats=1")
        .arg("-verbosity=0")
        .arg("-rss_limit_mb=2048")
        .arg("-timeout=10")
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(&corpus);
    Run::new(command).check()
}

/// The names of the targets, in order.
fn targets(workspace: &Workspace) -> Result<Vec<String>, Failure> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder)
        .map_err(|error| Failure::new(format!("no fuzz targets in {}: {error}", folder.display())))?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

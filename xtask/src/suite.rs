//! All tests, and those of them that this machine let pass without running them.

use std::ffi::OsStr;
use std::path::Path;

use cavalcade_testing::PREFIX;

use crate::steps::Failure;
use crate::workspace::{Package, Workspace};

const TESTS: &[&str] = &["test", "--workspace", "--no-fail-fast"];

/// The folders of `crates/` that need no process, namespace or kernel, and the crates elsewhere
/// that need none.
const PURE: &[&str] = &["base", "schedule", "simulate", "results", "library"];
const PURE_ELSEWHERE: &[&str] = &["cavalcade-protocol", "cavalcade-control"];

/// Runs the tests of everything that is pure: what somebody who changes a policy, an engine or a
/// figure runs again and again.
pub(crate) fn quick(workspace: &Workspace) -> Result<(), Failure> {
    let is_pure = |package: &&Package| {
        let storey = package.folder.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        PURE_ELSEWHERE.contains(&package.name.as_str()) || storey.is_some_and(|storey| PURE.contains(&storey))
    };
    let packages = workspace.packages.iter().filter(is_pure).flat_map(|package| ["-p", &package.name]);
    let words: Vec<&str> = ["test", "--no-fail-fast"].into_iter().chain(packages).collect();
    workspace.cargo(&words).check()
}

/// Builds all tests.
pub(crate) fn build(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&[TESTS, &["--no-run"]].concat()).check()
}

/// What computes and waits for nothing: tests within crates, and those in their documentation.
const UNITS: [&[&str]; 2] = [&["--lib", "--bins"], &["--doc"]];
/// What mostly waits: for sockets, processes and ports that are slow on purpose.
const OTHERS: &[&str] = &["--test", "*"];

/// Runs all tests; those that report themselves as skipped go to `skipped`. The two kinds run beside
/// each other; what the first has printed comes behind the second's.
pub(crate) fn run(workspace: &Workspace, skipped: &mut Vec<String>) -> Result<(), Failure> {
    let mut note = |line: &str| skipped.extend(line.strip_prefix(PREFIX).map(str::to_owned));
    let (units, others) = std::thread::scope(|scope| {
        let units =
            scope.spawn(|| UNITS.map(|kind| workspace.cargo(&[TESTS, kind].concat()).gently().kept()));
        let others = workspace.cargo(&[TESTS, OTHERS].concat()).check_lines(&mut note);
        (units.join().expect("it runs programs and collects what they print"), others)
    });
    let mut failed = others;
    for kept in units {
        let (text, end) = kept?;
        eprint!("{text}");
        text.lines().for_each(&mut note);
        failed = failed.and(end);
    }
    failed
}

//! All tests, and those of them that this machine let pass without running them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use cavalcade_testing::PREFIX;
use serde_json::Value;

use crate::steps::{Failure, Run};
use crate::workspace::{Package, Workspace};

const TESTS: &[&str] = &["test", "--workspace", "--no-fail-fast"];

/// The folders of `crates/` that need no process, namespace or kernel, and the crates elsewhere
/// that need none.
const PURE: &[&str] = &["base", "schedule", "simulate", "results", "library"];
const PURE_ELSEWHERE: &[&str] = &["cavalcade-protocol", "cavalcade-control"];

/// Whether all tests of a package compute and wait for nothing.
fn is_pure(package: &Package) -> bool {
    let storey = package.folder.parent().and_then(Path::file_name).and_then(OsStr::to_str);
    PURE_ELSEWHERE.contains(&package.name.as_str()) || storey.is_some_and(|storey| PURE.contains(&storey))
}

/// Runs the tests of everything that is pure: what somebody who changes a policy, an engine or a
/// figure runs again and again.
pub(crate) fn quick(workspace: &Workspace) -> Result<(), Failure> {
    let packages = workspace.packages.iter().filter(|package| is_pure(package));
    let packages = packages.flat_map(|package| ["-p", &package.name]);
    let words: Vec<&str> = ["test", "--no-fail-fast"].into_iter().chain(packages).collect();
    workspace.cargo(&words).check()
}

/// Builds all tests.
pub(crate) fn build(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&[TESTS, &["--no-run"]].concat()).check()
}

/// A program of tests.
struct Program<'a> {
    package: &'a Package,
    path: PathBuf,
}

impl Program<'_> {
    /// Runs it as cargo does.
    fn run(&self) -> Run {
        let run = Run::new(Command::new(&self.path)).in_folder(&self.package.folder);
        run.env("CARGO_MANIFEST_DIR", &self.package.folder)
    }
}

/// Runs all tests; those that report themselves as skipped go to `skipped`.
///
/// Most of the others wait most of the time: for sockets, processes, and ports that are slow on
/// purpose. So what is pure runs beside them; what it prints comes behind what they do.
pub(crate) fn run(workspace: &Workspace, skipped: &mut Vec<String>) -> Result<(), Failure> {
    let mut note = |line: &str| skipped.extend(line.strip_prefix(PREFIX).map(str::to_owned));
    // Once to be seen, and once to be read.
    build(workspace)?;
    let built = workspace.cargo(&[TESTS, &["--no-run", "--message-format=json"]].concat()).printed()?;
    let programs: Vec<Program> = built.lines().filter_map(|line| program(workspace, line)).collect();
    if programs.is_empty() {
        return Err(Failure::new("cargo names no programs of tests"));
    }
    let (pure, others): (Vec<_>, Vec<_>) = programs.iter().partition(|program| is_pure(program.package));
    let (pure, mut failed) = std::thread::scope(|scope| {
        let pure = scope.spawn(|| {
            let documented = workspace.cargo(&[TESTS, &["--doc"]].concat());
            let runs = pure.into_iter().map(Program::run).chain([documented]);
            runs.map(|run| run.gently().kept()).collect::<Vec<_>>()
        });
        let ends: Vec<_> = others.into_iter().map(|other| other.run().check_lines(&mut note)).collect();
        (pure.join().expect("it runs programs and collects what they print"), ends)
    });
    for kept in pure {
        failed.push(kept.and_then(|(text, end)| {
            print!("{text}");
            text.lines().for_each(&mut note);
            end
        }));
    }
    let failed: Vec<String> = failed.into_iter().filter_map(Result::err).map(|it| it.to_string()).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}

/// The program of tests that cargo says it has built, in a line of JSON, if it says that.
fn program<'a>(workspace: &'a Workspace, line: &str) -> Option<Program<'a>> {
    let said: Value = serde_json::from_str(line).ok()?;
    let path = said["executable"].as_str().filter(|_| said["profile"]["test"] == true)?.into();
    let folder = Path::new(said["manifest_path"].as_str()?).parent()?;
    let package = workspace.packages.iter().find(|package| package.folder == folder)?;
    Some(Program { package, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_told_from_others_that_cargo_has_built() {
        let workspace = Workspace::load().unwrap();
        let package = &workspace.packages[0];
        let line = |is_test: bool, executable: Option<&str>| {
            let manifest = package.folder.join("Cargo.toml");
            serde_json::json!({ "manifest_path": manifest, "profile": { "test": is_test }, "executable": executable })
                .to_string()
        };
        let found = program(&workspace, &line(true, Some("/there/tests"))).unwrap();
        assert_eq!((found.path.as_path(), &found.package.name), (Path::new("/there/tests"), &package.name));
        for other in [line(false, Some("/there/it")), line(true, None), "warning".to_owned()] {
            assert!(program(&workspace, &other).is_none(), "{other}");
        }
    }
}

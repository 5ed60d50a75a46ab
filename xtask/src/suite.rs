//! All tests, and those of them that this machine let pass without running them.

use cavalcade_testing::PREFIX;

use crate::steps::Failure;
use crate::workspace::Workspace;

const TESTS: &[&str] = &["test", "--workspace", "--no-fail-fast"];

/// Builds all tests.
pub(crate) fn build(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&[TESTS, &["--no-run"]].concat()).check()
}

/// Runs all tests; those that report themselves as skipped go to `skipped`.
pub(crate) fn run(workspace: &Workspace, skipped: &mut Vec<String>) -> Result<(), Failure> {
    workspace.cargo(TESTS).check_lines(|line| {
        skipped.extend(line.strip_prefix(PREFIX).map(str::to_owned));
    })
}

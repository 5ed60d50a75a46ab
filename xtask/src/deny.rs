//! Licences, bans and sources of dependencies, by cargo-deny.
//!
//! Advisories are left out: they need a clone of a git database at each run, and a gate that fails
//! when a host is down teaches people to ignore it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fetch;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// The version that is built where none is on the path.
const VERSION: &str = "0.20.2";

/// The program: the one on the path, else the one built earlier under the target directory, else
/// built there now.
pub(crate) fn installed(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let tools = workspace.target.join("tools");
    let ours = tools.join("bin").join("cargo-deny");
    for program in [PathBuf::from("cargo-deny"), ours.clone()] {
        if program.to_str().is_some_and(|program| fetch::runs(program, "--version")) {
            return Ok(program);
        }
    }
    // A build folder of its own, removed afterwards: hundreds of megabytes that are not needed
    // again.
    let build = tools.join("build");
    workspace
        .cargo(&["install", "--quiet", "--locked", "cargo-deny", "--version", VERSION])
        .env("CARGO_INSTALL_ROOT", &tools)
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .check()?;
    std::fs::remove_dir_all(&build)?;
    Ok(ours)
}

/// Checks the dependencies, which are fetched already, against `deny.toml`; `setting` may add to
/// the environment.
pub(crate) fn check(
    workspace: &Workspace,
    program: &Path,
    setting: impl Fn(Run) -> Run,
) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(["--offline", "--locked", "check", "bans", "licenses", "sources"]);
    command.current_dir(&workspace.root);
    setting(Run::new(command)).check()
}

//! Licences, bans and sources of dependencies, by cargo-deny.
//!
//! Advisories are left out: they need a clone of a git database at each run, and a gate that fails when a host is down
//! teaches people to ignore it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// The version that is built where none is on the path.
const VERSION: &str = "0.20.2";

/// The program: the one on the path, else the one built earlier under the target directory, else built there now.
pub(crate) fn installed(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let tools = workspace.target.join("tools");
    let ours = tools.join("bin").join("cargo-deny");
    for program in [PathBuf::from("cargo-deny"), ours.clone()] {
        let mut probe = Command::new(&program);
        probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        if probe.status().is_ok_and(|status| status.success()) {
            return Ok(program);
        }
    }
    // A build folder of its own, removed afterwards: hundreds of megabytes that nobody needs again.
    let build = tools.join("build");
    workspace
        .cargo(&["install", "--locked", "cargo-deny", "--version", VERSION])
        .env("CARGO_INSTALL_ROOT", &tools)
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .check()?;
    std::fs::remove_dir_all(&build)?;
    Ok(ours)
}

/// Checks the dependencies against `deny.toml`.
pub(crate) fn check(workspace: &Workspace, program: &Path) -> Result<(), Failure> {
    let mut command = Command::new(program);
    command.args(["--offline", "check", "bans", "licenses", "sources"]).current_dir(&workspace.root);
    Run::new(command).check()
}

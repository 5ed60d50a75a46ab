//! Getting all that later steps need, so that they need no network.
//!
//! A build for one machine needs the dependencies for that machine; cargo-deny and the lock file
//! speak of all platforms. `cargo fetch` without a target gets them all. It is tried offline first:
//! where all is cached no network is touched.

use std::process::{Command, Stdio};

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// The manifests of all workspaces of the checkout.
pub(crate) const MANIFESTS: &[&str] = &["Cargo.toml", "fuzz/Cargo.toml"];

/// Fetches the dependencies of all workspaces for all platforms, exactly as the lock files name
/// them.
pub(crate) fn all(workspace: &Workspace) -> Result<(), Failure> {
    MANIFESTS.iter().try_for_each(|manifest| one(workspace, manifest, |run| run))
}

/// Fetches the dependencies of one workspace; `setting` may add to the environment.
pub(crate) fn one(
    workspace: &Workspace,
    manifest: &str,
    setting: impl Fn(Run) -> Run,
) -> Result<(), Failure> {
    let words = ["fetch", "--quiet", "--locked", "--manifest-path", manifest];
    if setting(workspace.cargo(&[&words[..], &["--offline"]].concat())).quietly().is_ok() {
        return Ok(());
    }
    setting(workspace.cargo(&words))
        .env("CARGO_NET_OFFLINE", "false")
        .quietly()
        .map_err(|said| Failure::new(reason(manifest, &said.to_string())))
}

/// Returns cargo's error as one line with a cure.
fn reason(manifest: &str, said: &str) -> String {
    if said.contains("--locked") {
        return format!(
            "the lock file beside {manifest} does not fit the manifests: \
             bring it up to date with 'cargo update --workspace --manifest-path {manifest}' and commit it"
        );
    }
    let first = said.lines().find(|line| line.starts_with("error")).unwrap_or("cargo gave no reason");
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    format!("cannot fetch the dependencies of {manifest}: is the network there? ({first}; {last})")
}

/// Returns whether a program runs at all.
pub(crate) fn runs(program: &str, argument: &str) -> bool {
    let tried = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_away_is_one_line() {
        let said = "warning: spurious network error\nerror: failed to get `csv` as a dependency\n\n\
                    Caused by:\n  Could not resolve host: index.example\n";
        let line = reason("Cargo.toml", said);
        assert_eq!(line.lines().count(), 1);
        assert!(line.contains("is the network there?") && line.contains("Could not resolve host"), "{line}");
    }

    #[test]
    fn a_stale_lock_file_has_its_cure() {
        let said = "error: cannot update the lock file because --locked was passed to prevent this";
        assert!(reason("fuzz/Cargo.toml", said).contains("cargo update --workspace --manifest-path fuzz/"));
    }
}

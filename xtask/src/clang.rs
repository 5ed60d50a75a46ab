//! clang, which builds the programs for the kernel (`bpf/`). A plain build does without; their tests need it.

use std::process::Command;

use crate::fetch::runs;
use crate::steps::{Failure, Run};

/// Tells what is missing to have clang: it is neither there nor can it be installed.
pub(crate) fn missing() -> Option<String> {
    let can_install = runs("apt-get", "--version") && is_root();
    (!runs("clang", "--version") && !can_install)
        .then(|| "clang (in Debian: apt-get install clang; as root this is done here)".to_owned())
}

/// Installs clang from the distribution where it is not there.
pub(crate) fn install() -> Result<(), Failure> {
    if runs("clang", "--version") {
        return Ok(());
    }
    let apt = |words: &[&str]| {
        Run::new(Command::new("apt-get")).args(words).env("DEBIAN_FRONTEND", "noninteractive").quietly()
    };
    let install = ["install", "--yes", "--no-install-recommends", "clang"];
    // The lists of a fresh image are empty.
    apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)))
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(2) == Some("0"))
}

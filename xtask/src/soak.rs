//! `cargo xtask soak`: the live system for minutes on end while everything around it breaks (`crates/cli/tests/soak`).

use std::process::{Command, Stdio};

use crate::steps::Failure;
use crate::workspace::Workspace;

/// Minutes of the part of the suite that is in the gate.
pub(crate) const BRIEFLY: f64 = 3.0;
/// Minutes of the whole.
const WHOLE: f64 = 20.0;

/// Returns the things that the suite needs and this machine lacks.
pub(crate) fn missing() -> Option<&'static str> {
    let name = format!("cvx-{}", std::process::id());
    let ip = |arguments: &[&str]| {
        let run = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    let can = ip(&["netns", "add", &name]) && ip(&["-n", &name, "link", "add", "br0", "type", "bridge"]);
    ip(&["netns", "del", &name]);
    (!can).then_some("network namespaces (root, iproute2)")
}

/// Does what the words of the command line ask for.
pub(crate) fn dispatch(workspace: &Workspace, words: &[&str]) -> Result<(), Failure> {
    let record = words.last() == Some(&"--record");
    let minutes = match &words[..words.len() - usize::from(record)] {
        [] => WHOLE,
        ["--minutes", minutes] => minutes.parse().map_err(|_| {
            Failure::new(format!("'{minutes}' is not a number of minutes, as in --minutes 3"))
        })?,
        words => {
            let words = words.join(" ");
            return Err(Failure::new(format!("soak takes --minutes N and then --record, not '{words}'")));
        }
    };
    run(workspace, minutes, record)
}

/// Runs the suite for so many minutes; with `record` its page becomes `docs/soak.md`.
pub(crate) fn run(workspace: &Workspace, minutes: f64, record: bool) -> Result<(), Failure> {
    if let Some(needs) = missing() {
        return Err(Failure::new(format!("the soak suite needs {needs}")));
    }
    let test = workspace.cargo(&["test", "--workspace", "--test", "soak"]);
    let mut test = test.env("CAVALCADE_SOAK_MINUTES", minutes.to_string());
    if record {
        test = test.env("CAVALCADE_SOAK_PAGE", workspace.root.join("docs/soak.md"));
    }
    test.check()
}

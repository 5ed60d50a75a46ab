//! `cargo xtask soak`: the live system for minutes on end while everything around it breaks
//! (`crates/faces/cli/tests/soak`).

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::steps::Failure;
use crate::suite;
use crate::workspace::Workspace;

/// Minutes of the part of the suite that is in the gate.
pub(crate) const BRIEFLY: f64 = 3.0;
/// Minutes of the whole.
const WHOLE: f64 = 20.0;

/// The suite as cargo's test.
const TEST: &[&str] = &["test", "--workspace", "--test", "soak"];

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
    let mut test = workspace.cargo(TEST).env("CAVALCADE_SOAK_MINUTES", minutes.to_string());
    if record {
        test = test.env("CAVALCADE_SOAK_PAGE", workspace.root.join("docs/soak.md"));
    }
    test.check()
}

/// Runs the suite briefly, on a machine that is busy meanwhile: all other tests are built.
pub(crate) fn beside_a_build(workspace: &Workspace) -> Result<(), Failure> {
    workspace.cargo(&[TEST, &["--no-run"]].concat()).check()?;
    thread::scope(|scope| {
        let soak = scope.spawn(|| run(workspace, BRIEFLY, false));
        // Two builds wait for each other, and to find that nothing is to be done the suite's takes
        // a second.
        thread::sleep(Duration::from_secs(10));
        let built = suite::build(workspace);
        soak.join().expect("the suite's thread does not panic").and(built)
    })
}

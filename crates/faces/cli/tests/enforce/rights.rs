//! An enforcer that is not root.

use std::path::PathBuf;
use std::process::Command;

use cavalcade_testing::skipped;
use serde_json::Value;

use super::doctor::found;
use super::{AS_STRANGER, Host};

/// The capabilities that `docs/kernel-path.md` asks for in place of root.
const NEEDED: &str = "bpf net_admin perfmon dac_override setuid sys_ptrace sys_nice";

/// The words that start a command as a user without rights, but for these capabilities; nothing
/// that it starts may have more.
fn as_user_with(capabilities: &[&str]) -> Vec<String> {
    let added = capabilities.iter().map(|name| format!(",+{name}")).collect::<String>();
    let sets = ["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}=-all{added}"));
    AS_STRANGER.into_iter().map(str::to_owned).chain(sets).collect()
}

/// A host without enforcer, or nothing where an enforcer cannot be given rights one by one.
fn bare_host() -> Option<Host> {
    let known = Command::new("setpriv").arg("--list-caps").output();
    if !known.is_ok_and(|known| String::from_utf8_lossy(&known.stdout).contains("perfmon")) {
        skipped("setpriv with the capabilities of Linux 5.8");
        return None;
    }
    let mut host = Host::new("fifo")?;
    host.end_enforcer("-TERM");
    Some(host)
}

#[test]
fn an_ordinary_user_with_the_capabilities_that_are_asked_for_enforces_as_root_does() {
    let Some(mut host) = bare_host() else { return };
    let needed: Vec<&str> = NEEDED.split(' ').collect();
    host.start_enforcer_by(&as_user_with(&needed), &[]);
    let (first, received) = host.compete(true);
    assert_eq!(first, "/large", "{received:?}");
    assert_eq!(host.end_enforcer("-TERM"), Some(0));
    assert_eq!(host.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn the_doctor_finds_that_an_ordinary_user_with_these_capabilities_needs_no_more() {
    let Some(host) = bare_host() else { return };
    let needed: Vec<&str> = NEEDED.split(' ').collect();
    let words = as_user_with(&needed);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_cavalcade")).args(["doctor", "--json"]);
    let out = command.current_dir(host.place.path(".")).output().unwrap();
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    let findings = document["findings"].as_array().unwrap();
    for name in ["kernel path", "kernel marks", "kernel push", "SYN option", "demotion"] {
        let [state, said, _] = found(findings, name);
        assert_eq!(state, Some("good"), "{name}: {said:?}");
    }
}

#[test]
fn an_ordinary_user_who_lacks_a_right_is_told_which_there_are() {
    let Some(host) = bare_host() else { return };
    let refusal = |capabilities: &[&str]| {
        let words = as_user_with(capabilities);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_cavalcade"));
        command.args(["enforce", "--group"]).arg(host.group.path());
        let out = command.args(["--door", "door"]).current_dir(host.place.path(".")).output().unwrap();
        assert_eq!(out.status.code(), Some(5), "{capabilities:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    let of_programs = ["bpf", "net_admin", "perfmon", "dac_override"];
    let mut all = vec![Vec::new()];
    all.extend(of_programs.map(|left_out| of_programs.into_iter().filter(|&one| one != left_out).collect()));
    for some in all {
        let said = refusal(&some);
        for name in ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"] {
            assert!(said.contains(name), "{some:?}: {said}");
        }
        assert!(said.contains("CAP_DAC_OVERRIDE") || some.contains(&"dac_override"), "{some:?}: {said}");
        assert_eq!(host.leftovers(), Vec::<PathBuf>::new(), "{some:?}");
    }
}

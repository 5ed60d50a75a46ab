//! `cavalcade doctor`: each feature of the kernel path is tried. `--fix-leftovers`: what a killed
//! enforcer has left goes, and what one at work needs stays.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use cavalcade_enforce::Group;
use cavalcade_testing::{eventually, skipped};
use serde_json::Value;

use super::support::Place;
use super::vouching::MIDDLEBOX;
use super::{able, start};

/// Removes leftovers, and returns what was removed.
fn fix(place: &Place, more: &[&str]) -> String {
    let output = place.command().args(["doctor", "--fix-leftovers"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What the doctor says where a command that ends by running its arguments starts it; nothing where
/// that does not succeed.
fn findings(before: &str) -> Option<Vec<Value>> {
    let doctor = [env!("CARGO_BIN_EXE_cavalcade"), "doctor", "--json"];
    let mut command = Command::new("unshare");
    // In a network of its own, so that other tests have no part in it.
    command.args(["--net", "sh", "-c", &format!("ip link set lo up && {before} exec \"$0\" \"$@\"")]);
    let output = command.args(doctor).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(document["findings"].as_array().unwrap().clone())
}

/// The state of a feature, with what is found and what it means.
pub(super) fn found<'a>(findings: &'a [Value], name: &str) -> [Option<&'a str>; 3] {
    let found = findings.iter().find(|found| found["name"] == name).unwrap_or(&Value::Null);
    ["state", "finding", "cure"].map(|key| found[key].as_str())
}

#[test]
fn what_the_kernel_path_rests_on_is_found_by_trying_it() {
    if able().is_none() {
        return;
    }
    let Some(findings) = findings("") else { return skipped("network namespaces (root, iproute2)") };
    for (name, finding) in [
        ("kernel path", "programs can be loaded"),
        ("kernel pacing", "keep to the rate"),
        ("kernel marks", "the DSCP of their class"),
        ("kernel push", "sent at once"),
        ("SYN option", "from the first byte on"),
        ("demotion", "goes on in the next class"),
        ("lab ports", "can mark packets"),
    ] {
        let [state, said, cure] = found(&findings, name);
        // How fast loopback is cannot always be told.
        let is_busy = said.is_some_and(|said| said.contains("cannot be told now"));
        assert!(is_busy || (state == Some("good") && said.unwrap().contains(finding)), "{name}: {said:?}");
        assert_eq!(cure.is_some(), state != Some("good"), "{name}");
    }
    // Where connections can have its controls, they agree on marks.
    if found(&findings, "congestion")[0] == Some("good") {
        assert!(found(&findings, "kernel marks")[1].unwrap().contains("keep their bits for ECN"));
    }
}

#[test]
fn what_a_filter_takes_out_of_syns_is_missed_by_the_doctor_who_says_what_then_happens() {
    if able().is_none() {
        return;
    }
    let place = Place::new();
    place.write("middlebox", MIDDLEBOX);
    let filter = format!("nft --file {} &&", place.path("middlebox").display());
    let Some(findings) = findings(&filter) else {
        return skipped("nft, with a kernel that lets it take TCP options out (5.18)");
    };
    let [state, said, cure] = found(&findings, "SYN option");
    assert_eq!(state, Some("limited"));
    assert!(said.unwrap().contains("has not brought the coflow along"), "{said:?}");
    assert!(cure.unwrap().contains("only after a walk"), "{cure:?}");
    assert_eq!(found(&findings, "kernel marks")[0], Some("good"));
}

#[test]
fn what_an_enforcer_of_a_group_has_left_is_removed_where_the_group_is_named_or_has_gone() {
    let Some(root) = able() else { return };
    for is_gone in [false, true] {
        let place = Place::new();
        let group = Group::make(&root, &format!("cavalcade-left-{}", std::process::id())).unwrap();
        let in_group = group.path().display().to_string();
        let number = std::fs::metadata(group.path()).unwrap().ino();
        let pins = format!("/sys/fs/bpf/cavalcade-{number}");
        let arguments = ["enforce", "--group", &in_group, "--door", "door", "--socket", "cavalcade.sock"];
        let mut enforcer = start(&place, &arguments);
        eventually("the enforcer", || UnixStream::connect(place.path("door")).is_ok());
        assert!(!fix(&place, &[]).contains(&pins), "it is at work");
        enforcer.0.kill().unwrap();
        enforcer.0.wait().unwrap();
        let left = fix(&place, &[]);
        assert!(!left.contains(&pins), "it may come back to its group");
        assert!(left.contains(&format!("--group {in_group}")), "{left}");
        assert!(Path::new(&pins).exists());
        let removed = if is_gone {
            drop(group);
            fix(&place, &[])
        } else {
            fix(&place, &["--group", &in_group])
        };
        assert!(removed.contains(&pins) && !Path::new(&pins).exists(), "{removed}");
    }
}

//! `cavalcade doctor --fix-leftovers`: what a killed enforcer has left goes, and what one at work needs stays.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use cavalcade_enforce::Group;
use cavalcade_testing::eventually;

use super::support::Place;
use super::{able, start};

/// Removes leftovers, and returns what was removed.
fn fix(place: &Place, more: &[&str]) -> String {
    let output = place.command().args(["doctor", "--fix-leftovers"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
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
        assert!(!fix(&place, &[]).contains(&pins), "it may come back to its group");
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

//! Applications that know nothing of coflows, as Debian has them: what they send is scheduled as
//! the policy says.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use cavalcade_enforce::{Group, Hierarchy, Place as Ground, leftovers};
use cavalcade_testing::skipped;
use support::Place;

/// A bulk copy and two jobs that begin after it.
struct Scenario {
    /// Its name in `applications.sh`.
    name: &'static str,
    /// The programs needed, as a command that succeeds, and the name.
    needs: [(&'static str, &'static str); 3],
}

const BACKUP: Scenario = Scenario {
    name: "backup",
    needs: [
        ("command -v iperf3", "iperf3"),
        ("ls -d /usr/lib/postgresql/*/bin && command -v psql && id postgres", "PostgreSQL with its client"),
        ("command -v setpriv", "setpriv"),
    ],
};
const DOWNLOAD: Scenario = Scenario {
    name: "download",
    needs: [
        ("command -v nginx && command -v curl", "nginx and curl"),
        ("command -v memcached && command -v memccp", "memcached with the tools of libmemcached"),
        ("command -v mpirun && /usr/bin/python3 -c 'import mpi4py'", "Open MPI with its module for Python"),
    ],
};
/// The network needed by each.
const NETWORK: (&str, &str) =
    ("unshare --net tc qdisc add dev lo root htb", "root with network namespaces, and iproute2");

/// The names of the bulk copy and the jobs, in the order in which they end under this policy.
fn ends(scenario: &Scenario, policy: &str) -> Option<Vec<String>> {
    if let Some(reason) = cavalcade_enforce::missing() {
        skipped(format_args!("programs for the kernel ({reason})"));
        return None;
    }
    let Ok(Hierarchy { root }) = Hierarchy::find() else {
        skipped("control groups of version 2");
        return None;
    };
    let succeeds = |command: &str| {
        Command::new("sh").args(["-c", command]).output().is_ok_and(|output| output.status.success())
    };
    if let Some((_, name)) = scenario.needs.iter().chain([&NETWORK]).find(|(command, _)| !succeeds(command)) {
        skipped(*name);
        return None;
    }
    let place = Place::new();
    // PostgreSQL does not run as root.
    std::fs::set_permissions(place.path("."), Permissions::from_mode(0o777)).unwrap();
    let name = format!("cavalcade-applications-{}-{}-{policy}", std::process::id(), scenario.name);
    let group = Group::make(&root, &name).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/applications.sh");
    let output = Command::new("unshare")
        .args(["--net", "--mount", "bash", script, env!("CARGO_BIN_EXE_cavalcade")])
        .args([place.path(""), group.path().to_owned()])
        .args([policy, scenario.name])
        .output()
        .unwrap();
    let _ = leftovers::fix(&Ground::below(group.path()).unwrap());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    Some(said.lines().map(str::to_owned).collect())
}

/// Holds that jobs wait for a copy that came first where the policy is FIFO, and do not where there
/// is none.
fn jobs_wait_under_fifo_only(scenario: &Scenario) {
    let Some(order) = ends(scenario, "fifo") else { return };
    assert_eq!(order, ["bulk", "first", "second"]);
    // Plain TCP shares as it will, and the small ones do not wait for the large one: how far they
    // are ahead is left to it.
    assert_ne!(ends(scenario, "plain").unwrap()[0], "bulk");
}

#[test]
fn jobs_of_iperf3_wait_for_a_base_backup_that_came_first_under_fifo_and_do_not_without_it() {
    jobs_wait_under_fifo_only(&BACKUP);
}

#[test]
fn memcached_and_an_all_reduce_wait_for_a_download_that_came_first_under_fifo_and_do_not_without_it() {
    jobs_wait_under_fifo_only(&DOWNLOAD);
}

//! How often an enforcer looks at what the kernel has counted.

use std::time::Duration;

use super::Host;
use super::deadlines::slow;

/// How often the enforcer of a host with this Δ wakes in a second while a flow goes on.
fn wakes(period: &str) -> Option<u64> {
    let host = Host::led(&["--policy", "fifo", "--period", period], &[])?;
    let _sender = host.sender("busy", slow(), &[]);
    host.sees_bytes_of("busy");
    let process = host.enforcer.as_ref().unwrap().0.id();
    let woken = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let times = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        times.trim().parse().unwrap()
    };
    let before = woken();
    std::thread::sleep(Duration::from_secs(1));
    Some(woken() - before)
}

#[test]
fn an_enforcer_looks_as_often_as_its_agent_wants_to_hear() {
    let Some(often) = wakes("5ms") else { return };
    let rarely = wakes("100ms").unwrap();
    assert!(often > 3 * rarely, "{often} and {rarely}");
}

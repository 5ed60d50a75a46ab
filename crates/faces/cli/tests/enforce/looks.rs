//! How often an enforcer looks at what the kernel has counted.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cavalcade_client::{Registration, Session};
use cavalcade_testing::eventually;

use super::Host;
use super::deadlines::slow;

impl Host {
    /// How often the enforcer wakes in a second.
    fn wakes(&self) -> u64 {
        let process = self.enforcer.as_ref().unwrap().0.id();
        let woken = || -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let times =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
            times.trim().parse().unwrap()
        };
        let before = woken();
        std::thread::sleep(Duration::from_secs(1));
        woken() - before
    }
}

fn host(period: &str) -> Option<Host> {
    Host::led(&["--policy", "fifo", "--period", period], &[])
}

/// The wakes while a flow goes on, with this Δ.
fn wakes_with(period: &str) -> Option<u64> {
    let host = host(period)?;
    let _sender = host.sender("busy", slow(), &[]);
    host.sees_bytes_of("busy");
    Some(host.wakes())
}

#[test]
fn an_enforcer_looks_as_often_as_its_agent_wants_to_hear() {
    let Some(often) = wakes_with("5ms") else { return };
    let rarely = wakes_with("100ms").unwrap();
    assert!(often > 3 * rarely, "{often} and {rarely}");
}

#[test]
fn an_enforcer_whose_flows_are_all_off_looks_seldom_and_as_often_as_before_once_one_may_send() {
    let Some(host) = host("5ms") else { return };
    // The test's own process is in no group of the enforcer's, so its library carries this stream
    // itself.
    let session = Session::open(host.place.path("cavalcade.sock")).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let coflow = session.register(Registration::default()).unwrap();
    let connection = TcpStream::connect(slow()).unwrap();
    let first = Arc::new(session.stream(connection, coflow, None).unwrap());
    let enough = Arc::new(AtomicBool::new(false));
    let goes_on = std::thread::spawn({
        let enough = enough.clone();
        move || {
            while !enough.load(Ordering::Relaxed) {
                let _ = (&*first).write(b"go on");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let _held = host.sender("held", slow(), &[]);
    eventually("the later flow waits", || host.task("held").is_some_and(|task| task["off"] != 0));
    let while_off = host.wakes();
    enough.store(true, Ordering::Relaxed);
    goes_on.join().unwrap();
    eventually("the later flow goes on", || host.task("held").is_some_and(|task| task["off"] == 0));
    let since = host.wakes();
    assert!(since > 3 * while_off, "{while_off}, and since {since}");
}

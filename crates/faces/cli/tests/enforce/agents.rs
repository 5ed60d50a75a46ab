//! An agent that hangs or is killed under an enforcer that goes on: what it has ordered ends with
//! it.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cavalcade_testing::{eventually, skipped};

use super::deadlines::slow;
use super::support::{Running, serving::free_address};
use super::{HOSTS, Host, start};

/// The agent's lease for its clients.
const LEASE: Duration = Duration::from_millis(500);
/// Bytes that show that a flow is open: its receiver takes a quarter of a second for them, and its
/// trickle minutes.
const MANY: u64 = 2_000_000;
/// The time in which a flow that is off sends no more than [`LITTLE`].
const WHILE: Duration = Duration::from_millis(500);
/// What is on its way before, and some trickles.
const LITTLE: u64 = 500_000;

/// A host whose agent obeys a coordinator in a process of its own, which goes on whatever becomes
/// of the agent.
fn host(policy: &str, more: &[&str]) -> Option<(Host, Running)> {
    let address = free_address();
    let mut lead = None;
    let host = Host::begun(
        |place| {
            let of_lead = ["--listen", &address, "--policy", policy, "--rate", "100Mbps"];
            lead = Some(start(place, &[&["coordinator", "--hosts", HOSTS], &of_lead[..]].concat()));
            let of_agent = ["--coordinator", &address, "--port", "0", "--socket", "cavalcade.sock"];
            start(place, &[&["agent", "--hosts", HOSTS], &of_agent[..]].concat())
        },
        more,
    )?;
    Some((host, lead?))
}

impl Host {
    fn signal_agent(&self, signal: &str) {
        let process = self.up.as_ref().unwrap().0.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }
}

/// A receiver of some 8 MB a second, and what has come.
fn counting() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let count = Arc::clone(&came);
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        while let Ok(length @ 1..) = socket.read(&mut [0; 16 << 10]) {
            count.fetch_add(length as u64, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    (address, came)
}

#[test]
fn what_is_held_off_goes_on_within_a_lease_of_an_agent_that_hangs_and_waits_again_when_that_goes_on() {
    let Some((host, _lead)) = host("fifo", &[]) else { return };
    let _endless = host.sender("endless", slow(), &[]);
    host.sees_bytes_of("endless");
    let (address, came) = counting();
    let came = || came.load(Ordering::Relaxed);
    let _held = host.sender("held", address, &[]);
    let is_off = || host.task("held").is_some_and(|task| task["off"] != 0);
    let stands_still = || {
        let before = came();
        std::thread::sleep(WHILE);
        came() - before < LITTLE
    };
    eventually("the later flow behind the first", || is_off() && stands_still());
    host.signal_agent("-STOP");
    let (before, began) = (came(), Instant::now());
    eventually("bytes without the agent", || came() - before >= MANY);
    let took = began.elapsed();
    println!("the agent hangs: {took:?}");
    assert!(took < 3 * LEASE, "{took:?}");
    assert!(!stands_still(), "it stays open");
    host.signal_agent("-CONT");
    eventually("the agent's orders", || is_off() && stands_still());
}

/// What `ss` says of the one connection to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    has_enforcers_control: bool,
    has_systems_control: bool,
    has_rate: bool,
}

/// What an enforcer with `--congestion dctcp` makes of a connection, and what it leaves behind.
const LIMITED: Limits = Limits { has_enforcers_control: true, has_systems_control: false, has_rate: true };
const FREE: Limits = Limits { has_enforcers_control: false, has_systems_control: true, has_rate: false };

/// The limits of the one connection to `to`; none where there is no such connection.
fn limits_of(to: SocketAddr) -> Option<Limits> {
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let shown = Command::new("ss").args(["-tinH", "state", "established", "dst", &to.to_string()]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let words: Vec<&str> = shown.split_whitespace().collect();
    let rate = words.iter().position(|word| *word == "pacing_rate")?;
    Some(Limits {
        has_enforcers_control: words.iter().any(|word| word.starts_with("cv_dctcp")),
        has_systems_control: words.contains(&system.trim()),
        // Behind the rate of the congestion control stands the limit, where there is one.
        has_rate: words.get(rate + 1)?.contains('/'),
    })
}

#[test]
fn the_rate_of_a_connection_and_its_congestion_control_are_the_systems_again_when_the_agent_is_killed() {
    if Command::new("ss").arg("-V").output().is_err() {
        return skipped("ss (iproute2)");
    }
    // Both ends have to know the marks.
    let controls = ["--congestion", "dctcp", "--answer-marks"];
    let policy = "dclas:queues=2,first_threshold=4MB";
    let Some((mut host, _lead)) = host(policy, &controls) else { return };
    let mut receiver = host.player("drains::reads_slowly_for_other_tests", "");
    let to = receiver.hears().parse().unwrap();
    let _old = host.sender("old", to, &[]);
    host.finds("old", 1);
    // It has most of the host's rate as long as it has sent little, some seconds.
    let _new = host.sender("new", slow(), &[]);
    eventually("a rate and the enforcer's control", || limits_of(to) == Some(LIMITED));
    let mut agent = host.up.take().unwrap();
    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    eventually("neither", || limits_of(to) == Some(FREE));
    let began = Instant::now();
    while began.elapsed() < LEASE {
        assert_eq!(limits_of(to), Some(FREE), "it stays so");
        std::thread::sleep(LEASE / 10);
    }
}

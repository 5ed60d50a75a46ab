//! The leader is gone in ways that say nothing: its host vanishes, it hangs, a link is out. Programs as they are, each in a
//! network namespace of its own on one bridge, so that a cut link swallows what is sent, ends of connections too.
//!
//! How long it takes is asserted in leases, as promised; nothing shorter than seconds is.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Place, Running, eventually};

/// The time that orders hold here.
const HOLD: Duration = Duration::from_secs(2);
/// The time that the lease of leadership in a file lasts without a beat.
const LEADERSHIP: Duration = Duration::from_secs(3);
const HOSTS: &str = "10.213.7.1,10.213.7.2,10.213.7.3";

/// Three hosts on a bridge; removed with the test.
struct Net(String);

fn ip(arguments: &str) -> bool {
    let mut command = Command::new("ip");
    command.args(arguments.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Net {
    fn new(name: &str) -> Option<Self> {
        let net = Self(format!("cvf{}{name}", std::process::id()));
        let bridge = net.host(0);
        let mut works = ip(&format!("netns add {bridge}"))
            && ip(&format!("-n {bridge} link add br0 type bridge"))
            && ip(&format!("-n {bridge} link set br0 up"));
        for number in 1..=3 {
            let host = net.host(number);
            works = works
                && ip(&format!("netns add {host}"))
                && ip(&format!("-n {bridge} link add p{number} type veth peer name eth0 netns {host}"))
                && ip(&format!("-n {host} addr add 10.213.7.{number}/24 dev eth0"))
                && ip(&format!("-n {host} link set eth0 up"))
                && ip(&format!("-n {host} link set lo up"))
                && ip(&format!("-n {bridge} link set p{number} master br0 up"));
        }
        if !works {
            cavalcade_skip::skipped("root, and ip with network namespaces");
        }
        works.then_some(net)
    }

    fn host(&self, number: u32) -> String {
        format!("{}-{number}", self.0)
    }

    /// Has a host's cable out, or in again.
    fn plug(&self, number: u32, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        assert!(ip(&format!("-n {} link set p{number} {state}", self.host(0))));
    }

    /// Starts the program at a host; what it has to say goes into a file of this name.
    fn start(&self, place: &Place, number: u32, name: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(number), env!("CARGO_BIN_EXE_cavalcade")]);
        command.args(arguments).args(["--hosts", HOSTS, "--insecure"]).current_dir(place.path("."));
        command.env("XDG_RUNTIME_DIR", place.path(".")).env("NO_COLOR", "1");
        let messages = File::create(place.path(name)).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        Running(command.spawn().unwrap())
    }

    fn coordinator(&self, place: &Place, number: u32) -> Running {
        let (listen, socket) = (format!("10.213.7.{number}:7337"), format!("lead{number}.sock"));
        let arguments = ["coordinator", "--listen", &listen, "--administration", &socket];
        let rest = ["--lease", "lease", "--hold", "2s", "--policy", "fifo"];
        self.start(place, number, &format!("lead{number}.log"), &[&arguments[..], &rest].concat())
    }

    fn agent(&self, place: &Place) -> Running {
        let leaders = ["--coordinator", "10.213.7.1:7337", "--coordinator", "10.213.7.2:7337"];
        let own = ["agent", "--port", "2", "--socket", "agent.sock", "--administration", "admin.sock"];
        self.start(place, 3, "agent.log", &[&own[..], &leaders].concat())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        (0..=3).for_each(|number| _ = ip(&format!("netns del {}", self.host(number))));
    }
}

/// The term that the agent obeys at present.
fn obeyed(place: &Place) -> Option<u64> {
    let ran = place.run(&["ps", "--at", "admin.sock", "--json"]);
    let view: serde_json::Value = serde_json::from_str(&ran.out).ok()?;
    view["term"].as_u64()
}

fn signal(process: &Running, name: &str) {
    let pid = process.0.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

/// Waits until the agent obeys another term than `former`; returns that and how long it took.
fn waits_for_another(place: &Place, former: u64) -> (u64, Duration) {
    let since = Instant::now();
    let mut found = former;
    eventually("the agent obeys the new leader", || {
        found = obeyed(place).unwrap_or(former);
        found != former
    });
    (found, since.elapsed())
}

fn lines(place: &Place, file: &str, what: &str) -> usize {
    String::from_utf8(place.read(file)).unwrap().lines().filter(|line| line.contains(what)).count()
}

/// Checks that the agent and the new leader log a change once each.
fn is_said_once(place: &Place, leader: &str) {
    let agent = |what| lines(place, "agent.log", what);
    assert_eq!(agent("no word from the coordinator for a lease"), 1, "the agent says once that orders end");
    eventually("the agent has said that orders hold again", || lines(place, "agent.log", "orders hold") == 2);
    assert_eq!(lines(place, leader, "coordinator for 3 hosts at"), 1, "the leader says once that it leads");
}

#[test]
fn agents_leave_a_leader_whose_host_vanishes_within_three_leases() {
    let place = Place::new();
    let Some(net) = Net::new("v") else { return };
    let leader = net.coordinator(&place, 1);
    eventually("the first leads", || place.path("lead1.sock").exists());
    let _standby = net.coordinator(&place, 2);
    let _agent = net.agent(&place);
    eventually("the agent obeys", || obeyed(&place).is_some());
    let former = obeyed(&place).unwrap();
    net.plug(1, false);
    // Its connections end without a word: that does not get through.
    signal(&leader, "-KILL");
    let (term, took) = waits_for_another(&place, former);
    println!("host vanished: {took:?}");
    assert!(term > former && took < 3 * HOLD, "term {term} after {former} in {took:?}");
    is_said_once(&place, "lead2.log");
}

#[test]
fn agents_leave_a_leader_that_hangs_within_three_leases_and_it_stands_by_when_it_goes_on() {
    let place = Place::new();
    let Some(net) = Net::new("h") else { return };
    let leader = net.coordinator(&place, 1);
    eventually("the first leads", || place.path("lead1.sock").exists());
    let _standby = net.coordinator(&place, 2);
    let _agent = net.agent(&place);
    eventually("the agent obeys", || obeyed(&place).is_some());
    let former = obeyed(&place).unwrap();
    signal(&leader, "-STOP");
    let (term, took) = waits_for_another(&place, former);
    println!("leader hangs: {took:?}");
    assert!(term > former && took < 3 * LEADERSHIP, "term {term} after {former} in {took:?}");
    assert_eq!(lines(&place, "lead2.log", "it is taken over"), 1);
    is_said_once(&place, "lead2.log");
    signal(&leader, "-CONT");
    eventually("the former leader stands by", || lines(&place, "lead1.log", "standing by") == 1);
    assert_eq!(obeyed(&place), Some(term), "the agent stays");
}

#[test]
fn agents_obey_again_within_three_leases_when_a_link_was_out_for_thirty_seconds() {
    let place = Place::new();
    let Some(net) = Net::new("l") else { return };
    let _leader = net.coordinator(&place, 1);
    let _agent = net.agent(&place);
    eventually("the agent obeys", || obeyed(&place).is_some());
    net.plug(1, false);
    eventually("the agent obeys no more", || obeyed(&place).is_none());
    std::thread::sleep(Duration::from_secs(30));
    net.plug(1, true);
    let since = Instant::now();
    eventually("the agent obeys again", || obeyed(&place).is_some());
    let took = since.elapsed();
    println!("link out for 30 s: {took:?}");
    assert!(took < 3 * HOLD, "{took:?}");
    is_said_once(&place, "lead1.log");
    let lost = lines(&place, "lead1.log", "silent for longer than a lease");
    assert_eq!(lost, 1, "the leader says once that it lost an agent");
}

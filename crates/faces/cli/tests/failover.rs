//! The leader is gone in ways that say nothing: its host vanishes, it hangs, a link is out; or etcd
//! is gone. Programs as they are, each in a network namespace of its own on one bridge, so that a
//! cut link swallows what is sent, ends of connections too.
//!
//! How long it takes is asserted in leases, as promised; nothing shorter than seconds is.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]
#![allow(clippy::print_stdout, reason = "how long it took is worth knowing")]

mod support;

use std::fs::File;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cavalcade_client::{Registration, Session};
use cavalcade_testing::eventually;
use support::serving::{Serving, free_address, get};
use support::{Place, Running};

/// The time that orders hold here.
const HOLD: Duration = Duration::from_secs(2);
/// The time that the lease of leadership lasts without a beat.
const LEADERSHIP: Duration = Duration::from_secs(3);
const HOSTS: &str = "10.213.7.1,10.213.7.2,10.213.7.3";

/// The place of the lease of leadership.
#[derive(Clone, Copy, PartialEq)]
enum Keeper {
    File,
    Etcd,
}

impl Keeper {
    fn lease(self) -> &'static str {
        match self {
            Self::File => "lease",
            Self::Etcd => "etcd://10.213.7.3:2379/site/leader",
        }
    }
}

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
            cavalcade_testing::skipped("root, and ip with network namespaces");
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

    fn coordinator(&self, place: &Place, number: u32, keeper: Keeper) -> Running {
        let (listen, socket) = (format!("10.213.7.{number}:7336"), format!("lead{number}.sock"));
        let arguments = ["coordinator", "--listen", &listen, "--administration", &socket];
        let rest = ["--lease", keeper.lease(), "--hold", "2s", "--policy", "fifo"];
        self.start(place, number, &format!("lead{number}.log"), &[&arguments[..], &rest].concat())
    }

    fn agent(&self, place: &Place) -> Running {
        let leaders = ["--coordinator", "10.213.7.1:7336", "--coordinator", "10.213.7.2:7336"];
        let own = ["agent", "--port", "2", "--socket", "agent.sock", "--administration", "admin.sock"];
        self.start(place, 3, "agent.log", &[&own[..], &leaders].concat())
    }

    /// Starts etcd at the agent's host, with what it has kept in `place`.
    fn etcd(&self, place: &Place) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(3), "etcd", "--data-dir"]).arg(place.path("etcd"));
        let (client, peer) = ("http://10.213.7.3:2379", "http://127.0.0.1:2380");
        command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
        command.args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
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
    eventually("the agent says that it obeys again", || {
        lines(place, "agent.log", "obeying the coordinator") == 2
    });
    assert_eq!(lines(place, leader, "coordinator for 3 hosts at"), 1, "the leader says once that it leads");
}

/// A leader at host 1, a standby at host 2, and an agent at host 3 that obeys the former.
struct Scene {
    // Processes end before their hosts are removed.
    leader: Running,
    standby: Running,
    _agent: Running,
    etcd: Option<Running>,
    place: Place,
    net: Net,
    /// The leader's term.
    former: u64,
}

impl Scene {
    /// Sets it up; where this machine lacks something the test is reported as skipped.
    fn new(name: &str, keeper: Keeper) -> Option<Self> {
        let has_etcd = || Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok();
        if keeper == Keeper::Etcd && !has_etcd() {
            cavalcade_testing::skipped("etcd (Debian: etcd-server)");
            return None;
        }
        let (place, net) = (Place::new(), Net::new(name)?);
        let etcd = (keeper == Keeper::Etcd).then(|| net.etcd(&place));
        let leader = net.coordinator(&place, 1, keeper);
        eventually("the first leads", || place.path("lead1.sock").exists());
        let standby = net.coordinator(&place, 2, keeper);
        let _agent = net.agent(&place);
        eventually("the agent obeys", || obeyed(&place).is_some());
        let former = obeyed(&place).unwrap();
        Some(Self { leader, standby, _agent, etcd, place, net, former })
    }
}

fn agents_leave_a_leader_whose_host_vanishes(name: &str, keeper: Keeper) {
    let Some(scene) = Scene::new(name, keeper) else { return };
    let Scene { leader, place, net, former, .. } = &scene;
    net.plug(1, false);
    // Its connections end without a word: that does not get through.
    signal(leader, "-KILL");
    let (term, took) = waits_for_another(place, *former);
    println!("host vanished: {took:?}");
    // A lock goes with its process; a key has to run out.
    let lease = if keeper == Keeper::File { HOLD } else { LEADERSHIP };
    assert!(term > *former && took < 3 * lease, "term {term} after {former} in {took:?}");
    is_said_once(place, "lead2.log");
}

#[test]
fn agents_leave_a_leader_whose_host_vanishes_within_three_leases() {
    agents_leave_a_leader_whose_host_vanishes("v", Keeper::File);
}

#[test]
fn agents_leave_a_leader_whose_host_vanishes_within_three_leases_also_with_etcd() {
    agents_leave_a_leader_whose_host_vanishes("w", Keeper::Etcd);
}

fn agents_leave_a_leader_that_hangs(name: &str, keeper: Keeper) {
    let Some(scene) = Scene::new(name, keeper) else { return };
    let Scene { leader, place, former, .. } = &scene;
    signal(leader, "-STOP");
    let (term, took) = waits_for_another(place, *former);
    println!("leader hangs: {took:?}");
    assert!(term > *former && took < 3 * LEADERSHIP, "term {term} after {former} in {took:?}");
    is_said_once(place, "lead2.log");
    signal(leader, "-CONT");
    eventually("the former leader stands by", || lines(place, "lead1.log", "standing by") == 1);
    assert_eq!(obeyed(place), Some(term), "the agent stays");
}

#[test]
fn agents_leave_a_leader_that_hangs_within_three_leases_and_it_stands_by_when_it_goes_on() {
    agents_leave_a_leader_that_hangs("h", Keeper::File);
}

#[test]
fn agents_leave_a_leader_that_hangs_within_three_leases_also_with_etcd() {
    agents_leave_a_leader_that_hangs("i", Keeper::Etcd);
}

/// Registers one coflow after the other until it is told to stop; returns how many.
fn keep_busy(place: &Place, stop: &AtomicBool) -> usize {
    let session = Session::open(place.path("agent.sock")).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let registrations = std::iter::repeat_with(|| {
        std::thread::sleep(Duration::from_millis(5));
        session.try_register(Registration::default()).unwrap()
    });
    let count = registrations.take_while(|_| !stop.load(Ordering::Relaxed)).count() + 1;
    let known = || {
        let view = place.run(&["ps", "--at", "admin.sock", "--json"]);
        let view: serde_json::Value = serde_json::from_str(&view.out).unwrap();
        view["coflows"].as_array().map_or(0, Vec::len)
    };
    eventually("the agent knows them all", || known() == count);
    count
}

#[test]
fn an_etcd_that_is_killed_and_comes_back_within_a_lease_costs_nothing_and_one_that_stays_away_no_process() {
    let Some(mut scene) = Scene::new("e", Keeper::Etcd) else { return };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let place = &scene.place;
        let busy = scope.spawn(|| keep_busy(place, &stop));
        drop(scene.etcd.take());
        std::thread::sleep(LEADERSHIP / 6);
        scene.etcd = Some(scene.net.etcd(place));
        std::thread::sleep(2 * LEADERSHIP);
        assert_eq!(obeyed(place), Some(scene.former), "the leader has renewed its lease");
        let fallbacks = lines(place, "agent.log", "no word from the coordinator");
        assert_eq!(fallbacks, 0, "the agent has obeyed all the time");

        drop(scene.etcd.take());
        eventually("the leader stands by", || lines(place, "lead1.log", "lost the lease in etcd") == 1);
        eventually("the agent obeys no coordinator", || obeyed(place).is_none());
        scene.etcd = Some(scene.net.etcd(place));
        let (term, took) = waits_for_another(place, scene.former);
        println!("etcd is back: {took:?}");
        // The former key lives once more as long as a lease, since etcd cannot know that its holder
        // has given it up.
        assert!(term > scene.former && took < LEADERSHIP + 3 * HOLD, "term {term} in {took:?}");
        assert!([&mut scene.leader, &mut scene.standby].map(|one| one.0.try_wait().unwrap()) == [None, None]);
        stop.store(true, Ordering::Relaxed);
        assert!(busy.join().unwrap() > 100, "there was load");
    });
}

#[test]
fn a_standby_is_healthy_and_not_ready_until_it_leads() {
    let place = Place::new();
    let coordinator = |name: &str, metrics: &str| {
        let listen = free_address();
        let own = ["coordinator", "--hosts", "127.0.0.1", "--listen", &listen, "--metrics", metrics];
        Serving::start(&place, &[&own[..], &["--lease", "lease", "--administration", name]].concat())
    };
    let (of_leader, of_standby) = (free_address(), free_address());
    let leader = coordinator("lead.sock", &of_leader);
    eventually("the first leads", || get(&of_leader, "/readyz").0 == 200);
    let _standby = coordinator("standby.sock", &of_standby);
    eventually("the other is healthy", || get(&of_standby, "/healthz").0 == 200);
    let (status, why) = get(&of_standby, "/readyz");
    assert!(status == 503 && why.contains("another coordinator leads"), "{status} {why}");
    assert_eq!(leader.interrupt(), Some(0));
    eventually("it leads", || get(&of_standby, "/readyz").0 == 200);
}

#[test]
fn agents_obey_again_within_three_leases_when_a_link_was_out_for_thirty_seconds() {
    let place = Place::new();
    let Some(net) = Net::new("l") else { return };
    let _leader = net.coordinator(&place, 1, Keeper::File);
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

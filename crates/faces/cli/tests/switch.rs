//! Software switches from end to end: what they show of themselves, and what they refuse.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_spc::{Endpoint, Options, Settings};
use cavalcade_switch::device::{Device, receive_offload};
use cavalcade_switch::port::Packet;
use cavalcade_testing::{Player, eventually, role, say, wait_for_go};
use support::{Place, Ran, Running};

/// Namespaces; dropping removes them.
struct Net(Vec<String>);

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Net {
    /// A namespace with two pairs of virtual interfaces, whose ends are `h0` and `p0`, `h1` and
    /// `p1`; `None` where the machine lets this user make none.
    fn new(test: &str) -> Option<Self> {
        let name = format!("cvl-{}-{test}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            cavalcade_testing::skipped("root and iproute2, for network namespaces");
            return None;
        }
        let net = Self(vec![name.clone()]);
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        net.join("h0", "p0");
        net.join("h1", "p1");
        Some(net)
    }

    fn join(&self, host: &str, port: &str) {
        let name = self.name();
        assert!(ip(&["-n", name, "link", "add", host, "type", "veth", "peer", "name", port]));
        assert!(ip(&["-n", name, "link", "set", host, "up"]) && ip(&["-n", name, "link", "set", port, "up"]));
    }

    /// The same where `h0` and `h1` are in namespaces of their own, at 10.9.0.1 and 10.9.0.2.
    fn with_hosts(test: &str) -> Option<Self> {
        let mut net = Self::new(test)?;
        for (number, host) in (1..).zip(["h0", "h1"]) {
            let name = format!("{}-{host}", net.name());
            assert!(ip(&["netns", "add", &name]));
            assert!(ip(&["-n", net.name(), "link", "set", host, "netns", &name]));
            assert!(ip(&["-n", &name, "addr", "add", &format!("10.9.0.{number}/24"), "dev", host]));
            assert!(ip(&["-n", &name, "link", "set", host, "up"]));
            net.0.push(name);
        }
        Some(net)
    }

    /// Has a process of this test play a role in one of the namespaces.
    fn player(&self, at: usize, role: &str) -> Player {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[at]]);
        Player::start(Some(command), "plays", role)
    }

    fn name(&self) -> &str {
        &self.0[0]
    }

    /// The program inside the namespace.
    fn command(&self, place: &Place, arguments: &[&str]) -> Command {
        let program = place.command();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name()]).arg(program.get_program()).args(arguments);
        command.current_dir(place.path(".")).env("XDG_RUNTIME_DIR", place.path("."));
        command
    }

    fn run(&self, place: &Place, arguments: &[&str]) -> Ran {
        let output = self.command(place, arguments).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn start(&self, place: &Place, arguments: &[&str]) -> Running {
        Running(self.command(place, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| _ = ip(&["netns", "del", name]));
    }
}

/// The document that a switch serves at a path, by the shell that every machine has.
fn fetch(net: &Net, path: &str) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/9337 && printf 'GET {path} HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n' >&3 && cat <&3"
    );
    let output =
        Command::new("ip").args(["netns", "exec", net.name(), "bash", "-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_switch_shows_itself_to_ps_top_and_a_monitoring_system() {
    let Some(net) = Net::new("shown") else { return };
    let place = Place::new();
    let ports = ["switch", "--port", "p0", "--port", "p1=20Mbps", "--id", "7"];
    let shows = ["--administration", "switch.sock", "--metrics", "127.0.0.1:9337"];
    let switch = net.start(&place, &[&ports[..], &shows].concat());
    eventually("a switch forwards", || fetch(&net, "/readyz").contains("200 OK"));
    // What a host says goes through: a group's address, which goes to all ports.
    let ping = ["netns", "exec", net.name(), "bash", "-c", "echo hello > /dev/udp/ff02::1%h0/9"];
    eventually("a frame comes in", || {
        ip(&ping);
        let listed = place.run(&["ps", "--at", "switch.sock"]);
        assert_eq!(listed.code, 0, "{}", listed.err);
        !listed.out.contains(" 0 frames came in")
    });
    let listed = place.run(&["ps", "--at", "switch.sock"]).out;
    assert!(listed.starts_with("switch 0000000000000007: 2 ports"), "{listed}");
    assert!(listed.contains("p1    20Mbps"), "{listed}");
    let document: serde_json::Value =
        serde_json::from_str(&place.run(&["ps", "--json", "--at", "switch.sock"]).out).unwrap();
    assert_eq!(
        (document["role"].as_str(), document["switch"]["ports"][1]["name"].as_str()),
        (Some("switch"), Some("p1"))
    );
    let figures = fetch(&net, "/metrics");
    for line in [
        "cavalcade_switch_sent_bytes_total{port=\"p1\",class=\"spc\"}",
        "cavalcade_switch_queue_bytes{port=\"p0\",class=\"plain\"} 0",
        "cavalcade_switch_dropped_packets_total{port=\"p0\",class=\"spc\"} 0",
        "cavalcade_switch_link_bits_per_second{port=\"p1\"} 20000000",
        "cavalcade_switch_granted_bits_per_second{port=\"p1\"} 0",
        "cavalcade_switch_tasks{port=\"p1\"} 0",
        "cavalcade_switch_left_out_frames_total{reason=\"malformed\"} 0",
        "# EOF",
    ] {
        assert!(figures.contains(line), "{line} in\n{figures}");
    }
    assert_eq!(looked_at_twice(&place, "switch.sock"), [vec!["p0", "p1"], vec!["p0", "p1"]]);
    watched(&place, "switch.sock", &["0000000000000007", "20Mbps", "questions"]);
    let asked = place.run(&["drain", "--at", "switch.sock"]);
    assert!(asked.code != 0 && asked.err.contains("a switch, which has no kill switch"), "{}", asked.err);
    drop(switch);
}

/// The names of the ports in each of two looks of `top`.
fn looked_at_twice(place: &Place, at: &str) -> [Vec<String>; 2] {
    let mut top = place.command();
    top.args(["top", "--json", "--every", "50ms", "--at", at]).stdout(Stdio::piped());
    let mut top = Running(top.spawn().unwrap());
    let mut lines = BufReader::new(top.0.stdout.take().unwrap()).lines();
    [(); 2].map(|()| {
        let look: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(
            (look["role"].as_str(), look["switch"]["id"].as_u64()),
            (Some("switch"), Some(7)),
            "{look}"
        );
        let ports = look["switch"]["ports"].as_array().unwrap();
        ports.iter().map(|port| port["name"].as_str().unwrap().to_owned()).collect()
    })
}

/// Has `top` draw on a terminal until all of `parts` have been there, and ends it with its key.
fn watched(place: &Place, at: &str, parts: &[&str]) {
    let command =
        format!("stty cols 120 rows 20 && exec {} top --at {at}", place.command().get_program().display());
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).current_dir(place.path(".")).env("TERM", "xterm");
    let Ok(mut script) = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        cavalcade_testing::skipped("script (util-linux), for a terminal");
        return;
    };
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut drawn = Vec::new();
    let has_all = |drawn: &[u8]| {
        let text = String::from_utf8_lossy(drawn);
        parts.iter().all(|part| text.contains(part))
    };
    while !has_all(&drawn) {
        let mut more = [0; 4_096];
        let length = screen.read(&mut more).unwrap();
        assert!(length > 0, "it ended: {}", String::from_utf8_lossy(&drawn));
        drawn.extend(&more[..length]);
    }
    keys.write_all(b"q").unwrap();
    io::copy(&mut screen, &mut io::sink()).unwrap();
    assert!(script.wait().unwrap().success());
}

#[test]
fn a_switch_that_is_killed_leaves_nothing_and_starts_again() {
    killed_and_started_again("process");
}

#[test]
fn a_switch_in_the_kernel_that_is_killed_leaves_nothing_and_starts_again() {
    killed_and_started_again("xdp");
}

fn killed_and_started_again(carrier: &str) {
    let Some(net) = Net::new(carrier) else { return };
    let place = Place::new();
    let ports = ["switch", "--port", "p0", "--port", "p1", "--carrier", carrier];
    let started = [&ports[..], &["--metrics", "127.0.0.1:9337", "--administration", "switch.sock"]].concat();
    if carrier == "xdp" {
        // Their other ends have no receive offload yet.
        let refused = net.run(&place, &started);
        if refused.err.contains("cannot switch in the kernel") {
            cavalcade_testing::skipped("programs for the kernel");
            return;
        }
        assert!(refused.code == 5 && refused.err.contains("ethtool"), "{} {}", refused.code, refused.err);
        for host in ["h0", "h1"] {
            if !ip(&["netns", "exec", net.name(), "ethtool", "-K", host, "gro", "on"]) {
                cavalcade_testing::skipped("ethtool, for receive offload");
                return;
            }
        }
    }
    let programs = || {
        let shown = Command::new("ip").args(["-n", net.name(), "link"]).output().unwrap();
        String::from_utf8(shown.stdout).unwrap().matches("prog/xdp").count()
    };
    for _ in 0..2 {
        let switch = net.start(&place, &started);
        eventually("the switch forwards", || fetch(&net, "/readyz").contains("200 OK"));
        assert!(fetch(&net, "/metrics").contains("cavalcade_switch_tasks{port=\"p1\"} 0"));
        assert_eq!(programs(), if carrier == "xdp" { 2 } else { 0 });
        // Dropping kills it. Its socket stays, and is the next one's.
        drop(switch);
        eventually("the kernel lets the programs go", || programs() == 0);
    }
}

#[test]
fn a_switch_that_cannot_be_says_why_before_it_begins() {
    let Some(net) = Net::new("refused") else { return };
    let place = Place::new();
    let refused = |arguments: &[&str]| {
        let ran = net.run(&place, &[&["switch", "--administration", "switch.sock"], arguments].concat());
        assert!(!place.names().contains(&"switch.sock".to_owned()), "its socket goes with it");
        (ran.code, ran.err)
    };
    let (code, said) = refused(&["--port", "p9"]);
    assert!(code == 2 && said.contains("no interface p9") && said.contains("ip link"), "{code} {said}");
    let (code, said) = refused(&["--port", "p0", "--metrics", "0.0.0.0:9337"]);
    assert!(code == 2 && said.contains("can be reached from other hosts"), "{code} {said}");
    // What leaves p0 comes in by h0, and goes out by h1 to p1.
    assert!(ip(&["-n", net.name(), "link", "add", "br0", "type", "bridge", "forward_delay", "0"]));
    for end in ["h0", "h1"] {
        assert!(ip(&["-n", net.name(), "link", "set", end, "master", "br0"]));
    }
    assert!(ip(&["-n", net.name(), "link", "set", "br0", "up"]));
    let (code, said) = refused(&["--port", "p0", "--port", "p1"]);
    assert!(code == 1 && said.contains("the topology has a loop"), "{code} {said}");
    let first = [
        "switch",
        "--port",
        "p0",
        "--id",
        "7",
        "--administration",
        "first.sock",
        "--metrics",
        "127.0.0.1:9337",
    ];
    let first = net.start(&place, &first);
    eventually("the first one forwards", || fetch(&net, "/readyz").contains("200 OK"));
    let (code, said) = refused(&["--port", "p1", "--id", "7"]);
    assert!(code == 1 && said.contains("has the id 7 as well") && said.contains("--id"), "{code} {said}");
    assert!(fetch(&net, "/readyz").contains("200 OK"), "the one that was there goes on");
    drop(first);
}

#[test]
fn without_the_right_to_packets_or_programs_a_switch_names_the_capability() {
    let Some(net) = Net::new("rights") else { return };
    // Else the switch in the kernel has a second reason not to begin.
    let _ = ip(&["netns", "exec", net.name(), "ethtool", "-K", "h0", "gro", "on"]);
    let place = Place::new();
    let program = place.command();
    let command = |capabilities: &str, carrier: &str| {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", net.name(), "setpriv"])
            .args(["inh-caps", "ambient-caps", "bounding-set"].map(|set| format!("--{set}={capabilities}")))
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(program.get_program())
            .args(["switch", "--port", "p0", "--carrier", carrier, "--metrics", "127.0.0.1:9337"]);
        command
    };
    let with = |capabilities: &str, carrier: &str| {
        let output = command(capabilities, carrier).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = with("-all", "process");
    if said.contains("setpriv") || said.contains("Permission denied") {
        cavalcade_testing::skipped("setpriv, and a program that other users may run");
        return;
    }
    assert!(code == Some(5) && said.contains("CAP_NET_RAW"), "{said}");
    let (code, said) = with("-all,+net_raw", "xdp");
    let needs = if said.contains("this build") { "clang" } else { "CAP_BPF" };
    assert!(code == Some(5) && said.contains(needs), "{said}");
    let switch = Running(command("-all,+net_raw", "process").stderr(Stdio::null()).spawn().unwrap());
    eventually("a switch without any other right forwards", || fetch(&net, "/readyz").contains("200 OK"));
    drop(switch);
}

/// What a transfer carries; of that, what has arrived when its switch is killed, and the most that
/// is read before there is another one.
const LENGTH: usize = 8_000_000;
const BEGUN: usize = 1_000_000;
const HELD: usize = 2_000_000;

fn text() -> Vec<u8> {
    let mut random = cavalcade_model::SplitMix64::new(1);
    (0..LENGTH).map(|_| random.below(256) as u8).collect()
}

fn endpoint(address: &str) -> Endpoint {
    let (line_rate, base_rtt) = (BitsPerSec(50_000_000), Nanos(2_000_000));
    let settings = Settings { line_rate, base_rtt, ..Settings::default() };
    Endpoint::bind(address, Options { settings, ..Options::default() }).unwrap()
}

/// Not a test by itself: what the players do.
#[test]
fn plays() {
    match role().as_deref() {
        None => {}
        Some("sends") => {
            receive_offload("h0").unwrap();
            say("ready");
            wait_for_go();
            let server = "10.9.0.2:4000".parse().unwrap();
            let mut stream = endpoint("0.0.0.0:0").connect(server, 1).unwrap();
            stream.write_all(&text()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.wait_acknowledged().unwrap();
            say("all is acknowledged");
        }
        Some("receives") => {
            receive_offload("h1").unwrap();
            let listener = endpoint("10.9.0.2:4000").listen();
            say("ready");
            let (stream, _) = listener.accept().unwrap();
            let mut all = Vec::with_capacity(LENGTH);
            let mut read = |most: usize| (&stream).take(most as u64).read_to_end(&mut all).unwrap();
            read(BEGUN);
            say("begun");
            read(HELD - BEGUN);
            wait_for_go();
            read(LENGTH + 1);
            say(if all == text() { "whole" } else { "not what was sent" });
        }
        Some("is all hosts") => is_all_hosts(),
        Some(asks) if asks.starts_with("gets ") => gets(&asks[5..]),
        Some(role) => panic!("{role}"),
    }
}

/// Bytes of each value that memcached has here, and the number of values.
const VALUE: usize = 800_000;
const VALUES: usize = 10;

/// A client of memcached that asks for `rounds` times all values. It says how many bytes have come
/// whenever it is told to go on, and when the first and the last have.
fn gets(asks: &str) {
    static COME: AtomicUsize = AtomicUsize::new(0);
    let (port, rounds) = asks.split_once(' ').unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
    let keys: String = (0..VALUES).map(|key| format!(" k{key}")).collect();
    write!(stream, "get{}\r\n", keys.repeat(rounds.parse().unwrap())).unwrap();
    let all = VALUE * VALUES * rounds.parse::<usize>().unwrap();
    std::thread::spawn(move || {
        let mut piece = [0; 16 << 10];
        while COME.load(Ordering::Relaxed) < all {
            let count = stream.read(&mut piece).unwrap();
            assert!(count > 0, "it has ended before all had come");
            COME.fetch_add(count, Ordering::Relaxed);
        }
    });
    eventually("the first bytes", || COME.load(Ordering::Relaxed) > 0);
    say("begun");
    loop {
        wait_for_go();
        say(COME.load(Ordering::Relaxed));
    }
}

#[test]
fn memcached_with_ordinary_clients_on_both_sides_of_a_switch_serves_the_earlier_task_first() {
    if ["memcached", "memccp"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
        return cavalcade_testing::skipped("memcached and the tools of libmemcached");
    }
    let Some(net) = Net::with_hosts("memcached") else { return };
    let place = Place::new();
    let fabric = ["--rate", "50Mbps", "--round-trip", "2ms"];
    let _switch = forwarding(&net, &place, "process", &[&fabric[..], &["--id", "7"]].concat());
    let program = place.command().get_program().to_str().unwrap().to_owned();
    let at = |host: usize, arguments: &[&str]| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &net.0[host]]).args(arguments).current_dir(place.path("."));
        command
    };
    let start = |host: usize, arguments: &[&str]| {
        Running(at(host, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    assert!(net.0[1..].iter().all(|host| ip(&["-n", host, "link", "set", "lo", "up"])));
    let proxy = |host: usize, arguments: &[&str]| {
        start(host, &[&[&program, "spc-proxy"], arguments, &fabric].concat())
    };
    let _memcached = start(2, &["memcached", "-u", "nobody", "-U", "0", "-l", "127.0.0.1", "-p", "11211"]);
    let _server = proxy(2, &["--from-spc", "10.9.0.2:4211", "--to", "127.0.0.1:11211"]);
    let client = |port: &str, first: &str| {
        let from = format!("127.0.0.1:{port}");
        proxy(1, &["--from-tcp", &from, "--to", "10.9.0.2:4211", "--first-task", first])
    };
    let _clients = [client("11211", "1"), client("11212", "1000")];
    let value: Vec<u8> = (0..VALUE).map(|at| b'a' + (at * 7 % 26) as u8).collect();
    for key in 0..VALUES {
        let name = format!("k{key}");
        std::fs::write(place.path(&name), &value).unwrap();
        eventually(format_args!("{name} is stored"), || {
            at(1, &["memccp", "--servers=127.0.0.1:11211", &name]).output().unwrap().status.success()
        });
    }
    let read = at(1, &["memccat", "--servers=127.0.0.1:11211", "k3"]).output().unwrap();
    assert!(read.stdout.starts_with(&value), "{} bytes", read.stdout.len());
    // Task 1000 has begun when one of the first hundred comes, and has the link again when that has
    // all.
    let mut late = net.player(1, "gets 11212 20");
    assert_eq!(late.hears(), "begun");
    let mut early = net.player(1, "gets 11211 1");
    assert_eq!(early.hears(), "begun");
    let come = |player: &mut Player| -> usize {
        player.go();
        player.hears().parse().unwrap()
    };
    let before = come(&mut late);
    eventually("the end of the early one", || come(&mut early) >= VALUE * VALUES);
    // At equal shares it would have as much as the early one; what proxies and sockets had taken in
    // comes nevertheless.
    let meanwhile = come(&mut late) - before;
    assert!(meanwhile < VALUE * VALUES / 2, "{meanwhile} of {}", VALUE * VALUES);
}

/// Waits until a switch without hosts forwards, and returns it.
fn forwarding(net: &Net, place: &Place, carrier: &str, more: &[&str]) -> Running {
    let ports =
        ["switch", "--port", "p0", "--port", "p1", "--carrier", carrier, "--metrics", "127.0.0.1:9337"];
    let switch = net.start(place, &[&ports[..], more].concat());
    eventually("the switch forwards", || fetch(net, "/readyz").contains("200 OK"));
    switch
}

/// Returns whether this build lacks what a carrier needs; the test is then reported as skipped.
fn lacks(carrier: &str) -> bool {
    let missing = cavalcade_switch::kernel::missing().filter(|_| carrier == "xdp");
    missing
        .iter()
        .for_each(|why| cavalcade_testing::skipped(format_args!("programs for the kernel ({why})")));
    missing.is_some()
}

#[test]
fn a_switch_that_is_killed_and_started_again_loses_no_byte_of_a_transfer() {
    killed_under_a_transfer("process");
}

#[test]
fn a_switch_in_the_kernel_that_is_killed_and_started_again_loses_no_byte_of_a_transfer() {
    killed_under_a_transfer("xdp");
}

fn killed_under_a_transfer(carrier: &str) {
    let Some(net) = Net::with_hosts(&format!("killed-{carrier}")).filter(|_| !lacks(carrier)) else { return };
    let place = Place::new();
    let (mut sender, mut receiver) = (net.player(1, "sends"), net.player(2, "receives"));
    assert_eq!([sender.hears(), receiver.hears()], ["ready", "ready"]);
    let fabric = ["--rate", "50Mbps", "--round-trip", "2ms", "--id", "7"];
    let first = forwarding(&net, &place, carrier, &fabric);
    sender.go();
    assert_eq!(receiver.hears(), "begun");
    // Dropping kills it.
    drop(first);
    let mut second = forwarding(&net, &place, carrier, &fabric);
    receiver.go();
    assert_eq!([sender.hears(), receiver.hears()], ["all is acknowledged", "whole"]);
    let sent = || -> Option<u64> {
        let figures = fetch(&net, "/metrics");
        figures.split_once("{port=\"p1\",class=\"spc\"} ")?.1.split_whitespace().next()?.parse().ok()
    };
    // The receiver has room for a megabyte that it does not read.
    let after = (LENGTH - HELD - (1 << 20)) as u64;
    eventually("the second one shows what it has carried", || sent() > Some(after));
    let number = second.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &number]).status().unwrap().success());
    assert!(second.0.wait().unwrap().success());
    let _alone = DOCTOR.lock();
    let found = net.run(&place, &["doctor", "--fix-leftovers"]);
    assert!(found.code == 0, "{}", found.err);
    // Others on this machine may have left something.
    assert!(!found.out.contains(net.name()) && !found.out.contains("cavalcade-switch"), "{}", found.out);
    assert!(place.names().is_empty(), "{:?}", place.names());
    let shown = Command::new("ip").args(["-n", net.name(), "link"]).output().unwrap();
    assert!(!String::from_utf8(shown.stdout).unwrap().contains("prog/xdp"));
}

const SAID: [u8; 6] = [2, 0, 0, 0, 9, 9];
const LEARNED: [u8; 6] = [2, 0, 0, 0, 9, 8];
const ASKS: [u8; 6] = [2, 0, 0, 0, 9, 1];
/// The type of the frames that hosts send each other here: for experiments (IEEE 802).
const TYPE: [u8; 2] = [0x88, 0xb6];

/// Says what `h1` and `h2` hear of numbered frames by `h0`, before and after `h1` has claimed both
/// addresses for itself.
fn is_all_hosts() {
    let mut hosts = ["h0", "h1", "h2"].map(|name| {
        receive_offload(name).unwrap();
        Device::open(name).unwrap()
    });
    say("ready");
    wait_for_go();
    let mut heard: [Vec<u8>; 3] = Default::default();
    let frame = |from: [u8; 6], to: [u8; 6], number: u8| {
        let bytes = [&to[..], &from, &TYPE, &[number; 50]].concat();
        Packet { bytes, unfinished: None }
    };
    let send = |hosts: &mut [Device; 3], from: usize, frame| {
        assert_eq!(hosts[from].send(&[frame]).unwrap(), 1);
    };
    let mut wait = |hosts: &mut [Device; 3], at: usize, number: u8| {
        eventually(format_args!("h{at} hears {number}"), || {
            for (host, heard) in hosts.iter_mut().zip(&mut heard) {
                let looked = host.receive(|frame, _, _| {
                    heard.extend((frame[12..14] == TYPE).then_some(frame[14]));
                    Ok(())
                });
                looked.unwrap();
            }
            heard[at].contains(&number)
        });
    };
    send(&mut hosts, 0, frame(ASKS, SAID, 1));
    wait(&mut hosts, 2, 1);
    send(&mut hosts, 1, frame(SAID, ASKS, 2));
    send(&mut hosts, 1, frame(LEARNED, ASKS, 3));
    wait(&mut hosts, 0, 3);
    send(&mut hosts, 0, frame(ASKS, SAID, 4));
    send(&mut hosts, 0, frame(ASKS, LEARNED, 5));
    wait(&mut hosts, 2, 4);
    // Where that one had gone to h1 as well, it would be before this one.
    wait(&mut hosts, 1, 5);
    say(format_args!("{:?}", &heard[1..]));
}

#[test]
fn frames_to_an_address_that_was_said_leave_by_its_port_whatever_is_heard_elsewhere() {
    for carrier in ["process", "xdp"] {
        let Some(net) = Net::new(&format!("said-{carrier}")).filter(|_| !lacks(carrier)) else { return };
        net.join("h2", "p2");
        let place = Place::new();
        let mut hosts = net.player(0, "is all hosts");
        assert_eq!(hosts.hears(), "ready");
        let address = SAID.map(|byte| format!("{byte:02x}")).join(":");
        let switch =
            forwarding(&net, &place, carrier, &["--port", "p2", "--route", &format!("{address}=p2")]);
        hosts.go();
        assert_eq!(hosts.hears(), "[[5], [1, 4]]", "what h1 and h2 hear by {carrier}");
        drop(switch);
    }
}

/// What is left behind is of the whole machine: who makes or looks for some does it alone.
static DOCTOR: Mutex<()> = Mutex::new(());

#[test]
fn what_killed_processes_left_is_found_and_removed_and_sockets_that_are_served_stay() {
    let _alone = DOCTOR.lock();
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let ran = place.command().env("XDG_RUNTIME_DIR", place.path(".")).args(arguments).output().unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let listen = |name: &str| std::os::unix::net::UnixListener::bind(place.path(name)).unwrap();
    drop(listen("cavalcade-switch-0000000000000007.sock"));
    let _served = listen("cavalcade-switch-0000000000000008.sock");
    // A number that no process has.
    let lab = "cvl-4194399-bench";
    let has_lab = ip(&["netns", "add", lab]);
    let found = run(&["doctor"]);
    assert!(found.contains(" namespaces and folders, and 1 sockets"), "{found}");
    let removed = run(&["doctor", "--fix-leftovers"]);
    assert!(removed.contains("0000000000000007.sock"), "{removed}");
    assert_eq!(place.names(), ["cavalcade-switch-0000000000000008.sock"]);
    if !has_lab {
        return cavalcade_testing::skipped("root and iproute2, for network namespaces");
    }
    assert!(removed.contains(lab), "{removed}");
    assert!(!std::path::Path::new("/run/netns").join(lab).exists());
}

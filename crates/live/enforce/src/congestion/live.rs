//! The controls on real connections: two network namespaces, a link with a queue that marks, and
//! processes of coflows.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use aya::maps::Array;
use aya::programs::SchedClassifier;
use aya::{Btf, Ebpf, EbpfLoader};
use cavalcade_client::DscpMap;
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_protocol::Gate;
use cavalcade_testing::{Player, eventually, eventually_some, role, say, skipped, wait_for_go};
use rustix::net::sockopt::set_tcp_congestion;
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::{Control, Goal, Law};
use crate::kernel::monotonic;
use crate::shared::CONTROLS;
use crate::{Conditions, Enforcer, Flow, Group, Hierarchy, Kernel, Limits, Order, Place, Request, leftovers};

const RECEIVER: &str = "10.77.1.2";
const PORT: u16 = 9_000;
/// The link, and the queue at which it marks.
const MEGABITS: u64 = 40;
const MARK_AT: u64 = 30_000;
/// What is sent at once where losses are looked at: less than a window, so that nothing grows; and
/// a segment's payload.
const BURST: usize = 5;
const SEGMENT: usize = 1_448;
/// The system's control that is compared with.
const PLAIN: &str = "reno";

/// `struct port` of `bpf/congestion.bpf.c`.
type PortWords = [u64; 8];

/// What a port has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    asking_syns: u64,
    other_syns: u64,
    markable: u64,
    other_data: u64,
    marked: u64,
}

/// Two hosts and a link from the first to the second, and a control group of this test alone.
struct Ground {
    name: String,
    place: Place,
    group: Option<Group>,
    port: Ebpf,
}

impl Ground {
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let programs =
            CONTROLS.map_err(|reason| skipped(format_args!("programs for the kernel ({reason})"))).ok()?;
        if !rustix::process::geteuid().is_root() {
            skipped("root, to load programs into the kernel");
            return None;
        }
        for tool in ["ip", "tc", "ss", "nsenter"] {
            let found = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .any(|folder| Path::new(folder).join(tool).exists());
            if !found {
                skipped(tool);
                return None;
            }
        }
        let (Ok(types), Ok(Hierarchy { root })) = (Btf::from_sys_fs(), Hierarchy::find()) else {
            skipped("the kernel's BTF, and control groups of version 2");
            return None;
        };
        let name = format!("cavalcade-cc-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group = Group::make(&root, &name).unwrap();
        let place = Place { above: group.path().to_owned(), name: name.clone() };
        let port = EbpfLoader::new().btf(Some(&types)).load(programs).unwrap();
        let mut ground = Self { name, place, group: Some(group), port };
        ground.lay();
        Some(ground)
    }

    /// Makes two hosts and the switch between them, whose port to the second is the bottleneck: a
    /// queue at a sender's own link is short anyway, since TCP waits for it. Packets come one by
    /// one, as a switch would see them.
    fn lay(&mut self) {
        let [from, switch, to] = ["a", "s", "b"].map(|name| self.host(name));
        [&from, &switch, &to].into_iter().for_each(|host| ip(&format!("netns add {host}")));
        ip(&format!("link add cva netns {from} type veth peer name sva netns {switch}"));
        ip(&format!("link add svb netns {switch} type veth peer name cvb netns {to}"));
        let links = [
            (&from, "cva", "10.77.0.1"),
            (&switch, "sva", "10.77.0.254"),
            (&switch, "svb", "10.77.1.254"),
            (&to, "cvb", RECEIVER),
        ];
        for (host, link, address) in links {
            ip(&format!("-n {host} addr add {address}/24 dev {link}"));
            ip(&format!("-n {host} link set {link} gso_max_segs 1 up"));
        }
        ip(&format!("-n {from} route add default via 10.77.0.254"));
        ip(&format!("-n {to} route add default via 10.77.1.254"));
        self.clear();
        run(&switch, "sh", "-c echo\t1\t>/proc/sys/net/ipv4/ip_forward");
        let tc = |words: &str| run(&switch, "tc", words);
        tc("qdisc add dev svb root handle 1: htb default 1");
        tc(&format!("class add dev svb parent 1: classid 1:1 htb rate {MEGABITS}mbit burst 5k cburst 5k"));
        self.attach("mark_as_switch", &switch, "svb", "egress");
        self.attach("leave_switch", &to, "cvb", "ingress");
    }

    fn attach(&mut self, name: &str, host: &str, link: &str, side: &str) {
        crate::pins::mount().unwrap();
        let pin = Path::new("/sys/fs/bpf").join(format!("{host}-port"));
        let program: &mut SchedClassifier = self.port.program_mut(name).unwrap().try_into().unwrap();
        program.load().unwrap();
        program.pin(&pin).unwrap();
        run(host, "tc", &format!("qdisc add dev {link} clsact"));
        run(host, "tc", &format!("filter add dev {link} {side} bpf da pinned {}", pin.display()));
        std::fs::remove_file(pin).unwrap();
    }

    fn host(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    fn port(&mut self) -> Array<&mut aya::maps::MapData, PortWords> {
        self.port.map_mut("trial_port").unwrap().try_into().unwrap()
    }

    /// Forgets what has passed.
    fn clear(&mut self) {
        self.port().set(0, [MARK_AT, 0, 0, 0, 0, 0, 0, 0], 0).unwrap();
    }

    /// Has the port lose so many of the next packets with data, and mark none.
    fn lose(&mut self, packets: u64) {
        self.port().set(0, [u64::MAX, 0, 0, 0, 0, 0, 0, packets], 0).unwrap();
    }

    fn seen(&mut self) -> Seen {
        let [_, _, asking_syns, other_syns, markable, other_data, marked, _] =
            self.port().get(&0, 0).unwrap();
        Seen { asking_syns, other_syns, markable, other_data, marked }
    }

    fn load(&self) -> Kernel {
        Kernel::load(self.place.clone(), Limits { silence: Nanos::from_secs(60), ..Limits::default() })
            .unwrap()
    }

    /// A process at a host, in this group.
    fn start(&self, host: &str, group: &Path, role: &str) -> Player {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.host(host))).args(["sh", "-c", &enter]);
        Player::start(Some(command), "congestion::live::plays_a_role", role)
    }

    fn receiver(&self, group: &Path) -> Player {
        let mut player = self.start("b", group, "receive");
        assert_eq!(player.hears(), "listening");
        player
    }

    fn sender(&self, group: &Path, control: &str, seconds: u64) -> Player {
        self.start("a", group, &format!("send {control} {seconds}"))
    }

    /// The kernel's connections to the receiver.
    fn sockets(&self) -> Vec<Socket> {
        let text = run(&self.host("a"), "ss", &format!("-tinHO dst {RECEIVER}"));
        text.lines().filter_map(Socket::read).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        for host in ["a", "s", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &self.host(host)]).status();
        }
        if !std::thread::panicking() {
            assert_eq!(leftovers::find(&self.place).unwrap(), Vec::<PathBuf>::new());
        }
        let _ = leftovers::fix(&self.place);
        self.group.take();
    }
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {words}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs a tool in a host's network, and in this process's other namespaces: the file system of pins
/// is there.
fn run(host: &str, tool: &str, words: &str) -> String {
    let net = format!("--net=/run/netns/{host}");
    let done = Command::new("nsenter").args([&net, tool]).args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "{tool} {words}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A connection as `ss` shows it.
#[derive(Clone, Debug, PartialEq)]
struct Socket {
    local: String,
    control: String,
    window: u64,
    /// Below it the window grows by what is acknowledged; none where the kernel has not been told
    /// one.
    threshold: Option<u64>,
    round_trip: f64,
    acknowledged: u64,
}

impl Socket {
    fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        Some(Self {
            local: (*words.get(3)?).to_owned(),
            control: (*words.get(5)?).to_owned(),
            window: value("cwnd:")?.parse().ok()?,
            threshold: value("ssthresh:").and_then(|threshold| threshold.parse().ok()),
            round_trip: value("rtt:")?.split('/').next()?.parse().ok()?,
            acknowledged: value("bytes_acked:")?.parse().ok()?,
        })
    }
}

/// What a child does; nothing where this is the test itself.
#[test]
fn plays_a_role() {
    let Some(role) = role() else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["receive"] => receive(),
        ["send", control, seconds] => send(control, seconds.parse().unwrap()),
        ["bursts"] => send_bursts(),
        ["ask", door, request, sends] => {
            let request: Request = format!("{request} sends={sends}").parse().unwrap();
            request.send(Path::new(door)).unwrap();
            send("-", 60);
        }
        ["enforce", above, name] => enforce(above, name),
        _ => panic!("no such role: {role}"),
    }
}

fn receive() {
    let listener = TcpListener::bind((RECEIVER, PORT)).unwrap();
    say("listening");
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || while stream.read(&mut [0; 65_536]).is_ok_and(|length| length > 0) {});
    }
}

fn send(control: &str, seconds: u64) {
    let address: SocketAddr = format!("{RECEIVER}:{PORT}").parse().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    say(stream.local_addr().unwrap());
    if control != "-" {
        set_tcp_congestion(&stream, control).unwrap();
    }
    let (started, chunk) = (Instant::now(), [7; 16_384]);
    while started.elapsed() < Duration::from_secs(seconds) {
        stream.write_all(&chunk).unwrap();
    }
    say("sent");
}

/// Sends [`BURST`] segments each time that it is let go on.
fn send_bursts() {
    let mut stream = TcpStream::connect((RECEIVER, PORT)).unwrap();
    stream.set_nodelay(true).unwrap();
    say(stream.local_addr().unwrap());
    loop {
        wait_for_go();
        stream.write_all(&[7; BURST * SEGMENT]).unwrap();
    }
}

fn enforce(above: &str, name: &str) {
    let place = Place { above: above.into(), name: name.to_owned() };
    let limits = Limits { silence: Nanos::from_secs(1), ..Limits::default() };
    let mut kernel = Kernel::load(place, limits).unwrap();
    kernel.control(Some(control(Law::Dctcp))).unwrap();
    let group = kernel.tag(Path::new(above), 1).unwrap();
    say(group.path().display());
    loop {
        kernel.stay_alive().unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The mean round trip of connections in milliseconds, over some looks after they have had time to
/// find their windows.
fn round_trip(ground: &Ground) -> f64 {
    eventually("connections that have sent a megabyte", || {
        let sockets = ground.sockets();
        sockets.len() == 2 && sockets.iter().all(|socket| socket.acknowledged > 1_000_000)
    });
    let mut all = Vec::new();
    while all.len() < 20 {
        all.extend(ground.sockets().iter().map(|socket| socket.round_trip));
        std::thread::sleep(Duration::from_millis(100));
    }
    all.iter().sum::<f64>() / all.len() as f64
}

/// Two connections under a law, each with its goal; returns how many times as much the first has
/// sent, by the time that both together have sent so many bytes.
fn share_of_first(law: Law, goals: [Goal; 2], bytes: u64) -> Option<f64> {
    let ground = Ground::new()?;
    let mut kernel = ground.load();
    kernel.control(Some(control(law))).unwrap();
    let above = ground.place.above.clone();
    let groups = [1, 2, 3].map(|coflow| kernel.tag(&above, coflow).unwrap());
    for (coflow, goal) in [1, 2].into_iter().zip(goals) {
        kernel.aim(Flow::of_all_peers(coflow), goal).unwrap();
    }
    let _receiver = ground.receiver(groups[2].path());
    let _senders = [0, 1].map(|number| ground.sender(groups[number].path(), "-", 60));
    let sent = |coflow| {
        kernel
            .counts()
            .unwrap()
            .iter()
            .find(|(flow, _)| flow.coflow == coflow)
            .map_or(0, |(_, count)| count.sent.0)
    };
    // The first megabytes go to finding the windows.
    let begun = eventually_some("bytes", || (sent(1) + sent(2) > bytes / 4).then(|| [sent(1), sent(2)]));
    let ended = eventually_some("bytes", || (sent(1) + sent(2) > bytes).then(|| [sent(1), sent(2)]));
    let [first, second] = [0, 1].map(|at| (ended[at] - begun[at]) as f64);
    eprintln!("{law:?}: {first} against {second} bytes; {:?}", ground.sockets());
    Some(first / second)
}

/// A law in this network.
fn control(law: Law) -> Control {
    Control {
        line_rate: BitsPerSec(MEGABITS * 1_000_000),
        marking: Bytes(MARK_AT),
        largest: Bytes(300_000_000),
        ..Control::new(law)
    }
}

fn goal(bytes: u64, left: Duration) -> Goal {
    Goal { deadline: Some(monotonic() + Nanos(left.as_nanos() as u64)), size: Some(Bytes(bytes)) }
}

#[test]
fn a_near_deadline_gets_more_than_a_far_one_under_d2tcp() {
    let near = goal(10_000_000_000, Duration::from_secs(60));
    let far = goal(60_000_000, Duration::from_secs(36_000));
    let Some(share) = share_of_first(Law::D2tcp, [near, far], 24_000_000) else { return };
    assert!(share > 1.5, "{share}");
}

#[test]
fn little_to_go_gets_more_than_much_under_tafe() {
    let little = Goal { deadline: None, size: Some(Bytes(30_000_000)) };
    let much = Goal { deadline: None, size: Some(Bytes(10_000_000_000)) };
    let Some(share) = share_of_first(Law::Tafe, [little, much], 24_000_000) else { return };
    assert!(share > 1.3, "{share}");
}

#[test]
fn what_commands_say_that_they_send_reaches_the_law() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    // The receiver belongs to no coflow.
    kernel.control(Some(Control { answers: true, ..control(Law::Tafe) })).unwrap();
    let folder = std::env::temp_dir().join(&ground.name);
    std::fs::create_dir(&folder).unwrap();
    let door = folder.join("door");
    let (at, agent, stop) = (door.clone(), folder.join("no-agent"), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop);
    let serving = std::thread::spawn(move || {
        let (classes, rules, containers) = (DscpMap::default(), Vec::new(), Vec::new());
        let conditions = Conditions { door: at, agent, classes, rules, of_user: 8, containers, site: None };
        Enforcer::new(kernel, conditions).unwrap().serve(&stopped)
    });
    eventually("the door", || door.exists());
    let above = ground.place.above.clone();
    let _receiver = ground.receiver(&above);
    let mut senders =
        [("coflow=1.0.1", 30_000_000), ("coflow=2.0.2", 10_000_000_000_u64)].map(|(of, bytes)| {
            ground.start("a", &above, &format!("ask {} {of} {RECEIVER}:{bytes}", door.display()))
        });
    let ends = senders.each_mut().map(Player::hears);
    let sent = || {
        let sockets = ground.sockets();
        let of =
            |end: &String| sockets.iter().find(|socket| socket.local == *end).map(|found| found.acknowledged);
        Some([of(&ends[0])?, of(&ends[1])?])
    };
    let after = |bytes: u64| eventually_some("bytes", || sent().filter(|sent| sent[0] + sent[1] > bytes));
    let (begun, ended) = (after(6_000_000), after(24_000_000));
    let [little, much] = [0, 1].map(|at| (ended[at] - begun[at]) as f64);
    eprintln!("{little} against {much} bytes; {:?}", ground.sockets());
    drop(senders);
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(little > 1.3 * much, "{little} against {much}");
}

#[test]
fn a_deadline_flow_is_held_to_the_rate_that_it_needs_under_mcp() {
    // 10 of 40 Mbps for the first; the other takes what is left.
    let first = goal(75_000_000, Duration::from_secs(60));
    let Some(share) = share_of_first(Law::Mcp, [first, Goal::default()], 24_000_000) else { return };
    assert!((0.2..0.6).contains(&share), "{share}");
}

#[test]
fn a_killed_enforcer_leaves_connections_with_their_own_control_and_none_of_its_own() {
    let Some(ground) = Ground::new() else { return };
    let above = ground.place.above.clone();
    let role = format!("enforce {} {}", above.display(), ground.place.name);
    let mut enforcer = ground.start("a", &above, &role);
    let group = PathBuf::from(enforcer.hears());
    let _receiver = ground.receiver(&group);
    let _sender = ground.sender(&group, "-", 60);
    let control = || ground.sockets().first().map(|socket| (socket.control.clone(), socket.acknowledged));
    let (name, before) =
        eventually_some("control", || control().filter(|(name, _)| name.starts_with("cv_dctcp.")));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    set_tcp_congestion(&other, &name).unwrap();
    set_tcp_congestion(&other, PLAIN).unwrap();
    enforcer.kill();
    // The control is gone, and the connection goes on.
    eventually("the end of the control", || set_tcp_congestion(&other, &name).is_err());
    assert_eq!(set_tcp_congestion(&other, &name), Err(rustix::io::Errno::NOENT));
    let own =
        eventually_some("its own control", || control().filter(|(now, sent)| *now != name && *sent > before));
    assert!(!own.0.starts_with("cv_"), "{own:?}");
    assert!(!leftovers::fix(&ground.place).unwrap().is_empty());
}

#[test]
fn a_flow_that_is_released_takes_its_own_control_back_until_there_are_orders_again() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    kernel.control(Some(control(Law::Dctcp))).unwrap();
    let groups = [1, 2].map(|coflow| kernel.tag(&ground.place.above, coflow).unwrap());
    let _receiver = ground.receiver(groups[1].path());
    let _sender = ground.sender(groups[0].path(), "-", 60);
    let control = || ground.sockets().first().map_or(String::new(), |socket| socket.control.clone());
    eventually("the place's control", || control().starts_with("cv_dctcp."));
    let is_own = || !control().is_empty() && !control().starts_with("cv_");
    let flow = Flow { coflow: 1, peer: RECEIVER.parse().unwrap() };
    kernel.release(flow).unwrap();
    eventually("its own control", is_own);
    kernel.order(flow, Order::from(Gate::Open {})).unwrap();
    eventually("the place's control", || control().starts_with("cv_dctcp."));
    kernel.release(Flow::of_all_peers(1)).unwrap();
    kernel.cancel(flow);
    eventually("its own control", is_own);
}

#[test]
fn a_user_without_rights_cannot_choose_a_control() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    kernel.control(Some(control(Law::Dctcp))).unwrap();
    let name = super::name_at(Law::Dctcp, &ground.place.name);
    // A thread of its own, since rights are those of threads.
    let chosen = std::thread::spawn(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let as_root = set_tcp_congestion(&socket, &name);
        set_tcp_congestion(&socket, PLAIN).unwrap();
        set_thread_res_uid(None::<Uid>, Uid::from_raw(65_534), None::<Uid>).unwrap();
        (as_root, set_tcp_congestion(&socket, &name))
    });
    assert_eq!(chosen.join().unwrap(), (Ok(()), Err(rustix::io::Errno::PERM)));
}

#[test]
fn a_receiver_that_knows_no_marks_leaves_a_connection_with_its_own_control() {
    let Some(mut ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    kernel.control(Some(control(Law::Dctcp))).unwrap();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    // Outside of the place, where nothing has listeners accept.
    let outside = Hierarchy::find().unwrap().root;
    let _receiver = ground.receiver(&outside);
    let _sender = ground.sender(group.path(), "-", 60);
    let socket = eventually_some("bytes", || {
        ground.sockets().first().cloned().filter(|socket| socket.acknowledged > 500_000)
    });
    assert!(!socket.control.starts_with("cv_"), "{socket:?}");
    let seen = ground.seen();
    assert_eq!((seen.asking_syns, seen.markable), (1, 0), "{seen:?}");
}

#[test]
fn dctcp_asks_for_marks_on_the_wire_and_keeps_the_queue_short() {
    let Some(mut ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let plain = ground.place.above.clone();
    let (first, second) = (kernel.tag(&plain, 1).unwrap(), kernel.tag(&plain, 2).unwrap());
    let long = {
        let _receiver = ground.receiver(&plain);
        let _senders = [ground.sender(&plain, PLAIN, 60), ground.sender(&plain, PLAIN, 60)];
        round_trip(&ground)
    };
    let before = ground.seen();
    assert_eq!((before.asking_syns, before.markable), (0, 0), "{before:?}");
    ground.clear();
    kernel.control(Some(control(Law::Dctcp))).unwrap();
    let receivers = kernel.tag(&plain, 3).unwrap();
    let _receiver = ground.receiver(receivers.path());
    let _senders = [ground.sender(first.path(), "-", 60), ground.sender(second.path(), "-", 60)];
    let short = round_trip(&ground);
    let (seen, sockets) = (ground.seen(), ground.sockets());
    assert_eq!((seen.asking_syns, seen.other_syns), (2, 0), "{seen:?}");
    assert!(seen.markable > 1_000 && seen.marked > 20, "{seen:?}");
    // What is sent again is not marked, but dropped.
    assert!(seen.other_data < seen.markable / 20, "{seen:?}");
    for socket in &sockets {
        assert!(socket.control.starts_with("cv_dctcp."), "{sockets:?}");
    }
    assert!(4.0 * short < long, "{short} ms of round trip against {long} of {PLAIN}");
    eprintln!("round trip {short:.2} ms, of {PLAIN} {long:.1}; {seen:?}");
}

/// That a segment is lost, and that a recovery or a time-out begins, is what the kernel's TCP says.
/// The window and the threshold that connections have after it are the law's: half of the window
/// once for a recovery, one segment and slow start to the half after a time-out. Without a deadline
/// all four laws say the same here.
#[test]
fn a_loss_halves_the_window_and_a_time_out_begins_with_one_segment_under_each_law() {
    for law in [Law::Dctcp, Law::D2tcp, Law::Tafe, Law::Mcp] {
        let Some(mut ground) = Ground::new() else { return };
        let mut kernel = ground.load();
        kernel.control(Some(control(law))).unwrap();
        let groups = [1, 2].map(|coflow| kernel.tag(&ground.place.above, coflow).unwrap());
        let _receiver = ground.receiver(groups[1].path());
        let mut sender = ground.start("a", groups[0].path(), "bursts");
        sender.hears();
        let mut sent = 0;
        let mut burst = |ground: &mut Ground, lost: u64| {
            ground.lose(lost);
            sender.go();
            sent += (BURST * SEGMENT) as u64;
            eventually_some("acknowledgements", || {
                // The SYN counts.
                ground.sockets().pop().filter(|socket| socket.acknowledged > sent)
            })
        };
        let first = burst(&mut ground, 0);
        assert!(first.control.starts_with("cv_"), "{first:?}");
        let before = burst(&mut ground, 0);
        assert_eq!(before.window, first.window, "{law:?}: a window that holds nothing back does not grow");
        let after = burst(&mut ground, 1);
        let half = before.window / 2;
        assert_eq!((after.window, after.threshold), (half, Some(half)), "{law:?}: {before:?}, {after:?}");
        // All of a burst and the probe behind it; what the timer sends passes.
        let ended = burst(&mut ground, BURST as u64 + 1);
        assert_eq!(ended.threshold, Some(half / 2), "{law:?}: {ended:?}");
        assert!((1..half).contains(&ended.window), "{law:?}: {ended:?}");
    }
}

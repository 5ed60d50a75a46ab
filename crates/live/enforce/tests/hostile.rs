//! Hosts that lack something, and users who ask for too much.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use cavalcade_client::DscpMap;
use cavalcade_enforce::{Conditions, Enforcer, Flow, Group, Kept, Kernel, Seal, Site, Window, leftovers};
use cavalcade_model::{Bytes, PortId};
use cavalcade_protocol::{Directory, Gate};
use cavalcade_testing::eventually;
use support::{Ground, Sink, count, player, player_in, tagged};

/// The gate that refuses new data.
const OFF: Gate = Gate::Off {};

#[test]
fn plays_a_role_for_other_tests() {
    support::play();
}

/// An enforcer whose door is open, in a thread that serves once it is told to.
struct Serving {
    go: Sender<()>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    window: Window,
}

impl Serving {
    /// Returns it with its door.
    fn new(ground: &Ground) -> (Self, PathBuf) {
        Self::under(ground, |conditions| conditions)
    }

    /// The same under conditions that are `changed`.
    fn under(
        ground: &Ground,
        changed: impl FnOnce(Conditions) -> Conditions + Send + 'static,
    ) -> (Self, PathBuf) {
        let door = std::env::temp_dir().join(format!("{}-door", ground.place.name));
        let (kernel, at) = (ground.load(), door.clone());
        let (go, begin) = channel();
        let (say, opened) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let enforcer = Enforcer::new(kernel, changed(conditions(at))).unwrap();
            say.send(enforcer.window()).unwrap();
            begin.recv().unwrap();
            enforcer.serve(&stopped).unwrap();
        });
        let window = opened.recv().unwrap();
        (Self { go, stop, thread, window }, door)
    }

    fn begin(&self) {
        self.go.send(()).unwrap();
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

fn conditions(door: PathBuf) -> Conditions {
    Conditions {
        door,
        agent: "/nowhere".into(),
        classes: DscpMap::default(),
        rules: Vec::new(),
        of_user: 1,
        containers: Vec::new(),
        site: None,
    }
}

/// Commands of `bpf(2)`, by their numbers.
const ANY: i32 = -1;
const MAP_CREATE: i32 = 0;
const PROG_LOAD: i32 = 5;
const OBJ_PIN: i32 = 6;
const BTF_LOAD: i32 = 18;
const LINK_CREATE: i32 = 28;

#[test]
fn a_kernel_that_lacks_a_part_is_told_of_and_left_as_it_was() {
    let Some(ground) = Ground::new() else { return };
    // Without BPF; a container that allows none of it; before its types, links (Linux 5.7) or pins
    // could be made.
    let lacks = [
        (ANY, libc::ENOSYS),
        (ANY, libc::EPERM),
        (MAP_CREATE, libc::EINVAL),
        (BTF_LOAD, libc::EINVAL),
        (PROG_LOAD, libc::EINVAL),
        (OBJ_PIN, libc::EPERM),
        (LINK_CREATE, libc::EINVAL),
    ];
    for (command, error) in lacks {
        let role = format!("lack {command} {error} {} {}", ground.place.above.display(), ground.place.name);
        let mut player = player(&role);
        player.go();
        let said = player.hears();
        assert!(said.contains("the kernel refuses") && said.contains("it takes Linux"), "{command}: {said}");
        assert_eq!(leftovers::find(&ground.place).unwrap(), Vec::<PathBuf>::new(), "{command}");
    }
}

#[test]
fn a_user_who_asks_with_very_many_processes_at_once_keeps_no_others_out() {
    let Some(ground) = Ground::new() else { return };
    let (serving, door) = Serving::new(&ground);
    let others: Vec<UnixStream> = (0..16).map(|_| UnixStream::connect(&door).unwrap()).collect();
    let mut one_more = UnixStream::connect(&door).unwrap();
    let mut stranger = player(&format!("stranger ask {}", door.display()));
    stranger.go();
    assert_eq!(stranger.hears(), "asked");
    serving.begin();
    let mut answer = String::new();
    one_more.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("no 16 processes of this user"), "{answer}");
    // Another user is heard, and told what is wrong with what they say.
    assert!(stranger.hears().contains("neither a coflow nor a task"), "{answer}");
    drop(others);
    serving.end();
    assert!(!door.exists());
}

/// Keys of a site on which everybody is who they say.
#[derive(Debug)]
struct Honest;

impl Seal for Honest {
    fn close(&mut self, _: PortId, _: &mut Vec<u8>) -> bool {
        true
    }
    fn open<'a>(&mut self, _: PortId, sealed: &'a [u8]) -> Option<&'a [u8]> {
        Some(sealed)
    }
}

/// The report of 127.0.0.9 that its connection from port `number` to port 80 here belongs to a
/// coflow of user `number`.
fn report_of(number: u16) -> Vec<u8> {
    let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let mut report = b"CVR1".to_vec();
    for word in [since_1970, u64::from(number), u64::MAX] {
        report.extend(word.to_be_bytes());
    }
    report.extend(0u16.to_be_bytes());
    let peer = [0, 0, u32::from_ne_bytes([0, 0, 255, 255]), u32::from_ne_bytes([127, 0, 0, 9])];
    for word in [u32::from(number), 80 << 16 | u32::from(number)].into_iter().chain(peer) {
        report.extend(word.to_be_bytes());
    }
    report.resize(66, 0);
    report
}

#[test]
fn a_host_that_vouches_for_very_many_coflows_has_a_thousand_here_and_no_more() {
    let Some(ground) = Ground::new() else { return };
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (serving, _) = Serving::under(&ground, move |conditions| {
        let hosts = ["127.0.0.1", "127.0.0.9"].map(|host| host.parse().unwrap());
        let directory = Directory::of_hosts(&hosts);
        let hosts = hosts.iter().map(|host| host.address).collect();
        let site = Site { listen: free, hosts, directory, seal: Box::new(Honest) };
        Conditions { site: Some(site), ..conditions }
    });
    serving.begin();
    let from = UdpSocket::bind("127.0.0.9:0").unwrap();
    let mut most = 0;
    eventually("a coflow too many", || {
        for number in 1..=1_100 {
            // What the receiver has no room for is lost, and comes with the next round.
            let _ = from.send_to(&report_of(number), free);
            most = most.max(serving.window.look().coflows);
        }
        let troubles = serving.window.look().troubles;
        troubles.iter().any(|trouble| trouble.reason.contains("host 1 vouches for 1024 coflows here"))
    });
    assert!(most <= 1_024, "{most}");
    serving.end();
}

#[test]
fn what_was_kept_of_commands_that_run_no_more_is_removed() {
    let Some(ground) = Ground::new() else { return };
    let door = std::env::temp_dir().join(format!("{}-door", ground.place.name));
    let kept = door.with_file_name(format!("{}-door.kept", ground.place.name));
    std::fs::write(&kept, "{}\n").unwrap();
    let before = Kept::beside(&door);
    let mut enforcer = Enforcer::new(ground.load(), conditions(door)).unwrap();
    enforcer.take_up(before);
    assert!(!kept.exists());
}

#[test]
fn bytes_that_are_no_request_are_answered_or_cut_off() {
    let Some(ground) = Ground::new() else { return };
    let (serving, door) = Serving::new(&ground);
    serving.begin();
    let endless = [b'x'; 100_000];
    for request in [&b"\n"[..], b"\xff\xfe\0\n", b"task=a task=b\n", b"coflow=1.2\n", &endless] {
        let mut stream = UnixStream::connect(&door).unwrap();
        // It may be cut off before it has said everything.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"no "), "{answer:?}");
    }
    serving.end();
}

#[test]
fn a_library_hands_over_connections_of_its_own_process_and_each_once() {
    let Some(ground) = Ground::new() else { return };
    let (serving, door) = Serving::new(&ground);
    serving.begin();
    let sink = Sink::new("127.0.0.1");
    let role = format!("hand {} {}", door.display(), sink.address);
    let mut library = player_in(&ground.group(), &format!("stranger {role}"));
    library.go();
    assert!(library.hears().starts_with("no descriptor 0 is not, or no longer, that connection"));
    assert!(library.hears().contains("is not, or no longer, that connection"));
    let (none, another) = (library.hears(), library.hears());
    assert!(none.contains("is not, or no longer, among the process's first 4096 descriptors"), "{none}");
    assert!(another.contains("is not, or no longer, among"), "{another}");
    assert_eq!(library.hears(), "ok 17.0.17");
    assert!(library.hears().contains("belongs to a coflow already"));
    assert_eq!(library.hears(), "true", "and may take it back");
    assert_eq!(library.hears(), "ok 17.0.17");
    assert_eq!(library.hears(), "2000", "each is answered, some later");
    // A process whose sockets do not meet the programs keeps what it has.
    let mut outside = player(&role);
    outside.go();
    (0..4).for_each(|_| drop(outside.hears()));
    assert!(outside.hears().contains("cannot be followed"));
    assert!(outside.hears().contains("cannot be followed"), "nothing is left half tagged");
    assert_eq!(outside.hears(), "false");
    assert!(outside.hears().contains("cannot be followed"));
    assert_eq!(outside.hears(), "2000");
    serving.end();
}

#[test]
fn a_process_that_was_tagged_takes_no_connection_out_of_its_coflow() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (mut process, _group) = tagged(&mut kernel, 1, &format!("release {}", sink.address));
    assert_eq!(process.hears(), "false");
}

#[test]
fn a_library_that_has_very_many_descriptors_looked_through_is_heard_rarely_and_keeps_no_others_waiting() {
    let Some(ground) = Ground::new() else { return };
    let (serving, door) = Serving::new(&ground);
    serving.begin();
    let mut stranger = player(&format!("stranger search {}", door.display()));
    stranger.go();
    if stranger.hears() != "has many" {
        return cavalcade_testing::skipped("a limit of 5,000 descriptors");
    }
    assert_eq!(stranger.hears(), "asked");
    let mut library = UnixStream::connect(&door).unwrap();
    library.write_all(b"library\nconnection=0:0 coflow=17.0.17\n").unwrap();
    let mut answer = [0; 3];
    library.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"no ");
    // Each is as much as a user may ask for in two tenths of a second. Without a limit there are a
    // hundred.
    let answers: usize = stranger.hears().parse().unwrap();
    assert!((1..=20).contains(&answers), "{answers}");
    serving.end();
}

#[test]
fn a_user_with_very_many_control_groups_keeps_no_commands_of_others_out() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (rogue, other) = (1, 2);
    for (coflow, user) in [(1, rogue), (2, other)] {
        kernel.assign(coflow, user).unwrap();
    }
    let above = ground.group();
    let mut groups = Vec::new();
    let refused = loop {
        let group = Group::make(above.path(), &format!("of-rogue-{}", groups.len())).unwrap();
        let tagged = kernel.tag_group(&group, 1);
        groups.push(group);
        if let Err(error) = tagged {
            break error.to_string();
        }
    };
    assert!(refused.contains("2048 control groups") && !refused.contains("CAP_BPF"), "{refused}");
    let group = Group::make(above.path(), "of-another").unwrap();
    kernel.tag_group(&group, 2).unwrap();
    // What has ended leaves room again.
    kernel.forget(1, groups).unwrap();
    let group = Group::make(above.path(), "of-rogue").unwrap();
    kernel.tag_group(&group, 1).unwrap();
}

#[test]
fn a_user_with_connections_to_very_many_peers_keeps_no_flows_of_others_out() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (rogue, other) = (1, 2);
    for (coflow, user) in [(1, rogue), (2, other), (3, rogue)] {
        kernel.assign(coflow, user).unwrap();
    }
    let (mut crowd, of_crowd) = tagged(&mut kernel, 1, "crowd 70000");
    assert_eq!(crowd.hears(), "has connected");
    let counted = |kernel: &Kernel, coflow| {
        kernel.counts().unwrap().into_iter().filter(|(flow, _)| flow.coflow == coflow).count()
    };
    // As many as are free then; those that begin on two processors at once may be one too many.
    let of_rogue = counted(&kernel, 1);
    assert!((32_768..32_770).contains(&of_rogue), "{of_rogue}");
    let sink = Sink::new("127.0.0.1");
    let (_flood, _of_flood) = tagged(&mut kernel, 2, &format!("flood {}", sink.address));
    eventually("bytes of the other user", || count(&kernel, 2, "127.0.0.1").sent > Bytes(1_000_000));
    kernel.order(Flow { coflow: 2, peer: "127.0.0.1".parse().unwrap() }, OFF.into()).unwrap();
    eventually("refusal", || count(&kernel, 2, "127.0.0.1").waits);
    // What has ended leaves room again.
    kernel.forget(1, vec![of_crowd]).unwrap();
    let (mut again, _of_again) = tagged(&mut kernel, 3, "crowd 100");
    assert_eq!(again.hears(), "has connected");
    assert_eq!(counted(&kernel, 3), 101, "to each of them, and from this host's own address");
}

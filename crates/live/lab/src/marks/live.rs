//! Marks at the ports of real labs: two senders, whose links together are faster than the port to
//! the receiver.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use aya::programs::loaded_programs;
use cavalcade_enforce::{Control, Group, Hierarchy, Kernel, Law, Limits, Place, leftovers};
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_testing::{Player, eventually, role, say};

use super::*;
use crate::namespaces::{Namespaces, Ports, find_stale, host_address, path_of, remove};

const PORT: u16 = 9_000;
const RATE: BitsPerSec = BitsPerSec(40_000_000);
const MARKING: Marking = Marking { at: Bytes(30_000), buffer: Bytes(360_000) };
const RECEIVER: u32 = 2;

/// Tells whether there can be such labs here; reports the test as skipped where there cannot. It is
/// tried once: tests run side by side, and a lab has the number of its process.
fn is_possible() -> bool {
    static TRIED: OnceLock<Option<String>> = OnceLock::new();
    let lacking = TRIED.get_or_init(|| {
        let trials = cavalcade_enforce::probe::try_all();
        let needed = trials.iter().filter(|trial| ["kernel path", "congestion"].contains(&trial.feature));
        let refused = needed.filter_map(|trial| trial.found.as_ref().err()).next().cloned();
        refused.or_else(|| {
            Namespaces::build_with(1, RATE, Ports::Marking(MARKING)).err().map(|error| error.to_string())
        })
    });
    if let Some(why) = lacking {
        cavalcade_testing::skipped(format_args!("ports that mark, and the kernel path ({why})"));
    }
    lacking.is_none()
}

/// A process that plays a role at a host, or where this test is.
fn player(namespace: Option<&str>, group: &Group, role: &str) -> Player {
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.path().display());
    let mut words = vec!["sh", "-c", &enter];
    // 'ip netns exec' would hide control groups.
    let net = namespace.map(|namespace| format!("--net={}", path_of(namespace).display()));
    if let Some(net) = &net {
        words.splice(0..0, ["nsenter", net.as_str()]);
    }
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    Player::start(Some(command), "marks::live::plays_a_role", role)
}

/// What a child does; nothing where this is the test itself.
#[test]
fn plays_a_role() {
    let Some(role) = role() else { return };
    match role.as_str() {
        "receive" => {
            let listener = TcpListener::bind((host_address(RECEIVER), PORT)).unwrap();
            say("listening");
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || while stream.read(&mut [0; 65_536]).is_ok_and(|read| read > 0) {});
            }
        }
        "send" => {
            let mut stream = TcpStream::connect((host_address(RECEIVER), PORT)).unwrap();
            while stream.write_all(&[7; 16_384]).is_ok() {}
        }
        "mark" => {
            let built = Namespaces::build_with(1, RATE, Ports::Marking(MARKING)).unwrap();
            let of = built.marks[0].numbers();
            say(format_args!("{} {}", built.of("sw"), of[0]));
            std::thread::sleep(Duration::from_secs(60));
        }
        _ => panic!("no such role: {role}"),
    }
}

/// A connection as `ss` shows it.
#[derive(Debug)]
struct Socket {
    control: String,
    delivered: u64,
    marked: u64,
}

/// The connections to the receiver of a host; of the receiver, those that it has accepted.
fn sockets(built: &Namespaces, host: u32) -> Vec<Socket> {
    let end = if host == RECEIVER { "sport" } else { "dport" };
    let filter = format!("{end} = :{PORT}");
    let shown = Command::new("ip")
        .args(["netns", "exec", &built.of_host(host), "ss", "-tinHO", &filter])
        .output()
        .unwrap();
    let read = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
        let number = |key: &str| value(key).and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(Socket {
            control: (*words.get(5)?).to_owned(),
            delivered: number("delivered:"),
            marked: number("delivered_ce:"),
        })
    };
    String::from_utf8(shown.stdout).unwrap().lines().filter_map(read).collect()
}

/// The packets that queues have dropped since the lab was built.
fn drops(built: &Namespaces) -> u64 {
    built.losses().unwrap().drops
}

#[test]
fn ports_mark_what_agrees_to_it_and_nothing_else_and_its_queue_never_overflows() {
    let Ok(Hierarchy { root }) = Hierarchy::find() else { return };
    if !is_possible() {
        return;
    }
    let above = Group::make(&root, &format!("cavalcade-marks-{}", std::process::id())).unwrap();
    let built = Namespaces::build_with(3, RATE, Ports::Marking(MARKING)).unwrap();
    let place = Place::below(above.path()).unwrap();
    let mut kernel =
        Kernel::load(place.clone(), Limits { silence: Nanos::from_secs(120), ..Limits::default() }).unwrap();
    let at = |host: u32, group: &Group, role: &str| player(Some(&built.of_host(host)), group, role);
    let receive = || {
        let mut receiver = at(RECEIVER, &above, "receive");
        assert_eq!(receiver.hears(), "listening");
        receiver
    };
    {
        let _receiver = receive();
        let _senders = [0, 1].map(|host| at(host, &above, "send"));
        eventually("a queue that plain TCP has filled", || drops(&built) > 0);
    }
    assert_eq!(built.marked(), Some((0, 0)), "plain TCP");
    let connections = || [0, 1].into_iter().flat_map(|host| sockets(&built, host));
    eventually("the end of plain connections", || connections().count() == 0);
    let before = drops(&built);
    let control = Control { line_rate: RATE, marking: MARKING.at, answers: true, ..Control::new(Law::Dctcp) };
    kernel.control(Some(control)).unwrap();
    let groups = [1, 2].map(|coflow| kernel.tag(above.path(), coflow).unwrap());
    let _receiver = receive();
    let _senders = [0, 1].map(|host| at(host, &groups[host as usize], "send"));
    eventually("two connections that have sent some megabytes", || {
        connections().filter(|socket| socket.delivered > 2_000).count() == 2
    });
    let dropped = drops(&built) - before;
    let ends = [0, 1, RECEIVER].map(|host| sockets(&built, host));
    let (markable, marked) = built.marked().unwrap();
    eprintln!("plain TCP lost {before} packets; marked {marked} of {markable}; {ends:?}");
    assert!(marked > 20 && markable > 10 * 20, "{marked} of {markable}");
    assert_eq!(dropped, 0, "a round trip depends on how busy this machine is; a full queue does not");
    // The receiver is tagged with nothing, and has the control all the same: it tells marks
    // exactly. Otherwise it would echo a mark until the window is cut, and nearly all would be
    // reported.
    assert!(ends.iter().flatten().all(|socket| socket.control.starts_with("cv_dctcp")), "{ends:?}");
    let told: u64 = ends[..2].iter().flatten().map(|socket| socket.marked).sum();
    assert!(told > 0 && told <= marked + marked / 10, "{told} of {marked}");
    drop(kernel);
    assert_eq!(leftovers::find(&place).unwrap(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_killed_lab_leaves_no_program_and_its_namespaces_are_found() {
    let Ok(Hierarchy { root }) = Hierarchy::find() else { return };
    if !is_possible() {
        return;
    }
    let group = Group::found(root).unwrap();
    let mut player = player(None, &group, "mark");
    let said = player.hears();
    let (switch, number) = said.split_once(' ').unwrap();
    let number: u32 = number.parse().unwrap();
    let is_loaded = || loaded_programs().flatten().any(|program| program.id() == number);
    assert!(is_loaded());
    player.kill();
    eventually("the end of the program", || !is_loaded());
    let stale = find_stale();
    assert!(stale.iter().any(|name| name == switch), "{switch} in {stale:?}");
    let its = switch.strip_suffix("sw").unwrap();
    stale.iter().filter(|name| name.starts_with(its)).for_each(|name| remove(name));
    assert!(!find_stale().iter().any(|name| name.starts_with(its)));
}

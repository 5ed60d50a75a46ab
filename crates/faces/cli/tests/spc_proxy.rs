//! Programs that speak TCP through two proxies, under ids from a counter that the host's agent
//! holds.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread;

use cavalcade_testing::{Lines, eventually};
use support::{Place, Running};

/// The user of no one.
const NOBODY: u32 = 65_534;

/// The user of this process.
fn me() -> u32 {
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// An address of this machine at which nothing listens yet.
fn free() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], cavalcade_testing::free_port()))
}

/// A server that answers each line with the same line.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || {
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
                    if (&stream).write_all(line.as_bytes()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

fn start(place: &Place, user: Option<u32>, arguments: &[&str]) -> Running {
    let mut command = place.command();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    user.iter().for_each(|user| _ = command.uid(*user).gid(*user));
    Running(command.spawn().unwrap())
}

/// Starts an agent with the counters.
fn agent(place: &Place, counters: &[&str]) -> Running {
    let port = free().port().to_string();
    let alone = ["agent", "--hosts", "127.0.0.1", "--insecure", "--policy", "dcas", "--peer-port", &port];
    holding(place, &alone, counters)
}

/// Starts a component that holds the counters.
fn holding(place: &Place, component: &[&str], counters: &[&str]) -> Running {
    let mut arguments = [component, &["--socket", "agent.sock"]].concat();
    arguments.extend(counters.iter().flat_map(|counter| ["--task-counter", counter]));
    arguments.extend(["--task-counter-file", "counters"]);
    let agent = start(place, None, &arguments);
    eventually("the agent holds counters", || place.names().contains(&"agent.counters.sock".to_owned()));
    agent
}

/// Starts the proxy of a server, and returns when its port of UDP is bound: the near proxy resets
/// connections that come earlier.
fn far(place: &Place, middle: SocketAddr, server: SocketAddr) -> Running {
    let ends = [middle, server].map(|end| end.to_string());
    let far = start(place, None, &["spc-proxy", "--from-spc", &ends[0], "--to", &ends[1]]);
    let bound = format!(":{:04X} ", middle.port());
    eventually("the far proxy listens", || {
        std::fs::read_to_string("/proc/net/udp").is_ok_and(|sockets| sockets.contains(&bound))
    });
    far
}

/// Starts the proxy of clients, with ids from a counter of the agent.
fn near(
    place: &Place,
    user: Option<u32>,
    [front, middle]: [&str; 2],
    counter: &str,
    more: &[&str],
) -> Running {
    let ends = ["spc-proxy", "--from-tcp", front, "--to", middle];
    start(place, user, &[&ends[..], &["--counter", counter, "--socket", "agent.sock"], more].concat())
}

fn lines(front: SocketAddr) -> BufReader<TcpStream> {
    let mut stream = None;
    eventually("the proxy listens", || {
        stream = TcpStream::connect(front).ok();
        stream.is_some()
    });
    BufReader::new(stream.unwrap())
}

#[test]
fn requests_are_tasks_under_ids_of_the_agents_counter() {
    requests_are_tasks(agent);
}

#[test]
fn a_coordinator_and_agent_in_one_hold_counters_as_well() {
    requests_are_tasks(|place, counters| holding(place, &["up"], counters));
}

fn requests_are_tasks(agent: fn(&Place, &[&str]) -> Running) {
    let place = Place::new();
    let own = format!("own:first=1,step=4,users={}", me());
    let agent = agent(&place, &[&own]);
    let (front, middle) = (free().to_string(), free());
    let server = echo();
    let _far = far(&place, middle, server);
    let _near = near(&place, None, [&front, &middle.to_string()], "own", &["--task-of", "burst"]);
    let mut client = lines(front.parse().unwrap());
    for nth in 0..5 {
        client.get_mut().write_all(format!("request {nth}\n").as_bytes()).unwrap();
        let mut line = String::new();
        client.read_line(&mut line).unwrap();
        assert_eq!(line, format!("request {nth}\n"));
    }
    // Each burst took an id, set aside in a block that survives the agent.
    assert_eq!(String::from_utf8(place.read("counters")).unwrap(), "own 4001\n");
    drop(agent);
}

#[test]
fn a_process_gets_no_ids_from_the_counter_of_another_user() {
    let is_root = me() == 0;
    let program = Place::new().command();
    let may_run = std::process::Command::new(program.get_program()).arg("--version").uid(NOBODY).output();
    if !is_root || !may_run.is_ok_and(|output| output.status.success()) {
        cavalcade_testing::skipped("root, and a program that other users may run");
        return;
    }
    let place = Place::new();
    // The folder is root's alone.
    std::fs::set_permissions(place.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _agent = agent(&place, &["own:users=0", "theirs:users=65534"]);
    for (counter, is_served) in [("own", false), ("theirs", true)] {
        let (front, middle) = (free().to_string(), free());
        let server = echo();
        let _far = far(&place, middle, server);
        let mut near = near(&place, Some(NOBODY), [&front, &middle.to_string()], counter, &[]);
        let mut client = lines(front.parse().unwrap());
        client.get_mut().write_all(b"hello\n").unwrap();
        let mut line = String::new();
        let read = client.read_line(&mut line);
        assert_eq!(read.is_ok() && line == "hello\n", is_served, "{counter}: {line}");
        if !is_served {
            let mut said = Lines::new(near.0.stderr.take().unwrap());
            let complaint = said.find(|line| line.contains("was not carried")).unwrap();
            assert!(complaint.contains("user 65534 has no counter own, but theirs"), "{complaint}");
        }
    }
}

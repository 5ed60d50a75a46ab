//! What a library owes to the program that calls it: its connections, its writes and its session,
//! whatever it passes.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cavalcade_model::BitsPerSec;
use cavalcade_protocol::{ClientMessage, Gate};
use cavalcade_testing::{eventually, eventually_some};

use crate::scripted::{Agent, connection_of, descriptors, options, processor_time};
use crate::{Driver, address, contents, sink};

/// The options of a connection on which nothing was set.
const PLAIN: (u64, i32, i32) = (u64::MAX, 0, 0);
/// Processor time in a second that only who asks again and again takes.
const MUCH: Duration = Duration::from_millis(400);

/// Checks all of it.
pub(crate) fn owes_nothing(mut command: impl FnMut(&Path) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let mut driver = Driver::start(&mut command(&path));
    refuses_wrong_arguments(&mut driver);
    let agent = Agent::listen(&path, Gate::Open {});
    driver.does("wait", "ready");
    assert!(agent.heard().is_empty(), "nothing wrong was kept for the agent");
    refuses_wrong_arguments(&mut driver);
    assert!(agent.heard().is_empty(), "or said to it");
    let agent = goes_on_with_another_agent(&mut driver, &path, agent);
    writes_in_one_piece(&mut driver, &agent);
    waits_without_turning(&mut driver, &agent);
    sees_that_the_other_end_is_gone(&mut driver, &agent);
    closes_what_is_dropped(&mut driver, &agent);
    leaves_connections_as_they_were(&mut driver, &agent);
}

/// A receiver whose connections the test takes by hand.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(SocketAddr::new(address(1), 0)).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

/// Opens a stream, and has the agent know of it; returns the other end.
fn open(driver: &mut Driver, agent: &Agent, name: &str) -> (SocketAddr, TcpStream) {
    let (listener, at) = listener();
    let (coflow, before) = (driver.register(""), agent.flows());
    driver.does(&format!("open {name} {} {} {coflow}", at.ip(), at.port()), "opened");
    eventually("the agent knows the flow", || agent.flows() == before + 1);
    (at, listener.accept().unwrap().0)
}

fn until_gate(driver: &mut Driver, name: &str, gate: &str) {
    eventually(format!("{name}: {gate}"), || driver.gate(name) == gate);
}

/// Each argument that is none is refused; where every language can say it, in the same words.
fn refuses_wrong_arguments(driver: &mut Driver) {
    let name =
        |text: &str| format!("'{text}' is no name of a coflow: expected 1 to 39 letters, digits or -_.:/@+");
    let same = [
        ("register weight=0".to_owned(), "a weight of 0: expected 1 to 4294967295".to_owned()),
        (
            "register deadline=3155760001".to_owned(),
            "a deadline of 3155760001 s from now: expected 0 to 3155760000 s, or none".to_owned(),
        ),
        ("register parents=1001".to_owned(), "1001 parents: expected at most 1000".to_owned()),
        ("register name=".to_owned(), name("")),
        ("register name=7".to_owned(), name("7")),
        (format!("register name={}", "s".repeat(40)), name(&"s".repeat(40))),
        ("grant 7.0.7 4294967295".to_owned(), "user 4294967295: expected 0 to 4294967294".to_owned()),
        ("unregister 7.0".to_owned(), "'7.0' is no key of a coflow, as 7.0.7".to_owned()),
        ("unregister 7.65536.7".to_owned(), "'7.65536.7' is no key of a coflow, as 7.0.7".to_owned()),
        ("register parent=-7.0.7".to_owned(), "'-7.0.7' is no key of a coflow, as 7.0.7".to_owned()),
    ];
    for (command, reason) in same {
        let answer = driver.ask(&command).replace('"', "'");
        assert!(answer.starts_with(&format!("invalid {reason}")), "{command}: {answer}");
    }
    let (_listener, to) = listener();
    let open = |rest: &str| format!("open wrong {} {} {rest}", to.ip(), to.port());
    for command in [
        "register size=-1",
        "register size=9223372036854775808",
        "register size=18446744073709551616",
        "register deadline=-1",
        "register deadline=18446744073709551616",
        "register weight=-1",
        "register weight=4294967296",
        "grant 7.0.7 -1",
        "grant 7.0.7 4294967296",
        &open("7.0.7 -1"),
        &open("7.0.7 9223372036854775808"),
        &open("7.65536.7"),
        &open("7"),
    ] {
        let answer = driver.ask(command);
        assert!(answer.starts_with("invalid "), "{command}: {answer}");
    }
}

/// The session is whole: it registers, and tells another agent all of it.
fn goes_on_with_another_agent(driver: &mut Driver, path: &Path, agent: Agent) -> Agent {
    let most = "size=9223372036854775807 deadline=3155760000 weight=4294967295 parents=1000";
    let coflow = driver.register(&format!("{most} name=sort-7"));
    driver.does(&format!("grant {coflow} 4294967294"), "granted");
    drop(agent);
    let agent = Agent::listen(path, Gate::Open {});
    eventually("what it has registered and granted is told", || {
        let heard = agent.heard();
        let joined =
            |said: &ClientMessage| matches!(said, ClientMessage::Join { coflow: it, .. } if *it == coflow);
        let granted = |said: &ClientMessage| matches!(said, ClientMessage::Grant { user: 4_294_967_294, .. });
        heard.iter().any(joined) && heard.iter().any(granted)
    });
    driver.does(&format!("unregister {coflow}"), "unregistered");
    agent
}

fn writes_in_one_piece(driver: &mut Driver, agent: &Agent) {
    agent.direct(Gate::Off {});
    let (_, mut end) = open(driver, agent, "together");
    until_gate(driver, "together", "gate off");
    let length = 700_000;
    driver.does(&format!("together together {length} 1 2 3 4"), "writing");
    agent.direct(Gate::Open {});
    let mut bytes = vec![0; 4 * length];
    end.read_exact(&mut bytes).unwrap();
    let runs = 1 + bytes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(runs, 4, "what each of four has written is in one piece");
    driver.does("finish together", "finished");
}

fn waits_without_turning(driver: &mut Driver, agent: &Agent) {
    agent.direct(Gate::Off {});
    let (_, mut end) = open(driver, agent, "waits");
    until_gate(driver, "waits", "gate off");
    driver.does("loop waits 300000 7", "writing");
    // Until the loop waits and what it has loaded is compiled.
    std::thread::sleep(Duration::from_millis(500));
    let before = processor_time(driver.child.id());
    std::thread::sleep(Duration::from_millis(1_000));
    let took = processor_time(driver.child.id()) - before;
    assert!(took < MUCH, "{took:?} of processor time in a second");
    agent.direct(Gate::Open {});
    let mut bytes = vec![0; 300_000];
    end.read_exact(&mut bytes).unwrap();
    assert!(bytes == contents(300_000, 7));
    driver.does("finish waits", "finished");

    // 2.4 seconds at this rate: a slow flow has a gate that can be read, and still waits for each
    // piece.
    agent.direct(Gate::Paced { rate: BitsPerSec(1_000_000) });
    let (_, mut end) = open(driver, agent, "crawls");
    until_gate(driver, "crawls", "gate paced 1000000");
    let mut first = [0; 1];
    driver.does("write crawls 300000 7", "writing");
    end.read_exact(&mut first).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = processor_time(driver.child.id());
    std::thread::sleep(Duration::from_millis(1_000));
    let took = processor_time(driver.child.id()) - before;
    assert!(took < MUCH, "{took:?} of processor time in a second at 1 Mbps");
    agent.direct(Gate::Open {});
    end.read_exact(&mut bytes[1..]).unwrap();
    driver.does("finish crawls", "finished");
}

/// Closes a connection by a reset.
fn reset(end: TcpStream) {
    rustix::net::sockopt::set_socket_linger(&end, Some(Duration::ZERO)).unwrap();
    drop(end);
}

fn sees_that_the_other_end_is_gone(driver: &mut Driver, agent: &Agent) {
    agent.direct(Gate::Off {});
    for command in ["write", "loop"] {
        let (_, end) = open(driver, agent, command);
        until_gate(driver, command, "gate off");
        driver.does(&format!("{command} {command} 1000 7"), "writing");
        std::thread::sleep(Duration::from_millis(50));
        reset(end);
        driver.does(&format!("failed {command}"), "failed");
        driver.does(&format!("finish {command}"), "finished");
    }
    let (_, mut half) = open(driver, agent, "half");
    until_gate(driver, "half", "gate off");
    driver.does("write half 1000 7", "writing");
    half.shutdown(std::net::Shutdown::Write).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    half.set_nonblocking(true).unwrap();
    assert!(half.read(&mut [0]).is_err(), "an end that only says nothing more is not gone");
    half.set_nonblocking(false).unwrap();
    agent.direct(Gate::Open {});
    driver.does("finish half", "finished");
    let mut bytes = Vec::new();
    half.read_to_end(&mut bytes).unwrap();
    assert!(bytes == contents(1_000, 7));
}

fn closes_what_is_dropped(driver: &mut Driver, agent: &Agent) {
    agent.direct(Gate::Open {});
    let ((to, seen), coflow) = (sink(), driver.register(""));
    let before = descriptors(driver.child.id());
    for first in 1..=30 {
        driver.does(&format!("open d{first} {} {} {coflow}", to.ip(), to.port()), "opened");
        driver.does(&format!("write d{first} 1000 {first}"), "writing");
    }
    eventually("all are open and written", || agent.flows() == 30 && seen.lock().unwrap().peers.len() == 30);
    for first in 1..=30 {
        driver.does(&format!("drop d{first}"), "dropped");
    }
    eventually("the other ends see that they are closed", || {
        driver.does("drop none", "dropped");
        seen.lock().unwrap().ended.len() == 30
    });
    eventually("their flows have ended, and no descriptor stays", || {
        driver.does("drop none", "dropped");
        agent.flows() == 0 && descriptors(driver.child.id()) <= before
    });
}

fn leaves_connections_as_they_were(driver: &mut Driver, agent: &Agent) {
    for way in ["finish", "detach", "unregister", "silence", "end"] {
        agent.direct(Gate::Paced { rate: BitsPerSec(80_000_000) });
        let (listener, at) = listener();
        let coflow = driver.register("");
        driver.does(&format!("open {way} {} {} {coflow}", at.ip(), at.port()), "opened");
        let _end = listener.accept().unwrap();
        until_gate(driver, way, "gate paced 80000000");
        let copy = eventually_some("the connection", || connection_of(driver.child.id(), at));
        // What can be set differs from language to language, but for the mark.
        eventually(format!("packets are marked: {way}"), || options(&copy).1 == 40 << 2);
        match way {
            "unregister" => driver.does(&format!("unregister {coflow}"), "unregistered"),
            "silence" => agent.fall_silent(),
            "end" => driver.does("end", "ended"),
            _ => drop(driver.ask(&format!("{way} {way}"))),
        }
        if way == "silence" {
            eventually("without an agent", || (options(&copy).0, options(&copy).1) == (PLAIN.0, PLAIN.1));
            driver.does("wait", "ready");
            driver.does("finish silence", "finished");
        }
        eventually(format!("all is as it was: {way}"), || options(&copy) == PLAIN);
    }
}

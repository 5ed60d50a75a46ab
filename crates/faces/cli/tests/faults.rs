//! What strangers, crowds and a full disk do to running processes: nothing. (What kills and hangs
//! do is in `lab.rs`.) How long things took is printed, never asserted.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cavalcade_model::{BitsPerSec, PortId};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, Frames, Message, PROTOCOL, Report, Sealed, Standing, frame,
};
use cavalcade_runtime::{Clock, Identity, block_on, connect_as_agent};
use cavalcade_testing::eventually;
use cavalcade_testing::free_port;
use serde_json::Value;
use support::Place;
use support::serving::{Serving, free_address, get, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A process that is killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(place: &Place, arguments: &[&str], messages: Stdio) -> Running {
    Running(place.command().args(arguments).stdout(Stdio::null()).stderr(messages).spawn().unwrap())
}

/// `cavalcade up` with its agent's socket and its coordinator's address, once it serves.
fn up(place: &Place, messages: Stdio) -> (Running, PathBuf, SocketAddr) {
    let socket = place.path("agent.sock");
    let listen = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (path, at) = (socket.display().to_string(), listen.to_string());
    let arguments = ["up", "--hosts", "127.0.0.1,127.0.0.2", "--socket", &path, "--listen", &at];
    let running = start(place, &arguments, messages);
    eventually("the socket", || UnixStream::connect(&socket).is_ok());
    (running, socket, listen)
}

/// Connects as a client and waits until it is welcome; keeps the connection.
fn greet(socket: &Path, client: u64) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = Vec::new();
    frame(&ClientMessage::Hello { protocol: PROTOCOL, client }, &mut bytes).expect("a short message");
    stream.write_all(&bytes).unwrap();
    let mut frames = Frames::default();
    let mut chunk = [0; 4096];
    loop {
        if let Some(message) = frames.pop::<AgentMessage>().unwrap() {
            assert!(matches!(message, AgentMessage::Welcome { .. }), "{message:?}");
            return stream;
        }
        let length = stream.read(&mut chunk).unwrap();
        assert!(length > 0, "the agent closed the connection");
        frames.push(&chunk[..length]);
    }
}

/// Bytes that are no message, the same every time.
fn garbage(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(byte).take(length).collect()
}

#[test]
fn a_thousand_clients_that_connect_at_once_are_all_welcome() {
    let place = Place::new();
    let (_running, socket, _) = up(&place, Stdio::null());
    let started = Instant::now();
    let connections: Vec<UnixStream> = std::thread::scope(|scope| {
        let groups: Vec<_> = (0..50)
            .map(|group| {
                let socket = &socket;
                scope.spawn(move || (0..20).map(|one| greet(socket, group * 20 + one)).collect::<Vec<_>>())
            })
            .collect();
        groups.into_iter().flat_map(|group| group.join().unwrap()).collect()
    });
    assert_eq!(connections.len(), 1_000);
    eprintln!("a thousand clients were welcome after {:?}", started.elapsed());
}

#[test]
fn garbage_on_every_port_harms_nobody_else() {
    let place = Place::new();
    let (mut running, socket, listen) = up(&place, Stdio::null());
    let peaceful = greet(&socket, 1);
    for seed in 0..20 {
        let bytes = garbage(seed, 3_000);
        let mut stream = UnixStream::connect(&socket).unwrap();
        let _ = stream.write_all(&bytes);
        let mut stream = TcpStream::connect(listen).unwrap();
        let _ = stream.write_all(&bytes);
    }
    greet(&socket, 2);
    assert!(running.0.try_wait().unwrap().is_none(), "it serves on");
    drop(peaceful);
}

#[test]
fn garbage_among_agents_harms_nobody() {
    let place = Place::new();
    let socket = place.path("agent.sock");
    let (path, port) = (socket.display().to_string(), free_port());
    let peers = port.to_string();
    let hosts = "127.0.0.1,127.0.0.2";
    let arguments = [
        "agent",
        "--hosts",
        hosts,
        "--port",
        "0",
        "--policy",
        "dcas",
        "--peer-port",
        &peers,
        "--socket",
        &path,
    ];
    let mut running = start(&place, &arguments, Stdio::null());
    eventually("the socket", || UnixStream::connect(&socket).is_ok());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for seed in 0..200 {
        stranger.send_to(&garbage(seed, 1 + seed as usize * 7), ("127.0.0.1", port)).unwrap();
    }
    greet(&socket, 1);
    assert!(running.0.try_wait().unwrap().is_none(), "it serves on");
}

/// A report of the agent at port 1 that says nothing.
fn report(sequence: u64) -> Report {
    let now = Clock::default().now();
    Report::new(PortId(1), 1, sequence, now, BitsPerSec(1_000_000_000))
}

/// Says `bytes` with the certificate of agent 1, and listens until the connection is closed.
fn say_as_agent(folder: &Path, at: SocketAddr, bytes: &[u8]) {
    let said = block_on(async {
        let identity = Identity::load(folder).expect("it has a certificate");
        let mut stream = connect_as_agent(&identity, at).await?;
        stream.write_all(bytes).await?;
        let mut heard = [0; 4096];
        while stream.read(&mut heard).await.is_ok_and(|length| length > 0) {}
        Ok(())
    });
    said.unwrap();
}

fn framed(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame(message, &mut bytes).unwrap();
    bytes
}

/// What a component shows of the incidents of one kind.
fn incident(place: &Place, at: &str, kind: &str) -> Option<Value> {
    let view = json(place, &["ps", "--json", "--at", at])?;
    view["incidents"].as_array()?.iter().find(|incident| incident["kind"] == kind).cloned()
}

#[test]
fn what_goes_wrong_with_those_who_connect_is_logged_counted_and_shown_with_whose_fault_it_was() {
    let place = Place::new();
    assert_eq!(place.run(&["certificates", "site", "--hosts", "2"]).code, 0);
    let (listen, of_lead) = (free_address(), free_address());
    let hosts = ["--hosts", "127.0.0.1,127.0.0.2"];
    let lead =
        ["coordinator", "--listen", &listen, "--certificates", "site/coordinator", "--metrics", &of_lead];
    let messages = File::create(place.path("lead.log")).unwrap();
    let rest = ["--administration", "lead.sock"];
    let _lead = Serving::saying(&place, &[&lead[..], &hosts, &rest].concat(), messages.into());
    let agent = ["agent", "--port", "0", "--coordinator", &listen, "--certificates", "site/agent-0"];
    let rest = ["--socket", "agent.sock", "--administration", "admin.sock"];
    let _agent = Serving::start(&place, &[&agent[..], &hosts, &rest].concat());
    eventually("the agent", || UnixStream::connect(place.path("agent.sock")).is_ok());
    eventually("the coordinator serves", || get(&of_lead, "/readyz").0 == 200);

    let at = listen.parse().unwrap();
    let rogue = place.path("site/agent-1");
    let say = |bytes: &[u8]| say_as_agent(&rogue, at, bytes);
    say(&framed(&Report { protocol: PROTOCOL + 1, ..report(1) }));
    say(&framed(&Report { port: PortId(0), ..report(1) }));
    say(&[&framed(&report(1))[..], &garbage(7, 5_000)].concat());
    let many = (0..=Report::MOST_ITEMS as u32).map(|number| (number, ())).collect();
    say(&framed(&Report { left: many, ..report(1) }));
    let standing = Standing { term: u64::MAX, switch: None, drains: Vec::new() };
    let forged = Report { snapshot: true, standing: Sealed::new(standing.to_bytes()), ..report(2) };
    say(&[&framed(&forged)[..], &garbage(8, 5_000)].concat());
    std::thread::scope(|scope| {
        // The first one ends when the second has spoken; that one for what it says next.
        let first = scope.spawn(|| say(&framed(&report(3))));
        let log = || String::from_utf8(place.read("lead.log")).unwrap();
        eventually("it is heard", || log().matches("agent connected port=1").count() == 3);
        say(&[&framed(&report(4))[..], &garbage(9, 5_000)].concat());
        first.join().unwrap();
    });
    let kinds = [
        ("version", "agent-1", "install the same release on both"),
        ("refused", "agent-1", "which is another agent's"),
        ("garbage", "agent-1", "it said"),
        ("forged", "agent-1", "it is not believed"),
        ("second", "agent-1", "takes the place of that from 127.0.0.1"),
    ];
    let log = String::from_utf8(place.read("lead.log")).unwrap();
    let (figures, table) =
        (get(&of_lead, "/metrics").1, place.run(&["ps", "--hosts", "--at", "lead.sock"]).out);
    for (kind, who, what) in kinds {
        let shown = incident(&place, "lead.sock", kind).unwrap_or_else(|| panic!("{kind}: {log}"));
        let has = |field: &str, part: &str| shown[field].as_str().is_some_and(|text| text.contains(part));
        assert!(has("who", who) && has("what", what), "{kind}: {shown}");
        let title = shown["title"].as_str().unwrap();
        assert!(log.contains(title) && table.contains(title), "{title}: {log}\n{table}");
        let times = shown["times"].as_u64().unwrap();
        assert!(
            figures.contains(&format!("incidents_total{{kind=\"{kind}\"}} {times}\n")),
            "{kind}: {figures}"
        );
    }

    let say = |bytes: &[u8]| {
        let mut client = UnixStream::connect(place.path("agent.sock")).unwrap();
        client.write_all(bytes).unwrap();
        let _ = client.read_to_end(&mut Vec::new());
    };
    say(&garbage(9, 3_000));
    say(&framed(&ClientMessage::Hello { protocol: PROTOCOL + 1, client: 1 }));
    for kind in ["garbage", "version"] {
        eventually("the agent shows it", || incident(&place, "admin.sock", kind).is_some());
    }
}

#[test]
fn a_disk_that_is_full_silences_messages_and_nothing_else() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return cavalcade_testing::skipped("the device /dev/full (Linux)");
    };
    let place = Place::new();
    let (mut running, socket, _) = up(&place, full.into());
    greet(&socket, 1);
    assert!(running.0.try_wait().unwrap().is_none(), "it serves on");
}

//! What strangers, crowds and a full disk do to running processes: nothing. (What kills and hangs do is in `lab.rs`.) How long
//! things took is printed, never asserted.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cavalcade_protocol::{AgentMessage, ClientMessage, Frames, PROTOCOL, frame};
use support::{Place, free_port};

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
    wait_for(&socket);
    (running, socket, listen)
}

fn wait_for(socket: &Path) {
    let started = Instant::now();
    while UnixStream::connect(socket).is_err() {
        assert!(started.elapsed() < Duration::from_secs(60), "{} never came", socket.display());
        std::thread::sleep(Duration::from_millis(5));
    }
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
    wait_for(&socket);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for seed in 0..200 {
        stranger.send_to(&garbage(seed, 1 + seed as usize * 7), ("127.0.0.1", port)).unwrap();
    }
    greet(&socket, 1);
    assert!(running.0.try_wait().unwrap().is_none(), "it serves on");
}

#[test]
fn a_disk_that_is_full_silences_messages_and_nothing_else() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return cavalcade_skip::skipped("the device /dev/full (Linux)");
    };
    let place = Place::new();
    let (mut running, socket, _) = up(&place, full.into());
    greet(&socket, 1);
    assert!(running.0.try_wait().unwrap().is_none(), "it serves on");
}

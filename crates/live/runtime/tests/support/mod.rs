//! What the tests on sockets share.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread::JoinHandle;

use cavalcade_control::{AgentConfig, Factory};
use cavalcade_model::{BitsPerSec, PortId};
use cavalcade_policy::parse;
use cavalcade_runtime::Clock;
use tokio::sync::watch;

pub(crate) const RATE: BitsPerSec = BitsPerSec(10_000_000_000);
pub(crate) const PORTS: u32 = 3;

pub(crate) fn address(port: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 1, 1 + port as u8))
}

pub(crate) fn policy(spec: &str) -> Factory {
    Box::new(parse(spec).expect("a valid specification"))
}

pub(crate) fn agent_config(port: u32) -> AgentConfig {
    AgentConfig {
        directory: (0..PORTS).map(|port| (address(port), PortId(port))).collect(),
        ..AgentConfig::new(PortId(port), PORTS, Clock::default().now().0, RATE)
    }
}

/// A component that runs until it is stopped or dropped.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn new(stop: watch::Sender<bool>, thread: JoinHandle<()>) -> Self {
        Self { stop, thread: Some(thread) }
    }

    pub(crate) fn stop(mut self) {
        let _ = self.stop.send(true);
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("it ends well"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// Reads `/metrics` there, with its head.
pub(crate) fn http_get(at: SocketAddr) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of the figure `cavalcade_NAME` without labels.
pub(crate) fn figure(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("cavalcade_{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in\n{text}")).trim().parse().unwrap()
}

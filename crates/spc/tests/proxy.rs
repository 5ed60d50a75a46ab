//! Programs that speak TCP, through two proxies and an SPC stream between them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use cavalcade_spc::{Endpoint, Options, SpcListener, TaskCounter, proxy};

const ANY: &str = "127.0.0.1:0";

/// Starts both proxies in front of a server; returns where clients connect.
fn proxies(server: SocketAddr) -> SocketAddr {
    let spc = SpcListener::bind(ANY).unwrap();
    let middle = spc.local_addr().unwrap();
    thread::spawn(move || proxy::carry_spc(&spc, server, |_| {}));
    let tcp = TcpListener::bind(ANY).unwrap();
    let front = tcp.local_addr().unwrap();
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    thread::spawn(move || proxy::carry_tcp(&tcp, &endpoint, middle, &TaskCounter::new(1, 1), |_| {}));
    front
}

#[test]
fn bytes_and_half_closes_pass_both_ways() {
    let server = TcpListener::bind(ANY).unwrap();
    let front = proxies(server.local_addr().unwrap());
    let serving = thread::spawn(move || {
        for _ in 0..8 {
            let (mut stream, _) = server.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all.reverse();
            stream.write_all(&all).unwrap();
        }
    });
    for seed in 0..8u32 {
        let sent: Vec<u8> = (0..200_000u32).map(|at| (at * (seed + 3) / 7) as u8).collect();
        let mut stream = TcpStream::connect(front).unwrap();
        stream.write_all(&sent).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back.reverse();
        assert!(back == sent);
    }
    serving.join().unwrap();
}

/// A memcached of this machine; it ends with the test.
struct Memcached(Child);

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn memcached() -> Option<(Memcached, SocketAddr)> {
    let port = TcpListener::bind(ANY).unwrap().local_addr().unwrap().port();
    let child = Command::new("memcached")
        .args(["-l", "127.0.0.1", "-U", "0", "-u", "nobody", "-m", "16", "-p", &port.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        cavalcade_skip::skipped("memcached");
        return None;
    };
    let (child, address) = (Memcached(child), SocketAddr::from(([127, 0, 0, 1], port)));
    for _ in 0..200 {
        if TcpStream::connect(address).is_ok() {
            return Some((child, address));
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("memcached does not listen");
}

#[test]
fn an_unmodified_memcached_is_written_and_read_through_spc() {
    let Some((_child, server)) = memcached() else { return };
    let front = proxies(server);
    let mut stream = BufReader::new(TcpStream::connect(front).unwrap());
    let mut line = String::new();
    for key in 0..50 {
        let value = format!("{key}").repeat(3_000);
        write!(stream.get_mut(), "set k{key} 0 0 {}\r\n{value}\r\n", value.len()).unwrap();
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, "STORED\r\n");
    }
    // Another connection, so another task, asks for several at once.
    let mut stream = BufReader::new(TcpStream::connect(front).unwrap());
    stream.get_mut().write_all(b"get k7 k11 k49 k50\r\n").unwrap();
    for key in [7, 11, 49] {
        let value = format!("{key}").repeat(3_000);
        line.clear();
        stream.read_line(&mut line).unwrap();
        assert_eq!(line, format!("VALUE k{key} 0 {}\r\n", value.len()));
        let mut read = vec![0; value.len() + 2];
        stream.read_exact(&mut read).unwrap();
        assert!(read == (value + "\r\n").as_bytes());
    }
    line.clear();
    stream.read_line(&mut line).unwrap();
    assert_eq!(line, "END\r\n");
}

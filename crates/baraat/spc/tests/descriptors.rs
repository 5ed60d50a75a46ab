//! A proxy that has run out of descriptors. The limit is a process's, so this is a test program of
//! its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;

use cavalcade_spc::proxy::{self, TaskRule};
use cavalcade_spc::{Endpoint, Options, TaskCounter};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ANY: &str = "127.0.0.1:0";

#[test]
fn a_proxy_without_descriptors_says_so_and_serves_again_once_there_are_some() {
    let server = TcpListener::bind(ANY).unwrap();
    let endpoint = Endpoint::bind(ANY, Options::default()).unwrap();
    let (spc, peer) = (endpoint.listen(), server.local_addr().unwrap());
    let middle = endpoint.local_addr().unwrap();
    thread::spawn(move || proxy::carry_spc(&spc, peer, |_| {}));
    let tcp = TcpListener::bind(ANY).unwrap();
    let front: SocketAddr = tcp.local_addr().unwrap();
    let (complain, complaints) = channel();
    let complain = move |error: &std::io::Error| _ = complain.send(error.raw_os_error());
    let client = Endpoint::bind(ANY, Options::default()).unwrap();
    thread::spawn(move || {
        proxy::carry_tcp(&tcp, &client, middle, TaskRule::Connection, TaskCounter::new(1, 4), complain)
    });
    let before = getrlimit(Resource::Nofile);
    let connecting = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum }).unwrap();
    // It takes the descriptor that was kept for it; none is left for the next.
    connect(&connecting, &front).unwrap();
    while complaints.recv().expect("the proxy goes on") != Some(Errno::MFILE.raw_os_error()) {}
    setrlimit(Resource::Nofile, before).unwrap();
    drop(connecting);
    thread::spawn(move || {
        // The first one may have come here as well, and ends at once.
        for mut stream in server.incoming().flatten() {
            let mut all = Vec::new();
            let _ = stream.read_to_end(&mut all).and_then(|_| stream.write_all(&all));
        }
    });
    let mut stream = TcpStream::connect(front).unwrap();
    stream.write_all(b"still here").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert_eq!(back, b"still here");
}

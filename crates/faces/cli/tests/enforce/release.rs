//! A flow that the kernel carries ends before its connection.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use cavalcade_client::{Registration, Session};
use cavalcade_testing::{eventually, eventually_some, role, say, wait_for_go};
use rustix::net::sockopt::ip_tos;

use super::{Host, LARGE, LEAD, receive};

/// As much as a socket takes while its flow waits.
const WAITS: usize = 1_000_000;

/// A program that takes its connection back from its flow.
#[test]
fn gives_its_connection_back() {
    let Some(role) = role() else { return };
    let [agent, to] = role.split(' ').collect::<Vec<_>>()[..] else { unreachable!("{role}") };
    let session = Session::open(agent).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let stream = loop {
        // The library may not have found the enforcer yet.
        let named = Registration { name: Some("small".parse().unwrap()), ..Registration::default() };
        let coflow = session.register(named).unwrap();
        let stream = session.stream(TcpStream::connect(to).unwrap(), coflow, None).unwrap();
        if stream.is_in_kernel() {
            break stream;
        }
        drop(stream);
        session.unregister(coflow);
        std::thread::sleep(Duration::from_millis(50));
    };
    let head = format!("PUT /small HTTP/1.1\r\nContent-Length: {WAITS}\r\n\r\n");
    (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&[0; WAITS])).unwrap();
    say("written");
    wait_for_go();
    // An order may have come to the enforcer before it has come to the socket.
    let marked = || ip_tos(stream.socket()).ok().filter(|&mark| mark != 0);
    let before = eventually_some("the kernel's mark", marked);
    let socket = stream.into_socket();
    say(format!("{before} {}", ip_tos(&socket).unwrap()));
    wait_for_go();
}

#[test]
fn a_connection_that_the_kernel_carries_is_as_it_was_once_its_flow_ends_and_sends_what_waited() {
    let Some(host) = Host::new("fifo") else { return };
    let (address, seen) = receive("127.0.0.2");
    let received = |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
    let mut large = host.program("large", LARGE, address);
    assert_eq!(large.hears(), "open");
    eventually("the large upload's lead", || received("/large") >= LEAD);
    let agent = host.place.path("cavalcade.sock");
    let mut small =
        host.player("release::gives_its_connection_back", &format!("{} {address}", agent.display()));
    assert_eq!(small.hears(), "written");
    eventually("it has orders", || host.task("small").is_some());
    small.go();
    let marks = small.hears();
    let (before, after) = marks.split_once(' ').unwrap();
    assert!(before != "0" && after == "0", "the application's own mark is back: {marks}");
    eventually("what waited", || received("/small") == WAITS);
}

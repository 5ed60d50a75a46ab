//! Sockets that are not plain TCP of the process that uses them: MPTCP, whose connections the
//! kernel makes, and UDP.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::Read;
use std::net::{TcpStream, UdpSocket};

use cavalcade_enforce::Flow;
use cavalcade_model::Bytes;
use cavalcade_protocol::Gate;
use cavalcade_testing::eventually;
use support::{Ground, Sink, count, tagged};

/// The gate that refuses new data.
const OFF: Gate = Gate::Off {};

#[test]
fn plays_a_role_for_other_tests() {
    support::play();
}

/// Whether this kernel makes sockets of MPTCP, and says whose a subflow is.
fn has_subflows() -> bool {
    use rustix::net::{AddressFamily, SocketType, ipproto, socket};
    let has = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::MPTCP)).is_ok();
    if !has {
        cavalcade_testing::skipped("MPTCP");
    }
    has
}

#[test]
fn bytes_over_mptcp_are_counted_and_wait_at_the_gate_as_those_over_tcp_do() {
    let Some(ground) = Ground::new() else { return };
    if !has_subflows() {
        return;
    }
    let mut kernel = ground.load();
    let (one, other) = (Sink::new("127.0.0.1"), Sink::new("127.0.0.2"));
    let (mut client, _of_client) = tagged(&mut kernel, 1, &format!("send-whole {} 1000000", one.address));
    assert_eq!(client.hears(), "sent");
    eventually("bytes", || one.received() == 1_000_000);
    let found = count(&kernel, 1, "127.0.0.1");
    // What one subflow has sent in vain and another sends again counts twice.
    assert!(found.sent >= Bytes(1_000_000), "{found:?}");
    assert_eq!(found.sockets, 1);
    client.kill();
    eventually("end of the connection", || count(&kernel, 1, "127.0.0.1").sockets == 0);
    kernel.order(Flow { coflow: 2, peer: "127.0.0.2".parse().unwrap() }, OFF.into()).unwrap();
    let (_flood, _of_flood) = tagged(&mut kernel, 2, &format!("flood-whole {}", other.address));
    eventually("refusal", || count(&kernel, 2, "127.0.0.2").waits);
    kernel.release(Flow { coflow: 2, peer: "127.0.0.2".parse().unwrap() }).unwrap();
    kernel.refresh().unwrap();
    other.wait_for(10_000_000);
}

#[test]
fn what_a_listener_for_mptcp_accepts_belongs_to_its_coflow_whatever_the_client_speaks() {
    let Some(ground) = Ground::new() else { return };
    if !has_subflows() {
        return;
    }
    let mut kernel = ground.load();
    let (mut server, _group) = tagged(&mut kernel, 1, "serve-whole 200000");
    let mut socket = TcpStream::connect(server.hears()).unwrap();
    socket.read_exact(&mut vec![0; 200_000]).unwrap();
    let found = count(&kernel, 1, "127.0.0.1");
    assert_eq!((found.sent, found.sockets), (Bytes(200_000), 1));
}

#[test]
fn what_is_sent_by_udp_is_counted_apart_and_passes() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = sink.local_addr().unwrap();
    kernel.order(Flow { coflow: 1, peer: "127.0.0.1".parse().unwrap() }, OFF.into()).unwrap();
    let (mut player, group) = tagged(&mut kernel, 1, &format!("datagrams {to} 20 1000"));
    assert_eq!(player.hears(), "sent");
    // With the headers of IP and UDP.
    assert_eq!(kernel.strayed(1), Bytes(20 * 1_028));
    let mut message = [0; 2_000];
    for _ in 0..20 {
        assert_eq!(sink.recv(&mut message).unwrap(), 1_000);
    }
    player.kill();
    kernel.forget(1, vec![group]).unwrap();
    assert_eq!(kernel.strayed(1), Bytes::ZERO);
}

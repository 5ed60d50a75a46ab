//! Messages that this host sorts by itself, on the wire of a network namespace.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use cavalcade_client::DscpMap;
use cavalcade_enforce::{Flow, Group, Kernel};
use cavalcade_model::{Bytes, Demotion, History};
use cavalcade_protocol::Gate;
use cavalcade_testing::{Player, eventually};
use support::{
    Ground, can_make_namespaces, connection_of, connections_of, count, option, player_apart, player_in,
    run_beside,
};

/// The gate that refuses new data.
const OFF: Gate = Gate::Off {};
/// The DSCP of the classes.
const DSCP: [u8; 3] = [40, 32, 24];

#[test]
fn plays_a_role_for_other_tests() {
    support::play();
}

fn rule(spec: &str) -> Demotion {
    cavalcade_policy::parse(spec).unwrap().demotion(&History::default()).unwrap()
}

/// A process in a namespace and a coflow of its own, in which packets are of one segment.
fn player(kernel: &mut Kernel, rule: &Demotion, role: &str) -> (Player, Group) {
    kernel.demote(rule, DscpMap::default()).unwrap();
    let group = kernel.tag(&kernel.place().above.clone(), 1).unwrap();
    let player = player_apart(role);
    run_beside(&player, "ip link set lo mtu 1500 gso_max_segs 1");
    run_beside(&player, "echo 1 > /proc/sys/net/ipv4/tcp_ecn");
    kernel.admit(player.number(), &group, 1).unwrap();
    (player, group)
}

#[test]
fn what_a_listener_for_both_families_accepts_over_ipv4_has_the_mark_of_its_first_class() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    kernel.demote(&rule("pias:thresholds=1MB"), DscpMap::default()).unwrap();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    let mut server = player_in(&ground.group(), "answer 1 [::]:0");
    kernel.admit(server.number(), &group, 1).unwrap();
    server.go();
    let address: SocketAddr = server.hears().parse().unwrap();
    let _socket = TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).unwrap();
    assert_eq!(server.hears(), "accepted");
    assert!(count(&kernel, 1, "127.0.0.1").marks > 0);
    kernel.mark(server.number());
    let marks = connections_of(server.number());
    let marks: Vec<u32> = marks.iter().map(|socket| option(socket, libc::IPPROTO_IP, libc::IP_TOS)).collect();
    assert!(marks.contains(&(u32::from(DSCP[0]) << 2)), "{marks:?}");
    // Its own is what the listener has of IPv4, not of IPv6.
    drop((kernel, group));
    assert_eq!(option(&connection_of(server.number()), libc::IPPROTO_IP, libc::IP_TOS), 0);
}

#[test]
fn each_packet_has_the_mark_of_what_its_message_has_sent_and_the_next_message_begins_at_the_top() {
    let Some(ground) = Ground::new() else { return };
    if !can_make_namespaces() {
        return;
    }
    let rule = rule("pias:thresholds=5KB/20KB");
    let mut kernel = ground.load();
    let (mut player, _group) = player(&mut kernel, &rule, "witness 40000");
    // The message waits whole, so that nothing but its bytes decides.
    kernel.order(Flow::of_all_peers(1), OFF.into()).unwrap();
    player.go();
    assert_eq!(player.hears(), "written");
    kernel.order(Flow::of_all_peers(1), Gate::Open {}.into()).unwrap();
    kernel.refresh().unwrap();
    let heard = player.hears();
    let marks: Vec<(u64, u8)> = heard
        .split(' ')
        .map(|mark| mark.split_once(':').unwrap())
        .map(|(sent, tos)| (sent.parse().unwrap(), tos.parse().unwrap()))
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    // What is sent again, where a busy machine acknowledges late, may go as part of what follows.
    let mut sent_before = std::collections::BTreeSet::new();
    for (sent, tos) in marks.into_iter().filter(|&(sent, _)| sent_before.insert(sent)) {
        let class =
            usize::from(rule.class(&cavalcade_model::Progress {
                sent: Bytes(sent),
                ..cavalcade_model::Progress::default()
            }));
        assert_eq!(tos >> 2, DSCP[class], "the packet behind {sent} bytes: {heard}");
        // The bits for ECN are TCP's own: this connection has agreed on marks.
        assert_eq!(tos & 3, 2, "the packet behind {sent} bytes");
        seen.insert(class);
    }
    assert_eq!(seen.len(), 3, "{heard}");
    // Once what was sent is acknowledged, a pause makes a message of what follows.
    eventually("new message", || {
        std::thread::sleep(Duration::from_millis(50));
        player.go();
        player.hears() == (DSCP[0] << 2 | 2).to_string()
    });
}

#[test]
fn a_message_that_starves_is_lifted_and_sinks_again() {
    let Some(ground) = Ground::new() else { return };
    if !can_make_namespaces() {
        return;
    }
    let mut kernel = ground.load();
    let (mut player, _group) = player(&mut kernel, &rule("pias:thresholds=5KB/20KB"), "solo");
    player.go();
    let tos = || {
        let sockets = support::connections_of(player.number());
        let marks: Vec<u32> = sockets
            .iter()
            .map(|socket| support::option(socket, libc::IPPROTO_IP, libc::IP_TOS) & !3)
            .collect();
        // The end that only receives stays at the top.
        marks.into_iter().min().unwrap_or_default()
    };
    let of_class = |class: usize| u32::from(DSCP[class]) << 2;
    eventually("fall", || tos() == of_class(2));
    run_beside(&player, "ip link set lo down");
    eventually("lift", || tos() == of_class(0));
    run_beside(&player, "ip link set lo up");
    eventually("second fall", || tos() == of_class(2));
    drop(kernel);
    assert_eq!(tos(), 0, "the application's own mark comes back");
}

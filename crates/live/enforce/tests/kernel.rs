//! The programs in the kernel, on real connections of other processes.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod support;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cavalcade_enforce::{Error, Flow, Group, Kernel, Limits, Order, leftovers};
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_protocol::Gate;
use cavalcade_testing::{Player, eventually, eventually_some};
use support::{
    Ground, Sink, can_make_namespaces, count, limits, player, player_apart, player_in, run_beside, tagged,
};

/// The gate that refuses new data.
const OFF: Gate = Gate::Off {};
/// A connection that is held to no rate.
const UNLIMITED: u32 = u32::MAX;
/// The largest segment on a loopback interface.
const SEGMENT: u64 = 65_536;

#[test]
fn plays_a_role_for_other_tests() {
    support::play();
}

fn to(peer: &str) -> Flow {
    Flow { coflow: 1, peer: peer.parse().unwrap() }
}

#[test]
fn bytes_of_sockets_that_a_tagged_process_opens_are_counted_by_peer() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (one, other) = (Sink::new("127.0.0.1"), Sink::new("127.0.0.2"));
    let (mut first, _of_first) = tagged(&mut kernel, 1, &format!("send {} 1000000", one.address));
    let (mut second, _of_second) = tagged(&mut kernel, 2, &format!("send {} 70000", other.address));
    let _untagged = {
        let mut player = player(&format!("send {} 5000", one.address));
        player.go();
        player
    };
    assert_eq!((first.hears(), second.hears()), ("sent".to_owned(), "sent".to_owned()));
    eventually("bytes", || one.received() + other.received() == 1_075_000);
    let found = count(&kernel, 1, "127.0.0.1");
    assert_eq!((found.sent, found.sockets, found.refused), (Bytes(1_000_000), 1, 0));
    assert_eq!(count(&kernel, 2, "127.0.0.2").sent, Bytes(70_000));
    assert_eq!(kernel.counts().unwrap().len(), 2);
    first.kill();
    eventually("end of the connection", || count(&kernel, 1, "127.0.0.1").sockets == 0);
}

#[test]
fn bytes_over_ipv6_are_counted() {
    let Some(ground) = Ground::new() else { return };
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return cavalcade_testing::skipped("an IPv6 loopback address");
    }
    let mut kernel = ground.load();
    let sink = Sink::new("::1");
    let (mut player, _group) = tagged(&mut kernel, 1, &format!("send {} 300000", sink.address));
    assert_eq!(player.hears(), "sent");
    eventually("bytes", || sink.received() == 300_000);
    assert_eq!(count(&kernel, 1, "::1").sent, Bytes(300_000));
}

#[test]
fn what_a_tagged_server_accepts_belongs_to_its_coflow() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (mut server, _group) = tagged(&mut kernel, 1, "serve 200000");
    let mut socket = TcpStream::connect(server.hears()).unwrap();
    socket.read_exact(&mut vec![0; 200_000]).unwrap();
    let found = count(&kernel, 1, "127.0.0.1");
    assert_eq!((found.sent, found.sockets), (Bytes(200_000), 1));
}

#[test]
fn what_is_accepted_at_a_listener_from_before_belongs_to_the_coflow_of_the_process_that_has_it() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    // Its socket is to meet the programs, as every socket of a host does.
    let mut server = player_in(&ground.group(), "activated 200000");
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    kernel.admit(server.number(), &group, 1).unwrap();
    server.go();
    let mut socket = TcpStream::connect(server.hears()).unwrap();
    socket.read_exact(&mut vec![0; 200_000]).unwrap();
    let found = count(&kernel, 1, "127.0.0.1");
    assert_eq!((found.sent, found.sockets), (Bytes(200_000), 1));
}

#[test]
fn what_waits_to_be_accepted_belongs_to_the_coflow_of_the_process_that_has_the_listener() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let mut server = player_in(&ground.group(), "queue 200000");
    server.go();
    let address: SocketAddr = server.hears().parse().unwrap();
    let mut sockets = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    kernel.admit(server.number(), &group, 1).unwrap();
    assert_eq!(count(&kernel, 1, "127.0.0.1").sockets, 3);
    assert_eq!(kernel.counts().unwrap().len(), 1);
    server.go();
    sockets[0].read_exact(&mut vec![0; 200_000]).unwrap();
    assert_eq!(count(&kernel, 1, "127.0.0.1").sent, Bytes(200_000));
    server.kill();
    eventually("end of the connections", || count(&kernel, 1, "127.0.0.1").sockets == 0);
}

#[test]
fn groups_that_a_program_makes_below_its_own_belong_to_its_coflow() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    let below = Group::make(group.path(), "below").unwrap();
    let mut player = player(&format!("send {} 5000", sink.address));
    below.admit(player.number()).unwrap();
    player.go();
    assert_eq!(player.hears(), "sent");
    assert_eq!(count(&kernel, 1, "127.0.0.1").sent, Bytes(5000));
}

#[test]
fn sockets_of_a_user_belong_to_the_users_coflow_unless_their_group_says_otherwise() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    kernel.tag_user(support::STRANGER, 7).unwrap();
    let sink = Sink::new("127.0.0.1");
    let mut stranger = player_in(&ground.group(), &format!("stranger send {} 5000", sink.address));
    stranger.go();
    assert_eq!(stranger.hears(), "sent");
    let mut own = player_in(&ground.group(), &format!("send {} 3000", sink.address));
    own.go();
    assert_eq!(own.hears(), "sent");
    let role = format!("stranger send {} 400", sink.address);
    let (mut tagged, _group) = tagged(&mut kernel, 1, &role);
    assert_eq!(tagged.hears(), "sent");
    let sent = |coflow| count(&kernel, coflow, "127.0.0.1").sent;
    assert_eq!((sent(7), sent(1)), (Bytes(5000), Bytes(400)));
}

#[test]
fn connections_to_a_port_and_those_accepted_there_belong_to_the_ports_coflow() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (sink, other) = (Sink::new("127.0.0.2"), Sink::new("127.0.0.3"));
    kernel.tag_port(sink.address.port(), 7).unwrap();
    let mut client = player_in(&ground.group(), &format!("send {} 5000", sink.address));
    client.go();
    assert_eq!(client.hears(), "sent");
    let mut elsewhere = player_in(&ground.group(), &format!("send {} 3000", other.address));
    elsewhere.go();
    assert_eq!(elsewhere.hears(), "sent");
    assert_eq!(count(&kernel, 7, "127.0.0.2").sent, Bytes(5000));
    assert_eq!(count(&kernel, 7, "127.0.0.3").sent, Bytes(0));
    let mut server = player_in(&ground.group(), "serve 200000");
    server.go();
    let address: std::net::SocketAddr = server.hears().parse().unwrap();
    kernel.tag_port(address.port(), 8).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.read_exact(&mut vec![0; 200_000]).unwrap();
    assert_eq!(count(&kernel, 8, "127.0.0.1").sent, Bytes(200_000));
}

#[test]
fn connections_at_a_port_from_before_its_rule_follow_with_a_walk_where_the_programs_meet_them() {
    let Some(ground) = Ground::new() else { return };
    let sink = Sink::new("127.0.0.2");
    let mut client = player_in(&ground.group(), &format!("early {}", sink.address));
    let mut server = player_in(&ground.group(), "answer 200000 127.0.0.1:0");
    server.go();
    let address: SocketAddr = server.hears().parse().unwrap();
    // Its own end is made in no group below the programs.
    let mut socket = TcpStream::connect(address).unwrap();
    assert_eq!(server.hears(), "accepted");
    let own = rustix::net::getsockname(support::connection_of(client.number())).unwrap();
    let mut kernel = ground.load();
    kernel.tag_port(sink.address.port(), 7).unwrap();
    kernel.tag_port(address.port(), 8).unwrap();
    // Nothing is accepted at the port from which a connection is made.
    kernel.tag_port(SocketAddr::try_from(own).unwrap().port(), 9).unwrap();
    kernel.refresh_everywhere().unwrap();
    let sockets = |coflow, peer| count(&kernel, coflow, peer).sockets;
    assert_eq!((sockets(7, "127.0.0.2"), sockets(8, "127.0.0.1"), sockets(9, "127.0.0.2")), (1, 1, 0));
    assert_eq!(kernel.counts().unwrap().len(), 2);
    server.go();
    socket.read_exact(&mut vec![0; 200_000]).unwrap();
    assert_eq!(count(&kernel, 8, "127.0.0.1").sent, Bytes(200_000));
    client.go();
    sink.wait_for(1_000_000);
    kernel.order(Flow { coflow: 7, peer: sink.address.ip() }, OFF.into()).unwrap();
    eventually("refusal", || count(&kernel, 7, "127.0.0.2").waits);
    kernel.cancel(Flow { coflow: 7, peer: sink.address.ip() });
    kernel.refresh().unwrap();
    client.kill();
    server.kill();
    for (coflow, peer) in [(7, "127.0.0.2"), (8, "127.0.0.1")] {
        eventually("end of the connection", || count(&kernel, coflow, peer).sockets == 0);
    }
}

#[test]
fn a_connection_from_before_is_its_groups_although_a_rule_names_its_port_and_a_walk_came_between() {
    let Some(ground) = Ground::new() else { return };
    let sink = Sink::new("127.0.0.2");
    let mut client = player_in(&ground.group(), &format!("early {}", sink.address));
    let mut server = player_in(&ground.group(), "answer 200000 127.0.0.1:0");
    server.go();
    server.hears();
    let mut kernel = ground.load();
    kernel.tag_port(sink.address.port(), 7).unwrap();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    // A listener takes a walk, which also comes to the other's connection.
    kernel.admit(server.number(), &group, 1).unwrap();
    kernel.admit(client.number(), &group, 1).unwrap();
    kernel.refresh_everywhere().unwrap();
    assert_eq!(count(&kernel, 1, "127.0.0.2").sockets, 1);
    assert_eq!(kernel.counts().unwrap().len(), 1);
    client.kill();
    server.kill();
}

#[test]
fn another_user_can_neither_open_tables_nor_move_processes_into_a_coflow() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    let role = format!("stranger intrude {} {}", ground.place.name, group.path().display());
    let mut stranger = player(&role);
    stranger.go();
    assert_eq!(stranger.hears(), "table by pin: refused");
    assert_eq!(stranger.hears(), "tables by number: refused");
    assert_eq!(stranger.hears(), "own process: refused");
    assert_eq!(stranger.hears(), "other process: refused");
    assert_eq!(group.members(), Vec::<u32>::new());
}

#[test]
fn what_another_user_has_laid_out_for_an_enforcer_is_not_used() {
    let Some(ground) = Ground::new() else { return };
    let laid = |path: &std::path::Path| {
        std::fs::create_dir(path).unwrap();
        std::os::unix::fs::chown(path, Some(support::STRANGER), None).unwrap();
    };
    drop(ground.load());
    let pins = std::path::Path::new("/sys/fs/bpf").join(&ground.place.name);
    laid(&pins);
    assert!(matches!(
        Kernel::load(ground.place.clone(), limits(Duration::from_secs(1))),
        Err(Error::Foreign(_))
    ));
    std::fs::remove_dir(&pins).unwrap();
    let mut kernel = ground.load();
    let group = ground.place.above.join(format!("{}.1", ground.place.name));
    laid(&group);
    assert!(matches!(kernel.tag(&ground.place.above, 1), Err(Error::Foreign(_))));
    std::fs::remove_dir(&group).unwrap();
}

/// A process of coflow 1 that sends without end to a sink at 127.0.0.1, and waits at its gate by
/// now; with its group.
fn flood_that_waits(kernel: &mut Kernel, sink: &Sink) -> (Player, Group) {
    let flood = tagged(kernel, 1, &format!("flood {}", sink.address));
    sink.wait_for(10_000_000);
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    eventually("refusal", || count(kernel, 1, "127.0.0.1").waits);
    flood
}

#[test]
fn a_push_reaches_what_waits_at_a_gate_that_has_opened_without_a_walk() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (player, _group) = flood_that_waits(&mut kernel, &sink);
    kernel.order(to("127.0.0.1"), Gate::Open {}.into()).unwrap();
    assert_eq!(kernel.push(player.number()).len(), 1);
    assert!(!count(&kernel, 1, "127.0.0.1").waits);
    let socket = support::connection_of(player.number());
    assert_eq!(support::option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
}

#[test]
fn a_push_has_connections_take_on_their_rate_before_they_send_what_waited() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (player, _group) = flood_that_waits(&mut kernel, &sink);
    let socket = support::connection_of(player.number());
    for rate in [BitsPerSec(8_000_000), BitsPerSec(80_000_000)] {
        kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
        assert_eq!(kernel.push(player.number()).len(), 1);
        assert_eq!(support::pacing_rate(&socket), rate.0 / 8);
    }
    assert!(!count(&kernel, 1, "127.0.0.1").waits);
    kernel.cancel(to("127.0.0.1"));
    assert_eq!(kernel.push(player.number()).len(), 1);
    assert!(support::pacing_rate(&socket) >= u64::from(UNLIMITED));
}

#[test]
fn a_connection_that_was_reset_and_is_kept_open_is_not_counted_again_by_a_push() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (mut player, _group) = tagged(&mut kernel, 1, "reset");
    assert_eq!(player.hears(), "begun");
    assert!(count(&kernel, 1, "127.0.0.1").sockets > 0);
    player.go();
    assert_eq!(player.hears(), "reset");
    eventually("end of both", || count(&kernel, 1, "127.0.0.1").sockets == 0);
    kernel.push(player.number());
    assert_eq!(count(&kernel, 1, "127.0.0.1").sockets, 0);
}

#[test]
fn what_a_program_has_left_to_the_kernel_is_missed_by_a_push_and_found_by_a_walk() {
    let Some(ground) = Ground::new() else { return };
    let limits = Limits { trickle: Nanos::from_secs(3_600), ..limits(Duration::from_secs(60)) };
    let mut kernel = Kernel::load(ground.place.clone(), limits).unwrap();
    let sink = Sink::new("127.0.0.1");
    let (mut player, _group) = tagged(&mut kernel, 1, &format!("leave {} 8000", sink.address));
    assert_eq!(player.hears(), "begun");
    eventually("the byte", || sink.received() == 1);
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    player.go();
    assert_eq!(player.hears(), "left");
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    kernel.order(to("127.0.0.1"), Gate::Open {}.into()).unwrap();
    assert_eq!(kernel.push(player.number()), []);
    assert_eq!(count(&kernel, 1, "127.0.0.1").sockets, 1);
    kernel.refresh().unwrap();
    eventually("all bytes", || sink.received() == 8_001);
}

#[test]
fn a_connection_from_before_is_tagged_with_its_process() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    // In a group below the programs, as every process of a host is: elsewhere its sockets do not
    // meet them.
    let outside = Group::make(&ground.place.above, "outside").unwrap();
    let mut player = player_in(&outside, &format!("early {}", sink.address));
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    kernel.admit(player.number(), &group, 1).unwrap();
    assert_eq!(count(&kernel, 1, "127.0.0.1").sockets, 1);
    player.go();
    sink.wait_for(1_000_000);
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    player.kill();
    eventually("end of the connection", || count(&kernel, 1, "127.0.0.1").sockets == 0);
}

#[test]
fn an_idle_connection_begins_a_new_message() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (mut player, _group) = tagged(&mut kernel, 1, &format!("speak {}", sink.address));
    for messages in 1..=3 {
        // Longer than the idle time, however late a thread wakes.
        std::thread::sleep(Duration::from_millis(2));
        player.go();
        assert_eq!(player.hears(), "spoken");
        assert_eq!(count(&kernel, 1, "127.0.0.1").messages, messages);
    }
}

#[test]
fn a_flow_that_is_off_sends_no_more_than_its_trickle_and_goes_on_when_it_opens() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let (off, open) = (Sink::new("127.0.0.1"), Sink::new("127.0.0.2"));
    let (_first, _of_first) = tagged(&mut kernel, 1, &format!("flood {}", off.address));
    let (_second, _of_second) = tagged(&mut kernel, 2, &format!("flood {}", open.address));
    off.wait_for(10_000_000);
    for _ in 0..3 {
        kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
        eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
        let before = count(&kernel, 1, "127.0.0.1").sent.0;
        let began = Instant::now();
        open.wait_for(30_000_000);
        let trickles = began.elapsed().as_millis() as u64 / 200 + 1;
        let passed = count(&kernel, 1, "127.0.0.1").sent.0 - before;
        assert!(passed <= trickles * SEGMENT, "{passed} bytes passed a gate that is off");
        kernel.order(to("127.0.0.1"), Gate::Open {}.into()).unwrap();
        kernel.refresh().unwrap();
        off.wait_for(10_000_000);
    }
}

#[test]
fn a_connection_that_is_off_for_longer_than_tcp_tries_is_not_given_up_and_delivers_everything() {
    let (Some(ground), Some(bare)) = (Ground::new(), Ground::new()) else { return };
    if !can_make_namespaces() {
        return;
    }
    let hour = Nanos::from_secs(3_600);
    let start = |ground: &Ground, trickle: Nanos| {
        let mut kernel =
            Kernel::load(ground.place.clone(), Limits { silence: hour, trickle, ..Limits::default() })
                .unwrap();
        let group = kernel.tag(&ground.place.above, 1).unwrap();
        kernel.order(Flow::of_all_peers(1), OFF.into()).unwrap();
        let mut player = player_apart("deliver 20000000");
        // Some seconds, in place of a quarter of an hour.
        run_beside(&player, "echo 4 > /proc/sys/net/ipv4/tcp_retries2");
        kernel.admit(player.number(), &group, 1).unwrap();
        player.go();
        (kernel, player, group)
    };
    let (mut kernel, mut player, _group) = start(&ground, Limits::default().trickle);
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    // One that begins later and has no trickle shows when TCP has tried for long enough.
    let (_of_bare, mut given_up, _group_of_bare) = start(&bare, hour);
    assert_eq!(given_up.hears(), "TimedOut");
    assert!(count(&kernel, 1, "127.0.0.1").waits);
    kernel.order(Flow::of_all_peers(1), Gate::Open {}.into()).unwrap();
    kernel.refresh().unwrap();
    assert_eq!(player.hears(), "delivered");
}

#[test]
fn orders_for_all_peers_hold_until_a_peer_has_its_own() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    kernel.order(Flow::of_all_peers(1), OFF.into()).unwrap();
    let (_player, _group) = tagged(&mut kernel, 1, &format!("flood {}", sink.address));
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    kernel.order(to("127.0.0.1"), Gate::Open {}.into()).unwrap();
    kernel.refresh().unwrap();
    sink.wait_for(10_000_000);
    kernel.cancel(to("127.0.0.1"));
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
}

#[test]
fn a_forgotten_coflow_limits_nothing_and_is_not_counted_any_more() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (_player, group) = tagged(&mut kernel, 1, &format!("flood {}", sink.address));
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    kernel.forget(1, vec![group]).unwrap();
    sink.wait_for(10_000_000);
    assert_eq!(kernel.counts().unwrap(), []);
}

#[test]
fn a_paced_flow_is_no_faster_than_its_rate_and_is_free_afterwards() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (player, _group) = tagged(&mut kernel, 1, &format!("flood {}", sink.address));
    sink.wait_for(10_000_000);
    let rate = BitsPerSec(80_000_000);
    kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
    kernel.refresh().unwrap();
    // What was on its way before.
    sink.wait_for(5_000_000);
    let began = Instant::now();
    let from = sink.received();
    sink.wait_for(5_000_000);
    let bytes = (sink.received() - from - 4 * SEGMENT) as f64;
    let reached = bytes * 8.0 / began.elapsed().as_secs_f64();
    assert!(reached < 1.1 * rate.0 as f64, "{reached} bit/s where {} were asked for", rate.0);
    kernel.cancel(to("127.0.0.1"));
    kernel.refresh().unwrap();
    let socket = support::connection_of(player.number());
    assert_eq!(support::option(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE), UNLIMITED);
}

#[test]
fn a_connection_under_bbr_takes_up_a_rate_that_rises_at_once() {
    let Some(ground) = Ground::new() else { return };
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    if !available.split_whitespace().any(|control| control == "bbr") {
        return cavalcade_testing::skipped("the congestion control bbr");
    }
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (player, _group) = tagged(&mut kernel, 1, &format!("flood {} bbr", sink.address));
    sink.wait_for(10_000_000);
    let mut pace = |megabits: u64| {
        let rate = BitsPerSec(megabits * 1_000_000);
        kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
        kernel.refresh().unwrap();
    };
    let socket = support::connection_of(player.number());
    let paced_at = || support::pacing_rate(&socket) * 8;
    pace(20);
    // Then it has seen no more than that arrive.
    let from = sink.received();
    eventually("bytes at that rate", || sink.received() > from + 20 * SEGMENT && paced_at() <= 20_000_000);
    pace(1_000);
    // What the next bytes show would come later.
    assert_eq!(paced_at(), 1_000_000_000);
}

#[test]
fn packets_are_marked_by_class_and_the_applications_own_mark_comes_back() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let sink = Sink::new("127.0.0.1");
    let (player, _group) = tagged(&mut kernel, 1, &format!("flood {}", sink.address));
    sink.wait_for(1_000_000);
    let socket = support::connection_of(player.number());
    let marks = || {
        let tos = support::option(&socket, libc::IPPROTO_IP, libc::IP_TOS);
        (tos, support::option(&socket, libc::SOL_SOCKET, libc::SO_PRIORITY))
    };
    assert_eq!(marks(), (0, 0));
    let order = Order { gate: Gate::Open {}, dscp: Some(40), priority: Some(6), class: Some(0) };
    kernel.order(to("127.0.0.1"), order).unwrap();
    kernel.refresh().unwrap();
    assert_eq!(marks(), (40 << 2, 6));
    drop(kernel);
    assert_eq!(marks(), (0, 0));
}

#[test]
fn ipv4_packets_of_sockets_for_both_families_are_marked_by_descriptors_and_the_own_mark_comes_back() {
    let Some(ground) = Ground::new() else { return };
    if !can_make_namespaces() {
        return;
    }
    let mut kernel = ground.load();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    let mut player = player_apart("mapped");
    kernel.admit(player.number(), &group, 1).unwrap();
    player.go();
    assert_eq!(player.hears(), "connected");
    let process = player.number();
    let has = |tos: u32, priority: u32| {
        let options = |socket: &OwnedFd| {
            let tos = support::option(socket, libc::IPPROTO_IP, libc::IP_TOS);
            (tos, support::option(socket, libc::SOL_SOCKET, libc::SO_PRIORITY))
        };
        support::connections_of(process).iter().any(|socket| options(socket) == (tos, priority))
    };
    let mut speaks = || {
        player.go();
        player.hears()
    };
    assert_eq!((speaks(), count(&kernel, 1, "127.0.0.1").marks), ("8".to_owned(), 0));
    for (dscp, priority) in [(40, 6), (32, 5)] {
        let before = count(&kernel, 1, "127.0.0.1").marks;
        let order = Order { gate: Gate::Open {}, dscp: Some(dscp), priority: Some(priority), class: None };
        kernel.order(to("127.0.0.1"), order).unwrap();
        kernel.refresh().unwrap();
        assert!(count(&kernel, 1, "127.0.0.1").marks > before);
        kernel.mark(process);
        assert_eq!(speaks(), (dscp << 2).to_string());
        assert!(has(u32::from(dscp) << 2, u32::from(priority)));
    }
    kernel.forget(1, vec![group]).unwrap();
    assert_eq!(speaks(), "8");
    // What the kernel makes of that TOS.
    assert!(has(8, 2));
}

#[test]
fn orders_reach_connections_in_other_network_namespaces() {
    let Some(ground) = Ground::new() else { return };
    if std::process::Command::new("unshare").args(["--net", "ip", "link"]).output().is_err() {
        return cavalcade_testing::skipped("unshare and ip, for a network namespace");
    }
    let mut kernel = ground.load();
    let group = kernel.tag(&ground.place.above, 1).unwrap();
    let mut player = player_apart("solo");
    kernel.admit(player.number(), &group, 1).unwrap();
    player.go();
    eventually("bytes", || count(&kernel, 1, "127.0.0.1").sent > Bytes(10_000_000));
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    eventually("refusal", || count(&kernel, 1, "127.0.0.1").waits);
    // Nothing is acknowledged now, so nothing but the walk can set this.
    let rate = BitsPerSec(80_000_000);
    kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
    kernel.refresh().unwrap();
    let sockets = support::connections_of(player.number());
    let rates: Vec<u32> = sockets
        .iter()
        .map(|socket| support::option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE))
        .collect();
    let [sends, receives] = rates[..] else { panic!("{} connections", rates.len()) };
    assert_eq!(sends, 10_000_000);
    // The end that only receives would have a part if it had something to send: one of two, or of
    // one where the other has just passed, as a trickle, all that it had.
    assert!([10_000_000, 5_000_000].contains(&receives), "{receives}");
}

#[test]
fn all_connections_of_a_flow_together_have_its_rate() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let rate = BitsPerSec(80_000_000);
    for connections in [1, 8, 64, 400] {
        kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
        let sink = Sink::new("127.0.0.1");
        let (player, _group) = tagged(&mut kernel, 1, &format!("floods {} {connections}", sink.address));
        eventually("all of them send", || count(&kernel, 1, "127.0.0.1").sockets == connections);
        // One that is being made has no descriptor yet.
        let sockets = eventually_some("their descriptors", || {
            let sockets = support::connections_of(player.number());
            (sockets.len() as u64 == connections).then_some(sockets)
        });
        let paced = || sockets.iter().map(support::pacing_rate).sum::<u64>();
        let wanted = rate.0 / 8;
        eventually(format!("{connections} share the rate within a twentieth"), || {
            paced().abs_diff(wanted) <= wanted / 20
        });
        // What left before they shared is on its way; from here on a slow machine only takes
        // longer.
        sink.wait_for(5_000_000);
        let began = Instant::now();
        sink.wait_for(20_000_000);
        let took = began.elapsed();
        assert!(took > Duration::from_millis(1_500), "{connections}: 20 MB at 10 MB/s in {took:?}");
        // What they have written goes on to be sent when they have ended.
        drop((player, sockets));
        kernel.cancel(to("127.0.0.1"));
        kernel.refresh().unwrap();
        eventually("their end", || count(&kernel, 1, "127.0.0.1").sockets == 0);
    }
}

#[test]
fn a_connection_that_ends_leaves_its_part_of_the_rate_to_the_others() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = ground.load();
    let rate = BitsPerSec(80_000_000);
    kernel.order(to("127.0.0.1"), Gate::Paced { rate }.into()).unwrap();
    let sink = Sink::new("127.0.0.1");
    let (stays, of_group) = tagged(&mut kernel, 1, &format!("floods {} 1", sink.address));
    let mut ends = player(&format!("floods {} 3", sink.address));
    of_group.admit(ends.number()).unwrap();
    ends.go();
    eventually("all of them send", || count(&kernel, 1, "127.0.0.1").sockets == 4);
    let socket = support::connection_of(stays.number());
    let paced_at =
        |part: u64| support::pacing_rate(&socket).abs_diff(rate.0 / 8 / part) <= rate.0 / 8 / part / 20;
    eventually("a quarter", || paced_at(4));
    ends.kill();
    eventually("all of it", || paced_at(1));
}

#[test]
fn what_passes_a_gate_that_is_off_passes_it_for_all_connections_of_the_flow() {
    let Some(ground) = Ground::new() else { return };
    let limits = Limits { trickle: Nanos::from_secs(3_600), ..limits(Duration::from_secs(60)) };
    let mut kernel = Kernel::load(ground.place.clone(), limits).unwrap();
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    let sink = Sink::new("127.0.0.1");
    let (_player, _group) = tagged(&mut kernel, 1, &format!("floods {} 40", sink.address));
    eventually("all have tried", || {
        let found = count(&kernel, 1, "127.0.0.1");
        found.sockets == 40 && found.refused >= 40
    });
    let sent = count(&kernel, 1, "127.0.0.1").sent;
    assert!(sent <= Bytes(SEGMENT), "{sent} passed");
}

#[test]
fn silence_opens_gates_and_lifts_rates() {
    let Some(ground) = Ground::new() else { return };
    let mut kernel = Kernel::load(ground.place.clone(), limits(Duration::from_millis(500))).unwrap();
    let (off, slow) = (Sink::new("127.0.0.1"), Sink::new("127.0.0.2"));
    let (_first, _of_first) = tagged(&mut kernel, 1, &format!("flood {}", off.address));
    let (second, _of_second) = tagged(&mut kernel, 2, &format!("flood {}", slow.address));
    let rate = BitsPerSec(10_000_000);
    slow.wait_for(1_000_000);
    kernel.stay_alive().unwrap();
    kernel
        .order(Flow { coflow: 2, peer: "127.0.0.2".parse().unwrap() }, Gate::Paced { rate }.into())
        .unwrap();
    kernel.order(to("127.0.0.1"), OFF.into()).unwrap();
    kernel.refresh().unwrap();
    // A gate's trickle would take minutes for that.
    off.wait_for(30_000_000);
    let socket = support::connection_of(second.number());
    eventually("end of the rate", || {
        support::option(&socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE) == UNLIMITED
    });
}

#[test]
fn an_enforcer_that_is_killed_limits_nothing_for_long_and_what_it_left_is_found() {
    let Some(ground) = Ground::new() else { return };
    let sink = Sink::new("127.0.0.1");
    let group = Group::make(&ground.place.above, "held").unwrap();
    let above = ground.place.above.display();
    let role = format!("hold {above} {} {} 1500", ground.place.name, group.path().display());
    let mut enforcer = player(&role);
    let mut player = player(&format!("flood {}", sink.address));
    group.admit(player.number()).unwrap();
    player.go();
    assert!(matches!(
        Kernel::load(ground.place.clone(), limits(Duration::from_secs(1))),
        Err(Error::InUse(_))
    ));
    enforcer.kill();
    sink.wait_for(30_000_000);
    let left = leftovers::find(&ground.place).unwrap();
    assert_eq!(left.len(), 5, "{left:?}");
    assert_eq!(leftovers::fix(&ground.place).unwrap(), left);
    assert!(leftovers::find(&ground.place).unwrap().is_empty());
    sink.wait_for(30_000_000);
}

/// A process that is killed ends some time later, where others want the processors; its pins are
/// its own until then.
#[test]
fn what_an_enforcer_leaves_is_removed_also_while_it_still_ends() {
    let Some(ground) = Ground::new() else { return };
    let group = Group::make(&ground.place.above, "held").unwrap();
    let above = ground.place.above.display();
    let mut enforcer =
        player(&format!("hold {above} {} {} 60000", ground.place.name, group.path().display()));
    let removed = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            enforcer.kill();
        });
        leftovers::fix(&ground.place).unwrap()
    });
    assert_eq!(removed.len(), 5, "{removed:?}");
    assert!(leftovers::find(&ground.place).unwrap().is_empty());
}

#[test]
fn the_next_enforcer_takes_the_place_of_one_that_was_killed() {
    let Some(ground) = Ground::new() else { return };
    let group = Group::make(&ground.place.above, "held").unwrap();
    let above = ground.place.above.display();
    let role = format!("hold {above} {} {} 60000", ground.place.name, group.path().display());
    let mut enforcer = player(&role);
    let sink = Sink::new("127.0.0.1");
    let mut player = player(&format!("flood {}", sink.address));
    group.admit(player.number()).unwrap();
    player.go();
    enforcer.kill();
    let kernel = ground.load();
    sink.wait_for(30_000_000);
    drop(kernel);
}

#[test]
fn trials_at_the_same_time_find_what_tests_here_use_and_leave_nothing_behind() {
    let Some(_ground) = Ground::new() else { return };
    let one = || cavalcade_enforce::probe::try_all()[0].found.clone();
    let both =
        std::thread::scope(|scope| [scope.spawn(one), scope.spawn(one)].map(|trial| trial.join().unwrap()));
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    let name = format!("cavalcade-doctor-{}-", std::process::id());
    for folder in ["/sys/fs/bpf".into(), cavalcade_enforce::Hierarchy::find().unwrap().root] {
        let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(entries.find(|entry| entry.to_string_lossy().starts_with(&name)), None);
    }
}

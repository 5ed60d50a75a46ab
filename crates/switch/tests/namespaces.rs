//! Real packets through real switches: hosts and switches are namespaces, links are virtual cables.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use cavalcade_spc::Endpoint;
use cavalcade_switch::{Carrier, Stop, SwitchError};
use support::{Net, RATE, Switch, address, bad_cable, options, text, within};

const PORT: u16 = 4_000;

/// Serves `streams` streams at a host: each is read to its end, and what was read is returned by task.
fn sink(host: &str, number: u8, streams: usize) -> thread::JoinHandle<Vec<(u32, Vec<u8>, Instant)>> {
    let (ready, started) = std::sync::mpsc::channel();
    let thread = within(host, move || {
        let listener = Endpoint::bind(address(number, PORT), options()).unwrap().listen();
        ready.send(()).unwrap();
        let readers: Vec<_> = (0..streams)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                thread::spawn(move || {
                    let mut all = Vec::new();
                    stream.read_to_end(&mut all).unwrap();
                    (stream.task(), all, Instant::now())
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    started.recv().unwrap();
    thread
}

/// Sends bytes from a host under a task, and waits until they are acknowledged.
fn send(host: &str, to: u8, task: u32, bytes: Vec<u8>) -> thread::JoinHandle<std::io::Result<()>> {
    within(host, move || {
        let mut stream = Endpoint::bind("0.0.0.0:0", options())?.connect(address(to, PORT), task)?;
        stream.write_all(&bytes)?;
        stream.shutdown(Shutdown::Write)?;
        stream.wait_acknowledged()
    })
}

fn ports(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| format!("p{number}")).collect()
}

/// The same by the carrier in the kernel, where there is one.
fn in_the_kernel(test: fn(Carrier)) {
    match cavalcade_switch::kernel::missing() {
        Some(why) => cavalcade_skip::skipped(format_args!("programs for the kernel ({why})")),
        None => test(Carrier::Kernel),
    }
}

#[test]
fn tasks_go_in_order_and_tcp_beside_them_gets_through_whole() {
    tasks_go_in_order(Carrier::Process);
}

#[test]
fn tasks_go_in_order_through_the_kernel_and_tcp_beside_them_gets_through_whole() {
    in_the_kernel(tasks_go_in_order);
}

fn tasks_go_in_order(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=3).map(|number| net.host(number, &sw)).collect();
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2, 3]));
    let tcp_server = within(&hosts[2], || {
        let listener = TcpListener::bind(address(3, 5_000)).unwrap();
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all
    });
    let sunk = sink(&hosts[2], 3, 2);
    thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    let late = send(&hosts[1], 3, 20, text(4_000_000, 20));
    thread::sleep(Duration::from_millis(60));
    let early = send(&hosts[0], 3, 10, text(1_000_000, 10));
    let tcp = within(&hosts[0], || {
        let mut stream = TcpStream::connect(address(3, 5_000)).unwrap();
        stream.write_all(&text(400_000, 5)).unwrap();
    });
    early.join().unwrap().unwrap();
    late.join().unwrap().unwrap();
    tcp.join().unwrap();
    assert!(tcp_server.join().unwrap() == text(400_000, 5));
    let mut arrived = sunk.join().unwrap();
    arrived.sort_by_key(|(task, ..)| *task);
    assert!(arrived[0].1 == text(1_000_000, 10) && arrived[1].1 == text(4_000_000, 20));
    let times: Vec<_> = arrived.iter().map(|(.., at)| at.duration_since(begun).as_millis()).collect();
    // The later task began first, and still ends last: alone it takes 680 ms, the earlier one 170 ms.
    assert!(times[0] < times[1], "{times:?}");
    let running = switch.end();
    let port = &running.report.ports[2];
    assert!(port.questions > 0 && port.plain.packets > 250, "{port:?}");
    // Addresses are asked for by way of the process.
    assert!(carrier == Carrier::Process || running.by_process < 100_000, "{}", running.by_process);
    assert_eq!(running.report.counters.malformed, 0);
}

#[test]
fn six_switches_carry_a_stream_and_the_seventh_refuses_it() {
    six_switches(Carrier::Process);
}

#[test]
fn six_switches_in_the_kernel_carry_a_stream_and_the_seventh_refuses_it() {
    in_the_kernel(six_switches);
}

fn six_switches(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let switches: Vec<_> = (0..7).map(|at| net.add(&format!("s{at}"))).collect();
    for (at, pair) in switches.windows(2).enumerate() {
        net.join((&pair[0], &format!("r{at}")), (&pair[1], &format!("l{at}")));
    }
    let first = net.host(1, &switches[0]);
    let (sixth, seventh) = (net.host(6, &switches[5]), net.host(7, &switches[6]));
    let running: Vec<_> = (0..7usize)
        .map(|at| {
            let mut ports = Vec::new();
            ports.extend((at > 0).then(|| format!("l{}", at - 1)));
            ports.extend((at < 6).then(|| format!("r{at}")));
            ports.extend((at == 0).then(|| "p1".to_owned()));
            ports.extend((at >= 5).then(|| format!("p{}", at + 1)));
            Switch::carried(carrier, &switches[at], at as u64, &ports)
        })
        .collect();
    let sunk = sink(&sixth, 6, 1);
    send(&first, 6, 1, text(500_000, 1)).join().unwrap().unwrap();
    assert!(sunk.join().unwrap()[0].1 == text(500_000, 1));
    let listener = within(&seventh, || Endpoint::bind(address(7, PORT), options()).unwrap());
    let endpoint = listener.join().unwrap();
    let listening = endpoint.listen();
    let refused = send(&first, 7, 2, text(10, 1)).join().unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::HostUnreachable);
    assert!(refused.to_string().contains("more than six SPC switches"), "{refused}");
    drop((listening, endpoint));
    let refusals: Vec<_> = running.into_iter().map(|switch| switch.end().report.counters.refused).collect();
    assert_eq!(refusals[..6], [0; 6]);
    assert!(refusals[6] > 0);
}

#[test]
fn a_switch_that_is_killed_and_started_again_loses_no_byte() {
    started_again(Carrier::Process);
}

#[test]
fn a_switch_in_the_kernel_that_is_ended_and_started_again_loses_no_byte() {
    in_the_kernel(started_again);
}

fn started_again(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2]));
    let sunk = sink(&hosts[1], 2, 1);
    let sent = send(&hosts[0], 2, 1, text(4_000_000, 3));
    thread::sleep(Duration::from_millis(250));
    drop(switch.end());
    thread::sleep(Duration::from_millis(400));
    let again = Switch::carried(carrier, &sw, 1, &ports(&[1, 2]));
    sent.join().unwrap().unwrap();
    assert!(sunk.join().unwrap()[0].1 == text(4_000_000, 3));
    assert!(again.end().report.ports[1].spc.bytes > 1_000_000, "part of it went through the second one");
}

#[test]
fn a_network_that_loses_repeats_reorders_and_breaks_packets_delivers_every_byte_once() {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    // A second switch, and a bad cable between the two.
    let (other, cable) = (net.add("other"), net.add("cable"));
    net.join((&sw, "c0"), (&cable, "c0"));
    net.join((&other, "c1"), (&cable, "c1"));
    let third = net.host(3, &other);
    let stop = Stop::default();
    let cable = bad_cable(&cable, ["c0", "c1"], 42, stop.clone());
    let with_cable = |number: u8, end: &str| [format!("p{number}"), end.to_owned()];
    let switches =
        [Switch::start(&sw, 1, &with_cable(1, "c0")), Switch::start(&other, 2, &with_cable(3, "c1"))];
    let sunk = sink(&third, 3, 1);
    send(&hosts[0], 3, 1, text(1_000_000, 3)).join().unwrap().unwrap();
    assert!(sunk.join().unwrap()[0].1 == text(1_000_000, 3));
    stop.stop();
    let harmed = cable.join().unwrap();
    assert!(harmed > 20, "{harmed}");
    switches.into_iter().for_each(|switch| drop(switch.end()));
}

#[test]
fn what_a_killed_sender_held_is_free_after_two_epochs() {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=3).map(|number| net.host(number, &sw)).collect();
    let switch = Switch::start(&sw, 1, &ports(&[1, 2, 3]));
    let sunk = sink(&hosts[2], 3, 2);
    let dead = send(&hosts[0], 3, 1, text(20_000_000, 1));
    thread::sleep(Duration::from_millis(300));
    // Its cable is cut: it says nothing any more, and gives nothing back.
    assert!(Command::new("ip").args(["-n", &sw, "link", "set", "p1", "down"]).status().unwrap().success());
    let begun = Instant::now();
    send(&hosts[1], 3, 2, text(1_000_000, 2)).join().unwrap().unwrap();
    let took = begun.elapsed();
    // Two epochs of 32 round trips of 2 ms are 128 ms; the bytes take 170 ms, and opening a few round trips. A grant that stays
    // would hold them up for the patience, 30 s; a busy machine may be late.
    assert!(took < Duration::from_secs(10), "{took:?} at {RATE}");
    assert!(Command::new("ip").args(["-n", &sw, "link", "set", "p1", "up"]).status().unwrap().success());
    dead.join().unwrap().unwrap();
    let mut arrived = sunk.join().unwrap();
    arrived.sort_by_key(|(task, ..)| *task);
    assert!(arrived[0].1 == text(20_000_000, 1) && arrived[1].1 == text(1_000_000, 2));
    drop(switch.end());
}

#[test]
fn interfaces_that_will_not_do_are_refused_before_anything_is_changed() {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    net.host(1, &sw);
    let missing = Switch::start(&sw, 1, &ports(&[1, 9])).ended();
    assert!(matches!(missing, Err(SwitchError::NoInterface { ref name }) if name == "p9"), "{missing:?}");
    let twice = Switch::start(&sw, 1, &ports(&[1, 1])).ended();
    assert!(matches!(twice, Err(SwitchError::Twice { .. })), "{twice:?}");
    assert!(
        Command::new("ip").args(["-n", &sw, "link", "set", "p1", "mtu", "600"]).status().unwrap().success()
    );
    let small = Switch::start(&sw, 1, &ports(&[1])).ended();
    assert!(matches!(small, Err(SwitchError::SmallMtu { mtu: 600, .. })), "{small:?}");
    assert!(
        Command::new("ip")
            .args(["-n", &sw, "link", "set", "p1", "mtu", "1500", "down"])
            .status()
            .unwrap()
            .success()
    );
    let down = Switch::start(&sw, 1, &ports(&[1])).ended();
    assert!(matches!(down, Err(SwitchError::Down { .. })), "{down:?}");
}

#[test]
fn a_loop_and_an_interface_that_goes_away_end_the_switch_with_an_error() {
    loop_and_loss(Carrier::Process);
}

#[test]
fn a_loop_and_an_interface_that_goes_away_end_the_switch_in_the_kernel_with_an_error() {
    in_the_kernel(loop_and_loss);
}

fn loop_and_loss(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let (sw, other) = (net.add("sw"), net.add("other"));
    net.join((&sw, "c0"), (&other, "c0"));
    net.join((&sw, "c1"), (&other, "c1"));
    let both = ["c0".to_owned(), "c1".to_owned()];
    let first = Switch::carried(carrier, &other, 2, &both);
    let second = Switch::carried(carrier, &sw, 1, &both);
    let ended = second.ended();
    assert!(matches!(ended, Err(SwitchError::Loop { .. })), "{ended:?}");
    assert_eq!(first.end().report.counters.malformed, 0, "the one that was there goes on");
    let alone = Switch::carried(carrier, &sw, 1, &both[..1]);
    assert!(Command::new("ip").args(["-n", &sw, "link", "del", "c0"]).status().unwrap().success());
    let gone = alone.ended();
    assert!(matches!(gone, Err(SwitchError::Gone { .. })), "{gone:?}");
}

#[test]
fn a_switch_in_the_kernel_refuses_ports_that_will_not_do_and_leaves_nothing_behind() {
    in_the_kernel(|carrier| {
        let Some(mut net) = Net::new() else { return };
        let (sw, other) = (net.add("sw"), net.add("other"));
        net.host(1, &sw);
        net.join((&sw, "c0"), (&other, "c0"));
        let both = ["p1".to_owned(), "c0".to_owned()];
        let first = Switch::carried(carrier, &sw, 1, &both);
        let second = Switch::carried(carrier, &sw, 2, &both).ended();
        assert!(matches!(second, Err(SwitchError::Occupied { ref name }) if name == "p1"), "{second:?}");
        assert!(has_program(&sw));
        drop(first.end());
        assert!(!has_program(&sw), "the program goes with its switch");
        let few = ["netns", "exec", &other, "ethtool", "-K", "c0", "gro", "off"];
        if !Command::new("ip").args(few).status().is_ok_and(|status| status.success()) {
            cavalcade_skip::skipped("ethtool, to turn receive offload off");
            return;
        }
        let lost = Switch::carried(carrier, &sw, 1, &both).ended();
        assert!(matches!(lost, Err(SwitchError::NoRedirect { ref name }) if name == "c0"), "{lost:?}");
        assert!(!has_program(&sw), "nothing was changed");
    });
}

/// Returns whether an interface of a namespace has an XDP program.
fn has_program(namespace: &str) -> bool {
    let shown = Command::new("ip").args(["-n", namespace, "link"]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("prog/xdp")
}

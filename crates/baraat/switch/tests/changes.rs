//! Networks that change under open streams: links that carry less, hosts and routes that move,
//! cables that close a loop.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[macro_use]
#[allow(dead_code, reason = "other tests have other needs")]
mod support;
#[path = "support/questions.rs"]
#[allow(dead_code, reason = "other tests have other needs")]
mod questions;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cavalcade_spc::Endpoint;
use cavalcade_switch::device::Device;
use cavalcade_switch::packet::ETHERNET;
use cavalcade_switch::port::{ClassCounters, Packet};
use cavalcade_switch::{Carrier, Stop, SwitchError};
use cavalcade_testing::eventually;
use questions::{question, task_of};
use support::{Net, PORT, Switch, address, ethernet, ip, options, ports, station, text, within};

by_each_carrier! {
    a_stream_goes_on_in_smaller_packets_when_a_link_of_its_path_shrinks
    a_stream_goes_on_in_smaller_packets_when_its_senders_interface_shrinks
    a_stream_whose_route_moves_to_another_switch_arrives_whole_by_both
    a_stream_whose_receiver_moves_to_another_port_arrives_whole_by_both
    a_stream_whose_sender_moves_to_another_port_arrives_whole_by_both
    a_cable_that_closes_a_loop_ends_a_switch_with_an_error_and_starves_no_stream
    the_switch_that_stays_after_a_loop_finds_a_host_that_says_nothing_more
}

const TASK: u32 = 1;
/// What a stream under change carries.
const LENGTH: usize = 8_000_000;
/// Of that, what has arrived when the change begins, and the most that is read before it is done.
const BEGUN: usize = 1_000_000;
const HELD: usize = 2_000_000;
/// So much travels after the change: the receiver has room for a megabyte that it does not read.
const AFTER: usize = LENGTH - HELD - (1 << 20);

/// A stream between two hosts that is under way.
struct UnderWay {
    sent: JoinHandle<io::Result<()>>,
    received: JoinHandle<Vec<u8>>,
    go_on: Sender<()>,
}

impl UnderWay {
    /// Begins, and returns once some has arrived. The reader then stops by itself, so that the
    /// change comes before the end of the stream on a machine of any speed.
    fn begin(from: (&str, u8), to: (&str, u8)) -> Self {
        let ((from, own), (to, number)) = (from, to);
        let (ready, started) = channel();
        let (go_on, told): (_, Receiver<()>) = channel();
        let begun = ready.clone();
        let received = within(to, move || {
            let listener = Endpoint::bind(address(number, PORT), options()).unwrap().listen();
            ready.send(()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            let mut all = Vec::with_capacity(LENGTH);
            let mut read = |most: usize| (&stream).take(most as u64).read_to_end(&mut all).unwrap();
            read(BEGUN);
            begun.send(()).unwrap();
            read(HELD - BEGUN);
            told.recv().unwrap();
            read(LENGTH + 1);
            all
        });
        started.recv().unwrap();
        let sent = within(from, move || {
            // At its own address, as a server has it.
            let mut stream =
                Endpoint::bind(address(own, 0), options())?.connect(address(number, PORT), TASK)?;
            stream.write_all(&text(LENGTH, 1))?;
            stream.shutdown(Shutdown::Write)?;
            stream.wait_acknowledged()
        });
        started.recv().unwrap();
        Self { sent, received, go_on }
    }

    /// Lets it go on to the end.
    fn go_on(&self) {
        self.go_on.send(()).unwrap();
    }

    /// Returns whether it has ended.
    fn has_ended(&self) -> bool {
        self.received.is_finished()
    }

    /// Waits for its end, and holds that every byte has arrived once.
    fn end(self) {
        eventually("a stream arrives", || self.has_ended());
        self.sent.join().unwrap().unwrap();
        assert!(self.received.join().unwrap() == text(LENGTH, 1));
    }
}

/// Records the sizes of the stream's packets that come to a host, until it is told to stop.
fn sizes(host: &str, stop: Stop) -> JoinHandle<Vec<usize>> {
    let (ready, started) = channel();
    let thread = within(host, move || {
        let mut device = Device::open("eth0").unwrap();
        ready.send(()).unwrap();
        let mut sizes = Vec::new();
        while !stop.is_asked() {
            let count = device.receive(|frame, _, _| {
                sizes.extend((task_of(frame) == Some(TASK)).then_some(frame.len() - ETHERNET));
                Ok(())
            });
            if count.unwrap() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        sizes
    });
    started.recv().unwrap();
    thread
}

/// The MTU to which links shrink.
const SMALL: usize = 1_300;

fn shrink(namespace: &str, device: &str) {
    assert!(ip(&["-n", namespace, "link", "set", device, "mtu", &SMALL.to_string()]));
}

/// Holds that a stream through two switches goes on after something on its way has shrunk: the
/// first is told the sender's namespace, the switches follow.
fn goes_on_in_smaller_packets(carrier: Carrier, shrink: impl FnOnce([&str; 3])) {
    let Some(mut net) = Net::new() else { return };
    let (sw, other) = (net.add("sw"), net.add("other"));
    net.join((&sw, "c0"), (&other, "c0"));
    let (first, second) = (net.host(1, &sw), net.host(2, &other));
    let with_cable = |number: u8| [format!("p{number}"), "c0".to_owned()];
    let switches = [
        Switch::carried(carrier, &sw, 1, &with_cable(1)),
        Switch::carried(carrier, &other, 2, &with_cable(2)),
    ];
    let stop = Stop::default();
    let sizes = sizes(&second, stop.clone());
    let stream = UnderWay::begin((&first, 1), (&second, 2));
    shrink([&first, &sw, &other]);
    stream.go_on();
    stream.end();
    stop.stop();
    let sizes = sizes.join().unwrap();
    assert!(sizes.len() > 1_000, "{} packets were seen", sizes.len());
    let (before, last) = sizes.split_at(sizes.len() - 1_000);
    assert!(before.contains(&1_500), "{before:?}");
    assert!(last.iter().all(|size| *size <= SMALL), "{last:?}");
    switches.into_iter().for_each(|switch| drop(switch.end()));
}

fn a_stream_goes_on_in_smaller_packets_when_a_link_of_its_path_shrinks(carrier: Carrier) {
    goes_on_in_smaller_packets(carrier, |[_, sw, other]| {
        shrink(sw, "c0");
        shrink(other, "c0");
    });
}

fn a_stream_goes_on_in_smaller_packets_when_its_senders_interface_shrinks(carrier: Carrier) {
    goes_on_in_smaller_packets(carrier, |[first, ..]| shrink(first, "eth0"));
}

fn a_stream_whose_route_moves_to_another_switch_arrives_whole_by_both(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let (old, new) = (net.add("old"), net.add("new"));
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &old)).collect();
    for (number, host) in (1..).zip(&hosts) {
        net.join((host, "eth1"), (&new, &format!("p{number}")));
    }
    let switches = [&old, &new].map(|namespace| Switch::carried(carrier, namespace, 1, &ports(&[1, 2])));
    let stream = UnderWay::begin((&hosts[0], 1), (&hosts[1], 2));
    // The old path is cut before anything else is there: what is on its way is lost.
    for port in ["p1", "p2"] {
        assert!(ip(&["-n", &old, "link", "set", port, "down"]));
    }
    for (host, own, far) in [(&hosts[0], 1, 2), (&hosts[1], 2, 1)] {
        let [own, far] = [own, far].map(|number| format!("10.9.0.{number}"));
        assert!(ip(&["-n", host, "route", "replace", &far, "dev", "eth1", "src", &own]));
    }
    stream.go_on();
    stream.end();
    let carried = switches.map(|switch| switch.end().report.ports[1].spc.bytes);
    assert!(carried[0] > BEGUN as u64 && carried[1] > AFTER as u64, "{carried:?}");
}

/// Carries a stream from the first host to the second while one of them moves to the switch's third
/// port, without an address for a while. Returns what each port has sent of it.
fn carried_over_a_move(carrier: Carrier, mover: u8) -> Option<Vec<ClassCounters>> {
    let mut net = Net::new()?;
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    let host = &hosts[usize::from(mover) - 1];
    net.join((host, "eth1"), (&sw, "p3"));
    let at_host = |words: &[&str]| assert!(ip(&[&["-n", host], words].concat()));
    at_host(&["link", "set", "eth1", "down", "address", &station(mover)]);
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2, 3]));
    let stream = UnderWay::begin((&hosts[0], 1), (&hosts[1], 2));
    let own = format!("10.9.0.{mover}/24");
    at_host(&["addr", "del", &own, "dev", "eth0"]);
    at_host(&["link", "set", "eth0", "down"]);
    std::thread::sleep(Duration::from_millis(200));
    at_host(&["addr", "add", &own, "dev", "eth1"]);
    at_host(&["link", "set", "eth1", "up"]);
    stream.go_on();
    stream.end();
    Some(switch.end().report.ports.iter().map(|port| port.spc).collect())
}

fn a_stream_whose_sender_moves_to_another_port_arrives_whole_by_both(carrier: Carrier) {
    let Some(ports) = carried_over_a_move(carrier, 1) else { return };
    // What its receiver says takes the way back.
    let back = [0, 2].map(|port: usize| ports[port].packets);
    assert!(back.iter().all(|packets| *packets > 10), "{back:?}");
}

fn a_stream_whose_receiver_moves_to_another_port_arrives_whole_by_both(carrier: Carrier) {
    let Some(ports) = carried_over_a_move(carrier, 2) else { return };
    let carried = [1, 2].map(|port: usize| ports[port].bytes);
    assert!(carried[0] > BEGUN as u64 && carried[1] > AFTER as u64, "{carried:?}");
}

/// Has a host say something to all, many times at once.
fn shout(host: &str, number: u8) {
    let frame = [&[0xff; 6][..], &ethernet(number), &[0x88, 0xb6], &[0; 1_000]].concat();
    let frames = vec![Packet { bytes: frame, unfinished: None }; 32];
    within(host, move || assert!(Device::open("eth0").unwrap().send(&frames).unwrap() > 0)).join().unwrap();
}

/// Two switches of two hosts each, with one cable between them, and a second one in two halves that
/// a bridge joins later.
struct Pair {
    _net: Net,
    cable: String,
    switches: [String; 2],
    hosts: Vec<String>,
}

impl Pair {
    fn new() -> Option<Self> {
        let mut net = Net::new()?;
        let (sw, other, cable) = (net.add("sw"), net.add("other"), net.add("cable"));
        net.join((&sw, "c0"), (&other, "c0"));
        net.join((&sw, "c1"), (&cable, "left"));
        net.join((&other, "c1"), (&cable, "right"));
        let switches = [sw, other];
        let host = |number: u8| net.host(number, &switches[usize::from(number) / 3]);
        let hosts = (1..=4).map(host).collect();
        let pair = Self { _net: net, cable, switches, hosts };
        pair.halves(&["add", "plug", "up", "type", "bridge", "forward_delay", "0"]);
        pair.halves(&["set", "left", "master", "plug"]);
        Some(pair)
    }

    fn halves(&self, words: &[&str]) {
        assert!(ip(&[&["-n", &self.cable, "link"], words].concat()));
    }

    fn start(&self, carrier: Carrier, at: usize) -> Switch {
        let first = 2 * at + 1;
        let ports = [first, first + 1].map(|number| format!("p{number}"));
        let ports = [&ports[..], &["c0".to_owned(), "c1".to_owned()]].concat();
        Switch::carried(carrier, &self.switches[at], at as u64, &ports)
    }

    fn host(&self, number: u8) -> (&str, u8) {
        (&self.hosts[usize::from(number) - 1], number)
    }

    /// Closes the loop, and has a host of each switch say something that goes round, until a switch
    /// has ended.
    fn close(&self, running: &[Switch]) {
        self.halves(&["set", "right", "master", "plug"]);
        for (host, number) in [1, 3].map(|number| self.host(number)) {
            shout(host, number);
        }
        eventually("a switch ends", || running.iter().any(Switch::has_ended));
    }

    /// Opens it again, as the error says.
    fn open(&self) {
        self.halves(&["set", "right", "nomaster"]);
    }
}

fn a_cable_that_closes_a_loop_ends_a_switch_with_an_error_and_starves_no_stream(carrier: Carrier) {
    let Some(pair) = Pair::new() else { return };
    let running = [0, 1].map(|at| pair.start(carrier, at));
    let streams = [1, 3].map(|number| UnderWay::begin(pair.host(number), pair.host(number + 1)));
    pair.close(&running);
    let mut ended = 0;
    for (at, (switch, stream)) in running.into_iter().zip(streams).enumerate() {
        stream.go_on();
        eventually("a stream or its switch ends", || switch.has_ended() || stream.has_ended());
        let switch = if switch.has_ended() {
            ended += 1;
            let why = switch.ended();
            assert!(matches!(why, Err(SwitchError::Loop { .. })), "{why:?}");
            pair.open();
            pair.start(carrier, at)
        } else {
            switch
        };
        stream.end();
        drop(switch.end());
    }
    assert!(ended > 0);
}

fn the_switch_that_stays_after_a_loop_finds_a_host_that_says_nothing_more(carrier: Carrier) {
    let Some(pair) = Pair::new() else { return };
    for host in &pair.hosts {
        // Without addresses the kernel says nothing of its own.
        for words in [&["down", "addrgenmode", "none"][..], &["up"]] {
            assert!(ip(&[&["-n", host, "link", "set", "eth0"], words].concat()));
        }
    }
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    // Now and then both switches end, the second one a little later.
    eventually("one switch ends, and the other one finds the host that says nothing", || {
        pair.open();
        let running = [0, 1].map(|at| pair.start(carrier, at));
        pair.close(&running);
        let Some((at, stays)) = (0..).zip(running).find(|(_, switch)| !switch.has_ended()) else {
            return false;
        };
        // The first one's frames have gone round, and came in by cables last.
        let (silent, asks) = (2 * at + 1, 2 * at + 2);
        let (mut hears, mut sender) = (open(pair.host(silent).0), open(pair.host(asks).0));
        let wanted = Packet { bytes: question(ethernet(asks), silent, 7, 7), unfinished: None };
        eventually("the host that says nothing is found, or its switch ends", || {
            sender.send(std::slice::from_ref(&wanted)).unwrap();
            let mut is_over = stays.has_ended();
            let looked = hears.receive(|frame, _, _| {
                is_over |= frame[..ETHERNET] == wanted.bytes[..ETHERNET];
                Ok(())
            });
            looked.unwrap();
            is_over
        });
        let has_stayed = !stays.has_ended();
        if has_stayed {
            drop(stays.end());
        }
        has_stayed
    });
}

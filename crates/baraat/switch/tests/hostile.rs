//! Switches among hosts, cables and people that do wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[macro_use]
#[allow(dead_code, reason = "other tests have other needs")]
mod support;
#[path = "support/questions.rs"]
#[allow(dead_code, reason = "other tests have other needs")]
mod questions;

use std::io::Read;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cavalcade_spc::Endpoint;
use cavalcade_switch::device::Device;
use cavalcade_switch::packet::ETHERNET;
use cavalcade_switch::port::Packet;
use cavalcade_switch::{Carrier, Setup, Stop, SwitchError};
use cavalcade_testing::{eventually, eventually_some};
use cavalcade_transport::spc::{GRAIN, Returned, Spc, SpcHeader};
use questions::{demand, granted, header_of, question, task_of};
use support::{
    Net, PORT, RATE, Switch, address, an_early_task_overtakes_a_late_one, ethernet, ip, options, ports, send,
    station, text, within,
};

by_each_carrier! {
    a_flood_of_fresh_ids_leaves_tasks_before_them_and_plain_traffic_alone
    what_made_up_flows_are_granted_together_is_the_link_and_no_more
    an_early_flow_that_demands_many_links_and_sends_nothing_stops_no_later_one
    a_receiver_that_stalls_gets_every_byte_and_holds_up_no_later_task
    a_host_that_moves_and_says_nothing_there_is_found_by_the_next_frame_for_it
    a_frame_with_a_vlan_tag_comes_out_with_it_or_not_at_all
    interfaces_that_will_not_do_are_refused_before_anything_is_changed
    of_two_switches_with_one_id_the_second_is_refused
    a_loop_and_an_interface_that_goes_away_end_the_switch_with_an_error
    a_switch_that_leaves_for_a_loop_says_so_three_times
}

/// Sends questions under ever new task-ids from ever new addresses, each tenth with a header that
/// cannot be, until it is stopped. Returns how many of both there were.
fn flood(host: &str, to: u8, stop: Stop) -> JoinHandle<[u64; 2]> {
    within(host, move || {
        let mut device = Device::open("eth0").unwrap();
        let (mut number, mut malformed) = (0u32, 0);
        while !stop.is_asked() {
            let batch: Vec<Packet> = (0..32)
                .map(|_| {
                    number += 1;
                    let is_malformed = number.is_multiple_of(10);
                    malformed += u64::from(is_malformed);
                    // Of a task behind all real ones.
                    let [a, b, c, d] = number.to_be_bytes();
                    let mut bytes = question([2, 1, a, b, c, d], to, 1_000_000 + number, number);
                    if is_malformed {
                        bytes[ETHERNET + 28 + 23] |= 7;
                    }
                    Packet { bytes, unfinished: None }
                })
                .collect();
            device.send(&batch).unwrap();
            thread::sleep(Duration::from_millis(4));
        }
        [u64::from(number) - malformed, malformed]
    })
}

fn a_flood_of_fresh_ids_leaves_tasks_before_them_and_plain_traffic_alone(carrier: Carrier) {
    const MOST: usize = 64;
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=4).map(|number| net.host(number, &sw)).collect();
    let setup = Setup { id: 1, tasks: MOST, addresses: MOST, ..Setup::default() };
    let switch = Switch::with(carrier, &sw, setup, &ports(&[1, 2, 3, 4]));
    let stop = Stop::default();
    let flooding = flood(&hosts[3], 3, stop.clone());
    thread::sleep(Duration::from_millis(300));
    an_early_task_overtakes_a_late_one(&hosts);
    stop.stop();
    let [fresh, malformed] = flooding.join().unwrap();
    let report = switch.end().report;
    assert!(fresh > 10 * MOST as u64, "{fresh}");
    // In the kernel the process also keeps tasks: those of questions to addresses from which no
    // frame has come yet.
    let tables = if carrier == Carrier::Kernel { 2 } else { 1 };
    assert!(report.ports.iter().all(|port| port.tasks <= tables * MOST), "{report:?}");
    assert!(report.addresses <= MOST, "{}", report.addresses);
    assert!(
        (1..=malformed).contains(&report.counters.malformed),
        "{} of {malformed}",
        report.counters.malformed
    );
}

fn what_made_up_flows_are_granted_together_is_the_link_and_no_more(carrier: Carrier) {
    const FLOWS: u32 = 600;
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    // No epoch ends meanwhile, however slow the machine is: what was granted in one may be granted
    // again in the next.
    let spc = Spc { epoch: 1_000_000, ..Spc::default() };
    let setup = Setup { id: 1, spc, routes: vec![(ethernet(2), 1)], ..Setup::default() };
    let switch = Switch::with(carrier, &sw, setup, &ports(&[1, 2]));
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    let (mut asks, mut hears) = (open(&hosts[0]), open(&hosts[1]));
    let (mut answers, mut sum) = (0, 0);
    let mut hear = || {
        let heard = hears.receive(|frame, _, _| {
            let rate = granted(frame);
            answers += u32::from(rate.is_some());
            sum += rate.unwrap_or(0);
            Ok(())
        });
        heard.unwrap();
        (answers, sum)
    };
    let mut random = cavalcade_model::SplitMix64::new(7);
    let mut any = |below: u64| random.below(below);
    for flow in 0..FLOWS {
        // A new flow of one of a hundred tasks, with any unit and any demand.
        let spc = SpcHeader::new(any(100) as u32, any(8) as u8);
        let spc = spc.asking(any(4) as u8, 1 + any(255) as u8, &Returned::default());
        let (before, _) = hear();
        asks.send(&[Packet { bytes: demand(ethernet(1), 2, spc, flow), unfinished: None }]).unwrap();
        // One that was lost is not waited for for ever.
        _ = (0..200).find(|_| {
            thread::sleep(Duration::from_millis(1));
            hear().0 > before
        });
    }
    let (answers, sum) =
        eventually_some("flows are answered", || Some(hear()).filter(|heard| heard.0 > FLOWS / 2));
    let link = RATE.get() / GRAIN.get();
    assert!((link * 9 / 10..=link).contains(&sum), "{sum} of {link} to {answers} flows");
    let granted = switch.end().report.ports[1].granted;
    assert!(granted <= RATE, "{granted:?}");
}

fn an_early_flow_that_demands_many_links_and_sends_nothing_stops_no_later_one(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=3).map(|number| net.host(number, &sw)).collect();
    let setup = Setup { id: 1, routes: vec![(ethernet(2), 1)], ..Setup::default() };
    let switch = Switch::with(carrier, &sw, setup, &ports(&[1, 2, 3]));
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    let (mut asks, mut hears) = (open(&hosts[0]), open(&hosts[1]));
    let (stop, holds) = (Stop::default(), channel());
    let stopped = stop.clone();
    let liar = thread::spawn(move || {
        let (mut held, mut most) = (Returned::default(), 0);
        while !stopped.is_asked() {
            // 255 units of 4 Mbps: twenty links.
            let spc = SpcHeader::new(0, 4).asking(1, 255, &held);
            asks.send(&[Packet { bytes: demand(ethernet(1), 2, spc, 7), unfinished: None }]).unwrap();
            thread::sleep(Duration::from_millis(1));
            let heard = hears.receive(|frame, _, _| {
                if task_of(frame) == Some(0) {
                    most = most.max(granted(frame).unwrap());
                    held = header_of(frame).unwrap().returned();
                    _ = holds.0.send(());
                }
                Ok(())
            });
            heard.unwrap();
        }
        most
    });
    holds.1.recv().unwrap();
    let (ready, started) = channel();
    let reader = within(&hosts[1], move || {
        let listener = Endpoint::bind(address(2, PORT), options()).unwrap().listen();
        ready.send(()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    started.recv().unwrap();
    let later = send(&hosts[2], 2, 5, text(1_000_000, 1));
    eventually("the later task is through", || later.is_finished());
    later.join().unwrap().unwrap();
    stop.stop();
    let (most, link) = (liar.join().unwrap(), RATE.get() / GRAIN.get());
    assert!((link / 2..=link).contains(&most), "{most} of {link}");
    assert!(reader.join().unwrap() == text(1_000_000, 1));
    drop(switch.end());
}

fn a_receiver_that_stalls_gets_every_byte_and_holds_up_no_later_task(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=3).map(|number| net.host(number, &sw)).collect();
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2, 3]));
    let (ready, started) = channel();
    let (go_on, told) = channel::<()>();
    let reader = within(&hosts[2], move || {
        let listener = Endpoint::bind(address(3, PORT), options()).unwrap().listen();
        ready.send(()).unwrap();
        let (mut stalled, _) = listener.accept().unwrap();
        ready.send(()).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        assert_eq!((stalled.task(), other.task()), (1, 2));
        let mut all = [Vec::new(), Vec::new()];
        other.read_to_end(&mut all[1]).unwrap();
        drop(other);
        told.recv().unwrap();
        stalled.read_to_end(&mut all[0]).unwrap();
        all
    });
    started.recv().unwrap();
    let stalled = send(&hosts[0], 3, 1, text(6_000_000, 1));
    // It opens first, and fills what the receiver has room for.
    started.recv().unwrap();
    thread::sleep(Duration::from_millis(500));
    send(&hosts[1], 3, 2, text(1_000_000, 2)).join().unwrap().unwrap();
    assert!(!stalled.is_finished(), "its receiver does not read yet");
    go_on.send(()).unwrap();
    stalled.join().unwrap().unwrap();
    let [first, second] = reader.join().unwrap();
    assert!(first == text(6_000_000, 1) && second == text(1_000_000, 2));
    drop(switch.end());
}

fn a_host_that_moves_and_says_nothing_there_is_found_by_the_next_frame_for_it(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    net.join((&hosts[1], "eth1"), (&sw, "p3"));
    // Without addresses the kernel says nothing of its own there.
    let silent = ["-n", &hosts[1], "link", "set", "eth1", "address", &station(2), "addrgenmode", "none"];
    assert!(ip(&silent) && ip(&["-n", &hosts[1], "link", "set", "eth1", "down"]));
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2, 3]));
    let open =
        |host: &str, name: &'static str| within(host, move || Device::open(name).unwrap()).join().unwrap();
    let (mut sender, mut before) = (open(&hosts[0], "eth0"), open(&hosts[1], "eth0"));
    let frame = |from, to| Packet { bytes: question(ethernet(from), to, 7, 7), unfinished: None };
    let wanted = frame(1, 2);
    let mut reaches = |device: &mut Device| {
        (0..100).any(|_| {
            sender.send(std::slice::from_ref(&wanted)).unwrap();
            thread::sleep(Duration::from_millis(20));
            let mut has_come = false;
            let looked = device.receive(|bytes, _, _| {
                has_come |= bytes[..ETHERNET] == wanted.bytes[..ETHERNET];
                Ok(())
            });
            looked.unwrap();
            has_come
        })
    };
    assert!(reaches(&mut before));
    // By now the switch forwards, and learns where the host is.
    assert_eq!(before.send(&[frame(2, 1)]).unwrap(), 1);
    assert!(reaches(&mut before));
    assert!(ip(&["-n", &hosts[1], "link", "set", "eth0", "down"]));
    assert!(ip(&["-n", &hosts[1], "link", "set", "eth1", "up"]));
    let mut after = open(&hosts[1], "eth1");
    assert!(
        reaches(&mut after),
        "where what was learned behind a cut link is kept, none comes for five minutes"
    );
    drop(switch.end());
}

fn a_frame_with_a_vlan_tag_comes_out_with_it_or_not_at_all(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    let setup = Setup { id: 1, routes: vec![(ethernet(2), 1)], ..Setup::default() };
    let switch = Switch::with(carrier, &sw, setup, &ports(&[1, 2]));
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    let (mut sender, mut receiver) = (open(&hosts[0]), open(&hosts[1]));
    let plain = question(ethernet(1), 2, 7, 7);
    // To one host and to all, in network 10.
    let tagged = |to: [u8; 6]| {
        let secret = question(ethernet(1), 2, 66, 66);
        [&to[..], &secret[6..12], &[0x81, 0, 0, 10], &secret[12..]].concat()
    };
    // A priority of 7, in no network of its own.
    let urgent = [&plain[..12], &[0x81, 0, 0xe0, 0], &question(ethernet(1), 2, 77, 77)[12..]].concat();
    let mut untagged = Vec::new();
    // Until it forwards, none comes.
    eventually("what has no tag arrives", || {
        let frames = [tagged(ethernet(2)), tagged([0xff; 6]), urgent.clone(), plain.clone()];
        let packets = frames.map(|bytes| Packet { bytes, unfinished: None });
        sender.send(&packets).unwrap();
        let hear = |frame: &[u8], _, _| {
            untagged.extend(task_of(frame));
            Ok(())
        };
        receiver.receive(hear).unwrap();
        [7, 77].iter().all(|wanted| untagged.iter().filter(|task| *task == wanted).count() >= 5)
    });
    assert!(!untagged.contains(&66), "a tag was taken off on the way");
    let left_out = switch.end().tagged;
    assert!(left_out[0] >= 5, "{left_out:?}");
    if carrier == Carrier::Kernel {
        assert!(receiver.tagged() > 0, "the kernel hands on what is for one host as it is");
    }
}

fn interfaces_that_will_not_do_are_refused_before_anything_is_changed(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    net.host(1, &sw);
    let ended = |numbers: &[u8]| {
        let ended = Switch::carried(carrier, &sw, 1, &ports(numbers)).ended();
        assert!(!has_program(&sw));
        ended
    };
    let set = |words: &[&str]| assert!(ip(&[&["-n", &sw, "link", "set", "p1"], words].concat()));
    let missing = ended(&[1, 9]);
    assert!(matches!(missing, Err(SwitchError::NoInterface { ref name }) if name == "p9"), "{missing:?}");
    let twice = ended(&[1, 1]);
    assert!(matches!(twice, Err(SwitchError::Twice { .. })), "{twice:?}");
    set(&["mtu", "600"]);
    let small = ended(&[1]);
    assert!(matches!(small, Err(SwitchError::SmallMtu { mtu: 600, .. })), "{small:?}");
    set(&["mtu", "1500", "down"]);
    let down = ended(&[1]);
    assert!(matches!(down, Err(SwitchError::Down { .. })), "{down:?}");
}

fn of_two_switches_with_one_id_the_second_is_refused(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let (sw, other) = (net.add("sw"), net.add("other"));
    net.join((&sw, "c0"), (&other, "c0"));
    let cable = ["c0".to_owned()];
    let first = Switch::carried(carrier, &other, 7, &cable);
    let second = Switch::carried(carrier, &sw, 7, &cable).ended();
    assert!(matches!(second, Err(SwitchError::SameId { id: 7, .. })), "{second:?}");
    drop(first.end());
}

fn a_loop_and_an_interface_that_goes_away_end_the_switch_with_an_error(carrier: Carrier) {
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
    assert!(ip(&["-n", &sw, "link", "del", "c0"]));
    let gone = alone.ended();
    assert!(matches!(gone, Err(SwitchError::Gone { .. })), "{gone:?}");
}

fn a_switch_that_leaves_for_a_loop_says_so_three_times(carrier: Carrier) {
    let Some(mut net) = Net::new() else { return };
    let sw = net.add("sw");
    let hosts: Vec<_> = (1..=2).map(|number| net.host(number, &sw)).collect();
    let switch = Switch::carried(carrier, &sw, 1, &ports(&[1, 2]));
    let open = |host: &str| within(host, || Device::open("eth0").unwrap()).join().unwrap();
    let (mut returns, mut hears) = (open(&hosts[0]), open(&hosts[1]));
    // The beacons that have come, each with what it says of its switch at its end.
    let beacons = |device: &mut Device| {
        let mut beacons = Vec::new();
        let heard = device.receive(|frame, _, _| {
            beacons.extend((frame[12..14] == [0x88, 0xb5]).then(|| frame[..37].to_vec()));
            Ok(())
        });
        heard.unwrap();
        beacons
    };
    let forwards = eventually_some("a beacon of a switch that forwards", || {
        beacons(&mut returns).into_iter().find(|beacon| beacon[36] == 1)
    });
    returns.send(&[Packet { bytes: forwards, unfinished: None }]).unwrap();
    let ended = switch.ended();
    assert!(matches!(ended, Err(SwitchError::Loop { .. })), "{ended:?}");
    let mut partings = 0;
    eventually("it has said so three times", || {
        partings += beacons(&mut hears).iter().filter(|beacon| beacon[36] == 2).count();
        partings >= 3
    });
    assert_eq!(partings, 3);
}

#[test]
fn a_switch_in_the_kernel_refuses_ports_that_will_not_do_and_leaves_nothing_behind() {
    if let Some(why) = cavalcade_switch::kernel::missing() {
        cavalcade_testing::skipped(format_args!("programs for the kernel ({why})"));
        return;
    }
    let Some(mut net) = Net::new() else { return };
    let carrier = Carrier::Kernel;
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
    if !ip(&["netns", "exec", &other, "ethtool", "-K", "c0", "gro", "off"]) {
        cavalcade_testing::skipped("ethtool, to turn receive offload off");
        return;
    }
    let lost = Switch::carried(carrier, &sw, 1, &both).ended();
    assert!(matches!(lost, Err(SwitchError::NoRedirect { ref name }) if name == "c0"), "{lost:?}");
    assert!(!has_program(&sw), "nothing was changed");
}

/// Returns whether an interface of a namespace has an XDP program.
fn has_program(namespace: &str) -> bool {
    let shown = Command::new("ip").args(["-n", namespace, "link"]).output().unwrap();
    String::from_utf8(shown.stdout).unwrap().contains("prog/xdp")
}

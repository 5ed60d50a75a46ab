//! Hosts and switches as network namespaces of this machine.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_spc::{Endpoint, Options, Settings};
use cavalcade_switch::device::{Device, receive_offload};
use cavalcade_switch::port::Packet;
use cavalcade_switch::{Carrier, Running, Setup, Stop, SwitchError, run};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The rate of every link.
pub(crate) const RATE: BitsPerSec = BitsPerSec(50_000_000);
/// The round trip that hosts and switches are told: two busy cores are late by more than a real
/// fabric.
pub(crate) const ROUND_TRIP: Nanos = Nanos(2_000_000);

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Namespaces; dropping removes them with all that is in them.
pub(crate) struct Net {
    prefix: String,
    names: Vec<String>,
}

/// Runs `ip`, and returns whether it did what it was told.
pub(crate) fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl Net {
    /// `None` where none can be built on this machine; the test is then reported as skipped.
    pub(crate) fn new() -> Option<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // As the lab names its own, so that 'cavalcade doctor --fix-leftovers' finds what a killed
        // test left.
        let mut net = Self { prefix: format!("cvl-{}-s{number}", std::process::id()), names: Vec::new() };
        if !ip(&["netns", "add", &format!("{}probe", net.prefix)]) {
            cavalcade_testing::skipped("root and iproute2, for network namespaces");
            return None;
        }
        net.names.push(format!("{}probe", net.prefix));
        Some(net)
    }

    pub(crate) fn add(&mut self, part: &str) -> String {
        let name = format!("{}{part}", self.prefix);
        assert!(ip(&["netns", "add", &name]));
        self.names.push(name.clone());
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        name
    }

    /// Joins two namespaces by a cable with these ends.
    pub(crate) fn join(&self, one: (&str, &str), other: (&str, &str)) {
        assert!(ip(&[
            "link", "add", one.1, "netns", one.0, "type", "veth", "peer", "name", other.1, "netns", other.0
        ]));
        for (name, device) in [one, other] {
            assert!(ip(&["-n", name, "link", "set", device, "up"]));
            let device = device.to_owned();
            within(name, move || receive_offload(&device).unwrap()).join().unwrap();
        }
    }

    /// A host with an address, on a port of a switch that has the same name as the host.
    pub(crate) fn host(&mut self, number: u8, switch: &str) -> String {
        let name = self.add(&format!("h{number}"));
        self.join((&name, "eth0"), (switch, &format!("p{number}")));
        assert!(ip(&["-n", &name, "link", "set", "eth0", "address", &station(number)]));
        assert!(ip(&["-n", &name, "addr", "add", &format!("10.9.0.{number}/24"), "dev", "eth0"]));
        name
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

/// Runs `work` in a thread inside a namespace.
pub(crate) fn within<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        work()
    })
}

/// A host's Ethernet address.
pub(crate) fn ethernet(host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 9, host]
}

/// The same as text.
pub(crate) fn station(host: u8) -> String {
    ethernet(host).map(|byte| format!("{byte:02x}")).join(":")
}

pub(crate) fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, host)), port)
}

/// Options of endpoints on these links.
pub(crate) fn options() -> Options {
    let settings = Settings { line_rate: RATE, base_rtt: ROUND_TRIP, ..Settings::default() };
    Options { settings, ..Options::default() }
}

/// A switch that runs in a namespace.
pub(crate) struct Switch {
    stop: Stop,
    thread: JoinHandle<(Result<(), SwitchError>, Option<Running>)>,
}

impl Switch {
    pub(crate) fn carried(carrier: Carrier, namespace: &str, id: u64, ports: &[String]) -> Self {
        Self::with(carrier, namespace, Setup { id, ..Setup::default() }, ports)
    }

    pub(crate) fn with(carrier: Carrier, namespace: &str, setup: Setup, ports: &[String]) -> Self {
        let ports: Vec<_> = ports.iter().map(|port| (port.clone(), RATE)).collect();
        let stop = Stop::default();
        let asked = stop.clone();
        static LIVES: AtomicU32 = AtomicU32::new(1);
        let life = u64::from(LIVES.fetch_add(1, Ordering::Relaxed));
        let setup = Setup { life, base_rtt: ROUND_TRIP, ..setup };
        let thread = within(namespace, move || {
            let mut last = None;
            let ended = run(&ports, setup, carrier, &asked, Nanos(1_000_000_000), |running| {
                last = Some(running.clone());
            });
            (ended, last)
        });
        // Its time of watching.
        std::thread::sleep(Duration::from_millis(300));
        Self { stop, thread }
    }

    /// Returns whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(self) -> Result<(), SwitchError> {
        self.thread.join().unwrap().0
    }

    pub(crate) fn end(self) -> Running {
        self.stop.stop();
        let (ended, last) = self.thread.join().unwrap();
        ended.unwrap();
        last.unwrap()
    }
}

/// Makes of each function here a test for each carrier.
#[allow(unused_macros, reason = "tests of other crates need one carrier")]
macro_rules! by_each_carrier {
    ($($test:ident)*) => {
        mod process {
            $(#[test]
            fn $test() {
                super::$test(cavalcade_switch::Carrier::Process);
            })*
        }
        mod kernel {
            $(#[test]
            fn $test() {
                match cavalcade_switch::kernel::missing() {
                    Some(why) => cavalcade_testing::skipped(format_args!("programs for the kernel ({why})")),
                    None => super::$test(cavalcade_switch::Carrier::Kernel),
                }
            })*
        }
    };
}

/// The port of servers.
pub(crate) const PORT: u16 = 4_000;

/// Serves `streams` streams at a host: each is read to its end, and what was read is returned by
/// task.
pub(crate) fn sink(host: &str, number: u8, streams: usize) -> JoinHandle<Vec<(u32, Vec<u8>, Instant)>> {
    let (ready, started) = std::sync::mpsc::channel();
    let thread = within(host, move || {
        let listener = Endpoint::bind(address(number, PORT), options()).unwrap().listen();
        ready.send(()).unwrap();
        let readers: Vec<_> = (0..streams)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
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
pub(crate) fn send(host: &str, to: u8, task: u32, bytes: Vec<u8>) -> JoinHandle<io::Result<()>> {
    within(host, move || {
        let mut stream = Endpoint::bind("0.0.0.0:0", options())?.connect(address(to, PORT), task)?;
        stream.write_all(&bytes)?;
        stream.shutdown(Shutdown::Write)?;
        stream.wait_acknowledged()
    })
}

/// Holds that of two tasks the one with the lower id ends first, though it begins later, and TCP
/// beside them gets through: the first hosts of a switch send to the third.
pub(crate) fn an_early_task_overtakes_a_late_one(hosts: &[String]) {
    let tcp_server = within(&hosts[2], || {
        let listener = TcpListener::bind(address(3, 5_000)).unwrap();
        let mut all = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
        all
    });
    let sunk = sink(&hosts[2], 3, 2);
    std::thread::sleep(Duration::from_millis(50));
    let begun = Instant::now();
    let late = send(&hosts[1], 3, 20, text(4_000_000, 20));
    std::thread::sleep(Duration::from_millis(60));
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
    // Alone the late one takes 680 ms, the early one 170 ms.
    assert!(times[0] < times[1], "{times:?}");
}

/// The ports of a switch at which these hosts are.
pub(crate) fn ports(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| format!("p{number}")).collect()
}

pub(crate) fn text(length: usize, seed: u64) -> Vec<u8> {
    let mut random = cavalcade_model::SplitMix64::new(seed);
    (0..length).map(|_| random.below(256) as u8).collect()
}

/// Carries frames between two interfaces of a namespace, and loses, repeats, reorders and breaks
/// some by a seed.
pub(crate) fn bad_cable(namespace: &str, ends: [&'static str; 2], seed: u64, stop: Stop) -> JoinHandle<u64> {
    within(namespace, move || {
        let mut devices = ends.map(|end| Device::open(end).unwrap());
        let mut random = cavalcade_model::SplitMix64::new(seed);
        let mut late: [Option<Packet>; 2] = [None, None];
        let mut harmed = 0;
        while !stop.is_asked() {
            let mut idle = true;
            for from in 0..2 {
                let mut out = Vec::new();
                let count = devices[from].receive(|frame, unfinished, _| {
                    let mut packet = Packet { bytes: frame.to_vec(), unfinished };
                    let luck = random.below(100);
                    harmed += u64::from(luck < 12);
                    match luck {
                        0..3 => {}
                        3..6 => out.extend([packet.clone(), packet]),
                        6..9 => out.extend(late[from].replace(packet)),
                        luck => {
                            if luck < 12 {
                                let at = random.below(packet.bytes.len() as u64) as usize;
                                packet.bytes[at] ^= 1 << random.below(8);
                            }
                            out.push(packet);
                        }
                    }
                    Ok(())
                });
                idle &= count.unwrap() == 0;
                let mut left = &out[..];
                while !left.is_empty() {
                    let sent = devices[1 - from].send(left).unwrap();
                    left = &left[sent..];
                }
            }
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        harmed
    })
}

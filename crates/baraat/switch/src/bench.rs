//! What a switch costs: packets at an offered rate through real interfaces, plain and with SPC in
//! turn.
//!
//! One thread plays all hosts, another is the switch, where that is a process. Generators that send
//! as fast as they can starve a forwarder on the same cores and measure the scheduler; so packets
//! leave at a rate, and the figures are the highest rate without loss and processor time for a
//! packet: of the switch's thread, and of everything. What forwards in the kernel does so in the
//! time of the sender, or in the kernel's own threads when those are busy; so forwarders are
//! compared by the second figure, in which hosts are the same.

use std::io;
use std::thread::{self, JoinHandle};

use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use cavalcade_model::{BitsPerSec, Instant, Nanos};
use cavalcade_transport::internet::checksum;
use cavalcade_transport::spc::{Returned, SpcHeader, scale_for};
use cavalcade_transport::stream::frame::{Frame, FrameKind, HEADER};

use crate::device::{BATCH, Device, receive_offload};
use crate::error::SwitchError;
use crate::packet::ETHERNET;
use crate::port::Packet;
use crate::run::{Carrier, Stop, run};
use crate::switch::Setup;

/// One in so many packets of SPC asks: at 1 Gbps and a round trip of 1 ms a flow sends 83 in the
/// time of a question.
pub const QUESTIONS: u64 = 16;
/// The first task-id of a flood.
const FRESH: u32 = 1_000_000;
/// The switch's ports are no bottleneck.
const PORT_RATE: BitsPerSec = BitsPerSec(10_000_000_000);
/// Before the first packet counts.
const SETTLE: Nanos = Nanos(400_000_000);
/// The time for packets to arrive after the last was sent.
const DRAIN: Nanos = Nanos(100_000_000);

/// What packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// UDP that no switch knows.
    Plain,
    /// SPC, a task of each host.
    Spc,
    /// An attack: each packet asks, under a task-id of its own that is behind all others.
    Flood,
}

/// The offered load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// At each port, in bits of IP packets.
    pub rate: BitsPerSec,
    /// Bytes of a packet, IP header included.
    pub packet: u16,
    /// For how long.
    pub time: Nanos,
    /// What packets are.
    pub content: Content,
}

/// What joins the switch's ends of the cables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarder {
    /// A switch of this crate.
    Switch(Carrier),
    /// Something that is there already, as the kernel's bridge.
    Present,
}

/// The measured result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Packets sent by all hosts.
    pub offered: u64,
    /// Packets that arrived where they were sent to.
    pub delivered: u64,
    /// The time in which they were sent.
    pub elapsed: Nanos,
    /// Processor time of the switch's thread from its start to its end.
    pub busy: Nanos,
    /// Processor time of this process, hosts and all, and of the kernel's threads that carry
    /// packets, while packets were sent.
    pub all: Nanos,
    /// Time of the program in the kernel for a packet, where it was asked for.
    pub program: Option<Nanos>,
}

/// Offers a load to a forwarder over pairs of interfaces: a host's, and the switch's port at the
/// other end of its cable. Each host sends to the next one. The kernel is asked for the time of its
/// program where `is_timed`, which costs some.
///
/// # Errors
/// If an interface cannot be opened or goes away.
pub fn measure(
    pairs: &[(String, String)],
    load: Load,
    forwarder: Forwarder,
    is_timed: bool,
) -> Result<Measured, SwitchError> {
    let failed =
        |why: String| SwitchError::System { what: "measure".to_owned(), error: io::Error::other(why) };
    let _counting = is_timed.then(|| enable_stats(Stats::RunTime)).transpose();
    let _counting = _counting.map_err(|error| failed(error.to_string()))?;
    let stop = Stop::default();
    let switch = match forwarder {
        Forwarder::Present => None,
        Forwarder::Switch(carrier) => Some(start(pairs, carrier, &stop)?),
    };
    let hosts = pairs.iter().map(|(host, _)| Device::open(host)).collect::<Result<Vec<_>, _>>();
    let played = hosts.and_then(|hosts| Hosts::new(hosts, load).play());
    let program = is_timed.then(program_time).flatten();
    stop.stop();
    let busy = match switch {
        None => 0,
        Some(thread) => thread.join().map_err(|_| failed("the switch's thread failed".to_owned()))??,
    };
    Ok(Measured { busy: Nanos(busy), program, ..played? })
}

/// Starts a switch in a thread, which returns its processor time.
fn start(
    pairs: &[(String, String)],
    carrier: Carrier,
    stop: &Stop,
) -> Result<JoinHandle<Result<u64, SwitchError>>, SwitchError> {
    if carrier == Carrier::Kernel {
        pairs.iter().try_for_each(|(host, _)| receive_offload(host))?;
    }
    let ports: Vec<_> = pairs.iter().map(|(_, port)| (port.clone(), PORT_RATE)).collect();
    let asked = stop.clone();
    Ok(thread::spawn(move || {
        let before = busy(libc::CLOCK_THREAD_CPUTIME_ID);
        let setup = Setup { life: 1, watch: Nanos(100_000_000), ..Setup::default() };
        run(&ports, setup, carrier, &asked, Nanos(u64::MAX), |_| {})
            .map(|()| busy(libc::CLOCK_THREAD_CPUTIME_ID).get() - before.get())
    }))
}

/// Returns the mean time of a run of the program that was loaded last.
fn program_time() -> Option<Nanos> {
    let ours = loaded_programs().flatten().filter(|program| program.name_as_str() == Some("forward"));
    let program = ours.last().filter(|program| program.run_count() > 0)?;
    Some(Nanos(program.run_time().as_nanos() as u64 / program.run_count()))
}

/// Returns the time that the kernel's threads for packets have taken.
fn kernel_threads() -> Nanos {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let times = folders.filter_map(|folder| {
        let name = std::fs::read_to_string(folder.path().join("comm")).ok()?;
        let figures = std::fs::read_to_string(folder.path().join("schedstat")).ok()?;
        let time = figures.split(' ').next()?.parse::<u64>().ok()?;
        name.starts_with("ksoftirqd").then_some(time)
    });
    Nanos(times.sum())
}

/// Returns what everything that takes part has taken.
fn everything() -> Nanos {
    Nanos(busy(libc::CLOCK_PROCESS_CPUTIME_ID).get() + kernel_threads().get())
}

struct Hosts {
    devices: Vec<Device>,
    load: Load,
    /// For each host, the packet with a question and the one without.
    packets: Vec<[Packet; 2]>,
    sent: Vec<u64>,
    delivered: u64,
}

impl Hosts {
    fn new(devices: Vec<Device>, load: Load) -> Self {
        let hosts = devices.len();
        let packet = |host: usize, asks: bool| Packet {
            bytes: frame(host as u8, ((host + 1) % hosts) as u8, load, asks),
            unfinished: None,
        };
        let packets = (0..hosts).map(|host| [packet(host, true), packet(host, false)]).collect();
        Self { devices, load, packets, sent: vec![0; hosts], delivered: 0 }
    }

    fn play(mut self) -> Result<Measured, SwitchError> {
        let started = std::time::Instant::now();
        let clock = || Instant(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        while clock().get() < SETTLE.get() {
            // The switch learns who is where.
            for (device, packets) in self.devices.iter_mut().zip(&self.packets) {
                device.send(&packets[1..])?;
            }
            thread::sleep(std::time::Duration::from_millis(50));
        }
        self.receive()?;
        self.delivered = 0;
        let before = everything();
        let begin = clock();
        let bits = u128::from(self.load.packet) * 8;
        loop {
            let elapsed = clock().since(begin).get().min(self.load.time.get());
            let due = u128::from(elapsed) * u128::from(self.load.rate.get()) / bits / 1_000_000_000;
            let mut idle = true;
            for host in 0..self.devices.len() {
                idle &= !self.send(host, due as u64)?;
            }
            idle &= self.receive()? == 0;
            if elapsed >= self.load.time.get() {
                break;
            }
            if idle {
                thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        let elapsed = clock().since(begin);
        while clock().since(begin + elapsed).get() < DRAIN.get() {
            self.receive()?;
        }
        let all = Nanos(everything().get() - before.get());
        let offered = self.sent.iter().sum();
        Ok(Measured { offered, delivered: self.delivered, elapsed, all, ..Measured::default() })
    }

    /// Sends what is due from a host, one batch at most. Returns whether there was anything.
    fn send(&mut self, host: usize, due: u64) -> Result<bool, SwitchError> {
        let count = (due - self.sent[host].min(due)).min(BATCH as u64 / 2);
        if count == 0 {
            return Ok(false);
        }
        let [asking, plain] = &self.packets[host];
        let pick = |number: u64| match self.load.content {
            Content::Flood => under_task(asking, FRESH + number as u32),
            _ if number.is_multiple_of(QUESTIONS) => asking.clone(),
            _ => plain.clone(),
        };
        let batch: Vec<Packet> = (0..count).map(|at| pick(self.sent[host] + at)).collect();
        self.sent[host] += self.devices[host].send(&batch)? as u64;
        Ok(true)
    }

    fn receive(&mut self) -> Result<usize, SwitchError> {
        let size = usize::from(self.load.packet) + ETHERNET;
        let mut all = 0;
        for device in &mut self.devices {
            let delivered = &mut self.delivered;
            all += device.receive(|frame, _, _| {
                *delivered += u64::from(frame.len() == size);
                Ok(())
            })?;
        }
        Ok(all)
    }
}

/// Returns a packet of SPC as it looks under another task; it has no UDP checksum.
fn under_task(packet: &Packet, task: u32) -> Packet {
    let mut packet = packet.clone();
    packet.bytes[ETHERNET + 28..ETHERNET + 32].copy_from_slice(&task.to_be_bytes());
    packet
}

/// Makes a UDP datagram from one host to another, with a frame of SPC in it or something else.
fn frame(from: u8, to: u8, load: Load, asks: bool) -> Vec<u8> {
    let size = usize::from(load.packet);
    let mut bytes = vec![2, 0, 0, 0, 9, to, 2, 0, 0, 0, 9, from, 8, 0, 0x45, 0];
    bytes.extend(load.packet.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, from + 1, 10, 9, 0, to + 1]);
    let stated = checksum(&bytes[ETHERNET..], 0);
    bytes[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&stated.to_be_bytes());
    bytes.extend([4_000, 5_000, (size - 20) as u16, 0].iter().flat_map(|field: &u16| field.to_be_bytes()));
    if load.content != Content::Plain {
        let plain = SpcHeader::new(u32::from(from) + 1, scale_for(PORT_RATE));
        let spc = if asks { plain.asking(1, 10, &Returned::default()) } else { plain };
        let payload = vec![0; size - 28 - HEADER];
        let mut out = Vec::new();
        Frame { payload: &payload, ..Frame::new(FrameKind::Data, u64::from(from), spc) }.encode(&mut out);
        bytes.extend(out);
    }
    bytes.resize(size + ETHERNET, 0);
    bytes
}

/// Returns a processor time: of this thread, or of the process.
fn busy(clock: libc::clockid_t) -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[expect(unsafe_code, reason = "the standard library does not know processor times")]
    // SAFETY: the kernel writes one `timespec`, which `time` is.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result == 0 { Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64) } else { Nanos::ZERO }
}

//! The switch in the kernel as a function: a frame and a time in, a verdict and a frame out
//! (`BPF_PROG_TEST_RUN`).
//!
//! Nothing is attached, so no traffic of this machine is touched. The same frames go through what
//! the process runs: `classify`, the port logic of `transport`, `rewrite`. Only the queue is
//! another one ([`Queues`]).

use std::collections::BTreeMap;

use aya::programs::{TestRun, TestRunOptions, Xdp};
use cavalcade_model::{Bytes, SplitMix64};
use cavalcade_transport::internet::{fold, sum};
use cavalcade_transport::spc::{PORTS, Port, Returned, Spc, SpcHeader};
use cavalcade_transport::stream::frame::{Frame, FrameKind, Rates};
use cavalcade_transport::{Header, Kind, PortLogic};

use super::queues::Queues;
use super::*;
use crate::packet::tests::datagram;
use crate::packet::{Content, ETHERNET, classify, rewrite};

const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;
/// The interface by which frames of such runs come in.
const LOOPBACK: u32 = 1;
/// The port at which all frames here leave, and the last byte of the address behind it.
const OUT: u32 = 1;
const HOST: u8 = 9;

/// The program, loaded, with the port by which frames come in and one by which they leave.
struct Bench {
    programs: Ebpf,
    tables: Tables,
    count: shared::Counts,
}

impl Bench {
    fn new(setup: &Setup) -> Option<Self> {
        cavalcade_testing::loadable(PROGRAMS)?;
        let mut programs = load(setup).unwrap();
        let mut tables = Tables::take_from(&mut programs).unwrap();
        // Devmaps take real interfaces only; a run as a function redirects nothing.
        for port in 0..2 {
            tables.set_port(port, told(setup, port as usize, LOOPBACK)).unwrap();
        }
        tables.interfaces.insert(LOOPBACK, 0, 0).unwrap();
        let place = shared::Place { port: u64::from(OUT), ..shared::Place::default() };
        tables.said.insert(number([2, 0, 0, 0, 0, HOST]), place.to_words(), 0).unwrap();
        let program: &mut Xdp = programs.program_mut("forward_as_function").unwrap().try_into().unwrap();
        program.load().unwrap();
        Some(Self { programs, tables, count: shared::Counts::default() })
    }

    /// Runs the switch on a frame.
    fn handle(&mut self, now: Instant, frame: &[u8]) -> (u32, Vec<u8>) {
        let state = shared::State { forwards: 1, now: now.get(), ..shared::State::default() };
        self.tables.state.set(0, state.to_words(), 0).unwrap();
        let program: &mut Xdp = self.programs.program_mut("forward_as_function").unwrap().try_into().unwrap();
        let mut out = vec![0; frame.len() + 256];
        let options =
            TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::default() };
        let result = program.test_run(options).unwrap();
        out.truncate(result.data_size_out as usize);
        (result.return_value, out)
    }

    fn port(&self) -> shared::Port {
        shared::Port::from_words(self.tables.ports.get(&OUT, 0).unwrap())
    }

    /// What has been counted since the last call.
    fn counted(&mut self) -> shared::Counts {
        let mut all = shared::Counts::default();
        for counts in self.tables.counts.get(&0, 0).unwrap().iter() {
            let counts = shared::Counts::from_words(*counts);
            all.received += counts.received;
            all.malformed += counts.malformed;
            all.too_large += counts.too_large;
            all.filtered += counts.filtered;
            all.finished += counts.finished;
        }
        let before = std::mem::replace(&mut self.count, all);
        shared::Counts {
            received: all.received - before.received,
            malformed: all.malformed - before.malformed,
            too_large: all.too_large - before.too_large,
            filtered: all.filtered - before.filtered,
            finished: all.finished - before.finished,
        }
    }
}

fn setup(rate: BitsPerSec, tasks: usize, spc: Spc) -> Setup {
    let port = |name: &str| (name.to_owned(), rate, 9_000);
    Setup { spc, tasks, ports: vec![port("in"), port("out")], ..Setup::default() }
}

/// The same in Rust: what the process does with a frame, but for its queue.
struct Machine {
    logic: Port,
    queues: Queues,
    rate: BitsPerSec,
    buffer: u64,
}

impl Machine {
    fn new(setup: &Setup) -> Self {
        let rate = setup.ports[1].1;
        let of_link = PortSetup { rate, delay: Nanos::ZERO, base_rtt: setup.base_rtt, port: 0 };
        let logic = setup.spc.port_logic(&of_link).with_at_most(setup.tasks);
        Self { logic, queues: Queues::default(), rate, buffer: setup.spc.buffer.get() }
    }

    fn handle(&mut self, now: Instant, frame: &[u8]) -> (u32, Vec<u8>) {
        let size = (frame.len() - ETHERNET) as u64;
        let content = classify(frame);
        if content == Content::Malformed {
            return (DROP, frame.to_vec());
        }
        let mut out = finished(frame);
        self.queues.drain(now, self.rate);
        let Some((at, mut seen)) = (match content {
            Content::Spc { at, seen } if seen.rates == Rates::OfTasks => Some((at, seen)),
            _ => None,
        }) else {
            if self.queues.plain + size > self.buffer {
                return (DROP, out);
            }
            self.queues.plain += size;
            return (REDIRECT, out);
        };
        if seen.kind.is_of_sender() && seen.header.asks() && seen.header.hop() >= PORTS {
            return (PASS, out);
        }
        if self.queues.spc + size > self.buffer {
            return (DROP, out);
        }
        if seen.kind.is_of_sender() {
            let kind = if seen.kind == FrameKind::Data { Kind::Data } else { Kind::Probe };
            let mut packet = Header { kind, size: size as u16, flow: seen.flow, ..Header::default() };
            self.logic.arrive(now, Bytes(self.queues.spc), &mut packet, &mut seen.header);
            rewrite(&mut out, at, &seen.header, false);
        }
        self.queues.spc += size;
        (REDIRECT, out)
    }
}

/// The frame with its checksum, where the sender's kernel has left that to a device.
fn finished(frame: &[u8]) -> Vec<u8> {
    let mut out = frame.to_vec();
    let (addresses, transport) = if frame[12..14] == [8, 0] { (26..34, 34) } else { (22..54, 54) };
    let length = (frame.len() - transport) as u32;
    let pseudo = sum(&frame[addresses]) + 17 + length;
    let place = transport + 6..transport + 8;
    if out[place.clone()] == fold(pseudo).to_be_bytes() {
        let whole = !fold(sum(&frame[transport..]));
        out[place].copy_from_slice(&(if whole == 0 { u16::MAX } else { whole }).to_be_bytes());
    }
    out
}

/// The frame as it looks where its checksum has been left to a device.
fn unfinished(mut frame: Vec<u8>) -> Vec<u8> {
    let (addresses, transport) = if frame[12..14] == [8, 0] { (26..34, 34) } else { (22..54, 54) };
    let length = (frame.len() - transport) as u32;
    let pseudo = fold(sum(&frame[addresses]) + 17 + length);
    frame[transport + 6..transport + 8].copy_from_slice(&pseudo.to_be_bytes());
    frame
}

/// Senders that keep what they were granted as real ones do, and lose some of it.
struct Senders {
    random: SplitMix64,
    tasks: u32,
    scale: u8,
    held: BTreeMap<u64, (u32, Returned)>,
}

impl Senders {
    /// The next packet: its flow, where it asks, and its frame.
    fn packet(&mut self) -> (Option<u64>, Vec<u8>) {
        let random = &mut self.random;
        let (flow, task) = (random.below(64), random.below(u64::from(self.tasks)) as u32);
        let (task, returned) = self.held.get(&flow).copied().unwrap_or((task, Returned::default()));
        // What other switches have answered before stands in the header as well.
        // Now and then in units of a link that is a hundred times faster.
        let faster = if random.below(16) == 0 { 7 } else { 0 };
        let mut header = SpcHeader::new(task, self.scale + faster);
        let what = random.below(10);
        let asks = what < 7;
        if asks {
            let demand = if random.below(6) == 0 { 0 } else { random.below(256) as u8 };
            header = header.asking(random.below(4) as u8, demand, &returned);
            let hops = if random.below(8) == 0 { random.below(7) } else { flow % 6 };
            (0..hops).for_each(|_| header.answer(random.below(256) as u8, random.below(256) as u8, false));
        }
        let kind = match random.below(12) {
            0 => FrameKind::Ack,
            1 => FrameKind::Reset,
            2 | 3 => FrameKind::Probe,
            _ => FrameKind::Data,
        };
        let rates = if random.below(20) == 0 { Rates::OfFlows } else { Rates::OfTasks };
        let payload = vec![random.below(256) as u8; random.below(1_400) as usize];
        let mut bytes = Vec::new();
        Frame { payload: &payload, rates, ..Frame::new(kind, flow, header) }.encode(&mut bytes);
        if random.below(16) == 0 {
            bytes = payload;
        }
        if random.below(16) == 0 && !bytes.is_empty() {
            let at = random.below(bytes.len().min(60) as u64) as usize;
            bytes[at] = random.below(256) as u8;
        }
        if random.below(32) == 0 {
            bytes.truncate(random.below(70) as usize);
        }
        let mut frame = datagram(1, HOST, &bytes, random.below(2) == 0);
        match random.below(6) {
            0 => frame = unfinished(frame),
            1 => {
                let at = if frame[12..14] == [8, 0] { 40 } else { 60 };
                frame[at..at + 2].fill(0);
            }
            _ => {}
        }
        ((asks && kind.is_of_sender()).then_some(flow), frame)
    }

    /// An answer comes back, unless it is lost.
    fn receive(&mut self, flow: u64, out: &[u8]) {
        let Content::Spc { seen, .. } = classify(out) else { return };
        if self.random.below(8) > 0 {
            let demand = seen.header.demand;
            let kept = if demand == 0 { Returned::default() } else { seen.header.returned() };
            self.held.insert(flow, (seen.header.task(), kept));
        }
    }
}

/// Has both carriers handle the same frames, and compares all that is seen of each.
fn compare(seed: u64, rate: BitsPerSec, tasks: (u32, usize), spc: Spc, gap: u64) {
    let setup = setup(rate, tasks.1, spc);
    let Some(mut kernel) = Bench::new(&setup) else { return };
    let mut machine = Machine::new(&setup);
    let scale = cavalcade_transport::spc::scale_for(rate);
    let mut senders = Senders { random: SplitMix64::new(seed), tasks: tasks.0, scale, held: BTreeMap::new() };
    let mut now = Instant::ZERO;
    let (mut dropped, mut evicted) = (0, false);
    for step in 0..3_000 {
        // Mostly packets in a row, now and then a pause of more than an epoch.
        let pause = senders.random.below(200) == 0;
        now = now + Nanos(senders.random.below(if pause { 100_000_000 } else { gap }));
        let (flow, frame) = senders.packet();
        let (verdict, out) = machine.handle(now, &frame);
        let found = kernel.handle(now, &frame);
        assert_eq!(found.0, verdict, "verdict of step {step} of seed {seed}");
        if verdict == REDIRECT {
            assert_eq!(found.1, out, "frame of step {step} of seed {seed}");
            if let Some(flow) = flow {
                senders.receive(flow, &out);
            }
        }
        let port = kernel.port();
        let (queues, logic) = (machine.queues, &machine.logic);
        let seen = (port.tasks, port.granted * GRAIN.get(), port.spc_queued, port.plain_queued, port.held);
        let expected = (logic.tasks() as u64, logic.granted().get(), queues.spc, queues.plain, 0);
        assert_eq!(seen, expected, "port after step {step} of seed {seed}");
        dropped += u64::from(verdict == DROP);
        evicted |= port.tasks == tasks.1 as u64;
    }
    let port = kernel.port();
    assert!(port.questions > 1_000 && dropped > 10, "{port:?}");
    assert_eq!(evicted, tasks.0 as usize >= tasks.1, "the table is full where there are as many tasks");
    let counted = kernel.counted();
    assert!(counted.malformed > 10 && counted.finished > 100, "{counted:?}");
}

#[test]
fn the_kernel_answers_as_the_machine_does_bit_for_bit() {
    let rates = [20, 100, 1_000, 10_000].map(|mbps| BitsPerSec(mbps * 1_000_000));
    for (seed, rate) in (0..).zip(rates) {
        // On average as much as the link carries.
        let gap = 2 * 800 * 8_000_000_000 / rate.get();
        compare(seed, rate, (40, 100), Spc { buffer: Bytes(40_000), ..Spc::default() }, gap);
    }
}

#[test]
fn the_kernel_evicts_the_same_tasks_and_merges_the_same_heavy_ones() {
    let rate = BitsPerSec(1_000_000_000);
    for seed in 10..14 {
        compare(seed, rate, (60, 6), Spc { buffer: Bytes(40_000), ..Spc::default() }, 13_000);
        let heavy = Spc { heavy: Bytes(20_000), buffer: Bytes(40_000), ..Spc::default() };
        compare(seed, rate, (20, 30), heavy, 13_000);
    }
}

/// A question under a task-id.
fn question(task: u32, demand: u8) -> Vec<u8> {
    let spc = SpcHeader::new(task, 5).asking(1, demand, &Returned::default());
    let mut bytes = Vec::new();
    Frame::new(FrameKind::Data, u64::from(task), spc).encode(&mut bytes);
    datagram(1, HOST, &bytes, false)
}

#[test]
fn a_flood_of_fresh_task_ids_takes_nothing_from_tasks_before_it() {
    let setup = setup(BitsPerSec(1_000_000_000), 64, Spc::default());
    let Some(mut kernel) = Bench::new(&setup) else { return };
    let answered = |frame: &[u8]| {
        let Content::Spc { seen, .. } = classify(frame) else { panic!("it is SPC") };
        seen.header.least().unwrap()
    };
    let mut now = Instant::ZERO;
    let mut ask = |task: u32| {
        now = now + Nanos(10_000);
        answered(&kernel.handle(now, &question(task, 100)).1)
    };
    assert_eq!(ask(5), (100, 100));
    for task in 1_000..3_000 {
        ask(task);
    }
    let mut again = SpcHeader::new(5, 5);
    again = again.asking(2, 100, &Returned { rates: [100; PORTS], parities: 0, demand: 100 });
    let mut bytes = Vec::new();
    Frame::new(FrameKind::Data, 5, again).encode(&mut bytes);
    let (_, out) = kernel.handle(now, &datagram(1, HOST, &bytes, false));
    assert_eq!(answered(&out), (100, 100));
    assert_eq!(kernel.port().tasks, 64);
}

#[test]
fn what_has_no_known_way_goes_to_the_process_and_what_cannot_be_carried_is_dropped() {
    let setup = setup(BitsPerSec(1_000_000_000), 64, Spc::default());
    let Some(mut kernel) = Bench::new(&setup) else { return };
    let now = Instant(7);
    let much_later = Instant(8 + 600_000_000_000);
    let unknown = datagram(1, 77, b"hello", false);
    assert_eq!(kernel.handle(now, &unknown).0, PASS);
    let mut to_all = unknown.clone();
    to_all[..6].fill(0xff);
    assert_eq!(kernel.handle(now, &to_all).0, PASS);
    // Who has sent something is known from then on, and what is for him stays on his link.
    let mut to_itself = unknown.clone();
    to_itself.copy_within(6..12, 0);
    assert_eq!(kernel.handle(now, &to_itself).0, DROP);
    let large = datagram(1, HOST, &[0; 9_000], false);
    assert_eq!(kernel.handle(now, &large).0, DROP);
    assert_eq!(kernel.handle(now, &datagram(1, HOST, b"hello", false)).0, REDIRECT);
    let counted = kernel.counted();
    assert_eq!((counted.received, counted.filtered, counted.too_large, counted.malformed), (3, 1, 1, 0));
    // An address is forgotten after its time.
    assert_eq!(kernel.handle(Instant(7 + 300_000_000_000), &to_itself).0, DROP);
    let mut to_the_first = datagram(3, 1, b"hello", false);
    assert_eq!(kernel.handle(much_later, &to_the_first).0, PASS);
    to_the_first.truncate(14);
    assert_eq!(kernel.handle(much_later, &to_the_first).0, PASS);
}

#[test]
fn no_frame_of_any_length_stops_the_switch() {
    let setup = setup(BitsPerSec(1_000_000_000), 64, Spc::default());
    let Some(mut kernel) = Bench::new(&setup) else { return };
    let mut machine = Machine::new(&setup);
    let whole = question(7, 100);
    for length in 14..whole.len() {
        let frame = &whole[..length];
        let expected = match classify(frame) {
            Content::Malformed => DROP,
            _ => REDIRECT,
        };
        assert_eq!(kernel.handle(Instant(5), frame).0, expected, "{length}");
    }
    let seven_answers = {
        let mut frame = whole.clone();
        frame[42 + 23] |= 7;
        frame
    };
    for frame in [&whole, &seven_answers] {
        assert_eq!(kernel.handle(Instant(9), frame).0, machine.handle(Instant(9), frame).0);
    }
}

#[test]
fn what_the_process_has_sent_is_in_the_way_of_plain_traffic() {
    let setup = setup(BitsPerSec(1_000_000_000), 64, Spc::default());
    let Some(mut kernel) = Bench::new(&setup) else { return };
    let frame = datagram(1, HOST, &[0; 972], false);
    kernel.tables.relayed.set(OUT, 100_000, 0).unwrap();
    assert_eq!(kernel.handle(Instant(1), &frame).0, REDIRECT);
    assert_eq!(kernel.port().plain_queued, 101_000);
    kernel.tables.relayed.set(OUT, 10_000_000, 0).unwrap();
    assert_eq!(kernel.handle(Instant(1), &frame).0, DROP);
    assert_eq!(kernel.port().plain_queued, Spc::default().buffer.get());
}

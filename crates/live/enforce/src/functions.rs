//! The gate as a function: a packet and what its socket carries in, a verdict and counts out
//! (`BPF_PROG_TEST_RUN`).
//!
//! Nothing is attached, so no traffic of this machine is touched, and every packet can be made that
//! no TCP would send.

mod demotion;
mod share;

use std::net::Ipv4Addr;

use aya::maps::{Array, HashMap, MapData};
use aya::programs::{CgroupSkb, TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};
use cavalcade_model::Nanos;
use cavalcade_protocol::Gate;

use crate::kernel::settings;
use crate::shared::{
    Coflow, CoflowWords, CountWords, FlowWords, OrderWords, PROGRAMS, SettingsWords, Socket, SocketWords,
};
use crate::{Count, Flow, Limits, Order};

const COFLOW: u32 = 7;
/// The next new byte of the connection.
const NEXT: u32 = 1_000;
const PASSES: u32 = 1;
const IS_REFUSED: u32 = 0;
/// Programs.
const GATE: &str = "gate_as_function";
const SORT: &str = "sort_as_function";
/// Places in the kernel's `struct __sk_buff`, and its length.
const MARK: usize = 8;
const PRIORITY: usize = 32;
const CONTROL_BLOCK: usize = 48;
const SEGMENTS: usize = 164;
const CONTEXT: usize = 192;
/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// The programs, loaded, with one coflow and one connection.
struct Bench(Ebpf);

impl Bench {
    fn new() -> Option<Self> {
        let mut bench = Self(EbpfLoader::new().load(cavalcade_testing::loadable(PROGRAMS)?).unwrap());
        for name in [GATE, SORT] {
            let program: &mut CgroupSkb = bench.0.program_mut(name).unwrap().try_into().unwrap();
            program.load().unwrap();
        }
        bench.own(COFLOW, 1);
        bench.limit(Limits { silence: Nanos::from_secs(3600), ..Limits::default() }, Nanos::ZERO);
        // Data passed just now.
        bench.carry(Socket { passed_at: settings(Limits::default(), 0).alive_at, ..Socket::default() });
        Some(bench)
    }

    fn map<'a, T>(&'a mut self, name: &str) -> T
    where
        T: TryFrom<&'a mut aya::maps::Map, Error: std::fmt::Debug>,
    {
        self.0.map_mut(name).unwrap().try_into().unwrap()
    }

    /// Announces a coflow of this user.
    fn own(&mut self, coflow: u32, user: u32) {
        let mut coflows: HashMap<&mut MapData, u32, CoflowWords> = self.map("coflows");
        coflows.insert(coflow, Coflow { serial: 1, owner: u64::from(user) }.to_words(), 0).unwrap();
    }

    /// Sets the limits, with the enforcer's last sign of life so long ago.
    fn limit(&mut self, limits: Limits, ago: Nanos) {
        let mut words = settings(limits, 0);
        words.alive_at -= ago.0;
        let mut map: Array<&mut MapData, SettingsWords> = self.map("settings");
        map.set(0, words.to_words(), 0).unwrap();
    }

    /// Sets what the socket carries; its coflow and peer are those of this test.
    fn carry(&mut self, socket: Socket) {
        self.carry_for(flow(), socket);
    }

    /// The same for a flow to an IPv4 peer.
    fn carry_for(&mut self, flow: Flow, socket: Socket) {
        let [coflow, _, _, mapped, address] = flow.to_kernel();
        let peer_low = u64::from(mapped) | u64::from(address) << 32;
        let socket = Socket { coflow: u64::from(coflow), peer_high: 0, peer_low, ..socket };
        let mut map: Array<&mut MapData, SocketWords> = self.map("trial");
        map.set(0, socket.to_words(), 0).unwrap();
    }

    /// What the socket carries now.
    fn carried(&mut self) -> Socket {
        let map: Array<&mut MapData, SocketWords> = self.map("trial");
        Socket::from_words(map.get(&0, 0).unwrap())
    }

    fn order(&mut self, gate: Gate) {
        self.order_as(Order::from(gate));
    }

    fn order_as(&mut self, order: Order) {
        let mut map: HashMap<&mut MapData, FlowWords, OrderWords> = self.map("orders");
        map.insert(flow().to_kernel(), order.to_kernel(1), 0).unwrap();
    }

    fn count(&mut self) -> Count {
        let map: HashMap<&mut MapData, FlowWords, CountWords> = self.map("counts");
        map.get(&flow().to_kernel(), 0).map(Count::from_kernel).unwrap_or_default()
    }

    /// The verdict on an IP packet that was made of so many segments.
    fn judge_made_of(&mut self, segments: u32, packet: &[u8]) -> u32 {
        self.run(GATE, &[(SEGMENTS, segments)], packet)
    }

    /// What a program returns for an IP packet, with these words of its context.
    fn run(&mut self, program: &str, words: &[(usize, u32)], packet: &[u8]) -> u32 {
        let mut frame = vec![0; 14];
        let kind: u16 = if packet.first().is_some_and(|first| first >> 4 == 6) { 0x86dd } else { 0x0800 };
        frame[12..].copy_from_slice(&kind.to_be_bytes());
        frame.extend_from_slice(packet);
        let mut context = [0; CONTEXT];
        for &(place, word) in [(MARK, NEXT)].iter().chain(words) {
            context[place..place + 4].copy_from_slice(&word.to_ne_bytes());
        }
        let program: &mut CgroupSkb = self.0.program_mut(program).unwrap().try_into().unwrap();
        let options =
            TestRunOptions { data_in: Some(&frame), ctx_in: Some(&context), ..TestRunOptions::default() };
        program.test_run(options).unwrap().return_value
    }

    fn judge(&mut self, packet: &[u8]) -> u32 {
        self.judge_made_of(0, packet)
    }
}

fn flow() -> Flow {
    Flow { coflow: COFLOW, peer: Ipv4Addr::new(10, 0, 0, 9).into() }
}

fn tcp(sequence: u32, flags: u8, payload: usize) -> Vec<u8> {
    let mut segment = vec![0; 20 + payload];
    segment[4..8].copy_from_slice(&sequence.to_be_bytes());
    (segment[12], segment[13]) = (5 << 4, flags);
    segment
}

fn over_v4(segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    (packet[0], packet[9]) = (0x45, 6);
    packet[2..4].copy_from_slice(&((20 + segment.len()) as u16).to_be_bytes());
    packet.extend_from_slice(segment);
    packet
}

/// With a header of hop-by-hop options of 16 bytes where `has_options`.
fn over_v6(segment: &[u8], has_options: bool) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[6] = if has_options { 0 } else { 6 };
    if has_options {
        packet.extend_from_slice(&[6, 1]);
        packet.extend_from_slice(&[0; 14]);
    }
    packet.extend_from_slice(segment);
    packet
}

#[test]
fn new_data_passes_an_open_gate_and_is_counted_once() {
    let Some(mut bench) = Bench::new() else { return };
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT, ACK, 700))), PASSES);
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT - 700, ACK, 700))), PASSES);
    let found = bench.count();
    assert_eq!((found.sent.0, found.refused, found.waits), (700, 0, false));
}

#[test]
fn what_a_queue_of_this_host_drops_and_tcp_offers_again_is_counted_once() {
    let Some(mut bench) = Bench::new() else { return };
    // To TCP it is unsent until the queue has taken it: the next new byte stays the same.
    for (length, sum) in [(700, 700), (700, 700), (500, 700), (1_400, 1_400)] {
        assert_eq!(bench.judge(&over_v4(&tcp(NEXT, ACK, length))), PASSES);
        assert_eq!(bench.count().sent.0, sum);
    }
    assert_eq!(bench.carried().message, 1_400);
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT + 1_400, ACK, 100))), PASSES);
    assert_eq!(bench.count().sent.0, 1_500);
}

#[test]
fn the_trickle_is_its_flows_and_a_connection_that_others_pass_by_has_its_turn_at_last() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = over_v4(&tcp(NEXT, ACK, 700));
    let fresh = Socket { passed_at: 1, ..Socket::default() };
    bench.carry(fresh);
    assert_eq!(bench.judge(&data), PASSES);
    // Another connection of the flow.
    bench.carry(fresh);
    assert_eq!(bench.judge(&data), IS_REFUSED);
    assert!(bench.carried().refused_at > 0);
    bench.carry(Socket { refused_at: 1, ..fresh });
    assert_eq!(bench.judge(&data), PASSES);
    assert_eq!(bench.carried().refused_at, 0);
}

#[test]
fn a_turn_that_could_not_be_given_back_is_free_again_after_a_trickle() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = over_v4(&tcp(NEXT, ACK, 700));
    let now = settings(Limits::default(), 0).alive_at;
    for (since, verdict) in [(now, IS_REFUSED), (now - Limits::default().trickle.0, PASSES)] {
        let mut turns: HashMap<&mut MapData, FlowWords, u64> = bench.map("turns");
        turns.insert(flow().to_kernel(), since, 0).unwrap();
        bench.carry(Socket { passed_at: 1, ..Socket::default() });
        assert_eq!(bench.judge(&data), verdict);
    }
}

#[test]
fn a_flow_has_something_to_send_until_the_last_byte_that_was_written_has_passed_with_its_fin_or_without() {
    let Some(mut bench) = Bench::new() else { return };
    bench.carry(Socket { is_counted: 1, ..Socket::default() });
    let mut judge = |flags, written| {
        bench.run(GATE, &[(PRIORITY, written)], &over_v4(&tcp(NEXT, flags, 700)));
        bench.count().has_unsent
    };
    assert!(judge(ACK, NEXT + 1_400));
    assert!(!judge(ACK, NEXT + 700));
    // A FIN takes a number behind the last byte.
    assert!(judge(ACK, NEXT + 701));
    assert!(!judge(ACK | FIN, NEXT + 701));
    bench.order(Gate::Off {});
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT, ACK, 700))), IS_REFUSED);
    assert!(bench.count().has_unsent);
}

#[test]
fn the_first_bytes_of_a_connection_that_no_program_may_mark_ask_for_its_mark_again() {
    let Some(mut bench) = Bench::new() else { return };
    bench.carry(Socket { mark: 161, ..Socket::default() });
    for _ in 0..2 {
        assert_eq!(bench.judge(&over_v4(&tcp(NEXT, ACK, 700))), PASSES);
        assert_eq!(bench.count().marks, 1);
    }
}

#[test]
fn new_data_is_refused_while_the_flow_is_off_over_every_form_of_ip() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = tcp(NEXT, ACK, 700);
    for packet in [over_v4(&data), over_v6(&data, false), over_v6(&data, true)] {
        assert_eq!(bench.judge(&packet), IS_REFUSED);
    }
    let found = bench.count();
    assert_eq!((found.sent.0, found.refused, found.waits), (0, 3, true));
}

#[test]
fn what_is_no_new_data_passes_a_gate_that_is_off() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    for segment in [tcp(NEXT, ACK, 0), tcp(NEXT, SYN, 0), tcp(NEXT, FIN | ACK, 0), tcp(NEXT - 1, ACK, 700)] {
        assert_eq!(bench.judge(&over_v4(&segment)), PASSES);
        assert_eq!(bench.judge(&over_v6(&segment, true)), PASSES);
    }
    assert_eq!(bench.count(), Count::default());
}

#[test]
fn sequence_numbers_go_round() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT.wrapping_sub(1 << 31), ACK, 9))), PASSES);
    assert_eq!(bench.judge(&over_v4(&tcp(NEXT + 1_000_000, ACK, 9))), IS_REFUSED);
}

#[test]
fn one_segment_passes_when_the_trickle_is_due_and_no_more() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = over_v4(&tcp(NEXT, ACK, 700));
    bench.carry(Socket { passed_at: 1, ..Socket::default() });
    assert_eq!(bench.judge_made_of(40, &data), IS_REFUSED);
    assert_eq!(bench.judge_made_of(1, &data), PASSES);
    assert_eq!(bench.judge_made_of(1, &data), IS_REFUSED);
}

#[test]
fn silence_opens_the_gate() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = over_v4(&tcp(NEXT, ACK, 700));
    let limits = Limits { silence: Nanos::from_secs(1), ..Limits::default() };
    bench.limit(limits, Nanos::ZERO);
    assert_eq!(bench.judge(&data), IS_REFUSED);
    bench.limit(limits, Nanos::from_secs(2));
    assert_eq!(bench.judge(&data), PASSES);
}

#[test]
fn no_packet_is_refused_that_cannot_be_read_to_the_end_of_its_headers() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let data = tcp(NEXT, ACK, 1);
    for whole in [over_v4(&data), over_v6(&data, false), over_v6(&data, true)] {
        // The kernel takes no packet that is shorter.
        let shortest = if whole[0] >> 4 == 4 { 20 } else { 40 };
        for length in shortest..whole.len() {
            assert_eq!(bench.judge(&whole[..length]), PASSES, "{length} of {} bytes", whole.len());
        }
        assert_eq!(bench.judge(&whole), IS_REFUSED);
    }
}

#[test]
fn headers_that_lie_about_lengths_and_other_protocols_pass() {
    let Some(mut bench) = Bench::new() else { return };
    bench.order(Gate::Off {});
    let mut beyond_the_end = tcp(NEXT, ACK, 30);
    beyond_the_end[12] = 15 << 4;
    let mut datagram = over_v4(&tcp(NEXT, ACK, 700));
    datagram[9] = 17;
    let mut long_options = over_v6(&tcp(NEXT, ACK, 700), true);
    long_options[41] = 255;
    let mut long_header = over_v4(&tcp(NEXT, ACK, 0));
    long_header[0] = 0x4f;
    for packet in [over_v4(&beyond_the_end), datagram, long_options, long_header] {
        assert_eq!(bench.judge(&packet), PASSES);
    }
    assert_eq!(bench.count(), Count::default());
}

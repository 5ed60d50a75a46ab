//! The kernel's laws against the transports': the same events, the same windows.
//!
//! A sequence of acknowledgements, marks, losses and time-outs goes through the transport's law, and through the programs' as a
//! function, which runs in the kernel as it does for a connection (`BPF_PROG_TEST_RUN`, which there is not for a congestion control).

use std::fmt::Write as _;

use aya::maps::{Array, MapData};
use aya::programs::{CgroupSkb, TestRun, TestRunOptions};
use aya::{Btf, Ebpf, EbpfLoader};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, TaskId};
use cavalcade_transport::d2tcp::D2tcp;
use cavalcade_transport::dctcp::Dctcp;
use cavalcade_transport::mcp::Mcp;
use cavalcade_transport::tafe::Tafe;
use cavalcade_transport::{Ack, FlowSetup, WindowLaw};

use super::Law;
use crate::shared::{self, CONTROLS, Event, EventWords, LawWords, Pursuit, PursuitWords};

/// What the function is told to do besides acknowledging, as in `bpf/congestion.bpf.c`.
const BEGIN: u32 = 16;
const LOSS: u32 = 17;
const TIMEOUT: u32 = 18;
const PURSUIT: u32 = 19;
/// The place of a packet's mark in the kernel's `struct __sk_buff`, and the length of that.
const MARK: usize = 8;
const CONTEXT: usize = 192;
/// Segments of a flow, and a segment's payload.
const SEGMENTS: u32 = 12_000;
const PAYLOAD: u16 = 1_460;
const INITIAL_WINDOW: u32 = 10;

/// The programs, loaded, with what is kept of one connection.
struct Bench(Ebpf);

impl Bench {
    fn new() -> Option<Self> {
        let programs = cavalcade_testing::loadable(CONTROLS)?;
        let Ok(types) = Btf::from_sys_fs() else {
            cavalcade_testing::skipped("the kernel's BTF");
            return None;
        };
        let mut bench = Self(EbpfLoader::new().btf(Some(&types)).load(programs).unwrap());
        bench.program().load().unwrap();
        Some(bench)
    }

    fn program(&mut self) -> &mut CgroupSkb {
        self.0.program_mut("law_as_function").unwrap().try_into().unwrap()
    }

    fn table<'a, Words: aya::Pod>(&'a mut self, name: &str) -> Array<&'a mut MapData, Words> {
        self.0.map_mut(name).unwrap().try_into().unwrap()
    }

    /// Has the law do something; returns what it keeps then.
    fn run(&mut self, action: u32, event: Event) -> shared::Law {
        self.table::<EventWords>("trial_event").set(0, event.to_words(), 0).unwrap();
        let mut context = [0; CONTEXT];
        context[MARK..MARK + 4].copy_from_slice(&action.to_ne_bytes());
        let packet = [0; 64];
        let options =
            TestRunOptions { data_in: Some(&packet), ctx_in: Some(&context), ..TestRunOptions::default() };
        assert_eq!(self.program().test_run(options).unwrap().return_value, 1);
        shared::Law::from_words(self.table::<LawWords>("trial_law").get(&0, 0).unwrap())
    }
}

/// The next of a sequence of numbers that look random (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// What happens to a flow in order: a sender that has what its window allows on the way.
#[derive(Debug)]
enum Happening {
    Acknowledged(Ack),
    Lost(Ack),
    TimedOut(Instant),
}

/// Makes up what happens next, for a window that the law has.
struct Network {
    random: u64,
    now: Instant,
    una: u32,
    recovered_at: u32,
    /// Of 1,000 acknowledgements, so many are marked.
    marked: u64,
}

impl Network {
    fn new(seed: u64) -> Self {
        Self { random: seed, now: Instant(1_000_000), una: 0, recovered_at: 0, marked: 100 }
    }

    fn draw(&mut self, below: u64) -> u64 {
        next(&mut self.random) % below
    }

    fn next(&mut self, window: u32) -> Happening {
        if self.draw(200) == 0 {
            // Congestion comes and goes.
            self.marked = [0, 5, 50, 300, 900, 1_000][self.draw(6) as usize];
        }
        self.now = self.now + Nanos(1_000 + self.draw(40_000));
        let segments = 1 + self.draw(u64::from(window.min(4))) as u32;
        let out = window.max(segments);
        if self.draw(700) == 0 {
            return Happening::TimedOut(self.now);
        }
        let is_lost = self.draw(150) == 0 && self.una >= self.recovered_at;
        if is_lost {
            self.recovered_at = self.una + out;
        }
        self.una = (self.una + segments).min(SEGMENTS - 1);
        let ack = Ack {
            now: self.now,
            segments,
            marked: self.draw(1_000) < self.marked,
            una: self.una,
            next: (self.una + out).min(SEGMENTS),
            end: SEGMENTS,
            recovering: self.una < self.recovered_at,
            limited: self.draw(20) > 0,
            round_trip: Nanos(125 * (400 + self.draw(1_600))),
        };
        if is_lost { Happening::Lost(ack) } else { Happening::Acknowledged(ack) }
    }
}

fn setup(deadline: Option<Instant>) -> FlowSetup {
    let size = Bytes(u64::from(SEGMENTS) * u64::from(PAYLOAD));
    FlowSetup {
        flow: 0,
        size,
        start: Instant::ZERO,
        deadline,
        task: TaskId(0),
        task_size: size,
        line_rate: BitsPerSec(1_000_000_000),
        base_rtt: Nanos(100_000),
        payload: PAYLOAD,
        overhead: 40,
    }
}

/// An acknowledgement in the kernel's words.
fn event(ack: &Ack, setup: &FlowSetup, largest: u64) -> Event {
    Event {
        now: ack.now.0,
        deadline: setup.deadline.map_or(0, |deadline| deadline.0),
        round_trip: ack.round_trip.0,
        largest,
        remaining: u64::from(ack.end - ack.una),
        size_known: 1,
        segments: u64::from(ack.segments),
        marked: u64::from(ack.marked),
        una: u64::from(ack.una),
        next: u64::from(ack.next),
        recovering: u64::from(ack.recovering),
        limited: u64::from(ack.limited),
        ..Event::default()
    }
}

/// Runs a flow through both, and compares windows after each event.
fn compare(bench: &mut Bench, kind: Law, law: &mut dyn DrivenLaw, setup: &FlowSetup, seed: u64) -> u32 {
    let largest = Tafe::default().largest.get().div_ceil(u64::from(PAYLOAD));
    let action = kind as u32;
    let mut kept = bench.run(BEGIN, Event { segments: u64::from(INITIAL_WINDOW), ..Event::default() });
    let mut network = Network::new(seed);
    let (mut recent, mut cuts) = (String::new(), 0);
    while network.una < SEGMENTS - 1 {
        let before = kept.window;
        let happening = network.next(kept.window);
        match &happening {
            Happening::Acknowledged(ack) => {
                law.acknowledge(ack);
                kept = bench.run(action, event(ack, setup, largest));
            }
            Happening::Lost(ack) => {
                law.acknowledge(ack);
                law.lose(ack);
                bench.run(action, event(ack, setup, largest));
                kept = bench.run(LOSS, event(ack, setup, largest));
            }
            Happening::TimedOut(now) => {
                law.time_out(*now);
                kept = bench.run(TIMEOUT, Event::default());
            }
        }
        cuts += u32::from(kept.window < before);
        _ = writeln!(recent, "{happening:?} -> {}", kept.window);
        assert_eq!(
            kept.window,
            law.window(),
            "{kind:?}, seed {seed}, the last of these:\n{}",
            recent.lines().rev().take(5).collect::<Vec<_>>().join("\n")
        );
    }
    cuts
}

/// A law whose constants do not matter here.
trait DrivenLaw {
    fn window(&self) -> u32;
    fn acknowledge(&mut self, ack: &Ack);
    fn lose(&mut self, ack: &Ack);
    fn time_out(&mut self, now: Instant);
}

impl<L: WindowLaw> DrivenLaw for L {
    fn window(&self) -> u32 {
        WindowLaw::window(self)
    }
    fn acknowledge(&mut self, ack: &Ack) {
        self.on_ack(ack);
    }
    fn lose(&mut self, ack: &Ack) {
        self.on_loss(ack);
    }
    fn time_out(&mut self, now: Instant) {
        self.on_timeout(now);
    }
}

const SEEDS: std::ops::Range<u64> = 0..3;

#[test]
fn dctcp_has_the_windows_of_its_transport() {
    let Some(mut bench) = Bench::new() else { return };
    let setup = setup(None);
    for seed in SEEDS {
        let cuts = compare(&mut bench, Law::Dctcp, &mut Dctcp::default().law(&setup), &setup, seed);
        assert!(cuts > 50, "only {cuts} cuts say little");
    }
}

#[test]
fn d2tcp_has_the_windows_of_its_transport_with_deadlines_near_far_and_past() {
    let Some(mut bench) = Bench::new() else { return };
    for deadline in [None, Some(50), Some(150), Some(400), Some(100_000)] {
        let setup = setup(deadline.map(|milliseconds| Instant(milliseconds * 1_000_000)));
        for seed in SEEDS {
            compare(&mut bench, Law::D2tcp, &mut D2tcp::default().law(&setup), &setup, seed);
        }
    }
}

#[test]
fn tafe_has_the_windows_of_its_transport() {
    let Some(mut bench) = Bench::new() else { return };
    let setup = setup(None);
    for seed in SEEDS {
        compare(&mut bench, Law::Tafe, &mut Tafe::default().law(&setup), &setup, seed);
    }
}

/// A flow that is held to the rate that it needs: windows may be fractions there, so the pace is compared as well.
#[test]
fn mcp_has_the_windows_and_gaps_of_its_transport() {
    let Some(mut bench) = Bench::new() else { return };
    let settings = Mcp { published: false, ..Mcp::default() };
    let packet = 1_500;
    for milliseconds in [3, 160, 400, 2_000, 30_000] {
        let setup = setup(Some(Instant(milliseconds * 1_000_000)));
        let mut law = settings.law(&setup);
        let base = Ack { round_trip: setup.base_rtt, ..whole(&setup) };
        let told = |ack: &Ack| Event {
            capacity: ((setup.line_rate.get() / 8) << 16) / packet,
            threshold: settings.dctcp.marking.get() / packet,
            guard: u64::from(settings.guard) * setup.base_rtt.0,
            ..event(ack, &setup, 0)
        };
        bench.run(BEGIN, Event { segments: u64::from(INITIAL_WINDOW), ..Event::default() });
        bench.run(PURSUIT, told(&base));
        let mut network = Network::new(milliseconds);
        let mut windows = 0;
        while network.una < SEGMENTS - 1 && network.now < Instant(milliseconds * 1_500_000) {
            let (Happening::Acknowledged(ack) | Happening::Lost(ack)) = network.next(WindowLaw::window(&law))
            else {
                continue;
            };
            // With round trips that jump the equations are chaotic, and small errors grow.
            let ack = Ack { round_trip: Nanos(100_000 + 125 * network.draw(80)), ..ack };
            law.on_ack(&ack);
            let kept = bench.run(CV_MCP, told(&ack));
            let pursuit =
                Pursuit::from_words(bench.table::<PursuitWords>("trial_pursuit").get(&0, 0).unwrap());
            let gap = ack.round_trip.as_f64() * f64::from(1 << 20) / pursuit.window as f64;
            let off = gap / law.gap().as_f64().max(1.0) - 1.0;
            // The window is a whole number of millionths (2^-20) of a segment.
            let allowed = 1e-3 + 8.0 / pursuit.window as f64;
            assert!(
                off.abs() < allowed,
                "{gap} ns in place of {:?}, deadline {milliseconds} ms: {ack:?}",
                law.gap()
            );
            assert!(kept.window.abs_diff(WindowLaw::window(&law)) <= 1, "{} of {ack:?}", kept.window);
            windows += u32::from(kept.window != INITIAL_WINDOW);
        }
        assert!(windows > 10, "{windows} windows say little");
    }
}

const CV_MCP: u32 = Law::Mcp as u32;

/// A flow that starts, as an event.
fn whole(setup: &FlowSetup) -> Ack {
    Ack {
        now: setup.start,
        segments: 0,
        marked: false,
        una: 0,
        next: 0,
        end: SEGMENTS,
        recovering: false,
        limited: true,
        round_trip: setup.base_rtt,
    }
}

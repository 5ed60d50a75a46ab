//! The kernel's laws against the transports': the same events, the same windows.
//!
//! A sequence of acknowledgements, marks, losses and time-outs goes through the transport's law,
//! and through the programs' as a function, which runs in the kernel as it does for a connection
//! (`BPF_PROG_TEST_RUN`, which there is not for a congestion control).
//!
//! # Losses
//! The kernel's TCP decides what is lost, when a recovery begins and ends, and when a timer is due;
//! a sequence says so in its words: an acknowledgement that comes in a recovery, and a time-out,
//! which ends one. The law's are window and threshold from then on: at the first acknowledgement of
//! a recovery both are halved, nothing grows until it is over, and after a time-out there is one
//! segment and slow start to the half. What the kernel has in between (its answer to `ssthresh`,
//! and one segment more than is on the way when a timer is due) ends with the next acknowledgement;
//! `live` sees that on connections.
//!
//! # MCP
//! The law of deadline flows has floats in the transport, where links may have any rate and
//! recorded experiments rest on it. The kernel has no floats, so what it keeps are multiples of a
//! smallest part, and each step is off by what is cut away:
//! - windows and marks are multiples of 2^-20 segments, how far a flow is behind of 2^-16 segments
//!   a second;
//! - a round trip is a multiple of 2^-32 seconds, so what is needed in one is off by 2 millionths
//!   at 100 µs;
//! - quotients (Θ, λ and what is behind) are cut to 2^-20, and a step multiplies them by what is
//!   needed.
//!
//! So steps are compared, each from the same state: they agree to [`PARTS`] of the smallest parts
//! and [`INEXACT`] of the window, and whole windows are the same unless a whole number lies
//! between. From a step to the next a difference shrinks as long as round trips are steady and
//! nothing is marked; then whole flows have the same windows. Where round trips jump or marks
//! change the price, the equations are chaotic: a difference of 20 parts has grown to a segment
//! within some 60 steps.

use std::fmt::Write as _;

use aya::maps::{Array, MapData};
use aya::programs::{CgroupSkb, TestRun, TestRunOptions};
use aya::{Btf, Ebpf, EbpfLoader};
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, TaskId};
use cavalcade_transport::d2tcp::D2tcp;
use cavalcade_transport::dctcp::Dctcp;
use cavalcade_transport::mcp::{self, Mcp};
use cavalcade_transport::tafe::Tafe;
use cavalcade_transport::{Ack, FlowSetup, WindowLaw};

use super::Law;
use crate::shared::{self, CONTROLS, Event, EventWords, LawWords, Pursuit, PursuitWords};

/// What the function is told to do besides acknowledging, as in `bpf/congestion.bpf.c`.
const BEGIN: u32 = 16;
const TIMEOUT: u32 = 17;
const PURSUIT: u32 = 18;
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
    /// The first acknowledgement of a recovery.
    Lost(Ack),
    /// It ends a recovery.
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
            self.recovered_at = self.una;
            return Happening::TimedOut(self.now);
        }
        let is_lost = self.draw(150) == 0 && self.una >= self.recovered_at;
        self.una = (self.una + segments).min(SEGMENTS - 1);
        if is_lost {
            self.recovered_at = (self.una + out).min(SEGMENTS);
        }
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

/// How often something happened in a sequence.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    cuts: u32,
    losses: u32,
    time_outs: u32,
}

/// Runs a flow through both, and compares windows after each event.
fn compare(bench: &mut Bench, kind: Law, law: &mut dyn DrivenLaw, setup: &FlowSetup, seed: u64) -> Seen {
    let largest = Tafe::default().largest.get().div_ceil(u64::from(PAYLOAD));
    let mut kept = bench.run(BEGIN, Event { segments: u64::from(INITIAL_WINDOW), ..Event::default() });
    let mut network = Network::new(seed);
    let (mut recent, mut seen) = (String::new(), Seen::default());
    while network.una < SEGMENTS - 1 {
        let before = kept.window;
        let happening = network.next(kept.window);
        law.follow(&happening);
        kept = match &happening {
            Happening::Acknowledged(ack) | Happening::Lost(ack) => {
                bench.run(kind as u32, event(ack, setup, largest))
            }
            Happening::TimedOut(_) => bench.run(TIMEOUT, Event::default()),
        };
        seen.cuts += u32::from(kept.window < before);
        seen.losses += u32::from(matches!(happening, Happening::Lost(_)));
        seen.time_outs += u32::from(matches!(happening, Happening::TimedOut(_)));
        _ = writeln!(recent, "{happening:?} -> {}", kept.window);
        assert_eq!(
            kept.window,
            law.window(),
            "{kind:?}, seed {seed}, the last of these:\n{}",
            recent.lines().rev().take(5).collect::<Vec<_>>().join("\n")
        );
    }
    assert!(seen.losses > 10 && seen.time_outs > 3, "{seen:?} say little");
    seen
}

/// A law whose constants do not matter here.
trait DrivenLaw {
    fn window(&self) -> u32;
    fn follow(&mut self, happening: &Happening);
}

impl<L: WindowLaw> DrivenLaw for L {
    fn window(&self) -> u32 {
        WindowLaw::window(self)
    }
    fn follow(&mut self, happening: &Happening) {
        match happening {
            Happening::Acknowledged(ack) => self.on_ack(ack),
            Happening::Lost(ack) => {
                self.on_ack(ack);
                self.on_loss(ack);
            }
            Happening::TimedOut(now) => self.on_timeout(*now),
        }
    }
}

const SEEDS: std::ops::Range<u64> = 0..3;

#[test]
fn dctcp_has_the_windows_of_its_transport() {
    let Some(mut bench) = Bench::new() else { return };
    let setup = setup(None);
    for seed in SEEDS {
        let seen = compare(&mut bench, Law::Dctcp, &mut Dctcp::default().law(&setup), &setup, seed);
        assert!(seen.cuts > 50, "{seen:?} say little");
    }
}

#[test]
fn a_recovery_behind_a_time_out_cuts_as_any_other() {
    let Some(mut bench) = Bench::new() else { return };
    let setup = setup(None);
    let mut law = Dctcp::default().law(&setup);
    let lost = |una, next| Ack { segments: 1, una, next, recovering: true, ..whole(&setup) };
    bench.run(BEGIN, Event { segments: u64::from(INITIAL_WINDOW), ..Event::default() });
    let happenings =
        [Happening::Lost(lost(1, 11)), Happening::TimedOut(Instant(1)), Happening::Lost(lost(11, 12))];
    let windows = happenings.map(|happening| {
        law.follow(&happening);
        let kept = match &happening {
            Happening::TimedOut(_) => bench.run(TIMEOUT, Event::default()),
            Happening::Acknowledged(ack) | Happening::Lost(ack) => {
                bench.run(Law::Dctcp as u32, event(ack, &setup, 0))
            }
        };
        (kept.window, DrivenLaw::window(&law))
    });
    assert_eq!(windows, [(5, 5), (1, 1), (2, 2)]);
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

#[test]
fn mcp_without_a_deadline_has_the_windows_of_its_transport() {
    let Some(mut bench) = Bench::new() else { return };
    let setup = setup(None);
    for seed in SEEDS {
        compare(&mut bench, Law::Mcp, &mut ours().law(&setup), &setup, seed);
    }
}

#[test]
fn each_step_of_mcp_is_its_transports_whatever_is_lost_and_however_round_trips_jump() {
    let Some(mut bench) = Bench::new() else { return };
    for milliseconds in DEADLINES {
        for seed in SEEDS {
            pursue(&mut bench, milliseconds, seed, true, |ack| ack);
        }
    }
}

#[test]
fn mcp_left_to_itself_has_the_windows_of_its_transport_while_nothing_is_marked() {
    let Some(mut bench) = Bench::new() else { return };
    for milliseconds in DEADLINES {
        for seed in SEEDS {
            let steady = |ack: Ack| Ack {
                round_trip: Nanos(100_000 + ack.round_trip.0 % 10_000),
                marked: false,
                ..ack
            };
            pursue(&mut bench, milliseconds, seed, false, steady);
        }
    }
}

/// Milliseconds from which hardly anything can be sent in time to such that need a packet in many
/// round trips.
const DEADLINES: [u64; 5] = [3, 160, 400, 2_000, 30_000];
/// What a step of MCP is off by at most: parts of 2^-20 segments, and of the window.
const PARTS: f64 = 8.0;
const INEXACT: f64 = 2e-5;

/// The form of MCP that the kernel has.
fn ours() -> Mcp {
    Mcp { published: false, ..Mcp::default() }
}

/// Runs a flow that is held to its rate through both; where it is to be `by_steps`, each
/// acknowledgement finds both in the same state.
fn pursue(bench: &mut Bench, milliseconds: u64, seed: u64, by_steps: bool, change: impl Fn(Ack) -> Ack) {
    let (settings, setup, packet) = (ours(), setup(Some(Instant(milliseconds * 1_000_000))), 1_500);
    let told = |ack: &Ack| Event {
        capacity: ((setup.line_rate.get() / 8) << 16) / packet,
        threshold: settings.dctcp.marking.get() / packet,
        guard: u64::from(settings.guard) * setup.base_rtt.0,
        ..event(ack, &setup, 0)
    };
    let mut law = settings.law(&setup);
    bench.run(BEGIN, Event { segments: u64::from(INITIAL_WINDOW), ..Event::default() });
    bench.run(PURSUIT, told(&whole(&setup)));
    let (mut network, mut windows) = (Network::new(seed), 0);
    while network.una < SEGMENTS - 1 && network.now < Instant(milliseconds * 1_500_000) {
        let before = law.pursuit().unwrap();
        if by_steps {
            let same = in_parts(&before);
            bench.table::<PursuitWords>("trial_pursuit").set(0, same.to_words(), 0).unwrap();
        }
        let happening = match network.next(WindowLaw::window(&law)) {
            Happening::Acknowledged(ack) => Happening::Acknowledged(change(ack)),
            Happening::Lost(ack) => Happening::Lost(change(ack)),
            timed_out @ Happening::TimedOut(_) => timed_out,
        };
        law.follow(&happening);
        let (Happening::Acknowledged(ack) | Happening::Lost(ack)) = &happening else {
            // The window is the kernel's until the next acknowledgement.
            bench.run(TIMEOUT, Event::default());
            continue;
        };
        let kept = bench.run(Law::Mcp as u32, told(ack));
        let words = bench.table::<PursuitWords>("trial_pursuit").get(&0, 0).unwrap();
        let (found, exact) = (Pursuit::from_words(words), law.pursuit().unwrap());
        let what = format_args!("{kept:?} and {found:?} in place of {exact:?}, {happening:?}");
        if by_steps {
            let off = PARTS / PART + INEXACT * exact.window.max(before.window);
            let range = (exact.window - off).ceil() as u32..=(exact.window + off).ceil() as u32;
            let wrong = (found.window as f64 / PART - exact.window).abs();
            assert!(wrong <= off && range.contains(&kept.window), "{what}");
        } else {
            assert_eq!(kept.window, WindowLaw::window(&law), "{what}");
        }
        windows += 1;
    }
    assert!(windows > 10, "{windows} windows say little");
}

/// The smallest part of a segment that the kernel knows is one of so many.
const PART: f64 = (1 << 20) as f64;

/// A state in the kernel's whole numbers.
fn in_parts(state: &mcp::Pursuit) -> Pursuit {
    Pursuit {
        window: (state.window * PART).round().max(1.0) as u64,
        behind: state.behind.map_or(u64::MAX, |behind| (behind * 65_536.0).round() as u64),
        marked: (state.marked * PART).round() as u64,
    }
}

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

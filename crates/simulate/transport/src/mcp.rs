//! `mcp`: flows with a deadline take the rate that they need, and no more (Karuna: Chen et al.,
//! SIGCOMM 2016, §4).
//!
//! A flow that is done long before its deadline has taken from others for nothing. So a deadline
//! flow goes into the highest class, where no other flow can harm it, and holds itself to what
//! remains over the time left; all others go into the next class with DCTCP and take the rest of
//! the link. Where they should be told apart by size, a policy decides (`karuna`), and its classes
//! replace these.
//!
//! # The law of a deadline flow, as published: once for each round trip τ
//! With M segments to go, D seconds left, x = W/τ, F the marked share of the last window, C the
//! host's link and K the marking threshold in segments:
//!
//! ```text
//! γ = M/D              Θ = Z·γ/x²            what the deadline asks for: Z is how far the flow is behind
//! Q = K + F·W          λ = 1/(C − (F·W − F⁻·W⁻)/τ)²      what the network charges
//! W ← W + τ·(V₁·Θ − V₂·Q − V₃·λ), at least 1              Z ← max(0, Z + γ − W/τ)
//! ```
//!
//! with gains V of one. A flow gives up, with one segment in each round trip, once less than a
//! round trip is left or Z reaches C. The equations are read from an ns-2 patch made with Karuna's
//! first author (docs/protocols.md); the paper's §4 could not be had.
//!
//! # Ours: `published=false`
//! The published terms have different units. Around its fixed point that is an oscillator of
//! frequency √(V₁/γ) for each round trip, damped by `V₂·K/√(V₁·γ)`: at 1 Gbps a period of 1,800
//! round trips. And it rests at Z = K·γ, which is above the limit C for all flows that need more
//! than C/K. So:
//! - `W ← W + γτ·(½·V₁·Θ − ⅖·V₂·Q/K − ⅒·V₃·λ·C²)`: scaled by γ, K and C² the terms have no unit,
//!   the response takes a few round trips at any rate, and it rests at Z = γ < C.
//! - W may be a fraction of a segment, and segments are paced: one in each round trip is 120 Mbps
//!   at 100 µs. It is no less than a quarter of what is needed (Θ grows without bound as x falls)
//!   and at most doubles at once. It begins at rest (with what is needed, and Z = γ) where that is
//!   below the initial window: steps in proportion to a small need would take long to come down,
//!   and from Z = 0 a flow of a few segments falls behind by some of them and never makes up for
//!   it.
//! - The time left is shortened by `guard` round trips, as in the early form; only giving up looks
//!   at the deadline itself: a flow gives up once what remains needs more than the link by then. By
//!   Z it would do so near the end of the time that the guard leaves, where γ grows without bound
//!   (measured: a tenth of small flows on an idle network). γ and Z are C at most.
//!
//! # The early form: `early=true`
//! What the authors ran before: the window moves by one segment for each acknowledgement towards
//! `M·τ/D`, marks are ignored, and two segments are the least. It was at the receiver there; the
//! sender knows the same. The guard of six round trips is from there.

use cavalcade_model::{Instant, Nanos};
use cavalcade_spec::{Complaint, Parameter};

use crate::contract::{FlowSetup, NoLogic, PortSetup, SwitchNeeds, Transport};
use crate::dctcp::{self, Dctcp, dctcp_parameters};
use crate::registry::Definition;
use crate::scoreboard::Reliability;
use crate::window::{Ack, WindowLaw, WindowReceiver, WindowSender};

/// The parameters of [`Law`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mcp {
    /// Law of flows without deadline; marking and timers apply to all.
    pub dctcp: Dctcp,
    /// V₁, in thousandths.
    pub deadline_gain: u32,
    /// V₂, in thousandths.
    pub queue_gain: u32,
    /// V₃, in thousandths.
    pub price_gain: u32,
    /// The equations as published; false: ours.
    pub published: bool,
    /// Round trips before its deadline at which a flow aims to be done; none under the published
    /// equations.
    pub guard: u32,
    /// The authors' early form.
    pub early: bool,
}

impl Default for Mcp {
    /// The published equations with gains of one. The guard, which they have not, is the early
    /// form's.
    fn default() -> Self {
        Self {
            dctcp: Dctcp::default(),
            deadline_gain: 1_000,
            queue_gain: 1_000,
            price_gain: 1_000,
            published: true,
            guard: 6,
            early: false,
        }
    }
}

impl Mcp {
    /// The law of a flow that starts ([`Dctcp::law`]).
    pub fn law(&self, setup: &FlowSetup) -> Law {
        Law(match setup.deadline {
            Some(deadline) => Kind::Deadline(DeadlineWindow::new(self, setup, deadline)),
            None => Kind::Other(dctcp::Law::new(&self.dctcp)),
        })
    }

    /// Returns whether deadline flows follow the published equations: the early form is another
    /// law.
    fn is_published_law(&self) -> bool {
        self.published && !self.early
    }
}

/// The window of a deadline flow. Segments and seconds are the units.
#[derive(Clone, Debug)]
struct DeadlineWindow {
    settings: Mcp,
    deadline: Instant,
    /// C.
    capacity: f64,
    /// K.
    threshold: f64,
    /// The guard: what the time left is shortened by.
    guard: f64,
    /// W.
    window: f64,
    /// Z; none before the first update.
    behind: Option<f64>,
    /// F·W of the last window.
    marked_before: f64,
    /// τ as of the last acknowledgement.
    round_trip: f64,
    delivered: u32,
    marked: u32,
    /// The window under observation ends when this segment arrives.
    window_end: u32,
}

/// The early form begins with three segments and has two at least.
const EARLY_FIRST: f64 = 3.0;
const EARLY_LEAST: f64 = 2.0;
/// Shares of the gains in our form: V₂ + V₃ = V₁ = ½, so that a flow rests one round trip behind
/// and errors shrink by 0.7 in each.
const SHARES: [f64; 3] = [0.5, 0.4, 0.1];
/// The least of what is needed that a window is cut to in our form.
const LEAST_OF_NEEDED: f64 = 0.25;

impl DeadlineWindow {
    fn new(settings: &Mcp, setup: &FlowSetup, deadline: Instant) -> Self {
        let packet = f64::from(setup.payload) + f64::from(setup.overhead);
        let round_trip = setup.base_rtt.as_secs_f64();
        let mut law = Self {
            settings: settings.clone(),
            deadline,
            capacity: setup.line_rate.as_f64() / 8.0 / packet,
            threshold: (settings.dctcp.marking.as_f64() / packet).max(1.0),
            guard: if settings.is_published_law() { 0.0 } else { f64::from(settings.guard) * round_trip },
            window: if settings.early { EARLY_FIRST } else { f64::from(settings.dctcp.initial_window) },
            behind: None,
            marked_before: 0.0,
            round_trip,
            delivered: 0,
            marked: 0,
            window_end: 0,
        };
        if !settings.early && !settings.published {
            let needed = law.needed(setup.segments(), law.left(setup.start));
            if needed * round_trip < law.window {
                law.window = needed * round_trip;
                law.behind = Some(needed);
            }
        }
        law
    }

    /// The time until the deadline, none where it has passed.
    fn left(&self, now: Instant) -> f64 {
        if now < self.deadline { self.deadline.since(now).as_secs_f64() } else { 0.0 }
    }

    /// γ: the rate that is needed with `left` seconds.
    fn needed(&self, remaining: u32, left: f64) -> f64 {
        let needed = f64::from(remaining) / (left - self.guard).max(self.round_trip);
        if self.settings.is_published_law() { needed } else { needed.min(self.capacity) }
    }

    fn acknowledge(&mut self, ack: &Ack) {
        self.round_trip = ack.round_trip.as_secs_f64().max(1e-9);
        let (remaining, left) = (ack.end - ack.una, self.left(ack.now));
        if self.settings.early {
            return self.step_towards(remaining, left, ack.segments);
        }
        self.delivered += ack.segments;
        self.marked += if ack.marked { ack.segments } else { 0 };
        if ack.una < self.window_end {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.delivered.max(1));
        (self.delivered, self.marked) = (0, 0);
        self.window_end = ack.next;
        self.update(remaining, left, share);
    }

    /// The equations: `remaining` segments, `left` seconds, and the share of the last window that
    /// was marked.
    fn update(&mut self, remaining: u32, left: f64, share: f64) {
        let (time, capacity) = (self.round_trip, self.capacity);
        let needed = self.needed(remaining, left);
        let rate = self.window / time;
        let behind = self.behind.unwrap_or((needed - rate).max(0.0));
        self.behind = Some(behind);
        let Mcp { deadline_gain, queue_gain, price_gain, published, .. } = self.settings;
        let hopeless = if published { behind >= capacity } else { f64::from(remaining) > capacity * left };
        if remaining == 0 || left < time || hopeless {
            self.window = 1.0;
            return;
        }
        let marked = share * self.window;
        // The price has a pole where marks grow as fast as the link; an eighth of the link keeps it
        // finite.
        let spare = (capacity - (marked - self.marked_before) / time).max(capacity / 8.0);
        self.marked_before = marked;
        let push = behind * needed / (rate * rate);
        let (queue, price) = (self.threshold + marked, 1.0 / (spare * spare));
        let gain = |thousandths| f64::from(thousandths) / 1_000.0;
        let (v1, v2, v3) = (gain(deadline_gain), gain(queue_gain), gain(price_gain));
        let most = (capacity * time + self.threshold).max(1.0);
        self.window = if published {
            let step = time * (v1 * push - v2 * queue - v3 * price);
            (self.window + step).clamp(1.0, most)
        } else {
            let [s1, s2, s3] = SHARES;
            let queue = queue / self.threshold;
            let price = price * capacity * capacity;
            let step = needed * time * (s1 * v1 * push - s2 * v2 * queue - s3 * v3 * price);
            let least = (needed * time * LEAST_OF_NEEDED).min(1.0);
            (self.window + step.min(self.window)).clamp(least, most)
        };
        let most_behind = if published { f64::INFINITY } else { capacity };
        self.behind = Some((behind + needed - self.window / time).clamp(0.0, most_behind));
    }

    /// The early form: towards the target by a segment for each that was acknowledged.
    fn step_towards(&mut self, remaining: u32, left: f64, acknowledged: u32) {
        let target = if left > 0.0 {
            (self.needed(remaining, left) * self.round_trip).floor() + 1.0
        } else {
            EARLY_LEAST
        };
        let reach = f64::from(acknowledged);
        self.window = target.clamp(self.window - reach, self.window + reach).max(EARLY_LEAST);
    }

    fn gap(&self) -> Nanos {
        if self.settings.early { Nanos::ZERO } else { Nanos((self.round_trip / self.window * 1e9) as u64) }
    }
}

/// The window of one flow.
#[derive(Clone, Debug)]
pub struct Law(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Deadline(DeadlineWindow),
    Other(dctcp::Law),
}

/// What the law keeps of a deadline flow from one round trip to the next. Segments and seconds are
/// the units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pursuit {
    /// W.
    pub window: f64,
    /// Z; none before the first update.
    pub behind: Option<f64>,
    /// F·W of the last window.
    pub marked: f64,
}

impl Law {
    /// Returns what it keeps of a deadline flow, to compare with the same equations in other
    /// numbers; none for others.
    pub fn pursuit(&self) -> Option<Pursuit> {
        match &self.0 {
            Kind::Deadline(DeadlineWindow { window, behind, marked_before, .. }) => {
                Some(Pursuit { window: *window, behind: *behind, marked: *marked_before })
            }
            Kind::Other(_) => None,
        }
    }
}

impl WindowLaw for Law {
    const ECN: bool = true;
    const PACED: bool = true;

    fn window(&self) -> u32 {
        match &self.0 {
            Kind::Deadline(law) => law.window.ceil() as u32,
            Kind::Other(law) => law.window(),
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        match &mut self.0 {
            Kind::Deadline(law) => law.acknowledge(ack),
            Kind::Other(law) => law.on_ack(ack),
        }
    }

    fn on_loss(&mut self, ack: &Ack) {
        // A deadline flow's rate follows from what remains; losses are in that.
        if let Kind::Other(law) = &mut self.0 {
            law.on_loss(ack);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if let Kind::Other(law) = &mut self.0 {
            law.on_timeout(now);
        }
    }

    fn gap(&self) -> Nanos {
        match &self.0 {
            Kind::Deadline(law) => law.gap(),
            Kind::Other(_) => Nanos::ZERO,
        }
    }

    fn class(&self) -> u8 {
        match self.0 {
            Kind::Deadline(_) => 0,
            Kind::Other(_) => 1,
        }
    }
}

impl Transport for Mcp {
    type Extra = ();
    type Sender = WindowSender<Law>;
    type Receiver = WindowReceiver;
    type PortLogic = NoLogic;

    fn sender(&self, setup: &FlowSetup) -> Self::Sender {
        WindowSender::new(setup, self.law(setup), Reliability::tcp(self.dctcp.minimum_rto))
    }

    fn receiver(&self, setup: &FlowSetup) -> Self::Receiver {
        self.dctcp.receiver(setup)
    }

    fn port_logic(&self, _: &PortSetup) -> Self::PortLogic {
        NoLogic
    }

    fn needs(&self) -> SwitchNeeds {
        self.dctcp.needs()
    }

    fn classes(&self) -> u8 {
        2
    }
}

impl Definition for Mcp {
    const NAME: &'static str = "mcp";
    const TITLE: &'static str = "Karuna's MCP: deadline flows take the rate they need, in the highest class";
    const SOURCE: &'static str =
        "Karuna (SIGCOMM 2016) §4, by an ns-2 patch made with its first author; docs/protocols.md";
    const PARAMETERS: &'static [Parameter<Self>] = dctcp_parameters!(dctcp;
        Parameter {
            name: "deadline_gain",
            meaning: "V1, the weight of the deadline, in thousandths",
            field: |p| &mut p.deadline_gain,
        },
        Parameter {
            name: "queue_gain",
            meaning: "V2, the weight of the queue, in thousandths",
            field: |p| &mut p.queue_gain,
        },
        Parameter {
            name: "price_gain",
            meaning: "V3, the weight of the link's price, in thousandths",
            field: |p| &mut p.price_gain,
        },
        Parameter {
            name: "published",
            meaning: "the equations as published; false: ours, scaled so that the window answers within a few round trips",
            field: |p| &mut p.published,
        },
        Parameter {
            name: "guard",
            meaning: "round trips before its deadline at which a flow aims to be done; none under the published equations",
            field: |p| &mut p.guard,
        },
        Parameter {
            name: "early",
            meaning: "the authors' early form: one segment for each acknowledgement towards the rate needed",
            field: |p| &mut p.early,
        },
    );

    fn check(&self) -> Result<(), Complaint> {
        self.dctcp.check()
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::{BitsPerSec, Bytes, TaskId};

    use super::*;

    /// 10 Gbps in packets of 1,500 bytes: C = 833,333 segments a second; τ = 100 µs; K = 65.
    fn flow(settings: Mcp, segments: u64, deadline: Instant) -> DeadlineWindow {
        let setup = FlowSetup {
            flow: 0,
            size: Bytes(1_460 * segments),
            start: Instant::ZERO,
            deadline: Some(deadline),
            task: TaskId(0),
            task_size: Bytes(1_460 * segments),
            line_rate: BitsPerSec(10_000_000_000),
            base_rtt: Nanos(100_000),
            payload: 1_460,
            overhead: 40,
        };
        DeadlineWindow::new(&settings, &setup, deadline)
    }

    /// With 1,000 segments and 10 ms to go γ is 100,000 segments a second, and so is x with the
    /// window of 10.
    fn window(settings: Mcp) -> DeadlineWindow {
        flow(settings, 1_000, Instant(10_000_000))
    }

    /// Our form, without a guard.
    fn exact() -> Mcp {
        Mcp { published: false, guard: 0, ..Mcp::default() }
    }

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-5 * expected.abs()
    }

    #[test]
    fn the_window_follows_deadline_and_queue() {
        let mut law = window(exact());
        law.behind = Some(50_000.0);
        law.update(1_000, 0.01, 0.0);
        // Θ = 50,000·100,000/10¹⁰ = ½, so the step is 10·(0.25 − 0.4 − 0.1).
        assert!(close(law.window, 7.5), "{}", law.window);
        assert!(close(law.behind.unwrap(), 50_000.0 + 100_000.0 - 75_000.0));
    }

    #[test]
    fn marks_raise_the_price() {
        let mut law = window(exact());
        law.behind = Some(50_000.0);
        law.update(1_000, 0.01, 0.5);
        // Q = 65 + 5; marks grew by 50,000 a second, so λC² = (833,333/783,333)² = 1.13173.
        assert!(close(law.window, 10.0 + 10.0 * (0.25 - 0.4 * 70.0 / 65.0 - 0.113_173)), "{}", law.window);
    }

    #[test]
    fn as_published_it_hardly_moves_in_a_round_trip() {
        let mut law = window(Mcp::default());
        law.behind = Some(50_000.0);
        law.update(1_000, 0.01, 0.0);
        // 10⁻⁴·(½ − 65 − 1.44·10⁻¹²)
        assert!(close(law.window, 9.993_55), "{}", law.window);
        assert!(close(law.behind.unwrap(), 50_064.5));
    }

    #[test]
    fn it_comes_to_rest_at_the_rate_that_is_needed() {
        for start in [0.5, 10.0, 80.0] {
            let mut law = window(exact());
            law.window = start;
            // So much remains that the need is 100,000 a second throughout.
            (0..400).for_each(|_| law.update(1_000, 0.01, 0.0));
            assert!(close(law.window, 10.0), "from {start}: {}", law.window);
            assert!(close(law.behind.unwrap(), 100_000.0), "one round trip behind");
        }
    }

    #[test]
    fn a_flow_gives_up_without_time_or_hope() {
        let mut late = window(exact());
        late.update(5, 0.000_099, 0.0);
        assert!(close(late.window, 1.0));
        let mut hopeless = window(exact());
        hopeless.update(8_400, 0.01, 0.0);
        assert!(close(hopeless.window, 1.0), "8,333 segments are what the link carries");
        let mut published = window(Mcp::default());
        published.behind = Some(833_334.0);
        published.update(1_000, 0.01, 0.0);
        assert!(close(published.window, 1.0));
    }

    #[test]
    fn a_flow_that_is_nearly_done_goes_on_when_the_guard_is_all_that_is_left() {
        // Guard and time left are six round trips, in which the link carries 500 segments.
        let mut law = window(Mcp { guard: 6, ..exact() });
        law.update(400, 0.000_6, 0.0);
        assert!(law.window > 10.0, "{}", law.window);
        assert!(law.behind.unwrap() <= 833_334.0);
    }

    #[test]
    fn little_need_is_paced_and_the_early_form_is_not() {
        // Ten segments in a second: a thousandth of a segment in each round trip.
        let mut law = flow(exact(), 10, Instant(1_000_000_000));
        (0..400).for_each(|_| law.update(10, 1.0, 0.0));
        assert!(law.gap() > Nanos(90_000_000) && law.gap() < Nanos(110_000_000), "{:?}", law.gap());
        assert_eq!(window(Mcp { early: true, ..exact() }).gap(), Nanos::ZERO);
    }

    #[test]
    fn the_early_form_steps_towards_what_remains_over_the_time_left() {
        let mut law = window(Mcp { early: true, ..exact() });
        let mut step = |remaining, left| {
            law.step_towards(remaining, left, 1);
            law.window
        };
        // 1,000 segments in 10 ms are 10 in 100 µs, and one more.
        let windows: Vec<f64> = (0..10).map(|_| step(1_000, 0.01)).collect();
        assert!(close(windows[0], 4.0) && close(windows[7], 11.0) && close(windows[9], 11.0), "{windows:?}");
        assert!(close(step(1_000, 0.0), 10.0), "past the deadline it shrinks");
        for _ in 0..20 {
            step(1_000, 0.0);
        }
        assert!(close(step(1_000, 0.0), 2.0), "to two segments");
    }
}

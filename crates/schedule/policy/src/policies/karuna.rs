//! `karuna`: just enough for flows with deadlines, and the rest for everybody else.
//!
//! Serving deadline flows first and at full rate (EDF, D3) makes flows without deadline wait for
//! nothing: a deadline that is met early is worth no more than one just met. Karuna knows three
//! types of flow:
//!
//! | type | knows | level | rate |
//! |---|---|---|---|
//! | 1 | size and deadline | the highest | just enough: what remains over the time left |
//! | 2 | size | below, once by size (`sizes_known=true`) | fair inside the level |
//! | 3 | nothing | below, sinking with bytes sent | fair inside the level |
//!
//! # Type 1
//! The needed rate is a cap: MCP, the transport, aims at it and leaves the rest of the link free.
//! It is computed at a flow's arrival and every `update`; other flows' arrivals and ends do not
//! change it, and a flow that got its rate still needs the same. So that rounding does not move
//! every cap at every update, a cap is raised whenever it is too low, and lowered only by more than
//! 1/64. A flow whose deadline has passed, or needs more than the line rate, has given up: the cap
//! is lifted and it goes to the last level. Capped flows leave links idle on purpose; this policy
//! does not conserve work.
//!
//! Just enough is just late where bytes take time to arrive: what is sent up to the deadline
//! arrives behind it. `guard` is that much earlier to aim for. Bytes that flow need none; packets
//! need some round trips, and time for what is lost. Whether a flow gives up is still judged by the
//! deadline itself, as `mcp` does.
//!
//! # Left out
//! The packet level of MCP (ECN, price of the link: docs/protocols.md §1.2) belongs to a transport;
//! aging by timeouts needs packets, and is where a host's kernel carries the rule out
//! ([`Demotion`]). Of the eight queues one is type 1's, so seven levels and six thresholds are
//! left, and the last of a published table of seven is not used. Karuna chooses the thresholds of
//! types 2 and 3 together; `optimised` computes each for itself.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Bytes, Clairvoyant, Decision, Demotion, Discipline, Event, FlowId, Foresee, History, Instant,
    Nanos, Policy, Priority, Progress, Scope, Setting, Target, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition, Follows, OwnTransport, Paper};
use crate::support::thresholds::{DEFAULT_LOAD, Sorting, Thresholds};

/// Queues below that of the deadline flows.
const LEVELS: usize = 7;
/// Time-outs in a row after which a flow without deadline is lifted: each draws its own number
/// (docs/protocols.md §1.4).
const PATIENCE: core::ops::RangeInclusive<u32> = 2..=10;

/// Parameters of `karuna`.
#[derive(Clone)]
pub(crate) struct Karuna {
    sizes_known: bool,
    thresholds: Thresholds,
    load: Option<u32>,
    update: Nanos,
    guard: Nanos,
}

impl Default for Karuna {
    fn default() -> Self {
        Self {
            sizes_known: false,
            thresholds: Thresholds::WebSearch,
            load: Some(DEFAULT_LOAD),
            update: Nanos::from_millis(10),
            guard: Nanos::ZERO,
        }
    }
}

impl Definition for Karuna {
    const ABOUT: About = About {
        name: "karuna",
        title: "Just enough rate for deadline flows, the rest by thresholds of bytes",
        source: "Karuna (SIGCOMM 2016) §2.1, §2.2; docs/protocols.md §1, §2",
        paper: Some(Paper {
            system: "Karuna",
            venue: "SIGCOMM",
            year: 2016,
            follows: Follows::ReleasedCode,
            transport: OwnTransport::beside("mcp"),
        }),
        knows: "deadlines and sizes of the host's own deadline flows; bytes sent, or sizes, of its others",
        cost: "O(1) for a flow or threshold; O(deadline flows of the host) every update",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "sizes_known",
            meaning: "flows without deadline are of type 2 (level by size); false: type 3 (by bytes sent)",
            field: |p| &mut p.sizes_known,
        },
        Parameter {
            name: "thresholds",
            meaning: "bytes between the levels of flows without deadline: a PIAS table, computed, or listed",
            field: |p| &mut p.thresholds,
        },
        Parameter {
            name: "load",
            meaning: "load in per cent for which a table is read or thresholds are computed; none if listed",
            field: |p| &mut p.load,
        },
        Parameter {
            name: "update",
            meaning: "interval at which the needed rates of deadline flows are computed",
            field: |p| &mut p.update,
        },
        Parameter {
            name: "guard",
            meaning: "margin by which a flow aims to be done before its deadline; over packets, their time on the way",
            field: |p| &mut p.guard,
        },
    ];

    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        Complaint::unless(self.update > Nanos::ZERO, "update", "at least 1ns")?;
        self.thresholds.check_load(&mut self.load, given)
    }

    fn terms(&self) -> Terms {
        Terms { flow_events: true, work_conserving: false, ..Terms::strict(Scope::Host, Discipline::MaxMin) }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Instance {
            rule: self.rule(setting.history),
            update: self.update,
            guard: self.guard,
            line_rate: setting.line_rate,
            urgent: BTreeMap::new(),
            awake_at: None,
        }))
    }

    fn demotion(&self, history: &History) -> Option<Demotion> {
        Some(self.rule(history))
    }

    fn settle(&mut self, history: &History) {
        let sorting = self.sorting();
        self.thresholds.settle(&mut self.load, LEVELS, sorting, history);
    }
}

impl Karuna {
    fn rule(&self, history: &History) -> Demotion {
        let thresholds = self.thresholds.resolve(self.load, LEVELS, self.sorting(), history);
        Demotion { first: 1, thresholds, by_size: self.sizes_known, patience: PATIENCE }
    }

    fn sorting(&self) -> Sorting {
        if self.sizes_known { Sorting::BySize } else { Sorting::BySent }
    }
}

/// One host.
struct Instance {
    /// Where flows without deadline stand.
    rule: Demotion,
    update: Nanos,
    guard: Nanos,
    line_rate: BitsPerSec,
    /// Flows of type 1 that have not given up: deadline and cap.
    urgent: BTreeMap<FlowId, (Instant, BitsPerSec)>,
    /// Time at which the next update is due.
    awake_at: Option<Instant>,
}

/// The least rate that sends `remaining` by `deadline`; `None` where none does.
fn needed_rate(remaining: Bytes, now: Instant, deadline: Instant) -> Option<BitsPerSec> {
    let left = u128::from(deadline.since(now).0);
    let rate = (u128::from(remaining.0) * 8_000_000_000).checked_div(left)?;
    let exact = rate * left == u128::from(remaining.0) * 8_000_000_000;
    u64::try_from(rate + u128::from(!exact)).ok().map(BitsPerSec)
}

impl Instance {
    /// The cap of a flow of type 1; `None` where not even the line rate meets its deadline.
    fn cap(&self, remaining: Bytes, now: Instant, deadline: Instant) -> Option<BitsPerSec> {
        needed_rate(remaining, now, deadline).filter(|&rate| rate <= self.line_rate)?;
        let aim = Instant(deadline.0.saturating_sub(self.guard.0));
        let rate = needed_rate(remaining, now, aim).unwrap_or(self.line_rate);
        Some(rate.min(self.line_rate))
    }

    /// Puts a flow without deadline where it belongs.
    fn place(&self, flow: FlowId, view: &dyn Foresee, decision: &mut Decision) {
        let sent = view.flow_attained(flow);
        let size = self.rule.by_size.then(|| sent + view.flow_remaining(flow));
        let class = self.rule.class(&Progress { size, sent, lifts: 0 });
        decision.set_flow(flow, Priority::new(class, 0));
        let level = usize::from(class - self.rule.first);
        if let (false, Some(&next)) = (self.rule.by_size, self.rule.thresholds.get(level)) {
            decision.watch(Target::Flow(flow), next);
        }
    }

    fn give_up(&self, flow: FlowId, decision: &mut Decision) {
        decision.cap(flow, None);
        decision.set_flow(flow, Priority::new(self.rule.last(), 0));
    }

    /// A new flow of type 1.
    fn admit(
        &mut self,
        now: Instant,
        flow: FlowId,
        deadline: Instant,
        view: &dyn Foresee,
        decision: &mut Decision,
    ) {
        match self.cap(view.flow_remaining(flow), now, deadline) {
            None => self.give_up(flow, decision),
            Some(rate) => {
                decision.set_flow(flow, Priority::new(0, 0));
                decision.cap(flow, Some(rate));
                self.urgent.insert(flow, (deadline, rate));
                if self.awake_at.is_none() {
                    self.wake_after(now, decision);
                }
            }
        }
    }

    fn wake_after(&mut self, now: Instant, decision: &mut Decision) {
        self.awake_at = now.checked_add(self.update);
        if let Some(when) = self.awake_at {
            decision.wake_at(when);
        }
    }

    /// Computes all needed rates.
    fn refresh(&mut self, now: Instant, view: &dyn Foresee, decision: &mut Decision) {
        let mut urgent = core::mem::take(&mut self.urgent);
        urgent.retain(|&flow, (deadline, cap)| {
            let rate = self.cap(view.flow_remaining(flow), now, *deadline);
            match rate {
                None => self.give_up(flow, decision),
                Some(rate) if rate > *cap || rate.0 < cap.0 - cap.0 / 64 => {
                    *cap = rate;
                    decision.cap(flow, Some(rate));
                }
                Some(_) => {}
            }
            rate.is_some()
        });
        self.urgent = urgent;
        self.awake_at = None;
        if !self.urgent.is_empty() {
            self.wake_after(now, decision);
        }
    }
}

impl Clairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::FlowArrived(flow) => match view.coflow(view.flow(flow).coflow).deadline {
                Some(deadline) => self.admit(now, flow, deadline, view, decision),
                None => self.place(flow, view, decision),
            },
            Event::Reached(Target::Flow(flow)) => self.place(flow, view, decision),
            Event::FlowFinished(flow) => {
                self.urgent.remove(&flow);
            }
            Event::Wake => self.refresh(now, view, decision),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_deadline_flow_gets_just_enough_and_gives_up_when_that_is_too_much() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.facts_mut(coflow).deadline = Some(Instant(100 * MS));
        let flow = script.add_flow(coflow, 0, 1, 10_000_000);
        let mut karuna = drive("karuna");
        let start = karuna.at(0, Event::FlowArrived(flow), &script);
        assert_eq!(start.priorities, [(Target::Flow(flow), Priority::new(0, 0))]);
        assert_eq!(start.caps, [(flow, Some(BitsPerSec(800_000_000)))]);
        assert_eq!(start.wake_at, Some(Instant(10 * MS)));
        script.send(0, 1_000_000);
        let on_time = karuna.at(10 * MS, Event::Wake, &script);
        assert!(on_time.caps.is_empty(), "it got its rate, and needs the same still");
        let behind = karuna.at(50 * MS, Event::Wake, &script);
        assert_eq!(behind.caps, [(flow, Some(BitsPerSec(1_440_000_000)))]);
        let hopeless = karuna.at(99 * MS, Event::Wake, &script);
        assert_eq!(hopeless.caps, [(flow, None)]);
        assert_eq!(hopeless.priorities, [(Target::Flow(flow), Priority::new(7, 0))]);
        assert_eq!(hopeless.wake_at, None);
    }

    #[test]
    fn with_a_guard_it_aims_earlier_and_gives_up_no_sooner() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.facts_mut(coflow).deadline = Some(Instant(100 * MS));
        let flow = script.add_flow(coflow, 0, 1, 10_000_000);
        let mut karuna = drive("karuna:guard=20ms");
        let start = karuna.at(0, Event::FlowArrived(flow), &script);
        assert_eq!(start.caps, [(flow, Some(BitsPerSec(1_000_000_000)))], "80 ms are left to aim at");
        script.send(0, 9_000_000);
        let late = karuna.at(90 * MS, Event::Wake, &script);
        assert_eq!(
            late.caps,
            [(flow, Some(BitsPerSec(8_000_000_000)))],
            "past its aim it takes all there is"
        );
        let hopeless = karuna.at(100 * MS, Event::Wake, &script);
        assert_eq!(hopeless.caps, [(flow, None)]);
    }

    #[test]
    fn type_2_is_placed_once_and_type_3_sinks() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flow = script.add_flow(coflow, 0, 1, 5000);
        let arrived = Event::FlowArrived(flow);
        let sized = drive("karuna:thresholds=1KB/5KB/9KB,sizes_known=true").at(0, arrived, &script);
        assert_eq!(sized.priorities, [(Target::Flow(flow), Priority::new(2, 0))]);
        assert!(sized.watches.is_empty());
        let mut blind = drive("karuna:thresholds=1KB/5KB/9KB");
        let start = blind.at(0, arrived, &script);
        assert_eq!(start.priorities, [(Target::Flow(flow), Priority::new(1, 0))]);
        assert_eq!(start.watches, [(Target::Flow(flow), Bytes(1000))]);
        script.send(0, 1000);
        let sunk = blind.at(1, Event::Reached(Target::Flow(flow)), &script);
        assert_eq!(sunk.priorities, [(Target::Flow(flow), Priority::new(2, 0))]);
    }

    #[test]
    fn a_deadline_in_the_past_is_given_up_at_once() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.facts_mut(coflow).deadline = Some(Instant(5));
        let flow = script.add_flow(coflow, 0, 1, 1);
        let late = drive("karuna").at(5, Event::FlowArrived(flow), &script);
        assert_eq!(late.caps, [(flow, None)]);
        assert_eq!(late.wake_at, None);
    }

    #[test]
    fn needed_rates_round_up() {
        assert_eq!(needed_rate(Bytes(1), Instant(0), Instant(3)), Some(BitsPerSec(2_666_666_667)));
        assert_eq!(needed_rate(Bytes(1), Instant(3), Instant(3)), None);
    }
}

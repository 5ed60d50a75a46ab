//! `saath`: a coflow runs at all of its ports or at none, and the one in fewest others' way goes
//! first.
//!
//! Aalo's queues look at how much a coflow has sent, not at where. Saath adds the places:
//!
//! 1. **All or none.** A coflow whose flows run here and wait there gains nothing and holds up
//!    others. Coflows are taken in order, and one is *scheduled* if none of its ports is taken; it
//!    then takes all of them. What scheduled coflows leave goes to the others in the same order,
//!    flow by flow (the paper's work conservation).
//! 2. **Thresholds per flow.** A queue's threshold is split evenly between the flows of a coflow,
//!    and the first flow to send its part takes the coflow to the next queue: a wide coflow need
//!    not fill the threshold to be known for long.
//! 3. **Least contention first.** Inside a queue, the coflow with the fewest rivals goes first: who
//!    shares ports with few keeps few waiting. Ties go by id.
//! 4. **No starvation.** On coming to a queue, a coflow gets a deadline: `deadline_factor` ×
//!    coflows in the queue × the time that the queue's bytes take at line rate. Past it, it goes
//!    before all that are within theirs.
//!
//! # What differs from the paper
//! - Saath gives all flows of a scheduled coflow the same rate and lets another coflow use a port
//!   that is taken only in part. A policy here decides priorities, not rates (`contract`): flows of
//!   a scheduled coflow share max-min, each gets at least the equal rate, and a port in use is
//!   taken. The part that is left goes to those that wait.
//! - New coflows are placed at once, not at the next `sync`.
//! - For coflows some of whose flows have ended, the paper estimates what is left from the ended
//!   ones (§4.3, for stragglers and restarts); left out.
//!
//! The paper's text could not be had: this follows its abstract and what Philae and Aalo's
//! successors say of it (docs/protocols.md §6.6).
//!
//! # Measured
//! On the Facebook trace at 1048576 kbit/s thresholds per flow take the mean CCT from 37.7 to 35.9
//! s; all or none takes 0.03 s from it and least contention 0.002 s. A fluid that reassigns unused
//! capacity at once leaves little to be out of step with.
//!
//! # Invariants
//! No two scheduled coflows share a port. Every coflow becomes the first of all after a bounded
//! wait, and stays so until it has changed the queue, so none waits for ever. The wait grows with
//! the bytes of its queue and may be minutes, so [`Terms::starvation_free`], which is about steady
//! service, is not claimed. With all four ideas switched off this is `dclas:weighted=false`, and a
//! test holds that.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, Decision, Discipline, Event, FlowId, Instant, Nanos,
    NonClairvoyant, Observe, Policy, Priority, Scope, Setting, Target, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition, Follows, Paper};
use crate::support::contention::Contention;
use crate::support::ticks::tick_at_or_after;

/// Parameters of `saath`.
#[derive(Clone)]
pub(crate) struct Saath {
    queues: u32,
    factor: u32,
    first_threshold: Bytes,
    sync: Nanos,
    deadline_factor: u32,
    all_or_none: bool,
    per_flow: bool,
    least_contention: bool,
}

impl Default for Saath {
    fn default() -> Self {
        Self {
            queues: 10,
            factor: 10,
            first_threshold: Bytes(10_000_000),
            sync: Nanos::from_millis(8),
            deadline_factor: 2,
            all_or_none: true,
            per_flow: true,
            least_contention: true,
        }
    }
}

impl Definition for Saath {
    const ABOUT: About = About {
        name: "saath",
        title: "Coflows at all of their ports or at none, those that meet the fewest others first",
        source: "Saath (CoNEXT 2017) §3, §4",
        paper: Some(Paper {
            system: "Saath",
            venue: "CoNEXT",
            year: 2017,
            follows: Follows::SecondarySources,
            transport: None,
        }),
        knows: "the links of each coflow's flows and the bytes that each has sent, up to `sync` old",
        cost: "O(log links) for a flow; O(links used by active coflows) for a decision; O(flows) when a coflow changes the queue",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "queues", meaning: "number of queues (K)", field: |p| &mut p.queues },
        Parameter {
            name: "factor",
            meaning: "factor from each queue's threshold to the next (E)",
            field: |p| &mut p.factor,
        },
        Parameter {
            name: "first_threshold",
            meaning: "bytes at which a coflow leaves the highest queue (S)",
            field: |p| &mut p.first_threshold,
        },
        Parameter {
            name: "sync",
            meaning: "interval of the coordinator's decisions (delta); 0ms: at once",
            field: |p| &mut p.sync,
        },
        Parameter {
            name: "deadline_factor",
            meaning: "longest wait of a coflow, as a multiple of the time of its queue's coflows one after the other (d)",
            field: |p| &mut p.deadline_factor,
        },
        Parameter {
            name: "all_or_none",
            meaning: "a coflow goes first only if it gets all of its ports; false: at each port in turn",
            field: |p| &mut p.all_or_none,
        },
        Parameter {
            name: "per_flow",
            meaning: "thresholds are split between the flows of a coflow; false: all bytes count together",
            field: |p| &mut p.per_flow,
        },
        Parameter {
            name: "least_contention",
            meaning: "fewest rivals first inside a queue; false: first in, first out",
            field: |p| &mut p.least_contention,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((1..=1000).contains(&self.queues), "queues", "1 to 1000")?;
        Complaint::unless(self.factor >= 2, "factor", "at least 2")?;
        Complaint::unless(self.first_threshold > Bytes::ZERO, "first_threshold", "at least 1B")?;
        Complaint::unless(self.deadline_factor > 0, "deadline_factor", "at least 1")
    }

    fn terms(&self) -> Terms {
        Terms { flow_events: true, ..Terms::strict(Scope::Fabric, Discipline::MaxMin) }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let thresholds = std::iter::successors(Some(self.first_threshold), |last| {
            last.0.checked_mul(u64::from(self.factor)).map(Bytes)
        });
        Policy::NonClairvoyant(Box::new(Instance {
            thresholds: thresholds.take(self.queues as usize - 1).collect(),
            line_rate: setting.line_rate,
            contention: Contention::default(),
            counted: BTreeSet::new(),
            coflows: BTreeMap::new(),
            in_queue: vec![0; self.queues as usize],
            sunk: BTreeSet::new(),
            taken: vec![false; 2 * setting.ports as usize],
            decide_at: None,
            parameters: self.clone(),
        }))
    }

    fn go_live(&mut self, standard: &Self) {
        if self.sync == standard.sync {
            self.sync = Nanos::ZERO;
        }
    }
}

struct Instance {
    parameters: Saath,
    /// Upper ends of all queues but the last.
    thresholds: Vec<Bytes>,
    line_rate: BitsPerSec,
    contention: Contention,
    /// Flows that have arrived and are not over.
    counted: BTreeSet<FlowId>,
    coflows: BTreeMap<CoflowId, Active>,
    /// Number of active coflows in each queue.
    in_queue: Vec<u64>,
    /// Coflows of which something has sent its part since the last decision.
    sunk: BTreeSet<CoflowId>,
    /// For each link of a port, while deciding: whether a scheduled coflow uses it. These links
    /// come first in every fabric.
    taken: Vec<bool>,
    /// Time at which the next decision that something has asked for is due.
    decide_at: Option<Instant>,
}

/// An active coflow.
#[derive(Debug, Default)]
struct Active {
    queue: usize,
    deadline: Instant,
    /// Flows that have arrived.
    width: u64,
    /// The bytes of its longest flow that has ended.
    longest_ended: Bytes,
    given: Option<Priority>,
}

/// Fewest rivals first, then by CoflowId, as in `dclas`.
fn order(rivals: u32, facts: &CoflowFacts) -> u64 {
    let parts =
        [u64::from(rivals.min(0xffff)), u64::from(facts.number), u64::from(facts.internal.min(0xffff))];
    parts[0] << 48 | parts[1] << 16 | parts[2]
}

impl Instance {
    /// Puts `coflow` into the queue that its bytes say, and watches for the next.
    fn place(&mut self, now: Instant, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        let Some(active) = self.coflows.get(&coflow) else { return };
        let sent = if self.parameters.per_flow {
            let mut longest = active.longest_ended;
            view.flows(coflow, &mut |flow| longest = longest.max(view.flow_attained(flow)));
            Bytes(longest.0.saturating_mul(active.width))
        } else {
            view.attained(coflow)
        };
        let queue = self.thresholds.partition_point(|&threshold| threshold <= sent);
        if queue != active.queue || active.given.is_none() {
            let (before, deadline) = (active.queue, self.deadline(now, queue));
            self.in_queue[before] -= 1;
            self.in_queue[queue] += 1;
            let active = self.coflows.get_mut(&coflow).expect("it has just been there");
            (active.queue, active.deadline) = (queue, deadline);
        }
        self.watch(coflow, view, decision);
    }

    fn watch(&self, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        let active = &self.coflows[&coflow];
        let Some(&threshold) = self.thresholds.get(active.queue) else { return };
        if self.parameters.per_flow {
            let part = Bytes(threshold.0.div_ceil(active.width.max(1)));
            view.flows(coflow, &mut |flow| decision.watch(Target::Flow(flow), part));
        } else {
            decision.watch(Target::Coflow(coflow), threshold);
        }
    }

    /// By when a coflow that comes to `queue` now should have left it.
    fn deadline(&self, now: Instant, queue: usize) -> Instant {
        let factor = u64::from(self.parameters.factor);
        let last = self.thresholds.last().map_or(self.parameters.first_threshold.0, |last| last.0);
        let upper = self.thresholds.get(queue).map_or(last.saturating_mul(factor), |upper| upper.0);
        let lower = queue.checked_sub(1).map_or(0, |above| self.thresholds[above].0);
        let alone = Bytes(upper - lower).time_at(self.line_rate).unwrap_or(Nanos::MAX);
        let others = self.in_queue[queue];
        let wait = alone.0.saturating_mul(others.max(1));
        Instant(now.0.saturating_add(wait.saturating_mul(self.parameters.deadline_factor.into())))
    }

    /// Asks for a decision at the next tick, or takes it at once.
    fn ask(&mut self, now: Instant, view: &dyn Observe, decision: &mut Decision) {
        let sync = self.parameters.sync;
        let tick = if sync == Nanos::ZERO { now } else { tick_at_or_after(now, sync) };
        if tick == now {
            self.decide(now, view, decision);
        } else if self.decide_at.is_none_or(|at| at > tick) {
            self.decide_at = Some(tick);
            decision.wake_at(tick);
        }
    }

    /// Chooses who is scheduled, and tells those for whom something has changed; or does so at the
    /// next event.
    fn decide(&mut self, now: Instant, view: &dyn Observe, decision: &mut Decision) {
        if decision.put_off() {
            return;
        }
        for coflow in std::mem::take(&mut self.sunk) {
            self.place(now, coflow, view, decision);
        }
        let (queues, ends) = (self.thresholds.len() as u16 + 1, self.taken.len());
        self.taken.fill(false);
        let mut wake = Instant(u64::MAX);
        for (class, order, coflow) in self.in_turn(now, view) {
            let ports = || self.contention.links(coflow).filter(|&link| link < ends);
            let scheduled = !self.parameters.all_or_none || !ports().any(|port| self.taken[port]);
            if scheduled {
                let ports = self.contention.links(coflow).filter(|&link| link < ends);
                ports.for_each(|port| self.taken[port] = true);
            }
            let active = self.coflows.get_mut(&coflow).expect("those in turn are active");
            let class = if scheduled { class } else { class + 1 + queues };
            let priority = Priority::new(class, order);
            if active.given.replace(priority) != Some(priority) {
                decision.set_coflow(coflow, priority);
            }
            if active.deadline > now {
                wake = wake.min(active.deadline);
            }
        }
        self.decide_at = (wake < Instant(u64::MAX)).then_some(wake);
        if let Some(at) = self.decide_at {
            decision.wake_at(at);
        }
    }

    /// The active coflows in the order in which ports are given out: class, order inside it, id.
    /// Those past their deadline are of class 0, the queues follow.
    fn in_turn(&self, now: Instant, view: &dyn Observe) -> Vec<(u16, u64, CoflowId)> {
        let key = |(&coflow, active): (&CoflowId, &Active)| {
            if active.deadline <= now {
                return (0, active.deadline.0, coflow);
            }
            let rivals = if self.parameters.least_contention { self.contention.rivals(coflow) } else { 0 };
            (1 + active.queue as u16, order(rivals, &view.coflow(coflow)), coflow)
        };
        let mut turn: Vec<_> = self.coflows.iter().map(key).collect();
        turn.sort_unstable();
        turn
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => {
                let mut active = Active::default();
                view.flows(coflow, &mut |flow| {
                    self.counted.insert(flow);
                    self.contention.add(coflow, &view.path(flow));
                    active.width += 1;
                });
                self.in_queue[active.queue] += 1;
                if let Some(former) = self.coflows.insert(coflow, active) {
                    self.in_queue[former.queue] -= 1;
                }
                self.place(now, coflow, view, decision);
                self.decide(now, view, decision);
            }
            Event::FlowArrived(flow) => {
                let facts = view.flow(flow);
                // The first wave was counted when the coflow arrived.
                if !self.counted.insert(flow) {
                    return;
                }
                self.contention.add(facts.coflow, &view.path(flow));
                if let Some(active) = self.coflows.get_mut(&facts.coflow) {
                    active.width += 1;
                }
                self.sunk.insert(facts.coflow);
                self.ask(now, view, decision);
            }
            Event::FlowFinished(flow) => {
                let facts = view.flow(flow);
                self.counted.remove(&flow);
                if let Some(active) = self.coflows.get_mut(&facts.coflow) {
                    active.longest_ended = active.longest_ended.max(view.flow_attained(flow));
                }
                if self.contention.remove(facts.coflow, &view.path(flow)) {
                    self.ask(now, view, decision);
                }
            }
            Event::CoflowFinished(coflow) => {
                self.contention.forget(coflow);
                if let Some(over) = self.coflows.remove(&coflow) {
                    self.in_queue[over.queue] -= 1;
                }
                self.sunk.remove(&coflow);
                self.ask(now, view, decision);
            }
            Event::Reached(target) => {
                let coflow = match target {
                    Target::Coflow(coflow) => coflow,
                    Target::Flow(flow) => view.flow(flow).coflow,
                };
                if self.coflows.contains_key(&coflow) && self.sunk.insert(coflow) {
                    self.ask(now, view, decision);
                }
            }
            Event::Wake => {
                self.decide_at = None;
                self.decide(now, view, decision);
            }
            Event::Received { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};

    fn set(coflow: CoflowId, class: u16, order: u64) -> (Target, Priority) {
        (Target::Coflow(coflow), Priority::new(class, order))
    }

    /// The last priority of each coflow, in the order in which they were decided.
    fn classes(decision: &Decision) -> Vec<(Target, u16)> {
        decision.priorities.iter().map(|&(target, priority)| (target, priority.class)).collect()
    }

    /// The situation of the paper's first figure: the coflow that came first needs a port that
    /// another holds, so the one behind it, whose ports are free, is scheduled in its place.
    #[test]
    fn a_coflow_that_cannot_have_all_ports_does_not_hold_the_ones_it_could_have() {
        let mut script = Script::new();
        let [a, b, c] = [0, 1, 2].map(|task| script.add_coflow(task, 0));
        script.add_flow(a, 0, 5, 100);
        script.add_flow(b, 0, 6, 100);
        script.add_flow(b, 1, 7, 100);
        script.add_flow(c, 1, 8, 100);
        let mut saath = drive("saath:least_contention=false");
        saath.at(0, Event::CoflowArrived(a), &script);
        let second = saath.at(0, Event::CoflowArrived(b), &script);
        assert_eq!(second.priorities, [set(b, 12, 1 << 16)], "a holds port 0; 11 classes of those scheduled");
        let third = saath.at(0, Event::CoflowArrived(c), &script);
        assert_eq!(third.priorities, [set(c, 1, 2 << 16)], "port 1 is free although b is before c");
    }

    #[test]
    fn the_coflow_with_fewest_rivals_goes_first() {
        let mut script = Script::new();
        let [middle, left, right] = [0, 1, 2].map(|task| script.add_coflow(task, 0));
        script.add_flow(middle, 0, 5, 100);
        script.add_flow(middle, 1, 6, 100);
        script.add_flow(left, 0, 7, 100);
        script.add_flow(right, 1, 8, 100);
        let mut saath = drive("saath");
        saath.at(0, Event::CoflowArrived(middle), &script);
        saath.at(0, Event::CoflowArrived(left), &script);
        let last = saath.at(0, Event::CoflowArrived(right), &script);
        // One rival each for left and right, two for the middle one.
        let [one, two] = [1 << 48, 2 << 48];
        let all = [set(left, 1, one | 1 << 16), set(right, 1, one | 2 << 16), set(middle, 12, two)];
        assert_eq!(last.priorities, all);
    }

    #[test]
    fn one_flow_that_has_sent_its_part_takes_the_coflow_down() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flows = [1, 2, 3, 4].map(|src| script.add_flow(coflow, src, 0, 1 << 40));
        let mut saath = drive("saath:first_threshold=8KB,sync=0ms,deadline_factor=1000000000");
        let arrived = saath.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!(arrived.watches, flows.map(|flow| (Target::Flow(flow), Bytes(2_000))));
        script.send(2, 2_000);
        let sunk = saath.at(1, Event::Reached(Target::Flow(flows[2])), &script);
        assert_eq!(sunk.priorities, [set(coflow, 2, 0)], "2 of 8 KB are sent, but by one flow of four");
        assert_eq!(sunk.watches, flows.map(|flow| (Target::Flow(flow), Bytes(20_000))));
    }

    #[test]
    fn decisions_wait_for_the_next_tick() {
        let mut script = Script::new();
        let (a, b) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        let flow = script.add_flow(a, 0, 5, 100);
        script.add_flow(b, 0, 6, 100);
        let mut saath = drive("saath");
        saath.at(0, Event::CoflowArrived(a), &script);
        saath.at(0, Event::CoflowArrived(b), &script);
        script.send(0, 100);
        let ended = saath.at(3_000_000, Event::FlowFinished(flow), &script);
        assert_eq!((ended.priorities.len(), ended.wake_at), (0, Some(Instant(8_000_000))));
        saath.at(3_000_000, Event::CoflowFinished(a), &script);
        let tick = saath.at(8_000_000, Event::Wake, &script);
        assert_eq!(classes(&tick), [(Target::Coflow(b), 1)], "its port is free now");
    }

    #[test]
    fn who_has_waited_past_the_deadline_goes_first() {
        let mut script = Script::new();
        let (a, b) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.add_flow(a, 0, 5, 1 << 40);
        script.add_flow(b, 0, 6, 1 << 40);
        let mut saath = drive("saath:sync=0ms");
        saath.at(0, Event::CoflowArrived(a), &script);
        let second = saath.at(0, Event::CoflowArrived(b), &script);
        // 10 MB at a byte a nanosecond: 10 ms for each coflow of the queue, twice.
        assert_eq!(second.wake_at, Some(Instant(20_000_000)));
        let first = saath.at(20_000_000, Event::Wake, &script);
        assert_eq!(classes(&first), [(Target::Coflow(a), 0)]);
        assert_eq!(first.wake_at, Some(Instant(40_000_000)));
        let late = saath.at(40_000_000, Event::Wake, &script);
        assert_eq!(late.priorities, [set(b, 11, 40_000_000)], "a is before it, and still has the port");
    }

    #[test]
    fn a_port_is_free_when_the_last_flow_there_ends() {
        let mut script = Script::new();
        let (a, b) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        let short = script.add_flow(a, 0, 5, 100);
        script.add_flow(a, 1, 5, 200);
        script.add_flow(b, 0, 6, 100);
        let mut saath = drive("saath:sync=0ms");
        saath.at(0, Event::CoflowArrived(a), &script);
        let waits = saath.at(0, Event::CoflowArrived(b), &script);
        assert_eq!(classes(&waits), [(Target::Coflow(a), 1), (Target::Coflow(b), 12)]);
        script.send(0, 100);
        let runs = saath.at(5, Event::FlowFinished(short), &script);
        assert_eq!(classes(&runs), [(Target::Coflow(a), 1), (Target::Coflow(b), 1)]);
    }
}

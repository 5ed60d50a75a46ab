//! A policy that only tests have: it decides at random whatever the contract allows.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{
    BitsPerSec, Bytes, ClassShares, CoflowId, Decision, Discipline, Event, Excess, FlowId, Instant, Message,
    NonClairvoyant, Observe, Payload, Policy, PolicyFactory, Priority, Scope, Setting, Target, Terms,
};

/// Decides at random, but as a function of what happened and not of the order in which simultaneous
/// things are told, so that two engines that agree on what happens get the same decisions.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    pub(crate) scope: Scope,
    pub(crate) discipline: Discipline,
    pub(crate) weights: Option<Excess>,
    pub(crate) caps: bool,
    pub(crate) seed: u64,
}

impl PolicyFactory for Scripted {
    fn terms(&self) -> Terms {
        let shares = match self.weights {
            None => ClassShares::Strict,
            Some(excess) => ClassShares::Weighted { weights: vec![4, 2, 1], excess },
        };
        Terms {
            scope: self.scope,
            discipline: self.discipline,
            shares,
            flow_events: true,
            work_conserving: !self.caps,
            starvation_free: false,
            ticks: None,
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Script {
            settings: self.clone(),
            line_rate: setting.line_rate,
            there: BTreeSet::new(),
            counts: BTreeMap::new(),
        }))
    }
}

struct Script {
    settings: Scripted,
    line_rate: BitsPerSec,
    there: BTreeSet<CoflowId>,
    /// Number of times that something has happened to a target, so that each time is another draw.
    counts: BTreeMap<(u8, u32), u64>,
}

const WAKE: u8 = 0;
const FINISHED: u8 = 1;
const COFLOW: u8 = 2;
const FLOW: u8 = 3;

impl Script {
    /// A number below `below`, drawn for something that happened.
    fn draw(&self, what: u8, id: u32, count: u64, below: u64) -> u64 {
        let mut mixed = self.settings.seed ^ (u64::from(what) << 56) ^ (u64::from(id) << 24) ^ count;
        for _ in 0..3 {
            mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        (mixed >> 20) % below
    }

    fn count(&mut self, what: u8, id: u32) -> u64 {
        let count = self.counts.entry((what, id)).or_default();
        *count += 1;
        *count
    }

    fn priority(&self, what: u8, id: u32, count: u64) -> Priority {
        let drawn = self.draw(what, id, count, 9);
        Priority::new((drawn / 3) as u16, drawn % 3)
    }

    fn watch(&self, what: u8, id: u32, count: u64, attained: Bytes) -> Bytes {
        let step = [1, 1_000, 125_000, 1_000_000][self.draw(what, id, count, 4) as usize];
        Bytes((attained.0 / step + 1) * step)
    }

    fn wake(&mut self, now: Instant, decision: &mut Decision) {
        const PERIOD: u64 = 3_000_000;
        decision.wake_at(Instant((now.0 / PERIOD + 1) * PERIOD));
    }

    fn arrived(&mut self, now: Instant, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        self.there.insert(coflow);
        if self.draw(COFLOW, coflow.0, 0, 4) > 0 {
            decision.set_coflow(coflow, self.priority(COFLOW, coflow.0, 0));
        }
        decision.watch(Target::Coflow(coflow), self.watch(COFLOW, coflow.0, 0, Bytes(0)));
        self.wake(now, decision);
        if self.settings.scope == Scope::Host {
            let mut receivers = BTreeSet::new();
            view.flows(coflow, &mut |flow| {
                receivers.insert(view.flow(flow).dst);
            });
            for to in receivers {
                decision.send(to, said(DESIRED, coflow, self.draw(COFLOW, coflow.0, 7, 3)));
            }
        }
    }

    /// Returns whether flows cannot have priorities of their own.
    fn orders_coflows(&self) -> bool {
        matches!(self.settings.discipline, Discipline::Greedy | Discipline::InTurn | Discipline::Madd)
    }

    fn flow_arrived(&mut self, flow: FlowId, decision: &mut Decision) {
        if self.settings.scope != Scope::Link {
            if !self.orders_coflows() && self.draw(FLOW, flow.0, 0, 4) == 0 {
                decision.set_flow(flow, self.priority(FLOW, flow.0, 0));
            }
            if self.draw(FLOW, flow.0, 1, 3) == 0 {
                decision.watch(Target::Flow(flow), self.watch(FLOW, flow.0, 2, Bytes(0)));
            }
        }
        if self.settings.caps && self.draw(FLOW, flow.0, 3, 3) == 0 {
            // A third of a gigabit per second is not a whole number of bits: sums of such caps come
            // within a millibyte of round amounts, where each engine may take them for reached or
            // not. Halves of halves are exact.
            let halved = self.draw(FLOW, flow.0, 4, 4);
            decision.cap(flow, Some(BitsPerSec(self.line_rate.0 >> halved)));
        }
    }

    fn reached(&mut self, target: Target, view: &dyn Observe, decision: &mut Decision) {
        match target {
            Target::Coflow(coflow) if self.there.contains(&coflow) => {
                let count = self.count(COFLOW, coflow.0);
                decision.set_coflow(coflow, self.priority(COFLOW, coflow.0, count));
                if count < 20 {
                    let next = self.watch(COFLOW, coflow.0, count, view.attained(coflow));
                    decision.watch(target, next);
                }
            }
            Target::Coflow(_) => {}
            Target::Flow(flow) => {
                let count = self.count(FLOW, flow.0);
                if !self.orders_coflows() {
                    decision.set_flow(flow, self.priority(FLOW, flow.0, count));
                }
                decision.cap(flow, None);
                if count < 5 {
                    decision.watch(target, self.watch(FLOW, flow.0, count, view.flow_attained(flow)));
                }
            }
        }
    }

    fn woken(&mut self, now: Instant, decision: &mut Decision) {
        let count = self.count(WAKE, 0);
        for &coflow in &self.there {
            if self.draw(WAKE, coflow.0, count, 2) == 0 {
                decision.set_coflow(coflow, self.priority(WAKE, coflow.0, count));
            }
        }
        // An engine that gets stuck is to fail, not to be woken for ever.
        if !self.there.is_empty() && count < 10_000 {
            self.wake(now, decision);
        }
    }
}

impl NonClairvoyant for Script {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.arrived(now, coflow, view, decision),
            Event::FlowArrived(flow) => self.flow_arrived(flow, decision),
            Event::FlowFinished(flow) => {
                let coflow = view.flow(flow).coflow;
                let count = self.count(FINISHED, coflow.0);
                if self.there.contains(&coflow) && self.draw(FINISHED, coflow.0, count, 3) == 0 {
                    decision.set_coflow(coflow, self.priority(FINISHED, coflow.0, count));
                }
            }
            Event::CoflowFinished(coflow) => {
                self.there.remove(&coflow);
            }
            Event::Reached(target) => self.reached(target, view, decision),
            Event::Wake => self.woken(now, decision),
            Event::Received { from, message: Message { coflow, payload } } => match payload.number() {
                Some((DESIRED, order)) => decision.send(from, said(FEEDBACK, coflow, (order + 1) % 3)),
                Some((_, order)) => decision.set_coflow(coflow, Priority::new(order as u16, order)),
                None => panic!("nothing else is said"),
            },
        }
    }
}

/// The kinds of messages.
const DESIRED: u8 = 0;
const FEEDBACK: u8 = 1;

fn said(kind: u8, coflow: CoflowId, order: u64) -> Message {
    Message { coflow, payload: Payload::of_number(kind, order) }
}

//! `dclas`: Aalo's discretised, coflow-aware least attained service.
//!
//! All coflows start in the highest of K queues and sink as the bytes that they have sent
//! *anywhere* pass thresholds Q₁, E·Q₁, E²·Q₁ …; inside a queue the order is first in, first out by
//! CoflowId, so coflows of like size do not fall back to fair sharing, which continuous LAS does
//! (Aalo §B). Queues share each link by weights K … 1, or strictly.
//!
//! # CoflowIds
//! A CoflowId is `external.internal` (Pseudocode 2): the task's task-id, and inside the task 0 for
//! a coflow that depends on no other, else one more than the largest of those that it depends on,
//! behind a barrier or side by side. So where coflows of one task contend, the one that another
//! waits for goes first (§5.1). Coflows of a task with the same number are not told apart (§9):
//! they share.
//!
//! # Staleness
//! Agents report every Δ (`sync`) and go by what they were last told. What has been sent is
//! therefore looked at only at multiples of Δ: a coflow that crosses a threshold is demoted at the
//! first multiple at or after the crossing. A new coflow does not wait: an agent that does not know
//! it yet treats it as in the highest queue, where it belongs. Δ = 0 demotes at the very byte.
//! Polling every Δ would give the same decisions; the watch on the next threshold finds the few
//! intervals in which something changes, so a run costs its crossings and not its length over Δ.
//!
//! Aalo's released code has Δ = 80 ms, strict queues, no order inside a queue, and counts a whole
//! DAG's bytes. Here the paper is followed: `aalo` and `dclas` have its parameters. `order=none`
//! leaves the order out, so that coflows of a queue share. With `at=sender` each host goes by what
//! a coflow has sent from it, and nothing is coordinated: the counterpart that Aalo §7.2.1 compares
//! with. With `at=link` senders and receivers each go by their own counts, and disagree. How much
//! that costs depends on what becomes of the part of a link that a flow cannot use, since its other
//! link holds it back: with `conserving=false` it is lost. Strict queues at links could then wait
//! for each other for ever; with weights the oldest coflow of all has a part everywhere.
//!
//! # Names of ours
//! Settings that measurement found better than the paper's on some trace go into `NAMES`, with the
//! trace and the gain.

use cavalcade_model::{
    Bytes, ClassShares, CoflowId, Decision, Discipline, Event, Excess, Instant, Nanos, NonClairvoyant,
    Observe, Policy, Priority, Scope, Setting, Target, Terms,
};
use cavalcade_spec::{Choice, Complaint, Parameter};

use crate::definition::{About, CONSERVING, Definition, Follows, Named, Paper};
use crate::support::ticks::tick_at_or_after;

/// Parameters of `dclas`.
#[derive(Clone)]
pub(crate) struct Dclas {
    queues: u32,
    factor: u32,
    first_threshold: Bytes,
    spacing: Spacing,
    weighted: bool,
    excess: Excess,
    sync: Nanos,
    order: Order,
    at: At,
    conserving: bool,
}

/// The distance from each threshold to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    /// Each is `factor` times the one before (the paper's).
    Factor,
    /// All queues are as large as the first (Aalo Fig 12d).
    Even,
}

impl Choice for Spacing {
    const WORDS: &'static [(&'static str, Self)] = &[("factor", Spacing::Factor), ("even", Spacing::Even)];
}

/// The order inside a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// First in, first out by CoflowId (the paper's).
    Arrival,
    /// None: coflows of a queue share.
    None,
}

impl Choice for Order {
    const WORDS: &'static [(&'static str, Self)] = &[("arrival", Order::Arrival), ("none", Order::None)];
}

/// The counts that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Those of the whole fabric.
    Fabric,
    /// Those of each sender alone.
    Sender,
    /// Those of each link alone.
    Link,
}

impl Choice for At {
    const WORDS: &'static [(&'static str, Self)] =
        &[("fabric", At::Fabric), ("sender", At::Sender), ("link", At::Link)];
}

impl Default for Dclas {
    fn default() -> Self {
        Self {
            queues: 10,
            factor: 10,
            first_threshold: Bytes(10_000_000),
            spacing: Spacing::Factor,
            weighted: true,
            excess: Excess::Weighted,
            sync: Nanos::from_millis(10),
            order: Order::Arrival,
            at: At::Fabric,
            conserving: true,
        }
    }
}

impl Definition for Dclas {
    const ABOUT: About = About {
        name: "dclas",
        title: "Coflows sink through queues with the bytes they have sent, FIFO inside each",
        source: "Aalo §4.4, Pseudocode 1; §6.2 for the choice of sync",
        paper: None,
        knows: "the bytes that each coflow has sent over the whole fabric, up to `sync` old",
        cost: "O(1) for each coflow and each threshold that it crosses",
    };

    const NAMES: &'static [Named] = &[
        Named {
            name: "aalo",
            title: "Coflows sink through weighted queues with the bytes they have sent, FIFO inside each (D-CLAS)",
            source: "Aalo (SIGCOMM 2015) §4.4, Pseudocode 1; §6.2 for the choice of sync",
            paper: Some(Paper {
                system: "Aalo",
                venue: "SIGCOMM",
                year: 2015,
                follows: Follows::Text,
                transport: None,
            }),
            settings: "",
        },
        Named {
            name: "dclas-fine",
            title: "Many close, strict queues: mean CCT 28 s against 37 s on the Facebook trace, 188 against 189 s on a D-CAS-like one",
            source: "our variant of Aalo",
            paper: None,
            settings: "queues=24,factor=2,first_threshold=1MiB,weighted=false",
        },
    ];

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "queues", meaning: "number of queues (K)", field: |p| &mut p.queues },
        Parameter {
            name: "factor",
            meaning: "factor from each queue's threshold to the next (E)",
            field: |p| &mut p.factor,
        },
        Parameter {
            name: "first_threshold",
            meaning: "bytes at which a coflow leaves the highest queue (Q1)",
            field: |p| &mut p.first_threshold,
        },
        Parameter {
            name: "spacing",
            meaning: "thresholds: each a factor of the one before (factor), or, whatever the factor, queues of equal size (even)",
            field: |p| &mut p.spacing,
        },
        Parameter {
            name: "weighted",
            meaning: "queues share by weights K to 1; false: strictly",
            field: |p| &mut p.weighted,
        },
        Parameter {
            name: "excess",
            meaning: "receiver of what a queue leaves of its weighted share: the others by weight, or the highest",
            field: |p| &mut p.excess,
        },
        Parameter {
            name: "sync",
            meaning: "interval of coordination (delta); 0ms: at once",
            field: |p| &mut p.sync,
        },
        Parameter {
            name: "order",
            meaning: "order inside a queue: first in, first out (arrival), or none, so that coflows of a queue share",
            field: |p| &mut p.order,
        },
        Parameter {
            name: "at",
            meaning: "scope of counts: the whole fabric, or each sender or each link alone",
            field: |p| &mut p.at,
        },
        Parameter { name: "conserving", meaning: CONSERVING, field: |p| &mut p.conserving },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((1..=1000).contains(&self.queues), "queues", "1 to 1000")?;
        Complaint::unless(self.factor >= 2, "factor", "at least 2")?;
        Complaint::unless(self.first_threshold > Bytes::ZERO, "first_threshold", "at least 1B")?;
        let at_links = self.at == At::Link;
        let one = !at_links || self.weighted != self.conserving;
        Complaint::unless(
            one,
            "at",
            "fabric or sender, or link with either weighted=false or conserving=false",
        )
    }

    fn terms(&self) -> Terms {
        let weighted =
            || ClassShares::Weighted { weights: (1..=self.queues).rev().collect(), excess: self.excess };
        Terms {
            scope: match self.at {
                At::Fabric => Scope::Fabric,
                At::Sender => Scope::Host,
                At::Link => Scope::Link,
            },
            discipline: if self.conserving { Discipline::MaxMin } else { Discipline::EvenParts },
            shares: if self.weighted { weighted() } else { ClassShares::Strict },
            flow_events: false,
            // With weights, what is reserved for a queue that then cannot use it may stay free.
            work_conserving: !self.weighted && self.conserving,
            starvation_free: self.weighted,
            ticks: None,
        }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        let first = self.first_threshold;
        let thresholds = std::iter::successors(Some(first), |last| match self.spacing {
            Spacing::Factor => last.0.checked_mul(u64::from(self.factor)).map(Bytes),
            Spacing::Even => last.0.checked_add(first.0).map(Bytes),
        });
        Policy::NonClairvoyant(Box::new(Instance {
            thresholds: thresholds.take(self.queues as usize - 1).collect(),
            sync: self.sync,
            order: self.order,
            crossed: Vec::new(),
        }))
    }

    /// A coflow that has sent less than its share of the first threshold at every host is below the
    /// threshold in all.
    fn quiet(&self, ports: u32) -> Bytes {
        Bytes(self.first_threshold.0 / u64::from(ports.max(1)))
    }

    fn go_live(&mut self, standard: &Self) {
        if self.sync == standard.sync {
            self.sync = Nanos::ZERO;
        }
    }
}

struct Instance {
    /// Upper ends of all queues but the last.
    thresholds: Vec<Bytes>,
    sync: Nanos,
    order: Order,
    /// Coflows that have crossed a threshold since agents last talked.
    crossed: Vec<CoflowId>,
}

impl Instance {
    /// Puts `coflow` into the queue that its bytes say, and watches for the next.
    fn place(&self, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        let attained = view.attained(coflow);
        let queue = self.thresholds.partition_point(|&threshold| threshold <= attained);
        let facts = view.coflow(coflow);
        let id = match self.order {
            Order::Arrival => u64::from(facts.number) << 32 | u64::from(facts.internal),
            Order::None => 0,
        };
        decision.set_coflow(coflow, Priority::new(queue as u16, id));
        if let Some(&threshold) = self.thresholds.get(queue) {
            decision.watch(Target::Coflow(coflow), threshold);
        }
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => self.place(coflow, view, decision),
            Event::Reached(Target::Coflow(coflow)) => {
                let tick = if self.sync == Nanos::ZERO { now } else { tick_at_or_after(now, self.sync) };
                if tick == now {
                    self.place(coflow, view, decision);
                } else {
                    self.crossed.push(coflow);
                    decision.wake_at(tick);
                }
            }
            Event::Wake => {
                for coflow in std::mem::take(&mut self.crossed) {
                    self.place(coflow, view, decision);
                }
            }
            Event::CoflowFinished(coflow) => self.crossed.retain(|&crossed| crossed != coflow),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};

    fn one(size: u64) -> (Script, CoflowId, Target) {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        script.add_flow(coflow, 0, 1, size);
        (script, coflow, Target::Coflow(coflow))
    }

    #[test]
    fn without_delay_a_coflow_sinks_at_the_threshold() {
        let (mut script, coflow, target) = one(1 << 40);
        let mut dclas = drive("dclas:queues=3,factor=4,first_threshold=1MB,sync=0ms");
        let start = dclas.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!(start.priorities, [(target, Priority::new(0, 0))]);
        assert_eq!(start.watches, [(target, Bytes(1_000_000))]);
        script.send(0, 1_000_000);
        let first = dclas.at(7, Event::Reached(target), &script);
        assert_eq!(first.priorities, [(target, Priority::new(1, 0))]);
        assert_eq!(first.watches, [(target, Bytes(4_000_000))]);
        script.send(0, 3_000_000);
        let last = dclas.at(9, Event::Reached(target), &script);
        assert_eq!(last.priorities, [(target, Priority::new(2, 0))]);
        assert!(last.watches.is_empty(), "there is no queue below the last");
    }

    #[test]
    fn queues_of_equal_size_have_thresholds_equally_far_apart() {
        let (mut script, coflow, target) = one(1 << 40);
        let mut dclas = drive("dclas:queues=4,first_threshold=1MB,spacing=even,sync=0ms");
        dclas.at(0, Event::CoflowArrived(coflow), &script);
        for queue in 1..=3u16 {
            script.send(0, 1_000_000);
            let sunk = dclas.at(u64::from(queue), Event::Reached(target), &script);
            assert_eq!(sunk.priorities, [(target, Priority::new(queue, 0))]);
            let next = (queue < 3).then_some((target, Bytes(1_000_000 * (u64::from(queue) + 1))));
            assert_eq!(sunk.watches, Vec::from_iter(next));
        }
    }

    #[test]
    fn with_delay_it_sinks_at_the_next_multiple_by_all_it_has_sent_until_then() {
        let (mut script, coflow, target) = one(1 << 40);
        let mut dclas = drive("dclas:factor=2,first_threshold=1MB");
        dclas.at(0, Event::CoflowArrived(coflow), &script);
        script.send(0, 1_000_000);
        let crossing = dclas.at(12_000_000, Event::Reached(target), &script);
        assert!(crossing.priorities.is_empty());
        assert_eq!(crossing.wake_at, Some(Instant(20_000_000)));
        script.send(0, 3_500_000);
        let tick = dclas.at(20_000_000, Event::Wake, &script);
        assert_eq!(tick.priorities, [(target, Priority::new(3, 0))]);
        assert_eq!(tick.watches, [(target, Bytes(8_000_000))]);
    }

    #[test]
    fn a_coflow_that_ends_before_the_tick_is_forgotten() {
        let (mut script, coflow, target) = one(2_000_000);
        let mut dclas = drive("dclas:first_threshold=1MB");
        dclas.at(0, Event::CoflowArrived(coflow), &script);
        script.send(0, 1_000_000);
        dclas.at(1, Event::Reached(target), &script);
        script.send(0, 1_000_000);
        dclas.at(2, Event::CoflowFinished(coflow), &script);
        assert!(dclas.at(10_000_000, Event::Wake, &script).priorities.is_empty());
    }

    #[test]
    fn without_order_coflows_of_a_queue_are_equal() {
        let (mut script, first, _) = one(1 << 40);
        let second = script.add_coflow(0, 1);
        script.add_flow(second, 0, 1, 1 << 40);
        let mut dclas = drive("dclas:order=none");
        let priorities =
            [first, second].map(|coflow| dclas.at(0, Event::CoflowArrived(coflow), &script).priorities[0].1);
        assert_eq!(priorities, [Priority::new(0, 0); 2]);
    }

    #[test]
    fn at_senders_nothing_is_coordinated() {
        let terms = |at| Definition::terms(&Dclas { at, ..Dclas::default() }).scope;
        assert_eq!((terms(At::Fabric), terms(At::Sender)), (Scope::Fabric, Scope::Host));
        assert_eq!(terms(At::Link), Scope::Link);
        let is_there = |settings: &str| crate::parse(&format!("aalo:at=link{settings}")).is_ok();
        assert_eq!(
            [",weighted=false", ",conserving=false", "", ",weighted=false,conserving=false"].map(is_there),
            [true, true, false, false]
        );
    }

    #[test]
    fn thresholds_beyond_64_bits_are_no_thresholds() {
        let (mut script, coflow, target) = one(1 << 62);
        let mut dclas = drive("dclas:queues=100,sync=0ms");
        dclas.at(0, Event::CoflowArrived(coflow), &script);
        script.send(0, 1 << 62);
        // Thresholds 10^7 … 10^18 are reached, 10^19 still fits, 10^20 does not.
        assert_eq!(dclas.at(1, Event::Reached(target), &script).priorities[0].1.class, 12);
    }

    #[test]
    fn weights_fall_from_k_to_one() {
        let terms = Definition::terms(&Dclas { queues: 3, ..Dclas::default() });
        let weights = vec![3, 2, 1];
        assert_eq!(terms.shares, ClassShares::Weighted { weights, excess: Excess::Weighted });
    }
}

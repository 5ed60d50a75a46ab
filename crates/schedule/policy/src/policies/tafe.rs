//! `tafe`: tasks sink through priorities with the bytes they have sent; inside a task, the short
//! flows first.
//!
//! Task level (Algorithm 1): a task starts in the highest queue and goes one down whenever its
//! bytes pass the next threshold Υ. Inside a queue tasks are served in the order of task-ids ("used
//! to depend the order of this flow", §IV-A2). Flow level (Algorithm 2): TAFE's window control
//! makes long flows back off more than short ones; its ideal is the shortest remaining flow of the
//! task first, which is what a driver without packets carries out. Windows do not know which flow
//! is of which task: with `order=flow` the shortest flow of a queue goes first, whatever its task,
//! which is the other end of what the text allows. So end hosts use the sizes of their flows, but
//! no part uses the size of a task.
//!
//! In TAFE a switch counts and marks. The big switch is the one switch that everything crosses,
//! hence the scope; on a fabric of several switches each would count its own. Bytes of all stages
//! of a task count, since a sequential task must not climb with each stage (§IV-A1); the counter of
//! a task is kept for good (24 bytes).
//!
//! The paper gives no usable thresholds (its experiment sets fractions of the largest task, which
//! no switch knows). It asks for several that rise, so that small tasks separate early; the default
//! takes decades from 10 MB, as Aalo's. The paper hopes that heavy tasks do not starve; with strict
//! queues they can.

use std::collections::BTreeMap;

use cavalcade_model::{
    Bytes, Clairvoyant, CoflowFacts, Decision, Discipline, Event, Foresee, Instant, Policy, Priority, Scope,
    Setting, Target, TaskId, Terms,
};
use cavalcade_spec::{Ascending, Choice, Parameter};

use crate::definition::{About, Definition, Follows, OwnTransport, Paper};
use crate::support::task_meter::TaskMeter;

/// Parameters of `tafe`.
#[derive(Clone)]
pub(crate) struct Tafe {
    thresholds: Ascending,
    order: Order,
}

/// What goes first inside a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The task with the lowest task-id, and in it the shortest flow.
    Task,
    /// The shortest flow of all.
    Flow,
}

impl Choice for Order {
    const WORDS: &'static [(&'static str, Self)] = &[("task", Order::Task), ("flow", Order::Flow)];
}

impl Default for Tafe {
    fn default() -> Self {
        let decades = vec![Bytes(10_000_000), Bytes(100_000_000), Bytes(1_000_000_000)];
        Self { thresholds: Ascending(decades), order: Order::Task }
    }
}

impl Definition for Tafe {
    const ABOUT: About = About {
        name: "tafe",
        title: "Tasks sink through queues with the bytes they have sent; short flows first inside a task",
        source: "TAFE §IV, Algorithms 1 and 2",
        paper: Some(Paper {
            system: "TAFE",
            venue: "Liu et al.",
            year: 2015,
            follows: Follows::Text,
            transport: OwnTransport::alone("tafe"),
        }),
        knows: "the bytes that each task has sent, and at end hosts the remaining bytes of flows",
        cost: "O(coflows of the task) for each threshold that a task crosses",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "thresholds",
            meaning: "bytes of a task at which it sinks from each queue to the next",
            field: |p| &mut p.thresholds,
        },
        Parameter {
            name: "order",
            meaning: "inside a queue: by task-id and then the short flows first (task), or the shortest flow of all (flow)",
            field: |p| &mut p.order,
        },
    ];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::ShortestFlow)
    }

    /// Queues alone do not tell tasks apart: hosts that did on their own links would keep an order
    /// that no switch keeps.
    fn go_to_queues(&mut self, _: u32) {
        self.order = Order::Flow;
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        let thresholds = self.thresholds.0.clone();
        Policy::Clairvoyant(Box::new(Instance { thresholds, order: self.order, tasks: BTreeMap::new() }))
    }
}

struct Instance {
    thresholds: Vec<Bytes>,
    order: Order,
    tasks: BTreeMap<TaskId, Counted>,
}

/// A task and the queue that it is in.
#[derive(Default)]
struct Counted {
    meter: TaskMeter,
    queue: Option<usize>,
}

impl Clairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        let (Event::CoflowArrived(coflow)
        | Event::CoflowFinished(coflow)
        | Event::Reached(Target::Coflow(coflow))) = event
        else {
            return;
        };
        let CoflowFacts { task: id, number, .. } = view.coflow(coflow);
        let task = self.tasks.entry(id).or_default();
        match event {
            Event::CoflowArrived(_) => {
                task.meter.join(coflow);
                task.queue = None;
            }
            Event::CoflowFinished(_) => task.meter.leave(coflow, view),
            _ => {}
        }
        let sent = task.meter.sent(view);
        let queue = self.thresholds.partition_point(|&threshold| threshold <= sent);
        if task.queue != Some(queue) {
            task.queue = Some(queue);
            let order = if self.order == Order::Task { u64::from(number) } else { 0 };
            for &coflow in task.meter.coflows() {
                decision.set_coflow(coflow, Priority::new(queue as u16, order));
            }
        }
        if let Some(&threshold) = self.thresholds.get(queue) {
            task.meter.watch(threshold, view, decision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};

    #[test]
    fn queues_keep_no_order_of_tasks() {
        let sorted = crate::parse("tafe:thresholds=1MB").unwrap().for_queues(8);
        assert_eq!(sorted.label(), "tafe:thresholds=1MB,order=flow");
    }

    #[test]
    fn a_task_sinks_with_all_its_coflows_and_stays_down_in_the_next_stage() {
        let mut script = Script::new();
        let (a, b, next) = (script.add_coflow(5, 0), script.add_coflow(5, 0), script.add_coflow(5, 0));
        for id in [a, b, next] {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut tafe = drive("tafe:thresholds=1KB/1MB");
        tafe.at(0, Event::CoflowArrived(a), &script);
        let both = tafe.at(0, Event::CoflowArrived(b), &script);
        assert_eq!(both.watches, [(Target::Coflow(a), Bytes(500)), (Target::Coflow(b), Bytes(500))]);
        script.send(0, 1000);
        let sunk = tafe.at(1, Event::Reached(Target::Coflow(a)), &script);
        let order = Priority::new(1, 5);
        assert_eq!(sunk.priorities, [(Target::Coflow(a), order), (Target::Coflow(b), order)]);
        tafe.at(2, Event::CoflowFinished(a), &script);
        script.send(1, 1000);
        tafe.at(3, Event::CoflowFinished(b), &script);
        let later = tafe.at(4, Event::CoflowArrived(next), &script);
        assert_eq!(later.priorities, [(Target::Coflow(next), order)]);
    }

    #[test]
    fn by_flow_tasks_of_a_queue_are_equal() {
        let mut script = Script::new();
        let (a, b) = (script.add_coflow(5, 0), script.add_coflow(6, 0));
        for id in [a, b] {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut tafe = drive("tafe:order=flow");
        let mut order = |id| tafe.at(0, Event::CoflowArrived(id), &script).priorities[0].1;
        assert_eq!([order(a), order(b)], [Priority::new(0, 0); 2]);
    }
}

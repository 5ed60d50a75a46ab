//! `stf`: the task with the fewest bytes first.
//!
//! The unit is the task, not the coflow: all coflows of a task that have arrived count together and go together.
//! Preemptively it is shortest *remaining* task first, with the remainder read again whenever a coflow arrives or ends;
//! between such events an order can be late, but only by what the served task has sent, which brings it further to the
//! front, where it is. Without preemption the size of the task's arrived coflows counts.
//!
//! Size ignores the bottleneck: a wide task can be large and yet be done soon. That is `sebf`'s improvement.

use std::collections::BTreeMap;

use cavalcade_model::{
    Clairvoyant, CoflowId, Decision, Discipline, Event, Foresee, Instant, Policy, Priority, Scope, Setting,
    TaskId, Terms,
};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition};

/// Parameters of `stf`.
#[derive(Clone)]
pub(crate) struct Stf {
    preemptive: bool,
    discipline: Discipline,
}

impl Default for Stf {
    fn default() -> Self {
        Self { preemptive: true, discipline: Discipline::Greedy }
    }
}

impl Definition for Stf {
    const ABOUT: About = About {
        name: "stf",
        title: "Shortest task first",
        source: "Baraat §3.2 (STF); D-CAS §II (smallest coflow first)",
        paper: None,
        knows: "the remaining bytes of every task's arrived coflows",
        cost: "O(active coflows) at each arrival and completion of a coflow",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "preemptive",
            meaning: "order by remaining bytes; false: by the task's size",
            field: |p| &mut p.preemptive,
        },
        Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline },
    ];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Instance { preemptive: self.preemptive, tasks: BTreeMap::new() }))
    }
}

struct Instance {
    preemptive: bool,
    tasks: BTreeMap<TaskId, Active>,
}

/// A task with something to send.
#[derive(Default)]
struct Active {
    coflows: Vec<CoflowId>,
    size: u64,
    order: Option<u64>,
}

impl Clairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => {
                let task = self.tasks.entry(view.coflow(coflow).task).or_default();
                task.coflows.push(coflow);
                task.size += (view.attained(coflow) + view.remaining(coflow)).0;
                task.order = None;
            }
            Event::CoflowFinished(coflow) => {
                let id = view.coflow(coflow).task;
                if let Some(task) = self.tasks.get_mut(&id) {
                    task.coflows.retain(|&active| active != coflow);
                    if task.coflows.is_empty() {
                        self.tasks.remove(&id);
                    }
                }
            }
            _ => return,
        }
        for task in self.tasks.values_mut() {
            let remaining = || task.coflows.iter().map(|&coflow| view.remaining(coflow).0).sum();
            let order = if self.preemptive { remaining() } else { task.size };
            if task.order != Some(order) {
                task.order = Some(order);
                for &coflow in &task.coflows {
                    decision.set_coflow(coflow, Priority::new(0, order));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::Target;

    fn two_tasks() -> (Script, [CoflowId; 3]) {
        let mut script = Script::new();
        let (a, b, c) = (script.add_coflow(0, 0), script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.add_flow(a, 0, 1, 70);
        script.add_flow(b, 0, 1, 30);
        script.add_flow(c, 0, 1, 80);
        (script, [a, b, c])
    }

    #[test]
    fn the_coflows_of_a_task_count_and_move_together() {
        let (mut script, [a, b, c]) = two_tasks();
        let mut stf = drive("stf");
        let first = stf.at(0, Event::CoflowArrived(a), &script);
        assert_eq!(first.priorities, [(Target::Coflow(a), Priority::new(0, 70))]);
        let second = stf.at(0, Event::CoflowArrived(b), &script);
        let both = [(Target::Coflow(a), Priority::new(0, 100)), (Target::Coflow(b), Priority::new(0, 100))];
        assert_eq!(second.priorities, both);
        script.send(0, 50);
        let third = stf.at(1, Event::CoflowArrived(c), &script);
        let all =
            [(a, 50), (b, 50), (c, 80)].map(|(id, order)| (Target::Coflow(id), Priority::new(0, order)));
        assert_eq!(third.priorities, all);
        script.send(1, 30);
        let fourth = stf.at(2, Event::CoflowFinished(b), &script);
        assert_eq!(fourth.priorities, [(Target::Coflow(a), Priority::new(0, 20))], "c's order is unchanged");
    }

    #[test]
    fn without_preemption_the_size_stays() {
        let (mut script, [a, _, c]) = two_tasks();
        let mut stf = drive("stf:preemptive=false");
        stf.at(0, Event::CoflowArrived(a), &script);
        script.send(0, 50);
        let next = stf.at(1, Event::CoflowArrived(c), &script);
        assert_eq!(next.priorities, [(Target::Coflow(c), Priority::new(0, 80))]);
    }
}

//! `stf`: the task with the fewest bytes first.
//!
//! The unit is the task, not the coflow: all coflows of a task that have arrived count together and
//! go together. A task that has nothing to send any more is forgotten; its next stage is a task of
//! its own.
//!
//! | settings | goes first |
//! |---|---|
//! | none | the task with the fewest bytes left, read again whenever a coflow arrives or ends; between such events an order can be late, but only by what the served task has sent, which brings it further to the front, where it is |
//! | `remaining=false` | the task of the smallest size, counting what it has sent: a smaller one still pre-empts it |
//! | `preemptive=false` | the tasks that have begun, in the order in which they did; then the smallest of those that wait |
//!
//! # Without preemption
//! A task has begun once a byte of it has been sent. Those that are found to have begun at the same
//! event stand in the order that they had while they waited. On one link one task is sent at a
//! time, and to its end; on a fabric a task also begins with what others leave it, and then goes
//! before all that come later. Where several tasks arrive together none has begun, and the smallest
//! does. Begun tasks have a class of their own, for networks that keep few priorities.
//!
//! Size ignores the bottleneck: a wide task can be large and yet be done soon. That is `sebf`'s
//! improvement.

use std::collections::BTreeMap;

use cavalcade_model::{
    Clairvoyant, CoflowId, Decision, Discipline, Event, Foresee, Instant, Policy, Priority, Scope, Setting,
    TaskId, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, DISCIPLINE, Definition};

/// Parameters of `stf`.
#[derive(Clone)]
pub(crate) struct Stf {
    remaining: bool,
    preemptive: bool,
    discipline: Discipline,
}

impl Default for Stf {
    fn default() -> Self {
        Self { remaining: true, preemptive: true, discipline: Discipline::Greedy }
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
            name: "remaining",
            meaning: "order by the bytes that remain; false: by the task's size",
            field: |p| &mut p.remaining,
        },
        Parameter {
            name: "preemptive",
            meaning: "a smaller task goes before one that has begun; false: what has begun is finished first",
            field: |p| &mut p.preemptive,
        },
        Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        let one = self.remaining || self.preemptive;
        Complaint::unless(one, "remaining", "true with preemptive=false: what waits has sent nothing")
    }

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        let (remaining, preemptive) = (self.remaining, self.preemptive);
        Policy::Clairvoyant(Box::new(Instance { remaining, preemptive, tasks: BTreeMap::new(), begun: 0 }))
    }
}

struct Instance {
    remaining: bool,
    preemptive: bool,
    tasks: BTreeMap<TaskId, Active>,
    /// Number of tasks that have begun, where that counts.
    begun: u64,
}

/// A task with something to send.
#[derive(Default)]
struct Active {
    coflows: Vec<CoflowId>,
    size: u64,
    /// How many tasks had begun before it, if it has and that counts.
    begun: Option<u64>,
    /// Its priority, where all of its coflows have it.
    priority: Option<Priority>,
}

impl Instance {
    /// Finds out who has begun since the last event.
    fn note_begun(&mut self, view: &dyn Foresee) {
        let has_begun = |task: &Active| task.coflows.iter().any(|&coflow| view.attained(coflow).0 > 0);
        let new = |task: &&mut Active| task.begun.is_none() && has_begun(task);
        let mut new: Vec<&mut Active> = self.tasks.values_mut().filter(new).collect();
        new.sort_by_key(|task| task.priority);
        for task in new {
            task.begun = Some(self.begun);
            self.begun += 1;
        }
    }

    fn priority(&self, task: &Active, view: &dyn Foresee) -> Priority {
        let remaining = || task.coflows.iter().map(|&coflow| view.remaining(coflow).0).sum();
        match task.begun {
            Some(nth) => Priority::new(0, nth),
            None => {
                let order = if self.remaining { remaining() } else { task.size };
                Priority::new(u16::from(!self.preemptive), order)
            }
        }
    }
}

impl Clairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        if !self.preemptive {
            self.note_begun(view);
        }
        match event {
            Event::CoflowArrived(coflow) => {
                let task = self.tasks.entry(view.coflow(coflow).task).or_default();
                task.coflows.push(coflow);
                task.size += (view.attained(coflow) + view.remaining(coflow)).0;
                task.priority = None;
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
        let priorities: Vec<Priority> = self.tasks.values().map(|task| self.priority(task, view)).collect();
        for (task, priority) in self.tasks.values_mut().zip(priorities) {
            if task.priority.replace(priority) != Some(priority) {
                task.coflows.iter().for_each(|&coflow| decision.set_coflow(coflow, priority));
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
    fn by_size_what_is_sent_changes_nothing() {
        let (mut script, [a, _, c]) = two_tasks();
        let mut stf = drive("stf:remaining=false");
        stf.at(0, Event::CoflowArrived(a), &script);
        script.send(0, 50);
        let next = stf.at(1, Event::CoflowArrived(c), &script);
        assert_eq!(next.priorities, [(Target::Coflow(c), Priority::new(0, 80))]);
    }

    #[test]
    fn without_preemption_what_has_begun_goes_before_a_smaller_one() {
        let (mut script, [a, b, c]) = two_tasks();
        let small = script.add_coflow(2, 0);
        script.add_flow(small, 0, 1, 10);
        let mut stf = drive("stf:preemptive=false");
        let waits = |coflow, size| (Target::Coflow(coflow), Priority::new(1, size));
        let has_begun = |coflow, nth| (Target::Coflow(coflow), Priority::new(0, nth));
        assert_eq!(stf.at(0, Event::CoflowArrived(a), &script).priorities, [waits(a, 70)]);
        // None has begun at the instant at which another arrives with it: the smaller one will.
        assert_eq!(stf.at(0, Event::CoflowArrived(small), &script).priorities, [waits(small, 10)]);
        script.send(3, 10);
        stf.at(1, Event::CoflowFinished(small), &script);
        script.send(0, 1);
        let third = stf.at(2, Event::CoflowArrived(c), &script);
        assert_eq!(third.priorities, [has_begun(a, 1), waits(c, 80)]);
        // A coflow of a task that has begun belongs to what is being finished.
        let more = stf.at(3, Event::CoflowArrived(b), &script);
        assert_eq!(more.priorities, [has_begun(a, 1), has_begun(b, 1)]);
    }

    #[test]
    fn a_task_has_begun_with_a_coflow_that_has_ended() {
        let (mut script, [a, b, c]) = two_tasks();
        let mut stf = drive("stf:preemptive=false");
        for coflow in [a, b, c] {
            stf.at(0, Event::CoflowArrived(coflow), &script);
        }
        script.send(0, 70);
        let ended = stf.at(1, Event::CoflowFinished(a), &script);
        assert_eq!(ended.priorities, [(Target::Coflow(b), Priority::new(0, 0))], "c is smaller, and waits");
    }

    #[test]
    fn those_that_have_begun_together_keep_the_order_in_which_they_waited() {
        let mut script = Script::new();
        let [large, middle, small] = [0, 1, 2].map(|task| script.add_coflow(task, 0));
        for (coflow, size) in [(large, 90), (middle, 60), (small, 30)] {
            script.add_flow(coflow, 0, 1, size);
        }
        let mut stf = drive("stf:preemptive=false");
        stf.at(0, Event::CoflowArrived(large), &script);
        stf.at(0, Event::CoflowArrived(middle), &script);
        script.send(0, 5);
        script.send(1, 5);
        let next = stf.at(1, Event::CoflowArrived(small), &script);
        let set = |coflow, class, order| (Target::Coflow(coflow), Priority::new(class, order));
        assert_eq!(next.priorities, [set(large, 0, 1), set(middle, 0, 0), set(small, 1, 30)]);
    }

    #[test]
    fn the_two_settings_exclude_each_other() {
        let message = crate::parse("stf:remaining=false,preemptive=false").unwrap_err().to_string();
        assert!(message.contains("true with preemptive=false"), "{message}");
    }
}

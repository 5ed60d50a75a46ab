//! `fifo_lm`: Baraat's first in, first out with limited multiplexing.
//!
//! Tasks go one after the other by task-id, so that all switches agree without talking. A task that
//! turns out to be heavy at a link shares its class there with the task next to it, so that small
//! tasks get past it; if that one is heavy too, the class goes on to the one after. A class is
//! therefore a run of heavy tasks and the first one that is not. Heavy is what has sent more bytes
//! *across this link* than a threshold, given as bytes or as a percentile of the sizes of past
//! tasks, all their coflows together (80th to 90th, §3.3). One switch may hold a task for heavy
//! that is light at another (§4.3.1, footnote 3).
//!
//! The paper says that the degree of multiplexing grows when a heavy task comes, and not how far;
//! its footnote 1 calls this limited processor sharing, where a fixed number of tasks share.
//! `degree` is the most tasks in a class: `degree=2` lets a heavy task share with the next one
//! alone, and `heavy_threshold=1B,degree=K` is limited processor sharing among K. Nor does it say
//! what becomes of a heavy task behind a heavy one: "the heavy task and the task immediately next
//! in queue" (§4.3.1) may share one heavy at a time. `heavies=one` reads it so: a class is the
//! first heavy task and the first light one behind it, which overtakes the heavy ones between;
//! these wait. Where all are heavy that is FIFO, and not fair sharing as §5.2.3 has it.
//!
//! Tasks of background services have a later range of ids (§4.1): they never share a class with an
//! online one.
//!
//! # How
//! The order of a class is the id of its first task: between the classes' orders, and the same at
//! each link, but sent again only for tasks whose class moves. Cost: a scan of the tasks at the
//! link when one arrives, ends or becomes heavy. A task that has nothing at the link any more is
//! forgotten, as a switch's soft state is; the stage after starts light again.
//!
//! # Where
//! Packets carry task-ids, and every switch classifies tasks by what it has counted itself:
//! `at=link`, which is `baraat`. A flow then gets the least that its links allow. With `at=sender`,
//! ours, the port that sends decides and its flows carry the class with them: a tenth of the cost,
//! but a heavy task's class at one sender then comes before an earlier task from another, and where
//! thresholds are low that is far from fair sharing.
//!
//! # Limits
//! With a threshold so low that all are heavy, `baraat` is fair sharing; with none, it is FIFO by
//! task at each link (§5.3.2).
//!
//! Without history and threshold nothing is heavy, and this is FIFO by task at each link.
//!
//! With `conserving=false` a link that serves a flow which another link holds back loses what that
//! flow cannot use. No two links wait for each other: the oldest task of all is in the first class
//! everywhere.

use std::collections::VecDeque;

use cavalcade_model::{
    Bytes, CoflowId, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, Policy, Priority, Scope,
    Setting, Target, Terms,
};
use cavalcade_spec::{Choice, Complaint, Parameter};

use crate::definition::{About, CONSERVING, Definition, Follows, Named, OwnTransport, Paper};
use crate::support::task_ids::range;
use crate::support::task_meter::TaskMeter;

/// Parameters of `fifo_lm`: a threshold, or a percentile.
#[derive(Clone)]
pub(crate) struct FifoLm {
    heavy_threshold: Option<Bytes>,
    heavy_percentile: Option<u32>,
    degree: Option<u32>,
    heavies: Heavies,
    at: Scope,
    conserving: bool,
}

/// The heavy tasks of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heavies {
    /// A run of them.
    Run,
    /// One, with the first light task behind it.
    One,
}

impl Choice for Heavies {
    const WORDS: &'static [(&'static str, Self)] = &[("run", Heavies::Run), ("one", Heavies::One)];
}

impl Default for FifoLm {
    fn default() -> Self {
        Self {
            heavy_threshold: None,
            heavy_percentile: Some(80),
            degree: None,
            heavies: Heavies::Run,
            at: Scope::Host,
            conserving: true,
        }
    }
}

impl Definition for FifoLm {
    const ABOUT: About = About {
        name: "fifo_lm",
        title: "Tasks one after the other, a heavy one beside the next, decided where they are sent",
        source: "Baraat §3.3, §4.1, §4.3.1",
        paper: None,
        knows: "task-ids, the bytes that each task has sent from this port (or across this link), the sizes of past tasks",
        cost: "O(tasks at the link) when a coflow arrives, ends, or makes its task heavy there",
    };

    const NAMES: &'static [Named] = &[Named {
        name: "baraat",
        title: "Tasks first in, first out, a heavy one beside the next, decided at every link",
        source: "Baraat (SIGCOMM 2014) §3.3, §4.1, §4.3.1",
        paper: Some(Paper {
            system: "Baraat",
            venue: "SIGCOMM",
            year: 2014,
            follows: Follows::Text,
            transport: OwnTransport::alone("spc"),
        }),
        settings: "at=link",
    }];

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "heavy_threshold",
            meaning: "bytes at one place from which a task is heavy there; instead of heavy_percentile",
            field: |p| &mut p.heavy_threshold,
        },
        Parameter {
            name: "heavy_percentile",
            meaning: "percentile of task sizes from which a task is heavy; instead of heavy_threshold",
            field: |p| &mut p.heavy_percentile,
        },
        Parameter {
            name: "degree",
            meaning: "maximum number of tasks that share a class; none: a run of heavy tasks of any length, and the next",
            field: |p| &mut p.degree,
        },
        Parameter {
            name: "heavies",
            meaning: "heavy tasks of a class: a run of them (run), or one, with the first light task behind it",
            field: |p| &mut p.heavies,
        },
        Parameter {
            name: "at",
            meaning: "place of decisions: each sender for what it sends, or each link",
            field: |p| &mut p.at,
        },
        Parameter { name: "conserving", meaning: CONSERVING, field: |p| &mut p.conserving },
    ];

    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        if self.heavy_threshold.is_some() && !given.contains(&"heavy_percentile") {
            self.heavy_percentile = None;
        }
        let one = self.heavy_threshold.is_none() || self.heavy_percentile.is_none();
        Complaint::unless(one, "heavy_percentile", "none beside a heavy_threshold: give one of the two")?;
        let percent = self.heavy_percentile.is_none_or(|percent| (1..=100).contains(&percent));
        Complaint::unless(percent, "heavy_percentile", "1 to 100, or none")?;
        let positive = self.heavy_threshold != Some(Bytes::ZERO);
        Complaint::unless(positive, "heavy_threshold", "at least 1B, or none")?;
        let some = self.degree.is_none_or(|degree| degree > 0);
        Complaint::unless(some, "degree", "1 or more, or none")?;
        let one = self.heavies == Heavies::Run || self.degree.is_none();
        Complaint::unless(one, "degree", "none beside heavies=one, whose classes have two tasks")
    }

    fn terms(&self) -> Terms {
        Terms::strict(self.at, if self.conserving { Discipline::MaxMin } else { Discipline::EvenParts })
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        let by_percentile = self.heavy_percentile.and_then(|percent| setting.history.percentile(percent));
        Policy::NonClairvoyant(Box::new(Instance {
            threshold: self.heavy_threshold.or(by_percentile),
            degree: self.degree.unwrap_or(u32::MAX),
            heavies: self.heavies,
            tasks: Vec::new(),
        }))
    }
}

/// One link.
struct Instance {
    /// From how many bytes a task is heavy.
    threshold: Option<Bytes>,
    /// The most tasks in a class.
    degree: u32,
    heavies: Heavies,
    /// Tasks with something to send here, by range of task-ids and task-id: a short list, and
    /// mostly added to at its end.
    tasks: Vec<((u16, u32), AtLink)>,
}

/// A task at this link.
#[derive(Default)]
struct AtLink {
    meter: TaskMeter,
    heavy: bool,
    /// The order that its coflows were last given.
    order: Option<u64>,
}

impl AtLink {
    /// Becomes heavy where it is, else watches for it.
    fn weigh(&mut self, threshold: Option<Bytes>, view: &dyn Observe, decision: &mut Decision) {
        if let Some(threshold) = threshold.filter(|_| !self.heavy) {
            self.heavy = self.meter.watch(threshold, view, decision);
        }
    }

    /// Puts the task into the class of this order, where it is in another.
    fn order(&mut self, range: u16, order: u64, decision: &mut Decision) {
        if self.order != Some(order) {
            self.order = Some(order);
            for &coflow in self.meter.coflows() {
                decision.set_coflow(coflow, Priority::new(range, order));
            }
        }
    }
}

impl Instance {
    fn key(coflow: CoflowId, view: &dyn Observe) -> (u16, u32) {
        let facts = view.coflow(coflow);
        (range(&facts), facts.number)
    }

    /// Finds the position of a task in the list, or its insertion point.
    fn find(&self, key: (u16, u32)) -> Result<usize, usize> {
        self.tasks.binary_search_by_key(&key, |&(key, _)| key)
    }

    /// Gives each class its order, and sets that of tasks whose class has changed.
    fn classify(&mut self, decision: &mut Decision) {
        match self.heavies {
            Heavies::Run => self.classify_runs(decision),
            Heavies::One => self.classify_pairs(decision),
        }
    }

    /// A class is a run of heavy tasks and the first that is not.
    fn classify_runs(&mut self, decision: &mut Decision) {
        let mut open = None;
        for &mut ((range, id), ref mut task) in &mut self.tasks {
            let (order, members) = match open {
                Some((of, order, members)) if of == range => (order, members + 1),
                _ => (u64::from(id), 1),
            };
            open = (task.heavy && members < self.degree).then_some((range, order, members));
            task.order(range, order, decision);
        }
    }

    /// A class is a light task, or a heavy one and the first light one behind it.
    fn classify_pairs(&mut self, decision: &mut Decision) {
        // Heavy tasks that wait for a light one, which come before all that follow.
        let mut waiting = VecDeque::new();
        let mut of = None;
        for &mut ((range, id), ref mut task) in &mut self.tasks {
            if of != Some(range) {
                waiting.clear();
                of = Some(range);
            }
            let order = match task.heavy {
                true => {
                    waiting.push_back(id);
                    id
                }
                false => waiting.pop_front().unwrap_or(id),
            };
            task.order(range, u64::from(order), decision);
        }
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => {
                let key = Self::key(coflow, view);
                let at = self.find(key).unwrap_or_else(|at| {
                    self.tasks.insert(at, (key, AtLink::default()));
                    at
                });
                let (_, task) = &mut self.tasks[at];
                task.meter.join(coflow);
                task.order = None;
                task.weigh(self.threshold, view, decision);
            }
            Event::CoflowFinished(coflow) => {
                let Ok(at) = self.find(Self::key(coflow, view)) else { return };
                let (_, task) = &mut self.tasks[at];
                task.meter.leave(coflow, view);
                if task.meter.coflows().is_empty() {
                    self.tasks.remove(at);
                } else {
                    task.weigh(self.threshold, view, decision);
                }
            }
            Event::Reached(Target::Coflow(coflow)) => {
                let Ok(at) = self.find(Self::key(coflow, view)) else { return };
                let (_, task) = &mut self.tasks[at];
                task.weigh(self.threshold, view, decision);
                if !task.heavy {
                    return;
                }
            }
            _ => return,
        }
        self.classify(decision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::TaskClass;

    fn set(coflow: CoflowId, class: u16, order: u64) -> (Target, Priority) {
        (Target::Coflow(coflow), Priority::new(class, order))
    }

    #[test]
    fn a_heavy_task_shares_with_the_next_and_a_run_of_heavy_ones_goes_on() {
        let mut script = Script::new();
        let ids: Vec<CoflowId> = (0..4).map(|task| script.add_coflow(task, 0)).collect();
        for &id in &ids {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut link = drive("fifo_lm:heavy_threshold=100B");
        for (rank, &id) in ids.iter().enumerate() {
            assert_eq!(
                link.at(0, Event::CoflowArrived(id), &script).priorities,
                [set(id, 0, rank as u64)],
                "FIFO so far"
            );
        }
        script.send(0, 100);
        let heavy = link.at(1, Event::Reached(Target::Coflow(ids[0])), &script);
        assert_eq!(heavy.priorities, [set(ids[1], 0, 0)], "0 shares with 1");
        script.send(1, 100);
        let run = link.at(2, Event::Reached(Target::Coflow(ids[1])), &script);
        assert_eq!(run.priorities, [set(ids[2], 0, 0)], "0 and 1 share with 2");
        script.send(2, 50);
        let done = link.at(3, Event::CoflowFinished(ids[2]), &script);
        assert_eq!(done.priorities, [set(ids[3], 0, 0)], "3 is next now");
        let first = link.at(4, Event::CoflowFinished(ids[0]), &script);
        assert_eq!(
            first.priorities,
            [set(ids[1], 0, 1), set(ids[3], 0, 1)],
            "the class is named after 1 now"
        );
    }

    #[test]
    fn a_class_has_no_more_tasks_than_the_degree() {
        let mut script = Script::new();
        let ids: Vec<CoflowId> = (0..4).map(|task| script.add_coflow(task, 0)).collect();
        for &id in &ids {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut link = drive("fifo_lm:heavy_threshold=1B,degree=2");
        for &id in &ids {
            link.at(0, Event::CoflowArrived(id), &script);
        }
        script.send(0, 1);
        let pair = link.at(1, Event::Reached(Target::Coflow(ids[0])), &script);
        assert_eq!(pair.priorities, [set(ids[1], 0, 0)], "two share");
        script.send(1, 1);
        let full = link.at(2, Event::Reached(Target::Coflow(ids[1])), &script);
        assert!(full.priorities.is_empty(), "the third waits, although the second is heavy");
        let next = link.at(3, Event::CoflowFinished(ids[0]), &script);
        assert_eq!(
            next.priorities,
            [set(ids[1], 0, 1), set(ids[2], 0, 1)],
            "it takes the place that is free"
        );
        assert!(crate::parse("fifo_lm:degree=0").is_err());
    }

    #[test]
    fn of_one_heavy_task_at_a_time_each_shares_with_a_light_one_that_overtakes_the_heavy_between() {
        let mut script = Script::new();
        let ids: Vec<CoflowId> = (0..4).map(|task| script.add_coflow(task, 0)).collect();
        for &id in &ids {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut link = drive("fifo_lm:heavy_threshold=100B,heavies=one");
        for &id in &ids {
            link.at(0, Event::CoflowArrived(id), &script);
        }
        script.send(0, 100);
        let pair = link.at(1, Event::Reached(Target::Coflow(ids[0])), &script);
        assert_eq!(pair.priorities, [set(ids[1], 0, 0)], "0 shares with 1");
        script.send(1, 100);
        let overtaken = link.at(2, Event::Reached(Target::Coflow(ids[1])), &script);
        let expected = [set(ids[1], 0, 1), set(ids[2], 0, 0), set(ids[3], 0, 1)];
        assert_eq!(overtaken.priorities, expected, "2 overtakes 1, which shares with 3");
        script.send(2, 100);
        let alone = link.at(3, Event::Reached(Target::Coflow(ids[2])), &script);
        assert_eq!(alone.priorities, [set(ids[2], 0, 2), set(ids[3], 0, 0)], "heavy ones wait");
        assert!(crate::parse("fifo_lm:heavies=one,degree=2").is_err());
    }

    #[test]
    fn background_tasks_are_a_later_range() {
        let mut script = Script::new();
        let (online, background) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.facts_mut(background).class = TaskClass::Background;
        script.add_flow(online, 0, 1, 1000);
        let mut link = drive("fifo_lm:heavy_threshold=10B");
        link.at(0, Event::CoflowArrived(online), &script);
        assert_eq!(link.at(0, Event::CoflowArrived(background), &script).priorities, [set(background, 1, 1)]);
        script.send(0, 10);
        assert!(link.at(1, Event::Reached(Target::Coflow(online)), &script).priorities.is_empty());
    }

    #[test]
    fn the_bytes_of_all_coflows_of_a_task_count() {
        let mut script = Script::new();
        let (a, b, other) = (script.add_coflow(0, 0), script.add_coflow(0, 0), script.add_coflow(1, 0));
        for id in [a, b, other] {
            script.add_flow(id, 0, 1, 1000);
        }
        let mut link = drive("fifo_lm:heavy_threshold=100B");
        for id in [a, b, other] {
            link.at(0, Event::CoflowArrived(id), &script);
        }
        script.send(0, 50);
        script.send(1, 20);
        let again = link.at(1, Event::Reached(Target::Coflow(a)), &script);
        assert_eq!(again.priorities, []);
        assert_eq!(again.watches, [(Target::Coflow(a), Bytes(65)), (Target::Coflow(b), Bytes(35))]);
        script.send(1, 30);
        let heavy = link.at(2, Event::Reached(Target::Coflow(b)), &script);
        assert_eq!(heavy.priorities, [set(other, 0, 0)]);
    }

    #[test]
    fn threshold_and_percentile_exclude_each_other() {
        assert!(crate::parse("fifo_lm:heavy_threshold=1MB,heavy_percentile=80").is_err());
        assert!(crate::parse("fifo_lm:heavy_percentile=0").is_err());
        let by_bytes = crate::parse("fifo_lm:heavy_threshold=1MB").unwrap();
        assert_eq!(by_bytes.label(), "fifo_lm:heavy_threshold=1MB");
        assert_eq!(by_bytes.params()[1], ("heavy_percentile", "none".to_owned()));
    }
}

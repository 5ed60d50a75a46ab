//! `crux`: of repeating training jobs, the one that keeps most computing power waiting for the
//! fewest bytes goes first.
//!
//! A training job computes, exchanges gradients, and computes again. While it waits for the network
//! its processors idle. Crux weighs each job by its *intensity*: the computation of an iteration
//! over the time that its traffic needs alone on its busiest link. Serving the highest intensity
//! first maximises, in the limit, how busy the processors of jobs are that share a link which is
//! never idle (§3, Theorem 1). Where it idles another order can be better (`tests/crux.rs`), and of
//! three jobs another schedule also where it does not (`tests/crux_iterations.rs`). Networks have
//! few priorities, so the order of jobs is compressed into `levels` such that as little intensity
//! as possible shares a level with a job that it meets on a link (§4.3).
//!
//! # What a job is here, and how it is known
//! A job is a task with coflows one after the other, or side by side. What it has sent on each link
//! is added up as flows end.
//!
//! Where it declares its iterations ([`cavalcade_model::Iteration`]: their bytes, GPUs and
//! computation), it is weighed when one begins: intensity is
//! `GPUs × computation / (bytes × busiest)`, where `busiest` is the time that its busiest link took
//! for each byte that it has sent. Communication beside computation so takes nothing from it.
//!
//! Where it declares nothing, also not where an iteration ends, it may exchange gradients in one
//! coflow or in several, back to back or with computation between. The pauses in which it had
//! nothing to send are then its computation, and the ports that it uses stand for its processors.
//! So intensity is `ports × pauses / (bytes of the busiest link / its rate)`, of all that was seen
//! so far. Over whole iterations that is the paper's quotient of one, however its coflows are cut.
//! It is looked at when a pause ends; a coflow that follows another at once ends none. A job
//! without a pause yet, and so any task of one coflow, is in the highest level: it is measured
//! soonest there.
//!
//! The quotient of the last iteration alone was rejected: it takes each of two coflows in a row for
//! an iteration, the second of them for one without computation, and the job for one that can wait.
//!
//! # What differs from the paper
//! - The correction of the intensity for iterations of different lengths (§4.2) is left out, and
//!   that for communication that overlaps computation where iterations are not declared; so is the
//!   choice of paths (§4.1), which is not a policy's.
//! - The paper cuts several random topological orders of the jobs and keeps the best; a policy
//!   draws nothing, so the one order by intensity is cut, exactly, by dynamic programming.
//!
//! # Invariants
//! A job of higher intensity is never in a lower level. With as many levels as jobs that meet, none
//! share a level with one that they meet. Jobs meet on links: on a tree also on uplinks, with no
//! port in common.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{
    Bytes, CoflowId, Decision, Discipline, Event, Instant, Iteration, LinkId, Nanos, NonClairvoyant, Observe,
    Policy, PortId, Priority, Scope, Setting, TaskId, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition, Follows, Paper};
use crate::support::contention::Contention;

/// Parameters of `crux`.
#[derive(Clone)]
pub(crate) struct Crux {
    levels: u32,
}

impl Default for Crux {
    fn default() -> Self {
        Self { levels: 8 }
    }
}

impl Definition for Crux {
    const ABOUT: About = About {
        name: "crux",
        title: "Repeating training jobs by computation per unit of traffic, in few levels",
        source: "Crux (SIGCOMM 2024) §3, §4.2, §4.3",
        paper: Some(Paper {
            system: "Crux",
            venue: "SIGCOMM",
            year: 2024,
            follows: Follows::SecondarySources,
            transport: None,
        }),
        knows: "the bytes and pauses of each task so far, its iterations where it declares them, and where its flows are",
        cost: "O(log links) for a flow; O(tasks² · levels) when a task begins an iteration",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[Parameter {
        name: "levels",
        meaning: "number of priorities of the network",
        field: |p| &mut p.levels,
    }];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((1..=1000).contains(&self.levels), "levels", "1 to 1000")
    }

    fn terms(&self) -> Terms {
        Terms { flow_events: true, ..Terms::strict(Scope::Fabric, Discipline::MaxMin) }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Instance {
            levels: self.levels as usize,
            contention: Contention::default(),
            jobs: BTreeMap::new(),
            sending: BTreeSet::new(),
        }))
    }
}

struct Instance {
    levels: usize,
    contention: Contention,
    /// All tasks that have sent something; never removed, since a job may come back.
    jobs: BTreeMap<TaskId, Job>,
    /// Those that are sending.
    sending: BTreeSet<TaskId>,
}

/// A task, and what its iterations so far have shown.
#[derive(Debug, Default)]
struct Job {
    active: Vec<CoflowId>,
    /// Bytes that it has sent on each link.
    sent: BTreeMap<LinkId, Bytes>,
    /// Bytes of all its flows that have ended.
    total: Bytes,
    /// The last iteration that it declared.
    iteration: Option<u32>,
    /// The ports that it has used.
    ports: BTreeSet<PortId>,
    /// Time at which it last had nothing to send any more.
    paused: Option<Instant>,
    /// The length of all its pauses.
    computed: Nanos,
    /// Computation over communication, once there was any.
    intensity: Option<f64>,
    level: Option<u16>,
}

impl Job {
    /// Ends a pause, if there was one, and weighs the job by all that it has shown.
    fn resume(&mut self, now: Instant, view: &dyn Observe) {
        let pause = self.paused.take().map_or(Nanos::ZERO, |paused| now.since(paused));
        if pause == Nanos::ZERO {
            return;
        }
        self.computed = Nanos(self.computed.0.saturating_add(pause.0));
        self.weigh(self.ports.len() as f64 * self.computed.as_f64(), self.communication(view));
    }

    /// Begins an iteration that the job declares, unless it has, and weighs the job by it.
    fn begin(&mut self, iteration: Iteration, view: &dyn Observe) {
        if self.iteration.is_some_and(|last| last >= iteration.number) {
            return;
        }
        self.iteration = Some(iteration.number);
        let share = iteration.bytes.as_f64() / self.total.as_f64().max(1.0);
        let computation = f64::from(iteration.gpus) * iteration.compute.as_f64();
        self.weigh(computation, self.communication(view) * share);
    }

    /// The time that the busiest link takes for what has been sent.
    fn communication(&self, view: &dyn Observe) -> f64 {
        let time = |(&link, bytes): (&LinkId, &Bytes)| bytes.as_f64() / view.capacity(link).bytes_per_nano();
        self.sent.iter().map(time).fold(0.0, f64::max)
    }

    fn weigh(&mut self, computation: f64, communication: f64) {
        if communication > 0.0 {
            self.intensity = Some(computation / communication);
        }
    }
}

impl Instance {
    /// Gives jobs their levels, and tells those that changed.
    fn compress(&mut self, decision: &mut Decision) {
        let known = self.sending.iter().filter_map(|&id| self.jobs[&id].intensity.map(|known| (known, id)));
        let mut known: Vec<(f64, TaskId)> = known.collect();
        // Highest first; of equals the older job.
        known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let intensities: Vec<f64> = known.iter().map(|&(intensity, _)| intensity).collect();
        let meet = |a: usize, b: usize| self.meet(known[a].1, known[b].1);
        let levels = cut(&intensities, self.levels, meet);
        let mut level_of: BTreeMap<TaskId, u16> = BTreeMap::new();
        level_of.extend(known.iter().zip(levels).map(|(&(_, id), level)| (id, level as u16)));
        for id in &self.sending {
            let job = self.jobs.get_mut(id).expect("who is sending is kept");
            let level = level_of.get(id).copied().unwrap_or(0);
            if job.level.replace(level) != Some(level) {
                for &coflow in &job.active {
                    decision.set_coflow(coflow, Priority::new(level, 0));
                }
            }
        }
    }

    fn meet(&self, a: TaskId, b: TaskId) -> bool {
        let pairs =
            self.jobs[&a].active.iter().flat_map(|&a| self.jobs[&b].active.iter().map(move |&b| (a, b)));
        pairs.into_iter().any(|(a, b)| self.contention.are_rivals(a, b))
    }
}

/// Splits jobs, given by falling intensity, into at most `levels` runs so that the intensities that
/// share a run with a later job which they meet sum to the least; of several ways the one with the
/// longest runs first. Returns each job's run.
fn cut(intensities: &[f64], levels: usize, meet: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let jobs = intensities.len();
    // What it costs that jobs first..=last share a level: costs[first][last - first].
    let costs: Vec<Vec<f64>> = (0..jobs)
        .map(|first| {
            let lost = |last: usize| -> f64 {
                (first..last).filter(|&job| meet(job, last)).map(|job| intensities[job]).sum()
            };
            let sums = (first..jobs).scan(0.0, |sum, last| {
                *sum += lost(last);
                Some(*sum)
            });
            sums.collect()
        })
        .collect();
    // The least cost of jobs first.. in so many levels, and where the second of these levels
    // begins.
    let mut best: Vec<Vec<(f64, usize)>> =
        vec![(0..jobs).map(|first| (costs[first][jobs - 1 - first], jobs)).collect()];
    for level in 1..levels.min(jobs) {
        let fewer = &best[level - 1];
        let row = (0..jobs).map(|first| {
            let mut least = fewer[first];
            for second in (first + 1..jobs).rev() {
                let split = costs[first][second - 1 - first] + fewer[second].0;
                if split < least.0 {
                    least = (split, second);
                }
            }
            least
        });
        let row = row.collect();
        best.push(row);
    }
    let mut runs = Vec::with_capacity(jobs);
    let (mut first, mut run) = (0, 0);
    for level in (0..best.len()).rev() {
        let end = if first < jobs { best[level][first].1 } else { jobs };
        runs.resize(end, run);
        (first, run) = (end, run + 1);
    }
    runs
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => {
                let facts = view.coflow(coflow);
                view.flows(coflow, &mut |flow| self.contention.add(coflow, &view.path(flow)));
                let job = self.jobs.entry(facts.task).or_default();
                match view.iteration(coflow) {
                    Some(iteration) => job.begin(iteration, view),
                    None if job.active.is_empty() => job.resume(now, view),
                    None => {}
                }
                job.active.push(coflow);
                job.level = None;
                self.sending.insert(facts.task);
                self.compress(decision);
            }
            Event::FlowArrived(flow) => {
                let facts = view.flow(flow);
                // The first wave was counted when the coflow arrived.
                if view.coflow(facts.coflow).arrival < now {
                    self.contention.add(facts.coflow, &view.path(flow));
                }
            }
            Event::FlowFinished(flow) => {
                let facts = view.flow(flow);
                let path = view.path(flow);
                self.contention.remove(facts.coflow, &path);
                let job = self.jobs.entry(view.coflow(facts.coflow).task).or_default();
                job.ports.extend([facts.src, facts.dst]);
                job.total += view.flow_attained(flow);
                for link in path {
                    *job.sent.entry(link).or_default() += view.flow_attained(flow);
                }
            }
            Event::CoflowFinished(coflow) => {
                self.contention.forget(coflow);
                let task = view.coflow(coflow).task;
                if let Some(job) = self.jobs.get_mut(&task) {
                    job.active.retain(|&active| active != coflow);
                    if job.active.is_empty() {
                        job.paused = Some(now);
                        self.sending.remove(&task);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Driven, Script, drive};
    use cavalcade_model::Target;
    use proptest::prelude::*;

    /// One iteration of a job: a coflow of one flow from port 0 that is sent whole at `begin`.
    fn iterate(crux: &mut Driven, script: &mut Script, task: u32, begin: u64, bytes: u64) {
        let coflow = script.add_coflow(task, begin);
        let flow = script.add_flow(coflow, 0, task + 1, bytes);
        crux.at(begin, Event::CoflowArrived(coflow), script);
        script.send(flow.index(), bytes);
        crux.at(begin + bytes, Event::FlowFinished(flow), script);
        crux.at(begin + bytes, Event::CoflowFinished(coflow), script);
    }

    #[test]
    fn computation_over_communication_is_learnt_from_one_iteration_and_ranks_the_next() {
        let mut script = Script::new();
        let mut crux = drive("crux");
        // A byte takes a nanosecond. The first job pauses for 10 of its 100 ns, the second for 1000
        // of its 50.
        iterate(&mut crux, &mut script, 0, 0, 100);
        iterate(&mut crux, &mut script, 1, 0, 50);
        let again = |script: &mut Script, task: u32, now: u64| {
            let coflow = script.add_coflow(task, now);
            script.add_flow(coflow, 0, task + 1, 100);
            coflow
        };
        let low = again(&mut script, 0, 110);
        let alone = crux.at(110, Event::CoflowArrived(low), &script);
        assert_eq!(alone.priorities, [(Target::Coflow(low), Priority::new(0, 0))]);
        let high = again(&mut script, 1, 1050);
        let both = crux.at(1050, Event::CoflowArrived(high), &script);
        let set = |coflow, level| (Target::Coflow(coflow), Priority::new(level, 0));
        assert_eq!(both.priorities, [set(low, 1), set(high, 0)]);
    }

    #[test]
    fn two_coflows_in_a_row_are_weighed_as_one() {
        let mut script = Script::new();
        let mut crux = drive("crux");
        // Of 1100 ns the first job sends for 100, one half after the other; the second of 600
        // for 100.
        for begin in [0, 1100] {
            iterate(&mut crux, &mut script, 0, begin, 50);
            iterate(&mut crux, &mut script, 0, begin + 50, 50);
        }
        for begin in [0, 600, 1200] {
            iterate(&mut crux, &mut script, 1, begin, 100);
        }
        let again = |script: &mut Script, task: u32| {
            let coflow = script.add_coflow(task, 2200);
            script.add_flow(coflow, 0, task + 1, 50);
            coflow
        };
        let (in_parts, in_one) = (again(&mut script, 0), again(&mut script, 1));
        crux.at(2200, Event::CoflowArrived(in_parts), &script);
        let both = crux.at(2200, Event::CoflowArrived(in_one), &script);
        assert_eq!(both.priorities, [(Target::Coflow(in_one), Priority::new(1, 0))]);
    }

    #[test]
    fn a_job_whose_coflows_follow_each_other_at_once_has_not_been_weighed() {
        let mut script = Script::new();
        let mut crux = drive("crux");
        iterate(&mut crux, &mut script, 1, 0, 10);
        let weighed = script.add_coflow(1, 30);
        script.add_flow(weighed, 0, 2, 1000);
        crux.at(30, Event::CoflowArrived(weighed), &script);
        iterate(&mut crux, &mut script, 0, 40, 50);
        let at_once = script.add_coflow(0, 90);
        script.add_flow(at_once, 0, 1, 50);
        let next = crux.at(90, Event::CoflowArrived(at_once), &script);
        assert_eq!(next.priorities, [(Target::Coflow(at_once), Priority::new(0, 0))]);
    }

    #[test]
    fn a_job_that_has_not_come_back_is_in_the_highest_level() {
        let mut script = Script::new();
        let mut crux = drive("crux");
        let coflow = script.add_coflow(7, 0);
        script.add_flow(coflow, 0, 1, 100);
        let first = crux.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!(first.priorities, [(Target::Coflow(coflow), Priority::new(0, 0))]);
    }

    #[test]
    fn jobs_that_do_not_meet_share_a_level() {
        assert_eq!(cut(&[4.0, 3.0, 2.0, 1.0], 8, |_, _| false), [0, 0, 0, 0]);
        assert_eq!(cut(&[4.0, 3.0, 2.0, 1.0], 8, |_, _| true), [0, 1, 2, 3]);
        // The first two must not share; the third meets only the first.
        assert_eq!(cut(&[9.0, 5.0, 1.0], 2, |a, _| a == 0), [0, 1, 1]);
    }

    proptest! {
        #[test]
        fn no_other_cut_costs_less(
            steps in prop::collection::vec(1u32..50, 1..7), levels in 1usize..4, pairs in any::<u64>(),
        ) {
            let mut intensities: Vec<f64> = steps.iter().scan(0, |sum, step| { *sum += step; Some(f64::from(*sum)) }).collect();
            intensities.reverse();
            let meet = |a: usize, b: usize| pairs >> (a * 7 + b) & 1 == 1;
            let jobs = intensities.len();
            let cost = |runs: &[usize]| -> f64 {
                let pairs = (0..jobs).flat_map(|b| (0..b).map(move |a| (a, b)));
                pairs.filter(|&(a, b)| runs[a] == runs[b] && meet(a, b)).map(|(a, _)| intensities[a]).sum()
            };
            let found = cut(&intensities, levels, meet);
            prop_assert_eq!(found.len(), jobs);
            prop_assert!(found.is_sorted() && found[jobs - 1] < levels, "{:?}", found);
            // Every way to begin a new run after some of the jobs.
            let all = (0u32..1 << (jobs - 1)).filter(|marks| (marks.count_ones() as usize) < levels);
            for marks in all {
                let runs: Vec<usize> = (0..jobs).map(|job| (marks & ((1 << job) - 1)).count_ones() as usize).collect();
                prop_assert!(cost(&found) <= cost(&runs) + 1e-9, "{:?} against {:?}", found, runs);
            }
        }
    }
}

//! Several policies over one workload: every figure that a table, a JSON document or a report
//! needs, computed once.
//!
//! The structures are plain fields without a serialisation of their own: the schema of an output
//! belongs to its writer, and must not change because a field here is renamed.
//!
//! Cost: O(flows) for the yardsticks, then O(coflows log coflows) and a bootstrap for each run and
//! bin.

use cavalcade_model::{CoflowId, Fabric, FabricError, Instant, Nanos, Workload};

use crate::bins::{Bin, BinThresholds};
use crate::details::Details;
use crate::facts::{CoflowFacts, FabricFacts, Ranked, TaskFacts, TraceFacts, WorkloadFacts, fabric_facts};
use crate::flow_classes::flow_completion_times;
use crate::improvement::Improvement;
use crate::lower_bound::LowerBound;
use crate::outcome::{EngineCounts, LinkUse, MessageUse, Outcome};
use crate::queue_use::QueueUse;
use crate::savings::Savings;
use crate::summary::{SlowdownSummary, Summary, weighted_mean};

/// One finished run of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// Its name in tables: the policy's name, with the parameters that were set where that tells
    /// runs apart.
    pub label: String,
    /// The policy's name alone.
    pub policy: String,
    /// Its parameters, by name, in the order of the registry.
    pub params: Vec<(String, String)>,
    /// The origin of the policy, and what it is told.
    pub about: PolicyFacts,
    /// True if the policy was asked for by name, so that reports show it first.
    pub named: bool,
    /// The transport and its parameters, where packets were simulated; `None` where bytes flowed.
    pub transport: Option<TransportFacts>,
    /// The live control plane, where it carried decisions out; `None` where they held at once.
    pub control: Option<ControlFacts>,
    /// The outcome.
    pub outcome: Outcome,
    /// The wall time of the run on this machine, in seconds. The only figure that differs between
    /// machines.
    pub wall_s: f64,
}

/// The origin of a policy, and what it is told.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PolicyFacts {
    /// True if it is told the sizes of flows before they are sent. It is unknown of a schedule:
    /// [`PolicyFacts::told`].
    pub told_sizes: bool,
    /// The system and paper that it comes from, as `Varys, SIGCOMM 2014`; empty where there is
    /// none.
    pub paper: String,
    /// What it stands for, as people say: `TCP`; empty where that is nothing else.
    pub stands_for: String,
    /// True of a schedule that was made elsewhere, which no policy of this program has decided.
    pub is_schedule: bool,
}

impl PolicyFacts {
    /// Tells whether it is told the sizes of flows; `None` for a schedule, of which only its maker
    /// knows.
    pub fn told(&self) -> Option<bool> {
        (!self.is_schedule).then_some(self.told_sizes)
    }
}

/// The settings of the live control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFacts {
    /// The time between reports of an agent, and between rounds of the coordinator (Δ).
    pub period: Nanos,
}

/// The transport of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportFacts {
    /// The transport's name.
    pub name: String,
    /// Its parameters, by name, in the order of its registry.
    pub params: Vec<(String, String)>,
}

/// A workload, a fabric, and the outcome under each policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The trace in figures.
    pub trace: TraceFacts,
    /// The fabric in figures.
    pub fabric: FabricFacts,
    /// The limits between short and long, narrow and wide.
    pub thresholds: BinThresholds,
    /// For each coflow: its name and sizes.
    pub coflows: Vec<CoflowFacts>,
    /// For each coflow: its bin.
    pub bin_of: Vec<Bin>,
    /// For each coflow: its completion time alone on the fabric (Γ).
    pub isolation: Vec<Nanos>,
    /// For each task: its name, and what it takes alone.
    pub tasks: Vec<TaskFacts>,
    /// The index in `runs` of the one that the others are compared with.
    pub baseline: usize,
    /// The runs, in the order given.
    pub runs: Vec<RunFigures>,
    /// The lower bound on all runs, where that was asked for.
    pub bound: Option<LowerBound>,
    /// Times recorded when the workload ran for real, and what policies would have saved; of
    /// imported logs.
    pub savings: Option<Savings>,
    /// Some coflows up close, where they were looked at.
    pub details: Option<Details>,
}

/// One run in figures. Arrays are indexed by the workload's ids.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFigures {
    /// See [`RunResult::label`].
    pub label: String,
    /// See [`RunResult::policy`].
    pub policy: String,
    /// See [`RunResult::params`].
    pub params: Vec<(String, String)>,
    /// See [`RunResult::about`].
    pub about: PolicyFacts,
    /// See [`RunResult::named`].
    pub named: bool,
    /// See [`RunResult::transport`].
    pub transport: Option<TransportFacts>,
    /// See [`RunResult::control`].
    pub control: Option<ControlFacts>,
    /// Flow completion times by size ([`flow_completion_times`]), where packets were simulated.
    pub fct: Option<[Option<Summary>; 3]>,
    /// The queues of switches, where the driver recorded them.
    pub queue_use: Option<QueueUse>,
    /// Messages between instances of the policy over the network itself, where there were any.
    pub messages: Option<MessageUse>,
    /// See [`RunResult::wall_s`].
    pub wall_s: f64,
    /// The work of the driver.
    pub counts: EngineCounts,
    /// For each coflow: when it arrived (in a DAG this depends on the policy).
    pub arrival: Vec<Instant>,
    /// For each coflow: its completion time.
    pub cct: Vec<Nanos>,
    /// For each coflow: its completion time over Γ.
    pub slowdown: Vec<f64>,
    /// For each task: its completion time.
    pub tct: Vec<Nanos>,
    /// Of all CCTs.
    pub cct_summary: Summary,
    /// The mean CCT in seconds, each coflow counting as often as its task's weight says.
    pub weighted_cct_s: f64,
    /// Of all slowdowns.
    pub slowdown_summary: SlowdownSummary,
    /// Of all TCTs.
    pub tct_summary: Summary,
    /// For each task: its completion time over what it takes alone.
    pub task_slowdown: Vec<f64>,
    /// Of all slowdowns of tasks.
    pub task_slowdown_summary: SlowdownSummary,
    /// From the first arrival to the end of the last task.
    pub makespan: Nanos,
    /// Tasks that finished after their deadline.
    pub misses: usize,
    /// The CCTs against those of the baseline; `None` where there are no coflows.
    pub improvement: Option<Improvement>,
    /// The TCTs against those of the baseline; `None` where runs are ranked by coflows.
    pub task_improvement: Option<Improvement>,
    /// For each bin, in the order of [`Bin::ALL`]; `None` where it is empty.
    pub bins: [Option<BinFigures>; 4],
    /// The use of links, where the driver recorded it.
    pub utilisation: Option<Utilisation>,
}

impl RunFigures {
    /// The label for people: with what the policy stands for behind it, `fair (TCP)`, unless a
    /// transport says what it is, and with the mark of a schedule that was made elsewhere.
    pub fn shown(&self) -> String {
        if self.about.is_schedule {
            return format!("{} (schedule)", self.label);
        }
        match (&self.transport, self.about.stands_for.as_str()) {
            (Some(_), _) | (None, "") => self.label.clone(),
            (None, other) => format!("{} ({other})", self.label),
        }
    }
}

/// One run over the coflows of one bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinFigures {
    /// Of their CCTs.
    pub cct: Summary,
    /// Of their slowdowns.
    pub slowdown: SlowdownSummary,
    /// Against the baseline, over the same coflows.
    pub improvement: Improvement,
}

/// The share of its capacity that each link carried in equal intervals of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Utilisation {
    /// The length of an interval.
    pub interval: Nanos,
    /// The number of links: ingress of every port, then egress of every port.
    pub links: usize,
    /// `share[interval * links + link]`, from 0 to 1.
    pub share: Vec<f32>,
}

impl Utilisation {
    /// Returns the number of intervals.
    pub fn intervals(&self) -> usize {
        self.share.len() / self.links.max(1)
    }

    fn of(link_use: &LinkUse, fabric: &Fabric) -> Self {
        assert_eq!(link_use.links, fabric.link_count(), "link use is recorded for every link");
        let seconds = link_use.interval.as_secs_f64();
        let room: Vec<f64> =
            fabric.links().map(|link| fabric.capacity(link).as_f64() / 8.0 * seconds).collect();
        let share = link_use.bytes.iter().enumerate().map(|(index, bytes)| {
            let room = room[index % room.len()];
            if room > 0.0 { (bytes / room).clamp(0.0, 1.0) as f32 } else { 0.0 }
        });
        Self { interval: link_use.interval, links: link_use.links, share: share.collect() }
    }
}

impl Comparison {
    /// What the runs are ranked by.
    pub fn ranked(&self) -> Ranked {
        self.trace.ranked
    }

    /// The completion times that a run is ranked by.
    pub fn times<'a>(&self, run: &'a RunFigures) -> &'a [Nanos] {
        match self.ranked() {
            Ranked::Coflows => &run.cct,
            Ranked::Tasks => &run.tct,
        }
    }

    /// The summary of the times that a run is ranked by.
    pub fn summary<'a>(&self, run: &'a RunFigures) -> &'a Summary {
        match self.ranked() {
            Ranked::Coflows => &run.cct_summary,
            Ranked::Tasks => &run.tct_summary,
        }
    }

    /// The slowdowns of what a run is ranked by.
    pub fn slowdown<'a>(&self, run: &'a RunFigures) -> &'a SlowdownSummary {
        match self.ranked() {
            Ranked::Coflows => &run.slowdown_summary,
            Ranked::Tasks => &run.task_slowdown_summary,
        }
    }

    /// The factor over the baseline of the times that a run is ranked by; `None` where there are
    /// none.
    pub fn improvement(&self, run: &RunFigures) -> Option<Improvement> {
        match self.ranked() {
            Ranked::Coflows => run.improvement,
            Ranked::Tasks => run.task_improvement,
        }
    }

    /// The runs from best to worst: by the mean of the times that they are ranked by, equals in the
    /// order given.
    pub fn ranking(&self) -> Vec<usize> {
        let mean = |run: usize| self.summary(&self.runs[run]).mean_s;
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
        order
    }

    /// The runs to show first, best first: the baseline, the best of those told sizes, the best of
    /// those that are not, and all that were asked for by name.
    pub fn featured(&self) -> Vec<usize> {
        let ranking = self.ranking();
        let best =
            |told: bool| ranking.iter().copied().find(|&run| self.runs[run].about.told() == Some(told));
        let first = [Some(self.baseline), best(true), best(false)];
        ranking.iter().copied().filter(|&run| first.contains(&Some(run)) || self.runs[run].named).collect()
    }

    /// By how much the mean that a run is ranked by is above the bound, as a share of it; `None`
    /// where there is no bound, or it is zero.
    pub fn gap(&self, run: &RunFigures) -> Option<f64> {
        self.bound.as_ref()?.gap(self.times(run))
    }

    /// The run that the others are compared with.
    pub fn baseline_run(&self) -> &RunFigures {
        &self.runs[self.baseline]
    }
}

/// The settings of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// The limits between short and long, narrow and wide.
    pub thresholds: BinThresholds,
    /// The seed of the bootstrap.
    pub seed: u64,
}

impl Default for Analysis {
    /// The papers' bins and seed 1.
    fn default() -> Self {
        Self { thresholds: BinThresholds::default(), seed: 1 }
    }
}

/// Why runs cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// The baseline is no run.
    #[error("the baseline is run {baseline}, and there are {runs}: count from 0")]
    NoSuchRun {
        /// The place of the baseline.
        baseline: usize,
        /// Number of runs.
        runs: usize,
    },
    /// An outcome has other numbers of coflows, flows or tasks than the workload.
    #[error("run {run} is not of this workload: compare runs over one workload")]
    OtherWorkload {
        /// The place of the run.
        run: usize,
    },
    /// A recording, or times on another network, are not of the tasks that ran.
    #[error("there are times of {recorded} queries for {tasks} tasks: give one of each task that ran")]
    OtherRecording {
        /// Number of queries of which there are times.
        recorded: usize,
        /// Number of tasks that ran.
        tasks: usize,
    },
    /// The fabric cannot carry the workload.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

/// Returns whether an outcome has as many coflows, flows and tasks as a trace; the ends of flows
/// may be missing, as runs that were kept without them have none.
fn is_of(outcome: &Outcome, trace: &TraceFacts) -> bool {
    let flows = outcome.flow_finish.len();
    outcome.coflow_arrival.len() == trace.coflows
        && outcome.coflow_finish.len() == trace.coflows
        && (flows == trace.flows || flows == 0)
        && outcome.task_finish.len() == trace.tasks
}

/// [`Analysis::compare`] with the defaults.
///
/// # Errors
/// As [`Analysis::compare`].
pub fn analyse(
    workload: &Workload,
    fabric: &Fabric,
    runs: &[RunResult],
    baseline: usize,
) -> Result<Comparison, AnalysisError> {
    Analysis::default().compare(workload, fabric, runs, baseline)
}

impl Analysis {
    /// Computes everything about `runs`, all of `workload` on `fabric`, against `runs[baseline]`.
    ///
    /// # Errors
    /// If there is no such run, an outcome is not of this workload, or the fabric cannot carry it.
    pub fn compare(
        &self,
        workload: &Workload,
        fabric: &Fabric,
        runs: &[RunResult],
        baseline: usize,
    ) -> Result<Comparison, AnalysisError> {
        let facts = WorkloadFacts::of(workload, fabric, self.thresholds)?;
        let mut comparison = self.compare_by(facts, fabric, runs, baseline)?;
        for (figures, run) in comparison.runs.iter_mut().zip(runs).filter(|(_, run)| run.transport.is_some())
        {
            figures.fct = Some(flow_completion_times(workload, &run.outcome));
        }
        Ok(comparison)
    }

    /// The same from the facts of a workload, but for what is said of single flows.
    ///
    /// # Errors
    /// If there is no such run, or an outcome is not of this workload.
    pub fn compare_by(
        &self,
        facts: WorkloadFacts,
        fabric: &Fabric,
        runs: &[RunResult],
        baseline: usize,
    ) -> Result<Comparison, AnalysisError> {
        let Some(of_baseline) = runs.get(baseline) else {
            return Err(AnalysisError::NoSuchRun { baseline, runs: runs.len() });
        };
        if let Some(run) = runs.iter().position(|run| !is_of(&run.outcome, &facts.trace)) {
            return Err(AnalysisError::OtherWorkload { run });
        }
        let times: Vec<Vec<Nanos>> = runs.iter().map(|run| completion_times(&run.outcome)).collect();
        let setting = RunSetting {
            fabric,
            facts: &facts,
            baseline: &times[baseline],
            task_baseline: &facts.task_completion_times(&of_baseline.outcome),
            seed: self.seed,
        };
        let runs = runs.iter().zip(&times).map(|(run, cct)| setting.figures(run, cct)).collect();
        let WorkloadFacts { trace, thresholds, coflows, bin_of, isolation, tasks } = facts;
        Ok(Comparison {
            trace,
            fabric: fabric_facts(fabric),
            thresholds,
            coflows,
            bin_of,
            isolation,
            tasks,
            baseline,
            runs,
            bound: None,
            savings: None,
            details: None,
        })
    }
}

/// For each coflow its CCT.
fn completion_times(outcome: &Outcome) -> Vec<Nanos> {
    (0..outcome.coflow_finish.len()).map(|index| outcome.cct(CoflowId::from_index(index))).collect()
}

/// The common setting of all runs of a comparison.
struct RunSetting<'a> {
    fabric: &'a Fabric,
    facts: &'a WorkloadFacts,
    /// The CCTs under the baseline.
    baseline: &'a [Nanos],
    /// The TCTs under the baseline.
    task_baseline: &'a [Nanos],
    seed: u64,
}

impl RunSetting<'_> {
    fn figures(&self, run: &RunResult, cct: &[Nanos]) -> RunFigures {
        let WorkloadFacts { trace, coflows, isolation, tasks, .. } = self.facts;
        let slowdown: Vec<f64> = cct
            .iter()
            .zip(isolation)
            .map(|(time, alone)| time.as_f64() / alone.get().max(1) as f64)
            .collect();
        let tct = self.facts.task_completion_times(&run.outcome);
        let task_slowdown: Vec<f64> =
            tasks.iter().zip(&tct).map(|(task, &time)| task.slowdown(time)).collect();
        let late = tasks.iter().zip(&tct).filter(|(task, time)| task.deadline_met(**time) == Some(false));
        let weights = coflows.iter().map(|coflow| tasks[coflow.task.index()].weight);
        RunFigures {
            label: run.label.clone(),
            policy: run.policy.clone(),
            params: run.params.clone(),
            about: run.about.clone(),
            named: run.named,
            transport: run.transport.clone(),
            control: run.control,
            queue_use: run.outcome.queue_use.clone(),
            messages: run.outcome.messages,
            fct: None,
            wall_s: run.wall_s,
            counts: run.outcome.counts,
            arrival: run.outcome.coflow_arrival.clone(),
            cct_summary: Summary::of(cct),
            weighted_cct_s: weighted_mean(cct.iter().map(|time| time.as_secs_f64()).zip(weights)),
            slowdown_summary: SlowdownSummary::of(&slowdown),
            tct_summary: Summary::of(&tct),
            makespan: run.outcome.makespan().since(Instant::ZERO),
            misses: late.count(),
            improvement: Improvement::over(self.baseline, cct, self.seed),
            task_improvement: match trace.ranked {
                Ranked::Coflows => None,
                Ranked::Tasks => Improvement::over(self.task_baseline, &tct, self.seed),
            },
            task_slowdown_summary: SlowdownSummary::of(&task_slowdown),
            task_slowdown,
            bins: Bin::ALL.map(|bin| self.bin_figures(bin, cct, &slowdown)),
            utilisation: run.outcome.link_use.as_ref().map(|used| Utilisation::of(used, self.fabric)),
            cct: cct.to_vec(),
            slowdown,
            tct,
        }
    }

    fn bin_figures(&self, bin: Bin, cct: &[Nanos], slowdown: &[f64]) -> Option<BinFigures> {
        let members: Vec<usize> = (0..cct.len()).filter(|&coflow| self.facts.bin_of[coflow] == bin).collect();
        let of = |times: &[Nanos]| members.iter().map(|&coflow| times[coflow]).collect::<Vec<_>>();
        let slowdowns: Vec<f64> = members.iter().map(|&coflow| slowdown[coflow]).collect();
        let times = of(cct);
        Some(BinFigures {
            cct: Summary::of(&times),
            slowdown: SlowdownSummary::of(&slowdowns),
            improvement: Improvement::over(&of(self.baseline), &times, self.seed)?,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::facts::BinFacts;
    use cavalcade_model::{
        BitsPerSec, Bytes, Coflow, Flow, PortId, Stage, Task, TaskClass, Work, WorkloadBuilder,
    };

    fn secs(values: &[u64]) -> Vec<Instant> {
        values.iter().map(|&value| Instant(value * 1_000_000_000)).collect()
    }

    /// Two tasks on two ports at one byte per second: Γ of 4 s and 2 s.
    fn workload() -> Workload {
        let mut builder = WorkloadBuilder::new(2);
        let arrivals = [(0, 4, 1, None), (1, 2, 3, Some(Nanos::from_secs(2)))];
        for (index, (arrival, size, weight, deadline)) in arrivals.into_iter().enumerate() {
            let flow = Flow { src: PortId(0), dst: PortId(1), size: Bytes(size), wave: Nanos::ZERO };
            let stage = Stage {
                starts_after: vec![],
                finishes_after: vec![],
                work: Work::Transfer(CoflowId::default()),
            };
            let task = Task {
                name: index.to_string(),
                job: None,
                arrival: Instant(arrival * 1_000_000_000),
                deadline,
                class: TaskClass::Online,
                weight,
                stages: vec![stage],
            };
            builder.push(task, vec![Coflow { flows: vec![flow] }]);
        }
        builder.build().unwrap()
    }

    fn run(label: &str, finish: &[u64]) -> RunResult {
        let outcome = Outcome {
            coflow_arrival: secs(&[0, 1]),
            coflow_finish: secs(finish),
            flow_finish: secs(finish),
            task_finish: secs(finish),
            counts: EngineCounts::default(),
            link_use: Some(LinkUse {
                interval: Nanos::from_secs(3),
                links: 4,
                bytes: [3.0, 0.0, 0.0, 3.0, 1.5, 0.0, 0.0, 1.5].to_vec(),
            }),
            queue_use: None,
            messages: None,
        };
        let (label, policy) = (label.into(), label.into());
        RunResult {
            label,
            policy,
            params: vec![],
            about: PolicyFacts::default(),
            named: false,
            transport: None,
            control: None,
            outcome,
            wall_s: 0.5,
        }
    }

    pub(crate) fn comparison() -> Comparison {
        let fabric = Fabric::big_switch(2, BitsPerSec(8)).unwrap();
        analyse(&workload(), &fabric, &[run("fifo", &[4, 6]), run("sebf", &[6, 3])], 0).unwrap()
    }

    #[test]
    fn figures_of_a_run_are_those_of_the_arithmetic() {
        let comparison = comparison();
        let sebf = &comparison.runs[1];
        assert_eq!(comparison.isolation, [Nanos::from_secs(4), Nanos::from_secs(2)]);
        assert_eq!(sebf.cct, [Nanos::from_secs(6), Nanos::from_secs(2)]);
        assert_eq!(sebf.slowdown, [1.5, 1.0]);
        assert_eq!(sebf.slowdown_summary, SlowdownSummary { mean: 1.25, p95: 1.5 });
        assert_eq!((sebf.cct_summary.mean_s, sebf.weighted_cct_s), (4.0, 3.0));
        assert_eq!(sebf.makespan, Nanos::from_secs(6));
        assert_eq!(sebf.improvement.unwrap().factor, 4.5 / 4.0);
        assert_eq!(comparison.ranking(), [1, 0]);
    }

    /// A task of two transfers side by side, of 1 and 2 s alone, and a task of a single one of 5 s,
    /// on other ports.
    fn staged() -> Workload {
        let mut builder = WorkloadBuilder::new(6);
        let transfer = |src, dst, size| {
            let flow = Flow { src: PortId(src), dst: PortId(dst), size: Bytes(size), wave: Nanos::ZERO };
            vec![flow]
        };
        let one = Task::of_coflow("two", Instant::ZERO);
        let stages = vec![one.stages[0].clone(); 2];
        let task = Task { stages, deadline: Some(Nanos::from_secs(4)), ..one };
        let coflows = [transfer(0, 1, 1), transfer(2, 3, 2)].map(|flows| Coflow { flows });
        builder.push(task, coflows.into());
        builder.coflow("one", Instant::ZERO, transfer(4, 5, 5));
        builder.build().unwrap()
    }

    fn staged_run(label: &str, first: u64, second: u64, one: u64) -> RunResult {
        let outcome = Outcome {
            coflow_arrival: secs(&[0, 0, 0]),
            coflow_finish: secs(&[first, second, one]),
            flow_finish: secs(&[first, second, one]),
            task_finish: secs(&[first.max(second), one]),
            link_use: None,
            ..run(label, &[]).outcome
        };
        RunResult { outcome, ..run(label, &[]) }
    }

    #[test]
    fn where_tasks_have_stages_runs_are_ranked_by_how_long_tasks_took() {
        let fabric = Fabric::big_switch(6, BitsPerSec(8)).unwrap();
        let runs = [staged_run("fair", 1, 5, 5), staged_run("together", 4, 4, 5)];
        let comparison = analyse(&staged(), &fabric, &runs, 0).unwrap();
        assert_eq!(comparison.ranked(), Ranked::Tasks);
        // The mean CCTs, 11/3 and 13/3 s, would rank them the other way.
        let means: Vec<f64> = comparison.runs.iter().map(|run| comparison.summary(run).mean_s).collect();
        assert_eq!((&means[..], comparison.ranking()), (&[5.0, 4.5][..], vec![1, 0]));
        assert!(comparison.runs[0].cct_summary.mean_s < comparison.runs[1].cct_summary.mean_s);
        assert_eq!(comparison.improvement(&comparison.runs[1]).unwrap().factor, 5.0 / 4.5);
        let alone: Vec<Nanos> = comparison.tasks.iter().map(|task| task.alone).collect();
        assert_eq!(alone, [Nanos::from_secs(2), Nanos::from_secs(5)]);
        assert_eq!(comparison.runs[1].task_slowdown, [2.0, 1.0]);
        let met = |run: usize| comparison.tasks[0].deadline_met(comparison.runs[run].tct[0]);
        assert_eq!((met(0), met(1), comparison.runs[0].misses), (Some(false), Some(true), 1));
        assert_eq!(comparison.tasks[1].deadline_met(Nanos::MAX), None);
    }

    #[test]
    fn where_every_task_is_a_single_coflow_coflows_are_ranked() {
        let comparison = comparison();
        assert_eq!(comparison.ranked(), Ranked::Coflows);
        assert_eq!(comparison.times(&comparison.runs[0]), comparison.runs[0].cct);
        assert_eq!(comparison.runs[1].task_improvement, None);
    }

    #[test]
    fn a_deadline_is_missed_only_when_exceeded() {
        let comparison = comparison();
        assert_eq!((comparison.runs[0].misses, comparison.runs[1].misses), (1, 0));
        assert_eq!(comparison.trace.deadlines, 1);
    }

    #[test]
    fn empty_bins_have_no_figures_and_link_use_becomes_a_share() {
        let comparison = comparison();
        let run = &comparison.runs[0];
        assert!(run.bins[0].is_some() && run.bins[1..].iter().all(Option::is_none));
        assert_eq!(comparison.trace.bins[0], BinFacts { coflows: 2, bytes: Bytes(6) });
        let used = run.utilisation.as_ref().unwrap();
        assert_eq!((used.intervals(), &used.share[..]), (2, &[1.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.5][..]));
    }

    #[test]
    fn a_workload_without_tasks_has_zeros() {
        let fabric = Fabric::big_switch(1, BitsPerSec(8)).unwrap();
        let nothing = Outcome {
            coflow_arrival: vec![],
            coflow_finish: vec![],
            flow_finish: vec![],
            task_finish: vec![],
            counts: EngineCounts::default(),
            link_use: None,
            queue_use: None,
            messages: None,
        };
        let run = RunResult { outcome: nothing, ..run("fair", &[]) };
        let comparison = analyse(&WorkloadBuilder::new(1).build().unwrap(), &fabric, &[run], 0).unwrap();
        assert_eq!(comparison.runs[0].cct_summary, Summary::default());
        assert_eq!(comparison.runs[0].improvement, None);
    }
}

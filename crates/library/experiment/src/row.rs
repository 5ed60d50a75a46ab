//! What is kept of one run: a row of figures in seconds, each with a name.
//!
//! A row is wide rather than long: every run yields every figure, so a new question about old runs
//! needs no new runs. Figures that a run cannot have, such as the mean of an empty bin, are not
//! numbers (NaN). Those from [`ALWAYS`] on belong to some workloads only: a file of rows has a
//! column for them where one of its rows has the figure.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeSet;

use cavalcade_metrics::{
    Bin, BinThresholds, LowerBound, Outcome, Summary, isolation_times, mean, percentile,
    task_completion_times,
};
use cavalcade_model::{CoflowId, CoflowRef, Fabric, Flow, Nanos, Task, Work, Workload};

use crate::run::Key;

/// A statistic of many completion times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The median.
    P50,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
    /// The largest.
    Max,
}

/// The completion times that a statistic is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Coflows.
    Coflows,
    /// Tasks.
    Tasks,
    /// Coflows of tasks without deadline, where others have one.
    Free,
    /// Those of them that are short.
    FreeShort,
    /// Tasks with a deadline: one where it was missed, else zero. Their mean is the share that was
    /// missed.
    Missed,
    /// The messages of a policy's instances over the network. The mean is its share of all bytes on
    /// links.
    Negotiation,
    /// The time that their datagrams took.
    Delay,
}

/// A figure over all coflows or tasks, or some: `mean(cct)`, `p95(tct)`, `p99(free-short)`,
/// `mean(missed)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// The statistic.
    pub statistic: Statistic,
    /// Its subject.
    pub subject: Subject,
}

const STATISTICS: [(&str, Statistic); 5] = [
    ("mean", Statistic::Mean),
    ("p50", Statistic::P50),
    ("p95", Statistic::P95),
    ("p99", Statistic::P99),
    ("max", Statistic::Max),
];
const SUBJECTS: [(&str, Subject); 7] = [
    ("cct", Subject::Coflows),
    ("tct", Subject::Tasks),
    ("free", Subject::Free),
    ("free-short", Subject::FreeShort),
    ("missed", Subject::Missed),
    ("negotiation", Subject::Negotiation),
    ("delay", Subject::Delay),
];

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = || {
            let (statistic, subject) = text.strip_suffix(')')?.split_once('(')?;
            let statistic = STATISTICS.iter().find(|(name, _)| *name == statistic)?.1;
            let subject = SUBJECTS.iter().find(|(name, _)| *name == subject)?.1;
            let is_kept = match subject {
                Subject::Missed | Subject::Negotiation => statistic == Statistic::Mean,
                Subject::Delay => matches!(statistic, Statistic::Mean | Statistic::Max),
                Subject::Coflows | Subject::Tasks | Subject::Free | Subject::FreeShort => true,
            };
            is_kept.then_some(Measure { statistic, subject })
        };
        find().ok_or_else(|| {
            let subjects: Vec<String> = SUBJECTS.iter().map(|(name, _)| format!("({name})")).collect();
            format!(
                "'{text}' is no figure: write mean, p50, p95, p99 or max of {}, as p95(tct)",
                subjects.join(", ")
            )
        })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let statistic = STATISTICS.iter().find(|(_, value)| *value == self.statistic);
        let subject = SUBJECTS.iter().find(|(_, value)| *value == self.subject);
        write!(f, "{}({})", statistic.map_or("", |(name, _)| name), subject.map_or("", |(name, _)| name))
    }
}

/// A figure of a row: a measure over all, or over one bin of coflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The measure.
    pub measure: Measure,
    /// The bin, of which only `mean(cct)` and `p95(cct)` are kept.
    pub bin: Option<Bin>,
}

/// Number of figures in a row.
pub(crate) const FIGURES: usize = 35;

/// Number of those that every workload has; the columns of the others may be missing in a file of
/// rows.
pub const ALWAYS: usize = 18;

/// The names of the figures, in the order of [`Row::figures`]: columns of a table of rows.
pub(crate) const NAMES: [&str; FIGURES] = [
    "cct_mean_s",
    "cct_p50_s",
    "cct_p95_s",
    "cct_p99_s",
    "cct_max_s",
    "tct_mean_s",
    "tct_p50_s",
    "tct_p95_s",
    "tct_p99_s",
    "tct_max_s",
    "cct_mean_sn_s",
    "cct_mean_ln_s",
    "cct_mean_sw_s",
    "cct_mean_lw_s",
    "cct_p95_sn_s",
    "cct_p95_ln_s",
    "cct_p95_sw_s",
    "cct_p95_lw_s",
    "missed_share",
    "free_mean_s",
    "free_p50_s",
    "free_p95_s",
    "free_p99_s",
    "free_max_s",
    "free_short_mean_s",
    "free_short_p50_s",
    "free_short_p95_s",
    "free_short_p99_s",
    "free_short_max_s",
    "negotiation_share",
    "delay_mean_s",
    "delay_max_s",
    "tasks_counted",
    "size_cv2",
    "receivers",
];

/// The tasks of a run that are counted, and how.
#[derive(Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) bins: BinThresholds,
    /// The share of the tasks, the first to arrive, that are left out.
    pub(crate) warm_up: f64,
}

/// The variation of tasks' sizes in a workload, and the part of the fabric that a task uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The squared coefficient of variation of the bytes of a task.
    pub(crate) size_cv2: f64,
    /// The number of ports that a task receives at: the geometric mean.
    pub(crate) receivers: f64,
}

impl Spread {
    fn of(workload: &Workload, tasks: &[Task]) -> Self {
        let flows_of = |task: &Task| -> Vec<Flow> {
            let transfers = task.stages.iter().filter_map(|stage| match stage.work {
                Work::Transfer(coflow) => Some(workload.flows_of(coflow)),
                Work::Compute(_) => None,
            });
            transfers.flatten().copied().collect()
        };
        let (mut bytes, mut squares, mut logs) = (0.0, 0.0, 0.0);
        for task in tasks {
            let flows = flows_of(task);
            let size: f64 = flows.iter().map(|flow| flow.size.as_f64()).sum();
            bytes += size;
            squares += size * size;
            let receivers: BTreeSet<u32> = flows.iter().map(|flow| flow.dst.0).collect();
            logs += libm::log(receivers.len().max(1) as f64);
        }
        let count = tasks.len() as f64;
        let mean = bytes / count;
        Self { size_cv2: squares / count / (mean * mean) - 1.0, receivers: libm::exp(logs / count) }
    }
}

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct Row {
    /// The run.
    pub key: Key,
    /// Number of coflows.
    pub coflows: u64,
    /// In seconds (shares from 0 to 1), in the order of [`Row::columns`].
    pub figures: [f64; FIGURES],
}

impl Row {
    /// The names of [`Row::figures`].
    pub const fn columns() -> &'static [&'static str; FIGURES] {
        &NAMES
    }

    /// All but the key, bit for bit: what a worker on another machine sends back.
    pub fn words(&self) -> Vec<u64> {
        std::iter::once(self.coflows).chain(self.figures.map(f64::to_bits)).collect()
    }

    /// The row of a run by its [`Row::words`]; `None` where they name no row.
    pub fn of_words(key: Key, words: &[u64]) -> Option<Self> {
        let (&coflows, figures) = words.split_first()?;
        let figures: [u64; FIGURES] = figures.try_into().ok()?;
        Some(Self { key, coflows, figures: figures.map(f64::from_bits) })
    }

    /// One figure; NaN where the run has no such figure.
    pub fn get(&self, figure: Figure) -> f64 {
        let Measure { statistic, subject } = figure.measure;
        let index = match (figure.bin, subject, statistic) {
            (None, Subject::Coflows, _) => statistic as usize,
            (None, Subject::Tasks, _) => 5 + statistic as usize,
            (None, Subject::Missed, _) => ALWAYS,
            (None, Subject::Free, _) => ALWAYS + 1 + statistic as usize,
            (None, Subject::FreeShort, _) => ALWAYS + 6 + statistic as usize,
            (None, Subject::Negotiation, _) => ALWAYS + 11,
            (None, Subject::Delay, Statistic::Mean) => ALWAYS + 12,
            (None, Subject::Delay, Statistic::Max) => ALWAYS + 13,
            (Some(bin), Subject::Coflows, Statistic::Mean) => 10 + bin.index(),
            (Some(bin), Subject::Coflows, Statistic::P95) => 14 + bin.index(),
            _ => return f64::NAN,
        };
        self.figures[index]
    }

    /// Returns the number of tasks its figures are of; of coflows, where no warm-up is cut.
    pub(crate) fn counted(&self) -> f64 {
        let tasks = self.figures[ALWAYS + 14];
        if tasks.is_nan() { self.coflows as f64 } else { tasks }
    }

    /// The figures of a finished run.
    pub(crate) fn of_outcome(key: Key, workload: &Workload, counted: Counted, outcome: &Outcome) -> Self {
        let all = workload.tasks().len();
        let first = (counted.warm_up * all as f64) as usize;
        let coflows: Vec<(CoflowRef<'_>, Nanos)> = workload
            .coflows()
            .filter(|coflow| workload.place(coflow.id).task.index() >= first)
            .map(|coflow| (coflow, outcome.cct(coflow.id)))
            .collect();
        let tcts = &task_completion_times(workload, outcome)[first..];
        let mut bins: [Vec<Nanos>; 4] = Default::default();
        for (coflow, cct) in &coflows {
            bins[counted.bins.bin_of(coflow).index()].push(*cct);
        }
        let ccts: Vec<Nanos> = coflows.iter().map(|&(_, cct)| cct).collect();
        let mut figures = [f64::NAN; FIGURES];
        for (start, times) in [(0, ccts.as_slice()), (5, tcts)] {
            figures[start..start + 5].copy_from_slice(&statistics(times));
        }
        if first > 0 {
            figures[ALWAYS + 14] = tcts.len() as f64;
        }
        for (index, times) in bins.iter_mut().enumerate().filter(|(_, times)| !times.is_empty()) {
            times.sort_unstable();
            figures[10 + index] = mean(times) / 1e9;
            let p95 = percentile(times, cavalcade_metrics::Percent::P95);
            figures[14 + index] = p95.expect("the bin is not empty").as_secs_f64();
        }
        if let Some(said) = &outcome.messages {
            let delays = [said.mean_delay(), said.longest].map(Nanos::as_secs_f64);
            figures[ALWAYS + 11..][..3].copy_from_slice(&[said.share(), delays[0], delays[1]]);
        }
        Self { key, coflows: workload.coflow_count() as u64, figures }.with_deadlines(
            workload,
            counted.bins,
            &coflows,
            &workload.tasks()[first..],
            tcts,
        )
    }

    /// The figures about deadlines, where some tasks have one.
    fn with_deadlines(
        mut self,
        workload: &Workload,
        thresholds: BinThresholds,
        coflows: &[(CoflowRef<'_>, Nanos)],
        tasks: &[Task],
        tcts: &[Nanos],
    ) -> Self {
        let allowed: Vec<(Nanos, Nanos)> =
            tasks.iter().zip(tcts).filter_map(|(task, &took)| Some((task.deadline?, took))).collect();
        if allowed.is_empty() {
            return self;
        }
        let missed = allowed.iter().filter(|(deadline, took)| took > deadline).count();
        self.figures[ALWAYS] = missed as f64 / allowed.len() as f64;
        let has_none = |coflow: CoflowId| workload.task(workload.place(coflow).task).deadline.is_none();
        let free = || coflows.iter().filter(|(coflow, _)| has_none(coflow.id));
        let all: Vec<Nanos> = free().map(|&(_, cct)| cct).collect();
        let is_short =
            |coflow: &CoflowRef<'_>| matches!(thresholds.bin_of(coflow), Bin::ShortNarrow | Bin::ShortWide);
        let short: Vec<Nanos> = free().filter(|(coflow, _)| is_short(coflow)).map(|&(_, cct)| cct).collect();
        for (start, times) in [(ALWAYS + 1, all), (ALWAYS + 6, short)] {
            if !times.is_empty() {
                self.figures[start..start + 5].copy_from_slice(&statistics(&times));
            }
        }
        self
    }

    /// Returns the spread of the tasks of a run of `sizes`; `None` for any other.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let [size_cv2, receivers] = [self.figures[ALWAYS + 15], self.figures[ALWAYS + 16]];
        (!size_cv2.is_nan()).then_some(Spread { size_cv2, receivers })
    }

    /// Takes the figures of a workload that is not run.
    pub(crate) fn of_workload(key: Key, workload: &Workload, counted: Counted) -> Self {
        let all = workload.tasks().len();
        let tasks = &workload.tasks()[(counted.warm_up * all as f64) as usize..];
        let Spread { size_cv2, receivers } = Spread::of(workload, tasks);
        let mut figures = [f64::NAN; FIGURES];
        figures[ALWAYS + 14..].copy_from_slice(&[tasks.len() as f64, size_cv2, receivers]);
        Self { key, coflows: workload.coflow_count() as u64, figures }
    }

    /// The figures of a bound: the mean CCT that no schedule is below, and what each coflow takes
    /// alone.
    pub(crate) fn of_bound(key: Key, workload: &Workload, fabric: &Fabric, bound: &LowerBound) -> Self {
        let mut figures = [f64::NAN; FIGURES];
        let alone =
            Summary::of(&isolation_times(workload, fabric).expect("a bound is on a fabric with all ports"));
        figures[..5].copy_from_slice(&[
            bound.mean.as_secs_f64(),
            alone.p50_s,
            alone.p95_s,
            alone.p99_s,
            alone.max_s,
        ]);
        Self { key, coflows: workload.coflow_count() as u64, figures }
    }
}

/// In the order of [`Statistic`].
fn statistics(times: &[Nanos]) -> [f64; 5] {
    let Summary { mean_s, p50_s, p95_s, p99_s, max_s } = Summary::of(times);
    [mean_s, p50_s, p95_s, p99_s, max_s]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_prints_what_it_reads() {
        for text in
            ["mean(cct)", "p50(tct)", "p95(cct)", "p99(tct)", "max(delay)", "p99(free-short)", "mean(missed)"]
        {
            assert_eq!(text.parse::<Measure>().unwrap().to_string(), text);
        }
        for text in ["", "mean", "mean(fct)", "p42(cct)", "mean(cct", "p95(missed)", "p50(delay)"] {
            assert!(text.parse::<Measure>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_row_survives_its_words_bit_for_bit() {
        let key = Key { workload: String::new(), policy: String::new(), conditions: String::new(), seed: 1 };
        let mut figures = [f64::NAN; FIGURES];
        figures[..4].copy_from_slice(&[1.0 / 3.0, -0.0, f64::INFINITY, 5e-324]);
        let row = Row { key: key.clone(), coflows: u64::MAX, figures };
        let back = Row::of_words(key.clone(), &row.words()).unwrap();
        assert_eq!((back.coflows, back.words()), (u64::MAX, row.words()));
        for wrong in [&[][..], &row.words()[1..], &[row.words(), vec![0]].concat()] {
            assert!(Row::of_words(key.clone(), wrong).is_none());
        }
    }

    #[test]
    fn every_figure_finds_its_column() {
        let key = Key { workload: String::new(), policy: String::new(), conditions: String::new(), seed: 1 };
        let figures = core::array::from_fn(|index| index as f64);
        let row = Row { key, coflows: 0, figures };
        let at = |text: &str, bin| row.get(Figure { measure: text.parse().unwrap(), bin });
        assert_eq!(NAMES[at("p99(cct)", None) as usize], "cct_p99_s");
        assert_eq!(NAMES[at("mean(tct)", None) as usize], "tct_mean_s");
        assert_eq!(NAMES[at("mean(cct)", Some(Bin::LongWide)) as usize], "cct_mean_lw_s");
        assert_eq!(NAMES[at("p95(cct)", Some(Bin::ShortNarrow)) as usize], "cct_p95_sn_s");
        assert!(at("p99(cct)", Some(Bin::ShortNarrow)).is_nan());
        assert_eq!(NAMES[at("mean(missed)", None) as usize], "missed_share");
        assert_eq!(NAMES[at("max(free)", None) as usize], "free_max_s");
        assert_eq!(NAMES[at("mean(negotiation)", None) as usize], "negotiation_share");
        assert_eq!(NAMES[at("max(delay)", None) as usize], "delay_max_s");
        assert_eq!(NAMES[at("p99(free-short)", None) as usize], "free_short_p99_s");
        assert_eq!(NAMES[ALWAYS + 14], "tasks_counted");
        assert_eq!(row.spread(), Some(Spread { size_cv2: 33.0, receivers: 34.0 }));
    }
}

//! What is kept of one run: a row of figures in seconds, each with a name.
//!
//! A row is wide rather than long: every run yields every figure, so a new question about old runs needs no new runs.
//! Figures that a run cannot have, such as the mean of an empty bin, are not numbers (NaN).

use core::fmt;
use core::str::FromStr;

use cavalcade_metrics::{
    Bin, BinThresholds, LowerBound, Outcome, Summary, isolation_times, mean, percentile,
    task_completion_times,
};
use cavalcade_model::{Fabric, Nanos, Workload};

use crate::run::Key;

/// What of many completion times.
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

/// Whose completion times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Coflows.
    Coflows,
    /// Tasks.
    Tasks,
}

/// A figure over all coflows or tasks: `mean(cct)`, `p95(tct)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// What of them.
    pub statistic: Statistic,
    /// Whose.
    pub subject: Subject,
}

const STATISTICS: [(&str, Statistic); 5] = [
    ("mean", Statistic::Mean),
    ("p50", Statistic::P50),
    ("p95", Statistic::P95),
    ("p99", Statistic::P99),
    ("max", Statistic::Max),
];
const SUBJECTS: [(&str, Subject); 2] = [("cct", Subject::Coflows), ("tct", Subject::Tasks)];

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let find = || {
            let (statistic, subject) = text.strip_suffix(')')?.split_once('(')?;
            let statistic = STATISTICS.iter().find(|(name, _)| *name == statistic)?.1;
            let subject = SUBJECTS.iter().find(|(name, _)| *name == subject)?.1;
            Some(Measure { statistic, subject })
        };
        find().ok_or_else(|| {
            format!("'{text}' is no figure: write mean, p50, p95, p99 or max of (cct) or (tct), as p95(tct)")
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

/// How many figures a row has.
pub(crate) const FIGURES: usize = 18;

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
];

/// The figures of one run.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which run.
    pub key: Key,
    /// How many coflows there were.
    pub coflows: u64,
    /// In seconds, in the order of [`Row::columns`].
    pub figures: [f64; FIGURES],
}

impl Row {
    /// The names of [`Row::figures`].
    pub const fn columns() -> &'static [&'static str; FIGURES] {
        &NAMES
    }

    /// One figure; not a number where the run has none.
    pub fn get(&self, figure: Figure) -> f64 {
        let Measure { statistic, subject } = figure.measure;
        let index = match (figure.bin, subject, statistic) {
            (None, Subject::Coflows, _) => statistic as usize,
            (None, Subject::Tasks, _) => 5 + statistic as usize,
            (Some(bin), Subject::Coflows, Statistic::Mean) => 10 + bin.index(),
            (Some(bin), Subject::Coflows, Statistic::P95) => 14 + bin.index(),
            _ => return f64::NAN,
        };
        self.figures[index]
    }

    /// The figures of a finished run.
    pub(crate) fn of_outcome(
        key: Key,
        workload: &Workload,
        thresholds: BinThresholds,
        outcome: &Outcome,
    ) -> Self {
        let ccts: Vec<Nanos> = workload.coflows().map(|coflow| outcome.cct(coflow.id)).collect();
        let tcts = task_completion_times(workload, outcome);
        let mut bins: [Vec<Nanos>; 4] = Default::default();
        for (coflow, &cct) in workload.coflows().zip(&ccts) {
            bins[thresholds.bin_of(&coflow).index()].push(cct);
        }
        let mut figures = [f64::NAN; FIGURES];
        for (start, times) in [(0, &ccts), (5, &tcts)] {
            let Summary { mean_s, p50_s, p95_s, p99_s, max_s } = Summary::of(times);
            figures[start..start + 5].copy_from_slice(&[mean_s, p50_s, p95_s, p99_s, max_s]);
        }
        for (index, times) in bins.iter_mut().enumerate().filter(|(_, times)| !times.is_empty()) {
            times.sort_unstable();
            figures[10 + index] = mean(times) / 1e9;
            let p95 = percentile(times, cavalcade_metrics::Percent::P95);
            figures[14 + index] = p95.expect("the bin is not empty").as_secs_f64();
        }
        Self { key, coflows: workload.coflow_count() as u64, figures }
    }

    /// The figures of a bound: the mean CCT that no schedule is below, and what each coflow takes alone.
    pub(crate) fn of_bound(key: Key, workload: &Workload, fabric: &Fabric, bound: &LowerBound) -> Self {
        let mut figures = [f64::NAN; FIGURES];
        let alone = Summary::of(&isolation_times(workload, fabric));
        figures[..5].copy_from_slice(&[
            bound.mean_cct.as_secs_f64(),
            alone.p50_s,
            alone.p95_s,
            alone.p99_s,
            alone.max_s,
        ]);
        Self { key, coflows: workload.coflow_count() as u64, figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_prints_what_it_reads() {
        for text in ["mean(cct)", "p50(tct)", "p95(cct)", "p99(tct)", "max(cct)"] {
            assert_eq!(text.parse::<Measure>().unwrap().to_string(), text);
        }
        for text in ["", "mean", "mean(fct)", "p42(cct)", "mean(cct"] {
            assert!(text.parse::<Measure>().is_err(), "{text}");
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
    }
}

//! The text of an experiment, and what it means.
//!
//! The text is TOML. Its fields are the structs of the module `text`; unknown ones are refused.
//! What a text can get wrong is found here, before anything runs: policies, workloads, figures and
//! names of series are all read.
//!
//! `{x}` in a workload or policy stands for the value of the panel's axis, so one line describes a
//! sweep.

mod text;

use core::num::NonZeroU32;
use std::collections::BTreeMap;

use cavalcade_metrics::{Bin, BinThresholds};
use cavalcade_model::{BitsPerSec, Bytes, Nanos};

use crate::row::{Figure, Measure, Row};
use crate::run::{Conditions, Key, LINK_DELAY, Run, Subject};
use crate::workload::{WorkloadError, WorkloadSpec};
use cavalcade_metrics::Estimate;

/// An experiment, checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The name of its folder.
    pub name: String,
    /// The title.
    pub title: String,
    /// The paper and the place in it.
    pub source: String,
    /// The question.
    pub question: String,
    /// The choices made where the paper leaves something open.
    pub assumptions: Vec<String>,
    /// The findings in prose; written by a person who has seen the figures.
    pub findings: String,
    /// True if it is cheap enough for every change to run one seed of it.
    pub smoke: bool,
    /// The conditions of all runs that do not set others.
    pub conditions: Conditions,
    /// Its panels: each a measurement along an axis.
    pub panels: Vec<Panel>,
    /// The law that is fitted to a panel and tested on the rest of it.
    pub criterion: Option<Criterion>,
}

/// A law of the speedup along a panel whose places are workloads: fitted at some of them, tested at
/// the others.
#[derive(Clone, Debug)]
pub struct Criterion {
    /// The line of the text on which it begins.
    pub line: usize,
    /// The panel.
    pub(crate) panel: usize,
    /// The series whose speedup over the panel's baseline it predicts.
    pub(crate) series: usize,
    /// The figures, each with a law of its own.
    pub(crate) measures: Vec<Measure>,
    /// The places at which it is fitted, in ascending order.
    pub(crate) fitted: Vec<usize>,
    /// At the others, the most that a prediction may be off, as a factor in the mean square.
    pub(crate) error_at_most: f64,
    /// At the others, the least share of the sides of one that it has to name.
    pub(crate) sides_at_least: f64,
    /// At each place, the run that has the workload.
    pub(crate) sizes: Vec<Cell>,
}

/// A measurement along an axis.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The line of the text on which it begins.
    pub line: usize,
    /// The title.
    pub title: String,
    /// Along what.
    pub axis: Axis,
    /// The measure.
    pub measure: Measure,
    /// The form in which it is shown.
    pub form: Form,
    /// The baseline of the series.
    pub against: Option<usize>,
    /// The compared series.
    pub series: Vec<Series>,
    /// Number of seeds of what is random.
    pub seeds: u64,
    /// The paper's statements.
    pub expectations: Vec<Expectation>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// A parameter, each value of which is a run of its own.
    Values {
        /// Its name.
        name: String,
        /// Its values, as `{x}` is replaced.
        values: Vec<String>,
        /// Their labels; numbers are their own.
        labels: Vec<String>,
        /// The values as numbers, where all are.
        numbers: Option<Vec<f64>>,
        /// True if equal ratios are equal distances.
        log: bool,
    },
    /// All coflows, and those of each bin, out of the same runs.
    Bins,
    /// Several figures of the same runs.
    Measures(Vec<Measure>),
}

/// The form of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The baseline's figure over that of the series: above one is better than the baseline.
    Factor,
    /// By how many per cent that of the series is below that of the baseline (Baraat's
    /// "reduction").
    Reduction,
    /// By how many per cent that of the series is above that of the baseline.
    Gap,
    /// The figure itself.
    Seconds,
    /// The figure itself, a share, in per cent.
    Share,
}

impl Form {
    /// Returns whether it shows a figure as it is, compared with nothing.
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Seconds | Self::Share)
    }
}

/// A compared policy, and its workload and fabric at each value of the axis.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// For each value of the axis (one, where the axis is no parameter): what is run.
    pub(crate) cells: Vec<Cell>,
}

impl Series {
    /// The name that its colour goes by: the policy's, or the transport's where packets are on
    /// their own.
    pub(crate) fn policy(&self) -> String {
        match self.cells.first().map(|cell| &cell.subject) {
            Some(
                Subject::Policy(policy)
                | Subject::Live { policy, .. }
                | Subject::Packets { policy: Some(policy), .. },
            ) => policy.name().to_owned(),
            Some(Subject::Packets { policy: None, transport }) => transport.name().to_owned(),
            Some(Subject::Bound { .. }) => "bound".to_owned(),
            Some(Subject::Sizes) | None => String::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) spec: WorkloadSpec,
    pub(crate) subject: Subject,
    pub(crate) conditions: Conditions,
}

/// The id of statements that no paper makes.
pub const OURS: &str = "ours";

/// A statement of a paper.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The line of the text on which it names its claim.
    pub line: usize,
    /// The id of the claim in the list of claims, or [`OURS`].
    pub claim: String,
    /// The reading of the paper under which it is tested; empty for the literal one.
    pub reading: String,
    /// True if it is true by construction: a worked example, a closed form, a limit of the policy.
    pub construction: bool,
    /// True if a parameter of the workload or policy was chosen so that this figure comes out; it
    /// is judged, and decides nothing.
    pub fitted: bool,
    /// The claim.
    pub text: String,
    /// About which series.
    pub series: usize,
    /// Compared with which.
    pub against: Option<usize>,
    /// Of which figure; `None` where the axis determines it.
    pub measure: Option<Measure>,
    /// In which form.
    pub form: Form,
    /// The expected figures.
    pub expected: Expected,
    /// Why it came out otherwise; written by a person.
    pub why: String,
}

/// An expected figure, and its place along the axis (as an index).
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// A number.
    Value {
        /// The place.
        at: usize,
        /// The paper's number, in the expectation's form.
        paper: f64,
        /// The tolerance that still counts as the same: a share of the ratio to the baseline (of a
        /// time, without a baseline), or percentage points where the figure is a share.
        band: f64,
        /// The limit that the paper states beside the number ("up to", "less than"), in the same
        /// form.
        inside: Option<f64>,
    },
    /// A figure that is no more, or no less, than so much.
    Limit {
        /// The place.
        at: usize,
        /// The limit, in the expectation's form.
        limit: f64,
        /// True if it is the most that there may be; else the least.
        most: bool,
    },
    /// A figure that rises, falls or stays from one place to another.
    Trend {
        /// The direction.
        direction: Direction,
        /// From where.
        from: usize,
        /// To where.
        to: usize,
        /// The tolerance that counts as no change, as a share.
        band: f64,
    },
    /// An order of series, each at least as good as the next, everywhere or at one place.
    Order {
        /// The best first.
        series: Vec<usize>,
        /// The place; `None` for everywhere.
        at: Option<usize>,
        /// The tolerance that counts as equal, as a share.
        band: f64,
    },
    /// A best value of the axis that is among these.
    Best {
        /// The places where the best may be.
        among: Vec<usize>,
    },
}

/// The direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Up.
    Rises,
    /// Down.
    Falls,
    /// Nowhere.
    Flat,
}

/// Why a text is no experiment, or no list of claims.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// It is no TOML, or its fields are others.
    #[error("line {line}: {fault}")]
    Text {
        /// The line of the text.
        line: usize,
        /// The fault, and what was expected.
        fault: String,
    },
    /// A part has an impossible value.
    #[error("line {line}, {place}: {fault}")]
    Part {
        /// The line of the text on which the part begins.
        line: usize,
        /// The place.
        place: String,
        /// The fault, and what was expected.
        fault: String,
    },
}

impl DefinitionError {
    /// An error of the TOML reader, with the line of `text` that it refers to.
    pub(crate) fn of_toml(error: &toml::de::Error, text: &str) -> Self {
        let at = error.span().map_or(0, |span| span.start);
        Self::Text { line: line_at(text, at), fault: error.message().to_owned() }
    }
}

/// The line of `text`, from one, on which the byte `at` stands.
pub(crate) fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
}

impl Experiment {
    /// Reads the text of the experiment in the folder `name`.
    ///
    /// # Errors
    /// The first thing found wrong, where it is, and what was expected.
    pub fn read(name: &str, text: &str) -> Result<Self, DefinitionError> {
        let file: text::File =
            toml::from_str(text).map_err(|error| DefinitionError::of_toml(&error, text))?;
        let usual = Conditions {
            rate: BitsPerSec(1_000_000_000),
            offline: false,
            control_delay: Nanos::ZERO,
            bins: BinThresholds { short_below: Bytes(5_000_000), narrow_up_to: 50 },
            fabric: None,
            link_delay: LINK_DELAY,
            in_band: false,
            warm_up: 0.0,
            counters: NonZeroU32::MIN,
        };
        let line = file.conditions.as_ref().map_or(1, |conditions| line_at(text, conditions.span().start));
        let conditions = file.conditions.map(toml::Spanned::into_inner).unwrap_or_default();
        let conditions = conditions.over(&usual).map_err(|(field, fault)| DefinitionError::Part {
            line,
            place: format!("conditions.{field}"),
            fault,
        })?;
        if file.panel.is_empty() {
            let fault = "there is none: give at least one [[panel]]".to_owned();
            return Err(DefinitionError::Part { line: 1, place: "panel".to_owned(), fault });
        }
        let panels = file.panel.into_iter().map(|panel| panel.checked(file.seeds, &conditions, text));
        let panels: Vec<Panel> = panels.collect::<Result<_, _>>()?;
        let criterion = file.criterion.map(|criterion| criterion.checked(&panels, text)).transpose()?;
        Ok(Self {
            name: name.to_owned(),
            title: file.title,
            source: file.source,
            question: paragraph(&file.question),
            assumptions: file.assumptions.iter().map(|text| paragraph(text)).collect(),
            findings: file.findings.trim().to_owned(),
            smoke: file.smoke,
            conditions,
            panels,
            criterion,
        })
    }

    /// All runs, each once, in the order of the text.
    pub fn runs(&self) -> Vec<Run> {
        self.runs_by_line().into_iter().map(|(_, run)| run).collect()
    }

    /// The same, each with the line of the panel that asks for it first.
    pub fn runs_by_line(&self) -> Vec<(usize, Run)> {
        let mut seen = std::collections::BTreeSet::new();
        let mut runs = Vec::new();
        let of_panels = self.panels.iter().flat_map(|panel| {
            panel.series.iter().flat_map(|series| &series.cells).map(move |cell| (panel.line, panel, cell))
        });
        let of_criterion = self.criterion.iter().flat_map(|criterion| {
            criterion.sizes.iter().map(|cell| (criterion.line, &self.panels[criterion.panel], cell))
        });
        for (line, panel, cell) in of_panels.chain(of_criterion) {
            for seed in panel.seeds_of(cell) {
                let key = cell.key(seed);
                if seen.insert(key.clone()) {
                    let Cell { spec, subject, conditions, .. } = cell.clone();
                    runs.push((line, Run { key, workload: spec, subject, conditions }));
                }
            }
        }
        runs
    }

    /// A figure of `series` at a place of the panel's axis; `None` where rows are missing.
    pub(crate) fn estimate(
        &self,
        rows: &BTreeMap<Key, Row>,
        panel: &Panel,
        series: usize,
        place: usize,
        view: View,
    ) -> Option<Estimate> {
        let samples = self.samples(rows, panel, series, place, view)?;
        if view.form == Form::Share {
            return Estimate::of_values(&samples);
        }
        Some(Estimate::of_ratios(&samples)?.map(|ratio| view.form.of_ratio(ratio)))
    }

    /// The figure of each seed: a share in per cent, a time, or the ratio of the baseline's time to
    /// that of the series.
    pub(crate) fn samples(
        &self,
        rows: &BTreeMap<Key, Row>,
        panel: &Panel,
        series: usize,
        place: usize,
        view: View,
    ) -> Option<Vec<f64>> {
        let (cell, figure) = panel.look(place, view.measure);
        let of = |series: usize, seed: u64| {
            let key = panel.series[series].cells[cell].key(seed);
            rows.get(&key).map(|row| row.get(figure))
        };
        let seeds = panel.seeds_of(&panel.series[series].cells[cell]);
        let against = view.against.filter(|_| !view.form.is_plain());
        let sample = |seed: u64| {
            let own = of(series, seed)?;
            Some(match (view.form, against) {
                (Form::Share, _) => 100.0 * own,
                (_, Some(against)) => of(against, seed)? / own,
                (_, None) => own,
            })
        };
        seeds.map(sample).collect()
    }

    /// Returns the number of tasks (coflows, where nothing is cut) that a figure at a place is of,
    /// in the run that has fewest.
    pub(crate) fn counted(
        &self,
        rows: &BTreeMap<Key, Row>,
        panel: &Panel,
        series: usize,
        place: usize,
    ) -> f64 {
        let (cell, _) = panel.look(place, None);
        let cell = &panel.series[series].cells[cell];
        let rows = panel.seeds_of(cell).filter_map(|seed| rows.get(&cell.key(seed)));
        rows.map(Row::counted).fold(f64::INFINITY, f64::min)
    }
}

impl Form {
    /// The figure in this form, of the ratio of the baseline's time to that of the series.
    pub(crate) fn of_ratio(self, ratio: f64) -> f64 {
        match self {
            Self::Factor | Self::Seconds | Self::Share => ratio,
            Self::Reduction => 100.0 * (1.0 - 1.0 / ratio),
            Self::Gap => 100.0 * (1.0 / ratio - 1.0),
        }
    }

    /// The ratio of the baseline's time to that of the series, of a figure in this form.
    pub(crate) fn ratio_of(self, figure: f64) -> f64 {
        match self {
            Self::Factor | Self::Seconds | Self::Share => figure,
            Self::Reduction => 1.0 / (1.0 - figure / 100.0),
            Self::Gap => 1.0 / (1.0 + figure / 100.0),
        }
    }
}

/// The view of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// Instead of the panel's.
    pub(crate) measure: Option<Measure>,
    pub(crate) against: Option<usize>,
    pub(crate) form: Form,
}

impl Panel {
    /// Returns the number of places on the axis.
    pub fn places(&self) -> usize {
        match &self.axis {
            Axis::Values { values, .. } => values.len(),
            Axis::Bins => 5,
            Axis::Measures(measures) => measures.len(),
        }
    }

    /// Returns the label of a place on the axis.
    pub fn place(&self, place: usize) -> String {
        match &self.axis {
            Axis::Values { labels, .. } => labels[place].clone(),
            Axis::Bins => bin(place).map_or("all", Bin::code).to_owned(),
            Axis::Measures(measures) => measures[place].to_string(),
        }
    }

    /// Returns the measure at a place.
    pub(crate) fn measure_at(&self, place: usize) -> Measure {
        match &self.axis {
            Axis::Measures(measures) => measures[place],
            Axis::Values { .. } | Axis::Bins => self.measure,
        }
    }

    /// Returns the panel's own view of its series.
    pub(crate) fn view(&self) -> View {
        View { measure: None, against: self.against, form: self.form }
    }

    /// Returns the cell of a series, and the figure of its row, at a place.
    fn look(&self, place: usize, measure: Option<Measure>) -> (usize, Figure) {
        let own = measure.unwrap_or(self.measure);
        match &self.axis {
            Axis::Values { .. } => (place, Figure { measure: own, bin: None }),
            Axis::Bins => (0, Figure { measure: own, bin: bin(place) }),
            Axis::Measures(measures) => {
                (0, Figure { measure: measure.unwrap_or(measures[place]), bin: None })
            }
        }
    }

    pub(crate) fn seeds_of(&self, cell: &Cell) -> core::ops::RangeInclusive<u64> {
        if cell.spec.is_random() { 1..=self.seeds } else { 1..=1 }
    }
}

/// The bin at a place of [`Axis::Bins`]; the last place is all.
fn bin(place: usize) -> Option<Bin> {
    Bin::ALL.get(place).copied()
}

impl Cell {
    pub(crate) fn key(&self, seed: u64) -> Key {
        Key {
            workload: self.workload.clone(),
            policy: self.subject.label(),
            conditions: self.conditions.words(),
            seed,
        }
    }

    fn read(workload: &str, policy: &str, conditions: &Conditions) -> Result<Self, String> {
        let spec = workload.parse().map_err(|error: WorkloadError| format!("'{workload}': {error}"))?;
        let subject = Subject::read(policy).map_err(|error| format!("'{policy}': {error}"))?;
        Ok(Self { workload: workload.to_owned(), spec, subject, conditions: conditions.clone() })
    }
}

/// A text as one line.
fn paragraph(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;

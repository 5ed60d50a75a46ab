//! The fields of the text, and how a panel of it is checked.

use serde::Deserialize;

use super::{Axis, Cell, DefinitionError, Direction, Expectation, Expected, Form, Panel, Series, fabric};
use crate::row::Measure;
use crate::run::Conditions;

/// The whole text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) title: String,
    pub(super) source: String,
    pub(super) question: String,
    #[serde(default)]
    pub(super) assumptions: Vec<String>,
    #[serde(default)]
    pub(super) findings: String,
    #[serde(default = "ten")]
    pub(super) seeds: u64,
    #[serde(default)]
    pub(super) smoke: bool,
    #[serde(default)]
    pub(super) conditions: Option<ConditionsText>,
    #[serde(default)]
    pub(super) panel: Vec<PanelText>,
}

const fn ten() -> u64 {
    10
}

/// `[conditions]`
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionsText {
    pub(super) rate: Option<String>,
    #[serde(default)]
    pub(super) offline: bool,
    pub(super) control_delay: Option<String>,
    pub(super) short_below: Option<String>,
    pub(super) fabric: Option<String>,
    pub(super) link_delay: Option<String>,
    #[serde(default)]
    pub(super) in_band: bool,
}

/// `[[panel]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelText {
    title: String,
    axis: AxisText,
    #[serde(default)]
    workload: String,
    #[serde(default = "mean_cct")]
    measure: String,
    #[serde(default)]
    form: FormText,
    against: Option<String>,
    seeds: Option<u64>,
    #[serde(default)]
    series: Vec<SeriesText>,
    #[serde(default)]
    expect: Vec<ExpectText>,
}

fn mean_cct() -> String {
    "mean(cct)".to_owned()
}

/// `axis = { … }`: a parameter with values, or `bins = true`, or `measures`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AxisText {
    #[serde(default)]
    name: String,
    #[serde(default)]
    values: Vec<Scalar>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    log: bool,
    #[serde(default)]
    bins: bool,
    #[serde(default)]
    measures: Vec<String>,
}

/// A value of an axis.
#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Scalar {
    Whole(i64),
    Real(f64),
    Text(String),
}

impl Scalar {
    fn text(&self) -> String {
        match self {
            Self::Whole(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum FormText {
    #[default]
    Factor,
    Reduction,
    Gap,
    Seconds,
    Share,
}

impl From<FormText> for Form {
    fn from(text: FormText) -> Self {
        match text {
            FormText::Factor => Form::Factor,
            FormText::Reduction => Form::Reduction,
            FormText::Gap => Form::Gap,
            FormText::Seconds => Form::Seconds,
            FormText::Share => Form::Share,
        }
    }
}

/// `{ name = …, policy = … }`, where wanted with a workload, fabric or way of messages of its own.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeriesText {
    name: String,
    policy: String,
    workload: Option<String>,
    fabric: Option<String>,
    in_band: Option<bool>,
}

/// `[[panel.expect]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectText {
    claim: String,
    text: String,
    series: Option<String>,
    against: Option<String>,
    measure: Option<String>,
    form: Option<FormText>,
    at: Option<Scalar>,
    paper: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    band: Option<f64>,
    trend: Option<TrendText>,
    from: Option<Scalar>,
    to: Option<Scalar>,
    #[serde(default)]
    order: Vec<String>,
    #[serde(default)]
    best: Vec<Scalar>,
    #[serde(default)]
    why: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum TrendText {
    Rises,
    Falls,
    Flat,
}

/// What counts as the same where nothing is said: a fifth, or ten points.
const BAND: f64 = 0.2;
const BAND_POINTS: f64 = 10.0;
/// What counts as no change.
const BAND_EQUAL: f64 = 0.02;

impl PanelText {
    pub(super) fn checked(self, seeds: u64, conditions: &Conditions) -> Result<Panel, DefinitionError> {
        let place = format!("panel '{}'", self.title);
        let part = |fault: String| DefinitionError::Part { place: place.clone(), fault };
        let axis = self.axis.checked().map_err(part)?;
        let measure = self.measure.parse().map_err(part)?;
        let values = match &axis {
            Axis::Values { values, .. } => values.clone(),
            Axis::Bins | Axis::Measures(_) => vec![String::new()],
        };
        let series = self.series.iter().map(|series| {
            let place = format!("{place}, series '{}'", series.name);
            let workload = series.workload.as_ref().unwrap_or(&self.workload);
            let own = fabric(&place, series.fabric.as_deref())?;
            let conditions = Conditions {
                fabric: own.or_else(|| conditions.fabric.clone()),
                in_band: series.in_band.unwrap_or(conditions.in_band),
                ..conditions.clone()
            };
            let cells = values.iter().map(|value| {
                let (workload, policy) =
                    (workload.replace("{x}", value), series.policy.replace("{x}", value));
                Cell::read(&workload, &policy, &conditions, &place)
            });
            Ok(Series { name: series.name.clone(), cells: cells.collect::<Result<_, _>>()? })
        });
        let series: Vec<Series> = series.collect::<Result<_, DefinitionError>>()?;
        let mut panel = Panel {
            title: self.title,
            axis,
            measure,
            form: self.form.into(),
            against: None,
            series,
            seeds: self.seeds.unwrap_or(seeds),
            expectations: Vec::new(),
        };
        if !(1..=1000).contains(&panel.seeds) {
            return Err(part(format!("seeds = {} is out of range: expected 1 to 1000", panel.seeds)));
        }
        panel.against = self.against.map(|name| panel.named(&name)).transpose().map_err(part)?;
        if panel.against.is_none() && !panel.form.is_plain() {
            return Err(part(
                "'against' is missing: name the series that others are compared with".to_owned(),
            ));
        }
        let expectations = self.expect.into_iter().map(|expect| {
            let place = format!("{place}, claim {}", expect.claim);
            expect.checked(&panel).map_err(|fault| DefinitionError::Part { place, fault })
        });
        panel.expectations = expectations.collect::<Result<_, _>>()?;
        Ok(panel)
    }
}

impl AxisText {
    fn checked(self) -> Result<Axis, String> {
        let kinds = usize::from(!self.values.is_empty())
            + usize::from(self.bins)
            + usize::from(!self.measures.is_empty());
        if kinds != 1 {
            return Err("axis: expected one of values = […], bins = true or measures = […]".to_owned());
        }
        if self.bins {
            return Ok(Axis::Bins);
        }
        if !self.measures.is_empty() {
            let measures =
                self.measures.iter().map(|text| text.parse()).collect::<Result<Vec<Measure>, _>>()?;
            return Ok(Axis::Measures(measures));
        }
        let values: Vec<String> = self.values.iter().map(Scalar::text).collect();
        if !self.labels.is_empty() && self.labels.len() != values.len() {
            return Err("axis: expected as many labels as values".to_owned());
        }
        let numbers: Option<Vec<f64>> = values.iter().map(|value| number(value)).collect();
        let labels = if self.labels.is_empty() { values.clone() } else { self.labels };
        Ok(Axis::Values { name: self.name, values, labels, numbers, log: self.log })
    }
}

/// A value of an axis as a number: plain, or a size or time in bytes or seconds.
fn number(text: &str) -> Option<f64> {
    let bytes = || text.parse::<cavalcade_model::Bytes>().ok().map(|bytes| bytes.as_f64());
    let time = || text.parse::<cavalcade_model::Nanos>().ok().map(|time| time.as_secs_f64());
    text.parse().ok().or_else(bytes).or_else(time)
}

impl Panel {
    fn named(&self, name: &str) -> Result<usize, String> {
        let found = self.series.iter().position(|series| series.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.series.iter().map(|series| series.name.as_str()).collect();
            format!("there is no series '{name}': expected one of {}", names.join(", "))
        })
    }

    fn placed(&self, scalar: &Scalar) -> Result<usize, String> {
        let text = scalar.text();
        let values = match &self.axis {
            Axis::Values { values, .. } => values.clone(),
            Axis::Bins | Axis::Measures(_) => (0..self.places()).map(|place| self.place(place)).collect(),
        };
        let found = values.iter().position(|value| *value == text);
        found
            .ok_or_else(|| format!("'{text}' is no place of the axis: expected one of {}", values.join(", ")))
    }
}

impl ExpectText {
    fn checked(self, panel: &Panel) -> Result<Expectation, String> {
        let form = self.form.map_or(panel.form, Form::from);
        let at = self.at.as_ref().map(|at| panel.placed(at)).transpose()?;
        let kinds = usize::from(self.paper.is_some())
            + usize::from(self.at_most.is_some())
            + usize::from(self.at_least.is_some())
            + usize::from(self.trend.is_some())
            + usize::from(!self.order.is_empty())
            + usize::from(!self.best.is_empty());
        if kinds != 1 {
            let expected =
                "expected one of paper = N, at_most = N, at_least = N, trend = …, order = […] or best = […]";
            return Err(expected.to_owned());
        }
        let only = |at: Option<usize>| {
            at.or((panel.places() == 1).then_some(0)).ok_or("'at' is missing: the axis has several places")
        };
        let expected = if let Some(paper) = self.paper {
            let band = self.band.unwrap_or(if form.is_percent() { BAND_POINTS } else { BAND });
            Expected::Value { at: only(at)?, paper, band }
        } else if let Some(limit) = self.at_most.or(self.at_least) {
            Expected::Limit { at: only(at)?, limit, most: self.at_most.is_some() }
        } else if let Some(trend) = self.trend {
            let end = |end: &Option<Scalar>, usual| end.as_ref().map_or(Ok(usual), |end| panel.placed(end));
            Expected::Trend {
                direction: match trend {
                    TrendText::Rises => Direction::Rises,
                    TrendText::Falls => Direction::Falls,
                    TrendText::Flat => Direction::Flat,
                },
                from: end(&self.from, 0)?,
                to: end(&self.to, panel.places() - 1)?,
                band: self.band.unwrap_or(BAND_EQUAL),
            }
        } else if !self.order.is_empty() {
            let series = self.order.iter().map(|name| panel.named(name)).collect::<Result<_, _>>()?;
            Expected::Order { series, at, band: self.band.unwrap_or(BAND_EQUAL) }
        } else {
            Expected::Best { among: self.best.iter().map(|at| panel.placed(at)).collect::<Result<_, _>>()? }
        };
        let named = |name: Option<String>| name.map(|name| panel.named(&name)).transpose();
        let series = match named(self.series)? {
            Some(series) => series,
            None if matches!(expected, Expected::Order { .. }) => 0,
            None => return Err("'series' is missing: say which one the claim is about".to_owned()),
        };
        Ok(Expectation {
            claim: self.claim,
            text: self.text,
            series,
            against: named(self.against)?.or(panel.against),
            measure: self.measure.map(|text| text.parse()).transpose()?,
            form,
            expected,
            why: self.why.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    }
}

//! The fields of the text, and how a panel of it is checked.

use core::num::NonZeroU32;

use serde::Deserialize;
use toml::Spanned;

use cavalcade_metrics::BinThresholds;

use super::{
    Axis, Cell, Criterion, DefinitionError, Direction, Expectation, Expected, Form, OURS, Panel, Series,
    line_at,
};
use crate::row::Measure;
use crate::run::{Conditions, Subject};

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
    pub(super) conditions: Option<Spanned<ConditionsText>>,
    #[serde(default)]
    pub(super) panel: Vec<PanelText>,
    #[serde(default)]
    pub(super) criterion: Option<CriterionText>,
}

const fn ten() -> u64 {
    10
}

/// `[conditions]`
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionsText {
    rate: Option<String>,
    offline: Option<bool>,
    control_delay: Option<String>,
    short_below: Option<String>,
    fabric: Option<String>,
    link_delay: Option<String>,
    in_band: Option<bool>,
    warm_up: Option<f64>,
    counters: Option<NonZeroU32>,
}

impl ConditionsText {
    /// These conditions, and `usual` where they set nothing; else the field and what is wrong with
    /// it.
    pub(super) fn over(self, usual: &Conditions) -> Result<Conditions, (&'static str, String)> {
        let warm_up = self.warm_up.unwrap_or(usual.warm_up);
        if !(0.0..=0.9).contains(&warm_up) {
            return Err(("warm_up", format!("{warm_up} is no share of the tasks: expected 0 to 0.9")));
        }
        let short_below = quantity("short_below", self.short_below)?.unwrap_or(usual.bins.short_below);
        Ok(Conditions {
            rate: quantity("rate", self.rate)?.unwrap_or(usual.rate),
            offline: self.offline.unwrap_or(usual.offline),
            control_delay: quantity("control_delay", self.control_delay)?.unwrap_or(usual.control_delay),
            bins: BinThresholds { short_below, ..usual.bins },
            fabric: quantity("fabric", self.fabric)?.or_else(|| usual.fabric.clone()),
            link_delay: quantity("link_delay", self.link_delay)?.unwrap_or(usual.link_delay),
            in_band: self.in_band.unwrap_or(usual.in_band),
            warm_up,
            counters: self.counters.unwrap_or(usual.counters),
        })
    }
}

/// Reads a quantity, where one is given.
fn quantity<T>(field: &'static str, text: Option<String>) -> Result<Option<T>, (&'static str, String)>
where
    T: core::str::FromStr,
    T::Err: core::fmt::Display,
{
    let read = |text: String| text.parse().map_err(|error| (field, format!("'{text}': {error}")));
    text.map(read).transpose()
}

/// `[[panel]]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelText {
    title: Spanned<String>,
    axis: AxisText,
    #[serde(default)]
    workload: String,
    #[serde(default = "mean_cct")]
    measure: String,
    #[serde(default)]
    form: FormText,
    against: Option<String>,
    seeds: Option<u64>,
    /// The conditions of this panel in place of the experiment's.
    #[serde(default)]
    conditions: ConditionsText,
    #[serde(default)]
    series: Vec<SeriesText>,
    #[serde(default)]
    expect: Vec<ExpectText>,
}

fn mean_cct() -> String {
    "mean(cct)".to_owned()
}

/// `[criterion]`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CriterionText {
    panel: Spanned<String>,
    series: String,
    measures: Vec<String>,
    /// The places at which it is fitted; it is tested at the others.
    fit: Vec<String>,
    error_at_most: f64,
    sides_at_least: f64,
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
    claim: Spanned<String>,
    text: String,
    #[serde(default)]
    reading: String,
    #[serde(default)]
    construction: bool,
    #[serde(default)]
    fitted: bool,
    series: Option<String>,
    against: Option<String>,
    measure: Option<String>,
    form: Option<FormText>,
    at: Option<Scalar>,
    paper: Option<f64>,
    at_most: Option<f64>,
    at_least: Option<f64>,
    band: Option<f64>,
    inside: Option<f64>,
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

/// The default tolerance that counts as the same: a tenth, and never more than half the effect.
const BAND: f64 = 0.1;
/// The same where the paper says "no difference".
const BAND_NEUTRAL: f64 = 0.05;
/// The same of a share, in points, and never more than half the paper's number.
const BAND_POINTS: f64 = 5.0;
/// The default tolerance that counts as no change.
const BAND_EQUAL: f64 = 0.02;
/// The widest tolerance that still counts as no change, or as equal.
const WIDEST_EQUAL: f64 = 0.25;
/// The fewest seeds for a paper's statement.
const SEEDS: u64 = 10;

impl PanelText {
    pub(super) fn checked(
        self,
        seeds: u64,
        conditions: &Conditions,
        text: &str,
    ) -> Result<Panel, DefinitionError> {
        let line = line_at(text, self.title.span().start);
        let place = format!("panel '{}'", self.title.get_ref());
        let part = |fault: String| DefinitionError::Part { line, place: place.clone(), fault };
        let conditions = self.conditions.over(conditions);
        let conditions = conditions.map_err(|(field, fault)| part(format!("conditions.{field}: {fault}")))?;
        let axis = self.axis.checked().map_err(part)?;
        let measure = self.measure.parse().map_err(part)?;
        let values = match &axis {
            Axis::Values { values, .. } => values.clone(),
            Axis::Bins | Axis::Measures(_) => vec![String::new()],
        };
        let series = self.series.into_iter().map(|series| {
            let name = series.name.clone();
            let checked = series.checked(&self.workload, &values, &conditions);
            checked.map_err(|fault| part(format!("series '{name}': {fault}")))
        });
        let series: Vec<Series> = series.collect::<Result<_, DefinitionError>>()?;
        let mut panel = Panel {
            line,
            title: self.title.into_inner(),
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
        for expect in self.expect {
            let line = line_at(text, expect.claim.span().start);
            let place = format!("{place}, claim {}", expect.claim.get_ref());
            let checked = expect.checked(&panel, line);
            panel.expectations.push(checked.map_err(|fault| DefinitionError::Part { line, place, fault })?);
        }
        Ok(panel)
    }
}

/// The least number of places at which a law of three coefficients is fitted, and at which it is
/// tested.
const LEAST_PLACES: usize = 4;

impl CriterionText {
    pub(super) fn checked(self, panels: &[Panel], text: &str) -> Result<Criterion, DefinitionError> {
        let line = line_at(text, self.panel.span().start);
        let fault = |fault: String| DefinitionError::Part { line, place: "criterion".to_owned(), fault };
        let name = self.panel.get_ref();
        let panel = panels.iter().position(|panel| panel.title == *name).ok_or_else(|| {
            let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
            fault(format!("there is no panel '{name}': expected one of {}", titles.join(", ")))
        })?;
        let on = &panels[panel];
        let Axis::Values { labels, .. } = &on.axis else {
            return Err(fault(format!(
                "the places of panel '{name}' are no workloads: give its axis values"
            )));
        };
        if on.form != Form::Factor {
            return Err(fault(format!("panel '{name}' shows no speedups: leave out its form")));
        }
        let series = on.named(&self.series).map_err(fault)?;
        let measures =
            self.measures.iter().map(|text| text.parse()).collect::<Result<_, _>>().map_err(fault)?;
        let place = |label: &String| {
            let found = labels.iter().position(|own| own == label);
            found.ok_or_else(|| fault(format!("fit: there is no place '{label}' in panel '{name}'")))
        };
        let mut fitted: Vec<usize> = self.fit.iter().map(place).collect::<Result<_, _>>()?;
        fitted.sort_unstable();
        fitted.dedup();
        if fitted.len() < LEAST_PLACES || labels.len() - fitted.len() < LEAST_PLACES {
            let (fit, held_out) = (fitted.len(), labels.len() - fitted.len());
            return Err(fault(format!(
                "{fit} places to fit and {held_out} to test: expected at least {LEAST_PLACES} of each"
            )));
        }
        let (error_at_most, sides_at_least) = (self.error_at_most, self.sides_at_least);
        if !(error_at_most > 1.0 && (0.0..=1.0).contains(&sides_at_least)) {
            let expected = "expected error_at_most above 1 and sides_at_least from 0 to 1";
            return Err(fault(expected.to_owned()));
        }
        let sizes = on.series[series].cells.iter();
        let sizes = sizes.map(|cell| Cell { subject: Subject::Sizes, ..cell.clone() }).collect();
        Ok(Criterion { line, panel, series, measures, fitted, error_at_most, sides_at_least, sizes })
    }
}

impl SeriesText {
    fn checked(self, workload: &str, values: &[String], conditions: &Conditions) -> Result<Series, String> {
        let workload = self.workload.as_deref().unwrap_or(workload);
        let own = quantity("fabric", self.fabric).map_err(|(field, fault)| format!("{field}: {fault}"))?;
        let conditions = Conditions {
            fabric: own.or_else(|| conditions.fabric.clone()),
            in_band: self.in_band.unwrap_or(conditions.in_band),
            ..conditions.clone()
        };
        let cells = values.iter().map(|value| {
            Cell::read(&workload.replace("{x}", value), &self.policy.replace("{x}", value), &conditions)
        });
        Ok(Series { name: self.name, cells: cells.collect::<Result<_, _>>()? })
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

/// The band of a number: that of the text, which has to be narrower than the claim, or the usual
/// one.
fn band(form: Form, paper: f64, said: Option<f64>) -> Result<f64, String> {
    let (usual, most) = match form {
        Form::Share => (BAND_POINTS.min(paper / 2.0), paper),
        Form::Seconds => (BAND, 1.0),
        Form::Factor | Form::Reduction | Form::Gap => {
            let effect = libm::fabs(libm::log(form.ratio_of(paper)));
            if effect == 0.0 {
                (BAND_NEUTRAL, 0.2)
            } else {
                (BAND.min(libm::expm1(effect / 2.0)), libm::expm1(effect))
            }
        }
    };
    let band = said.unwrap_or(usual);
    if band > 0.0 && band < most {
        return Ok(band);
    }
    let effect = if form == Form::Share { "nothing" } else { "'no difference'" };
    Err(format!(
        "band = {band} is wider than the claim, as the paper's {paper} is {} from {effect}: choose a band above 0 and below that",
        crate::verdict::number(most)
    ))
}

/// The band of a trend or an order: that of the text, or the usual one.
fn band_of_order(said: Option<f64>, usual: f64) -> Result<f64, String> {
    let band = said.unwrap_or(usual);
    if (0.0..=WIDEST_EQUAL).contains(&band) {
        return Ok(band);
    }
    Err(format!(
        "band = {band} would call anything equal: choose a share from 0 to {WIDEST_EQUAL} for a trend or an order"
    ))
}

impl Panel {
    /// Returns whether another seed gives any of its series another workload.
    fn is_random(&self) -> bool {
        self.series.iter().flat_map(|series| &series.cells).any(|cell| cell.spec.is_random())
    }

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
    fn checked(self, panel: &Panel, line: usize) -> Result<Expectation, String> {
        let claim = self.claim.into_inner();
        if claim != OURS && panel.seeds < SEEDS && panel.is_random() {
            return Err(format!(
                "{} seeds are too few for a paper's statement: set seeds = {SEEDS} or more",
                panel.seeds
            ));
        }
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
        if self.band.is_some() && (self.at_most.or(self.at_least).is_some() || !self.best.is_empty()) {
            return Err("a limit and a best place have no band: remove it".to_owned());
        }
        let only = |at: Option<usize>| {
            at.or((panel.places() == 1).then_some(0)).ok_or("'at' is missing: the axis has several places")
        };
        let expected = if let Some(paper) = self.paper {
            Expected::Value { at: only(at)?, paper, band: band(form, paper, self.band)?, inside: self.inside }
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
                band: band_of_order(self.band, BAND_EQUAL)?,
            }
        } else if !self.order.is_empty() {
            let series = self.order.iter().map(|name| panel.named(name)).collect::<Result<_, _>>()?;
            Expected::Order { series, at, band: band_of_order(self.band, 0.0)? }
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
            line,
            claim,
            reading: self.reading,
            construction: self.construction,
            fitted: self.fitted,
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

//! A figure of each policy over a condition or a parameter: what is swept, the runs, and the
//! picture.
//!
//! Each value, and each seed, is a comparison like any other: all policies on one workload. Over
//! seeds, times and ratios are averaged as experiments do ([`Estimate`]), so that a sweep and an
//! experiment of the same runs show the same point.

use std::str::FromStr;
use std::sync::Arc;

use cavalcade_metrics::{Comparison, Estimate, RunFigures};
use cavalcade_model::{BitsPerSec, Bytes, Nanos, Workload};
use cavalcade_report::{
    Better, ChartPanel, ChartPoint, ChartSeries, FigureError, FigureWidth, Horizontal, Stroke, Unit,
    Vertical, panel_figure,
};
use cavalcade_spec::print as specified;
use cavalcade_trace::generate::at_pace;

use crate::{
    Asked, Beside, Choice, Conditions, Engine, Error, Policy, Progress, Runnable, Scenario, compare_with,
};

/// The conditions that can be swept.
const CONDITIONS: [&str; 4] = ["rate", "load", "control_delay", "period"];
/// From this ratio of the largest value to the smallest on, equal ratios are equal distances.
const WIDE: f64 = 5.0;
/// What an axis is, in errors.
const AXIS: &str = "expected a name and two values or more, as rate=1Gbps,10Gbps";

/// What stands along the horizontal axis: the name of a condition or of a parameter, and its values
/// as text.
///
/// Conditions are `rate`, of all links; `load`, as a multiple of the workload's own, whose tasks
/// then arrive so many times as fast; `control_delay`, of messages; `period`, between rounds of the
/// coordinator, which puts all policies on the control engine. Any other name is a parameter of
/// policies; a policy without it is a level line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    name: String,
    values: Vec<String>,
}

impl Axis {
    /// The condition or parameter `name` at `values`.
    ///
    /// # Errors
    /// If there are fewer than two values, or one is given twice.
    pub fn new(name: &str, values: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, Error> {
        Self::of(name, values).map_err(|problem| Error::option("over", name.trim(), problem))
    }

    fn of(name: &str, values: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self, String> {
        let values: Vec<String> = values.into_iter().map(|value| value.as_ref().trim().to_owned()).collect();
        if name.trim().is_empty() || values.len() < 2 || values.iter().any(String::is_empty) {
            return Err(AXIS.to_owned());
        }
        let same = |a: &str, b: &str| a == b || (number(a).is_some() && number(a) == number(b));
        let is_again = |&index: &usize| values[..index].iter().any(|other| same(other, &values[index]));
        match (0..values.len()).find(is_again) {
            Some(index) => Err(format!("{} is given twice: expected each value once", values[index])),
            None => Ok(Self { name: name.trim().to_ascii_lowercase(), values }),
        }
    }

    /// Whether it is the rate of links, which is then not a condition of all runs.
    pub fn is_rate(&self) -> bool {
        self.name == "rate"
    }
}

impl FromStr for Axis {
    type Err = String;

    /// Reads `NAME=VALUE,VALUE…`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').ok_or(AXIS)?;
        Self::of(name, values.split(','))
    }
}

/// The figure of a run that stands along the vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// Mean completion time.
    #[default]
    Mean,
    /// 95th percentile of completion times.
    P95,
    /// Speedup over the baseline.
    Speedup,
}

impl Show {
    fn of(self, comparison: &Comparison, run: &RunFigures) -> f64 {
        match self {
            Self::Mean => comparison.summary(run).mean_s,
            Self::P95 => comparison.summary(run).p95_s,
            Self::Speedup => comparison.improvement(run).map_or(f64::NAN, |improvement| improvement.factor),
        }
    }

    /// The axis; `baseline` is what the baseline is called at every value.
    fn axis(self, comparison: &Comparison, baseline: &str) -> Vertical {
        let time = comparison.ranked().time();
        let (name, unit, better) = match self {
            Self::Mean => (format!("mean {time} (log scale)"), Unit::Seconds, Better::Lower),
            Self::P95 => (format!("p95 of {time} (log scale)"), Unit::Seconds, Better::Lower),
            Self::Speedup => (format!("speedup over {baseline} (log scale)"), Unit::Ratio, Better::Higher),
        };
        Vertical { name, unit, better, from_zero: false }
    }
}

/// Policies over an axis: what is to be run.
#[derive(Debug)]
pub struct Sweep {
    axis: Axis,
    places: Vec<Place>,
    choices: Vec<Choice>,
    baseline: usize,
    conditions: Conditions,
    seeds: Vec<u64>,
}

/// One value, read: what is different there.
#[derive(Debug)]
struct Place {
    /// The value, as it was given.
    text: String,
    change: Change,
    choices: Vec<Choice>,
}

#[derive(Debug)]
enum Change {
    Rate(BitsPerSec),
    Load(f64),
    Delay(Nanos),
    Period(Nanos),
    /// The policies themselves.
    Policies,
}

impl Sweep {
    /// Policies over `axis`, each with each of `seeds`, or with that of the conditions if the list
    /// is empty. Of a set no policy is left out for its cost: all points have the same.
    ///
    /// # Errors
    /// If the axis is no condition and no parameter of these policies, or a value of it cannot be
    /// used.
    pub fn new(
        axis: Axis,
        mut choices: Vec<Choice>,
        baseline: usize,
        conditions: Conditions,
        seeds: Vec<u64>,
    ) -> Result<Self, Error> {
        choices.iter_mut().for_each(|choice| choice.asked = Asked::ByName);
        let places = places(&axis, &choices)?;
        let seeds = if seeds.is_empty() { vec![conditions.seed] } else { seeds };
        Ok(Self { axis, places, choices, baseline, conditions, seeds })
    }

    /// The number of runs that it takes.
    pub fn runs(&self) -> usize {
        self.places.len() * self.seeds.len() * self.choices.len()
    }

    /// The runs at the first value with the first seed, checked.
    ///
    /// # Errors
    /// If one cannot be run, or the axis changes nothing on this fabric.
    pub fn first(&self, workload: &Arc<Workload>) -> Result<Vec<Scenario>, Error> {
        if let [Change::Rate(one), Change::Rate(other)] = [&self.places[0].change, &self.places[1].change] {
            let fabric = |&rate: &BitsPerSec| {
                let conditions = Conditions { rate, ..self.conditions.clone() };
                Scenario::new(Arc::clone(workload), conditions).map(|scenario| scenario.fabric().clone())
            };
            if fabric(one)? == fabric(other)? {
                let problem = "the fabric sets the rates of all links itself";
                return Err(Error::option("over", "rate", problem).help("leave the rate out of the fabric"));
            }
        }
        Ok(self.runnable(&self.places[0], workload, self.seeds[0])?.scenarios)
    }

    /// Runs all of it; `workload` gives the one of a seed.
    ///
    /// # Errors
    /// If a workload cannot be made, a run cannot be or fails, or `progress` was cancelled.
    pub fn run(
        &self,
        workload: impl Fn(u64) -> Result<Arc<Workload>, Error>,
        progress: &Progress,
    ) -> Result<Swept<'_>, Error> {
        let at = |place: &Place, seed: u64| {
            let found = self.runnable(place, &workload(seed)?, seed)?;
            let compared = compare_with(&found.scenarios, found.baseline, &Beside::default(), progress)?;
            Ok(compared.comparison)
        };
        let of_place = |place| self.seeds.iter().map(|&seed| at(place, seed)).collect();
        Ok(Swept {
            sweep: self,
            comparisons: self.places.iter().map(of_place).collect::<Result<_, Error>>()?,
        })
    }

    /// The runs at a place over the workload of a seed.
    fn runnable(&self, place: &Place, workload: &Arc<Workload>, seed: u64) -> Result<Runnable, Error> {
        let mut conditions = Conditions { seed, ..self.conditions.clone() };
        let mut workload = Arc::clone(workload);
        let mut engine = Engine::Fluid;
        match place.change {
            Change::Rate(rate) => conditions.rate = rate,
            Change::Delay(delay) => conditions.control_delay = delay,
            Change::Period(period) => engine = Engine::Control { period },
            Change::Load(pace) => {
                let faster = at_pace(&workload, pace);
                workload = Arc::new(
                    faster.map_err(|error| Error::option("over", format!("load={}", place.text), error))?,
                );
            }
            Change::Policies => {}
        }
        let scenario = Scenario::new(workload, conditions)?;
        Runnable::of(&scenario, &place.choices, &[engine], self.baseline)
    }
}

/// The results at each value with each seed.
#[derive(Debug)]
pub struct Swept<'a> {
    sweep: &'a Sweep,
    comparisons: Vec<Vec<Comparison>>,
}

impl Swept<'_> {
    /// The figure as SVG; points have 95 % intervals where there are several seeds.
    ///
    /// # Errors
    /// If there is nothing to draw: no coflow that takes time, or no policy but the baseline of
    /// speedups.
    pub fn figure(&self, show: Show, width: FigureWidth) -> Result<String, FigureError> {
        let Sweep { axis, places, choices, .. } = self.sweep;
        let first = &self.comparisons[0][0];
        let baseline = series_name(&choices[first.baseline], &first.baseline_run().label, axis);
        let panel = ChartPanel {
            title: String::new(),
            horizontal: horizontal(axis, places),
            vertical: show.axis(first, &baseline),
            series: self.series(show),
        };
        if panel.series.is_empty() {
            return Err(FigureError::OnePolicy);
        }
        if panel.series.iter().all(|one| one.points.is_empty()) {
            return Err(FigureError::NoCoflows);
        }
        let label = format!("{} by policy over {}", panel.vertical.name, axis.name);
        Ok(panel_figure(&panel, &label, width))
    }

    /// One series for each policy; of speedups not for the baseline, whose is one everywhere.
    fn series(&self, show: Show) -> Vec<ChartSeries> {
        let Sweep { axis, places, choices, .. } = self.sweep;
        let are_numbers = places.iter().all(|place| number(&place.text).is_some());
        let of = |run: usize| {
            let first = &self.comparisons[0][0].runs[run];
            let point = |(index, place): (usize, &Place)| {
                let seeds = &self.comparisons[index];
                let samples: Vec<f64> = seeds.iter().map(|one| show.of(one, &one.runs[run])).collect();
                let at = number(&place.text).filter(|_| are_numbers).unwrap_or(index as f64);
                let Estimate { value, low, high, .. } = Estimate::of_ratios(&samples)?;
                Some(ChartPoint { at, value, low, high })
            };
            ChartSeries {
                name: series_name(&choices[run], &first.label, axis),
                policy: first.policy.clone(),
                points: places.iter().enumerate().filter_map(point).collect(),
                paper: Vec::new(),
                stroke: Stroke::Joined,
            }
        };
        let baseline = self.comparisons[0][0].baseline;
        (0..choices.len()).filter(|&run| show != Show::Speedup || run != baseline).map(of).collect()
    }
}

/// Reads all values, and finds what they change.
fn places(axis: &Axis, choices: &[Choice]) -> Result<Vec<Place>, Error> {
    let Axis { name, values } = axis;
    let is_condition = CONDITIONS.contains(&name.as_str());
    let with_it = choices.iter().find(|choice| has(choice, name));
    match (is_condition, with_it) {
        (false, None) => {
            let names: Vec<String> = choices.iter().filter_map(parameters).collect();
            let known = match names.is_empty() {
                true => "the policies have no parameters".to_owned(),
                false => names.join("; "),
            };
            let problem = "it is no condition, and no parameter of these policies";
            return Err(Error::option("over", name, problem)
                .help(format!("conditions are {}; parameters: {known}", CONDITIONS.join(", "))));
        }
        (true, Some(choice)) => {
            let policy = choice.policy.as_ref().map_or("", Policy::name);
            let problem = format!("it is a condition, and a parameter of {policy}");
            let cure = format!("leave {policy} out to sweep the condition");
            return Err(Error::option("over", name, problem).help(cure));
        }
        (false, Some(_)) | (true, None) => {}
    }
    let mut places = values.iter().map(|text| place(name, text, choices)).collect::<Result<Vec<_>, _>>()?;
    if places.iter().all(|place| number(&place.text).is_some()) {
        places.sort_by(|a, b| {
            number(&a.text).partial_cmp(&number(&b.text)).expect("numbers of values are finite")
        });
    }
    Ok(places)
}

fn place(name: &str, text: &str, choices: &[Choice]) -> Result<Place, Error> {
    let fault = |expected: &str| {
        Error::option("over", format!("{name}={text}"), format!("expected {expected}")).expected(expected)
    };
    let time = || text.parse::<Nanos>().map_err(|_| fault("a time, as in 10ms"));
    let change = match name {
        "rate" => Change::Rate(text.parse().map_err(|_| fault("a rate, as in 10Gbps"))?),
        "load" => match text.parse() {
            Ok(load) if (1e-3..=1e3).contains(&load) => Change::Load(load),
            _ => return Err(fault("a multiple from 0.001 to 1000, as in 0.5")),
        },
        "control_delay" => Change::Delay(time()?),
        "period" => match time()? {
            Nanos::ZERO => return Err(fault("a time above zero, as in 10ms")),
            period => Change::Period(period),
        },
        _ => Change::Policies,
    };
    let choices = match change {
        Change::Policies => choices.iter().map(|choice| set(choice, name, text)).collect::<Result<_, _>>()?,
        _ => choices.to_vec(),
    };
    Ok(Place { text: text.to_owned(), change, choices })
}

fn has(choice: &Choice, parameter: &str) -> bool {
    let params = choice.policy.as_ref().map_or(&[][..], Policy::params);
    params.iter().any(|(name, _)| name == parameter)
}

/// A policy and the names of its parameters, if it has any.
fn parameters(choice: &Choice) -> Option<String> {
    let policy = choice.policy.as_ref()?;
    let names: Vec<&str> = policy.params().iter().map(|(name, _)| name.as_str()).collect();
    (!names.is_empty()).then(|| format!("{} has {}", policy.name(), names.join(", ")))
}

/// The choice with a parameter set, if its policy has it.
fn set(choice: &Choice, parameter: &str, value: &str) -> Result<Choice, Error> {
    let Some(policy) = choice.policy.as_ref().filter(|_| has(choice, parameter)) else {
        return Ok(choice.clone());
    };
    let label = policy.label();
    let given = label.split_once(':').map_or("", |(_, settings)| settings);
    let is_set =
        given.split(',').any(|setting| setting.split_once('=').is_some_and(|(name, _)| name == parameter));
    if is_set {
        let problem = format!("{label} sets the parameter that is swept");
        return Err(Error::option("over", parameter, problem).help("leave it out of the policy"));
    }
    let setting = specified(label, [(parameter, value)]);
    let spec = if given.is_empty() { setting } else { format!("{label},{parameter}={value}") };
    Ok(Choice { policy: Choice::named(&spec)?.policy, ..choice.clone() })
}

/// The value that a text means, whatever its unit: values of one axis have the same.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|value| value.is_finite());
    let bytes = || text.parse::<Bytes>().ok().map(Bytes::as_f64);
    let rate = || text.parse::<BitsPerSec>().ok().map(|rate| rate.0 as f64);
    let time = || text.parse::<Nanos>().ok().map(Nanos::as_f64);
    plain.or_else(bytes).or_else(rate).or_else(time)
}

fn horizontal(axis: &Axis, places: &[Place]) -> Horizontal {
    let name = match axis.name.as_str() {
        "rate" => "rate of links".to_owned(),
        "load" => "load, as a multiple of the trace’s own".to_owned(),
        "control_delay" => "delay of messages".to_owned(),
        "period" => "period of coordination".to_owned(),
        parameter => parameter.replace('_', " "),
    };
    let numbers: Option<Vec<f64>> = places.iter().map(|place| number(&place.text)).collect();
    let texts = || places.iter().map(|place| place.text.clone());
    let Some(numbers) = numbers else {
        return Horizontal::Cases { name, names: texts().collect() };
    };
    let log = numbers[0] > 0.0 && numbers[numbers.len() - 1] >= WIDE * numbers[0];
    let name = if log { format!("{name} (log scale)") } else { name };
    Horizontal::Numbers { name, log, ticks: numbers.into_iter().zip(texts()).collect() }
}

/// What a policy is called at every value: without what is swept, which is on the axis.
fn series_name(choice: &Choice, label: &str, axis: &Axis) -> String {
    match &choice.policy {
        Some(policy) if has(choice, &axis.name) => policy.label().to_owned(),
        _ => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_a_name_and_two_values_or_more_each_once() {
        let axis: Axis = "Rate = 1Gbps, 10Gbps".parse().unwrap();
        assert_eq!((axis.name.as_str(), axis.values.join("|")), ("rate", "1Gbps|10Gbps".to_owned()));
        for text in
            ["rate", "rate=", "rate=1Gbps", "=1,2", "rate=1Gbps,,2Gbps", "load=1,1.0", "size=1000MB,1GB"]
        {
            assert!(text.parse::<Axis>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_without_the_parameter_stays_as_it_is() {
        let choices = ["fair", "dclas:queues=4"].map(|name| Choice::named(name).unwrap());
        let axis = "first_threshold=100MB,1MB".parse().unwrap();
        let places = places(&axis, &choices).unwrap();
        let labels: Vec<String> = places[0].choices.iter().map(Choice::label).collect();
        assert_eq!(labels, ["fair", "dclas:queues=4,first_threshold=1MB"], "in ascending order");
    }
}

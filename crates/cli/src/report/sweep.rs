//! `cavalcade report figure sweep`: a figure of each policy over a condition or a parameter.
//!
//! Each value, and for a generated workload each seed, is a comparison like that of `cavalcade compare`: all policies on one
//! workload. Over seeds, times and ratios are averaged as experiments do ([`Estimate`]), so that a sweep and an experiment of the same
//! runs show the same point.

use std::str::FromStr;
use std::sync::Arc;

use cavalcade::spec::print as specified;
use cavalcade::{Asked, Beside, Choice, Comparison, Engine, Policy, Runnable, Scenario, compare_with};
use cavalcade_experiment::Estimate;
use cavalcade_metrics::RunFigures;
use cavalcade_model::{BitsPerSec, Bytes, Nanos, Workload};
use cavalcade_report::{
    Better, ChartPanel, ChartPoint, ChartSeries, FigureError, FigureWidth, Horizontal, Stroke, Unit,
    Vertical, panel_figure,
};
use cavalcade_trace::generate::at_pace;
use clap::ValueEnum;

use super::{Figure, Origin, undrawn};
use crate::arguments::{Conditions, period};
use crate::compare::runnable;
use crate::failure::Failure;
use crate::policies::{configured, note_unlisted, selected};
use crate::progress::watched;

/// The conditions that can be swept.
const CONDITIONS: [&str; 4] = ["rate", "load", "control_delay", "period"];
/// From this ratio of the largest value to the smallest on, equal ratios are equal distances.
const WIDE: f64 = 5.0;

/// What stands along the horizontal axis: a name and its values, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Over {
    name: String,
    values: Vec<String>,
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected a name and two values or more, as rate=1Gbps,10Gbps";
        let (name, values) = text.split_once('=').ok_or(expected)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if name.trim().is_empty() || values.len() < 2 || values.iter().any(String::is_empty) {
            return Err(expected.to_owned());
        }
        let same = |a: &str, b: &str| a == b || (number(a).is_some() && number(a) == number(b));
        let is_again = |&index: &usize| values[..index].iter().any(|other| same(other, &values[index]));
        match (0..values.len()).find(is_again) {
            Some(index) => Err(format!("{} is given twice: expected each value once", values[index])),
            None => Ok(Self { name: name.trim().to_ascii_lowercase(), values }),
        }
    }
}

/// The figure of a run that stands along the vertical axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Show {
    /// Mean completion time
    #[default]
    Mean,
    /// 95th percentile of completion times
    P95,
    /// Speedup over the baseline
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

/// One value, read: what is different there.
struct Place {
    /// The value, as it was given.
    text: String,
    change: Change,
    choices: Vec<Choice>,
}

enum Change {
    Rate(BitsPerSec),
    Load(f64),
    Delay(Nanos),
    Period(Nanos),
    /// The policies themselves.
    Policies,
}

/// Draws the figure.
///
/// # Errors
/// If the command line names no such sweep, or a run fails.
pub(super) fn drawn(options: &Figure, are_runs: bool, width: FigureWidth) -> Result<String, Failure> {
    let Some(over) = &options.over else {
        return Err(
            Failure::usage("a sweep needs an axis").help("add --over, as --over rate=1Gbps,10Gbps,40Gbps")
        );
    };
    if are_runs {
        return Err(Failure::usage("a sweep makes its own runs, but folders of runs were named")
            .help("name a trace, or --generate a workload"));
    }
    if options.seeds.is_some() && options.generate.is_none() {
        return Err(Failure::usage("--seeds repeats a generated workload, but a trace was named")
            .help("leave it out, or generate the workload, as --generate facebook:coflows=100,ports=20"));
    }
    if !options.selection.is_made() {
        return Err(Failure::usage("a sweep has a line for each policy, and none is named")
            .help("name them, as --policies fair,dclas"));
    }
    let (mut choices, baseline) = selected(&options.selection)?;
    // All points have the same policies: of a set none is left out for its cost.
    choices.iter_mut().for_each(|choice| choice.asked = Asked::ByName);
    let places = places(over, &choices)?;
    let mut asked = options.conditions.clone();
    if let Change::Rate(rate) = places[0].change {
        if asked.rate.is_some() {
            return Err(Failure::usage("--over rate and --rate both set the rate").help("leave --rate out"));
        }
        // Nothing is to be inferred where rates are given.
        asked.rate = Some(rate);
    }
    let (origin, conditions) = Origin::of(options, &asked)?;
    if let [Change::Rate(one), Change::Rate(other)] = [&places[0].change, &places[1].change] {
        let workload = origin.workload(conditions.seed)?;
        let fabric = |rate: &BitsPerSec| {
            let conditions = Conditions { rate: Some(*rate), ..conditions.clone() }.of_run()?;
            Ok::<_, Failure>(Scenario::new(Arc::clone(&workload), conditions)?.fabric().clone())
        };
        if fabric(one)? == fabric(other)? {
            return Err(Failure::usage("--over rate: the fabric sets the rates of all links itself")
                .help("leave the rate out of the fabric"));
        }
    }
    let seeds: Vec<u64> =
        (0..options.seeds.unwrap_or(1)).map(|index| conditions.seed.saturating_add(index)).collect();
    let runs = places.len() * seeds.len() * choices.len();
    let coflows = origin.workload(conditions.seed)?.coflow_count();
    note_unlisted(&places[0].runnable(&origin.workload(conditions.seed)?, &conditions, baseline)?.scenarios)?;
    let show = options.show.unwrap_or_default();
    let mut comparisons: Vec<Vec<Comparison>> = Vec::new();
    watched(runs * coflows, |progress| {
        for place in &places {
            let of_seed = |&seed: &u64| {
                let Runnable { scenarios, baseline, .. } = place.runnable(
                    &origin.workload(seed)?,
                    &Conditions { seed, ..conditions.clone() },
                    baseline,
                )?;
                let compared = compare_with(&scenarios, baseline, &Beside::default(), progress)?;
                Ok(compared.comparison)
            };
            comparisons.push(seeds.iter().map(of_seed).collect::<Result<_, Failure>>()?);
        }
        Ok::<(), Failure>(())
    })?;
    let first = &comparisons[0][0];
    let panel = ChartPanel {
        title: String::new(),
        horizontal: horizontal(over, &places),
        vertical: show.axis(
            &comparisons[0][0],
            &series_name(&choices[first.baseline], &first.baseline_run().label, over),
        ),
        series: series(over, &choices, &places, &comparisons, show),
    };
    if panel.series.is_empty() {
        return Err(undrawn(FigureError::OnePolicy));
    }
    if panel.series.iter().all(|one| one.points.is_empty()) {
        return Err(undrawn(FigureError::NoCoflows));
    }
    let label = format!("{} by policy over {}", panel.vertical.name, over.name);
    Ok(panel_figure(&panel, &label, width))
}

impl Place {
    /// The runs at this value over a workload.
    fn runnable(
        &self,
        workload: &Arc<Workload>,
        conditions: &Conditions,
        baseline: usize,
    ) -> Result<Runnable, Failure> {
        let mut conditions = conditions.clone();
        let mut workload = Arc::clone(workload);
        let mut engine = Engine::Fluid;
        match self.change {
            Change::Rate(rate) => conditions.rate = Some(rate),
            Change::Delay(delay) => conditions.control_delay = delay,
            Change::Period(period) => engine = Engine::Control { period },
            Change::Load(pace) => {
                let faster = at_pace(&workload, pace);
                let faster =
                    faster.map_err(|error| Failure::usage(format!("--over load={}: {error}", self.text)))?;
                workload = Arc::new(faster);
            }
            Change::Policies => {}
        }
        let scenario = Scenario::new(workload, conditions.of_run()?)?;
        runnable(&scenario, &self.choices, &[engine], baseline)
    }
}

/// Reads all values, and finds what they change.
fn places(over: &Over, choices: &[Choice]) -> Result<Vec<Place>, Failure> {
    let Over { name, values } = over;
    if !CONDITIONS.contains(&name.as_str()) && !choices.iter().any(|choice| has(choice, name)) {
        let names: Vec<String> = choices.iter().filter_map(parameters).collect();
        let known =
            if names.is_empty() { "the policies have no parameters".to_owned() } else { names.join("; ") };
        return Err(Failure::usage(format!(
            "--over {name}: no condition, and no parameter of these policies"
        ))
        .help(format!("conditions are {}; parameters: {known}", CONDITIONS.join(", "))));
    }
    if let Some(choice) =
        choices.iter().find(|choice| CONDITIONS.contains(&name.as_str()) && has(choice, name))
    {
        let policy = choice.policy.as_ref().map_or("", Policy::name);
        return Err(Failure::usage(format!("--over {name}: a condition, and a parameter of {policy}"))
            .help(format!("leave {policy} out to sweep the condition")));
    }
    let place = |text: &String| {
        let fault = |expected: String| Failure::usage(format!("--over {name}={text}: {expected}"));
        let change = match name.as_str() {
            "rate" => {
                let rate: Result<BitsPerSec, _> = text.parse();
                Change::Rate(rate.map_err(|error| fault(format!("{error}, as in 10Gbps")))?)
            }
            "load" => match text.parse() {
                Ok(load) if (1e-3..=1e3).contains(&load) => Change::Load(load),
                _ => return Err(fault("expected a multiple from 0.001 to 1000, as in 0.5".to_owned())),
            },
            "control_delay" => {
                let delay: Result<Nanos, _> = text.parse();
                Change::Delay(delay.map_err(|error| fault(format!("{error}, as in 10ms")))?)
            }
            "period" => Change::Period(period(text).map_err(fault)?),
            _ => Change::Policies,
        };
        let choices = match change {
            Change::Policies => {
                choices.iter().map(|choice| set(choice, name, text)).collect::<Result<_, _>>()?
            }
            _ => choices.to_vec(),
        };
        Ok(Place { text: text.clone(), change, choices })
    };
    let mut places = values.iter().map(place).collect::<Result<Vec<Place>, Failure>>()?;
    if places.iter().all(|place| number(&place.text).is_some()) {
        places.sort_by(|a, b| {
            number(&a.text).partial_cmp(&number(&b.text)).expect("numbers of values are finite")
        });
    }
    Ok(places)
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
fn set(choice: &Choice, parameter: &str, value: &str) -> Result<Choice, Failure> {
    let Some(policy) = choice.policy.as_ref().filter(|_| has(choice, parameter)) else {
        return Ok(choice.clone());
    };
    let label = policy.label();
    let given = label.split_once(':').map_or("", |(_, settings)| settings);
    let is_set =
        given.split(',').any(|setting| setting.split_once('=').is_some_and(|(name, _)| name == parameter));
    if is_set {
        return Err(Failure::usage(format!("--over {parameter}: {label} sets the parameter that is swept"))
            .help("leave it out of the policy"));
    }
    let setting = specified(label, [(parameter, value)]);
    let spec = if given.is_empty() { setting } else { format!("{label},{parameter}={value}") };
    let policy = configured(&spec)?.into();
    Ok(Choice { policy: Some(policy), ..choice.clone() })
}

/// The value that a text means, whatever its unit: values of one axis have the same.
fn number(text: &str) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|value| value.is_finite());
    let bytes = || text.parse::<Bytes>().ok().map(Bytes::as_f64);
    let rate = || text.parse::<BitsPerSec>().ok().map(|rate| rate.0 as f64);
    let time = || text.parse::<Nanos>().ok().map(Nanos::as_f64);
    plain.or_else(bytes).or_else(rate).or_else(time)
}

fn horizontal(over: &Over, places: &[Place]) -> Horizontal {
    let name = match over.name.as_str() {
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
fn series_name(choice: &Choice, label: &str, over: &Over) -> String {
    match &choice.policy {
        Some(policy) if has(choice, &over.name) => policy.label().to_owned(),
        _ => label.to_owned(),
    }
}

/// One series for each policy; of speedups not for the baseline, whose is one everywhere.
fn series(
    over: &Over,
    choices: &[Choice],
    places: &[Place],
    comparisons: &[Vec<Comparison>],
    show: Show,
) -> Vec<ChartSeries> {
    let are_numbers = places.iter().all(|place| number(&place.text).is_some());
    let of = |run: usize| {
        let first = &comparisons[0][0].runs[run];
        let point = |(index, place): (usize, &Place)| {
            let seeds = &comparisons[index];
            let samples: Vec<f64> = seeds.iter().map(|one| show.of(one, &one.runs[run])).collect();
            let at = number(&place.text).filter(|_| are_numbers).unwrap_or(index as f64);
            let Estimate { value, low, high, .. } = Estimate::of_ratios(&samples)?;
            Some(ChartPoint { at, value, low, high })
        };
        ChartSeries {
            name: series_name(&choices[run], &first.label, over),
            policy: first.policy.clone(),
            points: places.iter().enumerate().filter_map(point).collect(),
            paper: Vec::new(),
            stroke: Stroke::Joined,
        }
    };
    let baseline = comparisons[0][0].baseline;
    (0..choices.len()).filter(|&run| show != Show::Speedup || run != baseline).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_a_name_and_two_values_or_more_each_once() {
        let over: Over = "Rate = 1Gbps, 10Gbps".parse().unwrap();
        assert_eq!((over.name.as_str(), over.values.join("|")), ("rate", "1Gbps|10Gbps".to_owned()));
        for text in
            ["rate", "rate=", "rate=1Gbps", "=1,2", "rate=1Gbps,,2Gbps", "load=1,1.0", "size=1000MB,1GB"]
        {
            assert!(text.parse::<Over>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_policy_without_the_parameter_stays_as_it_is() {
        let choices = selected(&crate::arguments::Selection {
            policies: vec!["fair".to_owned(), "dclas:queues=4".to_owned()],
            ..Default::default()
        });
        let over = "first_threshold=100MB,1MB".parse().unwrap();
        let places = places(&over, &choices.unwrap().0).unwrap();
        let labels = |place: &Place| -> Vec<String> {
            place.choices.iter().map(|choice| choice.policy.as_ref().unwrap().label().to_owned()).collect()
        };
        assert_eq!(labels(&places[0]), ["fair", "dclas:queues=4,first_threshold=1MB"], "in ascending order");
    }
}

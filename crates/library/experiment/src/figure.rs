//! The chart of an experiment: a panel for each panel of its text.
//!
//! What a paper says stands in it as a hollow diamond, where it gives a number for a series and a
//! place that are drawn in the same form. The series that others are compared with is a constant
//! there, so it is the line at one and not drawn. Labels name in words what is plotted, and which
//! direction is better.

use std::collections::BTreeMap;

use cavalcade_report::{
    Better, ChartPanel, ChartPoint, ChartSeries, Horizontal, Stroke, Unit, Vertical, chart,
};

use crate::criterion::Fitted;
use crate::definition::{Axis, Expected, Experiment, Form, Panel};
use crate::row::{Measure, Row, Statistic, Subject};
use crate::run::Key;

/// The chart as an SVG file.
pub fn figure(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> String {
    let panels: Vec<ChartPanel> =
        experiment.panels.iter().map(|panel| drawn(experiment, rows, panel)).collect();
    chart(&experiment.title, &panels)
}

/// Draws the experiment's criterion as an SVG file; `None` where it has no criterion, or rows are
/// missing.
pub fn criterion_figure(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> Option<String> {
    Fitted::of(experiment, rows).map(|fitted| fitted.figure())
}

fn drawn(experiment: &Experiment, rows: &BTreeMap<Key, Row>, panel: &Panel) -> ChartPanel {
    let shown =
        (0..panel.series.len()).filter(|&series| panel.form.is_plain() || panel.against != Some(series));
    let series = shown.map(|series| {
        let points = (0..panel.places()).filter_map(|place| {
            let estimate = experiment.estimate(rows, panel, series, place, panel.view())?;
            let at = number_of(panel, place);
            Some(ChartPoint { at, value: estimate.value, low: estimate.low, high: estimate.high })
        });
        ChartSeries {
            name: panel.series[series].name.clone(),
            policy: panel.series[series].policy(),
            points: points.collect(),
            paper: paper(panel, series),
            stroke: Stroke::Joined,
        }
    });
    ChartPanel {
        title: panel.title.clone(),
        horizontal: horizontal(panel),
        vertical: vertical(panel),
        series: series.collect(),
    }
}

fn horizontal(panel: &Panel) -> Horizontal {
    let names = || (0..panel.places()).map(|place| panel.place(place));
    match &panel.axis {
        Axis::Values { name, numbers: Some(numbers), log, .. } => {
            let mut ticks: Vec<(f64, String)> = numbers.iter().copied().zip(names()).collect();
            ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
            Horizontal::Numbers { name: name.clone(), log: *log, ticks }
        }
        Axis::Values { name, .. } => Horizontal::Cases { name: name.clone(), names: names().collect() },
        Axis::Bins => Horizontal::Cases {
            name: "coflows: short or long, narrow or wide".to_owned(),
            names: names().collect(),
        },
        Axis::Measures(measures) => {
            let names = measures.iter().map(|&measure| in_words(measure)).collect();
            Horizontal::Cases { name: String::new(), names }
        }
    }
}

/// Returns what is plotted and in which direction it is better.
fn vertical(panel: &Panel) -> Vertical {
    let subject = match panel.axis {
        Axis::Measures(_) => String::new(),
        Axis::Values { .. } | Axis::Bins => in_words(panel.measure),
    };
    let of = |form: &str| match subject.as_str() {
        "" => form.to_owned(),
        subject => format!("{subject}: {form}"),
    };
    let against = panel.against.map_or("", |series| panel.series[series].name.as_str());
    let (name, unit, better) = match panel.form {
        Form::Factor => (of(&format!("speedup over {against}")), Unit::Ratio, Better::Higher),
        Form::Reduction => (of(&format!("below {against}")), Unit::Percent, Better::Higher),
        Form::Gap => (of(&format!("above {against}")), Unit::Percent, Better::Lower),
        Form::Seconds => (in_words(panel.measure), Unit::Seconds, Better::Lower),
        Form::Share => (in_words(panel.measure), Unit::Percent, Better::Lower),
    };
    Vertical { name, unit, better, from_zero: false }
}

/// Writes a measure as a label: `Mean CCT`, `p95 TCT`.
pub(crate) fn in_words(measure: Measure) -> String {
    let subject = match measure.subject {
        Subject::Coflows => "CCT",
        Subject::Tasks => "TCT",
        Subject::Free => "FCT, no deadline",
        Subject::FreeShort => "FCT, short, no deadline",
        Subject::Missed => return "Deadlines missed".to_owned(),
        Subject::Negotiation => return "Negotiation, share of bytes".to_owned(),
        Subject::Delay => "delay of datagrams",
    };
    let statistic = match measure.statistic {
        Statistic::Mean => "Mean",
        Statistic::P50 => "Median",
        Statistic::P95 => "p95",
        Statistic::P99 => "p99",
        Statistic::Max => "Longest",
    };
    format!("{statistic} {subject}")
}

/// Returns the number of a place on the axis.
fn number_of(panel: &Panel, place: usize) -> f64 {
    match &panel.axis {
        Axis::Values { numbers: Some(numbers), .. } => numbers[place],
        _ => place as f64,
    }
}

fn paper(panel: &Panel, series: usize) -> Vec<(f64, f64)> {
    let said = panel.expectations.iter().filter_map(|expectation| match expectation.expected {
        Expected::Value { at, paper, .. }
            if expectation.series == series
                && expectation.form == panel.form
                && expectation.against == panel.against
                && expectation.measure.is_none() =>
        {
            Some((number_of(panel, at), paper))
        }
        _ => None,
    });
    said.collect()
}

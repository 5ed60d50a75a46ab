//! The chart of an experiment: a panel for each panel of its text.
//!
//! What a paper says stands in it as a hollow diamond, where it says a number about a series and a place that are drawn in
//! the same form. The series that others are compared with is a constant there, so it is the line at one and not drawn.

use std::collections::BTreeMap;

use cavalcade_report::{ChartPanel, ChartPoint, ChartSeries, Horizontal, Vertical, chart};

use crate::definition::{Axis, Expected, Experiment, Form, Panel};
use crate::row::Row;
use crate::run::Key;

/// The chart as an SVG file.
pub fn figure(experiment: &Experiment, rows: &BTreeMap<Key, Row>) -> String {
    let panels: Vec<ChartPanel> =
        experiment.panels.iter().map(|panel| drawn(experiment, rows, panel)).collect();
    chart(&experiment.title, &panels)
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
            points: points.collect(),
            paper: paper(panel, series),
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
    let names = || (0..panel.places()).map(|place| panel.place(place)).collect();
    match &panel.axis {
        Axis::Values { name, numbers: Some(_), log, .. } => {
            Horizontal::Numbers { name: name.clone(), log: *log }
        }
        Axis::Values { name, .. } => Horizontal::Cases { name: name.clone(), names: names() },
        Axis::Bins => {
            Horizontal::Cases { name: "coflows: short/long × narrow/wide".to_owned(), names: names() }
        }
        Axis::Measures(_) => Horizontal::Cases { name: "figure".to_owned(), names: names() },
    }
}

fn vertical(panel: &Panel) -> Vertical {
    let measure = match panel.axis {
        Axis::Measures(_) => String::new(),
        Axis::Values { .. } | Axis::Bins => format!("{}, ", panel.measure),
    };
    let against = panel.against.map_or("", |series| panel.series[series].name.as_str());
    match panel.form {
        Form::Factor => Vertical::Ratio(format!("{measure}factor over {against}")),
        Form::Reduction => Vertical::Percent(format!("{measure}reduction against {against}")),
        Form::Gap => Vertical::Percent(format!("{measure}above {against}")),
        Form::Seconds => Vertical::Seconds(panel.measure.to_string()),
        Form::Share => Vertical::Percent(panel.measure.to_string()),
    }
}

/// Where a place stands on the axis.
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

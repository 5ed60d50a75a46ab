//! `cavalcade tune thresholds`: which thresholds of bytes split a workload's flows best over priority queues.

use std::fmt::Write as _;
use std::path::Path;

use cavalcade_model::{Bytes, History};
use cavalcade_policy::{ThresholdChoice, threshold_choices};
use cavalcade_report::Grid;

use crate::arguments::{Tune, TuneThresholds};
use crate::failure::{Excerpt, Failure};
use crate::output::print;
use crate::terminal::fit;

/// Flows that stand for a distribution: each has as much of it.
const FLOWS: u32 = 200_000;

/// Runs the command.
///
/// # Errors
/// If the distribution cannot be read, or is none.
pub(crate) fn run(command: &Tune) -> Result<(), Failure> {
    let Tune::Thresholds(options) = command;
    let text =
        std::fs::read_to_string(&options.cdf).map_err(|error| Failure::file("read", &options.cdf, &error))?;
    let points = read(&text, &options.cdf)?;
    let sizes = (0..FLOWS).map(|flow| quantile(&points, (f64::from(flow) + 0.5) / f64::from(FLOWS)));
    let history = History::default().with_flow_sizes(sizes);
    let choices = threshold_choices(&history, options.load, options.queues as usize);
    if options.json { print(&json(options, &choices)) } else { print(&table(options, &choices)) }
}

/// Reads lines of a size and the share of flows that are no larger.
fn read(text: &str, path: &Path) -> Result<Vec<(f64, f64)>, Failure> {
    let name = path.display().to_string();
    let fault = |number: usize, line: &str, what: String| {
        let excerpt = Excerpt { name: name.clone(), text: line.to_owned(), line: number, column: 1 };
        Failure::input(what)
            .help("write lines of size_bytes,cdf, both rising, the last with 1")
            .at(Some(excerpt))
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (number, first) = (index + 1, points.is_empty());
        if line.is_empty() || line.starts_with('#') || (first && line == "size_bytes,cdf") {
            continue;
        }
        let parsed = line.split_once(',').and_then(|(size, share)| {
            Some((size.trim().parse::<f64>().ok()?, share.trim().parse::<f64>().ok()?))
        });
        let usable =
            |&(size, share): &(f64, f64)| (0.0..=1e15).contains(&size) && (0.0..=1.0).contains(&share);
        let Some(point) = parsed.filter(usable) else {
            return Err(fault(number, line, format!("'{line}' is not a size and a share from 0 to 1")));
        };
        if points.last().is_some_and(|last| point.0 < last.0 || point.1 < last.1) {
            return Err(fault(number, line, format!("'{line}' is below the line before")));
        }
        points.push(point);
    }
    match points.last() {
        Some(&(size, share)) if share > 1.0 - 1e-9 && size >= 1.0 => Ok(points),
        Some(_) => Err(fault(text.lines().count(), "", "the last share is not 1".to_owned())),
        None => Err(fault(1, "", "there is no line with a size and a share".to_owned())),
    }
}

/// The size below which a share of `at` lies; at least one byte.
fn quantile(points: &[(f64, f64)], at: f64) -> Bytes {
    let upper = points.partition_point(|&(_, share)| share < at).min(points.len() - 1);
    let (low, below) = if upper == 0 { points[0] } else { points[upper - 1] };
    let (high, above) = points[upper];
    let part = if above > below { ((at - below) / (above - below)).clamp(0.0, 1.0) } else { 1.0 };
    Bytes(((low + (high - low) * part) as u64).max(1))
}

/// Formats thresholds as `--policy pias:thresholds=…` takes them.
fn written(thresholds: &[Bytes]) -> String {
    thresholds.iter().map(Bytes::to_string).collect::<Vec<_>>().join("/")
}

fn table(options: &TuneThresholds, choices: &[ThresholdChoice]) -> String {
    let best = choices[0].mean_bytes;
    // 1.25 bytes leave in a nanosecond.
    let millis = |choice: &ThresholdChoice| format!("{:.3} ms", choice.mean_bytes / 1.25e6);
    let thresholds = |choice: &ThresholdChoice| match choice.thresholds.is_empty() {
        true => "–".to_owned(),
        false => written(&choice.thresholds),
    };
    let mut out = Grid::default()
        .text("choice", choices.iter().map(|choice| choice.name.to_owned()))
        .figures("mean at 10Gbps", choices.iter().map(millis))
        .figures("over best", choices.iter().map(|choice| format!("{:.2}", choice.mean_bytes / best)))
        .text("thresholds", choices.iter().map(thresholds))
        .show(fit(options.room.wide));
    let levels = choices[0].thresholds.len() + 1;
    let asked = options.queues as usize;
    let fewer =
        if levels < asked { format!(" More than {levels} queues gain nothing.") } else { String::new() };
    writeln!(
        out,
        "\nMean flow completion time on one link at load {}, strict priorities, Poisson arrivals.{fewer}\n\
         Use: --policy pias:thresholds={}",
        options.load,
        written(&choices[0].thresholds)
    )
    .expect("a string takes all text");
    out
}

fn json(options: &TuneThresholds, choices: &[ThresholdChoice]) -> String {
    let choice = |choice: &ThresholdChoice| {
        let bytes: Vec<u64> = choice.thresholds.iter().map(|threshold| threshold.get()).collect();
        serde_json::json!({
            "name": choice.name,
            "thresholds_bytes": bytes,
            "mean_fct_bytes": choice.mean_bytes,
        })
    };
    let document = serde_json::json!({
        "schema_version": 1,
        "load": options.load,
        "queues": options.queues,
        "choices": choices.iter().map(choice).collect::<Vec<_>>(),
    });
    document.to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(text: &str) -> Result<Vec<(f64, f64)>, String> {
        read(text, Path::new("sizes.csv")).map_err(|failure| crate::failure::shown(&failure, false))
    }

    #[test]
    fn a_distribution_is_read_with_its_jumps() {
        let points = points("size_bytes,cdf\n0,0\n1000,0.5\n2000,0.5\n4000,1\n").unwrap();
        let at = |share| quantile(&points, share).get();
        assert_eq!((at(0.0), at(0.25), at(0.5), at(0.75), at(1.0)), (1, 500, 1_000, 3_000, 4_000));
    }

    #[test]
    fn what_is_none_is_told_with_its_line() {
        let error = |text| points(text).unwrap_err();
        assert!(error("size_bytes,cdf\n1,0.5\n2,x\n").contains("sizes.csv:3"));
        assert!(error("1,0.5\n2,0.4\n").contains("below the line before"));
        assert!(error("1,0.5\n").contains("the last share is not 1"));
        assert!(error("").contains("no line with a size"));
        assert!(error("1,1.5\n").contains("is not a size and a share from 0 to 1"));
    }
}

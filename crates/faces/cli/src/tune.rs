//! `cavalcade tune thresholds`: which thresholds of bytes split a workload's flows best over
//! priority queues.

use std::fmt::Write as _;

use cavalcade::read_file;
use cavalcade_model::{Bytes, History};
use cavalcade_policy::{ThresholdChoice, threshold_choices};
use cavalcade_report::Grid;
use cavalcade_trace::read_size_distribution;

use crate::arguments::{Tune, TuneThresholds};
use crate::failure::Failure;
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
    let (name, bytes) = read_file(&options.cdf);
    let bytes = bytes.map_err(|error| Failure::file("read", &options.cdf, &error))?;
    let distribution =
        read_size_distribution(&bytes, &name).map_err(|error| Failure::input(error.to_string()))?;
    let sizes = (0..FLOWS).map(|flow| distribution.quantile((f64::from(flow) + 0.5) / f64::from(FLOWS)));
    let history = History::default().with_flow_sizes(sizes);
    let choices = threshold_choices(&history, options.load, options.queues as usize);
    if options.json { print(&json(options, &choices)) } else { print(&table(options, &choices)) }
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

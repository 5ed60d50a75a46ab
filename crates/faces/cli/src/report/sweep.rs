//! `cavalcade report figure sweep`: a figure of each policy over a condition or a parameter.

use cavalcade::Sweep;
use cavalcade_report::FigureWidth;

use super::{Figure, Origin, undrawn};
use crate::failure::Failure;
use crate::policies::{note_unlisted, selected};
use crate::progress::watched;

/// Draws the figure.
///
/// # Errors
/// If the command line names no such sweep, or a run fails.
pub(super) fn drawn(options: &Figure, are_runs: bool, width: FigureWidth) -> Result<String, Failure> {
    let Some(axis) = &options.over else {
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
    if axis.is_rate() && options.conditions.rate.is_some() {
        return Err(Failure::usage("--over rate and --rate both set the rate").help("leave --rate out"));
    }
    let (choices, baseline) = selected(&options.selection)?;
    let mut asked = options.conditions.clone();
    if axis.is_rate() {
        // Nothing is to be inferred where rates are given.
        asked.rate = Some(asked.rate());
    }
    let (origin, conditions) = Origin::of(options, &asked)?;
    let seeds = (0..options.seeds.unwrap_or(1)).map(|index| conditions.seed.saturating_add(index)).collect();
    let sweep = Sweep::new(axis.clone(), choices, baseline, conditions.of_run()?, seeds)?;
    let workload = origin.workload(conditions.seed)?;
    note_unlisted(&sweep.first(&workload)?)?;
    let swept = watched(sweep.runs() * workload.coflow_count(), |progress| {
        sweep.run(|seed| origin.workload(seed), progress)
    })?;
    swept.figure(options.show.unwrap_or_default().into(), width).map_err(undrawn)
}

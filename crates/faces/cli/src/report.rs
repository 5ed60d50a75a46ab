//! `cavalcade report`: single figures of a comparison, for papers.
//!
//! A figure is made of a trace, over which policies are compared first, of a generated workload, or
//! of runs that `cavalcade simulate --out` kept, which must be of one trace; under the same
//! conditions but for `ab`, which compares any two runs of one trace.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cavalcade::folder::Recorded;
use cavalcade::output::{check_writable, write_file};
use cavalcade::{
    Axis, Beside, Comparison, Elsewhere, Engine, Finished, Outcome, Runnable, Scenario, Source, analyse,
    manifest,
};
use cavalcade_metrics::Sent;
use cavalcade_model::{BitsPerSec, Nanos, Workload};
use cavalcade_report::{
    FigureError, FigureFile, FigureKind, FigureWidth, PairSide, figure, pair_figure, trace_events,
};
use cavalcade_validate::Segment;
use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{Conditions, Selection, rate};
use crate::compare::{run_all, runnable};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::input::{Notes, read};
use crate::output::tell;
use crate::policies::{note_unlisted, selected};
use crate::recorded::at_recorded_rate;
use crate::trace::generated;

mod classes;
mod sweep;

const FIGURE_EXAMPLES: &str = "\
Example:
  cavalcade report figure cdf trace.txt --policies fair,dclas,sebf -o cdf.pdf
  cavalcade report figure classes trace.txt --policies aalo,pias -o classes.pdf
  cavalcade report figure ab run-a run-b --width page -o ab.pdf
  cavalcade report figure sweep trace.txt --policies fair,dclas --over rate=1Gbps,10Gbps -o rate.pdf
  cavalcade report figure sweep --generate facebook:coflows=100,ports=20 --seeds 10 --policies fair,dclas --over first_threshold=1MB,10MB --show speedup -o threshold.pdf";

const EVENTS_EXAMPLES: &str = "\
Example:
  cavalcade report events run -o run.json
  cavalcade report events --schedule theirs.csv --trace trace.txt -o theirs.json";

/// The parts of `cavalcade report`.
#[derive(Debug, Subcommand)]
pub(crate) enum ReportCommand {
    /// Write one figure of a comparison as SVG, PDF or PNG, by the ending of the file's name
    ///
    /// Without named policies it shows the baseline, the best policy that is told sizes and the
    /// best that is not.
    Figure(Box<Figure>),
    /// Write the schedule of a run as trace events, for ui.perfetto.dev and chrome://tracing
    ///
    /// Coflows are tracks that show when anything of them is sent and when they wait; ports are
    /// tracks that show what they send.
    Events(Events),
}

/// `cavalcade report events`.
#[derive(Debug, Args)]
#[command(after_help = EVENTS_EXAMPLES)]
pub(crate) struct Events {
    /// The folder of a run, written by 'cavalcade simulate --dump-schedule --out'
    #[arg(value_name = "RUN", required_unless_present = "schedule", conflicts_with = "schedule")]
    pub(crate) run: Option<PathBuf>,
    /// A schedule that was made elsewhere; docs/formats.md describes the file
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) schedule: Option<PathBuf>,
    /// The trace of that schedule; or that of the run, if it has moved since
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Capacity of every port in each direction [default: 1Gbps]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "schedule", help_heading = "Conditions")]
    pub(crate) rate: Option<BitsPerSec>,
    /// Fabric, as 'cavalcade compare' takes it
    #[arg(long, value_name = "FABRIC", requires = "schedule", help_heading = "Conditions")]
    pub(crate) fabric: Option<FabricArgument>,
    /// File to write, as JSON; compressed where its name ends with .gz or .zst
    #[arg(short, long, alias = "output", value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// `cavalcade report figure`.
#[derive(Debug, Args)]
#[command(
    after_help = FIGURE_EXAMPLES
)]
pub(crate) struct Figure {
    /// Kind of figure
    pub(crate) kind: Kind,
    /// A trace, or run folders of one trace written by 'cavalcade simulate --out'
    #[arg(value_name = "TRACE|RUN", required_unless_present = "generate", conflicts_with = "generate")]
    pub(crate) inputs: Vec<PathBuf>,
    /// A generated workload in place of a trace, such as facebook:coflows=200,ports=50; 'cavalcade
    /// trace generate' lists generators
    #[arg(long, value_name = "GENERATOR")]
    pub(crate) generate: Option<String>,
    /// File to write: .svg, .pdf or .png (300 pixels to an inch)
    #[arg(short, long, alias = "output", value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Width: a column of a two-column page (240 pt) or the whole page (504 pt); text is 8 pt in
    /// both
    #[arg(long, value_name = "WIDTH", default_value = "column")]
    pub(crate) width: Width,
    /// The horizontal axis and its values, such as rate=1Gbps,10Gbps
    ///
    /// Conditions: rate, of the links; load, as a multiple of the trace's own, whose tasks then
    /// arrive so many times as fast; control_delay, of messages; period, between rounds of the
    /// coordinator, which puts all policies on the control engine. Any other name is a parameter of
    /// policies, such as first_threshold=1MB,10MB; a policy without it is a level line.
    #[arg(long, value_name = "NAME=VALUES", help_heading = "Sweep")]
    pub(crate) over: Option<Axis>,
    /// The vertical axis [default: mean]
    #[arg(long, value_name = "FIGURE", help_heading = "Sweep")]
    pub(crate) show: Option<Show>,
    /// Number of seeds that the workload is generated from, counted from --seed; points then have
    /// 95 % intervals over them
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Sweep")]
    pub(crate) seeds: Option<u64>,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Distribution of coflow completion times
    Cdf,
    /// Distribution of task completion times, where tasks have stages or several coflows
    Tasks,
    /// Speedup over the baseline for all coflows and by length × width bin, with 95 % intervals
    #[value(alias = "bins")]
    Gain,
    /// Every coflow from arrival to finish
    Timeline,
    /// Mean time lost to others, for all coflows and by bin: completion time less the time alone on
    /// the fabric
    Queueing,
    /// Mean bytes that wait in each priority class, under policies that have classes: what is not
    /// sent yet
    Classes,
    /// A second run against a first, coflow by coflow: completion times on equal axes, and the
    /// distribution of speedups
    Ab,
    /// A figure of each policy over a condition or a parameter (--over)
    Sweep,
}

impl Kind {
    /// The figure of a comparison that it is, if it is one.
    fn of_comparison(self) -> Option<FigureKind> {
        match self {
            Self::Cdf => Some(FigureKind::Cdf),
            Self::Tasks => Some(FigureKind::Tasks),
            Self::Gain => Some(FigureKind::Gain),
            Self::Timeline => Some(FigureKind::Timeline),
            Self::Queueing => Some(FigureKind::Queueing),
            Self::Classes | Self::Ab | Self::Sweep => None,
        }
    }
}

/// The vertical axis of a sweep.
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

impl From<Show> for cavalcade::Show {
    fn from(show: Show) -> Self {
        match show {
            Show::Mean => Self::Mean,
            Show::P95 => Self::P95,
            Show::Speedup => Self::Speedup,
        }
    }
}

/// The width of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Width {
    Column,
    Page,
}

/// Runs the command.
///
/// # Errors
/// If the inputs cannot be read or do not belong together, there is nothing to draw, or the file
/// cannot be written.
pub(crate) fn run(command: &ReportCommand) -> Result<(), Failure> {
    match command {
        ReportCommand::Figure(options) => write_figure(options),
        ReportCommand::Events(options) => write_events(options),
    }
}

fn write_events(options: &Events) -> Result<(), Failure> {
    check_writable(&options.out)?;
    let sent = |segment: Segment| Sent {
        flow: segment.flow,
        from_ns: segment.from.as_f64(),
        to_ns: segment.to.as_f64(),
        bytes: segment.to.since(segment.from) * segment.bytes_per_nano,
    };
    let write = |scenario: &Scenario, outcome: &Outcome, segments: Vec<Segment>| {
        let sent = segments.into_iter().map(sent).collect();
        write_file(&options.out, |out| {
            trace_events(scenario.workload(), &outcome.coflow_arrival, &outcome.coflow_finish, sent, out)
        })
    };
    match (&options.run, &options.schedule, &options.trace) {
        (Some(run), _, trace) => {
            let recorded = Recorded::open(run, trace.as_deref())?;
            write(&recorded.scenario, &recorded.completions()?, recorded.schedule()?)?;
        }
        (None, Some(file), Some(trace)) => {
            let (rate, fabric) = (options.rate, options.fabric.clone());
            let conditions = Conditions { rate, fabric, ..Default::default() };
            let (reading, _notes) = read(&Source::open(trace)?, None)?;
            let scenario = Scenario::new(reading.workload, conditions.of_run()?)?;
            let Elsewhere { outcome, segments, .. } = Elsewhere::read("schedule", file, &scenario)?;
            write(&scenario, &outcome, segments)?;
        }
        _ => {
            return Err(Failure::usage("there is no schedule to write")
                .help("name the folder of a run, or --schedule FILE with --trace FILE"));
        }
    }
    tell(&format!("wrote {}: open it in ui.perfetto.dev", options.out.display()));
    Ok(())
}

fn write_figure(options: &Figure) -> Result<(), Failure> {
    let file = picture_file(&options.out)?;
    let width = match options.width {
        Width::Column => FigureWidth::Column,
        Width::Page => FigureWidth::Page,
    };
    let is_sweep = options.kind == Kind::Sweep;
    if !is_sweep && (options.over.is_some() || options.show.is_some() || options.seeds.is_some()) {
        return Err(Failure::usage("--over, --show and --seeds are for the figure sweep")
            .help("leave them out, or draw sweep"));
    }
    let are_runs =
        !options.inputs.is_empty() && options.inputs.iter().all(|input| input.join(manifest::NAME).is_file());
    let drawn = match (options.kind.of_comparison(), are_runs) {
        (Some(kind), true) => {
            let comparison = of_runs(options)?;
            figure(&comparison, kind, width, &comparison.featured()).map_err(undrawn)?
        }
        (Some(kind), false) => {
            let comparison = of_workload(options)?;
            let featured = comparison.featured();
            if featured.len() < comparison.runs.len() {
                let names: Vec<&str> =
                    featured.iter().map(|&run| comparison.runs[run].label.as_str()).collect();
                tell(&format!(
                    "Of {} policies the figure has {}; name policies to see them.",
                    comparison.runs.len(),
                    names.join(", ")
                ));
            }
            figure(&comparison, kind, width, &featured).map_err(undrawn)?
        }
        (None, _) if options.kind == Kind::Classes => classes::drawn(options, are_runs, width)?,
        (None, _) if is_sweep => sweep::drawn(options, are_runs, width)?,
        (None, true) => pair_of_runs(options, width)?,
        (None, false) => pair_of_policies(&of_workload(options)?, width)?,
    };
    write_picture(file, &options.out, &drawn)?;
    tell(&format!("wrote {}", options.out.display()));
    Ok(())
}

/// The kind of file that a picture is written as, before anything is read or drawn.
///
/// # Errors
/// If the name has another ending, or no such file can be written.
pub(crate) fn picture_file(path: &Path) -> Result<FigureFile, Failure> {
    let file = FigureFile::of(path).ok_or_else(|| {
        Failure::usage(format!("{}: a figure is SVG, PDF or PNG", path.display()))
            .help("end the name with .svg, .pdf or .png")
    })?;
    check_writable(path)?;
    Ok(file)
}

/// Writes a drawing as such a file.
///
/// # Errors
/// If it is too large to be a picture, or cannot be written.
pub(crate) fn write_picture(file: FigureFile, path: &Path, drawing: &str) -> Result<(), Failure> {
    let picture = file
        .of_drawing(drawing)
        .map_err(|error| Failure::new(crate::failure::Kind::Runtime, error.to_string()))?;
    write_file(path, |out| out.write_all(&picture))
}

fn undrawn(error: FigureError) -> Failure {
    Failure::usage(error.to_string()).help(error.cure())
}

/// What a workload is made of, each time with another seed if it is generated.
enum Origin<'a> {
    Trace {
        workload: Arc<Workload>,
        /// Printed at the end of the command.
        _notes: Notes,
    },
    Generator(&'a str),
}

impl Origin<'_> {
    /// The origin that the command line names, and the conditions, with the rate that a log
    /// recorded.
    fn of<'a>(options: &'a Figure, conditions: &Conditions) -> Result<(Origin<'a>, Conditions), Failure> {
        if let Some(spec) = &options.generate {
            return Ok((Origin::Generator(spec), conditions.clone()));
        }
        let [trace] = options.inputs.as_slice() else {
            return Err(Failure::usage("expected one trace, or folders of runs")
                .help("name one trace, or folders that 'cavalcade simulate --out' wrote"));
        };
        let (reading, _notes) = read(&Source::open(trace)?, None)?;
        let conditions = at_recorded_rate(&reading, conditions)?;
        Ok((Origin::Trace { workload: Arc::new(reading.workload), _notes }, conditions))
    }

    fn workload(&self, seed: u64) -> Result<Arc<Workload>, Failure> {
        match self {
            Self::Trace { workload, .. } => Ok(Arc::clone(workload)),
            Self::Generator(spec) => generated(spec, None, seed).map(Arc::new),
        }
    }
}

/// A comparison of policies over a trace or a generated workload.
fn of_workload(options: &Figure) -> Result<Comparison, Failure> {
    let (choices, baseline) = selected(&options.selection)?;
    let (origin, conditions) = Origin::of(options, &options.conditions)?;
    let scenario = Scenario::new(origin.workload(conditions.seed)?, conditions.of_run()?)?;
    let Runnable { scenarios, named, baseline, .. } =
        runnable(&scenario, &choices, &[Engine::Fluid], baseline)?;
    note_unlisted(&scenarios)?;
    let mut comparison = run_all(&scenarios, baseline, &Beside::default())?.comparison;
    comparison.runs.iter_mut().zip(named).for_each(|(run, named)| run.named = named);
    Ok(comparison)
}

/// The figure of a policy against the baseline.
fn pair_of_policies(comparison: &Comparison, width: FigureWidth) -> Result<String, Failure> {
    let others: Vec<_> = (0..comparison.runs.len()).filter(|&run| run != comparison.baseline).collect();
    let [other] = others[..] else {
        let found = comparison.runs.len();
        return Err(Failure::usage(format!("ab compares two policies, and there are {found}"))
            .help("name two, as --policies fair,dclas: the second is drawn against the baseline"));
    };
    let side = |run: usize| {
        let run = &comparison.runs[run];
        PairSide { name: &run.label, policy: &run.policy, times: &run.cct }
    };
    pair_figure(&side(comparison.baseline), &side(other), width).map_err(undrawn)
}

/// The figure of the second run against the first, which may be under other conditions.
fn pair_of_runs(options: &Figure, width: FigureWidth) -> Result<String, Failure> {
    if options.selection.is_made() || options.selection.baseline.is_some() {
        return Err(Failure::usage("--policies, --policy and --baseline choose among policies to run")
            .help("leave them out: the second run is drawn against the first"));
    }
    let [a, b] = options.inputs.as_slice() else {
        let found = options.inputs.len();
        return Err(Failure::usage(format!("ab compares two runs, and there are {found}"))
            .help("name two folders that 'cavalcade simulate --out' wrote"));
    };
    let (a, b) = (Recorded::open(a, None)?, Recorded::open(b, None)?);
    if a.manifest.trace.sha256 != b.manifest.trace.sha256 {
        let (one, two) = (a.folder.display(), b.folder.display());
        return Err(Failure::input(format!("{one} and {two} are not runs of one trace"))
            .help("make them again with the same trace"));
    }
    let times = |run: &Recorded| -> Result<Vec<Nanos>, Failure> {
        let completions = run.completions()?;
        Ok(run.scenario.workload().coflows().map(|coflow| completions.cct(coflow.id)).collect())
    };
    let labels = [&a, &b].map(|run| run.scenario.label());
    let folders = [&a, &b].map(|run| run.folder.display().to_string());
    let names = if labels[0] == labels[1] {
        folders
    } else if a.manifest.has_setting_of(&b.manifest) {
        labels
    } else {
        // Under other conditions it is not the policies alone that make the difference.
        [0, 1].map(|run| format!("{} ({})", labels[run], folders[run]))
    };
    let policies =
        [&a, &b].map(|run| run.scenario.policy().map_or_else(String::new, |policy| policy.name().to_owned()));
    let (a, b) = (times(&a)?, times(&b)?);
    let side = |index: usize, times| PairSide { name: &names[index], policy: &policies[index], times };
    pair_figure(&side(0, &a), &side(1, &b), width).map_err(undrawn)
}

/// A comparison of runs that were kept.
fn of_runs(options: &Figure) -> Result<Comparison, Failure> {
    if options.selection.is_made() {
        return Err(Failure::usage("--policies and --policy choose policies to run, but runs were named")
            .help("leave them out, or name a trace instead of the runs"));
    }
    let recorded = (options.inputs.iter())
        .map(|folder| Recorded::open(folder, None))
        .collect::<Result<Vec<Recorded>, Failure>>()?;
    let (first, others) = recorded.split_first().expect("an input is required");
    if let Some(other) = others.iter().find(|other| !first.manifest.has_setting_of(&other.manifest)) {
        let (one, two) = (first.folder.display(), other.folder.display());
        return Err(Failure::input(format!(
            "{one} and {two} are not runs of one trace under the same conditions"
        ))
        .help("make them again with the same trace and conditions"));
    }
    // Flow completion times are not kept, so a run over packets is shown as any other.
    let scenarios: Vec<Scenario> = recorded.iter().map(|run| run.scenario.on(Engine::Fluid)).collect();
    let finished = recorded
        .iter()
        .map(|run| Ok(Finished { outcome: run.completions()?, wall_s: 0.0 }))
        .collect::<Result<Vec<_>, Failure>>()?;
    let mut comparison = analyse(&scenarios, finished, 0, None)?;
    let named = |name: &str| comparison.runs.iter().position(|run| run.label == name || run.policy == name);
    let baseline = match &options.selection.baseline {
        Some(name) => named(name).ok_or_else(|| {
            let known: Vec<&str> = comparison.runs.iter().map(|run| run.label.as_str()).collect();
            Failure::usage(format!("the baseline {name} is not among the runs"))
                .help(format!("choose one of {}", known.join(", ")))
        })?,
        None => named("fair").unwrap_or(0),
    };
    if baseline != comparison.baseline {
        let finished = recorded
            .iter()
            .map(|run| Ok(Finished { outcome: run.completions()?, wall_s: 0.0 }))
            .collect::<Result<Vec<_>, Failure>>()?;
        comparison = analyse(&scenarios, finished, baseline, None)?;
    }
    comparison.runs.iter_mut().for_each(|run| run.named = true);
    Ok(comparison)
}

//! `cavalcade report`: single figures of a comparison, for papers.
//!
//! A figure is made of a trace, over which policies are compared first, or of runs that `cavalcade simulate --out` kept, which
//! must be of one trace under the same conditions.

use std::path::{Path, PathBuf};

use cavalcade::folder::Recorded;
use cavalcade::output::{check_writable, write_file};
use cavalcade::{Beside, Comparison, Engine, Finished, Scenario, Source, analyse, manifest};
use cavalcade_report::{FigureKind, FigureWidth, RenderError, Sent, figure, pdf, png, trace_events};
use cavalcade_validate::Segment;
use clap::{Args, Subcommand, ValueEnum};

use crate::arguments::{Conditions, Selection};
use crate::compare::{Runnable, run_all, runnable};
use crate::failure::Failure;
use crate::input::read;
use crate::output::tell;
use crate::policies::selected;
use crate::recorded::at_recorded_rate;

/// The parts of `cavalcade report`.
#[derive(Debug, Subcommand)]
pub(crate) enum ReportCommand {
    /// Write one figure of a comparison as SVG, PDF or PNG, by the ending of the file's name
    ///
    /// Without named policies it shows the baseline, the best policy that is told sizes and the best that is not.
    Figure(Box<Figure>),
    /// Write the schedule of a run as trace events, for ui.perfetto.dev and chrome://tracing
    ///
    /// Coflows are tracks that show when anything of them is sent and when they wait; ports are tracks that show what they send.
    Events(Events),
}

/// `cavalcade report events`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade report events run -o run.json")]
pub(crate) struct Events {
    /// The folder of a run, written by 'cavalcade simulate --dump-schedule --out'
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,
    /// File to write, as JSON; compressed where its name ends with .gz or .zst
    #[arg(short, long, alias = "output", value_name = "FILE")]
    pub(crate) out: PathBuf,
}

/// `cavalcade report figure`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade report figure cdf trace.txt --policies fair,dclas,sebf -o cdf.pdf"
)]
pub(crate) struct Figure {
    /// Kind of figure: cdf, the distribution of coflow completion times; gain, the speedup over the baseline by bin;
    /// timeline, every coflow from arrival to finish
    pub(crate) kind: Kind,
    /// A trace, or run folders of one trace written by 'cavalcade simulate --out'
    #[arg(value_name = "TRACE|RUN", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// File to write: .svg, .pdf or .png (300 pixels to an inch)
    #[arg(short, long, alias = "output", value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Width: a column of a two-column page (240 pt) or the whole page (504 pt); text is 8 pt in both
    #[arg(long, value_name = "WIDTH", default_value = "column")]
    pub(crate) width: Width,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
}

/// The kind of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Cdf,
    Gain,
    Timeline,
}

/// The width of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Width {
    Column,
    Page,
}

/// What a figure is written as.
#[derive(Clone, Copy)]
enum Ending {
    Svg,
    Pdf,
    Png,
}

impl Ending {
    /// By the ending of a file's name.
    fn of(path: &Path) -> Result<Self, Failure> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("svg") => Ok(Self::Svg),
            Some("pdf") => Ok(Self::Pdf),
            Some("png") => Ok(Self::Png),
            _ => Err(Failure::usage(format!("{}: a figure is SVG, PDF or PNG", path.display()))
                .help("end the name with .svg, .pdf or .png")),
        }
    }

    fn of_svg(self, svg: String) -> Result<Vec<u8>, RenderError> {
        match self {
            Self::Svg => Ok(svg.into_bytes()),
            Self::Pdf => pdf(&svg),
            Self::Png => png(&svg),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// If the inputs cannot be read or do not belong together, there is nothing to draw, or the file cannot be written.
pub(crate) fn run(command: &ReportCommand) -> Result<(), Failure> {
    match command {
        ReportCommand::Figure(options) => write_figure(options),
        ReportCommand::Events(options) => write_events(options),
    }
}

fn write_events(options: &Events) -> Result<(), Failure> {
    check_writable(&options.out)?;
    let recorded = Recorded::open(&options.run, None)?;
    let completions = recorded.completions()?;
    let workload = recorded.scenario.workload();
    let sent = |segment: Segment| Sent {
        flow: segment.flow,
        from_ns: segment.from.as_f64(),
        to_ns: segment.to.as_f64(),
        bytes: segment.to.since(segment.from) * segment.bytes_per_nano,
    };
    let sent = recorded.schedule()?.into_iter().map(sent).collect();
    write_file(&options.out, |out| {
        trace_events(workload, &completions.coflow_arrival, &completions.coflow_finish, sent, out)
    })?;
    tell(&format!("wrote {}: open it in ui.perfetto.dev", options.out.display()));
    Ok(())
}

fn write_figure(options: &Figure) -> Result<(), Failure> {
    let ending = Ending::of(&options.out)?;
    check_writable(&options.out)?;
    let are_runs = options.inputs.iter().all(|input| input.join(manifest::NAME).is_file());
    let comparison = if are_runs { of_runs(options)? } else { of_trace(options)? };
    let kind = match options.kind {
        Kind::Cdf => FigureKind::Cdf,
        Kind::Gain => FigureKind::Gain,
        Kind::Timeline => FigureKind::Timeline,
    };
    let width = match options.width {
        Width::Column => FigureWidth::Column,
        Width::Page => FigureWidth::Page,
    };
    let drawn = figure(&comparison, kind, width, &comparison.featured()).ok_or_else(|| {
        Failure::usage("there is nothing to draw: expected a coflow, and for gain two policies")
            .help("name a trace with coflows, and policies with --policies")
    })?;
    let drawn = ending
        .of_svg(drawn)
        .map_err(|error| Failure::new(crate::failure::Kind::Runtime, error.to_string()))?;
    write_file(&options.out, |out| out.write_all(&drawn))?;
    tell(&format!("wrote {}", options.out.display()));
    Ok(())
}

/// A comparison of policies over a trace.
fn of_trace(options: &Figure) -> Result<Comparison, Failure> {
    let [trace] = options.inputs.as_slice() else {
        return Err(Failure::usage("expected one trace, or folders of runs")
            .help("name one trace, or folders that 'cavalcade simulate --out' wrote"));
    };
    let (choices, baseline) = selected(&options.selection)?;
    let source = Source::open(trace)?;
    let reading = read(&source, None)?;
    let conditions = at_recorded_rate(&reading, &options.conditions)?.of_run()?;
    let scenario = Scenario::new(reading.workload, conditions)?;
    let Runnable { scenarios, named, baseline } = runnable(&scenario, &choices, &[Engine::Fluid], baseline)?;
    let mut comparison = run_all(&scenarios, baseline, &Beside::default())?.comparison;
    comparison.runs.iter_mut().zip(named).for_each(|(run, named)| run.named = named);
    Ok(comparison)
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

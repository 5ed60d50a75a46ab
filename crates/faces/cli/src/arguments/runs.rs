//! Options of commands that take what others have written: runs, schedules and certificates.

use std::path::PathBuf;

use cavalcade_model::BitsPerSec;
use cavalcade_trace::Format;
use clap::Args;

use super::{format, rate};
use crate::fabric::argument::FabricArgument;

/// `cavalcade validate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade validate run\n  cavalcade validate --schedule theirs.csv --trace trace.txt --rate 10Gbps"
)]
pub(crate) struct Validate {
    /// Folder of a run, written by 'cavalcade simulate --out' or 'compare --out', or file written
    /// by 'cavalcade bound --certificate'
    #[arg(required_unless_present = "schedule", conflicts_with = "schedule")]
    pub(crate) path: Option<PathBuf>,
    /// Schedule that was made elsewhere: a CSV with the rate of each flow over time, as
    /// docs/formats.md describes it, or the schedule.csv of a run
    #[arg(long, value_name = "FILE", requires = "trace")]
    pub(crate) schedule: Option<PathBuf>,
    /// Trace of the schedule; of a run or certificate, the path of its trace if that has moved
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Format of the trace, if detection fails
    #[arg(long, value_name = "FORMAT", value_parser = format(Format::ALL), requires = "schedule")]
    pub(crate) format: Option<Format>,
    /// Capacity of every port in each direction [default: 1Gbps]
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "schedule", help_heading = "Conditions")]
    pub(crate) rate: Option<BitsPerSec>,
    /// Fabric, as 'cavalcade compare' takes it
    #[arg(long, value_name = "FABRIC", requires = "schedule", help_heading = "Conditions")]
    pub(crate) fabric: Option<FabricArgument>,
    /// Submit all tasks at time zero
    #[arg(long, requires = "schedule", help_heading = "Conditions")]
    pub(crate) offline: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade replay`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade replay run")]
pub(crate) struct RunFolder {
    /// Folder written by 'cavalcade simulate --out'
    pub(crate) dir: PathBuf,
    /// Path of the trace, if it has moved since
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

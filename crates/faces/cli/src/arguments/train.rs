//! Arguments of `cavalcade train`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use cavalcade::training::{Groups, Host};
use cavalcade_spec::Choice;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use super::{EngineOptions, PolicyWords, Room};

/// `cavalcade train`.
#[derive(Debug, Subcommand)]
pub(crate) enum Train {
    /// Compare policies for the training jobs of a jobs file
    ///
    /// A jobs file describes a cluster and the jobs on it: docs/training.md. For each job and
    /// policy it shows how long iterations take, against alone on the cluster in the fluid, how
    /// busy GPUs are, and where communication is exposed.
    Compare(TrainCompare),
    /// Show what a job does in an iteration, and which of it is exact, estimated or left out
    Info(TrainInfo),
}

/// `cavalcade train compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade train compare jobs.toml --policies fair,sebf,crux --iterations 20"
)]
pub(crate) struct TrainCompare {
    /// Jobs file
    pub(crate) jobs: PathBuf,
    /// Policies, such as fair,sebf,crux or dclas:queues=4
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "fair,sebf,crux",
        value_parser = PolicyWords::NAMES,
        hide_possible_values = true
    )]
    pub(crate) policies: Vec<String>,
    /// Iterations of each job, in place of what the file says
    #[arg(long, value_name = "NUMBER")]
    pub(crate) iterations: Option<NonZeroU32>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page for people, with what each rank did when
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write what each rank did when as trace events, for ui.perfetto.dev and chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Write jobs, iterations, collectives and links into a new folder, as CSV and Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade train info`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade train info gpt13b.txt --ranks 128")]
pub(crate) struct TrainInfo {
    /// Workload: text of AICB or SimAI, JSON of torch.profiler, or a folder with a file of each
    /// rank; may be compressed
    pub(crate) workload: PathBuf,
    /// Number of ranks, where the file does not say
    #[arg(long, value_name = "NUMBER")]
    pub(crate) ranks: Option<u32>,
    /// Size of tensor groups, where the file does not say
    #[arg(long, value_name = "NUMBER")]
    pub(crate) tensor: Option<u32>,
    /// Number of stages of the pipeline, where the file does not say
    #[arg(long, value_name = "NUMBER")]
    pub(crate) pipeline: Option<u32>,
    /// Size of expert groups, where the file does not say
    #[arg(long, value_name = "NUMBER")]
    pub(crate) expert: Option<u32>,
    /// How the group of a collective is told: by its phase, as SimAI does, or also by the name of
    /// its layer
    #[arg(long, value_name = "HOW", default_value = "phase", value_parser = words::<Groups>())]
    pub(crate) groups: Groups,
    /// Let gradients go while the pass backwards goes on
    #[arg(long)]
    pub(crate) overlap: bool,
    /// Let the recording of one rank stand for all
    #[arg(long)]
    pub(crate) one_for_all: bool,
    /// What becomes of time in which a recorded GPU waited for its host: it counts as computation,
    /// or is left out
    #[arg(long, value_name = "WHAT", default_value = "kept", value_parser = words::<Host>())]
    pub(crate) host: Host,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// Reads one of a few words.
fn words<T: Choice + Copy + Send + Sync + 'static>() -> impl TypedValueParser<Value = T> {
    let words = || T::WORDS.iter();
    PossibleValuesParser::new(words().map(|(word, _)| *word)).map(move |given| {
        let found = words().find(|(word, _)| *word == given);
        found.expect("only these words are parsed").1
    })
}

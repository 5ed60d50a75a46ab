//! Options of `cavalcade experiment`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `cavalcade experiment`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExperimentCommand {
    /// List experiments, and how many of their runs are done
    #[command(after_help = "Example:\n  cavalcade experiment list --json")]
    List {
        /// The folder of experiments.
        #[command(flatten)]
        folder: ExperimentFolder,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Run experiments on all cores, skipping runs that have results
    Run(ExperimentRun),
    /// Write pages and charts from existing results
    #[command(after_help = "Example:\n  cavalcade experiment report --check")]
    Report {
        /// The folder of experiments.
        #[command(flatten)]
        folder: ExperimentFolder,
        /// Write nothing; exit with code 4 unless all pages and charts are up to date
        #[arg(long)]
        check: bool,
    },
}

/// The folders of experiments and data.
#[derive(Debug, Args)]
pub(crate) struct ExperimentFolder {
    /// Folder of experiments
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub(crate) dir: PathBuf,
    /// Folder of public traces, usually ../shared/data; experiments whose traces are missing are
    /// skipped
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// `cavalcade experiment run`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade experiment run aalo-fig12")]
pub(crate) struct ExperimentRun {
    /// Experiments, by folder name; all if none is given
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) folder: ExperimentFolder,
    /// Run everything again, even where there are results
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write nothing; run one seed of each cheap experiment, or of those named, and check that
    /// results are bit-identical
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) smoke: bool,
    /// Where to run, in place of this machine's cores: a number of processes, dask://HOST:PORT or
    /// ray (needs the Python package, here and on the workers: pip install 'cavalcade[dask]')
    #[arg(long, value_name = "WORKERS", value_parser = workers, conflicts_with = "smoke")]
    pub(crate) on: Option<String>,
}

/// Reads where runs are made, as the Python package names it.
fn workers(text: &str) -> Result<String, String> {
    let schemes = ["dask://", "tcp://", "tls://"];
    let is_cluster = text == "ray" || schemes.iter().any(|scheme| text.starts_with(scheme));
    match text.parse::<NonZeroU32>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) if is_cluster => Ok(text.to_owned()),
        Err(_) => Err("expected a number of processes, dask://HOST:PORT or ray".to_owned()),
    }
}

//! The command line of seeded fault injection.

use std::path::PathBuf;

use clap::Args;

/// `cavalcade fault`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade fault --seed 1 --seeds 100")]
pub(crate) struct Fault {
    /// Seed of the workload, the policy, and what breaks when; the first one if there are several
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds to run
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// Trace to run, with a port of 1Gbps per host [default: a few coflows drawn from the seed]
    #[arg(long, value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,
    /// Plant a bug, which the run must find: eternal-lease, double-count, two-leaders, silent-loss,
    /// lifted-switch, forged-standing, phantom-flow, unconfirmed-bytes, eternal-connection,
    /// lease-lost-for-good, clock-set-back, boundless-user or rate-of-each
    #[arg(long, value_name = "BUG")]
    pub(crate) plant: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

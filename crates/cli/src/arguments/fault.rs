//! The command line of seeded fault injection.

use std::path::PathBuf;

use clap::Args;

/// `cavalcade fault`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade fault --seed 1 --seeds 100")]
pub(crate) struct Fault {
    /// The seed, or the first of several: it decides the workload, the policy, and what breaks when
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of seeds to try, one after the other
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seeds: u64,
    /// The trace that is run, on a port of 1Gbps for each host [default: a few coflows that the seed draws]
    #[arg(long, value_name = "TRACE")]
    pub(crate) trace: Option<PathBuf>,
    /// Plant a bug, which has to be found: eternal-lease, double-count, two-leaders, silent-loss,
    /// lifted-switch, forged-standing, phantom-flow, unconfirmed-bytes, eternal-connection,
    /// lease-lost-for-good or clock-set-back
    #[arg(long, value_name = "BUG")]
    pub(crate) plant: Option<String>,
    /// Print JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

//! Options of benchmarks.

#[cfg(feature = "live")]
use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::Room;

/// `cavalcade bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Time the packet engine on the workloads that other simulators were measured on
    Packet(PacketBench),
    /// Time the fluid engine on fixed workloads
    Fluid(FluidBench),
    /// Time full rounds of a coordinator with many agents over real sockets
    ///
    /// All agents report and ask for their whole schedules at once; a second process plays the
    /// agents.
    #[cfg(feature = "live")]
    Coordinator(CoordinatorBench),
    /// Measure the kernel path's cost and its accuracy in rates and gates (needs root)
    #[cfg(feature = "live")]
    Enforce(EnforceBench),
    /// Time the operations of an agent and its coordinator at large numbers of coflows and flows
    #[cfg(feature = "live")]
    Agent(AgentBench),
    /// Measure the cost of SPC in a software switch against plain forwarding (needs root on Linux)
    #[cfg(feature = "live")]
    Switch(super::SwitchBench),
    /// Play agents for the coordinator
    #[command(hide = true)]
    #[cfg(feature = "live")]
    Agents(AgentsBench),
}

/// `cavalcade bench coordinator`.
#[cfg(feature = "live")]
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench coordinator --agents 1000 --rounds 20")]
pub(crate) struct CoordinatorBench {
    /// Number of agents, each at a port of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub(crate) agents: u32,
    /// Number of active coflows
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) coflows: u32,
    /// Number of flows of each agent, of different coflows if there are enough
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) flows: u32,
    /// Number of connections that agents share [default: one per hundred agents]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) connections: Option<u32>,
    /// Number of full rounds to time
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Policy, with parameters
    #[arg(long, value_name = "POLICY", default_value = "dclas:sync=0ms,weighted=false")]
    pub(crate) policy: String,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade bench agent`.
#[cfg(feature = "live")]
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench agent --coflows 1000000 --flows 1000000")]
pub(crate) struct AgentBench {
    /// Number of coflows
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub(crate) coflows: u32,
    /// Number of flows, spread over the coflows
    #[arg(long, value_name = "NUMBER", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    pub(crate) flows: u32,
    /// The policy, with parameters
    #[arg(long, value_name = "POLICY", default_value = "fifo")]
    pub(crate) policy: String,
    /// Print a line of JSON per operation instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade bench enforce`.
#[cfg(feature = "live")]
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench enforce")]
pub(crate) struct EnforceBench {
    /// Measure for 1/N of the time, which says less
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) part: u32,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade bench agents`.
#[cfg(feature = "live")]
#[derive(Debug, Args)]
pub(crate) struct AgentsBench {
    /// Address of the coordinator
    #[arg(long)]
    pub(crate) connect: SocketAddr,
    /// Number of agents
    #[arg(long)]
    pub(crate) agents: u32,
    /// Number of coflows
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) coflows: u32,
    /// Number of flows at each agent
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) flows: u32,
    /// Number of connections
    #[arg(long)]
    pub(crate) connections: u32,
    /// Number of rounds
    #[arg(long)]
    pub(crate) rounds: u32,
}

/// `cavalcade bench packet`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench packet --part 10")]
pub(crate) struct PacketBench {
    /// Do only 1/N of the work
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) part: u64,
    /// Print a line of JSON per workload instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade bench fluid`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench fluid --workloads pois-100,tree-900 --policy sebf")]
pub(crate) struct FluidBench {
    /// Workloads, such as pois-100,tree-36000 [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) workloads: Vec<String>,
    /// The policy, with parameters
    #[arg(long, value_name = "POLICY", default_value = "fair")]
    pub(crate) policy: String,
    /// Print a JSON object on a line for each workload, in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

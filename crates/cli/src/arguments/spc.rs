//! SPC's part of the command line: the software switch and the proxy.

use std::net::SocketAddr;
use std::path::PathBuf;

use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use clap::{Args, ValueEnum};

use super::{period, rate};

/// Reads the round trip of a fabric.
///
/// # Errors
/// If it is no time, or none that a fabric has.
pub(super) fn round_trip(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if (Nanos(1_000)..=Nanos(1_000_000_000)).contains(&time) => Ok(time),
        Ok(_) => Err("expected 1us to 1s".to_owned()),
        Err(error) => Err(format!("{error}, as in 1ms")),
    }
}

/// `cavalcade switch`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade switch --port eth1 --port eth2 --port eth3=100Mbps --rate 1Gbps"
)]
pub(crate) struct SwitchOptions {
    /// An interface that is a port, as eth1, or with the rate of its link, as eth1=100Mbps; once for each port
    #[arg(long = "port", value_name = "IF", required = true)]
    pub(crate) ports: Vec<String>,
    /// The rate of links for which --port says none
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1Gbps")]
    pub(crate) rate: BitsPerSec,
    /// An address that is behind a port for good, as 02:00:00:00:00:07=eth1; all others are learned
    #[arg(long = "route", value_name = "MAC=IF")]
    pub(crate) routes: Vec<String>,
    /// The round trip of the idle fabric across its longest path, the same at all switches and hosts
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "1ms")]
    pub(crate) round_trip: Nanos,
    /// Bytes reserved at a port from which a task is heavy there and shares its class with the next; 0B for never
    #[arg(long, value_name = "BYTES", default_value = "0B")]
    pub(crate) heavy: Bytes,
    /// The switch's number, different from all others' of the fabric; by default one at random
    #[arg(long, value_name = "NUMBER")]
    pub(crate) id: Option<u64>,
    /// The most tasks of which a port keeps anything
    #[arg(long, value_name = "NUMBER", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) tasks: u32,
    /// Print its state as a line of JSON this often
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) report: Option<Nanos>,
    /// Socket on this host for 'cavalcade ps' and 'cavalcade top' [default: cavalcade-switch-ID.sock where sockets are]
    #[arg(long, value_name = "FILE")]
    pub(crate) administration: Option<PathBuf>,
    /// Address at which a monitoring system of this host reads /metrics
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Let other hosts read the figures, in clear text
    #[arg(long, requires = "metrics")]
    pub(crate) insecure: bool,
}

/// `cavalcade spc-proxy`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade spc-proxy --from-spc 10.0.0.7:4211 --to 127.0.0.1:11211  # beside memcached\n  cavalcade spc-proxy --from-tcp 127.0.0.1:11211 --to 10.0.0.7:4211 --first-task 1 --task-step 4"
)]
pub(crate) struct SpcProxyOptions {
    /// Accept TCP here and carry each connection as an SPC stream, under a task-id of its own
    #[arg(long, value_name = "ADDRESS", required_unless_present = "from_spc", conflicts_with = "from_spc")]
    pub(crate) from_tcp: Option<SocketAddr>,
    /// Accept SPC here and hand each stream over as a TCP connection
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from_spc: Option<SocketAddr>,
    /// The other side: the address of another proxy's --from-spc, or of the TCP server
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: SocketAddr,
    /// The first task-id that this proxy gives
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) first_task: u32,
    /// By how much each next task-id is larger: the number of proxies that give ids
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) task_step: u32,
    /// Give ids of background tasks, which go behind all others
    #[arg(long)]
    pub(crate) background: bool,
    /// Take ids from this counter of the host's agent
    #[arg(long, value_name = "NAME", conflicts_with_all = ["first_task", "task_step", "background"])]
    pub(crate) counter: Option<String>,
    /// Socket of the agent; else cavalcade.sock in $XDG_RUNTIME_DIR or /run
    #[arg(long, value_name = "FILE", requires = "counter")]
    pub(crate) socket: Option<PathBuf>,
    /// Rule by which traffic is cut into tasks
    #[arg(long, value_name = "RULE", default_value = "connection", conflicts_with = "from_spc")]
    pub(crate) task_of: TaskOf,
    /// The rate of this host's link
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1Gbps")]
    pub(crate) rate: BitsPerSec,
    /// The round trip of the idle fabric across its longest path, the same at all switches and hosts
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "1ms")]
    pub(crate) round_trip: Nanos,
}

/// A rule by which a proxy cuts traffic into tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskOf {
    /// Each TCP connection
    #[default]
    Connection,
    /// One task for all that comes by this proxy's port
    Port,
    /// Each burst of requests: what a client says before it hears an answer
    Burst,
    /// Requests of memcached's meta commands with one opaque, which is the task-id
    Opaque,
}

/// `cavalcade bench switch`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench switch --offered 50Mbps,100Mbps,200Mbps")]
pub(crate) struct SwitchBench {
    /// The size of packets, IP header included
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(128..=9_000))]
    pub(crate) packet: u16,
    /// Ports, each of which sends to the next one
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) ports: u8,
    /// Rates offered at each port, lowest first
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rate, default_value = "50Mbps,100Mbps,200Mbps,400Mbps,600Mbps,800Mbps,1Gbps,1200Mbps")]
    pub(crate) offered: Vec<BitsPerSec>,
    /// The time for which each rate is offered
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "1s")]
    pub(crate) time: Nanos,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure in this namespace, which the command has built
    #[arg(long, hide = true)]
    pub(crate) inside: bool,
}

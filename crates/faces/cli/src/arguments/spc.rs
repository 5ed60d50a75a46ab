//! SPC's part of the command line: the software switch and the proxy.

use std::net::SocketAddr;
use std::path::PathBuf;

use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_switch::Carrier;
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
    /// Interface that is a port, such as eth1, or with its link's rate, eth1=100Mbps; repeat for
    /// each port
    #[arg(long = "port", value_name = "IF", required = true)]
    pub(crate) ports: Vec<String>,
    /// Rate of links whose --port has none
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1Gbps")]
    pub(crate) rate: BitsPerSec,
    /// Static address of a port, such as 02:00:00:00:00:07=eth1; others are learned
    #[arg(long = "route", value_name = "MAC=IF")]
    pub(crate) routes: Vec<String>,
    /// Round-trip time of the idle fabric's longest path, the same at all switches and hosts
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "1ms")]
    pub(crate) round_trip: Nanos,
    /// Bytes a task reserves at a port before it is heavy there and shares its class with the next;
    /// 0B for never
    #[arg(long, value_name = "BYTES", default_value = "0B")]
    pub(crate) heavy: Bytes,
    /// Number of the switch, unique in the fabric [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) id: Option<u64>,
    /// What carries frames
    #[arg(long, value_name = "CARRIER", default_value = "process")]
    pub(crate) carrier: SwitchCarrier,
    /// Maximum number of tasks a port keeps state of
    #[arg(long, value_name = "NUMBER", default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) tasks: u32,
    /// Print the switch's state as a line of JSON at this interval
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) report: Option<Nanos>,
    /// Socket for 'cavalcade ps' and 'cavalcade top' [default: cavalcade-switch-ID.sock in
    /// $XDG_RUNTIME_DIR or /run]
    #[arg(long, value_name = "FILE")]
    pub(crate) administration: Option<PathBuf>,
    /// Address to serve /metrics at
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Allow a /metrics address that other hosts can reach, in clear text
    #[arg(long, requires = "metrics")]
    pub(crate) insecure: bool,
}

/// A carrier of a switch's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchCarrier {
    /// The process, through packet sockets, on any interface
    #[default]
    Process,
    /// XDP programs in the kernel (Linux 5.18 or newer), on drivers with XDP; they drop packets
    /// instead of queueing them
    Xdp,
}

/// `cavalcade spc-proxy`.
#[derive(Debug, Args)]
#[command(
    after_help = "A connection that cannot be carried is reset: at once if nothing listens at the other end, and within ten seconds if \
                  the other proxy stops answering.\n\nExample:\n  cavalcade spc-proxy --from-spc 10.0.0.7:4211 --to 127.0.0.1:11211  # beside memcached\n  cavalcade spc-proxy --from-tcp 127.0.0.1:11211 --to 10.0.0.7:4211 --first-task 1 --task-step 4"
)]
pub(crate) struct SpcProxyOptions {
    /// Address to accept TCP at; connections are carried as SPC streams
    #[arg(long, value_name = "ADDRESS", required_unless_present = "from_spc", conflicts_with = "from_spc")]
    pub(crate) from_tcp: Option<SocketAddr>,
    /// Address to accept SPC streams at; each is handed on as a TCP connection
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) from_spc: Option<SocketAddr>,
    /// Address of the other side: another proxy's --from-spc, or the TCP server
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: SocketAddr,
    /// First task-id
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) first_task: u32,
    /// Step from one task-id to the next: the number of proxies that give out ids
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) task_step: u32,
    /// Give out ids of background tasks, which go behind all others
    #[arg(long)]
    pub(crate) background: bool,
    /// Take ids from this counter of the host's agent
    #[arg(long, value_name = "NAME", conflicts_with_all = ["first_task", "task_step", "background"])]
    pub(crate) counter: Option<String>,
    /// Socket of the agent; else $CAVALCADE_SOCKET, else cavalcade.sock in $XDG_RUNTIME_DIR or /run
    #[arg(long, value_name = "FILE", requires = "counter")]
    pub(crate) socket: Option<PathBuf>,
    /// Rule that divides traffic into tasks
    #[arg(long, value_name = "RULE", default_value = "connection", conflicts_with = "from_spc")]
    pub(crate) task_of: TaskOf,
    /// Rate of this host's link
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "1Gbps")]
    pub(crate) rate: BitsPerSec,
    /// The round trip of the idle fabric across its longest path, the same at all switches and
    /// hosts
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "1ms")]
    pub(crate) round_trip: Nanos,
}

/// A rule by which a proxy cuts traffic into tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskOf {
    /// Each TCP connection
    #[default]
    Connection,
    /// One task for all connections
    Port,
    /// Each burst of requests: what a client sends before it receives an answer
    Burst,
    /// Requests of memcached's meta commands with the same opaque, which is the task-id
    Opaque,
}

/// What `cavalcade bench switch` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchForwarder {
    /// The kernel's bridge, without SPC
    Bridge,
    /// The switch, with --carrier process
    Process,
    /// The switch, with --carrier xdp
    Xdp,
}

impl From<SwitchCarrier> for Carrier {
    fn from(carrier: SwitchCarrier) -> Self {
        match carrier {
            SwitchCarrier::Process => Self::Process,
            SwitchCarrier::Xdp => Self::Kernel,
        }
    }
}

/// What the packets are that a forwarder is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SwitchContent {
    /// UDP that no switch knows
    Plain,
    /// SPC, a task of each host
    Spc,
    /// An attack: every packet asks, under a task-id that no other had
    Flood,
}

/// `cavalcade bench switch`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bench switch --offered 50Mbps,100Mbps,200Mbps")]
pub(crate) struct SwitchBench {
    /// Packet size, IP header included
    #[arg(long, value_name = "BYTES", default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(128..=9_000))]
    pub(crate) packet: u16,
    /// Number of ports, each sending to the next
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub(crate) ports: u8,
    /// Rates offered at each port, lowest first
    #[arg(long, value_name = "RATES", value_delimiter = ',', value_parser = rate, default_value = "50Mbps,100Mbps,200Mbps,400Mbps,600Mbps,800Mbps,1Gbps,1200Mbps")]
    pub(crate) offered: Vec<BitsPerSec>,
    /// Forwarders to measure
    #[arg(long, value_name = "FORWARDERS", value_delimiter = ',', default_value = "bridge,process,xdp")]
    pub(crate) forwarders: Vec<SwitchForwarder>,
    /// Packets to measure with; the bridge is measured with plain ones alone
    #[arg(long, value_name = "CONTENTS", value_delimiter = ',', default_value = "plain,spc")]
    pub(crate) content: Vec<SwitchContent>,
    /// Duration of each rate
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "1s")]
    pub(crate) time: Nanos,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure in this namespace, which the command has built
    #[arg(long, hide = true)]
    pub(crate) inside: bool,
}

//! The lab's part of the command line.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use cavalcade_lab::SwitchedBy;
use cavalcade_model::{BitsPerSec, Nanos};
use clap::{Args, ValueEnum};

use super::spc::round_trip;
use super::{Input, Room, factor, period, rate};
use crate::fabric::argument::FabricArgument;

/// `cavalcade lab`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade lab trace.txt --transport loopback --policies tcp,sebf")]
pub(crate) struct Lab {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Contenders, such as tcp,dclas,sebf,dcas: plain TCP and policies
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) policies: Vec<String>,
    /// A policy with parameters, such as dclas:first_threshold=1MB,weighted=false; may be repeated
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Vec<String>,
    /// Number of hosts [default: the trace's ports]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) hosts: Option<u32>,
    /// Payload rate of each port in each direction
    #[arg(long, value_name = "RATE", default_value = "200Mbps", value_parser = rate)]
    pub(crate) rate: BitsPerSec,
    /// Multiply all sizes and times by this factor; the load stays the same
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    pub(crate) scale: f64,
    /// Kind of hosts
    #[arg(long, value_name = "TRANSPORT", default_value = "netns")]
    pub(crate) transport: LabTransport,
    /// Enforcement at hosts: the client library in the sending application, the kernel path under
    /// an unmodified one, the kernel path to which the library hands its connections over, or
    /// several in turn as library,handed
    #[arg(long, value_name = "PARTS", default_value = "library", value_delimiter = ',')]
    pub(crate) enforce: Vec<LabEnforcement>,
    /// With --enforce kernel or handed: TCP congestion control for connections of coflows, dctcp,
    /// d2tcp, tafe or mcp with settings as of the packet engine's transport (dctcp:marking=30KB),
    /// or none for Reno. Ports then mark from its threshold on [default: what each policy's paper
    /// proposes, where that is one of these]
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Time between agents' reports, and between the coordinator's orders
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = period)]
    pub(crate) period: Nanos,
    /// Runs of each policy; the table shows median, minimum and maximum [default: 5; 1 with --fault
    /// or --fabric]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// Break something in every run: kill:coordinator@1s, kill:agent3@1s, kill:host3@1s or
    /// hang:host3@1s+500ms; may be repeated
    #[arg(long, value_name = "FAULT", value_parser = crate::lab::parse_fault)]
    pub(crate) fault: Vec<cavalcade_lab::Fault>,
    /// Time after which a run counts as failed [default: a minute plus twenty times the prediction]
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Nanos>,
    /// Racks of hosts under one root, such as tree:pods=1,racks=5,hosts=4, joined by software
    /// switches that speak SPC; --policies are then tcp, rcp and spc, each shown beside the
    /// predictions of the fluid and the packet engine, and with --enforce kernel any policy,
    /// carried out over TCP by the kernel path: pias, karuna and tafe with --carrier bridge
    #[arg(long, value_name = "FABRIC", conflicts_with_all = ["fault", "hosts", "transport", "congestion"])]
    pub(crate) fabric: Option<FabricArgument>,
    /// With --fabric: round-trip time across the root that hosts and switches assume
    #[arg(long, value_name = "TIME", value_parser = round_trip, default_value = "4ms")]
    pub(crate) round_trip: Nanos,
    /// With --fabric: number of independent counters that clients take task-ids from
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) counters: NonZeroU32,
    /// With --fabric: kind of switch between racks; several are run in turn, as process,xdp
    #[arg(long, value_name = "CARRIERS", default_value = "process", value_delimiter = ',')]
    pub(crate) carrier: Vec<LabCarrier>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// The kind of a lab's hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabTransport {
    /// Network namespaces on a bridge
    #[default]
    Netns,
    /// Addresses of this machine
    Loopback,
}

/// The kind of switch between racks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabCarrier {
    /// 'cavalcade switch' that forwards in its own process
    Process,
    /// 'cavalcade switch' that forwards in the kernel (XDP)
    Xdp,
    /// A Linux bridge without SPC; with --enforce kernel its ports have eight priority queues, and
    /// mark packets where a policy's congestion control needs that
    Bridge,
}

impl From<LabCarrier> for SwitchedBy {
    fn from(carrier: LabCarrier) -> Self {
        match carrier {
            LabCarrier::Process => Self::Process,
            LabCarrier::Xdp => Self::Xdp,
            LabCarrier::Bridge => Self::Bridge,
        }
    }
}

/// The part that carries out orders at a lab's hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabEnforcement {
    /// The client library
    Library,
    /// The kernel path, with ports like those of a switch with eight priority queues
    Kernel,
    /// The same, to which the client library hands its connections over
    Handed,
}

/// `cavalcade lab-host`.
#[derive(Clone, Debug, Args)]
pub(crate) struct LabHost {
    /// Its address
    #[arg(long)]
    pub(crate) address: IpAddr,
    /// Socket of its agent; plain TCP without
    #[arg(long)]
    pub(crate) agent: Option<PathBuf>,
    /// Socket of its enforcer; what it sends then leaves processes of their own
    #[arg(long, conflicts_with = "agent", requires = "group")]
    pub(crate) door: Option<PathBuf>,
    /// Its control group, below which an enforcer tags
    #[arg(long)]
    pub(crate) group: Option<PathBuf>,
    /// The number of coflows for which there are to be such processes
    #[arg(long, default_value = "1")]
    pub(crate) coflows: usize,
    /// Be such a process
    #[arg(long, requires = "door")]
    pub(crate) sender: bool,
    /// The rate that it holds itself to
    #[arg(long, value_parser = rate)]
    pub(crate) rate: Option<BitsPerSec>,
    /// The rate of its link, where flows are SPC streams
    #[arg(long, value_parser = rate, requires = "round_trip")]
    pub(crate) stream_rate: Option<BitsPerSec>,
    /// Streams ask for fair shares
    #[arg(long)]
    pub(crate) fair: bool,
    /// The fabric's round trip, for SPC
    #[arg(long, value_parser = round_trip)]
    pub(crate) round_trip: Option<Nanos>,
}

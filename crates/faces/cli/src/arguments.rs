//! The command line, once: help, completions and man pages all come from here.

use std::path::PathBuf;

use cavalcade::{Budget, Error, Source};
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_trace::Format;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::fabric::argument::FabricArgument;
use crate::report::ReportCommand;
#[cfg(feature = "live")]
pub(crate) use bench::{AgentBench, AgentsBench, CoordinatorBench, EnforceBench};
pub(crate) use bench::{Bench, FluidBench, PacketBench};
pub(crate) use conditions::{Conditions, EngineName, EngineOptions, PolicyWords, Selection};
#[cfg(feature = "live")]
pub(crate) use enforce::{Class, EnforceCommand, EnforceOptions, RunCommand, What, rule};
pub(crate) use experiment::{ExperimentCommand, ExperimentFolder, ExperimentRun};
pub(crate) use fault::Fault;
#[cfg(feature = "live")]
pub(crate) use lab::{Lab, LabCarrier, LabEnforcement, LabHost, LabTransport};
#[cfg(feature = "live")]
pub(crate) use live::{
    Access, AgentOptions, At, Certificates, Component, CoordinatorOptions, Deciding, Describe, Doctor, Drain,
    ForClients, LogFormat, LogLevel, Logging, Ps, Reload, Renew, Revoke, SiteOptions, Top, UpFlags,
};
#[cfg(feature = "live")]
pub(crate) use options::Options;
pub(crate) use runs::{RunFolder, Validate};
#[cfg(feature = "live")]
pub(crate) use spc::{SpcProxyOptions, SwitchBench, SwitchContent, SwitchForwarder, SwitchOptions, TaskOf};
pub(crate) use train::{Train, TrainCompare, TrainInfo};

mod bench;
mod conditions;
#[cfg(feature = "live")]
mod enforce;
mod experiment;
mod fault;
pub(crate) mod groups;
#[cfg(feature = "live")]
mod lab;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
pub(crate) mod options;
mod runs;
#[cfg(feature = "live")]
mod spc;
mod train;

const EXIT_CODES: &str = "\
Data goes to standard output, messages to standard error. Exit codes:
  0    done
  1    something went wrong while running
  2    invalid command-line usage
  3    a trace, a run's folder or a certificate is not valid
  4    an --assert does not hold, or validate or replay found a difference
  5    this machine or build lacks something needed
  130  interrupted

'-' as a FILE means standard input.

Example:
  cavalcade demo
  cavalcade compare trace.txt --policies fair,aalo,varys --report report.html
  cavalcade man man1";

/// Compare policies that decide which network transfers go first
///
/// Cavalcade runs published schedulers over a trace of coflows in an exact fluid simulation, and
/// shows which of them finish tasks sooner and by how much.
#[derive(Debug, Parser)]
#[command(name = "cavalcade", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(infer_subcommands = false, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Arguments {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run policies over a trace and show which finishes coflows sooner
    Compare(Compare),
    /// Compute a lower bound on completion times that no schedule can beat
    ///
    /// The gap between a policy and the bound is the most that any better policy could gain. The
    /// search stops when its budget is used up, or on Ctrl-C, and reports the best bound found so
    /// far.
    Bound(Bound),
    /// Run one policy and keep the results of every coflow
    Simulate(Simulate),
    /// Check the dumped schedule of a run, a schedule that was made elsewhere, or the certificate
    /// of a bound
    ///
    /// A schedule is checked for link capacities, bytes, order and times; that of a run is there
    /// with --dump-schedule. A bound is recomputed from the trace and the certificate. The checkers
    /// share no code with what they check.
    Validate(Validate),
    /// Repeat a simulation from its manifest and check that the results are identical
    Replay(RunFolder),
    /// List policies with their papers, whether they are told sizes, and their parameters
    Policies(Policies),
    /// Inspect, convert and generate traces
    #[command(subcommand, after_help = "Example:\n  cavalcade trace info trace.txt")]
    Trace(Trace),
    /// The live system.
    #[cfg(feature = "live")]
    #[command(flatten)]
    Live(LiveCommand),
    /// Run seeded fault injection against the control plane and check its invariants
    Fault(Fault),
    /// Compare published schedulers on a generated workload, write a report, and run some of them
    /// live on loopback
    Demo(Demo),
    /// Inspect fabrics
    #[command(subcommand, after_help = "Example:\n  cavalcade fabric info tree:pods=2,racks=4,hosts=8")]
    Fabric(Fabric),
    /// Compare policies for training jobs that share a cluster of GPUs
    #[command(
        subcommand,
        after_help = "Example:\n  cavalcade train compare jobs.toml --policies fair,sebf,crux"
    )]
    Train(Train),
    /// Compute parameters for a workload
    #[command(subcommand, after_help = "Example:\n  cavalcade tune thresholds --cdf sizes.csv")]
    Tune(Tune),
    /// Measure the speed of this program
    #[command(subcommand, after_help = "Example:\n  cavalcade bench fluid --workloads pois-100")]
    Bench(Bench),
    /// Draw figures of comparisons, and write schedules as trace events
    #[command(subcommand, after_help = "Example:\n  cavalcade report figure gain trace.txt -o gain.svg")]
    Report(ReportCommand),
    /// Reproduce the experiments of papers
    #[command(subcommand, after_help = "Example:\n  cavalcade experiment list")]
    Experiment(ExperimentCommand),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write man pages into a folder
    Man(Man),
}

/// The commands of the live system.
#[cfg(feature = "live")]
#[derive(Debug, Subcommand)]
pub(crate) enum LiveCommand {
    /// Run a coordinator, which orders the coflows that agents report
    #[command(
        after_help = "Example:\n  cavalcade coordinator --hosts 10.0.0.1,10.0.0.2 --certificates site/coordinator"
    )]
    Coordinator(Component<CoordinatorOptions>),
    /// Run the agent of this host, which applications report their transfers to
    #[command(
        after_help = "Example:\n  cavalcade agent --hosts 10.0.0.1,10.0.0.2 --coordinator 10.0.0.1:7336 --certificates site/agent-0"
    )]
    Agent(Component<AgentOptions>),
    /// Run a coordinator and this host's agent in one process
    #[command(after_help = "Example:\n  cavalcade up --rate 10Gbps --metrics 127.0.0.1:9337")]
    Up(Component<UpFlags>),
    /// Schedule unmodified programs through the kernel with eBPF (needs root or capabilities on
    /// Linux)
    ///
    /// Connections of commands started with 'cavalcade run' are counted, held back, paced and
    /// marked by programs in the kernel, as the agent orders. When this process ends, for whatever
    /// reason, all limits are lifted. In place of root it takes the capabilities that
    /// docs/kernel-path.md lists.
    Enforce(EnforceCommand),
    /// Replay a trace over real sockets on this machine and compare with the simulation
    ///
    /// A real coordinator and agents schedule the transfers. Each host is a network namespace
    /// behind a link of the given rate (needs root on Linux) or, with --transport loopback, a
    /// loopback address. Every byte received is checked, and nothing is left behind.
    Lab(Lab),
    /// Serve one host of a lab
    #[command(hide = true)]
    LabHost(LabHost),
    /// Make certificates for a site, one folder per component
    Certificates(Certificates),
    /// Renew certificates, add hosts, or replace the authority
    ///
    /// Replaces files in the site's folder. Once copied to their hosts they take effect within two
    /// seconds, without a restart. Every agent's folder has the certificates of all agents
    /// (agents.pem), so copy that to all of them: it is how they know each other's datagrams.
    Renew(Renew),
    /// Revoke certificates
    ///
    /// Adds them to revoked.pem in the authority's folder. Copy that file beside each component's
    /// certificate: within two seconds the listed peers are disconnected, and refused from then on.
    /// Entries are never removed.
    Revoke(Revoke),
    /// List the coflows of a running coordinator or agent, in order of priority
    Ps(Ps),
    /// Show coflow status, refreshed continuously
    #[cfg(feature = "tui")]
    Top(Top),
    /// Show all details of a coflow
    Describe(Describe),
    /// Explain which coflows at which links hold up a coflow, and for how long
    Why(Describe),
    /// Return flows to plain TCP: all of them, or those of a host, user or coflow
    Drain(Drain),
    /// Make a running coordinator or agent reread its configuration file, as SIGHUP does, or change
    /// its log level
    ///
    /// Takes effect: log.level, and max_connections, max_buffers, shadow and user_budget in the
    /// component's own table. Other changes need a restart and are refused by name, as are settings
    /// that a flag overrides. Certificates are reread without being asked.
    Reload(Reload),
    /// Check what the live system needs on this host, and how to fix what is missing
    Doctor(Doctor),
    /// Run a command with all its transfers in one coflow
    ///
    /// If 'cavalcade enforce' is running, everything that the command sends and serves is
    /// scheduled. If it is not, a message says so, and the command runs anyway with the coflow in
    /// CAVALCADE_COFLOW.
    Run(RunCommand),
    /// Run a software switch that speaks SPC, Baraat's protocol
    ///
    /// Forwards frames between its ports and gives tasks rates in the order of their ids. Other
    /// traffic gets what SPC leaves over, at least one sixteenth. Needs root or CAP_NET_RAW, and
    /// changes no settings of the system.
    Switch(SwitchOptions),
    /// Carry the TCP connections of a program as SPC streams, each under a task-id
    SpcProxy(SpcProxyOptions),
}

/// A trace and the fabric that it crosses.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The trace: a file, '-' for standard input, or Spark event logs, several of them or a folder,
    /// which are read as one cluster; gzip, Zstandard, LZ4 and Snappy are decompressed
    #[arg(required = true)]
    pub(crate) trace: Vec<PathBuf>,
    /// Format of the trace, if detection fails
    #[arg(long, value_name = "FORMAT", value_parser = format(Format::ALL))]
    pub(crate) format: Option<Format>,
}

impl Input {
    /// The trace at these paths.
    ///
    /// # Errors
    /// As [`Source::open_all`].
    pub(crate) fn open(&self) -> Result<Source, Error> {
        Source::open_all(&self.trace)
    }
}

/// The room for a table.
#[derive(Debug, Default, Args)]
pub(crate) struct Room {
    /// Show all columns, however narrow the terminal; a pipe always gets all
    #[arg(long)]
    pub(crate) wide: bool,
}

/// `cavalcade compare`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade compare trace.txt --policies fair,sebf,dclas:queues=4 --report report.html\n  cavalcade compare trace.txt --policies 'pias over dctcp,fair over reno' --fabric leafspine:leaves=4,spines=4,hosts=16"
)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Read the trace as it goes, and hold only the flows that are under way
    ///
    /// For traces that do not fit into memory. The figures are the same. The file is read once to
    /// check it, and once for each policy; its coflows have to be in order of arrival, in the
    /// format coflow-benchmark or sincronia. --out writes the tables of runs, coflows and tasks
    /// at the end: an interrupt leaves none.
    #[arg(long, conflicts_with_all = ["bound", "report", "dump_schedule", "schedule", "offline"])]
    pub(crate) stream: bool,
    /// Also show speedups by length × width bin
    #[arg(long)]
    pub(crate) by_bin: bool,
    /// Print JSON instead of the table
    #[arg(long, conflicts_with = "by_bin")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
    /// Budget for the lower bound: a time such as 5s, or a number of linear programs such as 2000,
    /// which gives the same figures on every machine
    ///
    /// Without it the search is short, and the same on every machine. With --json a bound is
    /// computed only if this is given; it adds the keys "bound" and "gap".
    #[arg(long, value_name = "BUDGET")]
    pub(crate) bound: Option<Budget>,
    /// Do not compute a bound
    #[arg(long, conflicts_with = "bound")]
    pub(crate) no_bound: bool,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Keep the comparison in this folder, which must be empty or not exist
    ///
    /// It has tables of all runs, coflows and tasks, as CSV and Parquet, and in 'runs' a folder for
    /// each run, which 'cavalcade replay' and 'validate' take. An interrupt keeps the runs that are
    /// done. docs/outputs.md has all columns.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also write every flow's rate over time, for each run
    #[arg(long, requires = "out")]
    pub(crate) dump_schedule: bool,
    /// Also compare a schedule that was made elsewhere; may be repeated
    ///
    /// A CSV with the rate of each flow over time, or the schedule.csv of a run: docs/formats.md
    /// describes it. It is checked first, for link capacities, bytes, order and arrivals. NAME is
    /// what the row is called.
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) schedule: Vec<String>,
    /// Exit with code 4 unless this holds, such as 'p99(cct) < 2s'; may be repeated
    ///
    /// FIGURE OP VALUE for every run, or POLICY: FIGURE OP VALUE for one. Figures: mean, min, max
    /// or a percentile such as p99 of (cct), (tct) or (slowdown); makespan; misses, the number of
    /// missed deadlines; factor(POLICY), the baseline's mean CCT over the policy's. OP is <, <=,
    /// >, >= or ==. Times have units.
    #[arg(long = "assert", value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
}

/// `cavalcade bound`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bound trace.txt --budget 10s --certificate proof.json.zst")]
pub(crate) struct Bound {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Objective to bound
    #[arg(long, value_name = "WHAT", default_value = "coflows")]
    pub(crate) objective: Objective,
    /// Weight each by its task's weight
    #[arg(long)]
    pub(crate) weighted: bool,
    /// Budget of the search: a time such as 20s, or a number of linear programs such as 2000, which
    /// gives the same bound on every machine
    #[arg(long, value_name = "BUDGET", default_value = "20s")]
    pub(crate) budget: Budget,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
    /// Write a proof of the bound that 'cavalcade validate' can check; compressed if the name ends
    /// in .gz or .zst
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// Capacity of every port in each direction [default: 1Gbps; inferred from recorded times for a
    /// Spark log]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Conditions")]
    pub(crate) rate: Option<BitsPerSec>,
    /// Submit all tasks at time zero
    #[arg(long, help_heading = "Conditions")]
    pub(crate) offline: bool,
}

/// An objective that a bound is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Objective {
    /// Mean completion time of coflows, from below
    Coflows,
    /// Mean completion time of tasks, from below
    Tasks,
    /// Number of tasks that can meet their deadlines, from above
    Deadlines,
}

/// `cavalcade simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade simulate trace.txt --policy sebf --out run --dump-schedule")]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Policy, with parameters, such as dclas:queues=10,weighted=false
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Write results and a manifest into this folder, which must be empty or not exist
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Packet engine: capture packets into this pcap file, for Wireshark and tcpdump; compressed if
    /// the name ends in .gz or .zst
    #[arg(long, value_name = "FILE", help_heading = "Engine")]
    pub(crate) pcap: Option<PathBuf>,
    /// Packet engine: capture only this link, such as 'egress of port 0'; may be repeated.
    /// 'cavalcade fabric info --links' lists names
    #[arg(long, value_name = "LINK", requires = "pcap", help_heading = "Engine")]
    pub(crate) pcap_link: Vec<String>,
    /// Also write every flow's rate over time into that folder
    #[arg(long, requires = "out")]
    pub(crate) dump_schedule: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade policies`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade policies aalo\n  cavalcade policies --json")]
pub(crate) struct Policies {
    /// Policy to show; all if none is named
    #[arg(value_parser = PolicyWords::NAMES, hide_possible_values = true)]
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show what a trace contains
    Info(Info),
    /// Convert a trace to another format
    Convert(Convert),
    /// Generate a trace from a seed
    Generate(Generate),
}

/// `cavalcade trace info`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade trace info trace.txt")]
pub(crate) struct Info {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade trace convert`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade trace convert trace.txt --to native --out trace.jsonl.zst")]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Share of flows that fail part-way and are sent again
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Failures")]
    pub(crate) restart: f64,
    /// Share of flows with a speculative copy from another port
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Failures")]
    pub(crate) speculate: f64,
    /// Time until the second attempt or copy starts
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Failures")]
    pub(crate) after: Nanos,
    /// Split each receiver's bytes over its flows by a log-normal distribution of this sigma; 0
    /// splits them evenly
    #[arg(long, value_name = "SIGMA", value_parser = sigma, help_heading = "Sizes")]
    pub(crate) spread: Option<f64>,
    /// Shuffle the sizes of each coflow's flows
    #[arg(long, help_heading = "Sizes")]
    pub(crate) permute_sizes: bool,
    /// Seed of random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) output: TraceOutput,
}

/// `cavalcade trace generate`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade trace generate facebook:coflows=200,ports=50 --seed 7 --out trace.txt"
)]
pub(crate) struct Generate {
    /// Generator, with parameters, such as facebook:coflows=200,ports=50; without one, lists the
    /// generators
    pub(crate) generator: Option<String>,
    /// JSON file of task shapes for the dag generator: TPC-DS exchanges or TPC-H stages
    #[arg(long, value_name = "FILE", requires = "generator")]
    pub(crate) shapes: Option<PathBuf>,
    /// Seed; the same seed gives the same trace on every machine
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the list of generators as JSON
    #[arg(long, conflicts_with = "generator")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) output: TraceOutput,
}

/// The place that a trace is written to.
#[derive(Debug, Args)]
pub(crate) struct TraceOutput {
    /// Format to write
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = format(Format::written()))]
    pub(crate) to: Format,
    /// File to write instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `cavalcade demo`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade demo --report demo.html")]
pub(crate) struct Demo {
    /// Seed of the workload
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Report to write
    #[arg(long, value_name = "FILE", default_value = "cavalcade-report.html")]
    pub(crate) report: PathBuf,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade fabric`.
#[derive(Debug, Subcommand)]
pub(crate) enum Fabric {
    /// Show a fabric's hosts, switches, links and capacities
    Info(FabricInfo),
    /// Draw a fabric as SVG, PDF or PNG, by the ending of the file's name
    Plot(FabricPlot),
}

/// `cavalcade fabric plot`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade fabric plot fattree:arity=4 --out fabric.svg")]
pub(crate) struct FabricPlot {
    /// Fabric, such as tree:pods=2,racks=4,hosts=8,rate=1Gbps,oversubscription=2, or a .toml file
    pub(crate) fabric: FabricArgument,
    /// File to write
    #[arg(long, short, value_name = "FILE", default_value = "fabric.svg")]
    pub(crate) out: PathBuf,
}

/// `cavalcade fabric info`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade fabric info tree:pods=2,racks=4,hosts=8,oversubscription=2 --links"
)]
pub(crate) struct FabricInfo {
    /// Fabric, such as tree:pods=30,racks=30,hosts=40,rate=1Gbps,oversubscription=2, or a .toml
    /// file
    pub(crate) fabric: FabricArgument,
    /// List every link with its name, capacity and delay
    #[arg(long)]
    pub(crate) links: bool,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade tune`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Compute the thresholds at which flows change priority queue that minimise mean flow
    /// completion time
    ///
    /// The model is one link with Poisson arrivals and strict priorities (M/G/1). The thresholds
    /// that PIAS' authors published for the nearest load are shown beside the optimum. To see their
    /// effect in a network, use 'cavalcade compare --engine packet'.
    Thresholds(TuneThresholds),
}

/// `cavalcade tune thresholds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade tune thresholds --cdf sizes.csv --queues 8 --load 0.8")]
pub(crate) struct TuneThresholds {
    /// Distribution of flow sizes: lines of size_bytes,cdf, ascending, ending with cdf 1;
    /// interpolated linearly
    #[arg(long, value_name = "FILE")]
    pub(crate) cdf: PathBuf,
    /// Number of priority queues
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) queues: u32,
    /// Load of the link, between 0 and 1
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = load)]
    pub(crate) load: f64,
    /// Print JSON instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade completions bash > ~/.local/share/bash-completion/completions/cavalcade"
)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `cavalcade man`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade man man1")]
pub(crate) struct Man {
    /// Folder to create
    pub(crate) dir: PathBuf,
}

/// Reads a rate.
pub(crate) fn rate(text: &str) -> Result<BitsPerSec, String> {
    text.parse::<BitsPerSec>().map_err(|error| format!("{error}, as in 1Gbps or 100Mbps"))
}

/// Reads the size of a packet, or of a part of one.
fn packet_size(text: &str) -> Result<u16, String> {
    let size = text.parse::<Bytes>().map_err(|error| format!("{error}, as in 1500B"))?;
    u16::try_from(size.get()).map_err(|_| "expected at most 65535B".to_owned())
}

/// Reads a period of coordination.
pub(crate) fn period(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(period) if (Nanos::from_millis(1)..=Nanos::from_secs(60)).contains(&period) => Ok(period),
        Ok(_) => Err("expected 1ms to 60s".to_owned()),
        Err(error) => Err(format!("{error}, as in 10ms")),
    }
}

/// Reads a factor above zero.
#[cfg(feature = "live")]
fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1e6 => Ok(factor),
        _ => Err("expected a number above 0, as 0.01".to_owned()),
    }
}

/// Reads a load that a link can bear.
fn load(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(load) if load > 0.0 && load < 1.0 => Ok(load),
        _ => Err("expected a number above 0 and below 1".to_owned()),
    }
}

/// Reads a number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}

fn sigma(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(sigma) if (0.0..=10.0).contains(&sigma) => Ok(sigma),
        _ => Err("expected a number from 0 to 10".to_owned()),
    }
}

/// Reads the name of one of `formats`, and offers all of them in help and completions.
fn format(formats: impl IntoIterator<Item = Format>) -> impl TypedValueParser<Value = Format> {
    let names: Vec<&str> = formats.into_iter().map(Format::name).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Format>())
}

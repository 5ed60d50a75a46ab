//! The command line, once: help, completions and man pages all come from here.

use std::path::PathBuf;

use cavalcade::Budget;
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_trace::Format;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::fabric::argument::FabricArgument;
use crate::report::ReportCommand;
#[cfg(feature = "live")]
pub(crate) use bench::{AgentBench, AgentsBench, CoordinatorBench, EnforceBench};
pub(crate) use bench::{Bench, FluidBench, PacketBench};
pub(crate) use conditions::{Conditions, EngineName, EngineOptions, Selection};
#[cfg(feature = "live")]
pub(crate) use enforce::{Class, DOOR, Enforce, RunCommand, What, rule};
pub(crate) use fault::Fault;
#[cfg(feature = "live")]
pub(crate) use lab::{Lab, LabEnforcement, LabHost, LabTransport};
#[cfg(feature = "live")]
pub(crate) use live::{
    Access, AgentOptions, At, Certificates, CoordinatorOptions, Deciding, Describe, Doctor, Drain, LogFormat,
    LogLevel, Logging, Ps, Reload, Renew, Revoke, SiteOptions, TaskCounters, Top, Up, user_budget,
};
#[cfg(feature = "live")]
pub(crate) use spc::{SpcProxyOptions, SwitchBench, SwitchOptions, TaskOf};

mod bench;
mod conditions;
#[cfg(feature = "live")]
mod enforce;
mod fault;
#[cfg(feature = "live")]
mod lab;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod spc;

const EXIT_CODES: &str = "\
Data goes to standard output, messages to standard error. Exit codes:
  0    done
  1    something went wrong while running
  2    invalid command-line usage
  3    a trace, a run's folder or a certificate is not valid
  4    a figure is not what --assert says, or a run not what validate or replay expects
  5    this machine or build lacks something that was asked for
  130  interrupted

A FILE that is '-' is standard input.

Example:
  cavalcade demo
  cavalcade compare trace.txt --policies fair,aalo,varys --report report.html
  cavalcade man man1";

/// Compares policies that decide which network transfers go first
///
/// Cavalcade runs the schedulers of the literature over a trace of coflows in an exact fluid simulation and shows which
/// of them finishes tasks sooner, and by how much.
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
    /// Prove how good any schedule could be at best
    ///
    /// No policy can have a lower mean completion time than a bound, whatever it knows; so the gap between the two is all
    /// that is left to gain. The search can be stopped at any time: by its budget, or by an interrupt (Ctrl-C).
    Bound(Bound),
    /// Run one policy and keep what came out, coflow by coflow
    Simulate(Simulate),
    /// Check the dumped schedule of a run, or the certificate of a bound
    ///
    /// A schedule is checked for capacity, bytes, order and times; it needs a run made with --dump-schedule. A bound is
    /// computed again from the trace and the certificate's hints. The checkers share no code with what they check.
    Validate(Validate),
    /// Run a simulation again from its manifest and check that every byte is the same
    Replay(RunFolder),
    /// List the policies: source, what they may know, parameters and defaults
    Policies(Policies),
    /// Look at traces, convert them, make them
    #[command(subcommand, after_help = "Example:\n  cavalcade trace info trace.txt")]
    Trace(Trace),
    /// The live system.
    #[cfg(feature = "live")]
    #[command(flatten)]
    Live(LiveCommand),
    /// Run seeded fault injection against the control plane and check its invariants
    Fault(Fault),
    /// Compare all policies on a workload that the program makes itself, write a report, and do it live on loopback
    Demo(Demo),
    /// Look at fabrics
    #[command(subcommand, after_help = "Example:\n  cavalcade fabric info tree:pods=2,racks=4,hosts=8")]
    Fabric(Fabric),
    /// Compute parameters for a workload
    #[command(subcommand, after_help = "Example:\n  cavalcade tune thresholds --cdf sizes.csv")]
    Tune(Tune),
    /// Measure what this program costs
    #[command(subcommand, after_help = "Example:\n  cavalcade bench fluid --workloads pois-100")]
    Bench(Bench),
    /// Draw single figures of a comparison, for papers
    #[command(subcommand, after_help = "Example:\n  cavalcade report figure gain trace.txt -o gain.svg")]
    Report(ReportCommand),
    /// Run what the papers measured again, and compare
    #[command(subcommand, after_help = "Example:\n  cavalcade experiment list")]
    Experiment(ExperimentCommand),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write the man pages into a folder
    Man(Man),
}

/// The commands of the live system.
#[cfg(feature = "live")]
#[derive(Debug, Subcommand)]
pub(crate) enum LiveCommand {
    /// Run a coordinator: agents report to it, and it tells them who goes first
    Coordinator(CoordinatorOptions),
    /// Run the agent of this host: applications tell it what they transfer, and it tells them how
    Agent(AgentOptions),
    /// Run a coordinator and this host's agent in one process
    Up(Up),
    /// Schedule programs that know nothing of coflows, through the kernel (needs root on Linux)
    ///
    /// Commands started with 'cavalcade run' are tagged: their connections are counted, gated, paced and marked by programs
    /// in the kernel, as the agent says. When this ends, however it ends, all limits end.
    Enforce(Enforce),
    /// Replay a trace over real sockets under a real coordinator and agents, and compare with the prediction
    ///
    /// Every host is a network namespace on a switch whose ports are held to the rate (needs root on Linux), or, with
    /// --transport loopback, an address of this machine. Every byte received is checked. Nothing is left behind.
    Lab(Lab),
    /// Serve one host of a lab
    #[command(hide = true)]
    LabHost(LabHost),
    /// Make certificates for a site, one folder for each of its components
    Certificates(Certificates),
    /// Renew certificates, add hosts, or replace the authority
    ///
    /// Files in the folder of the site are replaced; copied to their hosts they are used within two seconds, without a restart.
    Renew(Renew),
    /// Revoke certificates: write the list of those that are refused
    ///
    /// The list is revoked.pem in the authority's folder. Copied into the folder of each component's certificate it is read within
    /// two seconds: listed peers are disconnected and refused. Entries are never removed.
    Revoke(Revoke),
    /// List the coflows that a running coordinator or agent knows, in the order in which they go
    Ps(Ps),
    /// Show coflow status, refreshed continuously
    #[cfg(feature = "tui")]
    Top(Top),
    /// Show everything known of a coflow
    Describe(Describe),
    /// Explain what a coflow waits for: behind which others, at which links, and for how long
    Why(Describe),
    /// Put every flow of a host, or of the whole fabric, back to plain TCP
    Drain(Drain),
    /// Have a running coordinator or agent read its configuration file again, as SIGHUP does, or set how much it logs
    ///
    /// It obeys new values of log.level, and of max_connections, max_buffers, shadow and user_budget in its own table. All
    /// else needs a restart and is refused by name, as is what a flag sets. Certificates are looked at without being asked.
    Reload(Reload),
    /// Check what this host can do for the live system, and how to mend the rest
    Doctor(Doctor),
    /// Run a command whose transfers belong to a coflow
    ///
    /// Where 'cavalcade enforce' runs, all that the command sends and serves is scheduled. Elsewhere that is said, and the
    /// command runs all the same, with the coflow in CAVALCADE_COFLOW.
    Run(RunCommand),
    /// Run a software switch that speaks SPC, Baraat's protocol: tasks get rates in the order of their ids
    ///
    /// Frames go between the interfaces that are its ports; any other traffic has what SPC leaves, and a sixteenth at least. It
    /// needs root or CAP_NET_RAW, and changes nothing of the system.
    Switch(SwitchOptions),
    /// Carry the TCP connections of a program as SPC streams, each under a task-id
    SpcProxy(SpcProxyOptions),
}

/// A trace and the fabric that it crosses.
#[derive(Debug, Args)]
pub(crate) struct Input {
    /// The trace; '-' reads standard input, .gz and .zst are read as they are; may be a Spark event log, or the folder of
    /// a rolling one
    pub(crate) trace: PathBuf,
    /// The format of the trace, where looking at it is not enough
    #[arg(long, value_name = "FORMAT", value_parser = format(Format::ALL))]
    pub(crate) format: Option<Format>,
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
    /// Show the factor over the baseline by length × width bin as well
    #[arg(long)]
    pub(crate) by_bin: bool,
    /// Print JSON in place of the table
    #[arg(long, conflicts_with = "by_bin")]
    pub(crate) json: bool,
    /// Time to search for a bound that no schedule can beat: a time, as 5s, or a number of linear programs, as 2000, which
    /// gives the same figures on every machine
    ///
    /// Without it the search is a short one, the same on every machine. With --json there is a bound only where this is
    /// given: it adds the keys "bound" and "gap".
    #[arg(long, value_name = "BUDGET")]
    pub(crate) bound: Option<Budget>,
    /// Search for no bound
    #[arg(long, conflicts_with = "bound")]
    pub(crate) no_bound: bool,
    /// Write a report as one HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the completion of each coflow under each policy into this folder, as CSV and Parquet; it
    /// must not exist yet or be empty
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// End with exit code 4 unless this holds, as 'p99(cct) < 2s'; may be repeated
    ///
    /// FIGURE OP VALUE for every run, or POLICY: FIGURE OP VALUE for one. Figures: mean, min, max or a percentile such
    /// as p99 of (cct), (tct) or (slowdown); makespan; misses (of deadlines); factor(POLICY), the mean CCT of the
    /// baseline over that of the policy. OP is <, <=, >, >= or ==. Times have units.
    #[arg(long = "assert", value_name = "CLAIM")]
    pub(crate) claims: Vec<String>,
}

/// `cavalcade bound`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade bound trace.txt --budget 10s --certificate proof.json.zst")]
pub(crate) struct Bound {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The objective that is bounded
    #[arg(long, value_name = "WHAT", default_value = "coflows")]
    pub(crate) objective: Objective,
    /// Count each as often as its task's weight says
    #[arg(long)]
    pub(crate) weighted: bool,
    /// Stop the search after this time, as 20s, or after so many linear programs, as 2000, which gives the same bound on
    /// every machine
    #[arg(long, value_name = "BUDGET", default_value = "20s")]
    pub(crate) budget: Budget,
    /// Print JSON in place of the table
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the proof of the best bound, for 'cavalcade validate'; compressed where the name ends in .gz or .zst
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Option<PathBuf>,
    /// Capacity of every port in each direction [default: 1Gbps; that of a Spark log is inferred from recorded times]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Conditions")]
    pub(crate) rate: Option<BitsPerSec>,
    /// Submit all tasks at time zero
    #[arg(long, help_heading = "Conditions")]
    pub(crate) offline: bool,
}

/// An objective that a bound is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Objective {
    /// The mean completion time of coflows, from below
    Coflows,
    /// The mean completion time of tasks, from below
    Tasks,
    /// The number of tasks that can meet their deadlines, from above
    Deadlines,
}

/// `cavalcade simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade simulate trace.txt --policy sebf --out run --dump-schedule")]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The policy, with parameters, as dclas:queues=10,weighted=false
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: String,
    #[command(flatten)]
    pub(crate) conditions: Conditions,
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Write results and a manifest into this folder, which must not exist yet or be empty
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// With packets, write those that cross links into this file, for Wireshark and tcpdump (pcap); compressed where the name
    /// ends in .gz or .zst
    #[arg(long, value_name = "FILE", help_heading = "Engine")]
    pub(crate) pcap: Option<PathBuf>,
    /// The link whose packets are written, as 'egress of port 0'; may be repeated; else all of them. 'cavalcade fabric info
    /// --links' lists names
    #[arg(long, value_name = "LINK", requires = "pcap", help_heading = "Engine")]
    pub(crate) pcap_link: Vec<String>,
    /// Write the rate of every flow at every time into that folder as well
    #[arg(long, requires = "out")]
    pub(crate) dump_schedule: bool,
    /// Print JSON in place of the table
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade validate`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade validate run")]
pub(crate) struct Validate {
    /// The folder that `cavalcade simulate --out` wrote, or the file that `cavalcade bound --certificate` wrote
    pub(crate) path: PathBuf,
    /// Path of the trace, if it has moved since
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade replay`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade replay run")]
pub(crate) struct RunFolder {
    /// The folder that `cavalcade simulate --out` wrote
    pub(crate) dir: PathBuf,
    /// Path of the trace, if it has moved since
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Print JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade policies`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade policies --json")]
pub(crate) struct Policies {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade trace`.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show what is in a trace
    Info(Info),
    /// Write a trace in another format
    Convert(Convert),
    /// Make a trace from a seed
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
    /// The share of flows that fail and are sent again, having sent a part in vain
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Failures")]
    pub(crate) restart: f64,
    /// The share of flows that have a second copy, from another port
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Failures")]
    pub(crate) speculate: f64,
    /// Time from a flow to its second attempt or copy
    #[arg(long, value_name = "TIME", default_value = "1s", help_heading = "Failures")]
    pub(crate) after: Nanos,
    /// Split the bytes of each receiver of a coflow over its flows by a log-normal law of this sigma, 0 for evenly
    #[arg(long, value_name = "SIGMA", value_parser = sigma, help_heading = "Sizes")]
    pub(crate) spread: Option<f64>,
    /// Give the sizes of each coflow out to its flows at random
    #[arg(long, help_heading = "Sizes")]
    pub(crate) permute_sizes: bool,
    /// Seed of what is drawn
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
    /// The generator, with parameters, as facebook:coflows=200,ports=50; without it, generators are listed
    pub(crate) generator: Option<String>,
    /// Shapes of tasks for the generator dag: TPC-DS exchanges or TPC-H stages as JSON, as documented in the library
    #[arg(long, value_name = "FILE", requires = "generator")]
    pub(crate) shapes: Option<PathBuf>,
    /// Seed: the same seed makes the same trace on every machine
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
    /// The format to write
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = format(Format::written()))]
    pub(crate) to: Format,
    /// Write to this file, not to standard output
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
    /// The report to write
    #[arg(long, value_name = "FILE", default_value = "cavalcade-report.html")]
    pub(crate) report: PathBuf,
}

/// `cavalcade fabric`.
#[derive(Debug, Subcommand)]
pub(crate) enum Fabric {
    /// Show how many hosts, switches and links a fabric has, and what they carry
    Info(FabricInfo),
    /// Draw a fabric as an SVG picture
    Plot(FabricPlot),
}

/// `cavalcade fabric plot`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade fabric plot fattree:arity=4 --out fabric.svg")]
pub(crate) struct FabricPlot {
    /// The fabric, as tree:pods=2,racks=4,hosts=8,rate=1Gbps,oversubscription=2, or a .toml file
    pub(crate) fabric: FabricArgument,
    /// The picture to write
    #[arg(long, short, value_name = "FILE", default_value = "fabric.svg")]
    pub(crate) out: PathBuf,
}

/// `cavalcade fabric info`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade fabric info tree:pods=2,racks=4,hosts=8,oversubscription=2 --links"
)]
pub(crate) struct FabricInfo {
    /// The fabric, as tree:pods=30,racks=30,hosts=40,rate=1Gbps,oversubscription=2, or a .toml file
    pub(crate) fabric: FabricArgument,
    /// List every link: its name, capacity and delay
    #[arg(long)]
    pub(crate) links: bool,
    /// Print JSON in place of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade experiment`.
#[derive(Debug, Subcommand)]
pub(crate) enum ExperimentCommand {
    /// List the experiments, and how much of each has been run
    #[command(after_help = "Example:\n  cavalcade experiment list --json")]
    List {
        /// The folder of experiments.
        #[command(flatten)]
        folder: ExperimentFolder,
        /// Print JSON in place of text
        #[arg(long)]
        json: bool,
    },
    /// Run experiments on all cores; runs whose rows are there already are not run again
    Run(ExperimentRun),
    /// Make the pages and charts from the rows that are there
    #[command(after_help = "Example:\n  cavalcade experiment report --check")]
    Report {
        /// The folder of experiments.
        #[command(flatten)]
        folder: ExperimentFolder,
        /// Write nothing, and end with exit code 4 unless all pages and charts are up to date
        #[arg(long)]
        check: bool,
    },
}

/// The folders of experiments and data.
#[derive(Debug, Args)]
pub(crate) struct ExperimentFolder {
    /// The folder that holds a folder for each experiment
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub(crate) dir: PathBuf,
    /// The folder of public traces; what needs one that is not there is left out. Usually ../shared/data beside the checkout
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// `cavalcade experiment run`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade experiment run aalo-fig12")]
pub(crate) struct ExperimentRun {
    /// The experiments, by the names of their folders; all where none is named
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) folder: ExperimentFolder,
    /// Run all again, also what has its rows
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Write nothing: run one seed of the cheap experiments, or of those that are named, and check that the rows are the same bits
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) smoke: bool,
}

/// `cavalcade tune`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tune {
    /// Thresholds that split flows over priority queues by bytes sent, with the least mean flow completion time
    ///
    /// For one link with Poisson arrivals and strict priorities (M/G/1). Beside the optimum stand the tables that PIAS' authors
    /// published, for the nearest load. What they do in a network 'cavalcade compare --engine packet' shows.
    Thresholds(TuneThresholds),
}

/// `cavalcade tune thresholds`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade tune thresholds --cdf sizes.csv --queues 8 --load 0.8")]
pub(crate) struct TuneThresholds {
    /// The distribution of flow sizes: lines of size_bytes,cdf, rising, the last with 1; straight lines in between
    #[arg(long, value_name = "FILE")]
    pub(crate) cdf: PathBuf,
    /// Number of queues in a switch
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    pub(crate) queues: u32,
    /// The load of the link, above 0 and below 1
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = load)]
    pub(crate) load: f64,
    /// Print JSON in place of the table
    #[arg(long)]
    pub(crate) json: bool,
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
    /// The folder, which must not exist yet
    pub(crate) dir: PathBuf,
}

/// Reads a rate.
fn rate(text: &str) -> Result<BitsPerSec, String> {
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

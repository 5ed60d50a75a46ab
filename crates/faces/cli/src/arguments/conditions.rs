//! Options of a simulation: conditions, engine and transport, and policies.

use std::ffi::OsStr;
use std::num::NonZeroU32;

use cavalcade_harness::CpuOrder;
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_sim_fluid::Allocator;
use cavalcade_spec::Choice;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum};

use super::{packet_size, period, rate, share};
use crate::fabric::argument::FabricArgument;
use crate::failure::Failure;
use crate::policies::words;

/// The conditions of every run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Conditions {
    /// Capacity of every port in each direction [default: 1Gbps; inferred from recorded times for a
    /// Spark log]
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Conditions")]
    pub(crate) rate: Option<BitsPerSec>,
    /// Fabric, such as tree:pods=30,racks=30,hosts=40,oversubscription=2 or
    /// leafspine:leaves=4,spines=4,hosts=16 or fattree:arity=8, or a .toml file [default: one big
    /// switch with the trace's ports]. Exceptions follow semicolons: ';rack 0 to pod 0
    /// rate=5Gbps;ingress of port 3 failed'. 'cavalcade fabric info' shows the result
    #[arg(long, value_name = "FABRIC", help_heading = "Conditions")]
    pub(crate) fabric: Option<FabricArgument>,
    /// Submit all tasks at time zero
    #[arg(long, help_heading = "Conditions")]
    pub(crate) offline: bool,
    /// Delay of messages between instances of a policy
    #[arg(long, value_name = "TIME", default_value = "0ns", help_heading = "Conditions")]
    pub(crate) control_delay: Nanos,
    /// Share of those messages that is lost, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Conditions")]
    pub(crate) control_loss: f64,
    /// Seed of all random choices
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Conditions")]
    pub(crate) seed: u64,
    /// Number of independent counters that clients take task-ids from, in turn (Baraat)
    #[arg(long, value_name = "NUMBER", default_value = "1", help_heading = "Conditions")]
    pub(crate) counters: NonZeroU32,
    /// Order in which hosts with slots compute: all at once, task by task, or stage by stage
    #[arg(long, value_name = "ORDER", default_value = "stage", value_parser = word::<CpuOrder>(), help_heading = "Conditions")]
    pub(crate) cpu_order: CpuOrder,
    /// Allocator of the fluid engine: incremental, or reference, which follows each discipline's
    /// definition literally and is slow
    #[arg(long, value_name = "ALLOCATOR", default_value = "incremental", value_parser = word::<Allocator>(), help_heading = "Conditions")]
    pub(crate) allocator: Allocator,
}

/// Parses one of a few words.
fn word<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let known = T::WORDS.iter().map(|(word, _)| *word);
    PossibleValuesParser::new(known).map(|word| {
        let found = T::WORDS.iter().find(|(known, _)| *known == word);
        found.expect("only these words are parsed").1
    })
}

/// The engines, and their options.
#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    /// Simulation engines; each policy is run on each of them
    #[arg(
        long,
        value_name = "ENGINES",
        value_delimiter = ',',
        default_value = "fluid",
        help_heading = "Engine"
    )]
    pub(crate) engine: Vec<EngineName>,
    /// Control engine: time between agents' reports, and between the coordinator's rounds; messages
    /// take --control-delay, and those between agents are lost at --control-loss
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = period, help_heading = "Engine")]
    pub(crate) period: Nanos,
    /// Packet engine: transports, such as dctcp,pfabric, or with parameters
    /// dctcp:marking=30KB,initial_window=16
    ///
    /// Each policy is run over each transport. The default is dctcp.
    #[arg(long, value_name = "TRANSPORTS", help_heading = "Engine")]
    pub(crate) transport: Option<String>,
    /// Packet engine: propagation delay of a link, unless --fabric has a delay
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1us",
        allow_hyphen_values = true,
        help_heading = "Engine"
    )]
    pub(crate) link_delay: Nanos,
    /// Packet engine: size of a full packet, headers included
    #[arg(long, value_name = "SIZE", default_value = "1500B", value_parser = packet_size, help_heading = "Engine")]
    pub(crate) mtu: u16,
    /// Packet engine: size of headers; an acknowledgement is nothing but headers
    #[arg(long, value_name = "SIZE", default_value = "40B", value_parser = packet_size, help_heading = "Engine")]
    pub(crate) headers: u16,
    /// Packet engine: send messages between hosts' policies through the simulated network, as the
    /// live system's datagrams, instead of with --control-delay and --control-loss
    #[arg(long, help_heading = "Engine")]
    pub(crate) in_band: bool,
}

impl Default for EngineOptions {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            engine: vec![EngineName::Fluid],
            period: Nanos::from_millis(10),
            transport: None,
            link_delay: Nanos(1_000),
            mtu: 1_500,
            headers: 40,
            in_band: false,
        }
    }
}

/// A driver of policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// Flows have rates, no packets: exact and fast
    #[default]
    Fluid,
    /// The fluid engine under the live system's coordinator, agents and clients; the coordinator
    /// knows hosts, not the fabric between them
    Control,
    /// Every packet is queued, marked or dropped, and acknowledged
    Packet,
}

/// Takes any text, since a policy may have parameters, and offers completions the words that
/// `--policies` knows.
#[derive(Clone, Debug)]
pub(crate) struct PolicyWords {
    has_sets: bool,
}

impl PolicyWords {
    /// Sets and names of policies.
    pub(crate) const SETS_AND_NAMES: Self = Self { has_sets: true };
    /// Names of policies.
    pub(crate) const NAMES: Self = Self { has_sets: false };
}

impl TypedValueParser for PolicyWords {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let is_set = |word: &&str| [cavalcade::Choice::DEFAULT, cavalcade::Choice::ALL].contains(word);
        let words = words().filter(move |word| self.has_sets || !is_set(word));
        Some(Box::new(words.map(PossibleValue::new)))
    }
}

/// The selected policies.
#[derive(Debug, Default, Args)]
pub(crate) struct Selection {
    /// Policies, such as fair,aalo,varys, and sets of them: default is fair, the policies of papers
    /// and learn; all is every name
    ///
    /// In the default set dcas runs only over small traces, and so does baraat on several switches,
    /// since they are costly there. fair stands for TCP, and can be named tcp. order:FILE serves
    /// coflows in the order of a file with the name of one a line.
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        value_parser = PolicyWords::SETS_AND_NAMES,
        hide_possible_values = true,
        help_heading = "Policies"
    )]
    pub(crate) policies: Vec<String>,
    /// A policy with parameters, such as dclas:queues=10,weighted=false; may be repeated
    #[arg(long, value_name = "POLICY", help_heading = "Policies")]
    pub(crate) policy: Vec<String>,
    /// Policy that speedups are relative to [default: fair if it is compared, else the first]
    #[arg(long, value_name = "POLICY", help_heading = "Policies")]
    pub(crate) baseline: Option<String>,
}

impl Selection {
    /// Returns whether any policy is named.
    pub(crate) fn is_made(&self) -> bool {
        !self.policies.is_empty() || !self.policy.is_empty()
    }
}

impl Conditions {
    /// The conditions of a run.
    ///
    /// # Errors
    /// If the file of a fabric is not valid.
    pub(crate) fn of_run(&self) -> Result<cavalcade::Conditions, Failure> {
        Ok(cavalcade::Conditions {
            rate: self.rate(),
            fabric: self.fabric.as_ref().map(|fabric| fabric.checked(self.rate())).transpose()?,
            offline: self.offline,
            control_delay: self.control_delay,
            control_loss: self.control_loss,
            seed: self.seed,
            counters: self.counters,
            cpu_order: self.cpu_order,
            allocator: self.allocator,
        })
    }
}

impl Default for Conditions {
    /// The defaults of the command line.
    fn default() -> Self {
        Self {
            rate: None,
            fabric: None,
            offline: false,
            control_delay: Nanos::ZERO,
            control_loss: 0.0,
            seed: 1,
            counters: NonZeroU32::MIN,
            cpu_order: CpuOrder::default(),
            allocator: Allocator::default(),
        }
    }
}

/// The rate if none is given and none can be inferred.
const DEFAULT_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

impl Conditions {
    /// The rate of every port: the one given, or 1 Gbps.
    pub(crate) fn rate(&self) -> BitsPerSec {
        self.rate.unwrap_or(DEFAULT_RATE)
    }
}

//! The live system's part of the command line.
//!
//! What a configuration file can say as well is optional here: a flag wins over the file, and the default comes last
//! (`crate::live::settings`).

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use cavalcade_control::Budget;
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_protocol::Limit;
use cavalcade_runtime::lease::LeasePlace;
use cavalcade_spc::counters::CounterSetup;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::{period, rate};

/// The file that says the same as flags.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfigFile {
    /// A file that says the same as the flags, which win over it; docs/cavalcade.toml is an example
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// The hosts of the site, the same list everywhere.
#[derive(Debug, Default, Args)]
pub(crate) struct SiteOptions {
    /// The addresses of all hosts, as 10.0.0.1,10.0.0.2; the first is port 0. 'up' needs none: it then serves this host alone
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) hosts: Vec<IpAddr>,
    /// Rate of every host's link [default: 1Gbps]: the rate that policies share out. It describes the link and does
    /// not cap it
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<BitsPerSec>,
}

/// Limits on who may connect, and sockets for administrators and monitoring.
#[derive(Debug, Default, Args)]
pub(crate) struct Access {
    /// The folder of this component's certificate and key, as 'cavalcade certificates' makes them
    #[arg(long, value_name = "DIR", help_heading = "Access")]
    pub(crate) certificates: Option<PathBuf>,
    /// Speak in clear text to other hosts, and let anybody speak
    #[arg(long, conflicts_with = "certificates", help_heading = "Access")]
    pub(crate) insecure: bool,
    /// Socket on this host for 'cavalcade ps' and the like
    #[arg(long, value_name = "FILE", help_heading = "Access")]
    pub(crate) administration: Option<PathBuf>,
    /// Address at which a monitoring system reads /metrics
    #[arg(long, value_name = "ADDRESS", help_heading = "Access")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Most connections of clients or agents [default: what descriptors allow]
    #[arg(long, value_name = "NUMBER", help_heading = "Access", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Most bytes waiting in this process, from peers and for them [default: 256MiB]
    #[arg(long, value_name = "SIZE", help_heading = "Access")]
    pub(crate) max_buffers: Option<Bytes>,
}

/// Messages on standard error.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Logging {
    /// The form of messages [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Messages")]
    pub(crate) log_format: Option<LogFormat>,
    /// Level of messages [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Messages")]
    pub(crate) log_level: Option<LogLevel>,
}

/// The form of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// A line for people
    #[default]
    Text,
    /// A JSON object on a line
    Json,
}

/// A level of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    /// Errors only
    Error,
    /// And what looks wrong
    Warn,
    /// And who came and went
    #[default]
    Info,
    /// And more
    Debug,
}

/// The budget of one user's clients.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct UserBudget {
    /// Budget of one user's clients on this host, as coflows=100000,bytes=256MB; what is left out keeps its default
    /// [default: connections=1024,coflows=65536,flows=65536,messages=100000,bytes=67108864]. Messages are those in a second, bytes those
    /// that wait in the agent
    #[arg(long, value_name = "LIMITS", value_parser = user_budget)]
    pub(crate) user_budget: Option<Budget>,
}

/// Reads what one user's clients may have.
///
/// # Errors
/// Where there is no such limit, or it is no number.
pub(crate) fn user_budget(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let limit = Limit::ALL.into_iter().find(|limit| limit.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
            format!("'{name}' is no limit: expected NAME=NUMBER with a name of {}", names.join(", "))
        })?;
        let most = match limit {
            Limit::Bytes {} => value.parse::<Bytes>().ok().map(|bytes| bytes.0),
            _ => value.parse().ok(),
        };
        let most = most.and_then(|most| u32::try_from(most).ok()).filter(|most| *most > 0);
        let wrong = || format!("{name}={value}: expected a number from 1 to {}", u32::MAX);
        budget.set(limit, most.ok_or_else(wrong)?);
    }
    Ok(budget)
}

/// `cavalcade coordinator`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade coordinator --hosts 10.0.0.1,10.0.0.2 --certificates site/coordinator"
)]
pub(crate) struct CoordinatorOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    pub(crate) site: SiteOptions,
    /// Address for agents [default: 127.0.0.1:7337]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) deciding: Deciding,
    /// A file to lock, or a key in etcd as etcds://10.0.0.5:2379/cavalcade: of several coordinators with the same one, one
    /// leads and the others stand by
    #[arg(long, value_name = "PLACE")]
    pub(crate) lease: Option<LeasePlace>,
    /// The folder for etcds://…: authority.pem, and certificate.pem and key.pem where etcd asks for them
    #[arg(long, value_name = "DIR")]
    pub(crate) lease_certificates: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

/// The options of a coordinator's decisions.
#[derive(Debug, Default, Args)]
pub(crate) struct Deciding {
    /// The policy, with parameters, as sebf or dclas:queues=10,weighted=false [default: dclas:queues=20,factor=2,first_threshold=1MB]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    /// Time between reports, and between orders [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) period: Option<Nanos>,
    /// Time that orders hold without word from the coordinator: at least four periods [default: ten periods]
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub(crate) hold: Option<Nanos>,
    /// Count bytes of another host's coflow only once receivers' kernels have them, and let flows hold others only while
    /// something arrives: where hosts may lie, and each application uses its host's own address
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Decide, and enforce nothing
    #[arg(long)]
    pub(crate) shadow: bool,
}

/// `cavalcade agent`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade agent --hosts 10.0.0.1,10.0.0.2 --coordinator 10.0.0.1:7337 --certificates site/0"
)]
pub(crate) struct AgentOptions {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    pub(crate) site: SiteOptions,
    /// Number of this host, from 0; else the one whose address is this host's
    #[arg(long, value_name = "NUMBER")]
    pub(crate) port: Option<u32>,
    /// Address of a coordinator; repeat for those that stand by
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) coordinator: Vec<SocketAddr>,
    /// Decide here, without a coordinator, by this policy (dcas and others that work at hosts)
    #[arg(long, value_name = "POLICY", conflicts_with = "coordinator")]
    pub(crate) policy: Option<String>,
    /// The UDP port at which agents without a coordinator talk to each other [default: 7338]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) peer_port: Option<u16>,
    /// Socket for applications; else cavalcade.sock in $XDG_RUNTIME_DIR or /run
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Decide, and enforce nothing
    #[arg(long)]
    pub(crate) shadow: bool,
    #[command(flatten)]
    pub(crate) budget: UserBudget,
    #[command(flatten)]
    pub(crate) counters: TaskCounters,
    #[command(flatten)]
    pub(crate) access: Access,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

/// Counters of task-ids for programs that speak SPC.
#[derive(Debug, Default, Args)]
pub(crate) struct TaskCounters {
    /// Hold a counter of task-ids for the processes of some users, as front:first=1,step=4,users=1000+1001, with ',background' for
    /// tasks behind all others; may be repeated. Programs find it beside the agent's socket, at NAME.counters.sock
    #[arg(long, value_name = "COUNTER")]
    pub(crate) task_counter: Vec<CounterSetup>,
    /// Keep in this file what counters have given, so that no id is given again after a restart
    #[arg(long, value_name = "FILE", requires = "task_counter")]
    pub(crate) task_counter_file: Option<PathBuf>,
}

/// `cavalcade up`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade up --rate 10Gbps --metrics 127.0.0.1:9337")]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    pub(crate) site: SiteOptions,
    /// Number of this host, from 0 [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) port: Option<u32>,
    /// Address for agents of other hosts, without certificates: a site of several hosts has a coordinator of its own
    /// [default: 127.0.0.1, any port]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) deciding: Deciding,
    /// Socket for applications; else cavalcade.sock in $XDG_RUNTIME_DIR or /run
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen in clear text also where other hosts can connect
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Address at which a monitoring system reads the coordinator's /metrics
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Address at which it reads the agent's
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) agent_metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) budget: UserBudget,
    #[command(flatten)]
    pub(crate) logging: Logging,
}

/// `cavalcade certificates`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade certificates site --hosts 2")]
pub(crate) struct Certificates {
    /// The folder to make, which must not exist yet: it gets a folder for each component, to be copied to its host
    pub(crate) dir: PathBuf,
    /// Number of hosts
    #[arg(long, value_name = "NUMBER")]
    pub(crate) hosts: u32,
    /// Days that the certificates are valid
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
}

/// `cavalcade renew`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade renew site agent-0")]
pub(crate) struct Renew {
    /// The folder that 'cavalcade certificates' made, with the authority's key
    pub(crate) dir: PathBuf,
    /// The components whose certificates are renewed, as agent-3; without any, all of them
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<String>,
    /// Days that the certificates are valid
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
    /// Make a new key as well: for a host that is replaced, or whose key others may have
    #[arg(long)]
    pub(crate) new_key: bool,
    /// Make folders for the hosts that join, so that there are so many in all
    #[arg(long, value_name = "NUMBER")]
    pub(crate) hosts: Option<u32>,
    /// Make a new authority, which all components are to trust beside the former one
    #[arg(long, conflicts_with_all = ["components", "new_key", "hosts", "retire_authority"])]
    pub(crate) new_authority: bool,
    /// End the trust in the former authority, once no certificate is its
    #[arg(long, conflicts_with_all = ["components", "new_key", "hosts"])]
    pub(crate) retire_authority: bool,
}

/// `cavalcade revoke`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade revoke site agent-3")]
pub(crate) struct Revoke {
    /// The folder that 'cavalcade certificates' made, with the authority's key
    pub(crate) dir: PathBuf,
    /// The components whose certificates count no more, as agent-3
    #[arg(required = true, value_name = "COMPONENT")]
    pub(crate) components: Vec<String>,
}

/// The component to ask.
#[derive(Debug, Default, Args)]
pub(crate) struct At {
    /// Part to ask: the administration socket of an agent or coordinator, or a coordinator's address; else the first that is found
    /// on this host, a coordinator first
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<String>,
    /// The folder of an administrator's certificate, to ask at an address
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: Option<PathBuf>,
}

/// `cavalcade ps`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade ps --json")]
pub(crate) struct Ps {
    #[command(flatten)]
    pub(crate) at: At,
    /// Show who is here, who leads, and how old each report is
    #[arg(long)]
    pub(crate) hosts: bool,
    /// Show what is used of each limit, and what raises it; at an agent also for the users who are nearest to theirs
    #[arg(long, conflicts_with = "hosts")]
    pub(crate) limits: bool,
    /// Show the coflows that were over within the last hour, the last one first (10,000 at most, kept by the coordinator)
    #[arg(long, conflicts_with_all = ["hosts", "limits"])]
    pub(crate) history: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade top`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade top")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) at: At,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) every: Nanos,
    /// Print what there is as a line of JSON each time, and draw nothing
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade describe` and `cavalcade why`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade describe sort-7\n  cavalcade why 3f2a91c")]
pub(crate) struct Describe {
    /// The coflow: its name, its id (the first digits do), or its key, as task.stage.serial
    pub(crate) coflow: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade drain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade drain\n  cavalcade drain --undo\n  cavalcade drain --user 1000 --reason 'its job hangs'"
)]
pub(crate) struct Drain {
    #[command(flatten)]
    pub(crate) at: At,
    /// Only what this host sends, by its port
    #[arg(long, value_name = "PORT", group = "share")]
    pub(crate) host: Option<u32>,
    /// Only coflows of this user, by the number that 'id -u' prints
    #[arg(long, value_name = "NUMBER", group = "share")]
    pub(crate) user: Option<u32>,
    /// Only this coflow: its name, its id (the first digits do), or its key
    #[arg(long, group = "share")]
    pub(crate) coflow: Option<String>,
    /// End it: obey orders again
    #[arg(long)]
    pub(crate) undo: bool,
    /// Why, for the log and for who looks: 'cavalcade ps' shows it; 100 bytes at most
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade reload`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade reload\n  cavalcade reload --log-level debug")]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) at: At,
    /// Set how much is logged until the next start, and read no file
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<LogLevel>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade doctor")]
pub(crate) struct Doctor {
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Lift and remove what a 'cavalcade enforce' that was killed has left in the kernel, and check nothing
    #[arg(long, conflicts_with = "json")]
    pub(crate) fix_leftovers: bool,
}

/// Reads how often to look.
fn interval(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(interval) if interval >= Nanos::from_millis(50) => Ok(interval),
        Ok(_) => Err("expected at least 50ms".to_owned()),
        Err(error) => Err(format!("{error}, as in 1s")),
    }
}

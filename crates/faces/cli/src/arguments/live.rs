//! The live system's part of the command line, and of its configuration file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use cavalcade_control::Budget;
use cavalcade_model::{BitsPerSec, Bytes, Nanos};
use cavalcade_protocol::{Host, Limit};
use cavalcade_runtime::lease::LeasePlace;
use cavalcade_spc::counters::CounterSetup;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::options::{Options, Read, Value, Wrong, by, by_type, options, with_default};
use super::{Room, period, rate};

/// `cavalcade coordinator`, `agent` or `up`, with the options that are its own.
#[derive(Debug, Args)]
pub(crate) struct Component<T: Args> {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    pub(crate) site: SiteOptions,
    #[command(flatten)]
    pub(crate) own: T,
    #[command(flatten)]
    pub(crate) log: Logging,
}

/// The configuration file.
#[derive(Debug, Default, Args)]
pub(crate) struct ConfigFile {
    /// Configuration file, such as docs/cavalcade.toml; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Aalo's queues, but many and close. With the paper's ten far apart (10 MB, 100 MB, …) large
/// coflows share a queue, first come first served, and a small one behind a huge one waits: 0.86×
/// against fair sharing on the demo's workload (seed 1), where these give 1.27×. Over 11 generated
/// workloads the mean factor was 1.19 and none was below 1.04; weights keep every queue served.
const DEFAULT_POLICY: &str = "dclas:queues=20,factor=2,first_threshold=1MB";

options! {
    /// `[site]`: the hosts, the same list everywhere.
    SiteOptions {
        /// Addresses of all hosts, such as 10.0.0.1,10.0.0.2; the first is port 0. Further
        /// addresses and prefixes of a host follow it, as 10.0.0.1+fd00::1+10.244.1.0/24. Without
        /// it, 'up' serves this host alone
        #[arg(value_delimiter = ',')]
        hosts "ADDRESSES": Vec<Host> = Host::from_str,
        /// Rate of every host's link, which policies share out; it describes the link and does not
        /// cap it
        rate "RATE": Option<BitsPerSec> = rate | BitsPerSec(1_000_000_000),
    }

    /// `[coordinator]`
    CoordinatorOptions {
        /// Address to listen at for agents
        listen "ADDRESS": Option<SocketAddr> | SocketAddr::from(([127, 0, 0, 1], 7336)),
        #[command(flatten)]
        deciding: Deciding,
        /// Lease of leadership: a file to lock, or a key in etcd such as
        /// etcds://10.0.0.5:2379/cavalcade. Of the coordinators that share it, one leads and the
        /// others stand by
        lease "PLACE": Option<LeasePlace> = LeasePlace::from_str,
        /// Folder for etcds://…: authority.pem, and certificate.pem and key.pem if etcd requires
        /// them
        lease_certificates "DIR": Option<PathBuf>,
        #[command(flatten)]
        access: Access,
    }

    /// The options of a coordinator's decisions.
    Deciding {
        /// Policy, with parameters, such as sebf or dclas:queues=10,weighted=false
        policy "POLICY": Option<String> | DEFAULT_POLICY,
        /// Time between agents' reports, and between the coordinator's orders
        period "TIME": Option<Nanos> = period | Nanos::from_millis(10),
        /// Time for which orders stay valid without word from the coordinator, at least four
        /// periods, and more if hosts are loaded [default: ten periods]
        hold "TIME": Option<Nanos> = period,
        /// Trust receivers, not senders: count bytes of another host's coflow only once they have
        /// arrived, and let flows hold up others only while data arrives. For sites where hosts may
        /// lie; every application must use its host's own address
        #[arg(long)]
        confirm: bool,
        /// Leave all gates open, because the switches give strict priority by DSCP: only the
        /// policy's own rate limits hold flows back, and flows of one class share
        #[arg(long)]
        by_class: bool,
        /// Decide, but enforce nothing
        #[arg(long)]
        shadow: bool,
    }

    /// `[agent]`
    AgentOptions {
        /// Number of this host, from 0 [default: the one with an address of this host]
        port "NUMBER": Option<u32>,
        /// Address of a coordinator; repeat for standbys
        #[arg(long = "coordinator")]
        coordinators "ADDRESS": Vec<SocketAddr>,
        /// Policy to decide by at this host, without a coordinator (dcas and others that work at
        /// hosts)
        #[arg(conflicts_with = "coordinators")]
        policy "POLICY": Option<String>,
        /// UDP port for messages between agents without a coordinator
        peer_port "NUMBER": Option<u16> | 7338_u16,
        /// Socket for applications [default: $CAVALCADE_SOCKET, else cavalcade.sock in
        /// $XDG_RUNTIME_DIR or /run]
        socket "FILE": Option<PathBuf>,
        /// With --policy: leave all gates open, because the switches give strict priority by DSCP
        #[arg(long)]
        by_class: bool,
        /// Decide, and enforce nothing
        #[arg(long)]
        shadow: bool,
        /// Leave flows that leave the site as plain TCP. Otherwise they take turns with all else
        /// that this host sends
        #[arg(skip)]
        plain_outside: bool,
        #[command(flatten)]
        clients: ForClients,
        #[command(flatten)]
        access: Access,
    }

    /// What an agent gives its clients: a budget to each user's, and to programs that speak SPC
    /// counters of task-ids.
    ForClients, flags task_counter task_counter_file {
        /// Limits of one user's clients on this host, such as coflows=100000,bytes=256MB; messages
        /// are per second, bytes those buffered in the agent [default:
        /// connections=1024,coflows=65536,flows=65536,messages=100000,bytes=67108864]
        user_budget "LIMITS": Option<Budget> = user_budget,
        /// Serve a counter of task-ids to the processes of some users, such as
        /// front:first=1,step=4,users=1000+1001, with ',background' for tasks behind all others;
        /// may be repeated. Its socket is NAME.counters.sock beside the agent's
        task_counter "COUNTER": Vec<CounterSetup> = CounterSetup::from_str,
        /// File in which counters keep their state, so that no id is given twice after a restart
        #[arg(requires = "task_counter")]
        task_counter_file "FILE": Option<PathBuf>,
    }

    /// Limits on who may connect, and sockets for administrators and monitoring.
    #[command(next_help_heading = "Access")]
    Access {
        /// Folder of this component's certificate and key, made by 'cavalcade certificates'
        certificates "DIR": Option<PathBuf>,
        /// Talk to other hosts in clear text and without authentication
        #[arg(long, conflicts_with = "certificates")]
        insecure: bool,
        /// Socket on this host for 'cavalcade ps' and the like
        administration "FILE": Option<PathBuf>,
        /// Address to serve /metrics at
        metrics "ADDRESS": Option<SocketAddr>,
        /// Maximum number of connections of clients or agents [default: as file descriptors allow]
        max_connections "NUMBER": Option<u32> = at_least_one,
        /// Maximum size of all buffers of connections [default: 256MiB]
        max_buffers "SIZE": Option<Bytes> = Bytes::from_str,
    }

    /// `[log]`: messages on standard error.
    #[command(next_help_heading = "Messages")]
    Logging {
        /// Format of log messages [default: text]
        #[arg(long = "log-format")]
        format "FORMAT": Option<LogFormat>,
        /// Log level [default: info]
        #[arg(long = "log-level")]
        level "LEVEL": Option<LogLevel>,
    }
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
    /// Errors
    Error,
    /// Also warnings
    Warn,
    /// Also who connects and disconnects
    #[default]
    Info,
    /// Also details, such as what a coordinator decides about each flow
    Debug,
}

/// Reads a number of connections.
fn at_least_one(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("0 is too few: expected 1 or more".to_owned()),
        number => number.map_err(|_| format!("expected a number from 1 to {}", u32::MAX)),
    }
}

/// Reads what one user's clients may have.
///
/// # Errors
/// Where there is no such limit, or it is no number.
fn user_budget(text: &str) -> Result<Budget, String> {
    let mut budget = Budget::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let limit = Limit::ALL.into_iter().find(|limit| limit.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
            format!("'{name}' is not a limit: expected NAME=NUMBER with a name of {}", names.join(", "))
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

/// The flags of `cavalcade up`, which sets options of both of its components.
#[derive(Debug, Args)]
pub(crate) struct UpFlags {
    /// Number of this host, from 0 [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) port: Option<u32>,
    /// Address to listen at for agents of other hosts, without certificates; use 'cavalcade
    /// coordinator' for a site of several hosts [default: 127.0.0.1, any port]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) deciding: Deciding,
    /// Socket for applications; else $CAVALCADE_SOCKET, else cavalcade.sock in $XDG_RUNTIME_DIR or
    /// /run
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Allow an address to listen at that other hosts can reach, in clear text
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Address to serve the coordinator's /metrics at
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Address to serve the agent's /metrics at
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) agent_metrics: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) clients: ForClients,
}

impl UpFlags {
    /// What the flags say of its coordinator.
    pub(crate) fn of_coordinator(&self) -> CoordinatorOptions {
        let access = Access { insecure: self.insecure, metrics: self.metrics, ..Access::default() };
        let (listen, deciding) = (self.listen, self.deciding.clone());
        CoordinatorOptions { listen, deciding, access, ..CoordinatorOptions::default() }
    }

    /// What the flags say of its agent.
    pub(crate) fn of_agent(&self) -> AgentOptions {
        let access = Access { metrics: self.agent_metrics, ..Access::default() };
        let (port, socket, clients) = (self.port, self.socket.clone(), self.clients.clone());
        AgentOptions { port, socket, clients, access, ..AgentOptions::default() }
    }
}

/// `cavalcade certificates`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade certificates site --hosts 2")]
pub(crate) struct Certificates {
    /// Folder to create; it gets a folder per component, to be copied to its host
    pub(crate) dir: PathBuf,
    /// Number of hosts
    #[arg(long, value_name = "NUMBER")]
    pub(crate) hosts: u32,
    /// Validity in days
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
}

/// `cavalcade renew`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade renew site agent-0")]
pub(crate) struct Renew {
    /// Folder made by 'cavalcade certificates', with the authority's key
    pub(crate) dir: PathBuf,
    /// Components to renew, such as agent-3 [default: all]
    #[arg(value_name = "COMPONENT")]
    pub(crate) components: Vec<String>,
    /// Days that the certificates are valid
    #[arg(long, value_name = "NUMBER", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: u32,
    /// Also make a new key, for a host that was replaced or whose key may have leaked
    #[arg(long)]
    pub(crate) new_key: bool,
    /// Add folders for new hosts, up to this number of hosts
    #[arg(long, value_name = "NUMBER")]
    pub(crate) hosts: Option<u32>,
    /// Make a new authority, trusted beside the old one
    #[arg(long, conflicts_with_all = ["components", "new_key", "hosts", "retire_authority"])]
    pub(crate) new_authority: bool,
    /// End the trust in the old authority, once it has signed no certificate in use
    #[arg(long, conflicts_with_all = ["components", "new_key", "hosts"])]
    pub(crate) retire_authority: bool,
}

/// `cavalcade revoke`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade revoke site agent-3")]
pub(crate) struct Revoke {
    /// The folder that 'cavalcade certificates' made, with the authority's key
    pub(crate) dir: PathBuf,
    /// Components whose certificates are revoked, such as agent-3
    #[arg(required = true, value_name = "COMPONENT")]
    pub(crate) components: Vec<String>,
}

/// The component to ask.
#[derive(Debug, Default, Args)]
pub(crate) struct At {
    /// Component to ask: the administration socket of an agent or coordinator, or a coordinator's
    /// address [default: one found on this host, a coordinator first]
    #[arg(long, value_name = "PLACE")]
    pub(crate) at: Option<String>,
    /// Folder of an administrator's certificate, needed at an address
    #[arg(long, value_name = "DIR")]
    pub(crate) certificates: Option<PathBuf>,
}

/// `cavalcade ps`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade ps --json")]
pub(crate) struct Ps {
    #[command(flatten)]
    pub(crate) at: At,
    /// Show hosts, the leading coordinator, the age of each report, and incidents with peers
    #[arg(long)]
    pub(crate) hosts: bool,
    /// Show the usage of each limit and the setting that raises it; at an agent also for the users
    /// closest to their limits
    #[arg(long, conflicts_with = "hosts")]
    pub(crate) limits: bool,
    /// Show coflows that ended within the last hour, newest first (at most 10,000, kept by the
    /// coordinator)
    #[arg(long, conflicts_with_all = ["hosts", "limits"])]
    pub(crate) history: bool,
    /// List also coflows that were registered with no bytes and stand for those under them, as a
    /// query does for its shuffles
    #[arg(long, conflicts_with_all = ["hosts", "limits"])]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade top`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade top")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) at: At,
    /// Time between refreshes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) every: Nanos,
    /// Print a line of JSON per refresh instead of drawing
    #[arg(long)]
    pub(crate) json: bool,
}

/// `cavalcade describe` and `cavalcade why`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  cavalcade describe sort-7\n  cavalcade why 3f2a91c")]
pub(crate) struct Describe {
    /// Coflow: its name, its id (or the first digits of it), or its key, task.stage.serial
    pub(crate) coflow: String,
    #[command(flatten)]
    pub(crate) at: At,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) room: Room,
}

/// `cavalcade drain`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade drain\n  cavalcade drain --undo\n  cavalcade drain --user 1000 --reason 'its job hangs'"
)]
pub(crate) struct Drain {
    #[command(flatten)]
    pub(crate) at: At,
    /// Only flows that this host sends, by its port number
    #[arg(long, value_name = "PORT", group = "share")]
    pub(crate) host: Option<u32>,
    /// Only coflows of this user, by numeric id
    #[arg(long, value_name = "NUMBER", group = "share")]
    pub(crate) user: Option<u32>,
    /// Only this coflow: its name, id or key
    #[arg(long, group = "share")]
    pub(crate) coflow: Option<String>,
    /// End a drain
    #[arg(long)]
    pub(crate) undo: bool,
    /// Reason, shown in the log and by 'cavalcade ps'; at most 100 bytes
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
    /// Set the log level until the next restart, without rereading the file
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
    /// Remove what killed processes have left (objects in the kernel, namespaces, sockets), instead
    /// of checking
    #[arg(long, conflicts_with = "json")]
    pub(crate) fix_leftovers: bool,
    /// Also look for what a killed 'cavalcade enforce --group DIR' has left. The host's own
    /// enforcer, and groups that no longer exist, are always looked at
    #[arg(long, value_name = "DIR")]
    pub(crate) group: Option<PathBuf>,
}

/// Reads how often to look.
fn interval(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(interval) if interval >= Nanos::from_millis(50) => Ok(interval),
        Ok(_) => Err("expected at least 50ms".to_owned()),
        Err(error) => Err(format!("{error}, as in 1s")),
    }
}

//! `cavalcade coordinator`, `agent` and `up`: the live system in the foreground, until Ctrl-C.
//!
//! Hosts are named in one list that is the same everywhere; a host's place in it is its port. What
//! leaves a host needs certificates, or `--insecure`.

pub(crate) mod config;
mod counters;
pub(crate) mod logging;
mod reload;
mod settings;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use cavalcade_control::{Agent, Coordinator, CoordinatorConfig, Decentralised, Mode};
use cavalcade_model::PortId;
use cavalcade_policy::Configured;
use cavalcade_report::counted;
use cavalcade_runtime::administration::proto::{Enforcer, Switch};
use cavalcade_runtime::lease::{self, Leadership, LeaseCertificates, LeasePlace};
use cavalcade_runtime::{
    About, AgentSockets, Capacity, CoordinatorSockets, Hangups, Reloading, Role, Stop, UnixSocket,
    bind_administration_socket, bind_client_socket, block_on, ready, serve_agent, serve_coordinator,
    stop_on_signals,
};
use clap::Args;
use tokio::net::{TcpListener, UdpSocket};

use crate::arguments::{AgentOptions, Component, CoordinatorOptions, SwitchOptions, UpFlags};
use crate::failure::{Failure, Kind};
use crate::output::tell;
use config::File;
pub(crate) use counters::counters_path;
use reload::Reloader;
use settings::{Gatekeeping, Site, about, own_policy};
pub(crate) use settings::{addresses, allow, distinct, identity};

/// What flags say that all components have.
fn shared<T: Args>(Component { site, log, .. }: &Component<T>) -> File {
    File { site: site.clone(), log: log.clone(), ..File::default() }
}

/// `cavalcade coordinator`.
pub(crate) fn coordinator(command: &Component<CoordinatorOptions>) -> Result<(), Failure> {
    let path = command.file.config.as_deref();
    let flags = File { coordinator: command.own.clone(), ..shared(command) };
    let (File { site, coordinator: options, log, .. }, text) = config::read(path, &flags)?;
    let site = Site::new(site)?;
    let (config, policy) = site.coordinator(&options.deciding)?;
    let gates = Gatekeeping::new(options.access.clone(), &flags.coordinator.access, Role::Coordinator)?;
    let listen = options.listen();
    [Some(listen), gates.access.metrics]
        .into_iter()
        .flatten()
        .try_for_each(|address| gates.check(address))?;
    let log = logging::start(&log);
    let tables = &["coordinator", "site", "log"];
    let reloading = Reloading::from(Reloader::new(path, &text, tables, flags, log.level.clone()));
    let lease = options.lease.as_ref();
    let certificates = lease_certificates(lease, options.lease_certificates.as_deref())?;
    if let Some(LeasePlace::Etcd { servers, is_secure: false, .. }) = lease {
        let help = "speak to it over TLS, as etcds://ADDRESS:PORT/KEY with --lease-certificates";
        servers
            .iter()
            .try_for_each(|server| allow(*server, gates.access.insecure).map_err(|no| no.help(help)))?;
    }
    let lease = lease.map(|place| (place, certificates.as_ref()));
    let about = about(&policy, config.shadow, &site);
    let capacity = settings::capacity(&gates.access);
    let served = Served { gates, about, capacity, reloading };
    let (mut config, started) = (config, std::time::Instant::now());
    if let Some((place, _)) = lease {
        bound("a lease", place, place.check()).map_err(|error| serving("coordinator", &error))?;
    }
    let mut above = 0;
    loop {
        let policy = Box::new(policy.clone());
        let ended = block_on(lead(listen, lease, config, policy, &served, above));
        match ended.map_err(|error| serving("coordinator", &error))? {
            Ended::Stopped => return Ok(()),
            Ended::LostLease => {}
            // The lease says who leads: stand by, and lead above that term when the lease is free.
            Ended::Deposed(term) if lease.is_some() => above = term,
            // A clock that was set back: a coordinator that has just started goes above those
            // before it.
            Ended::Deposed(term) if started.elapsed() < JUST_STARTED => {
                tracing::warn!(term, "the clock is behind that of a former coordinator: its term is passed");
                config.term = term.saturating_add(1);
            }
            Ended::Deposed(_) => {
                return Err(Failure::new(Kind::Runtime, "agents obey another coordinator, of a higher term")
                    .help("stop that one, or run this one as its standby with the same --lease"));
            }
        }
    }
}

/// For how long a coordinator without a lease takes a higher term for that of a former one.
const JUST_STARTED: std::time::Duration = std::time::Duration::from_secs(10);

/// The reason for which a coordinator does not serve any more.
enum Ended {
    Stopped,
    LostLease,
    /// By this term.
    Deposed(u64),
}

/// Reads the certificates of the connection to etcd from the folder that flags or the file name.
fn lease_certificates(
    lease: Option<&LeasePlace>,
    folder: Option<&Path>,
) -> Result<Option<LeaseCertificates>, Failure> {
    let is_secure = matches!(lease, Some(LeasePlace::Etcd { is_secure: true, .. }));
    match folder {
        None if is_secure => Err(Failure::usage(
            "etcd is reached over TLS, and no authority is given for it",
        )
        .help("name a folder with the authority.pem of etcd's certificates with --lease-certificates")),
        Some(_) if !is_secure => {
            Err(Failure::usage("there are certificates for etcd, and no etcd is reached over TLS")
                .help("name it as etcds://ADDRESS:PORT/KEY with --lease"))
        }
        folder => {
            folder.map(LeaseCertificates::load).transpose().map_err(|error| Failure::input(error.to_string()))
        }
    }
}

/// The sockets and settings of a coordinator, leading or standing by.
struct Served {
    gates: Gatekeeping,
    about: About,
    capacity: Capacity,
    reloading: Reloading,
}

/// Says to a monitoring system that this coordinator stands by.
async fn stand_by(gates: &Gatekeeping) -> io::Result<Infallible> {
    match metrics_listener(gates.access.metrics).await? {
        Some(listener) => cavalcade_runtime::stand_by(listener, gates.identity.as_ref()).await,
        None => std::future::pending().await,
    }
}

/// Waits for the lease, where there is one, and serves as long as it is kept.
async fn lead(
    listen: SocketAddr,
    lease: Option<(&LeasePlace, Option<&LeaseCertificates>)>,
    config: CoordinatorConfig,
    policy: Box<Configured>,
    served: &Served,
    above: u64,
) -> io::Result<Ended> {
    let Served { gates, about, capacity, reloading } = served;
    let (mut stop, mut hangups) = (stop_on_signals()?, Hangups::new()?);
    let mut leadership = match lease {
        None => None,
        Some((place, certificates)) => {
            // To stand by is what a standby is to do: its manager need not wait.
            ready();
            let acquired = lease::acquire(place, certificates, above);
            tokio::pin!(acquired);
            loop {
                tokio::select! {
                    leadership = &mut acquired => break Some(bound("a lease", place, leadership)?),
                    failed = stand_by(gates) => return failed.map(|never| match never {}),
                    () = hangups.reload(reloading) => {}
                    _ = stop.changed() => return Ok(Ended::Stopped),
                }
            }
        }
    };
    let term = leadership.as_ref().map_or(config.term, Leadership::term);
    let agents = bound("agents", listen, TcpListener::bind(listen).await)?;
    let at = agents.local_addr()?;
    let administration = administration_socket(gates.access.administration.as_deref(), || {
        runtime_folder().join(format!("cavalcade-coordinator-{}.sock", at.port()))
    })?;
    let metrics = metrics_listener(gates.access.metrics).await?;
    let hosts = counted(config.ports as usize, "host");
    tracing::info!("coordinator for {hosts} at {at}, policy {}", policy.label());
    let (identity, about, capacity) = (gates.identity.clone(), about.clone(), *capacity);
    let reloading = reloading.clone();
    let sockets =
        CoordinatorSockets { agents, identity, administration, metrics, about, capacity, reloading };
    ready();
    let coordinator = Coordinator::new(CoordinatorConfig { term, ..config }, policy);
    let lost = async {
        match &mut leadership {
            Some(leadership) => leadership.lost().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        served = serve_coordinator(coordinator, sockets, stop) => {
            served.map(|served| {
                if served.is_deposed() { Ended::Deposed(served.highest_term()) } else { Ended::Stopped }
            })
        }
        () = lost => Ok(Ended::LostLease),
    };
    if let Some(leadership) = leadership {
        leadership.give_up().await;
    }
    ended
}

/// `cavalcade agent`.
pub(crate) fn agent(command: &Component<AgentOptions>) -> Result<(), Failure> {
    let path = command.file.config.as_deref();
    let flags = File { agent: command.own.clone(), ..shared(command) };
    let (File { site, agent: options, log, .. }, text) = config::read(path, &flags)?;
    let site = Site::new(site)?;
    let config = site.agent(&options)?;
    let own = own_decision(&flags.agent, &options)?;
    let coordinators = if own.is_some() { Vec::new() } else { options.coordinators.clone() };
    if coordinators.is_empty() && own.is_none() {
        return Err(Failure::usage("this agent has neither a coordinator nor a policy")
            .help("name a coordinator with --coordinator ADDRESS, or a policy to run here with --policy"));
    }
    let gates = Gatekeeping::new(options.access.clone(), &flags.agent.access, Role::Agent(config.port))?;
    let capacity = settings::capacity(&options.access);
    let peer_port = options.peer_port();
    let peers: Vec<SocketAddr> = site
        .hosts
        .iter()
        .filter(|_| own.is_some())
        .map(|host| SocketAddr::new(host.address, peer_port))
        .collect();
    let outside = coordinators.iter().chain(&peers).chain(&gates.access.metrics);
    outside.into_iter().try_for_each(|address| gates.check(*address))?;
    if let (true, Some(identity)) = (own.is_some(), &gates.identity) {
        identity.pairs().map_err(|error| Failure::input(error.to_string()))?;
    }
    let log = logging::start(&log);
    let tables = &["agent", "site", "log"];
    let reloading = Reloading::from(Reloader::new(path, &text, tables, flags, log.level.clone()));
    let (shadow, path) = (options.shadow, socket_path(options.socket.as_deref()));
    block_on(async {
        let clients = bound("clients", path.display(), bind_client_socket(&path))?;
        let administration =
            administration_socket(gates.access.administration.as_deref(), || administration_path(&path))?;
        let metrics = metrics_listener(gates.access.metrics).await?;
        let peers = match peers.get(config.port.index()) {
            None => None,
            Some(&own) => {
                let socket = bound("other agents", own, UdpSocket::bind(own).await)?;
                Some((socket, (0..).map(PortId).zip(peers.iter().copied()).collect()))
            }
        };
        let who =
            own.as_ref().map_or("by a coordinator".to_owned(), |own| format!("by {} here", own.label()));
        let (port, ports) = (config.port.0, config.ports);
        tracing::info!("agent at port {port} of {ports}, scheduled {who}; clients at {}", path.display());
        let about = match &own {
            Some(own) => about(own, shadow, &site),
            None => About { shadow, hosts: settings::addresses(&site.hosts), ..About::default() },
        };
        let mode = match own {
            Some(own) => Mode::Decentralised(Box::new(Decentralised::new(&config, Box::new(own)))),
            None => Mode::Coordinated,
        };
        let identity = gates.identity;
        let sockets = AgentSockets {
            clients,
            coordinators,
            peers,
            identity,
            administration,
            metrics,
            about,
            capacity,
            reloading,
        };
        let _counters = counters::hold(&options.clients, &path)?;
        let stop = stop_on_signals()?;
        ready();
        serve_agent(Agent::new(config, mode), sockets, stop).await
    })
    .map_err(|error| serving("agent", &error))
}

/// The policy that an agent decides by itself, unless flags name a coordinator, or the file does
/// and flags no policy.
fn own_decision(flags: &AgentOptions, options: &AgentOptions) -> Result<Option<Configured>, Failure> {
    let spec = options.policy.as_deref().filter(|_| flags.coordinators.is_empty());
    if flags.policy.is_none() && spec.is_some() && !options.coordinators.is_empty() {
        return Err(Failure::input("the file names a policy and coordinators for the agent")
            .help("remove one of the two: an agent decides by itself or obeys a coordinator"));
    }
    spec.map(|spec| own_policy(spec, options.by_class)).transpose()
}

/// The address of the coordinator of `cavalcade up`: for its own agent alone, at a port that the
/// system chooses.
const ANY_LOCAL_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// `cavalcade up`: a coordinator and the agent of this host in one process.
pub(crate) fn up(command: &Component<UpFlags>) -> Result<(), Failure> {
    let path = command.file.config.as_deref();
    let (coordinator, agent) = (command.own.of_coordinator(), command.own.of_agent());
    let flags = File { coordinator, agent, ..shared(command) };
    let (file, text) = config::read(path, &flags)?;
    file.check_for_up()?;
    let File { site, coordinator: options, agent: mut of_agent, log, .. } = file;
    let site = Site::or_this_host(site)?;
    of_agent.port = of_agent.port.or(Some(0));
    // Its coordinator leaves the gates open.
    of_agent.by_class = false;
    let (coordinator_config, policy) = site.coordinator(&options.deciding)?;
    let agent_config = site.agent(&of_agent)?;
    let listen = options.listen.unwrap_or(ANY_LOCAL_PORT);
    let is_insecure = options.access.insecure || of_agent.access.insecure;
    let (metrics, agent_metrics) = (options.access.metrics, of_agent.access.metrics);
    let served = [Some(listen), metrics, agent_metrics];
    served.into_iter().flatten().try_for_each(|address| allow(address, is_insecure))?;
    let log = logging::start(&log);
    let reloading =
        |tables| Reloading::from(Reloader::new(path, &text, tables, flags.clone(), log.level.clone()));
    let (of_agents, reloading) = (reloading(&["agent"]), reloading(&["coordinator", "site", "log"]));
    let path = socket_path(of_agent.socket.as_deref());
    let about = about(&policy, coordinator_config.shadow, &site);
    let hosts = settings::addresses(&site.hosts);
    let about_agent = About { shadow: of_agent.shadow, hosts, ..About::default() };
    block_on(async {
        let clients = bound("clients", path.display(), bind_client_socket(&path))?;
        let agents = bound("agents", listen, TcpListener::bind(listen).await)?;
        let at = agents.local_addr()?;
        let named = options.access.administration.as_deref();
        let administration = administration_socket(named, || path.with_extension("coordinator.sock"))?;
        let named = of_agent.access.administration.as_deref();
        let at_agent = administration_socket(named, || administration_path(&path))?;
        let metrics = metrics_listener(metrics).await?;
        let agent_metrics = metrics_listener(agent_metrics).await?;
        tracing::info!("coordinator at {at}, policy {}; clients at {}", policy.label(), path.display());
        let _counters = counters::hold(&of_agent.clients, &path)?;
        let stop = stop_on_signals()?;
        ready();
        let sockets = AgentSockets {
            coordinators: vec![reachable(at)],
            administration: at_agent,
            reloading: of_agents,
            metrics: agent_metrics,
            about: about_agent,
            capacity: settings::capacity(&of_agent.access),
            ..AgentSockets::new(clients)
        };
        let agent = serve_agent(Agent::new(agent_config, Mode::Coordinated), sockets, stop.clone());
        let coordinator = Coordinator::new(coordinator_config, Box::new(policy));
        let capacity = settings::capacity(&options.access);
        let sockets =
            CoordinatorSockets { administration, metrics, about, capacity, reloading, ..agents.into() };
        both(serve_coordinator(coordinator, sockets, stop), agent).await
    })
    .map_err(|error| serving("agent", &error))
}

/// Both to their ends.
async fn both(
    coordinator: impl Future<Output = io::Result<Coordinator>>,
    agent: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let (coordinator, agent) = tokio::join!(coordinator, agent);
    coordinator?;
    agent
}

/// Returns what was bound, or an error that says for whom and where.
fn bound<T>(whom: &str, place: impl std::fmt::Display, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen for {whom} at {place}: {error}"))
    })
}

/// Binds the administration socket. One that was asked for has to be bound; the default need not.
fn administration_socket(
    given: Option<&Path>,
    default: impl FnOnce() -> PathBuf,
) -> io::Result<Option<UnixSocket>> {
    if let Some(path) = given {
        return bound("administrators", path.display(), bind_administration_socket(path)).map(Some);
    }
    let path = default();
    match bind_administration_socket(&path) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) => {
            let path = path.display();
            tracing::warn!("no administration at {path}: {error}; name a place with --administration");
            Ok(None)
        }
    }
}

async fn metrics_listener(address: Option<SocketAddr>) -> io::Result<Option<TcpListener>> {
    let Some(address) = address else { return Ok(None) };
    bound("a monitoring system", address, TcpListener::bind(address).await).map(Some)
}

/// An address at which a listener on all addresses can be reached from the same host.
fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(_) => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
    };
    SocketAddr::new(ip, at.port())
}

/// Shows a switch to administrators and monitoring systems until `stop` is true. `ready` is told
/// once both listen, or why they cannot.
pub(crate) fn show_switch(
    options: &SwitchOptions,
    id: u64,
    look: impl Fn() -> Option<Switch>,
    stop: Stop,
    ready: impl Fn(Result<(), Failure>),
) {
    let served = block_on(async {
        let default = || runtime_folder().join(format!("cavalcade-switch-{id:016x}.sock"));
        let administration = administration_socket(options.administration.as_deref(), default)?;
        if administration.is_none() {
            tell(
                "no administration: its socket cannot be made where sockets are; name a place with --administration",
            );
        }
        let metrics = metrics_listener(options.metrics).await?;
        ready(Ok(()));
        cavalcade_runtime::show_switch(administration, metrics, look, stop).await
    });
    if let Err(error) = served {
        ready(Err(serving("switch", &error)));
    }
}

/// Shows an enforcer to administrators and monitoring systems until `stop` is true. `ready` is told
/// once both listen, or why they cannot.
pub(crate) fn show_enforcer(
    (administration, given): (PathBuf, bool),
    metrics: Option<SocketAddr>,
    look: impl Fn() -> Option<Enforcer>,
    stop: Stop,
    ready: impl Fn(Result<(), Failure>),
) {
    let served = block_on(async {
        let given = given.then_some(administration.as_path());
        let administration = administration_socket(given, || administration.clone())?;
        let metrics = metrics_listener(metrics).await?;
        ready(Ok(()));
        cavalcade_runtime::show_enforcer(administration, metrics, look, stop).await
    });
    if let Err(error) = served {
        ready(Err(serving("enforcer", &error)));
    }
}

/// Returns the default folder of sockets.
pub(crate) fn runtime_folder() -> PathBuf {
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run"), PathBuf::from)
}

/// The place of the agent's socket, for the program as for the client libraries.
pub(crate) const SOCKET: &str = "CAVALCADE_SOCKET";

/// Returns the path of the agent's socket for clients.
pub(crate) fn socket_path(given: Option<&Path>) -> PathBuf {
    let named = || std::env::var_os(SOCKET).filter(|path| !path.is_empty()).map(PathBuf::from);
    given.map(Path::to_path_buf).or_else(named).unwrap_or_else(|| runtime_folder().join("cavalcade.sock"))
}

/// Returns the path of the administration socket of the agent whose clients connect at `clients`.
pub(crate) fn administration_path(clients: &Path) -> PathBuf {
    clients.with_extension("administration.sock")
}

fn serving(what: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(Kind::Runtime, format!("the {what} cannot serve: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.help("stop what listens there, or name another place"),
        io::ErrorKind::AddrNotAvailable => {
            failure.help("that is not an address of this host: name one that is")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            failure.help("name a place in a folder that exists and that you may write to, as with --socket")
        }
        _ => failure,
    }
}

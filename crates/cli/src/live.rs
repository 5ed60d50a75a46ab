//! `cavalcade coordinator`, `agent` and `up`: the live system in the foreground, until Ctrl-C.
//!
//! Hosts are named in one list that is the same everywhere; a host's place in it is its port.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use cavalcade_control::{Agent, AgentConfig, Coordinator, CoordinatorConfig, Decentralised, Mode};
use cavalcade_model::{Bytes, Nanos, PolicyFactory, PortId, Scope};
use cavalcade_policy::Configured;
use cavalcade_runtime::{
    AgentSockets, Clock, bind_client_socket, block_on, ready, serve_agent, serve_coordinator, stop_on_signals,
};

use crate::arguments::{AgentOptions, CoordinatorOptions, Site, Up};
use crate::failure::{Failure, Kind};
use crate::output::tell;
use crate::policies::configured;

/// What peers said is forgotten after this time (D-CAS §V-A).
const EXPIRY: Nanos = Nanos::from_secs(2);

/// `cavalcade coordinator`.
pub(crate) fn coordinator(options: &CoordinatorOptions) -> Result<(), Failure> {
    let policy = fabric_policy(&options.policy)?;
    let _lease = options.lease.as_deref().map(wait_for_lease).transpose()?;
    let config = coordinator_config(&options.site, options.period, &policy);
    let served = block_on(async {
        let listener = tokio_listener(options.listen).await?;
        let at = listener.local_addr()?;
        tell(&format!("coordinator for {} hosts at {at}, policy {}", config.ports, policy.label()));
        let stop = stop_on_signals()?;
        ready();
        serve_coordinator(Coordinator::new(config, Box::new(policy)), listener, stop).await
    });
    let coordinator = served.map_err(|error| serving("coordinator", &options.listen.to_string(), &error))?;
    if coordinator.is_deposed() {
        return Err(Failure::new(Kind::Runtime, "agents obey another coordinator, of a higher term")
            .help("stop that one, or run this one as its standby with the same --lease"));
    }
    Ok(())
}

/// `cavalcade agent`.
pub(crate) fn agent(options: &AgentOptions) -> Result<(), Failure> {
    let config = agent_config(&options.site, options.port, options.shadow)?;
    if options.coordinator.is_empty() && options.policy.is_none() {
        return Err(Failure::usage("nobody decides for this agent")
            .help("name a coordinator with --coordinator ADDRESS, or a policy to run here with --policy"));
    }
    let own = options.policy.as_deref().map(own_policy).transpose()?;
    let path = socket_path(options.socket.as_deref());
    let hosts = &options.site.hosts;
    block_on(async {
        let clients = bind_client_socket(&path)?;
        let peers = match &own {
            None => None,
            Some(_) => {
                let at = |host: &IpAddr| SocketAddr::new(*host, options.peer_port);
                let socket = bind_udp(at(&hosts[options.port as usize])).await?;
                let addresses = hosts.iter().enumerate();
                Some((socket, addresses.map(|(port, host)| (PortId::from_index(port), at(host))).collect()))
            }
        };
        let who =
            own.as_ref().map_or("by a coordinator".to_owned(), |own| format!("by {} here", own.label()));
        tell(&format!(
            "agent at port {} of {}, scheduled {who}; clients at {}",
            options.port,
            hosts.len(),
            path.display()
        ));
        let mode = match own {
            Some(own) => Mode::Decentralised(Box::new(Decentralised::new(&config, Box::new(own), EXPIRY))),
            None => Mode::Coordinated,
        };
        let sockets = AgentSockets { clients, coordinators: options.coordinator.clone(), peers };
        let stop = stop_on_signals()?;
        ready();
        serve_agent(Agent::new(config, mode), sockets, stop).await
    })
    .map_err(|error| serving("agent", &path.display().to_string(), &error))
}

/// `cavalcade up`: a coordinator and the agent of this host in one process.
pub(crate) fn up(options: &Up) -> Result<(), Failure> {
    let policy = fabric_policy(&options.policy)?;
    let path = socket_path(options.socket.as_deref());
    let coordinator_config = coordinator_config(&options.site, options.period, &policy);
    let agent_config = agent_config(&options.site, options.port, false)?;
    block_on(async {
        let clients = bind_client_socket(&path)?;
        let listener = tokio_listener(options.listen).await?;
        let at = listener.local_addr()?;
        tell(&format!("coordinator at {at}, policy {}; clients at {}", policy.label(), path.display()));
        let stop = stop_on_signals()?;
        ready();
        let sockets = AgentSockets { clients, coordinators: vec![reachable(at)], peers: None };
        let agent = serve_agent(Agent::new(agent_config, Mode::Coordinated), sockets, stop.clone());
        let coordinator = Coordinator::new(coordinator_config, Box::new(policy));
        both(serve_coordinator(coordinator, listener, stop), agent).await
    })
    .map_err(|error| serving("agent", &path.display().to_string(), &error))
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

async fn tokio_listener(at: SocketAddr) -> io::Result<tokio::net::TcpListener> {
    tokio::net::TcpListener::bind(at).await
}

async fn bind_udp(at: SocketAddr) -> io::Result<tokio::net::UdpSocket> {
    tokio::net::UdpSocket::bind(at).await
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

fn coordinator_config(site: &Site, period: Nanos, policy: &Configured) -> CoordinatorConfig {
    let ports = site.hosts.len() as u32;
    let term = Clock::default().now().0;
    let config = CoordinatorConfig::new(term, ports, site.rate);
    CoordinatorConfig {
        period,
        lease: Nanos(period.0.saturating_mul(10)),
        quiet: quiet(policy, ports),
        ..config
    }
}

fn agent_config(site: &Site, port: u32, shadow: bool) -> Result<AgentConfig, Failure> {
    let ports = site.hosts.len() as u32;
    if port >= ports {
        return Err(Failure::usage(format!("there is no port {port} among {ports} hosts"))
            .help("ports count from 0, in the order of --hosts"));
    }
    let directory =
        site.hosts.iter().enumerate().map(|(port, host)| (*host, PortId::from_index(port))).collect();
    let session = Clock::default().now().0;
    Ok(AgentConfig { directory, shadow, ..AgentConfig::new(PortId(port), ports, session, site.rate) })
}

/// The policy of a coordinator. Staleness is the system's own here: `dclas` is not to wait for multiples of its `sync`
/// besides.
fn fabric_policy(spec: &str) -> Result<Configured, Failure> {
    let mut policy = configured(spec)?;
    if policy.name() == "dclas" && !spec.contains("sync=") {
        let separator = if spec.contains(':') { ',' } else { ':' };
        policy = configured(&format!("{spec}{separator}sync=0ms"))?;
    }
    match policy.terms().scope {
        Scope::Fabric => Ok(policy),
        _ => Err(Failure::usage(format!("{} decides at hosts, not at a coordinator", policy.name()))
            .help(format!("run it at agents: cavalcade agent --policy {spec}"))),
    }
}

/// The policy of an agent without a coordinator.
fn own_policy(spec: &str) -> Result<Configured, Failure> {
    let policy = configured(spec)?;
    match policy.terms().scope {
        Scope::Fabric => Err(Failure::usage(format!("{} needs to see the whole fabric", policy.name()))
            .help(format!("run it at a coordinator: cavalcade coordinator --policy {spec}"))),
        _ => Ok(policy),
    }
}

/// What a coflow may send at an agent before anybody else need know: with `dclas`, less than its share of the first
/// threshold at every host is less than the threshold in all.
fn quiet(policy: &Configured, ports: u32) -> Bytes {
    let threshold = policy.params().into_iter().find(|(name, _)| *name == "first_threshold");
    let threshold =
        threshold.filter(|_| policy.name() == "dclas").and_then(|(_, text)| text.parse::<Bytes>().ok());
    Bytes(threshold.unwrap_or_default().0 / u64::from(ports.max(1)))
}

/// Where clients find the agent.
fn socket_path(given: Option<&Path>) -> PathBuf {
    if let Some(given) = given {
        return given.to_path_buf();
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    folder.join("cavalcade.sock")
}

/// Waits until nobody else holds the lock on a file; it is held as long as what is returned.
fn wait_for_lease(path: &Path) -> Result<std::fs::File, Failure> {
    let open = std::fs::File::options().create(true).append(true).open(path);
    let file = open.map_err(|error| Failure::file("open", path, &error))?;
    if file.try_lock().is_err() {
        tell(&format!("standing by: another coordinator holds {}", path.display()));
        file.lock().map_err(|error| Failure::file("lock", path, &error))?;
    }
    Ok(file)
}

fn serving(what: &str, at: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(Kind::Runtime, format!("the {what} cannot serve at {at}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.help("stop what listens there, or name another place"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            failure.help("name a place in a folder that exists and that you may write to, as with --socket")
        }
        _ => failure,
    }
}

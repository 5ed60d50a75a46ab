//! From flags and file to what a component is started with: flags win, then the file, then
//! defaults.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use cavalcade_control::{AgentConfig, CoordinatorConfig};
use cavalcade_model::{BitsPerSec, Bytes, Nanos, PolicyFactory, PortId, Scope};
use cavalcade_policy::Configured;
use cavalcade_protocol::{Directory, Host, outside};
use cavalcade_runtime::{About, Capacity, Clock, Identity, Role, own_prefixes};

use crate::arguments::{Access, AgentOptions, Deciding, SiteOptions};
use crate::failure::{Failure, Kind};
use crate::policies::configured;

/// The classes of packets that switches tell apart.
const CLASSES: u32 = cavalcade_control::CLASSES as u32;

/// Checks that no address is of two hosts: one of them would be a port of the fabric that no agent
/// ever serves, or gets what is the other's. A prefix may lie within another host's: the longer one
/// wins.
///
/// # Errors
/// The first that is, with its places.
pub(crate) fn distinct(hosts: &[Host]) -> Result<(), String> {
    for (later, host) in hosts.iter().enumerate() {
        for named in host.prefixes() {
            let first = hosts[..later].iter().position(|other| other.prefixes().any(|other| other == named));
            if let Some(first) = first {
                return Err(format!(
                    "{named} is named twice, as ports {first} and {later}: name each host once"
                ));
            }
        }
    }
    Ok(())
}

/// The addresses at which the hosts' agents and enforcers are found, from port 0 on.
pub(crate) fn addresses(hosts: &[Host]) -> Vec<IpAddr> {
    hosts.iter().map(|host| host.address).collect()
}

/// All hosts, and what each can carry.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) hosts: Vec<Host>,
    pub(super) rate: BitsPerSec,
}

impl Site {
    /// # Errors
    /// If neither the flags nor the file name a host, or one is named twice.
    pub(super) fn new(options: SiteOptions) -> Result<Self, Failure> {
        if options.hosts.is_empty() {
            return Err(Failure::usage("no hosts are named")
                .help("name them with --hosts 10.0.0.1,10.0.0.2, or in a file with --config"));
        }
        Self::or_this_host(options)
    }

    /// The hosts named, or this one alone where none is.
    ///
    /// # Errors
    /// If one is named twice.
    pub(super) fn or_this_host(options: SiteOptions) -> Result<Self, Failure> {
        let (rate, mut hosts) = (options.rate(), options.hosts);
        // Those of the file have been checked.
        distinct(&hosts).map_err(|twice| Failure::usage(format!("--hosts: {twice}")))?;
        if hosts.is_empty() {
            hosts = vec![IpAddr::V4(std::net::Ipv4Addr::LOCALHOST).into()];
        }
        Ok(Self { hosts, rate })
    }

    /// Makes the configuration of a coordinator.
    ///
    /// # Errors
    /// If the policy is unknown or none for a coordinator.
    pub(super) fn coordinator(
        &self,
        deciding: &Deciding,
    ) -> Result<(CoordinatorConfig, Configured), Failure> {
        let &Deciding { by_class, shadow, confirm, .. } = deciding;
        let policy = fabric_policy(&deciding.policy())?;
        let policy = if by_class { policy.for_queues(CLASSES) } else { policy };
        let period = deciding.period();
        let hold = deciding.hold.unwrap_or(Nanos(period.0.saturating_mul(10)));
        if hold < Nanos(period.0.saturating_mul(4)) {
            return Err(Failure::usage(format!(
                "orders that hold for {hold} run out between reports every {period}"
            ))
            .help("name at least four periods with --hold"));
        }
        let ports = self.hosts.len() as u32;
        let config = CoordinatorConfig {
            period,
            lease: hold,
            quiet: policy.quiet(ports).min(self.unnoticed(period)),
            by_class,
            shadow,
            confirm,
            ..CoordinatorConfig::new(Clock::default().now().0, ports, self.rate)
        };
        Ok((config, policy))
    }

    /// The most that a coflow may send here before it is reported: an eighth of what a line carries
    /// in a period. A policy that keeps small coflows to themselves takes the network to let them
    /// pass; between hosts they share the line with all that does not know of them.
    fn unnoticed(&self, period: Nanos) -> Bytes {
        let bits = u128::from(self.rate.0) * u128::from(period.0) / 1_000_000_000;
        Bytes(u64::try_from(bits / 8 / 8).unwrap_or(u64::MAX))
    }

    /// Makes the configuration of the agent at the port that is named; without one, at the port
    /// whose address is this host's.
    ///
    /// # Errors
    /// If there is no such port, or it is not clear which this host is.
    pub(super) fn agent(&self, options: &AgentOptions) -> Result<AgentConfig, Failure> {
        let ports = self.hosts.len() as u32;
        let port = match options.port {
            Some(port) => port,
            None => self.own_port()?,
        };
        if port >= ports {
            return Err(Failure::usage(format!("there is no port {port} among {ports} hosts"))
                .help("ports count from 0, in the order of --hosts"));
        }
        let mut directory = Directory::of_hosts(&self.hosts);
        // What the site names is as it says; all else that is this host's own never crosses its
        // link.
        own_prefixes().into_iter().for_each(|own| directory.add(own, PortId(port)));
        if !options.plain_outside {
            directory = directory.with_outside(outside(ports, PortId(port)));
        }
        let session = Clock::default().now().0;
        Ok(AgentConfig {
            directory,
            by_class: options.by_class,
            shadow: options.shadow,
            budget: options.clients.user_budget.unwrap_or_default(),
            ..AgentConfig::new(PortId(port), ports, session, self.rate)
        })
    }

    /// The port whose address is this host's: what can be bound to.
    fn own_port(&self) -> Result<u32, Failure> {
        let is_own = |host: &Host| std::net::UdpSocket::bind(SocketAddr::new(host.address, 0)).is_ok();
        let mut own = self.hosts.iter().enumerate().filter(|(_, host)| is_own(host));
        match (own.next(), own.next()) {
            (Some((port, _)), None) => Ok(port as u32),
            (first, _) => {
                let problem =
                    if first.is_some() { "several of the hosts are" } else { "none of the hosts is" };
                Err(Failure::usage(format!("{problem} at an address of this one"))
                    .help("name this host with --port"))
            }
        }
    }
}

/// The policy of a coordinator.
fn fabric_policy(spec: &str) -> Result<Configured, Failure> {
    let policy = configured(spec)?.live();
    match scope(&policy) {
        Scope::Fabric => Ok(policy),
        _ => Err(Failure::usage(format!("{} decides at hosts, not at a coordinator", policy.name()))
            .help(format!("run it at agents: cavalcade agent --policy {spec}"))),
    }
}

/// The policy of an agent without a coordinator.
///
/// # Errors
/// If it is unknown or needs a coordinator.
pub(super) fn own_policy(spec: &str, by_class: bool) -> Result<Configured, Failure> {
    let policy = configured(spec)?;
    let policy = if by_class { policy.for_queues(CLASSES) } else { policy };
    match scope(&policy) {
        Scope::Fabric => Err(Failure::usage(format!("{} needs to see the whole fabric", policy.name()))
            .help(format!("run it at a coordinator: cavalcade coordinator --policy {spec}"))),
        _ => Ok(policy),
    }
}

fn scope(policy: &Configured) -> Scope {
    cavalcade_model::PolicyFactory::terms(policy).scope
}

/// Returns the limits of a process; those that are not set are by what the system allows.
pub(super) fn capacity(access: &Access) -> Capacity {
    let default = Capacity::of_system();
    Capacity {
        connections: access.max_connections.map_or(default.connections, |most| most as usize),
        bytes: access.max_buffers.map_or(default.bytes, |most| usize::try_from(most.0).unwrap_or(usize::MAX)),
    }
}

/// Returns what administrators are told of a component that decides by `policy`.
pub(super) fn about(policy: &Configured, shadow: bool, site: &Site) -> About {
    let (title, hosts) = (policy.info().title.to_owned(), addresses(&site.hosts));
    About { policy: policy.label(), title, shadow, hosts }
}

/// Limits on who may connect, and the sockets for administrators and monitoring.
#[derive(Debug)]
pub(super) struct Gatekeeping {
    pub(super) identity: Option<Identity>,
    pub(super) access: Access,
}

impl Gatekeeping {
    /// What flags and the file say together; a flag for certificates wins over the file's
    /// `insecure`. The certificate has to be that of `role`.
    ///
    /// # Errors
    /// If certificates cannot be used.
    pub(super) fn new(mut access: Access, flags: &Access, role: Role) -> Result<Self, Failure> {
        access.insecure &= flags.certificates.is_none();
        let folder = access.certificates.as_deref().filter(|_| !access.insecure);
        Ok(Self { identity: folder.map(|folder| identity(folder, role)).transpose()?, access })
    }

    /// Checks that traffic with `address` is allowed: on this host anything, elsewhere only what
    /// certificates protect.
    ///
    /// # Errors
    /// If it would go unencrypted and `--insecure` was not given.
    pub(super) fn check(&self, address: SocketAddr) -> Result<(), Failure> {
        allow(address, self.identity.is_some() || self.access.insecure)
    }
}

/// Checks that clear text does not leave the host unless `is_allowed`.
///
/// # Errors
/// If it would.
pub(crate) fn allow(address: SocketAddr, is_allowed: bool) -> Result<(), Failure> {
    if address.ip().is_loopback() || is_allowed {
        return Ok(());
    }
    Err(Failure::usage(format!("{address} can be reached from other hosts, and there are no certificates")).help(
        "make some with 'cavalcade certificates DIR --hosts N' and name this component's folder with --certificates, or use --insecure",
    ))
}

/// A certificate from `folder`, which has to be that of `role`.
///
/// # Errors
/// If it cannot be used.
pub(crate) fn identity(folder: &Path, role: Role) -> Result<Identity, Failure> {
    let loaded = Identity::load(folder).and_then(|identity| identity.require(role));
    loaded.map_err(|error| {
        Failure::new(Kind::Input, error.to_string())
            .help("'cavalcade certificates DIR --hosts N' makes a folder for each component of a site")
    })
}

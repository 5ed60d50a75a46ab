//! A place for runs: the network, the program's own processes on it, and a folder for sockets and
//! logs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use cavalcade_model::{BitsPerSec, Nanos, Workload};

use crate::decisions::{self, Decision};
use crate::enforcers::{self, Enforcer};
use crate::error::LabError;
use crate::message::{Command, Event};
use crate::namespaces::{self, Losses, Namespaces, Ports};
use crate::process::{Launch, Process};
use crate::racks::Place;
use crate::run::{Congestion, Enforcement, Racks, Setup, SwitchedBy, Transport};
use crate::workload::Scheduler;

/// The prefix of names of folders; the number of the lab's process stands behind it.
const FOLDER: &str = "cavalcade-lab-";
/// The time within which a host comes up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns what labs left behind whose processes are gone: names of namespaces, and paths of
/// control groups and folders.
pub fn find_stale() -> Vec<String> {
    let paths = enforcers::find_stale().into_iter().chain(stale_folders());
    namespaces::find_stale().into_iter().chain(paths.map(|path| path.display().to_string())).collect()
}

/// Removes what labs left behind whose processes are gone, and returns what that was.
pub fn remove_stale() -> Vec<String> {
    let names = namespaces::find_stale();
    names.iter().for_each(|name| namespaces::remove(name));
    let groups = enforcers::find_stale().into_iter().filter(|path| enforcers::remove_stale(path));
    let folders = stale_folders().into_iter().filter(|path| std::fs::remove_dir_all(path).is_ok());
    let paths = groups.chain(folders).map(|path| path.display().to_string());
    names.into_iter().chain(paths).collect()
}

fn stale_folders() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) else { return Vec::new() };
    let is_stale = |name: &str| {
        let owner = name.strip_prefix(FOLDER).and_then(|owner| owner.parse().ok());
        owner.is_some_and(namespaces::is_gone)
    };
    let stale = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_stale));
    stale.map(|entry| entry.path()).collect()
}

/// A folder that goes when it is dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self, LabError> {
        let path = std::env::temp_dir().join(format!("{FOLDER}{}", std::process::id()));
        let made = std::fs::create_dir(&path);
        made.map_err(LabError::system(format!("make the folder {}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The network, and where things are.
#[derive(Debug)]
pub(crate) struct Site {
    setup: Setup,
    hosts: u32,
    /// The number of coflows that each host sends of.
    coflows: Vec<usize>,
    coordinator: SocketAddr,
    peer_port: u16,
    // Fields are dropped in order: namespaces go before the folder with their logs.
    namespaces: Option<Namespaces>,
    folder: Folder,
}

impl Site {
    /// Builds the network for `hosts` hosts, between which `workload` is to be replayed.
    pub(crate) fn build(setup: &Setup, hosts: u32, workload: &Workload) -> Result<Self, LabError> {
        let mut coflows = vec![0; hosts as usize];
        for coflow in workload.coflows() {
            let senders: BTreeSet<usize> =
                workload.flows_of(coflow.id).iter().map(|flow| flow.src.index()).collect();
            senders.into_iter().for_each(|host| coflows[host] += 1);
        }
        let folder = Folder::make()?;
        let (namespaces, coordinator, peer_port) = match setup.transport {
            Transport::Namespaces => {
                let at = SocketAddr::new(namespaces::coordinator_address(), namespaces::CONTROL_PORT);
                (Some(Namespaces::build_with(hosts, setup.rate, ports_of(setup))?), at, namespaces::PEER_PORT)
            }
            Transport::Racks(racks) => {
                let at = SocketAddr::new(namespaces::control_coordinator_address(), namespaces::CONTROL_PORT);
                let has_control = setup.enforcement.has_enforcers();
                (Some(racks.build(setup.rate, ports_of(setup), has_control)?), at, namespaces::PEER_PORT)
            }
            Transport::Loopback => {
                let address = IpAddr::V4(Ipv4Addr::new(127, 77, 255, 1));
                let [one, other] = [free_port(address)?, free_port(address)?];
                (None, SocketAddr::new(address, one), other)
            }
        };
        Ok(Self { setup: setup.clone(), hosts, coflows, coordinator, peer_port, namespaces, folder })
    }

    /// True if the kernel carries out orders for processes that know no library.
    pub(crate) fn is_kernel(&self) -> bool {
        self.setup.enforcement == Enforcement::Kernel
    }

    /// The address of a host.
    pub(crate) fn address(&self, host: u32) -> IpAddr {
        if self.namespaces.is_some() {
            return namespaces::host_address(host);
        }
        let [.., high, low] = (host + 1).to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(127, 77, high, low))
    }

    /// The losses since the network was built, where it is one that can lose something.
    pub(crate) fn losses(&self) -> Option<Losses> {
        self.namespaces.as_ref().and_then(Namespaces::losses)
    }

    /// The congestion control, and the rate of payload on hosts' links.
    pub(crate) fn congestion(&self) -> Option<(Congestion, BitsPerSec)> {
        self.setup.congestion.map(|congestion| (congestion, self.payload()))
    }

    /// The rate of payload on hosts' links.
    fn payload(&self) -> BitsPerSec {
        match self.setup.transport {
            Transport::Racks(_) => Racks::payload(self.setup.rate),
            Transport::Namespaces | Transport::Loopback => self.setup.rate,
        }
    }

    /// The policy by whose rule kernels sort messages.
    pub(crate) fn demotion(&self) -> Option<&str> {
        self.setup.demotion.as_deref()
    }

    /// Returns the socket on which a host's agent listens for clients.
    pub(crate) fn socket(&self, host: u32) -> PathBuf {
        self.folder.0.join(format!("agent{host}.sock"))
    }

    /// The folder of sockets and logs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// The command that starts a service of this place.
    pub(crate) fn launch<'a>(&'a self, what: String, namespace: Option<&'a str>) -> Launch<'a> {
        Launch { what, program: &self.setup.program, namespace, folder: &self.folder.0 }
    }

    /// Returns the options that coordinator and agents share. Namespaces of a lab are isolated, so
    /// no certificates are needed.
    fn common(&self) -> Vec<String> {
        let hosts: Vec<String> = (0..self.hosts).map(|host| self.address(host).to_string()).collect();
        let rate = format!("{}bps", self.payload().0);
        ["--hosts", &hosts.join(","), "--rate", &rate, "--insecure"].map(str::to_owned).to_vec()
    }

    /// Starts a coordinator with a policy.
    pub(crate) fn start_coordinator(&self, policy: &str) -> Result<Process, LabError> {
        let (listen, period) = (self.coordinator.to_string(), nanos(self.setup.period));
        let socket = self.folder.0.join("coordinator.sock").display().to_string();
        let own = ["--listen", &listen, "--policy", policy, "--period", &period, "--administration", &socket];
        let own = own.map(str::to_owned);
        let mut options = self.by_class();
        if self.setup.with_decisions {
            options.extend(["--log-format", "json", "--log-level", "debug"].map(str::to_owned));
        }
        let arguments = [vec!["coordinator".to_owned()], self.common(), own.to_vec(), options].concat();
        let namespace = self.namespaces.as_ref().map(Namespaces::of_coordinator);
        self.launch("coordinator".to_owned(), namespace.as_deref()).service(&arguments)
    }

    /// What the coordinator has event of its decisions, for a replay that began at `began`
    /// nanoseconds since 1970.
    pub(crate) fn decisions(&self, began: u64) -> Result<Vec<Decision>, LabError> {
        decisions::read(&self.folder.0.join("coordinator.log"), began)
    }

    /// The option that leaves order to the ports, where they hold to classes.
    fn by_class(&self) -> Vec<String> {
        self.setup.by_class.then(|| "--by-class".to_owned()).into_iter().collect()
    }

    /// Starts the agent of a host.
    pub(crate) fn start_agent(&self, host: u32, scheduler: &Scheduler) -> Result<Process, LabError> {
        let socket = self.socket(host).display().to_string();
        let mut own = ["--port", &host.to_string(), "--socket", &socket].map(str::to_owned).to_vec();
        own.extend(match scheduler {
            Scheduler::Hosts(policy) => {
                let decides = ["--policy", policy, "--peer-port", &self.peer_port.to_string()];
                [decides.map(str::to_owned).to_vec(), self.by_class()].concat()
            }
            _ => vec!["--coordinator".to_owned(), self.coordinator.to_string()],
        });
        let arguments = [vec!["agent".to_owned()], self.common(), own].concat();
        let namespace = self.namespaces.as_ref().map(|namespaces| namespaces.of_host(host));
        self.launch(format!("agent {host}"), namespace.as_deref()).service(&arguments)
    }

    /// Starts the switches of racks.
    fn start_switches(&self) -> Result<Vec<Process>, LabError> {
        let Transport::Racks(racks) = self.setup.transport else { return Ok(Vec::new()) };
        if racks.switches == SwitchedBy::Bridge {
            return Ok(Vec::new());
        }
        let start = |(id, place): (usize, Place)| {
            let socket = self.folder.0.join(format!("{}.switch", place.part)).display().to_string();
            let (id, round_trip) = (id.to_string(), nanos(racks.round_trip));
            let own = ["switch", "--id", &id, "--round-trip", &round_trip, "--administration", &socket];
            let ports = place.ports.into_iter().map(|(name, rate)| format!("--port={name}={}bps", rate.0));
            let carrier = (racks.switches == SwitchedBy::Xdp).then_some("--carrier=xdp");
            let own = own.into_iter().chain(carrier).map(str::to_owned);
            let arguments: Vec<String> = own.chain(ports).collect();
            let namespace = self.namespaces.as_ref().map(|namespaces| namespaces.of(&place.part));
            self.launch(format!("switch {}", place.part), namespace.as_deref()).service(&arguments)
        };
        racks.places(self.setup.rate).into_iter().enumerate().map(start).collect()
    }

    /// Starts the application of a host, which tells `sender` what it says, as the `life`-th of its
    /// host.
    pub(crate) fn start_host(
        &self,
        host: u32,
        life: u32,
        scheduler: &Scheduler,
        sender: &Sender<FromHost>,
    ) -> Result<Application, LabError> {
        let mut arguments =
            vec!["lab-host".to_owned(), "--address".to_owned(), self.address(host).to_string()];
        if scheduler.has_agents() {
            let paths = match (&self.namespaces, self.setup.enforcement) {
                (Some(namespaces), Enforcement::Kernel) => {
                    let group = enforcers::group_of(&namespaces.of_host(host))?;
                    vec![("--door", self.door(host)), ("--group", group)]
                }
                (Some(namespaces), Enforcement::Handed) => {
                    let group = enforcers::group_of(&namespaces.of_host(host))?;
                    vec![("--agent", self.socket(host)), ("--group", group)]
                }
                _ => vec![("--agent", self.socket(host))],
            };
            if self.is_kernel() {
                arguments.extend(["--coflows".to_owned(), self.coflows[host as usize].to_string()]);
            }
            let words =
                paths.iter().flat_map(|(option, path)| [(*option).to_owned(), path.display().to_string()]);
            arguments.extend(words);
        }
        if let (Scheduler::Spc | Scheduler::Rcp, Transport::Racks(racks)) = (scheduler, self.setup.transport)
        {
            let rate = format!("{}bps", self.setup.rate.0);
            let told = ["--stream-rate", &rate, "--round-trip", &nanos(racks.round_trip)].map(str::to_owned);
            arguments.extend(told);
            arguments.extend((*scheduler == Scheduler::Rcp).then(|| "--fair".to_owned()));
        }
        if self.namespaces.is_none() {
            arguments.extend(["--rate".to_owned(), format!("{}bps", self.setup.rate.0)]);
        }
        let namespace = self.namespaces.as_ref().map(|namespaces| namespaces.of_host(host));
        let launched = self.launch(format!("host {host}"), namespace.as_deref()).talker(&arguments)?;
        let (process, input, output) = launched;
        let sender = sender.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str(&line) else { continue };
                if sender.send(FromHost { host, life, event: Some(event) }).is_err() {
                    return;
                }
            }
            let _ = sender.send(FromHost { host, life, event: None });
        });
        Ok(Application { process, input: Some(input), life, listens: None })
    }

    /// Starts all that runs under `scheduler`.
    pub(crate) fn start(&self, scheduler: &Scheduler) -> Result<Running, LabError> {
        let coordinator = match scheduler {
            Scheduler::Coordinator(policy) => Some(self.start_coordinator(policy)?),
            _ => None,
        };
        let with_agents = if scheduler.has_agents() { 0..self.hosts } else { 0..0 };
        let switches = self.start_switches()?;
        let agents =
            with_agents.clone().map(|host| self.start_agent(host, scheduler)).collect::<Result<_, _>>()?;
        let enforcers = match &self.namespaces {
            Some(namespaces) if self.setup.enforcement.has_enforcers() => {
                let start = |host| self.start_enforcer(host, &namespaces.of_host(host));
                with_agents.map(start).collect::<Result<_, _>>()?
            }
            _ => Vec::new(),
        };
        let (sender, events) = channel();
        let hosts = (0..self.hosts).map(|host| self.start_host(host, 0, scheduler, &sender));
        let hosts = hosts.collect::<Result<_, _>>()?;
        let mut running = Running { hosts, enforcers, agents, coordinator, switches, events, sender };
        running.wait_ready()?;
        Ok(running)
    }
}

/// The ports of links, where bridges join hosts.
fn ports_of(setup: &Setup) -> Ports {
    match (setup.enforcement.has_enforcers(), setup.congestion) {
        (false, _) => Ports::Plain,
        (true, None) => Ports::Classes,
        (true, Some(congestion)) => Ports::Marking(congestion.marking),
    }
}

/// A port without a listener.
fn free_port(address: IpAddr) -> Result<u16, LabError> {
    let found = TcpListener::bind(SocketAddr::new(address, 0)).and_then(|listener| listener.local_addr());
    found.map(|at| at.port()).map_err(|error| LabError::Missing {
        what: format!("this machine has no sockets at {address}: {error}"),
        cure: "run it on Linux, where all of 127.0.0.0/8 is the machine itself",
    })
}

fn nanos(time: Nanos) -> String {
    format!("{}ns", time.0)
}

/// Returns the next message of a host's application; nothing where it has ended.
#[derive(Debug)]
pub(crate) struct FromHost {
    pub(crate) host: u32,
    pub(crate) life: u32,
    pub(crate) event: Option<Event>,
}

/// A host's application.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) process: Process,
    input: Option<ChildStdin>,
    pub(crate) life: u32,
    pub(crate) listens: Option<SocketAddr>,
}

impl Application {
    /// Tells it something.
    pub(crate) fn send(&mut self, command: &Command) -> Result<(), LabError> {
        let line = serde_json::to_string(command)
            .map_err(|error| LabError::system("write a command")(error.into()))?;
        let written = self.input.as_mut().map(|input| input.write_all((line + "\n").as_bytes()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.process.failed("takes no commands")),
        }
    }

    /// Tells it that there are no further commands.
    pub(crate) fn finish(&mut self) {
        self.input = None;
    }
}

/// All running processes.
#[derive(Debug)]
pub(crate) struct Running {
    // Applications end before what they talk to.
    pub(crate) hosts: Vec<Application>,
    pub(crate) enforcers: Vec<Enforcer>,
    pub(crate) agents: Vec<Process>,
    pub(crate) coordinator: Option<Process>,
    /// The network that they talk over, where it is made of processes.
    #[allow(dead_code, reason = "they end when they are dropped")]
    pub(crate) switches: Vec<Process>,
    pub(crate) events: Receiver<FromHost>,
    pub(crate) sender: Sender<FromHost>,
}

impl Running {
    /// The processor time of all agents, all enforcers and the coordinator so far.
    pub(crate) fn spent(&self) -> [Nanos; 3] {
        let sum = |parts: &mut dyn Iterator<Item = &Process>| Nanos(parts.map(Process::nanos).sum());
        [
            sum(&mut self.agents.iter()),
            sum(&mut self.enforcers.iter().map(|enforcer| &enforcer.process)),
            sum(&mut self.coordinator.iter()),
        ]
    }

    /// Waits until every host listens.
    pub(crate) fn wait_ready(&mut self) -> Result<(), LabError> {
        let start = Instant::now();
        while let Some(missing) = self.hosts.iter().position(|host| host.listens.is_none()) {
            let message = self.events.recv_timeout(PATIENCE.saturating_sub(start.elapsed()));
            match message {
                Ok(FromHost { host, life, event }) if self.hosts[host as usize].life == life => match event {
                    Some(Event::Ready(at)) => self.hosts[host as usize].listens = Some(at),
                    Some(_) => {}
                    None => return Err(self.hosts[host as usize].process.failed("ended")),
                },
                Ok(_) => {}
                Err(_) => return Err(self.hosts[missing].process.failed("did not come up")),
            }
        }
        Ok(())
    }
}

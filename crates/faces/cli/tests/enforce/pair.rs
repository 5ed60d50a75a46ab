//! Two hosts of a site, as far as one machine has them.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use cavalcade_enforce::{Group, Place as Ground, leftovers};
use cavalcade_testing::{Lines, eventually, skipped};
use serde_json::Value;

use super::support::{Place, Running, serving::json};
use super::{SERVE, able};
use cavalcade_testing::free_port;

/// Two network namespaces, joined by a cable.
pub(crate) struct Namespaces([Running; 2]);

impl Namespaces {
    /// Gives each an address; nothing where this machine can make none.
    pub(crate) fn new(addresses: [&str; 2]) -> Option<Self> {
        let can = Command::new("unshare").args(["--net", "ip", "link", "set", "lo", "up"]).output();
        if !can.is_ok_and(|output| output.status.success()) {
            skipped("network namespaces (root, iproute2)");
            return None;
        }
        let made = Self(addresses.map(|_| namespace()));
        let [one, other] = [0, 1].map(|host| made.process(host));
        let cable = format!("ip link add cable netns {one} type veth peer name cable netns {other}");
        assert!(Command::new("sh").args(["-c", &cable]).status().unwrap().success());
        for (host, address) in addresses.iter().enumerate() {
            let up =
                format!("ip address add {address}/24 dev cable && ip link set cable up && ip link set lo up");
            assert!(made.command(host, "sh").args(["-c", &up]).status().unwrap().success());
        }
        Some(made)
    }

    /// The process that keeps a namespace.
    pub(crate) fn process(&self, host: usize) -> u32 {
        self.0[host].0.id()
    }

    pub(crate) fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        inside(self.process(host), program)
    }
}

/// A command in the network of a process.
pub(crate) fn inside(process: u32, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{process}/ns/net")).arg(program);
    command
}

/// A network namespace of its own, with the process that keeps it.
pub(crate) fn namespace() -> Running {
    let inside = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let host = Running(Command::new("unshare").args(["--net", "sleep", "600"]).spawn().unwrap());
    eventually("a namespace", || inside(&host.0.id().to_string()) != inside("self"));
    host
}

/// What the hosts are like.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The folder with the certificates of the first host's enforcer.
    pub(crate) certificates: &'a str,
    pub(crate) policy: &'a str,
    /// Whether each has a network namespace of its own.
    pub(crate) are_apart: bool,
    /// What stands behind the address of each in the list of hosts.
    pub(crate) behind: [&'a str; 2],
    /// More for the command line of the first host's enforcer.
    pub(crate) more: &'a [&'a str],
}

impl Default for Wanted<'_> {
    fn default() -> Self {
        Self { certificates: "site", policy: "dclas", are_apart: false, behind: [""; 2], more: &[] }
    }
}

/// Each has an address, an agent, and an enforcer for a control group.
pub(crate) struct Pair {
    pub(crate) place: Place,
    pub(crate) addresses: [&'static str; 2],
    groups: [Group; 2],
    enforcers: Vec<Running>,
    _others: Vec<Running>,
    pub(crate) namespaces: Option<Namespaces>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.enforcers.clear();
        for group in &self.groups {
            let _ = leftovers::fix(&Ground::below(group.path()).unwrap());
        }
    }
}

impl Pair {
    /// Makes one for the test of this name.
    pub(crate) fn new(test: &str, wanted: Wanted<'_>) -> Option<Self> {
        let root = able()?;
        let addresses =
            if wanted.are_apart { ["10.99.1.1", "10.99.1.2"] } else { ["127.0.0.1", "127.0.0.2"] };
        let namespaces = if wanted.are_apart { Some(Namespaces::new(addresses)?) } else { None };
        let groups = ["one", "two"].map(|host| {
            Group::make(&root, &format!("cavalcade-pair-{}-{test}-{host}", std::process::id())).unwrap()
        });
        let (enforcers, others) = (Vec::new(), Vec::new());
        let mut made =
            Self { place: Place::new(), addresses, groups, enforcers, _others: others, namespaces };
        made.start(wanted);
        Some(made)
    }

    fn start(&mut self, wanted: Wanted<'_>) {
        let ports = [free_port(), free_port(), free_port()].map(|port| port.to_string());
        for site in ["site", "foreign"] {
            assert_eq!(self.place.run(&["certificates", site, "--hosts", "2"]).code, 0);
        }
        let listed = [0, 1].map(|host| self.addresses[host].to_owned() + wanted.behind[host]).join(",");
        let coordinator = format!("{}:{}", self.addresses[0], ports[0]);
        let mut lead = vec!["coordinator", "--policy", wanted.policy, "--listen", &coordinator];
        lead.extend(["--certificates", "site/coordinator", "--administration", "lead.sock"]);
        lead.extend(["--hosts", &listed]);
        self._others.push(self.serve(0, &lead));
        for (host, address) in self.addresses.into_iter().enumerate() {
            let (port, socket) = (host.to_string(), format!("agent-{host}.sock"));
            let (own, administration) = (format!("site/agent-{host}"), format!("admin-{host}"));
            let mut agent = vec!["agent", "--port", &port, "--coordinator", &coordinator];
            agent.extend(["--certificates", &own, "--administration", &administration]);
            agent.extend(["--socket", &socket, "--peer-port", &ports[1], "--hosts", &listed]);
            self._others.push(self.serve(host, &agent));
            eventually("the agent", || self.place.path(&socket).exists());
            let group = self.groups[host].path().display().to_string();
            let own = if host == 0 { format!("{}/agent-0", wanted.certificates) } else { own };
            let (listen, door) = (format!("{address}:{}", ports[2]), format!("door-{host}"));
            let mut enforce = vec!["enforce", "--group", &group, "--door", &door, "--socket", &socket];
            enforce.extend(["--certificates", &own, "--listen", &listen, "--hosts", &listed]);
            if host == 0 {
                enforce.extend(wanted.more);
            }
            self.enforcers.push(self.serve(host, &enforce));
            eventually("the enforcer", || self.place.path(&door).exists());
        }
    }

    /// Starts a program of this project at a host.
    fn serve(&self, host: usize, arguments: &[&str]) -> Running {
        let mut command = self.command(host, env!("CARGO_BIN_EXE_cavalcade"));
        command.args(arguments).env("XDG_RUNTIME_DIR", self.place.path("."));
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// A command at a host, in the folder of the test.
    pub(crate) fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = match &self.namespaces {
            Some(namespaces) => namespaces.command(host, program),
            None => Command::new(program),
        };
        command.current_dir(self.place.path("."));
        command
    }

    /// A command below the control group of a host's enforcer, where nothing but a rule tags it.
    pub(crate) fn untagged(&self, host: usize, program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
        let mut command = self.command(host, "sh");
        command.args(["-c", &self.enter(host)]).arg(program).args(arguments);
        command
    }

    /// What a shell does to run a command below the control group of a host's enforcer.
    pub(crate) fn enter(&self, host: usize) -> String {
        format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", self.groups[host].path().display())
    }

    /// Starts a command at the first host, tagged as `coflow` says: "--task NAME" or "--coflow
    /// KEY".
    pub(crate) fn tagged(&self, coflow: [&str; 2], words: &[&str]) -> Running {
        let mut command = self.command(0, env!("CARGO_BIN_EXE_cavalcade"));
        command.arg("run").args(coflow).args(["--door", "door-0", "--"]).args(words);
        Running(command.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts a server at the second host that nothing tags, and that sends without end to who
    /// connects; with its address.
    pub(crate) fn server(&self, port: u16) -> (Running, String) {
        let own = std::env::current_exe().unwrap();
        let mut server = self.untagged(1, own, &["--exact", "serves_for_other_tests", "--nocapture"]);
        server.env(SERVE, format!("{}:{port}", self.addresses[1]));
        let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
        let address = Lines::new(server.0.stdout.take().unwrap()).after("serves at ").unwrap();
        (server, address)
    }

    /// Has a client of the first host, tagged as the task "fetch", download from [`Self::server`].
    pub(crate) fn download(&self) -> [Running; 2] {
        let (server, address) = self.server(0);
        let curl = ["curl", "-sS", "-o", "got", &format!("http://{address}/")];
        [server, self.tagged(["--task", "fetch"], &curl)]
    }

    /// The coflows that the agent of a host knows.
    pub(crate) fn coflows_at(&self, host: usize) -> Vec<Value> {
        // On a busy machine it may be asked in vain, and is asked again.
        let view = json(&self.place, &["ps", "--json", "--at", &format!("admin-{host}")]);
        view.and_then(|view| Some(view["coflows"].as_array()?.clone())).unwrap_or_default()
    }

    /// The coflow of a task of the first host, as the agent of a host knows it.
    pub(crate) fn task_at(&self, host: usize, task: &str) -> Option<Value> {
        let of_client = self.coflows_at(0).into_iter().find(|coflow| coflow["name"] == task)?;
        self.coflows_at(host).into_iter().find(|coflow| coflow["coflow"] == of_client["coflow"])
    }

    /// Tells whether the second host has sent so many bytes for a task of the first.
    pub(crate) fn has_sent(&self, task: &str, bytes: u64) -> bool {
        self.task_at(1, task).is_some_and(|coflow| coflow["sent_bytes"].as_u64().unwrap() >= bytes)
    }

    pub(crate) fn has_downloaded(&self, bytes: u64) -> bool {
        self.place.path("got").metadata().is_ok_and(|file| file.len() > bytes)
    }
}

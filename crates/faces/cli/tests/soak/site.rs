//! The site: hosts as namespaces, an agent and an application at each, two coordinators under one
//! lease.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cavalcade_lab::{CONTROL_PORT, Namespaces, coordinator_address, host_address};
use cavalcade_model::BitsPerSec;

use crate::support::{Running, names};

/// Hosts with an agent; the namespace of one more is the rogue's.
pub(crate) const HOSTS: u32 = 4;
/// The rogue's port.
pub(crate) const ROGUE: u32 = HOSTS;
/// The rate of each host's link.
const RATE: BitsPerSec = BitsPerSec(50_000_000);
/// The time that orders hold: longer than the default, since everything shares a few cores.
const HOLD: &str = "500ms";
/// The address of the coordinator that stands by at first; it shares the other's link.
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 255, 2));
/// The place of the lease where there is an etcd.
const ETCD: &str = "etcd://127.0.0.1:2379/soak";

/// The site.
pub(crate) struct Site {
    folder: PathBuf,
    namespaces: Namespaces,
    pub(crate) agents: Vec<Running>,
    pub(crate) coordinators: Vec<Running>,
    etcd: Option<Running>,
}

impl Site {
    /// Builds it in `folder` and starts all components of the control plane; under etcd's lease
    /// where there is an etcd.
    pub(crate) fn start(folder: &Path) -> Self {
        let namespaces = Namespaces::build(HOSTS + 1, RATE).expect("namespaces can be made here");
        let coordinators = namespaces.of_coordinator();
        run(Command::new("ip").args([
            "-n",
            &coordinators,
            "addr",
            "add",
            &format!("{SECOND}/16"),
            "dev",
            "eth0",
        ]));
        let mut site = Self {
            folder: folder.to_owned(),
            namespaces,
            agents: Vec::new(),
            coordinators: Vec::new(),
            etcd: None,
        };
        site.prepare();
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_ok() {
            site.start_etcd();
        }
        site.coordinators = (0..2).map(|number| site.start_coordinator(number)).collect();
        site.agents = (0..HOSTS).map(|host| site.start_agent(host, "")).collect();
        site
    }

    /// Makes certificates, and clocks that can be stepped.
    fn prepare(&self) {
        let hosts = (HOSTS + 1).to_string();
        let mut certificates = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
        run(certificates.args(["certificates", "site", "--hosts", &hosts]).current_dir(&self.folder));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soak/step.c");
        run(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(self.path("step.so")).arg(source));
        for component in ["coordinators", "agent-2"] {
            std::fs::write(self.path(&format!("{component}.clock")), [0; 8])
                .expect("the folder can be written to");
        }
    }

    /// The place where leadership is held.
    pub(crate) fn lease(&self) -> &'static str {
        if self.has_etcd() { "a key in etcd" } else { "a lock on a file" }
    }

    pub(crate) fn has_etcd(&self) -> bool {
        self.etcd.is_some()
    }

    /// A file of the site.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Prepares a command in a namespace, with messages in a file named after the component.
    fn command(&self, namespace: &str, component: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).current_dir(&self.folder).stdin(Stdio::null());
        let log = File::options().create(true).append(true).open(self.path(&format!("{component}.log")));
        command.stdout(Stdio::null()).stderr(log.expect("the folder can be written to"));
        command
    }

    pub(crate) fn start_etcd(&mut self) {
        let mut command = self.command(&self.namespaces.of_coordinator(), "etcd");
        self.etcd = Some(spawn(command.args(["etcd", "--data-dir", "etcd", "--log-level", "error"])));
    }

    /// Kills it.
    pub(crate) fn stop_etcd(&mut self) {
        self.etcd = None;
    }

    pub(crate) fn start_coordinator(&self, number: usize) -> Running {
        let component = format!("coordinator-{number}");
        let mut command = self.command(&self.namespaces.of_coordinator(), &component);
        self.with_clock(&mut command, "coordinators", "");
        let lease = if self.has_etcd() { ETCD } else { "lease" };
        command.args(["coordinator", "--listen", &coordinators()[number].to_string(), "--policy", "fifo"]);
        command.args(["--lease", lease, "--hold", HOLD, "--certificates", "site/coordinator"]);
        spawn(command.args(["--administration", &format!("{component}.sock")]).args(common()))
    }

    /// Starts the agent of a host, under limits of the shell where there are some.
    pub(crate) fn start_agent(&self, host: u32, limits: &str) -> Running {
        let component = format!("agent-{host}");
        let mut command = self.command(&self.namespaces.of_host(host), &component);
        self.with_clock(&mut command, &component, limits);
        let coordinators = coordinators().map(|at| format!("--coordinator={at}"));
        command.args(["agent", "--port", &host.to_string()]).args(coordinators);
        command.args([
            "--certificates",
            &format!("site/{component}"),
            "--socket",
            &format!("{component}.sock"),
        ]);
        spawn(command.args(common()))
    }

    /// Has the command run the program with a clock that steps, where the site has one of that
    /// name.
    fn with_clock(&self, command: &mut Command, name: &str, limits: &str) {
        let clock = self.path(&format!("{name}.clock"));
        if clock.exists() {
            command.env("CAVALCADE_CLOCK_STEP", &clock).env("STEP", self.path("step.so"));
        }
        let script = format!("{limits} exec env LD_PRELOAD=\"$STEP\" \"$0\" \"$@\"");
        command.args(["sh", "-c", &script, env!("CARGO_BIN_EXE_cavalcade")]);
    }

    /// Steps the clock of that name to be so many seconds ahead.
    pub(crate) fn step_clock(&self, name: &str, seconds: i64) {
        // In place: it is mapped.
        let file = File::options().write(true).open(self.path(&format!("{name}.clock")));
        let written = file.and_then(|mut file| std::io::Write::write_all(&mut file, &seconds.to_ne_bytes()));
        written.expect("the file is there");
    }

    /// Starts the application of a host, which speaks over its standard input and output.
    pub(crate) fn start_application(&self, host: u32) -> Running {
        let mut command = self.command(&self.namespaces.of_host(host), &format!("application-{host}"));
        let address = host_address(host).to_string();
        let agent = format!("agent-{host}.sock");
        command.args([env!("CARGO_BIN_EXE_cavalcade"), "lab-host", "--address", &address, "--agent", &agent]);
        spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))
    }

    /// Starts this suite as the rogue.
    pub(crate) fn start_rogue(&self) -> Running {
        let mut command = self.command(&self.namespaces.of_host(ROGUE), "rogue");
        command.arg(std::env::current_exe().expect("this program is somewhere"));
        spawn(command.env("CAVALCADE_ROGUE", coordinators().map(|at| at.to_string()).join(",")))
    }

    /// Cuts the link of a host, or of the coordinators where it is none, or mends it.
    pub(crate) fn set_link(&self, host: Option<u32>, is_up: bool) {
        self.namespaces.set_link(host, is_up).expect("a link can be switched");
    }

    /// Returns the number of the coordinator that leads: the one that answers administrators.
    pub(crate) fn leader(&self) -> usize {
        let answers = |number: &usize| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cavalcade"));
            command.args(["ps", "--at"]).arg(self.path(&format!("coordinator-{number}.sock")));
            command.output().is_ok_and(|ran| ran.status.success())
        };
        (0..2).find(answers).unwrap_or(0)
    }

    /// Checks that all components run, and that none has panicked.
    pub(crate) fn check(&mut self) {
        let mut components = self.agents.iter_mut().chain(&mut self.coordinators);
        let ended = components.find_map(|component| component.0.try_wait().expect("it is a child"));
        assert!(ended.is_none(), "a component has ended: {ended:?}{}", self.messages());
        let has_panicked = self.logs().iter().any(|(_, text)| text.contains("panicked at"));
        assert!(!has_panicked, "a component has panicked{}", self.messages());
    }

    /// Returns the last messages of all components.
    pub(crate) fn messages(&self) -> String {
        let last = |(name, text): (String, String)| {
            let lines: Vec<&str> = text.lines().collect();
            format!("\n--- {name}\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
        };
        self.logs().into_iter().map(last).collect()
    }

    fn logs(&self) -> Vec<(String, String)> {
        let names = names(&self.folder).into_iter().filter(|name| name.ends_with(".log"));
        let read = |name: String| {
            let bytes = std::fs::read(self.path(&name)).unwrap_or_default();
            (name, String::from_utf8_lossy(&bytes).into_owned())
        };
        names.map(read).collect()
    }
}

/// The addresses of the coordinators.
fn coordinators() -> [SocketAddr; 2] {
    [coordinator_address(), SECOND].map(|address| SocketAddr::new(address, CONTROL_PORT))
}

/// The options that coordinators and agents share.
fn common() -> [String; 4] {
    let hosts: Vec<String> = (0..=ROGUE).map(|host| host_address(host).to_string()).collect();
    ["--hosts".to_owned(), hosts.join(","), "--rate".to_owned(), format!("{}bps", RATE.0)]
}

fn spawn(command: &mut Command) -> Running {
    Running(command.spawn().expect("it starts"))
}

fn run(command: &mut Command) {
    let ran = command.output().expect("it runs");
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// Kills a process, and waits for its end.
pub(crate) fn kill(process: &mut Running) {
    process.0.kill().and_then(|()| process.0.wait()).expect("a child can be killed");
}

/// Sends a signal to a process.
pub(crate) fn signal(process: &Running, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.0.id().to_string()]).status();
    assert!(sent.expect("kill runs").success(), "{name}");
}

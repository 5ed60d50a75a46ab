//! The host's own link: the queues of `docs/kernel-path.md` hold to the classes of packets, without
//! a coordinator.

use std::process::Stdio;

use cavalcade_enforce::{Group, Place as Ground, leftovers};
use cavalcade_testing::{Lines, eventually};

use super::able;
use super::pair::Namespaces;
use super::support::{Place, Running};
use cavalcade_testing::free_port;

const HOSTS: [&str; 2] = ["10.99.2.1", "10.99.2.2"];
/// Bytes after which PIAS puts a message into the second class.
const THRESHOLD: usize = 2_000_000;
/// Bytes of the short transfer, which stays in the first.
const SHORT: usize = 1_000_000;

/// Receives a long transfer, and short ones one after the other. Says what of the long one came
/// with each.
const RECEIVER: &str = r#"
import select, socket, sys
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
long, _ = listener.accept()
long.setblocking(False)
came = 0
def drain():
    global came
    try:
        while data := long.recv(1 << 16):
            came += len(data)
    except BlockingIOError:
        pass
while came < int(sys.argv[2]):
    select.select([long], [], [])
    drain()
print("behind", flush=True)
while True:
    while listener not in select.select([long, listener], [], [])[0]:
        drain()
    short, _ = listener.accept()
    drain()
    before, size, data = came, 0, b"x"
    while data:
        if short in select.select([long, short], [], [])[0]:
            data = short.recv(1 << 16)
            size += len(data)
        drain()
    print(size, came - before, flush=True)
"#;

/// The commands of the page, for another interface.
fn recipe() -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/kernel-path.md"));
    let page = page.unwrap();
    let (_, from) = page.split_once("```sh\n").unwrap();
    let (commands, _) = from.split_once("```").unwrap();
    assert!(commands.starts_with("DEV=eth0 RATE=10gbit"), "{commands}");
    commands.replace("DEV=eth0 RATE=10gbit", "set -e; DEV=cable RATE=20mbit")
}

/// A host with an agent that decides for itself, and an enforcer that sorts by bytes sent.
struct Sorting {
    place: Place,
    group: Group,
    hosts: Namespaces,
    enforcer: Option<Running>,
    _agent: Running,
}

impl Drop for Sorting {
    fn drop(&mut self) {
        self.enforcer.take();
        let _ = leftovers::fix(&Ground::below(self.group.path()).unwrap());
    }
}

impl Sorting {
    fn new() -> Option<Self> {
        let root = able()?;
        let hosts = Namespaces::new(HOSTS)?;
        let (place, policy) = (Place::new(), format!("pias:thresholds={THRESHOLD}B"));
        let group = Group::make(&root, &format!("cavalcade-link-{}", std::process::id())).unwrap();
        let serve = |arguments: &[&str], socket: &str| {
            let mut command = hosts.command(0, env!("CARGO_BIN_EXE_cavalcade"));
            command.args(arguments).current_dir(place.path(".")).env("XDG_RUNTIME_DIR", place.path("."));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let running = Running(command.spawn().unwrap());
            eventually(socket, || place.path(socket).exists());
            running
        };
        let (port, listed) = (free_port().to_string(), HOSTS.join(","));
        let decides = ["agent", "--port", "0", "--hosts", &listed, "--rate", "20Mbps", "--insecure"];
        let alone = ["--policy", &policy, "--by-class", "--peer-port", &port, "--socket", "agent.sock"];
        let agent = serve(&[&decides[..], &alone].concat(), "agent.sock");
        let below = group.path().display().to_string();
        let enforce = ["enforce", "--group", &below, "--door", "door", "--socket", "agent.sock"];
        let enforcer = Some(serve(&[&enforce[..], &["--demote", &policy]].concat(), "door"));
        Some(Self { place, group, hosts, enforcer, _agent: agent })
    }

    /// Sends zeros to the receiver's port as a task.
    fn send(&self, task: &str, bytes: Option<usize>, port: &str) -> Running {
        let source = bytes.map_or("cat".to_owned(), |bytes| format!("head -c {bytes}"));
        let send = format!("exec {source} /dev/zero > /dev/tcp/{}/{port}", HOSTS[1]);
        let mut command = self.hosts.command(0, env!("CARGO_BIN_EXE_cavalcade"));
        command.args(["run", "--task", task, "--door", "door", "--", "bash", "-c", &send]);
        Running(command.current_dir(self.place.path(".")).spawn().unwrap())
    }

    fn shell(&self, commands: &str) {
        assert!(self.hosts.command(0, "sh").args(["-c", commands]).status().unwrap().success());
    }
}

#[test]
fn with_the_queues_of_the_page_a_hosts_link_holds_to_the_order_of_classes_without_a_coordinator() {
    let Some(host) = Sorting::new() else { return };
    host.shell(&recipe());
    let mut receiver = host.hosts.command(1, "python3");
    receiver.args(["-c", RECEIVER, HOSTS[1], &(2 * THRESHOLD).to_string()]).stdout(Stdio::piped());
    let mut receiver = Running(receiver.spawn().unwrap());
    let mut lines = Lines::new(receiver.0.stdout.take().unwrap());
    let port = lines.next().unwrap();
    let _long = host.send("long", None, &port);
    assert_eq!(lines.next().unwrap(), "behind");
    let mut beside = |task: &str| {
        let _short = host.send(task, Some(SHORT), &port);
        let line = lines.next().unwrap();
        let (size, beside) = line.split_once(' ').unwrap();
        assert_eq!(size.parse(), Ok(SHORT));
        beside.parse::<usize>().unwrap()
    };
    let in_order = beside("short");
    // Without filters all packets wait in one queue.
    host.shell("tc filter del dev cable parent 1:");
    let in_one_queue = beside("shorter");
    // A class that waits keeps a twentieth of this link.
    assert!(in_order < SHORT / 8 && in_one_queue > 2 * in_order, "{in_order} and {in_one_queue}");
}

//! One real host that names no site: what leaves it is ordered at its own link, and it says so.

use std::process::{Output, Stdio};

use cavalcade_enforce::{Group, Place as Ground, leftovers};
use cavalcade_testing::{Lines, eventually};
use serde_json::Value;

use super::able;
use super::pair::Namespaces;
use super::support::{Place, Running};

const HOSTS: [&str; 2] = ["10.99.4.1", "10.99.4.2"];

/// Reads whatever comes to it.
pub(super) const SINK: &str = r#"
import socket, sys, threading
listener = socket.create_server((sys.argv[1], 0))
print(listener.getsockname()[1], flush=True)
def drain(connection):
    while connection.recv(1 << 16):
        pass
while True:
    threading.Thread(target=drain, args=(listener.accept()[0],), daemon=True).start()
"#;

/// A host alone, beside another one that knows nothing of it.
struct Alone {
    place: Place,
    group: Group,
    hosts: Namespaces,
    enforcer: Option<Running>,
    _up: Running,
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.enforcer.take();
        let _ = leftovers::fix(&Ground::below(self.group.path()).unwrap());
    }
}

impl Alone {
    fn new() -> Option<Self> {
        let root = able()?;
        let hosts = Namespaces::new(HOSTS)?;
        let place = Place::new();
        let group = Group::make(&root, &format!("cavalcade-outside-{}", std::process::id())).unwrap();
        let serve = |arguments: &[&str], socket: &str| {
            let mut command = hosts.command(0, env!("CARGO_BIN_EXE_cavalcade"));
            command.args(arguments).current_dir(place.path(".")).env("XDG_RUNTIME_DIR", place.path("."));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let running = Running(command.spawn().unwrap());
            eventually(socket, || place.path(socket).exists());
            running
        };
        let up = serve(&["up", "--policy", "fifo", "--rate", "20Mbps"], "cavalcade.sock");
        let below = group.path().display().to_string();
        let enforce = ["enforce", "--group", &below, "--door", "door", "--socket", "cavalcade.sock"];
        let enforcer = Some(serve(&enforce, "door"));
        Some(Self { place, group, hosts, enforcer, _up: up })
    }

    fn asks(&self, words: &[&str]) -> Output {
        let mut command = self.hosts.command(0, env!("CARGO_BIN_EXE_cavalcade"));
        command.args(words).current_dir(self.place.path(".")).env("XDG_RUNTIME_DIR", self.place.path("."));
        command.output().unwrap()
    }

    fn text(&self, words: &[&str]) -> String {
        String::from_utf8(self.asks(words).stdout).unwrap()
    }

    /// A task as the coordinator sees it.
    fn task(&self, name: &str) -> Option<Value> {
        let view: Value = serde_json::from_slice(&self.asks(&["ps", "--json"]).stdout).ok()?;
        view["coflows"].as_array()?.iter().find(|coflow| coflow["name"] == name).cloned()
    }

    /// Runs a command of a task in bash.
    fn run(&self, task: &str, script: &str) -> Running {
        let mut command = self.hosts.command(0, env!("CARGO_BIN_EXE_cavalcade"));
        command.args(["run", "--task", task, "--door", "door", "--", "bash", "-c", script]);
        Running(command.current_dir(self.place.path(".")).spawn().unwrap())
    }
}

#[test]
fn up_on_one_host_orders_what_leaves_it_and_says_so_and_what_it_cannot_order() {
    let Some(host) = Alone::new() else { return };
    let mut sink = host.hosts.command(1, "python3");
    sink.args(["-c", SINK, HOSTS[1]]).stdout(Stdio::piped());
    let mut sink = Running(sink.spawn().unwrap());
    let port = Lines::new(sink.0.stdout.take().unwrap()).next().unwrap();
    let send = format!("exec cat /dev/zero > /dev/tcp/{}/{port}", HOSTS[1]);
    let _first = host.run("first", &send);
    eventually("bytes of the first", || {
        host.task("first").is_some_and(|task| task["sent_bytes"].as_u64() > Some(1_000_000))
    });
    let _second = host.run("second", &send);
    // All in one look: a sink that gets no processor for half a second lets the second go.
    eventually("the second behind it, and said so", || {
        let is_off = |task: Value| task["off"] == 1 && task["outside"] == 1;
        let (ps, why) = (host.text(&["ps"]), host.text(&["why", "second"]));
        host.task("second").is_some_and(is_off)
            && ps.contains("leaving the site: 2 flows, ordered at the sending host's link")
            && why.contains("waits behind one coflow at port 0")
            && why.contains("1 flow leaves the site")
    });
    // UDP is not ordered, and that is said as well.
    let _stray = host.run(
        "stray",
        &format!("for i in $(seq 100); do printf %1000s x; done > /dev/udp/{}/9; sleep 600", HOSTS[1]),
    );
    eventually("what is sent by UDP", || {
        let ps = host.text(&["ps"]);
        ps.contains("enforcer: 3 coflows")
            && ps.contains("not scheduled: ")
            && ps.contains(" of stray by other means than TCP")
    });
}

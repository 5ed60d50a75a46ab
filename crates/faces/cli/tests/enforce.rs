//! The kernel path from end to end: curl, which knows nothing of coflows, under a real coordinator,
//! agent and enforcer.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

#[path = "enforce/agents.rs"]
mod agents;
#[path = "enforce/deadlines.rs"]
mod deadlines;
#[path = "enforce/default_policy.rs"]
mod default_policy;
#[path = "enforce/doctor.rs"]
mod doctor;
#[path = "enforce/drains.rs"]
mod drains;
#[path = "enforce/families.rs"]
mod families;
#[path = "enforce/java.rs"]
mod java;
#[path = "enforce/link.rs"]
mod link;
#[path = "enforce/looks.rs"]
mod looks;
#[path = "enforce/outside.rs"]
mod outside;
#[path = "enforce/pair.rs"]
mod pair;
#[path = "enforce/pods.rs"]
mod pods;
#[path = "enforce/release.rs"]
mod release;
#[path = "enforce/restarts.rs"]
mod restarts;
#[path = "enforce/rights.rs"]
mod rights;
mod support;
#[path = "enforce/vouching.rs"]
mod vouching;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cavalcade_client::{Registration, Session};
use cavalcade_enforce::{Group, Hierarchy, Place as Ground, leftovers};
use cavalcade_testing::free_port;
use cavalcade_testing::{Lines, Player, eventually, eventually_some, role, say, skipped, wait_for_go};
use support::{Place, Running};

/// The rate of the receiver, over all connections: a link of 100 Mbps.
const BYTES_PER_SECOND: f64 = 12_500_000.0;
const LARGE: usize = 30_000_000;
const SMALL: usize = 6_000_000;
/// The bytes of the large upload that have come when the small one begins.
const LEAD: usize = 5_000_000;

/// The addresses of all hosts.
const HOSTS: &str = "127.0.0.1,127.0.0.2,10.99.0.2";

/// The command that starts another as a user without rights.
const AS_STRANGER: [&str; 3] = ["setpriv", "--reuid=65534", "--clear-groups"];

/// An upload as the receiver sees it.
#[derive(Debug, Default)]
struct Upload {
    received: usize,
    is_over: bool,
}

/// All uploads by path, and how much of each had come when one ended.
#[derive(Debug, Default)]
struct Seen {
    uploads: BTreeMap<String, Upload>,
    ends: Vec<(String, BTreeMap<String, usize>)>,
}

/// A connection over which something is uploaded.
struct Connection {
    socket: TcpStream,
    head: Vec<u8>,
    /// The path and how many bytes are still to come.
    body: Option<(String, usize)>,
}

impl Connection {
    /// Reads a little; how much, or nothing where the connection is over.
    fn read(&mut self, seen: &Mutex<Seen>) -> Option<usize> {
        let mut chunk = [0; 16 << 10];
        let length = match self.socket.read(&mut chunk) {
            Ok(0) => return None,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(0),
            Err(_) => return None,
        };
        if self.body.is_none() {
            self.head.extend_from_slice(&chunk[..length]);
            let end = self.head.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
            let head = String::from_utf8_lossy(&self.head[..end]).into_owned();
            let path = head.split(' ').nth(1)?.to_owned();
            let wanted = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?.parse().ok()?;
            self.body = Some((path, wanted));
            self.take(self.head.len() - end, seen);
        } else {
            self.take(length, seen);
        }
        Some(length)
    }

    fn take(&mut self, length: usize, seen: &Mutex<Seen>) {
        let Some((path, left)) = &mut self.body else { return };
        *left -= length;
        let mut seen = seen.lock().unwrap();
        let upload = seen.uploads.entry(path.clone()).or_default();
        upload.received += length;
        if *left == 0 {
            upload.is_over = true;
            let of_each = seen.uploads.iter().map(|(path, upload)| (path.clone(), upload.received)).collect();
            seen.ends.push((path.clone(), of_each));
            let _ = self.socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    }
}

/// Receives uploads, all together no faster than [`BYTES_PER_SECOND`], each in turn.
fn receive(at: &str) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind((at, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Seen::default())));
    let seen_here = Arc::clone(&seen);
    std::thread::spawn(move || {
        let (mut connections, began, mut taken) = (Vec::new(), Instant::now(), 0.0);
        loop {
            while let Ok((socket, _)) = listener.accept() {
                socket.set_nonblocking(true).unwrap();
                connections.push(Connection { socket, head: Vec::new(), body: None });
            }
            let may = began.elapsed().as_secs_f64() * BYTES_PER_SECOND;
            // What was not sent in time is lost, as on a link.
            taken = f64::max(taken, may - BYTES_PER_SECOND / 100.0);
            let mut came = 1;
            while taken < may && came > 0 {
                came = 0;
                connections.retain_mut(|connection| {
                    let read = connection.read(&seen_here);
                    came += read.unwrap_or(0);
                    read.is_some()
                });
                taken += came as f64;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    (address, seen)
}

fn start(place: &Place, arguments: &[&str]) -> Running {
    let mut command = place.command();
    command.args(arguments).env("XDG_RUNTIME_DIR", place.path("."));
    Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// The control group above all others, or nothing where this machine lacks what all tests here
/// need.
fn able() -> Option<PathBuf> {
    if let Some(reason) = cavalcade_enforce::missing() {
        skipped(format_args!("programs for the kernel ({reason})"));
        return None;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    if !status.lines().any(|line| line.starts_with("Uid:\t0\t")) {
        skipped("root, to load programs into the kernel");
        return None;
    }
    if Command::new("curl").arg("--version").output().is_err() {
        skipped("curl");
        return None;
    }
    let Ok(Hierarchy { root }) = Hierarchy::find() else {
        skipped("control groups of version 2");
        return None;
    };
    Some(root)
}

/// A host with an agent, a coordinator and an enforcer.
struct Host {
    place: Place,
    /// Ended in this order: the enforcer has more to clean up.
    enforcer: Option<Running>,
    up: Option<Running>,
    group: Group,
}

impl Drop for Host {
    fn drop(&mut self) {
        // One that is killed leaves something behind.
        self.enforcer.take();
        let _ = leftovers::fix(&self.ground());
    }
}

impl Host {
    fn new(policy: &str) -> Option<Self> {
        Self::with(policy, &["--tag", "{group}/service=web:background"])
    }

    /// With more for the enforcer's command line, in which `{group}` stands for the test's control
    /// group.
    fn with(policy: &str, more: &[&str]) -> Option<Self> {
        Self::led(&["--policy", policy], more)
    }

    /// With more for the coordinator's and agent's as well.
    fn led(lead: &[&str], more: &[&str]) -> Option<Self> {
        let up = [&["up", "--hosts", HOSTS, "--rate", "100Mbps"], lead].concat();
        Self::begun(|place| start(place, &up), more)
    }

    /// With an agent at cavalcade.sock that `begin` starts.
    fn begun(begin: impl FnOnce(&Place) -> Running, more: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let root = able()?;
        let place = Place::new();
        // Other users come here as well.
        std::fs::set_permissions(place.path("."), Permissions::from_mode(0o755)).unwrap();
        let name = format!("cavalcade-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let group = Group::make(&root, &name).unwrap();
        let up = begin(&place);
        eventually("the agent", || place.path("cavalcade.sock").exists());
        let mut made = Self { place, enforcer: None, up: Some(up), group };
        made.start_enforcer(more);
        Some(made)
    }

    fn start_enforcer(&mut self, more: &[&str]) {
        self.start_enforcer_by(&[], more);
    }

    /// Starts it by a command that ends by running its arguments.
    fn start_enforcer_by(&mut self, before: &[String], more: &[&str]) {
        let in_group = self.group.path().display().to_string();
        let more: Vec<String> = more.iter().map(|word| word.replace("{group}", &in_group)).collect();
        let mut enforce = vec!["enforce", "--group", &in_group, "--door", "door"];
        enforce.extend(["--socket", "cavalcade.sock"]);
        enforce.extend(more.iter().map(String::as_str));
        let mut command = self.place.command();
        if let Some((first, rest)) = before.split_first() {
            let program = command.get_program().to_owned();
            command = Command::new(first);
            command.args(rest).arg(program).current_dir(self.place.path("."));
        }
        command.args(&enforce).env("XDG_RUNTIME_DIR", self.place.path("."));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.enforcer = Some(Running(command.spawn().unwrap()));
        let door = self.place.path("door");
        eventually("the enforcer", || std::os::unix::net::UnixStream::connect(&door).is_ok());
    }

    /// A program that uploads by the client library, below the enforcer's control group. It says
    /// whether the kernel carries its stream: once it is open, and when told to go on, as often as
    /// it is.
    fn program(&self, name: &str, bytes: usize, to: SocketAddr) -> Player {
        let agent = self.place.path("cavalcade.sock");
        let role = format!("{} {name} {bytes} {to}", agent.display());
        self.player("uploads_by_the_client_library", &role)
    }

    /// A process that runs another test in a role, below the enforcer's control group.
    fn player(&self, test: &str, role: &str) -> Player {
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.group.path().display());
        command.args(["-c", &enter]);
        Player::start(Some(command), test, role)
    }

    /// Uploads with curl, as a task of its own where `is_tagged`.
    fn upload(&self, name: &str, bytes: usize, to: SocketAddr, is_tagged: bool) -> Running {
        let file = self.place.path(name);
        std::fs::write(&file, vec![0; bytes]).unwrap();
        let curl = ["curl", "-s", "-H", "Expect:", "-T", file.to_str().unwrap()];
        let url = format!("http://{to}/{name}");
        let mut command = if is_tagged {
            let mut command = self.place.command();
            command.args(["run", "--task", name, "--door", "door", "--"]).args(curl);
            command
        } else {
            let mut command = Command::new(curl[0]);
            command.args(&curl[1..]);
            command
        };
        Running(command.arg(url).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Uploads [`LARGE`] with curl that nothing but its group, user or port says to tag; `before`
    /// is what starts it.
    fn upload_in(&self, group: &Group, before: &[&str], to: SocketAddr) -> Running {
        let file = self.place.path("large");
        std::fs::write(&file, vec![0; LARGE]).unwrap();
        let enter = format!(
            "echo $$ > {}/cgroup.procs; exec {} curl -s -H Expect: -T {} http://{to}/large",
            group.path().display(),
            before.join(" "),
            file.display()
        );
        Running(Command::new("sh").args(["-c", &enter]).stdout(Stdio::null()).spawn().unwrap())
    }

    /// A large upload that has begun, and a small one that the agent knows of; with what the
    /// receiver sees.
    fn small_behind_large(&self) -> (Arc<Mutex<Seen>>, [Running; 2]) {
        let (address, seen) = receive("127.0.0.2");
        let large = self.upload("large", LARGE, address, true);
        let has_begun =
            || seen.lock().unwrap().uploads.get("/large").is_some_and(|upload| upload.received > 0);
        eventually("the first bytes of the large one", has_begun);
        let small = self.upload("small", SMALL, address, true);
        eventually("the small one", || self.lists("small", ""));
        (seen, [large, small])
    }

    /// Runs a command that asks the agent for something, which does it.
    fn administers(&self, arguments: &[&str]) {
        let mut command = self.place.command();
        command.args(arguments).env("XDG_RUNTIME_DIR", self.place.path("."));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Tells whether a line of `cavalcade ps` has both words.
    fn lists(&self, name: &str, word: &str) -> bool {
        let ps = self.place.command().arg("ps").env("XDG_RUNTIME_DIR", self.place.path(".")).output();
        let text = String::from_utf8(ps.unwrap().stdout).unwrap();
        text.lines().any(|line| line.contains(name) && line.contains(word))
    }

    fn sees_bytes_of(&self, name: &str) {
        eventually("bytes of its coflow", || self.lists(name, " MB"));
    }

    /// A large upload and, some time later, a small one: what had come of each when the first of
    /// them ended, and which that was.
    fn compete(&self, is_tagged: bool) -> (String, BTreeMap<String, usize>) {
        let (address, seen) = receive("127.0.0.2");
        let _large = self.upload("large", LARGE, address, is_tagged);
        let received =
            |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
        eventually("the large upload's lead", || received("/large") >= LEAD);
        let _small = self.upload("small", SMALL, address, is_tagged);
        eventually("both ends", || seen.lock().unwrap().ends.len() == 2);
        seen.lock().unwrap().ends[0].clone()
    }

    /// Ends the enforcer with this signal, and returns its exit code.
    fn end_enforcer(&mut self, signal: &str) -> Option<i32> {
        let mut enforcer = self.enforcer.take().unwrap();
        assert!(
            Command::new("kill").args([signal, &enforcer.0.id().to_string()]).status().unwrap().success()
        );
        enforcer.0.wait().unwrap().code()
    }

    /// Returns what the enforcer has left behind.
    fn leftovers(&self) -> Vec<PathBuf> {
        leftovers::find(&self.ground()).unwrap()
    }

    fn ground(&self) -> Ground {
        Ground::below(Path::new(self.group.path())).unwrap()
    }
}

/// The program of [`Host::program`].
#[test]
fn uploads_by_the_client_library() {
    let Some(role) = role() else { return };
    let [agent, name, bytes, to] = role.split(' ').collect::<Vec<_>>()[..] else { unreachable!("{role}") };
    let session = Session::open(agent).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let stream = loop {
        // The library may not have found the enforcer yet.
        let coflow = session.register(Registration::default()).unwrap();
        let stream = session.stream(TcpStream::connect(to).unwrap(), coflow, None).unwrap();
        if stream.is_in_kernel() {
            break Arc::new(stream);
        }
        drop(stream);
        session.unregister(coflow);
        std::thread::sleep(Duration::from_millis(50));
    };
    let head = format!("PUT /{name} HTTP/1.1\r\nContent-Length: {bytes}\r\n\r\n");
    let (writing, body) = (Arc::clone(&stream), vec![0; bytes.parse().unwrap()]);
    let writing = std::thread::spawn(move || {
        (&*writing).write_all(head.as_bytes()).and_then(|()| (&*writing).write_all(&body)).unwrap();
        let _ = stream.socket().read(&mut [0; 128]);
        stream
    });
    say("open");
    let stream = writing.join().unwrap();
    say(if stream.is_in_kernel() { "kernel" } else { "library" });
    wait_for_go();
}

#[test]
fn programs_with_the_client_library_are_carried_by_the_kernel() {
    let Some(host) = Host::new("fifo") else { return };
    let (address, seen) = receive("127.0.0.2");
    let received = |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
    let mut large = host.program("large", LARGE, address);
    assert_eq!(large.hears(), "open");
    eventually("the large upload's lead", || received("/large") >= LEAD);
    let mut small = host.program("small", SMALL, address);
    assert_eq!(
        (small.hears(), large.hears(), small.hears()),
        ("open".into(), "kernel".into(), "kernel".into())
    );
    let (first, of_each) = seen.lock().unwrap().ends[0].clone();
    assert_eq!(first, "/large", "{of_each:?}");
    assert!(of_each.get("/small").copied().unwrap_or(0) < SMALL / 2, "{of_each:?}");
}

#[test]
fn what_was_handed_over_is_the_librarys_again_when_the_enforcer_ends_and_the_next_one_is_found() {
    let Some(mut host) = Host::new("fair") else { return };
    for signal in ["-TERM", "-KILL"] {
        let (address, seen) = receive("127.0.0.2");
        let received =
            |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
        let mut program = host.program("large", LARGE, address);
        assert_eq!(program.hears(), "open");
        eventually("the upload's lead", || received("/large") >= LEAD);
        host.end_enforcer(signal);
        assert_eq!(program.hears(), "library");
        assert_eq!(received("/large"), LARGE);
        host.start_enforcer(&[]);
        let mut program = host.program("small", SMALL, address);
        assert_eq!((program.hears(), program.hears()), ("open".into(), "kernel".into()));
    }
}

#[test]
fn what_a_host_lacks_is_named_and_nothing_is_left_half_installed() {
    let Some(host) = Host::new("fair") else { return };
    let root = Hierarchy::find().unwrap().root.display().to_string();
    let no_groups = format!("umount --lazy {root}");
    // What is taken away in a mount namespace of its own, what starts the enforcer, and what it
    // says.
    let cases = [
        (no_groups.as_str(), "", "control group"),
        ("mount -t tmpfs none /sys/kernel/btf", "", "BTF"),
        (
            "mount -t bpf -o mode=700 none /sys/fs/bpf",
            "setpriv --reuid=65534 --clear-groups --bounding-set=-all",
            "Permission denied",
        ),
        ("true", "setpriv --bounding-set=-all --inh-caps=-all", "CAP_BPF"),
    ];
    let group = Group::make(host.group.path(), "bare").unwrap();
    for (lack, before, said) in cases {
        let command = format!(
            "{lack} && exec {before} {} enforce --group {} --door {} --socket /nowhere/agent.sock",
            env!("CARGO_BIN_EXE_cavalcade"),
            group.path().display(),
            host.place.path("bare-door").display()
        );
        let out = Command::new("unshare").args(["--mount", "sh", "-c", &command]).output().unwrap();
        let err = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(5) && err.contains(said), "{command}: {:?} {err}", out.status);
        assert!(err.contains("cavalcade doctor"), "{err}");
        let ground = Ground::below(group.path()).unwrap();
        assert_eq!(leftovers::find(&ground).unwrap(), Vec::<PathBuf>::new(), "{command}");
    }
}

#[test]
fn a_tagged_command_stays_below_its_own_group_and_goes_back_there() {
    let Some(host) = Host::new("fair") else { return };
    let own = Group::make(host.group.path(), "own").unwrap();
    let enter = format!(
        "echo $$ > {0}/cgroup.procs && {1} run --task look --door door -- cat /proc/self/cgroup && cat /proc/self/cgroup",
        own.path().display(),
        env!("CARGO_BIN_EXE_cavalcade")
    );
    let out = Command::new("sh").args(["-c", &enter]).current_dir(host.place.path(".")).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let groups: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("0::")).collect();
    let [inside, outside] = groups[..] else { panic!("{text}{}", String::from_utf8_lossy(&out.stderr)) };
    let below = inside.strip_prefix(outside).unwrap();
    assert!(outside.ends_with("/own") && below.starts_with("/cavalcade-"), "{text}");
}

#[test]
fn a_command_that_has_its_group_to_itself_is_tagged_where_it_is() {
    let Some(host) = Host::new("dclas") else { return };
    let service = Group::make(host.group.path(), "alone").unwrap();
    let door = host.place.path("door").display().to_string();
    let run = [env!("CARGO_BIN_EXE_cavalcade"), "run", "--task", "alone", "--door", &door, "--"];
    let curl = host.upload_in(&service, &run, receive("127.0.0.2").0);
    host.sees_bytes_of("alone");
    assert_eq!(service.members(), [curl.0.id()]);
}

#[test]
fn processes_of_a_group_that_a_rule_names_are_tagged_without_asking() {
    let Some(host) = Host::new("dclas") else { return };
    let service = Group::make(host.group.path(), "service").unwrap();
    let _curl = host.upload_in(&service, &[], receive("127.0.0.2").0);
    host.sees_bytes_of("web");
}

#[test]
fn containers_are_tagged_by_a_label() {
    let rule = ["--tag", "label:app=web=site", "--containers", "containers"];
    let Some(host) = Host::with("dclas", &rule) else { return };
    let id = "4f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c2e8a91b34f0c";
    let folder = host.place.path(&format!("containers/{id}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.v2.json"), r#"{"Config":{"Labels":{"app":"web"}}}"#).unwrap();
    let scope = Group::make(host.group.path(), &format!("docker-{id}.scope")).unwrap();
    let _curl = host.upload_in(&scope, &[], receive("127.0.0.2").0);
    host.sees_bytes_of("site");
}

#[test]
fn a_users_transfers_are_tagged_by_user_and_belong_to_that_user() {
    let Some(host) = Host::with("dclas", &["--tag", "user:65534=jobs"]) else { return };
    let _curl = host.upload_in(&host.group, &AS_STRANGER, receive("127.0.0.2").0);
    host.sees_bytes_of("jobs");
}

#[test]
fn a_command_within_a_command_has_a_coflow_of_its_own() {
    let Some(host) = Host::with("dclas", &[]) else { return };
    let to = deadlines::slow();
    let send = format!("exec 3<>/dev/tcp/{}/{}; cat /dev/zero >&3 2>/dev/null", to.ip(), to.port());
    let program = env!("CARGO_BIN_EXE_cavalcade");
    let both = format!("({send}) & exec {program} run --task inner --door door -- bash -c '{send}'");
    let mut outer = host.place.command();
    outer.args(["run", "--task", "outer", "--door", "door", "--", "bash", "-c", &both]);
    let _outer = Running(outer.spawn().unwrap());
    ["outer", "inner"].into_iter().for_each(|task| host.sees_bytes_of(task));
}

#[test]
fn what_a_user_with_a_rule_sends_by_udp_alone_is_said_to_be_unscheduled() {
    let Some(host) = Host::with("dclas", &["--tag", "user:65534=jobs"]) else { return };
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", host.group.path().display());
    let receiver = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
    let port = receiver.local_addr().unwrap().port();
    let send =
        format!("for i in $(seq 100); do printf %1000s x; done > /dev/udp/127.0.0.2/{port}; sleep 600");
    let mut sender = Command::new("sh");
    sender.args(["-c", &enter]).args(AS_STRANGER).args(["bash", "-c", &send]);
    let _sender = Running(sender.spawn().unwrap());
    eventually("its bytes", || host.lists("jobs", "by other means than TCP"));
}

#[test]
fn a_rule_for_a_user_holds_although_its_command_names_a_coflow_that_is_nobodys() {
    let Some(host) = Host::with("fifo", &["--tag", "user:65534=jobs"]) else { return };
    let (program, door) = (env!("CARGO_BIN_EXE_cavalcade"), host.place.path("door"));
    // A coordinator that has just started takes in coflows of any age, and again those that it has
    // once taken in.
    let mut task = 0;
    eventually("a coflow that is refused", || {
        task += 1;
        let coflow = format!("{task}.0.5");
        let run = ["run", "--coflow", &coflow, "--door", door.to_str().unwrap(), "--"];
        let before = [&AS_STRANGER[..], &[program], &run].concat();
        let _curl = host.upload_in(&host.group, &before, receive("127.0.0.2").0);
        (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            host.lists("jobs", " MB")
        })
    });
}

#[test]
fn transfers_are_tagged_by_the_port_that_they_go_to() {
    let (address, _seen) = receive("127.0.0.2");
    let rule = format!("port:{}=ingest", address.port());
    let Some(host) = Host::with("dclas", &["--tag", &rule]) else { return };
    let curl = host.upload_in(&host.group, &[], address);
    host.sees_bytes_of("ingest");
    // It ends with its connections, and begins again with the next.
    drop(curl);
    eventually("its end", || !host.lists("ingest", ""));
    let _next = host.upload_in(&host.group, &[], address);
    host.sees_bytes_of("ingest");
}

#[test]
fn a_transfer_to_a_port_that_began_before_the_enforcer_is_tagged_when_that_starts() {
    let Some(mut host) = Host::with("dclas", &[]) else { return };
    host.end_enforcer("-TERM");
    let to = deadlines::slow();
    let enter = format!("echo $$ > {}/cgroup.procs", host.group.path().display());
    let send =
        format!("{enter}; exec 3<>/dev/tcp/127.0.0.2/{}; echo open; exec cat /dev/zero >&3", to.port());
    let mut sender =
        Running(Command::new("bash").args(["-c", &send]).stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(Lines::new(sender.0.stdout.take().unwrap()).next().as_deref(), Some("open"));
    host.start_enforcer(&["--tag", &format!("port:{}=ingest", to.port())]);
    host.sees_bytes_of("ingest");
}

/// The environment variable that has this test's own binary serve.
const SERVE: &str = "CAVALCADE_CLI_TEST_SERVE";

/// What stands there in place of an address where a service manager has opened the listener.
const ACTIVATED: &str = "activated";

#[test]
fn serves_for_other_tests() {
    let Ok(address) = std::env::var(SERVE) else { return };
    let listener = if address == ACTIVATED { activated() } else { TcpListener::bind(address).unwrap() };
    writeln!(std::io::stdout(), "serves at {}", listener.local_addr().unwrap()).unwrap();
    for socket in listener.incoming() {
        let mut socket = socket.unwrap();
        // Of what has no head curl may read too much at once to go on.
        let _ = socket.write_all(b"HTTP/1.0 200 OK\r\n\r\n");
        // Some 100 Mbps.
        while socket.write_all(&[0; 64 << 10]).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The first descriptor that a service manager passes on.
fn activated() -> TcpListener {
    #[expect(unsafe_code, reason = "nothing but its number says what a descriptor is")]
    // SAFETY: the manager has opened it, and nothing else here has it.
    unsafe {
        TcpListener::from_raw_fd(3)
    }
}

#[test]
fn what_a_service_accepts_at_the_socket_that_its_manager_has_opened_belongs_to_its_task() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        return skipped("systemd-socket-activate");
    }
    let Some(host) = Host::new("dclas") else { return };
    let address = format!("127.0.0.2:{}", free_port());
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", host.group.path().display());
    let mut service = Command::new("sh");
    service.args(["-c", &enter, "systemd-socket-activate", "--listen", &address]);
    service.args(["--setenv", &format!("{SERVE}={ACTIVATED}"), env!("CARGO_BIN_EXE_cavalcade")]);
    service.args(["run", "--task", "served", "--door", "door", "--"]).arg(std::env::current_exe().unwrap());
    service.args(["--exact", "serves_for_other_tests", "--nocapture"]).current_dir(host.place.path("."));
    let mut service = Running(service.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    // The manager starts the service for the first to come, who is there before it is tagged.
    let mut first = None;
    eventually("the manager", || {
        first = TcpStream::connect(&address).ok();
        first.is_some()
    });
    let mut said = Lines::new(service.0.stdout.take().unwrap());
    assert_eq!(said.after("serves at "), Some(address.clone()));
    let mut first = first.unwrap();
    let sent = || host.task("served").map_or(0, |task| task["sent_bytes"].as_u64().unwrap());
    eventually("bytes to the first", || {
        first.read_exact(&mut vec![0; 1 << 20]).unwrap();
        sent() > 0
    });
    // The service goes on to the next. The agent's figure lags: only once it stands still are all
    // bytes to the first in it.
    drop(first);
    let to_first = eventually_some("a figure that stands still", || {
        let [one, other, last] = [(); 3].map(|()| {
            std::thread::sleep(Duration::from_millis(300));
            sent()
        });
        (one == other && other == last).then_some(last)
    });
    let curl = ["-s", "-o", "/dev/null", &format!("http://{address}/")];
    let _curl = Running(Command::new("curl").args(curl).spawn().unwrap());
    eventually("bytes to the next", || sent() > to_first + 10_000_000);
}

#[test]
fn a_user_without_rights_can_tag_a_command_of_their_own_but_not_too_many() {
    let Some(host) = Host::with("dclas", &["--coflows-of-user", "1"]) else { return };
    let run = |task: &str, command: &[&str]| {
        let mut run = Command::new(AS_STRANGER[0]);
        run.args(&AS_STRANGER[1..]).arg(env!("CARGO_BIN_EXE_cavalcade"));
        run.args(["run", "--task", task, "--door", "door", "--"]).args(command);
        run.current_dir(host.place.path("."));
        run
    };
    let mut first = run("one", &["sh", "-c", "cat /proc/self/cgroup; exec sleep 600"]);
    let mut first = Running(first.stdout(Stdio::piped()).spawn().unwrap());
    let mut groups = vec![0; 4096];
    let length = first.0.stdout.as_mut().unwrap().read(&mut groups).unwrap();
    assert!(String::from_utf8_lossy(&groups[..length]).contains("/cavalcade-"));
    let said = |task: &str| {
        let out = run(task, &["cat", "/proc/self/cgroup"]).output().unwrap();
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let (groups, refusal) = said("two");
    assert!(refusal.contains("a user may have 1 coflows at once"), "{refusal}");
    assert!(!groups.contains("/cavalcade-"), "{groups}");
    let (groups, refusal) = said("one");
    assert!(groups.contains("/cavalcade-") && refusal.is_empty(), "{groups}{refusal}");
}

#[test]
fn curl_waits_where_the_policy_says_so_and_nothing_is_left_after_an_interrupt() {
    let Some(mut host) = Host::new("fifo") else { return };
    let (first, received) = host.compete(true);
    assert_eq!(first, "/large", "{received:?}");
    // The same without it: the upload with less to send ends first.
    let (first, received) = host.compete(false);
    assert_eq!(first, "/small", "{received:?}");
    assert_eq!(host.end_enforcer("-INT"), Some(0));
    assert_eq!(host.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn an_enforcer_that_a_service_manager_ends_lets_go_of_what_waits_and_leaves_nothing() {
    let Some(mut host) = Host::new("fifo") else { return };
    let (seen, _uploads) = host.small_behind_large();
    assert_eq!(host.end_enforcer("-TERM"), Some(0));
    assert_eq!(host.leftovers(), Vec::<PathBuf>::new());
    eventually("both ends", || seen.lock().unwrap().ends.len() == 2);
}

/// Two servers in a network namespace of their own send over a pair of interfaces to clients in
/// another, as the tasks near-7001 and near-7002, until the file "cut" appears and the interfaces
/// go.
const TWO_SERVERS: &str = r#"
set -e
unshare --net sleep 600 & far=$!
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
in_far() { nsenter --net=/proc/$far/ns/net "$@"; }
ip link add near type veth peer name far netns $far
ip address add 10.99.0.1/24 dev near; ip link set near up
in_far ip address add 10.99.0.2/24 dev far; in_far ip link set far up
for port in 7001 7002; do
    CAVALCADE_CLI_TEST_SERVE=10.99.0.1:$port "$0" run --task near-$port --door door -- "$1" --exact serves_for_other_tests --nocapture &
    (until in_far curl -s -o /dev/null http://10.99.0.1:$port/; do sleep 0.1; done) &
done
until [ -e cut ]; do sleep 0.01; done
ip link delete near
touch gone
sleep 600
"#;

#[test]
fn an_interface_that_goes_away_under_transfers_that_run_and_wait_stops_nothing_else_and_leaves_nothing() {
    let Some(mut host) = Host::new("fifo") else { return };
    let apart = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let can = Command::new("unshare").args(apart).args(["ip", "link", "set", "lo", "up"]).status();
    if !can.is_ok_and(|status| status.success()) {
        return skipped("network namespaces (root, iproute2)");
    }
    let mut servers = Command::new("unshare");
    servers.args(apart).args(["bash", "-c", TWO_SERVERS, env!("CARGO_BIN_EXE_cavalcade")]);
    servers.arg(std::env::current_exe().unwrap()).current_dir(host.place.path("."));
    let servers = Running(servers.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    // Whichever is tagged first is served, and its transfer never ends.
    host.sees_bytes_of("near-");
    eventually("both servers", || ["near-7001", "near-7002"].iter().all(|task| host.lists(task, "")));
    host.place.write("cut", "");
    eventually("the end of the interfaces", || host.place.path("gone").exists());
    let mut command = host.place.command();
    let after = command.args(["run", "--task", "after", "--door", "door", "--", "cat", "/proc/self/cgroup"]);
    let after = String::from_utf8(after.output().unwrap().stdout).unwrap();
    assert!(after.contains("/cavalcade-"), "the enforcer goes on to tag: {after}");
    drop(servers);
    eventually("the end of both tasks", || !host.lists("near-", ""));
    assert_eq!(host.end_enforcer("-TERM"), Some(0));
    assert_eq!(host.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn a_small_upload_overtakes_a_large_one_under_dclas_and_an_enforcer_that_is_killed_is_cleaned_up() {
    let Some(mut host) = Host::new("dclas:weighted=false") else { return };
    let (first, received) = host.compete(true);
    assert_eq!(first, "/small", "{received:?}");
    host.end_enforcer("-KILL");
    assert!(!host.leftovers().is_empty());
    leftovers::fix(&host.ground()).unwrap();
    assert_eq!(host.leftovers(), Vec::<PathBuf>::new());
}

//! One suite for every language: what a client library has to do, tried against a real agent and
//! coordinator.
//!
//! A language brings a driver (see clients/README.md), which is told a line at a time what to do.
//! Waiting is for something to become so, with a bound far above what it takes; nothing is
//! measured.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

#[path = "conformance/owed.rs"]
mod owed;
#[path = "conformance/scripted.rs"]
mod scripted;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use cavalcade_client::CoflowKey;
use cavalcade_control::{Agent, AgentConfig, Coordinator, CoordinatorConfig, Mode};
use cavalcade_model::{BitsPerSec, Bytes, PortId};
use cavalcade_protocol::{Connection, Endpoints, Handover, enforcer_beside};
use cavalcade_runtime::{AgentSockets, Clock, bind_client_socket, block_on, serve_agent, serve_coordinator};
use cavalcade_testing::{Lines, Player, eventually, role, say, wait_for_go};
use tokio::sync::watch;

const RATE: BitsPerSec = BitsPerSec(10_000_000_000);
const HOSTS: u32 = 2;

/// The sender's address is host 0's, the receivers' host 1's.
fn address(host: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 2, 1 + host as u8))
}

/// A part of the system that runs until it is stopped or dropped.
struct Running {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn stop(mut self) {
        let _ = self.stop.send(true);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

fn coordinator() -> (Running, SocketAddr) {
    let (stop, stopped) = watch::channel(false);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = CoordinatorConfig::new(Clock::default().now().0, HOSTS, RATE);
            let policy = Box::new(cavalcade_policy::parse("fifo").unwrap());
            let listener = tokio::net::TcpListener::from_std(listener)?;
            serve_coordinator(Coordinator::new(config, policy), listener, stopped).await
        })
        .unwrap();
    });
    (Running { stop, thread: Some(thread) }, at)
}

fn agent(path: &Path, coordinator: SocketAddr) -> Running {
    let (stop, stopped) = watch::channel(false);
    let at = path.to_path_buf();
    let (up, is_up) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        block_on(async {
            let config = AgentConfig {
                directory: (0..HOSTS).map(|host| (address(host), PortId(host))).collect(),
                ..AgentConfig::new(PortId(0), HOSTS, Clock::default().now().0, RATE)
            };
            let coordinators = vec![coordinator];
            let sockets = AgentSockets { coordinators, ..AgentSockets::new(bind_client_socket(&at)?) };
            up.send(()).unwrap();
            serve_agent(Agent::new(config, Mode::Coordinated), sockets, stopped).await
        })
        .unwrap();
    });
    is_up.recv().unwrap();
    Running { stop, thread: Some(thread) }
}

/// A driver that runs.
struct Driver {
    child: Child,
    input: ChildStdin,
    output: Lines<ChildStdout>,
}

impl Driver {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), Lines::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        self.input.flush().unwrap();
        self.output.next().unwrap_or_default()
    }

    fn does(&mut self, command: &str, answer: &str) {
        assert_eq!(self.ask(command), answer, "{command}");
    }

    fn register(&mut self, facts: &str) -> CoflowKey {
        let answer = self.ask(&format!("register {facts}"));
        answer.strip_prefix("key ").and_then(|key| key.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
    }

    fn gate(&mut self, name: &str) -> String {
        self.ask(&format!("gate {name}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "quit");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Receives `count` connections at host 1; returns what came by its first byte.
fn receiver(count: usize) -> (SocketAddr, JoinHandle<BTreeMap<u8, Vec<u8>>>) {
    let listener = TcpListener::bind(SocketAddr::new(address(1), 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let accept = move || {
        let readers: Vec<_> = (0..count)
            .map(|_| {
                let (mut socket, _) = listener.accept().unwrap();
                std::thread::spawn(move || {
                    let mut bytes = Vec::new();
                    socket.read_to_end(&mut bytes).unwrap();
                    (bytes[0], bytes)
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    };
    (at, std::thread::spawn(accept))
}

fn contents(length: usize, first: usize) -> Vec<u8> {
    (0..length).map(|place| ((first + place) % 251) as u8).collect()
}

/// Checks all that every library has to do.
fn conforms(mut command: impl FnMut(&Path) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    works_without_an_agent(&mut Driver::start(&mut command(&path)));
    let (lead, at) = coordinator();
    let mut running = Some(agent(&path, at));
    let mut driver = Driver::start(&mut command(&path));
    driver.does("wait", "ready");
    names_coflows(&mut driver);
    running = obeys_and_falls_back_and_returns(&mut driver, &path, at, running);
    many_streams_at_once(&mut driver);
    hands_over_and_takes_back(&mut driver, &path);
    running.unwrap().stop();
    lead.stop();
}

fn works_without_an_agent(driver: &mut Driver) {
    let (first, second) = (driver.register(""), driver.register("size=1000 deadline=5 background weight=3"));
    assert!(first < second, "keys grow with time also without an agent");
    let child = driver.register(&format!("parent={first}"));
    assert_eq!((child.task, child.stage), (first.task, 1));
    let (to, received) = receiver(1);
    driver.does(&format!("open a {} {} {first}", to.ip(), to.port()), "opened");
    driver.does("gate a", "gate open");
    driver.does("write a 1000000 7", "writing");
    driver.does("finish a", "finished");
    driver.does(&format!("unregister {first}"), "unregistered");
    assert!(received.join().unwrap()[&7] == contents(1_000_000, 7));
}

fn names_coflows(driver: &mut Driver) {
    let scan = driver.register("");
    let other = driver.register("size=123456789012 deadline=60 weight=2 name=sort-7");
    assert_eq!(other.serial % 2, 0, "the agent gave it out, so it understood the name");
    let join = driver.register(&format!("parent={scan} parent={other}"));
    assert!(scan < other);
    assert_eq!((scan.stage, scan.task), (0, scan.serial));
    assert_eq!((join.stage, join.task), (1, scan.task), "of several tasks the oldest counts");
    assert!(join.serial > other.serial && join < other, "a task's later stages go before later tasks");
    [scan, other, join].iter().for_each(|key| driver.does(&format!("unregister {key}"), "unregistered"));
}

/// Writes a little more. A flow that makes no progress is taken to be idle: it gives up its place,
/// and has none to wait for.
fn go_on(driver: &mut Driver, name: &str, first: usize, sent: &mut usize) {
    driver.does(&format!("write {name} 500 {}", (first + *sent) % 251), "writing");
    *sent += 500;
}

fn obeys_and_falls_back_and_returns(
    driver: &mut Driver,
    path: &Path,
    coordinator: SocketAddr,
    mut running: Option<Running>,
) -> Option<Running> {
    let (early, late) = (driver.register(""), driver.register(""));
    let (to, received) = receiver(2);
    driver.does(&format!("open early {} {} {early}", to.ip(), to.port()), "opened");
    driver.does(&format!("open late {} {} {late} 3000000", to.ip(), to.port()), "opened");
    let (mut early_sent, mut late_sent) = (0, 0);
    eventually("the later coflow waits for its place", || {
        go_on(driver, "early", 1, &mut early_sent);
        go_on(driver, "late", 2, &mut late_sent);
        driver.gate("late") == "gate off"
    });
    driver.does(&format!("write late {} {}", 3_000_000 - late_sent, (2 + late_sent) % 251), "writing");
    running.take().unwrap().stop();
    eventually("without the agent it is plain TCP", || driver.gate("late") == "gate open");
    driver.does("finish late", "finished");
    let third = driver.register("");
    assert!(third > late, "keys go on growing from one agent to none");
    let (again, received_again) = receiver(1);
    driver.does(&format!("open third {} {} {third}", again.ip(), again.port()), "opened");
    running = Some(agent(path, coordinator));
    let mut third_sent = 0;
    eventually("and under its orders again once there is one", || {
        go_on(driver, "early", 1, &mut early_sent);
        go_on(driver, "third", 3, &mut third_sent);
        driver.gate("third") == "gate off"
    });
    driver.does("finish early", "finished");
    driver.does(&format!("unregister {early}"), "unregistered");
    // Its turn has come: what was before it is over.
    driver.does("finish third", "finished");
    assert!(received_again.join().unwrap()[&3] == contents(third_sent, 3));
    let received = received.join().unwrap();
    assert!(received[&2] == contents(3_000_000, 2));
    assert!(received[&1] == contents(early_sent, 1));
    running
}

fn many_streams_at_once(driver: &mut Driver) {
    let coflow = driver.register("size=4000000");
    let (to, received) = receiver(40);
    for name in 10..50 {
        driver.does(&format!("open s{name} {} {} {coflow} 100000", to.ip(), to.port()), "opened");
        driver.does(&format!("write s{name} 100000 {name}"), "writing");
    }
    (10..50).for_each(|name| driver.does(&format!("finish s{name}"), "finished"));
    driver.does(&format!("unregister {coflow}"), "unregistered");
    let received = received.join().unwrap();
    assert!((10..50).all(|first| received[&first] == contents(100_000, usize::from(first))));
}

/// What has come over connections that have ended, by the first byte; and where they came from.
#[derive(Debug, Default)]
struct Seen {
    ended: BTreeMap<u8, Vec<u8>>,
    peers: Vec<SocketAddr>,
}

/// Receives any number of connections at host 1.
fn sink() -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind(SocketAddr::new(address(1), 0)).unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Seen::default())));
    let seen_here = Arc::clone(&seen);
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let (mut socket, seen) = (socket.unwrap(), Arc::clone(&seen_here));
            seen.lock().unwrap().peers.push(socket.peer_addr().unwrap());
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                socket.read_to_end(&mut bytes).unwrap();
                if let Some(&first) = bytes.first() {
                    seen.lock().unwrap().ended.insert(first, bytes);
                }
            });
        }
    });
    (at, seen)
}

/// An enforcer that says what a test says, with the library that has connected to it.
struct Enforcer {
    library: UnixStream,
    lines: Lines<UnixStream>,
}

impl Enforcer {
    /// Listens beside an agent until a library finds it, which looks once in a second.
    fn found(agent: &Path) -> Self {
        let beside = enforcer_beside(agent);
        let (library, _) = UnixListener::bind(&beside).unwrap().accept().unwrap();
        std::fs::remove_file(beside).unwrap();
        let mut lines = Lines::new(library.try_clone().unwrap());
        assert_eq!(lines.next().as_deref(), Some(Handover::HELLO));
        Self { library, lines }
    }

    /// Returns the next connection that is handed over.
    fn hears(&mut self) -> Handover {
        self.lines.next().unwrap().parse().unwrap()
    }

    fn says(&mut self, answer: &str) {
        writeln!(self.library, "{answer}").unwrap();
    }
}

/// Opens a stream until it is handed over: the library keeps it for a moment after another was
/// refused.
fn open_in_kernel(driver: &mut Driver, name: &str, to: SocketAddr, rest: &str) {
    eventually("a connection that is handed over", || {
        driver.does(&format!("open {name} {} {} {rest}", to.ip(), to.port()), "opened");
        let is_asked = carrier(driver, name) == "kernel";
        if !is_asked {
            driver.does(&format!("finish {name}"), "finished");
        }
        is_asked
    });
}

fn carrier(driver: &mut Driver, name: &str) -> String {
    driver.ask(&format!("carrier {name}"))
}

fn hands_over_and_takes_back(driver: &mut Driver, agent: &Path) {
    let ((to, seen), early, late) = (sink(), driver.register(""), driver.register(""));
    driver.does(&format!("open early {} {} {early}", to.ip(), to.port()), "opened");
    assert_eq!(carrier(driver, "early"), "library", "there is no enforcer");
    let mut enforcer = Enforcer::found(agent);
    open_in_kernel(driver, "late", to, &format!("{late} 3000000"));
    let Handover { connection, coflow, sends } = enforcer.hears();
    assert_eq!((coflow, sends), (late, Some(Bytes(3_000_000))));
    if let Connection::Ends(Endpoints { local, remote }) = connection {
        assert_eq!(remote, to);
        eventually("the other end", || seen.lock().unwrap().peers.contains(&local));
    }
    enforcer.says(&format!("ok {late}"));
    driver.does("write late 1000 2", "writing");
    answers_belong_to_what_was_asked_in_turn(driver, &mut enforcer, to, late);
    drop(enforcer);
    let (mut early_sent, mut late_sent) = (0, 1_000);
    eventually("what was handed over is the library's again, and obeys", || {
        go_on(driver, "early", 1, &mut early_sent);
        go_on(driver, "late", 2, &mut late_sent);
        carrier(driver, "late") == "library" && driver.gate("late") == "gate off"
    });
    driver.does("finish early", "finished");
    driver.does(&format!("unregister {early}"), "unregistered");
    driver.does("finish late", "finished");
    eventually("all bytes", || seen.lock().unwrap().ended.len() == 3);
    assert!(seen.lock().unwrap().ended[&1] == contents(early_sent, 1));
    assert!(seen.lock().unwrap().ended[&2] == contents(late_sent, 2));
}

fn answers_belong_to_what_was_asked_in_turn(
    driver: &mut Driver,
    enforcer: &mut Enforcer,
    to: SocketAddr,
    coflow: CoflowKey,
) {
    let names = ["over", "refused", "taken"];
    // On a machine that halts for a moment the first has waited too long for the others to be asked
    // for.
    eventually("three that are asked for in a row", || {
        let opened = names.map(|name| {
            driver.does(&format!("open {name} {} {} {coflow}", to.ip(), to.port()), "opened");
            carrier(driver, name) == "kernel"
        });
        let asked = opened.into_iter().filter(|is_asked| *is_asked).count();
        (0..asked).for_each(|_| assert_eq!(enforcer.hears().coflow, coflow));
        if asked < names.len() {
            (0..asked).for_each(|_| enforcer.says("no room"));
            names.iter().for_each(|name| driver.does(&format!("finish {name}"), "finished"));
        }
        asked == names.len()
    });
    // Over before it is answered.
    driver.does("write over 1000 9", "writing");
    driver.does("finish over", "finished");
    ["no longer", "no room", &format!("ok {coflow}")].into_iter().for_each(|answer| enforcer.says(answer));
    eventually("a refusal", || carrier(driver, "refused") == "library");
    assert_eq!(carrier(driver, "taken"), "kernel");
    open_in_kernel(driver, "asked", to, &coflow.to_string());
    // An enforcer that has not answered for 0.2 s is asked for nothing more.
    std::thread::sleep(Duration::from_millis(300));
    driver.does(&format!("open kept {} {} {coflow}", to.ip(), to.port()), "opened");
    assert_eq!(carrier(driver, "kept"), "library");
    for name in ["refused", "taken", "asked", "kept"] {
        driver.does(&format!("finish {name}"), "finished");
    }
}

/// The other user who stands where libraries look for an enforcer.
#[test]
fn stands_in_the_enforcers_place() {
    let Some(agent) = role() else { return };
    let listener = UnixListener::bind(enforcer_beside(Path::new(&agent))).unwrap();
    say("listens");
    say(format!("heard {} bytes", listener.accept().unwrap().0.read(&mut [0; 64]).unwrap()));
    wait_for_go();
}

/// Checks that a library says nothing to who has put a socket where it looks for the enforcer.
fn says_nothing_to_another_user(mut command: impl FnMut(&Path) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let agent = folder.path().join("agent.sock");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let _agent = UnixListener::bind(&agent).unwrap();
    if std::fs::metadata(&agent).unwrap().uid() != 0 {
        return cavalcade_testing::skipped("root, to become another user");
    }
    let mut stranger = Command::new("setpriv");
    stranger.args(["--reuid=65534", "--clear-groups"]);
    let mut stranger =
        Player::start(Some(stranger), "stands_in_the_enforcers_place", agent.to_str().unwrap());
    assert_eq!(stranger.hears(), "listens");
    let _driver = Driver::start(&mut command(&agent));
    assert_eq!(stranger.hears(), "heard 0 bytes");
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../clients")
}

/// The folder of Python's package and its tests.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../python")
}

/// Tells whether a program runs; reports the test as skipped where it does not.
fn runs(program: &str, argument: &str) -> bool {
    let tried = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = tried.is_ok_and(|status| status.success());
    if !works {
        cavalcade_testing::skipped(program);
    }
    works
}

fn rust(face: &'static str) -> impl FnMut(&Path) -> Command {
    // Cargo puts examples beside the folder of tests.
    let own = std::env::current_exe().unwrap();
    let driver = own.ancestors().nth(2).unwrap().join("examples/conformance");
    move |path| {
        let mut command = Command::new(&driver);
        command.arg(path).arg(face);
        command
    }
}

#[test]
fn rust_that_blocks_conforms() {
    conforms(rust("blocking"));
}

#[test]
fn rust_on_tokio_conforms() {
    conforms(rust("tokio"));
}

#[test]
fn rust_that_blocks_owes_nothing() {
    owed::owes_nothing(rust("blocking"));
}

#[test]
fn rust_on_tokio_owes_nothing() {
    owed::owes_nothing(rust("tokio"));
}

#[test]
fn rust_says_nothing_to_another_user_in_the_enforcers_place() {
    says_nothing_to_another_user(rust("blocking"));
}

/// The command of a driver in Python, where that is there.
fn python(face: &'static str) -> Option<impl FnMut(&Path) -> Command> {
    runs("python3", "--version").then_some(move |path: &Path| {
        let mut command = Command::new("python3");
        command.arg("-B").arg(package().join("tests/live/driver.py")).arg(path).arg(face);
        command.env("PYTHONPATH", package());
        command
    })
}

#[test]
fn python_that_blocks_conforms() {
    python("blocking").into_iter().for_each(conforms);
}

#[test]
fn python_on_asyncio_conforms() {
    python("asyncio").into_iter().for_each(conforms);
}

#[test]
fn python_that_blocks_owes_nothing() {
    python("blocking").into_iter().for_each(owed::owes_nothing);
}

#[test]
fn python_on_asyncio_owes_nothing() {
    python("asyncio").into_iter().for_each(owed::owes_nothing);
}

/// The versions of Python that are tried where there is pyenv to choose among them: asyncio has its
/// own in each.
const VERSIONS: [&str; 4] = ["3.10", "3.11", "3.12", "3.13"];

/// A command for Python of this version, if it is that.
fn python_of(version: &str) -> Option<Command> {
    let start = || {
        let mut command = Command::new("python3");
        command.env("PYENV_VERSION", version);
        command
    };
    let shown = start().arg("--version").output().ok()?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    shown.strip_prefix("Python ")?.starts_with(&format!("{version}.")).then(start)
}

#[test]
fn pythons_own_tests_pass() {
    if !runs("python3", "--version") {
        return;
    }
    let others = VERSIONS.iter().filter_map(|version| python_of(version));
    for mut command in std::iter::once(Command::new("python3")).chain(others) {
        command
            .args(["-B", "-m", "unittest", "discover", "-s", "tests/live"])
            .env("PYTHONPATH", package())
            .current_dir(package());
        assert!(command.status().unwrap().success(), "{command:?}");
    }
}

/// Compiles the Java client with `more` into `folder`; whether there is a compiler.
fn javac(folder: &Path, more: &Path) -> bool {
    if !runs("javac", "-version") {
        return false;
    }
    let sources = std::fs::read_dir(clients().join("java/src/main/java/cavalcade"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut command = Command::new("javac");
    command.args(["-Xlint:all", "-Werror", "-d"]).arg(folder).arg(more).args(sources);
    assert!(command.status().unwrap().success(), "the Java client compiles without a warning");
    true
}

fn java(folder: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(folder).arg(class);
    command
}

#[test]
fn java_reads_and_writes_the_bytes_of_the_specification() {
    let folder = tempfile::tempdir().unwrap();
    if javac(folder.path(), &clients().join("java/src/test/java/cavalcade/Vectors.java")) {
        let ran =
            java(folder.path(), "cavalcade.Vectors").arg(clients().join("vectors.txt")).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        // All that an agent says, and six of what a client does.
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "22");
    }
}

#[test]
fn java_says_what_a_program_got_wrong() {
    let folder = tempfile::tempdir().unwrap();
    if javac(folder.path(), &clients().join("java/src/test/java/Misuse.java")) {
        let ran = java(folder.path(), "Misuse").output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "48");
    }
}

/// Compiles the driver into `folder`; the command that starts it, where there is a compiler.
fn java_driver(folder: &Path, face: &'static str) -> Option<impl FnMut(&Path) -> Command> {
    let start = move |path: &Path| {
        let mut command = java(folder, "Driver");
        command.arg(path).arg(face);
        command
    };
    javac(folder, &clients().join("java/src/test/java/Driver.java")).then_some(start)
}

#[test]
fn java_conforms() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "stream").into_iter().for_each(conforms);
}

#[test]
fn java_of_channels_conforms() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "channel").into_iter().for_each(conforms);
}

#[test]
fn java_of_flows_conforms() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "flow").into_iter().for_each(conforms);
}

#[test]
fn java_owes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "stream").into_iter().for_each(owed::owes_nothing);
}

#[test]
fn java_of_channels_owes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "channel").into_iter().for_each(owed::owes_nothing);
}

#[test]
fn java_says_nothing_to_another_user_in_the_enforcers_place() {
    let folder = tempfile::tempdir().unwrap();
    java_driver(folder.path(), "stream").into_iter().for_each(says_nothing_to_another_user);
}

/// The program in a language that stands in clients/README.md under "The same in each language".
fn from_readme(language: &str) -> String {
    let text = std::fs::read_to_string(clients().join("README.md")).unwrap();
    let (_, same) = text.split_once("\n## The same in each language\n").unwrap();
    let (_, rest) = same.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

/// Runs an example against an agent, and checks what its receiver gets.
fn sends_its_line(mut command: Command) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.sock");
    let (lead, at) = coordinator();
    let running = agent(&path, at);
    let (to, received) = receiver(1);
    command.arg(&path).arg(to.ip().to_string()).arg(to.port().to_string()).env("CAVALCADE_SOCKET", &path);
    let status = command.status().unwrap();
    assert!(status.success());
    assert_eq!(received.join().unwrap()[&b'm'], b"map output\n");
    running.stop();
    lead.stop();
}

#[test]
fn the_readmes_rust_runs() {
    let own = std::env::current_exe().unwrap();
    let example = own.ancestors().nth(2).unwrap().join("examples/readme");
    assert_eq!(from_readme("rust"), include_str!("../examples/readme.rs"));
    sends_its_line(Command::new(example));
}

#[test]
fn the_readmes_python_runs() {
    if runs("python3", "--version") {
        let mut command = Command::new("python3");
        command.args(["-B", "-c", &from_readme("python")]).env("PYTHONPATH", package());
        sends_its_line(command);
    }
}

#[test]
fn the_readmes_python_of_workers_runs() {
    if runs("python3", "--version") {
        let folder = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(clients().join("README.md")).unwrap();
        let program = text.split("```python\n").find(|block| block.contains("multiprocessing")).unwrap();
        let file = folder.path().join("workers.py");
        std::fs::write(&file, program.split_once("```").unwrap().0).unwrap();
        let mut command = Command::new("python3");
        command.arg("-B").arg(file).env("PYTHONPATH", package());
        sends_its_line(command);
    }
}

#[test]
fn the_readmes_java_runs() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Readme.java");
    std::fs::write(&source, from_readme("java")).unwrap();
    if javac(folder.path(), &source) {
        sends_its_line(java(folder.path(), "Readme"));
    }
}

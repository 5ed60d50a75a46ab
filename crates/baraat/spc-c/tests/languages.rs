//! A C program and a Python program over a real switch, each with the library as it is installed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../switch/tests/support/mod.rs"]
#[allow(dead_code, reason = "it has only a part of the switch's needs")]
mod support;

use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cavalcade_spc::counters::Counters;
use cavalcade_testing::{Lines, eventually};
use support::{Net, Switch};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The library as it is installed, below a folder.
fn install() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Beside the folder of this test's own program.
    let built = std::env::current_exe().unwrap().parent().unwrap().join("libcavalcade_spc_c.so");
    assert!(built.exists(), "{} is built with the tests", built.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
    let done = Command::new("sh").arg(script).arg(folder.path()).arg(built).status().unwrap();
    assert!(done.success());
    folder
}

/// Compiles the C program with what pkg-config says, or with what it would say where there is none.
fn compile(prefix: &Path) -> Option<PathBuf> {
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "cavalcade_spc"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output();
    let flags = match asked {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }
        Err(_) => format!("-I{0}/include -L{0}/lib -lcavalcade_spc", prefix.display()),
    };
    let program = prefix.join("echo");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/echo.c");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-D_DEFAULT_SOURCE", "-o"])
        .arg(&program)
        .arg(source)
        .args(flags.split_whitespace())
        .output();
    let Ok(compiled) = compiled else {
        cavalcade_testing::skipped("a C compiler");
        return None;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// Serves a counter as an agent does, for programs to ask: 3, 7, 11 and so on, of every user that
/// runs this.
fn counters(folder: &Path) -> PathBuf {
    let own = format!("own:first=3,step=4,users={}", rustix::process::getuid().as_raw());
    let counters = Arc::new(Counters::new(&[own.parse().unwrap()]).unwrap());
    let path = folder.join("counters.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || counters.serve(&listener));
    path
}

/// A command in a host's namespace that finds the library.
fn command(host: &str, prefix: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host]).args(arguments).env("COUNTERS", prefix.join("counters.sock"));
    finding_library(&mut command, prefix);
    command
}

/// Tells a program where the library is.
fn finding_library<'a>(command: &'a mut Command, prefix: &Path) -> &'a mut Command {
    command
        .env("LD_LIBRARY_PATH", prefix.join("lib"))
        .env("PYTHONPATH", prefix.join("share/cavalcade"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
}

/// Starts a program and waits until it says that it is so far.
fn started(command: &mut Command, so_far: &str) -> (Running, Lines<std::process::ChildStdout>) {
    let mut running = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = Lines::new(running.0.stdout.take().unwrap());
    assert_eq!(lines.next().unwrap(), so_far);
    (running, lines)
}

/// Starts a server and waits until it listens.
fn serve(mut command: Command) -> (Running, Lines<std::process::ChildStdout>) {
    started(&mut command, "listens")
}

fn asked(mut command: Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"same\n", "{}: {said}", output.status);
}

/// Two hosts at one switch.
fn network() -> Option<(Net, [String; 2], Switch)> {
    let mut net = Net::new()?;
    let place = net.add("sw");
    let hosts = [1, 2].map(|number| net.host(number, &place));
    let switch =
        Switch::carried(cavalcade_switch::Carrier::Process, &place, 1, &["p1".to_owned(), "p2".to_owned()]);
    Some((net, hosts, switch))
}

#[test]
fn a_c_program_sends_and_receives_through_a_switch() {
    let Some((_net, [client, server], switch)) = network() else { return };
    let prefix = install();
    let Some(program) = compile(prefix.path()) else { return };
    let program = program.to_str().unwrap();
    counters(prefix.path());
    let (_running, mut lines) =
        serve(command(&server, prefix.path(), &[program, "serve", "10.9.0.2:4000", "2"]));
    for task in ["7", "8"] {
        asked(command(&client, prefix.path(), &[program, "ask", "10.9.0.2:4000", task, "300000"]));
        assert_eq!(lines.next().unwrap(), format!("task {task}: 300000 bytes"));
    }
    assert!(switch.end().report.ports.iter().all(|port| port.spc.bytes > 600_000), "both ways by the switch");
}

/// Returns whether there is Python; a test is reported as skipped where there is none.
fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        cavalcade_testing::skipped("Python 3");
    }
    found
}

#[test]
fn a_python_program_written_for_sockets_runs_over_spc_by_its_import_alone() {
    if !has_python() {
        return;
    }
    let Some((_net, [client, server], switch)) = network() else { return };
    let prefix = install();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drop_in.py");
    let script = script.to_str().unwrap();
    counters(prefix.path());
    let (_running, _lines) =
        serve(command(&server, prefix.path(), &["python3", script, "serve", "10.9.0.2", "4000"]));
    asked(command(&client, prefix.path(), &["python3", script, "ask", "10.9.0.2", "4000"]));
    assert!(switch.end().report.ports[0].spc.bytes > 120_000);
}

#[test]
fn ctrl_c_ends_a_python_program_at_once_whatever_call_it_waits_in() {
    // Half of the time after which a silent host is given up.
    const AT_ONCE: Duration = Duration::from_secs(15);
    if !has_python() {
        return;
    }
    let prefix = install();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interrupted.py");
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    for call in ["connect", "accept", "recv", "sendall"] {
        let mut command = Command::new("python3");
        command.arg(&script).args([call, "127.0.0.1", &port]).stderr(Stdio::piped());
        let (mut waits, _lines) = started(finding_library(&mut command, prefix.path()), "waits");
        if call == "connect" {
            silent.recv(&mut [0; 2_000]).unwrap();
        }
        let state = format!("/proc/{}/stat", waits.0.id());
        // A while, so that all that there is room for has been written.
        let mut asleep = 0;
        eventually(format_args!("it waits in {call}"), || {
            let sleeps = std::fs::read_to_string(&state).unwrap().contains(") S ");
            asleep = if sleeps { asleep + 1 } else { 0 };
            asleep > 20
        });
        let asked = Instant::now();
        let process = rustix::process::Pid::from_child(&waits.0);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        eventually(format_args!("{call} is interrupted"), || waits.0.try_wait().unwrap().is_some());
        let took = asked.elapsed();
        let mut said = String::new();
        waits.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.ends_with("KeyboardInterrupt\n") && took < AT_ONCE, "{call}, {took:?}: {said}");
    }
}

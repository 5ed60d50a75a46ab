//! Java programs with the client library, which name their connections by both ends.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

use cavalcade_testing::{Lines, eventually, skipped};

use super::support::Running;
use super::{Host, LARGE, LEAD, SMALL, receive};

/// A program that uploads by the client library, below the enforcer's control group.
struct Program {
    lines: Lines<ChildStdout>,
    /// It ends with its input.
    _process: Running,
}

impl Program {
    /// Starts the virtual machine with `option`; the program is compiled.
    fn start(host: &Host, option: &str, name: &str, bytes: usize, to: SocketAddr) -> Self {
        let mut command = Command::new("sh");
        let enter = format!("echo $$ > {}/cgroup.procs && exec java \"$@\"", host.group.path().display());
        command
            .args(["-c", &enter, "java", "-XX:TieredStopAtLevel=1", option, "-cp"])
            .arg(host.place.path("."));
        command.arg("Upload").arg(host.place.path("cavalcade.sock")).args([name, &bytes.to_string()]);
        command.args([to.ip().to_string(), to.port().to_string()]);
        let mut process = Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        Self { lines: Lines::new(process.0.stdout.take().unwrap()), _process: process }
    }

    fn says(&mut self) -> String {
        self.lines.next().unwrap_or_default()
    }
}

/// A host with the compiled program in its folder; nothing where it lacks what that takes.
fn host(policy: &str) -> Option<Host> {
    if Command::new("javac").arg("-version").output().is_err() {
        skipped("javac");
        return None;
    }
    let host = Host::new(policy)?;
    let java = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../clients/java/src");
    let mut command = Command::new("javac");
    command.arg("-sourcepath").arg(java.join("main/java")).arg("-d").arg(host.place.path("."));
    assert!(command.arg(java.join("test/java/Upload.java")).status().unwrap().success());
    Some(host)
}

/// Sockets for both families, as Java makes them by default.
const BOTH: &str = "-Djava.net.preferIPv4Stack=false";
const ONLY_IPV4: &str = "-Djava.net.preferIPv4Stack=true";

#[test]
fn java_programs_with_the_client_library_are_carried_by_the_kernel() {
    let Some(host) = host("fifo") else { return };
    let (address, seen) = receive("127.0.0.2");
    let received = |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
    let mut large = Program::start(&host, BOTH, "large", LARGE, address);
    assert_eq!(large.says(), "open");
    eventually("the large upload's lead", || received("/large") >= LEAD);
    let mut small = Program::start(&host, ONLY_IPV4, "small", SMALL, address);
    assert_eq!([small.says(), large.says(), small.says()], ["open", "kernel", "kernel"]);
    let (first, of_each) = seen.lock().unwrap().ends[0].clone();
    assert_eq!(first, "/large", "{of_each:?}");
    assert!(of_each.get("/small").copied().unwrap_or(0) < SMALL / 2, "{of_each:?}");
}

#[test]
fn what_a_java_program_has_handed_over_is_its_librarys_again_when_the_enforcer_ends() {
    let Some(mut host) = host("fair") else { return };
    for signal in ["-TERM", "-KILL"] {
        let (address, seen) = receive("127.0.0.2");
        let received =
            |path: &str| seen.lock().unwrap().uploads.get(path).map_or(0, |upload| upload.received);
        let mut program = Program::start(&host, BOTH, "large", LARGE, address);
        assert_eq!(program.says(), "open");
        eventually("the upload's lead", || received("/large") >= LEAD);
        host.end_enforcer(signal);
        assert_eq!(program.says(), "library");
        assert_eq!(received("/large"), LARGE);
        host.start_enforcer(&[]);
    }
}

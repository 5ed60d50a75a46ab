//! An enforcer that is started again: what runs belongs to its coflow as before.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use cavalcade_testing::eventually;

use super::Host;
use super::support::Running;

/// Takes in whatever comes, over any number of connections.
fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            std::thread::spawn(move || while let Ok(1..) = socket.read(&mut [0; 16 << 10]) {});
        }
    });
    address
}

#[test]
fn commands_that_run_belong_to_the_same_coflow_when_the_enforcer_is_started_again() {
    let Some(mut host) = Host::new("fifo") else { return };
    let port = sink().port();
    let send =
        format!("while true; do head -c 3000000 /dev/zero > /dev/tcp/127.0.0.2/{port}; sleep 0.1; done");
    let mut command = host.place.command();
    command.args(["run", "--task", "batch", "--door", "door", "--", "bash", "-c", &send]);
    let _batch = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let sent = |host: &Host| {
        Some((host.task("batch")?["coflow"].clone(), host.task("batch")?["sent_bytes"].as_u64()?))
    };
    let mut first = None;
    eventually("bytes of the task", || {
        first = sent(&host).filter(|(_, bytes)| *bytes > 1_000_000);
        first.is_some()
    });
    let (key, mut before) = first.unwrap();
    let kept = || std::fs::read_to_string(host.place.path("door.kept")).unwrap_or_default();
    eventually("what is kept", || kept().contains(key.as_str().unwrap()));
    for signal in ["-KILL", "-TERM", "-KILL"] {
        host.end_enforcer(signal);
        host.start_enforcer(&["--tag", "{group}/service=web:background"]);
        eventually("more bytes of the same coflow", || {
            sent(&host).is_some_and(|(now, bytes)| now == key && bytes > before + 4_000_000)
        });
        before = sent(&host).unwrap().1;
    }
}

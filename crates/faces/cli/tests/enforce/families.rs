//! Sockets that are made for both families, as all of Java are: their connections over IPv4 are
//! marked as others are.

use std::process::{Command, Stdio};

use cavalcade_testing::{Lines, eventually, skipped};

use super::support::Running;
use super::{AS_STRANGER, Host, SERVE, deadlines::slow};

/// The mark of the highest class in hexadecimal, as `ss` shows it.
const HIGHEST: &str = "tos:0xa0";

/// The lines of `ss` for connections over IPv4 of sockets for both families that `filter` takes.
fn mapped(filter: &str) -> Vec<String> {
    let shown = Command::new("ss").args(["-tnH", "--tos", "state", "established", filter]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    shown.lines().filter(|line| line.contains("[::ffff:")).map(str::to_owned).collect()
}

/// Tells whether there are so many, all with this mark.
fn all_have(mark: &str, filter: &str, count: usize) -> bool {
    let lines = mapped(filter);
    lines.len() == count && lines.iter().all(|line| line.split_whitespace().any(|word| word == mark))
}

/// The command that sends to `port` without end.
fn send_to(port: u16) -> String {
    format!("exec 3<>/dev/tcp/::ffff:127.0.0.2/{port}; exec cat /dev/zero >&3")
}

fn host(more: &[&str]) -> Option<Host> {
    if Command::new("ss").arg("-V").output().is_err() {
        skipped("ss (iproute2)");
        return None;
    }
    Host::with("fifo", more)
}

#[test]
fn a_connection_over_ipv4_of_a_socket_for_both_families_is_marked_until_the_enforcer_ends() {
    let Some(mut host) = host(&[]) else { return };
    let port = slow().port();
    let to = format!("dport = :{port}");
    let mut sender = host.place.command();
    sender.args(["run", "--task", "both", "--door", "door", "--", "bash", "-c", &send_to(port)]);
    let _sender = Running(sender.spawn().unwrap());
    eventually("its mark", || all_have(HIGHEST, &to, 1));
    assert_eq!(host.end_enforcer("-TERM"), Some(0));
    assert!(all_have("tos:0", &to, 1), "{:?}", mapped(&to));
}

#[test]
fn connections_that_a_rule_for_their_user_has_tagged_are_marked_too() {
    let Some(host) = host(&["--tag", "user:65534=jobs"]) else { return };
    let port = slow().port();
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$0\" \"$@\"", host.group.path().display());
    let mut sender = Command::new("sh");
    sender.args(["-c", &enter]).args(AS_STRANGER).args(["bash", "-c", &send_to(port)]);
    let _sender = Running(sender.spawn().unwrap());
    eventually("its mark", || all_have(HIGHEST, &format!("dport = :{port}"), 1));
}

#[test]
fn a_server_for_both_families_marks_what_it_accepts_late() {
    let Some(host) = host(&[]) else { return };
    let own = std::env::current_exe().unwrap();
    let mut server = host.place.command();
    server.args(["run", "--task", "served", "--door", "door", "--"]).arg(own);
    server.args(["--exact", "serves_for_other_tests", "--nocapture"]).env(SERVE, "[::]:0");
    let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
    let address = Lines::new(server.0.stdout.take().unwrap()).after("serves at ").unwrap();
    let port = address.rsplit(':').next().unwrap();
    let (url, from) = (format!("http://127.0.0.2:{port}/"), format!("sport = :{port}"));
    let curl = || Running(Command::new("curl").args(["-s", "-o", "/dev/null", &url]).spawn().unwrap());
    let first = curl();
    eventually("its mark", || all_have(HIGHEST, &from, 1));
    // It waits until the server has done with the first, and has no descriptor until then.
    let _second = curl();
    eventually("both", || mapped(&from).len() == 2);
    assert!(!all_have(HIGHEST, &from, 2));
    drop(first);
    eventually("the mark of the second", || all_have(HIGHEST, &from, 1));
}

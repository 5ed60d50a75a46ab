//! `cavalcade drain`, and an agent that goes: what is no longer scheduled is plain TCP.

use std::net::SocketAddr;
use std::process::Command;

use cavalcade_testing::{eventually, role, say, skipped, wait_for_go};

use super::deadlines::slow;
use super::{Host, SMALL, receive};

#[test]
fn what_an_administrator_drains_and_what_has_lost_its_agent_goes_on_as_plain_tcp() {
    let losses: [fn(&mut Host); 2] =
        [|host| host.administers(&["drain", "--user", "0"]), |host| drop(host.up.take())];
    for lose in losses {
        let Some(mut host) = Host::new("fifo") else { return };
        let _endless = host.sender("endless", slow(), &[]);
        host.sees_bytes_of("endless");
        let (address, seen) = receive("127.0.0.2");
        let _small = host.upload("small", SMALL, address, true);
        eventually("the small one", || host.lists("small", ""));
        lose(&mut host);
        eventually("the end of what would wait for ever", || seen.lock().unwrap().ends.len() == 1);
    }
}

#[test]
fn reads_slowly_for_other_tests() {
    if role().is_some() {
        say(slow());
        wait_for_go();
    }
}

/// The agent's socket for administrators. A coordinator would say of each flow that it is drained.
const AGENT: &str = "cavalcade.administration.sock";

/// Tells whether the one connection to `to` has a congestion control of the enforcer's; none where
/// there is no such connection.
fn has_own_control(to: SocketAddr) -> Option<bool> {
    let shown = Command::new("ss").args(["-tinH", "state", "established", "dst", &to.to_string()]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    shown.contains("rtt:").then(|| shown.contains("cv_dctcp"))
}

#[test]
fn what_a_drained_user_begins_has_the_systems_congestion_control_until_the_drain_ends() {
    // Both ends have to know the marks.
    let Some(host) = Host::with("fifo", &["--congestion", "dctcp", "--answer-marks"]) else { return };
    if Command::new("ss").arg("-V").output().is_err() {
        return skipped("ss (iproute2)");
    }
    let mut receiver = host.player("drains::reads_slowly_for_other_tests", "");
    let to = receiver.hears().parse().unwrap();
    let before = host.sender("before", to, &[]);
    eventually("the enforcer's control", || has_own_control(to) == Some(true));
    drop(before);
    host.administers(&["drain", "--user", "0", "--at", AGENT]);
    eventually("its end", || has_own_control(to).is_none());
    let _sender = host.sender("long", to, &[]);
    host.sees_bytes_of("long");
    eventually("the system's control", || has_own_control(to) == Some(false));
    host.administers(&["drain", "--user", "0", "--undo", "--at", AGENT]);
    eventually("the enforcer's control", || has_own_control(to) == Some(true));
}

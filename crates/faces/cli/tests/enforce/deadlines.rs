//! `cavalcade run --deadline`: what the command line says reaches the policy, and the gates.

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use cavalcade_testing::eventually;
use serde_json::Value;

use super::Host;
use super::support::Running;

/// A receiver that reads so slowly, some 800 KB of each sender in a second, that they are not done
/// before the test is.
pub(super) fn slow() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            std::thread::spawn(move || {
                while socket.read(&mut [0; 16 << 10]).is_ok_and(|length| length > 0) {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
        }
    });
    address
}

impl Host {
    /// Starts a task that sends to `to` as long as it lives, with more words for `cavalcade run`.
    pub(super) fn sender(&self, task: &str, to: SocketAddr, more: &[&str]) -> Running {
        let port = to.port();
        let mut command = self.place.command();
        command.args(["run", "--task", task, "--door", "door"]).args(more);
        let send = format!("exec 3<>/dev/tcp/127.0.0.2/{port}; exec cat /dev/zero >&3");
        Running(command.args(["--", "bash", "-c", &send]).spawn().unwrap())
    }

    /// A task as the coordinator sees it.
    pub(super) fn task(&self, name: &str) -> Option<Value> {
        let ps =
            self.place.command().args(["ps", "--json"]).env("XDG_RUNTIME_DIR", self.place.path(".")).output();
        // On a busy machine it may be asked in vain, and is asked again.
        let view: Value = serde_json::from_slice(&ps.unwrap().stdout).ok()?;
        view["coflows"].as_array()?.iter().find(|coflow| coflow["name"] == name).cloned()
    }

    /// Waits until a task has this class.
    pub(super) fn finds(&self, name: &str, class: u64) {
        eventually(format_args!("{name} in class {class}"), || {
            self.task(name).is_some_and(|task| task["class"] == class)
        });
    }
}

#[test]
fn the_earliest_deadline_of_a_command_goes_first_under_edf_and_the_next_when_it_ends() {
    let Some(host) = Host::new("edf") else { return };
    let to = slow();
    let _never = host.sender("never", to, &[]);
    host.finds("never", 1);
    let _late = host.sender("late", to, &["--deadline", "2h"]);
    host.finds("late", 0);
    let soon = host.sender("soon", to, &["--deadline", "1h"]);
    let gates = |name: &str| host.task(name).map(|task| (task["open"] != 0, task["off"] != 0));
    let are_off = |names: &[&str]| names.iter().all(|name| gates(name) == Some((false, true)));
    eventually("the others behind the earliest", || are_off(&["never", "late"]));
    let left = |name| host.task(name).unwrap()["deadline_ns"].as_i64();
    let hour = 3_600_000_000_000;
    let [of_soon, of_late] = ["soon", "late"].map(|name| left(name).unwrap());
    assert!(of_soon <= hour && hour < of_late && of_late <= 2 * hour, "{of_soon} {of_late}");
    assert_eq!(left("never"), None);
    drop(soon);
    let is_open = |name: &str| gates(name).is_some_and(|(is_open, _)| is_open);
    eventually("the next deadline before none", || is_open("late") && are_off(&["never"]));
}

#[test]
fn a_command_that_cannot_meet_its_deadline_or_has_missed_it_goes_last_under_dcoflow() {
    let Some(host) = Host::new("dcoflow") else { return };
    let to = slow();
    let sends = |bytes: &str| format!("127.0.0.2:{bytes}");
    let (much, more, some) = (sends("1TB"), sends("1GB"), sends("20MB"));
    // Of 100 Mbps: a day, 80 s and 2 s. The receiver takes longer for any of them.
    let _hopeless = host.sender("hopeless", to, &["--sends", &much, "--deadline", "1h"]);
    let _easy = host.sender("easy", to, &["--sends", &more, "--deadline", "1h"]);
    let _brief = host.sender("brief", to, &["--sends", &some, "--deadline", "10s"]);
    let _never = host.sender("never", to, &["--sends", &more]);
    let is_late = |task: &Value| task["deadline_ns"].as_i64().unwrap() < 0;
    // A machine that is busy for so long shows less.
    eventually("brief in class 0", || {
        host.task("brief").is_some_and(|brief| brief["class"] == 0 || is_late(&brief))
    });
    for (name, class) in [("hopeless", 2), ("easy", 0), ("never", 1)] {
        host.finds(name, class);
    }
    eventually("a missed deadline", || host.task("brief").is_some_and(|brief| is_late(&brief)));
    // The policy decides again when a coflow begins or ends.
    let _next = host.sender("next", to, &["--sends", &more]);
    host.finds("next", 1);
    host.finds("brief", 2);
    host.finds("easy", 0);
}

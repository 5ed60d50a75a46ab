//! `cavalcade doctor`: what this host can do for the live system, and what to do about the rest.
//!
//! Everything is tried or read here and now; nothing is left changed. Only what transfers need
//! decides the exit code: without pacing or marking orders cannot be carried out, all else is
//! convenience or belongs to one command.

mod ports;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cavalcade_enforce::{Error, Place, leftovers};
use cavalcade_runtime::Identity;
use serde::Serialize;
use serde_json::json;

use crate::administration::{found_sockets, shown, stale_sockets};
use crate::arguments::Doctor;
use crate::failure::{Failure, Kind};
use crate::live::runtime_folder;
use crate::output::print;

/// Descriptors that an agent with a thousand clients, or a coordinator with as many agents, may
/// need.
const DESCRIPTORS: u64 = 8192;
/// The naps after which is looked how late a thread wakes.
const WAKE_UPS: u32 = 100;
/// The lateness from which on leases of 100 ms are in danger: signs of life come every 10 ms, and a
/// thread at each end may be as late.
const LATE: Duration = Duration::from_millis(40);
/// The capability to make network namespaces and queues (`CAP_NET_ADMIN`), and the bit that it has
/// in a process's status.
const NET_ADMIN: u32 = 12;

/// The state of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// In order.
    Good,
    /// Something is slower or missing that not everybody needs.
    Limited,
    /// Transfers cannot be scheduled.
    Missing,
}

/// One finding.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    name: &'static str,
    state: State,
    finding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cure: Option<String>,
}

fn good(name: &'static str, finding: impl Into<String>) -> Finding {
    Finding { name, state: State::Good, finding: finding.into(), cure: None }
}

fn limited(name: &'static str, finding: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { name, state: State::Limited, finding: finding.into(), cure: Some(cure.into()) }
}

/// `cavalcade doctor`.
pub(crate) fn run(options: &Doctor) -> Result<(), Failure> {
    if options.fix_leftovers {
        return fix_leftovers(options.group.as_deref());
    }
    let mut findings = socket_options();
    findings.extend([descriptors(), backlog(), sockets_folder(), wake_ups(), running()]);
    findings.extend(lab());
    findings.push(congestion_control());
    findings.extend(kernel_path());
    findings.extend(left_behind(options.group.as_deref()));
    findings.extend(options.at.certificates.as_deref().map(certificates));
    let text = if options.json {
        format!("{:#}\n", json!({ "schema_version": 1, "findings": findings }))
    } else {
        as_text(&findings)
    };
    print(&text)?;
    if findings.iter().any(|finding| finding.state == State::Missing) {
        return Err(Failure::new(
            Kind::Capability,
            "this host cannot carry out orders: all flows are plain TCP",
        ));
    }
    Ok(())
}

fn as_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { name, state, finding, cure } in findings {
        let state = match state {
            State::Good => "good",
            State::Limited => "limited",
            State::Missing => "MISSING",
        };
        _ = writeln!(text, "{state:<9}{name:<16}{finding}");
        if let Some(cure) = cure {
            _ = writeln!(text, "{:25}→ {cure}", "");
        }
    }
    text
}

/// Tries the socket options of a client's connections.
fn socket_options() -> Vec<Finding> {
    let tried = match cavalcade_client::try_options() {
        Ok(tried) => tried,
        Err(error) => {
            let finding = format!("no connection on this host's loopback: {error}");
            let cure = Some("bring the interface lo up".to_owned());
            return vec![Finding { name: "connections", state: State::Missing, finding, cure }];
        }
    };
    let judged = |name, result: std::io::Result<()>, what: &str| match result {
        Ok(()) => good(name, what),
        Err(error) => {
            let finding = format!("the kernel refuses it: {error}");
            let cure = "use Linux 4.20 or newer, and no sandbox that filters setsockopt".to_owned();
            Finding { name, state: State::Missing, finding, cure: Some(cure) }
        }
    };
    vec![
        judged("pacing", tried.pacing, "connections can be held to a rate (SO_MAX_PACING_RATE)"),
        judged("classes", tried.marking, "packets can be marked with a class (DSCP)"),
        judged("short buffers", tried.unsent, "little waits unsent in the kernel (TCP_NOTSENT_LOWAT)"),
    ]
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn descriptors() -> Finding {
    let name = "descriptors";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    match line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()) {
        Some(limit) if limit < DESCRIPTORS => limited(
            name,
            format!("a process may open {limit} files"),
            format!("for a thousand clients or agents: 'ulimit -n {DESCRIPTORS}', or LimitNOFILE= in a unit"),
        ),
        Some(limit) => good(name, format!("a process may open {limit} files")),
        None => good(name, "no limit is known"),
    }
}

fn backlog() -> Finding {
    let name = "backlog";
    match number_in("/proc/sys/net/core/somaxconn") {
        Some(limit) if limit < 1024 => limited(
            name,
            format!("{limit} connections may wait to be accepted"),
            "for a thousand at once: sysctl net.core.somaxconn=4096",
        ),
        Some(limit) => good(name, format!("{limit} connections may wait to be accepted")),
        None => limited(name, "unknown", "mount /proc"),
    }
}

/// How late a thread wakes on this host as it is now.
fn wake_ups() -> Finding {
    let nap = Duration::from_millis(1);
    let late = (0..WAKE_UPS).map(|_| {
        let began = Instant::now();
        std::thread::sleep(nap);
        began.elapsed().saturating_sub(nap)
    });
    of_lateness(late.max().unwrap_or_default())
}

fn of_lateness(latest: Duration) -> Finding {
    let (name, millis) = ("wake-ups", latest.as_secs_f64() * 1e3);
    if latest < LATE {
        return good(name, format!("of {WAKE_UPS} wake-ups the latest came {millis:.1} ms late"));
    }
    limited(
        name,
        format!(
            "of {WAKE_UPS} wake-ups one came {millis:.0} ms late: where leases of 100 ms lapse, flows go as plain TCP meanwhile"
        ),
        "take load off this host, or have the coordinator's orders hold for longer: 'coordinator --hold 1s'",
    )
}

fn sockets_folder() -> Finding {
    let (name, folder) = ("socket folder", runtime_folder());
    match tempfile::Builder::new().prefix(".cavalcade-").tempfile_in(&folder) {
        Ok(_) => good(name, format!("sockets can be made in {}", shown(&folder))),
        Err(error) => limited(
            name,
            format!("no sockets can be made in {}: {error}", shown(&folder)),
            "name a place with --socket and --administration, or set XDG_RUNTIME_DIR",
        ),
    }
}

fn running() -> Finding {
    let name = "running";
    let found: Vec<String> = found_sockets().iter().map(|path| shown(path)).collect();
    if found.is_empty() {
        return limited(
            name,
            "no coordinator or agent of this user runs at the default sockets",
            "start one: 'cavalcade up' serves this host alone",
        );
    }
    good(name, found.join(", "))
}

/// Tries a lab, and the ports that policies over their own congestion control need.
fn lab() -> Vec<Finding> {
    let (name, cure) = ("lab", "run the lab as root, or with --transport loopback");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    if effective >> NET_ADMIN & 1 == 0 {
        return vec![limited(name, "no right to make network namespaces", cure)];
    }
    let marking = ports::mark();
    // Where its ports mark there is a lab.
    if let Some(why) = marking.as_ref().err().and_then(|_| ports::build().err()) {
        return vec![limited(name, why, cure)];
    }
    let otherwise =
        "without: under --enforce kernel give --congestion none, which leaves ports without marks";
    let ports =
        marking.map_or_else(|why| limited("lab ports", why, otherwise), |found| good("lab ports", found));
    vec![good(name, "network namespaces and queues can be made (CAP_NET_ADMIN)"), ports]
}

/// Tries each feature that the kernel path needs.
fn kernel_path() -> impl Iterator<Item = Finding> {
    cavalcade_enforce::probe::try_all().into_iter().map(|trial| match trial.found {
        Ok(finding) => good(trial.feature, finding),
        Err(reason) => limited(trial.feature, reason, format!("without: {}", trial.otherwise)),
    })
}

/// Looks for what killed processes have left: an enforcer in the kernel, a lab or a benchmark as
/// namespaces, others their sockets.
fn left_behind(group: Option<&Path>) -> Option<Finding> {
    let found = |place: &Place| leftovers::find(place).unwrap_or_default();
    let enforcer: Vec<_> = places(group).unwrap_or_default().iter().flat_map(found).collect();
    let (lab, sockets) = (cavalcade_lab::find_stale(), stale_sockets());
    if enforcer.is_empty() && lab.is_empty() && sockets.is_empty() {
        return None;
    }
    let (enforcer, lab, sockets) = (enforcer.len(), lab.len(), sockets.len());
    let finding = format!(
        "killed processes have left {enforcer} objects in the kernel, {lab} namespaces and folders, and {sockets} sockets"
    );
    Some(limited("leftovers", finding, "they limit nothing; 'cavalcade doctor --fix-leftovers' removes them"))
}

/// The places at which an enforcer may have left something: the host's, those whose group has gone,
/// and one that is named.
fn places(group: Option<&Path>) -> Result<Vec<Place>, Error> {
    let mut places = match Place::of_host() {
        // Where no enforcer can run none has left anything.
        Err(Error::NoGroups) => return Ok(Vec::new()),
        place => vec![place?],
    };
    // One may be at work still.
    let is_left = |place: &Place| leftovers::find(place).is_ok_and(|found| !found.is_empty());
    places.extend(Place::pinned()?.0.into_iter().filter(is_left));
    places.extend(group.map(Place::below).transpose()?);
    Ok(places)
}

/// The places of enforcers of a group that were killed and may come back to it.
fn kept() -> Vec<Place> {
    let is_left = |place: &Place| leftovers::find(place).is_ok_and(|found| !found.is_empty());
    Place::pinned().map(|(_, places)| places.into_iter().filter(is_left).collect()).unwrap_or_default()
}

fn kept_below(place: &Place) -> String {
    let group = place.above.display();
    format!(
        "an enforcer of {group} was killed and may come back: 'cavalcade doctor --fix-leftovers --group {group}' removes what it has left\n"
    )
}

fn fix_leftovers(group: Option<&Path>) -> Result<(), Failure> {
    let print_removed = |removed: &[String]| {
        let lines: Vec<String> = removed.iter().map(|what| format!("removed {what}\n")).collect();
        print(&lines.concat())
    };
    let of_labs = cavalcade_lab::remove_stale();
    print_removed(&of_labs)?;
    let sockets = stale_sockets().into_iter().filter(|path| fs::remove_file(path).is_ok());
    let sockets: Vec<String> = sockets.map(|path| shown(&path)).collect();
    print_removed(&sockets)?;
    let lacking = |error: Error| Failure::new(Kind::Capability, error.to_string());
    let mut of_enforcers = Vec::new();
    for place in places(group).map_err(lacking)? {
        let removed = leftovers::fix(&place).map_err(lacking)?;
        of_enforcers.extend(removed.iter().map(|path| path.display().to_string()));
    }
    print_removed(&of_enforcers)?;
    let kept: Vec<String> = kept().iter().map(kept_below).collect();
    print(&kept.concat())?;
    let all = [of_labs, sockets, of_enforcers, kept];
    if all.iter().all(Vec::is_empty) { print("nothing was left behind\n") } else { Ok(()) }
}

fn congestion_control() -> Finding {
    let name = "transport";
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    match available {
        Ok(list) if list.split_whitespace().any(|one| one == "dctcp") => {
            good(name, format!("TCP has {}", list.trim()))
        }
        Ok(list) => limited(
            name,
            format!("TCP has {} and no dctcp", list.trim()),
            "orders work with any; queues stay shorter with 'modprobe tcp_dctcp' where switches mark packets",
        ),
        Err(error) => limited(name, format!("unknown: {error}"), "mount /proc"),
    }
}

fn certificates(folder: &Path) -> Finding {
    let name = "certificates";
    match Identity::load(folder) {
        Ok(identity) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let days = identity.valid_until().saturating_sub(now.as_secs()) / 86_400;
            let finding =
                format!("{} holds those of {}, valid for {days} more days", shown(folder), identity.role());
            match days {
                0..30 => limited(name, finding, "renew them with 'cavalcade renew DIR COMPONENT'"),
                _ => good(name, finding),
            }
        }
        Err(error) => limited(name, error.to_string(), "make new ones with 'cavalcade certificates'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_on_which_threads_wake_late_is_advised_to_let_orders_hold_for_longer() {
        assert_eq!(of_lateness(Duration::from_millis(3)).state, State::Good);
        let late = of_lateness(Duration::from_millis(60));
        assert_eq!(late.state, State::Limited);
        assert!(late.finding.contains("60 ms late") && late.cure.unwrap().contains("--hold 1s"));
    }

    #[test]
    fn a_cure_stands_below_what_it_cures() {
        let findings = [good("a", "well"), limited("b", "ill", "rest")];
        assert_eq!(
            as_text(&findings),
            "good     a               well\nlimited  b               ill\n                         → rest\n"
        );
    }
}

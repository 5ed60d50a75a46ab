//! `cavalcade ps`, `describe`, `why` and `drain`: questions to a running coordinator or agent.
//!
//! The component that is asked: the one at `--at`, else the one with an administration socket in
//! the default folder; a coordinator, which knows the whole fabric, before an agent, and that
//! before a software switch.

mod switch;
#[cfg(feature = "tui")]
mod top;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cavalcade_client::CoflowKey;
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_protocol::enforcer_beside;
use cavalcade_report::{Cells, Fit, Grid, counted};
use cavalcade_runtime::administration::proto::{
    Coflow, Drain, DrainRequest, Enforcer, Explanation, HistoryReply, View,
};
use cavalcade_runtime::administration::{AdministrationError, Administrator};
use cavalcade_runtime::{Role, block_on};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;

use crate::arguments::{self, At, Describe, Ps};
use crate::failure::{Failure, Kind};
use crate::live::{SOCKET, administration_path, identity, runtime_folder, socket_path};
use crate::output::print;
use crate::terminal::fit;

#[cfg(feature = "tui")]
pub(crate) use top::run as top;

/// `cavalcade ps`.
pub(crate) fn ps(options: &Ps) -> Result<(), Failure> {
    let fit = fit(options.room.wide);
    if options.history {
        let mut history = ask(&options.at, async |administrator| administrator.history(0).await)?;
        if options.json {
            return print_json(&history);
        }
        history.coflows.retain(|past| options.all || past.size_bytes != Some(0) || past.sent_bytes > 0);
        return print(&past(&history, fit));
    }
    let mut view = ask(&options.at, async |administrator| administrator.look("", false).await)?;
    if options.json {
        return print_json(&view);
    }
    view.coflows.retain(|coflow| options.all || !is_root(coflow));
    let body = match &view.switch {
        Some(switch) => switch::list(switch, fit),
        None if view.enforcer.is_some() => String::new(),
        None if options.hosts => hosts(&view, fit),
        None if options.limits => limits(&view, fit),
        None => list(&view.coflows, fit),
    };
    // Who asks about this host sees its enforcer too.
    let enforcer = match &view.enforcer {
        Some(own) => enforcer(own),
        None if options.at.at.is_none() => beside().as_ref().map(enforcer).unwrap_or_default(),
        None => String::new(),
    };
    print(&format!("{}\n{}{}{enforcer}{body}", heading(&view), drains(&view), beyond(&view)))
}

/// Whether a coflow was registered with no bytes and has sent none: it stands for those under it.
fn is_root(coflow: &Coflow) -> bool {
    let flows = coflow.open + coflow.paced + coflow.off + coflow.resting;
    coflow.size_bytes == Some(0) && coflow.sent_bytes == 0 && flows == 0
}

/// How the enforcer stands that serves beside this host's agent, if one does.
fn beside() -> Option<Enforcer> {
    let door = std::fs::read_link(enforcer_beside(&socket_path(None))).ok()?;
    let at = At { at: Some(administration_path(&door).to_str()?.to_owned()), ..At::default() };
    ask(&at, async |administrator| administrator.look("", false).await).ok()?.enforcer
}

/// Formats how an enforcer stands.
fn enforcer(enforcer: &Enforcer) -> String {
    let coflows = counted(enforcer.coflows as usize, "coflow");
    let mut text = format!("enforcer: {coflows}, {}", counted(enforcer.flows as usize, "flow"));
    if enforcer.obedient < enforcer.coflows {
        _ = write!(text, ", {} without an agent", enforcer.coflows - enforcer.obedient);
    }
    text += "\n";
    for stray in &enforcer.strays {
        let names = [&stray.name, &stray.coflow];
        let name = names.into_iter().find(|name| !name.is_empty()).map_or("a task", String::as_str);
        _ = writeln!(text, "not scheduled: {} of {name} by other means than TCP", amount(stray.bytes));
    }
    for trouble in &enforcer.troubles {
        let times = counted(trouble.times as usize, "time");
        _ = writeln!(text, "enforcer, {times}: {} ({})", trouble.what, trouble.reason);
    }
    text
}

/// Formats what leaves the site and what is left alone, a line each, where there is any.
fn beyond(view: &View) -> String {
    let leaving = view.coflows.iter().fold(0, |sum, coflow| sum + coflow.outside as usize);
    let alone = view.coflows.iter().fold(0u64, |sum, coflow| sum.saturating_add(coflow.left_alone));
    let mut text = String::new();
    if leaving > 0 {
        _ = writeln!(
            text,
            "leaving the site: {}, ordered at the sending host's link",
            counted(leaving, "flow")
        );
    }
    if alone > 0 {
        _ = writeln!(text, "not scheduled: {} to what is no port", counted(alone as usize, "connection"));
    }
    text
}

/// Formats the drains of administrators, a line each, but for that of all, which the heading has.
fn drains(view: &View) -> String {
    let parts = view.drains.iter().filter(|drain| !is_of_all(drain));
    let ago = |drain: &Drain| seconds(view.now_ns.saturating_sub(drain.since_ns));
    parts.map(|drain| format!("drained: {}, for {}, {}\n", drain.what, ago(drain), asked(drain))).collect()
}

fn is_of_all(drain: &Drain) -> bool {
    drain.host.is_none() && drain.user.is_none() && drain.coflow.is_none()
}

/// Formats who asked for a drain, and why.
fn asked(drain: &Drain) -> String {
    format!("by {}: {}", drain.who, drain.reason)
}

/// Coflows that are over, as a table.
fn past(history: &HistoryReply, fit: Fit) -> String {
    if history.coflows.is_empty() {
        return "no coflows ended within the last hour\n".to_owned();
    }
    let rows = history.coflows.iter().map(|coflow| {
        let note = match &coflow.drain {
            _ if coflow.lost => "its last host was not heard".to_owned(),
            Some(drain) => format!("drained ({}) {}", drain.what, asked(drain)),
            None => String::new(),
        };
        let over = seconds(history.now_ns.saturating_sub(coflow.ended_ns)) + " ago";
        vec![
            over,
            coflow.id.clone(),
            or_dash(coflow.name.clone()),
            coflow.class.to_string(),
            amount(coflow.sent_bytes),
            or_dash(coflow.size_bytes.map(amount)),
            or_dash(coflow.took_ns.map(seconds)),
            or_dash(coflow.owner.map(|owner| owner.to_string())),
            note,
        ]
    });
    table(&["over", "id", "name", "class", "sent", "size", "took", "user", "note"], rows, fit)
}

/// Formats the hosts: which lead, and how old each report is.
fn hosts(view: &View, fit: Fit) -> String {
    let days = |until: u64| (until.saturating_sub(view.now_ns / 1_000_000_000)) / 86_400;
    let mut text = format!("version {}", view.version);
    match (view.port, view.term, view.orders_age_ns) {
        (None, Some(term), _) => _ = write!(text, ", leads with term {term}"),
        (Some(_), Some(term), Some(age)) => {
            _ = write!(text, ", obeys term {term}, orders {} ms old", age / 1_000_000);
        }
        (Some(_), None, Some(age)) => _ = write!(text, ", heard orders last {} ago", seconds(age)),
        _ => {}
    }
    if let Some(until) = view.certificate_until {
        _ = write!(text, ", certificate for {} more days", days(until));
    }
    text += "\n";
    if view.port.is_some() {
        return text + &incidents(view, fit);
    }
    let heard: std::collections::BTreeMap<u32, u64> =
        view.hosts.iter().map(|host| (host.port, host.silent_ns)).collect();
    let rows = (0..view.ports).map(|port| {
        let age = heard.get(&port).map(|nanos| format!("{} ms", nanos / 1_000_000));
        let age = age.unwrap_or_else(|| "not heard".to_owned());
        vec![port.to_string(), or_dash(view.addresses.get(port as usize).cloned()), age]
    });
    text + &table(&["host", "address", "last report"], rows, fit) + &incidents(view, fit)
}

/// Formats what went wrong with those who connected, if anything did.
fn incidents(view: &View, fit: Fit) -> String {
    if view.incidents.is_empty() {
        return String::new();
    }
    let rows = view.incidents.iter().map(|incident| {
        let last = seconds(incident.last_age_ns) + " ago";
        let what = format!("{}: {}", incident.title, incident.what);
        vec![incident.times.to_string(), last, incident.who.clone(), what]
    });
    format!("\n{}", table(&["incidents", "last", "who", "what"], rows, fit))
}

/// Formats what is used of each limit.
fn limits(view: &View, fit: Fit) -> String {
    let rows = view.limits.iter().map(|limit| {
        let (user, used) = (limit.user.map(|user| user.to_string()), limit.used.map(|used| used.to_string()));
        vec![limit.what.clone(), or_dash(user), or_dash(used), limit.most.to_string(), limit.cure.clone()]
    });
    table(&["limit", "user", "used", "most", "raised by"], rows, fit)
}

/// `cavalcade describe`.
pub(crate) fn describe(options: &Describe) -> Result<(), Failure> {
    let name = options.coflow.as_str();
    let view = ask(&options.at, async |administrator| administrator.look(name, true).await)?;
    let coflow = only(&view, name)?;
    if options.json { print_json(coflow) } else { print(&description(&view, coflow, fit(options.room.wide))) }
}

/// The key of the coflow that has this name or id, by who is found on this host.
pub(crate) fn key_of(coflow: &str) -> Result<CoflowKey, Failure> {
    let view = ask(&At::default(), async |administrator| administrator.look(coflow, false).await)?;
    let key = &only(&view, coflow)?.coflow;
    key.parse().map_err(|()| Failure::new(Kind::Runtime, format!("the {} gave '{key}' as a key", view.role)))
}

/// The one coflow of an answer.
fn only<'a>(view: &'a View, name: &str) -> Result<&'a Coflow, Failure> {
    let [coflow] = &view.coflows[..] else {
        return Err(Failure::new(Kind::Runtime, format!("the {} gave no answer about '{name}'", view.role)));
    };
    Ok(coflow)
}

/// `cavalcade why`.
pub(crate) fn why(options: &Describe) -> Result<(), Failure> {
    let explanation = ask(&options.at, async |administrator| administrator.why(&options.coflow).await)?;
    if options.json { print_json(&explanation) } else { print(&reasons(&explanation)) }
}

/// `cavalcade drain`.
pub(crate) fn drain(options: &arguments::Drain) -> Result<(), Failure> {
    let reply = ask(&options.at, async |administrator| {
        let (undo, who) = (options.undo, own_user());
        let reason = options.reason.clone().unwrap_or_default();
        let (host, user, coflow) = (options.host, options.user, options.coflow.clone().unwrap_or_default());
        administrator.drain(DrainRequest { undo, who, reason, host, user, coflow }).await
    })?;
    let (drained, was_drained, what) = (reply.is_drained, reply.was_drained, reply.what);
    if options.json {
        return print_json(&json!({ "drained": drained, "was_drained": was_drained, "what": what }));
    }
    let same = match (options.host, options.user, &options.coflow) {
        (Some(host), ..) => format!("--host {host} "),
        (_, Some(user), _) => format!("--user {user} "),
        (.., Some(coflow)) => format!("--coflow {coflow} "),
        _ => String::new(),
    };
    print(&match (was_drained, drained) {
        (false, true) if !options.undo => {
            format!("{what}: every flow goes as plain TCP now; 'cavalcade drain {same}--undo' ends that\n")
        }
        (_, true) if options.undo => {
            format!(
                "{what}: every flow still goes as plain TCP, because a kill switch is on: 'cavalcade drain --undo' ends \
                     that, with --at the coordinator where it is the fabric's\n"
            )
        }
        (_, true) => format!("{what}: every flow went as plain TCP already; the new reason is kept\n"),
        (true, false) => format!("{what}: orders are obeyed again\n"),
        (false, false) => format!("{what}: orders were obeyed already\n"),
    })
}

/// Returns the user who asks: the name, or where the environment has none the number.
fn own_user() -> String {
    let name = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
    let number = |_| std::fs::metadata("/proc/self").map(|own| format!("user {}", own.uid()));
    name.or_else(number).unwrap_or_default()
}

/// `cavalcade reload`.
pub(crate) fn reload(options: &arguments::Reload) -> Result<(), Failure> {
    let level = options.log_level.and_then(|level| Some(level.to_possible_value()?.get_name().to_owned()));
    let level = level.unwrap_or_default();
    let reply = ask(&options.at, async |administrator| administrator.reload(&level).await)?;
    if options.json {
        print_json(&reply)?;
    } else if reply.changed.is_empty() && reply.refused.is_empty() {
        print("nothing has changed\n")?;
    } else {
        let changed =
            reply.changed.iter().map(|setting| format!("{} is now {}\n", setting.name, setting.text));
        print(&changed.collect::<String>())?;
    }
    let refused = reply.refused.iter().map(|setting| format!("{} ({})", setting.name, setting.text));
    match refused.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => Ok(()),
        some => Err(Failure::new(Kind::Runtime, format!("not changed: {some}"))
            .help("'cavalcade help reload' lists what changes without a restart")),
    }
}

/// Asks whom `at` means.
fn ask<T>(
    at: &At,
    question: impl AsyncFnOnce(&mut Administrator) -> Result<T, AdministrationError>,
) -> Result<T, Failure> {
    let place = place(at)?;
    let asked = block_on(async {
        Ok(match connect(&place).await {
            Ok(mut administrator) => question(&mut administrator).await,
            Err(error) => Err(error),
        })
    });
    let asked = asked.map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?;
    asked.map_err(refused)
}

async fn connect(place: &Place) -> Result<Administrator, AdministrationError> {
    match place {
        Place::Socket(path) => Administrator::at_socket(path).await,
        Place::Address(address, identity) => Administrator::at_address(*address, identity).await,
    }
}

fn refused(error: AdministrationError) -> Failure {
    match &error {
        AdministrationError::Unreachable { .. } => Failure::new(Kind::Runtime, error.to_string()).help(
            "is it running, and may this user open its socket? The socket belongs to the daemon's user; remote access \
             needs an administrator certificate",
        ),
        AdministrationError::NotFound(_) => {
            let help = "'cavalcade ps' lists the known coflows with ids and names; coflows that ended are soon forgotten";
            Failure::usage(error.to_string()).help(help)
        }
        AdministrationError::Invalid(_) => Failure::usage(error.to_string()),
        AdministrationError::Failed(_) => Failure::new(Kind::Runtime, error.to_string()),
    }
}

/// The component that is asked.
enum Place {
    Socket(PathBuf),
    Address(SocketAddr, Box<cavalcade_runtime::Identity>),
}

fn place(at: &At) -> Result<Place, Failure> {
    let Some(given) = &at.at else {
        let found = found_sockets().into_iter().next();
        return found.map(Place::Socket).ok_or_else(|| {
            let (folder, clients) = (runtime_folder(), socket_path(None));
            let mut problem = format!("no coordinator or agent is running in {}", folder.display());
            if !clients.starts_with(&folder) {
                problem = format!("{problem}, nor an agent at {} of ${SOCKET}", clients.display());
            }
            Failure::new(Kind::Runtime, problem).help(
                "name its administration socket with --at, or a coordinator's address with --certificates",
            )
        });
    };
    let Ok(address) = given.parse::<SocketAddr>() else { return Ok(Place::Socket(PathBuf::from(given))) };
    let folder = at.certificates.as_deref().ok_or_else(|| {
        Failure::usage("asking at an address needs an administrator's certificate")
            .help("name its folder with --certificates")
    })?;
    Ok(Place::Address(address, Box::new(identity(folder, Role::Administrator)?)))
}

/// Lists the administration sockets in the default folder that are served.
pub(crate) fn found_sockets() -> Vec<PathBuf> {
    let is_served = |path: &PathBuf| std::os::unix::net::UnixStream::connect(path).is_ok();
    sockets().into_iter().filter(is_served).collect()
}

/// Lists those that processes have left there which were killed.
pub(crate) fn stale_sockets() -> Vec<PathBuf> {
    let is_stale = |path: &PathBuf| {
        let connected = std::os::unix::net::UnixStream::connect(path);
        connected.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    };
    sockets().into_iter().filter(is_stale).collect()
}

/// The administration sockets in the default folder: those of coordinators, of the agent, of
/// switches.
fn sockets() -> Vec<PathBuf> {
    let folder = runtime_folder();
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf, role: &str| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix("cavalcade-").is_some_and(|rest| rest.starts_with(role)) && name.ends_with(".sock")
    };
    let (mut sockets, others): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.partition(|path| is_of(path, "coordinator-"));
    let mut switches: Vec<PathBuf> = others.into_iter().filter(|path| is_of(path, "switch-")).collect();
    sockets.sort();
    switches.sort();
    let clients = socket_path(None);
    sockets.extend([clients.with_extension("coordinator.sock"), administration_path(&clients)]);
    sockets.extend(switches);
    sockets
}

/// A reply with the version of its form in front of its fields. Of very many coflows it is
/// megabytes, so it is written from the reply itself and not from a copy as values of JSON.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    reply: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    pub(crate) fn new(reply: &'a T) -> Self {
        Self { schema_version: 1, reply }
    }
}

/// Prints a reply as it is, with the version of its form.
fn print_json(reply: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&Versioned::new(reply)).map_err(no_json)?;
    print(&(text + "\n"))
}

pub(crate) fn no_json(error: serde_json::Error) -> Failure {
    Failure::new(Kind::Runtime, error.to_string())
}

fn seconds(nanos: u64) -> String {
    format!("{:.1} s", nanos as f64 / 1e9)
}

/// Bytes in the largest decimal unit that leaves a digit before the point.
fn amount(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let unit = units.iter().find(|(size, _)| bytes as f64 >= *size);
    unit.map_or_else(|| format!("{bytes} B"), |(size, name)| format!("{:.1} {name}", bytes as f64 / size))
}

/// Formats the heading: the component that answers, and its state.
fn heading(view: &View) -> String {
    if let Some(switch) = &view.switch {
        return switch::heading(switch);
    }
    if view.enforcer.is_some() {
        return format!("enforcer, for {}", seconds(view.now_ns.saturating_sub(view.started_ns)));
    }
    let mut text = match view.port {
        Some(port) => format!("agent at port {port} of {}", view.ports),
        None => format!(
            "coordinator for {}, {} heard from",
            counted(view.ports as usize, "host"),
            view.hosts.len()
        ),
    };
    match (&view.policy[..], view.term) {
        ("", Some(_)) => text += ", obeys a coordinator",
        ("", None) => text += ", without a coordinator: plain TCP",
        (policy, _) => _ = write!(text, ", policy {policy}"),
    }
    if view.shadow {
        text += ", shadow: nothing is enforced";
    }
    if view.drained {
        text += ", DRAINED: plain TCP";
        if let Some(drain) = view.drains.iter().find(|drain| is_of_all(drain)) {
            _ = write!(text, " ({})", asked(drain));
        }
    }
    text
}

const COLUMNS: [&str; 10] = ["id", "name", "class", "sent", "size", "open", "paced", "off", "idle", "age"];

fn cells(coflow: &Coflow) -> [String; 10] {
    [
        coflow.id.clone(),
        or_dash(coflow.name.clone()),
        coflow.class.to_string(),
        amount(coflow.sent_bytes),
        or_dash(coflow.size_bytes.map(amount)),
        coflow.open.to_string(),
        coflow.paced.to_string(),
        coflow.off.to_string(),
        coflow.resting.to_string(),
        or_dash(coflow.age_ns.map(seconds)),
    ]
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Makes a table: names, reasons and cures begin at the left, the rest are figures.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, fit: Fit) -> String {
    let kind = |(place, heading): (usize, &&str)| match *heading {
        "name" | "raised by" | "who" | "what" | "note" => Cells::Text,
        _ if place == 0 => Cells::Text,
        _ => Cells::Figures,
    };
    let columns: Vec<(&str, Cells)> =
        header.iter().enumerate().map(|column| (*column.1, kind(column))).collect();
    Grid::of_rows(&columns, rows).show(fit)
}

/// Coflows as a table.
fn list(coflows: &[Coflow], fit: Fit) -> String {
    if coflows.is_empty() {
        return "no coflows\n".to_owned();
    }
    table(&COLUMNS, coflows.iter().map(|coflow| cells(coflow).to_vec()), fit)
}

/// Formats all that is known of a coflow.
fn description(view: &View, coflow: &Coflow, fit: Fit) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| _ = writeln!(text, "{name:<10}{value}");
    line("id", coflow.id.clone());
    if let Some(name) = &coflow.name {
        line("name", name.clone());
    }
    line("key", coflow.coflow.clone());
    line("priority", format!("class {}, order {}", coflow.class, coflow.order));
    line("sent", amount(coflow.sent_bytes));
    if let Some(size) = coflow.size_bytes {
        line("size", amount(size));
    }
    if let Some(age) = coflow.age_ns {
        line("age", seconds(age));
    }
    match coflow.deadline_ns {
        Some(left @ 0..) => line("deadline", format!("in {}", seconds(left.unsigned_abs()))),
        Some(past) => line("deadline", format!("missed {} ago", seconds(past.unsigned_abs()))),
        None => {}
    }
    let class = if coflow.background { "background: no user waits" } else { "online: a user waits" };
    line("task", class.to_owned());
    line("weight", coflow.weight.to_string());
    if let Some(owner) = coflow.owner {
        line("owner", format!("user {owner}"));
    }
    if let Some(drain) = &coflow.drain {
        line("drained", format!("{}, {}", drain.what, asked(drain)));
    }
    line("known to", heading(view));
    let rows = coflow.flows.iter().map(|flow| {
        let gate = match flow.rate_bps {
            Some(rate) => format!("{} at {}", flow.gate, BitsPerSec(rate)),
            None => flow.gate.clone(),
        };
        let size = flow.size_bytes.map_or_else(|| "-".to_owned(), amount);
        let to = if flow.outside { "outside".to_owned() } else { port(flow.to, &flow.to_address) };
        vec![
            format!("{} → {}", port(flow.from, &flow.from_address), to),
            flow.number.to_string(),
            amount(flow.sent_bytes),
            size,
            flow.class.to_string(),
            gate,
        ]
    });
    if coflow.flows.is_empty() {
        return text + "\nno open flows\n";
    }
    text + "\n" + &table(&["flow", "number", "sent", "size", "class", "gate"], rows, fit)
}

/// A port, with the address of its host where that is known.
fn port(port: u32, address: &Option<String>) -> String {
    address.as_ref().map_or_else(|| port.to_string(), |address| format!("{port} ({address})"))
}

/// Why a coflow goes as it does, one reason on a line.
fn reasons(found: &Explanation) -> String {
    let mut text = format!("{} {}\n", found.label, found.summary);
    let Explanation { class, policy, policy_title, .. } = found;
    let sent = amount(found.sent_bytes);
    _ = writeln!(text, "  priority: class {class} after {sent}, by {policy}: {policy_title}");
    let Explanation { open, paced, off, resting, .. } = found;
    _ = writeln!(text, "  flows: {open} open, {paced} paced, {off} off, {resting} idle");
    for blocker in &found.blockers {
        let ahead = blocker.ahead_labels.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = blocker.ahead_labels.len().saturating_sub(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let known = format!("{} left, {}", amount(blocker.left_bytes), seconds(blocker.time_ns));
        let unknown = match blocker.unknown {
            1 => "1 flow of unknown size".to_owned(),
            flows => format!("{flows} flows of unknown size"),
        };
        let left = match (blocker.left_bytes, blocker.unknown) {
            (_, 0) => known,
            (0, _) => unknown,
            _ => format!("{known}, and {unknown}"),
        };
        _ = writeln!(
            text,
            "  {} {} at port {} behind {ahead}{more}: {left}",
            counted(blocker.flows as usize, "flow"),
            blocker.direction,
            port(blocker.port, &blocker.address),
        );
    }
    text
}

/// A path for messages.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A span that is asked for on the command line, for timers.
fn duration(span: Nanos) -> std::time::Duration {
    std::time::Duration::from_nanos(span.0)
}

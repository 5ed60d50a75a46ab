//! What an operator does with running parts, and what a host does to them: real processes, each
//! test with its own.

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cavalcade_client::{Registration, Session};
use cavalcade_control::TooManyDrains;
use cavalcade_model::Bytes;
use cavalcade_protocol::{CoflowName, Limit, MAX_FRAME, Refusal, Remark, WireError};
use cavalcade_runtime::administration::Administrator;
use cavalcade_runtime::administration::proto::DrainRequest;
use cavalcade_testing::eventually;
use support::Place;
use support::serving::{Serving, free_address, get, json};

#[test]
fn a_user_is_drained_with_a_reason_that_outlives_the_coordinator_and_what_ended_is_in_the_history() {
    let place = Place::new();
    let listen = free_address();
    let lead = [
        "coordinator",
        "--hosts",
        "127.0.0.1",
        "--listen",
        &listen,
        "--administration",
        "lead.sock",
        "--policy",
        "fifo",
    ];
    let leader = Serving::saying(
        &place,
        &lead,
        std::fs::File::create(place.path("messages")).expect("the place can be written to").into(),
    );
    let arguments = ["agent", "--hosts", "127.0.0.1", "--port", "0", "--coordinator", &listen];
    let _agent = Serving::start(&place, &[&arguments[..], &["--socket", "agent.sock"]].concat());
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(session.wait_ready(Duration::from_secs(60)));
    let named =
        Registration { name: Some("sort-7".parse().expect("it is a name")), ..Registration::default() };
    let coflow = session.register(named).unwrap();
    let run = |command: &[&str]| place.run(&[command, &["--at", "lead.sock"]].concat());
    eventually("the coordinator knows of the coflow", || run(&["ps"]).out.contains("sort-7"));
    let user =
        json(&place, &["describe", "sort-7", "--at", "lead.sock", "--json"]).expect("it is known")["owner"]
            .to_string();

    let drained = run(&["drain", "--user", &user, "--reason", "its job hangs"]);
    assert!(drained.code == 0 && drained.out.contains(&format!("'cavalcade drain --user {user} --undo'")));
    let messages = || String::from_utf8(place.read("messages")).expect("it is UTF-8");
    eventually("it is logged", || messages().contains("a person drains"));
    assert_eq!(messages().matches("its job hangs").count(), 1, "{}", messages());
    let shows_it = |out: &str| out.contains(&format!("user {user}")) && out.contains("its job hangs");
    assert!(shows_it(&run(&["describe", "sort-7"]).out) && shows_it(&run(&["why", "sort-7"]).out));
    for (arguments, part) in [
        (vec!["drain", "--host", "1"], "there is no host 1 among 1"),
        (vec!["drain", "--coflow", "sort-8"], "there is no coflow 'sort-8'"),
        (vec!["drain", "--reason", "two\nlines"], "control character"),
        (vec!["drain", "--user", "1", "--host", "0"], "cannot be used with"),
    ] {
        let refused = run(&arguments);
        assert!(refused.code == 2 && refused.err.contains(part), "{arguments:?}: {}", refused.err);
    }
    assert_eq!(leader.interrupt(), Some(0));
    let _leader = Serving::start(&place, &lead);
    eventually("the next coordinator knows of the drain", || shows_it(&run(&["ps"]).out));

    session.unregister(coflow);
    eventually("the coflow is in the history", || shows_it(&run(&["ps", "--history"]).out));
    let past = json(&place, &["ps", "--history", "--json", "--at", "lead.sock"]).expect("it answers");
    let first = &past["coflows"][0];
    assert_eq!((&first["name"], &first["drain"]["reason"]), (&"sort-7".into(), &"its job hangs".into()));
    assert_eq!(run(&["drain", "--user", &user, "--undo"]).code, 0);
    assert!(!shows_it(&run(&["ps"]).out));
}

#[test]
fn a_coflow_without_bytes_is_listed_only_with_all_and_those_under_it_always() {
    let place = Place::new();
    let _up = Serving::start(&place, &["up", "--socket", "agent.sock", "--policy", "fifo"]);
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(session.wait_ready(Duration::from_secs(60)));
    let named = |name: &str, parents, size| Registration {
        name: Some(name.parse().expect("it is a name")),
        parents,
        size,
        ..Registration::default()
    };
    let query = session.register(named("query", vec![], Some(Bytes::ZERO))).unwrap();
    let stage = session.register(named("query/34", vec![query], None)).unwrap();
    let list = |more: &[&str]| {
        let out = place.run(&[&["ps", "--at", "agent.coordinator.sock"][..], more].concat()).out;
        let has = |name: &str| out.split_whitespace().any(|word| word.trim_matches(['"', ',']) == name);
        (has("query"), has("query/34"))
    };
    eventually("both are known", || list(&["--json"]) == (true, true));
    assert_eq!((list(&[]), list(&["--all"])), ((false, true), (true, true)));
    session.unregister(stage);
    session.unregister(query);
    eventually("both are over", || list(&["--history", "--json"]) == (true, true));
    assert_eq!(list(&["--history"]), (false, true));
    assert_eq!(list(&["--history", "--all"]), (true, true));
}

#[test]
fn settings_change_on_sighup_and_on_request_and_what_cannot_is_refused_by_name() {
    let place = Place::new();
    let metrics = free_address();
    let file = |level: &str, coflows: u32, period: &str| {
        let text = format!(
            "[coordinator]\nperiod = \"{period}\"\n[agent]\nuser_budget = \"coflows={coflows}\"\n[log]\nlevel = \"{level}\"\n"
        );
        place.write("site.toml", text);
    };
    file("warn", 1, "10ms");
    let arguments = ["up", "--config", "site.toml", "--socket", "agent.sock", "--agent-metrics", &metrics];
    let messages = std::fs::File::create(place.path("messages")).expect("the place can be written to");
    let up = Serving::saying(&place, &arguments, messages.into());
    let budget = |most: &str| {
        get(&metrics, "/metrics").1.contains(&format!("user_budget{{limit=\"coflows\"}} {most}\n"))
    };
    eventually("metrics are served", || budget("1"));
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(session.wait_ready(Duration::from_secs(60)));
    assert!(session.try_register(Registration::default()).is_ok());
    assert!(session.try_register(Registration::default()).is_err(), "it is one too many");
    let said = || String::from_utf8(place.read("messages")).expect("it is UTF-8");
    assert!(!said().contains("INFO"), "{}", said());

    file("info", 2, "20ms");
    let hangup = Command::new("kill").args(["-HUP", &up.0.0.id().to_string()]).status();
    assert!(hangup.expect("kill runs").success());
    eventually("the budget has changed", || budget("2"));
    assert!(session.try_register(Registration::default()).is_ok(), "a client that was there may have more");
    eventually("what cannot change is named", || said().contains("coordinator.period"));
    assert!(said().contains("INFO"), "the level has changed: {}", said());

    let coordinator = ["--at", "agent.coordinator.sock"];
    let reload = |more: &[&str]| place.run(&[&["reload"][..], &coordinator, more].concat());
    let again = reload(&[]);
    assert!(again.code == 1 && again.err.contains("coordinator.period (it changes when"), "{}", again.err);
    file("infos", 2, "10ms");
    let wrong = reload(&[]);
    assert!(wrong.code == 2 && wrong.err.contains("site.toml:6:9"), "{} {}", wrong.code, wrong.err);
    assert_eq!(wrong.err.matches("error").count(), 1, "{}", wrong.err);
    file("info", 2, "10ms");
    assert_eq!(reload(&[]).out, "nothing has changed\n");
    assert_eq!(reload(&["--log-level", "debug"]).out, "log.level is now debug\n");

    std::fs::remove_file(place.path("site.toml")).expect("it is there");
    let pipe = Command::new("mkfifo").arg(place.path("site.toml")).status();
    assert!(pipe.expect("mkfifo runs").success());
    let endless = reload(&[]);
    assert!(endless.code == 2 && endless.err.contains("no regular file"), "{} {}", endless.code, endless.err);
    std::fs::remove_file(place.path("site.toml")).expect("it is there");
    std::os::unix::fs::symlink("/dev/zero", place.path("site.toml")).expect("the place can be written to");
    assert!(reload(&[]).err.contains("no regular file"));
    std::fs::remove_file(place.path("site.toml")).expect("it is there");
    place.write("site.toml", "#".repeat((1 << 20) + 1));
    assert!(reload(&[]).err.contains("longer than 1048576 bytes"));
    place.write("site.toml", "[agent]\nmax_connections = 0\n");
    assert!(reload(&[]).err.contains("expected 1 or more"));
    assert_eq!(up.interrupt(), Some(0));
}

/// Throws the kill switch so many times and lets go of it again: each is a line of the log or more.
fn drain_often(socket: &Path, times: usize) {
    let asked = cavalcade_runtime::block_on(async {
        let mut administrator = Administrator::at_socket(socket).await.expect("it listens");
        for _ in 0..times {
            for undo in [false, true] {
                let request = DrainRequest { undo, ..DrainRequest::default() };
                administrator.drain(request).await.expect("it answers");
            }
        }
        Ok(())
    });
    asked.expect("the system has an event queue");
}

/// `cavalcade up` in a place, with its metrics at the address that is returned.
fn up(place: &Place, messages: Stdio) -> (Serving, String) {
    let metrics = free_address();
    let arguments = ["up", "--socket", "agent.sock", "--agent-metrics", &metrics];
    let mut up = Serving::saying(place, &arguments, messages);
    eventually("the agent obeys", || {
        assert_eq!(up.0.0.try_wait().expect("it is a child"), None, "it runs");
        get(&metrics, "/readyz").0 == 200
    });
    (up, metrics)
}

/// Checks that an agent at `metrics` serves applications and monitoring.
fn serves(place: &Place, metrics: &str) {
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(session.wait_ready(Duration::from_secs(60)));
    assert!(session.try_register(Registration::default()).is_ok());
    assert_eq!(get(metrics, "/readyz").0, 200);
}

#[test]
fn a_log_that_is_not_read_stops_nothing_and_says_afterwards_how_much_was_lost() {
    let place = Place::new();
    let (mut serving, metrics) = up(&place, Stdio::piped());
    let mut messages = serving.0.0.stderr.take().expect("it is piped");
    // More than a pipe and the queue before it hold: 65,536 bytes and 4,096 lines.
    let socket = place.path("agent.coordinator.sock");
    drain_often(&socket, 2_500);
    serves(&place, &metrics);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = messages.read_to_string(&mut text);
        text
    });
    eventually("the log is written again", || {
        drain_often(&socket, 1);
        // The reader keeps up from now on.
        std::thread::sleep(Duration::from_millis(100));
        reader.is_finished() || serving.0.0.try_wait().is_ok_and(|ended| ended.is_none())
    });
    assert_eq!(serving.interrupt(), Some(0));
    let text = reader.join().expect("the reader ends");
    let dropped = text.lines().find(|line| line.contains("lines were dropped")).expect("the loss is said");
    let count: usize = dropped.split(' ').next().and_then(|count| count.parse().ok()).expect("and counted");
    assert!(count > 100 && text.lines().count() + count > 5_000, "{dropped}");
}

#[test]
fn the_figures_that_operators_watch_are_served_by_coordinator_and_agent() {
    let place = Place::new();
    assert_eq!(place.run(&["certificates", "site", "--hosts", "1"]).code, 0);
    let (listen, of_lead, of_agent) = (free_address(), free_address(), free_address());
    let hosts = ["--hosts", "127.0.0.1"];
    let lead =
        ["coordinator", "--listen", &listen, "--certificates", "site/coordinator", "--metrics", &of_lead];
    let rest = ["--administration", "lead.sock"];
    let _lead = Serving::start(&place, &[&lead[..], &hosts, &rest].concat());
    let agent = ["agent", "--port", "0", "--coordinator", &listen, "--certificates", "site/agent-0"];
    let rest = ["--socket", "agent.sock", "--metrics", &of_agent];
    let _agent = Serving::start(&place, &[&agent[..], &hosts, &rest].concat());
    eventually("the agent obeys", || get(&of_agent, "/readyz").0 == 200);
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(
        session.wait_ready(Duration::from_secs(60)) && session.try_register(Registration::default()).is_ok()
    );
    let of_both = [
        "term",
        "build{version=",
        "certificate_until_seconds",
        "descriptors",
        "descriptors_limit",
        "open_connections",
        "open_connections_limit",
        "buffered_bytes",
        "drained",
        "drains",
        "coflows",
        "incidents_total{kind=\"garbage\"}",
    ];
    let of_coordinator =
        ["leads 1", "agents ", "oldest_report_age_milliseconds", "rounds_total", "agents_lost_total"];
    let of_host = [
        "orders_age_milliseconds",
        "coordinated ",
        "user_connections{user=",
        "user_coflows{user=",
        "user_flows{user=",
        "user_bytes{user=",
        "user_budget{limit=\"flows\"}",
        "clients ",
        "fallbacks_total",
    ];
    for (at, own) in [(&of_lead, &of_coordinator[..]), (&of_agent, &of_host[..])] {
        let said = get(at, "/metrics").1;
        for name in of_both.iter().chain(own) {
            assert!(said.contains(&format!("\ncavalcade_{name}")), "{name} in {said}");
        }
    }
}

/// A small file system of its own.
struct Disk(PathBuf);

impl Disk {
    /// Mounts one; where that cannot be, the test is reported as skipped.
    fn mount(at: PathBuf) -> Option<Self> {
        std::fs::create_dir(&at).expect("the place can be written to");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "none"]).arg(&at).output();
        if mount.is_ok_and(|ran| ran.status.success()) {
            return Some(Self(at));
        }
        cavalcade_testing::skipped("a file system to fill (root, mount)");
        None
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_nothing_and_the_lines_that_it_did_not_take_are_counted() {
    let place = Place::new();
    let Some(disk) = Disk::mount(place.path("disk")) else { return };
    let (listen, metrics) = (free_address(), free_address());
    let messages = || {
        Stdio::from(File::options().create(true).append(true).open(disk.0.join("log")).expect("it has room"))
    };
    let lead =
        ["coordinator", "--hosts", "127.0.0.1", "--listen", &listen, "--administration", "disk/lead.sock"];
    let lead = Serving::saying(&place, &[&lead[..], &["--lease", "disk/lease"]].concat(), messages());
    let agent =
        ["agent", "--hosts", "127.0.0.1", "--port", "0", "--coordinator", &listen, "--socket", "agent.sock"];
    let _agent = Serving::saying(&place, &[&agent[..], &["--metrics", &metrics]].concat(), messages());
    eventually("the agent obeys", || get(&metrics, "/readyz").0 == 200);
    let filler = disk.0.join("filler");
    let full =
        File::create(&filler).and_then(|mut file| (0..).try_for_each(|_: u32| file.write_all(&[0; 4096])));
    assert_eq!(full.map_err(|error| error.kind()), Err(std::io::ErrorKind::StorageFull));
    let term =
        |name: &str| json(&place, &["ps", "--at", name, "--json"]).expect("it answers")["term"].clone();
    let before = term("disk/lead.sock");
    drain_often(&disk.0.join("lead.sock"), 200);
    serves(&place, &metrics);
    // The lease is kept for longer than a holder may be silent.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(term("disk/lead.sock"), before);
    assert_eq!(get(&metrics, "/readyz").0, 200);
    std::fs::remove_file(&filler).expect("it is there");
    drain_often(&disk.0.join("lead.sock"), 1);
    let log =
        || String::from_utf8_lossy(&std::fs::read(disk.0.join("log")).expect("it is there")).into_owned();
    eventually("what was lost is counted", || log().contains("lines were dropped"));
    assert_eq!(lead.interrupt(), Some(0));
}

#[test]
fn scrapers_that_do_not_read_and_administrators_that_say_nothing_stop_nothing() {
    let place = Place::new();
    let (_up, metrics) = up(&place, Stdio::null());
    let scrape = || {
        let mut stream = TcpStream::connect(&metrics).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("it is connected");
        stream
    };
    let unread: Vec<TcpStream> = (0..200).map(|_| scrape()).collect();
    let silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&metrics).expect("it listens")).collect();
    let administrators: Vec<UnixStream> =
        (0..200).filter_map(|_| UnixStream::connect(place.path("agent.administration.sock")).ok()).collect();
    assert!(administrators.len() > 64, "more have connected than are served");
    let session = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(
        session.wait_ready(Duration::from_secs(60)) && session.try_register(Registration::default()).is_ok()
    );
    eventually("monitoring is served again", || get(&metrics, "/metrics").0 == 200);
    eventually("and so are administrators", || {
        place.run(&["ps", "--at", "agent.administration.sock"]).code == 0
    });
    drop((unread, silent));
}

/// Each limit of the live system that refuses something: what it says, which has to name the limit,
/// who has set it, and how to raise it or what to do instead.
#[test]
fn every_refusal_by_a_limit_says_what_the_limit_is_who_set_it_and_what_to_do() {
    let place = Place::new();
    let mut table: Vec<(String, Vec<&str>)> = Vec::new();
    for limit in Limit::ALL {
        let said = Refusal::TooMany { of: limit, limit: 7 }.to_string();
        table.push((
            said,
            vec!["one user may have 7 ", limit.name(), "the agent's operator set that", "--user-budget"],
        ));
    }
    table.push((
        "x".repeat(40).parse::<CoflowName>().expect_err("it is too long").to_string(),
        vec!["1 to 39", "as sort-7"],
    ));
    table.push((
        Remark::new(&"x".repeat(101)).expect_err("it is too long").to_string(),
        vec!["has 101 bytes and may have 100", "fewer words"],
    ));
    table.push((TooManyDrains.to_string(), vec!["15 drains", "the most that coordinators keep", "--undo"]));
    let frame = WireError::FrameTooLong { length: 1 << 30, limit: MAX_FRAME };
    table.push((frame.to_string(), vec!["1073741824 bytes", "at most 2097152", "no Cavalcade program"]));
    let commands: [(&[&str], Vec<&str>); 5] = [
        (&["up", "--period", "1us"], vec!["1ms to 60s"]),
        (&["up", "--hold", "15ms"], vec!["15ms", "at least four periods", "--hold"]),
        (&["agent", "--max-connections", "0"], vec!["--max-connections", "1 or more"]),
        (&["up", "--user-budget", "flows=99999999999"], vec!["from 1 to 4294967295"]),
        (&["certificates", "site", "--hosts", "1", "--days", "40000"], vec!["--days", "1..=36500"]),
    ];
    for (arguments, parts) in commands {
        table.push((place.run(arguments).err, parts));
    }
    for (said, parts) in table.into_iter().chain(said_in_logs(&place)) {
        let missing: Vec<&&str> = parts.iter().filter(|part| !said.contains(**part)).collect();
        assert!(missing.is_empty(), "{missing:?} not in: {said}");
    }
}

/// Returns what coordinator and agent log about connections beyond their limits.
fn said_in_logs(place: &Place) -> [(String, Vec<&'static str>); 4] {
    let (listen, metrics) = (free_address(), free_address());
    let messages =
        |name: &str| Stdio::from(File::create(place.path(name)).expect("the place can be written to"));
    let hosts = ["--hosts", "127.0.0.1"];
    let one = ["--max-connections", "1"];
    let lead = ["coordinator", "--listen", &listen, "--administration", "lead.sock"];
    let _lead = Serving::saying(place, &[&lead[..], &hosts, &one].concat(), messages("lead.log"));
    let agent =
        ["agent", "--port", "0", "--coordinator", &listen, "--socket", "agent.sock", "--metrics", &metrics];
    let _agent = Serving::saying(place, &[&agent[..], &hosts, &one].concat(), messages("agent.log"));
    eventually("the agent obeys", || get(&metrics, "/readyz").0 == 200);
    let second = TcpStream::connect(&listen);
    let first = Session::open(place.path("agent.sock")).expect("the agent answers");
    assert!(first.wait_ready(Duration::from_secs(60)));
    let log = |name: &str| String::from_utf8(place.read(name)).expect("it is UTF-8");
    eventually("a client is turned away", || {
        let _other = UnixStream::connect(place.path("agent.sock"));
        log("agent.log").contains("turned a connection away")
    });
    let is_turned_away = || log("lead.log").contains("turned a connection away");
    eventually("the coordinator turns the second away", is_turned_away);
    let scrapers: Vec<_> = (0..100).map(|_| TcpStream::connect(&metrics)).collect();
    eventually("a scraper is turned away", || log("agent.log").contains("refused a scraper"));
    let mut administrators = Vec::new();
    eventually("an administrator is turned away", || {
        administrators.push(UnixStream::connect(place.path("lead.sock")));
        log("lead.log").contains("refused an administrator")
    });
    drop((second, scrapers, administrators));
    let line = |name: &str, part: &str| {
        log(name).lines().find(|line| line.contains(part)).unwrap_or_default().to_owned()
    };
    [
        (line("agent.log", "turned a connection away"), vec!["1 connections", "--max-connections", "raises"]),
        (line("lead.log", "turned a connection away"), vec!["1 connections", "--max-connections", "raises"]),
        (line("agent.log", "refused a scraper"), vec!["most=64", "fixed"]),
        (line("lead.log", "refused an administrator"), vec!["most=64", "fixed"]),
    ]
}

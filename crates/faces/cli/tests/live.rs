//! The live system's commands: what they refuse, and that nothing is left behind.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cavalcade_client::{Registration, Session};
use cavalcade_testing::eventually;
use serde_json::Value;
use support::serving::{Serving, free_address, get, json};
use support::{Place, Running};

#[test]
fn a_seed_of_faults_is_replayed_and_a_planted_bug_is_found() {
    let place = Place::new();
    let first = place.run(&["fault", "--seed", "3"]);
    assert_eq!((first.code, first.err.as_str()), (0, ""));
    assert!(first.out.ends_with("everything held\n"), "{}", first.out);
    assert_eq!(place.run(&["fault", "--seed", "3"]).out, first.out);
    let planted = place.run(&["fault", "--seeds", "50", "--plant", "two-leaders"]);
    assert_eq!(planted.code, 4);
    assert!(planted.err.contains("coordinators believe that they lead"), "{}", planted.err);
    assert_eq!(place.run(&["fault", "--plant", "gremlin"]).code, 2);
}

#[test]
fn what_cannot_work_is_refused_with_a_cure_and_leaves_nothing_behind() {
    let place = Place::new();
    let hosts = "127.0.0.1,127.0.0.2";
    let refused = [
        (vec!["up", "--hosts", hosts, "--policy", "dcas"], "cavalcade agent --policy dcas"),
        (vec!["coordinator", "--hosts", hosts, "--policy", "dclos"], "dclas"),
        (
            vec!["agent", "--hosts", hosts, "--port", "0", "--policy", "sebf"],
            "cavalcade coordinator --policy sebf",
        ),
        (vec!["agent", "--hosts", hosts, "--port", "2", "--policy", "dcas"], "count from 0"),
        (vec!["agent", "--hosts", hosts, "--port", "0"], "--coordinator"),
        (vec!["up", "--hosts", hosts, "--period", "1us"], "1ms to 60s"),
        (
            vec!["coordinator", "--hosts", "10.0.0.1,10.0.0.2,10.0.0.1"],
            "10.0.0.1 is named twice, as ports 0 and 2",
        ),
        (vec!["agent", "--hosts", "::1,0:0::1", "--port", "0"], "name each host once"),
        (vec!["up", "--hosts", "127.0.0.1,::ffff:127.0.0.1"], "name each host once"),
        (vec!["up", "--user-budget", "flws=9"], "a name of connections, coflows, flows, messages, bytes"),
    ];
    for (arguments, cure) in refused {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(cure), "{arguments:?}: {}", ran.err);
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let at = taken.local_addr().expect("it is bound").to_string();
    let ran = place.run(&["coordinator", "--hosts", hosts, "--listen", &at]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("stop what listens there"), "{}", ran.err);
    assert!(place.names().is_empty(), "{:?}", place.names());
}

#[test]
fn a_typo_in_a_configuration_file_is_named_with_its_line_and_a_flag_wins_over_the_file() {
    let place = Place::new();
    place.write("site.toml", "[site]\nhosts = [\"127.0.0.1\"]\n\n[coordinator]\npolcy = \"sebf\"\n");
    let ran = place.run(&["coordinator", "--config", "site.toml"]);
    assert_eq!(ran.code, 3);
    for part in ["site.toml:5:1", "polcy", "did you mean 'policy'?"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    place.write("site.toml", "[site]\nhosts = [\"127.0.0.1\", \"127.0.0.1\"]\n");
    for command in [&["coordinator"][..], &["agent", "--port", "0"], &["up"]] {
        let ran = place.run(&[command, &["--config", "site.toml"]].concat());
        assert!(
            ran.code == 3 && ran.err.contains("site.toml:2:9") && ran.err.contains("named twice"),
            "{}",
            ran.err
        );
    }
    place.write("site.toml", "[site]\nhosts = [\"127.0.0.1\"]\n\n[coordinator]\npolicy = \"dcas\"\n");
    let ran = place.run(&["coordinator", "--config", "site.toml"]);
    assert!(ran.code == 2 && ran.err.contains("dcas decides at hosts"), "{}", ran.err);
    let ran = place.run(&["coordinator", "--config", "site.toml", "--policy", "saat"]);
    assert!(ran.code == 2 && ran.err.contains("saath"), "{}", ran.err);
    assert_eq!(place.run(&["coordinator", "--config", "none.toml"]).code, 1);
    assert_eq!(place.names(), ["site.toml"]);
}

#[test]
fn what_leaves_the_host_needs_certificates_that_fit_and_nothing_is_left_behind_without() {
    let place = Place::new();
    let ran = place.run(&["coordinator", "--hosts", "10.0.0.1,10.0.0.2", "--listen", "0.0.0.0:0"]);
    assert!(ran.code == 2 && ran.err.contains("cavalcade certificates"), "{}", ran.err);
    assert_eq!(place.run(&["certificates", "site", "--hosts", "2"]).code, 0);
    assert_eq!(place.run(&["certificates", "site", "--hosts", "2"]).code, 1, "the folder is there already");
    let ran = place.run(&["coordinator", "--hosts", "127.0.0.1", "--certificates", "site/agent-0"]);
    assert!(ran.code == 3 && ran.err.contains("for agent-0, not for coordinator"), "{}", ran.err);
    place.write("site/coordinator/certificate.pem", "garbage");
    let ran = place.run(&["coordinator", "--hosts", "127.0.0.1", "--certificates", "site/coordinator"]);
    assert!(ran.code == 3 && ran.err.contains("certificate.pem"), "{}", ran.err);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("some port is free");
    let at = taken.local_addr().expect("it is bound").to_string();
    let agent = ["agent", "--hosts", "127.0.0.1", "--coordinator", "127.0.0.1:1", "--socket", "agent.sock"];
    let ran = place.run(&[&agent[..], &["--metrics", &at]].concat());
    assert!(ran.code == 1 && ran.err.contains("monitoring"), "{}", ran.err);
    assert_eq!(place.names(), ["site"], "no socket file is left");
}

#[test]
fn a_part_whose_certificate_is_revoked_does_not_start_and_the_next_list_has_those_of_the_former_one() {
    let place = Place::new();
    assert_eq!(place.run(&["certificates", "site", "--hosts", "3"]).code, 0);
    for part in ["agent-1", "agent-2"] {
        let ran = place.run(&["revoke", "site", part]);
        assert!(ran.code == 0 && ran.err.contains("site/authority/revoked.pem"), "{}", ran.err);
    }
    let ran = place.run(&["revoke", "site", "agent-7"]);
    assert!(ran.code != 0 && ran.err.contains("agent-7/certificate.pem"), "{}", ran.err);
    let start = |port: &str| {
        let folder = format!("site/agent-{port}");
        std::fs::copy(place.path("site/authority/revoked.pem"), place.path(&format!("{folder}/revoked.pem")))
            .expect("both are there");
        let hosts = ["--hosts", "127.0.0.1,127.0.0.2,127.0.0.3", "--port", port];
        let named = ["--certificates", &folder, "--policy", "dcas", "--socket", "/nowhere/agent.sock"];
        place.run(&[&["agent"][..], &hosts, &named].concat())
    };
    for port in ["1", "2"] {
        let ran = start(port);
        assert!(ran.code == 3 && ran.err.contains("it was revoked: renew it"), "{}", ran.err);
    }
    assert_eq!(start("0").code, 1, "its certificate will do, and there is no such folder");
    // Nor does it come back unless somebody says so, and with its former key not at all.
    let ran = place.run(&["renew", "site"]);
    assert!(ran.code == 0 && ran.err.contains("(1 in all)") && !ran.err.contains("agent-2"), "{}", ran.err);
    let ran = place.run(&["renew", "site", "agent-2"]);
    assert!(ran.code == 2 && ran.err.contains("--new-key"), "{}", ran.err);
    let ran = place.run(&["renew", "site", "agent-2", "--new-key"]);
    assert!(ran.code == 0 && ran.err.contains("(2 in all)"), "{}", ran.err);
}

#[test]
fn an_etcd_over_tls_takes_certificates_and_clear_text_takes_none() {
    let place = Place::new();
    assert_eq!(place.run(&["certificates", "site", "--hosts", "1"]).code, 0);
    let refused = [
        (vec!["--lease", "etcds://127.0.0.1:2379/lead"], "--lease-certificates"),
        (
            vec!["--lease", "etcd://127.0.0.1:2379/lead", "--lease-certificates", "site/coordinator"],
            "etcds://",
        ),
        (vec!["--lease", "etcd://10.0.0.9:2379/lead"], "etcds://"),
        (vec!["--lease", "etcds://127.0.0.1:2379/lead", "--lease-certificates", "nowhere"], "authority.pem"),
    ];
    for (lease, cure) in refused {
        let ran = place.run(&[&["coordinator", "--hosts", "127.0.0.1"][..], &lease].concat());
        assert!([2, 3].contains(&ran.code) && ran.err.contains(cure), "{lease:?}: {}", ran.err);
    }
}

#[test]
fn coflows_are_listed_described_and_explained_and_the_kill_switch_works() {
    let place = Place::new();
    let socket = place.path("agent.sock");
    let hosts = "127.0.0.1,127.0.0.2";
    let path = socket.to_str().expect("it is UTF-8");
    let up = Serving::start(&place, &["up", "--hosts", hosts, "--policy", "fifo", "--socket", path]);
    let session = Session::open(&socket).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let named =
        Registration { name: Some("sort-7".parse().expect("it is a name")), ..Registration::default() };
    let (first, second) =
        (session.register(Registration::default()).unwrap(), session.register(named).unwrap());
    let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("some port is free");
    let connect = || TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let open = |coflow| Arc::new(session.stream(connect(), coflow, None).expect("it is connected"));
    let (early, late) = (open(first), open(second));
    let at = place.path("agent.coordinator.sock");
    let at = ["--at", at.to_str().expect("it is UTF-8")];
    let (first, second) = (first.to_string(), second.to_string());
    let ask = |command: &[&str]| json(&place, &[command, &at, &["--json"]].concat());
    // What makes no progress has no place to give up or to wait for: both go on, a little at a
    // time.
    let enough = Arc::new(AtomicBool::new(false));
    let going_on = [&early, &late].map(|stream| {
        let (stream, enough) = (stream.clone(), enough.clone());
        std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                (&*stream).write_all(b"more").expect("nobody has to read it yet");
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    });
    eventually("the later one waits", || {
        let view = ask(&["ps"]).expect("it answers");
        view["coflows"].as_array().is_some_and(|all| all.len() == 2) && view["coflows"][1]["off"] == 1
    });
    let view = ask(&["ps"]).expect("it answers");
    assert_eq!((&view["schema_version"], &view["role"]), (&Value::from(1), &Value::from("coordinator")));
    assert_eq!(
        (&view["policy"], &view["coflows"][0]["coflow"]),
        (&Value::from("fifo"), &Value::from(first.as_str()))
    );
    let described = ask(&["describe", &second]).expect("it answers");
    assert_eq!(
        (&described["flows"][0]["from"], &described["flows"][0]["to"]),
        (&Value::from(0), &Value::from(1))
    );
    let addresses = [&described["flows"][0]["from_address"], &described["flows"][0]["to_address"]];
    assert_eq!(addresses, ["127.0.0.1", "127.0.0.2"]);
    let shown = place.run(&[&["describe", second.as_str()][..], &at].concat()).out;
    assert!(shown.contains("0 (127.0.0.1) → 1 (127.0.0.2)"), "{shown}");
    let id = view["coflows"][0]["id"].as_str().expect("every coflow has one");
    // Where the machine keeps the first from going on for a while, the second has its place
    // meanwhile.
    eventually("it waits behind the other", || {
        let ran = place.run(&[&["why", second.as_str()][..], &at].concat());
        let is_named = |port: u32| {
            let host = format!("at port {port} (127.0.0.{})", port + 1);
            ran.out.starts_with(&format!("sort-7 waits behind one coflow {host}"))
                && ran.out.contains(&format!("ing {host} behind {id}: "))
        };
        is_named(0) || is_named(1)
    });
    for text in ["sort-7", described["id"].as_str().expect("it has one"), &second] {
        assert_eq!(ask(&["describe", text]).expect("it answers")["coflow"], described["coflow"], "{text}");
    }
    let listed = place.run(&[&["ps"][..], &at].concat()).out;
    assert!(listed.contains("sort-7") && listed.contains(id) && !listed.contains(&second), "{listed}");
    assert_eq!(place.run(&[&["why", "1.0.1"][..], &at].concat()).code, 2);
    assert_eq!(place.run(&[&["describe", "one"][..], &at].concat()).code, 2);
    assert_eq!(place.run(&[&["drain"][..], &at].concat()).code, 0);
    eventually("it goes as plain TCP", || late.directive().gate == cavalcade_client::Gate::Open {});
    assert_eq!(ask(&["ps"]).expect("it answers")["drained"], true);
    assert_eq!(ask(&["drain", "--undo"]).expect("it answers")["was_drained"], true);
    enough.store(true, Ordering::Relaxed);
    going_on.into_iter().for_each(|thread| thread.join().expect("it ends well"));
    assert_eq!(up.interrupt(), Some(0));
    let left = place.names();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(place.run(&[&["ps"][..], &at].concat()).code, 1);
}

#[test]
fn the_kill_switch_outlives_the_coordinator_that_was_told_of_it() {
    let place = Place::new();
    let listen = free_address();
    let hosts = "127.0.0.1,127.0.0.2";
    let lead = || {
        let named = ["--listen", &listen, "--administration", "lead.sock", "--policy", "fifo"];
        Serving::start(&place, &[&["coordinator", "--hosts", hosts][..], &named].concat())
    };
    let serve = |port: &str, socket: &str| {
        let named = ["--port", port, "--coordinator", &listen, "--socket", socket];
        Serving::start(&place, &[&["agent", "--hosts", hosts][..], &named].concat())
    };
    let first = lead();
    let _agents = [serve("0", "0.sock"), serve("1", "1.sock")];
    let shown = |at: &str| json(&place, &["ps", "--at", at, "--json"]);
    let heard = |view: &Value| view["hosts"].as_array().is_some_and(|hosts| hosts.len() == 2);
    eventually("both agents are heard", || shown("lead.sock").is_some_and(|view| heard(&view)));
    assert_eq!(place.run(&["drain", "--at", "lead.sock"]).code, 0);
    let agents = ["0.administration.sock", "1.administration.sock"];
    let drained = |at: &str| shown(at).is_some_and(|view| view["drained"] == true);
    eventually("both agents have heard of it", || agents.iter().all(|agent| drained(agent)));
    // What is killed takes nothing with it, as after a crash.
    drop(first);
    let _second = lead();
    eventually("the next coordinator knows", || drained("lead.sock"));
    let refused = place.run(&["drain", "--undo", "--at", agents[0]]);
    assert!(refused.out.contains("because a kill switch is on"), "{}{}", refused.out, refused.err);
    assert!(agents.iter().all(|agent| drained(agent)));
    assert_eq!(place.run(&["drain", "--undo", "--at", "lead.sock"]).code, 0);
    eventually("both agents have heard of its end", || !agents.iter().any(|agent| drained(agent)));
}

#[test]
fn the_doctor_finds_pacing_and_classes_on_any_linux() {
    let place = Place::new();
    let findings = json(&place, &["doctor", "--json"]).expect("orders can be carried out here");
    let findings = findings["findings"].as_array().expect("a list");
    let state =
        |name: &str| findings.iter().find(|finding| finding["name"] == name).map(|found| &found["state"]);
    assert_eq!((state("pacing"), state("classes")), (Some(&Value::from("good")), Some(&Value::from("good"))));
}

#[test]
fn an_agent_is_found_where_the_environment_says_as_by_the_client_libraries() {
    let place = Place::new();
    let ask = |socket: &str, arguments: &[&str]| {
        let mut command = place.command();
        command.args(arguments).env("XDG_RUNTIME_DIR", place.path(".")).env("CAVALCADE_SOCKET", socket);
        let out = command.output().expect("it runs");
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    let socket = place.path("elsewhere.sock").display().to_string();
    let (code, err) = ask("/nowhere/agent.sock", &["ps"]);
    assert!(
        code == Some(1) && err.contains("nor an agent at /nowhere/agent.sock of $CAVALCADE_SOCKET"),
        "{err}"
    );
    let mut agent = place.command();
    agent.args(["agent", "--hosts", "127.0.0.1,127.0.0.2", "--port", "0", "--coordinator", &free_address()]);
    agent.env("XDG_RUNTIME_DIR", place.path(".")).env("CAVALCADE_SOCKET", &socket);
    let _agent = Running(agent.stderr(Stdio::null()).spawn().expect("it starts"));
    eventually("the agent is found", || ask(&socket, &["ps"]).0 == Some(0));
    assert!(place.path("elsewhere.sock").exists() && !place.path("cavalcade.sock").exists());
    assert_eq!(ask("", &["ps"]).0, Some(1), "an empty name is none");
}

#[test]
fn a_command_runs_in_a_coflow_as_it_would_without_and_is_told_which() {
    let place = Place::new();
    let run = ["run", "--coflow", "17.0.17", "--", "sh", "-c", "echo $CAVALCADE_COFLOW; exit 7"];
    let ran = place.run(&run);
    assert_eq!((ran.code, ran.out.as_str()), (7, "17.0.17\n"));
    assert!(ran.err.contains("plain TCP"), "{}", ran.err);
    let ran = place.run(&["run", "--coflow", "seventeen", "--", "true"]);
    assert!(ran.code == 1 && ran.err.contains("no coordinator or agent is running"), "{}", ran.err);
    // As env, nice and timeout end.
    let cannot = [
        ("no-such-program", 127),
        ("/nonexistent/program", 127),
        ("", 127),
        ("/etc/passwd", 126),
        ("/", 126),
        ("/etc/passwd/program", 126),
    ];
    for (program, code) in cannot {
        let ran = place.run(&["run", "--coflow", "17.0.17", "--", program]);
        assert!(
            ran.code == code && ran.err.contains(&format!("cannot run {program}")),
            "{program}: {}",
            ran.err
        );
    }
    assert_eq!(place.run(&["run", "--coflow", "17.0.17"]).code, 2);
}

#[test]
fn certificates_are_renewed_a_host_joins_and_the_authority_is_replaced_while_both_parts_run() {
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        ran.err
    };
    run(&["certificates", "site", "--hosts", "1", "--days", "5"]);
    let (listen, metrics) = (free_address(), free_address());
    let hosts = ["--hosts", "127.0.0.1"];
    let lead = ["--listen", &listen, "--certificates", "site/coordinator", "--administration", "lead.sock"];
    let _lead = Serving::start(&place, &[&["coordinator"], &hosts[..], &lead].concat());
    let of_agent = ["--port", "0", "--coordinator", &listen, "--certificates", "site/agent-0"];
    let rest = ["--socket", "agent.sock", "--metrics", &metrics];
    let _agent = Serving::start(&place, &[&["agent"], &hosts[..], &of_agent, &rest].concat());
    let is_ready = || get(&metrics, "/readyz").0 == 200;
    eventually("the agent obeys", is_ready);
    let days = |least: i64| {
        let said = get(&metrics, "/metrics").1;
        let until = said.lines().find_map(|line| line.strip_prefix("cavalcade_certificate_until_seconds "));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        until.is_some_and(|until| {
            until.trim().parse::<i64>().expect("a number") - now.as_secs() as i64 > least * 86_400
        })
    };
    assert!(days(4) && !days(5));
    run(&["renew", "site", "agent-0", "--days", "60", "--new-key"]);
    eventually("the agent shows its new certificate", || days(4));
    assert!(place.run(&["renew", "site", "--retire-authority"]).code == 2, "none is being replaced");
    let said = run(&["renew", "site", "--hosts", "3"]);
    assert!(said.contains("agent-1, agent-2") && !said.contains("agent-0"), "{said}");

    let serial = |file: &str| place.read(file);
    let former = serial("site/authority/authority.pem");
    run(&["renew", "site", "--new-authority", "--days", "60"]);
    let refused = place.run(&["renew", "site", "--retire-authority"]);
    assert!(refused.code == 2 && refused.err.contains("is the former authority's"), "{}", refused.err);
    run(&["renew", "site", "--days", "50"]);
    eventually("the new certificate lasts as long as the new authority lets it", || days(49));
    run(&["revoke", "site", "agent-2"]);
    let lists = String::from_utf8(place.read("site/authority/revoked.pem")).expect("it is text");
    assert_eq!(lists.matches("BEGIN X509 CRL").count(), 2, "one of each authority");
    run(&["renew", "site", "--retire-authority"]);
    let now = serial("site/agent-0/authority.pem");
    assert!(!former.is_empty() && !now.ends_with(&former), "the former authority is not trusted any more");
    // The parts see that within two seconds, and speak under the new one.
    std::thread::sleep(Duration::from_millis(2_500));
    eventually("the agent obeys under the new authority", is_ready);
    let shown = place.run(&["ps", "--hosts", "--at", "lead.sock"]);
    assert!(shown.out.contains("certificate for 49 more days"), "{}", shown.out);
}

#[test]
fn health_readiness_hosts_and_the_reason_of_a_drain_are_shown() {
    let place = Place::new();
    let (listen, metrics) = (free_address(), free_address());
    let arguments = ["agent", "--hosts", "127.0.0.1", "--port", "0", "--coordinator", &listen];
    let rest = ["--socket", "agent.sock", "--administration", "admin.sock", "--metrics", &metrics];
    let _agent = Serving::start(&place, &[&arguments[..], &rest].concat());
    eventually("it is healthy", || get(&metrics, "/healthz").0 == 200);
    let (status, why) = get(&metrics, "/readyz");
    assert!(status == 503 && why.contains("no coordinator is obeyed"), "{status} {why}");
    let lead = ["coordinator", "--hosts", "127.0.0.1", "--listen", &listen, "--administration", "lead.sock"];
    let _lead = Serving::start(&place, &lead);
    eventually("the agent obeys", || get(&metrics, "/readyz").0 == 200);
    let said = get(&metrics, "/metrics").1;
    for figure in [
        "cavalcade_term ",
        "cavalcade_orders_age_milliseconds ",
        "cavalcade_descriptors ",
        "cavalcade_build{",
    ] {
        assert!(said.contains(figure), "{figure} in {said}");
    }
    // On a loaded machine orders may run out between two looks.
    let shows = |at: &str, what: &[&str]| {
        let shown = place.run(&["ps", "--hosts", "--at", at]);
        shown.code == 0 && what.iter().all(|what| shown.out.contains(what))
    };
    eventually("the leader shows its agent", || {
        shows("lead.sock", &["leads with term", "127.0.0.1", " ms\n"])
    });
    eventually("the agent shows its leader", || shows("admin.sock", &["obeys term"]));
    assert_eq!(place.run(&["drain", "--at", "lead.sock", "--reason", "new switches"]).code, 0);
    let shown = place.run(&["ps", "--at", "lead.sock"]).out;
    assert!(shown.contains("DRAINED") && shown.contains("new switches"), "{shown}");
}

/// Reads `/metrics` at `at`; empty while nothing listens there.
fn metrics(at: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(at) else { return String::new() };
    let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    let mut text = String::new();
    let _ = asked.and_then(|()| std::io::Read::read_to_string(&mut stream, &mut text));
    text
}

#[test]
fn up_keeps_users_to_the_budget_of_its_file_and_serves_the_metrics_that_file_and_flag_ask_for() {
    let place = Place::new();
    let (coordinator, agent) = (free_address(), free_address());
    let file = format!("[coordinator]\nmetrics = \"{coordinator}\"\n[agent]\nuser_budget = \"coflows=1\"\n");
    place.write("site.toml", file);
    let arguments = ["up", "--config", "site.toml", "--socket", "agent.sock", "--agent-metrics", &agent];
    let up = Serving::start(&place, &arguments);
    for at in [&coordinator, &agent] {
        eventually("metrics are served", || metrics(at).contains("200 OK"));
    }
    let socket = place.path("agent.sock");
    let session = Session::open(&socket).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    assert!(session.try_register(Registration::default()).is_ok());
    let refused = session.try_register(Registration::default()).expect_err("it is one too many").to_string();
    assert!(refused.contains("one user may have 1 coflows"), "{refused}");
    let said = metrics(&agent);
    for figure in
        ["refusals_total{reason=\"coflows\"} 1\n", "user_budget{limit=\"coflows\"} 1\n", "user_coflows{user="]
    {
        assert!(said.contains(figure), "{figure} in {said}");
    }
    // A line of the table: the limit, whose it is, what is used, the most, and what raises it.
    let lines = |at: &str| -> Vec<Vec<String>> {
        let listed = place.run(&["ps", "--limits", "--at", at]);
        assert_eq!(listed.code, 0, "{}", listed.err);
        listed.out.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&socket).expect("it is there"));
    let coflows = format!("coflows {user} 1 1 --user-budget coflows=…");
    let coflows: Vec<&str> = coflows.split(' ').collect();
    let of_agent = lines("agent.administration.sock");
    assert!(of_agent.iter().any(|line| *line == coflows), "{of_agent:?}");
    let of_coordinator = lines("agent.coordinator.sock");
    let is_that = |line: &Vec<String>| line.join(" ").starts_with("flows of an agent - 0 2000000 fixed");
    assert!(of_coordinator.iter().any(is_that), "{of_coordinator:?}");
    assert_eq!(up.interrupt(), Some(0));
}

#[test]
fn messages_for_collectors_are_json_a_line_each() {
    let place = Place::new();
    let socket = place.path("agent.sock");
    let path = socket.to_str().expect("it is UTF-8");
    let messages = std::fs::File::create(place.path("messages")).expect("the place can be written to");
    // Without hosts it serves this one alone.
    let arguments = ["up", "--socket", path, "--log-format", "json"];
    let up = Serving::saying(&place, &arguments, messages.into());
    let said = || String::from_utf8(place.read("messages")).expect("it is UTF-8");
    eventually("the coordinator hears of the agent", || said().contains("agent connected"));
    assert_eq!(up.interrupt(), Some(0));
    for line in said().lines() {
        let message: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(message["timestamp"].is_string() && message["level"].is_string(), "{line}");
        if message["message"] == "agent connected" {
            assert_eq!((&message["level"], &message["port"]), (&Value::from("INFO"), &Value::from(0)));
        }
    }
}

#[test]
fn a_coordinator_says_at_level_debug_what_it_decides_about_flows_and_when() {
    let place = Place::new();
    let socket = place.path("agent.sock");
    let path = socket.to_str().expect("it is UTF-8");
    let messages = std::fs::File::create(place.path("messages")).expect("the place can be written to");
    let log = ["--log-format", "json", "--log-level", "debug"];
    let site = ["up", "--hosts", "127.0.0.1,127.0.0.2", "--policy", "fifo", "--socket", path];
    let up = Serving::saying(&place, &[&site[..], &log].concat(), messages.into());
    let session = Session::open(&socket).unwrap();
    assert!(session.wait_ready(Duration::from_secs(60)));
    let listener = std::net::TcpListener::bind("127.0.0.2:0").expect("some port is free");
    let connect = || TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let coflows = [(); 2].map(|()| session.register(Registration::default()).unwrap());
    let streams =
        coflows.map(|coflow| Arc::new(session.stream(connect(), coflow, None).expect("it is connected")));
    let enough = Arc::new(AtomicBool::new(false));
    let going_on = streams.map(|stream| {
        let enough = enough.clone();
        std::thread::spawn(move || {
            while !enough.load(Ordering::Relaxed) {
                let _ = (&*stream).write(b"go on");
                std::thread::sleep(Duration::from_millis(10));
            }
        })
    });
    let said = || String::from_utf8(place.read("messages")).expect("it is UTF-8");
    let is_second_off = |message: &Value| {
        message["message"] == "decided"
            && message["coflow"] == coflows[1].to_string()
            && (message["host"] == 0 && message["to"] == 1 && message["gate"] == "off")
            && message["round"].is_u64()
    };
    eventually("the second coflow waits for the first", || {
        said().lines().filter_map(|line| serde_json::from_str(line).ok()).any(|line| is_second_off(&line))
    });
    enough.store(true, Ordering::Relaxed);
    drop(up);
    going_on.into_iter().for_each(|one| one.join().expect("it writes"));
}

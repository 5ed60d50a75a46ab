//! Spark event logs on the command line: as a file, as a folder of rolled files, cut short, and
//! what is said about them.

mod support;

use support::Place;

/// Two shuffles at a time from host `a` to host `b`: a small one and a large one.
const LOG: &str = r#"{"Event":"SparkListenerLogStart","Spark Version":"3.5.3"}
{"Event":"SparkListenerJobStart","Job ID":0,"Submission Time":1000,"Stage Infos":[{"Stage ID":0,"Parent IDs":[]},{"Stage ID":1,"Parent IDs":[0]}]}
{"Event":"SparkListenerJobStart","Job ID":1,"Submission Time":1000,"Stage Infos":[{"Stage ID":2,"Parent IDs":[]},{"Stage ID":3,"Parent IDs":[2]}]}
{"Event":"SparkListenerTaskEnd","Stage ID":0,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"a","Executor ID":"1","Launch Time":1000,"Finish Time":1500},"Task Metrics":{"Shuffle Write Metrics":{"Shuffle Bytes Written":250000000}}}
{"Event":"SparkListenerTaskEnd","Stage ID":2,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"a","Executor ID":"1","Launch Time":1000,"Finish Time":1500},"Task Metrics":{"Shuffle Write Metrics":{"Shuffle Bytes Written":125000000}}}
{"Event":"SparkListenerTaskEnd","Stage ID":1,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"b","Executor ID":"2","Launch Time":1500,"Finish Time":2500},"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":250000000}}}
{"Event":"SparkListenerTaskEnd","Stage ID":3,"Task End Reason":{"Reason":"Success"},"Task Info":{"Host":"b","Executor ID":"2","Launch Time":1500,"Finish Time":2500},"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":125000000}}}
{"Event":"SparkListenerJobEnd","Job ID":0}
{"Event":"SparkListenerJobEnd","Job ID":1}
{"Event":"SparkListenerApplicationEnd","Timestamp":2500}
"#;

/// The same application on a network on which its reduce tasks waited: 1 Gbps, shared fairly.
fn waiting() -> String {
    LOG.replace(
        r#""Finish Time":2500},"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":250000000"#,
        r#""Finish Time":4500},"Task Metrics":{"Shuffle Read Metrics":{"Fetch Wait Time":2000,"Remote Bytes Read":250000000"#,
    )
    .replace(
        r#""Finish Time":2500},"Task Metrics":{"Shuffle Read Metrics":{"Remote Bytes Read":125000000"#,
        r#""Finish Time":3500},"Task Metrics":{"Shuffle Read Metrics":{"Fetch Wait Time":1500,"Remote Bytes Read":125000000"#,
    )
}

fn compared(log: &str, options: &[&str]) -> support::Ran {
    let place = Place::new();
    place.write("log", log);
    let ran = place.run(&[&["compare", "log", "--policies", "fair,sebf"], options].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}

#[test]
fn an_application_that_does_not_wait_for_the_network_has_no_winner() {
    let ran = compared(LOG, &[]);
    let first = ran.out.lines().next().unwrap();
    assert!(first.starts_with("The network is not what the 2 queries and jobs wait for: "), "{}", ran.out);
    assert!(!ran.out.contains('×') && !ran.out.contains("sebf"), "{}", ran.out);
    // Half a second of maps and one of reduce tasks, in which three gigabits must have come: from 3
    // Gbps on it fits.
    assert!(
        ran.out.contains("The rate does not follow from the log: every network of 2.9 Gbps and more"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("estimated  computation:") && ran.err.contains("left out   reads from"),
        "{}",
        ran.err
    );
}

#[test]
fn the_rate_is_inferred_where_tasks_waited_and_seconds_saved_follow() {
    let ran = compared(&waiting(), &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let savings = &document["savings"];
    assert_eq!(savings["rate_bps"], 1_000_000_000, "{savings:#}");
    assert!(savings["rate_inferred"]["fastest_bps"].as_u64().is_some_and(|rate| rate < 1_100_000_000));
    let query = &savings["queries"][1];
    assert_eq!((query["name"].as_str(), query["recorded_s"].as_f64()), (Some("job-1"), Some(2.5)));
    assert_eq!((query["simulated_s"].as_f64(), query["saved_s"]["sebf"].as_f64()), (Some(2.5), Some(1.0)));
    assert!(savings["notes"].as_array().is_some_and(|notes| notes.len() >= 4), "{savings:#}");
    let ran = compared(&waiting(), &["--rate", "1Gbps"]);
    assert!(ran.out.contains("1 Gbps, is the one that was asked for"), "{}", ran.out);
    let first = ran.out.lines().next().unwrap();
    assert_eq!(
        first,
        "Only a policy that is told all sizes saves time: sebf saves 1.00 s (16.7 %) of the 6.00 s that the 2 queries and jobs \
         take; the application ends no sooner."
    );
    assert!(ran.out.contains("job-1, stage 2 to 3"), "{}", ran.out);
}

#[test]
fn at_a_rate_that_was_asked_for_the_answer_is_about_that_rate() {
    let ran = compared(LOG, &["--rate", "100Gbps"]);
    let first = ran.out.lines().next().unwrap();
    assert!(
        first.starts_with("The network is not what the 2 queries and jobs wait for: at 100 Gbps scheduling would have saved "),
        "{first}"
    );
    assert!(
        !ran.out.contains("upper bound") && !ran.out.contains("does not follow from the log"),
        "{}",
        ran.out
    );
}

#[test]
fn where_the_log_tells_only_a_floor_of_the_rate_the_answer_is_for_ten_gigabits() {
    let ran = compared(LOG, &[]);
    let first = ran.out.lines().next().unwrap();
    // At 10 Gbps fair sharing takes 200 ms and 300 ms for what computation of a second hides.
    assert_eq!(
        first,
        "The network is not what the 2 queries and jobs wait for: at 10 Gbps scheduling would have saved nothing of 3.00 s."
    );
    assert!(
        ran.out.contains("savings are upper bounds; set the rate of your network with --rate"),
        "{}",
        ran.out
    );
    let ran = compared(LOG, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let usual = &document["savings"]["at_usual_rate"];
    assert_eq!(
        (usual["rate_bps"].as_u64(), usual["could_save_s"].as_f64()),
        (Some(10_000_000_000), Some(0.0))
    );
    assert_eq!(document["savings"]["best_policy"], serde_json::Value::Null);
}

#[test]
fn the_answer_names_the_application_its_cluster_and_where_to_read_on_and_notes_follow_it() {
    let place = Place::new();
    let log =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/spark-eventlog.json")).unwrap();
    place.write("log", log);
    let ran = place.run(&["compare", "log", "--policies", "fair,aalo,sebf,fifo", "--report", "r.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    for text in [&ran.out, &page] {
        for part in [
            "evening-report (app-example), Spark 3.5.3, 2026-01-01 00:00 UTC: 4 hosts, 4 executors",
            "core-seconds",
            "docs/spark-to-production.md",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert!(ran.out.trim_end().ends_with("docs/spark-to-production.md"), "{}", ran.out);
    // Bytes are for people.
    assert!(ran.err.contains("MB that stayed on their host"), "{}", ran.err);
    // Both streams in one file: the notes come last.
    let file = std::fs::File::create(place.path("both")).unwrap();
    let mut command = place.command();
    command
        .args(["compare", "log", "--policies", "fair,sebf"])
        .stderr(file.try_clone().unwrap())
        .stdout(file);
    assert!(command.status().unwrap().success());
    let both = std::fs::read_to_string(place.path("both")).unwrap();
    let (answer, notes) = (both.find(" saves ").unwrap(), both.find("as it was read:").unwrap());
    let next = both.find("docs/spark-to-production.md").unwrap();
    assert!(answer < next && next < notes, "{both}");
}

#[test]
fn hosts_and_stages_keep_their_names_to_the_last_table() {
    let place = Place::new();
    place.write("log", LOG);
    let ran = place.run(&["trace", "info", "log"]);
    assert!(ran.out.contains("ports     2: a, b\n"), "{}", ran.out);
    assert!(ran.out.contains("busiest   ingress of a: 375 MB"), "{}", ran.out);
    place.write("log.jsonl", place.run(&["trace", "convert", "log"]).out);
    let ran = place.run(&[
        "simulate",
        "log.jsonl",
        "--policy",
        "fair",
        "--rate",
        "1Gbps",
        "--dump-schedule",
        "--out",
        "run",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    assert!(read("run/coflows.csv").contains("\"job-1, stage 2 to 3\""), "{}", read("run/coflows.csv"));
    let flows = read("run/flows.csv");
    let header = flows.lines().next().unwrap();
    assert_eq!(header, "flow,coflow,src,dst,size_bytes,finish_ns,src_host,dst_host");
    assert!(flows.lines().skip(1).all(|row| row.ends_with(",a,b")), "{flows}");
    for command in ["replay", "validate"] {
        let ran = place.run(&[command, "run"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    let ran = place.run(&["simulate", "log.jsonl", "--policy", "fair", "--rate", "1bps"]);
    assert!(!ran.err.contains("port 0"), "{}", ran.err);
}

#[test]
fn names_of_hosts_of_a_csv_reach_the_report() {
    let place = Place::new();
    place.write("t.csv", "src,dst,bytes,start_ms,coflow\nweb-1,db-1,1500000,0,a\nweb-2,db-1,2500000,0,a\n");
    let ran = place.run(&["compare", "t.csv", "--policies", "fair,sebf", "--report", "r.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert!(
        page.contains("web-2, ingress: ") && page.contains("db-1, egress: ") && !page.contains("port 0,")
    );
    let cut = "bigswitch:ports=3;ingress of port 2 failed";
    let ran = place.run(&["simulate", "t.csv", "--policy", "fair", "--fabric", cut]);
    assert!(ran.err.contains("task a: there is no path from web-2 to db-1"), "{}", ran.err);
}

#[test]
fn a_report_of_a_log_has_recorded_times_and_notes() {
    let place = Place::new();
    place.write("log", waiting());
    let ran = place.run(&["compare", "log", "--policies", "fair,sebf", "--report", "r.html"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(place.path("r.html")).unwrap();
    for word in ["Recorded and simulated", "left out", "estimated", "job-1", "told sizes"] {
        assert!(page.contains(word), "{word}");
    }
}

#[test]
fn real_logs_are_held_against_their_record() {
    for (name, query, recorded_s) in
        [("nds_q72_dataproc_2_2", "query72", 71.125), ("xgboost_eventlog", "query-4", 10.063)]
    {
        let Some(log) = cavalcade_testing::public_data(&format!("spark/{name}.zstd")) else { return };
        let place = Place::new();
        std::fs::write(place.path("log"), log).unwrap();
        let ran = place.run(&["compare", "log", "--policies", "fair,sebf", "--json"]);
        let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let first = &document["savings"]["queries"][0];
        assert_eq!((first["name"].as_str(), first["recorded_s"].as_f64()), (Some(query), Some(recorded_s)));
        let application = &document["savings"]["application"];
        let [recorded, simulated] =
            ["recorded_s", "simulated_s"].map(|key| application[key].as_f64().unwrap());
        assert!((simulated / recorded - 1.0).abs() < 0.025, "{application:#}");
        assert_eq!(application["waits_for_network"], false, "{application:#}");
    }
}

#[test]
fn no_command_assumes_a_rate_for_a_log_in_silence() {
    let place = Place::new();
    place.write("log", waiting());
    let commands: [&[&str]; 4] = [
        &["simulate", "log", "--policy", "fair", "--json"],
        &["simulate", "log", "--policy", "fair", "--out", "run", "--json"],
        &["bound", "log", "--budget", "10", "--json"],
        &["report", "figure", "cdf", "log", "--out", "cdf.svg"],
    ];
    for command in commands {
        let ran = place.run(command);
        assert!(
            ran.code == 0 && ran.err.contains("The rate is inferred: at 1 Gbps"),
            "{command:?}: {}",
            ran.err
        );
        let given = place.run(&[command, &["--rate", "2Gbps"]].concat());
        assert!(!given.err.contains("inferred"), "{command:?}: {}", given.err);
    }
    let manifest = std::fs::read_to_string(place.path("run/manifest.json")).unwrap();
    assert!(manifest.contains("1000000000") || manifest.contains("1Gbps"), "{manifest}");
    assert_eq!(place.run(&["replay", "run"]).code, 0);
    place.write("timeless", LOG.replace("1500", "1000").replace("2500", "1000"));
    let ran = place.run(&["simulate", "timeless", "--policy", "fair"]);
    assert!(ran.code == 2 && ran.err.contains("give the rate") && ran.out.is_empty(), "{}", ran.err);
}

#[test]
fn info_shows_where_coflows_come_from_and_json_stays_json() {
    let place = Place::new();
    place.write("log", LOG);
    let ran = place.run(&["trace", "info", "log"]);
    assert!(ran.out.contains("job-1, stage 2 to 3           2         3   125 MB  125 MB"), "{}", ran.out);
    let ran = place.run(&["trace", "info", "log", "--json"]);
    let facts: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(facts["shuffles"][0]["moved_bytes"], 250_000_000);
    assert!(facts["notes"].as_array().is_some_and(|notes| notes.len() >= 4), "{facts}");
    let ran = place.run(&["compare", "log", "--policies", "fair", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&ran.out).is_ok(), "{}", ran.out);
}

#[test]
fn a_rolled_log_is_read_and_replayed_as_a_folder() {
    let place = Place::new();
    let (first, second) =
        LOG.split_at(LOG.find("{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":1").unwrap());
    std::fs::create_dir(place.path("eventlog_v2_x")).unwrap();
    place.write("eventlog_v2_x/events_2_x", second);
    place.write("eventlog_v2_x/events_1_x", first);
    place.write("eventlog_v2_x/appstatus_x", "");
    let native = |trace: &str| place.run(&["trace", "convert", trace]).out;
    place.write("log", LOG);
    assert_eq!(native("eventlog_v2_x"), native("log"));
    let ran = place.run(&["simulate", "eventlog_v2_x", "--policy", "fair", "--out", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.run(&["replay", "run"]).code, 0);
    std::fs::remove_file(place.path("eventlog_v2_x/events_1_x")).unwrap();
    let ran = place.run(&["compare", "eventlog_v2_x"]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("no file events_1_"), "{}", ran.err);
}

#[test]
fn a_log_cut_short_is_read_as_far_as_it_is_whole_and_refused_where_nothing_is() {
    let place = Place::new();
    let lines: Vec<&str> = LOG.lines().collect();
    // Inside the end of the second job: what it did is not known to be all.
    place.write("log", &LOG[..LOG.len() - 60]);
    let ran = place.run(&["trace", "info", "log"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains(
            "whatever followed line 8 of log, 1.500 s after time zero, where it is cut off inside a line"
        ),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("coflows   1\n"), "{}", ran.out);
    place.write("log", lines[..6].join("\n"));
    let ran = place.run(&["simulate", "log", "--policy", "fair", "--out", "run"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    assert!(ran.err.contains("log:6: the log ends while job 0 runs"), "{}", ran.err);
    assert_eq!(place.names(), ["log"]);
}

/// `LOG` as that of another application, so many seconds later.
fn log_of(application: &str, seconds: u32) -> String {
    let start = format!(
        r#"{{"Event":"SparkListenerApplicationStart","App ID":"{application}","Timestamp":{}}}"#,
        1000 * seconds
    );
    let mut log = LOG.replacen('\n', &format!("\n{start}\n"), 1);
    for time in [1000, 1500, 2500] {
        let later = time + 1000 * seconds;
        log = log.replace(&format!("Time\":{time}"), &format!("Time\":{later}"));
    }
    log
}

#[test]
fn a_folder_of_logs_is_one_cluster_and_is_replayed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("logs/eventlog_v2_b")).unwrap();
    std::fs::create_dir_all(place.path("logs/databricks")).unwrap();
    place.write("logs/app-a", log_of("a", 0));
    place.write("logs/.app-a.crc", "checksum");
    place.write("logs/_SUCCESS", "");
    let b = log_of("b", 60);
    let (first, second) = b.split_at(b.find("{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":1").unwrap());
    place.write("logs/eventlog_v2_b/events_1_b", first);
    place.write("logs/eventlog_v2_b/events_2_b", second);
    place.write("logs/eventlog_v2_b/appstatus_b", "");
    let c = log_of("c", 7);
    let (first, second) = c.split_at(c.find("{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":3").unwrap());
    place.write("logs/databricks/eventlog-2023-11-14--22-10", first);
    place.write("logs/databricks/eventlog", second);
    let ran = place.run(&["trace", "convert", "logs", "--to", "native"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (name, arrival) in [("a/job-0", 0u64), ("c/job-1", 7_000_000_000), ("b/job-1", 60_000_000_000)] {
        assert!(
            ran.out.contains(&format!("\"name\":\"{name}\",\"arrival_ns\":{arrival},")),
            "{name}: {}",
            ran.out
        );
    }
    assert!(ran.err.contains("the clocks of the drivers of 3 applications"), "{}", ran.err);
    // Joined into one file they are the same.
    place.write("joined", [log_of("a", 0), c, b].concat());
    assert_eq!(place.run(&["trace", "convert", "joined", "--to", "native"]).out, ran.out);
    let ran = place.run(&["simulate", "logs", "--policy", "fair", "--rate", "1Gbps", "--out", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(place.run(&["replay", "run"]).code, 0);
    place.write("logs/notes.txt", "not a log\n");
    let ran = place.run(&["trace", "info", "logs"]);
    assert_eq!(ran.code, 3);
    assert!(
        ran.err.contains("logs/notes.txt:1:") && ran.err.contains("a whole event of a Spark log"),
        "{}",
        ran.err
    );
}

#[test]
fn logs_that_are_named_one_after_the_other_are_one_cluster_and_are_replayed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("logs")).unwrap();
    for (name, seconds) in [("a", 0), ("b", 60)] {
        place.write(name, log_of(name, seconds));
        place.write(&format!("logs/{name}"), log_of(name, seconds));
    }
    let native =
        |traces: &[&str]| place.run(&[&["trace", "convert"], traces, &["--to", "native"]].concat()).out;
    assert_eq!(native(&["a", "b"]), native(&["logs"]));
    let simulate = ["--policy", "fair", "--rate", "1Gbps", "--out", "run"];
    let ran = place.run(&[&["simulate", "a", "b"], &simulate[..]].concat());
    assert!(ran.code == 0 && ran.err.contains("a and 1 more as it was read:"), "{}", ran.err);
    assert_eq!(place.run(&["replay", "run"]).code, 0);
    assert_eq!(
        place.run(&["replay", "run", "--trace", "logs"]).code,
        0,
        "as a folder, where they have moved"
    );
    place.write("b", log_of("b", 61));
    let ran = place.run(&["replay", "run"]);
    assert!(ran.code == 3 && ran.err.contains("its SHA-256 differs"), "{}", ran.err);
    place.write("trace.csv", "src,dst,bytes,start_ms\n0,1,5,0\n");
    for (traces, code, says) in [
        (["a", "trace.csv"], 3, "trace.csv"),
        (["trace.csv", "a"], 3, "Spark"),
        (["a", "-"], 2, "standard input"),
    ] {
        let ran = place.run(&[&["compare"], &traces[..]].concat());
        assert!(ran.code == code && ran.err.contains(says), "{traces:?}: {}", ran.err);
    }
}

#[test]
fn a_folder_of_databricks_is_one_log() {
    let place = Place::new();
    std::fs::create_dir(place.path("eventlogs")).unwrap();
    let (first, second) =
        LOG.split_at(LOG.find("{\"Event\":\"SparkListenerTaskEnd\",\"Stage ID\":1").unwrap());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, first.as_bytes()).unwrap();
    place.write("eventlogs/eventlog-2023-11-14--22-10.gz", packed.finish().unwrap());
    place.write("eventlogs/eventlog", second);
    place.write("log", LOG);
    let native = |trace: &str| place.run(&["trace", "convert", trace]).out;
    assert_eq!(native("eventlogs"), native("log"));
}

#[test]
fn shapes_of_tasks_come_from_a_file() {
    let place = Place::new();
    place.write("shapes.json", r#"{"q1":[[0,"shuffle",4,[],null],[1,"shuffle",2,[0],null]]}"#);
    let ran = place.run(&["trace", "generate", "dag:tasks=3", "--shapes", "shapes.json", "-o", "dag.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(place.run(&["trace", "info", "dag.jsonl"]).out.contains("3 tasks have several stages"));
    place.write("shapes.json", r#"{"q1":[[0,"shuffle",4,[7],null]]}"#);
    let refused = place.run(&["trace", "generate", "dag", "--shapes", "shapes.json"]);
    assert_eq!(refused.code, 3);
    assert!(refused.err.contains("shapes.json: shape q1: node 0 names node 7"), "{}", refused.err);
    assert_eq!(place.run(&["trace", "generate", "facebook", "--shapes", "shapes.json"]).code, 2);
}

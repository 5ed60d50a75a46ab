//! Spark event logs on the command line: as a file, as a folder of rolled files, cut short, and what is said about them.

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

#[test]
fn comparing_says_what_each_shuffle_and_query_would_have_saved() {
    let place = Place::new();
    place.write("log", LOG);
    let ran = place.run(&["compare", "log", "--policies", "fair,sebf"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Shared fairly, 1 Gb and 2 Gb end after 2 s and 3 s; the smaller first, after 1 s and 3 s. Maps take 0.5 s.
    for row in [
        "job-0.1  stage 0 to 1     3.000 s     3.000 s     0.000 s           -",
        "job-1.1  stage 2 to 3     2.000 s     1.000 s     1.000 s        sebf",
        "job-1            2.500 s     1.500 s     1.000 s        sebf",
    ] {
        assert!(ran.out.contains(row), "{row}: {}", ran.out);
    }
    assert!(
        ran.err.contains("estimated  computation:") && ran.err.contains("left out   reads from"),
        "{}",
        ran.err
    );
}

#[test]
fn info_shows_where_coflows_come_from_and_json_stays_json() {
    let place = Place::new();
    place.write("log", LOG);
    let ran = place.run(&["trace", "info", "log"]);
    assert!(ran.out.contains("job-1.1           2         3     125 MB     125 MB"), "{}", ran.out);
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
fn a_log_cut_short_and_a_folder_of_something_else_are_code_3() {
    let place = Place::new();
    let lines: Vec<&str> = LOG.lines().collect();
    for (cut, message) in [
        (LOG[..LOG.len() - 60].to_owned(), "log:9:"),
        (lines[..6].join("\n"), "log:6: the log ends while job 0 runs"),
    ] {
        place.write("log", cut);
        let ran = place.run(&["simulate", "log", "--policy", "fair", "--out", "run"]);
        assert_eq!((ran.code, ran.out.as_str()), (3, ""));
        assert!(ran.err.contains(message), "{}", ran.err);
        assert_eq!(place.names(), ["log"]);
    }
    let ran = place.run(&["compare", "."]);
    assert_eq!(ran.code, 3);
    assert!(ran.err.contains("expected a rolling event log of Spark"), "{}", ran.err);
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

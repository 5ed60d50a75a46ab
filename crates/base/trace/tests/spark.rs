//! What a Spark log becomes: against logs made up here, whose every number is known, and against
//! the conversion of real ones that lies in `shared/data`.

mod events;

use std::collections::BTreeMap;

use cavalcade_model::{Bytes, CoflowId, Compute, Instant, Nanos, PortId, StageIndex, Work};
use cavalcade_trace::{Certainty, File, Format, ReadOptions, Reading, read_files, write};
use events::{
    Ran, end, job, job_end, lines, one_shuffle, properties, read_log, refusal, stage, start, task, task_of,
};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

fn compute(reading: &Reading, task: usize, stage: usize) -> Nanos {
    match reading.workload.tasks()[task].stages[stage].work {
        Work::Compute(Compute { duration, .. }) => duration,
        Work::Transfer(_) => panic!("stage {stage} is no computation"),
    }
}

#[test]
fn a_shuffle_becomes_a_coflow_between_two_computations() {
    let reading = read_log(&lines(&one_shuffle())).unwrap();
    assert_eq!(reading.format, Format::SPARK);
    let workload = &reading.workload;
    assert_eq!((workload.ports(), workload.tasks().len(), workload.coflow_count()), (3, 1, 1));
    let task = &workload.tasks()[0];
    // The log starts 50 ms before the job, and time zero is the job.
    assert_eq!((task.name.as_str(), task.arrival.0), ("job-7", 0));
    let query = &reading.queries[0];
    assert_eq!((query.name.as_str(), query.arrival.0, query.took.0), ("job-7", 0, 320 * MS));
    assert!(reading.notes.iter().any(|note| note.text.starts_with("0.050 s between")), "{:?}", reading.notes);
    // A pause of 50 ms, the maps for 200 ms; a pause of 10 ms, the shuffle beside the reduce tasks.
    let after = |stage: usize| task.stages[stage].starts_after.iter().map(|s| s.index()).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3, 4].map(after), [vec![], vec![0], vec![1], vec![2], vec![2]]);
    assert_eq!([0, 1, 2].map(|stage| compute(&reading, 0, stage).0), [50 * MS, 200 * MS, 10 * MS]);
    // It ran for 60 ms; of the 80 ms of its tasks 40 were waiting.
    assert_eq!(compute(&reading, 0, 4), Nanos(30 * MS));
    assert_eq!(task.stages[4].finishes_after, [StageIndex(3)]);
    let flows: Vec<_> =
        workload.flows().iter().map(|flow| (flow.src.0, flow.dst.0, flow.size.0, flow.wave.0)).collect();
    assert_eq!(flows, [(1, 0, 100, 0), (2, 0, 150, 0), (0, 2, 50, 20 * MS), (1, 2, 100, 20 * MS)]);
    let shuffle = &reading.shuffles[0];
    assert_eq!((shuffle.map_stage, shuffle.reduce_stage), (3, Some(4)));
    assert_eq!((shuffle.written, shuffle.moved), (Bytes(600), Bytes(400)));
}

#[test]
fn ports_are_called_by_hosts_and_coflows_by_stages() {
    let mut events = one_shuffle();
    events[2]["Stage Infos"][1]["Stage Name"] = json!("count at\n Foo.scala:12");
    let reading = read_log(&lines(&events)).unwrap();
    let names = [0, 1, 2].map(|port| reading.workload.port_name(PortId(port)));
    assert_eq!(names, ["a", "b", "c"]);
    let name = "job-7, stage 3 to 4 (count at Foo.scala:12)";
    assert_eq!(reading.workload.coflow_name(CoflowId(0)), name);
    // They are kept by the format that carries everything.
    let mut text = Vec::new();
    write(&reading.workload, Format::NATIVE, &mut text).unwrap();
    let again = read_files(&[File { name: "t", bytes: &text }], &ReadOptions::default()).unwrap();
    assert_eq!(again.workload, reading.workload);
}

#[test]
fn a_stage_that_is_run_again_gives_a_coflow_of_another_name() {
    let events = |attempt: u32, from: u64| {
        let ran = Ran { host: "a", from, to: from + 40, remote: 200, ..Ran::default() };
        task_of(4, attempt, 0, ran)
    };
    let mut log = one_shuffle();
    log.truncate(6);
    log.extend([events(0, 1310), stage("Completed", 4, 0), events(1, 1400), job_end(7), end()]);
    let reading = read_log(&lines(&log)).unwrap();
    let names: Vec<String> =
        reading.workload.coflows().map(|coflow| reading.workload.coflow_name(coflow.id)).collect();
    assert_eq!(names, ["job-7, stage 3 to 4", "job-7, stage 3 to 4 #2"]);
}

#[test]
fn the_cluster_is_counted_as_the_log_says() {
    let mut events = one_shuffle();
    let added = |executor: &str, cores: u64| {
        json!({"Event": "SparkListenerExecutorAdded", "Timestamp": 1000, "Executor ID": executor,
            "Executor Info": {"Host": "a", "Total Cores": cores}})
    };
    let removed = json!({"Event": "SparkListenerExecutorRemoved", "Timestamp": 1100, "Executor ID": "9"});
    events.splice(
        2..2,
        [properties(&[("spark.task.cpus", "2")]), added("8", 4), added("9", 4), removed, added("10", 2)],
    );
    let setup = read_log(&lines(&events)).unwrap().setup.unwrap();
    assert_eq!((setup.hosts, setup.executors, setup.cores), (3, 2, Some(8)));
    // Five tasks ran for 100, 100, 200, 40 and 40 ms, two of which waited 10 and 30 ms; each held
    // two cores.
    assert_eq!((setup.ran, setup.waited), (Nanos(960 * MS), Nanos(80 * MS)));
    let started = &setup.applications[0];
    assert_eq!((started.name.as_deref(), started.spark_version.as_deref()), (Some("test"), Some("3.5.3")));
    assert_eq!(started.at, Some(Instant(1000 * MS)));
    let setup = read_log(&lines(&one_shuffle())).unwrap().setup.unwrap();
    assert_eq!((setup.executors, setup.cores), (1, None));
}

#[test]
fn what_is_exact_estimated_and_left_out_is_said() {
    let reading = read_log(&lines(&one_shuffle())).unwrap();
    for certainty in [Certainty::Exact, Certainty::Estimated, Certainty::LeftOut] {
        assert!(reading.notes.iter().any(|note| note.certainty == certainty), "{certainty}");
    }
    let text: String = reading.notes.iter().map(|note| format!("{note}\n")).collect();
    for part in ["0 is a, 1 is b, 2 is c", "in proportion", "200 B that stayed", "broadcasts"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn executors_on_one_host_read_each_other_over_no_port() {
    let mut events = one_shuffle();
    // Before Spark 3, what another executor on the same host wrote counts as remote.
    events[0] = start("2.4.8");
    events[6] = task(4, Ran { executor: 9, host: "a", from: 1310, to: 1350, remote: 300, ..Ran::default() });
    let reading = read_log(&lines(&events)).unwrap();
    let first: Vec<_> =
        reading.workload.flows().iter().take(2).map(|flow| (flow.src.0, flow.size.0)).collect();
    assert_eq!(first, [(1, 100), (2, 150)]);
    for part in ["150 B that stayed", "that 50 B stayed on their host, too"] {
        assert!(reading.notes.iter().any(|note| note.text.contains(part)), "{part}: {:?}", reading.notes);
    }
}

#[test]
fn a_failed_attempt_counts_with_what_it_read_and_not_with_what_it_wrote() {
    let mut events = one_shuffle();
    events.insert(
        4,
        task(3, Ran { host: "b", from: 1100, to: 1150, written: 999, failed: true, ..Ran::default() }),
    );
    events.insert(
        8,
        task(4, Ran { host: "a", from: 1310, to: 1320, remote: 60, failed: true, ..Ran::default() }),
    );
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(reading.shuffles[0].written, Bytes(600));
    assert_eq!(reading.shuffles[0].moved, Bytes(460));
    assert!(
        reading.notes.iter().any(|note| note.text.contains("failed or were killed: 2;")),
        "{:?}",
        reading.notes
    );
}

#[test]
fn a_skipped_stage_stands_for_the_one_that_wrote_its_rdd() {
    let mut events = one_shuffle();
    // A second job of the same query submits stage 3's shuffle again, as stage 5.
    events[2] = job(7, 1050, Some("0"), &[(3, &[], 1), (4, &[3], 2)]);
    events.insert(9, job(8, 1400, Some("0"), &[(5, &[], 1), (6, &[5], 9)]));
    events.insert(
        10,
        task(6, Ran { host: "b", from: 1410, to: 1420, remote: 400, local: 200, ..Ran::default() }),
    );
    events.insert(11, job_end(8));
    let reading = read_log(&lines(&events)).unwrap();
    let stages: Vec<_> = reading.shuffles.iter().map(|s| (s.map_stage, s.reduce_stage, s.moved.0)).collect();
    assert_eq!(stages, [(3, Some(4), 400), (3, Some(6), 400)]);
    let task = &reading.workload.tasks()[0];
    assert_eq!(task.name, "query-0");
    // The later stage pauses from the end of stage 3 (1300) to its own launch.
    assert_eq!(task.stages[5].starts_after, [StageIndex(1)]);
    assert_eq!(compute(&reading, 0, 5), Nanos(110 * MS));
}

#[test]
fn jobs_that_move_nothing_are_left_out_and_counted() {
    let mut events = one_shuffle();
    events.insert(2, job(1, 1010, None, &[(0, &[], 0)]));
    events.insert(3, task(0, Ran { host: "d", from: 1010, to: 1020, ..Ran::default() }));
    events.insert(4, job_end(1));
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!((reading.workload.tasks().len(), reading.workload.ports()), (1, 4));
    assert!(reading.notes.iter().any(|note| note.text.starts_with("1 of 2 queries")), "{:?}", reading.notes);
}

#[test]
fn what_is_no_spark_log_is_refused_with_place_and_cure() {
    assert!(refusal(&lines(&[start("3.5.3"), end()])).contains("no job starts in this log"));
    let one_host = lines(&[
        job(1, 10, None, &[(0, &[], 1), (1, &[0], 2)]),
        task(0, Ran { host: "a", from: 10, to: 20, written: 5, ..Ran::default() }),
        task(1, Ran { host: "a", from: 20, to: 30, local: 5, ..Ran::default() }),
        job_end(1),
    ]);
    assert!(refusal(&one_host).contains("tasks ran on 1 hosts"), "{}", refusal(&one_host));
    let options = ReadOptions { format: Some(Format::SPARK), ..ReadOptions::default() };
    let error = read_files(&[File { name: "t", bytes: b"3 1\n1 0 1 0 1 1:5\n" }], &options).unwrap_err();
    assert!(error.to_string().starts_with("t:1:1: ") && error.to_string().contains("a Spark log"), "{error}");
}

#[test]
fn numbers_that_cannot_be_are_refused_with_their_line() {
    let replaced = |from: &str, to: &str| refusal(&lines(&one_shuffle()).replace(from, to));
    let error = replaced(r#""Launch Time":1330"#, r#""Launch Time":-1"#);
    assert!(error.starts_with("log:8:") && error.contains("-1"), "{error}");
    let error = replaced(r#""Finish Time":1370"#, r#""Finish Time":4611686018427387904"#);
    assert!(error.starts_with("log:8: the task's times reach"), "{error}");
    let error = replaced(r#""Parent IDs":[3]"#, r#""Parent IDs":[4]"#);
    assert!(error.starts_with("log:3: stage 4 reads stage 4"), "{error}");
    let error = replaced(r#""Host":"b","#, "");
    assert!(error.starts_with("log:4:") && error.contains("missing field `Host`"), "{error}");
}

#[test]
fn a_codec_that_is_not_read_is_named() {
    let file = File { name: "log", bytes: b"ZV\x01\0\0" };
    let error = read_files(&[file], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("compressed with lzf") && error.contains("zstd"), "{error}");
}

#[test]
fn a_rolled_log_reads_as_the_whole_one_and_faults_name_the_file() {
    let events = one_shuffle();
    let whole = read_log(&lines(&events)).unwrap();
    let (first, second) = (lines(&events[..5]), lines(&events[5..]));
    let packed = zstd::encode_all(second.as_bytes(), 3).unwrap();
    let files = [
        File { name: "events_1_x", bytes: first.as_bytes() },
        File { name: "events_2_x.zstd", bytes: &packed },
    ];
    assert_eq!(read_files(&files, &ReadOptions::default()).unwrap(), whole);
    let broken = second.replace("\"Launch Time\":1310", "\"Launch Time\":true");
    let files = [
        File { name: "events_1_x", bytes: first.as_bytes() },
        File { name: "events_2_x", bytes: broken.as_bytes() },
    ];
    let error = read_files(&files, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("events_2_x:2:"), "{error}");
}

#[test]
fn an_imported_log_is_carried_by_the_native_format_and_written_as_no_log() {
    let reading = read_log(&lines(&one_shuffle())).unwrap();
    let mut text = Vec::new();
    assert!(write(&reading.workload, Format::SPARK, &mut text).is_err() && text.is_empty());
    write(&reading.workload, Format::NATIVE, &mut text).unwrap();
    let (again, _) = cavalcade_trace::read(&text, "native", &ReadOptions::default()).unwrap();
    assert_eq!(again, reading.workload);
}

/// Returns the end of each stage of a task on an infinite network: a coflow takes until its last
/// wave.
fn ends_without_network(reading: &Reading, task: usize) -> Vec<u64> {
    let task = &reading.workload.tasks()[task];
    let mut ends: Vec<u64> = Vec::new();
    for stage in &task.stages {
        let start = stage.starts_after.iter().map(|on| ends[on.index()]).max().unwrap_or(task.arrival.0);
        let takes = match stage.work {
            Work::Compute(Compute { duration, .. }) => duration.0,
            Work::Transfer(coflow) => {
                reading.workload.flows_of(coflow).iter().map(|flow| flow.wave.0).max().unwrap_or(0)
            }
        };
        let end = stage.finishes_after.iter().map(|on| ends[on.index()]).fold(start + takes, u64::max);
        ends.push(end);
    }
    ends
}

#[test]
fn without_waiting_every_stage_ends_when_the_log_says() {
    let mut events = one_shuffle();
    events[6] = task(4, Ran { host: "a", from: 1310, to: 1350, remote: 250, ..Ran::default() });
    events[7] = task(4, Ran { host: "c", from: 1330, to: 1370, remote: 150, ..Ran::default() });
    let reading = read_log(&lines(&events)).unwrap();
    // The maps end at 1300 and the reduce tasks at 1370, of a job that starts at 1050.
    let ends = ends_without_network(&reading, 0);
    assert_eq!((ends[1], ends[4]), (250 * MS, 320 * MS));
}

fn execution(id: u64, description: &str, from: u64, to: u64) -> [Value; 2] {
    let event = |name: &str| format!("org.apache.spark.sql.execution.ui.SparkListenerSQLExecution{name}");
    [
        json!({"Event": event("Start"), "executionId": id, "description": description, "time": from}),
        json!({"Event": event("End"), "executionId": id, "time": to}),
    ]
}

#[test]
fn a_query_has_its_name_its_planning_and_what_the_driver_does_at_its_end() {
    let mut events = one_shuffle();
    events[2] = job(7, 1050, Some("24"), &[(3, &[], 1), (4, &[3], 2)]);
    let [begin, finish] = execution(24, "query72", 1020, 1400);
    events.insert(2, begin);
    events.insert(events.len() - 1, finish);
    let reading = read_log(&lines(&events)).unwrap();
    let query = &reading.queries[0];
    assert_eq!((query.name.as_str(), query.arrival.0, query.took.0), ("query72", 0, 380 * MS));
    // Planning and launching take 80 ms; from the end of the reduce tasks, at 1370, the driver
    // takes 30 ms.
    assert_eq!(compute(&reading, 0, 0), Nanos(80 * MS));
    let task = &reading.workload.tasks()[0];
    assert_eq!((task.name.as_str(), task.stages.len()), ("query72", 6));
    assert_eq!(task.stages[5].starts_after, [StageIndex(1), StageIndex(4)]);
    assert_eq!(compute(&reading, 0, 5), Nanos(30 * MS));
}

#[test]
fn two_queries_of_one_name_are_told_apart() {
    let mut events = one_shuffle();
    events[2] = job(7, 1050, Some("24"), &[(3, &[], 1), (4, &[3], 2)]);
    let mut again = one_shuffle();
    again[2] = job(8, 2050, Some("25"), &[(13, &[], 11), (14, &[13], 12)]);
    for event in &mut again {
        if let Some(stage) = event["Stage ID"].as_u64() {
            event["Stage ID"] = json!(stage + 10);
        }
    }
    let [first, _] = execution(24, "count", 1040, 1400);
    let [second, _] = execution(25, "count", 2040, 2400);
    events.insert(2, first);
    events.insert(3, second);
    events.splice(events.len() - 1..events.len() - 1, again[2..8].iter().cloned());
    let reading = read_log(&lines(&events)).unwrap();
    let names: Vec<&str> = reading.queries.iter().map(|query| query.name.as_str()).collect();
    assert_eq!(names, ["count", "count #2"]);
    assert_eq!(reading.queries[1].arrival.0, 1000 * MS);
}

#[test]
fn real_stages_end_when_the_log_says_less_what_they_waited() {
    for name in ["nds_q72_dataproc_2_2", "xgboost_eventlog"] {
        let Some((reading, converted)) = reference(name) else { continue };
        for shuffle in &reading.shuffles {
            let place = reading.workload.place(shuffle.coflow);
            let stages = &reading.workload.task(place.task).stages;
            let computing = stages.iter().position(|stage| stage.finishes_after.contains(&place.stage));
            let end = ends_without_network(&reading, place.task.index())
                [computing.expect("a computation beside it")];
            let reduce_stage = shuffle.reduce_stage.expect("nothing went to a service");
            let key = format!("{}->{reduce_stage}", shuffle.map_stage);
            let coflows = converted["coflows"].as_array().expect("a list");
            let logged =
                coflows.iter().find(|coflow| coflow["id"] == key.as_str()).expect("the same shuffle");
            // The reference counts from the start of the application, the reader from its first
            // query.
            let logged = logged["child_complete_ms"].as_u64().expect("a number") * MS - before(&reading);
            assert!(end <= logged && logged - end <= logged / 100, "{name} {key}: {end}, logged {logged}");
        }
    }
}

/// Returns the offset of time zero from the start of the application.
fn before(reading: &Reading) -> u64 {
    let seconds = reading.notes.iter().find_map(|note| note.text.split_once(" s between the start"));
    seconds.map_or(0, |(seconds, _)| (seconds.parse::<f64>().expect("seconds") * 1e3).round() as u64 * MS)
}

/// A real log and its conversion by the reference converter; `None` where they are not there.
fn reference(name: &str) -> Option<(Reading, Value)> {
    let log = cavalcade_testing::public_data(&format!("spark/{name}.zstd"))?;
    let converted = cavalcade_testing::public_data(&format!("spark/{name}.coflow.json"))?;
    let reading = read_files(&[File { name, bytes: &log }], &ReadOptions::default()).expect("a real log");
    Some((reading, serde_json::from_slice(&converted).expect("JSON")))
}

#[test]
fn real_logs_have_the_shuffles_and_bytes_of_the_reference_converter() {
    for name in ["nds_q72_dataproc_2_2", "xgboost_eventlog"] {
        let Some((reading, converted)) = reference(name) else { continue };
        let number = |value: &Value| value.as_u64().expect("a number");
        assert_eq!(u64::from(reading.workload.ports()), number(&converted["hosts"]));
        let mut expected = BTreeMap::new();
        // For each reduce stage: what its tasks got from elsewhere, and how many roundings that sum
        // has.
        let mut received: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for coflow in converted["coflows"].as_array().expect("a list") {
            let tasks = coflow["reducer_tasks"].as_array().expect("a list");
            let remote: u64 = tasks.iter().map(|task| number(&task[3])).sum();
            let key = (number(&coflow["parent_stage"]), number(&coflow["child_stage"]));
            let total = received.entry(key.1).or_default();
            *total = (total.0 + remote, total.1 + tasks.len() as u64);
            if remote > 0 {
                expected.insert(key, (number(&coflow["shuffle_bytes"]), remote));
            }
        }
        let mut moved: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for shuffle in &reading.shuffles {
            let reduce_stage = shuffle.reduce_stage.expect("nothing went to a service");
            let key = (u64::from(shuffle.map_stage), u64::from(reduce_stage));
            let (written, remote) =
                expected.remove(&key).unwrap_or_else(|| panic!("{name}: {key:?} is no shuffle"));
            assert_eq!(shuffle.written.0, written, "{name} {key:?}");
            assert_eq!(shuffle.moved, reading.workload.coflow_bytes(shuffle.coflow), "{name} {key:?}");
            // How a join's bytes divide is an estimate in both; by half a percent at most here.
            assert!(shuffle.moved.0.abs_diff(remote) <= remote / 200, "{name} {key:?}: {shuffle:?} {remote}");
            let total = moved.entry(key.1).or_default();
            *total = (total.0 + shuffle.moved.0, total.1 + 1);
        }
        assert!(expected.is_empty(), "{name}: shuffles not found: {expected:?}");
        for (stage, (bytes, shuffles)) in moved {
            let (remote, roundings) = received[&stage];
            let slack = if shuffles > 1 { roundings } else { 0 };
            assert!(bytes.abs_diff(remote) <= slack, "{name}: stage {stage} received {bytes}, not {remote}");
        }
    }
}

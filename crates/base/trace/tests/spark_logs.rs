//! Logs of Spark as they lie around: several applications in one, attempts, cut short, with odd
//! values, in other writers' JSON, compressed in all ways.

#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

mod events;

use std::io::Write;

use cavalcade_trace::{File, Input, ReadOptions, Reading, TraceError, read_files, read_inputs};
use events::{
    Ran, application, end, job, job_end, lines, notes, one_shuffle, read_log, refusal, stage, start, task,
};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// `one_shuffle` as another application, so much later, with a query's name.
fn application_of(id: &str, attempt: Option<&str>, later: u64) -> Vec<Value> {
    let mut events = one_shuffle();
    events[1] = json!({"Event": "SparkListenerApplicationStart", "App ID": id, "Timestamp": 1000 + later});
    if let Some(attempt) = attempt {
        events[1]["App Attempt ID"] = json!(attempt);
    }
    for event in &mut events {
        for path in ["/Submission Time", "/Task Info/Launch Time", "/Task Info/Finish Time"] {
            if let Some(time) = event.pointer_mut(path) {
                *time = json!(time.as_u64().unwrap() + later);
            }
        }
    }
    events
}

/// Tasks by name, with arrival and recorded duration in milliseconds.
fn queries(reading: &Reading) -> Vec<(String, u64, u64)> {
    let queries = reading.queries.iter();
    queries.map(|query| (query.name.clone(), query.arrival.0 / MS, query.took.0 / MS)).collect()
}

fn read_together(logs: &[&str]) -> Result<Reading, TraceError> {
    let input = |(number, log): (usize, &&'static str)| {
        vec![Input::of_bytes(format!("log-{}", number + 1), log.as_bytes())]
    };
    let logs: Vec<&'static str> = logs.iter().map(|log| &*log.to_string().leak()).collect();
    read_inputs(logs.iter().enumerate().map(input).collect(), &ReadOptions::default())
}

#[test]
fn two_applications_are_two_on_one_clock_joined_or_in_files_of_their_own() {
    let first = lines(&application_of("app-1", None, 0));
    let second = lines(&application_of("app-2", None, 3_600_000));
    for reading in [read_log(&format!("{first}{second}")), read_together(&[&second, &first])] {
        let reading = reading.unwrap();
        let expected = [("app-1/job-7".to_owned(), 0, 320), ("app-2/job-7".to_owned(), 3_600_000, 320)];
        assert_eq!(queries(&reading), expected);
        // Hosts of one name are one host, and each application has its own 400 bytes.
        assert_eq!((reading.workload.ports(), reading.workload.bytes().get()), (3, 800));
        assert_eq!(reading.workload.flows()[0].wave.0, 0);
        assert!(
            notes(&reading).contains("estimated: that the clocks of the drivers of 2 applications agree")
        );
    }
    // Old logs begin with the start of the application, and some with another event.
    let old = |events: &[Value]| {
        let manager = json!({"Event": "SparkListenerBlockManagerAdded", "Timestamp": 1});
        lines(&[&[manager][..], &events[1..]].concat())
    };
    let first = old(&application_of("app-1", None, 0));
    let second = old(&application_of("app-2", None, 500));
    let reading = read_log(&format!("{first}{second}")).unwrap();
    assert_eq!(queries(&reading)[1], ("app-2/job-7".to_owned(), 500, 320));
}

#[test]
fn of_an_application_with_several_attempts_the_last_counts() {
    let attempts = ["1", "2", "10"].map(|attempt| {
        let later = 10_000 * attempt.parse::<u64>().unwrap();
        lines(&application_of("app-1", Some(attempt), later))
    });
    let reading = read_log(&attempts.concat()).unwrap();
    assert_eq!(queries(&reading), [("job-7".to_owned(), 0, 320)]);
    assert_eq!(reading.workload.bytes().get(), 400);
    assert!(notes(&reading).contains("left out: 2 earlier attempts of applications"), "{}", notes(&reading));
    let others = lines(&application_of("app-2", None, 0));
    let reading = read_together(&[&attempts[2], &others, &attempts[0]]).unwrap();
    let names: Vec<String> = queries(&reading).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["app-2/job-7", "app-1/job-7"]);
}

#[test]
fn one_log_given_twice_and_logs_joined_without_their_beginnings_are_refused() {
    let log = lines(&application_of("app-1", Some("1"), 0));
    assert!(refusal(&format!("{log}{log}")).contains("the application app-1 is in these logs twice"));
    let events = application_of("app-1", None, 0);
    let error = refusal(&format!("{}{}", lines(&events), lines(&events[2..])));
    assert!(error.starts_with("log:11: job 7 starts twice in one application"), "{error}");
}

#[test]
fn databricks_numbers_the_files_of_one_application() {
    let part = |number: u32, context: u64| json!({"Event": "DBCEventLoggingListenerMetadata", "Rollover Number": number, "SparkContext Id": context, "Spark Version": "3.5.3"});
    let events = application_of("app-1", None, 0);
    let whole = read_log(&lines(&events)).unwrap();
    let rolled = [&[part(0, 6)][..], &events[1..5], &[part(1, 6)], &events[5..]].concat();
    assert_eq!(read_log(&lines(&rolled)).unwrap(), whole);
    let other = application_of("app-2", None, 500);
    let two = [&[part(0, 6)][..], &events[1..9], &[part(0, 7)], &other[1..]].concat();
    assert_eq!(queries(&read_log(&lines(&two)).unwrap()).len(), 2);
}

/// `one_shuffle` with events of stages, and a second job that reads the same again.
fn staged() -> Vec<Value> {
    let mut events = one_shuffle();
    events.insert(3, stage("Submitted", 3, 0));
    events.insert(7, stage("Completed", 3, 0));
    events.insert(8, stage("Submitted", 4, 0));
    events.insert(11, stage("Completed", 4, 0));
    // start, application, job, submitted, 3 tasks, completed, submitted, 2 tasks, completed, job
    // end, [second job], end
    let again = [
        job(8, 1400, None, &[(3, &[], 1), (6, &[3], 9)]),
        stage("Submitted", 6, 0),
        task(6, Ran { host: "b", from: 1410, to: 1420, remote: 400, ..Ran::default() }),
        task(6, Ran { host: "c", from: 1410, to: 1430, remote: 30, ..Ran::default() }),
        stage("Completed", 6, 0),
        job_end(8),
    ];
    events.splice(13..13, again);
    events
}

#[test]
fn a_log_that_is_cut_off_is_read_up_to_its_last_whole_stage() {
    let events = staged();
    let whole = read_log(&lines(&events)).unwrap();
    assert_eq!(whole.workload.bytes().get(), 830);
    let text = lines(&events);
    let mut bytes = Vec::new();
    for count in 12..=events.len() {
        let reading = read_log(&lines(&events[..count])).unwrap_or_else(|error| panic!("{count}: {error}"));
        let notes = notes(&reading);
        assert_eq!(notes.contains("whatever followed"), count < events.len(), "{count}: {notes}");
        bytes.push(reading.workload.bytes().get());
        // One byte less of the last line is the same as all of that line less.
        let end = text.split_inclusive('\n').take(count).map(str::len).sum::<usize>();
        let cut = read_log(&text[..end - 2]);
        match read_log(&lines(&events[..count - 1])) {
            Ok(before) => assert_eq!(cut.unwrap().workload, before.workload, "{count}"),
            Err(_) => assert!(cut.is_err(), "{count}"),
        }
    }
    assert_eq!(bytes, [400, 400, 400, 400, 400, 400, 830, 830, 830]);
    // The second job's stage had read 400 bytes when the log ended.
    let reading = read_log(&lines(&events[..16])).unwrap();
    let text = notes(&reading);
    for part in [
        "left out: whatever followed line 16 of log, 0.370 s after time zero: the log has no end of the application, and one job had not ended",
        "left out: 1 attempts of stages that ran where their log ends, with the 400 B that they had read",
        "1 queries and jobs are read up to there",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let reading = read_log(&lines(&events)[..lines(&events[..16]).len() - 9]).unwrap();
    assert!(
        notes(&reading)
            .contains("line 15 of log, 0.350 s after time zero, where it is cut off inside a line")
    );
}

#[test]
fn a_log_without_a_whole_shuffle_is_refused() {
    let events = staged();
    for count in 3..11 {
        let error = refusal(&lines(&events[..count]));
        assert!(error.contains("the log ends while"), "{count}: {error}");
        assert!(error.starts_with(&format!("log:{count}: ")), "{count}: {error}");
    }
    // Where stages say nothing, all that is known of a job that runs is that it has not ended.
    assert!(refusal(&lines(&one_shuffle()[..8])).contains("the log ends while job 7 runs"));
    // And an application that ended while a job ran was killed.
    let killed = [&one_shuffle()[..8], &one_shuffle()[9..]].concat();
    assert!(read_log(&lines(&killed)).is_ok());
    assert!(refusal("").contains("the trace is empty"));
    assert!(refusal("{\"Event\":\"SparkListenerLogStart\"").contains("log:1:"));
}

#[test]
fn damage_elsewhere_than_at_the_end_is_refused_with_its_line() {
    let text = lines(&staged());
    let cut = text.replacen("\"Stage ID\":3,", "\"Stage ID\":3,\n", 1);
    let error = refusal(&cut);
    assert!(error.starts_with("log:5:") && error.contains("a whole event of a Spark log"), "{error}");
    let files = |first: &'static [u8], second: &'static [u8]| {
        let files = [File { name: "events_1_x", bytes: first }, File { name: "events_2_x", bytes: second }];
        read_files(&files, &ReadOptions::default()).map(|reading| reading.workload)
    };
    let (first, second) = text.split_at(lines(&staged()[..6]).len());
    let packed = zstd::encode_all(first.as_bytes(), 3).unwrap().leak();
    let second = second.to_owned().leak().as_bytes();
    assert_eq!(files(packed, second), Ok(read_log(&text).unwrap().workload));
    let error = files(&packed[..packed.len() - 9], second).unwrap_err().to_string();
    assert!(error.starts_with("events_1_x: the Zstandard data is damaged or cut off"), "{error}");
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn lz4(text: &[u8]) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_logs_are_read_padded_and_as_far_as_they_go() {
    let text = lines(&staged());
    let whole = read_log(&text).unwrap();
    let read = |bytes: &[u8]| read_files(&[File { name: "log", bytes }], &ReadOptions::default());
    let zstd = |text: &[u8]| zstd::encode_all(text, 3).unwrap();
    for packed in [gzip(text.as_bytes()), zstd(text.as_bytes()), lz4(text.as_bytes())] {
        let padded = [&packed[..], &[0; 700]].concat();
        assert_eq!(read(&padded).unwrap(), whole);
    }
    // A frame that is flushed and not ended, as that of a log that is being written: all that was
    // flushed is there.
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    encoder.write_all(lines(&staged()[..19]).as_bytes()).unwrap();
    encoder.flush().unwrap();
    let open = encoder.get_ref().clone();
    let reading = read(&open).unwrap();
    assert_eq!(reading.workload, whole.workload);
    let text = notes(&reading);
    let part = "where it is cut off inside Zstandard data: the log has no end of the application, though all of its jobs have ended";
    assert!(text.contains(part), "{text}");
    // The same for gzip, whose member is cut anywhere.
    let reading = read(&gzip(lines(&staged()).as_bytes())[..]).unwrap();
    assert_eq!(reading, whole);
    let packed = gzip(&[lines(&staged()).as_bytes(), &vec![b' '; 9000]].concat());
    assert_eq!(read(&packed[..packed.len() - 12]).unwrap().workload, whole.workload);
}

#[test]
fn events_are_read_with_blanks_and_line_breaks_as_any_writer_puts_them() {
    let events = one_shuffle();
    let whole = read_log(&lines(&events)).unwrap();
    let spaced = |event: &Value| {
        event.to_string().replace("\":", "\" : ").replace(",\"", " , \"").replacen('{', "{ ", 1) + "\r\n"
    };
    let text: String = events.iter().map(spaced).collect();
    assert_eq!(read_log(&text).unwrap(), whole);
    let text: String =
        events.iter().map(|event| serde_json::to_string_pretty(event).unwrap() + "\n").collect();
    assert_eq!(read_log(&format!("\u{feff}{text}")).unwrap(), whole);
    let broken = text.replacen("\"Launch Time\": 1310", "\"Launch Time\": true", 1);
    let line = 1 + broken[..broken.find("true").unwrap()].matches('\n').count();
    assert!(refusal(&broken).starts_with(&format!("log:{line}:")), "{}", refusal(&broken));
    // A block manager's event may come first.
    let manager = r#"{"Event":"SparkListenerBlockManagerAdded","Block Manager ID":{"Executor ID":"driver","Host":"h"},"Maximum Memory":1}"#;
    assert_eq!(read_log(&format!("{manager}\n{}", lines(&events))).unwrap(), whole);
}

#[test]
fn odd_values_of_fields_that_hardly_matter_are_counted() {
    let mut events = one_shuffle();
    let whole = read_log(&lines(&events)).unwrap();
    for event in &mut events[6..8] {
        event["Task Metrics"]["Shuffle Read Metrics"]["Fetch Wait Time"] = json!(-1);
    }
    events[6]["Task Metrics"]["Shuffle Read Metrics"]["Local Bytes Read"] = json!("many");
    events[3]["Task Info"]["Index"] = json!(-1);
    events[3]["Task Info"]["Partition ID"] = json!(-1);
    events[4]["Task Metrics"]["Shuffle Read Metrics"] = Value::Null;
    events[1]["Timestamp"] = json!(-1);
    events[2]["Submission Time"] = json!(-1);
    let reading = read_log(&lines(&events)).unwrap();
    assert_eq!(reading.workload.flows(), whole.workload.flows());
    let text = notes(&reading);
    let part = "left out: values that cannot be, taken as if they were not there: Fetch Wait Time (2), Index (1), Local Bytes Read (1), Submission Time (1), Timestamp (1)";
    assert!(text.contains(part), "{text}");
    assert!(!notes(&whole).contains("cannot be"));
    // Of a job that does not say when it was submitted the first task does.
    assert_eq!(reading.queries[0].took.0, 270 * MS);
    // Whole numbers may be written as floating-point ones, and numbers for texts.
    let mut events = one_shuffle();
    events[6]["Task Info"]["Launch Time"] = json!(1310.0);
    events[6]["Task Info"]["Executor ID"] = json!(0);
    assert_eq!(read_log(&lines(&events)).unwrap(), whole);
    for (path, value) in [
        ("/Task Info/Launch Time", json!(-1)),
        ("/Task Metrics/Shuffle Read Metrics/Remote Bytes Read", json!(-1)),
        ("/Task Metrics/Shuffle Read Metrics/Remote Bytes Read", json!(1.5)),
        ("/Stage ID", json!("x")),
    ] {
        let mut events = one_shuffle();
        *events[6].pointer_mut(path).unwrap() = value;
        let error = refusal(&lines(&events));
        assert!(error.starts_with("log:7:"), "{path}: {error}");
    }
}

#[test]
fn made_up_names_are_never_those_that_the_application_gives() {
    let execution = |id: u64, description: &str, at: u64| json!({"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", "executionId": id, "description": description, "time": at});
    let mut events = vec![start("3.5.3"), application(1000)];
    let names = ["count", "count", "count #2", "query-4", "", "job-9"];
    for (id, name) in (0u32..).zip(names) {
        let at = 1000 + 1000 * u64::from(id);
        let (map, reduce) = (10 * id, 10 * id + 1);
        events.push(execution(id.into(), name, at));
        let query = id.to_string();
        events.push(job(
            id.into(),
            at,
            Some(&query),
            &[(map, &[], 100 + u64::from(map)), (reduce, &[map], 100 + u64::from(reduce))],
        ));
        events.push(task(map, Ran { host: "a", from: at, to: at + 10, written: 5, ..Ran::default() }));
        events.push(task(reduce, Ran { host: "b", from: at + 10, to: at + 20, remote: 5, ..Ran::default() }));
        events.push(job_end(id.into()));
    }
    events.push(job(9, 9000, None, &[(90, &[], 990), (91, &[90], 991)]));
    events.push(task(90, Ran { host: "a", from: 9000, to: 9010, written: 5, ..Ran::default() }));
    events.push(task(91, Ran { host: "b", from: 9010, to: 9020, remote: 5, ..Ran::default() }));
    events.extend([job_end(9), end()]);
    let reading = read_log(&lines(&events)).unwrap();
    let found: Vec<&str> = reading.queries.iter().map(|query| query.name.as_str()).collect();
    assert_eq!(found, ["count", "count #3", "count #2", "query-4", "query-4 #2", "job-9", "job-9 #2"]);
}

#[test]
fn only_logs_are_read_together() {
    let log = lines(&one_shuffle());
    let error = read_together(&["0 0 1 5 0\n", &log]).unwrap_err().to_string();
    assert_eq!(
        error,
        "log-1: this is a trace of the format flows, expected a log of Spark: only such logs are read together; name one file"
    );
    // One that has just been begun has nothing in it.
    assert_eq!(read_together(&["", &log, ""]).unwrap().workload, read_log(&log).unwrap().workload);
    let error = read_together(&[&log, "0 0 1 5 0\n"]).unwrap_err().to_string();
    assert!(error.starts_with("log-2:1:1: ") && error.contains("a whole event of a Spark log"), "{error}");
}

#[test]
fn an_event_that_is_spread_over_two_files_is_refused_and_not_guessed_at() {
    let log = lines(&one_shuffle());
    let (first, second) = log.split_at(20);
    let files = [first, second].map(|text| File { name: "part", bytes: text.as_bytes() });
    let error = read_files(&files, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.starts_with("part:1:") && error.contains("a whole event"), "{error}");
}

#[test]
fn a_log_is_told_by_a_first_event_of_any_length() {
    let mut first = start("3.5.3");
    first["A Field"] = json!("é".repeat(300_000));
    let whole = read_log(&lines(&one_shuffle())).unwrap();
    let log = lines(&[&[first][..], &one_shuffle()[1..]].concat());
    assert_eq!(read_log(&log).unwrap(), whole);
    let limits = cavalcade_trace::Limits { line: cavalcade_model::Bytes(100_000), ..Default::default() };
    let file = File { name: "log", bytes: log.as_bytes() };
    let error = read_files(&[file], &ReadOptions { limits, ..Default::default() }).unwrap_err().to_string();
    assert!(error.contains("log: a line is longer than 100KB, expected an event on each line"), "{error}");
    let limits = cavalcade_trace::Limits { tasks: 4, ..Default::default() };
    let error = read_files(&[file], &ReadOptions { limits, ..Default::default() }).unwrap_err().to_string();
    assert!(error.starts_with("log:8: the log has more than 4 attempts of tasks up to here"), "{error}");
}

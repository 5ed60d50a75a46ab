//! Logs of Spark made up event by event.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

use cavalcade_trace::{File, ReadOptions, Reading, TraceError, read_files};
use serde_json::{Value, json};

pub(crate) fn read_log(text: &str) -> Result<Reading, TraceError> {
    read_files(&[File { name: "log", bytes: text.as_bytes() }], &ReadOptions::default())
}

pub(crate) fn refusal(text: &str) -> String {
    read_log(text).expect_err("a log that is refused").to_string()
}

/// Events, one per line.
pub(crate) fn lines(events: &[Value]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

pub(crate) fn start(version: &str) -> Value {
    json!({"Event": "SparkListenerLogStart", "Spark Version": version})
}

pub(crate) fn application(at: u64) -> Value {
    json!({"Event": "SparkListenerApplicationStart", "App Name": "test", "Timestamp": at})
}

pub(crate) fn end() -> Value {
    json!({"Event": "SparkListenerApplicationEnd", "Timestamp": 99_999})
}

/// A job of stages `(id, parents, last RDD)`.
pub(crate) fn job(id: u64, at: u64, query: Option<&str>, stages: &[(u32, &[u32], u64)]) -> Value {
    let infos: Vec<Value> = stages
        .iter()
        .map(|(id, parents, rdd)| json!({"Stage ID": id, "Parent IDs": parents, "RDD Info": [{"RDD ID": 0}, {"RDD ID": rdd}]}))
        .collect();
    let mut properties = json!({"spark.app.name": "test"});
    if let Some(query) = query {
        properties["spark.sql.execution.id"] = json!(query);
    }
    json!({"Event": "SparkListenerJobStart", "Job ID": id, "Submission Time": at, "Stage Infos": infos, "Properties": properties})
}

pub(crate) fn job_end(id: u64) -> Value {
    json!({"Event": "SparkListenerJobEnd", "Job ID": id, "Completion Time": 0, "Job Result": {"Result": "JobSucceeded"}})
}

/// A task: where and when it ran, and what it wrote and read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ran {
    pub(crate) executor: u32,
    pub(crate) host: &'static str,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) written: u64,
    pub(crate) remote: u64,
    pub(crate) local: u64,
    pub(crate) wait: u64,
    pub(crate) failed: bool,
}

pub(crate) fn task(stage: u32, ran: Ran) -> Value {
    let Ran { executor, host, from, to, written, remote, local, wait, failed } = ran;
    json!({
        "Event": "SparkListenerTaskEnd", "Stage ID": stage, "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": if failed { "TaskKilled" } else { "Success" }},
        "Task Info": {"Host": host, "Executor ID": executor.to_string(), "Launch Time": from, "Finish Time": to},
        "Task Metrics": {
            "Shuffle Read Metrics": {"Remote Bytes Read": remote, "Local Bytes Read": local, "Fetch Wait Time": wait},
            "Shuffle Write Metrics": {"Shuffle Bytes Written": written},
        },
    })
}

/// The same, in an attempt of its stage and at a place among the tasks of that.
pub(crate) fn task_of(stage: u32, attempt: u32, index: u32, ran: Ran) -> Value {
    let mut event = task(stage, ran);
    event["Stage Attempt ID"] = json!(attempt);
    event["Task Info"]["Index"] = json!(index);
    event
}

/// The beginning (`"Submitted"`) or the end (`"Completed"`) of an attempt of a stage.
pub(crate) fn stage(what: &str, id: u32, attempt: u32) -> Value {
    json!({"Event": format!("SparkListenerStage{what}"), "Stage Info": {"Stage ID": id, "Stage Attempt ID": attempt}})
}

pub(crate) fn properties(pairs: &[(&str, &str)]) -> Value {
    let properties: serde_json::Map<String, Value> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    json!({"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": properties})
}

/// All notes, one per line.
pub(crate) fn notes(reading: &Reading) -> String {
    reading.notes.iter().map(|note| format!("{note}\n")).collect()
}

/// All flows of the workload, as source, destination, bytes and wave in milliseconds.
pub(crate) fn flows(reading: &Reading) -> Vec<(u32, u32, u64, u64)> {
    let flow = |flow: &cavalcade_model::Flow| (flow.src.0, flow.dst.0, flow.size.0, flow.wave.0 / 1_000_000);
    reading.workload.flows().iter().map(flow).collect()
}

/// Three hosts write 100, 200 and 300 bytes; a task on `a` and one on `c` read them, the second a
/// wave later.
pub(crate) fn one_shuffle() -> Vec<Value> {
    let map = |host, written| Ran { host, from: 1100, to: 1200, written, ..Ran::default() };
    vec![
        start("3.5.3"),
        application(1000),
        job(7, 1050, None, &[(3, &[], 1), (4, &[3], 2)]),
        task(3, map("b", 200)),
        task(3, map("a", 100)),
        task(3, Ran { to: 1300, ..map("c", 300) }),
        task(4, Ran { host: "a", from: 1310, to: 1350, remote: 250, local: 50, wait: 10, ..Ran::default() }),
        task(4, Ran { host: "c", from: 1330, to: 1370, remote: 150, local: 150, wait: 30, ..Ran::default() }),
        job_end(7),
        end(),
    ]
}

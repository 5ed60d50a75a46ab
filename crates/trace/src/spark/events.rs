//! The events of a log that matter here, and how each changes what is known ([`Log`]).
//!
//! Only the fields needed are named; others are skipped without being looked at, since events grow with every version of
//! Spark and carry whole query plans. An event of another name is skipped altogether.

use std::borrow::Cow;

use serde::Deserialize;

use super::log::{Execution, Job, Log, Run, StageLog, Unit};
use crate::error::{Fault, TraceErrorKind};
use crate::lines::{Line, Lines};

const EVENT: &str = r#"a whole event of a Spark log like {"Event":"SparkListenerJobStart",…} on one line; where the log was cut off, copy it again"#;

/// The latest time that a log may name, in milliseconds since 1970: the year 2116.
const LATEST_MS: u64 = cavalcade_model::LATEST.0 / 1_000_000;

#[derive(Deserialize)]
#[serde(expecting = "an event")]
struct Tag<'a> {
    #[serde(rename = "Event", borrow)]
    event: Cow<'a, str>,
}

#[derive(Deserialize)]
struct LogStart {
    #[serde(rename = "Spark Version", default)]
    spark_version: Option<String>,
}

#[derive(Deserialize)]
struct EnvironmentUpdate {
    #[serde(rename = "Spark Properties", default)]
    properties: ShuffleProperties,
}

/// Properties that decide whether executors on one host read each other's blocks from disk.
#[derive(Deserialize, Default)]
#[serde(expecting = "properties of Spark")]
pub(super) struct ShuffleProperties {
    #[serde(rename = "spark.shuffle.readHostLocalDisk", default)]
    pub(super) read_host_local: Option<String>,
    #[serde(rename = "spark.shuffle.useOldFetchProtocol", default)]
    pub(super) old_protocol: Option<String>,
    #[serde(rename = "spark.shuffle.service.enabled", default)]
    pub(super) service: Option<String>,
}

#[derive(Deserialize)]
struct ApplicationStart {
    #[serde(rename = "Timestamp")]
    timestamp: u64,
}

#[derive(Deserialize)]
struct JobStart {
    #[serde(rename = "Job ID")]
    job: u64,
    #[serde(rename = "Submission Time")]
    submitted: u64,
    #[serde(rename = "Stage Infos")]
    stages: Vec<StageInfo>,
    #[serde(rename = "Properties", default)]
    properties: Option<JobProperties>,
}

#[derive(Deserialize)]
#[serde(expecting = "properties of a job")]
struct JobProperties {
    #[serde(rename = "spark.sql.execution.id", default)]
    execution: Option<String>,
    #[serde(rename = "spark.sql.execution.root.id", default)]
    root_execution: Option<String>,
}

/// The beginning of a query.
#[derive(Deserialize)]
struct ExecutionStart {
    #[serde(rename = "executionId")]
    id: u64,
    #[serde(default)]
    description: String,
    #[serde(rename = "time")]
    started: u64,
}

#[derive(Deserialize)]
struct ExecutionEnd {
    #[serde(rename = "executionId")]
    id: u64,
    #[serde(rename = "time")]
    ended: u64,
}

#[derive(Deserialize)]
struct JobEnd {
    #[serde(rename = "Job ID")]
    job: u64,
}

#[derive(Deserialize)]
struct StageEvent {
    #[serde(rename = "Stage Info")]
    info: StageInfo,
}

#[derive(Deserialize)]
#[serde(expecting = "what a stage is")]
struct StageInfo {
    #[serde(rename = "Stage ID")]
    id: u32,
    #[serde(rename = "Stage Attempt ID", default)]
    attempt: u32,
    #[serde(rename = "Parent IDs", default)]
    parents: Vec<u32>,
    #[serde(rename = "RDD Info", default)]
    rdds: Vec<RddInfo>,
}

#[derive(Deserialize)]
#[serde(expecting = "an RDD")]
struct RddInfo {
    #[serde(rename = "RDD ID")]
    id: u64,
}

#[derive(Deserialize)]
struct TaskEnd<'a> {
    #[serde(rename = "Stage ID")]
    stage: u32,
    #[serde(rename = "Task End Reason", borrow)]
    reason: EndReason<'a>,
    #[serde(rename = "Task Info", borrow)]
    info: TaskInfo<'a>,
    #[serde(rename = "Task Metrics", default)]
    metrics: Option<TaskMetrics>,
}

#[derive(Deserialize)]
#[serde(expecting = "why a task ended")]
struct EndReason<'a> {
    #[serde(rename = "Reason", borrow)]
    reason: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(expecting = "what a task is")]
struct TaskInfo<'a> {
    #[serde(rename = "Host", borrow)]
    host: Cow<'a, str>,
    #[serde(rename = "Executor ID", borrow)]
    executor: Cow<'a, str>,
    #[serde(rename = "Launch Time")]
    launched: u64,
    #[serde(rename = "Finish Time")]
    finished: u64,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "the metrics of a task")]
struct TaskMetrics {
    #[serde(rename = "Shuffle Read Metrics", default)]
    read: Option<ReadMetrics>,
    #[serde(rename = "Shuffle Write Metrics", default)]
    write: Option<WriteMetrics>,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "metrics of shuffle reads")]
struct ReadMetrics {
    #[serde(rename = "Remote Bytes Read", default)]
    remote: u64,
    #[serde(rename = "Local Bytes Read", default)]
    local: u64,
    #[serde(rename = "Fetch Wait Time", default)]
    wait_ms: u64,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "metrics of shuffle writes")]
struct WriteMetrics {
    #[serde(rename = "Shuffle Bytes Written", default)]
    written: u64,
}

/// Reads all events; an error where the log is none of Spark, or is cut off.
pub(super) fn scan(text: &str) -> Result<Log, Fault> {
    let mut log = Log::default();
    let mut last = None;
    for line in Lines::new(text) {
        event(&mut log, line)?;
        last = Some(line);
    }
    let Some(last) = last else {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    };
    if log.jobs.is_empty() {
        return Err(Fault::new(0..0, TraceErrorKind::NoSparkJobs));
    }
    match log.open_work() {
        Some(open) if !log.ended => Err(Fault::of_line(last.span(), TraceErrorKind::LogCutOff { open })),
        _ => Ok(log),
    }
}

fn parse<'a, T: Deserialize<'a>>(line: Line<'a>) -> Result<T, Fault> {
    serde_json::from_str(line.text).map_err(|error| line.broken(&error, EVENT))
}

fn event(log: &mut Log, line: Line<'_>) -> Result<(), Fault> {
    match parse::<Tag<'_>>(line)?.event.as_ref() {
        "SparkListenerLogStart" | "DBCEventLoggingListenerMetadata" => {
            let start: LogStart = parse(line)?;
            log.spark_version = start.spark_version.or(log.spark_version.take());
        }
        "SparkListenerEnvironmentUpdate" => log.properties = parse::<EnvironmentUpdate>(line)?.properties,
        "SparkListenerApplicationStart" => {
            log.application_start = Some(time(parse::<ApplicationStart>(line)?.timestamp, line)?);
        }
        "SparkListenerApplicationEnd" => log.ended = true,
        "SparkListenerJobStart" => job_start(log, line)?,
        "SparkListenerJobEnd" => {
            log.open_jobs.remove(&parse::<JobEnd>(line)?.job);
        }
        "SparkListenerStageSubmitted" => {
            let info = parse::<StageEvent>(line)?.info;
            log.open_stages.insert((info.id, info.attempt));
            stage(log, info, line)?;
        }
        "SparkListenerStageCompleted" => {
            let info = parse::<StageEvent>(line)?.info;
            log.open_stages.remove(&(info.id, info.attempt));
            stage(log, info, line)?;
        }
        "SparkListenerTaskEnd" => task_end(log, line)?,
        "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart" => {
            let start: ExecutionStart = parse(line)?;
            let started = time(start.started, line)?;
            let description = start.description;
            log.executions.insert(start.id.to_string(), Execution { description, started, ended: None });
        }
        "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd" => {
            let end: ExecutionEnd = parse(line)?;
            let ended = time(end.ended, line)?;
            if let Some(execution) = log.executions.get_mut(&end.id.to_string()) {
                execution.ended = Some(ended);
            }
        }
        _ => {}
    }
    Ok(())
}

/// A point in time, in milliseconds, that can be counted with.
fn time(millis: u64, line: Line<'_>) -> Result<u64, Fault> {
    if millis <= LATEST_MS { Ok(millis) } else { Err(Fault::of_line(line.span(), TraceErrorKind::TooLate)) }
}

fn job_start(log: &mut Log, line: Line<'_>) -> Result<(), Fault> {
    let start: JobStart = parse(line)?;
    let submitted = time(start.submitted, line)?;
    let query = start.properties.and_then(|properties| properties.root_execution.or(properties.execution));
    let unit = query.map_or(Unit::Job(start.job), Unit::Query);
    log.jobs.insert(start.job, Job { unit, submitted });
    log.open_jobs.insert(start.job);
    for info in start.stages {
        stage(log, info, line)?.job.get_or_insert(start.job);
    }
    Ok(())
}

/// Returns the entry of the stage; `info` fills it when the stage is first named.
fn stage<'l>(log: &'l mut Log, info: StageInfo, line: Line<'_>) -> Result<&'l mut StageLog, Fault> {
    // Spark numbers a stage after those that it reads, so this is what keeps cycles out.
    if let Some(&parent) = info.parents.iter().find(|&&parent| parent >= info.id) {
        let kind = TraceErrorKind::StageOrder { stage: info.id, parent };
        return Err(Fault::of_line(line.span(), kind));
    }
    let rdd = info.rdds.iter().map(|rdd| rdd.id).max();
    Ok(log.stages.entry(info.id).or_insert_with(|| StageLog {
        parents: info.parents,
        rdd,
        ..StageLog::unknown(line.span())
    }))
}

fn task_end(log: &mut Log, line: Line<'_>) -> Result<(), Fault> {
    let end: TaskEnd<'_> = parse(line)?;
    let (launched, finished) = (time(end.info.launched, line)?, time(end.info.finished, line)?);
    let metrics = end.metrics.unwrap_or_default();
    let read = metrics.read.unwrap_or_default();
    let succeeded = end.reason.reason == "Success";
    // The output of an attempt that failed is thrown away; what it read has crossed the network all the same.
    let written = if succeeded { metrics.write.unwrap_or_default().written } else { 0 };
    let run = Run {
        executor: log.executor(&end.info.executor, &end.info.host),
        launched,
        finished: finished.max(launched),
        succeeded,
        written,
        remote: read.remote,
        local: read.local,
        wait_ms: read.wait_ms,
    };
    log.stages.entry(end.stage).or_insert_with(|| StageLog::unknown(line.span())).runs.push(run);
    Ok(())
}

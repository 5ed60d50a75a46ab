//! The events of a log that matter here, with the fields that are needed of each.
//!
//! Others are skipped without being looked at, since events grow with every version of Spark and
//! carry whole query plans.

use std::borrow::Cow;

use serde::Deserialize;

use super::service::Properties;
use super::values::{Number, Small, Soft, Text};

#[derive(Deserialize)]
#[serde(expecting = "an event")]
pub(super) struct Tag<'a> {
    #[serde(rename = "Event", borrow)]
    pub(super) event: Cow<'a, str>,
}

#[derive(Deserialize)]
pub(super) struct LogStart {
    #[serde(rename = "Spark Version", default)]
    pub(super) spark_version: Text,
    #[serde(rename = "SparkContext Id", default)]
    pub(super) context: Soft,
    #[serde(rename = "Rollover Number", default)]
    pub(super) rollover: Soft,
}

#[derive(Deserialize)]
pub(super) struct EnvironmentUpdate {
    #[serde(rename = "Spark Properties", default)]
    pub(super) properties: Option<Properties>,
}

#[derive(Deserialize)]
pub(super) struct ApplicationStart {
    #[serde(rename = "App Name", default)]
    pub(super) name: Text,
    #[serde(rename = "App ID", default)]
    pub(super) id: Text,
    #[serde(rename = "App Attempt ID", default)]
    pub(super) attempt: Text,
    #[serde(rename = "Timestamp", default)]
    pub(super) timestamp: Soft,
}

#[derive(Deserialize)]
pub(super) struct JobStart {
    #[serde(rename = "Job ID")]
    pub(super) job: Number,
    #[serde(rename = "Submission Time", default)]
    pub(super) submitted: Soft,
    #[serde(rename = "Stage Infos")]
    pub(super) stages: Vec<StageInfo>,
    #[serde(rename = "Properties", default)]
    pub(super) properties: Option<JobProperties>,
}

#[derive(Deserialize)]
#[serde(expecting = "properties of a job")]
pub(super) struct JobProperties {
    #[serde(rename = "spark.sql.execution.id", default)]
    pub(super) execution: Text,
    #[serde(rename = "spark.sql.execution.root.id", default)]
    pub(super) root_execution: Text,
}

/// The beginning of a query.
#[derive(Deserialize)]
pub(super) struct ExecutionStart {
    #[serde(rename = "executionId")]
    pub(super) id: Number,
    #[serde(default)]
    pub(super) description: Text,
    #[serde(rename = "time", default)]
    pub(super) started: Soft,
}

#[derive(Deserialize)]
pub(super) struct ExecutionEnd {
    #[serde(rename = "executionId")]
    pub(super) id: Number,
    #[serde(rename = "time", default)]
    pub(super) ended: Soft,
}

#[derive(Deserialize)]
pub(super) struct JobEnd {
    #[serde(rename = "Job ID")]
    pub(super) job: Number,
}

#[derive(Deserialize)]
pub(super) struct StageEvent {
    #[serde(rename = "Stage Info")]
    pub(super) info: StageInfo,
}

#[derive(Deserialize)]
#[serde(expecting = "what a stage is")]
pub(super) struct StageInfo {
    #[serde(rename = "Stage ID")]
    pub(super) id: Small,
    #[serde(rename = "Stage Attempt ID", default)]
    pub(super) attempt: Soft,
    /// The line of code that it was made by, or what the application calls it.
    #[serde(rename = "Stage Name", default)]
    pub(super) name: Text,
    #[serde(rename = "Parent IDs", default)]
    pub(super) parents: Option<Vec<Small>>,
    #[serde(rename = "RDD Info", default)]
    pub(super) rdds: Option<Vec<RddInfo>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an RDD")]
pub(super) struct RddInfo {
    #[serde(rename = "RDD ID", default)]
    pub(super) id: Soft,
}

#[derive(Deserialize)]
pub(super) struct ExecutorAdded {
    #[serde(rename = "Executor ID", default)]
    pub(super) executor: Text,
    #[serde(rename = "Executor Info", default)]
    pub(super) info: ExecutorInfo,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "what an executor is")]
pub(super) struct ExecutorInfo {
    #[serde(rename = "Total Cores", default)]
    pub(super) cores: Soft,
}

#[derive(Deserialize)]
pub(super) struct ExecutorRemoved {
    #[serde(rename = "Executor ID", default)]
    pub(super) executor: Text,
    #[serde(rename = "Timestamp", default)]
    pub(super) timestamp: Soft,
}

#[derive(Deserialize)]
pub(super) struct TaskEnd<'a> {
    #[serde(rename = "Stage ID")]
    pub(super) stage: Small,
    #[serde(rename = "Stage Attempt ID", default)]
    pub(super) attempt: Soft,
    #[serde(rename = "Task End Reason", borrow)]
    pub(super) reason: EndReason<'a>,
    #[serde(rename = "Task Info", borrow)]
    pub(super) info: TaskInfo<'a>,
    #[serde(rename = "Task Metrics", default)]
    pub(super) metrics: Option<TaskMetrics>,
}

#[derive(Deserialize)]
#[serde(expecting = "why a task ended")]
pub(super) struct EndReason<'a> {
    #[serde(rename = "Reason", borrow)]
    pub(super) reason: Cow<'a, str>,
    #[serde(rename = "Block Manager Address", default)]
    pub(super) lost: Option<Address>,
}

/// Where blocks could not be fetched from.
#[derive(Deserialize)]
pub(super) struct Address {
    #[serde(rename = "Executor ID", default)]
    pub(super) executor: Text,
}

#[derive(Deserialize)]
#[serde(expecting = "what a task is")]
pub(super) struct TaskInfo<'a> {
    #[serde(rename = "Host", borrow)]
    pub(super) host: Cow<'a, str>,
    #[serde(rename = "Executor ID")]
    pub(super) executor: Text,
    #[serde(rename = "Launch Time")]
    pub(super) launched: Number,
    #[serde(rename = "Finish Time", default)]
    pub(super) finished: Soft,
    #[serde(rename = "Task ID", default)]
    pub(super) task: Soft,
    #[serde(rename = "Index", default)]
    pub(super) index: Soft,
    /// −1 where it is not known.
    #[serde(rename = "Partition ID", default)]
    pub(super) partition: Soft,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "the metrics of a task")]
pub(super) struct TaskMetrics {
    #[serde(rename = "Shuffle Read Metrics", default)]
    pub(super) read: Option<ReadMetrics>,
    #[serde(rename = "Shuffle Write Metrics", default)]
    pub(super) write: Option<WriteMetrics>,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "metrics of shuffle reads")]
pub(super) struct ReadMetrics {
    #[serde(rename = "Remote Bytes Read", default)]
    pub(super) remote: Number,
    #[serde(rename = "Local Bytes Read", default)]
    pub(super) local: Soft,
    #[serde(rename = "Fetch Wait Time", default)]
    pub(super) wait_ms: Soft,
    #[serde(rename = "Push Based Shuffle", default)]
    pub(super) pushed: Option<PushMetrics>,
}

/// What of the bytes read a push-based shuffle had merged.
#[derive(Deserialize, Default)]
#[serde(expecting = "metrics of a push-based shuffle")]
pub(super) struct PushMetrics {
    #[serde(rename = "Merged Remote Bytes Read", default)]
    pub(super) remote: Soft,
}

#[derive(Deserialize, Default)]
#[serde(expecting = "metrics of shuffle writes")]
pub(super) struct WriteMetrics {
    #[serde(rename = "Shuffle Bytes Written", default)]
    pub(super) written: Number,
}

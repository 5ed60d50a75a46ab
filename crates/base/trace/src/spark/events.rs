//! How each event of a log changes what is known ([`Application`]). Events of other names are
//! skipped.
//!
//! A log begins with `SparkListenerLogStart`, or with `SparkListenerApplicationStart` where it is
//! old. A second one is another application: two logs were joined, or a cluster's are read
//! together. Ids begin anew with it.

use serde::Deserialize;

use super::log::{Application, Cluster, Cut, Execution, Job, Run, StageLog, Unit, stage_name};
use super::schema::{
    ApplicationStart, EnvironmentUpdate, ExecutionEnd, ExecutionStart, ExecutorAdded, ExecutorRemoved,
    JobEnd, JobStart, LogStart, StageEvent, StageInfo, Tag, TaskEnd,
};
use super::values::{Number, Small, Soft, Text};
use crate::ReadOptions;
use crate::error::{TraceError, TraceErrorKind};
use crate::input::{Line, LogLines, Next};

const EVENT: &str = r#"a whole event of a Spark log like {"Event":"SparkListenerJobStart",…} on one line"#;

/// The latest time that a log may name, in milliseconds since 1970: the year 2116.
const LATEST_MS: u64 = cavalcade_model::LATEST.0 / 1_000_000;

/// Reads all events of all logs; an error where one is none of Spark, or is damaged elsewhere than
/// at its end.
pub(super) fn scan(lines: &mut LogLines<'_>, options: &ReadOptions) -> Result<Cluster, TraceError> {
    let mut scan = Scan::new(options);
    // A line that is no event is where its log was cut off, if none follows.
    let mut broken: Option<TraceError> = None;
    loop {
        match lines.advance()? {
            Next::Line(line) => {
                if let Some(fault) = broken.take() {
                    return Err(fault);
                }
                match scan.event(line) {
                    Ok(()) => scan.now.last = Some(line.spot),
                    Err(Stop::NoEvent(fault)) => broken = Some(fault),
                    Err(Stop::Wrong(fault)) => return Err(fault),
                }
            }
            Next::End { cut } => {
                match broken.take() {
                    Some(fault) if scan.now.last.is_none() => return Err(fault),
                    Some(_) if cut.is_none() => scan.now.cut = Some(Cut::InLine),
                    _ => scan.now.cut = cut.map(Cut::InData),
                }
                scan.next_application();
            }
            Next::Nothing => return Ok(scan.cluster),
        }
    }
}

/// Reason that a line changes nothing.
enum Stop {
    /// It is not a whole JSON text.
    NoEvent(TraceError),
    /// It is one, and says something that cannot be.
    Wrong(TraceError),
}

impl From<TraceError> for Stop {
    fn from(fault: TraceError) -> Self {
        Stop::Wrong(fault)
    }
}

struct Scan {
    cluster: Cluster,
    /// The application whose events come.
    now: Application,
    tasks_left: u64,
    task_limit: u64,
}

fn parse<'a, T: Deserialize<'a>>(line: Line<'a>, text: &'a str) -> Result<T, Stop> {
    serde_json::from_str(text).map_err(|error| {
        let fault = line.broken(&error, EVENT);
        if error.is_data() { Stop::Wrong(fault) } else { Stop::NoEvent(fault) }
    })
}

/// A point in time, in milliseconds, that can be counted with.
fn time(millis: u64, line: Line<'_>) -> Result<u64, TraceError> {
    if millis <= LATEST_MS { Ok(millis) } else { Err(line.fault(TraceErrorKind::TooLate)) }
}

impl Scan {
    fn new(options: &ReadOptions) -> Self {
        let task_limit = options.limits.tasks;
        Self { cluster: Cluster::default(), now: Application::default(), tasks_left: task_limit, task_limit }
    }

    /// Goes on to another application, unless the present one has no event.
    fn next_application(&mut self) {
        let done = core::mem::take(&mut self.now);
        if done.last.is_some() || done.has_begun() {
            self.cluster.applications.push(done);
        }
    }

    /// A value that need not be right; where it is not, that is counted.
    fn soft(&mut self, field: &'static str, value: Soft) -> Option<u64> {
        match value {
            Soft::Absent => None,
            Soft::Is(number) => Some(number),
            Soft::Odd => {
                *self.now.odd.entry(field).or_default() += 1;
                None
            }
        }
    }

    /// A time that need not be right.
    fn soft_time(&mut self, field: &'static str, value: Soft) -> Option<u64> {
        let value = if matches!(value, Soft::Is(time) if time > LATEST_MS) { Soft::Odd } else { value };
        let time = self.soft(field, value);
        self.now.latest = self.now.latest.max(time.unwrap_or(0));
        time
    }

    /// A number that need not be right, and is small where it is.
    fn soft_small(&mut self, field: &'static str, value: Soft) -> Option<u32> {
        let value = if matches!(value, Soft::Is(number) if u32::try_from(number).is_err()) {
            Soft::Odd
        } else {
            value
        };
        self.soft(field, value).map(|number| number as u32)
    }

    fn event(&mut self, line: Line<'_>) -> Result<(), Stop> {
        let text = line.text().map_err(Stop::NoEvent)?;
        match parse::<Tag<'_>>(line, text)?.event.as_ref() {
            "SparkListenerLogStart" => {
                if self.now.has_begun() {
                    self.next_application();
                }
                self.now.has_log_start = true;
                self.now.spark_version = parse::<LogStart>(line, text)?.spark_version.0;
            }
            "DBCEventLoggingListenerMetadata" => self.databricks(parse(line, text)?),
            "SparkListenerEnvironmentUpdate" => {
                if self.now.ended {
                    self.next_application();
                }
                self.now.properties = parse::<EnvironmentUpdate>(line, text)?.properties.unwrap_or_default();
            }
            "SparkListenerApplicationStart" => self.application_start(parse(line, text)?),
            "SparkListenerApplicationEnd" => self.now.ended = true,
            "SparkListenerJobStart" => self.job_start(parse(line, text)?, line)?,
            "SparkListenerJobEnd" => {
                self.now.open_jobs.remove(&parse::<JobEnd>(line, text)?.job.0);
            }
            "SparkListenerStageSubmitted" => {
                let key = self.stage(parse::<StageEvent>(line, text)?.info, line)?;
                self.now.open_stages.insert(key);
            }
            "SparkListenerStageCompleted" => {
                let key = self.stage(parse::<StageEvent>(line, text)?.info, line)?;
                self.now.open_stages.remove(&key);
                self.now.ended_stages.insert(key);
            }
            "SparkListenerTaskEnd" => self.task_end(parse(line, text)?, line)?,
            "SparkListenerExecutorAdded" => {
                let ExecutorAdded { executor, info } = parse(line, text)?;
                let cores = self.soft("Total Cores", info.cores);
                if let Some(executor) = executor.0 {
                    self.now.strength.add(executor, cores);
                }
            }
            "SparkListenerExecutorRemoved" => {
                let ExecutorRemoved { executor, timestamp } = parse(line, text)?;
                self.now.strength.remove(executor.0.as_deref().unwrap_or_default());
                let at = self.soft_time("Timestamp", timestamp);
                if !self.now.outlives_executors() {
                    self.lose(executor, at);
                }
            }
            "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart" => {
                let ExecutionStart { id, description, started } = parse(line, text)?;
                let started = self.soft_time("time", started);
                let description = description.0.unwrap_or_default();
                let execution = Execution { description, started, ended: None };
                self.now.executions.insert(id.0.to_string(), execution);
            }
            "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd" => {
                let ExecutionEnd { id, ended } = parse(line, text)?;
                let ended = self.soft_time("time", ended);
                if let Some(execution) = self.now.executions.get_mut(&id.0.to_string()) {
                    execution.ended = ended;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Databricks begins each file of a log with this, and numbers them.
    fn databricks(&mut self, start: LogStart) {
        let LogStart { spark_version, context, rollover } = start;
        let context = self.soft("SparkContext Id", context);
        let is_other = match (self.now.context, context) {
            (Some(now), Some(next)) => now != next,
            _ => rollover == Soft::Is(0),
        };
        if is_other && self.now.has_begun() {
            self.next_application();
        }
        self.now.has_log_start = true;
        self.now.context = context.or(self.now.context);
        self.now.spark_version = spark_version.0.or(self.now.spark_version.take());
    }

    fn application_start(&mut self, start: ApplicationStart) {
        if self.now.has_start {
            self.next_application();
        }
        self.now.has_start = true;
        self.now.id = start.id.0;
        self.now.name = start.name.0;
        self.now.attempt = start.attempt.0;
        self.now.started = self.soft_time("Timestamp", start.timestamp);
    }

    fn job_start(&mut self, start: JobStart, line: Line<'_>) -> Result<(), Stop> {
        let JobStart { job: Number(job), submitted, stages, properties } = start;
        // −1 is what Spark itself takes a time for that is not there.
        let submitted = self.soft_time("Submission Time", submitted);
        let query = properties.and_then(|properties| properties.root_execution.0.or(properties.execution.0));
        let unit = query.map_or(Unit::Job(job), Unit::Query);
        if self.now.jobs.insert(job, Job { unit, submitted }).is_some() {
            return Err(line.fault(TraceErrorKind::JobTwice { job }).into());
        }
        self.now.open_jobs.insert(job);
        for info in stages {
            let (stage, _) = self.stage(info, line)?;
            let stage = self.now.stages.get_mut(&stage).expect("it has just been named");
            stage.job.get_or_insert(job);
        }
        Ok(())
    }

    /// Takes in what is said of a stage, when it is first named. Returns its id and attempt.
    fn stage(&mut self, info: StageInfo, line: Line<'_>) -> Result<(u32, u32), Stop> {
        let StageInfo { id: Small(id), attempt, name, parents, rdds } = info;
        let parents: Vec<u32> = parents.unwrap_or_default().into_iter().map(|Small(parent)| parent).collect();
        // Spark numbers a stage after those that it reads, so this is what keeps cycles out.
        if let Some(&parent) = parents.iter().find(|&&parent| parent >= id) {
            return Err(line.fault(TraceErrorKind::StageOrder { stage: id, parent }).into());
        }
        let attempt = self.soft_small("Stage Attempt ID", attempt).unwrap_or(0);
        let rdds = rdds.unwrap_or_default();
        let rdd = rdds.iter().filter_map(|rdd| self.soft("RDD ID", rdd.id)).max();
        let known = self.now.stages.entry(id).or_insert_with(|| StageLog::unknown(line.spot));
        if known.parents.is_empty() {
            known.parents = parents;
        }
        known.rdd = known.rdd.or(rdd);
        if known.name.is_none() {
            known.name = name.0.as_deref().and_then(stage_name);
        }
        Ok((id, attempt))
    }

    /// Notes that what an executor wrote was lost.
    fn lose(&mut self, executor: Text, at: Option<u64>) {
        if let (Some(executor), Some(at)) = (executor.0, at) {
            self.now.losses.entry(executor).or_default().push(at);
        }
    }

    fn task_end(&mut self, end: TaskEnd<'_>, line: Line<'_>) -> Result<(), Stop> {
        let TaskEnd { stage: Small(stage), attempt, reason, info, metrics } = end;
        let attempt = self.soft_small("Stage Attempt ID", attempt).unwrap_or(0);
        let task = self.soft("Task ID", info.task);
        let index = self.soft_small("Index", info.index).unwrap_or(0);
        if reason.reason == "Resubmitted" {
            self.resubmit(stage, attempt, task, index);
            return Ok(());
        }
        let launched = time(info.launched.0, line)?;
        if matches!(info.finished, Soft::Is(finished) if finished > LATEST_MS) {
            return Err(line.fault(TraceErrorKind::TooLate).into());
        }
        let finished = self.soft_time("Finish Time", info.finished).unwrap_or(launched).max(launched);
        self.now.latest = self.now.latest.max(launched);
        if let Some(address) = reason.lost {
            self.lose(address.executor, Some(finished));
        }
        self.tasks_left = self
            .tasks_left
            .checked_sub(1)
            .ok_or_else(|| line.fault(TraceErrorKind::TooManyTasks { limit: self.task_limit }))?;
        let metrics = metrics.unwrap_or_default();
        let read = metrics.read.unwrap_or_default();
        let remote = read.remote.0;
        let merged = self.soft("Merged Remote Bytes Read", read.pushed.unwrap_or_default().remote);
        let succeeded = reason.reason == "Success";
        let executor = info.executor.0.unwrap_or_default();
        let run = Run {
            executor: self.now.executor(&executor, &info.host, &mut self.cluster.hosts),
            attempt,
            index,
            partition: match info.partition {
                Soft::Is(partition) => u32::try_from(partition).ok(),
                Soft::Absent | Soft::Odd => None,
            },
            task,
            launched,
            finished,
            succeeded,
            resubmitted: false,
            // The output of an attempt that failed is thrown away; what it read has crossed the
            // network all the same.
            written: if succeeded { metrics.write.unwrap_or_default().written.0 } else { 0 },
            remote,
            merged: merged.unwrap_or(0).min(remote),
            local: self.soft("Local Bytes Read", read.local).unwrap_or(0),
            wait_ms: self.soft("Fetch Wait Time", read.wait_ms).unwrap_or(0),
        };
        let known = self.now.stages.entry(stage).or_insert_with(|| StageLog::unknown(line.spot));
        known.runs.push(run);
        Ok(())
    }

    /// Marks the task whose output was lost while its stage ran, as Spark says when it runs it
    /// again.
    fn resubmit(&mut self, stage: u32, attempt: u32, task: Option<u64>, index: u32) {
        let Some(stage) = self.now.stages.get_mut(&stage) else { return };
        let is_it = |run: &&mut Run| {
            run.attempt == attempt
                && run.succeeded
                && run.index == index
                && (task.is_none() || run.task == task)
        };
        if let Some(run) = stage.runs.iter_mut().rev().find(is_it) {
            run.resubmitted = true;
        }
    }
}

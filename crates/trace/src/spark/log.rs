//! What the events of a log say, gathered by stage: all that the importer needs, and no estimate yet.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::events::ShuffleProperties;

/// Everything known after the last event. Ids are Spark's; times are milliseconds since 1970.
#[derive(Default)]
pub(super) struct Log {
    pub(super) spark_version: Option<String>,
    pub(super) properties: ShuffleProperties,
    pub(super) application_start: Option<u64>,
    /// True if the application's end was logged.
    pub(super) ended: bool,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Queries, by the id of their execution.
    pub(super) executions: BTreeMap<String, Execution>,
    pub(super) open_jobs: BTreeSet<u64>,
    pub(super) stages: BTreeMap<u32, StageLog>,
    /// Stages that run, with their attempts.
    pub(super) open_stages: BTreeSet<(u32, u32)>,
    /// Names of hosts, in order of appearance.
    pub(super) hosts: Vec<String>,
    /// For each executor, its host.
    pub(super) host_of: Vec<usize>,
    /// Looked up, never walked.
    host_index: HashMap<String, usize>,
    executor_index: HashMap<(String, usize), usize>,
}

/// Unit of work that a user waited for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unit {
    /// A query, by the id of its execution.
    Query(String),
    /// A job that belongs to none.
    Job(u64),
}

/// A query as the driver saw it, planning included.
pub(super) struct Execution {
    /// Its name, as `query72`; where the application gave none, the line of code that ran it.
    pub(super) description: String,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
}

/// Letters of a description that make a name.
const NAME_LETTERS: usize = 40;

impl Execution {
    /// Its name, where the application gave it one: no line of code, no text over several lines.
    pub(super) fn name(&self) -> Option<String> {
        let name = self.description.trim();
        let is_call_site = name.contains(" at ") && name.rsplit(':').next().is_some_and(is_number);
        let is_code = name.starts_with("//") || name.starts_with("import ");
        let fits = name.chars().count() <= NAME_LETTERS && !name.chars().any(char::is_control);
        (!name.is_empty() && !is_call_site && !is_code && fits).then(|| name.to_owned())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A job.
pub(super) struct Job {
    pub(super) unit: Unit,
    pub(super) submitted: u64,
}

/// A stage; one that was skipped, because what it would have written was there, has no runs.
pub(super) struct StageLog {
    /// Stages whose output it reads; all have lower ids.
    pub(super) parents: Vec<u32>,
    /// Its last RDD, by which a skipped stage finds the one that ran in its place.
    pub(super) rdd: Option<u64>,
    /// The job that named it first, in which it ran.
    pub(super) job: Option<u64>,
    /// Its tasks, of all attempts, in the order in which they ended.
    pub(super) runs: Vec<Run>,
    /// The line that names it first.
    pub(super) line: Range<usize>,
}

impl StageLog {
    /// A stage of which only the id is known.
    pub(super) fn unknown(line: Range<usize>) -> Self {
        Self { parents: Vec::new(), rdd: None, job: None, runs: Vec::new(), line }
    }
}

/// One attempt of one task.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) executor: usize,
    pub(super) launched: u64,
    /// Never before `launched`.
    pub(super) finished: u64,
    pub(super) succeeded: bool,
    /// Bytes written for later stages.
    pub(super) written: u64,
    /// Bytes read from elsewhere.
    pub(super) remote: u64,
    /// Bytes read where they were written.
    pub(super) local: u64,
    /// Time waited for blocks.
    pub(super) wait_ms: u64,
}

impl Log {
    /// The index of an executor, new or known.
    pub(super) fn executor(&mut self, name: &str, host: &str) -> usize {
        let host = match self.host_index.get(host) {
            Some(&index) => index,
            None => {
                self.hosts.push(host.to_owned());
                self.host_index.insert(host.to_owned(), self.hosts.len() - 1);
                self.hosts.len() - 1
            }
        };
        let next = self.host_of.len();
        let index = *self.executor_index.entry((name.to_owned(), host)).or_insert(next);
        if index == next {
            self.host_of.push(host);
        }
        index
    }

    /// The query that a unit is, where the log has its beginning.
    pub(super) fn execution(&self, unit: &Unit) -> Option<&Execution> {
        match unit {
            Unit::Query(id) => self.executions.get(id),
            Unit::Job(_) => None,
        }
    }

    /// Returns the total run time of tasks and their wait for blocks, in milliseconds.
    pub(super) fn waiting(&self) -> (u128, u128) {
        let runs = self.stages.values().flat_map(|stage| &stage.runs);
        runs.fold((0, 0), |(busy, waited), run| {
            let took = run.finished - run.launched;
            (busy + u128::from(took), waited + u128::from(run.wait_ms.min(took)))
        })
    }

    /// The first piece of work that has begun and not ended, in words.
    pub(super) fn open_work(&self) -> Option<String> {
        let stage = self.open_stages.first().map(|(stage, _)| format!("stage {stage}"));
        stage.or_else(|| self.open_jobs.first().map(|job| format!("job {job}")))
    }

    /// Returns whether an executor reads the blocks of another one on its host from disk and counts them as local. Spark does
    /// since 3.0 where the external shuffle service runs, and since 3.1 in any case, unless told not to. A log that does
    /// not name its version is taken for a recent one.
    pub(super) fn reads_host_local(&self) -> bool {
        let is = |value: &Option<String>, text: &str| {
            value.as_ref().is_some_and(|value| value.eq_ignore_ascii_case(text))
        };
        let mut numbers = self.spark_version.iter().flat_map(|version| version.split('.'));
        let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
        let able = match (number(), number()) {
            (Some(3), Some(0)) => is(&self.properties.service, "true"),
            (Some(major), _) => major >= 3,
            (None, _) => true,
        };
        able && !is(&self.properties.read_host_local, "false") && !is(&self.properties.old_protocol, "true")
    }

    /// Bytes that the tasks of a stage wrote.
    pub(super) fn written(&self, stage: u32) -> u64 {
        let runs = self.stages.get(&stage).map_or(&[][..], |stage| &stage.runs);
        runs.iter().fold(0, |sum, run| u64::saturating_add(sum, run.written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(description: &str) -> Option<String> {
        Execution { description: description.to_owned(), started: 0, ended: None }.name()
    }

    #[test]
    fn what_the_application_called_a_query_is_its_name_and_a_line_of_code_is_not() {
        assert_eq!(name("query72").as_deref(), Some("query72"));
        assert_eq!(name(" show tables in `default` ").as_deref(), Some("show tables in `default`"));
        let none = ["", "save at NativeMethodAccessorImpl.java:0", "view at <unknown>:0", "// val x = 1"];
        assert!(none.iter().all(|description| name(description).is_none()));
        assert_eq!(name(&"x".repeat(41)), None);
        assert_eq!(name("select 1\nfrom t"), None);
    }
}

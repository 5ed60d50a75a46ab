//! What the events of logs say, gathered by application and stage: all that the importer needs, and
//! no estimate yet.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::compression::Codec;
use crate::input::Spot;

use super::service::Properties;

/// Everything known after the last event: applications on one set of hosts.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) hosts: Hosts,
    pub(super) applications: Vec<Application>,
}

/// The hosts on which tasks of any application ran.
#[derive(Default)]
pub(super) struct Hosts {
    /// Names, in order of appearance.
    pub(super) names: Vec<String>,
    /// Looked up, never walked.
    index: HashMap<String, usize>,
}

impl Hosts {
    fn index(&mut self, name: &str) -> usize {
        if let Some(&index) = self.index.get(name) {
            return index;
        }
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }
}

/// One attempt of one application. Ids are Spark's; times are milliseconds since 1970.
#[derive(Default)]
pub(super) struct Application {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    /// The attempt, where there may be several.
    pub(super) attempt: Option<String>,
    /// Of Databricks: what its files have in common.
    pub(super) context: Option<u64>,
    pub(super) spark_version: Option<String>,
    pub(super) properties: Properties,
    /// Whether its log has said that it begins.
    pub(super) has_log_start: bool,
    pub(super) has_start: bool,
    pub(super) started: Option<u64>,
    /// True if the application's end was logged.
    pub(super) ended: bool,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Queries, by the id of their execution.
    pub(super) executions: BTreeMap<String, Execution>,
    pub(super) open_jobs: BTreeSet<u64>,
    pub(super) stages: BTreeMap<u32, StageLog>,
    /// Attempts of stages that run.
    pub(super) open_stages: BTreeSet<(u32, u32)>,
    /// Attempts of stages that have ended.
    pub(super) ended_stages: BTreeSet<(u32, u32)>,
    /// For each executor, its name and host.
    pub(super) executors: Vec<(String, usize)>,
    executor_index: HashMap<(String, usize), u32>,
    pub(super) strength: Strength,
    /// When outputs of an executor were lost, by its name.
    pub(super) losses: BTreeMap<String, Vec<u64>>,
    /// For each field that need not be right, in how many events it was not.
    pub(super) odd: BTreeMap<&'static str, u64>,
    /// The last event and, where the log was cut off behind it, how.
    pub(super) last: Option<Spot>,
    pub(super) cut: Option<Cut>,
    /// The latest time that an event names.
    pub(super) latest: u64,
}

/// How many executors an application had, and with how many cores, where its log says so.
#[derive(Default)]
pub(super) struct Strength {
    /// The cores of those that it has now, by name; none where that is not said.
    now: BTreeMap<String, Option<u64>>,
    /// The most executors that it had at a time.
    pub(super) most_executors: usize,
    /// The most cores that it had at a time; none where those of some executor are not said.
    pub(super) most_cores: Option<u64>,
}

impl Strength {
    pub(super) fn add(&mut self, executor: String, cores: Option<u64>) {
        self.now.insert(executor, cores);
        let known = self.most_executors == 0 || self.most_cores.is_some();
        let all = self.now.values().try_fold(0u64, |sum, cores| Some(sum.saturating_add((*cores)?)));
        self.most_cores = all.filter(|_| known).map(|all| all.max(self.most_cores.unwrap_or(0)));
        self.most_executors = self.most_executors.max(self.now.len());
    }

    pub(super) fn remove(&mut self, executor: &str) {
        self.now.remove(executor);
    }
}

/// How a log was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Inside a line.
    InLine,
    /// Inside of compressed data.
    InData(Codec),
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
    pub(super) started: Option<u64>,
    pub(super) ended: Option<u64>,
}

/// Letters of a description that make a name.
const NAME_LETTERS: usize = 40;

impl Execution {
    /// Its name, where the application gave it one: no line of code, no text over several lines.
    pub(super) fn name(&self) -> Option<&str> {
        let name = self.description.trim();
        let is_call_site = name.contains(" at ") && name.rsplit(':').next().is_some_and(is_number);
        let is_code = name.starts_with("//") || name.starts_with("import ");
        let fits = name.chars().count() <= NAME_LETTERS && !name.chars().any(char::is_control);
        (!name.is_empty() && !is_call_site && !is_code && fits).then_some(name)
    }
}

/// Letters of the name of a stage that are kept.
const STAGE_LETTERS: usize = 60;

/// The name of a stage, on one line and not too long; none where nothing is left.
pub(super) fn stage_name(text: &str) -> Option<String> {
    let line = text.split(|letter: char| letter.is_whitespace() || letter.is_control());
    // A description may be a whole program: more words than letters that are kept are not looked
    // at.
    let words = line.filter(|word| !word.is_empty()).take(STAGE_LETTERS + 1);
    let line = words.collect::<Vec<_>>().join(" ");
    let fits = line.char_indices().nth(STAGE_LETTERS).map(|(end, _)| format!("{}…", &line[..end]));
    Some(fits.unwrap_or(line)).filter(|name| !name.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A job.
pub(super) struct Job {
    pub(super) unit: Unit,
    /// When it was submitted; old versions of Spark do not say.
    pub(super) submitted: Option<u64>,
}

/// A stage; one that was skipped, because what it would have written was there, has no runs.
pub(super) struct StageLog {
    /// Stages whose output it reads; all have lower ids.
    pub(super) parents: Vec<u32>,
    /// Its last RDD, by which a skipped stage finds the one that ran in its place.
    pub(super) rdd: Option<u64>,
    /// Its name, without what would not fit a line.
    pub(super) name: Option<String>,
    /// The job that named it first, in which it ran.
    pub(super) job: Option<u64>,
    /// Its tasks, of all attempts, in the order in which they ended.
    pub(super) runs: Vec<Run>,
    /// The line that names it first.
    pub(super) spot: Spot,
}

impl StageLog {
    /// A stage of which only the id is known.
    pub(super) fn unknown(spot: Spot) -> Self {
        Self { parents: Vec::new(), rdd: None, name: None, job: None, runs: Vec::new(), spot }
    }
}

/// One attempt of one task.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) executor: u32,
    /// The attempt of its stage.
    pub(super) attempt: u32,
    /// Its place among the tasks of that attempt, and its partition of the stage, which old
    /// versions do not say.
    pub(super) index: u32,
    pub(super) partition: Option<u32>,
    pub(super) task: Option<u64>,
    pub(super) launched: u64,
    /// Never before `launched`.
    pub(super) finished: u64,
    pub(super) succeeded: bool,
    /// True if what it wrote was lost while its attempt ran, and was written again.
    pub(super) resubmitted: bool,
    /// Bytes written for later stages.
    pub(super) written: u64,
    /// Bytes read from elsewhere.
    pub(super) remote: u64,
    /// Of these, bytes of blocks that a push-based shuffle had merged.
    pub(super) merged: u64,
    /// Bytes read where they were written.
    pub(super) local: u64,
    /// Time waited for blocks.
    pub(super) wait_ms: u64,
}

impl Application {
    /// Whether anything says that an application has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.has_log_start || self.has_start || !self.jobs.is_empty()
    }

    /// The index of an executor, new or known.
    pub(super) fn executor(&mut self, name: &str, host: &str, hosts: &mut Hosts) -> u32 {
        let host = hosts.index(host);
        let next = self.executors.len() as u32;
        let index = *self.executor_index.entry((name.to_owned(), host)).or_insert(next);
        if index == next {
            self.executors.push((name.to_owned(), host));
        }
        index
    }

    /// The host of an executor.
    pub(super) fn host_of(&self, executor: u32) -> usize {
        self.executors[executor as usize].1
    }

    /// The query that a unit is, where the log has its beginning.
    pub(super) fn execution(&self, unit: &Unit) -> Option<&Execution> {
        match unit {
            Unit::Query(id) => self.executions.get(id),
            Unit::Job(_) => None,
        }
    }

    /// Returns whether an attempt of a stage is known as a whole: always, where the application
    /// ended in its log.
    pub(super) fn is_whole(&self, stage: u32, attempt: u32) -> bool {
        let job = self.stages.get(&stage).and_then(|stage| stage.job);
        let runs = job.is_some_and(|job| self.open_jobs.contains(&job));
        let key = (stage, attempt);
        self.ended || !(self.open_stages.contains(&key) || (runs && !self.ended_stages.contains(&key)))
    }

    /// The first piece of work that has begun and not ended, in words.
    pub(super) fn open_work(&self) -> Option<String> {
        let stage = self.open_stages.first().map(|(stage, _)| format!("stage {stage}"));
        stage.or_else(|| self.open_jobs.first().map(|job| format!("job {job}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(description: &str) -> Option<String> {
        let execution = Execution { description: description.to_owned(), started: None, ended: None };
        execution.name().map(str::to_owned)
    }

    #[test]
    fn the_name_of_a_stage_is_one_line_of_bounded_length() {
        assert_eq!(stage_name("count at Foo.scala:12").as_deref(), Some("count at Foo.scala:12"));
        assert_eq!(stage_name(" select 1\n  from\tt\u{7} ").as_deref(), Some("select 1 from t"));
        assert_eq!(stage_name(" \n"), None);
        assert_eq!(stage_name(&"ü".repeat(61)), Some(format!("{}…", "ü".repeat(60))));
        assert_eq!(stage_name(&"ü".repeat(60)), Some("ü".repeat(60)));
    }

    #[test]
    fn the_strength_of_an_application_is_the_most_that_it_had_at_a_time() {
        let mut strength = Strength::default();
        strength.add("1".to_owned(), Some(4));
        strength.add("2".to_owned(), Some(4));
        strength.remove("1");
        strength.add("3".to_owned(), Some(2));
        assert_eq!((strength.most_executors, strength.most_cores), (2, Some(8)));
        strength.add("4".to_owned(), None);
        strength.remove("4");
        strength.add("5".to_owned(), Some(1));
        assert_eq!((strength.most_executors, strength.most_cores), (3, None));
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

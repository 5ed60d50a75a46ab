//! The jobs file: a cluster and the jobs on it, as TOML.
//!
//! ```toml
//! [cluster]
//! hosts = 16
//! gpus = 8                    # of each host
//! nic = "200Gbps"
//! scale_up = "2400Gbps"
//!
//! [[job]]
//! name = "gpt"
//! workload = "gpt13b.txt"     # or steps, below
//! tensor = 8
//! iterations = 10
//! hosts = "0-15"
//!
//! [[job]]
//! name = "small"
//! hosts = "0,1"
//! gpus = "0-3"
//! arrival = "20ms"
//! step = [
//!     { compute = "3ms" },
//!     { collective = "all_reduce", bytes = "100MB" },
//! ]
//! ```
//!
//! Ranks are placed host by host, and within a host GPU by GPU, in the order in which both are
//! listed. Errors are reported with its line. Files of workloads are named here and read by the
//! caller.

use std::collections::BTreeSet;

use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, Oversubscription};
use cavalcade_spec::{Choice, nearest};
use serde::Deserialize;
use toml::Spanned;

use crate::aicb::Groups;
use crate::cluster::{Cluster, ClusterOptions, Gpu, Leaves};
use crate::collective::{Algorithm, CollectiveKind, GroupKind};
use crate::plan::Job;
use crate::program::{Program, ProgramError};
use crate::read::{Host, Options};
use crate::row::Row;

/// A jobs file that cannot be used, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}: {problem}")]
pub struct JobsError {
    /// The file, as the caller named it.
    pub source_name: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there, and what was expected.
    pub problem: String,
}

/// A jobs file, checked but for the files that it names.
#[derive(Clone, Debug, PartialEq)]
pub struct JobsFile {
    /// The cluster.
    pub cluster: Cluster,
    /// The jobs.
    pub jobs: Vec<JobText>,
}

/// A job of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct JobText {
    /// Its name.
    pub name: String,
    /// The line on which it begins.
    pub line: usize,
    /// What it does.
    pub work: JobWork,
    /// Its GPUs in order of rank.
    pub gpus: Vec<Gpu>,
    /// When it begins.
    pub arrival: Instant,
    /// How many iterations it has.
    pub iterations: u32,
    /// How its collectives go.
    pub algorithm: Algorithm,
}

/// Where what a job does is written.
#[derive(Clone, Debug, PartialEq)]
pub enum JobWork {
    /// In a file or folder, whose path counts from the folder of the jobs file.
    File {
        /// The path.
        path: String,
        /// What the file may leave out.
        options: Options,
    },
    /// In the jobs file.
    Steps(Program),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cluster: Spanned<ClusterText>,
    #[serde(default)]
    job: Vec<Spanned<Text>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterText {
    hosts: u32,
    gpus: u32,
    nics: Option<u32>,
    nic: Spanned<String>,
    scale_up: Option<Spanned<String>>,
    leaf_hosts: Option<u32>,
    spines: Option<u32>,
    oversubscription: Option<Spanned<String>>,
    by_rail: Option<bool>,
    alpha: Option<Spanned<String>>,
    scale_up_alpha: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    hosts: Option<Spanned<String>>,
    gpus: Option<Spanned<String>>,
    arrival: Option<Spanned<String>>,
    #[serde(default = "ten")]
    iterations: u32,
    algorithm: Option<Spanned<String>>,
    workload: Option<String>,
    #[serde(default)]
    step: Vec<Spanned<StepText>>,
    ranks: Option<u32>,
    tensor: Option<u32>,
    pipeline: Option<u32>,
    expert: Option<u32>,
    groups: Option<Spanned<String>>,
    #[serde(default)]
    overlap: bool,
    #[serde(default)]
    one_for_all: bool,
    host: Option<Spanned<String>>,
}

const fn ten() -> u32 {
    10
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    compute: Option<Spanned<String>>,
    collective: Option<Spanned<String>>,
    bytes: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
}

/// A problem at a byte of the text.
type Problem = (usize, String);

/// Reads a value of a unit.
fn unit<T: core::str::FromStr>(text: &Spanned<String>, example: &str) -> Result<T, Problem>
where
    T::Err: core::fmt::Display,
{
    let read = text.get_ref().parse::<T>();
    read.map_err(|error| (text.span().start, format!("{error}, as in {example:?}")))
}

fn optional<T: core::str::FromStr>(
    text: Option<&Spanned<String>>,
    example: &str,
) -> Result<Option<T>, Problem>
where
    T::Err: core::fmt::Display,
{
    text.map(|text| unit(text, example)).transpose()
}

/// Reads one of a few words.
fn word<T: Choice>(text: &Spanned<String>) -> Result<T, Problem> {
    let found = T::WORDS.iter().find(|(word, _)| word == text.get_ref());
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let near = nearest(text.get_ref(), words.iter().copied());
        let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        let problem = format!("{:?} is none of {}{near}", text.get_ref(), words.join(", "));
        (text.span().start, problem)
    })
}

/// The most numbers that a list names.
const MOST_LISTED: u64 = 1 << 20;

/// Reads a list such as `0-3,8`, in the order given.
fn list(text: &Spanned<String>) -> Result<Vec<u32>, Problem> {
    let bad = |what: &str| {
        let problem = format!("{what:?} is no list of numbers from 0, as in \"0-3,8\"");
        (text.span().start, problem)
    };
    let mut numbers = Vec::new();
    for part in text.get_ref().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad(part.trim()));
        let (first, last) = (number(first)?, number(last)?);
        let longer = numbers.len() as u64 + u64::from(last.saturating_sub(first));
        if first > last || longer >= MOST_LISTED {
            return Err(bad(part.trim()));
        }
        numbers.extend(first..=last);
    }
    let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
    if distinct.len() < numbers.len() {
        return Err((text.span().start, format!("{:?} names a number twice", text.get_ref())));
    }
    Ok(numbers)
}

impl JobsFile {
    /// Reads the text of a jobs file.
    ///
    /// # Errors
    /// The first thing found wrong, with its line.
    pub fn read(text: &str, source_name: &str) -> Result<Self, JobsError> {
        let line = |at: usize| 1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count();
        let error = |(at, problem): Problem| JobsError {
            source_name: source_name.to_owned(),
            line: line(at),
            problem,
        };
        let file: File = toml::from_str(text).map_err(|problem| {
            let at = problem.span().map_or(0, |span| span.start);
            error((at, problem.message().to_owned()))
        })?;
        let cluster = cluster(&file.cluster).map_err(error)?;
        let mut jobs = Vec::with_capacity(file.job.len());
        let mut names = BTreeSet::new();
        // Jobs share no GPU, so that together they cannot have more than there are.
        let mut free = u64::from(cluster.hosts()) * u64::from(cluster.gpus());
        for job in &file.job {
            let at = job.span().start;
            if !names.insert(&job.get_ref().name) {
                let problem = format!("job {} is there twice: names must be unique", job.get_ref().name);
                return Err(error((at, problem)));
            }
            let job = self::job(job, &cluster, free, line(at)).map_err(error)?;
            free = free.saturating_sub(job.gpus.len() as u64);
            jobs.push(job);
        }
        if jobs.is_empty() {
            return Err(error((0, "there are no jobs: expected at least one [[job]]".to_owned())));
        }
        Ok(Self { cluster, jobs })
    }
}

impl JobText {
    /// The job, with the program that was read where its work is in a file.
    pub fn with(self, program: Program) -> Job {
        let Self { name, gpus, arrival, iterations, algorithm, .. } = self;
        Job { name, program, gpus, arrival, iterations, algorithm }
    }
}

fn cluster(text: &Spanned<ClusterText>) -> Result<Cluster, Problem> {
    let at = text.span().start;
    let ClusterText { hosts, gpus, nics, leaf_hosts, spines, by_rail, .. } = *text.get_ref();
    let text = text.get_ref();
    let leaves = match (leaf_hosts, spines) {
        (None, None) => None,
        (Some(hosts), Some(spines)) => Some(Leaves {
            hosts,
            spines,
            oversubscription: optional(text.oversubscription.as_ref(), "2")?
                .unwrap_or(Oversubscription::NONE),
            by_rail: by_rail.unwrap_or(true),
        }),
        _ => return Err((at, "leaf_hosts and spines go together: give both or none".to_owned())),
    };
    if let (None, Some(alone)) = (leaves, &text.oversubscription) {
        return Err((alone.span().start, "oversubscription needs leaf_hosts and spines".to_owned()));
    }
    if let (None, Some(_)) = (leaves, by_rail) {
        return Err((at, "by_rail needs leaf_hosts and spines".to_owned()));
    }
    if let (None, Some(alone)) = (&text.scale_up, &text.scale_up_alpha) {
        return Err((alone.span().start, "scale_up_alpha needs scale_up".to_owned()));
    }
    let options = ClusterOptions {
        hosts,
        gpus,
        nics: nics.unwrap_or(gpus),
        nic: unit::<BitsPerSec>(&text.nic, "200Gbps")?,
        scale_up: optional(text.scale_up.as_ref(), "2400Gbps")?,
        leaves,
        alpha: optional(text.alpha.as_ref(), "2us")?.unwrap_or(Nanos::ZERO),
        scale_up_alpha: optional(text.scale_up_alpha.as_ref(), "1us")?.unwrap_or(Nanos::ZERO),
    };
    Cluster::new(&options).map_err(|error| (at, error.to_string()))
}

/// Reads a job where those before it leave so many GPUs `free`.
fn job(spanned: &Spanned<Text>, cluster: &Cluster, free: u64, line: usize) -> Result<JobText, Problem> {
    let (at, text) = (spanned.span().start, spanned.get_ref());
    let of_job = |problem: String| (at, format!("job {}: {problem}", text.name));
    let listed = |text: &Option<Spanned<String>>, all: u32| match text {
        Some(text) => list(text),
        None => Ok((0..all).collect()),
    };
    let (hosts, places) = (listed(&text.hosts, cluster.hosts())?, listed(&text.gpus, cluster.gpus())?);
    let count = hosts.len() as u64 * places.len() as u64;
    if count > MOST_LISTED {
        return Err(of_job(format!("{count} GPUs are too many: expected at most {MOST_LISTED}")));
    }
    let gpus: Vec<Gpu> =
        hosts.iter().flat_map(|&host| places.iter().map(move |&place| Gpu { host, place })).collect();
    if let Some(Gpu { host, place }) = gpus.iter().find(|gpu| !cluster.has(**gpu)) {
        let (hosts, gpus) = (cluster.hosts(), cluster.gpus());
        return Err(of_job(format!(
            "it is placed on GPU {place} of host {host}, and the cluster has {hosts} hosts with {gpus} GPUs: count both from 0"
        )));
    }
    if count > free {
        return Err(of_job(format!(
            "it is placed on {count} GPUs, and the jobs before it leave {free}: expected one job on each GPU"
        )));
    }
    if text.iterations == 0 {
        return Err(of_job("0 iterations: expected at least 1".to_owned()));
    }
    let ranks = gpus.len() as u32;
    if let Some(said) = text.ranks.filter(|&said| said != ranks) {
        return Err(of_job(format!("{said} ranks on {ranks} GPUs: expected one for each rank")));
    }
    let groups = text.groups.as_ref().map(word::<Groups>).transpose()?.unwrap_or_default();
    let options = Options {
        ranks: Some(ranks),
        tensor: text.tensor,
        pipeline: text.pipeline,
        expert: text.expert,
        groups,
        overlap: text.overlap,
        one_for_all: text.one_for_all,
        host: text.host.as_ref().map(word::<Host>).transpose()?.unwrap_or_default(),
    };
    let work = match (&text.workload, text.step.is_empty()) {
        (Some(path), true) => JobWork::File { path: path.clone(), options },
        (None, false) => {
            // Of what a file leaves out, steps have tensor groups alone.
            let Text { pipeline, expert, groups, overlap, one_for_all, host, .. } = text;
            let given = [
                ("pipeline", pipeline.is_some()),
                ("expert", expert.is_some()),
                ("groups", groups.is_some()),
                ("overlap", *overlap),
                ("one_for_all", *one_for_all),
                ("host", host.is_some()),
            ];
            if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
                return Err(of_job(format!(
                    "{key} says nothing of steps: it is for a workload; leave it out"
                )));
            }
            JobWork::Steps(steps(&text.step, ranks, text.tensor.unwrap_or(1))?)
        }
        _ => return Err(of_job("give either a workload or steps".to_owned())),
    };
    let arrival = optional::<Nanos>(text.arrival.as_ref(), "20ms")?.unwrap_or(Nanos::ZERO);
    Ok(JobText {
        name: text.name.clone(),
        line,
        work,
        gpus,
        arrival: Instant(arrival.get()),
        iterations: text.iterations,
        algorithm: text.algorithm.as_ref().map(word::<Algorithm>).transpose()?.unwrap_or_default(),
    })
}

/// The program of a job whose ranks all do the same, one step after the other.
fn steps(steps: &[Spanned<StepText>], ranks: u32, tensor: u32) -> Result<Program, Problem> {
    let first = steps[0].span().start;
    if tensor == 0 || !ranks.is_multiple_of(tensor) {
        return Err((first, format!("{ranks} ranks are not a multiple of tensor = {tensor}")));
    }
    let mut row = Row::new(ranks);
    for step in steps {
        let (at, step) = (step.span().start, step.get_ref());
        let failed = |error: ProgramError| (at, error.to_string());
        if let Some(duration) = optional::<Nanos>(step.compute.as_ref(), "3ms")? {
            row.compute(duration);
        }
        match (&step.collective, &step.bytes) {
            (None, None) if step.compute.is_some() && step.group.is_none() => {}
            (Some(kind), Some(bytes)) => {
                let (kind, bytes) = (word::<CollectiveKind>(kind)?, unit::<Bytes>(bytes, "100MB")?);
                let kind_of_group =
                    step.group.as_ref().map(word::<GroupKind>).transpose()?.unwrap_or(GroupKind::Data);
                let groups = || groups(kind_of_group, ranks, tensor);
                row.collective(kind_of_group, groups, kind, bytes).map_err(failed)?;
            }
            _ => {
                let problem = "a step is computation, a collective with bytes, or both in this order";
                return Err((at, problem.to_owned()));
            }
        }
    }
    row.program().map_err(|error| (first, error.to_string()))
}

/// Ranks that share a tensor group are neighbours; one of each is in a data group.
fn groups(kind: GroupKind, ranks: u32, tensor: u32) -> Vec<Vec<u32>> {
    match kind {
        GroupKind::Tensor => {
            (0..ranks / tensor).map(|group| (group * tensor..(group + 1) * tensor).collect()).collect()
        }
        GroupKind::Data => {
            (0..tensor).map(|shard| (shard..ranks).step_by(tensor as usize).collect()).collect()
        }
        _ => vec![(0..ranks).collect()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "[cluster]\nhosts = 2\ngpus = 4\nnic = \"8Gbps\"\n";

    fn read(jobs: &str) -> Result<JobsFile, JobsError> {
        JobsFile::read(&format!("{CLUSTER}{jobs}"), "jobs.toml")
    }

    #[test]
    fn ranks_are_placed_host_by_host_and_steps_go_in_order() {
        let file = read(
            "[[job]]\nname = \"a\"\nhosts = \"1,0\"\ngpus = \"0-1\"\ntensor = 2\n\
             step = [{ compute = \"3ms\", collective = \"all_reduce\", bytes = \"1MB\" },\n\
             { collective = \"all_gather\", bytes = \"1MB\", group = \"tensor\" }]\n",
        )
        .unwrap();
        let job = &file.jobs[0];
        let at = |host, place| Gpu { host, place };
        assert_eq!(job.gpus, [at(1, 0), at(1, 1), at(0, 0), at(0, 1)]);
        let JobWork::Steps(program) = &job.work else { panic!("it has steps") };
        let groups: Vec<&[u32]> = program.groups().iter().map(|group| &group.members[..]).collect();
        assert_eq!(groups, [[0, 2], [1, 3], [0, 1], [2, 3]]);
        assert_eq!((program.ops().len(), job.iterations, job.line), (8, 10, 5));
    }

    #[test]
    fn steps_of_more_ranks_than_can_be_written_out_stay_a_row() {
        let steps = "{ compute = \"1ms\" },".repeat(40);
        let text = format!(
            "[cluster]\nhosts = 1048576\ngpus = 1\nnic = \"8Gbps\"\n[[job]]\nname = \"a\"\nstep = [{steps}]\n"
        );
        let file = JobsFile::read(&text, "jobs.toml").unwrap();
        let JobWork::Steps(program) = &file.jobs[0].work else { panic!("it has steps") };
        assert_eq!((program.operations(), program.ops_alike().len()), (40 << 20, 40));
        let refused = program.check_operations().unwrap_err().to_string();
        assert!(
            refused.starts_with("1048576 ranks with up to 40 operations each are more than"),
            "{refused}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let job = |rest: &str| read(&format!("[[job]]\nname = \"a\"\n{rest}\n")).unwrap_err().to_string();
        let step = "step = [{ compute = \"1ms\" }]";
        for (found, said) in [
            (read("").unwrap_err().to_string(), "there are no jobs"),
            (job(""), ":5: job a: give either a workload or steps"),
            (job(&format!("iterations = 0\n{step}")), ":5: job a: 0 iterations"),
            (job("iteration = 3"), ":7: unknown field `iteration`"),
            (job(&format!("hosts = \"0-9\"\n{step}")), "GPU 0 of host 2, and the cluster has 2 hosts"),
            (job(&format!("gpus = \"3-1\"\n{step}")), ":7: \"3-1\" is no list of numbers"),
            (job(&format!("gpus = \"1,1\"\n{step}")), ":7: \"1,1\" names a number twice"),
            (job(&format!("algorithm = \"rings\"\n{step}")), "did you mean ring"),
            (job(&format!("ranks = 3\n{step}")), "3 ranks on 8 GPUs"),
            (job(&format!("tensor = 3\n{step}")), "8 ranks are not a multiple of tensor = 3"),
            (job("step = [{ compute = \"1 parsec\" }]"), ":7: "),
            (job("step = [{ collective = \"all_reduce\" }]"), "a collective with bytes"),
        ] {
            assert!(found.contains(said) && found.starts_with("jobs.toml:"), "{said}: {found}");
        }
        let other = format!("[[job]]\nname = \"b\"\ngpus = \"0\"\n{step}\n");
        let full = job(&format!("{step}\n{other}"));
        assert!(full.contains(":8: job b: it is placed on 2 GPUs, and the jobs before it leave 0"), "{full}");
        let twice = format!("[[job]]\nname = \"a\"\n{step}\n");
        assert!(read(&twice.repeat(2)).unwrap_err().to_string().contains("job a is there twice"));
        let spines = JobsFile::read("[cluster]\nhosts=1\ngpus=1\nnic=\"1Gbps\"\nspines=1\n", "j");
        assert!(spines.unwrap_err().to_string().contains("go together"));
    }
}

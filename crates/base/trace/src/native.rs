//! The native format: JSON Lines that carry all that a [`Workload`] can hold.
//!
//! The first line is a header, each further line a task. Blank lines are skipped; unknown fields
//! are refused.
//!
//! ```text
//! {"cavalcade_trace":1,"ports":8,"tasks":2}
//! {"name":"7","arrival_ns":0,"stages":[{"flows":[[0,4,1000],[1,4,1000,500]]}]}
//! {"name":"q1","arrival_ns":90,"deadline_ns":10000,"class":"background","weight":3,"stages":[
//!    {"flows":[[2,5,64]]},{"starts_after":[0],"compute_ns":2000},{"starts_after":[1],"finishes_after":[0],"flows":[[5,2,8]]}]}
//! ```
//!
//! | field | of | meaning |
//! |---|---|---|
//! | `cavalcade_trace` | header | version of this schema: 1 |
//! | `ports` | header | ports of the fabric; flows name them from 0 |
//! | `hosts` | header, optional | `[slots,speed_percent]` of the host behind each port; without it, computation never waits for a slot |
//! | `port_names` | header, optional | names of ports from 0 on, as hosts are called; an empty one, or none, is no name |
//! | `tasks` | header, optional | how many tasks follow, to notice a trace that was cut off |
//! | `name` | task | unique text |
//! | `job` | task, optional | number of the recurring job that it is a run of |
//! | `arrival_ns` | task | when it is submitted, in ns since the trace's start |
//! | `deadline_ns` | task, optional | time after arrival by which it should be done |
//! | `class` | task, optional | `online` (default) or `background` |
//! | `weight` | task, optional | weight in weighted means, at least 1 (default) |
//! | `waves_in_turn` | task, optional | `true` where a wave also waits for all flows of the waves before it in its coflow |
//! | `iterations` | task, optional | of a training job: `gpus`, `compute_ns` of each in an iteration, and `of_coflows`, the iteration of each coflow |
//! | `stages` | task | its stages, at least one; each either a transfer (`flows`) or computation (`compute_ns`) |
//! | `name` | stage, optional | unique name of its coflow; without it that is called after its task |
//! | `flows` | stage | `[src,dst,bytes]`, or `[src,dst,bytes,wave_ns]` for a flow that starts later than its coflow |
//! | `compute_ns` | stage | how long the computation takes, alone and at full speed |
//! | `host` | stage, optional | the port behind which it computes; it then needs a slot there if there are `hosts` |
//! | `starts_after` | stage, optional | indices of earlier stages that must be done first |
//! | `finishes_after` | stage, optional | indices of earlier stages before whose end this one must not end |
//!
//! A change that old readers would misread raises the version, which is looked at before anything
//! else.

use core::fmt;
use core::ops::Range;
use std::io::Write;

use cavalcade_model::{
    Bytes, Coflow, CoflowId, Compute, Flow, Host, Instant, Iterations, JobId, LATEST, Nanos, PortId, Stage,
    StageIndex, Task, TaskClass, TaskId, Work, Workload, WorkloadBuilder, WorkloadError,
};
use serde::de::{self, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Fault, TraceErrorKind, WriteError};
use crate::json::Values;
use crate::tokens::checked_ports;
use crate::{Content, ReadOptions, Reader, Syntax};

/// The version of the schema that is read and written.
pub const VERSION: u64 = 1;

const HEADER_EXAMPLE: &str = r#"a header like {"cavalcade_trace":1,"ports":8}"#;
const TASK_EXAMPLE: &str = r#"a task like {"name":"1","arrival_ns":0,"stages":[{"flows":[[0,4,1000]]}]}"#;

/// Header fields of every version.
#[derive(Deserialize)]
struct AnyHeader {
    cavalcade_trace: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderLine {
    cavalcade_trace: u64,
    ports: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<(u32, u32)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    port_names: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tasks: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskLine {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<u64>,
    arrival_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "ClassName::is_default")]
    class: ClassName,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    #[serde(default, skip_serializing_if = "is_no")]
    waves_in_turn: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iterations: Option<IterationsEntry>,
    stages: Vec<StageEntry>,
}

#[derive(Serialize, Deserialize, Clone, Copy, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClassName {
    #[default]
    Online,
    Background,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct StageEntry {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    starts_after: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finishes_after: Vec<u32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flows: Option<Vec<FlowEntry>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compute_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IterationsEntry {
    gpus: u32,
    compute_ns: u64,
    of_coflows: Vec<u32>,
}

impl IterationsEntry {
    fn of(iterations: &Iterations) -> Self {
        let Iterations { gpus, compute, of_coflows } = iterations.clone();
        Self { gpus, compute_ns: compute.0, of_coflows }
    }

    fn declared(self) -> Iterations {
        Iterations { gpus: self.gpus, compute: Nanos(self.compute_ns), of_coflows: self.of_coflows }
    }
}

/// A task on its way into a builder.
struct Parts {
    task: Task,
    transfers: Vec<Coflow>,
    /// Names of its coflows; empty if none has one.
    names: Vec<String>,
}

/// `[src, dst, bytes]` or `[src, dst, bytes, wave_ns]`.
struct FlowEntry(Flow);

impl ClassName {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

const fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_one(weight: &u32) -> bool {
    *weight == 1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_no(flag: &bool) -> bool {
    !*flag
}

impl Serialize for FlowEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Flow { src, dst, size, wave } = self.0;
        let later = wave > Nanos::ZERO;
        let mut list = serializer.serialize_seq(Some(3 + usize::from(later)))?;
        list.serialize_element(&src.0)?;
        list.serialize_element(&dst.0)?;
        list.serialize_element(&size.0)?;
        if later {
            list.serialize_element(&wave.0)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for FlowEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FlowVisitor;

        impl<'de> Visitor<'de> for FlowVisitor {
            type Value = FlowEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a flow [src,dst,bytes] or [src,dst,bytes,wave_ns]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FlowEntry, A::Error> {
                let missing = |length| de::Error::invalid_length(length, &self);
                let src = PortId(list.next_element()?.ok_or_else(|| missing(0))?);
                let dst = PortId(list.next_element()?.ok_or_else(|| missing(1))?);
                let size = Bytes(list.next_element()?.ok_or_else(|| missing(2))?);
                let wave = Nanos(list.next_element()?.unwrap_or(0));
                Ok(FlowEntry(Flow { src, dst, size, wave }))
            }
        }

        deserializer.deserialize_seq(FlowVisitor)
    }
}

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "native",
    recognises: |opening| opening.is_json() && !opening.is_event(),
    read: Reader::Text(|text, options| read(text, options).map(Content::from)),
    write: Some(|workload, out| write(workload, out)),
};

pub(crate) fn read(text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let (header, from) = read_header(text, options)?;
    let ports = options.ports.unwrap_or(header.ports);
    let mut builder = WorkloadBuilder::new(checked_ports(ports.into(), 0..from, options)?);
    let host = |&(slots, speed_percent): &(u32, u32)| Host { slots, speed_percent };
    let mut port_names = header.port_names;
    if let Some(ports) = options.ports {
        port_names.truncate(ports as usize);
    }
    builder.hosts(header.hosts.iter().map(host).collect()).port_names(port_names);
    let mut flows_left = options.limits.flows;
    let mut spans = Vec::new();
    for value in Values::<TaskLine>::new(text, from, TASK_EXAMPLE) {
        let (mut entry, span) = value?;
        let fault = |kind| Fault::of_line(span.clone(), kind);
        let flows: usize = entry.stages.iter().filter_map(|stage| stage.flows.as_ref()).map(Vec::len).sum();
        flows_left = flows_left
            .checked_sub(flows as u64)
            .ok_or_else(|| fault(TraceErrorKind::TooManyFlows { limit: options.limits.flows }))?;
        if entry.latest() > LATEST.0.into() {
            return Err(fault(TraceErrorKind::TooLate));
        }
        let in_turn = entry.waves_in_turn;
        let iterations = entry.iterations.take().map(IterationsEntry::declared);
        let Parts { task, transfers, names } = entry
            .into_parts()
            .map_err(|problem| fault(TraceErrorKind::Schema { problem, expected: TASK_EXAMPLE }))?;
        builder.push(task, transfers).waves_in_turn(in_turn).coflow_names(names);
        if let Some(iterations) = iterations {
            builder.iterations(iterations);
        }
        spans.push(span);
    }
    let (found, end) = (spans.len() as u64, text.len());
    if let Some(said) = header.tasks.filter(|&said| said != found) {
        let kind = if found < said {
            TraceErrorKind::TooFew { noun: "tasks", said, found }
        } else {
            TraceErrorKind::TooMany { noun: "tasks", said }
        };
        let span = spans.get(said as usize).cloned().unwrap_or(end..end);
        return Err(Fault::of_line(span, kind));
    }
    if found == 0 {
        return Err(Fault::new(end..end, TraceErrorKind::NoCoflows));
    }
    builder.build().map_err(|error| {
        let span = place_of(&error, text, &spans);
        Fault::of_line(span, TraceErrorKind::Workload(error))
    })
}

/// The header, and where it ends.
fn read_header(text: &str, options: &ReadOptions) -> Result<(HeaderLine, usize), Fault> {
    let first = Values::<HeaderLine>::new(text, 0, HEADER_EXAMPLE);
    let (AnyHeader { cavalcade_trace: found }, span) =
        first.peek()?.ok_or_else(|| Fault::new(0..0, TraceErrorKind::Empty))?;
    if found != VERSION {
        return Err(Fault::of_line(span, TraceErrorKind::Version { found, known: VERSION }));
    }
    let (header, span) = first.peek::<HeaderLine>()?.expect("it has been read as any header");
    if header.ports == 0 && options.ports.is_none() {
        return Err(Fault::of_line(span, TraceErrorKind::Workload(WorkloadError::NoPorts)));
    }
    Ok((header, span.end))
}

/// The part of the text with the task that an error names; with the second one where a name is
/// given twice.
fn place_of(error: &WorkloadError, text: &str, spans: &[Range<usize>]) -> Range<usize> {
    let (name, which) = match error {
        WorkloadError::DuplicateTask { task } => (task, 1),
        WorkloadError::PortOutOfRange { task, .. }
        | WorkloadError::EmptyFlow { task, .. }
        | WorkloadError::NoFlows { task, .. }
        | WorkloadError::NoStages { task }
        | WorkloadError::BadDependency { task, .. }
        | WorkloadError::UnknownStage { task, .. }
        | WorkloadError::TooLate { task }
        | WorkloadError::StrangeNames { task, .. }
        | WorkloadError::StrangeIterations { task, .. }
        | WorkloadError::DuplicateCoflow { task, .. }
        | WorkloadError::ZeroWeight { task } => (task, 0),
        WorkloadError::NoPorts
        | WorkloadError::TooLarge
        | WorkloadError::HostCount { .. }
        | WorkloadError::TooManyNames { .. }
        | WorkloadError::DuplicatePort { .. }
        | WorkloadError::BadHost { .. } => return 0..0,
    };
    // Names are escaped in the text, so the tasks are read again; this happens once, on the way
    // out.
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let has_name = |span: &&Range<usize>| {
        serde_json::from_str::<Named>(&text[(*span).clone()]).is_ok_and(|task| task.name == *name)
    };
    spans.iter().filter(has_name).nth(which).cloned().unwrap_or(0..0)
}

impl TaskLine {
    /// The latest time that the task names, with its stages taken one after the other.
    fn latest(&self) -> u128 {
        let length = |stage: &StageEntry| {
            let waves = stage.flows.iter().flatten().map(|entry| entry.0.wave.0).max();
            u128::from(waves.max(stage.compute_ns).unwrap_or(0))
        };
        let stages = self.stages.iter().map(length).sum::<u128>();
        u128::from(self.arrival_ns) + stages.max(self.deadline_ns.unwrap_or(0).into())
    }

    /// A task and its transfers for the builder, or what is wrong with a stage.
    fn into_parts(self) -> Result<Parts, String> {
        let (mut transfers, mut names) = (Vec::new(), Vec::new());
        let mut stages = Vec::with_capacity(self.stages.len());
        for (index, entry) in self.stages.into_iter().enumerate() {
            let work = match (entry.flows, entry.compute_ns) {
                (Some(_), None) if entry.host.is_some() => {
                    return Err(format!("stage {index} is a transfer with a host: only computation has one"));
                }
                (Some(flows), None) => {
                    names.push(entry.name);
                    transfers.push(Coflow { flows: flows.into_iter().map(|entry| entry.0).collect() });
                    Work::Transfer(CoflowId::default())
                }
                (None, Some(_)) if !entry.name.is_empty() => {
                    return Err(format!("stage {index} computes and has a name: only a coflow has one"));
                }
                (None, Some(nanos)) => {
                    Work::Compute(Compute { duration: Nanos(nanos), host: entry.host.map(PortId) })
                }
                _ => {
                    let what = "needs either flows or compute_ns, not both and not neither";
                    return Err(format!("stage {index} {what}"));
                }
            };
            stages.push(Stage {
                starts_after: entry.starts_after.into_iter().map(StageIndex).collect(),
                finishes_after: entry.finishes_after.into_iter().map(StageIndex).collect(),
                work,
            });
        }
        let task = Task {
            name: self.name,
            job: self.job.map(JobId),
            arrival: Instant(self.arrival_ns),
            deadline: self.deadline_ns.map(Nanos),
            class: match self.class {
                ClassName::Online => TaskClass::Online,
                ClassName::Background => TaskClass::Background,
            },
            weight: self.weight,
            stages,
        };
        if names.iter().all(String::is_empty) {
            names.clear();
        }
        Ok(Parts { task, transfers, names })
    }

    fn from_task(id: TaskId, workload: &Workload) -> Self {
        let task = workload.task(id);
        let indices = |stages: &[StageIndex]| stages.iter().map(|stage| stage.0).collect();
        let entry = |stage: &Stage| {
            let mut entry = StageEntry {
                starts_after: indices(&stage.starts_after),
                finishes_after: indices(&stage.finishes_after),
                ..StageEntry::default()
            };
            match stage.work {
                Work::Transfer(id) => {
                    entry.name = workload.given_coflow_name(id).unwrap_or_default().to_owned();
                    entry.flows = Some(workload.flows_of(id).iter().copied().map(FlowEntry).collect());
                }
                Work::Compute(Compute { duration, host }) => {
                    entry.compute_ns = Some(duration.0);
                    entry.host = host.map(|port| port.0);
                }
            }
            entry
        };
        TaskLine {
            name: task.name.clone(),
            job: task.job.map(|job| job.0),
            arrival_ns: workload.submitted(id).0,
            deadline_ns: task.deadline.map(Nanos::get),
            class: match task.class {
                TaskClass::Online => ClassName::Online,
                TaskClass::Background => ClassName::Background,
            },
            weight: task.weight,
            waves_in_turn: workload.waves_in_turn(id),
            iterations: workload.iterations(id).map(IterationsEntry::of),
            stages: task.stages.iter().map(entry).collect(),
        }
    }
}

pub(crate) fn write(workload: &Workload, out: &mut dyn Write) -> Result<(), WriteError> {
    let header = HeaderLine {
        cavalcade_trace: VERSION,
        ports: workload.ports(),
        hosts: workload.hosts().iter().map(|host| (host.slots, host.speed_percent)).collect(),
        port_names: workload.port_names().to_vec(),
        tasks: Some(workload.tasks().len() as u64),
    };
    serde_json::to_writer(&mut *out, &header).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    for task in (0..workload.tasks().len()).map(TaskId::from_index) {
        serde_json::to_writer(&mut *out, &TaskLine::from_task(task, workload))
            .map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

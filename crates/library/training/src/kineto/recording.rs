//! One rank's file, read as a stream: what ran on its GPU, and the details of its collectives.
//!
//! Of the events, which may fill gigabytes, those of the GPU are kept, a few words each, and of the
//! host's those that launch something or communicate. A collective's bytes stand on its kernel, on
//! the operation of its `External id`, or on the operation that launched it. Where none has them, a
//! kernel is known for communication by its name alone.
//!
//! Over PyTorch's fake process group no kernel communicates: operations of the host do so alone,
//! and copies that they launch only stand for what a real group would do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::calls::{ByLaunch, Call, Hosted, Said, calls};
use super::event::{Event, Kind, Meta, is_communication};
use super::iteration::is_all_to_all;
use crate::error::{Place, ReadError, ReadErrorKind};

/// The content of a rank's file.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) rank: Option<u32>,
    pub(super) world: Option<u32>,
    /// Ranks of process groups by name.
    pub(super) groups: BTreeMap<String, Vec<u32>>,
    /// Their descriptions, by their ranks.
    pub(super) descriptions: BTreeMap<Vec<u32>, String>,
    /// What ran on the GPU, by begin.
    pub(super) spans: Vec<GpuSpan>,
    /// Details of collectives, by the places that spans name.
    pub(super) metas: Vec<Meta>,
    /// Where nothing on the GPU communicates: what the host called.
    pub(super) calls: Vec<Call>,
    /// By what kernels were taken for communication.
    pub(super) told: Told,
    /// Copies that only stand for collectives, and are left out.
    pub(super) stand_ins: usize,
}

/// How many kernels were taken for communication, by what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// By their own details, or those of what was recorded with them.
    pub(super) metadata: usize,
    /// By the operation that launched them.
    pub(super) launch: usize,
    /// By their names alone.
    pub(super) name: usize,
}

/// A kernel or copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuSpan {
    /// When it began and ended, in nanoseconds.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// When the host launched it; its begin where that is not known.
    pub(super) launched: u64,
    pub(super) stream: u32,
    pub(super) what: Ran,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ran {
    /// Computation, or a copy.
    Computation,
    /// Communication with details.
    Collective(u32),
    /// Communication by its name.
    Unnamed,
}

/// Events as they come.
struct Collector<'r> {
    recording: &'r mut Recording,
    /// Details of collectives from operations of the processor, by external id.
    recorded: BTreeMap<u64, Meta>,
    /// Of each span what joins it with its launch, and with what was recorded with it.
    correlations: Vec<[Option<u64>; 2]>,
    /// Launches: what joins them with spans, their thread and time.
    launches: Vec<(u64, u64, u64)>,
    hosted: Vec<Hosted>,
    fault: Option<ReadErrorKind>,
}

impl Collector<'_> {
    fn take(&mut self, event: Event) -> Result<(), ReadErrorKind> {
        let Event { kind, name, thread, args, .. } = event;
        let (Some(begin), Some(lasts)) = (event.begin, event.lasts) else { return Ok(()) };
        let meta = || {
            let known = "those of PyTorch, as Float, Half, BFloat16, Long";
            args.meta().map_err(|found| ReadErrorKind::Unknown { what: "type", found, known })
        };
        let is_on_gpu = matches!(kind, Kind::Kernel | Kind::Copy);
        if begin < 0 || lasts < 0 {
            let by_ns = begin.min(lasts).unsigned_abs();
            return if is_on_gpu { Err(ReadErrorKind::Backwards { what: name, by_ns }) } else { Ok(()) };
        }
        let begin = begin.unsigned_abs();
        let end = begin.saturating_add(lasts.unsigned_abs());
        if is_on_gpu {
            let mut what = Ran::Computation;
            if kind == Kind::Kernel {
                if let Some(meta) = meta()? {
                    what = self.recording.collective(meta);
                    self.recording.told.metadata += 1;
                } else if is_communication(&name) {
                    what = Ran::Unnamed;
                }
            }
            let stream = args.small("stream").unwrap_or(0);
            self.recording.spans.push(GpuSpan { begin, end, launched: begin, stream, what });
            self.correlations.push(["correlation", "External id"].map(|name| args.number(name)));
            return Ok(());
        }
        let said = match kind {
            Kind::Launch => {
                self.launches.extend(args.number("correlation").map(|id| (id, thread, begin)));
                None
            }
            Kind::Comms => {
                let meta = meta()?;
                if let (Some(id), Some(meta)) = (args.number("External id"), &meta) {
                    self.recorded.insert(id, meta.clone());
                }
                Some(Said::Comms(meta.map(Box::new)))
            }
            Kind::Call => Said::call(&name, &args),
            _ => Said::mark(&name),
        };
        self.hosted.extend(said.map(|what| Hosted { thread, begin, end, what }));
        Ok(())
    }

    /// Joins kernels with what launched them, and puts all in order.
    fn finish(mut self) {
        let recording = self.recording;
        let calls = calls(self.hosted);
        self.launches.sort_unstable();
        let by_launch = ByLaunch::new(&calls);
        let mut launched = Vec::with_capacity(recording.spans.len());
        // Where several kernels are of one call, it is one collective all the same.
        let mut counted = BTreeSet::new();
        for (span, [correlation, external]) in self.correlations.iter().enumerate() {
            let launch = correlation.and_then(|id| {
                let place = self.launches.partition_point(|&(known, ..)| known < id);
                self.launches.get(place).filter(|&&(known, ..)| known == id)
            });
            let call = launch.and_then(|&(_, thread, at)| by_launch.call(thread, at));
            launched.push(call);
            recording.spans[span].launched = launch.map_or(recording.spans[span].begin, |&(.., at)| at);
            if recording.spans[span].what != Ran::Unnamed {
                continue;
            }
            let recorded = external.and_then(|id| self.recorded.get(&id)).cloned();
            let told = &mut recording.told;
            let called = call.and_then(|call| Some((call, call.meta.clone()?)));
            let (count, meta) = match (recorded, called) {
                (Some(meta), _) => (&mut told.metadata, Some(meta)),
                (None, Some((call, meta))) => {
                    let is_first = counted.insert((call.thread, call.begin));
                    (&mut told.launch, is_first.then_some(meta))
                }
                (None, None) => (&mut told.name, None),
            };
            *count += 1;
            if let Some(meta) = meta {
                recording.spans[span].what = recording.collective(meta);
            }
        }
        if recording.spans.iter().all(|span| span.what == Ran::Computation) {
            // What an operation launches that is no kernel of its own stands for the collective.
            let mut stands_in = launched.iter().map(Option::is_some);
            let all = recording.spans.len();
            recording.spans.retain(|_| !stands_in.next().unwrap_or(false));
            recording.stand_ins = all - recording.spans.len();
            recording.calls = calls;
        }
        recording.spans.sort_by_key(|span| (span.begin, span.end, span.stream));
    }
}

impl Recording {
    /// Keeps the details of a collective.
    fn collective(&mut self, meta: Meta) -> Ran {
        self.metas.push(meta);
        Ran::Collective(self.metas.len() as u32 - 1)
    }

    /// The details of all-to-alls, in order.
    pub(super) fn all_to_alls(&mut self) -> Vec<&mut Meta> {
        let mut metas: Vec<Option<&mut Meta>> = self.metas.iter_mut().map(Some).collect();
        let of_kernels = self.spans.iter().filter_map(|span| match span.what {
            Ran::Collective(meta) => metas[meta as usize].take(),
            Ran::Computation | Ran::Unnamed => None,
        });
        let mut all: Vec<&mut Meta> = of_kernels.filter(|meta| is_all_to_all(&meta.collective)).collect();
        let called = self.calls.iter_mut().filter(|call| is_all_to_all(&call.name));
        all.extend(called.filter_map(|call| call.meta.as_mut()));
        all
    }
}

impl<'de> DeserializeSeed<'de> for &mut Collector<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut Collector<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        while let Some(event) = events.next_element()? {
            // Whatever is wrong, the parser knows best where it is.
            if let Err(fault) = self.take(event) {
                let shown = fault.to_string();
                self.fault = Some(fault);
                return Err(serde::de::Error::custom(shown));
            }
        }
        Ok(())
    }
}

#[derive(Deserialize, Default)]
struct Distributed {
    rank: Option<u32>,
    world_size: Option<u32>,
    #[serde(default)]
    pg_config: Option<Value>,
}

struct Document<'c, 'r>(&'c mut Collector<'r>);

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut has_events = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => {
                    map.next_value_seed(&mut *self.0)?;
                    has_events = true;
                }
                "distributedInfo" => {
                    let about: Distributed = map.next_value()?;
                    let recording = &mut *self.0.recording;
                    (recording.rank, recording.world) = (about.rank, about.world_size);
                    let config = about.pg_config.as_ref();
                    recording.groups = config.map(|all| process_groups(all, "pg_name")).unwrap_or_default();
                    let described = config.map(|all| process_groups(all, "pg_desc")).unwrap_or_default();
                    recording.descriptions =
                        described.into_iter().map(|(description, ranks)| (ranks, description)).collect();
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(has_events)
    }
}

/// Ranks of process groups by their description.
fn process_groups(config: &Value, by: &str) -> BTreeMap<String, Vec<u32>> {
    let group = |entry: &Value| {
        let ranks = entry.get("ranks")?.as_array()?;
        let ranks = ranks.iter().map(|rank| u32::try_from(rank.as_u64()?).ok()).collect::<Option<_>>()?;
        Some((entry.get(by)?.as_str()?.to_owned(), ranks))
    };
    config.as_array().into_iter().flatten().filter_map(group).collect()
}

/// Reads a rank's file.
///
/// # Errors
/// If it is no such JSON, or an event cannot be, with line and column.
pub(super) fn read(name: &str, content: impl Read) -> Result<Recording, ReadError> {
    let mut recording = Recording { name: name.to_owned(), ..Recording::default() };
    let mut collector = Collector {
        recording: &mut recording,
        recorded: BTreeMap::new(),
        correlations: Vec::new(),
        launches: Vec::new(),
        hosted: Vec::new(),
        fault: None,
    };
    let mut json = serde_json::Deserializer::from_reader(content);
    let read = json.deserialize_map(Document(&mut collector)).and_then(|found| json.end().map(|()| found));
    let fault = collector.fault.take();
    match read {
        Err(error) => {
            let place = Place::Column(error.line() as u64, error.column() as u64);
            let kind = fault.unwrap_or_else(|| ReadErrorKind::of_json(&error));
            Err(ReadError::at(name, place, kind))
        }
        Ok(false) => {
            let found = "there is no list traceEvents in it".to_owned();
            let expected = "what torch.profiler exports for Chrome";
            Err(ReadError::of_whole(name, ReadErrorKind::Missing { found, expected }))
        }
        Ok(true) => {
            collector.finish();
            Ok(recording)
        }
    }
}

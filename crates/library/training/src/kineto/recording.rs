//! One rank's file, read as a stream: what ran on its GPU, and the details of its collectives.
//!
//! Of the events, which may fill gigabytes, those of the GPU are kept, a few words each. A collective's bytes stand on its
//! kernel, or on the operation of the processor that launched it, which `External id` joins. Where neither has them, a
//! kernel is known for communication by its name alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use cavalcade_model::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{Place, ReadError, ReadErrorKind};

/// The content of a rank's file.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) rank: Option<u32>,
    pub(super) world: Option<u32>,
    /// Ranks of process groups by name.
    pub(super) groups: BTreeMap<String, Vec<u32>>,
    /// What ran on the GPU, by begin.
    pub(super) spans: Vec<GpuSpan>,
    /// Details of collectives, by the places that spans name.
    pub(super) metas: Vec<Meta>,
}

/// A kernel or copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct GpuSpan {
    /// When it began and ended, in nanoseconds.
    pub(super) begin: u64,
    pub(super) end: u64,
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

/// The details of a collective.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Meta {
    pub(super) collective: String,
    pub(super) input: Bytes,
    pub(super) output: Bytes,
    /// Of an all-to-all: the parts that go to each member, in rows; empty where they are even.
    pub(super) splits: Vec<u64>,
    pub(super) group: String,
    pub(super) description: String,
    /// The ranks, as text, which is cut after 30.
    pub(super) ranks: String,
    pub(super) size: Option<u32>,
    pub(super) start: Option<u32>,
    pub(super) stride: Option<u32>,
    /// The root of a broadcast or reduce, as a rank.
    pub(super) root: Option<u32>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    ts: Option<Value>,
    #[serde(default)]
    dur: Option<Value>,
    #[serde(default)]
    args: Option<Args>,
}

/// Arguments of an event. Any may have any type in events of other kinds.
#[derive(Default)]
struct Args(BTreeMap<&'static str, Value>);

const COLLECTIVE: &str = "Collective name";

const NAMES: [&str; 14] = [
    COLLECTIVE,
    "External id",
    "stream",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "In split size",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Global rank start",
    "Global rank stride",
    "Src Rank",
];

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Named;

        impl<'de> Visitor<'de> for Named {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arguments")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Args, A::Error> {
                let mut args = Args::default();
                while let Some(key) = map.next_key::<String>()? {
                    match NAMES.iter().find(|name| **name == key) {
                        Some(name) => drop(args.0.insert(name, map.next_value()?)),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(args)
            }
        }

        deserializer.deserialize_map(Named)
    }
}

impl Args {
    fn number(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    fn small(&self, name: &str) -> Option<u32> {
        self.number(name).and_then(|number| u32::try_from(number).ok())
    }

    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        }
    }

    /// Returns the details of the collective; the error is a type that is not known.
    fn meta(&self) -> Result<Option<Meta>, String> {
        let collective = self.text(COLLECTIVE);
        if collective.is_empty() || collective == "wait" {
            return Ok(None);
        }
        let dtype = self.text("dtype");
        let elements = |name| self.number(name).unwrap_or(0);
        let counts = [elements("In msg nelems"), elements("Out msg nelems")];
        let each = match element_bytes(&dtype) {
            Some(each) => each,
            None if counts == [0, 0] => 1,
            None => return Err(dtype),
        };
        let [input, output] = counts.map(|count| Bytes(count.saturating_mul(each)));
        let splits = list(&self.text("In split size")).unwrap_or_default();
        Ok(Some(Meta {
            collective,
            input,
            output,
            splits,
            group: self.text("Process Group Name"),
            description: self.text("Process Group Description"),
            ranks: self.text("Process Group Ranks"),
            size: self.small("Group size"),
            start: self.small("Global rank start"),
            stride: self.small("Global rank stride"),
            root: self.small("Src Rank"),
        }))
    }
}

/// Bytes of an element of PyTorch's types.
fn element_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "Byte" | "Char" | "Bool" | "UInt8" | "Int8" => 1,
        _ if dtype.starts_with("Float8") => 1,
        "Half" | "BFloat16" | "Short" | "UInt16" => 2,
        "Float" | "Int" | "UInt32" | "ComplexHalf" => 4,
        "Double" | "Long" | "UInt64" | "ComplexFloat" => 8,
        "ComplexDouble" => 16,
        _ => return None,
    })
}

/// The numbers of a list that is written as text; `None` where it was cut.
pub(super) fn list(text: &str) -> Option<Vec<u64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?.trim();
    if inner.is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|number| number.trim().parse().ok()).collect()
}

/// Beginnings of names of kernels that communicate, in lower case.
const COMMUNICATION: [&str; 6] =
    ["nccl", "rccl", "mscclkernel", "nvshmem", "void deep_ep", "void vllm::cross_device_reduce"];

fn is_communication(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    COMMUNICATION.iter().any(|start| name.starts_with(start)) || name.contains("ep::internode::")
}

/// Events as they come.
struct Collector<'r> {
    recording: &'r mut Recording,
    /// Details of collectives from operations of the processor, by external id.
    launched: BTreeMap<u64, Meta>,
    /// Kernels whose launch may be found later.
    open: Vec<(usize, u64)>,
    fault: Option<ReadErrorKind>,
}

/// The time of an event, in nanoseconds.
fn nanos(value: Option<&Value>) -> Option<f64> {
    let value = value?;
    let micros = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    micros.is_finite().then_some(micros * 1000.0)
}

impl Collector<'_> {
    fn take(&mut self, event: Event) -> Result<(), ReadErrorKind> {
        let (name, args) = (event.name.unwrap_or_default(), event.args.unwrap_or_default());
        let meta = || {
            let known = "those of PyTorch, as Float, Half, BFloat16, Long";
            args.meta().map_err(|found| ReadErrorKind::Unknown { what: "type", found, known })
        };
        if name == "record_param_comms" {
            if let (Some(id), Some(meta)) = (args.number("External id"), meta()?) {
                self.launched.insert(id, meta);
            }
            return Ok(());
        }
        let is_kernel = match event.cat.as_deref().unwrap_or_default() {
            "kernel" | "Kernel" => true,
            "gpu_memcpy" | "gpu_memset" | "Memcpy" | "Memset" => false,
            _ => return Ok(()),
        };
        let (Some(begin), Some(lasts)) = (nanos(event.ts.as_ref()), nanos(event.dur.as_ref())) else {
            return Ok(());
        };
        if begin < 0.0 || lasts < 0.0 {
            let by_ns = (-begin.min(lasts)) as u64;
            return Err(ReadErrorKind::Backwards { what: name, by_ns });
        }
        let mut what = Ran::Computation;
        if is_kernel {
            if let Some(meta) = meta()? {
                what = Ran::Collective(self.recording.metas.len() as u32);
                self.recording.metas.push(meta);
            } else if is_communication(&name) {
                what = Ran::Unnamed;
                self.open.extend(args.number("External id").map(|id| (self.recording.spans.len(), id)));
            }
        }
        let (begin, end) = (begin as u64, (begin + lasts) as u64);
        let stream = args.small("stream").unwrap_or(0);
        self.recording.spans.push(GpuSpan { begin, end, stream, what });
        Ok(())
    }

    /// Joins kernels with what launched them, and puts all in order.
    fn finish(self) {
        for (span, id) in self.open {
            if let Some(meta) = self.launched.get(&id) {
                self.recording.spans[span].what = Ran::Collective(self.recording.metas.len() as u32);
                self.recording.metas.push(meta.clone());
            }
        }
        self.recording.spans.sort_by_key(|span| (span.begin, span.end, span.stream));
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
            // Whatever is wrong, the parser says best where it is.
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
                    recording.groups = about.pg_config.as_ref().map(process_groups).unwrap_or_default();
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(has_events)
    }
}

fn process_groups(config: &Value) -> BTreeMap<String, Vec<u32>> {
    let group = |entry: &Value| {
        let ranks = entry.get("ranks")?.as_array()?;
        let ranks = ranks.iter().map(|rank| u32::try_from(rank.as_u64()?).ok()).collect::<Option<_>>()?;
        Some((entry.get("pg_name")?.as_str()?.to_owned(), ranks))
    };
    config.as_array().into_iter().flatten().filter_map(group).collect()
}

/// Reads a rank's file.
///
/// # Errors
/// If it is no such JSON, or an event cannot be, with line and column.
pub(super) fn read(name: &str, content: impl Read) -> Result<Recording, ReadError> {
    let mut recording = Recording { name: name.to_owned(), ..Recording::default() };
    let mut collector =
        Collector { recording: &mut recording, launched: BTreeMap::new(), open: Vec::new(), fault: None };
    let mut json = serde_json::Deserializer::from_reader(content);
    let read = json.deserialize_map(Document(&mut collector)).and_then(|found| json.end().map(|()| found));
    let fault = collector.fault.take();
    match read {
        Err(error) => {
            let place = Place::Column(error.line() as u64, error.column() as u64);
            let kind = fault.unwrap_or_else(|| {
                let said = error.to_string();
                let problem = said.rsplit_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
                ReadErrorKind::Json { problem: problem.to_owned() }
            });
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

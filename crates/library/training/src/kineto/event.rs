//! One event of a recording, as far as it matters.
//!
//! Most events are the host's and of no use here, and their arguments fill most of a file: they are
//! passed over where what stands before them tells so.

use std::collections::BTreeMap;
use std::fmt;

use cavalcade_model::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// What an event is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// A kernel on the GPU.
    Kernel,
    /// A copy on the GPU.
    Copy,
    /// The host launches something.
    Launch,
    /// Details of a collective, recorded on the host.
    Comms,
    /// An operation of torch.distributed on the host, or NCCL's part of it.
    Call,
    /// A span of the host that tells who waits for collectives.
    Mark,
    /// Anything else.
    #[default]
    Other,
}

impl Kind {
    fn of(category: &str, name: &str) -> Self {
        match category {
            "kernel" | "Kernel" => return Self::Kernel,
            "gpu_memcpy" | "gpu_memset" | "Memcpy" | "Memset" => return Self::Copy,
            _ if category.starts_with("gpu_") => return Self::Other,
            _ => {}
        }
        let starts = |known: &[&str]| known.iter().any(|start| name.starts_with(start));
        match name {
            "record_param_comms" => Self::Comms,
            _ if starts(&["c10d::", "_c10d_functional::", "c10d_functional::", "nccl:"]) => Self::Call,
            _ if starts(&["FSDP::", "Optimizer.step#"]) => Self::Mark,
            _ if name.contains("aunch") || name.contains("Mem") => {
                let category = category.to_ascii_lowercase();
                let launches = category.contains("runtime") || category.contains("driver");
                if launches { Self::Launch } else { Self::Other }
            }
            _ => Self::Other,
        }
    }
}

/// An event.
#[derive(Default)]
pub(super) struct Event {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// The thread of the host.
    pub(super) thread: u64,
    /// When it begins and how long it lasts, in nanoseconds.
    pub(super) begin: Option<i64>,
    pub(super) lasts: Option<i64>,
    pub(super) args: Args,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Event;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
                let (mut event, mut category, mut name) = (Event::default(), None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "cat" => category = Some(map.next_value::<Option<String>>()?.unwrap_or_default()),
                        "name" => name = Some(map.next_value::<Option<String>>()?.unwrap_or_default()),
                        "tid" => event.thread = whole(&map.next_value()?).unwrap_or(0),
                        "ts" => event.begin = nanos(&map.next_value()?),
                        "dur" => event.lasts = nanos(&map.next_value()?),
                        "args" => {
                            let kind = category.as_ref().zip(name.as_ref());
                            if kind.is_some_and(|(category, name)| Kind::of(category, name) == Kind::Other) {
                                map.next_value::<IgnoredAny>()?;
                            } else {
                                event.args = map.next_value::<Option<Args>>()?.unwrap_or_default();
                            }
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                event.name = name.unwrap_or_default();
                event.kind = Kind::of(&category.unwrap_or_default(), &event.name);
                Ok(event)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A number that may be written as text.
fn whole(value: &Value) -> Option<u64> {
    let signed = || value.as_i64().map(i64::cast_unsigned);
    value.as_u64().or_else(signed).or_else(|| value.as_str()?.trim().parse().ok())
}

/// A time of an event, which is in microseconds, in nanoseconds. Whole ones of absolute clocks have
/// more digits than a fraction holds.
fn nanos(value: &Value) -> Option<i64> {
    if let Some(micros) = value.as_i64() {
        return Some(micros.saturating_mul(1_000));
    }
    let micros = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())?;
    micros.is_finite().then_some((micros * 1_000.0).round() as i64)
}

/// The details of a collective.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// The root of a broadcast or reduce, or who sent what is received, as a rank.
    pub(super) root: Option<u32>,
    /// Who receives what is sent, as a rank.
    pub(super) receiver: Option<u32>,
}

impl Meta {
    /// Whether it has nothing of its group, but perhaps the size.
    pub(super) fn names_no_group(&self) -> bool {
        self.group.is_empty() && self.ranks.is_empty()
    }
}

/// Arguments of an event. Any may have any type in events of other kinds.
#[derive(Default)]
pub(super) struct Args(BTreeMap<&'static str, Value>);

const COLLECTIVE: &str = "Collective name";

const NAMES: [&str; 19] = [
    COLLECTIVE,
    "External id",
    "correlation",
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
    "Dst Rank",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
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
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let value = self.0.get(name)?;
        value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
    }

    pub(super) fn small(&self, name: &str) -> Option<u32> {
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
    pub(super) fn meta(&self) -> Result<Option<Meta>, String> {
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
            receiver: self.small("Dst Rank"),
        }))
    }

    /// The elements of the `place`th input of an operation, of all tensors where it is a list;
    /// `None` where they were not recorded.
    pub(super) fn elements(&self, place: usize) -> Option<u64> {
        elements(self.0.get("Input Dims")?.get(place)?)
    }

    /// The elements of all inputs together.
    pub(super) fn all_elements(&self) -> Option<u64> {
        let inputs = self.0.get("Input Dims")?.as_array()?;
        let mut said = inputs.iter().filter_map(elements).peekable();
        said.peek()?;
        Some(said.fold(0, u64::saturating_add))
    }

    /// Bytes of an element of the first input that tells its type.
    pub(super) fn element_bytes(&self) -> Option<u64> {
        let types = self.0.get("Input type")?.as_array()?;
        types.iter().filter_map(Value::as_str).find_map(element_bytes)
    }

    /// The last truth value among the inputs of an operation: of those of torch.distributed whether
    /// others go on meanwhile.
    pub(super) fn last_truth(&self) -> Option<bool> {
        let inputs = self.0.get("Concrete Inputs")?.as_array()?;
        inputs.iter().rev().filter_map(Value::as_str).find_map(|text| match text {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        })
    }
}

/// The elements of a tensor by its sizes, or of a list of tensors. Nothing tells an empty list from
/// one that is not recorded.
fn elements(sizes: &Value) -> Option<u64> {
    let sizes = sizes.as_array().filter(|sizes| !sizes.is_empty())?;
    if sizes.iter().all(Value::is_array) {
        let sum = |sum: u64, tensor: &Value| {
            let empty = tensor.as_array().is_some_and(Vec::is_empty);
            Some(sum.saturating_add(if empty { 1 } else { elements(tensor)? }))
        };
        return sizes.iter().try_fold(0, sum);
    }
    sizes.iter().try_fold(1_u64, |product, size| Some(product.saturating_mul(size.as_u64()?)))
}

/// Bytes of an element of PyTorch's types, as Python or as C++ calls them.
fn element_bytes(dtype: &str) -> Option<u64> {
    let dtype = dtype.strip_prefix("c10::").unwrap_or(dtype);
    Some(match dtype {
        "Byte" | "Char" | "Bool" | "UInt8" | "Int8" => 1,
        "bool" | "unsigned char" | "signed char" => 1,
        _ if dtype.starts_with("Float8") => 1,
        "Half" | "BFloat16" | "Short" | "UInt16" | "short int" | "short" => 2,
        "Float" | "Int" | "UInt32" | "ComplexHalf" | "float" | "int" => 4,
        "Double" | "Long" | "UInt64" | "ComplexFloat" | "double" | "long int" | "long" | "complex<float>" => {
            8
        }
        "ComplexDouble" | "complex<double>" => 16,
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

/// Whether a kernel communicates, by its name.
pub(super) fn is_communication(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    COMMUNICATION.iter().any(|start| name.starts_with(start)) || name.contains("ep::internode::")
}

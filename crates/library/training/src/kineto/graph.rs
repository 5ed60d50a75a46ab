//! Execution traces of PyTorch beside recordings: the parts of all-to-alls, which many recordings
//! do not have.
//!
//! An execution trace has operations with their inputs and no times, so nothing else is taken of
//! it. What a collective records of itself there (`record_param_comms`) ends with its group, the
//! rank, its name, and the parts that go to and come from each member.
//!
//! # Which is which
//! A rank's trace is that of the recording of the same rank. Its all-to-alls are those of the
//! recording in order, of a group where both name it, and have their bytes; either may have some
//! before and behind. Where they fit in several ways, as one step fits in each of many, only parts
//! on which all ways agree are taken, of those that each way has. Sequence numbers would say it,
//! and recordings have none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use cavalcade_model::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::event::Meta;
use super::iteration::is_all_to_all;
use super::recording::Recording;
use crate::error::{Place, ReadError, ReadErrorKind};

/// The all-to-alls of a rank's execution trace, in order.
#[derive(Debug)]
pub(super) struct Graph {
    name: String,
    all_to_alls: Vec<AllToAll>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllToAll {
    /// The number of its node, which goes up with time.
    id: u64,
    /// Its rank in its group.
    rank: Option<u64>,
    /// The name of its group, where it has one.
    group: Option<String>,
    input: Bytes,
    output: Bytes,
    /// What goes to each member, in rows of the tensor; empty where all get as much.
    parts: Vec<u64>,
}

/// What was taken of execution traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Assigned {
    /// All-to-alls that got their parts from one.
    pub(super) all_to_alls: usize,
    /// Traces of which nothing was taken.
    pub(super) left_out: usize,
}

/// A node, of either form that PyTorch wrote.
#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    inputs: Value,
    #[serde(default)]
    outputs: Value,
}

impl Node {
    /// The all-to-all that it records, if it does.
    fn all_to_all(&self) -> Result<Option<AllToAll>, String> {
        if self.name != "record_param_comms" {
            return Ok(None);
        }
        let values = values(&self.inputs);
        let Some(at) = values.iter().position(Value::is_string) else { return Ok(None) };
        if !values[at].as_str().is_some_and(is_all_to_all) {
            return Ok(None);
        }
        let before = |places: usize| at.checked_sub(places).map(|place| &values[place]);
        let problem = |what: &str| format!("node {} is an all-to-all without {what}", self.id);
        let (input, elements) = before(4).and_then(tensors).ok_or_else(|| problem("its tensor"))?;
        let output = bytes_of(&self.outputs);
        let parts = values.get(at + 1).ok_or_else(|| problem("parts, be they none"))?;
        let parts = parts.as_array().and_then(|parts| parts.iter().map(Value::as_u64).collect());
        let parts: Vec<u64> = parts.ok_or_else(|| problem("whole numbers for its parts"))?;
        let sum = parts.iter().fold(0_u64, |sum, &part| sum.saturating_add(part));
        // Rows are of as many elements each.
        let are_rows = if sum == 0 { elements == 0 } else { elements % sum == 0 };
        if !parts.is_empty() && !are_rows {
            return Err(format!("node {} is an all-to-all of {elements} elements in {sum} rows", self.id));
        }
        let group = before(2).and_then(|group| group.get(0)?.as_str()).map(str::to_owned);
        let rank = before(1).and_then(Value::as_u64);
        Ok(Some(AllToAll { id: self.id, rank, group, input, output, parts }))
    }
}

/// Inputs or outputs, which stand alone or beside their types.
fn values(of: &Value) -> &[Value] {
    let values = of.as_array().or_else(|| of.get("values")?.as_array());
    values.map_or(&[], Vec::as_slice)
}

/// The bytes of all outputs, as far as they are tensors.
fn bytes_of(outputs: &Value) -> Bytes {
    let bytes = values(outputs).iter().filter_map(tensors).map(|(bytes, _)| bytes.0);
    Bytes(bytes.fold(0, u64::saturating_add))
}

/// Bytes and elements of a tensor, `[id, storage, offset, elements, bytes of each, device]`, or of
/// a list of them.
fn tensors(value: &Value) -> Option<(Bytes, u64)> {
    let fields = value.as_array()?;
    if let [first, ..] = &fields[..]
        && first.is_array()
    {
        return fields.iter().try_fold((Bytes::ZERO, 0_u64), |(bytes, elements), tensor| {
            let (more_bytes, more) = tensors(tensor)?;
            Some((Bytes(bytes.0.saturating_add(more_bytes.0)), elements.saturating_add(more)))
        });
    }
    let (elements, each) = (fields.get(3)?.as_u64()?, fields.get(4)?.as_u64()?);
    Some((Bytes(elements.saturating_mul(each)), elements))
}

/// Takes nodes as they come.
struct Nodes<'a>(&'a mut Vec<AllToAll>, &'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for Nodes<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Nodes<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<(), A::Error> {
        while let Some(node) = nodes.next_element::<Node>()? {
            match node.all_to_all() {
                Ok(found) => self.0.extend(found),
                Err(problem) => {
                    let shown = A::Error::custom(&problem);
                    *self.1 = Some(problem);
                    return Err(shown);
                }
            }
        }
        Ok(())
    }
}

struct Document<'a>(Nodes<'a>);

impl<'de> Visitor<'de> for Document<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with nodes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(Nodes(found, problem)) = self;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "nodes" => map.next_value_seed(Nodes(found, problem))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Reads an execution trace.
///
/// # Errors
/// If it is no such JSON, or an all-to-all cannot be, with line and column.
pub(super) fn read(name: &str, content: impl Read) -> Result<Graph, ReadError> {
    let (mut all_to_alls, mut problem) = (Vec::new(), None);
    let mut json = serde_json::Deserializer::from_reader(content);
    let document = Document(Nodes(&mut all_to_alls, &mut problem));
    let read = json.deserialize_map(document).and_then(|()| json.end());
    read.map_err(|error| {
        let place = Place::Column(error.line() as u64, error.column() as u64);
        let kind = match problem.take() {
            Some(problem) => ReadErrorKind::JsonValue { problem },
            None => ReadErrorKind::of_json(&error),
        };
        ReadError::at(name, place, kind)
    })?;
    // An operation within another ends, and is written, before it.
    all_to_alls.sort_by_key(|one| one.id);
    Ok(Graph { name: name.to_owned(), all_to_alls })
}

impl Graph {
    /// The file, as messages call it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The rank whose trace it is, of so many: by collectives of all of them, or by its name.
    fn rank(&self, world: u32) -> Result<Option<u32>, ReadError> {
        let of_all = self.all_to_alls.iter().filter(|one| one.parts.len() == world as usize);
        let said: BTreeSet<u64> = of_all.filter_map(|one| one.rank).collect();
        if said.len() > 1 {
            let problem = format!("its collectives of all ranks are of the ranks {said:?}");
            return Err(ReadError::of_whole(&self.name, ReadErrorKind::Contradiction { problem }));
        }
        let said = said.first().and_then(|&rank| u32::try_from(rank).ok());
        Ok(said.or_else(|| number_in(&self.name)).filter(|&rank| rank < world))
    }
}

/// The last number of a file's name.
fn number_in(name: &str) -> Option<u32> {
    let name = name.rsplit(['/', '\\']).next()?;
    let mut numbers = name.split(|letter: char| !letter.is_ascii_digit()).filter(|part| !part.is_empty());
    numbers.next_back()?.parse().ok()
}

/// Gives all-to-alls of recordings, which are those of all ranks in order, the parts that execution
/// traces have.
///
/// # Errors
/// If a trace is of several ranks, or two are of one.
pub(super) fn assign_parts(recordings: &mut [Recording], graphs: &[Graph]) -> Result<Assigned, ReadError> {
    let mut assigned = Assigned::default();
    let mut of_rank: BTreeMap<u32, &Graph> = BTreeMap::new();
    for graph in graphs {
        let rank = match graph.rank(recordings.len() as u32)? {
            Some(rank) if !graph.all_to_alls.is_empty() => rank,
            _ => {
                assigned.left_out += 1;
                continue;
            }
        };
        if let Some(other) = of_rank.insert(rank, graph) {
            let problem = format!("it is an execution trace of rank {rank}, and so is {}", other.name);
            return Err(ReadError::of_whole(&graph.name, ReadErrorKind::Contradiction { problem }));
        }
    }
    for (rank, graph) in of_rank {
        let count = assign_parts_of_rank(&mut recordings[rank as usize], graph);
        assigned.all_to_alls += count;
        assigned.left_out += usize::from(count == 0);
    }
    Ok(assigned)
}

/// Returns how many all-to-alls got their parts from a trace.
fn assign_parts_of_rank(recording: &mut Recording, graph: &Graph) -> usize {
    let metas = recording.all_to_alls();
    let are_named = metas.iter().all(|meta| !meta.group.is_empty())
        && graph.all_to_alls.iter().all(|one| one.group.is_some());
    let mut recorded: BTreeMap<String, Vec<&mut Meta>> = BTreeMap::new();
    for meta in metas {
        let group = if are_named { meta.group.clone() } else { String::new() };
        recorded.entry(group).or_default().push(meta);
    }
    let mut count = 0;
    for (group, mut metas) in recorded {
        let is_of_group = |one: &&AllToAll| !are_named || one.group.as_ref() == Some(&group);
        let said: Vec<&AllToAll> = graph.all_to_alls.iter().filter(is_of_group).collect();
        let found = joined(&metas, &said);
        for (meta, parts) in metas.iter_mut().zip(found) {
            // What a recording says itself is of itself.
            if let Some(parts) = parts.filter(|parts| meta.splits.is_empty() && !parts.is_empty()) {
                meta.splits = parts;
                count += 1;
            }
        }
    }
    count
}

/// The most looks at whether an all-to-all that was recorded is one of a trace: a second's worth.
/// Where more would be needed nothing is taken.
const MOST_LOOKS: usize = 1 << 28;

/// For each that was recorded the parts of the one that it is, where that is certain.
fn joined(recorded: &[&mut Meta], said: &[&AllToAll]) -> Vec<Option<Vec<u64>>> {
    let is_same = |meta: &Meta, one: &AllToAll| {
        let may_be = |a: Bytes, b: Bytes| a == b || a == Bytes::ZERO || b == Bytes::ZERO;
        meta.input == one.input && may_be(meta.output, one.output)
    };
    let length = recorded.len().min(said.len());
    // Either lies in the other.
    let ways =
        (0..=recorded.len() - length).flat_map(|first| (0..=said.len() - length).map(move |at| (first, at)));
    if length.saturating_mul(recorded.len().abs_diff(said.len()) + 1) > MOST_LOOKS {
        return vec![None; recorded.len()];
    }
    let fits = |&(first, at): &(usize, usize)| {
        recorded[first..][..length].iter().zip(&said[at..]).all(|(meta, one)| is_same(meta, one))
    };
    // In how many ways each has parts, and which, until two differ.
    let mut found: Vec<(usize, Option<&[u64]>)> = vec![(0, None); recorded.len()];
    let mut count = 0;
    for (first, at) in ways.filter(fits) {
        count += 1;
        for ((times, parts), one) in found[first..][..length].iter_mut().zip(&said[at..]) {
            *parts = Some(&one.parts[..]).filter(|own| *times == 0 || *parts == Some(*own));
            *times += 1;
        }
    }
    let certain =
        |(times, parts): (usize, Option<&[u64]>)| parts.filter(|_| times == count).map(<[u64]>::to_vec);
    found.into_iter().map(certain).collect()
}

#[cfg(test)]
mod tests;

//! Nodes of a Chakra trace as JSON, in either of its two forms.
//!
//! Chakra's feeder reads one object with a list `workload_graph`; its jsonizer writes the messages
//! of a binary trace as objects, one behind the other. Names, and what is a number or text, differ
//! between both and from version to version, so that all of them are taken. A file is read as a
//! stream: of a node what matters is kept.

use core::fmt;
use std::io::BufRead;

use serde::Deserializer;
use serde::de::{Deserialize, DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::messages::Node;
use crate::error::{Place, ReadError, ReadErrorKind};
use crate::program::check_size;

/// Whether a text begins as such a trace does.
pub(super) fn begins(text: &str) -> bool {
    let key = text.trim_start().strip_prefix('{').and_then(|rest| rest.trim_start().strip_prefix('"'));
    let key = key.and_then(|rest| rest.split('"').next());
    key.is_some_and(|key| ["workload_graph", "workload_name", "ngpus", "soc", "version"].contains(&key))
}

/// A number that may be written as text or as a truth value; `None` for one below zero, or none.
fn whole(value: &Value) -> Option<u64> {
    match value {
        Value::Bool(truth) => Some(u64::from(*truth)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => number.as_u64().or_else(|| {
            let fraction = number.as_f64().filter(|&fraction| fraction >= 0.0)?;
            Some(fraction.round() as u64)
        }),
        _ => None,
    }
}

/// A type of node, which may be written as its name.
fn kind(value: &Value) -> Option<u64> {
    let names =
        ["INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL"];
    let named = |text: &str| names.iter().position(|name| text.strip_suffix("_NODE") == Some(name));
    let named = value.as_str().and_then(named).map(|place| place as u64);
    named.or_else(|| whole(value))
}

/// A kind of collective, which may be written as its name.
fn comm_type(value: &Value) -> Option<u64> {
    const NAMES: [&str; 10] = [
        "ALL_REDUCE",
        "REDUCE",
        "ALL_GATHER",
        "GATHER",
        "SCATTER",
        "BROADCAST",
        "ALL_TO_ALL",
        "REDUCE_SCATTER",
        "REDUCE_SCATTER_BLOCK",
        "BARRIER",
    ];
    let named = value.as_str().and_then(|text| NAMES.iter().position(|name| *name == text));
    named.map(|place| place as u64).or_else(|| whole(value))
}

/// Something that a node cannot have.
fn odd<E: Error>(key: &str, value: &Value) -> E {
    E::custom(format!("{key} is {value}: expected a number"))
}

/// Attributes that matter.
const ATTRIBUTES: [&str; 8] =
    ["is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "num_ops", "pg_name"];

/// Takes an attribute.
fn attribute<E: Error>(node: &mut Node, key: &str, value: &Value) -> Result<(), E> {
    let number = || whole(value).ok_or_else(|| odd(key, value));
    match key {
        "is_cpu_op" => node.is_cpu_op = number()? != 0,
        "comm_type" => node.comm_type = Some(comm_type(value).ok_or_else(|| odd::<E>(key, value))?),
        "comm_size" => node.comm_size = number()?,
        "comm_src" => node.comm_src = Some(number()?),
        "comm_dst" => node.comm_dst = Some(number()?),
        "comm_tag" => node.comm_tag = number()?,
        "num_ops" => node.num_ops = number()?,
        "pg_name" => node.group = value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        _ => {}
    }
    Ok(())
}

/// An attribute of a message: a name, and a value under the name of its type.
struct Attribute(String, Value);

impl<'de> Deserialize<'de> for Attribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Attribute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an attribute")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attribute, A::Error> {
                let mut attribute = Attribute(String::new(), Value::Null);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "name" => attribute.0 = map.next_value()?,
                        "doc_string" | "docString" => drop(map.next_value::<IgnoredAny>()?),
                        _ => attribute.1 = map.next_value()?,
                    }
                }
                Ok(attribute)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// Nodes as they come.
struct Collector {
    nodes: Vec<Node>,
    ranks: u32,
    fault: Option<ReadErrorKind>,
}

impl Collector {
    fn push<E: Error>(&mut self, node: Node) -> Result<(), E> {
        let fits = check_size(self.ranks, self.nodes.len() + 1);
        fits.map_err(|error| self.fail(error.into()))?;
        self.nodes.push(node);
        Ok(())
    }

    /// Keeps what is wrong. Whatever it is, the parser knows best where it is.
    fn fail<E: Error>(&mut self, fault: ReadErrorKind) -> E {
        let shown = fault.to_string();
        self.fault = Some(fault);
        E::custom(shown)
    }

    /// Takes a field of a node; `false` for one that no node has.
    fn field<'de, A: MapAccess<'de>>(
        &mut self,
        node: &mut Node,
        key: &str,
        map: &mut A,
    ) -> Result<bool, A::Error> {
        match key {
            "id" | "Id" => {
                let value: Value = map.next_value()?;
                node.id = whole(&value).ok_or_else(|| odd(key, &value))?;
            }
            "name" | "Name" => node.name = map.next_value::<Option<String>>()?.unwrap_or_default(),
            "type" | "NodeType" => {
                let value: Value = map.next_value()?;
                let known = "the numbers 0 to 7, or their names as COMP_NODE";
                let found = value.to_string();
                let unknown = || ReadErrorKind::Unknown { what: "type of node", found, known };
                node.kind = kind(&value).filter(|&kind| kind < 8).ok_or_else(|| self.fail(unknown()))?;
            }
            "ctrl_deps" | "ctrlDeps" | "data_deps" | "dataDeps" => {
                let ids: Option<Vec<Value>> = map.next_value()?;
                for id in ids.unwrap_or_default() {
                    let edges = if key.starts_with('c') { &mut node.controls } else { &mut node.after };
                    edges.push(whole(&id).ok_or_else(|| odd(key, &id))?);
                }
            }
            "runtime" | "duration_micros" | "durationMicros" => {
                let value: Value = map.next_value()?;
                if let Some(below) = value.as_f64().filter(|&micros| micros < 0.0) {
                    let what = format!("node {}", node.id);
                    return Err(self.fail(ReadErrorKind::Backwards { what, by_ns: (-below * 1e3) as u64 }));
                }
                node.micros = whole(&value).ok_or_else(|| odd(key, &value))?;
            }
            "attr" => {
                for Attribute(name, value) in map.next_value::<Vec<Attribute>>()? {
                    attribute(node, &name, &value)?;
                }
                return Ok(false);
            }
            _ if ATTRIBUTES.contains(&key) => {
                attribute(node, key, &map.next_value()?)?;
                return Ok(false);
            }
            _ => {
                map.next_value::<IgnoredAny>()?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A node of the list.
struct Listed<'c>(&'c mut Collector);

impl<'de> DeserializeSeed<'de> for Listed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Listed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut node = Node::default();
        while let Some(key) = map.next_key::<String>()? {
            self.0.field(&mut node, &key, &mut map)?;
        }
        self.0.push(node)
    }
}

/// The list of nodes.
struct List<'c>(&'c mut Collector);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of nodes")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Listed(self.0))?.is_some() {}
        Ok(())
    }
}

/// An object of the file: about the trace, one node, or all of them.
struct Object<'c>(&'c mut Collector);

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with workload_graph, or one of a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut node, mut is_node) = (Node::default(), false);
        while let Some(key) = map.next_key::<String>()? {
            if key == "workload_graph" {
                map.next_value_seed(List(self.0))?;
            } else {
                is_node |= self.0.field(&mut node, &key, &mut map)?;
            }
        }
        if is_node { self.0.push(node) } else { Ok(()) }
    }
}

/// Reads the nodes of a rank's file, which is one of so many.
///
/// # Errors
/// If it is no such JSON, a node cannot be, or as many `ranks` with as many nodes are more than are
/// held, with line and column.
pub(super) fn nodes(name: &str, content: impl BufRead, ranks: u32) -> Result<Vec<Node>, ReadError> {
    let mut collector = Collector { nodes: Vec::new(), ranks, fault: None };
    let mut json = serde_json::Deserializer::from_reader(content);
    while json.end().is_err() {
        if let Err(error) = json.deserialize_map(Object(&mut collector)) {
            let place = Place::Column(error.line() as u64, error.column() as u64);
            let fault = collector.fault.take();
            let kind = fault.unwrap_or_else(|| ReadErrorKind::of_json(&error));
            return Err(ReadError::at(name, place, kind));
        }
    }
    Ok(collector.nodes)
}

#[cfg(test)]
mod tests;

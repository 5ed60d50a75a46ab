//! The messages of a Chakra trace: a length before each, the first about the trace, all others
//! nodes.
//!
//! Protobuf is read by hand: of two messages a few fields matter, kinds of attributes vary by who
//! wrote the file, and a generated reader would need a compiler at build time.

use std::io::BufRead;

use crate::error::{Place, ReadError, ReadErrorKind};
use crate::program::check_size;

/// A node, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) kind: u64,
    /// Nodes that it waits for: first for their data alone, and in the end for all.
    pub(super) after: Vec<u64>,
    /// Nodes that it stands behind in a program's order.
    pub(super) controls: Vec<u64>,
    pub(super) micros: u64,
    pub(super) is_cpu_op: bool,
    pub(super) comm_type: Option<u64>,
    pub(super) comm_size: u64,
    pub(super) comm_src: Option<u64>,
    pub(super) comm_dst: Option<u64>,
    pub(super) comm_tag: u64,
    pub(super) num_ops: u64,
    pub(super) group: String,
}

/// The longest message; nodes have some hundred bytes.
const LONGEST: u64 = 1 << 24;

/// What is wrong in a message.
type Problem = String;

/// A field's content.
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or("a number is cut off")?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], Problem> {
        let count = usize::try_from(count).ok().filter(|&count| count <= self.0.len());
        let (taken, rest) = self.0.split_at(count.ok_or("a field is longer than its message")?);
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Content<'a>)>, Problem> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let content = match key & 7 {
            0 => Content::Number(self.varint()?),
            1 => Content::Number(little_endian(self.take(8)?)),
            2 => {
                let length = self.varint()?;
                Content::Bytes(self.take(length)?)
            }
            5 => Content::Number(little_endian(self.take(4)?)),
            other => return Err(format!("a field has the wire type {other}")),
        };
        Ok(Some((key >> 3, content)))
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Node {
    fn read(bytes: &[u8]) -> Result<Self, Problem> {
        let (mut node, mut fields) = (Self::default(), Fields(bytes));
        while let Some((field, content)) = fields.next()? {
            match (field, content) {
                (1, Content::Number(id)) => node.id = id,
                (2, Content::Bytes(name)) => node.name = text(name),
                (3, Content::Number(kind)) => node.kind = kind,
                (4, Content::Number(before)) => node.controls.push(before),
                (5, Content::Number(before)) => node.after.push(before),
                (4 | 5, Content::Bytes(packed)) => {
                    let edges = if field == 4 { &mut node.controls } else { &mut node.after };
                    let mut packed = Fields(packed);
                    while !packed.0.is_empty() {
                        edges.push(packed.varint()?);
                    }
                }
                (7, Content::Number(micros)) => node.micros = micros,
                (10, Content::Bytes(attribute)) => node.attribute(attribute)?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// Takes an attribute, whatever kind of number its writer chose.
    fn attribute(&mut self, bytes: &[u8]) -> Result<(), Problem> {
        let (mut name, mut number, mut word) = (String::new(), None, None);
        let mut fields = Fields(bytes);
        while let Some((field, content)) = fields.next()? {
            match (field, content) {
                (1, Content::Bytes(given)) => name = text(given),
                // Zigzag, as sint32 and sint64 have it.
                (15 | 17, Content::Number(value)) => number = Some(value >> 1),
                (3 | 5, Content::Number(_)) => {}
                (4..=27, Content::Number(value)) => number = Some(value),
                (29, Content::Bytes(value)) => word = Some(text(value)),
                _ => {}
            }
        }
        let amount = number.unwrap_or(0);
        match name.as_str() {
            "is_cpu_op" => self.is_cpu_op = amount != 0,
            "comm_type" => self.comm_type = number,
            "comm_size" => self.comm_size = amount,
            "comm_src" => self.comm_src = number,
            "comm_dst" => self.comm_dst = number,
            "comm_tag" => self.comm_tag = amount,
            "num_ops" => self.num_ops = amount,
            "pg_name" => self.group = word.unwrap_or_else(|| amount.to_string()),
            _ => {}
        }
        Ok(())
    }
}

/// Reads the nodes of a rank's file, which is one of so many.
///
/// # Errors
/// If it is cut off, no such file, or as many `ranks` with as many nodes are more than are held,
/// with the byte at which a message begins.
pub(super) fn nodes(name: &str, mut content: impl BufRead, ranks: u32) -> Result<Vec<Node>, ReadError> {
    let (mut nodes, mut at, mut buffer, mut is_first) = (Vec::new(), 0, Vec::new(), true);
    loop {
        let begin = at;
        let wrong =
            |problem: Problem| ReadError::at(name, Place::Byte(begin), ReadErrorKind::Binary { problem });
        let Some(length) = length(&mut content, &mut at).map_err(wrong)? else { return Ok(nodes) };
        if length > LONGEST {
            return Err(wrong(format!("a message is said to have {length} bytes, more than {LONGEST}")));
        }
        buffer.clear();
        let mut limited = std::io::Read::take(&mut content, length);
        let read = std::io::Read::read_to_end(&mut limited, &mut buffer);
        let read = read.map_err(|error| wrong(error.to_string()))? as u64;
        if read < length {
            return Err(wrong(format!("a message of {length} bytes has {read}")));
        }
        at += length;
        if !core::mem::take(&mut is_first) {
            // A node may have no byte, and takes some hundred in memory.
            let fits = check_size(ranks, nodes.len() + 1);
            fits.map_err(|error| ReadError::at(name, Place::Byte(begin), error.into()))?;
            nodes.push(Node::read(&buffer).map_err(wrong)?);
        }
    }
}

/// The length before a message; `None` at the end of the file.
fn length(content: &mut impl BufRead, at: &mut u64) -> Result<Option<u64>, Problem> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = content.fill_buf().map_err(|error| error.to_string())?.first().copied();
        let Some(byte) = next else {
            return if shift == 0 { Ok(None) } else { Err("a length is cut off".to_owned()) };
        };
        content.consume(1);
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(Some(value));
        }
    }
    Err("a length has more than 64 bits".to_owned())
}

//! The format of the Sincronia implementation (github.com/sincronia-coflow): coflows of any flows.
//!
//! ```text
//! ports coflows
//! id arrival_ms #flows #sources #destinations (source destination MB)…
//! ```
//!
//! An MB is 2²⁰ bytes. Ports number from 0. What the published files show:
//! - `#sources` and `#destinations` are often not the numbers of distinct ports (in 54 of the 200
//!   coflows of one file), so they are read as numbers and believed by no one; the writer gives the
//!   true ones.
//! - A pair of ports may occur twice in a coflow (9 of those 200); such flows are kept apart.
//! - There is no flow from a port to itself: what stayed in a port was dropped before publication.
//!
//! Sizes and times may have decimals and exponents, as in [`crate::coflow_benchmark`].

use std::collections::BTreeSet;
use std::io::Write;

use cavalcade_model::{Flow, Nanos, Workload};

use crate::coflow_lines::{CoflowLine, CoflowReader, Room};
use crate::decimal::{Megabytes, Millis};
use crate::error::{Expectation, Fault, WriteError};
use crate::flow_list::check_plain;
use crate::tokens::{Tokens, megabytes, whole_number};
use crate::{Format, Opening, Reader, Syntax};

const LINE: &str = "a line reads `id arrival_ms #flows #sources #destinations (source destination MB)…`";
const CUT: &str = "the line is cut off, or its number of flows is wrong";

const ID: Expectation = Expectation::new("the coflow's id", LINE);
const ARRIVAL: Expectation = Expectation::new(
    "the arrival in milliseconds (not negative, at most six decimals, below 146 years)",
    LINE,
);
const FLOWS: Expectation =
    Expectation::new("the number of flows, at least 1", "remove the coflow if it moves nothing");
const SOURCES: Expectation = Expectation::new("the number of sources", LINE);
const DESTINATIONS: Expectation = Expectation::new("the number of destinations", LINE);
const SOURCE: Expectation = Expectation::new("a flow's source port", CUT);
const DESTINATION: Expectation = Expectation::new("a flow's destination port", CUT);
const SIZE: Expectation = Expectation::new(
    "a flow's size in MB, above 0 and at most 2^43",
    "remove flows that carry nothing, and check that sizes are in MB",
);
const END: Expectation = Expectation::new("the end of the line after the last flow", CUT);

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "sincronia",
    recognises: |opening| opening.is_header() && continues(opening),
    read: Reader::Coflows(CoflowReader::new(coflow)),
    write: Some(|workload, out| write(workload, out)),
};

/// Tells the line behind a header from one of coflow-benchmark: that has reducers with a colon, or
/// says at its end that it has none.
pub(crate) fn continues(opening: &Opening<'_>) -> bool {
    let words: Vec<&str> = opening.second.split_ascii_whitespace().collect();
    let mappers = words.get(2).and_then(|count| count.parse::<usize>().ok());
    let without_reducers =
        words.last() == Some(&"0") && mappers.is_some_and(|mappers| words.len() == mappers.saturating_add(4));
    !words.is_empty() && !opening.second.contains(':') && !without_reducers
}

fn coflow<'t>(tokens: &mut Tokens<'t>, room: &mut Room) -> Result<CoflowLine<'t>, Fault> {
    let name = tokens.name(&ID)?;
    let arrival = tokens.millis(&ARRIVAL)?;
    let word = tokens.expect(&FLOWS)?;
    let count = whole_number(word.text).filter(|&count| count > 0).ok_or_else(|| word.unexpected(&FLOWS))?;
    room.take(Some(count), name)?;
    tokens.number(&SOURCES)?;
    tokens.number(&DESTINATIONS)?;
    let mut flows = Vec::with_capacity(count.min(tokens.left() as u64 / 6 + 1) as usize);
    for _ in 0..count {
        flows.push(flow(tokens, room.ports)?);
    }
    tokens.end_line(&END)?;
    Ok(CoflowLine { name, arrival, flows })
}

fn flow(tokens: &mut Tokens<'_>, ports: u32) -> Result<Flow, Fault> {
    let src = tokens.port(ports, &SOURCE)?;
    let dst = tokens.port(ports, &DESTINATION)?;
    let word = tokens.expect(&SIZE)?;
    Ok(Flow { src, dst, size: megabytes(word, word.text, 1, &SIZE)?, wave: Nanos::ZERO })
}

pub(crate) fn write(workload: &Workload, out: &mut dyn Write) -> Result<(), WriteError> {
    for coflow in workload.coflows() {
        check_plain(coflow.task, Format::SINCRONIA)?;
        if let Some(flow) = coflow.flows.iter().find(|flow| flow.wave > Nanos::ZERO) {
            return Err(WriteError::CannotCarry {
                task: coflow.task.name.clone(),
                format: Format::SINCRONIA,
                what: format!("a flow that starts {} after its coflow", flow.wave),
                instead: Format::FLOW_LIST,
            });
        }
    }
    writeln!(out, "{} {}", workload.ports(), workload.coflow_count())?;
    for coflow in workload.coflows() {
        let sources: BTreeSet<_> = coflow.flows.iter().map(|flow| flow.src).collect();
        let destinations: BTreeSet<_> = coflow.flows.iter().map(|flow| flow.dst).collect();
        let arrival = Millis(coflow.submitted.0);
        write!(out, "{} {arrival} {}", coflow.task.name, coflow.width())?;
        write!(out, " {} {}", sources.len(), destinations.len())?;
        for flow in coflow.flows {
            let size = Megabytes { bytes: u128::from(flow.size.0), places: 0 };
            write!(out, " {} {} {size}", flow.src, flow.dst)?;
        }
        writeln!(out)?;
    }
    Ok(out.flush()?)
}

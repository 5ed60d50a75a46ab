//! The format of the Facebook trace (github.com/coflow/coflow-benchmark): coflows of mappers and
//! reducers.
//!
//! ```text
//! ports coflows
//! id arrival_ms #mappers mapper… #reducers reducer:MB…
//! ```
//!
//! An MB is 2²⁰ bytes and counts what a reducer gets from all mappers. Ports number from 0. Mapper
//! and reducer may be on one port (in the Facebook trace 0.7 % of the bytes never leave their
//! rack); such flows are kept.
//!
//! # What is decided here
//! - **Equal shares.** Every mapper sends the same whole number of bytes to a reducer: the share to
//!   the nearest byte, and at least one. The sum may so differ from what the trace says by half a
//!   byte per mapper. The alternative, to hand out the remainder byte by byte, is exact, but splits
//!   flows that finish together into two moments, which no one wants to see and which every engine
//!   pays for. The Facebook trace has whole shares throughout.
//! - A port named twice among the mappers (or reducers) of a coflow is two mappers, each with its
//!   share. The published traces have merged them beforehand.
//! - Sizes and times may have decimals and exponents; they are read exactly. Other programs read
//!   whole milliseconds only, so decimals are written only where there is something behind the
//!   point.
//! - Flows are ordered by reducer, then mapper, as the line gives them.

use std::io::{self, Write};

use cavalcade_model::{Bytes, CoflowRef, Flow, Nanos, PortId, Workload};

use crate::coflow_lines::{CoflowLine, CoflowReader, Room};
use crate::decimal::{Megabytes, Millis};
use crate::error::{Expectation, Fault, WriteError};
use crate::flow_list::check_plain;
use crate::tokens::{Tokens, Word, megabytes, port};
use crate::{Format, Reader, Syntax, sincronia};

const LINE: &str = "a line reads `id arrival_ms #mappers mapper… #reducers reducer:MB…`";
const CUT: &str = "the line is cut off, or its number of mappers or reducers is wrong";

const ID: Expectation = Expectation::new("the coflow's id", LINE);
const ARRIVAL: Expectation = Expectation::new(
    "the arrival in milliseconds (not negative, at most six decimals, below 146 years)",
    LINE,
);
const MAPPERS: Expectation =
    Expectation::new("the number of mappers, at least 1", "remove the coflow if it moves nothing");
const MAPPER: Expectation = Expectation::new("a mapper's port", CUT);
const REDUCERS: Expectation =
    Expectation::new("the number of reducers, at least 1", "remove the coflow if it moves nothing");
const REDUCER: Expectation = Expectation::new("a reducer as `port:MB`", CUT);
const SIZE: Expectation = Expectation::new(
    "a reducer as `port:MB` with MB above 0 and at most 2^43",
    "remove reducers that receive nothing",
);
const NO_SIZE: Expectation = Expectation::new(
    "a reducer as `port:MB` with MB above 0 and at most 2^43",
    "write the size in MB, as 12.5, and not in bytes",
);
const END: Expectation = Expectation::new("the end of the line after the last reducer", CUT);

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "coflow-benchmark",
    recognises: |opening| opening.is_header() && !sincronia::continues(opening),
    read: Reader::Coflows(CoflowReader::new(coflow)),
    write: Some(|workload, out| write(workload, out)),
};

fn coflow<'t>(tokens: &mut Tokens<'t>, room: &mut Room) -> Result<CoflowLine<'t>, Fault> {
    let name = tokens.name(&ID)?;
    let arrival = tokens.millis(&ARRIVAL)?;
    let mut mappers = Vec::new();
    for _ in 0..count(tokens, &MAPPERS)? {
        mappers.push(tokens.port(room.ports, &MAPPER)?);
    }
    let reducers = count(tokens, &REDUCERS)?;
    room.take(reducers.checked_mul(mappers.len() as u64), name)?;
    // A line that promises more reducers than it has bytes fails below, before it has cost that
    // memory.
    let promised = reducers.min(tokens.left() as u64 / 2) as usize;
    let mut flows = Vec::with_capacity(promised * mappers.len());
    for _ in 0..reducers {
        let (dst, size) = reducer(tokens.expect(&REDUCER)?, room.ports, mappers.len())?;
        flows.extend(mappers.iter().map(|&src| Flow { src, dst, size, wave: Nanos::ZERO }));
    }
    tokens.end_line(&END)?;
    Ok(CoflowLine { name, arrival, flows })
}

/// A reducer's port and each mapper's share of its bytes.
fn reducer(word: Word<'_>, ports: u32, mappers: usize) -> Result<(PortId, Bytes), Fault> {
    let (name, size) = word.text.split_once(':').ok_or_else(|| word.unexpected(&REDUCER))?;
    let dst = port(Word { text: name, offset: word.offset }, ports, &REDUCER)?;
    // Two ways to be wrong, each with its cure.
    let expected = if size.parse() == Ok(0.0) { &SIZE } else { &NO_SIZE };
    Ok((dst, megabytes(word, size, mappers as u64, expected)?))
}

fn count(tokens: &mut Tokens<'_>, expected: &'static Expectation) -> Result<u64, Fault> {
    let word = tokens.expect(expected)?;
    crate::tokens::whole_number(word.text).filter(|&count| count > 0).ok_or_else(|| word.unexpected(expected))
}

pub(crate) fn write(workload: &Workload, out: &mut dyn Write) -> Result<(), WriteError> {
    // Written to memory first, because only the last coflow shows whether the format can carry them
    // all.
    let mut text = Vec::new();
    writeln!(text, "{} {}", workload.ports(), workload.coflow_count())?;
    for coflow in workload.coflows() {
        check_plain(coflow.task, Format::COFLOW_BENCHMARK)?;
        let shape = Shape::of(coflow)?;
        shape.write(coflow, &mut text)?;
    }
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// A coflow as mappers and reducers, in the order in which its flows name them.
struct Shape {
    mappers: Vec<PortId>,
    /// Each reducer and the bytes that every mapper sends it.
    reducers: Vec<(PortId, Bytes)>,
}

impl Shape {
    /// Finds the shape, or what keeps the coflow from having one.
    fn of(coflow: CoflowRef<'_>) -> Result<Self, WriteError> {
        let refuse = |what: String, instead| WriteError::CannotCarry {
            task: coflow.task.name.clone(),
            format: Format::COFLOW_BENCHMARK,
            what,
            instead,
        };
        if let Some(flow) = coflow.flows.iter().find(|flow| flow.wave > Nanos::ZERO) {
            return Err(refuse(
                format!("a flow that starts {} after its coflow", flow.wave),
                Format::FLOW_LIST,
            ));
        }
        let mappers = in_order_of_appearance(coflow.flows.iter().map(|flow| flow.src));
        let targets = in_order_of_appearance(coflow.flows.iter().map(|flow| flow.dst));
        let mut pairs: Vec<(PortId, PortId)> = coflow.flows.iter().map(|flow| (flow.dst, flow.src)).collect();
        pairs.sort_unstable();
        if let Some(pair) = pairs.windows(2).find(|pair| pair[0] == pair[1]) {
            let (dst, src) = pair[0];
            let what = format!("several flows from port {src} to port {dst}");
            return Err(refuse(what, Format::SINCRONIA));
        }
        if pairs.len() != mappers.len() * targets.len() {
            let what = "flows that are not from every mapper to every reducer".to_owned();
            return Err(refuse(what, Format::SINCRONIA));
        }
        let mut reducers: Vec<(PortId, Option<Bytes>)> = targets.iter().map(|&dst| (dst, None)).collect();
        let mut rank: Vec<(PortId, usize)> = targets.iter().copied().zip(0..).collect();
        rank.sort_unstable();
        for flow in coflow.flows {
            let at = rank.binary_search_by_key(&flow.dst, |&(dst, _)| dst).expect("every dst is a reducer");
            let share = reducers[rank[at].1].1.get_or_insert(flow.size);
            if *share != flow.size {
                let what = format!("flows of different sizes into port {}", flow.dst);
                return Err(refuse(what, Format::SINCRONIA));
            }
        }
        let reducers = reducers.into_iter().map(|(dst, share)| (dst, share.unwrap_or_default())).collect();
        Ok(Self { mappers, reducers })
    }

    fn write(&self, coflow: CoflowRef<'_>, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{} {} {}", coflow.task.name, Millis(coflow.submitted.0), self.mappers.len())?;
        for mapper in &self.mappers {
            write!(out, " {mapper}")?;
        }
        write!(out, " {}", self.reducers.len())?;
        for (reducer, share) in &self.reducers {
            let bytes = u128::from(share.0) * self.mappers.len() as u128;
            write!(out, " {reducer}:{}", Megabytes { bytes, places: 1 })?;
        }
        writeln!(out)
    }
}

/// Each port once, where it is first named.
fn in_order_of_appearance(ports: impl Iterator<Item = PortId>) -> Vec<PortId> {
    let mut first: Vec<(PortId, usize)> = ports.zip(0..).collect();
    first.sort_unstable();
    first.dedup_by_key(|&mut (port, _)| port);
    first.sort_unstable_by_key(|&(_, at)| at);
    first.into_iter().map(|(port, _)| port).collect()
}

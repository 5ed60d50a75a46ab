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

use cavalcade_model::{Bytes, CoflowRef, Flow, Nanos, PortId, Workload, WorkloadBuilder};

use crate::decimal::{Megabytes, Millis};
use crate::error::{Expectation, Fault, TraceErrorKind, WriteError};
use crate::flow_list::check_plain;
use crate::tokens::{Header, Tokens, Word, build, megabytes, port};
use crate::{Content, Format, ReadOptions, Reader, Syntax, sincronia};

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
    read: Reader::Text(|text, options| read(text, options).map(Content::from)),
    write: Some(|workload, out| write(workload, out)),
};

pub(crate) fn read(text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let mut tokens = Tokens::new(text);
    let header = Header::read(&mut tokens, options)?;
    let mut reader = Lines {
        ports: header.ports,
        flows_left: options.limits.flows,
        options,
        mappers: Vec::new(),
        builder: WorkloadBuilder::new(header.ports),
        names: Vec::new(),
    };
    header.for_each_coflow(&mut tokens, |tokens| reader.coflow(tokens))?;
    build(reader.builder, text, &reader.names)
}

struct Lines<'a> {
    ports: u32,
    flows_left: u64,
    options: &'a ReadOptions,
    /// The mappers of the coflow being read; kept for its memory.
    mappers: Vec<PortId>,
    builder: WorkloadBuilder,
    names: Vec<usize>,
}

impl Lines<'_> {
    fn coflow(&mut self, tokens: &mut Tokens<'_>) -> Result<(), Fault> {
        let id = tokens.name(&ID)?;
        let arrival = tokens.millis(&ARRIVAL)?;
        self.mappers.clear();
        for _ in 0..count(tokens, &MAPPERS)? {
            self.mappers.push(tokens.port(self.ports, &MAPPER)?);
        }
        let reducers = count(tokens, &REDUCERS)?;
        let width = reducers.checked_mul(self.mappers.len() as u64);
        self.flows_left = width.and_then(|width| self.flows_left.checked_sub(width)).ok_or_else(|| {
            Fault::of_line(id.span(), TraceErrorKind::TooManyFlows { limit: self.options.limits.flows })
        })?;
        // A line that promises more reducers than it has bytes fails below, before it has cost that
        // memory.
        let promised = reducers.min(tokens.left() as u64 / 2) as usize;
        let mut flows = Vec::with_capacity(promised * self.mappers.len());
        for _ in 0..reducers {
            let (dst, size) = self.reducer(tokens.expect(&REDUCER)?)?;
            flows.extend(self.mappers.iter().map(|&src| Flow { src, dst, size, wave: Nanos::ZERO }));
        }
        tokens.end_line(&END)?;
        self.names.push(id.offset);
        self.builder.coflow(id.text, arrival, flows);
        Ok(())
    }

    /// A reducer's port and each mapper's share of its bytes.
    fn reducer(&self, word: Word<'_>) -> Result<(PortId, Bytes), Fault> {
        let (name, size) = word.text.split_once(':').ok_or_else(|| word.unexpected(&REDUCER))?;
        let dst = port(Word { text: name, offset: word.offset }, self.ports, &REDUCER)?;
        // Two ways to be wrong, each with its cure.
        let expected = if size.parse() == Ok(0.0) { &SIZE } else { &NO_SIZE };
        Ok((dst, megabytes(word, size, self.mappers.len() as u64, expected)?))
    }
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

//! Flow lists as CSV: a header that names columns, and hosts by number or by name.
//!
//! ```text
//! src,dst,bytes,start_ms,coflow
//! web-1,db-1,1500000,0,query 1
//! web-2,db-1,2500000,12.5,query 1
//! ```
//!
//! | column | |
//! |---|---|
//! | `src`, `dst` | hosts: port numbers if all of them are numbers, else names, which get ports in the order in which they appear |
//! | `bytes` | the flow's size in whole bytes |
//! | `start_ns`, `start_us`, `start_ms` or `start_s` | the flow's start; decimals are allowed |
//! | `coflow` | optional: the name of the flow's coflow; a flow without one is a coflow of its own |
//! | any other | ignored |
//!
//! Columns may stand in any order and their names in any case. A field cannot hold a comma; quotes around it are taken off.
//! Such a list is read and not written: the format `flows` carries the same.

use std::collections::HashMap;

use cavalcade_model::{Bytes, Flow, Instant, LATEST, Nanos, PortId, Workload, WorkloadBuilder};

use crate::error::{Fault, TraceErrorKind};
use crate::tokens::build;
use crate::{Content, ReadOptions, Syntax};

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "csv",
    // A header that lacks another column is told so by the reader.
    recognises: |opening| {
        let names: Vec<&str> = fields(opening.text.lines().next().unwrap_or_default()).collect();
        ["src", "dst"].iter().all(|wanted| names.iter().any(|name| name.eq_ignore_ascii_case(wanted)))
    },
    read: |text, options| read(text, options).map(Content::from),
    write: None,
};

/// The start columns, with the nanoseconds of their unit.
const STARTS: [(&str, f64); 4] = [("start_ns", 1.0), ("start_us", 1e3), ("start_ms", 1e6), ("start_s", 1e9)];

/// The places of the columns.
struct Columns {
    src: usize,
    dst: usize,
    bytes: usize,
    start: usize,
    unit: f64,
    coflow: Option<usize>,
}

impl Columns {
    fn find(header: &str) -> Result<Self, &'static str> {
        let names: Vec<String> = fields(header).map(str::to_ascii_lowercase).collect();
        let place = |name: &str| names.iter().position(|found| found == name);
        let start = STARTS.iter().find_map(|&(name, unit)| place(name).map(|at| (at, unit)));
        let (start, unit) = start.ok_or("a column start_ns, start_us, start_ms or start_s")?;
        Ok(Self {
            src: place("src").ok_or("a column src")?,
            dst: place("dst").ok_or("a column dst")?,
            bytes: place("bytes").ok_or("a column bytes")?,
            start,
            unit,
            coflow: place("coflow"),
        })
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.trim_start_matches('\u{feff}').split(',').map(|field| field.trim().trim_matches('"'))
}

/// A line of the list: hosts, size, start, coflow and where it stands.
struct Row<'a> {
    hosts: [&'a str; 2],
    size: Bytes,
    start: Nanos,
    coflow: Option<&'a str>,
    offset: usize,
}

fn read(text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let mut offset = 0;
    let mut columns = None;
    let mut rows = Vec::new();
    for line in text.split_inclusive('\n') {
        let (start, line_text) = (offset, line.trim_end());
        offset += line.len();
        if line_text.trim_start_matches('\u{feff}').is_empty() {
            continue;
        }
        let fault = |problem: String, expected: &'static str| {
            let kind = TraceErrorKind::Schema { problem, expected };
            Fault::of_line(start..start + line_text.len(), kind)
        };
        let Some(columns) = &columns else {
            let found = Columns::find(line_text).map_err(|missing| {
                let problem = format!("the header has not {missing}");
                fault(problem, "a header such as src,dst,bytes,start_ms,coflow")
            })?;
            columns = Some(found);
            continue;
        };
        if rows.len() as u64 >= options.limits.flows {
            let kind = TraceErrorKind::TooManyFlows { limit: options.limits.flows };
            return Err(Fault::of_line(start..start, kind));
        }
        rows.push(row(columns, line_text, start).map_err(|(problem, expected)| fault(problem, expected))?);
    }
    if rows.is_empty() {
        return Err(Fault::new(0..0, TraceErrorKind::NoCoflows));
    }
    assemble(&rows, text, options)
}

fn row<'a>(columns: &Columns, line: &'a str, offset: usize) -> Result<Row<'a>, (String, &'static str)> {
    let fields: Vec<&str> = fields(line).collect();
    let field = |place: usize| fields.get(place).copied().unwrap_or_default();
    let host = |place: usize| match field(place) {
        "" => Err((format!("column {} is empty", place + 1), "the name or number of a host")),
        name => Ok(name),
    };
    let size = field(columns.bytes).parse().ok().filter(|bytes| (1..=1 << 63).contains(bytes));
    let size = size.ok_or_else(|| {
        (format!("bytes is {:?}", field(columns.bytes)), "whole bytes, above 0 and at most 2^63")
    })?;
    let start = field(columns.start).parse::<f64>().ok().map(|start| start * columns.unit);
    let start = start.filter(|start| (0.0..=LATEST.0 as f64).contains(start));
    let start = start.ok_or_else(|| {
        (format!("the start is {:?}", field(columns.start)), "a time from 0 on, below 146 years")
    })?;
    Ok(Row {
        hosts: [host(columns.src)?, host(columns.dst)?],
        size: Bytes(size),
        start: Nanos(start.round() as u64),
        coflow: columns.coflow.map(field).filter(|name| !name.is_empty()),
        offset,
    })
}

/// Numbers hosts and puts flows into coflows.
fn assemble(rows: &[Row<'_>], text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let mut ports = HashMap::new();
    let number = |name: &str| name.parse::<u32>().ok();
    let all_numbers = rows.iter().all(|row| row.hosts.iter().all(|name| number(name).is_some()));
    let mut most = 0;
    let mut groups: Vec<(String, usize, Vec<Flow>)> = Vec::new();
    let mut group_of: HashMap<&str, usize> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        let [src, dst] = row.hosts.map(|name| match number(name).filter(|_| all_numbers) {
            Some(port) => port,
            None => {
                let next = ports.len() as u32;
                *ports.entry(name).or_insert(next)
            }
        });
        most = most.max(src).max(dst);
        let flow = Flow { src: PortId(src), dst: PortId(dst), size: row.size, wave: row.start };
        let next = groups.len();
        let group = row.coflow.map_or(next, |name| *group_of.entry(name).or_insert(next));
        if group == next {
            let name = row.coflow.map_or_else(|| (index + 1).to_string(), str::to_owned);
            groups.push((name, row.offset, Vec::new()));
        }
        groups[group].2.push(flow);
    }
    let needed = u64::from(most) + 1;
    if needed > u64::from(options.limits.ports) {
        let kind = TraceErrorKind::TooManyPorts { ports: needed, limit: options.limits.ports };
        return Err(Fault::of_line(0..0, kind));
    }
    if let Some(last) = options.ports.filter(|&given| u64::from(given) < needed) {
        let kind = TraceErrorKind::PortOutOfRange { port: most, last: last.saturating_sub(1) };
        return Err(Fault::of_line(0..0, kind));
    }
    let mut builder = WorkloadBuilder::new(options.ports.unwrap_or(most + 1));
    let offsets: Vec<usize> = groups.iter().map(|(_, offset, _)| *offset).collect();
    for (name, _, mut flows) in groups {
        // Until here a wave counted from time zero.
        let arrival = flows.iter().map(|flow| flow.wave).min().unwrap_or_default();
        flows.iter_mut().for_each(|flow| flow.wave -= arrival);
        builder.coflow(name, Instant(arrival.0), flows);
    }
    build(builder, text, &offsets)
}

#[cfg(test)]
mod tests {
    use crate::{Format, ReadOptions, read};

    fn reading(text: &str) -> Result<(cavalcade_model::Workload, Format), String> {
        read(text.as_bytes(), "t", &ReadOptions::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_come_in_any_order_and_hosts_by_name() {
        let text = "Coflow,bytes,SRC,dst,start_ms,rack\nq1,1500,web-1,db-1,0,7\nq1,500,web-2,db-1,1.5,7\n,9,db-1,web-2,0,7\n";
        let (workload, format) = reading(text).unwrap();
        assert_eq!((format.name(), workload.ports(), workload.coflow_count()), ("csv", 3, 2));
        let named = "a 2 1 500 1500000 q1\nb 0 1 1500 0 q1\n3 1 2 9 0\n";
        let (same, _) = reading(named).unwrap();
        assert_eq!(same.bytes(), workload.bytes());
        let late = workload.flows().iter().find(|flow| flow.size.get() == 500).unwrap();
        assert_eq!((late.src.0, late.dst.0, late.wave.get()), (2, 1, 1_500_000));
    }

    #[test]
    fn numbers_are_ports() {
        let (workload, _) = reading("src,dst,bytes,start_ns\n4,1,10,0\n1,4,10,5\n").unwrap();
        assert_eq!((workload.ports(), workload.flows()[0].src.0), (5, 4));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |line: &str| reading(&format!("src,dst,bytes,start_s\n{line}\n")).unwrap_err();
        assert_eq!(wrong("a,b,0,1"), "t:2: bytes is \"0\": expected whole bytes, above 0 and at most 2^63");
        assert!(wrong("a,b,7").contains("t:2: the start is \"\": expected a time from 0 on"));
        assert!(wrong(",b,7,1").contains("column 1 is empty"));
        assert!(reading("src,dst,bytes,start_s\n").unwrap_err().contains("no coflows"));
    }
}

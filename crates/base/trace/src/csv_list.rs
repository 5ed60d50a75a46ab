//! Flow lists as CSV: a header that names columns, and hosts by number or by name.
//!
//! ```text
//! src,dst,bytes,start_ms,coflow
//! web-1,db-1,1500000,0,"query 1, stage 1"
//! web-2,db-1,2500000,12.5,"query 1, stage 1"
//! ```
//!
//! | column | also called | |
//! |---|---|---|
//! | `src` | `source`, `from`, `sender` | the host that sends |
//! | `dst` | `dest`, `destination`, `to`, `receiver` | the host that receives |
//! | `bytes` | `size`, `size_bytes`, `flow_size`, `flow_bytes`, `octets` | the flow's size in whole bytes |
//! | `start_ns`, `start_us`, `start_ms`, `start_s` | `start_time_…`, `arrival_…`, `arrival_time_…`, `time_…`, `timestamp_…`, `ts_…` | the flow's start; decimals to the nearest nanosecond |
//! | `coflow` | `coflow_id`, `coflow_name` | optional: the flow's coflow; a flow without one is a coflow of its own |
//!
//! Other columns are ignored, and so is another name where the first one is there. Columns may
//! stand in any order, with names in any case; `src host`, `srcHost` and `src_ip` are the source
//! too. Fields are separated by commas, or by semicolons or tabs if the header is, and quoted as
//! RFC 4180 says. Every row has as many as the header. Lines before the header that begin with `#`
//! are comments.
//!
//! Hosts are numbers of ports, or names: [`crate::flow_rows`] says when, and makes the workload.
//!
//! Such a list is read and not written: the native format carries the same, and the format `flows`
//! does without the names of hosts.

use cavalcade_model::Workload;

use crate::error::{Fault, TraceErrorKind};
use crate::flow_columns::{Columns, Role, normal_names};
use crate::flow_rows::{FlowRows, HOST, SIZE, START, size, start};
use crate::table::{Row, SEPARATORS, Table, fields_of_line};
use crate::{Content, Opening, ReadOptions, Reader, Syntax};

/// What may stand before the header, beside comments.
const BEFORE: [char; 4] = ['\u{feff}', '\r', '\n', ' '];

const HEADER: &str = "a header such as src,dst,bytes,start_ms,coflow";
const ROW: &str = "as many fields as the header has, and quotes around a field with a separator in it";

/// The entry in the table of formats.
pub static SYNTAX: Syntax = Syntax {
    name: "csv",
    recognises: is_header,
    read: Reader::Text(|text, options| read(text, options).map(Content::from)),
    write: None,
};

/// Tells whether the first line names the columns of hosts. A header that lacks another column is
/// told so by the reader.
pub(crate) fn is_header(opening: &Opening<'_>) -> bool {
    let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
    // A flow may be called `a,src,dst`, and its line is no header for that.
    let is_flow = matches!(opening.words.len(), 5 | 6) && opening.words[1..5].iter().all(is_number);
    let line = opening.text.lines().next().unwrap_or_default();
    !opening.is_json() && !is_flow && separator(line).is_some()
}

/// The separator with which a line names the columns of hosts.
fn separator(line: &str) -> Option<u8> {
    SEPARATORS.into_iter().find(|&separator| {
        let names = normal_names(fields_of_line(line, separator).iter().map(String::as_str));
        [Role::Src, Role::Dst].iter().all(|&role| names.iter().any(|name| role.rank(name).is_some()))
    })
}

/// What is wrong with a row, and what was expected.
type Wrong = (String, &'static str);

/// Adds a row of text to the flows.
fn add(flows: &mut FlowRows<'_>, columns: &Columns, row: &Row<'_>) -> Result<(), Wrong> {
    if row.len() != columns.all {
        return Err((format!("the row has {} fields, the header {}", row.len(), columns.all), ROW));
    }
    let mut host = |column: &str, place: usize| match row.field(place) {
        "" => Err((format!("{column} is empty"), HOST)),
        name => Ok(flows.host(name)),
    };
    let (src, dst) = (host("src", columns.src)?, host("dst", columns.dst)?);
    let text = row.field(columns.bytes);
    let size = size(text, 1).ok_or_else(|| (format!("bytes is {text:?}"), SIZE))?;
    let text = row.field(columns.start);
    let start = start(text, columns.unit).ok_or_else(|| (format!("the start is {text:?}"), START))?;
    let name = columns.coflow.map(|place| row.field(place)).filter(|name| !name.is_empty());
    let group = match name {
        Some(name) => flows.coflow(name),
        None => flows.lone(),
    };
    flows.add(group, src, dst, size, start);
    Ok(())
}

fn read(text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
    let schema = |span: core::ops::Range<usize>, (problem, expected): Wrong| {
        Fault::of_line(span, TraceErrorKind::Schema { problem, expected })
    };
    let mut rest = text.trim_start_matches(BEFORE);
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest).trim_start_matches(BEFORE);
    }
    let first = rest.lines().next().unwrap_or_default();
    let begin = text.len() - rest.len();
    let mut table = Table::new(text, begin, separator(first).unwrap_or(SEPARATORS[0]));
    let Some(header) = table.next_row()? else {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    };
    let columns = Columns::find(&header.fields().collect::<Vec<_>>())
        .map_err(|problem| schema(header.span.clone(), (problem, HEADER)))?;
    let mut flows = FlowRows::new(options);
    while let Some(row) = table.next_row()? {
        flows.room().map_err(|kind| Fault::of_line(row.span.clone(), kind))?;
        add(&mut flows, &columns, &row).map_err(|wrong| schema(row.span.clone(), wrong))?;
    }
    flows.finish().map_err(|kind| match kind {
        TraceErrorKind::PortOutOfRange { .. } => Fault::of_line(0..0, kind),
        _ => Fault::new(0..0, kind),
    })
}

#[cfg(test)]
mod tests {
    use crate::{Format, ReadOptions, read};

    fn reading(text: &str) -> Result<(cavalcade_model::Workload, Format), String> {
        read(text.as_bytes(), "t", &ReadOptions::default()).map_err(|error| error.to_string())
    }

    /// Source, destination, bytes and start.
    type Flow = (u32, u32, u64, u64);

    /// Coflows by name.
    fn coflows(text: &str) -> Vec<(String, Vec<Flow>)> {
        let workload = reading(text).unwrap().0;
        let flows = |coflow: cavalcade_model::CoflowRef<'_>| {
            let flow = |flow: &cavalcade_model::Flow| {
                (flow.src.0, flow.dst.0, flow.size.0, (coflow.submitted + flow.wave).0)
            };
            (coflow.task.name.clone(), coflow.flows.iter().map(flow).collect())
        };
        workload.coflows().map(flows).collect()
    }

    #[test]
    fn columns_come_in_any_order_and_hosts_by_name() {
        let text = "Coflow,bytes,SRC,dst,start_ms,rack\nq1,1500,web-1,db-1,0,7\nq1,500,web-2,db-1,1.5,7\n,9,db-1,web-2,0,7\n";
        let (workload, format) = reading(text).unwrap();
        assert_eq!((format.name(), workload.ports(), workload.coflow_count()), ("csv", 3, 2));
        let expected = [
            ("q1".to_owned(), vec![(0, 1, 1500, 0), (2, 1, 500, 1_500_000)]),
            ("3".to_owned(), vec![(1, 2, 9, 0)]),
        ];
        assert_eq!(coflows(text), expected);
    }

    #[test]
    fn quoted_fields_are_one_field_whatever_is_in_them() {
        let text = "src,dst,coflow,bytes,start_ms\r\n0,1,\"sort, \"\"a\"\"\",50,0\r\n0,1,\"sort, b\",7,0\r\n";
        let expected = [("sort, \"a\"", 50), ("sort, b", 7)];
        let found = coflows(text);
        let found: Vec<_> = found.iter().map(|(name, flows)| (name.as_str(), flows[0].2)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn ports_are_called_by_the_names_of_hosts_and_by_their_numbers_where_hosts_are_numbers() {
        let workload = reading("src,dst,bytes,start_ms\nweb-1,db-1,5,0\nweb-2,db-1,5,0\n").unwrap().0;
        let names = [0, 1, 2].map(|port| workload.port_name(cavalcade_model::PortId(port)));
        assert_eq!(names, ["web-1", "db-1", "web-2"]);
        let workload = reading("src,dst,bytes,start_ms\n3232235777,3232235778,5,0\n").unwrap().0;
        assert_eq!(workload.port_name(cavalcade_model::PortId(1)), "3232235778");
        let workload = reading("src,dst,bytes,start_ms\n0,1,5,0\n").unwrap().0;
        assert!(!workload.names_ports());
        assert_eq!(workload.port_name(cavalcade_model::PortId(1)), "port 1");
    }

    #[test]
    fn other_separators_and_other_names_of_columns_are_the_same() {
        let plain = coflows("src,dst,bytes,start_ms,coflow\na,b,5,1.5,x\nb,a,6,0,y\n");
        for text in [
            "source;destination;size;arrival_ms;coflow_id\na;b;5;1.5;x\nb;a;6;0;y\n",
            "\u{feff}# exported\n\nFrom\tTo\tSize (bytes)\tbytes\ttime us\tcoflow\na\tb\t9\t5\t1500\tx\nb\ta\t9\t6\t0\ty\n",
            "srcHost,dstHost,octets,\"start (s)\",coflowName,to\na,b,5.0,0.0015,x,\nb,a,+6e0,-0.0,y,\n",
            "\"src_ip\",\"dst_ip\",\"flow_bytes\",\"ts_ns\",\"coflow\"\r\n\"a\",\"b\",\"5\",\"1500000\",\"x\"\r\n\"b\",\"a\",\"6\",\"0\",\"y\"\r\n,,,,\r\n",
        ] {
            assert_eq!(coflows(text), plain, "{text}");
        }
    }

    #[test]
    fn two_columns_that_say_the_same_are_refused() {
        let error = reading("source,from,dst,bytes,start_ms\na,b,c,1,0\n").unwrap_err();
        assert!(
            error.starts_with("t:1: the header has two columns src, \"source\" and \"from\": expected"),
            "{error}"
        );
        let error = reading("src,dst,bytes,start_ms,start_ns\na,b,1,0,0\n").unwrap_err();
        assert!(error.contains("\"start_ms\" and \"start_ns\""), "{error}");
    }

    #[test]
    fn starts_are_exact_however_large() {
        let text =
            "src,dst,bytes,start_ns,coflow\n0,1,1000,1600000000000000009,a\n0,1,1000,1600000000000000073,b\n";
        let starts = |text| coflows(text).into_iter().map(|(_, flows)| flows[0].3).collect::<Vec<_>>();
        assert_eq!(starts(text), [1_600_000_000_000_000_009, 1_600_000_000_000_000_073]);
        let text = "src,dst,bytes,start_s\n0,1,9,1700000000.000000001\n0,1,9,0.0000000005\n0,1,9,4611686018.427387904\n";
        assert_eq!(starts(text), [1, 1_700_000_000_000_000_001, 1 << 62]);
    }

    #[test]
    fn numbers_are_ports_where_they_lie_close_and_names_otherwise() {
        let ports = |text: &str| {
            let workload = reading(text).unwrap().0;
            (workload.ports(), workload.flows()[0].src.0)
        };
        assert_eq!(ports("src,dst,bytes,start_ns\n4,1,10,0\n1,4,10,5\n"), (5, 4));
        assert_eq!(ports("src,dst,bytes,start_ns\n4095,1,10,0\n"), (4096, 4095));
        assert_eq!(ports("src,dst,bytes,start_ns\n4096,1,10,0\n"), (2, 0));
        assert_eq!(ports("src,dst,bytes,start_ms\n167772161,167772162,1000,0\n"), (2, 0));
        // Many hosts may lie further apart.
        let rows: String = (0..500).map(|host| format!("{},0,1,0\n", 15 * host)).collect();
        assert_eq!(ports(&format!("src,dst,bytes,start_ns\n{rows}")), (15 * 499 + 1, 0));
    }

    #[test]
    fn a_flow_without_a_coflow_is_called_by_its_row_unless_a_coflow_is() {
        let text = "src,dst,bytes,start_ns,coflow\n0,1,5,0,3\n0,1,5,0,flow-3\n0,1,5,0,\n0,1,5,0,\n";
        let names: Vec<String> = coflows(text).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["3", "flow-3", "flow-3-2", "4"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |line: &str| reading(&format!("src,dst,bytes,start_s\n\n{line}\n")).unwrap_err();
        assert_eq!(
            wrong("a,b,0,1"),
            "t:3: bytes is \"0\": expected whole bytes, above 0 and at most 2^63, without separators of thousands"
        );
        for (line, part) in [
            ("a,b,7", "t:3: the row has 3 fields, the header 4: expected as many fields as the header has"),
            ("a,b,7,1,", "the row has 5 fields, the header 4"),
            ("a,\"b,7,1\na,b,7,1", "t:3: a quote is not closed, or stands inside a field"),
            ("a,b,1.5,1", "bytes is \"1.5\""),
            ("a,b,\"1,000\",1", "bytes is \"1,000\""),
            (
                "a,b,7,\"1,5\"",
                "the start is \"1,5\": expected a time from 0 on, below 146 years, as 12.5 (with a point)",
            ),
            ("a,b,7,-1", "the start is \"-1\""),
            ("a,b,7,NaN", "the start is \"NaN\""),
            (",b,7,1", "t:3: src is empty: expected the name or number of a host"),
        ] {
            assert!(wrong(line).contains(part), "{line}: {}", wrong(line));
        }
        assert!(reading("src,dst,bytes,start_s\n").unwrap_err().contains("no coflows"));
        assert!(
            reading("src,dst,bytes,start\n0,1,2,3\n")
                .unwrap_err()
                .contains("the header has no column start_ns")
        );
    }
}

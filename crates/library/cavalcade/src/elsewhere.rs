//! Schedules that were made elsewhere: another simulator's rates, checked by the validator and put
//! beside our runs.
//!
//! Two files are read. One is what a run dumps (`schedule.csv`). The other is a CSV with a header
//! that any program can write: a row for each piece of time in which a flow is sent at one rate.
//! docs/formats.md describes it.
//!
//! # Invariants
//! - Times are read as decimals, whatever their unit, with or without an exponent, and never as
//!   floating-point numbers of seconds: a nanosecond is resolved after years as at first.
//! - Nothing of a schedule is trusted: completions follow from its segments alone
//!   (`validate::completions`), and the validator checks these against the workload and the fabric.
//!
//! # Cost
//! The file and its segments are held, these twice at 48 bytes each, and a line number for each, so
//! that what is wrong can be shown.

use std::collections::HashMap;
use std::path::Path;

use cavalcade_metrics::{Comparison, Outcome, PolicyFacts, RunResult};
use cavalcade_model::{CoflowId, FineInstant, FlowId, Instant, PortId, Workload};
use cavalcade_validate::{Checks, ScheduleReader, Segment, Verdict, Violations, completions, validate};

use crate::error::Error;
use crate::invalid::{Files, TOP, refused};
use crate::order::Names;
use crate::scenario::Scenario;

/// How a dumped schedule begins.
const DUMPED: &[u8] = b"#cavalcade-schedule";

/// Where time ends, as for runs.
const END: u64 = 1 << 63;

/// Bytes per nanosecond in a bit per second.
const BPS: f64 = 1.0 / 8e9;

/// A valid schedule and its results.
pub struct Elsewhere {
    /// Its name among other runs.
    pub name: String,
    /// The file, as it was named.
    pub file: String,
    /// The completion times under it.
    pub outcome: Outcome,
    /// The validator's figures.
    pub verdict: Verdict,
    /// The schedule itself.
    pub segments: Vec<Segment>,
}

impl Elsewhere {
    /// Reads the schedule in `path` and checks it for the workload, fabric and conditions of
    /// `scenario`.
    ///
    /// # Errors
    /// If it cannot be read, with the line; if it is not valid, with all its faults (of many the
    /// first) and its lines.
    pub fn read(name: impl Into<String>, path: &Path, scenario: &Scenario) -> Result<Self, Error> {
        let file = path.display().to_string();
        let workload = scenario.workload();
        let read = Lines::read(path, &file, workload)?;
        let segments: Vec<Segment> = read.lines.iter().map(|(_, segment)| *segment).collect();
        let checked = completions(workload, &segments).map_err(Violations::from).and_then(|outcome| {
            let verdict =
                validate(workload, scenario.fabric(), segments.clone(), &outcome, Checks::default())?;
            Ok((outcome, verdict))
        });
        let (outcome, verdict) = checked.map_err(|violations| {
            let files = Files { schedule: &file, claims: None };
            let error = refused(violations, workload, &read.lines, &files);
            let checked = "'Schedules made elsewhere' in docs/formats.md lists what is checked";
            match workload.origin() {
                Instant::ZERO => error.help(checked),
                origin => {
                    let from = origin.get();
                    error.help(format!("times here count from the first arrival, {from} ns; {checked}"))
                }
            }
        })?;
        Ok(Self { name: name.into(), file, outcome, verdict, segments })
    }

    /// Its results, as a run among others.
    pub(crate) fn result(&self) -> RunResult {
        RunResult {
            label: self.name.clone(),
            policy: self.name.clone(),
            params: vec![("schedule".to_owned(), self.file.clone())],
            about: PolicyFacts { is_schedule: true, ..PolicyFacts::default() },
            named: true,
            transport: None,
            control: None,
            outcome: self.outcome.clone(),
            wall_s: 0.0,
        }
    }

    /// Its figures alone.
    pub fn figures(&self, scenario: &Scenario) -> Comparison {
        cavalcade_metrics::analyse(scenario.workload(), scenario.fabric(), &[self.result()], 0)
            .expect("the schedule was checked against this scenario")
    }
}

/// The segments of a file, each with the number of its line.
struct Lines {
    lines: Vec<(u64, Segment)>,
}

impl Lines {
    fn read(path: &Path, file: &str, workload: &Workload) -> Result<Self, Error> {
        let unreadable = |error: std::io::Error| {
            Error::input(format!("cannot read {file}: {error}")).help("name the file of a schedule")
        };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let lines: Vec<(u64, Segment)> = if bytes.starts_with(DUMPED) {
            let reader = ScheduleReader::new(bytes.as_slice(), workload.origin());
            let segments = reader.and_then(Iterator::collect::<Result<Vec<Segment>, _>>);
            let segments =
                segments.map_err(|error| Error::input(format!("{file}: {error}")).help(EXPECTED))?;
            let lines: Vec<_> = (TOP + 1..).zip(segments).collect();
            if let Some((line, _)) = lines.iter().find(|(_, segment)| segment.to.whole().0 >= END) {
                return Err(Error::input(format!("{file}:{line}: the segment ends beyond 2^63 ns"))
                    .help("times count from the time zero of the trace"));
            }
            lines
        } else {
            rows(&bytes, workload).map_err(|Fault { line, problem, cure }| {
                Error::input(format!("{file}:{line}: {problem}")).help(cure)
            })?
        };
        if lines.is_empty() {
            return Err(Error::input(format!("{file} has no segments")).help(EXPECTED));
        }
        Ok(Self { lines })
    }
}

/// The cure of a file that is no schedule.
const EXPECTED: &str = "expected a CSV with the columns flow (or coflow, src and dst), start_s, end_s and rate_bps (or bytes), or the schedule.csv of a run; docs/formats.md describes it";

/// A fault of a row.
struct Fault {
    line: u64,
    problem: String,
    cure: String,
}

/// Reads the rows of a CSV with a header, each with its line.
fn rows(bytes: &[u8], workload: &Workload) -> Result<Vec<(u64, Segment)>, Fault> {
    let mut counter = LineCounter { bytes, at: 0, line: 1 };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(bytes))
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .from_reader(bytes);
    let broken = |error: csv::Error, counter: &mut LineCounter<'_>| Fault {
        line: error.position().map_or(1, |position| counter.line_at(position.byte())),
        problem: match error.kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("found {len} fields, expected {expected_len}, as in the header")
            }
            csv::ErrorKind::Utf8 { .. } => "expected UTF-8 text".to_owned(),
            _ => error.to_string(),
        },
        cure: EXPECTED.to_owned(),
    };
    let header = reader.headers().map_err(|error| broken(error, &mut counter))?.clone();
    let line = counter.line_at(0);
    let fault = |problem| Fault { line, problem, cure: EXPECTED.to_owned() };
    let columns = Columns::of(&header).map_err(fault)?;
    let flows = Flows::of(workload, &columns);
    let mut lines = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(|error| broken(error, &mut counter))?;
        let line = counter.line_at(record.position().map_or(0, csv::Position::byte));
        let segment = columns.segment(&record, &flows, workload.origin());
        let segment = segment.map_err(|(problem, cure)| Fault { line, problem, cure })?;
        lines.push((line, segment));
    }
    Ok(lines)
}

/// The numbers of lines, which the CSV reader counts otherwise: before comments and blank lines,
/// and with the second half of a `\r\n` in the next.
struct LineCounter<'a> {
    bytes: &'a [u8],
    /// The place up to which lines are counted, and the line there.
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of the record that the reader found at `byte`, or behind what it skips there.
    /// Records are asked for in order.
    fn line_at(&mut self, byte: u64) -> u64 {
        let mut at = usize::try_from(byte).map_or(self.bytes.len(), |byte| byte.min(self.bytes.len()));
        loop {
            match self.bytes.get(at) {
                Some(b'\r' | b'\n') => at += 1,
                Some(b'#') => {
                    let rest = &self.bytes[at..];
                    at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                }
                _ => break,
            }
        }
        if at > self.at {
            let passed = &self.bytes[self.at..at];
            self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u64;
            self.at = at;
        }
        self.line
    }
}

/// What separates fields: a comma, unless the first line has none and has semicolons or tabs.
fn delimiter(bytes: &[u8]) -> u8 {
    let lines = bytes.split(|&byte| byte == b'\n');
    let first = lines.into_iter().find(|line| !line.starts_with(b"#")).unwrap_or_default();
    let has = |separator: &&u8| first.contains(separator);
    *b",;\t".iter().find(has).unwrap_or(&b',')
}

/// Where in a row what stands.
struct Columns {
    flow: FlowColumns,
    start: Time,
    end: Time,
    amount: Amount,
}

enum FlowColumns {
    Number(usize),
    Ends { coflow: usize, src: Option<usize>, dst: Option<usize> },
}

/// A column of times, and how many places its decimal point is from that of nanoseconds.
#[derive(Clone, Copy)]
struct Time {
    column: usize,
    shift: i32,
}

#[derive(Clone, Copy)]
enum Amount {
    /// A rate, in so many bits per second.
    Rate {
        column: usize,
        bps: f64,
    },
    Bytes {
        column: usize,
    },
}

/// Units of time by the ends of columns' names.
const TIMES: [(&str, i32); 4] = [("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
/// Units of rates by the ends of columns' names.
const RATES: [(&str, f64); 4] = [("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)];

impl Columns {
    fn of(header: &csv::StringRecord) -> Result<Self, String> {
        let names = || header.iter().map(|name| name.trim_start_matches('\u{feff}').trim());
        if let Some(name) = names().find(|name| name.starts_with("rate_") && name.ends_with("Bps")) {
            return Err(format!("{name} may be bytes: rates are in bits, as rate_mbps, or give bytes"));
        }
        let names: Vec<String> = names().map(str::to_ascii_lowercase).collect();
        let column = |wanted: &str| names.iter().position(|name| name == wanted);
        let one = |what: &str, expected: &str, found: Vec<usize>| match found[..] {
            [column] => Ok(column),
            [] => Err(format!("no column has {what}: expected {expected}")),
            [first, second, ..] => Err(format!(
                "the columns {} and {} both have {what}: leave one of them out",
                names[first], names[second]
            )),
        };
        let time = |what: &str, words: [&str; 2]| {
            let unit = |name: &String| {
                let (word, unit) = name.rsplit_once('_')?;
                words.contains(&word).then(|| TIMES.iter().find(|(known, _)| *known == unit))?
            };
            let found = (0..names.len()).filter(|&column| unit(&names[column]).is_some()).collect();
            let expected = format!("{}_s, or in ms, us or ns", words[0]);
            let column = one(what, &expected, found)?;
            Ok::<_, String>(Time { column, shift: unit(&names[column]).map_or(0, |(_, shift)| *shift) })
        };
        let rate = |name: &String| {
            let unit = name.strip_prefix("rate_")?;
            RATES.iter().find(|(known, _)| *known == unit)
        };
        let amount = |name: &String| name == "bytes" || rate(name).is_some();
        let found = (0..names.len()).filter(|&column| amount(&names[column])).collect();
        let column_of_amount = one("what is sent", "rate_bps, or in kbps, mbps or gbps, or bytes", found)?;
        let amount = match rate(&names[column_of_amount]) {
            Some(&(_, bps)) => Amount::Rate { column: column_of_amount, bps },
            None => Amount::Bytes { column: column_of_amount },
        };
        let flow = match (column("flow"), column("coflow")) {
            (Some(_), Some(_)) => {
                return Err(
                    "the columns flow and coflow both have the flow: leave one of them out".to_owned()
                );
            }
            (Some(flow), None) => FlowColumns::Number(flow),
            (None, Some(coflow)) => FlowColumns::Ends { coflow, src: column("src"), dst: column("dst") },
            (None, None) => {
                return Err(
                    "no column has the flow that is sent: expected flow, or coflow, src and dst".to_owned()
                );
            }
        };
        Ok(Self {
            flow,
            start: time("the start of a segment", ["start", "from"])?,
            end: time("the end of a segment", ["end", "to"])?,
            amount,
        })
    }

    /// The segment of a row.
    ///
    /// # Errors
    /// A problem and its cure.
    fn segment(
        &self,
        row: &csv::StringRecord,
        flows: &Flows,
        origin: Instant,
    ) -> Result<Segment, (String, String)> {
        let cell = |column: usize| row.get(column).unwrap_or_default();
        let cured = |problem: String, cure: &str| (problem, cure.to_owned());
        let flow = flows.find(&self.flow, row)?;
        let time = |Time { column, shift }: Time| {
            let bad = || {
                let problem = format!("the time '{}' is no decimal number from 0 to 2^63 ns", cell(column));
                cured(problem, "write it as 1.5 or 1.5e-3, with all its digits")
            };
            let point = point(cell(column), shift).filter(|point| point.whole().0 < END).ok_or_else(bad)?;
            point.after(origin).ok_or_else(|| {
                let problem =
                    format!("'{}' lies before the first arrival, {} ns", cell(column), origin.get());
                cured(problem, "times count from the time zero of the trace")
            })
        };
        let (from, to) = (time(self.start)?, time(self.end)?);
        if to < from {
            return Err(cured("the segment ends before it starts".to_owned(), "exchange its times"));
        }
        let number = |column: usize| {
            let number = cell(column).parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
            number.ok_or_else(|| {
                cured(
                    format!("'{}' is not a number of 0 or more", cell(column)),
                    "write it as 1e9 or 1000000000",
                )
            })
        };
        let bytes_per_nano = match self.amount {
            Amount::Rate { column, bps } => number(column)? * bps * BPS,
            Amount::Bytes { column } => match (number(column)?, to.since(from)) {
                (0.0, _) => 0.0,
                (_, 0.0) => {
                    return Err(cured("bytes are sent in no time".to_owned(), "let the segment end later"));
                }
                (bytes, nanos) => bytes / nanos,
            },
        };
        Ok(Segment { flow, from, to, bytes_per_nano })
    }
}

/// What flows may be called.
struct Flows {
    count: usize,
    /// Only where rows name coflows.
    by_ends: Option<ByEnds>,
}

struct ByEnds {
    names: Names,
    /// The flow of a coflow from one port to another; `None` where there are several.
    flows: HashMap<(CoflowId, u32, u32), Option<FlowId>>,
    /// The flow of a coflow that has only one.
    alone: HashMap<CoflowId, FlowId>,
    /// The ports that have names.
    hosts: HashMap<String, u32>,
    /// Whether a number stands for a port: not where it may be a host's name.
    takes_numbers: bool,
}

impl Flows {
    fn of(workload: &Workload, columns: &Columns) -> Self {
        let count = workload.flows().len();
        let FlowColumns::Ends { .. } = columns.flow else { return Self { count, by_ends: None } };
        let mut flows = HashMap::with_capacity(count);
        let mut alone = HashMap::new();
        for coflow in workload.coflows() {
            let ids = workload.flow_ids(coflow.id);
            if ids.len() == 1 {
                alone.insert(coflow.id, FlowId(ids.start));
            }
            for (id, flow) in ids.map(FlowId).zip(coflow.flows) {
                let ends = (coflow.id, flow.src.0, flow.dst.0);
                flows.entry(ends).and_modify(|found| *found = None).or_insert(Some(id));
            }
        }
        let named = if workload.names_ports() { workload.ports() } else { 0 };
        let hosts: HashMap<String, u32> =
            (0..named).map(|port| (workload.port_name(PortId(port)), port)).collect();
        let takes_numbers = !hosts.keys().any(|name| name.parse::<u64>().is_ok());
        let names = Names::of(workload);
        Self { count, by_ends: Some(ByEnds { names, flows, alone, hosts, takes_numbers }) }
    }

    fn find(&self, columns: &FlowColumns, row: &csv::StringRecord) -> Result<FlowId, (String, String)> {
        let cell = |column: usize| row.get(column).unwrap_or_default();
        let by_number = "call flows by their numbers in a column flow: 'cavalcade simulate --dump-schedule' lists them in flows.csv";
        match (columns, &self.by_ends) {
            (FlowColumns::Ends { coflow, src, dst }, Some(by_ends)) => {
                let name = cell(*coflow);
                let coflow = by_ends.names.find(name)?;
                let (Some(src), Some(dst)) = (src, dst) else {
                    return by_ends.alone.get(&coflow).copied().ok_or_else(|| {
                        let cure = "say which with the columns src and dst";
                        (format!("coflow {name} has several flows"), cure.to_owned())
                    });
                };
                let port = |column: usize| {
                    let bad = || {
                        let cure = "write ports as the names of hosts in the trace, or as numbers from 0";
                        (format!("'{}' is not a port", cell(column)), cure.to_owned())
                    };
                    let host = by_ends.hosts.get(cell(column)).copied();
                    let number = || cell(column).parse().ok().filter(|_| by_ends.takes_numbers);
                    host.or_else(number).ok_or_else(bad)
                };
                let (src, dst) = (port(*src)?, port(*dst)?);
                match by_ends.flows.get(&(coflow, src, dst)) {
                    Some(Some(flow)) => Ok(*flow),
                    Some(None) => Err((
                        format!("coflow {name} has several flows from port {src} to port {dst}"),
                        by_number.to_owned(),
                    )),
                    None => Err((
                        format!("coflow {name} has no flow from port {src} to port {dst}"),
                        "'cavalcade trace convert TRACE --to flows' lists the flows of the trace".to_owned(),
                    )),
                }
            }
            (FlowColumns::Number(column), _) | (FlowColumns::Ends { coflow: column, .. }, None) => {
                let number = cell(*column).parse::<u32>().ok().filter(|&flow| (flow as usize) < self.count);
                number.map(FlowId).ok_or_else(|| {
                    let problem = match self.count.checked_sub(1) {
                        Some(last) => format!("'{}' is no flow: expected 0 to {last}", cell(*column)),
                        None => "the trace has no flows".to_owned(),
                    };
                    (problem, by_number.to_owned())
                })
            }
        }
    }
}

/// Reads a decimal number, with or without an exponent, whose point is moved `shift` places to the
/// right, as a point in time.
fn point(text: &str, shift: i32) -> Option<FineInstant> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    // What is longer or smaller than this is no time that anybody means.
    if exponent.unsigned_abs() > 40 || mantissa.len() > 100 {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.strip_prefix('+').unwrap_or(whole);
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let place = whole.len() as i32 + shift + exponent;
    if place < 0 {
        digits.insert_str(0, &"0".repeat(place.unsigned_abs() as usize));
    }
    let place = place.max(0) as usize;
    digits.extend(std::iter::repeat_n('0', place.saturating_sub(digits.len())));
    let (whole, fraction) = digits.split_at(place);
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let fraction = format!("0.{fraction}").parse::<f64>().ok()?;
    Some(FineInstant::new(Instant(whole), fraction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_in_every_unit() {
        let read = |text, shift| point(text, shift).map(|point| (point.whole().0, point.fraction()));
        assert_eq!(read("1.5", 9), Some((1_500_000_000, 0.0)));
        assert_eq!(read("1700000000.000000001", 9), Some((1_700_000_000_000_000_001, 0.0)));
        assert_eq!(read("0.30000000000000004", 9).map(|(whole, _)| whole), Some(300_000_000));
        assert_eq!(read("1e-9", 9), Some((1, 0.0)));
        assert_eq!(read("2.5E-10", 9), Some((0, 0.25)));
        assert_eq!(read("+.5", 0), Some((0, 0.5)));
        assert_eq!(read("7.", 3), Some((7_000, 0.0)));
        assert_eq!(read("1.25e3", 0), Some((1_250, 0.0)));
        for bad in ["", ".", "-1", "1e", "1e99", "1e-2147483648", "nan", "inf", "1_000", "0x1", "1,5"] {
            assert_eq!(read(bad, 9), None, "{bad}");
        }
        assert_eq!(read("99999999999999999999", 0), None);
    }

    #[test]
    fn a_header_that_says_something_twice_or_not_at_all_is_refused() {
        let header = |text: &str| Columns::of(&csv::StringRecord::from_iter(text.split(','))).err();
        assert_eq!(header("flow,start_s,end_s,rate_bps"), None);
        assert_eq!(header("\u{feff}Coflow,src,dst,from_ms,TO_ns,bytes,comment"), None);
        let says = |text: &str, part: &str| {
            let problem = header(text).expect(text);
            assert!(problem.contains(part), "{text}: {problem}");
        };
        says("start_s,end_s,rate_bps", "expected flow, or coflow, src and dst");
        says("flow,start,end_s,rate_bps", "expected start_s, or in ms, us or ns");
        says("flow,start_s,from_ms,end_s,rate_bps", "start_s and from_ms both have");
        says("flow,start_s,end_s,rate", "expected rate_bps");
        says("flow,coflow,start_s,end_s,rate_bps", "flow and coflow both have the flow");
        says("flow,start_s,end_s,rate_MBps", "rates are in bits");
        says("flow,start_s,end_s,rate_bps,bytes", "both have what is sent");
    }
}

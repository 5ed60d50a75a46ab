//! The schedule as a file: one line for each piece of time in which a flow is sent at one rate.
//!
//! ```text
//! #cavalcade-schedule 1
//! flow,from_ns,to_ns,rate_bps
//! 0,0,1000,1000000000
//! 1,0,333.3333333333333,500000000
//! #end 2
//! ```
//!
//! Flows are the dense ids of the workload. Times are those of the trace. Times and rates are
//! decimal and may have a fraction; they are written so that reading gives back the same times, and
//! rates to within a unit in the last place. Lines come in no particular order. The last line
//! counts the segments, so that a file cut short is noticed. Anything that reads CSV with `#` for
//! comments reads it.
//!
//! Both directions keep one line in memory. Rejected: a binary form (three times smaller before
//! compression, hardly smaller after it, and readable by no other tool), and exponents, which some
//! readers of CSV take for text.

use std::fmt;
use std::io::{self, BufRead, Read, Write};

use cavalcade_model::{FineInstant, FlowId, Instant, Nanos};

const MAGIC: &str = "#cavalcade-schedule ";
const VERSION: &str = "1";
const HEADER: &str = "flow,from_ns,to_ns,rate_bps";
const END: &str = "#end ";
const COLUMNS: [&str; 4] = ["flow", "from_ns", "to_ns", "rate_bps"];

/// No true line is longer; a longer one is not read into memory to find that out.
const LONGEST_LINE: u64 = 4096;

/// Bits per second in one byte per nanosecond.
pub(crate) const BPS: f64 = 8e9;

/// A piece of time in which one flow is sent at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The flow.
    pub flow: FlowId,
    /// From when, since the first arrival.
    pub from: FineInstant,
    /// Until when.
    pub to: FineInstant,
    /// At what rate, in bytes per nanosecond.
    pub bytes_per_nano: f64,
}

/// Writes a schedule, segment by segment.
#[derive(Debug)]
pub struct ScheduleWriter<W: Write> {
    out: W,
    origin: Instant,
    segments: u64,
}

impl<W: Write> ScheduleWriter<W> {
    /// Begins a schedule on `out`, which should be buffered, of a workload whose trace begins at
    /// `origin`.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W, origin: Instant) -> io::Result<Self> {
        writeln!(out, "{MAGIC}{VERSION}\n{HEADER}")?;
        Ok(Self { out, origin, segments: 0 })
    }

    /// Adds a segment.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&mut self, segment: &Segment) -> io::Result<()> {
        self.segments += 1;
        let Segment { flow, from, to, bytes_per_nano } = *segment;
        let [from, to] = [from, to].map(|point| InTrace(point + Nanos(self.origin.0)));
        writeln!(self.out, "{flow},{from},{to},{}", bytes_per_nano * BPS)
    }

    /// Ends the schedule, and hands back what it was written to. Without it the schedule counts as
    /// cut short.
    ///
    /// # Errors
    /// If the output cannot be written or flushed.
    pub fn finish(mut self) -> io::Result<W> {
        writeln!(self.out, "{END}{}", self.segments)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A point in time as a decimal number of nanoseconds.
struct InTrace(FineInstant);

impl fmt::Display for InTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.whole().0)?;
        match self.0.fraction() {
            0.0 => Ok(()),
            // A number below one begins with a zero.
            fraction => f.write_str(&fraction.to_string()[1..]),
        }
    }
}

/// A fault of a schedule file, with its place.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column}: {fault}")]
pub struct ScheduleError {
    /// The line, from 1.
    pub line: u64,
    /// The byte in the line, from 1.
    pub column: usize,
    /// The fault.
    pub fault: Fault,
}

/// A kind of fault of a schedule file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("expected `#cavalcade-schedule 1`: is this the schedule.csv of a run with --dump-schedule?")]
    NotASchedule,
    /// It is of another version.
    #[error("the schedule is of version {found}; this program reads version 1: dump it again")]
    Version {
        /// The version named.
        found: String,
    },
    /// The second line does not name the columns.
    #[error("expected the header `flow,from_ns,to_ns,rate_bps`")]
    Header,
    /// A line with too few or too many fields.
    #[error("found {found} fields, expected flow,from_ns,to_ns,rate_bps")]
    Fields {
        /// Their number.
        found: usize,
    },
    /// A field that is not a number of its kind.
    #[error("{name} is `{text}`, expected {expected}")]
    Field {
        /// The column's name.
        name: &'static str,
        /// The text found there.
        text: String,
        /// The expectation.
        expected: &'static str,
    },
    /// A segment that ends before it begins.
    #[error("to_ns lies before from_ns")]
    Backwards,
    /// A time before the trace begins.
    #[error("{name} lies before {origin} ns, where the trace begins")]
    BeforeOrigin {
        /// The column's name.
        name: &'static str,
        /// The trace's time of the first arrival.
        origin: u64,
    },
    /// A line of absurd length.
    #[error("the line is longer than 4096 bytes")]
    LongLine,
    /// Bytes that are not text.
    #[error("the line is not UTF-8")]
    NotText,
    /// No closing line.
    #[error("the schedule ends without its `#end` line: it was cut short; dump it again")]
    Truncated,
    /// A closing line with another count.
    #[error("the schedule says that it has {said} segments and has {found}: lines are missing or doubled")]
    Count {
        /// The count in the last line.
        said: u64,
        /// Their number.
        found: u64,
    },
    /// Something behind the closing line.
    #[error("nothing may follow the `#end` line")]
    Trailing,
}

/// Reads a schedule, segment by segment. Stops for good at the first error.
#[derive(Debug)]
pub struct ScheduleReader<R: BufRead> {
    input: R,
    origin: Instant,
    line: u64,
    text: Vec<u8>,
    segments: u64,
    done: bool,
}

impl<R: BufRead> ScheduleReader<R> {
    /// Begins to read the schedule of a workload whose trace begins at `origin`; takes in the first
    /// two lines.
    ///
    /// # Errors
    /// If `input` cannot be read or is not a schedule of this version.
    pub fn new(input: R, origin: Instant) -> Result<Self, ScheduleError> {
        let mut reader = Self { input, origin, line: 0, text: Vec::new(), segments: 0, done: false };
        reader.next_line()?;
        let first = reader.as_text()?;
        match first.strip_prefix(MAGIC) {
            None => return Err(reader.error(1, Fault::NotASchedule)),
            Some(VERSION) => {}
            Some(other) => {
                let found = other.to_owned();
                return Err(reader.error(MAGIC.len() + 1, Fault::Version { found }));
            }
        }
        reader.next_line()?;
        if reader.as_text()? != HEADER {
            return Err(reader.error(1, Fault::Header));
        }
        Ok(reader)
    }

    fn error(&self, column: usize, fault: Fault) -> ScheduleError {
        ScheduleError { line: self.line.max(1), column, fault }
    }

    /// Takes in the next line without its end; `false` at the end of the input.
    fn next_line(&mut self) -> Result<bool, ScheduleError> {
        self.text.clear();
        let read = self.input.by_ref().take(LONGEST_LINE + 1).read_until(b'\n', &mut self.text);
        self.line += 1;
        let read = read.map_err(|error| self.error(1, Fault::Io(error)))?;
        if read as u64 > LONGEST_LINE {
            return Err(self.error(LONGEST_LINE as usize + 1, Fault::LongLine));
        }
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
            if self.text.last() == Some(&b'\r') {
                self.text.pop();
            }
        }
        Ok(read > 0)
    }

    fn as_text(&self) -> Result<&str, ScheduleError> {
        std::str::from_utf8(&self.text).map_err(|error| self.error(error.valid_up_to() + 1, Fault::NotText))
    }

    fn read(&mut self) -> Result<Option<Segment>, ScheduleError> {
        if !self.next_line()? {
            return Err(self.error(1, Fault::Truncated));
        }
        let text = self.as_text()?;
        if let Some(count) = text.strip_prefix(END) {
            let said = count.parse().map_err(|_| {
                let text = count.to_owned();
                self.error(END.len() + 1, Fault::Field { name: "#end", text, expected: "a count" })
            })?;
            if said != self.segments {
                return Err(self.error(END.len() + 1, Fault::Count { said, found: self.segments }));
            }
            return if self.next_line()? { Err(self.error(1, Fault::Trailing)) } else { Ok(None) };
        }
        let segment = parse(text, self.origin).map_err(|(column, fault)| self.error(column, fault))?;
        self.segments += 1;
        Ok(Some(segment))
    }
}

impl<R: BufRead> Iterator for ScheduleReader<R> {
    type Item = Result<Segment, ScheduleError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.read().transpose();
        self.done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Reads a point in time, in the trace's time: a decimal number of nanoseconds.
fn point(text: &str) -> Option<FineInstant> {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let fraction = match fraction {
        "" => 0.0,
        // A fraction of nines may be read as one.
        _ => fraction.parse().ok().filter(|_| is_number(&fraction[1..]))?,
    };
    let whole = whole.parse().ok().filter(|_| is_number(whole))?;
    Some(FineInstant::new(Instant(whole), fraction))
}

/// Reads one line; an error comes with its column.
fn parse(line: &str, origin: Instant) -> Result<Segment, (usize, Fault)> {
    let mut fields = line.split(',');
    let mut texts = [""; 4];
    for text in &mut texts {
        let Some(field) = fields.next() else {
            return Err((line.len() + 1, Fault::Fields { found: line.split(',').count() }));
        };
        *text = field;
    }
    if fields.next().is_some() {
        let column = texts.iter().map(|text| text.len() + 1).sum::<usize>();
        return Err((column, Fault::Fields { found: line.split(',').count() }));
    }
    let column = |index: usize| 1 + texts[..index].iter().map(|text| text.len() + 1).sum::<usize>();
    let fault = |index: usize, expected: &'static str| {
        (column(index), Fault::Field { name: COLUMNS[index], text: texts[index].to_owned(), expected })
    };
    let time = |index: usize| {
        let expected = "a decimal number of nanoseconds, 0 or more and below 2^64";
        let point = point(texts[index]).ok_or_else(|| fault(index, expected))?;
        let before = Fault::BeforeOrigin { name: COLUMNS[index], origin: origin.0 };
        point.after(origin).ok_or((column(index), before))
    };
    let flow = texts[0].parse().map_err(|_| fault(0, "a flow's number, 0 to 4294967295"))?;
    let (from, to) = (time(1)?, time(2)?);
    let rate_bps = match texts[3].parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => rate,
        _ => return Err(fault(3, "a rate in bits per second, 0 or more")),
    };
    if to < from {
        return Err((column(2), Fault::Backwards));
    }
    Ok(Segment { flow: FlowId(flow), from, to, bytes_per_nano: rate_bps / BPS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: f64) -> FineInstant {
        FineInstant::new(Instant::ZERO, ns)
    }

    fn written(segments: &[Segment], origin: Instant) -> Vec<u8> {
        let mut writer = ScheduleWriter::new(Vec::new(), origin).unwrap();
        for segment in segments {
            writer.write(segment).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Segment>, ScheduleError> {
        ScheduleReader::new(bytes, Instant::ZERO)?.collect()
    }

    fn fault(text: &str) -> (u64, usize, String) {
        let error = read(text.as_bytes()).unwrap_err();
        (error.line, error.column, error.fault.to_string())
    }

    const TOP: &str = "#cavalcade-schedule 1\nflow,from_ns,to_ns,rate_bps\n";

    #[test]
    fn a_schedule_reads_like_its_documentation() {
        let segments = [
            Segment { flow: FlowId(0), from: at(0.0), to: at(1000.0), bytes_per_nano: 0.125 },
            Segment { flow: FlowId(1), from: at(0.0), to: at(1000.0 / 3.0), bytes_per_nano: 0.0625 },
        ];
        let text = String::from_utf8(written(&segments, Instant::ZERO)).unwrap();
        assert_eq!(text, format!("{TOP}0,0,1000,1000000000\n1,0,333.3333333333333144,500000000\n#end 2\n"));
        assert_eq!(read(text.as_bytes()).unwrap(), segments);
        assert_eq!(read(text.replace('\n', "\r\n").as_bytes()).unwrap(), segments);
    }

    #[test]
    fn faults_name_line_and_column() {
        let place = |text: &str| {
            let (line, column, _) = fault(text);
            (line, column)
        };
        assert_eq!(place(""), (1, 1));
        assert_eq!(place("coflow,mean\n"), (1, 1));
        assert_eq!(place("#cavalcade-schedule 2\n"), (1, 21));
        assert_eq!(place("#cavalcade-schedule 1\nflow,to_ns\n"), (2, 1));
        assert_eq!(place(&format!("{TOP}0,0,10,x\n")), (3, 8));
        assert_eq!(place(&format!("{TOP}0,0,10,1\n-1,0,10,8\n")), (4, 1));
        assert_eq!(place(&format!("{TOP}0,NaN,10,8\n")), (3, 3));
        assert_eq!(place(&format!("{TOP}0,0,inf,8\n")), (3, 5));
        assert_eq!(place(&format!("{TOP}0,0,10\n")), (3, 7));
        assert_eq!(place(&format!("{TOP}0,0,10,8,9\n")), (3, 9));
        assert_eq!(place(&format!("{TOP}0,10,9,8\n")), (3, 6));
        assert_eq!(place(&format!("{TOP}0,0,10,8\n")), (4, 1));
        assert_eq!(place(&format!("{TOP}0,0,10,8\n#end 2\n")), (4, 6));
        assert_eq!(place(&format!("{TOP}#end 0\n\n")), (4, 1));
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_lines_are_refused() {
        let mut bytes = TOP.as_bytes().to_vec();
        bytes.extend(b"0,0,\xff");
        assert!(matches!(read(&bytes), Err(ScheduleError { line: 3, column: 5, fault: Fault::NotText })));
        bytes.extend([b'9'; 10_000]);
        assert!(matches!(read(&bytes), Err(ScheduleError { fault: Fault::LongLine, .. })));
    }

    #[test]
    fn every_proper_prefix_of_a_schedule_is_noticed() {
        let whole = written(
            &[Segment { flow: FlowId(7), from: at(1.0), to: at(2.5), bytes_per_nano: 1.0 }; 12],
            Instant::ZERO,
        );
        for end in 0..whole.len() - 1 {
            assert!(read(&whole[..end]).is_err(), "cut at byte {end}");
        }
    }

    proptest! {
        #[test]
        fn times_come_back_the_same_and_rates_to_the_last_place(
            flow: u32, whole in 0..1u64 << 62, length in 0.0..1e15f64, bytes_per_nano in 0.0..1e6f64,
            fraction in 0.0..1.0f64, origin in 0..1u64 << 62,
        ) {
            let from = FineInstant::new(Instant(whole), fraction);
            let to = FineInstant::new(from.whole(), from.fraction() + length);
            let (segment, origin) = (Segment { flow: FlowId(flow), from, to, bytes_per_nano }, Instant(origin));
            let written = written(&[segment], origin);
            let back = ScheduleReader::new(&written[..], origin).unwrap().next().unwrap().unwrap();
            prop_assert_eq!((back.flow, back.from, back.to), (segment.flow, segment.from, segment.to));
            prop_assert!((back.bytes_per_nano - bytes_per_nano).abs() <= 2.0 * f64::EPSILON * bytes_per_nano);
        }

        #[test]
        fn no_input_makes_the_reader_panic(bytes: Vec<u8>, tail in "[0-9,.eE#nd\n-]{0,60}") {
            let _ = read(&bytes);
            let _ = read(format!("{TOP}{tail}").as_bytes());
        }
    }
}

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
//! Flows are the dense ids of the workload. Times and rates are decimal and may have a fraction; they are written so that
//! reading gives back the same times, and rates to within a unit in the last place. Lines come in no particular order.
//! The last line counts the segments, so that a file cut short is noticed. Anything that reads CSV with `#` for comments
//! reads it.
//!
//! Both directions keep one line in memory. Rejected: a binary form (three times smaller before compression, hardly
//! smaller after it, and readable by no other tool), and exponents, which some readers of CSV take for text.

use std::io::{self, BufRead, Read, Write};

use cavalcade_model::FlowId;

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
    /// From when, in nanoseconds since the start.
    pub from_ns: f64,
    /// Until when.
    pub to_ns: f64,
    /// At what rate, in bytes per nanosecond.
    pub bytes_per_nano: f64,
}

/// Writes a schedule, segment by segment.
#[derive(Debug)]
pub struct ScheduleWriter<W: Write> {
    out: W,
    segments: u64,
}

impl<W: Write> ScheduleWriter<W> {
    /// Begins a schedule on `out`, which should be buffered.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{MAGIC}{VERSION}\n{HEADER}")?;
        Ok(Self { out, segments: 0 })
    }

    /// Adds a segment.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn write(&mut self, segment: &Segment) -> io::Result<()> {
        self.segments += 1;
        let Segment { flow, from_ns, to_ns, bytes_per_nano } = *segment;
        writeln!(self.out, "{flow},{from_ns},{to_ns},{}", bytes_per_nano * BPS)
    }

    /// Ends the schedule, and hands back what it was written to. Without it the schedule counts as cut short.
    ///
    /// # Errors
    /// If the output cannot be written or flushed.
    pub fn finish(mut self) -> io::Result<W> {
        writeln!(self.out, "{END}{}", self.segments)?;
        self.out.flush()?;
        Ok(self.out)
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
    line: u64,
    text: Vec<u8>,
    segments: u64,
    done: bool,
}

impl<R: BufRead> ScheduleReader<R> {
    /// Begins to read; takes in the first two lines.
    ///
    /// # Errors
    /// If `input` cannot be read or is not a schedule of this version.
    pub fn new(input: R) -> Result<Self, ScheduleError> {
        let mut reader = Self { input, line: 0, text: Vec::new(), segments: 0, done: false };
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
        let segment = parse(text).map_err(|(column, fault)| self.error(column, fault))?;
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

/// Reads one line; an error comes with its column.
fn parse(line: &str) -> Result<Segment, (usize, Fault)> {
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
    let number = |index: usize, expected: &'static str| match texts[index].parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(fault(index, expected)),
    };
    let flow = texts[0].parse().map_err(|_| fault(0, "a flow's number, 0 to 4294967295"))?;
    let from_ns = number(1, "a time in nanoseconds, 0 or more")?;
    let to_ns = number(2, "a time in nanoseconds, 0 or more")?;
    let rate_bps = number(3, "a rate in bits per second, 0 or more")?;
    if to_ns < from_ns {
        return Err((column(2), Fault::Backwards));
    }
    Ok(Segment { flow: FlowId(flow), from_ns, to_ns, bytes_per_nano: rate_bps / BPS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(segments: &[Segment]) -> Vec<u8> {
        let mut writer = ScheduleWriter::new(Vec::new()).unwrap();
        for segment in segments {
            writer.write(segment).unwrap();
        }
        writer.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Result<Vec<Segment>, ScheduleError> {
        ScheduleReader::new(bytes)?.collect()
    }

    fn fault(text: &str) -> (u64, usize, String) {
        let error = read(text.as_bytes()).unwrap_err();
        (error.line, error.column, error.fault.to_string())
    }

    const TOP: &str = "#cavalcade-schedule 1\nflow,from_ns,to_ns,rate_bps\n";

    #[test]
    fn a_schedule_reads_like_its_documentation() {
        let segments = [
            Segment { flow: FlowId(0), from_ns: 0.0, to_ns: 1000.0, bytes_per_nano: 0.125 },
            Segment { flow: FlowId(1), from_ns: 0.0, to_ns: 1000.0 / 3.0, bytes_per_nano: 0.0625 },
        ];
        let text = String::from_utf8(written(&segments)).unwrap();
        assert_eq!(text, format!("{TOP}0,0,1000,1000000000\n1,0,333.3333333333333,500000000\n#end 2\n"));
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
        let whole =
            written(&[Segment { flow: FlowId(7), from_ns: 1.0, to_ns: 2.5, bytes_per_nano: 1.0 }; 12]);
        for end in 0..whole.len() - 1 {
            assert!(read(&whole[..end]).is_err(), "cut at byte {end}");
        }
    }

    proptest! {
        #[test]
        fn times_come_back_the_same_and_rates_to_the_last_place(
            flow: u32, from_ns in 0.0..1e18f64, length in 0.0..1e15f64, bytes_per_nano in 0.0..1e6f64,
        ) {
            let segment = Segment { flow: FlowId(flow), from_ns, to_ns: from_ns + length, bytes_per_nano };
            let back = read(&written(&[segment])).unwrap()[0];
            prop_assert_eq!((back.flow, back.from_ns, back.to_ns), (segment.flow, segment.from_ns, segment.to_ns));
            prop_assert!((back.bytes_per_nano - bytes_per_nano).abs() <= 2.0 * f64::EPSILON * bytes_per_nano);
        }

        #[test]
        fn no_input_makes_the_reader_panic(bytes: Vec<u8>, tail in "[0-9,.eE#nd\n-]{0,60}") {
            let _ = read(&bytes);
            let _ = read(format!("{TOP}{tail}").as_bytes());
        }
    }
}

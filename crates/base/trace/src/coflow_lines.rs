//! Formats with a header and one coflow a line: read as a whole, or as they go ([`TaskStream`]).
//!
//! A format gives the parser of its line, and both readers are made of that: what the one reads the
//! other does, but that a stream has its coflows in order of arrival.
//!
//! # Invariant
//! A stream holds one line and its flows, and of the coflows before it only the names, since these
//! have to differ.

use core::fmt;
use std::collections::BTreeSet;

use cavalcade_model::{Coflow, Flow, Instant, Task, Workload, WorkloadBuilder, WorkloadError};

use crate::decimal::Millis;
use crate::detection::detect;
use crate::error::{Fault, TraceError, TraceErrorKind};
use crate::input::{Feed, Input, LogLines, Next};
use crate::tokens::{Header, Tokens, Word, build};
use crate::{Format, ReadOptions, Reader};

/// A coflow as its line has it.
pub(crate) struct CoflowLine<'t> {
    pub(crate) name: Word<'t>,
    pub(crate) arrival: Instant,
    pub(crate) flows: Vec<Flow>,
}

/// What a line may hold.
pub(crate) struct Room {
    /// The number of ports.
    pub(crate) ports: u32,
    limit: u64,
    left: u64,
}

impl Room {
    fn new(ports: u32, options: &ReadOptions) -> Self {
        let limit = options.limits.flows;
        Self { ports, limit, left: limit }
    }

    /// Takes the room of so many flows of the coflow `name`; [`None`] is more than there can be.
    pub(crate) fn take(&mut self, flows: Option<u64>, name: Word<'_>) -> Result<(), Fault> {
        let left = flows.and_then(|flows| self.left.checked_sub(flows));
        let too_many = || Fault::of_line(name.span(), TraceErrorKind::TooManyFlows { limit: self.limit });
        self.left = left.ok_or_else(too_many)?;
        Ok(())
    }
}

/// The parser of a line, up to its end.
type Parse = for<'t> fn(&mut Tokens<'t>, &mut Room) -> Result<CoflowLine<'t>, Fault>;

/// The reader of a format with a header and one coflow a line.
#[derive(Clone, Copy)]
pub struct CoflowReader {
    parse: Parse,
}

impl CoflowReader {
    pub(crate) const fn new(parse: Parse) -> Self {
        Self { parse }
    }

    /// Reads the whole.
    pub(crate) fn read(self, text: &str, options: &ReadOptions) -> Result<Workload, Fault> {
        let mut tokens = Tokens::new(text);
        let header = Header::read(&mut tokens, options)?;
        let mut room = Room::new(header.ports, options);
        let (mut builder, mut names) = (WorkloadBuilder::new(header.ports), Vec::new());
        while tokens.skip_blank_lines() {
            header.check_next(names.len() as u64, tokens.offset())?;
            let CoflowLine { name, arrival, flows } = (self.parse)(&mut tokens, &mut room)?;
            names.push(name.offset);
            builder.coflow(name.text, arrival, flows);
        }
        header.check_end(names.len() as u64, tokens.offset())?;
        build(builder, text, &names)
    }
}

/// The tasks of a trace that is read as it goes, in order of arrival: each a coflow.
///
/// After an error there are no more.
pub struct TaskStream<'a> {
    lines: LogLines<'a>,
    reader: CoflowReader,
    format: Format,
    header: Header,
    options: ReadOptions,
    names: BTreeSet<Box<str>>,
    latest: Instant,
    bytes: u128,
    is_over: bool,
}

impl<'a> TaskStream<'a> {
    /// Opens a trace, finds out which format it is, and reads its header.
    ///
    /// # Errors
    /// If it cannot be read, or is of a format that is only read whole.
    pub fn open(input: Input<'a>, options: &ReadOptions) -> Result<Self, TraceError> {
        let mut feed = input.open()?;
        let format = options.format.map_or_else(|| format_of(&mut feed, options), Ok)?;
        let Reader::Coflows(reader) = format.syntax().read else {
            let streamed = || Format::ALL.into_iter().filter(|format| format.is_streamed());
            let expected = streamed().map(Format::name).collect::<Vec<_>>().join(" or ");
            let kind = TraceErrorKind::NotStreamed { format: format.name(), expected };
            return Err(TraceError::of_whole(&feed.name, kind));
        };
        let mut lines = LogLines::new(feed, Vec::new(), Vec::new(), options.limits.line);
        let header = match lines.advance()? {
            Next::Line(line) => {
                let header = line.whole().map(|text| Header::read(&mut Tokens::new(text), options))?;
                header.map_err(|fault| line.locate(fault))?
            }
            Next::End { .. } | Next::Nothing => {
                return Err(TraceError::of_whole(lines.last_name(), TraceErrorKind::Empty));
            }
        };
        let (names, latest, bytes, is_over) = (BTreeSet::new(), Instant::ZERO, 0, false);
        Ok(Self { lines, reader, format, header, options: *options, names, latest, bytes, is_over })
    }

    /// The number of ports.
    pub fn ports(&self) -> u32 {
        self.header.ports
    }

    /// The number of coflows that the header speaks of. A stream with more or fewer ends with an
    /// error.
    pub fn coflows(&self) -> u64 {
        self.header.coflows
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self) -> Result<Option<(Task, Vec<Coflow>)>, TraceError> {
        let found = self.names.len() as u64;
        let line = match self.lines.advance()? {
            Next::Line(line) => line,
            Next::End { cut: Some(codec) } => {
                return Err(TraceError::of_whole(self.lines.last_name(), codec.cut_off()));
            }
            Next::End { cut: None } | Next::Nothing => {
                let at_end = |fault: Fault| TraceError::of_whole(self.lines.last_name(), fault.kind);
                return self.header.check_end(found, 0).map(|()| None).map_err(at_end);
            }
        };
        let text = line.whole()?;
        let mut parse = || {
            self.header.check_next(found, 0)?;
            let mut room = Room::new(self.header.ports, &self.options);
            let CoflowLine { name, arrival, flows } =
                (self.reader.parse)(&mut Tokens::of_line(text), &mut room)?;
            if arrival < self.latest {
                let [arrival, latest] = [arrival, self.latest].map(|time| Millis(time.0).to_string());
                return Err(Fault::of_line(name.span(), TraceErrorKind::OutOfOrder { arrival, latest }));
            }
            self.latest = arrival;
            if !self.names.insert(name.text.into()) {
                let error = WorkloadError::DuplicateTask { task: name.text.to_owned() };
                return Err(Fault::new(name.span(), TraceErrorKind::Workload(error)));
            }
            self.bytes += flows.iter().map(|flow| u128::from(flow.size.0)).sum::<u128>();
            if self.bytes > 1 << 63 {
                return Err(Fault::of_line(name.span(), TraceErrorKind::Workload(WorkloadError::TooLarge)));
            }
            Ok((Task::of_coflow(name.text, arrival), vec![Coflow { flows }]))
        };
        parse().map(Some).map_err(|fault| line.locate(fault))
    }
}

impl Iterator for TaskStream<'_> {
    type Item = Result<(Task, Vec<Coflow>), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl fmt::Debug for TaskStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskStream({} of {} coflows)", self.names.len(), self.header.coflows)
    }
}

/// The format of a text, of which as much is looked at as shows its first two lines.
fn format_of(feed: &mut Feed<'_>, options: &ReadOptions) -> Result<Format, TraceError> {
    loop {
        let ahead = feed.ahead();
        let said = ahead.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        // The last one may not be there as a whole.
        let has_enough = said.take(3).count() == 3 || ahead.len() as u64 > options.limits.line.0;
        if has_enough || !feed.more()? {
            let ahead = feed.ahead();
            let valid = core::str::from_utf8(ahead).map_or_else(|error| error.valid_up_to(), |_| ahead.len());
            let text = core::str::from_utf8(&ahead[..valid]).expect("valid up to here");
            return detect(text).map_err(|fault| TraceError::locate(&feed.name, ahead, fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    const TRACE: &str = "3 3\na 0 2 0 1 1 2:2.0\n\nb 7.5 1 2 2 0:1 1:0.5\nc 7.5 1 0 1 1:1\n";

    fn stream(text: &str) -> Result<Vec<(Task, Vec<Coflow>)>, TraceError> {
        let input = Input::of_bytes("t", text.as_bytes());
        TaskStream::open(input, &ReadOptions::default())?.collect()
    }

    fn collected(text: &str) -> Workload {
        let mut builder = WorkloadBuilder::new(3);
        for (task, coflows) in stream(text).expect("this is a trace") {
            builder.push(task, coflows);
        }
        builder.build().expect("this is a workload")
    }

    #[test]
    fn a_stream_has_what_the_whole_has() {
        let sincronia = "3 2\na 0 2 1 2 0 1 2.0 0 2 1\nb 1 1 1 1 2 0 3\n";
        for text in [TRACE, sincronia, &TRACE.replace('\n', "\r\n"), &format!("\u{feff}\n{TRACE}")] {
            let (whole, _) = read(text.as_bytes(), "t", &ReadOptions::default()).expect("this is a trace");
            assert_eq!(collected(text), whole, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_line_is_found_where_the_whole_reader_finds_it() {
        for (from, to) in [
            ("2:2.0", "3:2.0"),
            ("b 7.5 1", "b 7.5 0"),
            ("1:0.5", "1"),
            ("1:0.5", "1:0.5 2"),
            ("c 7.5 1 0 1 1:1", "c 7.5 1 0"),
            ("c 7.5 1 0 1 1:1\n", ""),
            ("3 3", "3 2"),
            ("\nc ", "\nb "),
            ("3 3", "3 3 3"),
            ("7.5 1 2", "x 1 2"),
            (TRACE, "\n"),
            (TRACE, "0 0\n"),
            (TRACE, "3 0\n"),
            (TRACE, "what is this\n"),
        ] {
            let text = TRACE.replacen(from, to, 1);
            let whole = read(text.as_bytes(), "t", &ReadOptions::default()).expect_err(&text);
            let streamed = stream(&text).expect_err(&text);
            assert_eq!(streamed.kind, whole.kind, "{text}");
            // Where a text ends has no line of its own.
            if !matches!(whole.kind, TraceErrorKind::TooFew { .. }) {
                assert_eq!(streamed, whole, "{text}");
            }
        }
    }

    #[test]
    fn a_coflow_that_arrives_before_the_one_above_it_is_refused_with_its_line_and_the_cure() {
        let error = stream(&TRACE.replace("c 7.5", "c 7")).expect_err("out of order").to_string();
        assert!(
            error.starts_with("t:5: the coflow arrives at 7 ms, before the one above it at 7.5 ms: "),
            "{error}"
        );
        assert!(error.contains("sort its lines by the second column"), "{error}");
    }

    #[test]
    fn a_format_that_says_its_flows_in_any_order_is_refused_by_name() {
        for text in
            ["0 0 1 100 0\n", "src,dst,bytes,start_ns\n0,1,5,0\n", "{\"Event\":\"SparkListenerLogStart\"}\n"]
        {
            let error = stream(text).expect_err(text);
            assert!(matches!(error.kind, TraceErrorKind::NotStreamed { .. }), "{error}");
        }
    }

    #[test]
    fn data_that_is_cut_off_is_an_error_at_the_end() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(TRACE.as_bytes()).expect("memory takes it");
        let bytes = encoder.finish().expect("memory takes it");
        let read = |bytes: &[u8]| {
            TaskStream::open(Input::of_bytes("t", bytes), &ReadOptions::default())?
                .collect::<Result<Vec<_>, _>>()
        };
        assert_eq!(read(&bytes).expect("it is whole").len(), 3);
        let error = read(&bytes[..bytes.len() - 4]).expect_err("it is not");
        assert!(matches!(error.kind, TraceErrorKind::Damaged { compression: "gzip", .. }), "{error}");
    }
}

//! What a trace is read from: files by name, opened when their turn comes and read once from begin
//! to end.
//!
//! Most formats are read as one text. Logs grow to many gigabytes and say little for their length,
//! so they come line by line ([`LogLines`]), and only one line is held.

use core::fmt;
use std::io::{self, BufRead};

use cavalcade_model::Bytes;
use memchr::memchr;

use crate::compression::{BUFFER, Broken, Codec, Content};
use crate::error::{Fault, TraceError, TraceErrorKind};
use crate::json;

/// Opens a file.
type Open<'a> = Box<dyn FnOnce() -> io::Result<Box<dyn BufRead + 'a>> + 'a>;

/// A file of a trace that will be read.
pub struct Input<'a> {
    name: String,
    open: Open<'a>,
}

impl<'a> Input<'a> {
    /// A file that messages call `name`. What `open` gives may be compressed; it is opened once,
    /// when it is read.
    pub fn new(
        name: impl Into<String>,
        open: impl FnOnce() -> io::Result<Box<dyn BufRead + 'a>> + 'a,
    ) -> Self {
        Self { name: name.into(), open: Box::new(open) }
    }

    /// A file that lies in memory.
    pub fn of_bytes(name: impl Into<String>, bytes: &'a [u8]) -> Self {
        Self::new(name, move || Ok(Box::new(bytes)))
    }

    /// Opens the file and decompresses it as it is read, for readers of other files than traces.
    ///
    /// # Errors
    /// If it cannot be opened, or is compressed in a way that cannot be read. Where data turns out
    /// to be damaged or cut off, reading fails.
    pub fn decompressed(self) -> Result<Decompressed<'a>, TraceError> {
        Ok(Decompressed { content: self.open()?.content })
    }

    pub(crate) fn open(self) -> Result<Feed<'a>, TraceError> {
        let whole = |kind| TraceError::of_whole(&self.name, kind);
        let file =
            (self.open)().map_err(|error| whole(TraceErrorKind::Unreadable { reason: error.to_string() }))?;
        let content = Content::new(file).map_err(|broken| whole(broken.into_kind()))?;
        Ok(Feed { content, name: self.name, ahead: Vec::new(), at: 0, end: None })
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({})", self.name)
    }
}

/// The content of a file, decompressed as it is read.
pub struct Decompressed<'a> {
    content: Content<'a>,
}

impl io::Read for Decompressed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.content.read(buffer).map_err(|broken| io::Error::other(broken.into_kind().to_string()))
    }
}

/// The text of a file that is being read.
pub(crate) struct Feed<'a> {
    content: Content<'a>,
    pub(crate) name: String,
    /// Text that has been decompressed, of which `at` bytes have been taken.
    ahead: Vec<u8>,
    at: usize,
    /// Why no more comes.
    end: Option<End>,
}

/// The end of a file's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    /// Inside of compressed data.
    CutOff(Codec),
}

impl Feed<'_> {
    /// The text that has been decompressed and not taken.
    pub(crate) fn ahead(&self) -> &[u8] {
        &self.ahead[self.at..]
    }

    /// Decompresses more; false where there is none.
    pub(crate) fn more(&mut self) -> Result<bool, TraceError> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.ahead.drain(..self.at);
        self.at = 0;
        let filled = self.ahead.len();
        // Doubling makes looking for the end of a long line cost what the line is long.
        self.ahead.resize(filled + filled.max(BUFFER), 0);
        let mut end = filled;
        // A pipe or a decompressor gives less than is asked for; who reads again from the beginning
        // shall not do so for each little that comes.
        while end < self.ahead.len() && self.end.is_none() {
            match self.content.read(&mut self.ahead[end..]) {
                Ok(0) => self.end = Some(End::Whole),
                Ok(read) => end += read,
                Err(Broken::CutOff { codec }) => self.end = Some(End::CutOff(codec)),
                Err(Broken::Damaged(kind)) => return Err(TraceError::of_whole(&self.name, kind)),
            }
        }
        self.ahead.truncate(end);
        Ok(end > filled)
    }

    /// The name and the whole text, which must not be longer than `limit`.
    pub(crate) fn into_text(mut self, limit: Bytes) -> Result<(String, Vec<u8>), TraceError> {
        self.ahead.drain(..self.at);
        let result = match self.end {
            None => self.content.read_to_end(&mut self.ahead, limit),
            Some(End::Whole) => Ok(()),
            Some(End::CutOff(codec)) => Err(Broken::CutOff { codec }),
        };
        match result {
            Ok(()) if self.ahead.len() as u64 <= limit.0 => Ok((self.name, self.ahead)),
            Ok(()) => Err(TraceError::of_whole(&self.name, TraceErrorKind::TooLong { limit })),
            Err(broken) => Err(TraceError::of_whole(&self.name, broken.into_kind())),
        }
    }

    /// Moves the next line into `line`, with its end; false where there is none. Where the text
    /// ends inside a line, this is what there is of it.
    fn line(&mut self, line: &mut Vec<u8>, limit: Bytes) -> Result<bool, TraceError> {
        let mut searched = 0;
        loop {
            let ahead = self.ahead();
            let newline = memchr(b'\n', &ahead[searched..]);
            let length = newline.map(|newline| searched + newline + 1);
            if (line.len() + length.unwrap_or(ahead.len())) as u64 > limit.0 {
                return Err(TraceError::of_whole(&self.name, TraceErrorKind::LineTooLong { limit }));
            }
            searched = ahead.len();
            let length = match length {
                Some(length) => length,
                None if self.more()? => continue,
                None => self.ahead().len(),
            };
            line.extend_from_slice(&self.ahead()[..length]);
            self.at += length;
            return Ok(length > 0);
        }
    }
}

/// A place in the files of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    /// The file, by number.
    file: u32,
    /// The line, from 1.
    pub(crate) line: u64,
}

/// The lines of logs that have something on them, log after log.
pub struct LogLines<'a> {
    /// Logs that have not begun, in reverse.
    logs: Vec<Vec<Input<'a>>>,
    /// Files of the present log that have not been opened, in reverse.
    files: Vec<Input<'a>>,
    feed: Option<Feed<'a>>,
    /// The names of all files that have been opened.
    names: Vec<String>,
    line: Vec<u8>,
    /// The number of lines read of the present file.
    number: u64,
    limit: Bytes,
}

/// What comes next in logs.
pub(crate) enum Next<'l> {
    /// A line.
    Line(Line<'l>),
    /// The end of a log.
    End {
        /// The codec in whose data the log was cut off.
        cut: Option<Codec>,
    },
    /// The end of the last log.
    Nothing,
}

/// A line, or several if an object is spread over them.
#[derive(Clone, Copy)]
pub(crate) struct Line<'l> {
    bytes: &'l [u8],
    name: &'l str,
    pub(crate) spot: Spot,
}

impl<'a> LogLines<'a> {
    /// The lines of `first`, of the `files` behind it, and of further logs. No line may be longer
    /// than `limit`.
    pub(crate) fn new(
        first: Feed<'a>,
        mut files: Vec<Input<'a>>,
        mut logs: Vec<Vec<Input<'a>>>,
        limit: Bytes,
    ) -> Self {
        files.reverse();
        logs.reverse();
        let names = vec![first.name.clone()];
        Self { logs, files, feed: Some(first), names, line: Vec::new(), number: 0, limit }
    }

    /// Goes on to the next line.
    pub(crate) fn advance(&mut self) -> Result<Next<'_>, TraceError> {
        loop {
            let Some(feed) = &mut self.feed else {
                let Some(mut files) = self.logs.pop() else { return Ok(Next::Nothing) };
                files.reverse();
                self.files = files;
                self.open_next()?;
                continue;
            };
            self.line.clear();
            if !feed.line(&mut self.line, self.limit)? {
                let (end, name) = (feed.end, core::mem::take(&mut feed.name));
                self.feed = None;
                match end {
                    Some(End::CutOff(codec)) if self.files.is_empty() => {
                        return Ok(Next::End { cut: Some(codec) });
                    }
                    Some(End::CutOff(codec)) => {
                        return Err(TraceError::of_whole(&name, Broken::CutOff { codec }.into_kind()));
                    }
                    _ if self.files.is_empty() => return Ok(Next::End { cut: None }),
                    _ => self.open_next()?,
                }
                continue;
            }
            self.number += 1;
            let spot = Spot { file: self.names.len() as u32 - 1, line: self.number };
            if bare(&self.line) == b"{" {
                // An object over several lines, as jq writes it, ends with a brace that is not
                // moved in.
                while feed.line(&mut self.line, self.limit)? {
                    self.number += 1;
                    let last = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                    let begin = last.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
                    if last[begin..].trim_ascii_end() == b"}" {
                        break;
                    }
                }
            }
            if !bare(&self.line).is_empty() {
                let name = &self.names[spot.file as usize];
                return Ok(Next::Line(Line { bytes: &self.line, name, spot }));
            }
        }
    }

    fn open_next(&mut self) -> Result<(), TraceError> {
        if let Some(file) = self.files.pop() {
            let feed = file.open()?;
            self.names.push(feed.name.clone());
            self.feed = Some(feed);
            self.number = 0;
        }
        Ok(())
    }

    /// The name of the file with a line that has been read.
    pub(crate) fn name(&self, spot: Spot) -> &str {
        &self.names[spot.file as usize]
    }

    /// The name of the file that was opened last.
    pub(crate) fn last_name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// The fault of a line that has been read.
    pub(crate) fn fault(&self, spot: Spot, kind: TraceErrorKind) -> TraceError {
        TraceError { line: Some(spot.line), ..TraceError::of_whole(self.name(spot), kind) }
    }
}

/// A line without blanks and a byte order mark around it.
fn bare(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_start()
}

impl Line<'_> {
    /// The line as text, without the blanks around it.
    pub(crate) fn text(&self) -> Result<&str, TraceError> {
        let bare = bare(self.bytes);
        core::str::from_utf8(bare).map_err(|error| {
            let at = error.valid_up_to();
            self.fault_at(self.indent() + at, TraceErrorKind::NotUtf8 { byte: bare[at] })
        })
    }

    /// The line as text, with all that is around it.
    pub(crate) fn whole(&self) -> Result<&str, TraceError> {
        core::str::from_utf8(self.bytes).map_err(|error| {
            let at = error.valid_up_to();
            self.fault_at(at, TraceErrorKind::NotUtf8 { byte: self.bytes[at] })
        })
    }

    /// The fault of the whole line.
    pub(crate) fn fault(&self, kind: TraceErrorKind) -> TraceError {
        TraceError { column: None, ..self.fault_at(0, kind) }
    }

    /// A fault in the whole of this line.
    #[cold]
    pub(crate) fn locate(&self, fault: Fault) -> TraceError {
        let located = TraceError::locate(self.name, self.bytes, fault);
        TraceError { line: located.line.map(|line| line + self.spot.line - 1), ..located }
    }

    /// The fault that the JSON parser found in the text of this line.
    #[cold]
    pub(crate) fn broken(&self, error: &serde_json::Error, expected: &'static str) -> TraceError {
        let text = self.text().unwrap_or_default();
        let (at, kind) = json::problem(text, error, expected);
        self.fault_at(self.indent() + at, kind)
    }

    fn indent(&self) -> usize {
        self.bytes.trim_ascii_end().len() - bare(self.bytes).len()
    }

    fn fault_at(&self, at: usize, kind: TraceErrorKind) -> TraceError {
        let mut fault = TraceError::in_text(self.name, self.bytes, at, kind);
        fault.line = fault.line.map(|line| line + self.spot.line - 1);
        fault
    }
}

//! Words on lines: the tokenizer of the three text formats.
//!
//! It hands out slices of the text with their offsets and counts no lines; a [`Fault`] keeps the
//! offset and the line is counted if it comes to a message. Blank space is ASCII (so a carriage
//! return before a newline is nothing), and since all separators are ASCII a slice never splits a
//! character.

use core::ops::Range;

use cavalcade_model::{Bytes, Instant, LATEST, PortId, Workload, WorkloadBuilder, WorkloadError};

use crate::ReadOptions;
use crate::decimal::Decimal;
use crate::error::{Expectation, Fault, TraceErrorKind};

/// Length of an unexpected word that a message quotes.
const QUOTED: usize = 40;

/// Returns whether a byte separates words on a line.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// A word and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) offset: usize,
}

impl Word<'_> {
    pub(crate) fn span(&self) -> Range<usize> {
        self.offset..self.offset + self.text.len()
    }

    /// The word as a name: of characters that a screen can show, so that no text passes for
    /// compressed bytes.
    pub(crate) fn as_name(self, expected: &'static Expectation) -> Result<Self, Fault> {
        if self.text.chars().any(char::is_control) { Err(self.unexpected(expected)) } else { Ok(self) }
    }

    /// The fault of being something else than expected.
    #[cold]
    pub(crate) fn unexpected(&self, expected: &'static Expectation) -> Fault {
        let mut found: String = self.text.chars().take(QUOTED).collect();
        if found.len() < self.text.len() {
            found.push('…');
        }
        Fault::new(self.span(), TraceErrorKind::Expected { expected, found: format!("{found:?}") })
    }
}

/// A position in a text, moving forward word by word and line by line.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    comments: bool,
}

impl<'a> Tokens<'a> {
    /// At the start of `text`, behind a byte order mark.
    pub(crate) fn new(text: &'a str) -> Self {
        let at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, at, comments: false }
    }

    /// At the start of a line behind the first of a text, where a byte order mark is a character.
    pub(crate) fn of_line(text: &'a str) -> Self {
        Self { text, at: 0, comments: false }
    }

    /// Takes a word that begins with `#` for the start of a comment, up to the end of the line.
    pub(crate) fn with_comments(mut self) -> Self {
        self.comments = true;
        self
    }

    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes left: no list can have more members.
    pub(crate) fn left(&self) -> usize {
        self.text.len() - self.at
    }

    /// Moves to the first word that is left; false where there is none.
    pub(crate) fn skip_blank_lines(&mut self) -> bool {
        loop {
            self.skip_blanks();
            match self.text.as_bytes().get(self.at) {
                None => return false,
                Some(b'\n') => self.at += 1,
                Some(_) => return true,
            }
        }
    }

    /// The next word on this line.
    pub(crate) fn word(&mut self) -> Option<Word<'a>> {
        self.skip_blanks();
        let bytes = self.text.as_bytes();
        let start = self.at;
        while self.at < bytes.len() && bytes[self.at] != b'\n' && !is_blank(bytes[self.at]) {
            self.at += 1;
        }
        (self.at > start).then(|| Word { text: &self.text[start..self.at], offset: start })
    }

    /// The next word on this line, which has to be there.
    pub(crate) fn expect(&mut self, expected: &'static Expectation) -> Result<Word<'a>, Fault> {
        self.word().ok_or_else(|| self.cut_off(expected))
    }

    /// The next word on this line, which has to be there and be a name.
    pub(crate) fn name(&mut self, expected: &'static Expectation) -> Result<Word<'a>, Fault> {
        self.expect(expected)?.as_name(expected)
    }

    /// A whole number.
    pub(crate) fn number(&mut self, expected: &'static Expectation) -> Result<u64, Fault> {
        let word = self.expect(expected)?;
        whole_number(word.text).ok_or_else(|| word.unexpected(expected))
    }

    /// A port of `ports`.
    pub(crate) fn port(&mut self, ports: u32, expected: &'static Expectation) -> Result<PortId, Fault> {
        let word = self.expect(expected)?;
        port(word, ports, expected)
    }

    /// A number of milliseconds that is a whole number of nanoseconds.
    pub(crate) fn millis(&mut self, expected: &'static Expectation) -> Result<Instant, Fault> {
        let word = self.expect(expected)?;
        Decimal::parse(word.text)
            .and_then(|millis| millis.times_exactly(1_000_000))
            .map(Instant)
            .filter(|&arrival| arrival <= LATEST)
            .ok_or_else(|| word.unexpected(expected))
    }

    /// Leaves the line, which has to hold nothing more.
    pub(crate) fn end_line(&mut self, expected: &'static Expectation) -> Result<(), Fault> {
        match self.word() {
            Some(word) => Err(word.unexpected(expected)),
            None => Ok(()),
        }
    }

    fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && is_blank(bytes[self.at]) {
            self.at += 1;
        }
        if self.comments && bytes.get(self.at) == Some(&b'#') {
            let rest = &bytes[self.at..];
            self.at += rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        }
    }

    #[cold]
    fn cut_off(&self, expected: &'static Expectation) -> Fault {
        let end = if self.left() == 0 { "the end of the trace" } else { "the end of the line" };
        Fault::new(self.at..self.at, TraceErrorKind::Expected { expected, found: end.to_owned() })
    }
}

/// A whole number in plain digits.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    // Nineteen digits cannot overflow, which takes the check out of the loop.
    if text.is_empty() || text.len() > 20 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (safe, rest) = text.as_bytes().split_at(text.len().min(19));
    let number = safe.iter().fold(0, |sum, digit| 10 * sum + u64::from(digit - b'0'));
    rest.iter().try_fold(number, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// A word as a port of `ports`.
pub(crate) fn port(word: Word<'_>, ports: u32, expected: &'static Expectation) -> Result<PortId, Fault> {
    let port = whole_number(word.text)
        .and_then(|port| u32::try_from(port).ok())
        .ok_or_else(|| word.unexpected(expected))?;
    if port >= ports {
        return Err(Fault::new(word.span(), TraceErrorKind::PortOutOfRange { port, last: ports - 1 }));
    }
    Ok(PortId(port))
}

/// A word as a size in MB of 2²⁰ bytes, shared out in `parts` of whole bytes: to the nearest, and
/// never nothing.
pub(crate) fn megabytes(
    word: Word<'_>,
    text: &str,
    parts: u64,
    expected: &'static Expectation,
) -> Result<Bytes, Fault> {
    Decimal::parse(text)
        .filter(|size| !size.is_zero())
        .and_then(|size| size.times_over(1 << 20, parts))
        .filter(|&bytes| bytes <= 1 << 63)
        .map(|bytes| Bytes(bytes.max(1)))
        .ok_or_else(|| word.unexpected(expected))
}

/// The first line of the two formats that have one: how many ports and how many coflows.
pub(crate) struct Header {
    pub(crate) ports: u32,
    pub(crate) coflows: u64,
}

const PORTS: Expectation =
    Expectation::new("the number of ports, at least 1", "the first line reads `ports coflows`");
const COFLOWS: Expectation =
    Expectation::new("the number of coflows", "the first line reads `ports coflows`");
const HEADER_END: Expectation = Expectation::new(
    "the end of the header",
    "the first line reads `ports coflows`, and each coflow has its own",
);

impl Header {
    pub(crate) fn read(tokens: &mut Tokens<'_>, options: &ReadOptions) -> Result<Self, Fault> {
        if !tokens.skip_blank_lines() {
            return Err(Fault::new(0..0, TraceErrorKind::Empty));
        }
        let word = tokens.expect(&PORTS)?;
        let said =
            whole_number(word.text).filter(|&ports| ports > 0).ok_or_else(|| word.unexpected(&PORTS))?;
        let ports = checked_ports(options.ports.map_or(said, u64::from), word.span(), options)?;
        let coflows = tokens.number(&COFLOWS)?;
        tokens.end_line(&HEADER_END)?;
        Ok(Self { ports, coflows })
    }

    /// Checks that one more coflow may follow, at byte `at`, where `found` have been.
    pub(crate) fn check_next(&self, found: u64, at: usize) -> Result<(), Fault> {
        if found < self.coflows {
            return Ok(());
        }
        Err(Fault::of_line(at..at, TraceErrorKind::TooMany { noun: "coflows", said: self.coflows }))
    }

    /// Checks that a trace may end at byte `end`, where `found` coflows have been.
    pub(crate) fn check_end(&self, found: u64, end: usize) -> Result<(), Fault> {
        if found < self.coflows {
            let kind = TraceErrorKind::TooFew { noun: "coflows", said: self.coflows, found };
            return Err(Fault::of_line(end..end, kind));
        }
        if found == 0 { Err(Fault::new(end..end, TraceErrorKind::NoCoflows)) } else { Ok(()) }
    }
}

/// A number of ports that is not out of proportion.
pub(crate) fn checked_ports(ports: u64, span: Range<usize>, options: &ReadOptions) -> Result<u32, Fault> {
    let limit = options.limits.ports;
    match u32::try_from(ports) {
        Ok(ports) if ports <= limit => Ok(ports),
        _ => Err(Fault::new(span, TraceErrorKind::TooManyPorts { ports, limit })),
    }
}

/// Builds the workload; an error that names a task is put where that task's name stands. `names`
/// holds the offset of each task's name, in the order in which they were given to the builder.
pub(crate) fn build(builder: WorkloadBuilder, text: &str, names: &[usize]) -> Result<Workload, Fault> {
    builder.build().map_err(|error| {
        let word = |offset: usize| {
            let mut tokens = Tokens { text, at: offset, comments: false };
            tokens.word().unwrap_or(Word { text: "", offset })
        };
        let span = match &error {
            WorkloadError::DuplicateTask { task } => names
                .iter()
                .map(|&offset| word(offset))
                .filter(|word| word.text == task)
                .nth(1)
                .map_or(0..0, |word| word.span()),
            _ => 0..0,
        };
        Fault::new(span, TraceErrorKind::Workload(error))
    })
}

//! The format of a text, from its first two lines that say something.
//!
//! `{` opens JSON: an event of a Spark log, whose first field is its name, or else the native format. Two numbers alone on a
//! line are the header of coflow-benchmark or Sincronia, which the next line tells apart: reducers carry a colon
//! (`7:12.0`), Sincronia has none. Five or six words are a flow, and a line that names columns is the header of a CSV. A
//! comment can only stand in a flow list, where the others would refuse it.

use crate::Format;
use crate::error::{Fault, TraceErrorKind};
use crate::tokens::Tokens;

/// Length of an unknown line that a message quotes.
const QUOTED: usize = 40;

/// The beginning of a text.
pub struct Opening<'a> {
    /// The text from its first word on.
    pub text: &'a str,
    /// The words of the first line.
    pub words: Vec<&'a str>,
    /// The second line that says something; empty if there is none.
    pub second: &'a str,
}

impl Opening<'_> {
    /// Tells whether the first line is two whole numbers.
    pub fn is_header(&self) -> bool {
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        self.words.len() == 2 && self.words.iter().all(is_number)
    }

    /// Tells whether the first line is an event of a Spark log.
    pub fn is_event(&self) -> bool {
        self.text.strip_prefix('{').is_some_and(|fields| fields.trim_start().starts_with("\"Event\""))
    }

    /// Tells whether this is a table of SWIM: jobs with their sizes, and nothing of who sends to whom.
    fn is_swim(&self) -> bool {
        let line = self.text.lines().next().unwrap_or_default();
        let job = line.strip_prefix("job").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        job && line.matches('\t').count() == 5
    }
}

pub(crate) fn detect(text: &str) -> Result<Format, Fault> {
    let mut tokens = Tokens::new(text).with_comments();
    if !tokens.skip_blank_lines() {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    }
    let start = tokens.offset();
    let mut words = Vec::new();
    while let Some(word) = tokens.word() {
        words.push(word.text);
    }
    tokens.skip_blank_lines();
    let second = text[tokens.offset()..].lines().next().unwrap_or_default();
    let opening = Opening { text: &text[start..], words, second };
    let line = opening.text.lines().next().unwrap_or_default().trim_end();
    let of_line = |kind| Fault::of_line(start..start + line.len(), kind);
    if opening.is_swim() {
        return Err(of_line(TraceErrorKind::Swim));
    }
    let found = Format::ALL.into_iter().find(|format| (format.syntax().recognises)(&opening));
    found.ok_or_else(|| {
        let (found, known) = (line.chars().take(QUOTED).collect(), crate::format::names());
        of_line(TraceErrorKind::UnknownFormat { found, known })
    })
}

//! The format of a text, from its first two lines that say something.
//!
//! `{` opens JSON, whatever follows: an event of a Spark log if the object has a field `Event`,
//! else the native format. Two numbers alone on a line are the header of coflow-benchmark or
//! Sincronia, which the next line tells apart: reducers carry a colon (`7:12.0`), Sincronia has
//! none. A line that names columns is the header of a CSV, and any other of five or six words a
//! flow. A comment can only stand in a flow list, where the others would refuse it.
//!
//! No two formats recognise one text, so the order in which they are asked decides nothing.

use crate::Format;
use crate::error::{Fault, TraceErrorKind};
use crate::json;
use crate::tokens::Tokens;

/// Length of an unknown line that a message quotes.
const QUOTED: usize = 40;

/// The beginning of a text.
pub struct Opening<'a> {
    /// The text from its first word on.
    pub text: &'a str,
    /// The words of the first line; none where the text is JSON.
    pub words: Vec<&'a str>,
    /// The second line that says something; empty if there is none, and where the text is JSON.
    pub second: &'a str,
    /// The names of the fields of the first object where the text is JSON, as far as it can be
    /// read.
    pub fields: Vec<String>,
}

impl Opening<'_> {
    /// Tells whether the first line is two whole numbers.
    pub fn is_header(&self) -> bool {
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        self.words.len() == 2 && self.words.iter().all(is_number)
    }

    /// Tells whether the text is JSON: what begins with a brace is nothing else.
    pub fn is_json(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Tells whether the text begins with an event of a Spark log.
    pub fn is_event(&self) -> bool {
        self.is_json() && self.fields.iter().any(|field| field == "Event")
    }

    /// Tells whether this is a table of SWIM: jobs with their sizes, and nothing of who sends to
    /// whom.
    fn is_swim(&self) -> bool {
        let line = self.text.lines().next().unwrap_or_default();
        let job = line.strip_prefix("job").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        job && line.matches('\t').count() == 5
    }
}

/// The beginning of `text`; `None` where nothing stands in it.
pub fn opening(text: &str) -> Option<Opening<'_>> {
    let mut tokens = Tokens::new(text).with_comments();
    if !tokens.skip_blank_lines() {
        return None;
    }
    let text = &text[tokens.offset()..];
    let mut opening = Opening { text, words: Vec::new(), second: "", fields: Vec::new() };
    if opening.is_json() {
        opening.fields = json::fields(text).0;
    } else {
        let mut tokens = Tokens::new(text).with_comments();
        while let Some(word) = tokens.word() {
            opening.words.push(word.text);
        }
        tokens.skip_blank_lines();
        opening.second = text[tokens.offset()..].lines().next().unwrap_or_default();
    }
    Some(opening)
}

/// Whether a text that may go on begins with an event of a log, and whether its going on may make
/// it one.
pub(crate) fn begins_log(text: &str) -> (bool, bool) {
    let Some(opening) = opening(text) else { return (false, true) };
    let (_, is_cut) = if opening.is_json() { json::fields(opening.text) } else { Default::default() };
    (opening.is_event(), is_cut)
}

pub(crate) fn detect(text: &str) -> Result<Format, Fault> {
    let Some(opening) = opening(text) else {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    };
    let start = text.len() - opening.text.len();
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

//! Lines with their offsets, and the faults of the JSON parser in one of them put where they are. Lines are not counted; a
//! [`Fault`] keeps an offset, and the line is counted if it comes to a message.

use crate::error::Fault;
use crate::json;

/// A line with something on it, and where it starts.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) text: &'a str,
    pub(crate) offset: usize,
}

impl Line<'_> {
    pub(crate) fn span(&self) -> core::ops::Range<usize> {
        self.offset..self.offset + self.text.len()
    }

    /// The fault that the JSON parser found in this line.
    #[cold]
    pub(crate) fn broken(&self, error: &serde_json::Error, expected: &'static str) -> Fault {
        json::broken(self.text, self.offset, error, expected)
    }
}

/// The lines of a text that have something on them, without the blanks around it.
pub(crate) struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        while self.at < self.text.len() {
            let start = self.at;
            let rest = &self.text[start..];
            let line = rest.split_once('\n').map_or(rest, |(line, _)| line);
            self.at = (start + line.len() + 1).min(self.text.len());
            let bare = line.trim_start_matches(['\u{feff}', ' ', '\t', '\r']);
            if !bare.is_empty() {
                return Some(Line { text: bare.trim_end(), offset: start + line.len() - bare.len() });
            }
        }
        None
    }
}

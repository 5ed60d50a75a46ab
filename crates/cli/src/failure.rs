//! Why a command did not succeed, and the exit code that says so to a script.
//!
//! Every error ends here, with a place where there is one, what was expected, and the cure. Errors inside a trace show
//! the line: only a window of it, because a line of a real trace is thousands of characters long.

use std::fmt;
use std::io;
use std::path::Path;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters};

/// What kind of failure it is; the number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Something went wrong while running: a file cannot be written, a check did not hold.
    Runtime = 1,
    /// The command line asks for something that there is not.
    Usage = 2,
    /// A trace or a run's folder holds something that it must not.
    Input = 3,
    /// A figure is not what `--assert` says.
    Assertion = 4,
    /// This machine lacks something that was asked for.
    Capability = 5,
    /// Somebody interrupted it.
    Interrupted = 130,
}

/// A failure, ready to be shown.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    help: Option<String>,
    excerpt: Option<Excerpt>,
}

/// The line of a file that an error is about.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// The file's name.
    pub(crate) name: String,
    /// The text of the line.
    pub(crate) text: String,
    /// Its number, from 1.
    pub(crate) line: usize,
    /// The byte in the line at which the fault begins, from 1.
    pub(crate) column: usize,
}

impl Failure {
    /// A failure of `kind`.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), help: None, excerpt: None }
    }

    /// A failure of the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// A failure of what was read.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// A file that could not be read or written.
    pub(crate) fn file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(Kind::Runtime, format!("cannot {action} {}: {error}", path.display()))
    }

    /// Adds the cure.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds the line that it is about.
    pub(crate) fn at(mut self, excerpt: Option<Excerpt>) -> Self {
        self.excerpt = excerpt;
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.kind as u8
    }

    /// As it is shown on standard error: in colour and with drawn lines on a terminal, in plain characters elsewhere.
    pub(crate) fn shown(&self, on_terminal: bool) -> String {
        let handler = if on_terminal {
            GraphicalReportHandler::new().with_links(false)
        } else {
            let characters = ThemeCharacters { error: "error:".into(), ..ThemeCharacters::ascii() };
            let theme = GraphicalTheme { characters, ..GraphicalTheme::none() };
            GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100).with_wrap_lines(false)
        };
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text.trim().to_owned(),
            Err(_) => format!("error: {self}"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Diagnostic for Failure {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt.as_ref().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let excerpt = self.excerpt.as_ref()?;
        let label = LabeledSpan::new(Some("here".to_owned()), excerpt.column - 1, excerpt.word_length());
        Some(Box::new(std::iter::once(label)))
    }
}

/// Bytes that are shown before and after the place of an error.
const WINDOW: usize = 48;

impl Excerpt {
    /// The length of the field at the column: up to the next white space or comma.
    fn word_length(&self) -> usize {
        let rest = self.text.get(self.column - 1..).unwrap_or_default();
        rest.find([' ', '\t', ',']).unwrap_or(rest.len()).clamp(1, WINDOW)
    }

    /// Where the shown part begins and ends, between characters.
    fn window(&self) -> (usize, usize) {
        let at = (self.column - 1).min(self.text.len());
        let mut begin = at.saturating_sub(WINDOW);
        let mut end = (at + WINDOW).min(self.text.len());
        while !self.text.is_char_boundary(begin) {
            begin -= 1;
        }
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        (begin, end)
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        _span: &miette::SourceSpan,
        lines_before: usize,
        _lines_after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        // Without context only the place itself is asked for: it becomes the heading's line and column.
        let (mut begin, end) = self.window();
        if lines_before == 0 {
            begin = (self.column - 1).min(end);
        }
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.name.clone(),
            &self.text.as_bytes()[begin..end],
            (begin, end - begin).into(),
            self.line - 1,
            begin,
            1,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, column: usize) -> String {
        let excerpt = Excerpt { name: "trace.txt".to_owned(), text: text.to_owned(), line: 7, column };
        Failure::input("no such port").help("count from 0").at(Some(excerpt)).shown(false)
    }

    #[test]
    fn the_line_its_number_and_the_cure_are_shown() {
        let text = shown("1 0 1 9 1 2:5", 7);
        assert!(text.contains("trace.txt:7:7") && text.contains("1 0 1 9 1 2:5"), "{text}");
        assert!(text.contains("no such port") && text.contains("count from 0"), "{text}");
    }

    #[test]
    fn only_a_window_of_a_long_line_is_shown() {
        let text = shown(&"12 ".repeat(100_000), 150_001);
        assert!(text.len() < 1000 && text.contains("trace.txt:7:150001"), "{text}");
    }

    #[test]
    fn a_column_behind_the_end_or_inside_a_character_does_no_harm() {
        for column in 1..=12 {
            assert!(shown("ä€ö", column).contains("trace.txt"));
        }
    }
}

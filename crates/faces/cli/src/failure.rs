//! A failure as it is shown: in colour and with drawn lines on a terminal, in plain characters
//! elsewhere.
//!
//! Errors inside a trace show the line: only a window of it, because a line of a real trace is
//! thousands of characters long.

use std::fmt;

pub(crate) use cavalcade::{Error as Failure, Excerpt, Kind};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode, ThemeCharacters};

/// Shows a failure as it goes to standard error.
pub(crate) fn shown(failure: &Failure, on_terminal: bool) -> String {
    let handler = if on_terminal {
        GraphicalReportHandler::new().with_links(false)
    } else {
        let characters = ThemeCharacters { error: "error:".into(), ..ThemeCharacters::ascii() };
        let theme = GraphicalTheme { characters, ..GraphicalTheme::none() };
        GraphicalReportHandler::new_themed(theme).with_links(false).with_width(100).with_wrap_lines(false)
    };
    let mut text = String::new();
    match handler.render_report(&mut text, &Shown(failure, failure.excerpt().map(Window))) {
        Ok(()) => text.trim().to_owned(),
        Err(_) => format!("error: {}", Shown(failure, None)),
    }
}

/// A failure that is being shown.
#[derive(Debug)]
struct Shown<'a>(&'a Failure, Option<Window<'a>>);

/// The line that it is about, of which a window is shown.
#[derive(Debug)]
struct Window<'a>(&'a Excerpt);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.of_option().is_some() {
            f.write_str("--")?;
        }
        self.0.fmt(f)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let cure = self.0.cure()?.to_owned();
        let shown = match self.0.remedy() {
            Some((option, takes)) => {
                format!("{cure} with --{} {takes}", option.replace('_', "-")).trim_end().to_owned()
            }
            None => cure,
        };
        Some(Box::new(shown))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.1.as_ref().map(|window| window as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let window = self.1.as_ref()?;
        let label = LabeledSpan::new(Some("here".to_owned()), window.0.column - 1, window.word_length());
        Some(Box::new(std::iter::once(label)))
    }
}

/// Bytes that are shown before and after the place of an error.
const WIDTH: usize = 48;

impl Window<'_> {
    /// The length of the field at the column: up to the next white space or comma.
    fn word_length(&self) -> usize {
        let rest = self.0.text.get(self.0.column - 1..).unwrap_or_default();
        rest.find([' ', '\t', ',']).unwrap_or(rest.len()).clamp(1, WIDTH)
    }

    /// Returns where the shown part begins and ends, between characters.
    fn window(&self) -> (usize, usize) {
        let at = (self.0.column - 1).min(self.0.text.len());
        let mut begin = at.saturating_sub(WIDTH);
        let mut end = (at + WIDTH).min(self.0.text.len());
        while !self.0.text.is_char_boundary(begin) {
            begin -= 1;
        }
        while !self.0.text.is_char_boundary(end) {
            end += 1;
        }
        (begin, end)
    }
}

impl SourceCode for Window<'_> {
    fn read_span<'a>(
        &'a self,
        _span: &miette::SourceSpan,
        lines_before: usize,
        _lines_after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        // Without context only the place itself is asked for: it becomes the heading's line and
        // column.
        let (mut begin, end) = self.window();
        if lines_before == 0 {
            begin = (self.0.column - 1).min(end);
        }
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.0.name.clone(),
            &self.0.text.as_bytes()[begin..end],
            (begin, end - begin).into(),
            self.0.line - 1,
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
        super::shown(&Failure::input("no such port").help("count from 0").at(Some(excerpt)), false)
    }

    #[test]
    fn the_line_its_number_and_the_cure_are_shown() {
        let text = shown("1 0 1 9 1 2:5", 7);
        assert!(text.contains("trace.txt:7:7") && text.contains("1 0 1 9 1 2:5"), "{text}");
        assert!(text.contains("no such port") && text.contains("count from 0"), "{text}");
    }

    #[test]
    fn an_option_is_shown_with_its_dashes() {
        let failure = Failure::option("rate", "0bps", "nothing would ever cross");
        assert_eq!(failure.to_string(), "rate 0bps: nothing would ever cross");
        assert!(super::shown(&failure, false).contains("--rate 0bps: nothing"));
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

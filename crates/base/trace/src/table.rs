//! Tables as text: rows of fields with a separator between them (RFC 4180), read by the crate
//! `csv`.
//!
//! That crate takes whatever comes. Here a row is refused rather than guessed at: a quote that is
//! not closed would swallow the rows below it, and one inside a field means two things to two
//! programs. Blanks around a field are no part of it, and a row without any content, as
//! spreadsheets leave them at the end, is none.

use core::ops::Range;

use csv::{ReaderBuilder, StringRecord};

use crate::error::{Fault, TraceErrorKind};

/// The characters that separate fields.
pub(crate) const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

const QUOTES: &str = "quotes around a whole field, with each quote inside it doubled";

/// The rows of a text.
pub(crate) struct Table<'a> {
    text: &'a str,
    /// Where the reader begins.
    begin: usize,
    separator: u8,
    comments: bool,
    reader: csv::Reader<&'a [u8]>,
    record: StringRecord,
}

/// A row and the part of the text that it takes.
pub(crate) struct Row<'t> {
    record: &'t StringRecord,
    pub(crate) span: Range<usize>,
}

impl<'a> Table<'a> {
    /// The rows of `text` from `begin` on, with `separator` between fields.
    pub(crate) fn new(text: &'a str, begin: usize, separator: u8) -> Self {
        Self::reading(text, begin, separator, false)
    }

    /// Skips lines that begin with `#`.
    pub(crate) fn with_comments(self) -> Self {
        Self::reading(self.text, self.begin, self.separator, true)
    }

    fn reading(text: &'a str, begin: usize, separator: u8, comments: bool) -> Self {
        let mut builder = ReaderBuilder::new();
        // The number of fields is checked by who knows what they should be.
        builder.has_headers(false).flexible(true).delimiter(separator).comment(comments.then_some(b'#'));
        let reader = builder.from_reader(&text.as_bytes()[begin..]);
        Self { text, begin, separator, comments, reader, record: StringRecord::new() }
    }

    /// The next row that has content.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>, Fault> {
        loop {
            let start = self.begin + self.reader.position().byte() as usize;
            let more = self.reader.read_record(&mut self.record).unwrap_or_else(|error| {
                unreachable!("text in memory has any number of fields on a line: {error}")
            });
            if !more {
                return Ok(None);
            }
            let end = self.begin + self.reader.position().byte() as usize;
            let span = self.content(start..end);
            if !quotes_are_whole(&self.text[span.clone()], &self.record, self.separator) {
                let problem = "a quote is not closed, or stands inside a field".to_owned();
                return Err(Fault::of_line(span, TraceErrorKind::Schema { problem, expected: QUOTES }));
            }
            if self.record.iter().any(|field| !field.trim().is_empty()) {
                return Ok(Some(Row { record: &self.record, span }));
            }
        }
    }

    /// A row without the blank lines and comments before it and the end of its line.
    fn content(&self, span: Range<usize>) -> Range<usize> {
        let mut start = span.start;
        loop {
            let rest = &self.text[start..span.end];
            let bare = rest.trim_start_matches(['\r', '\n']);
            start = span.end - bare.len();
            if !(self.comments && bare.starts_with('#')) {
                return start..start + bare.trim_end_matches(['\r', '\n']).len();
            }
            start += bare.find('\n').unwrap_or(bare.len());
        }
    }
}

impl Row<'_> {
    /// How many fields it has.
    pub(crate) fn len(&self) -> usize {
        self.record.len()
    }

    /// A field, without the blanks around it.
    pub(crate) fn field(&self, place: usize) -> &str {
        self.record.get(place).unwrap_or_default().trim()
    }

    /// All fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        self.record.iter().map(str::trim)
    }
}

/// The fields of a line alone, as they come, whatever its quotes.
pub(crate) fn fields_of_line(line: &str, separator: u8) -> Vec<String> {
    let mut table = Table::new(line, 0, separator);
    let read = table.reader.read_record(&mut table.record);
    if matches!(read, Ok(true)) {
        Row { record: &table.record, span: 0..0 }.fields().map(str::to_owned).collect()
    } else {
        Vec::new()
    }
}

/// Returns whether the fields of `record`, written again with the quotes that `line` has, are
/// `line`.
fn quotes_are_whole(line: &str, record: &StringRecord, separator: u8) -> bool {
    if !line.contains('"') {
        return true;
    }
    let mut rest = Some(line);
    for (place, field) in record.iter().enumerate() {
        if place > 0 {
            rest = rest.and_then(|rest| rest.strip_prefix(char::from(separator)));
        }
        rest = rest.and_then(|rest| match rest.strip_prefix('"') {
            Some(inside) => {
                let mut parts = field.split('"');
                let first = inside.strip_prefix(parts.next().unwrap_or_default())?;
                let last =
                    parts.try_fold(first, |rest, part| rest.strip_prefix("\"\"")?.strip_prefix(part))?;
                last.strip_prefix('"')
            }
            None if field.contains('"') => None,
            None => rest.strip_prefix(field),
        });
    }
    rest == Some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = Vec<String>;

    fn rows(text: &str) -> Result<Vec<(Fields, Range<usize>)>, Fault> {
        let mut table = Table::new(text, 3, b',').with_comments();
        let mut rows = Vec::new();
        while let Some(row) = table.next_row()? {
            rows.push((row.fields().map(str::to_owned).collect(), row.span.clone()));
        }
        Ok(rows)
    }

    #[test]
    fn quoted_fields_hold_separators_quotes_and_line_ends() {
        let text = "\u{feff}a,\"b, \"\"c\"\"\"\r\n\r\n# no row\n\"d\ne\", f \r\n , \n";
        let expected =
            [(vec!["a".to_owned(), "b, \"c\"".into()], 3..15), (vec!["d\ne".into(), "f".into()], 28..37)];
        assert_eq!(rows(text).unwrap(), expected);
    }

    #[test]
    fn a_quote_that_is_not_closed_or_stands_inside_a_field_is_refused_with_its_row() {
        for (text, start) in
            [("-- a,b\nc,\"d\ne,f\n", 7), ("-- a,b\"c\"\n", 3), ("-- a, \"b\"\n", 3), ("-- \"a\"b,c\n", 3)]
        {
            assert_eq!(rows(text).unwrap_err().start(), start, "{text}");
        }
    }
}

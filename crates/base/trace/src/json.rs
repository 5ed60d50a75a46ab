//! JSON texts: one value after another, with blanks and line breaks between and inside them as
//! their writer pleased.
//!
//! `jq`, Python's `json.dumps` and Java's libraries break lines and put blanks in different places,
//! and order fields as they like. None of that carries meaning, so nothing here looks at it. Places
//! are offsets into the text; lines are counted if one comes to a message.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::de::{StrRead, StreamDeserializer};

use crate::error::{Fault, TraceErrorKind};

/// What may stand before a value: blanks as JSON has them, and a byte order mark.
const BLANKS: [char; 5] = [' ', '\t', '\r', '\n', '\u{feff}'];

/// What the JSON parser found in `part`, and at which byte.
#[cold]
pub(crate) fn problem(
    part: &str,
    error: &serde_json::Error,
    expected: &'static str,
) -> (usize, TraceErrorKind) {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let full = error.to_string();
    let problem = full.strip_suffix(&place).unwrap_or(&full).to_owned();
    // The parser counts lines and bytes from 1, and names the last byte that it read.
    let lines_before = part.split_inclusive('\n').take(error.line().saturating_sub(1));
    let at = lines_before.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    (at.min(part.len()), TraceErrorKind::Schema { problem, expected })
}

/// The fault that the JSON parser found in a part of a text that begins at `offset`.
#[cold]
pub(crate) fn broken(part: &str, offset: usize, error: &serde_json::Error, expected: &'static str) -> Fault {
    let (at, kind) = problem(part, error, expected);
    Fault::new(offset + at..offset + at, kind)
}

/// The values of a text, each as a `T`, with the part of the text that it takes.
pub(crate) struct Values<'a, T> {
    text: &'a str,
    /// Where the values that have not been read begin.
    from: usize,
    expected: &'static str,
    kind: PhantomData<T>,
}

impl<'a, T: DeserializeOwned> Values<'a, T> {
    /// The values of `text` from `from` on; messages say that `expected` was expected.
    pub(crate) fn new(text: &'a str, from: usize, expected: &'static str) -> Self {
        Self { text, from, expected, kind: PhantomData }
    }

    /// The next value, as something else than a `T`; it comes again.
    pub(crate) fn peek<U: DeserializeOwned>(&self) -> Result<Option<(U, Range<usize>)>, Fault> {
        let rest = &self.text[self.from..];
        let blank = rest.len() - rest.trim_start_matches(BLANKS).len();
        let from = self.from + blank;
        let mut stream: StreamDeserializer<'_, StrRead<'_>, U> =
            Deserializer::from_str(&rest[blank..]).into_iter();
        match stream.next() {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some((value, from..from + stream.byte_offset()))),
            Some(Err(error)) => Err(broken(&rest[blank..], from, &error, self.expected)),
        }
    }
}

impl<T: DeserializeOwned> Iterator for Values<'_, T> {
    type Item = Result<(T, Range<usize>), Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.peek().transpose()?;
        match &next {
            Ok((_, span)) => self.from = span.end,
            Err(_) => self.from = self.text.len(),
        }
        Some(next)
    }
}

/// The names of the fields of the object with which `text` begins: all of them, or as many as can
/// be read before a fault or the end. Also says whether that came too early.
pub(crate) fn fields(text: &str) -> (Vec<String>, bool) {
    struct Names<'n>(&'n mut Vec<String>);

    impl<'de> Visitor<'de> for Names<'_> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(name) = map.next_key()? {
                self.0.push(name);
                map.next_value::<IgnoredAny>()?;
            }
            Ok(())
        }
    }

    let mut names = Vec::new();
    // What comes behind a fault stays unknown; whoever reads the text says what the fault is.
    let read = Deserializer::from_str(text).deserialize_map(Names(&mut names));
    (names, read.is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_first_object_up_to_a_fault() {
        let found = |text| {
            let (names, is_cut) = fields(text);
            (names.join(" "), is_cut)
        };
        assert_eq!(found("{\"a\" : {\"x\":1}, \"b\":2}\n{\"c\":3}"), ("a b".to_owned(), false));
        assert_eq!(found("{\n  \"a\": [1,\n2],\n \"b\": \"cut"), ("a b".to_owned(), true));
        assert_eq!(found("{\"a\" 0"), ("a".to_owned(), true));
        assert_eq!(found("{x"), (String::new(), true));
    }

    #[test]
    fn values_follow_each_other_over_any_line_breaks_and_faults_have_their_place() {
        let text = "  [1,\n2] [3]\n\n[4]";
        let values: Vec<_> = Values::<Vec<u32>>::new(text, 0, "").map(Result::unwrap).collect();
        assert_eq!(values, [(vec![1, 2], 2..8), (vec![3], 9..12), (vec![4], 14..17)]);
        let fault = Values::<Vec<u32>>::new("[1]\n [\n x]", 0, "").nth(1).unwrap().unwrap_err();
        assert_eq!(fault.start(), 8);
    }
}

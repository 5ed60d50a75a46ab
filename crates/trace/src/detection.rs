//! Which format a text is in, from its first two lines that say something.
//!
//! `{` opens JSON: an event of a Spark log, whose first field is its name, or else the native format. Two numbers alone on a line are the header of coflow-benchmark or Sincronia, which the next
//! line tells apart: reducers carry a colon (`7:12.0`), Sincronia has none. Five or six words are a flow. A comment can
//! only stand in a flow list, where the others would refuse it.

use crate::Format;
use crate::error::{Fault, TraceErrorKind};
use crate::tokens::Tokens;

/// How much of an unknown line a message quotes.
const QUOTED: usize = 40;

pub(crate) fn detect(text: &str) -> Result<Format, Fault> {
    let mut tokens = Tokens::new(text).with_comments();
    if !tokens.skip_blank_lines() {
        return Err(Fault::new(0..0, TraceErrorKind::Empty));
    }
    let start = tokens.offset();
    if let Some(fields) = text[start..].strip_prefix('{') {
        let spark = fields.trim_start().starts_with("\"Event\"");
        return Ok(if spark { Format::Spark } else { Format::Native });
    }
    let mut words = 0;
    let mut numbers = true;
    while let Some(word) = tokens.word() {
        words += 1;
        numbers &= word.text.bytes().all(|byte| byte.is_ascii_digit());
    }
    match words {
        2 if numbers => {
            tokens.skip_blank_lines();
            let next = text[tokens.offset()..].lines().next().unwrap_or_default();
            let sincronia = !next.is_empty() && !next.contains(':');
            Ok(if sincronia { Format::Sincronia } else { Format::CoflowBenchmark })
        }
        5 | 6 => Ok(Format::FlowList),
        _ => {
            let line = text[start..].lines().next().unwrap_or_default().trim_end();
            let found = line.chars().take(QUOTED).collect();
            Err(Fault::of_line(start..start + line.len(), TraceErrorKind::UnknownFormat { found }))
        }
    }
}

//! Reading traces: from a file or standard input, with errors that show the line.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use cavalcade_model::Workload;
use cavalcade_trace::{Format, ReadOptions, TraceError};

use crate::failure::{Excerpt, Failure};

/// The name of standard input, on the command line and in a manifest.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The bytes of a trace and where they came from.
pub(crate) struct Source {
    name: String,
    bytes: Vec<u8>,
}

impl Source {
    /// Reads the bytes of `path`.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let standard = path == Path::new(STANDARD_INPUT);
        let name = if standard { "standard input".to_owned() } else { path.display().to_string() };
        let bytes = if standard { read_standard_input() } else { fs::read(path) };
        match bytes {
            Ok(bytes) => Ok(Self { name, bytes }),
            Err(error) => Err(Failure::input(format!("cannot read {name}: {error}"))
                .help("name a file that holds a trace, or '-' for standard input")),
        }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The bytes as they were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The workload that they describe, and the format in which they do.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub(crate) fn parse(&self, format: Option<Format>) -> Result<(Workload, Format), Failure> {
        let options = ReadOptions { format, ..ReadOptions::default() };
        cavalcade_trace::read(&self.bytes, &self.name, &options).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &TraceError) -> Failure {
        Failure::input(error.to_string()).at(self.excerpt(error))
    }

    /// The line at fault, where it can be shown: a place is one of the decompressed text, which is not kept.
    fn excerpt(&self, error: &TraceError) -> Option<Excerpt> {
        let Range { start, .. } = error.span.clone()?;
        let number = usize::try_from(error.line?).ok()?;
        let before = self.bytes.get(..start)?;
        if before.iter().filter(|&&byte| byte == b'\n').count() + 1 != number {
            return None;
        }
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let rest = &self.bytes[begin..];
        let line = &rest[..rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())];
        if line.trim_ascii().is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        Some(Excerpt { name: self.name.clone(), text, line: number, column: start - begin + 1 })
    }
}

fn read_standard_input() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

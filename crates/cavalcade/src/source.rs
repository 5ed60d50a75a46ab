//! Reading traces: from a file, standard input, or the folder of a rolling Spark log, with errors that show the line.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use cavalcade_model::Workload;
use cavalcade_trace::spark::rolling_order;
use cavalcade_trace::{File, Format, Generator, ReadOptions, Reading, TraceError};

use crate::error::{Error, Excerpt};

/// The name of standard input, on the command line and in a manifest.
pub const STANDARD_INPUT: &str = "-";

/// The bytes of a trace and where they came from.
pub struct Source {
    name: String,
    /// All files, one after the other.
    bytes: Vec<u8>,
    /// The name of each file and its part of `bytes`.
    files: Vec<(String, Range<usize>)>,
}

impl Source {
    /// Reads the bytes of `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is a folder of something else than a rolling log.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Self::open_folder(path);
        }
        let (name, bytes) = read_file(path);
        match bytes {
            Ok(bytes) => Ok(Self { files: vec![(name.clone(), 0..bytes.len())], name, bytes }),
            Err(error) => Err(unreadable(&name, &error)),
        }
    }

    /// Reads the files of a rolling log, in order.
    fn open_folder(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let names = fs::read_dir(path)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                    .collect::<io::Result<Vec<String>>>()
            })
            .map_err(|error| unreadable(&name, &error))?;
        if !names.iter().any(|name| name.starts_with("events_")) {
            let (what, cure) = if names.iter().any(|name| name == crate::manifest::NAME) {
                ("the folder of a run", "name the trace's file; 'cavalcade replay' makes the run again")
            } else {
                ("a folder without the files of a rolling Spark log", "name a file that holds a trace")
            };
            return Err(Error::input(format!("{name} is {what}: expected a trace")).help(cure));
        }
        let order = rolling_order(&names).map_err(|error| Error::input(format!("{name}: {error}")))?;
        let (mut bytes, mut files) = (Vec::new(), Vec::new());
        for index in order {
            let file = path.join(&names[index]);
            let start = bytes.len();
            bytes.extend(fs::read(&file).map_err(|error| unreadable(&file.display().to_string(), &error))?);
            files.push((file.display().to_string(), start..bytes.len()));
        }
        Ok(Self { name, bytes, files })
    }

    /// Returns its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes as they were read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads them, with notes and names.
    ///
    /// # Errors
    /// Returns an error of a trace with its place.
    pub fn read(&self, format: Option<Format>) -> Result<Reading, Error> {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let files: Vec<File<'_>> =
            self.files.iter().map(|(name, part)| File { name, bytes: &self.bytes[part.clone()] }).collect();
        cavalcade_trace::read_files(&files, &options).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &TraceError) -> Error {
        Error::input(error.to_string()).at(self.excerpt(error))
    }

    /// The line at fault, where it can be shown: a place is one of the decompressed text, which is not kept.
    fn excerpt(&self, error: &TraceError) -> Option<Excerpt> {
        let Range { start, .. } = error.span.clone()?;
        let number = usize::try_from(error.line?).ok()?;
        let (name, part) = self.files.iter().find(|(name, _)| **name == *error.source_name)?;
        let bytes = &self.bytes[part.clone()];
        let before = bytes.get(..start)?;
        if before.iter().filter(|&&byte| byte == b'\n').count() + 1 != number {
            return None;
        }
        let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        let rest = &bytes[begin..];
        let line = &rest[..rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())];
        if line.trim_ascii().is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
        Some(Excerpt { name: name.clone(), text, line: number, column: start - begin + 1 })
    }
}

/// Reads the trace at `path`: a file, the folder of a rolling Spark log, or '-' for standard input.
///
/// # Errors
/// If it cannot be read, or is not valid; the error shows the line.
pub fn read(path: impl AsRef<Path>) -> Result<Workload, Error> {
    Ok(Source::open(path.as_ref())?.read(None)?.workload)
}

/// Makes a workload from text such as `facebook:coflows=100,ports=50` and a seed.
///
/// # Errors
/// If there is no such generator or parameter, or a parameter is out of range.
pub fn generate(spec: &str, seed: u64) -> Result<Workload, Error> {
    let generator: Generator = spec.parse()?;
    cavalcade_trace::generate(&generator, seed).map_err(|error| Error::usage(format!("{spec}: {error}")))
}

fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::input(format!("cannot read {name}: {error}"))
        .help("name a file that holds a trace, the folder of a rolling Spark log, or '-' for standard input")
}

/// The bytes of a file, or of standard input, and what messages call it.
pub fn read_file(path: &Path) -> (String, io::Result<Vec<u8>>) {
    if path != Path::new(STANDARD_INPUT) {
        return (path.display().to_string(), fs::read(path));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    ("standard input".to_owned(), read.map(|_| bytes))
}

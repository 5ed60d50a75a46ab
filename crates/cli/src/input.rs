//! Reading traces: from a file, standard input, or the folder of a rolling Spark log, with errors that show the line.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

use cavalcade_model::Workload;
use cavalcade_trace::spark::rolling_order;
use cavalcade_trace::{File, Format, Note, ReadOptions, Reading, TraceError};

use crate::failure::{Excerpt, Failure};
use crate::output::tell;

/// The name of standard input, on the command line and in a manifest.
pub(crate) const STANDARD_INPUT: &str = "-";

/// The bytes of a trace and where they came from.
pub(crate) struct Source {
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
    /// Where it cannot be read, or is a folder of something else than a rolling log.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
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
    fn open_folder(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let names = fs::read_dir(path)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
                    .collect::<io::Result<Vec<String>>>()
            })
            .map_err(|error| unreadable(&name, &error))?;
        let order = rolling_order(&names).map_err(|error| Failure::input(format!("{name}: {error}")))?;
        let (mut bytes, mut files) = (Vec::new(), Vec::new());
        for index in order {
            let file = path.join(&names[index]);
            let start = bytes.len();
            bytes.extend(fs::read(&file).map_err(|error| unreadable(&file.display().to_string(), &error))?);
            files.push((file.display().to_string(), start..bytes.len()));
        }
        Ok(Self { name, bytes, files })
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The bytes as they were read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The workload that they describe, and the format in which they do. What the reader has to say of its work goes to
    /// standard error.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub(crate) fn parse(&self, format: Option<Format>) -> Result<(Workload, Format), Failure> {
        let Reading { workload, format, notes, .. } = self.read(format)?;
        self.tell_all(&notes);
        Ok((workload, format))
    }

    /// Says on standard error what the reader says of its work.
    pub(crate) fn tell_all(&self, notes: &[Note]) {
        if !notes.is_empty() {
            tell(&format!("{} is an imported log:", self.name));
        }
        for note in notes {
            tell(&format!("  {:9}  {}", note.certainty, note.text));
        }
    }

    /// All that reading them gives.
    ///
    /// # Errors
    /// What is wrong with them, and where.
    pub(crate) fn read(&self, format: Option<Format>) -> Result<Reading, Failure> {
        let options = ReadOptions { format, ..ReadOptions::default() };
        let files: Vec<File<'_>> =
            self.files.iter().map(|(name, part)| File { name, bytes: &self.bytes[part.clone()] }).collect();
        cavalcade_trace::read_files(&files, &options).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &TraceError) -> Failure {
        Failure::input(error.to_string()).at(self.excerpt(error))
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

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::input(format!("cannot read {name}: {error}"))
        .help("name a file that holds a trace, the folder of a rolling Spark log, or '-' for standard input")
}

/// The bytes of a file, or of standard input, and what messages call it.
pub(crate) fn read_file(path: &Path) -> (String, io::Result<Vec<u8>>) {
    if path != Path::new(STANDARD_INPUT) {
        return (path.display().to_string(), fs::read(path));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    ("standard input".to_owned(), read.map(|_| bytes))
}

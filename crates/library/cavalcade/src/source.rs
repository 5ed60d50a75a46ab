//! Reading traces: from a file, standard input, or a folder of Spark logs, with errors that show
//! the line.
//!
//! Files are opened when their turn comes and read once, so that a log may be longer than memory.
//! On the way they are digested: what a manifest records is what was read.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cavalcade_model::Workload;
use cavalcade_trace::{Format, Generator, Input, ReadOptions, Reading, TraceError, TraceErrorKind};
use sha2::{Digest, Sha256};

use crate::error::{Error, Excerpt};
use crate::logs;
use crate::manifest::hexadecimal;

/// The name of standard input, on the command line and in a manifest.
pub const STANDARD_INPUT: &str = "-";

/// What messages call it.
const STANDARD_INPUT_SHOWN: &str = "standard input";

/// How much is read at a time.
const BUFFER: usize = 1 << 18;

/// A trace and where it lies.
pub struct Source {
    name: String,
    paths: Vec<PathBuf>,
    /// The files of each trace: several traces where a folder holds the logs of several
    /// applications.
    traces: Vec<Vec<PathBuf>>,
    /// True once standard input has been read, which can be done once.
    is_used_up: Cell<bool>,
    /// The SHA-256 of all files one after the other, once they have been read.
    digest: OnceCell<String>,
}

impl Source {
    /// The trace at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is a folder of something else than logs of Spark.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (name, traces) = if path == Path::new(STANDARD_INPUT) {
            (STANDARD_INPUT_SHOWN.to_owned(), vec![vec![path.to_owned()]])
        } else if path.is_dir() {
            (path.display().to_string(), logs::in_folder(path)?)
        } else {
            let name = path.display().to_string();
            let is_pipe = |kind: fs::FileType| !kind.is_file();
            // A file that cannot be read is refused now. A pipe can be opened once: its writer
            // would see it closed.
            fs::metadata(path)
                .and_then(
                    |about| if is_pipe(about.file_type()) { Ok(()) } else { File::open(path).map(drop) },
                )
                .map_err(|error| unreadable(&name, &error))?;
            (name, vec![vec![path.to_owned()]])
        };
        let paths = vec![path.to_owned()];
        Ok(Self { name, paths, traces, is_used_up: Cell::new(false), digest: OnceCell::new() })
    }

    /// The trace at these paths: one, or logs of Spark and folders of them, which are read as one
    /// cluster.
    ///
    /// # Errors
    /// As [`Source::open`]; if there is no path, or standard input beside another.
    pub fn open_all(paths: &[PathBuf]) -> Result<Self, Error> {
        let (first, more) =
            paths.split_first().ok_or_else(|| Error::usage("no trace was named").place("trace"))?;
        if !more.is_empty() && paths.iter().any(|path| path == Path::new(STANDARD_INPUT)) {
            return Err(Error::usage("standard input is one trace, and others were named beside it")
                .help("name files, or standard input alone"));
        }
        let mut whole = Self::open(first)?;
        for path in more {
            whole.traces.extend(Self::open(path)?.traces);
            whole.paths.push(path.clone());
        }
        if !more.is_empty() {
            whole.name = format!("{} and {} more", whole.name, more.len());
        }
        Ok(whole)
    }

    /// Returns the paths as they were named.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Returns its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn is_standard_input(&self) -> bool {
        self.traces[0][0] == Path::new(STANDARD_INPUT)
    }

    /// The one file in which it lies, which can be read again and again.
    ///
    /// # Errors
    /// If it is several, standard input or a pipe.
    pub(crate) fn only_file(&self) -> Result<&Path, Error> {
        match self.traces.as_slice() {
            [files] if files.len() == 1 && fs::metadata(&files[0]).is_ok_and(|about| about.is_file()) => {
                Ok(&files[0])
            }
            _ => Err(Error::input(format!("{} is not one file, and is to be read several times", self.name))
                .help("write the trace to one file")),
        }
    }

    /// Reads it, with notes and names.
    ///
    /// # Errors
    /// Returns an error of a trace with its place; and one if this is standard input and has been
    /// read before.
    pub fn read(&self, format: Option<Format>) -> Result<Reading, Error> {
        if self.is_standard_input() && self.is_used_up.replace(true) {
            return Err(
                Error::input("standard input has been read already").help("write the trace to a file")
            );
        }
        let options = ReadOptions { format, ..ReadOptions::default() };
        let digest = Rc::new(RefCell::new(Sha256::new()));
        let inputs = |files: &Vec<PathBuf>| files.iter().map(|file| input(file, &digest)).collect();
        let traces = self.traces.iter().map(inputs).collect();
        let reading = cavalcade_trace::read_inputs(traces, &options)?;
        let digest = digest.borrow().clone();
        self.digest.get_or_init(|| hexadecimal(&digest.finalize()));
        Ok(reading)
    }

    /// The SHA-256 of its bytes, in hexadecimal.
    ///
    /// # Errors
    /// If it has not been read before, and cannot be now.
    pub fn sha256(&self) -> Result<String, Error> {
        if let Some(digest) = self.digest.get() {
            return Ok(digest.clone());
        }
        if self.is_standard_input() {
            return Err(
                Error::input("standard input has not been read whole").help("write the trace to a file")
            );
        }
        let digest = Rc::new(RefCell::new(Sha256::new()));
        for path in self.traces.iter().flatten() {
            File::open(path)
                .map(|file| Digested { file: Box::new(file), digest: Rc::clone(&digest) })
                .and_then(|mut file| io::copy(&mut file, &mut io::sink()))
                .map_err(|error| unreadable(&path.display().to_string(), &error))?;
        }
        let digest = digest.borrow().clone();
        Ok(hexadecimal(&digest.finalize()))
    }
}

/// A file for a reader of traces.
pub(crate) fn file(path: &Path) -> Input<'static> {
    let owned = path.to_owned();
    Input::new(path.display().to_string(), move || {
        Ok(Box::new(BufReader::with_capacity(BUFFER, File::open(owned)?)) as Box<dyn BufRead>)
    })
}

/// A file that is digested as it is read.
fn input(path: &Path, digest: &Rc<RefCell<Sha256>>) -> Input<'static> {
    let is_standard_input = path == Path::new(STANDARD_INPUT);
    let name = if is_standard_input { STANDARD_INPUT_SHOWN.to_owned() } else { path.display().to_string() };
    let (path, digest) = (path.to_owned(), Rc::clone(digest));
    Input::new(name, move || {
        let file: Box<dyn Read> =
            if is_standard_input { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
        let digested = Digested { file, digest };
        Ok(Box::new(BufReader::with_capacity(BUFFER, digested)) as Box<dyn BufRead>)
    })
}

struct Digested {
    file: Box<dyn Read>,
    digest: Rc<RefCell<Sha256>>,
}

impl Read for Digested {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.digest.borrow_mut().update(&buffer[..count]);
        Ok(count)
    }
}

impl From<TraceError> for Error {
    /// With its line, and what was expected there.
    fn from(error: TraceError) -> Self {
        let mut place = error.source_name.to_string();
        for number in [error.line, error.column].into_iter().flatten() {
            place.push_str(&format!(":{number}"));
        }
        let mut made = Self::input(error.to_string()).place(place);
        if let Some(expected) = error.kind.expected() {
            made = made.expected(expected);
        }
        if matches!(error.kind, TraceErrorKind::TooLong { .. } | TraceErrorKind::TooManyFlows { .. }) {
            made = made.of_size();
        }
        let excerpt = error.excerpt.and_then(|excerpt| {
            let line = usize::try_from(error.line?).ok()?;
            let name = error.source_name.into_string();
            Some(Excerpt { name, text: excerpt.text, line, column: excerpt.at + 1 })
        });
        made.at(excerpt)
    }
}

/// Reads the trace at `path`: a file, a folder of Spark logs, or '-' for standard input.
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

pub(crate) fn unreadable(name: &str, error: &io::Error) -> Error {
    Error::input(format!("cannot read {name}: {error}"))
        .help("name a file that holds a trace, a folder of Spark logs, or '-' for standard input")
}

/// The bytes of a file, or of standard input, and its name in messages.
pub fn read_file(path: &Path) -> (String, io::Result<Vec<u8>>) {
    if path != Path::new(STANDARD_INPUT) {
        return (path.display().to_string(), std::fs::read(path));
    }
    let mut bytes = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut bytes);
    (STANDARD_INPUT_SHOWN.to_owned(), read.map(|_| bytes))
}

//! Reading a workload: which format a file has, and what the caller may add that files leave out.

use std::io::{self, BufRead, Read as _};

use cavalcade_model::Nanos;
use cavalcade_spec::Choice;
use cavalcade_trace::Note;

use crate::aicb::{self, Groups};
use crate::chakra;
use crate::error::{ReadError, ReadErrorKind};
use crate::kineto;
use crate::program::Program;

/// What becomes of time in which a GPU did nothing and waited for nobody: that of the host that fed
/// it, and of the profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Host {
    /// It counts as computation.
    #[default]
    Kept,
    /// It is left out, as if the host were never late.
    LeftOut,
}

impl Choice for Host {
    const WORDS: &'static [(&'static str, Self)] = &[("kept", Self::Kept), ("left_out", Self::LeftOut)];
}

/// Properties of a job that a file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// How many ranks the job has.
    pub ranks: Option<u32>,
    /// The size of its tensor groups.
    pub tensor: Option<u32>,
    /// The number of its pipeline's stages.
    pub pipeline: Option<u32>,
    /// The size of its expert groups.
    pub expert: Option<u32>,
    /// How the group of a collective is found where the format does not give it.
    pub groups: Groups,
    /// Gradients go while the pass backwards goes on.
    pub overlap: bool,
    /// One rank's trace stands for all.
    pub one_for_all: bool,
    /// What becomes of time in which a recorded GPU waited for its host.
    pub host: Host,
}

/// What files of workloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Aicb,
    Kineto,
    Chakra,
}

impl Options {
    /// Checks that nothing is said that a format has no use for. How many ranks there are is
    /// checked by all of them.
    fn check(&self, format: Format) -> Result<(), ReadErrorKind> {
        let (name, uses): (_, &[&str]) = match format {
            Format::Aicb => ("a workload of AICB", &["tensor", "pipeline", "expert", "groups", "overlap"]),
            Format::Kineto => ("a recording of torch.profiler", &["one_for_all", "host"]),
            Format::Chakra => ("a trace of Chakra", &["one_for_all"]),
        };
        let said = [
            ("tensor", self.tensor.is_some()),
            ("pipeline", self.pipeline.is_some()),
            ("expert", self.expert.is_some()),
            ("groups", self.groups != Groups::default()),
            ("overlap", self.overlap),
            ("one_for_all", self.one_for_all),
            ("host", self.host != Host::default()),
        ];
        match said.iter().find(|(what, is_said)| *is_said && !uses.contains(what)) {
            Some(&(what, _)) => Err(ReadErrorKind::NoEffect { what, format: name }),
            None => Ok(()),
        }
    }
}

/// Result of reading a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// One iteration.
    pub program: Program,
    /// What is exact, estimated and left out.
    pub notes: Vec<Note>,
    /// The iteration as it was recorded, where its communication was.
    pub measured: Option<Measured>,
}

/// An iteration as it was recorded; means over the ranks that were. The three parts add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// How long it lasted.
    pub iteration: Nanos,
    /// Computation on the GPU.
    pub computing: Nanos,
    /// Communication while nothing was computed, with all waiting for others.
    pub exposed: Nanos,
    /// Neither: the host was late.
    pub host: Nanos,
}

/// A file of a workload, decompressed.
pub struct WorkloadFile<'a> {
    /// Its name in messages.
    pub name: String,
    /// Its content.
    pub content: Box<dyn BufRead + 'a>,
}

impl WorkloadFile<'_> {
    /// How its text begins; what was read of it stands in front again. A buffer alone may hold a
    /// few bytes of it.
    pub(crate) fn head(&mut self) -> Result<String, ReadError> {
        let mut head = Vec::new();
        let mut content = core::mem::replace(&mut self.content, Box::new(io::empty()));
        let read = (&mut content).take(256).read_to_end(&mut head);
        read.map_err(|error| unreadable(&self.name, &error))?;
        let text = String::from_utf8_lossy(&head).into_owned();
        // Parsers take a byte at a time.
        self.content = Box::new(io::BufReader::with_capacity(1 << 16, io::Cursor::new(head).chain(content)));
        Ok(text)
    }
}

/// The longest text that is read whole.
const LONGEST_TEXT: u64 = 256 << 20;

/// Reads a workload from the files of its ranks, in the order of their names, or from the one that
/// there is.
///
/// # Errors
/// The first thing found wrong, with the file and the place.
pub fn read(files: Vec<WorkloadFile<'_>>, options: &Options) -> Result<Read, ReadError> {
    let unknown = |name: &str| ReadError::of_whole(name, ReadErrorKind::UnknownFormat);
    let mut files = files;
    for file in &mut files {
        let head = file.head()?;
        if chakra::is_trace(&file.name, &head) {
            options.check(Format::Chakra).map_err(|kind| ReadError::of_whole(&file.name, kind))?;
            return chakra::read(files, options);
        }
    }
    let Some(first) = files.first_mut() else { return Err(unknown("the workload")) };
    let head = first.head()?;
    if head.trim_start().starts_with('{') {
        options.check(Format::Kineto).map_err(|kind| ReadError::of_whole(&first.name, kind))?;
        return kineto::read(files, options);
    }
    if !aicb::begins(&head) {
        return Err(unknown(&first.name));
    }
    let mut files = files.into_iter();
    let Some(mut first) = files.next() else { return Err(unknown("the workload")) };
    if let Some(other) = files.next() {
        let problem = "this is one of several files, and a workload of AICB is one".to_owned();
        return Err(ReadError::of_whole(&other.name, ReadErrorKind::Contradiction { problem }));
    }
    options.check(Format::Aicb).map_err(|kind| ReadError::of_whole(&first.name, kind))?;
    let text = whole_text(&mut first, LONGEST_TEXT)?;
    aicb::read(&text, &first.name, options)
}

/// The text of a file, of so many bytes at most.
fn whole_text(file: &mut WorkloadFile<'_>, most: u64) -> Result<String, ReadError> {
    let mut text = Vec::new();
    let read = (&mut file.content).take(most + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(&file.name, &error))?;
    if text.len() as u64 > most {
        return Err(ReadError::of_whole(&file.name, ReadErrorKind::TooLong { most: most >> 20 }));
    }
    String::from_utf8(text).map_err(|error| unreadable(&file.name, &io::Error::other(error.utf8_error())))
}

/// The error of a file that cannot be read to its end.
pub(crate) fn unreadable(name: &str, error: &std::io::Error) -> ReadError {
    let found = format!("it cannot be read ({error})");
    ReadError::of_whole(name, ReadErrorKind::Missing { found, expected: "a whole file" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1\n1\n\
                          layer -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 100 0\n";

    fn file<'a>(name: &str, content: &'a str) -> WorkloadFile<'a> {
        WorkloadFile { name: name.to_owned(), content: Box::new(content.as_bytes()) }
    }

    #[test]
    fn what_a_format_has_no_use_for_is_refused_by_name() {
        let said = |content, options: Options| match read(vec![file("a.json", content)], &options) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let ranks = Options { ranks: Some(2), ..Options::default() };
        assert_eq!(said(LAYERS, ranks), "");
        let of_aicb = said(LAYERS, Options { one_for_all: true, ..ranks });
        assert_eq!(of_aicb, "a.json: one_for_all says nothing of a workload of AICB: leave it out");
        let of_kineto = said("{\"traceEvents\": []}", Options { overlap: true, ..ranks });
        assert!(of_kineto.starts_with("a.json: overlap says nothing of a recording"), "{of_kineto}");
        let of_chakra = said("{\"workload_graph\": []}", Options { host: Host::LeftOut, ..ranks });
        assert!(of_chakra.starts_with("a.json: host says nothing of a trace of Chakra"), "{of_chakra}");
    }

    #[test]
    fn text_that_is_longer_than_is_held_is_refused_and_not_cut() {
        assert_eq!(whole_text(&mut file("a", "12345678"), 8).unwrap(), "12345678");
        let error = whole_text(&mut file("a", "123456789"), 8).unwrap_err();
        assert_eq!(error.kind, ReadErrorKind::TooLong { most: 0 });
    }
}

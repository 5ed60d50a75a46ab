//! Traces that a command reads, with what their reader has to say.

use cavalcade::Source;
use cavalcade_model::Workload;
use cavalcade_report::wrapped;
use cavalcade_trace::{Format, Note, Reading};

use crate::failure::Failure;
use crate::output::tell;
use crate::terminal;

/// Reads the workload of `source` and its format, and says on standard error what the reader notes.
///
/// # Errors
/// If it is not valid, with the place.
pub(crate) fn parse(source: &Source, format: Option<Format>) -> Result<(Workload, Format), Failure> {
    let (Reading { workload, format, .. }, _notes) = read(source, format)?;
    Ok((workload, format))
}

/// Reads `source`. The notes are told when they are dropped.
///
/// # Errors
/// If it is not valid, with the place.
pub(crate) fn read(source: &Source, format: Option<Format>) -> Result<(Reading, Notes), Failure> {
    let reading = source.read(format)?;
    let notes = Notes { name: source.name().to_owned(), notes: reading.notes.clone() };
    Ok((reading, notes))
}

/// What the reader of a trace notes. It is said on standard error when this is dropped: at the end
/// of a command, behind its answer, whether it succeeds or not.
pub(crate) struct Notes {
    name: String,
    notes: Vec<Note>,
}

impl Drop for Notes {
    fn drop(&mut self) {
        if !self.notes.is_empty() {
            tell(&format!("{} as it was read:", self.name));
        }
        let width = terminal::width_of_messages().map(|width| width.saturating_sub(2));
        for note in &self.notes {
            tell(&format!("  {}", note_lines(note, width).replace('\n', "\n  ")));
        }
    }
}

/// A note behind its certainty, in lines of at most `width` columns.
pub(crate) fn note_lines(note: &Note, width: Option<u16>) -> String {
    // The certainty and two blanks.
    const ASIDE: u16 = 11;
    let text = wrapped(&note.text, width.map(|width| width.saturating_sub(ASIDE)));
    format!("{:9}  {}", note.certainty, text.replace('\n', &format!("\n{:11}", "")))
}

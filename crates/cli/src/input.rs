//! Traces that a command reads, with what their reader has to say.

use cavalcade::Source;
use cavalcade_model::Workload;
use cavalcade_trace::{Format, Note, Reading};

use crate::failure::Failure;
use crate::output::tell;

/// Reads the workload of `source` and its format, and says on standard error what the reader notes.
///
/// # Errors
/// Where it is not valid, with the place.
pub(crate) fn parse(source: &Source, format: Option<Format>) -> Result<(Workload, Format), Failure> {
    let Reading { workload, format, notes, .. } = source.read(format)?;
    tell_notes(source, &notes);
    Ok((workload, format))
}

/// Says on standard error what the reader of an imported log notes.
pub(crate) fn tell_notes(source: &Source, notes: &[Note]) {
    if !notes.is_empty() {
        tell(&format!("{} is an imported log:", source.name()));
    }
    for note in notes {
        tell(&format!("  {:9}  {}", note.certainty, note.text));
    }
}

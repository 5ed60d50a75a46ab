//! Traces that a command reads, with what their reader has to say.

use cavalcade::Source;
use cavalcade_model::Workload;
use cavalcade_trace::{Format, Note, Reading};

use crate::failure::Failure;
use crate::output::tell;

/// Reads the workload of `source` and its format, and says on standard error what the reader notes.
///
/// # Errors
/// If it is not valid, with the place.
pub(crate) fn parse(source: &Source, format: Option<Format>) -> Result<(Workload, Format), Failure> {
    let Reading { workload, format, .. } = read(source, format)?;
    Ok((workload, format))
}

/// Reads `source`, and says on standard error what the reader notes.
///
/// # Errors
/// If it is not valid, with the place.
pub(crate) fn read(source: &Source, format: Option<Format>) -> Result<Reading, Failure> {
    let reading = source.read(format)?;
    tell_notes(source, &reading.notes);
    Ok(reading)
}

/// Says on standard error what the reader of an imported log notes.
fn tell_notes(source: &Source, notes: &[Note]) {
    if !notes.is_empty() {
        tell(&format!("{} is an imported log:", source.name()));
    }
    for note in notes {
        tell(&format!("  {:9}  {}", note.certainty, note.text));
    }
}

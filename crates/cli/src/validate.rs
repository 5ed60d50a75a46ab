//! `cavalcade validate`: an independent check of a dumped schedule.

use cavalcade_model::PolicyFactory;
use cavalcade_validate::{Checks, ScheduleReader, Segment, validate};

use crate::arguments::RunFolder;
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::run_folder::{Recorded, SCHEDULE};

/// Runs the command.
///
/// # Errors
/// Where the folder or the trace cannot be used, or the schedule is not valid.
pub(crate) fn run(options: &RunFolder) -> Result<(), Failure> {
    let recorded = Recorded::open(&options.dir, options.trace.as_deref())?;
    let path = recorded.folder.join(SCHEDULE);
    if !recorded.has_schedule() {
        let message = format!("{} has no schedule", recorded.folder.display());
        return Err(Failure::input(message).help("make the run with 'cavalcade simulate --dump-schedule'"));
    }
    let outcome = recorded.outcome()?;
    let segments: Vec<Segment> = ScheduleReader::new(recorded.file(SCHEDULE)?)
        .and_then(Iterator::collect)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
    let checks = Checks { work_conservation: recorded.policy.terms().work_conserving };
    let scene = &recorded.scene;
    let verdict = validate(&scene.workload, &scene.fabric, segments, &outcome, checks)
        .map_err(|violation| Failure::new(Kind::Assertion, format!("{}: {violation}", path.display())))?;
    let idling = if checks.work_conservation { "no capacity left idle, " } else { "" };
    print(&format!(
        "{} segments are valid: capacity kept (busiest link {:.1} %), {idling}every byte delivered once, order and \
         times as recorded\n",
        verdict.segments,
        verdict.peak_load * 100.0,
    ))
}

//! `cavalcade validate`: an independent check of a dumped schedule, or of the certificate of a bound.

use std::path::Path;

use cavalcade_model::{BitsPerSec, Nanos, PolicyFactory};
use cavalcade_validate::certificate::{self as proof, CertificateError, Verified};
use cavalcade_validate::{Checks, ScheduleReader, Segment, validate};

use crate::arguments::{Conditions, Validate};
use crate::certificate;
use crate::claim::{Claim, Terms};
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::run_folder::{Recorded, SCHEDULE};
use crate::scene::Scene;

/// Runs the command.
///
/// # Errors
/// Where the folder, the certificate or the trace cannot be used, or what is checked is not valid.
pub(crate) fn run(options: &Validate) -> Result<(), Failure> {
    let trace = options.trace.as_deref();
    if options.path.is_dir() { schedule(&options.path, trace) } else { bound(&options.path, trace) }
}

/// Checks the schedule of a run.
fn schedule(folder: &Path, trace: Option<&Path>) -> Result<(), Failure> {
    let recorded = Recorded::open(folder, trace)?;
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

/// Derives the bound of a certificate anew.
fn bound(path: &Path, trace: Option<&Path>) -> Result<(), Failure> {
    let (subject, certificate) = certificate::read(path)?;
    let workload = subject.trace.read_again(trace, "certificate", path)?;
    let rate = BitsPerSec(subject.rate_bps);
    let scene =
        Scene::new(workload, Conditions { rate: Some(rate), ..Conditions::default() }).map_err(|_| {
            Failure::input(format!("{}: rate_bps is 0: nothing could ever cross", path.display()))
        })?;
    let verified = proof::check(&scene.workload, &scene.fabric, &certificate).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        match error {
            CertificateError::NotANumber { .. } => Failure::input(message),
            _ => Failure::new(Kind::Assertion, message),
        }
    })?;
    let terms = Terms {
        tasks: certificate.objective == proof::Objective::Tasks,
        weighted: certificate.weighted,
        offline: certificate.offline,
        rate,
    };
    let claim = match verified {
        Verified::Sum { nanos, weight } => {
            let mean = nanos / u128::from(weight.max(1));
            Claim::Mean(Nanos(u64::try_from(mean).unwrap_or(u64::MAX)))
        }
        Verified::Deadlines { at_most, of } => Claim::Deadlines { at_most, of },
    };
    print(&format!("The certificate holds. {}.\n", terms.sentence(claim)))
}

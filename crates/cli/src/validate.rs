//! `cavalcade validate`: an independent check of a dumped schedule, or of the certificate of a bound.

use std::path::Path;

use cavalcade::folder::{Recorded, SCHEDULE};
use cavalcade::{Conditions, Scenario};
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_validate::certificate::{self as proof, CertificateError, Verified};
use cavalcade_validate::{Checks, validate};
use serde_json::json;

use crate::arguments::Validate;
use crate::certificate;
use crate::claim::{Claim, Terms};
use crate::failure::{Failure, Kind};
use crate::output::print;

/// Runs the command.
///
/// # Errors
/// If the folder, the certificate or the trace cannot be used, or what is checked is not valid.
pub(crate) fn run(options: &Validate) -> Result<(), Failure> {
    let trace = options.trace.as_deref();
    if options.path.is_dir() {
        schedule(&options.path, trace, options.json)
    } else {
        bound(&options.path, trace, options.json)
    }
}

/// Checks the schedule of a run.
fn schedule(folder: &Path, trace: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let recorded = Recorded::open(folder, trace)?;
    let path = recorded.folder.join(SCHEDULE);
    let segments = recorded.schedule()?;
    let outcome = recorded.outcome()?;
    let checks = Checks { work_conservation: recorded.work_conserving() };
    let scenario = &recorded.scenario;
    let verdict = validate(scenario.workload(), scenario.fabric(), segments, &outcome, checks)
        .map_err(|violation| Failure::new(Kind::Assertion, format!("{}: {violation}", path.display())))?;
    if as_json {
        return print(&format!(
            "{:#}\n",
            json!({
                "schema_version": 1,
                "valid": true,
                "segments": verdict.segments,
                "peak_load": verdict.peak_load,
                "work_conservation": checks.work_conservation,
            })
        ));
    }
    let idling = if checks.work_conservation { "no capacity left idle, " } else { "" };
    print(&format!(
        "{} segments are valid: capacity kept (busiest link {:.1} %), {idling}every byte delivered once, order and \
         times as recorded\n",
        verdict.segments,
        verdict.peak_load * 100.0,
    ))
}

/// Derives the bound of a certificate again.
fn bound(path: &Path, trace: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let (subject, certificate) = certificate::read(path)?;
    let workload = subject.trace.read_again(trace, "certificate", path)?;
    let rate = BitsPerSec(subject.rate_bps);
    let scenario = Scenario::new(workload, Conditions { rate, ..Conditions::default() }).map_err(|_| {
        Failure::input(format!("{}: rate_bps is 0: nothing could ever cross", path.display()))
    })?;
    let verified = proof::check(scenario.workload(), scenario.fabric(), &certificate).map_err(|error| {
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
    if as_json {
        let statement = terms.sentence(claim);
        return print(&format!(
            "{:#}\n",
            json!({ "schema_version": 1, "valid": true, "statement": statement })
        ));
    }
    print(&format!("The certificate holds. {}.\n", terms.sentence(claim)))
}

//! `cavalcade validate`: an independent check of a dumped schedule, of one that was made elsewhere,
//! or of the certificate of a bound.

use std::path::Path;

use cavalcade::folder::Recorded;
use cavalcade::{Conditions, Elsewhere, Invalid, Located, LocatedFlow, Scenario, Source, run_conditions};
use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_report::TableOptions;
use cavalcade_validate::Verdict;
use cavalcade_validate::certificate::{self as proof, CertificateError, Verified};
use serde_json::{Value, json};

use crate::arguments::Validate;
use crate::certificate;
use crate::claim::{Claim, Terms};
use crate::failure::{Failure, Kind};
use crate::input::read;
use crate::output::print;
use crate::terminal::fit;

/// Runs the command.
///
/// # Errors
/// If the folder, the certificate or the trace cannot be used, or what is checked is not valid.
pub(crate) fn run(options: &Validate) -> Result<(), Failure> {
    let trace = options.trace.as_deref();
    match (&options.path, &options.schedule, trace) {
        (Some(path), _, _) if path.is_dir() => schedule(path, trace, options.json),
        (Some(path), _, _) => bound(path, trace, options.json),
        (None, Some(file), Some(trace)) => elsewhere(file, trace, options),
        (None, _, _) => Err(Failure::usage("there is nothing to validate")
            .help("name a folder or a certificate, or --schedule FILE with --trace FILE")),
    }
}

/// Checks a schedule that was made elsewhere, and prints what it comes to.
fn elsewhere(file: &Path, trace: &Path, options: &Validate) -> Result<(), Failure> {
    let (rate, fabric, offline) = (options.rate, options.fabric.clone(), options.offline);
    let conditions = crate::arguments::Conditions { rate, fabric, offline, ..Default::default() };
    let source = Source::open(trace)?;
    let (reading, _notes) = read(&source, options.format)?;
    let scenario = Scenario::new(reading.workload, conditions.of_run()?)?;
    let name = file.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let schedule = listed(Elsewhere::read(name, file, &scenario), options.json)?;
    let figures = schedule.figures(&scenario);
    let Verdict { segments, peak_load, .. } = schedule.verdict;
    if options.json {
        let conditions = run_conditions(source.name(), scenario.conditions());
        let whole: Value = serde_json::from_str(&cavalcade_report::json(&figures, &conditions))
            .map_err(|error| Failure::new(Kind::Runtime, error.to_string()))?;
        return print(&format!(
            "{:#}\n",
            json!({
                "schema_version": 1,
                "valid": true,
                "segments": segments,
                "peak_load": peak_load,
                "work_conservation": false,
                "figures": whole["runs"][0],
            })
        ));
    }
    print(&format!(
        "{segments} segments are valid: capacity kept (busiest link {:.1} %), every byte delivered once, nothing before it \
         arrives\n\n",
        peak_load * 100.0,
    ))?;
    print(&cavalcade_report::table(&figures, TableOptions { by_bin: false, fit: fit(false) }))
}

/// Checks the schedule of a run.
fn schedule(folder: &Path, trace: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    let recorded = Recorded::open(folder, trace)?;
    let verdict = listed(recorded.validated(), as_json)?;
    let work_conservation = recorded.work_conserving();
    if as_json {
        return print(&format!(
            "{:#}\n",
            json!({
                "schema_version": 1,
                "valid": true,
                "segments": verdict.segments,
                "peak_load": verdict.peak_load,
                "work_conservation": work_conservation,
            })
        ));
    }
    let idling = if work_conservation { "no capacity left idle, " } else { "" };
    print(&format!(
        "{} segments are valid: capacity kept (busiest link {:.1} %), {idling}every byte delivered once, order and \
         times as recorded\n",
        verdict.segments,
        verdict.peak_load * 100.0,
    ))
}

/// Prints as JSON, where that is asked for, what is wrong with a schedule; the failure says it to
/// people.
fn listed<T>(checked: Result<T, Failure>, as_json: bool) -> Result<T, Failure> {
    if let Err(failure) = &checked
        && let Some(Invalid { violations, more }) = failure.invalid()
        && as_json
    {
        let violations: Vec<Value> = violations.iter().map(document).collect();
        let whole = json!({ "schema_version": 1, "valid": false, "violations": violations, "more": more });
        print(&format!("{whole:#}\n"))?;
    }
    checked
}

/// One thing that is wrong. What has no such place is null.
fn document(located: &Located) -> Value {
    let Located { violation, file, lines, lines_in_all, flows, coflow, task } = located;
    let place = violation.place();
    let flow = |LocatedFlow { flow, coflow, src, dst }: &LocatedFlow| json!({ "flow": flow.0, "coflow": coflow, "src": src, "dst": dst });
    json!({
        "kind": violation.kind(),
        "message": violation.to_string(),
        "file": file,
        "lines": lines,
        "lines_in_all": lines_in_all,
        "flows": flows.iter().map(flow).collect::<Vec<_>>(),
        "coflow": coflow,
        "task": task,
        "link": place.link,
        "from_ns": place.span_ns.map(|(from_ns, _)| from_ns),
        "to_ns": place.span_ns.map(|(_, to_ns)| to_ns),
    })
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

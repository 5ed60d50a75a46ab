//! `cavalcade replay`: a simulation again, from its manifest, and whether every byte is the same.

use cavalcade::Watch;
use cavalcade::folder::{Recorded, produce};
use cavalcade::results::{Results, digest_of};
use serde_json::json;

use crate::arguments::RunFolder;
use crate::failure::{Failure, Kind};
use crate::output::print;
use crate::progress::watched;

/// Runs the command.
///
/// # Errors
/// If the folder or the trace cannot be used, or a result differs from the manifest's.
pub(crate) fn run(options: &RunFolder) -> Result<(), Failure> {
    let recorded = Recorded::open(&options.dir, options.trace.as_deref())?;
    check_files(&recorded)?;
    let mut results = Results::new(None);
    let scenario = &recorded.scenario;
    watched(scenario.workload().coflow_count(), |progress| {
        let watch = Watch { progress: Some(progress), ..Watch::default() };
        produce(scenario, recorded.has_schedule(), watch, &mut results)
    })?;
    let again = results.digests();
    for (name, digest) in &recorded.manifest.results {
        if again.get(name) != Some(digest) {
            let message = format!("{name} differs: this run gives other bytes than the manifest records");
            let version = &recorded.manifest.cavalcade;
            return Err(Failure::new(Kind::Assertion, message).help(format!(
                "the run was made by cavalcade {version}, this is {}",
                env!("CARGO_PKG_VERSION")
            )));
        }
    }
    if options.json {
        let document = json!({ "schema_version": 1, "same": true, "results": recorded.manifest.results });
        return print(&format!("{document}\n"));
    }
    print(&format!("{} results are the same, bit for bit\n", again.len()))
}

/// Checks that the files of the folder are still those of the manifest.
fn check_files(recorded: &Recorded) -> Result<(), Failure> {
    for (name, digest) in &recorded.manifest.results {
        let path = recorded.folder.join(name);
        let found = digest_of(recorded.file(name)?).map_err(|error| Failure::file("read", &path, &error))?;
        if found != *digest {
            let message = format!("{} is not the file of this run: its SHA-256 differs", path.display());
            return Err(Failure::input(message).help("it was changed after the run; make the run again"));
        }
    }
    Ok(())
}

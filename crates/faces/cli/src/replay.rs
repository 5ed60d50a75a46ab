//! `cavalcade replay`: a simulation again, from its manifest, and whether every byte is the same.

use cavalcade::folder::Recorded;
use serde_json::json;

use crate::arguments::RunFolder;
use crate::failure::Failure;
use crate::output::print;
use crate::progress::watched;

/// Runs the command.
///
/// # Errors
/// If the folder or the trace cannot be used, or a result differs from the manifest's.
pub(crate) fn run(options: &RunFolder) -> Result<(), Failure> {
    let recorded = Recorded::open(&options.dir, options.trace.as_deref())?;
    let coflows = recorded.scenario.workload().coflow_count();
    let again = watched(coflows, |progress| recorded.replay(progress))?;
    if options.json {
        let document = json!({ "schema_version": 1, "same": true, "results": recorded.manifest.results });
        return print(&format!("{document}\n"));
    }
    print(&format!("{} results are the same, bit for bit\n", again.len()))
}

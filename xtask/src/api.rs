//! The public interface of the library as text, so that a reviewer sees what a change does to its
//! users.
//!
//! `api/NAME.txt` lists every public item of a crate that users of the library name: `cavalcade`,
//! what it re-exports, and `cavalcade-arrow`. The step fails where they say something else than the
//! code; `cargo xtask api --update` writes them anew. From the first release on a line that goes or
//! changes is a new major version.
//!
//! rustdoc says what is public, as JSON. That is unstable, so the files hold for one compiler,
//! which they name; elsewhere the step is left out.
//!
//! Rejected: `cargo public-api` itself, which wants a nightly compiler; its library reads the JSON
//! here.

use std::fmt::Write as _;
use std::fs;

use crate::instructions::toolchain;
use crate::steps::Failure;
use crate::workspace::Workspace;

/// The crates that users of the library name.
const CRATES: &[&str] = &[
    "cavalcade",
    "cavalcade-arrow",
    "cavalcade-bound",
    "cavalcade-metrics",
    "cavalcade-model",
    "cavalcade-policy",
    "cavalcade-report",
    "cavalcade-spec",
    "cavalcade-trace",
    "cavalcade-training",
    "cavalcade-transport",
    "cavalcade-units",
    "cavalcade-validate",
];

const FOLDER: &str = "api";
const UPDATE: &str = "cargo xtask api --update";
/// The most lines that are shown of what has changed.
const SHOWN: usize = 40;

/// Says why the step cannot run here; `None` where it can.
pub(crate) fn missing(workspace: &Workspace) -> Option<String> {
    let here = toolchain().unwrap_or_default();
    let kept = workspace.read(&format!("{FOLDER}/{}.txt", CRATES[0])).unwrap_or_default();
    let of_kept = kept.lines().next().unwrap_or_default();
    (here != of_kept)
        .then(|| format!("{here}, where {FOLDER}/ has the interface as '{of_kept}' says it: {UPDATE}"))
}

/// Compares the files with the code.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    if let Some(needs) = missing(workspace) {
        return Err(Failure::new(format!("the public interface needs {needs}")));
    }
    let mut changes = Vec::new();
    for name in CRATES {
        let kept = workspace.read(&format!("{FOLDER}/{name}.txt")).unwrap_or_default();
        changes.extend(differences(&kept, &interface(workspace, name)?));
    }
    if changes.is_empty() {
        return Ok(());
    }
    let more = changes.len().saturating_sub(SHOWN);
    changes.truncate(SHOWN);
    let more = if more > 0 { format!("\n… and {more} more") } else { String::new() };
    Err(Failure::new(format!("the public interface has changed: {UPDATE}\n{}{more}", changes.join("\n"))))
}

/// Writes the files.
pub(crate) fn update(workspace: &Workspace) -> Result<(), Failure> {
    fs::create_dir_all(workspace.root.join(FOLDER))?;
    for name in CRATES {
        fs::write(workspace.root.join(FOLDER).join(format!("{name}.txt")), interface(workspace, name)?)?;
    }
    Ok(())
}

/// All public items of a crate, one in each line, behind a line with the compiler.
fn interface(workspace: &Workspace, name: &str) -> Result<String, Failure> {
    let script = workspace.root.join("xtask/rustdoc-json.sh");
    let words =
        ["rustdoc", "-q", "-p", name, "--lib", "--", "-Z", "unstable-options", "--output-format", "json"];
    workspace.cargo(&words).env("RUSTDOC", script.display().to_string()).check()?;
    let json = workspace.target.join("doc").join(format!("{}.json", name.replace('-', "_")));
    let read = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    let read = read.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    let mut text = toolchain()? + "\n";
    for item in read.items() {
        let _ = writeln!(text, "{item}");
    }
    Ok(text)
}

/// Lines that only one of two lists of lines has: `-` what went, `+` what came.
fn differences(kept: &str, found: &str) -> Vec<String> {
    let only = |sign, of: &str, other: &str| -> Vec<String> {
        let other: std::collections::BTreeSet<&str> = other.lines().collect();
        of.lines().filter(|line| !other.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    [only('-', kept, found), only('+', found, kept)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_and_what_went_is_listed_and_an_order_is_no_change() {
        assert_eq!(differences("a\nb\nc\n", "c\na\nd\n"), ["- b", "+ d"]);
        assert!(differences("a\nb\n", "b\na\n").is_empty());
    }
}

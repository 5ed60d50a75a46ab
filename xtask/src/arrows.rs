//! Which crate may use which: the arrows of ARCHITECTURE.md as a table.
//!
//! Layers are worth nothing unless something refuses to build across them. The table is closed: a
//! crate that it does not name, or a dependency that it does not list, fails the tests, so that a
//! new arrow is a decision in a diff and not an accident. Dependencies of tests are free: a test
//! may drive everything. The table that people read, in ARCHITECTURE.md, is compared with this one.

use crate::workspace::Package;

/// Each crate of `crates/` with the crates of the project that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("spec", &["units"]),
    ("model", &["units", "spec"]),
    ("allocate", &["model", "spec"]),
    ("harness", &["model", "spec"]),
    ("policy", &["model", "spec"]),
    ("trace", &["model", "spec"]),
    ("metrics", &["model"]),
    ("training", &["model", "spec", "trace", "metrics"]),
    ("sim-fluid", &["model", "harness", "allocate", "metrics"]),
    ("transport", &["model", "spec"]),
    ("spc", &["model", "transport"]),
    ("spc-c", &["model", "spc"]),
    ("switch", &["model", "transport"]),
    ("validate", &["model", "metrics"]),
    ("bound", &["model"]),
    ("report", &["model", "metrics"]),
    ("protocol", &["model"]),
    ("control", &["model", "harness", "allocate", "protocol"]),
    (
        "sim-control",
        &["model", "harness", "allocate", "policy", "metrics", "protocol", "control", "sim-fluid"],
    ),
    ("sim-packet", &["model", "harness", "transport", "metrics", "protocol"]),
    (
        "cavalcade",
        &[
            "spec",
            "model",
            "harness",
            "policy",
            "trace",
            "metrics",
            "training",
            "sim-fluid",
            "sim-packet",
            "sim-control",
            "transport",
            "bound",
            "validate",
            "report",
        ],
    ),
    (
        "experiment",
        &["model", "spec", "policy", "trace", "metrics", "transport", "bound", "report", "cavalcade"],
    ),
    ("arrow", &["cavalcade"]),
    ("python", &["arrow", "experiment", "cavalcade"]),
    ("client", &["model", "protocol"]),
    ("enforce", &["model", "protocol", "client"]),
    ("runtime", &["model", "protocol", "control"]),
    ("lab", &["model", "metrics", "client", "enforce", "spc", "switch"]),
    ("testing", &[]),
    (
        "cli",
        &[
            "units",
            "spec",
            "model",
            "harness",
            "policy",
            "trace",
            "metrics",
            "sim-fluid",
            "transport",
            "validate",
            "bound",
            "report",
            "protocol",
            "control",
            "sim-control",
            "sim-packet",
            "experiment",
            "client",
            "enforce",
            "runtime",
            "lab",
            "spc",
            "switch",
            "cavalcade",
        ],
    ),
];

/// The crate that carries the project's own name, without the prefix of the others.
const LIBRARY: &str = "cavalcade";

/// The crates at the outer edge, which may read clocks, open files and sockets, and use an async
/// runtime. Their arrows are held like all others.
const SHELLS: &[&str] =
    &["cavalcade", "cli", "python", "runtime", "client", "enforce", "lab", "spc", "spc-c", "switch"];

/// Crates that only tests use; they may do what the shells may.
const OF_TESTS: &[&str] = &["testing"];

/// Async runtimes belong to the live driver's shell alone.
const RUNTIMES: &[&str] = &["tokio", "async-std", "smol", "mio"];

const PREFIX: &str = "cavalcade-";

/// Returns whether a package stands at the outer edge (or is no part of the product at all, as this
/// program).
pub(crate) fn is_shell(package: &str) -> bool {
    package.strip_prefix(PREFIX).is_none_or(|name| SHELLS.contains(&name) || OF_TESTS.contains(&name))
}

/// Every dependency that breaks the table, in words.
pub(crate) fn faults(packages: &[Package]) -> Vec<String> {
    let of_product =
        packages.iter().filter(|package| package.name.starts_with(PREFIX) || package.name == LIBRARY);
    of_product.flat_map(faults_of).collect()
}

fn faults_of(package: &Package) -> Vec<String> {
    let name = package.name.strip_prefix(PREFIX).unwrap_or(&package.name);
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![format!("crate {name} has no row in xtask/src/arrows.rs: say what it may use")];
    };
    let mut faults = Vec::new();
    for dependency in &package.dependencies {
        if RUNTIMES.contains(&dependency.as_str()) && !is_shell(&package.name) {
            faults.push(format!("{name} must not depend on {dependency}: only {} may", SHELLS.join(", ")));
        }
        let of_project = (dependency == LIBRARY).then_some(LIBRARY).or(dependency.strip_prefix(PREFIX));
        if let Some(on) = of_project
            && !allowed.contains(&on)
        {
            faults.push(format!("{name} must not depend on {on}: it may use {allowed:?}"));
        }
    }
    faults
}

/// What begins a cell of the document that names the exceptions.
const ALL_BUT: &str = "all but ";

/// Lists the crates of which ARCHITECTURE.md, given as `text`, says something else than the table.
pub(crate) fn mistold(text: &str) -> Vec<String> {
    ARROWS
        .iter()
        .filter(|(name, allowed)| !is_told(text, name, allowed))
        .map(|(name, allowed)| {
            format!(
                "ARCHITECTURE.md: the row of `{name}` must end with what it may use: {}",
                allowed.join(", ")
            )
        })
        .collect()
}

fn is_told(text: &str, name: &str, allowed: &[&str]) -> bool {
    let Some(row) = text.lines().find(|line| line.starts_with(&format!("| `{name}` |"))) else {
        return false;
    };
    let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
    match cell.strip_prefix(ALL_BUT) {
        Some(others) => {
            let others: Vec<&str> = others.split(", ").collect();
            let meant = |crate_name: &&str| *crate_name != name && !others.contains(crate_name);
            let told: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).filter(meant).collect();
            told.len() == allowed.len() && told.iter().all(|on| allowed.contains(on))
        }
        None => cell == if allowed.is_empty() { "–".to_owned() } else { allowed.join(", ") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_tells_other_arrows_is_named() {
        assert!(is_told("| `units` | integers | – |", "units", &[]));
        assert!(!is_told("| `units` | integers | – |", "units", &["spec"]));
        assert!(is_told("| `bound` | bounds | model |", "bound", &["model"]));
        assert!(!is_told("", "bound", &["model"]));
        let others: Vec<&str> =
            ARROWS.iter().map(|(name, _)| *name).filter(|name| !["cli", "testing"].contains(name)).collect();
        assert!(is_told("| `cli` | the program | all but testing |", "cli", &others));
    }

    fn package(name: &str, dependencies: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            folder: Default::default(),
            dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    #[test]
    fn an_arrow_of_the_table_holds_and_one_against_it_is_named() {
        assert!(faults(&[package("cavalcade-policy", &["cavalcade-model", "thiserror"])]).is_empty());
        let found = faults(&[package("cavalcade-allocate", &["cavalcade-policy"])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("allocate must not depend on policy"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert!(faults(&[package("cavalcade-novel", &[])])[0].contains("no row"));
    }

    #[test]
    fn a_runtime_is_refused_outside_the_shells() {
        assert_eq!(faults(&[package("cavalcade-trace", &["tokio"])]).len(), 1);
        assert!(faults(&[package("cavalcade-cli", &["tokio", "cavalcade-model"])]).is_empty());
    }

    #[test]
    fn shells_have_rows_too() {
        let found = faults(&[package("cavalcade-client", &["tokio", "cavalcade-control"])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("client must not depend on control"), "{found:?}");
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (position, (from, to)) in ARROWS.iter().enumerate() {
            for on in *to {
                let target = ARROWS.iter().position(|(name, _)| name == on);
                assert!(target.is_some_and(|target| target < position), "{from} → {on} points forward");
            }
        }
    }
}

//! `docs/policies.md`: a table for each policy with a paper's name, and for each of its lines a
//! test that exists.

#![allow(clippy::unwrap_used, reason = "a test whose scene cannot be set has failed")]

use std::collections::BTreeSet;
use std::path::Path;

use cavalcade_policy::registry;

const PAGE: &str = include_str!("../../../../docs/policies.md");

/// The names of all functions in a folder's Rust files, and below.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let named = text.lines().filter_map(|line| line.trim_start().strip_prefix("fn "));
            names.extend(named.filter_map(|line| line.split('(').next()).map(str::to_owned));
        }
    }
}

#[test]
fn every_paper_has_its_table() {
    let sections: BTreeSet<&str> = PAGE.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for info in registry().iter().filter(|info| info.paper.is_some()) {
        assert!(sections.contains(info.name), "docs/policies.md has no section {}", info.name);
    }
}

#[test]
fn every_line_of_a_table_names_a_test_that_exists() {
    let mut tests = BTreeSet::new();
    functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut tests);
    let lines = PAGE.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let mut count = 0;
    for line in lines {
        let test = line.trim_end_matches(" |").rsplit("| ").next().unwrap().trim_matches('`');
        assert!(tests.contains(test), "no test is called {test}, of\n{line}");
        count += 1;
    }
    assert!(count > 70, "{count} lines");
}

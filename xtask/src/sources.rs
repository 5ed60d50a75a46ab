//! What holds for the text of every crate: it denies what only the shells may use, its files are
//! short, and its comments narrow.
//!
//! Files, sockets, clocks and whatever else differs from run to run are found by clippy
//! (`clippy.toml`) in each crate whose root denies those lints; here it is checked that each root
//! does. A lexer of our own did that before. It missed paths behind globs and renames, and clippy
//! resolves them.
//!
//! A file that is too long is split along an idea, or the limit is raised in a diff that says why.

use std::fs;
use std::path::{Path, PathBuf};

use crate::arrows::is_shell;
use crate::steps::Failure;
use crate::workspace::Package;

/// The lints that the root of a crate that is no shell has to deny.
const DENIED: &[&str] =
    &["clippy::disallowed_types", "clippy::disallowed_methods", "clippy::iter_over_hash_type"];

/// The most lines of a file, tests not counted. Around 400 is comfortable.
const LIMIT: usize = 700;

/// The most characters of a line of comment, indentation and all. Code may be wider: it is not read
/// from left to right.
const WIDTH: usize = 100;

/// Every fault of the sources of `packages`, in words.
pub(crate) fn faults(packages: &[Package]) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    for package in packages {
        let root = package.folder.join("src/lib.rs");
        if !is_shell(&package.name) && root.exists() {
            faults.extend(undenied(&package.name, &fs::read_to_string(root)?));
        }
        for file in sources(&package.folder.join("src"))? {
            let (name, shown) =
                (&package.name, file.strip_prefix(&package.folder).unwrap_or(&file).display());
            let text = fs::read_to_string(&file)?;
            faults.extend(wide_comments(&text).into_iter().map(|line| {
                format!("{name}: {shown}:{line} is a comment of more than {WIDTH} characters: wrap it")
            }));
            let lines = length(&text);
            if lines > LIMIT {
                faults.push(format!(
                    "{name}: {shown} has {lines} lines without tests: split it, {LIMIT} is the most"
                ));
            }
        }
    }
    Ok(faults)
}

/// The lints that the root of a crate does not deny.
fn undenied(package: &str, root: &str) -> Option<String> {
    let open: Vec<&str> = DENIED.iter().copied().filter(|lint| !root.contains(lint)).collect();
    let named = open.join(", ");
    (!open.is_empty()).then(|| {
        format!(
            "{package}: src/lib.rs has to deny {named} outside tests, as other crates do; or name it a shell"
        )
    })
}

/// The numbers of the lines that are comments wider than [`WIDTH`] and could be wrapped: no row of
/// a table, no code, and not a single word.
fn wide_comments(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut wide = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            in_code = !in_code;
        }
        let is_fixed = in_code || comment.starts_with('|') || !comment.contains(' ');
        if line.chars().count() > WIDTH && !is_fixed {
            wide.push(number);
        }
    }
    wide
}

/// The lines of a file before its module of tests.
fn length(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let is_tests =
        |two: &[&str]| two[0] == "#[cfg(test)]" && two[1].contains("mod ") && two[1].ends_with('{');
    lines.windows(2).position(is_tests).unwrap_or(lines.len())
}

/// All Rust files under `folder` that are no tests, in order of name.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries.into_iter().filter(|entry| entry.file_stem().is_some_and(|stem| stem != "tests")) {
        if entry.is_dir() {
            files.extend(sources(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_that_denies_too_little_is_named_with_what_it_lacks() {
        let root = "#![deny(clippy::disallowed_types, clippy::disallowed_methods)]";
        let fault = undenied("cavalcade-novel", root).unwrap();
        assert!(fault.contains("cavalcade-novel") && fault.contains("iter_over_hash_type"), "{fault}");
        assert!(!fault.contains("disallowed_types"), "{fault}");
        assert_eq!(undenied("cavalcade-novel", &DENIED.join(", ")), None);
    }

    #[test]
    fn a_wide_comment_is_found_unless_it_cannot_be_wrapped() {
        let word = "w".repeat(99);
        let text = format!(
            "/// a {word}\n/// {word}\n// | {word} |\n// ```\n// a {word}\n// ```\nlet a = \"a {word}\";\n// b {word}\n"
        );
        assert_eq!(wide_comments(&text), [1, 8]);
    }

    #[test]
    fn tests_at_the_end_of_a_file_do_not_count() {
        assert_eq!(length("fn one() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(length("#[cfg(test)]\nmod tests;\n\n#[cfg(test)]\nfn of_tests() {}\nfn one() {}\n"), 6);
    }
}

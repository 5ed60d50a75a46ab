//! No crate but the shells opens a file or socket or reads a clock: a search of the sources for the paths that would.
//!
//! The text is lexed as Rust ([`proc_macro2`]), so that comments and strings do not count and `use std::{fs, time::Instant}`
//! does. What stands under `#[cfg(test)]` is left out. A path reached through a glob or a rename of `std` itself would
//! be missed; nobody writes that by accident.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::arrows::is_shell;
use crate::steps::Failure;
use crate::workspace::Package;

/// Paths that mean I/O or a clock, with everything below them. Traits of `std::io` and `std::time::Duration` are pure.
const IMPURE: &[&[&str]] = &[
    &["std", "fs"],
    &["std", "net"],
    &["std", "os"],
    &["std", "process"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
];

/// Every use of files, sockets, processes or clocks outside the shells, in words.
pub(crate) fn faults(packages: &[Package]) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| !is_shell(&package.name)) {
        for file in sources(&package.folder.join("src"))? {
            let text = fs::read_to_string(&file)?;
            let tokens: TokenStream = text
                .parse()
                .map_err(|error| Failure::new(format!("{} is not Rust: {error}", file.display())))?;
            for path in impure_paths(tokens) {
                let shown = file.strip_prefix(&package.folder).unwrap_or(&file).display();
                faults.push(format!("{} ({shown}) uses {path}: only the shells may", package.name));
            }
        }
    }
    Ok(faults)
}

/// All Rust files under `folder` but those of test modules, in order of name.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        if entry.is_dir() {
            files.extend(sources(&entry)?);
        } else if entry.extension().is_some_and(|extension| extension == "rs")
            && entry.file_stem().is_some_and(|stem| stem != "tests")
        {
            files.push(entry);
        }
    }
    Ok(files.into_iter().filter(|file| !file.components().any(|part| part.as_os_str() == "tests")).collect())
}

/// The impure paths named in `tokens`, outside test code.
fn impure_paths(tokens: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(hash) if hash.as_char() == '#' && is_test_attribute(tokens.get(at + 1)) => {
                at = end_of_item(&tokens, at + 2);
                continue;
            }
            TokenTree::Ident(name) if name == "std" => {
                let mut paths = Vec::new();
                at = expand(&tokens, at, &[], &mut paths);
                found.extend(paths.iter().filter(|path| is_impure(path)).map(|path| path.join("::")));
                continue;
            }
            TokenTree::Group(group) => found.extend(impure_paths(group.stream())),
            _ => {}
        }
        at += 1;
    }
    found
}

/// Whether a path lies at or below an impure one, or is a module that holds one (so that its parts could be used).
fn is_impure(path: &[String]) -> bool {
    IMPURE.iter().any(|impure| {
        let below = path.len() >= impure.len();
        let holds = path.len() > 1 && !below;
        (below || holds) && path.iter().zip(impure.iter()).all(|(part, name)| part == name || part == "*")
    })
}

/// Whether the token after a `#` is `[cfg(test)]` or a condition that needs `test`.
fn is_test_attribute(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    let text = group.stream().to_string().replace(' ', "");
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The position after the item that begins at `at`: past its `;` or its braces.
fn end_of_item(tokens: &[TokenTree], at: usize) -> usize {
    let ends = tokens[at.min(tokens.len())..].iter().position(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    });
    ends.map_or(tokens.len(), |offset| at + offset + 1)
}

/// Reads a path or use-tree at `at` below `prefix`, adds every full path in it, and returns the position behind it.
fn expand(tokens: &[TokenTree], mut at: usize, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(name)) => path.push(name.to_string()),
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".to_owned()),
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                expand_list(group.stream(), &path, paths);
                return at + 1;
            }
            _ => break,
        }
        at += 1;
        if !is_separator(tokens, at) {
            break;
        }
        at += 2;
    }
    paths.push(path);
    at
}

/// Expands the trees between the braces of a use-tree.
fn expand_list(list: TokenStream, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let tokens: Vec<TokenTree> = list.into_iter().collect();
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ',');
    for tree in tokens.split(is_comma).filter(|tree| !tree.is_empty()) {
        expand(tree, 0, prefix, paths);
    }
}

fn is_separator(tokens: &[TokenTree], at: usize) -> bool {
    let is_colon =
        |token: Option<&TokenTree>| matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    is_colon(tokens.get(at)) && is_colon(tokens.get(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        impure_paths(text.parse().unwrap())
    }

    #[test]
    fn plain_and_nested_paths_are_found() {
        assert_eq!(found("fn f() { let t = std::time::Instant::now(); }"), ["std::time::Instant::now"]);
        assert_eq!(
            found("use std::{fmt, fs::File, time::{Duration, SystemTime}};"),
            ["std::fs::File", "std::time::SystemTime"]
        );
        assert_eq!(found("use std::net::*;"), ["std::net::*"]);
    }

    #[test]
    fn importing_the_module_that_holds_a_clock_is_found() {
        assert_eq!(found("use std::time;"), ["std::time"]);
        assert_eq!(found("use std::time::*;"), ["std::time::*"]);
    }

    #[test]
    fn pure_parts_comments_strings_and_tests_are_not() {
        assert!(found("use std::{io::Read, time::Duration, collections::BTreeMap};").is_empty());
        assert!(found("// std::fs\nconst S: &str = \"std::fs::read\";").is_empty());
        assert!(found("#[cfg(test)] mod tests { use std::fs; }").is_empty());
        assert_eq!(found("#[cfg(test)] mod tests; use std::fs;"), ["std::fs"]);
        assert_eq!(found("#[cfg(unix)] mod real { use std::fs; }"), ["std::fs"]);
    }
}

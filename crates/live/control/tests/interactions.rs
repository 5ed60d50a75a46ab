//! Scripted interactions: what agents, clients and a coordinator say when something happens, as
//! text.
//!
//! Each file in `interactions/` is a list of steps: a line with a command, `----`, and what came of
//! it. A change of behaviour is a difference in these files, to be read before it is committed:
//! `CAVALCADE_INTERACTIONS=rewrite cargo test -p cavalcade-control --test interactions` rewrites
//! them.

#![allow(clippy::unwrap_used, reason = "a script that is wrong fails by panicking")]

#[path = "interactions/site.rs"]
mod site;

use site::Site;

/// Runs a script; returns it with what came of each step in place of what stood there.
fn run(script: &str) -> String {
    let mut site: Option<Site> = None;
    let mut out = String::new();
    let mut lines = script.lines();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        // The former result goes up to the next empty line.
        let _former = lines.by_ref().take_while(|line| !line.is_empty()).count();
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = match (&mut site, words[0]) {
            (site, "site") => {
                *site = Some(Site::new(&words[1..]));
                String::new()
            }
            (Some(site), _) => site.step(&words),
            (None, _) => panic!("a script begins with 'site'"),
        };
        let said = if said.is_empty() { "nothing\n".to_owned() } else { said };
        out.push_str(&format!("{line}\n----\n{said}\n"));
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

#[test]
fn parts_say_what_the_scripts_say_they_do() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interactions");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "txt"));
    files.sort();
    assert!(!files.is_empty(), "there are scripts in {}", folder.display());
    let rewrites = std::env::var_os("CAVALCADE_INTERACTIONS").is_some_and(|value| value == "rewrite");
    let mut different = Vec::new();
    for path in files {
        let expected = std::fs::read_to_string(&path).unwrap();
        let found = run(&expected);
        if rewrites {
            std::fs::write(&path, found).unwrap();
        } else if found != expected {
            let pairs = expected.lines().zip(found.lines()).enumerate();
            let first = pairs.filter(|(_, (a, b))| a != b).map(|(at, (a, b))| (at + 1, a, b)).next();
            different.push(format!("{}: first difference (line, file, now): {first:?}", path.display()));
        }
    }
    assert!(different.is_empty(), "{}\nread the difference, then rewrite the files", different.join("\n"));
}

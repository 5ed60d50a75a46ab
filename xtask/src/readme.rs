//! The commands of the README, the formats, the figures and the tutorial, which have to work as
//! they are pasted.
//!
//! Each `sh` block is run line by line: `cargo run` lines in the checkout, as a newcomer types
//! them, and `cavalcade` lines with the program so built, in a folder that holds copies of what the
//! text names. A block that needs more than one machine has stands below
//! `<!-- not run: REASON -->`. The blocks of the tutorial are one session in one shell.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// The folders that the commands name.
const COPIED: &[&str] = &["examples", "python", "docs"];

/// Above a block that is not run.
const NOT_RUN: &str = "<!-- not run:";

/// The commands in the `sh` blocks of a text in Markdown that can be run anywhere, without their
/// comments.
pub(crate) fn commands(text: &str) -> Vec<&str> {
    let mut before = text;
    let mut commands = Vec::new();
    while let Some((above, rest)) = before.split_once("\n```sh\n") {
        let (block, after) = rest.split_once("\n```").unwrap_or((rest, ""));
        let is_run = !above.trim_end().lines().last().is_some_and(|line| line.starts_with(NOT_RUN));
        if is_run {
            let lines = block.lines().map(|line| line.split(" #").next().unwrap_or_default().trim());
            commands.extend(lines.filter(|line| !line.is_empty() && !line.starts_with('#')));
        }
        before = after;
    }
    commands
}

/// Runs the commands of the README, and those of `docs/formats.md` and `docs/figures.md`.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let text = workspace.read("README.md")?;
    let commands = commands(&text);
    let (own, program): (Vec<&str>, Vec<&str>) =
        commands.into_iter().partition(|command| command.starts_with("cargo "));
    if !own.iter().any(|command| command.starts_with("cargo run ")) || program.is_empty() {
        return Err(Failure::new("README.md shows no 'cargo run' or no 'cavalcade' command"));
    }
    for command in own.iter().filter(|command| command.starts_with("cargo run ")) {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        workspace.cargo(&words).check()?;
    }
    let formats = workspace.read("docs/formats.md")?;
    let figures = workspace.read("docs/figures.md")?;
    let scratch = Scratch::new(workspace)?;
    program
        .into_iter()
        .chain(self::commands(&formats))
        .chain(self::commands(&figures))
        .try_for_each(|command| scratch.run(workspace, command))
}

/// Runs the tutorial as one session and checks that the order of its two coflows was seen to
/// change.
pub(crate) fn tutorial(workspace: &Workspace) -> Result<(), Failure> {
    let text = workspace.read("docs/tutorial.md")?;
    let scratch = Scratch::new(workspace)?;
    let ended = scratch.run(workspace, &format!("exec >session.txt 2>&1\n{}", session(&text)));
    let session = std::fs::read_to_string(scratch.0.join("session.txt"))?;
    eprintln!("{session}");
    ended?;
    if overtakes(&session) {
        return Ok(());
    }
    Err(Failure::new("docs/tutorial.md: 'cavalcade ps' never listed the small coflow before the big one"))
}

/// Returns whether a list of coflows began with the big one, and a later one had the small one
/// before it.
fn overtakes(session: &str) -> bool {
    let row = |list: &str, name| list.lines().position(|line| line.split_whitespace().nth(1) == Some(name));
    let mut lists =
        session.split("coordinator for ").skip(1).map(|list| (row(list, "big"), row(list, "small")));
    lists.any(|(big, small)| big.is_some() && small.is_none())
        && lists.any(|(big, small)| small.is_some() && small < big)
}

/// Joins all that a tutorial has its reader type, as one script that leaves nothing running.
fn session(text: &str) -> String {
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next()) {
        script += block;
        script.push('\n');
    }
    script
}

/// A folder with copies of what commands name, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(workspace: &Workspace) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("cavalcade-readme-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let scratch = Self(folder);
        for name in COPIED {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(workspace.root.join(name)).arg(&scratch.0);
            Run::new(copy).quietly()?;
        }
        Ok(scratch)
    }

    /// Runs what a reader pastes, with the program on the path and no agent of this machine in
    /// reach.
    fn run(&self, workspace: &Workspace, script: &str) -> Result<(), Failure> {
        let built = workspace.target.join("release");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Run::new(shell)
            .in_folder(&self.0)
            .env("PATH", format!("{}:{path}", built.display()))
            .env("XDG_RUNTIME_DIR", &self.0)
            .check()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\n```sh\ncargo run -- demo   # minutes\n# nothing\n\nls 'a#b'\n```\n\n```\noutput\n```\n\n\
                        <!-- not run: needs two hosts -->\n```sh\nreboot\n```\n\n```sh\nlast\n```\n";

    #[test]
    fn commands_are_taken_without_their_comments_and_without_those_that_need_more() {
        assert_eq!(commands(TEXT), ["cargo run -- demo", "ls 'a#b'", "last"]);
    }

    #[test]
    fn a_session_is_all_blocks_in_order() {
        let script = session("\n```sh\none &\n```\ntext\n```sh\ntwo\n```\n");
        assert!(script.starts_with("set -eu\n") && script.ends_with("\none &\ntwo\n"), "{script}");
    }

    #[test]
    fn a_small_coflow_that_is_listed_first_has_overtaken() {
        let said = "coordinator for 1 host\n63cbe1e  big  5\nsmall: 80 MB in 4.1 s\n";
        let after = |order: &str| format!("{said}coordinator for 1 host\n{order}");
        assert!(overtakes(&after("0a1b2c3  small  1\n63cbe1e  big  5\n")));
        assert!(!overtakes(&after("63cbe1e  big  5\n0a1b2c3  small  5\n")));
        assert!(!overtakes(said) && !overtakes(&after("")));
    }
}

//! The commands of the README, which have to work as they are pasted.

use crate::steps::Failure;
use crate::workspace::Workspace;

/// The commands in the `sh` blocks of a text in Markdown, without their comments.
pub(crate) fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Runs the `cargo run` lines of the README exactly as a newcomer would type them.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let text = workspace.read("README.md")?;
    let commands: Vec<&str> =
        commands(&text).into_iter().filter(|line| line.starts_with("cargo run ")).collect();
    if commands.is_empty() {
        return Err(Failure::new("README.md shows no 'cargo run' command"));
    }
    commands.iter().try_for_each(|command| {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        workspace.cargo(&words).check()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_without_their_comments() {
        let text = "\n```sh\ncargo run -- demo   # minutes\n# nothing\n\nls 'a#b'\n```\n\n```\noutput\n```\n";
        assert_eq!(commands(text), ["cargo run -- demo", "ls 'a#b'"]);
    }
}

//! Completion scripts and man pages, made from the command line's definition.

use std::io::Write;

use cavalcade::output::Folder;
use clap::CommandFactory;

use crate::arguments::{Arguments, Completions, Man};
use crate::failure::Failure;
use crate::output::print;

/// `cavalcade completions`.
///
/// # Errors
/// If standard output cannot be written.
pub(crate) fn run(options: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), "cavalcade", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `cavalcade man`: a page for the program and one for each command.
///
/// # Errors
/// If the folder cannot be written.
pub(crate) fn write_man_pages(options: &Man) -> Result<(), Failure> {
    let folder = Folder::create(&options.dir)?;
    let mut command = Arguments::command();
    command.build();
    write_page(&folder, command)?;
    folder.keep().map(drop)
}

/// Writes the page of `command` and those below it. Its name is that of the whole line by now:
/// `cavalcade-trace-info`.
fn write_page(folder: &Folder, command: clap::Command) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        write_page(folder, below.clone())?;
    }
    let page = clap_mangen::Man::new(command);
    let name = page.get_filename();
    let mut text = Vec::new();
    let rendered = page.render(&mut text);
    let mut file = folder.file(&name)?;
    rendered.and_then(|()| file.write_all(&text)).map_err(|error| folder.failure(&name, &error))
}

#[cfg(test)]
mod tests {
    use clap::{Command, Parser};

    use super::*;

    /// Commands that make files, serve, or run something else: they print nothing for programs to
    /// read.
    const WITHOUT_JSON: [&str; 19] = [
        "agent",
        "certificates",
        "completions",
        "convert",
        "coordinator",
        "demo",
        "enforce",
        "events",
        "figure",
        "man",
        "plot",
        "renew",
        "report",
        "revoke",
        "run",
        "spc-proxy",
        "switch",
        "up",
        "help",
    ];

    fn visit(command: &Command, look: &mut impl FnMut(&Command)) {
        look(command);
        let below = command.get_subcommands();
        below.filter(|one| !one.is_hide_set() && one.get_name() != "help").for_each(|one| visit(one, look));
    }

    fn whole() -> Command {
        let mut command = Arguments::command();
        command.build();
        command
    }

    /// The words of a line as a shell takes them, without a comment and up to where its output
    /// goes.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(" #").next().unwrap().split(" > ").next().unwrap();
        let mut words = Vec::new();
        for (index, part) in line.split('\'').enumerate() {
            match index % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.to_owned()),
            }
        }
        words
    }

    #[test]
    fn the_help_of_every_command_has_examples_that_it_takes() {
        visit(&whole(), &mut |command| {
            let name = command.get_bin_name().unwrap_or("cavalcade").to_owned();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = after.split_once("Example:\n").map(|(_, examples)| examples);
            let examples = examples.unwrap_or_else(|| panic!("the help of '{name}' has no example"));
            let own = ["cavalcade describe", "cavalcade why"];
            for line in examples.lines().map(str::trim) {
                assert!(line.starts_with(&name) || own.contains(&name.as_str()), "'{line}' in '{name}'");
                if let Err(error) = Arguments::try_parse_from(words(line)) {
                    panic!("{line}: {error}");
                }
            }
        });
    }

    #[test]
    fn every_command_that_prints_data_prints_json() {
        visit(&whole(), &mut |command| {
            let prints = !command.has_subcommands() && !WITHOUT_JSON.contains(&command.get_name());
            let is_experiment_run = command.get_bin_name() == Some("cavalcade experiment run");
            if prints && !is_experiment_run {
                let has_json = command.get_arguments().any(|one| one.get_long() == Some("json"));
                assert!(has_json, "'{}' has no --json", command.get_bin_name().unwrap_or_default());
            }
        });
    }
}

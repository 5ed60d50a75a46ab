//! The commands in the help of the program, grouped by who needs them.
//!
//! The parser can group options, not commands. So this part of the help is written here, from the
//! parser's own names and descriptions; a test checks that every command is in a group.

use std::fmt::Write as _;

use cavalcade_report::wrapped;
use clap::builder::styling::Styles;
use clap::{Command, CommandFactory as _, FromArgMatches as _};

use super::Arguments;
use crate::terminal;

/// The widest help.
const WIDEST: u16 = 100;

/// Groups of commands: a heading, and names in the order in which they are shown.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Analyse traces",
        &[
            "demo", "compare", "report", "bound", "simulate", "validate", "replay", "policies", "trace",
            "train", "fabric", "tune",
        ],
    ),
    ("Run live", &["up", "coordinator", "agent", "enforce", "run", "lab", "switch", "spc-proxy"]),
    (
        "Operate",
        &["ps", "top", "describe", "why", "drain", "reload", "doctor", "certificates", "renew", "revoke"],
    ),
    ("Develop and reproduce", &["experiment", "bench", "fault"]),
    ("Set up the shell", &["completions", "man", "help"]),
];

/// The definition of the command line.
pub(crate) fn command() -> Command {
    let command = Arguments::command();
    let mut built = command.clone();
    built.build();
    let width = terminal::fit(false).width.map_or(WIDEST, |width| width.min(WIDEST));
    let styles = Styles::styled();
    let (commands, heading) = (in_groups(&built, width, &styles), styles.get_header());
    command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}

/// Parses the words that this program was called with.
///
/// # Errors
/// If they are no valid command line, or ask for help.
pub(crate) fn parse() -> Result<Arguments, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The list of commands, `width` columns wide, with an empty line behind each group.
fn in_groups(command: &Command, width: u16, styles: &Styles) -> String {
    let shown = || command.get_subcommands().filter(|below| !below.is_hide_set());
    let names = shown().map(|below| below.get_name().len()).max().unwrap_or_default();
    let indent = names + 4;
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut text = String::new();
    for (heading, members) in GROUPS {
        // A build without the live system has fewer.
        let mut members = members.iter().filter_map(|name| command.find_subcommand(name)).peekable();
        if members.peek().is_none() {
            continue;
        }
        let _ = writeln!(text, "{header}{heading}:{header:#}");
        for member in members {
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            let about = wrapped(&about, Some(width.saturating_sub(indent as u16)));
            let about = about.replace('\n', &format!("\n{:indent$}", ""));
            let name = member.get_name();
            let _ = writeln!(
                text,
                "  {literal}{name}{literal:#}{:pad$}{about}",
                "",
                pad = indent - 2 - name.len()
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let mut command = Arguments::command();
        command.build();
        let shown = command.get_subcommands().filter(|below| !below.is_hide_set());
        let shown: BTreeSet<&str> = shown.map(Command::get_name).collect();
        let named: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let grouped: BTreeSet<&str> = named.iter().copied().collect();
        assert_eq!(named.len(), grouped.len(), "a command in two groups");
        assert!(shown.is_subset(&grouped), "in no group: {:?}", shown.difference(&grouped));
        if cfg!(feature = "tui") {
            assert_eq!(shown, grouped);
        }
    }

    #[test]
    fn descriptions_are_wrapped_and_not_cut() {
        let mut command = Arguments::command();
        command.build();
        for width in [40, 60, 100] {
            let text = in_groups(&command, width, &Styles::plain());
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            let about = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(about.contains("Compare published schedulers on a generated workload"), "{about}");
        }
    }
}

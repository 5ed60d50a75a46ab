//! The configuration file: what flags say, in TOML, one file for all components of a site.
//!
//! `[site]` says what is the same everywhere, `[coordinator]`, `[agent]` and `[enforce]` what each
//! of the three needs, `[log]` what the first two say. Everything is optional: a flag wins over the
//! file, and the defaults come last.
//!
//! What may be said is defined with the flags ([`crate::arguments::options`]). A typo is refused
//! with its place and the name that comes nearest.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use toml::de::DeTable;

use super::settings::distinct;
use crate::arguments::options::{Value, Wrong, by_type};
use crate::arguments::{AgentOptions, CoordinatorOptions, EnforceOptions, Logging, Options, SiteOptions};
use crate::failure::{Excerpt, Failure};

/// The longest file that is read.
const LONGEST: u64 = 1 << 20;

/// What the file says, or flags do in its words: a field for each table.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) site: SiteOptions,
    pub(crate) coordinator: CoordinatorOptions,
    pub(crate) agent: AgentOptions,
    pub(crate) enforce: EnforceOptions,
    pub(crate) log: Logging,
}

impl File {
    /// Refuses what `cavalcade up` would not obey.
    ///
    /// # Errors
    /// If the file sets something that only a coordinator or an agent of its own obeys.
    pub(super) fn check_for_up(&self) -> Result<(), Failure> {
        let Self { coordinator, agent, .. } = self;
        let certificates = [&coordinator.access.certificates, &agent.access.certificates];
        let only_apart = [
            ("lease", coordinator.lease.is_some()),
            ("lease_certificates", coordinator.lease_certificates.is_some()),
            ("certificates", certificates.into_iter().any(Option::is_some)),
            ("coordinators", !agent.coordinators.is_empty()),
            ("policy of [agent]", agent.policy.is_some()),
            ("peer_port", agent.peer_port.is_some()),
        ];
        match only_apart.into_iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((key, _)) => {
                Err(Failure::input(format!("'cavalcade up' does not use the file's setting {key}"))
                    .help("remove it, or run 'cavalcade coordinator' and 'cavalcade agent' with this file"))
            }
        }
    }

    /// What the file says, or `flags` do instead.
    pub(super) fn under(self, flags: &Self) -> Self {
        let Self { site, coordinator, agent, enforce, log } = flags.clone();
        Self {
            site: site.over(self.site),
            coordinator: coordinator.over(self.coordinator),
            agent: agent.over(self.agent),
            enforce: enforce.over(self.enforce),
            log: log.over(self.log),
        }
    }

    fn of(text: &str) -> Result<Self, Wrong> {
        let mut file = Self::default();
        for (table, content) in DeTable::parse(text)?.into_inner() {
            match table.get_ref().as_ref() {
                "site" => {
                    fill(&mut file.site, &content)?;
                    let hosts = content.get_ref().get("hosts").map_or(0, |hosts| hosts.span().start);
                    distinct(&file.site.hosts).map_err(|message| Wrong { at: hosts, message })?;
                }
                "coordinator" => fill(&mut file.coordinator, &content)?,
                "agent" => fill(&mut file.agent, &content)?,
                "enforce" => fill(&mut file.enforce, &content)?,
                "log" => fill(&mut file.log, &content)?,
                other => return Err(unknown(other, table.span().start, &TABLES)),
            }
        }
        Ok(file)
    }
}

/// The tables of the file.
const TABLES: [&str; 5] = ["site", "coordinator", "agent", "enforce", "log"];

/// Sets what a table of the file says.
fn fill(options: &mut impl Options<Item = ()>, table: &Value<'_>) -> Result<(), Wrong> {
    let keys: Vec<&str> = options.keys("").into_iter().map(|(key, _)| key).collect();
    let wrong = || Wrong { at: table.span().start, message: "expected a table".to_owned() };
    let content = table.get_ref().as_table().ok_or_else(wrong)?;
    for (key, value) in content {
        match key.get_ref().as_ref() {
            known if keys.contains(&known) => options.set(known, value, &by_type)?,
            other => return Err(unknown(other, key.span().start, &keys)),
        }
    }
    Ok(())
}

/// As serde says it.
fn unknown(name: &str, at: usize, known: &[&str]) -> Wrong {
    Wrong { at, message: format!("unknown field `{name}`, expected one of `{}`", known.join("`, `")) }
}

/// Reads the file at `path`, and returns what it and flags say, and its text; without one, what
/// flags say.
///
/// # Errors
/// If it cannot be read, is not TOML, or has an unknown key or value.
pub(crate) fn read(path: Option<&Path>, flags: &File) -> Result<(File, String), Failure> {
    let Some(path) = path else { return Ok((flags.clone(), String::new())) };
    let text = std::fs::File::open(path).and_then(read_all);
    let text = text.map_err(|error| unreadable(path, &error))?;
    Ok((parse(path, &text)?.under(flags), text))
}

/// The text of the file at `path`, for a component that runs: what is no regular file would keep
/// its reader waiting, or never end.
///
/// # Errors
/// If it cannot be read, is no regular file, or is too long.
pub(super) fn text_of_regular(path: &Path) -> Result<String, Failure> {
    // A pipe without a writer would not open.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let text = opened.and_then(|file| match file.metadata()?.is_file() {
        true => read_all(file),
        false => Err(std::io::Error::other("it is no regular file")),
    });
    text.map_err(|error| unreadable(path, &error))
}

fn read_all(file: std::fs::File) -> std::io::Result<String> {
    let mut text = String::new();
    if file.take(LONGEST + 1).read_to_string(&mut text)? as u64 > LONGEST {
        return Err(std::io::Error::other(format!(
            "it is longer than {LONGEST} bytes, the most that is read"
        )));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file("read", path, error).help("docs/cavalcade.toml is an example of a configuration file")
}

/// Reads the text of the file at `path`.
///
/// # Errors
/// If it is not TOML, or has an unknown key or value.
pub(super) fn parse(path: &Path, text: &str) -> Result<File, Failure> {
    File::of(text).map_err(|wrong| refused(path, text, &wrong))
}

fn refused(path: &Path, text: &str, Wrong { at, message }: &Wrong) -> Failure {
    let failure = match nearest(message) {
        Some((unknown, Some(near))) => {
            Failure::input(format!("there is no setting '{unknown}'")).help(format!("did you mean '{near}'?"))
        }
        Some((unknown, None)) => {
            Failure::input(format!("there is no setting '{unknown}'")).help(message.to_owned())
        }
        None => Failure::input(message.to_owned())
            .help("docs/cavalcade.toml is an example of a configuration file"),
    };
    failure.at(Some(excerpt(path, text, *at)))
}

/// The unknown name in a message of the reader, and the expected one that comes nearest, if one is
/// near.
fn nearest(message: &str) -> Option<(&str, Option<&str>)> {
    if !message.starts_with("unknown ") {
        return None;
    }
    // Names stand between backticks: first the unknown one, then those that were expected.
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next()?;
    let near = names
        .map(|name| (strsim::damerau_levenshtein(unknown, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(unknown.len()) / 2)
        .min();
    Some((unknown, near.map(|(_, name)| name)))
}

/// The line of `text` in which byte `at` lies.
fn excerpt(path: &Path, text: &str, at: usize) -> Excerpt {
    let at = at.min(text.len());
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    Excerpt {
        name: path.display().to_string(),
        text: text[start..].lines().next().unwrap_or_default().to_owned(),
        line: 1 + text[..start].matches('\n').count(),
        column: 1 + at - start,
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_model::BitsPerSec;

    use super::*;
    use crate::arguments::{LogFormat, LogLevel};

    fn read_text(text: &str) -> Result<File, String> {
        parse(Path::new("site.toml"), text).map_err(|failure| crate::failure::shown(&failure, false))
    }

    #[test]
    fn the_example_is_read_with_what_it_leaves_out_and_has_usual_values_where_there_are_some() {
        let is_key = |text: &str| {
            let name = text.split_once(" = ").map_or("", |(name, _)| name);
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let whole = |line: &'static str| line.strip_prefix("# ").filter(|text| is_key(text)).unwrap_or(line);
        let example = include_str!("../../../../../docs/cavalcade.toml");
        let file = read_text(&example.lines().map(whole).collect::<Vec<_>>().join("\n")).unwrap();
        assert_eq!((file.site.hosts.len(), file.site.rate), (3, Some(BitsPerSec(10_000_000_000))));
        assert!(file.coordinator.access.certificates.is_some() && file.agent.access.certificates.is_some());
        let (said, usual) = (&file.enforce, EnforceOptions::default());
        assert_eq!((said.silence, said.idle), (Some(usual.silence()), Some(usual.idle())));
        assert_eq!((said.line_rate, said.marking), (Some(usual.line_rate()), Some(usual.marking())));
        assert_eq!(said.largest, Some(usual.largest()));
        assert_eq!((file.log.format, file.log.level), (Some(LogFormat::Json), Some(LogLevel::Info)));
    }

    #[test]
    fn a_setting_that_up_would_not_obey_is_refused_by_name() {
        for (text, key) in [
            ("[coordinator]\nlease = \"/run/lease\"\n", "lease"),
            ("[agent]\ncertificates = \"/etc/agent\"\n", "certificates"),
            ("[agent]\ncoordinators = [\"10.0.0.1:7336\"]\n", "coordinators"),
            ("[agent]\npolicy = \"dcas\"\n", "policy of [agent]"),
        ] {
            let refused = read_text(text).unwrap().check_for_up().unwrap_err();
            let refused = crate::failure::shown(&refused, false);
            assert!(refused.contains(key) && refused.contains("cavalcade coordinator"), "{text}: {refused}");
        }
        let obeyed = "[coordinator]\nmetrics = \"127.0.0.1:9337\"\n[agent]\nmetrics = \"127.0.0.1:9338\"\n";
        assert!(read_text(obeyed).unwrap().check_for_up().is_ok());
    }

    #[test]
    fn a_typo_is_named_with_its_line_and_what_comes_nearest() {
        let shown = read_text("[site]\nrate = \"1Gbps\"\n\n[coordinator]\npolcy = \"sebf\"\n").unwrap_err();
        for part in ["site.toml:5:1", "there is no setting 'polcy'", "did you mean 'policy'?"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        let shown = read_text("[cordinator]\n").unwrap_err();
        assert!(shown.contains("site.toml:1:2") && shown.contains("did you mean 'coordinator'?"), "{shown}");
        let shown = read_text("[log]\nformat = \"jsn\"\n").unwrap_err();
        assert!(shown.contains("site.toml:2:10") && shown.contains("'json'"), "{shown}");
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_with_its_place() {
        for (text, place) in [
            ("[site]\nrate = \"fast\"\n", "site.toml:2:8"),
            ("[site]\nhosts = [\"10.0.0.1\", \"ten\"]\n", "site.toml:2:22"),
            ("[site]\nhosts = [\"10.0.0.1\", \"10.0.0.2\", \"::ffff:10.0.0.1\"]\n", "site.toml:2:9"),
            ("[coordinator]\nperiod = \"1us\"\n", "site.toml:2:10"),
            ("[agent]\nport = -1\n", "site.toml:2:8"),
            ("[agent]\nmax_connections = 0\n", "site.toml:2:19"),
            ("[coordinator]\nmax_connections = 0\n", "site.toml:2:19"),
            ("[coordinator]\nmax_connections = -1\n", "expected a number from 1 to"),
            ("[coordinator]\nshadow = \"no\"\n", "site.toml:2:10"),
            ("[agent]\ncoordinators = [\"10.0.0.1:7336\", \"ten\"]\n", "site.toml:2:34"),
            ("[enforce]\ndemote = \"sebf\"\n", "site.toml:2:10"),
            ("[enforce]\nsocket = \"/run/cavalcade.sock\"\n", "site.toml:2:1"),
            ("log = \"info\"\n", "site.toml:1:7"),
            ("[enforce]\nsilence = \"1ms\"\n", "site.toml:2:11"),
            ("[enforce]\nidle = \"1us\"\n", "site.toml:2:8"),
            ("[agent]\nuser_budget = \"flws=9\"\n", "site.toml:2:15"),
            ("[agent]\nuser_budget = \"flows=0\"\n", "site.toml:2:15"),
            ("[agent\n", "site.toml:1:7"),
        ] {
            let shown = read_text(text).unwrap_err();
            assert!(shown.contains(place), "{place} for {text}: {shown}");
        }
    }

    #[test]
    fn a_default_that_the_help_states_in_words_of_its_own_is_in_effect() {
        use clap::CommandFactory;
        let whole = crate::arguments::Arguments::command();
        let stated = |command: &str, key: &str| {
            let mut flags = whole.find_subcommand(command).unwrap().get_arguments();
            let help = flags.find(|flag| flag.get_id() == key).unwrap().get_help().unwrap().to_string();
            help.split_once("[default: ").unwrap().1.trim_end_matches(']').to_owned()
        };
        let file = |table: &str, key: &str, command: &str| {
            read_text(&format!("[{table}]\n{key} = \"{}\"\n", stated(command, key))).unwrap()
        };
        let agent = file("agent", "user_budget", "agent").agent;
        assert_eq!(agent.clients.user_budget, Some(cavalcade_control::Budget::default()));
        let capacity = super::super::settings::capacity;
        let access = file("agent", "max_buffers", "agent").agent.access;
        assert_eq!(capacity(&access).bytes, capacity(&Default::default()).bytes);
        let enforce = file("enforce", "dscp", "enforce").enforce;
        assert_eq!(enforce.dscp, Some(Default::default()));
        assert_eq!(file("log", "format", "up").log.format, Some(LogFormat::default()));
        assert_eq!(file("log", "level", "up").log.level, Some(LogLevel::default()));
    }
}

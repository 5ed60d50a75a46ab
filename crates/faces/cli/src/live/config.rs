//! The configuration file: what flags say, in TOML, one file for all components of a site.
//!
//! `[site]` says what is the same everywhere, `[coordinator]`, `[agent]` and `[enforce]` what each
//! of the three needs, `[log]` what the first two say. Everything is optional: a flag wins over the
//! file, and the defaults come last.
//!
//! A typo is refused with its place and the name that comes nearest; the names come from the
//! reader's own message, so that there is no second list of them.

use std::io::Read;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cavalcade_control::Budget;
use cavalcade_model::{BitsPerSec, Bytes, Demotion, Nanos};
use cavalcade_protocol::Host;
use cavalcade_runtime::lease::LeasePlace;
use serde::{Deserialize, Deserializer, de};

use crate::arguments::{LogFormat, LogLevel, demotion};
use crate::failure::{Excerpt, Failure};

/// The longest file that is read.
const LONGEST: u64 = 1 << 20;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct File {
    pub(crate) site: SiteTable,
    pub(crate) coordinator: CoordinatorTable,
    pub(crate) agent: AgentTable,
    pub(crate) enforce: EnforceTable,
    pub(crate) log: LogTable,
}

impl File {
    /// Refuses what `cavalcade up` would not obey.
    ///
    /// # Errors
    /// If the file sets something that only a coordinator or an agent of its own obeys.
    pub(super) fn check_for_up(&self) -> Result<(), Failure> {
        let Self { coordinator, agent, .. } = self;
        let only_apart = [
            ("lease", coordinator.lease.is_some()),
            ("lease_certificates", coordinator.lease_certificates.is_some()),
            ("certificates", coordinator.certificates.is_some() || agent.certificates.is_some()),
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
}

/// `[site]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SiteTable {
    #[serde(deserialize_with = "hosts")]
    pub(crate) hosts: Vec<Host>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) rate: Option<BitsPerSec>,
}

/// `[coordinator]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CoordinatorTable {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) policy: Option<String>,
    #[serde(deserialize_with = "period")]
    pub(crate) period: Option<Nanos>,
    #[serde(deserialize_with = "period")]
    pub(crate) hold: Option<Nanos>,
    pub(crate) confirm: bool,
    pub(crate) by_class: bool,
    pub(crate) shadow: bool,
    #[serde(deserialize_with = "from_text")]
    pub(crate) lease: Option<LeasePlace>,
    pub(crate) lease_certificates: Option<PathBuf>,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) insecure: bool,
    pub(crate) administration: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    #[serde(deserialize_with = "at_least_one")]
    pub(crate) max_connections: Option<u32>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) max_buffers: Option<Bytes>,
}

/// `[agent]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentTable {
    pub(crate) port: Option<u32>,
    pub(crate) coordinators: Vec<SocketAddr>,
    pub(crate) policy: Option<String>,
    pub(crate) peer_port: Option<u16>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) by_class: bool,
    pub(crate) shadow: bool,
    /// True if flows to what is no host of the site are left alone.
    pub(crate) plain_outside: bool,
    #[serde(deserialize_with = "user_budget")]
    pub(crate) user_budget: Option<Budget>,
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) insecure: bool,
    pub(crate) administration: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
    #[serde(deserialize_with = "at_least_one")]
    pub(crate) max_connections: Option<u32>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) max_buffers: Option<Bytes>,
}

/// `[enforce]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EnforceTable {
    pub(crate) door: Option<PathBuf>,
    /// Rules as they stand in the file: users have names on the host alone that the rule is for.
    pub(crate) tag: Vec<String>,
    pub(crate) containers: Vec<PathBuf>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) dscp: Option<cavalcade_client::DscpMap>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) coflows_of_user: Option<usize>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) congestion: Option<cavalcade_enforce::Law>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) line_rate: Option<BitsPerSec>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) marking: Option<Bytes>,
    #[serde(deserialize_with = "from_text")]
    pub(crate) largest: Option<Bytes>,
    pub(crate) answer_marks: bool,
    /// The policy by whose rule the host sorts messages itself.
    pub(crate) demote: Option<String>,
    #[serde(deserialize_with = "silence")]
    pub(crate) silence: Option<Nanos>,
    #[serde(deserialize_with = "idle")]
    pub(crate) idle: Option<Nanos>,
    pub(crate) administration: Option<PathBuf>,
    pub(crate) metrics: Option<SocketAddr>,
}

impl EnforceTable {
    /// The rule by which the host sorts messages itself.
    ///
    /// # Errors
    /// If the policy is none, or has no such rule.
    pub(crate) fn demotion(&self) -> Result<Option<Demotion>, Failure> {
        let failed = |text: &str, reason| Failure::input(format!("[enforce] demote = \"{text}\": {reason}"));
        let read = |text: &String| demotion(text).map_err(|reason| failed(text, reason));
        self.demote.as_ref().map(read).transpose()
    }
}

/// `[log]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogTable {
    pub(crate) format: Option<LogFormat>,
    pub(crate) level: Option<LogLevel>,
}

fn from_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// A value that is written as text.
struct Text<T>(T);

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Parsed(PhantomData))
    }
}

/// Parses a text where it stands, so that an error in a list is placed at its element.
struct Parsed<T>(PhantomData<T>);

impl<T: FromStr<Err: std::fmt::Display>> de::Visitor<'_> for Parsed<T> {
    type Value = Text<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<T>, E> {
        text.parse().map(Text).map_err(E::custom)
    }
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Host>, D::Error> {
    let hosts = Vec::<Text<Host>>::deserialize(deserializer)?;
    let hosts: Vec<Host> = hosts.into_iter().map(|host| host.0).collect();
    super::settings::distinct(&hosts).map_err(de::Error::custom)?;
    Ok(hosts)
}

fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        0 => Err(de::Error::custom("0 is too few: expected 1 or more")),
        number => Ok(Some(number)),
    }
}

fn period<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::arguments::period(&text).map(Some).map_err(de::Error::custom)
}

fn silence<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::arguments::silence(&text).map(Some).map_err(de::Error::custom)
}

fn idle<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::arguments::idle(&text).map(Some).map_err(de::Error::custom)
}

fn user_budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Budget>, D::Error> {
    let text = String::deserialize(deserializer)?;
    crate::arguments::user_budget(&text).map(Some).map_err(de::Error::custom)
}

/// Reads the file at `path`, and returns its text too; without one everything is left open.
///
/// # Errors
/// If it cannot be read, is not TOML, or has an unknown key or value.
pub(crate) fn read(path: Option<&Path>) -> Result<(File, String), Failure> {
    let Some(path) = path else { return Ok((File::default(), String::new())) };
    let text = std::fs::File::open(path).and_then(read_all);
    let text = text.map_err(|error| unreadable(path, &error))?;
    let file = parse(path, &text)?;
    Ok((file, text))
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
    toml::from_str(text).map_err(|error| refused(path, text, &error))
}

fn refused(path: &Path, text: &str, error: &toml::de::Error) -> Failure {
    let message = error.message();
    let excerpt = error.span().map(|span| excerpt(path, text, span.start));
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
    failure.at(excerpt)
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
    use super::*;

    fn read_text(text: &str) -> Result<File, String> {
        let parsed = toml::from_str(text);
        parsed.map_err(|error| crate::failure::shown(&refused(Path::new("site.toml"), text, &error), false))
    }

    #[test]
    fn the_example_is_read_and_says_something_of_everything() {
        let file = read_text(include_str!("../../../../../docs/cavalcade.toml")).unwrap();
        assert_eq!((file.site.hosts.len(), file.site.rate), (3, Some(BitsPerSec(10_000_000_000))));
        assert_eq!(file.coordinator.period, Some(Nanos::from_millis(10)));
        assert!(file.coordinator.certificates.is_some() && file.agent.certificates.is_some());
        let usual = cavalcade_enforce::Limits::default();
        assert_eq!((file.enforce.silence, file.enforce.idle), (Some(usual.silence), Some(usual.idle)));
        assert_eq!((file.log.format, file.log.level), (Some(LogFormat::Json), Some(LogLevel::Info)));
    }

    #[test]
    fn what_the_example_leaves_out_can_be_read_as_well() {
        let is_key = |text: &str| {
            let name = text.split_once(" = ").map_or("", |(name, _)| name);
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let whole = |line: &str| match line.strip_prefix("# ").filter(|text| is_key(text)) {
            Some(left_out) => format!("{left_out}\n"),
            None => format!("{line}\n"),
        };
        let text: String = include_str!("../../../../../docs/cavalcade.toml").lines().map(whole).collect();
        let EnforceTable { congestion, line_rate, marking, largest, answer_marks, .. } =
            read_text(&text).unwrap().enforce;
        let law = congestion.unwrap();
        let usual = cavalcade_enforce::Control::new(law);
        assert_eq!(
            (line_rate, marking, largest, answer_marks),
            (Some(usual.line_rate), Some(usual.marking), Some(usual.largest), true)
        );
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
}

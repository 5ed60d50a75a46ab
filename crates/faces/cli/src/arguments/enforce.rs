//! The kernel path's part of the command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use cavalcade_client::DscpMap;
use cavalcade_enforce::{Amount, Control, Law, Limits, Request, Rule, Subject};
use cavalcade_model::{BitsPerSec, Bytes, Demotion, History, Nanos};
use cavalcade_protocol::Host;
use clap::{Args, ValueEnum};

use super::live::ConfigFile;
use super::options::{Options, Read, Value, Wrong, by, by_type, options, with_default};
use super::rate;

/// `cavalcade enforce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade enforce --socket /run/cavalcade.sock --tag /system.slice/backup.service=backup:background --tag port:5432=database"
)]
pub(crate) struct EnforceCommand {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    #[command(flatten)]
    pub(crate) own: EnforceOptions,
}

options! {
    /// `[enforce]`. The socket, the certificates and the hosts are in the file's other tables.
    EnforceOptions, flags socket group certificates hosts {
        /// Socket of the agent [default: $CAVALCADE_SOCKET, else cavalcade.sock in $XDG_RUNTIME_DIR
        /// or /run]
        socket "FILE": Option<PathBuf>,
        /// Socket for 'cavalcade run'
        door "FILE": Option<PathBuf> | DOOR,
        /// Control group (version 2) whose processes may be tagged [default: the whole host]
        group "DIR": Option<PathBuf>,
        /// Tag by rule: the processes of a control group (by its path), connections to or from a
        /// port (port:5432), the sockets of a user (user:postgres), or containers by label
        /// (label:app=web). The task lasts while any exist. Append ':background' to the name if no
        /// user waits for it. May be repeated; control groups win over users, and users over ports
        #[arg(value_parser = text_of_rule)]
        tag "WHAT=TASK": Vec<String>,
        /// Folder in which a container runtime keeps container metadata, by id; may be repeated
        /// [default: those of Docker, Podman and containerd]
        containers "DIR": Vec<PathBuf>,
        /// Maximum number of a user's coflows at a time
        coflows_of_user "NUMBER": Option<usize> | 256_usize,
        /// TCP congestion control for connections of coflows: dctcp, d2tcp, tafe or mcp, as the
        /// simulated transports of these names. Switches must mark packets, and the other host
        /// needs an enforcer with a congestion control as well
        congestion "NAME": Option<Law> = Law::from_str,
        /// Rate of this host's link, used by mcp
        line_rate "RATE": Option<BitsPerSec> = rate | Control::new(Law::Mcp).line_rate,
        /// Queue length at which switches begin to mark, used by mcp
        marking "BYTES": Option<Bytes> = Bytes::from_str | Control::new(Law::Mcp).marking,
        /// Size of the largest flow, used by tafe
        largest "BYTES": Option<Bytes> = Bytes::from_str | Control::new(Law::Tafe).largest,
        /// Give the congestion control also to accepted connections without a coflow if both ends
        /// agree on ECN. A server that is not tagged reports marks exactly only with it
        #[arg(long)]
        answer_marks: bool,
        /// Sort messages on this host by the bytes that they have sent, without a coordinator: the
        /// class of a connection's packets follows the rule of this policy, pias or karuna, as
        /// karuna:thresholds=100KB/1MB. Use it where the coordinator runs the same policy, or none
        /// runs
        demote "POLICY": Option<Demotion> = demotion,
        /// DSCP of each class of packets, the highest class first; classes beyond the list use its
        /// last value [default: 40,32,24,16,0,1]
        dscp "NUMBERS": Option<DscpMap> = DscpMap::from_str,
        /// Certificate folder of this host's agent. With it, enforcers on both hosts of a
        /// connection agree on its coflow, so that a server's answers are scheduled under its
        /// client's coflow
        certificates "DIR": Option<PathBuf>,
        /// Addresses of all hosts, as the agent has them, whose enforcers are told of connections
        #[arg(value_delimiter = ',')]
        hosts "ADDRESSES": Vec<Host> = Host::from_str,
        /// Address for reports from other enforcers; all use the same port
        listen "ADDRESS": Option<SocketAddr> | SocketAddr::from(([0, 0, 0, 0], 7339)),
        /// Time after which the kernel lifts all limits if this process shows no sign of life
        silence "TIME": Option<Nanos> = silence | Limits::default().silence,
        /// Idle time of a connection after which the next byte begins a new message
        idle "TIME": Option<Nanos> = idle | Limits::default().idle,
        /// Socket on this host for 'cavalcade ps' [default: beside --door]
        administration "FILE": Option<PathBuf>,
        /// Address of this host to serve /metrics at
        metrics "ADDRESS": Option<SocketAddr>,
    }
}

/// The socket of the host's enforcer.
const DOOR: &str = "/run/cavalcade-enforce.sock";

/// `cavalcade run`.
#[derive(Debug, Args)]
#[command(
    after_help = "It ends with the command's exit code, or with 127 where there is no such command and 126 where it cannot be run.\n\n\
                  Example:\n  cavalcade run --task backup --class background -- pg_basebackup -D /var/backups/now"
)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    pub(crate) what: What,
    /// Class of a new task
    #[arg(long, value_name = "CLASS", default_value = "online", conflicts_with = "coflow")]
    pub(crate) class: Class,
    /// Deadline of a new task, counted from now
    #[arg(long, value_name = "TIME", conflicts_with = "coflow")]
    pub(crate) deadline: Option<Nanos>,
    /// Bytes that the command will send to a peer, as 10.0.0.7:40MB, for policies that use sizes;
    /// may be repeated
    #[arg(long, value_name = "PEER:BYTES")]
    pub(crate) sends: Vec<Amount>,
    /// Socket of 'cavalcade enforce'
    #[arg(long, value_name = "FILE", default_value = DOOR)]
    pub(crate) door: PathBuf,
    /// Command and its arguments, after '--'
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// The coflow or task of a command's transfers.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct What {
    /// An existing coflow: its name or id as shown by 'cavalcade ps', or its key, task.stage.serial
    #[arg(long, value_name = "COFLOW")]
    pub(crate) coflow: Option<String>,
    /// A task of one coflow on this host: the first command with this name begins it, later ones
    /// join while it lasts
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,
}

/// A class of tasks: what waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// A user waits
    Online,
    /// No user waits
    Background,
}

/// Reads a rule, as `/system.slice/backup.service=backup:background`.
///
/// # Errors
/// If it is none, with what one looks like.
pub(crate) fn rule(text: &str) -> Result<Rule, String> {
    let wrong = || {
        "expected WHAT=TASK, as /system.slice/backup.service=backup, port:5432=database, user:postgres=database or \
         label:app=web=site"
            .to_owned()
    };
    let (what, task) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (task, class) = task.split_once(':').unwrap_or((task, "online"));
    if task.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let request: Request = format!("task={task} class={class}").parse()?;
    let subject = match what.split_once(':') {
        _ if what.starts_with('/') => Subject::Group(what.into()),
        Some(("port", port)) => match port.parse() {
            Ok(port @ 1..) => Subject::Port(port),
            _ => return Err(format!("'{port}': expected a port from 1 to 65535")),
        },
        Some(("user", user)) => Subject::User(user_number(user)?),
        Some(("label", label)) => {
            let (key, value) = label.split_once('=').ok_or_else(wrong)?;
            Subject::Label(key.to_owned(), value.to_owned())
        }
        _ => return Err(wrong()),
    };
    Ok(Rule { subject, request })
}

/// Checks a rule of the command line. One of the file is read on the host that it is for: users
/// have their names there alone.
fn text_of_rule(text: &str) -> Result<String, String> {
    rule(text).map(|_| text.to_owned())
}

/// Reads a policy by whose rule a host sorts messages itself.
///
/// # Errors
/// If it is no policy, or decides in another way.
fn demotion(text: &str) -> Result<Demotion, String> {
    let policy = cavalcade_policy::parse(text).map_err(|error| error.to_string())?;
    // There are no sizes of past flows: computed thresholds are the web search table's.
    policy.demotion(&History::default()).ok_or_else(|| {
        format!(
            "'{}' does not sort flows on hosts by what they have sent: expected pias or karuna",
            policy.name()
        )
    })
}

/// The number of a user, from it or from the user's name in /etc/passwd.
fn user_number(user: &str) -> Result<u32, String> {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        if fields.next() == Some(user) { fields.nth(1)?.parse().ok() } else { None }
    };
    user.parse().ok().or_else(|| known.lines().find_map(of_line)).ok_or_else(|| {
        format!(
            "there is no user '{user}' in /etc/passwd; one of another directory goes by number, as user:1000"
        )
    })
}

/// Reads a time without a sign of life.
///
/// # Errors
/// If it is none, or too short or long, with what may be said.
fn silence(text: &str) -> Result<Nanos, String> {
    within(text, Nanos::from_millis(500), Nanos::from_secs(60), "500ms to 60s")
}

/// Reads the idle time of a connection.
///
/// # Errors
/// As [`silence`].
fn idle(text: &str) -> Result<Nanos, String> {
    within(text, Nanos(10_000), Nanos::from_secs(60), "10us to 60s")
}

fn within(text: &str, least: Nanos, most: Nanos, range: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(time) if (least..=most).contains(&time) => Ok(time),
        Ok(_) => Err(format!("expected {range}")),
        Err(error) => Err(format!("{error}, as in 2s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_by_what_they_tag() {
        let subject = |text| rule(text).unwrap().subject;
        assert_eq!(subject("/a/b.service=x"), Subject::Group("/a/b.service".into()));
        assert_eq!(subject("port:5432=db"), Subject::Port(5432));
        assert_eq!(subject("user:root=admin"), Subject::User(0));
        assert_eq!(subject("user:1234=jobs:background"), Subject::User(1234));
        assert_eq!(subject("label:app=web=site"), Subject::Label("app".to_owned(), "web".to_owned()));
    }

    #[test]
    fn only_policies_that_hosts_follow_by_themselves_demote() {
        assert_eq!(demotion("pias:thresholds=1KB/2KB").unwrap().thresholds, [Bytes(1_000), Bytes(2_000)]);
        assert_eq!(demotion("karuna").unwrap().last(), 7);
        assert!(demotion("sebf").unwrap_err().contains("expected pias or karuna"));
        assert!(demotion("pia").unwrap_err().contains("pias"));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_an_example() {
        for wrong in ["", "etl", "a.service=x", "label:app=x", "port:5432", "/a=x y", "=x"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
        assert!(rule("port:0=x").unwrap_err().contains("65535"));
        assert!(rule("user:no-such-user=x").unwrap_err().contains("by number"));
        assert!(rule("/a=x:urgent").unwrap_err().contains("class=urgent"));
    }
}

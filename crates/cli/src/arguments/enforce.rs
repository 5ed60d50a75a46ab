//! The kernel path's part of the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use cavalcade_enforce::{Request, Rule};
use cavalcade_model::Nanos;
use clap::{Args, ValueEnum};

/// `cavalcade enforce`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade enforce --socket /run/cavalcade.sock --tag /system.slice/backup.service=backup:background"
)]
pub(crate) struct Enforce {
    /// Where the agent listens; else cavalcade.sock in $XDG_RUNTIME_DIR or /run
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Option<PathBuf>,
    /// Where 'cavalcade run' connects
    #[arg(long, value_name = "FILE", default_value = DOOR)]
    pub(crate) door: PathBuf,
    /// The control group of version 2 whose processes can be tagged; without it, all of the host
    #[arg(long, value_name = "DIR")]
    pub(crate) group: Option<PathBuf>,
    /// Tag all processes of a control group without being asked, as those of a service: they are a task while there are any
    /// (may be repeated; ':background' behind the name where no user waits)
    #[arg(long, value_name = "GROUP=TASK", value_parser = rule)]
    pub(crate) tag: Vec<Rule>,
    /// For how long the kernel keeps limits without a sign of life from this process
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = silence)]
    pub(crate) silence: Nanos,
    /// After how long without new data the next byte of a connection begins a message
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = idle)]
    pub(crate) idle: Nanos,
}

/// Where the host's enforcer listens.
const DOOR: &str = "/run/cavalcade-enforce.sock";

/// `cavalcade run`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  cavalcade run --task backup --class background -- pg_basebackup -D /var/backups/now"
)]
pub(crate) struct RunCommand {
    #[command(flatten)]
    pub(crate) what: What,
    /// Who waits for a new task
    #[arg(long, value_name = "CLASS", default_value = "online", conflicts_with = "coflow")]
    pub(crate) class: Class,
    /// How long from now a new task has time
    #[arg(long, value_name = "TIME", conflicts_with = "coflow")]
    pub(crate) deadline: Option<Nanos>,
    /// Where 'cavalcade enforce' listens
    #[arg(long, value_name = "FILE", default_value = DOOR)]
    pub(crate) door: PathBuf,
    /// The command and its arguments, behind '--'
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What a command's transfers belong to.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct What {
    /// A coflow that there is: its name or id as 'cavalcade ps' shows it, or its key, as task.stage.serial
    #[arg(long, value_name = "COFLOW")]
    pub(crate) coflow: Option<String>,
    /// A task of one coflow on this host: your first command with this name begins it, others join while it lasts
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,
}

/// Who waits for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// A user waits
    Online,
    /// No user waits
    Background,
}

/// Reads a rule, as `/system.slice/backup.service=backup:background`.
fn rule(text: &str) -> Result<Rule, String> {
    let wrong = || "expected GROUP=TASK, as /system.slice/backup.service=backup".to_owned();
    let (group, task) = text.rsplit_once('=').ok_or_else(wrong)?;
    let (task, class) = task.split_once(':').unwrap_or((task, "online"));
    if group.is_empty() || task.contains(char::is_whitespace) {
        return Err(wrong());
    }
    let request: Request = format!("task={task} class={class}").parse()?;
    Ok(Rule { group: group.into(), request })
}

fn silence(text: &str) -> Result<Nanos, String> {
    within(text, Nanos::from_millis(500), Nanos::from_secs(60), "500ms to 60s")
}

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

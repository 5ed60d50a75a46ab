//! What a trial of the plugin runs beside Spark: a coordinator, the agent of this host, and another
//! coflow.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use cavalcade_testing::{Lines, free_port};
use serde_json::Value;

use super::text;
use crate::steps::{Failure, Run};
use crate::workspace::Workspace;

/// How long anything that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(240);

/// Makes the command that runs a program, where the trial's processes are.
pub(super) type Commands<'a> = &'a dyn Fn(&Path) -> Command;

pub(super) fn name(coflow: &Value) -> &str {
    coflow["name"].as_str().unwrap_or_default()
}

pub(super) fn number(coflow: &Value, field: &str) -> u64 {
    coflow[field].as_u64().unwrap_or_default()
}

/// Waits until something holds.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    while !holds()? {
        if start.elapsed() > PATIENCE {
            return Err(Failure::new(format!("it never came that {what}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends a signal to a process.
pub(super) fn signal(signal: &str, process: &str) -> Result<(), Failure> {
    Run::new(Command::new("kill")).args(&[signal, process]).quietly()
}

/// A program that is told lines and answers with lines; it ends with this.
pub(super) struct Running {
    child: Child,
    lines: Lines<ChildStdout>,
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self, Failure> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| Failure::new("no output"))?;
        Ok(Self { child, lines: Lines::new(output) })
    }

    /// The number of its process.
    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn send(&mut self, line: &str) -> Result<(), Failure> {
        let input = self.child.stdin.as_mut().ok_or_else(|| Failure::new("its input has ended"))?;
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(Failure::from)
    }

    /// Returns what follows after `mark` in the first line that has it.
    pub(super) fn wait_for(&mut self, mark: &str) -> Result<String, Failure> {
        self.lines.after(mark).ok_or_else(|| Failure::new(format!("it ended without '{mark}'")))
    }

    /// The digest of the rows of the part that runs.
    pub(super) fn rows(&mut self) -> Result<String, Failure> {
        self.wait_for("rows ")
    }

    /// Runs a part, and returns the digest of its rows.
    pub(super) fn part(&mut self, name: &str) -> Result<String, Failure> {
        self.send(name)?;
        self.rows()
    }

    /// Ends its input and waits for its end.
    pub(super) fn ends(&mut self) -> Result<(), Failure> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("it ended with {status}"))) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A coordinator and the agent of this host, with their sockets in a folder of their own.
pub(super) struct Site<'a> {
    program: PathBuf,
    folder: PathBuf,
    commands: Commands<'a>,
    coordinator: Child,
    agent: RefCell<Child>,
}

impl<'a> Site<'a> {
    pub(super) fn start(program: &Path, commands: Commands<'a>) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("cavalcade-spark-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let at = format!("127.0.0.1:{}", free_port());
        let part = |words: &[&str], socket: &str| {
            let common =
                ["--hosts", "127.0.0.1,127.0.0.2", "--rate", "100Mbps", "--insecure", "--administration"];
            let mut part = commands(program);
            part.args(words).args(common).arg(folder.join(socket)).stderr(Stdio::null());
            part.spawn()
        };
        let coordinator =
            part(&["coordinator", "--listen", &at, "--policy", "fifo", "--hold", "3s"], "coordinator")?;
        let socket = text(&folder.join("agent.sock"));
        let agent =
            part(&["agent", "--port", "0", "--coordinator", &at, "--socket", &socket], "administration")?;
        let program = program.to_owned();
        Ok(Self { program, folder, commands, coordinator, agent: agent.into() })
    }

    /// What an application has to be told to be under it.
    pub(super) fn properties(&self, workspace: &Workspace) -> [String; 3] {
        [
            "spark.plugins=cavalcade.spark.CavalcadePlugin".to_owned(),
            format!("spark.jars={}", text(&workspace.root.join(super::JAR))),
            format!("spark.cavalcade.socket={}", text(&self.agent_socket())),
        ]
    }

    fn agent_socket(&self) -> PathBuf {
        self.folder.join("agent.sock")
    }

    /// What the coordinator lists.
    pub(super) fn coflows(&self, more: &str) -> Result<Vec<Value>, Failure> {
        let mut list = Command::new(&self.program);
        list.args(["ps", "--json", "--at"]).arg(self.folder.join("coordinator"));
        list.args((!more.is_empty()).then_some(more));
        let shown = Run::new(list).printed()?;
        let list: Value = serde_json::from_str(&shown).map_err(|error| Failure::new(error.to_string()))?;
        Ok(list["coflows"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until something holds of a coflow of a part's stages.
    pub(super) fn until_stage(
        &self,
        part: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<(), Failure> {
        let stage = format!("{part}/");
        let wait = until(what, || {
            Ok(self.coflows("")?.iter().any(|one| name(one).starts_with(&stage) && holds(one)))
        });
        wait.map_err(|failure| match (self.coflows(""), self.coflows("--history")) {
            (Ok(now), Ok(past)) => Failure::new(format!("{failure}:\n{now:#?}\n{past:#?}")),
            _ => failure,
        })
    }

    /// Has another coflow keep the port, before all that comes later.
    pub(super) fn hold(&self, workspace: &Workspace) -> Result<Running, Failure> {
        let mut holder = (self.commands)(Path::new("python3"));
        holder.arg(workspace.root.join("clients/spark/tests/holder.py")).arg(self.agent_socket());
        holder.env("PYTHONPATH", workspace.root.join("python")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut holder = Running::start(&mut holder)?;
        holder.wait_for("holds")?;
        until("the holder is listed", || Ok(self.coflows("")?.iter().any(|one| name(one) == "holder")))?;
        Ok(holder)
    }

    /// Sends a signal to the agent.
    pub(super) fn signal_agent(&self, name: &str) -> Result<(), Failure> {
        signal(name, &self.agent.borrow().id().to_string())
    }

    pub(super) fn kill_agent(&self) {
        let mut agent = self.agent.borrow_mut();
        let _ = agent.kill();
        let _ = agent.wait();
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        self.kill_agent();
        let _ = self.coordinator.kill();
        let _ = self.coordinator.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

//! Senders of the kernel path: at each host a process for each coflow, a plain TCP program that no library tells anything.
//!
//! What a process sends belongs to a coflow by its control group, so each coflow has a process of its own. To start one takes
//! milliseconds, and a coflow that has arrived would wait for them; so [`SPARE`] are started ahead, as a framework's executors
//! are. One that is given a coflow asks the enforcer to tag it, as `cavalcade run` does, and sends from then on. It is in a control
//! group of its own by then, because a process that is moved to another waits for the kernel: 5 to 13 ms on a busy machine, 96
//! where those of five hosts moved at once.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use cavalcade_enforce::{Group, Name, Request};
use cavalcade_model::TaskClass;

use crate::error::LabError;
use crate::host::{Host, spawn};
use crate::message::Start;
use crate::process::die_with_parent;

/// The number of processes that wait for a coflow.
const SPARE: usize = 4;

/// The kernel path of a host, as its application sees it.
#[derive(Clone, Debug)]
pub struct KernelPath {
    /// The socket at which the enforcer is asked.
    pub door: PathBuf,
    /// The control group below which it tags.
    pub group: PathBuf,
}

/// The processes of a host that send.
#[derive(Debug)]
pub(crate) struct Senders {
    address: IpAddr,
    kernel: KernelPath,
    spare: Vec<Process>,
    /// By the key of the coflow.
    busy: BTreeMap<String, Process>,
}

/// A process that sends, and its commands.
#[derive(Debug)]
struct Process {
    child: Child,
    commands: ChildStdin,
}

impl Senders {
    /// Starts those that wait. They die with the calling thread.
    pub(crate) fn new(address: IpAddr, kernel: KernelPath) -> Result<Self, LabError> {
        let mut senders = Self { address, kernel, spare: Vec::new(), busy: BTreeMap::new() };
        senders.refill()?;
        Ok(senders)
    }

    /// Has the process of the flow's coflow send it.
    pub(crate) fn send(&mut self, key: &str, start: &Start) -> Result<(), LabError> {
        let failed = || LabError::system("tell a sender what to send");
        if !self.busy.contains_key(key) {
            let mut process = match self.spare.pop() {
                Some(process) => process,
                None => self.process()?,
            };
            writeln!(process.commands, "{key}").map_err(failed())?;
            self.busy.insert(key.to_owned(), process);
        }
        if let Some(process) = self.busy.get_mut(key) {
            let line = serde_json::to_string(start).map_err(|error| failed()(error.into()))?;
            writeln!(process.commands, "{line}").map_err(failed())?;
        }
        self.refill()
    }

    /// Ends the process of a coflow that has no further flows.
    pub(crate) fn over(&mut self, key: &str) -> Result<(), LabError> {
        let Some(Process { mut child, commands }) = self.busy.remove(key) else { return Ok(()) };
        drop(commands);
        spawn(move || drop(child.wait())).map(drop)
    }

    fn refill(&mut self) -> Result<(), LabError> {
        while self.spare.len() < SPARE {
            let process = self.process()?;
            self.spare.push(process);
        }
        Ok(())
    }

    fn process(&self) -> Result<Process, LabError> {
        let failed = || LabError::system("start a sender");
        let mut command = Command::new(std::env::current_exe().map_err(failed())?);
        command.args(["lab-host", "--sender", "--address", &self.address.to_string()]);
        command.arg("--door").arg(&self.kernel.door).arg("--group").arg(&self.kernel.group);
        // What it says is heard as the host's.
        command.stdin(Stdio::piped());
        die_with_parent(&mut command);
        let mut child = command.spawn().map_err(failed())?;
        let commands = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe.into()).map_err(failed())?;
        Ok(Process { child, commands })
    }
}

/// Waits for a coflow's key, asks to be tagged with it, and sends the coflow's flows until there are no further
/// ones. The lab's hosts start processes that run this.
///
/// # Errors
/// If it gets no control group, is not tagged, or cannot read a command.
pub fn serve_sender<W: Write + Send + 'static>(
    address: IpAddr,
    kernel: &KernelPath,
    mut commands: impl BufRead,
    out: W,
) -> Result<(), LabError> {
    let failed = || LabError::system("read commands");
    // All of this takes a while, in which no coflow is to wait.
    let host = Arc::new(Host::of_sender(address, out));
    let process = std::process::id();
    let group = Group::make(&kernel.group, &format!("sender-{process}"));
    let group = group.and_then(|group| group.admit(process).map(|()| group));
    let group = group.map_err(|error| LabError::system("enter a control group")(io::Error::other(error)))?;
    // It goes with the host's, when this process is gone.
    std::mem::forget(group);
    let mut key = String::new();
    if commands.read_line(&mut key).map_err(failed())? == 0 {
        return Ok(());
    }
    let key = key.trim_end().parse().map_err(|()| failed()(io::ErrorKind::InvalidData.into()))?;
    let request = Request { name: Name::Coflow(key), class: TaskClass::Online, deadline: None };
    request.send(&kernel.door).map_err(LabError::system("have the enforcer tag a sender"))?;
    let mut sending = Vec::new();
    for line in commands.lines() {
        let start: Start =
            serde_json::from_str(&line.map_err(failed())?).map_err(|error| failed()(error.into()))?;
        let host = host.clone();
        sending.push(spawn(move || host.send(&start))?);
    }
    // A thread that has panicked has said so.
    sending.into_iter().for_each(|thread| drop(thread.join()));
    Ok(())
}

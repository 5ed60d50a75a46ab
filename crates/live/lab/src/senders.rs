//! Senders of the kernel path: at each host a process for each coflow, a plain TCP program that no
//! library tells anything.
//!
//! What a process sends belongs to a coflow by its control group, so each coflow has a process of
//! its own. To start one takes milliseconds, and a coflow that has arrived would wait for them; so
//! some are started ahead, as a framework's executors are, and the host says that it is ready when
//! they are: on a busy machine a process takes a second to come up. Further ones are started by a
//! thread of its own, or commands for other coflows would wait. One that is given a coflow asks the
//! enforcer to tag it, as `cavalcade run` does, and sends from then on. It is in a control group of
//! its own by then, because a process that is moved to another waits for the kernel: 5 to 13 ms on
//! a busy machine, 96 where those of five hosts moved at once.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use cavalcade_enforce::{Amount, Group, Name, Request};
use cavalcade_model::{Bytes, TaskClass};
use serde::Serialize;

use crate::error::LabError;
use crate::host::{Host, spawn};
use crate::message::{Part, Start};
use crate::process::die_with_parent;

/// The most processes that are started before the host is ready.
const MOST_AHEAD: usize = 16;

/// The kernel path of a host, as its application sees it.
#[derive(Clone, Debug)]
pub struct KernelPath {
    /// The socket at which the enforcer is asked.
    pub door: PathBuf,
    /// The control group below which it tags.
    pub group: PathBuf,
    /// The number of coflows that the host is going to send of.
    pub coflows: usize,
}

/// The processes of a host that send.
#[derive(Debug)]
pub(crate) struct Senders {
    /// Those that were started ahead.
    ahead: Vec<Process>,
    /// Further ones; dropping this ends the thread that starts them, and all of them with it.
    further: Receiver<Result<Process, LabError>>,
    /// By the key of the coflow.
    busy: BTreeMap<String, Process>,
}

/// A process that sends, and its commands.
#[derive(Debug)]
struct Process {
    child: Child,
    /// Its standard input, by which it also says that it is ready.
    commands: UnixStream,
}

impl Senders {
    /// Starts processes, and waits until those are ready that are needed first.
    pub(crate) fn new(address: IpAddr, kernel: KernelPath) -> Result<Self, LabError> {
        let (sender, further) = sync_channel(0);
        let ahead = kernel.coflows.min(MOST_AHEAD);
        spawn(move || while sender.send(process(address, &kernel)).is_ok() {})?;
        let mut senders = Self { ahead: Vec::new(), further, busy: BTreeMap::new() };
        for _ in 0..ahead {
            let process = senders.further()?;
            senders.ahead.push(process);
        }
        Ok(senders)
    }

    fn further(&self) -> Result<Process, LabError> {
        let gone = |_| LabError::system("start a sender")(io::ErrorKind::BrokenPipe.into());
        self.further.recv().map_err(gone)?
    }

    /// Gives a coflow a process, which asks to be tagged.
    pub(crate) fn begin(&mut self, part: &Part) -> Result<(), LabError> {
        if !self.busy.contains_key(&part.coflow) {
            let mut process = self.ahead.pop().map_or_else(|| self.further(), Ok)?;
            process.send(part)?;
            self.busy.insert(part.coflow.clone(), process);
        }
        Ok(())
    }

    /// Has the process of the flow's coflow send it.
    pub(crate) fn send(&mut self, key: &str, start: &Start) -> Result<(), LabError> {
        self.begin(&Part { coflow: key.to_owned(), sends: Vec::new() })?;
        self.busy.get_mut(key).map_or(Ok(()), |process| process.send(start))
    }

    /// Ends the process of a coflow that has no further flows.
    pub(crate) fn over(&mut self, key: &str) -> Result<(), LabError> {
        let Some(Process { mut child, commands }) = self.busy.remove(key) else { return Ok(()) };
        drop(commands);
        spawn(move || drop(child.wait())).map(drop)
    }
}

impl Process {
    fn send(&mut self, what: &impl Serialize) -> Result<(), LabError> {
        let failed = || LabError::system("tell a sender what to send");
        let line = serde_json::to_string(what).map_err(|error| failed()(error.into()))?;
        writeln!(self.commands, "{line}").map_err(failed())
    }
}

/// Starts one, and waits until it is ready. It dies with the calling thread.
fn process(address: IpAddr, kernel: &KernelPath) -> Result<Process, LabError> {
    let failed = || LabError::system("start a sender");
    let mut command = Command::new(std::env::current_exe().map_err(failed())?);
    command.args(["lab-host", "--sender", "--address", &address.to_string()]);
    command.arg("--door").arg(&kernel.door).arg("--group").arg(&kernel.group);
    // What it says is heard as the host's.
    let (mut commands, its) = UnixStream::pair().map_err(failed())?;
    command.stdin(OwnedFd::from(its));
    die_with_parent(&mut command);
    let child = command.spawn().map_err(failed())?;
    drop(command);
    commands.read_exact(&mut [0]).map_err(failed())?;
    Ok(Process { child, commands })
}

/// Waits for its part of a coflow, asks to be tagged with it, and sends the coflow's flows until
/// there are no further ones. The lab's hosts start processes that run this.
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
    // Standard input goes both ways: the host waits for this.
    rustix::io::write(io::stdin(), b"\n").map_err(|error| failed()(error.into()))?;
    let mut line = String::new();
    if commands.read_line(&mut line).map_err(failed())? == 0 {
        return Ok(());
    }
    let part: Part = serde_json::from_str(&line).map_err(|error| failed()(error.into()))?;
    let key = part.coflow.parse().map_err(|()| failed()(io::ErrorKind::InvalidData.into()))?;
    let sends = part.sends.into_iter().map(|(peer, bytes)| Amount { peer, bytes: Bytes(bytes) });
    let (name, sends) = (Name::Coflow(key), sends.collect());
    let request = Request { name, class: TaskClass::Online, deadline: None, sends };
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

//! The door at which commands ask to be tagged: a Unix socket that every user may connect to.
//!
//! The kernel says who asks. Only the asking process is tagged, so a user can tag no process but
//! their own. A request and its answer are a line each:
//! `task=etl class=background deadline=5000000000` or `coflow=17.0.17 sends=10.0.0.7:40000000`;
//! `ok 17.0.17` or `no REASON`. A client library stays, and hands over connections of its process
//! ([`Handover`]).

use std::fmt;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use cavalcade_model::{Bytes, Nanos, TaskClass};
use cavalcade_protocol::{CoflowKey, Handover, enforcer_beside};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::Error;

/// The longest request or answer.
const LONGEST: usize = 8 << 10;
/// The longest name of a task.
const LONGEST_NAME: usize = 64;
/// The longest that a command waits for the answer: the agent's lease, in which it has to give a
/// key, is shorter.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name of the coflow that a command asks to belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A coflow that was registered elsewhere, perhaps on another host.
    Coflow(CoflowKey),
    /// A task of one coflow: the first command of its user with this name registers it, others join
    /// while it lasts.
    Task(String),
}

/// The request of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The coflow.
    pub name: Name,
    /// The class of a new task.
    pub class: TaskClass,
    /// The time that a new task has from now.
    pub deadline: Option<Nanos>,
    /// The bytes that the command is going to send to peers, where that is known: policies that go
    /// by sizes are told.
    pub sends: Vec<Amount>,
}

/// The bytes that a command sends to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// The peer.
    pub peer: IpAddr,
    /// The bytes.
    pub bytes: Bytes,
}

impl FromStr for Amount {
    type Err = String;

    /// Reads `10.0.0.7:40MB`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}': expected PEER:BYTES, as 10.0.0.7:40MB");
        let (peer, bytes) = text.rsplit_once(':').ok_or_else(wrong)?;
        let peer = peer.trim_start_matches('[').trim_end_matches(']').parse().map_err(|_| wrong())?;
        Ok(Self { peer, bytes: bytes.parse().map_err(|_| wrong())? })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.peer, self.bytes.0)
    }
}

impl Request {
    /// Asks this enforcer to tag the calling process. Returns the key of its coflow.
    ///
    /// # Errors
    /// If there is no enforcer, it refuses, or it hangs; the reason is for people.
    pub fn send(&self, door: &Path) -> io::Result<CoflowKey> {
        self.send_within(door, PATIENCE)
    }

    fn send_within(&self, door: &Path, patience: Duration) -> io::Result<CoflowKey> {
        let late = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {patience:?}"))
            }
            _ => error,
        };
        let mut stream = connect(door, patience).map_err(late)?;
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(format!("{self}\n").as_bytes()).map_err(late)?;
        let mut answer = String::new();
        stream.take(LONGEST as u64).read_to_string(&mut answer).map_err(late)?;
        match answer.trim_end().split_once(' ') {
            Some(("ok", key)) => {
                key.parse().map_err(|()| io::Error::other("the enforcer's answer is no key"))
            }
            Some(("no", reason)) => Err(io::Error::other(reason.to_owned())),
            _ => Err(io::Error::other("the enforcer went away without an answer")),
        }
    }
}

/// Connects and writes within `patience`: where an enforcer hangs and others wait for it,
/// connecting waits without end.
fn connect(door: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    net::sockopt::set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    net::connect(&socket, &SocketAddrUnix::new(door)?)?;
    Ok(socket.into())
}

/// Tells whether a process is this user's.
pub(crate) fn is_of(process: u32, user: u32) -> bool {
    std::fs::metadata(format!("/proc/{process}")).is_ok_and(|process| process.uid() == user)
}

/// Returns whether a process listens there, without waiting for one that does not accept.
fn is_listening(path: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let connected = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|socket| net::connect(&socket, &SocketAddrUnix::new(path)?));
    !matches!(connected, Err(Errno::CONNREFUSED | Errno::NOENT))
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Name::Coflow(key) => write!(f, "coflow={key}")?,
            Name::Task(name) => write!(f, "task={name}")?,
        }
        if self.class == TaskClass::Background {
            f.write_str(" class=background")?;
        }
        if let Some(deadline) = self.deadline {
            write!(f, " deadline={}", deadline.0)?;
        }
        self.sends.iter().try_for_each(|amount| write!(f, " sends={amount}"))
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut name, mut class, mut deadline, mut sends) = (None, TaskClass::Online, None, Vec::new());
        for word in text.split_whitespace() {
            let wrong = || format!("'{word}' is none of coflow=KEY, task=NAME, class=, deadline=, sends=");
            if name.is_some() && (word.starts_with("coflow=") || word.starts_with("task=")) {
                return Err(format!("'{word}' is a second name: expected one coflow or one task"));
            }
            match word.split_once('=').ok_or_else(wrong)? {
                ("coflow", key) => name = Some(Name::Coflow(key.parse().map_err(|()| wrong())?)),
                ("task", "") => return Err("a task needs a name".to_owned()),
                ("task", task) if task.len() <= LONGEST_NAME => name = Some(Name::Task(task.to_owned())),
                ("task", _) => return Err(format!("a task's name has {LONGEST_NAME} bytes at most")),
                ("class", "background") => class = TaskClass::Background,
                ("class", "online") => class = TaskClass::Online,
                ("deadline", nanos) => deadline = Some(Nanos(nanos.parse().map_err(|_| wrong())?)),
                ("sends", amount) => sends.push(amount.parse()?),
                _ => return Err(wrong()),
            }
        }
        let name = name.ok_or("neither a coflow nor a task is named")?;
        Ok(Self { name, class, deadline, sends })
    }
}

/// What a process asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To be tagged itself.
    Process(Request),
    /// To hand connections over, now and later.
    Library,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        if line == Handover::HELLO { Ok(Self::Library) } else { line.parse().map(Self::Process) }
    }
}

/// A process that asks.
#[derive(Debug)]
pub(crate) struct Asker {
    pub(crate) stream: UnixStream,
    pub(crate) process: u32,
    pub(crate) user: u32,
    pub(crate) came_at: std::time::Instant,
    heard: Vec<u8>,
    /// Answers that are yet to be taken in.
    unsent: Vec<u8>,
}

impl Asker {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let who = rustix::net::sockopt::socket_peercred(&stream)?;
        let process = u32::try_from(who.pid.as_raw_nonzero().get()).map_err(io::Error::other)?;
        Ok(Self {
            stream,
            process,
            user: who.uid.as_raw(),
            came_at: std::time::Instant::now(),
            heard: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// Reads; the next line once it is whole and earlier answers are taken in: who does not listen
    /// is not read either. Fails where there will be none.
    pub(crate) fn read<T: FromStr<Err = String>>(&mut self) -> io::Result<Option<Result<T, String>>> {
        self.send_answers()?;
        if self.is_behind() {
            return Ok(None);
        }
        if let Some(asked) = self.next_line() {
            return Ok(Some(asked));
        }
        let mut chunk = [0; LONGEST];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.heard.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let asked = self.next_line();
        let is_too_long = asked.is_none() && self.heard.len() > LONGEST;
        if is_too_long { Err(io::ErrorKind::InvalidData.into()) } else { Ok(asked) }
    }

    fn next_line<T: FromStr<Err = String>>(&mut self) -> Option<Result<T, String>> {
        let end = self.heard.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.heard.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).parse())
    }

    /// Tells whether the process still is that user's: its number may have been given to another
    /// one.
    pub(crate) fn owns_process(&self) -> bool {
        is_of(self.process, self.user)
    }

    /// Answers, and lets it go. One who does not listen any more needs no answer.
    pub(crate) fn answer(mut self, answer: Result<CoflowKey, String>) {
        let _ = self.reply(answer);
    }

    fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// What reading it on waits for: that it takes answers in, or says more.
    pub(crate) fn waits_for(&self) -> PollFd<'_> {
        PollFd::new(&self.stream, if self.is_behind() { PollFlags::OUT } else { PollFlags::IN })
    }

    /// Answers, now or once there is room. Fails where it is gone.
    pub(crate) fn reply(&mut self, answer: Result<CoflowKey, String>) -> io::Result<()> {
        let line = match answer {
            Ok(key) => format!("ok {key}\n"),
            Err(reason) => format!("no {}\n", reason.replace('\n', " ")),
        };
        self.unsent.extend_from_slice(line.as_bytes());
        self.send_answers()
    }

    fn send_answers(&mut self) -> io::Result<()> {
        while self.is_behind() {
            match self.stream.write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The socket. Dropping it removes its file.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    agent: PathBuf,
}

impl Door {
    /// Listens at `path`, for commands and for clients of the agent at `agent`; a file that a
    /// killed enforcer has left there is replaced.
    pub(crate) fn open(path: &Path, agent: &Path) -> Result<Self, Error> {
        let is_stale = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_stale && is_listening(path) {
            return Err(Error::InUse(path.to_owned()));
        }
        if is_stale {
            std::fs::remove_file(path).map_err(Error::file("remove", path))?;
        }
        let listener = UnixListener::bind(path).map_err(Error::file("listen at", path))?;
        let path = &std::path::absolute(path).map_err(Error::file("find", path))?;
        let door = Self { listener, path: path.to_owned(), agent: agent.to_owned() };
        door.listener.set_nonblocking(true).map_err(Error::file("listen at", path))?;
        let everybody = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(path, everybody).map_err(Error::file("open to all users", path))?;
        Ok(door)
    }

    /// Links to the socket from beside that of the agent, where client libraries look, unless
    /// another enforcer is there. Where there is no agent yet or no right to, libraries carry
    /// orders out themselves.
    pub(crate) fn link_beside_agent(&self) {
        let beside = enforcer_beside(&self.agent);
        let target = std::fs::read_link(&beside);
        let is_trusted = |target: &Path| {
            let owner = std::fs::metadata(target).map(|found| found.uid());
            owner.is_ok_and(|owner| owner == 0 || owner == rustix::process::geteuid().as_raw())
        };
        let is_taken =
            target.is_ok_and(|target| target == self.path || is_trusted(&target) && is_listening(&target));
        if is_taken || !self.agent.exists() {
            return;
        }
        let _ = std::fs::remove_file(&beside);
        let _ = std::os::unix::fs::symlink(&self.path, &beside);
    }

    /// Accepts the next process that asks, if there is one. Fails where it cannot: there are no
    /// descriptors left, say.
    pub(crate) fn accept(&self) -> io::Result<Option<Asker>> {
        match self.listener.accept() {
            Ok((stream, _)) => Asker::new(stream).map(Some),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let beside = enforcer_beside(&self.agent);
        if std::fs::read_link(&beside).is_ok_and(|target| target == self.path) {
            let _ = std::fs::remove_file(&beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back_from_its_text() {
        let all = "task=etl class=background deadline=5000000000 sends=10.0.0.7:40000000 sends=2001:db8::7:1";
        for text in ["coflow=17.0.17", "task=etl", all] {
            let request: Request = text.parse().unwrap();
            assert_eq!(request.to_string(), text);
        }
    }

    #[test]
    fn an_enforcer_that_hangs_is_given_up_also_where_others_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let door = folder.path().join("door");
        let listener = UnixListener::bind(&door).unwrap();
        // Room for one that waits.
        net::listen(&listener, 0).unwrap();
        let request: Request = "task=etl".parse().unwrap();
        for _ in 0..3 {
            let error = request.send_within(&door, Duration::from_millis(20)).unwrap_err();
            assert_eq!(error.to_string(), "no answer within 20ms");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let refused = |text: &str| text.parse::<Request>().unwrap_err();
        assert!(refused("").contains("neither"));
        assert!(refused("coflow=17").contains("coflow=17"));
        assert!(refused("task=").contains("name"));
        assert!(refused(&format!("task={}", "x".repeat(65))).contains("64"));
        assert!(refused("class=urgent task=etl").contains("class=urgent"));
        assert!(refused("pid=1 task=etl").contains("pid=1"));
        assert!(refused("coflow=17.0.17 task=etl").contains("second"));
        assert!(refused("task=etl sends=40MB").contains("10.0.0.7:40MB"));
    }
}

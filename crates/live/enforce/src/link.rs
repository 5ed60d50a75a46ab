//! A connection to the agent under another user: coflows belong to users, whom the agent
//! authenticates by the kernel's word (`SO_PEERCRED`).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use cavalcade_model::{Instant, Nanos};
use cavalcade_protocol::{Client, Frames, frame};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Uid;
use rustix::thread::{capabilities, set_capabilities, set_keep_capabilities, set_thread_res_uid};

/// The longest that an agent may take to say welcome.
const WELCOME: Nanos = Nanos::from_secs(1);
/// The time between two attempts to reach an agent that is not there.
const RETRY: Nanos = Nanos::from_millis(500);
/// The most bytes that may wait for an agent that does not read; then it is taken to hang.
const LONGEST_QUEUE: usize = 1 << 20;

/// A client of the agent, with its connection where there is one.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) client: Client,
    agent: PathBuf,
    user: u32,
    stream: Option<UnixStream>,
    frames: Frames,
    unsent: Vec<u8>,
    tried_at: Option<Instant>,
    is_welcome: bool,
}

impl Link {
    /// A client called `name`, which connects to `agent` as `user` when it is told the time.
    pub(crate) fn new(agent: &Path, user: u32, name: u64) -> Self {
        let (client, agent) = (Client::new(name), agent.to_owned());
        let (stream, frames, unsent) = (None, Frames::default(), Vec::new());
        Self { client, agent, user, stream, frames, unsent, tried_at: None, is_welcome: false }
    }

    /// The connection, to wait for what comes.
    pub(crate) fn stream(&self) -> Option<&UnixStream> {
        self.stream.as_ref()
    }

    /// The agent has answered.
    pub(crate) fn welcome(&mut self) {
        self.is_welcome = true;
    }

    /// Connects, reads if readable, and writes pending messages, without blocking.
    pub(crate) fn turn(&mut self, now: Instant, is_readable: bool) {
        if self.stream.is_none() && self.tried_at.is_none_or(|at| now.since(at) >= RETRY) {
            self.tried_at = Some(now);
            self.connect();
        }
        let waits_in_vain = !self.is_welcome && self.tried_at.is_some_and(|at| now.since(at) >= WELCOME);
        let heard = if is_readable { self.read(now) } else { Ok(()) };
        let talked = heard.and_then(|()| {
            let is_silent = self.client.handle_timeout(now);
            self.write()?;
            if is_silent || waits_in_vain { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
        });
        if self.stream.is_some() && talked.is_err() {
            self.stream = None;
            self.client.handle_disconnected(now);
        }
    }

    fn connect(&mut self) {
        let Ok(stream) = connect_as(&self.agent, self.user) else { return };
        (self.frames, self.is_welcome) = (Frames::default(), false);
        self.unsent.clear();
        self.stream = Some(stream);
        self.client.handle_connected();
    }

    fn read(&mut self, now: Instant) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut chunk = [0; 16 << 10];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.frames.push(&chunk[..length]);
                    while let Some(message) = self.frames.pop().map_err(io::Error::other)? {
                        self.client.handle_message(now, message);
                    }
                    // A short read has emptied the socket: another would only say so.
                    if length < chunk.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        while let Some(message) = self.client.poll_message() {
            frame(&message, &mut self.unsent).expect("messages of a client are short");
        }
        while !self.unsent.is_empty() {
            match stream.write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if self.unsent.len() > LONGEST_QUEUE { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

/// Connects as `user`, whose rights the calling thread has for this only. It takes no time: a
/// listener whose queue is full refuses, and is asked again. A thread of its own would wait for its
/// turn on a busy machine, with the command that asks.
fn connect_as(agent: &Path, user: u32) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(agent)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    as_user(user, || connect(&socket, &address))??;
    Ok(socket.into())
}

/// Does something under the effective user `user`.
fn as_user<T>(user: u32, work: impl FnOnce() -> T) -> io::Result<T> {
    let own = rustix::process::geteuid();
    if own.as_raw() == user {
        return Ok(work());
    }
    let become_user = |user| set_thread_res_uid(None::<Uid>, user, None::<Uid>);
    let rights = capabilities(None)?;
    // Else the kernel takes all capabilities from a user who has been root and is not any more.
    if !own.is_root() {
        set_keep_capabilities(true)?;
    }
    let done = become_user(Uid::from_raw(user)).map(|()| {
        let done = work();
        become_user(own).expect("a thread may become who it was");
        set_capabilities(None, rights).expect("a thread may use what it has kept");
        done
    });
    let _ = set_keep_capabilities(false);
    Ok(done?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_sees_the_user_for_whom_the_connection_is_made() {
        if !rustix::process::geteuid().is_root() {
            return cavalcade_testing::skipped("root, to connect as another user");
        }
        let path = std::env::temp_dir().join(format!("cavalcade-link-{}.sock", std::process::id()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, everybody).unwrap();
        let _stream = connect_as(&path, 65_534).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let who = rustix::net::sockopt::socket_peercred(&accepted).unwrap();
        assert_eq!(who.uid.as_raw(), 65_534);
        assert!(rustix::process::geteuid().is_root());
        std::fs::remove_file(&path).unwrap();
    }
}

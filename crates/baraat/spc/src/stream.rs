//! A stream: bytes both ways, under a task-id.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::endpoint::{Endpoint, Entry, Key, Options, Owner, State, error_of};
use crate::readiness::Readiness;

/// A stream of bytes both ways, as `TcpStream` is. It can be read and written through shared
/// references, by one thread each.
///
/// Dropping it ends what was written and throws away what was not read; a peer that goes on sending
/// is told.
pub struct SpcStream {
    owner: Arc<Owner>,
    key: Key,
    task: u32,
    peer: SocketAddr,
    timeouts: Mutex<[Option<Duration>; 2]>,
    shown: OnceLock<Arc<OwnedFd>>,
}

impl std::fmt::Debug for SpcStream {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SpcStream").field("peer", &self.peer).field("task", &self.task).finish()
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

impl SpcStream {
    pub(crate) fn new(owner: Arc<Owner>, key: Key, task: u32, peer: SocketAddr) -> Self {
        Self { owner, key, task, peer, timeouts: Mutex::default(), shown: OnceLock::new() }
    }

    /// Opens a stream to the first of these addresses that answers, under a task, with an endpoint
    /// of its own. Who opens many has one [`Endpoint`] for them.
    ///
    /// # Errors
    /// If none answers.
    pub fn connect(address: impl ToSocketAddrs, task: u32) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for peer in address.to_socket_addrs()? {
            match Endpoint::towards(peer, Options::default())?.connect(peer, task) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Its task-id.
    pub fn task(&self) -> u32 {
        self.task
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// This end.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.owner.shared.socket.local_addr()
    }

    /// Lets no read wait for longer; `None` for ever. With a time of zero it fails with
    /// [`io::ErrorKind::WouldBlock`] where it would wait.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)[READ] = timeout;
    }

    /// Lets no write wait for longer; `None` for ever, zero as for reads.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)[WRITE] = timeout;
    }

    /// Ends what is written, what is read, or both. The peer reads to the end what was written
    /// before.
    ///
    /// # Errors
    /// If the endpoint has failed, or the stream is still being opened.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.with(|entry, now| {
            if self.opened(entry).is_none() {
                let text = format!("SPC stream to {}: it is still being opened", self.peer);
                return Err(io::Error::new(io::ErrorKind::NotConnected, text));
            }
            if matches!(how, Shutdown::Write | Shutdown::Both) {
                entry.connection.finish(now);
            }
            if matches!(how, Shutdown::Read | Shutdown::Both) {
                entry.connection.stop_reading();
            }
            Ok(())
        })?
    }

    /// Gives the stream up and tells the peer, whose calls fail then: what was written and not
    /// acknowledged may be lost.
    pub fn abort(&self) {
        // An endpoint that has failed has given up all of its streams.
        let _ = self.with(|entry, _| entry.connection.abort());
    }

    /// Waits until all that was written is acknowledged.
    ///
    /// # Errors
    /// If the stream fails before.
    pub fn wait_acknowledged(&self) -> io::Result<()> {
        self.wait(None, |entry, _| match entry.connection.ending() {
            _ if !entry.connection.is_sending() => Some(Ok(())),
            Some(ending) => Some(Err(error_of(ending, self.peer))),
            None => None,
        })
    }

    /// Returns whether it is open; false while it is being opened ([`Endpoint::begin_connect`]).
    ///
    /// # Errors
    /// If it has failed, or was closed.
    pub fn is_open(&self) -> io::Result<bool> {
        let mut state = self.owner.shared.lock();
        state.check()?;
        self.opened(entry(&mut state, self.key)).map_or(Ok(false), |opened| opened.map(|()| true))
    }

    /// Returns a descriptor to poll: it is readable while a read would not wait, and writable while
    /// a write would not. Do not read or write it. It closes with the stream.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        let mut state = self.owner.shared.lock();
        let failed = state.failed.is_some();
        let entry = entry(&mut state, self.key);
        let shown = Readiness::descriptor_in(&mut entry.readiness)?;
        entry.show(failed);
        Ok(self.shown.get_or_init(|| shown).as_fd())
    }

    /// How opening came to its end, once it has.
    pub(crate) fn opened(&self, entry: &Entry) -> Option<io::Result<()>> {
        match entry.connection.ending() {
            Some(ending) => Some(Err(error_of(ending, self.peer))),
            None => entry.connection.is_open().then_some(Ok(())),
        }
    }

    pub(crate) fn wait_until_open(&self, time: Option<Duration>) -> io::Result<()> {
        self.wait(time, |entry, _| self.opened(entry))
    }

    /// Changes the connection and has the thread look at it.
    fn with<T>(&self, change: impl FnOnce(&mut Entry, cavalcade_model::Instant) -> T) -> io::Result<T> {
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        state.check()?;
        let changed = change(entry(&mut state, self.key), shared.now());
        state.mark(self.key);
        shared.wake();
        Ok(changed)
    }

    /// Waits until `ready` says what comes of it.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut ready: impl FnMut(&mut Entry, cavalcade_model::Instant) -> Option<io::Result<T>>,
    ) -> io::Result<T> {
        let shared = &self.owner.shared;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = shared.lock();
        loop {
            if let Some(outcome) = ready(entry(&mut state, self.key), shared.now()) {
                state.mark(self.key);
                shared.wake();
                return outcome;
            }
            state.check()?;
            let changed = Arc::clone(&entry(&mut state, self.key).changed);
            state = match until {
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(self.late(timeout));
                    }
                    changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The error of a call whose time has passed, or that was given none.
    fn late(&self, time: Option<Duration>) -> io::Error {
        let kind = late(time);
        let text = match kind {
            io::ErrorKind::WouldBlock => "the call would wait",
            _ => "the time that was set for it has passed",
        };
        io::Error::new(kind, format!("SPC stream to {}: {text}", self.peer))
    }

    fn timeout(&self, of: usize) -> Option<Duration> {
        self.timeouts.lock().unwrap_or_else(PoisonError::into_inner)[of]
    }

    /// Reads what there is: `None` where there is nothing yet.
    pub(crate) fn try_read(&self, entry: &mut Entry, out: &mut [u8]) -> Option<io::Result<usize>> {
        let connection = &mut entry.connection;
        if out.is_empty() || connection.is_readable() || connection.is_at_end() {
            return Some(Ok(connection.read(out)));
        }
        connection.ending().map(|ending| Err(error_of(ending, self.peer)))
    }

    /// Writes what there is room for: `None` where there is none yet.
    pub(crate) fn try_write(
        &self,
        entry: &mut Entry,
        now: cavalcade_model::Instant,
        bytes: &[u8],
    ) -> Option<io::Result<usize>> {
        let connection = &mut entry.connection;
        if let Some(ending) = connection.ending() {
            return Some(Err(error_of(ending, self.peer)));
        }
        if connection.is_write_closed() {
            let text = format!("SPC stream to {}: what is written has been ended", self.peer);
            return Some(Err(io::Error::new(io::ErrorKind::BrokenPipe, text)));
        }
        let written = connection.write(now, bytes);
        (written > 0 || bytes.is_empty()).then_some(Ok(written))
    }

    /// Tries something once, or leaves `waker` to be woken.
    #[cfg(feature = "tokio")]
    pub(crate) fn attempt<T>(
        &self,
        waker: &std::task::Waker,
        writes: bool,
        attempt: impl FnOnce(&mut Entry, cavalcade_model::Instant) -> Option<io::Result<T>>,
    ) -> std::task::Poll<io::Result<T>> {
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        if let Some(outcome) = attempt(entry(&mut state, self.key), shared.now()) {
            state.mark(self.key);
            shared.wake();
            return std::task::Poll::Ready(outcome);
        }
        if let Err(error) = state.check() {
            return std::task::Poll::Ready(Err(error));
        }
        let entry = entry(&mut state, self.key);
        *(if writes { &mut entry.writer } else { &mut entry.reader }) = Some(waker.clone());
        std::task::Poll::Pending
    }
}

/// Returns the kind of error of a call that was given this time, and found nothing in it.
pub(crate) fn late(time: Option<Duration>) -> io::ErrorKind {
    if time == Some(Duration::ZERO) { io::ErrorKind::WouldBlock } else { io::ErrorKind::TimedOut }
}

/// A stream's connection: it stays as long as the stream has it.
fn entry(state: &mut State, key: Key) -> &mut Entry {
    state.entries.get_mut(&key).expect("a connection that a stream has is not removed")
}

impl Read for &SpcStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.wait(self.timeout(READ), |entry, _| self.try_read(entry, out))
    }
}

impl Write for &SpcStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(self.timeout(WRITE), |entry, now| self.try_write(entry, now, bytes))
    }

    /// Does nothing: no bytes are held back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SpcStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        (&*self).read(out)
    }
}

impl Write for SpcStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SpcStream {
    fn drop(&mut self) {
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        let now = shared.now();
        if let Some(entry) = state.entries.get_mut(&self.key) {
            entry.held = false;
            // The descriptor goes now; the connection may linger.
            entry.readiness = None;
            if entry.connection.is_open() {
                entry.connection.stop_reading();
                entry.connection.finish(now);
            } else {
                entry.connection.abort();
            }
        }
        state.mark(self.key);
        shared.wake();
    }
}

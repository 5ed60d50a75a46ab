//! The accepting end.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::endpoint::{Endpoint, Options, Owner, State};
use crate::readiness::Readiness;
use crate::stream::{SpcStream, late};

/// Accepts SPC streams, as `TcpListener` does TCP's. An accepted stream has the task-id of its
/// opener.
pub struct SpcListener {
    pub(crate) owner: Arc<Owner>,
    shown: OnceLock<Arc<OwnedFd>>,
}

impl std::fmt::Debug for SpcListener {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SpcListener").field("address", &self.local_addr()).finish()
    }
}

impl SpcListener {
    pub(crate) fn new(owner: Arc<Owner>) -> Self {
        Self { owner, shown: OnceLock::new() }
    }

    /// Listens at an address, with an endpoint of its own.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        Ok(Endpoint::bind(address, Options::default())?.listen())
    }

    /// Its address.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.owner.shared.socket.local_addr()
    }

    /// Waits for a stream.
    ///
    /// # Errors
    /// If the endpoint's socket has failed.
    pub fn accept(&self) -> io::Result<(SpcStream, SocketAddr)> {
        self.accept_within(None)
    }

    /// Takes a stream that waits to be accepted.
    pub(crate) fn take(&self, state: &mut State) -> Option<(SpcStream, SocketAddr)> {
        let taken = loop {
            let Some(key) = state.waiting.pop_front() else { break None };
            let Some(entry) = state.entries.get_mut(&key) else { continue };
            entry.held = true;
            let (peer, task) = (entry.peer, entry.connection.task());
            break Some((SpcStream::new(Arc::clone(&self.owner), key, task, peer), peer));
        };
        state.show_waiting();
        taken
    }

    /// Returns a descriptor to poll: it is readable while a stream waits to be accepted. Do not
    /// read it. It closes with the endpoint's last listener.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn readiness(&self) -> io::Result<BorrowedFd<'_>> {
        let mut state = self.owner.shared.lock();
        let shown = Readiness::descriptor_in(&mut state.listener_readiness)?;
        state.show_waiting();
        Ok(self.shown.get_or_init(|| shown).as_fd())
    }

    /// Waits for a stream, but no longer than a time; `None` for ever.
    ///
    /// # Errors
    /// If none has come by then ([`io::ErrorKind::TimedOut`]; [`io::ErrorKind::WouldBlock`] for a
    /// time of zero), or the endpoint's socket has failed.
    pub fn accept_within(&self, time: Option<Duration>) -> io::Result<(SpcStream, SocketAddr)> {
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let shared = &self.owner.shared;
        let mut state = shared.lock();
        loop {
            if let Some(accepted) = self.take(&mut state) {
                return Ok(accepted);
            }
            state.check()?;
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => shared.accepting.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    return Err(io::Error::new(late(time), "no stream has come in the time that was set"));
                }
                Some(left) => {
                    shared.accepting.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Drop for SpcListener {
    fn drop(&mut self) {
        let mut state = self.owner.shared.lock();
        state.listeners -= 1;
        if state.listeners > 0 {
            return;
        }
        state.listener_readiness = None;
        // They will not be accepted any more.
        while let Some(key) = state.waiting.pop_front() {
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.connection.abort();
            }
            state.mark(key);
        }
        self.owner.shared.wake();
    }
}

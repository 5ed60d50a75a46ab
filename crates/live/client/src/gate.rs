//! A writer waits here while its flow may not send: a descriptor that can be read once it may.
//!
//! A descriptor, since a writer waits for two things at once: for its flow's gate to open, and for
//! its connection to end. An event loop polls it like any other.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// The pause of a writer whose connection has notices to read, or whose gate has no descriptor.
const AGAIN: Duration = Duration::from_millis(100);

/// A gate. It is shown under the session's lock.
#[derive(Debug)]
pub(crate) struct Gate {
    descriptor: OwnedFd,
    may_send: AtomicBool,
}

impl Gate {
    pub(crate) fn new(may_send: bool) -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor = eventfd(u32::from(may_send), flags)?;
        Ok(Self { descriptor, may_send: AtomicBool::new(may_send) })
    }

    /// Makes it readable, or no longer so. Where another thread has read it there is nothing to
    /// read.
    pub(crate) fn show(&self, may_send: bool) {
        if self.may_send.swap(may_send, Ordering::Relaxed) == may_send {
            return;
        }
        let _ = if may_send {
            rustix::io::write(&self.descriptor, &1u64.to_ne_bytes())
        } else {
            rustix::io::read(&self.descriptor, &mut [0; 8])
        };
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Returns whether a connection has ended in both directions, or was reset: a write then returns
/// the error at once.
#[cfg(feature = "tokio")]
pub(crate) fn is_gone(socket: impl AsFd) -> bool {
    let mut asked = [PollFd::new(&socket, PollFlags::empty())];
    poll(&mut asked, Some(&Timespec::default())).is_ok_and(|_| asked[0].revents().contains(PollFlags::HUP))
}

/// Waits until a flow may send or its connection is gone, at most for so long. Returns whether it
/// is gone.
pub(crate) fn wait(gate: Option<&Gate>, socket: &TcpStream, longest: Option<Duration>) -> io::Result<bool> {
    let longest =
        if gate.is_none() { Some(longest.map_or(AGAIN, |longest| longest.min(AGAIN))) } else { longest };
    let mut asked = vec![PollFd::new(socket, PollFlags::empty())];
    asked.extend(gate.map(|gate| PollFd::new(gate, PollFlags::IN)));
    poll_for(&mut asked, longest)?;
    let events = asked[0].revents();
    if events.contains(PollFlags::HUP) {
        return Ok(true);
    }
    if events.contains(PollFlags::ERR) {
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // What the kernel has to say of packets that were sent, which the application reads or not.
        asked.remove(0);
        poll_for(&mut asked, Some(longest.map_or(AGAIN, |longest| longest.min(AGAIN))))?;
    }
    Ok(false)
}

fn poll_for(asked: &mut [PollFd<'_>], longest: Option<Duration>) -> io::Result<()> {
    let until = longest.and_then(|longest| Instant::now().checked_add(longest));
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ });
        match poll(asked, left.as_ref()) {
            Err(Errno::INTR) => {}
            other => return other.map(drop).map_err(Into::into),
        }
    }
}

/// Returns how long a write may wait on a socket: no time where it does not block, without limit
/// where no time-out is set.
pub(crate) fn patience_of(socket: &TcpStream) -> io::Result<Option<Duration>> {
    let flags = rustix::fs::fcntl_getfl(socket)?;
    if flags.contains(rustix::fs::OFlags::NONBLOCK) {
        Ok(Some(Duration::ZERO))
    } else {
        socket.write_timeout()
    }
}

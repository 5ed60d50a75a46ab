//! A connection that carries a flow, for programs on tokio.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use cavalcade_protocol::{CoflowKey, Directive};
use rustix::event::epoll;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;

use crate::gate;
use crate::kernel_path::{By, Carriage};
use crate::session::Shared;
use crate::stream::Ending;

/// Bytes taken at once. The kernel takes no more than may wait there unsent, so this is no measure
/// of how soon a gate that closes is seen.
const AT_ONCE: usize = 256 << 10;

/// A TCP connection of tokio whose writes are a flow of a coflow: a write is pending while the flow
/// may not send. Dropping it ends the flow and closes the connection.
///
/// Tasks that share it share it by a lock, as any writer of tokio, so what one `write_all` writes
/// is in one piece.
#[derive(Debug)]
pub struct AsyncCoflowStream {
    // The flow ends first.
    ending: Ending,
    socket: TcpStream,
    coflow: CoflowKey,
    /// Sees that the connection is gone while the flow waits.
    hangup: Option<AsyncFd<OwnedFd>>,
}

impl AsyncCoflowStream {
    pub(crate) fn new(
        socket: TcpStream,
        shared: Arc<Shared>,
        carriage: Arc<Carriage>,
        coflow: CoflowKey,
    ) -> Self {
        Self { ending: Ending { shared, carriage, stays: false }, socket, coflow, hangup: None }
    }

    /// Waits for the end of the connection, which an epoll without any interest reports: a
    /// readiness of tokio's cannot be waited for once it holds, and what has come to read is the
    /// application's.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.hangup.is_none() {
            self.hangup = hangup(&self.socket).ok();
        }
        // Without it only an open gate ends the wait.
        let Some(hangup) = &self.hangup else { return Poll::Pending };
        loop {
            match ready!(hangup.poll_read_ready(context)) {
                Ok(_) if gate::is_gone(&self.socket) => return Poll::Ready(()),
                Ok(mut other) => {
                    // Some notice that is for the application.
                    let mut events = [epoll::Event {
                        flags: epoll::EventFlags::empty(),
                        data: epoll::EventData::new_u64(0),
                    }; 1];
                    let _ =
                        epoll::wait(hangup.get_ref(), &mut events, Some(&rustix::event::Timespec::default()));
                    other.clear_ready();
                }
                Err(_) => return Poll::Pending,
            }
        }
    }

    /// Ends the flow and returns the connection, which is as it was before.
    pub fn into_socket(self) -> TcpStream {
        let Self { mut ending, socket, .. } = self;
        ending.stays = true;
        drop(ending);
        socket
    }

    /// The coflow that it belongs to.
    pub fn coflow(&self) -> CoflowKey {
        self.coflow
    }

    /// Returns how it is to be sent at present, as far as the library carries that out.
    pub fn directive(&self) -> Directive {
        self.ending.shared.directive(&self.ending.carriage)
    }

    /// Returns whether the kernel carries orders out for it: it was handed over to an enforcer.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.ending.carriage.by(), By::Kernel(_))
    }

    /// The connection, for reading and for its options.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Reports that there is nothing to send until the next write, so that others may use the
    /// flow's capacity.
    pub fn rest(&self) {
        self.ending.shared.rest(&self.ending.carriage);
    }
}

/// An epoll that has something to read once a connection has ended, or has a notice.
fn hangup(socket: &TcpStream) -> io::Result<AsyncFd<OwnedFd>> {
    let waits = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&waits, socket, epoll::EventData::new_u64(0), epoll::EventFlags::ET)?;
    #[expect(
        unsafe_code,
        reason = "AsyncFd is registered for chosen events by an unsafe call alone: the descriptor has to stay open"
    )]
    // SAFETY: an `OwnedFd` is one descriptor, which stays open until it is dropped.
    let registered = unsafe { AsyncFd::register_with_interest(waits, Interest::READABLE) };
    Ok(registered?)
}

impl AsyncWrite for AsyncCoflowStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.ending.shared.poll_gate(&self.ending.carriage, context).is_pending() {
            ready!(self.poll_gone(context));
        }
        self.hangup = None;
        let bytes = &bytes[..bytes.len().min(AT_ONCE)];
        let written = ready!(Pin::new(&mut self.socket).poll_write(context, bytes))?;
        self.ending.shared.note_sent(&self.ending.carriage, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

//! A connection that carries a flow.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cavalcade_protocol::{CoflowKey, Directive};

use crate::kernel_path::{By, Carriage};
use crate::session::Shared;

/// Bytes written at once, and as many may wait in the kernel: what a flow goes on sending after its
/// gate has closed. At first, and at least; doubled and halved so that writing a piece takes
/// between [`SHORT`] and [`LONG`].
pub(crate) const PIECE: usize = 16 << 10;
/// And at most: a fifth of a millisecond at 10 Gbps.
const LARGEST: usize = 256 << 10;
/// Shorter, and calls cost more than they are worth; longer, and a gate that closes is seen late
/// beside Δ.
const SHORT: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(2);

/// The end of a flow: when it is dropped.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) shared: Arc<Shared>,
    pub(crate) carriage: Arc<Carriage>,
    /// True where the connection goes on.
    pub(crate) stays: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.shared.close(&self.carriage, self.stays);
    }
}

/// A TCP connection whose writes are a flow of a coflow. Dropping it ends the flow and closes the
/// connection.
///
/// On a socket that does not block, a write fails with [`io::ErrorKind::WouldBlock`] while the flow
/// may not send, though the socket could be written: wait until [`CoflowStream::gate`] can be read,
/// and then for the socket.
#[derive(Debug)]
pub struct CoflowStream {
    // The flow ends first.
    ending: Ending,
    socket: TcpStream,
    coflow: CoflowKey,
    /// Bytes to write at once.
    piece: AtomicUsize,
    /// Held by the thread that writes.
    turn: Mutex<()>,
}

impl CoflowStream {
    pub(crate) fn new(
        socket: TcpStream,
        shared: Arc<Shared>,
        carriage: Arc<Carriage>,
        coflow: CoflowKey,
    ) -> Self {
        let ending = Ending { shared, carriage, stays: false };
        Self { ending, socket, coflow, piece: AtomicUsize::new(PIECE), turn: Mutex::new(()) }
    }

    /// Learns from a piece that took so long. Several threads may; it is no more than an estimate.
    fn learn(&self, piece: usize, took: Duration) {
        let better = match took {
            took if took < SHORT => (2 * piece).min(LARGEST),
            took if took > LONG => (piece / 2).max(PIECE),
            _ => piece,
        };
        if better != piece {
            self.piece.store(better, Ordering::Relaxed);
            self.ending.shared.limit_unsent(&self.ending.carriage, better);
        }
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

    /// The connection, for reading and for its options. A copy of it writes past the flow.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Ends the flow and returns the connection, which is as it was before.
    pub fn into_socket(self) -> TcpStream {
        let Self { mut ending, socket, .. } = self;
        ending.stays = true;
        drop(ending);
        socket
    }

    /// Returns a descriptor that can be read while the flow may send, for `poll`, `epoll` and event
    /// loops. Only poll it: reading it takes the notification from others. `None` in a forked
    /// child, where a stream is plain TCP.
    ///
    /// # Errors
    /// If there is no descriptor left for it.
    pub fn gate(&self) -> io::Result<Option<BorrowedFd<'_>>> {
        Ok(self.ending.shared.gate(&self.ending.carriage)?.map(AsFd::as_fd))
    }

    /// Reports that there is nothing to send until the next write, so that others may use the
    /// flow's capacity.
    pub fn rest(&self) {
        self.ending.shared.rest(&self.ending.carriage);
    }
}

impl CoflowStream {
    /// Writes some, for the thread that holds the lock.
    fn write_piece(&self, bytes: &[u8]) -> io::Result<usize> {
        let Ending { shared, carriage, .. } = &self.ending;
        if !matches!(carriage.by(), By::Library(_)) {
            // No more at once, because after that it may be the library's again.
            let written = (&self.socket).write(&bytes[..bytes.len().min(LARGEST)])?;
            shared.note_sent(carriage, written);
            return Ok(written);
        }
        let most = shared.wait_for_gate(carriage, &self.socket)?;
        let piece = self.piece.load(Ordering::Relaxed);
        let began = Instant::now();
        let written = (&self.socket).write(&bytes[..bytes.len().min(piece).min(most)])?;
        let in_a_crawl = most < usize::MAX;
        if written == piece || in_a_crawl {
            self.learn(piece, if in_a_crawl { Duration::MAX } else { began.elapsed() });
        }
        if let By::Library(flow) = carriage.by() {
            shared.sent(flow, written as u64, in_a_crawl);
        }
        Ok(written)
    }
}

impl Write for CoflowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&*self).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

/// Several threads may write to one stream, as with a [`TcpStream`]. What one call of `write_all`
/// writes is in one piece: others wait.
impl Write for &CoflowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.write_piece(bytes)
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match self.write_piece(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.socket).flush()
    }
}

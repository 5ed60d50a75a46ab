//! A connection that carries a flow.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cavalcade_protocol::{CoflowKey, Directive};

use crate::kernel_path::{By, Carriage};
use crate::session::Shared;

/// Bytes written at once, and as many may wait in the kernel: what a flow goes on sending after it was told to stop. At first,
/// and at least; doubled and halved so that writing a piece takes between [`SHORT`] and [`LONG`].
pub(crate) const PIECE: usize = 16 << 10;
/// And at most: a fifth of a millisecond at 10 Gbps.
const LARGEST: usize = 256 << 10;
/// Shorter, and calls cost more than they are worth; longer, and a gate that closes is seen late beside Δ.
const SHORT: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(2);

/// A TCP connection whose writes are a flow of a coflow. Dropping it ends the flow and closes the connection.
#[derive(Debug)]
pub struct CoflowStream {
    socket: TcpStream,
    shared: Arc<Shared>,
    carriage: Arc<Carriage>,
    coflow: CoflowKey,
    /// Bytes to write at once.
    piece: AtomicUsize,
}

impl CoflowStream {
    pub(crate) fn new(
        socket: TcpStream,
        shared: Arc<Shared>,
        carriage: Arc<Carriage>,
        coflow: CoflowKey,
    ) -> Self {
        Self { socket, shared, carriage, coflow, piece: AtomicUsize::new(PIECE) }
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
            // Without it the gate is only seen later.
            let _ = crate::options::limit_unsent(&self.socket, better);
        }
    }

    /// The coflow that it belongs to.
    pub fn coflow(&self) -> CoflowKey {
        self.coflow
    }

    /// Returns how it is to be sent at present, as far as the library carries that out.
    pub fn directive(&self) -> Directive {
        self.shared.directive(&self.carriage)
    }

    /// Tells whether the kernel carries orders out for it: it was handed over to an enforcer.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.carriage.by(), By::Kernel(_))
    }

    /// The connection, for reading and for its options.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Says that there is nothing to send until the next write, so that others may use what this flow does not.
    pub fn rest(&self) {
        self.shared.rest(&self.carriage);
    }
}

impl Write for CoflowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

/// Several threads may write to one stream, as with a [`TcpStream`].
impl Write for &CoflowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let By::Library(flow) = self.carriage.by() else {
            // No more at once, because after that it may be the library's again.
            let written = (&self.socket).write(&bytes[..bytes.len().min(LARGEST)])?;
            self.shared.sent_by_kernel(&self.carriage, written);
            return Ok(written);
        };
        let most = self.shared.wait_for_gate(flow);
        let piece = self.piece.load(Ordering::Relaxed);
        let began = Instant::now();
        let written = (&self.socket).write(&bytes[..bytes.len().min(piece).min(most)])?;
        let in_a_crawl = most < usize::MAX;
        if written == piece || in_a_crawl {
            self.learn(piece, if in_a_crawl { Duration::MAX } else { began.elapsed() });
        }
        self.shared.sent(flow, written as u64, in_a_crawl);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.socket).flush()
    }
}

impl Drop for CoflowStream {
    fn drop(&mut self) {
        self.shared.close(&self.carriage);
    }
}

//! A connection that carries a flow, for programs on tokio.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cavalcade_protocol::{CoflowKey, Directive};
use tokio::io::AsyncWrite;
use tokio::net::TcpStream;

use crate::kernel_path::{By, Carriage};
use crate::session::Shared;

/// Bytes taken at once. The kernel takes no more than may wait there unsent, so this is no measure of how soon a gate that closes
/// is seen.
const AT_ONCE: usize = 256 << 10;

/// A TCP connection of tokio whose writes are a flow of a coflow: a write is pending while the flow may not send. Dropping
/// it ends the flow and closes the connection.
#[derive(Debug)]
pub struct AsyncCoflowStream {
    socket: TcpStream,
    shared: Arc<Shared>,
    carriage: Arc<Carriage>,
    coflow: CoflowKey,
}

impl AsyncCoflowStream {
    pub(crate) fn new(
        socket: TcpStream,
        shared: Arc<Shared>,
        carriage: Arc<Carriage>,
        coflow: CoflowKey,
    ) -> Self {
        Self { socket, shared, carriage, coflow }
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
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// Says that there is nothing to send until the next write, so that others may use what this flow does not.
    pub fn rest(&self) {
        self.shared.rest(&self.carriage);
    }
}

impl AsyncWrite for AsyncCoflowStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let By::Library(flow) = self.carriage.by() else {
            let written = std::task::ready!(
                Pin::new(&mut self.socket).poll_write(context, &bytes[..bytes.len().min(AT_ONCE)])
            )?;
            self.shared.sent_by_kernel(&self.carriage, written);
            return Poll::Ready(Ok(written));
        };
        std::task::ready!(self.shared.poll_gate(flow, context));
        let written = std::task::ready!(
            Pin::new(&mut self.socket).poll_write(context, &bytes[..bytes.len().min(AT_ONCE)])
        )?;
        self.shared.sent(flow, written as u64, false);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl Drop for AsyncCoflowStream {
    fn drop(&mut self) {
        self.shared.close(&self.carriage);
    }
}

//! A connection that carries a flow.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;

use cavalcade_wire::{CoflowKey, Directive};

use crate::session::Shared;

/// Bytes written at once, so that a gate that closes is seen soon.
pub(crate) const PIECE: usize = 256 << 10;

/// A TCP connection whose writes are a flow of a coflow. Dropping it ends the flow and closes the connection.
#[derive(Debug)]
pub struct CoflowStream {
    socket: TcpStream,
    shared: Arc<Shared>,
    flow: u32,
    coflow: CoflowKey,
}

impl CoflowStream {
    pub(crate) fn new(socket: TcpStream, shared: Arc<Shared>, flow: u32, coflow: CoflowKey) -> Self {
        Self { socket, shared, flow, coflow }
    }

    /// The coflow that it belongs to.
    pub fn coflow(&self) -> CoflowKey {
        self.coflow
    }

    /// How it is to be sent at present.
    pub fn directive(&self) -> Directive {
        self.shared.directive(self.flow)
    }

    /// The connection, for reading and for its options.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Says that there is nothing to send until the next write, so that others may use what this flow does not.
    pub fn rest(&self) {
        self.shared.rest(self.flow);
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

/// As with a [`TcpStream`]: several threads may write to one stream.
impl Write for &CoflowStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.wait_for_gate(self.flow);
        let written = (&self.socket).write(&bytes[..bytes.len().min(PIECE)])?;
        self.shared.sent(self.flow, written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&self.socket).flush()
    }
}

impl Drop for CoflowStream {
    fn drop(&mut self) {
        self.shared.close(self.flow);
    }
}

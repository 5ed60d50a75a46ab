//! A sidecar for programs that speak TCP: connections on one side, SPC streams on the other, as service meshes do it.
//!
//! The proxy beside a client accepts TCP and carries each connection as one SPC stream under a task-id of its own; the one
//! beside the server turns streams into TCP connections again. Bytes, ends and half-closes pass in both directions; a
//! side that fails takes the other one with it.
//!
//! # What is a task here
//! One connection is one task: right for a client that connects for each request, and for one whose connections are used in
//! turn. A connection that carries requests for ever keeps its first id, and so goes ahead of all that came later.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::endpoint::Endpoint;
use crate::listener::SpcListener;
use crate::stream::SpcStream;
use crate::tasks::TaskCounter;

/// Bytes that are handed over at once.
const PIECE: usize = 64 * 1_024;

/// Accepts TCP for ever and carries each connection to `peer`, through `endpoint`, under the next id of `tasks`. `complain` is told
/// of connections that cannot be carried.
///
/// # Errors
/// If no more connections can be accepted.
pub fn carry_tcp(
    listener: &TcpListener,
    endpoint: &Endpoint,
    peer: SocketAddr,
    tasks: &TaskCounter,
    complain: impl Fn(&io::Error) + Send + Sync + 'static,
) -> io::Result<()> {
    let complain = Arc::new(complain);
    loop {
        let (tcp, _) = listener.accept()?;
        let task = tasks.next_id()?;
        let (endpoint, complain) = (endpoint.clone(), Arc::clone(&complain));
        thread::spawn(move || {
            let carried = endpoint.connect(peer, task).and_then(|stream| join(stream, tcp));
            carried.unwrap_or_else(|error| complain(&error));
        });
    }
}

/// Accepts SPC for ever and hands each stream over to the TCP server `peer`. `complain` is told of streams that cannot be handed
/// over.
///
/// # Errors
/// If no more streams can be accepted.
pub fn carry_spc(
    listener: &SpcListener,
    peer: SocketAddr,
    complain: impl Fn(&io::Error) + Send + Sync + 'static,
) -> io::Result<()> {
    let complain = Arc::new(complain);
    loop {
        let (stream, _) = listener.accept()?;
        let complain = Arc::clone(&complain);
        thread::spawn(move || {
            let carried = TcpStream::connect(peer).and_then(|tcp| join(stream, tcp));
            carried.unwrap_or_else(|error| complain(&error));
        });
    }
}

/// Hands bytes over in both directions until both have ended, or one has failed.
fn join(stream: SpcStream, tcp: TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let stream = &stream;
    let tcp = &tcp;
    thread::scope(|scope| {
        let back = scope.spawn(move || {
            let outcome = copy(stream, tcp);
            // Without its other direction a connection is of no use.
            let how = if outcome.is_ok() { Shutdown::Write } else { Shutdown::Both };
            tcp.shutdown(how).and(outcome)
        });
        let there = copy(tcp, stream);
        let how = if there.is_ok() { Shutdown::Write } else { Shutdown::Both };
        let ended = stream.shutdown(how);
        let back =
            back.join().unwrap_or_else(|_| Err(io::Error::other("the thread of one direction failed")));
        there.and(ended).and(back)
    })
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

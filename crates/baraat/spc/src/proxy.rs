//! A sidecar for programs that speak TCP: connections on one side, SPC streams on the other, as
//! service meshes do it.
//!
//! The proxy beside a client accepts TCP and carries each connection as one SPC stream under a
//! task-id of its own; the one beside the server turns streams into TCP connections again. Bytes,
//! ends and half-closes pass in both directions; a side that fails takes the other one with it by a
//! reset: an end would say that all has arrived.
//!
//! Where no proxy is at the other end, SPC alone would find out by its patience, as it takes no
//! ICMP message's word. A datagram of a socket that has this peer alone asks at the same time:
//! where the kernel says that nothing listens at the port, the client is reset at once.
//!
//! # What is a task here
//! By default a connection ([`TaskRule::Connection`]): right for a client that connects for each
//! request. A connection that carries requests for ever would keep its first id, and so go ahead of
//! all that came later; for these each burst, or each opaque of memcached's meta commands, is a
//! task (`split`). A task is an SPC stream, so the server sees a new connection for each: what it
//! keeps for a connection (a login, a transaction) is not there in the next task. Answers reach the
//! client in the order of its requests.

mod split;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::endpoint::Endpoint;
use crate::listener::SpcListener;
use crate::stream::SpcStream;
use crate::tasks::IdSource;
use split::{Begins, Commands, Splitter};

/// Bytes that are handed over at once.
const PIECE: usize = 64 * 1_024;

/// The longest time for a stream to open. A round trip takes some milliseconds at most.
const OPENING: Duration = Duration::from_secs(3);
/// The pause between two looks at what the kernel says of the peer meanwhile.
const LOOK: Duration = Duration::from_millis(10);

/// A rule by which a proxy cuts traffic into tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskRule {
    /// Each connection, under an id of its own.
    #[default]
    Connection,
    /// One task for all that comes by the port.
    Port,
    /// Each burst of requests: what a client says before it hears an answer.
    Burst,
    /// Requests of memcached's meta commands with one opaque, which is the id; others as part of
    /// the task before them.
    Opaque,
}

/// Accepts TCP for ever and carries connections to `peer`, through `endpoint`, under ids of `tasks`
/// or of the client as the rule says. `complain` is told of connections that cannot be carried.
///
/// # Errors
/// If `listener` accepts none, or `tasks` has no id for the port. That one could not be accepted is
/// no error: `complain` is told.
pub fn carry_tcp(
    listener: &TcpListener,
    endpoint: &Endpoint,
    peer: SocketAddr,
    rule: TaskRule,
    tasks: impl IdSource + 'static,
    complain: impl Fn(&io::Error) + Send + Sync + 'static,
) -> io::Result<()> {
    let of_port = if rule == TaskRule::Port { Some(tasks.next_id()?) } else { None };
    let shared = Arc::new((tasks, complain));
    loop {
        let tcp = match listener.accept() {
            Ok((tcp, _)) => Arc::new(tcp),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Err(error),
            // It was gone at once, or there are no descriptors left: others may still come.
            Err(error) => {
                shared.1(&error);
                thread::sleep(LOOK);
                continue;
            }
        };
        let (endpoint, for_thread, carried) = (endpoint.clone(), Arc::clone(&shared), Arc::clone(&tcp));
        let spawned = thread::Builder::new().spawn(move || {
            let ((tasks, complain), tcp) = (&*for_thread, &*carried);
            let open = |begins: Begins| {
                let id = match (begins, of_port) {
                    (Begins::Named(id), _) | (Begins::Next, Some(id)) => id,
                    (Begins::Next, None) => tasks.next_id()?,
                };
                connect(&endpoint, peer, id)
            };
            carry(tcp, rule, open).unwrap_or_else(|error| {
                complain(&error);
                reset(tcp);
            });
        });
        if let Err(error) = spawned {
            shared.1(&error);
            reset(&tcp);
        }
    }
}

/// Opens a stream to the other proxy, or finds out that there is none.
fn connect(endpoint: &Endpoint, peer: SocketAddr, id: u32) -> io::Result<SpcStream> {
    let asked = ask_for(peer);
    let stream = endpoint.begin_connect(peer, id)?;
    let until = Instant::now() + OPENING;
    loop {
        match stream.wait_until_open(Some(LOOK)) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut && Instant::now() < until => {}
            outcome => return outcome.map(|()| stream),
        }
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if asked.as_ref().is_ok_and(|asked| asked.recv(&mut [0]).is_err_and(is_refused)) {
            let text = format!("nobody is at {peer}: start the proxy beside the server, with --from-spc");
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, text));
        }
    }
}

/// A socket that hears of errors of this peer alone, and has sent it a datagram, which is no frame.
fn ask_for(peer: SocketAddr) -> io::Result<UdpSocket> {
    let asking = match peer {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    asking.set_nonblocking(true)?;
    asking.connect(peer)?;
    asking.send(&[])?;
    Ok(asking)
}

/// Ends a connection by a reset, also where threads wait for it.
fn reset(tcp: &TcpStream) {
    let _ = sockopt::set_socket_linger(tcp, Some(Duration::ZERO));
    if rustix::net::connect_unspec(tcp).is_err() {
        let _ = tcp.shutdown(Shutdown::Both);
    }
}

/// A stream of a client's connection.
struct Part {
    stream: SpcStream,
    /// True once another task follows: its end is then not the connection's.
    followed: AtomicBool,
}

/// Carries one client's connection as the streams of its tasks.
fn carry(tcp: &TcpStream, rule: TaskRule, open: impl Fn(Begins) -> io::Result<SpcStream>) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let (parts, to_answer) = channel();
    // The first bytes of a client begin a task, as if it had been answered.
    let answered = AtomicBool::new(true);
    let answered = &answered;
    thread::scope(|scope| {
        let back = spawn(scope, move || finish(tcp, answer(&to_answer, tcp, answered)))?;
        let there = ask(tcp, rule, &open, &parts, answered);
        if there.is_err() {
            // The client is gone or cannot be served: before the thread of the answers finds that
            // none follow and ends it in order.
            reset(tcp);
        }
        drop(parts);
        let back = back.join().unwrap_or_else(|_| Err(failed()));
        there.and(back)
    })
}

/// Has a thread of its own do the work of one direction; fails where the system gives none.
fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> io::Result<()> + Send + 'scope,
) -> io::Result<thread::ScopedJoinHandle<'scope, io::Result<()>>> {
    thread::Builder::new().spawn_scoped(scope, work)
}

/// Ends what a client or server hears; where its other direction has failed a connection is of no
/// use.
fn finish(tcp: &TcpStream, outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Ok(()) => tcp.shutdown(Shutdown::Write),
        Err(error) => {
            reset(tcp);
            Err(error)
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("the thread of one direction failed")
}

/// Hands over what the client says, each task in a stream of its own.
fn ask(
    mut tcp: &TcpStream,
    rule: TaskRule,
    open: &impl Fn(Begins) -> io::Result<SpcStream>,
    parts: &Sender<Arc<Part>>,
    answered: &AtomicBool,
) -> io::Result<()> {
    let mut splitter = match rule {
        TaskRule::Connection | TaskRule::Port => Splitter::Whole,
        TaskRule::Burst => Splitter::Burst,
        TaskRule::Opaque => Splitter::Opaque(Commands::default()),
    };
    let begin = |begins: Begins, before: Option<Arc<Part>>| -> io::Result<Arc<Part>> {
        let part = Arc::new(Part { stream: open(begins)?, followed: AtomicBool::new(false) });
        if let Some(before) = before {
            before.followed.store(true, Ordering::Release);
            before.stream.shutdown(Shutdown::Write)?;
        }
        // Who answers has gone where the client has: then the next write fails.
        let _ = parts.send(Arc::clone(&part));
        Ok(part)
    };
    // A server may speak first; so one connection is one stream from its begin.
    let mut current = match splitter {
        Splitter::Whole => Some(begin(Begins::Next, None)?),
        Splitter::Burst | Splitter::Opaque(_) => None,
    };
    let mut piece = vec![0; PIECE];
    let ended = loop {
        let runs = match read(&mut tcp, &mut piece) {
            Ok(0) => break Ok(()),
            Ok(count) => splitter.take(&piece[..count], answered.swap(false, Ordering::AcqRel)),
            Err(error) => break Err(error),
        };
        for (begins, bytes) in runs {
            let part = match (begins, current.take()) {
                (None, Some(part)) => part,
                (begins, before) => begin(begins.unwrap_or(Begins::Next), before)?,
            };
            (&part.stream).write_all(&bytes)?;
            current = Some(part);
        }
    };
    let kept = splitter.finish();
    if current.is_none() && !kept.is_empty() {
        current = Some(begin(Begins::Next, None)?);
    }
    let Some(part) = current else { return ended };
    if ended.is_err() {
        part.stream.abort();
        return ended;
    }
    (&part.stream).write_all(&kept)?;
    part.stream.shutdown(Shutdown::Write)
}

/// Hands over what is answered, task by task.
fn answer(parts: &Receiver<Arc<Part>>, tcp: &TcpStream, answered: &AtomicBool) -> io::Result<()> {
    for part in parts {
        copy(&part.stream, Telling { tcp, answered })?;
        if !part.followed.load(Ordering::Acquire) {
            // The server has ended the connection, or the client has and this was the last answer.
            return Ok(());
        }
    }
    Ok(())
}

/// The client, with a note of each answer.
struct Telling<'a> {
    tcp: &'a TcpStream,
    answered: &'a AtomicBool,
}

impl Write for Telling<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Before the client can react to it.
        self.answered.store(true, Ordering::Release);
        let mut tcp = self.tcp;
        tcp.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Accepts SPC for ever and hands each stream over to the TCP server `peer`. `complain` is told of
/// streams that cannot be handed over.
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
        let stream = Arc::new(listener.accept()?.0);
        let (told, joined) = (Arc::clone(&complain), Arc::clone(&stream));
        let spawned = thread::Builder::new().spawn(move || {
            let carried = TcpStream::connect(peer).and_then(|tcp| join(&joined, &tcp));
            carried.unwrap_or_else(|error| {
                joined.abort();
                told(&error);
            });
        });
        if let Err(error) = spawned {
            stream.abort();
            complain(&error);
        }
    }
}

/// Hands bytes over in both directions until both have ended, or one has failed.
fn join(stream: &SpcStream, tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    thread::scope(|scope| {
        let back = spawn(scope, move || finish(tcp, copy(stream, tcp)))?;
        let there = copy(tcp, stream);
        let ended = match there {
            Ok(()) => stream.shutdown(Shutdown::Write),
            Err(_) => {
                stream.abort();
                Ok(())
            }
        };
        let back = back.join().unwrap_or_else(|_| Err(failed()));
        there.and(ended).and(back)
    })
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        match read(&mut from, &mut piece)? {
            0 => return Ok(()),
            count => to.write_all(&piece[..count])?,
        }
    }
}

/// Reads, however often a signal interrupts it.
fn read(from: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    loop {
        match from.read(piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

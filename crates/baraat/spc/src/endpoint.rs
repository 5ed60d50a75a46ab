//! An endpoint: a UDP socket, its connections, and the thread that turns them.
//!
//! One lock guards all connections of an endpoint. The thread ([`crate::reactor`]) holds it while
//! it works off a batch of datagrams; callers hold it to put bytes in and take bytes out. A caller
//! that changed something marks its connection and wakes the thread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use cavalcade_model::{Instant, Nanos};
use cavalcade_transport::stream::frame::{Reason, overhead};
use cavalcade_transport::stream::{Connection, Ending, SMALLEST, Settings};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};

use crate::listener::SpcListener;
use crate::reactor;
use crate::readiness::Readiness;
use crate::stream::SpcStream;

/// The parameters of an endpoint.
#[derive(Clone, Debug)]
pub struct Options {
    /// The settings of its connections. Line rate and round trip are the fabric's, and the
    /// switches' are to be the same.
    pub settings: Settings,
    /// Connections that may wait to be accepted. A new one replaces the oldest that its peer has
    /// not confirmed.
    pub backlog: usize,
    /// Connections that it may have.
    pub most_connections: usize,
    /// Dropping the last handle waits until what was written is acknowledged, but not for a peer
    /// that has said nothing, or has had no room, for so long. The endpoint's thread goes on
    /// without a handle, as long as the process does.
    pub linger: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let linger = Duration::from_secs(3);
        Self { settings: Settings::default(), backlog: 128, most_connections: 16_384, linger }
    }
}

/// Counts of what an endpoint has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that arrived whole.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Datagrams that are no frames of SPC.
    pub foreign: u64,
    /// Frames with a header that cannot be, or that end within it.
    pub malformed: u64,
    /// Frames with another checksum than their bytes have.
    pub corrupt: u64,
    /// Frames of connections that there are not.
    pub unknown: u64,
    /// Openings that were refused.
    pub refused: u64,
    /// Frames that the system did not take.
    pub unsent: u64,
}

/// A connection's name here: its number, and whether this end accepted it.
pub(crate) type Key = (u64, bool);

/// A connection and who waits for it.
pub(crate) struct Entry {
    pub(crate) connection: Connection,
    pub(crate) peer: SocketAddr,
    /// Time at which its timer is set.
    pub(crate) armed: Option<Instant>,
    /// True if a stream has it.
    pub(crate) held: bool,
    /// Time at which it began.
    pub(crate) since: Instant,
    pub(crate) changed: Arc<Condvar>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// Where a program polls its descriptor.
    pub(crate) readiness: Option<Readiness>,
}

/// Everything that the lock guards.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<Key, Entry>,
    pub(crate) timers: BTreeSet<(Instant, Key)>,
    /// By task, what has something to do.
    pub(crate) dirty: BTreeSet<(u32, Key)>,
    /// Open, and to be accepted.
    pub(crate) waiting: VecDeque<Key>,
    /// The number of handles that accept.
    pub(crate) listeners: usize,
    /// Tasks that wait to accept one.
    pub(crate) acceptors: Vec<Waker>,
    pub(crate) listener_readiness: Option<Readiness>,
    pub(crate) closing: bool,
    /// Why the thread has ended.
    pub(crate) failed: Option<(io::ErrorKind, String)>,
    pub(crate) counters: Counters,
}

impl State {
    /// Has the thread look at a connection that has changed.
    pub(crate) fn mark(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            self.dirty.insert((entry.connection.task(), key));
            entry.show(self.failed.is_some());
        }
    }

    /// Brings the listeners' descriptor up to date, if there is one.
    pub(crate) fn show_waiting(&mut self) {
        let (any, failed) = (!self.waiting.is_empty(), self.failed.is_some());
        self.listener_readiness.iter_mut().for_each(|readiness| readiness.show(any || failed, true));
    }

    /// The error with which the thread ended, if it has.
    pub(crate) fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }
}

/// The part that the thread and all handles share.
pub(crate) struct Shared {
    pub(crate) socket: UdpSocket,
    pub(crate) wake: OwnedFd,
    pub(crate) state: Mutex<State>,
    pub(crate) accepting: Condvar,
    pub(crate) options: Options,
    started: std::time::Instant,
}

impl Shared {
    pub(crate) fn now(&self) -> Instant {
        Instant(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings of a connection with `peer`.
    pub(crate) fn settings_for(&self, peer: SocketAddr) -> Settings {
        Settings { overhead: overhead(peer.ip()), ..self.options.settings.clone() }
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        // It only fails where the thread has been woken 2^64 times and has not looked.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The part that every handle owns; the last one waits for the thread, as [`Options::linger`] says.
pub(crate) struct Owner {
    pub(crate) shared: Arc<Shared>,
    /// Says nothing, and is closed when the thread ends.
    running: Mutex<Receiver<Infallible>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closing = true;
        // What is not open yet, or was not accepted, will not be wanted.
        let waiting = std::mem::take(&mut state.waiting);
        let unwanted = |(key, entry): &(&Key, &Entry)| !entry.connection.is_open() || waiting.contains(key);
        for key in state.entries.iter().filter(unwanted).map(|(&key, _)| key).collect::<Vec<_>>() {
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.connection.abort();
            }
            state.mark(key);
        }
        drop(state);
        self.shared.wake();
        let Self { shared, running } = self;
        let running = running.get_mut().unwrap_or_else(PoisonError::into_inner);
        let linger = shared.options.linger;
        while running.recv_timeout(linger) == Err(RecvTimeoutError::Timeout) {
            let (state, now) = (shared.lock(), shared.now());
            let least = Nanos(u64::try_from(linger.as_nanos()).unwrap_or(u64::MAX));
            let is_heard = |entry: &Entry| now.since(entry.connection.heard()) < least;
            if !state.entries.values().any(|entry| is_heard(entry) && !entry.connection.is_held_back()) {
                return;
            }
        }
    }
}

/// A UDP socket that carries any number of streams.
#[derive(Clone)]
pub struct Endpoint {
    owner: Arc<Owner>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Endpoint").field("address", &self.owner.shared.socket.local_addr()).finish()
    }
}

impl Endpoint {
    /// An endpoint at the first of these addresses that can be had.
    ///
    /// # Errors
    /// If none can be had, or the system gives no thread.
    ///
    /// # Panics
    /// If the options' sizes of packets are not possible ones.
    pub fn bind(address: impl ToSocketAddrs, options: Options) -> io::Result<Self> {
        let sizes = &options.settings.sizes;
        assert!(
            sizes.iter().all(|size| *size >= SMALLEST) && !sizes.is_empty(),
            "a packet has 1280 bytes at least"
        );
        let socket = UdpSocket::bind(address)?;
        socket.set_nonblocking(true)?;
        forbid_fragments(&socket)?;
        // As much as the system gives: a datagram that finds no room is lost.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            socket,
            wake,
            state: Mutex::new(State::default()),
            accepting: Condvar::new(),
            options,
            started: std::time::Instant::now(),
        });
        let turned = Arc::clone(&shared);
        let (runs, running) = channel();
        let run = move || {
            let _runs = runs;
            reactor::run(&turned);
        };
        std::thread::Builder::new().name("spc".to_owned()).spawn(run)?;
        Ok(Self { owner: Arc::new(Owner { shared, running: Mutex::new(running) }) })
    }

    /// An endpoint from which `peer` can be reached.
    pub(crate) fn towards(peer: SocketAddr, options: Options) -> io::Result<Self> {
        match peer {
            SocketAddr::V4(_) => Self::bind((Ipv4Addr::UNSPECIFIED, 0), options),
            SocketAddr::V6(_) => Self::bind((Ipv6Addr::UNSPECIFIED, 0), options),
        }
    }

    /// Its address.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.owner.shared.socket.local_addr()
    }

    /// Returns the counts so far.
    pub fn counters(&self) -> Counters {
        self.owner.shared.lock().counters
    }

    /// Returns how many connections it has, those among them that only linger.
    pub fn connections(&self) -> usize {
        self.owner.shared.lock().entries.len()
    }

    /// Accepts connections from here on.
    pub fn listen(&self) -> SpcListener {
        self.owner.shared.lock().listeners += 1;
        SpcListener::new(Arc::clone(&self.owner))
    }

    /// Opens a stream to `peer` under a task, and waits until it is open.
    ///
    /// # Errors
    /// If there is no answer within the patience, the peer or a switch refuses, or there are too
    /// many connections.
    pub fn connect(&self, peer: SocketAddr, task: u32) -> io::Result<SpcStream> {
        self.connect_within(peer, task, None)
    }

    /// Opens a stream, and waits no longer than a time; `None` for the patience.
    ///
    /// # Errors
    /// As [`Endpoint::connect`]; [`io::ErrorKind::TimedOut`] where it is not open by then
    /// ([`io::ErrorKind::WouldBlock`] for a time of zero: see [`Endpoint::begin_connect`]).
    pub fn connect_within(
        &self,
        peer: SocketAddr,
        task: u32,
        time: Option<Duration>,
    ) -> io::Result<SpcStream> {
        let stream = self.begin_connect(peer, task)?;
        stream.wait_until_open(time)?;
        Ok(stream)
    }

    /// Begins to open a stream, and waits for nothing. It can be written once it is open or has
    /// failed ([`SpcStream::readiness`]); [`SpcStream::is_open`] says which.
    ///
    /// # Errors
    /// If the endpoint has failed, or there are too many connections.
    pub fn begin_connect(&self, peer: SocketAddr, task: u32) -> io::Result<SpcStream> {
        let shared = &self.owner.shared;
        let mut id = [0; 8];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
        let key = (u64::from_ne_bytes(id), false);
        let now = shared.now();
        let connection = Connection::connect(now, key.0, task, shared.settings_for(peer));
        let stream = SpcStream::new(Arc::clone(&self.owner), key, task, peer);
        let mut state = shared.lock();
        state.check()?;
        if state.entries.len() >= shared.options.most_connections {
            return Err(too_many(shared.options.most_connections));
        }
        state.entries.insert(key, Entry { held: true, ..Entry::new(connection, peer, now) });
        state.mark(key);
        shared.wake();
        drop(state);
        Ok(stream)
    }
}

impl Entry {
    pub(crate) fn new(connection: Connection, peer: SocketAddr, since: Instant) -> Self {
        Self {
            connection,
            peer,
            armed: None,
            held: false,
            since,
            changed: Arc::new(Condvar::new()),
            reader: None,
            writer: None,
            readiness: None,
        }
    }

    /// Returns whether reading would not wait.
    pub(crate) fn can_be_read(&self) -> bool {
        let connection = &self.connection;
        connection.ending().is_some() || connection.is_readable() || connection.is_at_end()
    }

    /// Returns whether writing would not wait. One that is being opened can be written once that
    /// has come to an end.
    pub(crate) fn can_be_written(&self) -> bool {
        let connection = &self.connection;
        connection.ending().is_some() || connection.room() > 0 || connection.is_write_closed()
    }

    /// Brings the descriptor up to date, if there is one. Once the endpoint has failed no call
    /// waits any more.
    pub(crate) fn show(&mut self, failed: bool) {
        let (readable, writable) = (failed || self.can_be_read(), failed || self.can_be_written());
        self.readiness.iter_mut().for_each(|readiness| readiness.show(readable, writable));
    }
}

fn too_many(most: usize) -> io::Error {
    let text = format!("the endpoint has {most} connections, the most that its options allow");
    io::Error::new(io::ErrorKind::QuotaExceeded, text)
}

/// A packet that is too large for a link is refused or lost, never cut in pieces: openings find the
/// size that fits.
fn forbid_fragments(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?,
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
            // It may carry IPv4 as well.
            sockopt::set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?;
        }
    }
    Ok(())
}

/// An ending as the error of a call that can no longer be done.
pub(crate) fn error_of(ending: Ending, peer: SocketAddr) -> io::Error {
    let (kind, text) = match ending {
        Ending::Done => (io::ErrorKind::NotConnected, "both directions have ended".to_owned()),
        Ending::Reset(Reason::Refused) => (io::ErrorKind::ConnectionRefused, Reason::Refused.to_string()),
        Ending::Reset(Reason::TooManySwitches) => {
            (io::ErrorKind::HostUnreachable, Reason::TooManySwitches.to_string())
        }
        Ending::Reset(reason) => (io::ErrorKind::ConnectionReset, reason.to_string()),
        Ending::Aborted => {
            (io::ErrorKind::ConnectionAborted, "data arrived after its reader had gone".to_owned())
        }
        Ending::TimedOut => {
            let text =
                "nothing was heard for the patience; check that the host is up and speaks SPC on this port";
            (io::ErrorKind::TimedOut, text.to_owned())
        }
    };
    io::Error::new(kind, format!("SPC stream to {peer}: {text}"))
}

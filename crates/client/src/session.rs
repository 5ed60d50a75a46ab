//! The connection to the agent, and the threads that keep it.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};

use cavalcade_model::{Bytes, Instant};
use cavalcade_protocol::{
    Client, ClientEvent, CoflowKey, Directive, Endpoints, Frames, Gate, Refusal, Registration, Subject, frame,
};

use crate::kernel_path::{By, Carriage, Ended, KernelPath, Opening, Returned, keep_enforcer};
use crate::options::{self, DscpMap, Mark};
use crate::stream::{CoflowStream, PIECE};

/// The longest time for an agent to answer or to read before it is taken to hang.
const PATIENCE: Duration = Duration::from_millis(200);
/// The most unsent bytes in the kernel where the time of a write is not measured.
#[cfg(feature = "tokio")]
const UNSENT_ASYNC: usize = 64 << 10;
/// A packet on Ethernet: no flow crawls by less.
const PACKET: usize = 1448;
/// By how much a flow that crawls may be behind and make up for it: its thread is woken late, and without that it would be
/// slower than it was told by as much as it sleeps too long. (A connection that stalls for longer has not earned a burst.)
const LATE: Duration = Duration::from_millis(10);
/// The longest wait of a flow that crawls; at some bits per second it is as good as off.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The time between two attempts to reach an agent that is away; less often where it refuses the connection.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_REFUSED: Duration = Duration::from_secs(1);
/// Refusals that are kept for [`Session::refusals`].
const REFUSALS: usize = 64;

/// An application's connection to the agent of its host. There may be none: then all is plain TCP.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
}

/// Something that the agent refused. Nothing waits for it: the flows concerned are plain TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The subject of the refusal.
    pub subject: Subject,
    /// Why. As text it says which limit was reached, who set it and how to raise it.
    pub reason: Refusal,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the agent refused {}: {}", self.subject, self.reason)
    }
}

impl std::error::Error for Refused {}

/// The state that threads and streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Something for the thread that writes to do.
    work: Condvar,
    /// A key has come, or the agent has answered.
    news: Condvar,
    started: std::time::Instant,
    offset: Duration,
    map: DscpMap,
    /// The process that opened the session, and has its threads.
    process: u32,
}

/// A connection that carries a flow.
#[derive(Debug)]
struct Carrier {
    socket: TcpStream,
    /// The mark that the application gave it, if the kernel says.
    own_mark: Option<Mark>,
}

impl Carrier {
    /// Carries a directive out. A connection that is gone needs no rate, and one without its class is still a connection.
    fn obey(&self, directive: Directive, map: DscpMap) {
        let _ = options::pace(&self.socket, directive.gate);
        let mark = directive.class.map(|class| Mark::of_class(class, map));
        if let Some(mark) = mark.or(self.own_mark) {
            let _ = mark.put(&self.socket);
        }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    client: Client,
    /// The flows that the kernel carries.
    pub(crate) kernel: KernelPath,
    carriers: BTreeMap<u32, Carrier>,
    keys: BTreeMap<u32, CoflowKey>,
    /// The threads that wait for a gate, by flow: an agent's message wakes only those it concerns. Where all flows of a host
    /// waited for any news, hundreds of threads woke for each word, and the lab's machine did little else.
    gates: BTreeMap<u32, Arc<Condvar>>,
    /// Time at which a flow that crawls may send next: what it was told last counts from then on.
    due: BTreeMap<u32, Clock>,
    /// The tasks that wait for a gate without a thread.
    #[cfg(feature = "tokio")]
    wakers: BTreeMap<u32, std::task::Waker>,
    /// The latest refusals, oldest first.
    refusals: VecDeque<Refused>,
    is_ready: bool,
    /// True if the agent has refused this connection.
    is_refused: bool,
    /// True if the connection is to be closed: the agent hangs, or its end was seen.
    is_broken: bool,
}

impl Session {
    /// A session with the agent that listens at `path`. It is looked for in the background, now and whenever it is gone.
    pub fn open(path: impl AsRef<Path>) -> Self {
        Self::with_classes(path, DscpMap::default())
    }

    /// Opens a session as [`Session::open`] does, with another mapping of classes.
    pub fn with_classes(path: impl AsRef<Path>, map: DscpMap) -> Self {
        Self::of_process(path, map, std::process::id())
    }

    fn of_process(path: impl AsRef<Path>, map: DscpMap, process: u32) -> Self {
        let started = std::time::Instant::now();
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = State {
            client: Client::new(name(offset)),
            kernel: KernelPath::default(),
            carriers: BTreeMap::new(),
            keys: BTreeMap::new(),
            gates: BTreeMap::new(),
            due: BTreeMap::new(),
            #[cfg(feature = "tokio")]
            wakers: BTreeMap::new(),
            refusals: VecDeque::new(),
            is_ready: false,
            is_refused: false,
            is_broken: false,
        };
        let (state, work, news) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { state, work, news, started, offset, map, process });
        let (weak, path) = (Arc::downgrade(&shared), path.as_ref().to_path_buf());
        let (for_enforcer, agent) = (weak.clone(), path.clone());
        // Without these there is no agent or no enforcer, which works.
        drop(named_thread(move || keep_connected(&weak, &path)));
        drop(named_thread(move || keep_enforcer(&for_enforcer, &agent)));
        Self { shared }
    }

    /// Waits until an agent has answered, at most for `longest`. Returns whether one has: for tests and tools, since
    /// everything works without.
    pub fn wait_ready(&self, longest: Duration) -> bool {
        let Some(state) = self.shared.own() else { return false };
        let waited = self.shared.news.wait_timeout_while(state, longest, |state| !state.is_ready);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ready
    }

    /// A new coflow. Returns at once without an agent, and else as soon as it answers; after 200 ms at most. Where the agent
    /// refuses, the coflow has a key all the same and its flows are plain TCP; see [`Session::try_register`].
    pub fn register(&self, registration: Registration) -> CoflowKey {
        self.register_or_hear(registration).0
    }

    /// Registers a coflow as [`Session::register`] does, for an application that would rather not go on without the agent's orders.
    ///
    /// # Errors
    /// What the agent refused, and why.
    pub fn try_register(&self, registration: Registration) -> Result<CoflowKey, Refused> {
        match self.register_or_hear(registration) {
            (key, None) => Ok(key),
            (_, Some(refused)) => Err(refused),
        }
    }

    fn register_or_hear(&self, registration: Registration) -> (CoflowKey, Option<Refused>) {
        let Some(mut state) = self.shared.own() else { return (self.shared.alone(registration), None) };
        let request = state.client.register(self.shared.now(), registration);
        let until = Clock::now() + PATIENCE;
        loop {
            self.shared.hear_events(&mut state);
            if let Some(key) = state.keys.remove(&request) {
                let subject = Subject::Request { request };
                let refused = state.refusals.iter().find(|refused| refused.subject == subject);
                return (key, refused.cloned());
            }
            self.shared.work.notify_all();
            // Every word of the agent may wake this; the deadline is that of the call.
            let left = until.saturating_duration_since(Clock::now());
            if left.is_zero() {
                // The agent hangs: the client gets along without.
                state.client.handle_disconnected(self.shared.now());
                state.is_broken = true;
                continue;
            }
            state = self.shared.news.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns the agent's latest refusals, the oldest first; at most 64.
    pub fn refusals(&self) -> Vec<Refused> {
        self.shared.own().map(|state| state.refusals.iter().cloned().collect()).unwrap_or_default()
    }

    /// Makes `socket`, connected to its receiver, carry a flow of `coflow`: as many bytes as `size` says, if that is known.
    ///
    /// # Errors
    /// If the socket is not connected.
    pub fn stream(
        &self,
        socket: TcpStream,
        coflow: CoflowKey,
        size: Option<Bytes>,
    ) -> io::Result<CoflowStream> {
        let carriage = self.open_flow(socket.try_clone()?, coflow, size, PIECE)?;
        Ok(CoflowStream::new(socket, self.shared.clone(), carriage, coflow))
    }

    /// Wraps a connection of tokio as [`Session::stream`] does one of std.
    ///
    /// # Errors
    /// If the socket is not connected.
    #[cfg(feature = "tokio")]
    pub fn async_stream(
        &self,
        socket: tokio::net::TcpStream,
        coflow: CoflowKey,
        size: Option<Bytes>,
    ) -> io::Result<crate::AsyncCoflowStream> {
        use std::os::fd::AsFd;
        let copy = TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        let carriage = self.open_flow(copy, coflow, size, UNSENT_ASYNC)?;
        Ok(crate::AsyncCoflowStream::new(socket, self.shared.clone(), carriage, coflow))
    }

    /// A connection begins to carry a flow; `copy` is for its options.
    /// At first `unsent` bytes may wait in the kernel where the library holds back.
    fn open_flow(
        &self,
        copy: TcpStream,
        coflow: CoflowKey,
        size: Option<Bytes>,
        unsent: usize,
    ) -> io::Result<Arc<Carriage>> {
        let ends = Endpoints { local: copy.local_addr()?, remote: copy.peer_addr()? };
        let (own_mark, carriage) = (Mark::of(&copy).ok(), Carriage::new(By::Nobody));
        let Some(mut state) = self.shared.own() else { return Ok(carriage) };
        let opening = Opening { copy, ends, coflow, size, unsent, own_mark, carriage: Arc::clone(&carriage) };
        if let Some(opening) = state.kernel.hand_over(opening) {
            self.shared.open_in_library(&mut state, opening, false);
        }
        Ok(carriage)
    }

    /// Lets another user, by the number that hosts have for it, take part in a coflow of this user. The agent refuses that to
    /// who does not own the coflow: see [`Session::refusals`].
    pub fn grant(&self, coflow: CoflowKey, user: u32) {
        if let Some(mut state) = self.shared.own() {
            state.client.grant(coflow, user);
            self.shared.work.notify_all();
        }
    }

    /// A coflow is over.
    pub fn unregister(&self, coflow: CoflowKey) {
        if let Some(mut state) = self.shared.own() {
            state.client.unregister(coflow);
            self.shared.work.notify_all();
        }
    }
}

/// A number for a client, which no other client of this user on this host has.
fn name(offset: Duration) -> u64 {
    (offset.as_nanos() as u64).rotate_left(20) ^ u64::from(std::process::id()) << 40 ^ serial()
}

/// Tells the sessions of one process apart.
fn serial() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Shared {
    /// Takes back what the kernel does not carry, or not any more.
    pub(crate) fn take_back(&self, state: &mut State, returned: Returned) {
        match returned {
            Returned::Open { opening, is_told } => self.open_in_library(state, opening, is_told),
            Returned::Ended(Ended { ends, coflow, sent }) => {
                let flow = state.client.open(coflow, ends, None);
                state.client.sent(flow, sent);
                state.client.close(flow);
            }
        }
    }

    /// Carries orders out for a connection from here on; `is_told` if the agent knows already what it has sent.
    fn open_in_library(&self, state: &mut State, opening: Opening, is_told: bool) {
        let Opening { copy: socket, ends, coflow, size, unsent, own_mark, carriage } = opening;
        // Without it a gate that closes is only seen later.
        let _ = options::limit_unsent(&socket, unsent);
        let (told, untold) = if is_told { (carriage.sent(), 0) } else { (0, carriage.sent()) };
        let left = size.and_then(|size| size.0.checked_sub(told)).map(Bytes);
        let flow = state.client.open(coflow, ends, left);
        state.client.sent(flow, untold);
        state.carriers.insert(flow, Carrier { socket, own_mark });
        carriage.set(By::Library(flow));
        self.work.notify_all();
    }

    /// State is whole between any two calls, so a thread that panicked elsewhere with the lock has broken nothing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless this is a child that was forked from the session's process: the threads that keep the session are not
    /// there, and one of them may have held the lock.
    fn own(&self) -> Option<MutexGuard<'_, State>> {
        (std::process::id() == self.process).then(|| self.lock())
    }

    /// A key that no agent is asked for.
    fn alone(&self, registration: Registration) -> CoflowKey {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut client = Client::new(name(now));
        client.register(Instant(now.as_nanos() as u64), registration);
        let event = std::iter::from_fn(|| client.poll_event()).next();
        match event {
            Some(ClientEvent::Registered { coflow, .. }) => coflow,
            other => unreachable!("a client without an agent has its key at once, not {other:?}"),
        }
    }

    fn now(&self) -> Instant {
        Instant((self.offset + self.started.elapsed()).as_nanos() as u64)
    }

    pub(crate) fn directive(&self, carriage: &Carriage) -> Directive {
        match carriage.by() {
            By::Library(flow) => self.own().map(|state| state.client.directive(flow)).unwrap_or_default(),
            By::Kernel(_) | By::Nobody => Directive::default(),
        }
    }

    /// Waits while a flow may not send. Returns how many bytes it may send then.
    pub(crate) fn wait_for_gate(&self, flow: u32) -> usize {
        let Some(mut state) = self.own() else { return usize::MAX };
        state.client.set_idle(flow, false);
        loop {
            let wait = match state.client.directive(flow).gate {
                Gate::Paced { rate } if rate < options::CRAWL => {
                    let due = state.due.get(&flow).copied();
                    let left = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Clock::now()));
                    if left.is_zero() {
                        return (rate.0 / 8 / 500) as usize + PACKET;
                    }
                    Some(left)
                }
                Gate::Open {} | Gate::Paced { .. } => return usize::MAX,
                Gate::Off {} => None,
            };
            let gate = Arc::clone(state.gates.entry(flow).or_default());
            state = match wait {
                Some(left) => gate.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => gate.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Returns whether a flow may send; where it may not, `context` is woken when it may.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_gate(&self, flow: u32, context: &std::task::Context<'_>) -> std::task::Poll<()> {
        let Some(mut state) = self.own() else { return std::task::Poll::Ready(()) };
        state.client.set_idle(flow, false);
        if state.client.directive(flow).gate == (Gate::Off {}) {
            state.wakers.insert(flow, context.waker().clone());
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    }

    /// A write has gone to the kernel that carried the stream. It may be the library's by now.
    pub(crate) fn sent_by_kernel(&self, carriage: &Carriage, more: usize) {
        match carriage.by() {
            By::Library(flow) => self.sent(flow, more as u64, false),
            By::Kernel(_) | By::Nobody => carriage.note_sent(more),
        }
    }

    /// Sets rates and classes again: the kernel part of an enforcer that was killed may have set them back meanwhile.
    pub(crate) fn obey_again(&self) {
        let state = self.lock();
        for (&flow, carrier) in &state.carriers {
            carrier.obey(state.client.directive(flow), self.map);
        }
    }

    /// A flow has sent so much; in a crawl if it was let to send no more than a little.
    pub(crate) fn sent(&self, flow: u32, more: u64, in_a_crawl: bool) {
        let Some(mut state) = self.own() else { return };
        state.client.sent(flow, more);
        // What was written before the flow was told to crawl is past: it does not wait for that, or it would seem to have stalled.
        if !in_a_crawl {
            return;
        }
        if let Gate::Paced { rate } = state.client.directive(flow).gate
            && rate < options::CRAWL
        {
            let takes = u128::from(more) * 8_000_000_000 / u128::from(rate.0.max(1));
            let takes = Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX)).min(LONGEST_WAIT);
            let now = Clock::now();
            let due = state.due.entry(flow).or_insert(now);
            *due = next_due(*due, now, takes);
        }
    }

    pub(crate) fn rest(&self, carriage: &Carriage) {
        if let (By::Library(flow), Some(mut state)) = (carriage.by(), self.own()) {
            state.client.set_idle(flow, true);
        }
    }

    /// A stream is over.
    pub(crate) fn close(&self, carriage: &Carriage) {
        let Some(mut state) = self.own() else { return };
        let flow = match carriage.by() {
            By::Library(flow) => flow,
            By::Kernel(number) => return state.kernel.close(number),
            By::Nobody => return,
        };
        state.client.close(flow);
        state.carriers.remove(&flow);
        state.due.remove(&flow);
        if let Some(gate) = state.gates.remove(&flow) {
            gate.notify_all();
        }
        #[cfg(feature = "tokio")]
        state.wakers.remove(&flow);
        self.work.notify_all();
    }

    /// Carries out what the client has been told.
    fn hear_events(&self, state: &mut State) {
        while let Some(event) = state.client.poll_event() {
            match event {
                ClientEvent::Registered { request, coflow } => {
                    state.keys.insert(request, coflow);
                    self.news.notify_all();
                }
                ClientEvent::Directed(flow) => {
                    let directive = state.client.directive(flow);
                    state.due.remove(&flow);
                    if let Some(carrier) = state.carriers.get(&flow) {
                        carrier.obey(directive, self.map);
                    }
                    if let Some(gate) = state.gates.get(&flow) {
                        gate.notify_all();
                    }
                    #[cfg(feature = "tokio")]
                    if let Some(waker) = state.wakers.remove(&flow) {
                        waker.wake();
                    }
                }
                ClientEvent::Ready(_) => {
                    state.is_ready = true;
                    self.news.notify_all();
                }
                ClientEvent::Refused { subject, refusal } => {
                    state.is_refused |= subject == Subject::Connection {};
                    state.refusals.push_back(Refused { subject, reason: refusal });
                    if state.refusals.len() > REFUSALS {
                        state.refusals.pop_front();
                    }
                }
                ClientEvent::FellBack => {}
            }
        }
    }
}

/// Returns when a flow that crawls may send again, which was to send from `due` on and has sent at `now` what takes so long.
fn next_due(due: Clock, now: Clock, takes: Duration) -> Clock {
    due.max(now.checked_sub(LATE).unwrap_or(now)) + takes
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child the connection is the parent's.
        if std::process::id() == self.process {
            self.lock().kernel.hang_up();
        }
    }
}

/// A thread whose name says to a reader of the application's threads what it is there for.
fn named_thread(work: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("cavalcade-client".to_owned()).spawn(work)
}

/// Looks for the agent until the session is dropped.
fn keep_connected(weak: &Weak<Shared>, path: &PathBuf) {
    while weak.strong_count() > 0 {
        let mut pause = RETRY;
        if let Ok(socket) = UnixStream::connect(path) {
            // Whatever ends it, the next connection starts over.
            let _ = attend(weak, socket);
            let Some(shared) = weak.upgrade() else { return };
            let mut state = shared.lock();
            if std::mem::take(&mut state.is_refused) {
                pause = RETRY_REFUSED;
            }
            (state.is_ready, state.is_broken) = (false, false);
            state.client.handle_disconnected(shared.now());
            shared.hear_events(&mut state);
        }
        std::thread::sleep(pause);
    }
}

/// One connection, from its hello to its end.
fn attend(weak: &Weak<Shared>, mut socket: UnixStream) -> io::Result<()> {
    socket.set_write_timeout(Some(PATIENCE))?;
    let reader = socket.try_clone()?;
    if let Some(shared) = weak.upgrade() {
        shared.lock().client.handle_connected();
    }
    let for_reader = weak.clone();
    let listening = named_thread(move || listen(&for_reader, reader))?;
    let result = talk(weak, &mut socket);
    socket.shutdown(std::net::Shutdown::Both)?;
    drop(listening.join());
    result
}

/// Reads until the connection ends.
fn listen(weak: &Weak<Shared>, mut reader: UnixStream) {
    let mut frames = Frames::default();
    let mut chunk = vec![0; 16 << 10];
    while let Ok(length @ 1..) = reader.read(&mut chunk) {
        frames.push(&chunk[..length]);
        let Some(shared) = weak.upgrade() else { return };
        let mut state = shared.lock();
        loop {
            match frames.pop() {
                Ok(Some(message)) => state.client.handle_message(shared.now(), message),
                Ok(None) => break,
                Err(_) => {
                    state.is_broken = true;
                    break;
                }
            }
        }
        shared.hear_events(&mut state);
        // A word from the agent hardly ever asks for an answer.
        if state.is_broken || state.client.has_messages() {
            shared.work.notify_all();
        }
    }
    if let Some(shared) = weak.upgrade() {
        shared.lock().is_broken = true;
        shared.work.notify_all();
    }
}

/// Writes what is to be said, and keeps the time.
fn talk(weak: &Weak<Shared>, socket: &mut UnixStream) -> io::Result<()> {
    let connected = std::time::Instant::now();
    let mut bytes = Vec::new();
    loop {
        let Some(shared) = weak.upgrade() else { return Ok(()) };
        let mut state = shared.lock();
        let is_silent = state.client.handle_timeout(shared.now());
        let hangs = !state.is_ready && connected.elapsed() > PATIENCE;
        shared.hear_events(&mut state);
        if is_silent || hangs || state.is_broken {
            return Ok(());
        }
        bytes.clear();
        while let Some(message) = state.client.poll_message() {
            frame(&message, &mut bytes).expect("messages of a client are short");
        }
        if bytes.is_empty() {
            let wait = state
                .client
                .poll_timeout()
                .map_or(PATIENCE, |when| Duration::from_nanos(when.since(shared.now()).0).min(PATIENCE));
            drop(shared.work.wait_timeout(state, wait.max(Duration::from_micros(100))));
            continue;
        }
        drop(state);
        socket.write_all(&bytes)?;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

    use super::*;

    #[test]
    fn in_a_forked_child_nothing_waits_for_threads_that_are_not_there_and_all_is_plain_tcp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // What fork leaves behind: a session of another process, whose lock a thread held that is no more.
        let session = Session::of_process(&path, DscpMap::default(), std::process::id().wrapping_add(1));
        let held = session.shared.lock();
        let coflow = session.register(Registration::default());
        assert_ne!(session.register(Registration::default()), coflow);
        let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(receiver.local_addr().unwrap()).unwrap();
        let mut stream = session.stream(socket, coflow, None).unwrap();
        stream.write_all(b"plain").unwrap();
        stream.rest();
        assert_eq!(stream.directive(), Directive::default());
        session.grant(coflow, 7);
        session.unregister(coflow);
        assert!(!session.wait_ready(Duration::from_secs(60)) && session.refusals().is_empty());
        drop(stream);
        drop((held, listener));
    }

    #[test]
    fn packets_carry_their_class_while_an_order_holds_and_the_applications_own_mark_else() {
        let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(receiver.local_addr().unwrap()).unwrap();
        let own = Mark::of_class(3, DscpMap([0, 0, 0, 8, 0, 0, 0, 0]));
        own.put(&socket).unwrap();
        let carrier = Carrier { own_mark: Mark::of(&socket).ok(), socket };
        let mut marks = Vec::new();
        for class in [Some(0), None, Some(2), Some(99), None] {
            carrier.obey(Directive { gate: Gate::Open {}, class }, DscpMap::default());
            marks.push(Mark::of(&carrier.socket).unwrap());
        }
        let of_class = |class| Mark::of_class(class, DscpMap::default());
        assert_eq!(marks, [of_class(0), own, of_class(2), of_class(7), own]);
    }

    #[test]
    fn a_flow_that_was_woken_late_makes_up_for_it_and_one_that_stalled_does_not() {
        let (due, millis) = (Clock::now(), Duration::from_millis);
        assert_eq!(next_due(due, due + millis(3), millis(5)), due + millis(5));
        assert_eq!(next_due(due, due + millis(60), millis(5)), due + millis(60) - LATE + millis(5));
    }
}

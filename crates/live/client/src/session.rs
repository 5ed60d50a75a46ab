//! A session: what an application calls, and the state that its threads and streams share.
//!
//! Every argument is checked before anything is stored, so a call that fails leaves the session as
//! it was.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock, SystemTime, UNIX_EPOCH};

use cavalcade_model::{Bytes, Instant};
use cavalcade_protocol::{
    Client, ClientEvent, CoflowKey, Directive, Endpoints, Gate, Invalid, Refusal, Registration, Subject,
};

use crate::gate;
use crate::kernel_path::{By, Carriage, Ended, KernelPath, Opening, Returned, keep_enforcer};
use crate::options::{self, DscpMap, Mark, Options};
use crate::stream::{CoflowStream, PIECE};
use crate::threads::{keep_connected, named_thread};

/// The longest time for an agent to answer or to read before it is taken to hang.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);
/// The most unsent bytes in the kernel where the time of a write is not measured.
#[cfg(feature = "tokio")]
const UNSENT_ASYNC: usize = 64 << 10;
/// A packet on Ethernet: no flow crawls by less.
const PACKET: usize = 1448;
/// By how much a flow that crawls may be behind and make up for it: its thread is woken late, and
/// without that it would be slower than its rate by as much as it sleeps too long. (A connection
/// that stalls for longer has not earned a burst.)
const LATE: Duration = Duration::from_millis(10);
/// The longest wait of a flow that crawls; at some bits per second it is as good as off.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The longest path of a socket.
const LONGEST_PATH: usize = 107;
/// Refusals that are kept for [`Session::refusals`].
const REFUSALS: usize = 64;

/// An application's connection to the agent of its host. Without an agent all is plain TCP.
/// Dropping the last handle waits until all pending reports are sent to the agent, 200 ms at most.
#[derive(Clone, Debug)]
pub struct Session {
    shared: Arc<Shared>,
    /// One for each handle.
    handles: Arc<()>,
}

/// Something that the agent refused. Nothing waits for it: the flows concerned are plain TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The subject of the refusal.
    pub subject: Subject,
    /// The reason. As text it names the limit that was reached, who set it and how to raise it.
    pub reason: Refusal,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the agent refused {}: {}", self.subject, self.reason)
    }
}

impl std::error::Error for Refused {}

/// Why [`Session::try_register`] has no coflow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// An argument is invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The agent refused it.
    #[error(transparent)]
    Refused(Refused),
}

/// The state that threads and streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Something for the thread that writes to do.
    pub(crate) work: Condvar,
    /// A key has come, the agent has answered, or something was written to it.
    pub(crate) news: Condvar,
    started: std::time::Instant,
    offset: Duration,
    map: DscpMap,
    /// The process that opened the session, and has its threads.
    process: u32,
}

/// A connection that carries a flow of this coflow.
#[derive(Debug)]
struct Carrier {
    options: Options,
    coflow: CoflowKey,
    carriage: Arc<Carriage>,
}

impl Carrier {
    /// Carries a directive out.
    fn obey(&mut self, directive: Directive, map: DscpMap) {
        self.options.direct(directive.gate, directive.class.map(|class| Mark::of_class(class, map)));
        self.carriage.show(directive.gate != Gate::Off {});
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) client: Client,
    /// The flows that the kernel carries.
    pub(crate) kernel: KernelPath,
    carriers: BTreeMap<u32, Carrier>,
    keys: BTreeMap<u32, CoflowKey>,
    /// Time at which a flow that crawls may send next: its last directive counts from then on.
    due: BTreeMap<u32, Clock>,
    /// The tasks that wait for a gate without a thread.
    #[cfg(feature = "tokio")]
    wakers: BTreeMap<u32, std::task::Waker>,
    /// The latest refusals, oldest first.
    refusals: VecDeque<Refused>,
    pub(crate) is_ready: bool,
    /// True while something is being written to the agent.
    pub(crate) is_writing: bool,
    /// True if the agent has refused this connection.
    pub(crate) is_refused: bool,
    /// True if the connection is to be closed: the agent hangs, or its end was seen.
    pub(crate) is_broken: bool,
    /// Where an agent answered last, among the places at which one is looked for.
    pub(crate) place: usize,
}

/// A flow's turn to send.
enum Turn {
    /// So many bytes, now.
    Now(usize),
    /// It crawls: in so long.
    In(Duration),
    /// Not before its next directive.
    Later,
}

impl State {
    fn turn(&self, flow: u32) -> Turn {
        match self.client.directive(flow).gate {
            Gate::Paced { rate } if rate < options::CRAWL => {
                let left = self.due.get(&flow).map(|due| due.saturating_duration_since(Clock::now()));
                match left.filter(|left| !left.is_zero()) {
                    None => Turn::Now((rate.0 / 8 / 500) as usize + PACKET),
                    Some(left) => Turn::In(left),
                }
            }
            Gate::Open {} | Gate::Paced { .. } => Turn::Now(usize::MAX),
            Gate::Off {} => Turn::Later,
        }
    }
}

impl Session {
    /// A session with the agent that listens at `path`. The connection is made in the background,
    /// now and whenever it is lost.
    ///
    /// # Errors
    /// If no socket can have such a path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::with_classes(path, DscpMap::default())
    }

    /// A session with the agent that is found first at the
    /// [`default_places`](crate::default_places), now and whenever the connection is lost. Each
    /// time that no agent is found is a warning of `tracing`.
    ///
    /// # Errors
    /// If a variable of the environment names a place that no socket can have.
    pub fn find() -> io::Result<Self> {
        let places = crate::default_places();
        places.iter().try_for_each(|place| check_path(place))?;
        Ok(Self::of_process(places, DscpMap::default(), std::process::id()))
    }

    /// Opens a session as [`Session::open`] does, with another mapping of classes.
    ///
    /// # Errors
    /// If no socket can have such a path.
    pub fn with_classes(path: impl AsRef<Path>, map: DscpMap) -> io::Result<Self> {
        check_path(path.as_ref())?;
        Ok(Self::of_process(vec![path.as_ref().to_path_buf()], map, std::process::id()))
    }

    fn of_process(places: Vec<PathBuf>, map: DscpMap, process: u32) -> Self {
        let started = std::time::Instant::now();
        let offset = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = State {
            client: Client::new(name(offset)),
            kernel: KernelPath::default(),
            carriers: BTreeMap::new(),
            keys: BTreeMap::new(),
            due: BTreeMap::new(),
            #[cfg(feature = "tokio")]
            wakers: BTreeMap::new(),
            refusals: VecDeque::new(),
            is_ready: false,
            is_writing: false,
            is_refused: false,
            is_broken: false,
            place: 0,
        };
        let (state, work, news) = (Mutex::new(state), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { state, work, news, started, offset, map, process });
        let weak = Arc::downgrade(&shared);
        let (for_enforcer, agents) = (weak.clone(), places.clone());
        // Without these there is no agent or no enforcer, which works.
        drop(named_thread(move || keep_connected(&weak, &places)));
        drop(named_thread(move || keep_enforcer(&for_enforcer, &agents)));
        Self { shared, handles: Arc::default() }
    }

    /// Waits until an agent has answered, at most for `longest`. Returns whether one has: for tests
    /// and tools, since everything works without.
    pub fn wait_ready(&self, longest: Duration) -> bool {
        let Some(state) = self.shared.own() else { return false };
        let waited = self.shared.news.wait_timeout_while(state, longest, |state| !state.is_ready);
        waited.unwrap_or_else(PoisonError::into_inner).0.is_ready
    }

    /// A new coflow. Returns at once without an agent, and else as soon as it answers; after 200 ms
    /// at most. Where the agent refuses, the coflow has a key all the same and its flows are plain
    /// TCP; see [`Session::try_register`].
    ///
    /// # Errors
    /// If an argument is invalid; nothing has changed then.
    pub fn register(&self, registration: Registration) -> Result<CoflowKey, Invalid> {
        registration.check()?;
        Ok(self.ask(registration).0)
    }

    /// Registers a coflow as [`Session::register`] does, for an application that prefers an error
    /// to going on without the agent's orders.
    ///
    /// # Errors
    /// The agent's refusal with its reason, or the invalid argument.
    pub fn try_register(&self, registration: Registration) -> Result<CoflowKey, RegisterError> {
        registration.check()?;
        match self.ask(registration) {
            (key, None) => Ok(key),
            (_, Some(refused)) => Err(RegisterError::Refused(refused)),
        }
    }

    fn ask(&self, registration: Registration) -> (CoflowKey, Option<Refused>) {
        let Some(mut state) = self.shared.own() else { return (self.shared.alone(registration), None) };
        let request = state.client.register(self.shared.now(), registration);
        let until = Clock::now() + PATIENCE;
        loop {
            self.shared.take_events(&mut state);
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

    /// Makes `socket`, connected to its receiver, carry a flow of `coflow`, of `size` bytes if that
    /// is known.
    ///
    /// # Errors
    /// If the socket is not connected, or the size is too large.
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
    /// If the socket is not connected, or the size is too large.
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
        Invalid::check_size(size).map_err(|invalid| io::Error::new(io::ErrorKind::InvalidInput, invalid))?;
        let ends = Endpoints { local: copy.local_addr()?, remote: copy.peer_addr()? };
        let carriage = Carriage::new(By::Nobody);
        let Some(mut state) = self.shared.own() else { return Ok(carriage) };
        let options = Options::of(copy);
        let opening = Opening { options, ends, coflow, size, unsent, carriage: Arc::clone(&carriage) };
        if let Some(opening) = state.kernel.hand_over(opening) {
            self.shared.open_in_library(&mut state, opening, false);
        }
        Ok(carriage)
    }

    /// Lets another user, by the number that hosts have for it, take part in a coflow of this user.
    /// The agent refuses that if this user does not own the coflow: see [`Session::refusals`].
    ///
    /// # Errors
    /// If the number is no user's.
    pub fn grant(&self, coflow: CoflowKey, user: u32) -> Result<(), Invalid> {
        Invalid::check_user(user)?;
        if let Some(mut state) = self.shared.own() {
            state.client.grant(coflow, user);
            self.shared.work.notify_all();
        }
        Ok(())
    }

    /// Ends a coflow. Streams of it that are still open continue as plain TCP.
    pub fn unregister(&self, coflow: CoflowKey) {
        if let Some(mut state) = self.shared.own() {
            let carriers = state.carriers.iter().filter(|(_, carrier)| carrier.coflow == coflow);
            let flows: Vec<u32> = carriers.map(|(&flow, _)| flow).collect();
            flows.into_iter().for_each(|flow| self.shared.end(&mut state, flow));
            let handed = state.kernel.numbers_of(coflow);
            handed.into_iter().for_each(|number| state.kernel.close(number, true));
            state.client.unregister(coflow);
            self.shared.work.notify_all();
        }
    }
}

/// Checks that a socket can have such a path.
fn check_path(path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    let wrong = if bytes.contains(&0) {
        "a path with a zero byte: expected that of an agent's socket".to_owned()
    } else if bytes.is_empty() || bytes.len() > LONGEST_PATH {
        format!("a path of {} bytes: expected 1 to {LONGEST_PATH}, as sockets have", bytes.len())
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
}

/// A number for a client, which no other client of this user on this host has.
fn name(offset: Duration) -> u64 {
    (offset.as_nanos() as u64).rotate_left(20) ^ u64::from(std::process::id()) << 40 ^ serial()
}

/// Distinguishes the sessions of one process.
fn serial() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

impl Shared {
    /// Takes back what the kernel does not carry, or not any more.
    pub(crate) fn take_back(&self, state: &mut State, returned: Returned) {
        match returned {
            Returned::Open { opening, is_told } => self.open_in_library(state, opening, is_told),
            Returned::Ended(Ended { ends, coflow, sent, .. }) => {
                let flow = state.client.open(coflow, ends, None);
                state.client.sent(flow, sent);
                state.client.close(flow);
            }
        }
    }

    /// Carries orders out for a connection from here on; `is_told` if the agent knows already what
    /// it has sent.
    fn open_in_library(&self, state: &mut State, opening: Opening, is_told: bool) {
        let Opening { mut options, ends, coflow, size, unsent, carriage } = opening;
        options.limit_unsent(unsent);
        let (told, untold) = if is_told { (carriage.sent(), 0) } else { (0, carriage.sent()) };
        let left = size.and_then(|size| size.0.checked_sub(told)).map(Bytes);
        let flow = state.client.open(coflow, ends, left);
        state.client.sent(flow, untold);
        carriage.set(By::Library(flow));
        state.carriers.insert(flow, Carrier { options, coflow, carriage });
        self.work.notify_all();
    }

    /// State is whole between any two calls, so a thread that panicked elsewhere with the lock has
    /// broken nothing.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless this is a child that was forked from the session's process: the threads
    /// that keep the session are not there, and one of them may have held the lock.
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

    pub(crate) fn now(&self) -> Instant {
        Instant((self.offset + self.started.elapsed()).as_nanos() as u64)
    }

    pub(crate) fn directive(&self, carriage: &Carriage) -> Directive {
        match carriage.by() {
            By::Library(flow) => self.own().map(|state| state.client.directive(flow)).unwrap_or_default(),
            By::Kernel(_) | By::Nobody => Directive::default(),
        }
    }

    /// Waits while a flow may not send, as long as a write on its socket may. Returns how many
    /// bytes it may send then; where its connection is gone it may, and the write returns the
    /// error.
    pub(crate) fn wait_for_gate(&self, carriage: &Carriage, socket: &TcpStream) -> io::Result<usize> {
        let mut patience = None;
        loop {
            let wait = {
                let Some(mut state) = self.own() else { return Ok(usize::MAX) };
                let By::Library(flow) = carriage.by() else { return Ok(usize::MAX) };
                state.client.set_idle(flow, false);
                match state.turn(flow) {
                    Turn::Now(most) => return Ok(most),
                    Turn::In(left) => Some(left),
                    Turn::Later => None,
                }
            };
            let until = match patience {
                Some(until) => until,
                None => {
                    let longest = gate::patience_of(socket)?;
                    // A non-blocking caller has no timer for the next piece, so TCP's pacing alone
                    // limits its rate.
                    if wait.is_some() && longest == Some(Duration::ZERO) {
                        return Ok(usize::MAX);
                    }
                    *patience.insert(longest.and_then(|longest| Clock::now().checked_add(longest)))
                }
            };
            let left = until.map(|until| until.saturating_duration_since(Clock::now()));
            let longest = wait.into_iter().chain(left).min();
            // The gate of a paced flow can be read at all times: what is waited for is the time, or
            // that the connection ends.
            let gate = if wait.is_some() { None } else { self.gate(carriage).ok().flatten() };
            if gate::wait(gate, socket, longest)? {
                return Ok(usize::MAX);
            }
            if left.is_some_and(|left| left.is_zero()) {
                let text = "the flow waits for its turn: wait until its gate can be read";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
            }
        }
    }

    /// The gate of a stream; `None` in a forked child.
    pub(crate) fn gate<'a>(&self, carriage: &'a Carriage) -> io::Result<Option<&'a gate::Gate>> {
        let Some(state) = self.own() else { return Ok(None) };
        if let Some(gate) = carriage.gate.get() {
            return Ok(Some(gate));
        }
        let may_send = match carriage.by() {
            By::Library(flow) => state.client.directive(flow).gate != Gate::Off {},
            By::Kernel(_) | By::Nobody => true,
        };
        let made = gate::Gate::new(may_send)?;
        Ok(Some(carriage.gate.get_or_init(|| made)))
    }

    /// Returns whether a flow may send; where it may not, `context` is woken when it may.
    #[cfg(feature = "tokio")]
    pub(crate) fn poll_gate(
        &self,
        carriage: &Carriage,
        context: &std::task::Context<'_>,
    ) -> std::task::Poll<()> {
        let (Some(mut state), By::Library(flow)) = (self.own(), carriage.by()) else {
            return std::task::Poll::Ready(());
        };
        state.client.set_idle(flow, false);
        if state.client.directive(flow).gate == (Gate::Off {}) {
            state.wakers.insert(flow, context.waker().clone());
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    }

    /// Keeps what waits in the kernel unsent to so many bytes, where the library carries the flow.
    pub(crate) fn limit_unsent(&self, carriage: &Carriage, bytes: usize) {
        let (Some(mut state), By::Library(flow)) = (self.own(), carriage.by()) else { return };
        if let Some(carrier) = state.carriers.get_mut(&flow) {
            carrier.options.limit_unsent(bytes);
        }
    }

    /// A write was made. What carries orders out for the stream may have changed meanwhile.
    pub(crate) fn note_sent(&self, carriage: &Carriage, more: usize) {
        match carriage.by() {
            By::Library(flow) => self.sent(flow, more as u64, false),
            By::Kernel(_) | By::Nobody => carriage.note_sent(more),
        }
    }

    /// Sets rates and classes again: the kernel part of an enforcer that was killed may have set
    /// them back meanwhile.
    pub(crate) fn obey_again(&self) {
        let mut state = self.lock();
        let State { carriers, client, .. } = &mut *state;
        for (&flow, carrier) in carriers {
            carrier.obey(client.directive(flow), self.map);
        }
    }

    /// A flow has sent so much; in a crawl if it was let to send no more than a little.
    pub(crate) fn sent(&self, flow: u32, more: u64, in_a_crawl: bool) {
        let Some(mut state) = self.own() else { return };
        state.client.sent(flow, more);
        // What was written before the flow was told to crawl is past: it does not wait for that, or
        // it would seem to have stalled.
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

    /// A stream is over, and its connection `stays` or is about to be closed.
    pub(crate) fn close(&self, carriage: &Carriage, stays: bool) {
        let Some(mut state) = self.own() else { return };
        match carriage.by() {
            By::Library(flow) => self.end(&mut state, flow),
            By::Kernel(number) => state.kernel.close(number, stays),
            By::Nobody => {}
        }
    }

    /// Ends a flow that the library carries.
    fn end(&self, state: &mut State, flow: u32) {
        state.client.close(flow);
        state.due.remove(&flow);
        if let Some(mut carrier) = state.carriers.remove(&flow) {
            carrier.options.restore();
            carrier.carriage.set(By::Nobody);
            carrier.carriage.show(true);
        }
        #[cfg(feature = "tokio")]
        if let Some(waker) = state.wakers.remove(&flow) {
            waker.wake();
        }
        self.work.notify_all();
    }

    /// Carries out the directives that the client has received.
    pub(crate) fn take_events(&self, state: &mut State) {
        while let Some(event) = state.client.poll_event() {
            match event {
                ClientEvent::Registered { request, coflow } => {
                    state.keys.insert(request, coflow);
                    self.news.notify_all();
                }
                ClientEvent::Directed(flow) => {
                    let directive = state.client.directive(flow);
                    state.due.remove(&flow);
                    if let Some(carrier) = state.carriers.get_mut(&flow) {
                        carrier.obey(directive, self.map);
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

/// Returns when a flow that crawls may send again, which was to send from `due` on and has sent at
/// `now` what takes so long.
fn next_due(due: Clock, now: Clock, takes: Duration) -> Clock {
    due.max(now.checked_sub(LATE).unwrap_or(now)) + takes
}

impl Drop for Session {
    fn drop(&mut self) {
        if Arc::strong_count(&self.handles) > 1 {
            return;
        }
        // In a forked child the connection is the parent's.
        let Some(state) = self.shared.own() else { return };
        self.shared.work.notify_all();
        let is_unsaid =
            |state: &mut State| state.is_ready && (state.is_writing || state.client.has_messages());
        drop(self.shared.news.wait_timeout_while(state, PATIENCE, is_unsaid));
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // In a forked child the connection is the parent's.
        if std::process::id() == self.process {
            self.lock().kernel.hang_up();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a helper of tests fails by panicking")]

    use std::io::Write;

    use super::*;

    #[test]
    fn of_several_places_the_agent_is_found_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let places = ["none.sock", "agent.sock"].map(|name| folder.path().join(name));
        let listener = std::os::unix::net::UnixListener::bind(&places[1]).unwrap();
        let session = Session::of_process(places.to_vec(), DscpMap::default(), std::process::id());
        let (_agent, _) = listener.accept().unwrap();
        // The session notes it behind the connection.
        while session.shared.lock().place != 1 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn a_path_that_no_socket_has_is_refused() {
        let long = "x".repeat(108);
        for (wrong, text) in
            [("", "0 bytes"), ("a\0b", "a zero byte"), (&long, "108 bytes: expected 1 to 107")]
        {
            let error = Session::open(wrong).unwrap_err();
            assert!(
                error.kind() == io::ErrorKind::InvalidInput && error.to_string().contains(text),
                "{error}"
            );
        }
        assert!(Session::open("x".repeat(107)).is_ok());
    }

    #[test]
    fn a_session_that_is_dropped_at_once_has_told_the_agent_its_last_words() {
        use cavalcade_protocol::{AgentMessage, ClientMessage, Frames, PROTOCOL, frame};
        use std::io::Read;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let agent = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let (mut frames, mut chunk, mut last) = (Frames::default(), vec![0; 1 << 16], None);
            while let Ok(length @ 1..) = socket.read(&mut chunk) {
                frames.push(&chunk[..length]);
                while let Some(said) = frames.pop::<ClientMessage>().unwrap() {
                    if matches!(said, ClientMessage::Hello { .. }) {
                        let (port, period) =
                            (cavalcade_model::PortId(0), cavalcade_model::Nanos::from_millis(10));
                        let lease = cavalcade_model::Nanos::from_secs(60);
                        let welcome = AgentMessage::Welcome { protocol: PROTOCOL, port, period, lease };
                        let mut bytes = Vec::new();
                        frame(&welcome, &mut bytes).unwrap();
                        socket.write_all(&bytes).unwrap();
                    }
                    if let ClientMessage::Register { request, .. } = said {
                        let coflow = CoflowKey { task: 7, stage: 0, serial: 7 };
                        let facts = cavalcade_protocol::Facts {
                            arrival: Instant(7),
                            deadline: None,
                            size: None,
                            class: cavalcade_model::TaskClass::Online,
                            weight: 1,
                            name: None,
                        };
                        let mut bytes = Vec::new();
                        frame(&AgentMessage::Registered { request, coflow, facts }, &mut bytes).unwrap();
                        socket.write_all(&bytes).unwrap();
                    }
                    last = Some(said);
                }
            }
            last
        });
        let session = Session::open(&path).unwrap();
        assert!(session.wait_ready(Duration::from_secs(60)));
        let coflow = session.register(Registration::default()).unwrap();
        session.unregister(coflow);
        drop(session);
        assert_eq!(agent.join().unwrap(), Some(ClientMessage::Unregister { coflow }));
    }

    #[test]
    fn in_a_forked_child_nothing_waits_for_threads_that_are_not_there_and_all_is_plain_tcp() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        // What fork leaves behind: a session of another process, whose lock a thread held that is
        // no more.
        let other = std::process::id().wrapping_add(1);
        let session = Session::of_process(vec![path], DscpMap::default(), other);
        let held = session.shared.lock();
        let coflow = session.register(Registration::default()).unwrap();
        assert_ne!(session.register(Registration::default()).unwrap(), coflow);
        let receiver = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(receiver.local_addr().unwrap()).unwrap();
        let mut stream = session.stream(socket, coflow, None).unwrap();
        stream.write_all(b"plain").unwrap();
        stream.rest();
        assert!(stream.gate().unwrap().is_none());
        assert_eq!(stream.directive(), Directive::default());
        session.grant(coflow, 7).unwrap();
        session.unregister(coflow);
        assert!(!session.wait_ready(Duration::from_secs(60)) && session.refusals().is_empty());
        drop(stream);
        drop((held, listener));
    }

    #[test]
    fn a_flow_that_was_woken_late_makes_up_for_it_and_one_that_stalled_does_not() {
        let (due, millis) = (Clock::now(), Duration::from_millis);
        assert_eq!(next_due(due, due + millis(3), millis(5)), due + millis(5));
        assert_eq!(next_due(due, due + millis(60), millis(5)), due + millis(60) - LATE + millis(5));
    }
}

//! Flows that the kernel carries: where an enforcer is at work beside the agent, connections are
//! handed over to it.
//!
//! A write then costs no more than on any other connection: the kernel holds it back, paces it and
//! counts what it sends, and the enforcer reports it to the agent. A hand-over takes no time: a
//! line is written, and the flow is plain TCP until the enforcer has read it. What is refused, and
//! everything once the enforcer is gone, the library carries itself. Where a flow ends before its
//! connection, the programs in the kernel learn it from an option of the connection, and restore
//! its settings.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use cavalcade_model::Bytes;
use cavalcade_protocol::{CoflowKey, Connection, Endpoints, Handover, enforcer_beside};

use crate::gate::Gate;
use crate::options::{self, Options};
use crate::session::Shared;

/// The time between two attempts to reach an enforcer.
const RETRY: Duration = Duration::from_secs(1);
/// The time from a refusal to the next connection that is handed over.
const RETRY_REFUSED: Duration = Duration::from_millis(100);
/// The longest time for an enforcer to answer before nothing more is handed over to it.
const PATIENCE: Duration = Duration::from_millis(200);
/// The time in which kernel programs whose enforcer was killed may still reset rates and classes.
const AFTERMATH: Duration = Duration::from_secs(5);

/// The part that carries orders out for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The library, as this flow of its client.
    Library(u32),
    /// The kernel, as this connection that was handed over.
    Kernel(u32),
    /// Neither: plain TCP.
    Nobody,
}

/// What a stream and its session know of it.
#[derive(Debug)]
pub(crate) struct Carriage {
    by: AtomicU64,
    /// Bytes written while the kernel carries it.
    sent: AtomicU64,
    /// Wakes writers when the flow may send; created by the first that waits.
    pub(crate) gate: OnceLock<Gate>,
}

const KERNEL: u64 = 1 << 32;
const NOBODY: u64 = u64::MAX;

impl Carriage {
    pub(crate) fn new(by: By) -> Arc<Self> {
        let made = Self { by: AtomicU64::new(NOBODY), sent: AtomicU64::new(0), gate: OnceLock::new() };
        made.set(by);
        Arc::new(made)
    }

    /// The order of memory does not matter: a write that is late by one is as if it had begun
    /// earlier.
    pub(crate) fn by(&self) -> By {
        match self.by.load(Ordering::Relaxed) {
            NOBODY => By::Nobody,
            kernel @ KERNEL.. => By::Kernel((kernel - KERNEL) as u32),
            flow => By::Library(flow as u32),
        }
    }

    pub(crate) fn set(&self, by: By) {
        let word = match by {
            By::Library(flow) => u64::from(flow),
            By::Kernel(number) => KERNEL + u64::from(number),
            By::Nobody => NOBODY,
        };
        self.by.store(word, Ordering::Relaxed);
    }

    /// Publishes to waiting writers whether the flow may send.
    pub(crate) fn show(&self, may_send: bool) {
        if let Some(gate) = self.gate.get() {
            gate.show(may_send);
        }
    }

    /// Adds bytes that the kernel has accepted.
    pub(crate) fn note_sent(&self, more: usize) {
        self.sent.fetch_add(more as u64, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

/// A connection that is to carry a flow, with all that it takes to carry it.
#[derive(Debug)]
pub(crate) struct Opening {
    /// Of a copy of the connection.
    pub(crate) options: Options,
    pub(crate) ends: Endpoints,
    pub(crate) coflow: CoflowKey,
    pub(crate) size: Option<Bytes>,
    /// The most bytes that may wait in the kernel at first where the library holds back.
    pub(crate) unsent: usize,
    pub(crate) carriage: Arc<Carriage>,
}

/// A flow that was over before the enforcer had answered.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ends: Endpoints,
    pub(crate) coflow: CoflowKey,
    pub(crate) sent: u64,
    /// Those of a connection that goes on.
    stays: Option<Options>,
}

/// What is the library's again.
#[derive(Debug)]
pub(crate) enum Returned {
    Open {
        opening: Opening,
        /// True if the enforcer has reported to the agent what it has sent so far.
        is_told: bool,
    },
    Ended(Ended),
}

/// The connection to the enforcer, and what was handed over to it.
#[derive(Debug, Default)]
pub(crate) struct KernelPath {
    enforcer: Option<UnixStream>,
    /// Those asked for and when, in the order of the answers.
    asked: VecDeque<(u32, Instant)>,
    handed: BTreeMap<u32, Opening>,
    /// Those of the ones asked for that are over.
    ended: BTreeMap<u32, Ended>,
    next: u32,
    refused_at: Option<Instant>,
}

impl KernelPath {
    /// Hands a connection over; returns it where that cannot be asked for.
    pub(crate) fn hand_over(&mut self, mut opening: Opening) -> Option<Opening> {
        let was_refused = self.refused_at.is_some_and(|at| at.elapsed() < RETRY_REFUSED);
        let hangs = self.asked.front().is_some_and(|(_, at)| at.elapsed() > PATIENCE);
        let asks = !was_refused && !hangs;
        let Some(enforcer) = self.enforcer.as_ref().filter(|_| asks) else { return Some(opening) };
        let Opening { coflow, size: sends, .. } = opening;
        let Ok(cookie) = options::cookie(opening.options.socket()) else { return Some(opening) };
        let connection = Connection::Descriptor { number: opening.options.socket().as_raw_fd(), cookie };
        let line = format!("{}\n", Handover { connection, coflow, sends });
        match send_now(enforcer, line.as_bytes()) {
            Ok(()) => {}
            // It has much to read.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Some(opening),
            Err(_) => {
                // Its reader sees the end, and takes everything back.
                let _ = enforcer.shutdown(std::net::Shutdown::Both);
                return Some(opening);
            }
        }
        let number = self.next;
        self.next = number.wrapping_add(1);
        opening.carriage.set(By::Kernel(number));
        opening.options.hand_over();
        self.asked.push_back((number, Instant::now()));
        self.handed.insert(number, opening);
        None
    }

    /// A stream is over, and its connection `stays` or is about to be closed.
    pub(crate) fn close(&mut self, number: u32, stays: bool) {
        let Some(Opening { ends, coflow, carriage, options, .. }) = self.handed.remove(&number) else {
            return;
        };
        carriage.set(By::Nobody);
        let stays = stays.then_some(options);
        if self.is_asked(number) {
            self.ended.insert(number, Ended { ends, coflow, sent: carriage.sent(), stays });
        } else if let Some(options) = stays {
            options.release();
        }
    }

    /// The numbers of a coflow's connections.
    pub(crate) fn numbers_of(&self, coflow: CoflowKey) -> Vec<u32> {
        let of_coflow = self.handed.iter().filter(|(_, opening)| opening.coflow == coflow);
        of_coflow.map(|(&number, _)| number).collect()
    }

    /// Returns whether the enforcer has yet to answer for it: numbers are consecutive.
    fn is_asked(&self, number: u32) -> bool {
        self.asked.front().is_some_and(|&(first, _)| number.wrapping_sub(first) < self.asked.len() as u32)
    }

    /// Takes an answer in. Returns what is refused.
    fn answer(&mut self, is_taken: bool) -> Option<Returned> {
        let (number, _) = self.asked.pop_front()?;
        let ended = self.ended.remove(&number);
        if is_taken {
            ended.and_then(|ended| ended.stays).iter().for_each(Options::release);
            return None;
        }
        ended.map(Returned::Ended).or_else(|| {
            self.refused_at = Some(Instant::now());
            self.handed.remove(&number).map(|opening| Returned::Open { opening, is_told: false })
        })
    }

    /// Handles the loss of the enforcer. Returns all that was handed over.
    fn lose(&mut self) -> Vec<Returned> {
        self.enforcer = None;
        let handed = std::mem::take(&mut self.handed).into_iter();
        let handed = handed.map(|(number, opening)| {
            let is_told = !self.is_asked(number);
            Returned::Open { opening, is_told }
        });
        let mut returned: Vec<Returned> = handed.collect();
        returned.extend(std::mem::take(&mut self.ended).into_values().map(Returned::Ended));
        self.asked.clear();
        returned
    }

    /// Wakes the reader of its connection, which then ends.
    pub(crate) fn hang_up(&self) {
        if let Some(enforcer) = &self.enforcer {
            let _ = enforcer.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Writes all of it without waiting.
fn send_now(socket: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    #[expect(
        unsafe_code,
        reason = "the standard library writes without waiting only where reads do not wait either"
    )]
    // SAFETY: the descriptor is open as long as `socket`, and the kernel reads as many bytes as
    // there are.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    if sent == bytes.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Looks for the enforcer of the agent until the session is dropped: beside that one of these
/// places where the agent answered last.
pub(crate) fn keep_enforcer(weak: &Weak<Shared>, places: &[PathBuf]) {
    let mut lost_at = None;
    while let Some(at) = weak.upgrade().map(|shared| shared.lock().place) {
        let agent = &places[at];
        let socket =
            UnixStream::connect(enforcer_beside(agent)).ok().filter(|socket| is_trusted(socket, agent));
        if lost_at.is_some_and(|at: Instant| at.elapsed() < AFTERMATH)
            && let Some(shared) = weak.upgrade()
        {
            shared.obey_again();
        }
        if let Some(socket) = socket {
            // Whatever ends it, what was handed over is the library's again.
            let _ = attend(weak, socket);
            let Some(shared) = weak.upgrade() else { return };
            let mut state = shared.lock();
            lost_at = Some(Instant::now());
            let lost = state.kernel.lose();
            lost.into_iter().for_each(|returned| shared.take_back(&mut state, returned));
        }
        std::thread::sleep(RETRY);
    }
}

/// Returns whether the listener is root, this user, or the owner of the agent's socket: other users
/// may have put a socket of theirs there.
fn is_trusted(socket: &UnixStream, agent: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::metadata(agent).map(|found| found.uid());
    #[expect(unsafe_code, reason = "the standard library does not say who this is")]
    // SAFETY: it takes nothing and always succeeds.
    let own = unsafe { libc::geteuid() };
    options::peer_of(socket)
        .is_ok_and(|peer| peer == 0 || peer == own || owner.is_ok_and(|owner| peer == owner))
}

/// One connection, until its end.
fn attend(weak: &Weak<Shared>, socket: UnixStream) -> io::Result<()> {
    send_now(&socket, format!("{}\n", Handover::HELLO).as_bytes())?;
    let answers = BufReader::new(socket.try_clone()?);
    let Some(shared) = weak.upgrade() else { return Ok(()) };
    shared.lock().kernel.enforcer = Some(socket);
    drop(shared);
    for answer in answers.lines() {
        let is_taken = answer?.starts_with("ok ");
        let Some(shared) = weak.upgrade() else { return Ok(()) };
        let mut state = shared.lock();
        if let Some(returned) = state.kernel.answer(is_taken) {
            shared.take_back(&mut state, returned);
        }
    }
    Ok(())
}

//! The thread of an endpoint: datagrams in, time, datagrams out.
//!
//! It sleeps until a datagram, a timer or a caller wakes it, works off what there is in batches,
//! and lets the lock go between two batches. What is to leave leaves in the order of tasks, as the
//! switches would have it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use cavalcade_model::Instant;
use cavalcade_transport::stream::frame::{Frame, FrameKind, Malformed, Reason};
use cavalcade_transport::stream::{Connection, LARGEST};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::endpoint::{Entry, Key, Shared, State};

/// Datagrams that are taken in before something is sent.
const BATCH: usize = 64;

/// Turns the endpoint until its last handle has gone and all is acknowledged.
pub(crate) fn run(shared: &Arc<Shared>) {
    let mut turn = Turn { shared, bytes: Vec::with_capacity(usize::from(LARGEST)), stuck: None };
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let outcome = turn.sleep().and_then(|()| turn.work(&mut buffer));
        match outcome {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                fail(shared, &error);
                return;
            }
        }
    }
}

/// Ends all calls with the error that ended the thread.
fn fail(shared: &Shared, error: &io::Error) {
    let mut state = shared.lock();
    state.failed = Some((error.kind(), format!("the endpoint's socket failed: {error}")));
    for entry in state.entries.values_mut() {
        entry.changed.notify_all();
        entry.show(true);
        [entry.reader.take(), entry.writer.take()].into_iter().flatten().for_each(std::task::Waker::wake);
    }
    shared.accepting.notify_all();
    state.acceptors.drain(..).for_each(std::task::Waker::wake);
    state.show_waiting();
}

struct Turn<'a> {
    shared: &'a Shared,
    /// The datagram that is being written.
    bytes: Vec<u8>,
    /// A datagram for which the socket had no room.
    stuck: Option<(Vec<u8>, SocketAddr)>,
}

impl Turn<'_> {
    /// Waits for something to do.
    fn sleep(&self) -> io::Result<()> {
        let timeout = {
            let state = self.shared.lock();
            let next = state.timers.first().map(|&(at, _)| at);
            let busy = (!state.dirty.is_empty() && self.stuck.is_none())
                || state.closing && state.entries.is_empty();
            if busy { Some(0) } else { next.map(|at| at.get().saturating_sub(self.shared.now().get())) }
        };
        let timeout = timeout.map(|nanos| Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        });
        let mut events = PollFlags::IN;
        if self.stuck.is_some() {
            events |= PollFlags::OUT;
        }
        let mut sources =
            [PollFd::new(&self.shared.socket, events), PollFd::new(&self.shared.wake, PollFlags::IN)];
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !sources[1].revents().is_empty() {
            let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        }
        Ok(())
    }

    /// Takes in what has arrived, lets time pass, sends. False once there is nothing left to do for
    /// ever.
    fn work(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut state = self.shared.lock();
        let now = self.shared.now();
        for _ in 0..BATCH {
            match self.shared.socket.recv_from(buffer) {
                // No answer can be sent to port 0.
                Ok((_, peer)) if peer.port() == 0 => state.counters.malformed += 1,
                Ok((length, peer)) => self.receive(&mut state, now, &buffer[..length], peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A peer's ICMP message, say: what it means shows in what does not arrive.
                Err(error) if !is_lasting(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while let Some(&(at, key)) = state.timers.first()
            && at <= now
        {
            state.timers.remove(&(at, key));
            if let Some(entry) = state.entries.get_mut(&key) {
                entry.armed = None;
                entry.connection.handle_timeout(now);
            }
            state.mark(key);
        }
        self.send(&mut state, now)?;
        Ok(!(state.closing && state.entries.is_empty()))
    }

    fn receive(&mut self, state: &mut State, now: Instant, bytes: &[u8], peer: SocketAddr) {
        let counters = &mut state.counters;
        let frame = match Frame::decode(bytes) {
            Ok(frame) => frame,
            Err(why) => {
                *match why {
                    Malformed::Foreign => &mut counters.foreign,
                    Malformed::Short | Malformed::Field => &mut counters.malformed,
                    Malformed::Checksum => &mut counters.corrupt,
                } += 1;
                return;
            }
        };
        counters.received += 1;
        let key = (frame.connection, !frame.accepted);
        match state.entries.get_mut(&key) {
            Some(entry) if entry.peer == peer => {
                let before = entry.connection.is_open();
                entry.connection.handle(now, &frame);
                if !before && entry.connection.is_open() && key.1 {
                    state.waiting.push_back(key);
                    self.shared.accepting.notify_one();
                    state.acceptors.drain(..).for_each(std::task::Waker::wake);
                    state.show_waiting();
                }
                state.mark(key);
            }
            Some(_) => state.counters.unknown += 1,
            None => self.receive_unknown(state, now, &frame, key, peer),
        }
    }

    /// A frame of no connection opens one, or its sender is told that there is none.
    fn receive_unknown(
        &mut self,
        state: &mut State,
        now: Instant,
        frame: &Frame<'_>,
        key: Key,
        peer: SocketAddr,
    ) {
        let opens = frame.opening && frame.kind == FrameKind::Probe && key.1;
        if opens && state.listeners > 0 && self.make_room(state) {
            let settings = self.shared.settings_for(peer);
            if let Some(connection) = Connection::accept(now, frame, settings) {
                state.entries.insert(key, Entry::new(connection, peer, now));
                state.mark(key);
            } else {
                state.counters.malformed += 1;
            }
            return;
        }
        let reason = if opens { Reason::Refused } else { Reason::Unknown };
        *(if opens { &mut state.counters.refused } else { &mut state.counters.unknown }) += 1;
        if frame.kind != FrameKind::Reset {
            let reset = Frame { accepted: key.1, ..Frame::reset(frame.connection, frame.spc.task(), reason) };
            reset.encode(&mut self.bytes);
            // Lost like any other packet where there is no room.
            let sent = self.shared.socket.send_to(&self.bytes, peer).is_ok();
            state.counters.sent += u64::from(sent);
        }
    }

    /// Returns whether another connection may begin: one that was not confirmed makes room, the
    /// oldest first.
    fn make_room(&self, state: &mut State) -> bool {
        let options = &self.shared.options;
        let unheld = state
            .entries
            .iter()
            .filter(|(key, entry)| key.1 && !entry.held && entry.connection.ending().is_none());
        let pending = unheld
            .clone()
            .filter(|(key, entry)| !entry.connection.is_open() || state.waiting.contains(key))
            .count();
        if pending < options.backlog && state.entries.len() < options.most_connections {
            return true;
        }
        let oldest = unheld
            .filter(|(_, entry)| !entry.connection.is_open())
            .min_by_key(|(_, entry)| entry.since)
            .map(|(&key, _)| key);
        oldest.is_some_and(|key| {
            remove(state, key);
            true
        })
    }

    /// Sends what may leave, by task, until the socket has no room.
    fn send(&mut self, state: &mut State, now: Instant) -> io::Result<()> {
        if let Some((bytes, peer)) = self.stuck.take() {
            self.bytes = bytes;
            match self.launch(state, peer) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // The path has become narrower while it waited: its connection finds out by the
                // next one.
                Err(error) if !is_lasting(&error) => state.counters.unsent += 1,
                Err(error) => return Err(error),
            }
        }
        while let Some(&(task, key)) = state.dirty.first() {
            if !self.send_of(state, now, key)? {
                return Ok(());
            }
            state.dirty.remove(&(task, key));
            settle(state, key);
        }
        Ok(())
    }

    /// Sends all that a connection may send now. False where the socket has no room.
    fn send_of(&mut self, state: &mut State, now: Instant, key: Key) -> io::Result<bool> {
        loop {
            let Some(entry) = state.entries.get_mut(&key) else { return Ok(true) };
            let peer = entry.peer;
            let Some(frame) = entry.connection.poll_transmit(now) else { return Ok(true) };
            frame.encode(&mut self.bytes);
            match self.launch(state, peer) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) => {
                    state.counters.unsent += 1;
                    if let Some(entry) = state.entries.get_mut(&key) {
                        entry.connection.handle_too_large(now);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends the datagram that has been written. False where the socket has no room: it is kept.
    /// Fails where it is too large, and where there is no socket any more.
    fn launch(&mut self, state: &mut State, peer: SocketAddr) -> io::Result<bool> {
        match self.shared.socket.send_to(&self.bytes, peer) {
            Ok(_) => state.counters.sent += 1,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.stuck = Some((std::mem::take(&mut self.bytes), peer));
                return Ok(false);
            }
            Err(error)
                if is_lasting(&error) || error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) =>
            {
                return Err(error);
            }
            // The peer, the path or the moment is to blame. All streams share the socket: one
            // packet ends none of the others.
            Err(_) => state.counters.unsent += 1,
        }
        Ok(true)
    }
}

/// Returns whether an error says that there is no socket any more. All else is one packet's, path's
/// or moment's: a list of those errors is never whole, and what is missing in it lets one packet
/// end all streams.
fn is_lasting(error: &io::Error) -> bool {
    let lasting = [Errno::BADF, Errno::NOTSOCK];
    lasting.into_iter().any(|lasting| error.raw_os_error() == Some(lasting.raw_os_error()))
}

/// Sets a connection's timer, wakes its waiters, and removes it once it is closed and has no
/// handle.
fn settle(state: &mut State, key: Key) {
    let Some(entry) = state.entries.get_mut(&key) else { return };
    let connection = &entry.connection;
    if connection.ending().is_some() && !entry.held && !state.waiting.contains(&key) {
        remove(state, key);
        return;
    }
    let next = connection.poll_timeout();
    if entry.can_be_read() {
        entry.reader.take().into_iter().for_each(std::task::Waker::wake);
    }
    if entry.can_be_written() {
        entry.writer.take().into_iter().for_each(std::task::Waker::wake);
    }
    entry.show(false);
    entry.changed.notify_all();
    if next != entry.armed {
        if let Some(before) = std::mem::replace(&mut entry.armed, next) {
            state.timers.remove(&(before, key));
        }
        state.timers.extend(next.map(|at| (at, key)));
    }
}

fn remove(state: &mut State, key: Key) {
    if let Some(entry) = state.entries.remove(&key) {
        if let Some(armed) = entry.armed {
            state.timers.remove(&(armed, key));
        }
        state.dirty.remove(&(entry.connection.task(), key));
    }
}

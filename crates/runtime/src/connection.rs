//! Messages over anything that reads and writes bytes.
//!
//! What is sent is put into bytes at once and waits in one buffer for each connection: a round of a hundred thousand orders
//! is then a thousand writes, without a message in a queue for each.
//!
//! What waits in either direction is counted by a [`Meter`] that connections share, so that many of them hold no more than one
//! may. A frame that was begun has to be finished in a while: else half of one would be kept for ever.

use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use std::time::Duration;

use cavalcade_protocol::{Frames, Message, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::meter::{Held, Meter};

/// Bytes that wait for a slow peer before its connection is given up, beside one message: what comes so late is worthless.
const BACKLOG: usize = 4 << 20;
/// Bytes that a connection has not taken yet from which on it is better not to write more: changes gather meanwhile.
const BEHIND: usize = 1 << 20;
/// Bytes read at once: the reports of many agents on one connection, and not too much where each has its own.
const CHUNK: usize = 16 << 10;

/// The longest time to the end of a frame that was begun.
const FRAME_WITHIN: Duration = Duration::from_secs(10);

/// The limits of the other side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes of its first message.
    pub(crate) first: usize,
    /// Bytes of its longest message.
    pub(crate) frame: usize,
    /// Longest time before its first message.
    pub(crate) first_within: Duration,
    /// Longest silence after that; no limit where none is named.
    pub(crate) idle: Option<Duration>,
    /// The meter of what it holds, shared with others.
    pub(crate) meter: Meter,
}

/// The messages that wait to be written.
#[derive(Debug, Default)]
struct Waiting {
    bytes: RefCell<Vec<u8>>,
    /// Those bytes, as they are counted.
    held: RefCell<Option<Held>>,
    /// Bytes that are being written.
    writing: Cell<usize>,
    /// Notifies that there is something, or that nothing more will come.
    news: Notify,
    /// Notifies that something was written.
    written: Notify,
}

/// The way of messages to a peer. Dropping it closes the connection once they are written.
#[derive(Debug)]
pub(crate) struct Outlet<M> {
    waiting: Rc<Waiting>,
    /// Gone with the connection.
    connection: Weak<()>,
    meter: Meter,
    /// Ends the connection at once.
    abort: Rc<Notify>,
    messages: PhantomData<fn(M)>,
}

impl<M: Message> Outlet<M> {
    /// Ends the connection at once, also where its other end reads nothing any more.
    pub(crate) fn abort(self) {
        self.abort.notify_one();
    }

    /// Returns whether the other end is slow to take what was sent.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.bytes.borrow().len() + self.waiting.writing.get() > BEHIND
    }

    /// Waits until something was written.
    pub(crate) async fn written(&self) {
        self.waiting.written.notified().await;
    }

    /// Sends a message; `false` where the connection is gone, or does not keep up.
    pub(crate) fn send(&self, message: &M) -> bool {
        let mut bytes = self.waiting.bytes.borrow_mut();
        if self.connection.strong_count() == 0 || bytes.len() > BACKLOG {
            return false;
        }
        let Some(nothing) = self.meter.hold(0) else { return false };
        if bytes.is_empty() {
            self.waiting.news.notify_one();
        }
        let is_sent = frame(message, &mut bytes).is_ok();
        self.waiting.held.borrow_mut().get_or_insert(nothing).set(bytes.len());
        is_sent
    }
}

impl<M> Drop for Outlet<M> {
    fn drop(&mut self) {
        self.waiting.news.notify_one();
    }
}

/// Runs a connection: hands every message that arrives to `hear`, writes what the outlet gets. Returns the outlet; `gone` is
/// called once, when the connection is over for whatever reason.
pub(crate) fn run<S, In, Out>(
    stream: S,
    limits: Limits,
    mut hear: impl FnMut(In, Held) + 'static,
    gone: impl FnOnce() + 'static,
) -> Outlet<Out>
where
    S: AsyncRead + AsyncWrite + 'static,
    In: Message + 'static,
    Out: Message + 'static,
{
    let (waiting, connection) = (Rc::new(Waiting::default()), Rc::new(()));
    let abort = Rc::new(Notify::new());
    let outlet = Outlet {
        waiting: Rc::clone(&waiting),
        connection: Rc::downgrade(&connection),
        meter: limits.meter.clone(),
        abort: Rc::clone(&abort),
        messages: PhantomData,
    };
    tokio::task::spawn_local(async move {
        let (reader, writer) = tokio::io::split(stream);
        tokio::select! {
            _ = read(reader, limits, &mut hear) => {}
            () = abort.notified() => {}
            _ = write(writer, waiting) => {}
        }
        drop(connection);
        gone();
    });
    outlet
}

async fn read<In: Message>(
    mut reader: impl AsyncRead + Unpin,
    limits: Limits,
    hear: &mut impl FnMut(In, Held),
) -> io::Result<()> {
    let meter = &limits.meter;
    let mut frames = Frames::with_limit(limits.first);
    let mut held = meter.take(0);
    let mut chunk = vec![0; CHUNK];
    let mut until = Some(tokio::time::Instant::now() + limits.first_within);
    let mut is_begun = false;
    loop {
        let next = async {
            meter.admit().await;
            reader.read(&mut chunk).await
        };
        let length = match until {
            Some(until) => tokio::time::timeout_at(until, next).await??,
            None => next.await?,
        };
        if length == 0 {
            return Ok(());
        }
        frames.push(&chunk[..length]);
        let mut before = frames.waiting();
        let mut messages = 0;
        while let Some(message) = frames.pop().map_err(io::Error::other)? {
            hear(message, meter.take(before - frames.waiting()));
            before = frames.waiting();
            messages += 1;
        }
        held.set(frames.waiting());
        if messages > 0 {
            meter.count(messages);
            frames.set_limit(limits.frame);
            until = limits.idle.map(|idle| tokio::time::Instant::now() + idle);
            is_begun = false;
        }
        if !is_begun && frames.waiting() > 0 {
            let within = tokio::time::Instant::now() + FRAME_WITHIN;
            until = Some(until.map_or(within, |until| until.min(within)));
            is_begun = true;
        }
    }
}

/// Writes all that waits at once: one system call for a whole round.
async fn write(mut writer: impl AsyncWrite + Unpin, waiting: Rc<Waiting>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        std::mem::swap(&mut bytes, &mut waiting.bytes.borrow_mut());
        let held = waiting.held.take();
        if !bytes.is_empty() {
            waiting.writing.set(bytes.len());
            writer.write_all(&bytes).await?;
            waiting.writing.set(0);
            waiting.written.notify_one();
            drop(held);
        } else if Rc::strong_count(&waiting) == 1 {
            // The outlet is gone.
            return writer.shutdown().await;
        } else {
            waiting.news.notified().await;
        }
    }
}

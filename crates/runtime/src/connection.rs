//! Messages over anything that reads and writes bytes.
//!
//! What is sent is put into bytes at once and waits in one buffer for each connection: a round of a hundred thousand orders
//! is then a thousand writes, without a message in a queue for each.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use std::time::Duration;

use cavalcade_protocol::{Frames, Message, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Bytes that wait for a slow peer before its connection is given up, beside one message: what comes so late is worthless.
const BACKLOG: usize = 4 << 20;
/// Bytes read at once: the reports of many agents on one connection, and not too much where each has its own.
const CHUNK: usize = 16 << 10;

/// What the other side of a connection may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of its longest message.
    pub(crate) frame: usize,
    /// How long its first message may take.
    pub(crate) first_within: Duration,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Waiting {
    bytes: RefCell<Vec<u8>>,
    /// That there is something, or that nothing will come any more.
    news: Notify,
}

/// Where messages to a peer go. Dropping it closes the connection once they are written.
#[derive(Debug)]
pub(crate) struct Outlet<M> {
    waiting: Rc<Waiting>,
    /// Gone with the connection.
    connection: Weak<()>,
    /// Ends the connection at once.
    abort: Rc<Notify>,
    messages: PhantomData<fn(M)>,
}

impl<M: Message> Outlet<M> {
    /// Ends the connection at once, also where its other end reads nothing any more.
    pub(crate) fn abort(self) {
        self.abort.notify_one();
    }

    /// Sends a message; `false` where the connection is gone, or does not keep up.
    pub(crate) fn send(&self, message: &M) -> bool {
        let mut bytes = self.waiting.bytes.borrow_mut();
        if self.connection.strong_count() == 0 || bytes.len() > BACKLOG {
            return false;
        }
        if bytes.is_empty() {
            self.waiting.news.notify_one();
        }
        frame(message, &mut bytes).is_ok()
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
    mut hear: impl FnMut(In) + 'static,
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
    hear: &mut impl FnMut(In),
) -> io::Result<()> {
    let mut frames = Frames::with_limit(limits.frame);
    let mut chunk = vec![0; CHUNK];
    let first_until = tokio::time::Instant::now() + limits.first_within;
    let mut is_first = true;
    loop {
        let length = if is_first {
            tokio::time::timeout_at(first_until, reader.read(&mut chunk)).await??
        } else {
            reader.read(&mut chunk).await?
        };
        if length == 0 {
            return Ok(());
        }
        frames.push(&chunk[..length]);
        while let Some(message) = frames.pop().map_err(io::Error::other)? {
            hear(message);
            is_first = false;
        }
    }
}

/// Writes all that waits at once: one system call for a whole round.
async fn write(mut writer: impl AsyncWrite + Unpin, waiting: Rc<Waiting>) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        std::mem::swap(&mut bytes, &mut waiting.bytes.borrow_mut());
        if !bytes.is_empty() {
            writer.write_all(&bytes).await?;
        } else if Rc::strong_count(&waiting) == 1 {
            // The outlet is gone.
            return writer.shutdown().await;
        } else {
            waiting.news.notified().await;
        }
    }
}

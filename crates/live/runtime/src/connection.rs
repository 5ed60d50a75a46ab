//! Messages over anything that reads and writes bytes.
//!
//! What is sent is put into bytes at once and waits in one buffer for each connection: a round of a
//! hundred thousand orders is then a thousand writes, without a message in a queue for each.
//!
//! What waits in either direction is counted by a [`Meter`] that connections share, so that many of
//! them hold no more than one may. Incomplete frames time out, and so does what is still to be
//! written when a connection is closed: a peer that sends half a frame, or does not read, is
//! disconnected.
//!
//! Messages are handed on a few at a time, and others get their turn in between: a connection full
//! of them keeps no other waiting.

use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use std::time::Duration;

use cavalcade_protocol::{Frames, Message, WireError, frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

use crate::meter::{Held, Meter};

/// Bytes that wait for a slow peer before its connection is given up, beside one message: what
/// comes so late is worthless.
const BACKLOG: usize = 4 << 20;
/// Bytes that a connection has not taken yet from which on it is better not to write more: changes
/// gather meanwhile.
const BEHIND: usize = 1 << 20;
/// Bytes read at once: the reports of many agents on one connection, and not too much where each
/// has its own.
const CHUNK: usize = 16 << 10;

/// The longest time to the end of a frame that was begun.
const FRAME_WITHIN: Duration = Duration::from_secs(10);
/// The longest time to the end of a connection that was given up: for its last messages.
const CLOSED_WITHIN: Duration = Duration::from_secs(1);
/// Messages of one connection that are handed on before others have their turn.
const TURN: u32 = 64;
/// Bytes of messages that were handed on and not handled yet, from which on no more are: what
/// others say does not wait behind all that one connection has to say.
const QUEUE: usize = 64 << 10;

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
    /// True once the outlet is gone, and notifies of that.
    is_given_up: Cell<bool>,
    given_up: Notify,
}

/// Why a connection is over, where it did not just end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// What came is no message.
    Garbage(WireError),
    /// The first message, the rest of one or any did not come in time.
    Late(&'static str),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Garbage(error) => write!(f, "what it said is no message: {error}"),
            Self::Late(what) => f.write_str(what),
        }
    }
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
        self.waiting.is_given_up.set(true);
        self.waiting.news.notify_one();
        self.waiting.given_up.notify_one();
    }
}

/// Runs a connection: hands every message that arrives to `hear`, writes what the outlet gets.
/// Returns the outlet; `gone` is called once, when the connection is over for whatever reason, with
/// the other side's fault if it was one.
pub(crate) fn run<S, In, Out>(
    stream: S,
    limits: Limits,
    mut hear: impl FnMut(In, Held) + 'static,
    gone: impl FnOnce(Option<Fault>) + 'static,
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
        let fault = tokio::select! {
            fault = read(reader, limits, &mut hear) => fault,
            () = abort.notified() => None,
            () = overdue(Rc::clone(&waiting)) => None,
            _ = write(writer, waiting) => None,
        };
        drop(connection);
        gone(fault);
    });
    outlet
}

/// Reads until the connection ends; returns why, where that is a fault of the other side.
async fn read<In: Message>(
    mut reader: impl AsyncRead + Unpin,
    limits: Limits,
    hear: &mut impl FnMut(In, Held),
) -> Option<Fault> {
    let meter = &limits.meter;
    let queue = meter.queue(QUEUE);
    let mut frames = Frames::with_limits(limits.first, limits.frame);
    let mut held = meter.take(0);
    let mut chunk = vec![0; CHUNK];
    let mut until = Some((tokio::time::Instant::now() + limits.first_within, "it said nothing in time"));
    let mut is_begun = false;
    loop {
        let next = async {
            meter.room().await;
            reader.read(&mut chunk).await
        };
        let length = match until {
            Some((until, late)) => match tokio::time::timeout_at(until, next).await {
                Ok(length) => length,
                Err(_) => return Some(Fault::Late(late)),
            },
            None => next.await,
        };
        let length = length.ok().filter(|&length| length > 0)?;
        frames.push(&chunk[..length]);
        held.set(frames.waiting());
        let mut messages = 0;
        loop {
            let before = frames.waiting();
            let message = match frames.pop() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Some(Fault::Garbage(error)),
            };
            hear(message, queue.take(before - frames.waiting() + size_of::<In>()));
            held.set(frames.waiting());
            meter.count(1);
            messages += 1;
            if messages % TURN == 0 {
                tokio::task::yield_now().await;
            }
            queue.handled().await;
            meter.pace().await;
        }
        if messages > 0 {
            let silent = "it said nothing for too long";
            until = limits.idle.map(|idle| (tokio::time::Instant::now() + idle, silent));
            is_begun = false;
        }
        if !is_begun && frames.waiting() > 0 {
            let within = (tokio::time::Instant::now() + FRAME_WITHIN, "it left a message unfinished");
            until = Some(until.filter(|until| until.0 < within.0).unwrap_or(within));
            is_begun = true;
        }
    }
}

/// Waits until a connection that was given up has had its time.
async fn overdue(waiting: Rc<Waiting>) {
    waiting.given_up.notified().await;
    tokio::time::sleep(CLOSED_WITHIN).await;
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
        } else if waiting.is_given_up.get() {
            return writer.shutdown().await;
        } else {
            waiting.news.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use cavalcade_protocol::{AgentMessage, ClientMessage, PROTOCOL};

    use super::*;

    fn limits(meter: &Meter) -> Limits {
        let within = Duration::from_secs(60);
        Limits { first: 1 << 16, frame: 1 << 16, first_within: within, idle: None, meter: meter.clone() }
    }

    fn run_here(work: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, work);
    }

    #[test]
    fn what_comes_with_the_first_message_in_one_read_is_held_to_the_limit_of_later_ones() {
        run_here(async {
            let short = ClientMessage::Hello { protocol: PROTOCOL, client: 1 };
            let key = cavalcade_protocol::CoflowKey { task: 1, stage: 0, serial: 1 };
            let mut bytes = Vec::new();
            frame(&short, &mut bytes).expect("it is short");
            let first = bytes.len();
            let long = ClientMessage::Register {
                request: 1,
                parents: vec![key; 100],
                deadline: None,
                size: None,
                class: cavalcade_model::TaskClass::Online,
                weight: 1,
                name: None,
            };
            frame(&long, &mut bytes).expect("it is short enough");
            let (near, mut far) = tokio::io::duplex(1 << 20);
            far.write_all(&bytes).await.unwrap();
            drop(far);
            let (count, (over, is_over)) = (Rc::new(Cell::new(0)), tokio::sync::oneshot::channel());
            let heard = Rc::clone(&count);
            let hear = move |_: ClientMessage, _| heard.set(heard.get() + 1);
            let limits = Limits { first, frame: 1 << 20, ..limits(&Meter::new(1 << 20, "")) };
            let _outlet: Outlet<AgentMessage> = run(near, limits, hear, |fault| _ = over.send(fault));
            assert!(is_over.await.expect("it is said").is_none());
            assert_eq!(count.get(), 2);
        });
    }

    #[test]
    fn who_reads_nothing_keeps_neither_its_connection_nor_what_waits_for_it_once_that_is_given_up() {
        run_here(async {
            let meter = Meter::new(1 << 20, "");
            let (near, far) = tokio::io::duplex(16);
            let (over, is_over) = tokio::sync::oneshot::channel();
            let outlet = run(near, limits(&meter), |_: ClientMessage, _| {}, |fault| _ = over.send(fault));
            (0..1_000).for_each(|_| assert!(outlet.send(&AgentMessage::Alive {})));
            tokio::task::yield_now().await;
            assert!(meter.held() > 0);
            drop(outlet);
            assert!(is_over.await.expect("it is said").is_none());
            assert_eq!(meter.held(), 0);
            drop(far);
        });
    }

    #[test]
    fn a_connection_hands_on_no_more_than_is_handled() {
        run_here(async {
            let mut bytes = Vec::new();
            for client in 0..100_000 {
                frame(&ClientMessage::Hello { protocol: PROTOCOL, client }, &mut bytes).expect("it is short");
            }
            let (near, mut far) = tokio::io::duplex(1 << 20);
            let writing = tokio::task::spawn_local(async move { far.write_all(&bytes).await.map(|()| far) });
            let (sender, mut inbox) = tokio::sync::mpsc::unbounded_channel();
            let hear = move |message: ClientMessage, held| drop(sender.send((message, held)));
            let meter = Meter::new(1 << 30, "");
            let _outlet: Outlet<AgentMessage> = run(near, limits(&meter), hear, |_| {});
            for _ in 0..10_000 {
                tokio::task::yield_now().await;
            }
            let most = QUEUE / size_of::<ClientMessage>() + 1;
            assert!((1..=most).contains(&inbox.len()), "{} of {most}", inbox.len());
            for _ in 0..100_000 {
                inbox.recv().await.expect("all of it comes");
            }
            drop(writing);
        });
    }

    #[test]
    fn a_connection_full_of_messages_lets_others_have_their_turn_after_a_few() {
        run_here(async {
            let mut bytes = Vec::new();
            for client in 0..1_000 {
                frame(&ClientMessage::Hello { protocol: PROTOCOL, client }, &mut bytes).expect("it is short");
            }
            let (near, mut far) = tokio::io::duplex(1 << 20);
            far.write_all(&bytes).await.unwrap();
            let heard = Rc::new(Cell::new(0));
            let count = Rc::clone(&heard);
            let hear = move |_: ClientMessage, _| count.set(count.get() + 1);
            let _outlet: Outlet<AgentMessage> = run(near, limits(&Meter::new(1 << 20, "")), hear, |_| {});
            while heard.get() == 0 {
                tokio::task::yield_now().await;
            }
            assert!(heard.get() <= 2 * TURN, "{} at once", heard.get());
        });
    }
}

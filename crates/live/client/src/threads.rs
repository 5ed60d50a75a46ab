//! The threads that keep the connection to the agent: one writes and keeps the time, one reads.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

use cavalcade_protocol::{Frames, frame};

use crate::session::{PATIENCE, Shared};

/// The time between two attempts to reach an agent that is away; less often where it refuses the
/// connection.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_REFUSED: Duration = Duration::from_secs(1);

/// Starts a thread whose name identifies it among the application's threads.
pub(crate) fn named_thread(work: impl FnOnce() + Send + 'static) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("cavalcade-client".to_owned()).spawn(work)
}

/// Looks for the agent at these places until the session is dropped.
pub(crate) fn keep_connected(weak: &Weak<Shared>, places: &[PathBuf]) {
    let mut is_said = false;
    while weak.strong_count() > 0 {
        let mut pause = RETRY;
        let found = places.iter().enumerate().find_map(|(at, place)| {
            let socket = UnixStream::connect(place).ok()?;
            // The enforcer is looked for beside it.
            weak.upgrade()?.lock().place = at;
            Some(socket)
        });
        if found.is_none() && weak.strong_count() > 0 && !std::mem::replace(&mut is_said, true) {
            tracing::warn!(?places, "no agent answers: all is plain TCP until one does");
        }
        if let Some(socket) = found {
            is_said = false;
            // Whatever ends it, the next connection starts over.
            let _ = serve_connection(weak, socket);
            let Some(shared) = weak.upgrade() else { return };
            let mut state = shared.lock();
            if std::mem::take(&mut state.is_refused) {
                pause = RETRY_REFUSED;
            }
            (state.is_ready, state.is_broken) = (false, false);
            state.client.handle_disconnected(shared.now());
            shared.take_events(&mut state);
        }
        std::thread::sleep(pause);
    }
}

/// One connection, from its hello to its end.
fn serve_connection(weak: &Weak<Shared>, mut socket: UnixStream) -> io::Result<()> {
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
        shared.take_events(&mut state);
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

/// Writes pending messages, and keeps the time.
fn talk(weak: &Weak<Shared>, socket: &mut UnixStream) -> io::Result<()> {
    let connected = std::time::Instant::now();
    let mut bytes = Vec::new();
    loop {
        let Some(shared) = weak.upgrade() else { return Ok(()) };
        let mut state = shared.lock();
        let is_silent = state.client.handle_timeout(shared.now());
        let hangs = !state.is_ready && connected.elapsed() > PATIENCE;
        shared.take_events(&mut state);
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
        state.is_writing = true;
        drop(state);
        let written = socket.write_all(&bytes);
        shared.lock().is_writing = false;
        shared.news.notify_all();
        written?;
    }
}

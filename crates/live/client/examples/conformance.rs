//! The driver of the conformance suite for Rust (see clients/README.md):
//! `conformance SOCKET blocking|tokio`.

#![allow(clippy::print_stdout, reason = "its answers are what it is for")]
#![allow(clippy::unwrap_used, reason = "a driver that cannot go on ends, and the suite says where")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::time::Duration;

use cavalcade_client::{
    AsyncCoflowStream, Bytes, CoflowKey, CoflowStream, Directive, Gate, Nanos, Registration, Session,
    TaskClass,
};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;

/// The longest time for a write to fail.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of either face; clones are the same stream.
#[derive(Clone)]
enum Stream {
    Blocking(Arc<CoflowStream>),
    Tokio(Arc<Mutex<AsyncCoflowStream>>),
}

/// What a write has come to, once.
type Writing = Receiver<io::Result<()>>;

fn start(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> Writing {
    let (done, writing) = channel();
    std::thread::spawn(move || done.send(work()));
    writing
}

struct Driver {
    session: Session,
    /// There where the face is tokio's.
    runtime: Option<Runtime>,
    /// Each with its last writes; one more waits for the one before.
    streams: BTreeMap<String, (Stream, Vec<Writing>)>,
    detached: Vec<TcpStream>,
}

/// Why a command has no answer: an argument that is none, as the library or, of its type, the
/// language says.
struct Invalid(String);

impl<E: std::fmt::Display> From<E> for Invalid {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn key(text: &str) -> Result<CoflowKey, Invalid> {
    text.parse().map_err(|()| Invalid(format!("'{text}' is no key of a coflow, as 7.0.7")))
}

impl Driver {
    fn open(&self, at: SocketAddr, key: CoflowKey, size: Option<Bytes>) -> io::Result<Stream> {
        let Some(runtime) = &self.runtime else {
            let socket = TcpStream::connect(at)?;
            return Ok(Stream::Blocking(Arc::new(self.session.stream(socket, key, size)?)));
        };
        let socket = runtime.block_on(tokio::net::TcpStream::connect(at))?;
        Ok(Stream::Tokio(Arc::new(Mutex::new(self.session.async_stream(socket, key, size)?))))
    }

    /// Begins to write `bytes`, after what is being written.
    fn write(&self, stream: &Stream, bytes: Vec<u8>, before: Vec<Writing>) -> Writing {
        let (stream, runtime) =
            (stream.clone(), self.runtime.as_ref().map(|runtime| runtime.handle().clone()));
        start(move || {
            before.into_iter().try_for_each(|before| before.recv().unwrap())?;
            match (stream, runtime) {
                (Stream::Tokio(stream), Some(runtime)) => runtime.block_on(write_all(&stream, &bytes)),
                (Stream::Blocking(stream), _) => (&*stream).write_all(&bytes),
                (Stream::Tokio(_), None) => unreachable!("streams of tokio need its runtime"),
            }
        })
    }

    /// Writes each of several at once: of tokio by a lock among tasks, as any writer.
    fn together(&mut self, name: &str, parts: Vec<Vec<u8>>) {
        let (stream, _) = self.streams.remove(name).unwrap();
        let Some(runtime) = &self.runtime else {
            let writing = parts.into_iter().map(|part| self.write(&stream, part, Vec::new())).collect();
            return drop(self.streams.insert(name.to_owned(), (stream, writing)));
        };
        let Stream::Tokio(shared) = &stream else { unreachable!("the face is tokio's") };
        let turn = Arc::new(tokio::sync::Mutex::new(()));
        let writing = parts.into_iter().map(|part| {
            let (shared, turn, (done, writing)) = (Arc::clone(shared), Arc::clone(&turn), channel());
            runtime.spawn(async move {
                let _turn = turn.lock().await;
                drop(done.send(write_all(&shared, &part).await));
            });
            writing
        });
        let writing = writing.collect();
        self.streams.insert(name.to_owned(), (stream, writing));
    }

    /// Waits for what is being written; returns its stream.
    fn written(&mut self, name: &str) -> Stream {
        let (stream, writing) = self.streams.remove(name).unwrap();
        writing.into_iter().for_each(|writing| writing.recv().unwrap().unwrap());
        stream
    }

    fn detach(&mut self, stream: Stream) {
        self.detached.push(match stream {
            Stream::Blocking(stream) => Arc::try_unwrap(stream).unwrap().into_socket(),
            Stream::Tokio(stream) => {
                let stream = Arc::try_unwrap(stream).unwrap().into_inner().unwrap();
                stream.into_socket().into_std().unwrap()
            }
        });
    }

    fn answer(&mut self, words: &[&str]) -> Result<String, Invalid> {
        Ok(match words {
            ["wait"] if self.session.wait_ready(Duration::from_secs(60)) => "ready".to_owned(),
            ["wait"] => "no agent".to_owned(),
            ["register", facts @ ..] => format!("key {}", self.session.register(registration(facts)?)?),
            ["open", name, host, port, coflow, size @ ..] => {
                let at = SocketAddr::new(host.parse()?, port.parse()?);
                let size = size.first().map(|size| size.parse()).transpose()?.map(Bytes);
                let stream = self.open(at, key(coflow)?, size)?;
                self.streams.insert((*name).to_owned(), (stream, Vec::new()));
                "opened".to_owned()
            }
            ["write", name, length, first] => {
                let bytes = contents(length.parse()?, first.parse()?);
                let (stream, before) = self.streams.remove(*name).unwrap();
                let writing = self.write(&stream, bytes, before);
                self.streams.insert((*name).to_owned(), (stream, vec![writing]));
                "writing".to_owned()
            }
            ["together", name, length, values @ ..] => {
                let length = length.parse()?;
                let parts = values.iter().map(|value| vec![value.parse().unwrap(); length]).collect();
                self.together(name, parts);
                "writing".to_owned()
            }
            ["loop", name, length, first] => {
                let bytes = contents(length.parse()?, first.parse()?);
                let (stream, _) = self.streams.remove(*name).unwrap();
                let writing = match &stream {
                    Stream::Blocking(shared) => {
                        let shared = Arc::clone(shared);
                        start(move || select(&shared, &bytes))
                    }
                    Stream::Tokio(_) => self.write(&stream, bytes, Vec::new()),
                };
                self.streams.insert((*name).to_owned(), (stream, vec![writing]));
                "writing".to_owned()
            }
            ["failed", name] => {
                let (stream, writing) = self.streams.remove(*name).unwrap();
                let has_failed = |writing: Writing| matches!(writing.recv_timeout(PATIENCE), Ok(Err(_)));
                let all = writing.into_iter().all(has_failed);
                self.streams.insert((*name).to_owned(), (stream, Vec::new()));
                if all { "failed" } else { "writing" }.to_owned()
            }
            ["gate", name] => gate(match &self.streams[*name].0 {
                Stream::Blocking(stream) => stream.directive(),
                Stream::Tokio(stream) => stream.lock().unwrap().directive(),
            }),
            ["carrier", name] => {
                let is_in_kernel = match &self.streams[*name].0 {
                    Stream::Blocking(stream) => stream.is_in_kernel(),
                    Stream::Tokio(stream) => stream.lock().unwrap().is_in_kernel(),
                };
                if is_in_kernel { "kernel" } else { "library" }.to_owned()
            }
            ["finish", name] => {
                drop(self.written(name));
                "finished".to_owned()
            }
            ["detach", name] => {
                let stream = self.written(name);
                self.detach(stream);
                "detached".to_owned()
            }
            ["drop", name] => {
                self.streams.remove(*name);
                "dropped".to_owned()
            }
            ["grant", coflow, user] => {
                self.session.grant(key(coflow)?, user.parse()?)?;
                "granted".to_owned()
            }
            ["unregister", coflow] => {
                self.session.unregister(key(coflow)?);
                "unregistered".to_owned()
            }
            // A session ends with the last of its streams.
            ["end"] => {
                let names: Vec<String> = self.streams.keys().cloned().collect();
                for name in names {
                    let stream = self.written(&name);
                    self.detach(stream);
                }
                "ended".to_owned()
            }
            _ => panic!("no command {words:?}"),
        })
    }
}

/// Writes from a loop that waits for the gate and then for the connection, and to read, which shows
/// that the other end is gone.
fn select(stream: &CoflowStream, mut bytes: &[u8]) -> io::Result<()> {
    stream.socket().set_nonblocking(true)?;
    let gate = stream.gate()?.unwrap();
    while !bytes.is_empty() {
        let is_off = stream.directive().gate == Gate::Off {};
        let mut asked = vec![if is_off {
            PollFd::new(&gate, PollFlags::IN)
        } else {
            PollFd::new(stream.socket(), PollFlags::OUT)
        }];
        asked.push(PollFd::new(stream.socket(), PollFlags::IN));
        poll(&mut asked, None)?;
        let may_read = asked[1].revents().contains(PollFlags::IN);
        if may_read {
            let _ = stream.socket().read(&mut [0])?;
        }
        match { stream }.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn write_all(stream: &Mutex<AsyncCoflowStream>, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        // Not held between two polls: the driver asks for the gate meanwhile.
        let write =
            |context: &mut Context<'_>| Pin::new(&mut *stream.lock().unwrap()).poll_write(context, rest);
        let written = poll_fn(write).await?;
        rest = &rest[written..];
    }
    Ok(())
}

fn gate(directive: Directive) -> String {
    match directive.gate {
        Gate::Off {} => "gate off".to_owned(),
        Gate::Open {} => "gate open".to_owned(),
        Gate::Paced { rate } => format!("gate paced {}", rate.0),
    }
}

fn contents(length: usize, first: usize) -> Vec<u8> {
    (0..length).map(|place| ((first + place) % 251) as u8).collect()
}

fn registration(words: &[&str]) -> Result<Registration, Invalid> {
    let mut registration = Registration::default();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "parent" => registration.parents.push(key(value)?),
            "parents" => registration.parents = vec![key("7.0.7")?; value.parse()?],
            "size" => registration.size = Some(Bytes(value.parse()?)),
            "deadline" => {
                let nanos = value.parse::<u64>()?.checked_mul(1_000_000_000);
                registration.deadline = Some(Nanos(nanos.ok_or("no time of 64 bits")?));
            }
            "background" => registration.class = TaskClass::Background,
            "name" => registration.name = Some(value.parse()?),
            "weight" => registration.weight = value.parse()?,
            _ => panic!("{word} is nothing to register with"),
        }
    }
    Ok(registration)
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, face] = &arguments[..] else { panic!("expected SOCKET FACE") };
    let runtime = (face == "tokio").then(|| Runtime::new().unwrap());
    // Streams go with the runtime that they belong to.
    let guard = runtime.as_ref().map(Runtime::handle).cloned();
    let _guard = guard.as_ref().map(|handle| handle.enter());
    let session = Session::open(path).unwrap();
    let mut driver = Driver { session, runtime, streams: BTreeMap::new(), detached: Vec::new() };
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == ["quit"] {
            return;
        }
        println!("{}", driver.answer(&words).unwrap_or_else(|Invalid(reason)| format!("invalid {reason}")));
    }
}

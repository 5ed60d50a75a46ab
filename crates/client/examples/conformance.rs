//! The driver of the conformance suite for Rust (see clients/README.md): `conformance SOCKET blocking|tokio`.

#![allow(clippy::print_stdout, reason = "its answers are what it is for")]
#![allow(clippy::unwrap_used, reason = "a driver that cannot go on ends, and the suite says where")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::thread::JoinHandle;
use std::time::Duration;

use cavalcade_client::{
    AsyncCoflowStream, Bytes, CoflowKey, CoflowStream, Directive, Gate, Nanos, Registration, Session,
    TaskClass,
};
use tokio::io::AsyncWrite;
use tokio::runtime::Runtime;

/// A stream of either face; clones are the same stream.
#[derive(Clone)]
enum Stream {
    Blocking(Arc<CoflowStream>),
    Tokio(Arc<Mutex<AsyncCoflowStream>>),
}

struct Driver {
    session: Session,
    /// There where the face is tokio's.
    runtime: Option<Runtime>,
    /// Each with the last of its writes, which waits for the one before.
    streams: BTreeMap<String, (Stream, Option<JoinHandle<()>>)>,
}

impl Driver {
    fn open(&self, at: SocketAddr, key: CoflowKey, size: Option<Bytes>) -> Stream {
        let Some(runtime) = &self.runtime else {
            let socket = TcpStream::connect(at).unwrap();
            return Stream::Blocking(Arc::new(self.session.stream(socket, key, size).unwrap()));
        };
        let socket = runtime.block_on(tokio::net::TcpStream::connect(at)).unwrap();
        Stream::Tokio(Arc::new(Mutex::new(self.session.async_stream(socket, key, size).unwrap())))
    }

    /// Begins to write `bytes`, after what is being written.
    fn write(&self, stream: &Stream, bytes: Vec<u8>, before: Option<JoinHandle<()>>) -> JoinHandle<()> {
        let (stream, runtime) =
            (stream.clone(), self.runtime.as_ref().map(|runtime| runtime.handle().clone()));
        std::thread::spawn(move || {
            before.into_iter().for_each(|before| before.join().unwrap());
            match (stream, runtime) {
                (Stream::Tokio(stream), Some(runtime)) => runtime.block_on(write_all(&stream, &bytes)),
                (Stream::Blocking(stream), _) => (&*stream).write_all(&bytes).unwrap(),
                (Stream::Tokio(_), None) => unreachable!("streams of tokio need its runtime"),
            }
        })
    }

    fn answer(&mut self, words: &[&str]) -> String {
        match words {
            ["wait"] if self.session.wait_ready(Duration::from_secs(60)) => "ready".to_owned(),
            ["wait"] => "no agent".to_owned(),
            ["register", facts @ ..] => format!("key {}", self.session.register(registration(facts))),
            ["open", name, host, port, key, size @ ..] => {
                let at = SocketAddr::new(host.parse().unwrap(), port.parse().unwrap());
                let size = size.first().map(|size| Bytes(size.parse().unwrap()));
                let stream = self.open(at, key.parse().unwrap(), size);
                self.streams.insert((*name).to_owned(), (stream, None));
                "opened".to_owned()
            }
            ["write", name, length, first] => {
                let bytes = contents(length.parse().unwrap(), first.parse().unwrap());
                let (stream, before) = self.streams.remove(*name).unwrap();
                let writing = self.write(&stream, bytes, before);
                self.streams.insert((*name).to_owned(), (stream, Some(writing)));
                "writing".to_owned()
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
                let (stream, writing) = self.streams.remove(*name).unwrap();
                writing.into_iter().for_each(|writing| writing.join().unwrap());
                drop(stream);
                "finished".to_owned()
            }
            ["unregister", key] => {
                self.session.unregister(key.parse().unwrap());
                "unregistered".to_owned()
            }
            _ => panic!("no command {words:?}"),
        }
    }
}

async fn write_all(stream: &Mutex<AsyncCoflowStream>, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // Not held between two polls: the driver asks for the gate meanwhile.
        let write =
            |context: &mut Context<'_>| Pin::new(&mut *stream.lock().unwrap()).poll_write(context, rest);
        let written = poll_fn(write).await.unwrap();
        rest = &rest[written..];
    }
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

fn registration(words: &[&str]) -> Registration {
    let mut registration = Registration::default();
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        match name {
            "parent" => registration.parents.push(value.parse().unwrap()),
            "size" => registration.size = Some(Bytes(value.parse().unwrap())),
            "deadline" => registration.deadline = Some(Nanos::from_secs(value.parse().unwrap())),
            "background" => registration.class = TaskClass::Background,
            "name" => registration.name = Some(value.parse().unwrap()),
            "weight" => registration.weight = value.parse().unwrap(),
            _ => panic!("{word} is nothing to register with"),
        }
    }
    registration
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, face] = &arguments[..] else { panic!("expected SOCKET FACE") };
    let runtime = (face == "tokio").then(|| Runtime::new().unwrap());
    // Streams go with the runtime that they belong to.
    let guard = runtime.as_ref().map(Runtime::handle).cloned();
    let _guard = guard.as_ref().map(|handle| handle.enter());
    let mut driver = Driver { session: Session::open(path), runtime, streams: BTreeMap::new() };
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        if words == ["quit"] {
            return;
        }
        println!("{}", driver.answer(&words));
    }
}

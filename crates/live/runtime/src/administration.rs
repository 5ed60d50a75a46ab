//! Administration over gRPC: what there is, why a coflow goes as it does, and the kill switch.
//!
//! The service is defined in `proto/administration.proto`, from which other languages make their
//! clients. Requests come from connections of two kinds: a Unix socket that only the process's user
//! may open, and TLS connections to a coordinator by who has an administrator's certificate
//! ([`crate::Role::Administrator`]). Each is turned into a `Query` to the loop that owns the state
//! machine, and answered there between two events, so that what is seen is a state that really was.
//!
//! # Cost
//! A look at everything walks all coflows and flows once. Nothing is computed without a request.

mod client;
mod draining;
mod naming;
mod views;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cavalcade_model::{Instant, PortId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tonic::{Request, Response, Status};

use crate::occasional::Occasional;
use crate::reloading::{Reloaded, Reloading, Setting};
use crate::security::Identity;
use crate::sockets::UnixSocket;
pub use client::{AdministrationError, Administrator};
pub(crate) use views::Administered;

/// The service's messages, and its generated code.
#[allow(
    missing_docs,
    clippy::all,
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    reason = "made by prost and tonic; proto/administration.proto documents every field"
)]
pub mod proto {
    tonic::include_proto!("cavalcade.administration.v1");
}

use proto::administration_server::{Administration, AdministrationServer};

/// The facts of a component that its state machine does not know, for administrators.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The policy, with its parameters; empty at an agent that obeys a coordinator.
    pub policy: String,
    /// Summary of the policy, in one line.
    pub title: String,
    /// True if decisions are made and not carried out.
    pub shadow: bool,
    /// The addresses of the site's hosts, from port 0 on; empty where they are not known.
    pub hosts: Vec<IpAddr>,
}

impl About {
    /// The address of the host at `port`, if that is known.
    fn address(&self, port: PortId) -> Option<String> {
        self.hosts.get(port.index()).map(IpAddr::to_string)
    }
}

/// A question to the loop that owns a state machine.
#[derive(Debug)]
pub(crate) enum Query {
    Look(proto::LookRequest, oneshot::Sender<Result<proto::View, String>>),
    Why(String, oneshot::Sender<Result<proto::Explanation, String>>),
    Drain(proto::DrainRequest, oneshot::Sender<Result<proto::DrainReply, String>>),
    History(proto::HistoryRequest, oneshot::Sender<Result<proto::HistoryReply, String>>),
    Reload(String, oneshot::Sender<Result<Reloaded, String>>),
    Metrics(oneshot::Sender<String>),
    /// Asks whether it does its work; else why it does not.
    Ready(oneshot::Sender<Result<(), String>>),
}

/// The state of a process beside its state machine.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) about: About,
    pub(crate) started: Instant,
    pub(crate) identity: Option<Identity>,
    pub(crate) reloading: Reloading,
}

impl Query {
    /// Answers at `now`, by what `machine` is and `desk` knows; limits and incidents are those of
    /// the process.
    pub(crate) fn answer<M: Administered>(
        self,
        machine: &mut M,
        desk: &mut Desk,
        now: Instant,
        (limits, incidents): (Vec<proto::Limit>, Vec<proto::Incident>),
        figures: impl FnOnce(&M) -> String,
    ) {
        // Who asked may be gone.
        match self {
            Query::Look(request, reply) => {
                let view = machine.view(now, &desk.about, &request);
                drop(reply.send(view.map(|view| proto::View {
                    started_ns: desk.started.0,
                    version: env!("CARGO_PKG_VERSION").to_owned(),
                    certificate_until: desk.identity.as_ref().map(Identity::valid_until),
                    limits,
                    incidents,
                    addresses: desk.about.hosts.iter().map(IpAddr::to_string).collect(),
                    ..view
                })));
            }
            Query::Why(coflow, reply) => drop(reply.send(machine.explained(&desk.about, &coflow))),
            Query::Drain(request, reply) => {
                drop(reply.send(draining::drain(machine, now, &request)));
            }
            Query::History(request, reply) => {
                drop(reply.send(machine.history(now, request.most as usize)));
            }
            // The loop takes over what has changed.
            Query::Reload(level, reply) => {
                let reloading = desk.reloading.clone();
                tokio::task::spawn_local(async move { drop(reply.send(reloading.ask(&level).await)) });
            }
            Query::Metrics(reply) => drop(reply.send(figures(machine))),
            Query::Ready(reply) => drop(reply.send(machine.readiness())),
        }
    }
}

/// Asks, and waits for the answer.
pub(crate) async fn ask<T>(
    queries: &mpsc::UnboundedSender<Query>,
    make: impl FnOnce(oneshot::Sender<T>) -> Query,
) -> Option<T> {
    let (sender, answer) = oneshot::channel();
    queries.send(make(sender)).ok()?;
    answer.await.ok()
}

/// The service: passes requests on.
struct Counter {
    queries: mpsc::UnboundedSender<Query>,
}

fn stopping() -> Status {
    Status::unavailable("it is being stopped")
}

fn answered<T>(answer: Option<Result<T, String>>) -> Result<Response<T>, Status> {
    answer.ok_or_else(stopping)?.map(Response::new).map_err(Status::not_found)
}

#[tonic::async_trait]
impl Administration for Counter {
    async fn look(&self, request: Request<proto::LookRequest>) -> Result<Response<proto::View>, Status> {
        answered(ask(&self.queries, |answer| Query::Look(request.into_inner(), answer)).await)
    }

    async fn why(&self, request: Request<proto::WhyRequest>) -> Result<Response<proto::Explanation>, Status> {
        answered(ask(&self.queries, |answer| Query::Why(request.into_inner().coflow, answer)).await)
    }

    async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        let request = request.into_inner();
        let reply = ask(&self.queries, |answer| Query::Drain(request, answer)).await;
        reply.ok_or_else(stopping)?.map(Response::new).map_err(Status::invalid_argument)
    }

    async fn reload(
        &self,
        request: Request<proto::ReloadRequest>,
    ) -> Result<Response<proto::ReloadReply>, Status> {
        let level = request.into_inner().log_level;
        let reply = ask(&self.queries, |answer| Query::Reload(level, answer)).await;
        let reloaded = reply.ok_or_else(stopping)?.map_err(Status::invalid_argument)?;
        let shown = |settings: Vec<Setting>| {
            settings.into_iter().map(|Setting { name, text }| proto::Setting { name, text }).collect()
        };
        let (changed, refused) = (shown(reloaded.changed), shown(reloaded.refused));
        Ok(Response::new(proto::ReloadReply { changed, refused }))
    }

    async fn history(
        &self,
        request: Request<proto::HistoryRequest>,
    ) -> Result<Response<proto::HistoryReply>, Status> {
        let request = request.into_inner();
        let reply = ask(&self.queries, |answer| Query::History(request, answer)).await;
        reply.ok_or_else(stopping)?.map(Response::new).map_err(Status::invalid_argument)
    }
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The longest time before an administrator's first word.
const FIRST_WORD: Duration = Duration::from_secs(5);
/// The time between two questions to a silent administrator, and the longest time to answer.
const ASKED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// A connection of an administrator, wherever it came in.
struct Line {
    stream: Box<dyn Duplex>,
    /// Time at which it is closed, until it has said something.
    silent_until: Option<Pin<Box<tokio::time::Sleep>>>,
    /// Its place among those that are served or wait for that.
    #[allow(dead_code, reason = "it counts until it is dropped")]
    place: OwnedSemaphorePermit,
}

impl tonic::transport::server::Connected for Line {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.silent_until = None;
        }
        if read.is_pending()
            && let Some(until) = &mut self.silent_until
            && until.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Administrators that are served, or wait for that, at once.
const SERVED: usize = 64;

/// The way of administrators' connections to the service.
#[derive(Clone)]
pub(crate) struct Lines {
    incoming: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
    turned_away: Rc<Cell<u64>>,
    warnings: Rc<RefCell<Occasional>>,
}

impl Lines {
    /// Has a connection served; one too many is closed.
    pub(crate) fn admit(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let Ok(place) = self.room.clone().try_acquire_owned() else {
            self.turned_away.set(self.turned_away.get() + 1);
            if let Some(unsaid) = self.warnings.borrow_mut().admit() {
                tracing::warn!(
                    most = SERVED,
                    unsaid,
                    "refused an administrator: as many are connected as can be served, a fixed number; disconnect another"
                );
            }
            return;
        };
        let silent_until = Some(Box::pin(tokio::time::sleep(FIRST_WORD)));
        // As many fit as there are places; where the service has ended, so does the connection.
        drop(self.incoming.try_send(Line { stream: Box::new(stream), silent_until, place }));
    }

    /// Returns the number of administrators that are served or wait for that, and the most that may
    /// be.
    pub(crate) fn served(&self) -> (usize, usize) {
        (SERVED - self.room.available_permits(), SERVED)
    }

    /// Returns the number of connections that were turned away.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.get()
    }
}

/// Begins to serve administrators. What comes in at `socket`, and what is admitted to the returned
/// lines, is answered by the receiver of `queries`. It ends with the event loop that it runs on.
pub(crate) fn serve(socket: Option<UnixSocket>, queries: mpsc::UnboundedSender<Query>) -> Lines {
    let (sender, incoming) = mpsc::channel(SERVED);
    let room = Arc::new(Semaphore::new(SERVED));
    let lines = Lines { incoming: sender, room, turned_away: Rc::default(), warnings: Rc::default() };
    if let Some(socket) = socket {
        let lines = lines.clone();
        tokio::task::spawn_local(async move {
            loop {
                match socket.listener.accept().await {
                    Ok((stream, _)) => lines.admit(stream),
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }
    let incoming = tokio_stream::wrappers::ReceiverStream::new(incoming);
    let incoming = tokio_stream::StreamExt::map(incoming, Ok::<_, std::io::Error>);
    tokio::task::spawn_local(async move {
        let service = AdministrationServer::new(Counter { queries });
        let mut server = tonic::transport::Server::builder()
            .http2_keepalive_interval(Some(ASKED.0))
            .http2_keepalive_timeout(Some(ASKED.1));
        let served = server.add_service(service).serve_with_incoming(incoming);
        if let Err(error) = served.await {
            tracing::error!(%error, "administration has ended");
        }
    });
    lines
}

//! The coordinator on TCP, with TLS where there are certificates.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use cavalcade_control::Coordinator;
use cavalcade_model::PortId;
use cavalcade_protocol::{MAX_FRAME, Orders, PROTOCOL, Report};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Stop;
use crate::administration::{self, About, Desk, Lines};
use crate::capacity::{Capacity, MORE_BUFFERS};
use crate::clock::{Clock, sleep_until};
use crate::connection::{self, Limits, Outlet};
use crate::limits::{self, Holding};
use crate::meter::{Held, Meter};
use crate::metrics::{self, ShellCounters};
use crate::occasional::Occasional;
use crate::reloading::{Hangups, Reloading, Settings};
use crate::rounds::{self, Rounds};
use crate::security::{Identity, Role};
use crate::sockets::UnixSocket;
use crate::tls;

/// The sockets of a coordinator.
#[derive(Debug)]
pub struct CoordinatorSockets {
    /// Listener for agents.
    pub agents: TcpListener,
    /// Its certificate: with one, agents have to show theirs.
    pub identity: Option<Identity>,
    /// Socket for administrators of this host.
    pub administration: Option<UnixSocket>,
    /// Listener for a monitoring system; over TLS where there is a certificate and the address can be reached
    /// from elsewhere.
    pub metrics: Option<TcpListener>,
    /// The facts for administrators.
    pub about: About,
    /// Its limits.
    pub capacity: Capacity,
    /// The settings that may change while it runs.
    pub reloading: Reloading,
}

/// For agents only, without certificates.
impl From<TcpListener> for CoordinatorSockets {
    fn from(agents: TcpListener) -> Self {
        let (about, capacity, reloading) = (About::default(), Capacity::of_system(), Reloading::default());
        Self { agents, identity: None, administration: None, metrics: None, about, capacity, reloading }
    }
}

/// The longest time before the first report of an agent that has connected.
const FIRST_REPORT: std::time::Duration = std::time::Duration::from_secs(5);

/// Bytes of the first report on a connection, at most: agents begin with a short one.
const FIRST_FRAME: usize = 256 << 10;

/// The longest silence of an agent: it reports four times in a lease.
const SILENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Connections that have not reported yet, at most: handshakes and first reports take seconds at worst.
const STRANGERS: usize = 1_024;

/// An event of a connection, for the machine.
enum Incoming {
    Arrived(u64, Outlet<Orders>, Option<Role>),
    Refused(SocketAddr, io::Error),
    Report(u64, Box<Report>, Held),
    Gone(u64),
}

/// A connection.
struct Route {
    outlet: Outlet<Orders>,
    /// The role of its peer, where certificates say so.
    role: Option<Role>,
    has_reported: bool,
}

/// Connections by number, and which of them leads to which agent. Many agents may share one where there are no
/// certificates.
struct Routes {
    routes: BTreeMap<u64, Route>,
    /// The connection of the agent at each port.
    to: Vec<Option<u64>>,
    counters: ShellCounters,
    refusals: Occasional,
}

/// Runs `coordinator` for agents that connect, until told to stop or deposed. Returns it as it is then.
///
/// # Errors
/// If the listener fails.
pub async fn serve_coordinator(
    mut coordinator: Coordinator,
    sockets: impl Into<CoordinatorSockets>,
    mut stop: Stop,
) -> io::Result<Coordinator> {
    let CoordinatorSockets { agents, identity, administration, metrics, about, mut capacity, reloading } =
        sockets.into();
    let (mut hangups, mut settings) = (Hangups::new()?, Settings::default());
    if let Some(identity) = &identity {
        coordinator = coordinator.with_notary(Box::new(identity.notary()));
    }
    coordinator = coordinator.with_deferred_rounds(rounds::LARGE);
    let mut was_drained = coordinator.is_drained();
    let clock = Clock::default();
    let started = clock.now();
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let (asker, mut queries) = mpsc::unbounded_channel();
    let _watching = identity.as_ref().map(Identity::watch);
    let mut desk = Desk { about, started, identity: identity.clone(), reloading };
    let lines = administration::serve(administration, asker.clone());
    if let Some(metrics) = metrics {
        let identity = tls_for(&metrics, identity.as_ref())?;
        metrics::serve(metrics, identity, asker);
    }
    let visitors = Rc::new(Cell::new(0));
    let meter = Meter::new(capacity.bytes, MORE_BUFFERS);
    let doorkeeper = Doorkeeper { identity, lines: lines.clone(), sender, visitors, meter: meter.clone() };
    let to = vec![None; coordinator.ports() as usize];
    let (counters, refusals) = (ShellCounters::default(), Occasional::default());
    let mut routes = Routes { to, routes: BTreeMap::new(), counters, refusals };
    let mut rounds = Rounds::new(clock);
    let mut next_connection = 0;
    loop {
        tokio::select! {
            accepted = agents.accept() => {
                // Out of descriptors, or a connection that was gone at once: others may still come.
                if let Ok((stream, from)) = accepted {
                    if !routes.has_room(capacity, doorkeeper.visitors.get()) {
                        routes.refuse(from, &full(capacity));
                        continue;
                    }
                    tokio::task::spawn_local(doorkeeper.clone().attend(stream, from, next_connection));
                    next_connection += 1;
                } else {
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
            Some(first) = inbox.recv() => {
                take_in(&mut coordinator, &mut routes, clock, first);
            }
            Some(query) = queries.recv() => {
                let now = clock.now();
                let until = desk.identity.as_ref().map(Identity::valid_until);
                let connections = routes.routes.len();
                let held = Holding { connections, meter: &meter, lines: &lines, capacity, until };
                let limits = limits::of_coordinator(&coordinator, &held);
                let figures = |coordinator: &Coordinator| {
                    metrics::of_coordinator(coordinator, now, &routes.counters, &held, &rounds.distributions)
                };
                query.answer(&mut coordinator, &mut desk, now, limits, figures);
            }
            filled = rounds.filled() => rounds.take_over(&mut coordinator, filled),
            () = sleep_until(clock, coordinator.poll_timeout()) => {}
            () = hangups.heed(&desk.reloading) => {}
            _ = stop.changed() => return Ok(coordinator),
        }
        let now_set = desk.reloading.settings();
        if std::mem::replace(&mut settings, now_set) != now_set {
            capacity = now_set.capacity.unwrap_or(capacity);
            meter.set(capacity.bytes, None);
            desk.about.shadow = now_set.shadow.unwrap_or(desk.about.shadow);
            coordinator.set_shadow(desk.about.shadow);
        }
        // What has come during a round is heard before anybody is taken to be silent.
        hear_out(&mut coordinator, &mut routes, clock, &mut inbox).await;
        rounds.do_due(&mut coordinator);
        send_orders(&mut coordinator, &mut routes);
        if std::mem::replace(&mut was_drained, coordinator.is_drained()) != was_drained {
            tracing::warn!(on = coordinator.is_drained(), "the kill switch of the fabric");
        }
        if coordinator.is_deposed() {
            tracing::warn!(
                own = coordinator.term(),
                other = coordinator.highest_term(),
                "agents have obeyed a coordinator of a higher term"
            );
            return Ok(coordinator);
        }
    }
}

/// The certificate with which figures are given out: none where they stay on the host.
pub(crate) fn tls_for(listener: &TcpListener, identity: Option<&Identity>) -> io::Result<Option<Identity>> {
    let is_local = listener.local_addr()?.ip().is_loopback();
    Ok(identity.filter(|_| !is_local).cloned())
}

/// Why one more connection is not served.
fn full(capacity: Capacity) -> String {
    let most = capacity.connections;
    format!(
        "{most} connections are open, or {STRANGERS} have not reported yet: --max-connections raises the former"
    )
}

/// The limits and identity for a new connection.
#[derive(Clone)]
struct Doorkeeper {
    identity: Option<Identity>,
    lines: Lines,
    sender: mpsc::UnboundedSender<Incoming>,
    meter: Meter,
    /// Connections whose handshake goes on.
    visitors: Rc<Cell<usize>>,
}

impl Doorkeeper {
    /// Finds out who has connected, and hands the connection to whom it is for.
    async fn attend(self, stream: TcpStream, from: SocketAddr, number: u64) {
        self.visitors.set(self.visitors.get() + 1);
        self.welcome(stream, from, number).await;
        self.visitors.set(self.visitors.get() - 1);
    }

    async fn welcome(&self, stream: TcpStream, from: SocketAddr, number: u64) {
        // Orders are small and late ones are worthless.
        let _ = stream.set_nodelay(true);
        let Some(identity) = &self.identity else { return self.begin(stream, number, None) };
        match tls::accept(identity, stream).await {
            Ok((stream, visitor)) if visitor.is_grpc => {
                if visitor.role == Role::Administrator {
                    self.lines.admit(stream);
                } else {
                    self.refuse(from, &format!("the certificate of {} does not administrate", visitor.role));
                }
            }
            Ok((stream, visitor)) if matches!(visitor.role, Role::Agent(_)) => {
                self.begin(stream, number, Some(visitor.role));
            }
            Ok((_, visitor)) => self.refuse(from, &format!("{} is no agent", visitor.role)),
            Err(error) => drop(self.sender.send(Incoming::Refused(from, error))),
        }
    }

    fn refuse(&self, from: SocketAddr, reason: &str) {
        let error = io::Error::new(io::ErrorKind::PermissionDenied, reason);
        drop(self.sender.send(Incoming::Refused(from, error)));
    }

    fn begin<S>(&self, stream: S, number: u64, role: Option<Role>)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + 'static,
    {
        let (reports, gone) = (self.sender.clone(), self.sender.clone());
        let meter = self.meter.clone();
        let outlet = connection::run(
            stream,
            Limits {
                first: FIRST_FRAME,
                frame: MAX_FRAME,
                first_within: FIRST_REPORT,
                idle: Some(SILENCE),
                meter,
            },
            move |report, held| drop(reports.send(Incoming::Report(number, Box::new(report), held))),
            move || drop(gone.send(Incoming::Gone(number))),
        );
        drop(self.sender.send(Incoming::Arrived(number, outlet, role)));
    }
}

/// Takes in what has come, and what comes while that is done, so that a burst of many agents is one round; for at most as
/// long as rounds are apart, and as agents may wait for a word.
async fn hear_out(
    coordinator: &mut Coordinator,
    routes: &mut Routes,
    clock: Clock,
    inbox: &mut mpsc::UnboundedReceiver<Incoming>,
) {
    let until = clock.now() + coordinator.pause().min(coordinator.beat());
    loop {
        let mut is_quiet = true;
        while let Ok(next) = inbox.try_recv() {
            take_in(coordinator, routes, clock, next);
            is_quiet = false;
            if clock.now() >= until {
                return;
            }
        }
        if is_quiet {
            return;
        }
        // Connections are read meanwhile.
        tokio::task::yield_now().await;
    }
}

fn take_in(coordinator: &mut Coordinator, routes: &mut Routes, clock: Clock, incoming: Incoming) {
    match incoming {
        Incoming::Arrived(number, outlet, role) => {
            // A component has one connection; of several that have not reported the newest is kept.
            let is_idle = |route: &Route| route.role.is_some() && route.role == role && !route.has_reported;
            routes.routes.retain(|_, route| !is_idle(route));
            routes.routes.insert(number, Route { outlet, role, has_reported: false });
        }
        Incoming::Refused(from, error) => {
            routes.refuse(from, &error.to_string());
        }
        Incoming::Report(number, report, _held) => {
            // What was read before its connection was closed.
            let Some(route) = routes.routes.get_mut(&number) else { return };
            route.has_reported = true;
            if route.role.is_some_and(|role| role != Role::Agent(report.port)) {
                routes.counters.refused += 1;
                let role = route.role.map(|role| role.to_string());
                if let Some(unsaid) = routes.refusals.admit() {
                    let port = report.port.0;
                    tracing::warn!(role, port, unsaid, "refused a report for another agent's port");
                }
                return routes.close(coordinator, number);
            }
            if report.protocol != PROTOCOL {
                routes.counters.refused += 1;
                if let Some(unsaid) = routes.refusals.admit() {
                    let (port, theirs) = (report.port.0, report.protocol);
                    tracing::warn!(port, theirs, ours = PROTOCOL, unsaid, "an agent of another version");
                }
                return routes.close(coordinator, number);
            }
            let has_certificate = route.role.is_some();
            match routes.to.get_mut(report.port.index()).and_then(|to| to.replace(number)) {
                None => tracing::info!(port = report.port.0, "agent connected"),
                // The newest holds: a host has one agent.
                Some(former) if former != number && has_certificate => {
                    if let Some(unsaid) = routes.refusals.admit() {
                        tracing::warn!(port = report.port.0, unsaid, "a second connection of an agent");
                    }
                    routes.routes.remove(&former);
                }
                Some(_) => {}
            }
            coordinator.handle_report(clock.now(), *report);
        }
        Incoming::Gone(number) => routes.close(coordinator, number),
    }
}

impl Routes {
    /// Returns whether one more connection may come in.
    fn has_room(&self, capacity: Capacity, visitors: usize) -> bool {
        let strangers = self.routes.values().filter(|route| !route.has_reported).count() + visitors;
        strangers < STRANGERS && self.routes.len() + visitors < capacity.connections
    }

    fn refuse(&mut self, from: SocketAddr, reason: &str) {
        self.counters.refused += 1;
        if let Some(unsaid) = self.refusals.admit() {
            tracing::warn!(%from, reason, unsaid, "refused a connection");
        }
    }

    /// Ends a connection, if it has not ended.
    fn close(&mut self, coordinator: &mut Coordinator, number: u64) {
        // Without its outlet the connection ends.
        self.routes.remove(&number);
        let lost = self.to.iter_mut().enumerate().filter(|(_, to)| **to == Some(number));
        for (port, to) in lost {
            tracing::info!(port, "agent disconnected");
            *to = None;
            coordinator.handle_disconnected(PortId::from_index(port));
        }
    }
}

fn send_orders(coordinator: &mut Coordinator, routes: &mut Routes) {
    while let Some((port, orders)) = coordinator.poll_orders() {
        let Some(&Some(number)) = routes.to.get(port.index()) else { continue };
        if !routes.routes.get(&number).is_some_and(|route| route.outlet.send(&orders)) {
            // It does not keep up, or is gone.
            routes.counters.dropped += 1;
            routes.close(coordinator, number);
        }
    }
}

//! The coordinator on TCP, with TLS where there are certificates.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use cavalcade_control::Coordinator;
use cavalcade_model::PortId;
use cavalcade_protocol::{MAX_FRAME, Orders, PROTOCOL, Report};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::Stop;
use crate::administration::{self, About, Desk, Lines};
use crate::capacity::{Capacity, MORE_BUFFERS};
use crate::clock::{Alarm, Clock};
use crate::connection::{self, Fault, Limits, Outlet};
use crate::incidents::{Incident, Incidents, log_policy_fault};
use crate::limits::{self, Holding};
use crate::meter::{Held, Meter};
use crate::metrics;
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
    /// Listener for a monitoring system; over TLS where there is a certificate and the address can
    /// be reached from elsewhere.
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

/// Connections that have not reported yet, at most: handshakes and first reports take seconds at
/// worst.
pub(crate) const STRANGERS: usize = 1_024;

/// Those from one address, at most: one host does not keep all others away. A host has one agent,
/// but a lab has all its agents on one.
pub(crate) const STRANGERS_OF_ONE: usize = STRANGERS / 4;

/// An event of a connection, for the machine.
enum Incoming {
    Arrived(u64, Route),
    Refused(SocketAddr, io::Error),
    Report(u64, Box<Report>, Held),
    Gone(u64, Option<Fault>),
}

/// A connection.
struct Route {
    outlet: Outlet<Orders>,
    from: SocketAddr,
    /// The role of its peer, where certificates say so.
    role: Option<Role>,
    has_reported: bool,
}

/// Connections by number, and which of them leads to which agent. Many agents may share one where
/// there are no certificates.
struct Routes {
    routes: BTreeMap<u64, Route>,
    /// The connection of the agent at each port.
    to: Vec<Option<u64>>,
    /// The messages that it has come and gone, of each agent.
    moves: Vec<[Occasional; 2]>,
    incidents: Incidents,
}

/// Times that it is said of an agent at once that it has come or gone: as often as one is started
/// again by hand.
const MOVES: u32 = 10;

/// Runs `coordinator` for agents that connect, until told to stop or deposed. Returns it as it is
/// then.
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
    let mut has_failed = false;
    let clock = Clock::default();
    let (started, mut alarm) = (clock.now(), Alarm::new(clock)?);
    let (sender, mut inbox) = mpsc::unbounded_channel();
    let (asker, mut queries) = mpsc::unbounded_channel();
    let _watching = identity.as_ref().map(Identity::watch);
    let mut desk = Desk { about, started, identity: identity.clone(), reloading };
    let lines = administration::serve(administration, asker.clone());
    if let Some(metrics) = metrics {
        let identity = tls_for(&metrics, identity.as_ref())?;
        metrics::serve(metrics, identity, asker);
    }
    let visitors = Rc::default();
    let meter = Meter::new(capacity.bytes, MORE_BUFFERS);
    let doorkeeper = Doorkeeper { identity, lines: lines.clone(), sender, visitors, meter: meter.clone() };
    let to = vec![None; coordinator.ports() as usize];
    let moves = to.iter().map(|_| [(); 2].map(|()| Occasional::in_bursts(MOVES))).collect();
    let mut routes = Routes { to, moves, routes: BTreeMap::new(), incidents: Incidents::default() };
    let mut rounds = Rounds::new(clock);
    let mut next_connection = 0;
    loop {
        tokio::select! {
            accepted = agents.accept() => {
                // Out of descriptors, or a connection that was gone at once: others may still come.
                if let Ok((stream, from)) = accepted {
                    if let Err(reason) = routes.admits(from.ip(), capacity, &doorkeeper.visitors.borrow()) {
                        routes.incidents.note(Incident::Full, from, reason);
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
                let incidents = &routes.incidents;
                let held = Holding { connections, meter: &meter, lines: &lines, capacity, until, incidents };
                let strangers = routes.strangers(&doorkeeper.visitors.borrow());
                let limits = limits::of_coordinator(&coordinator, &held, &strangers);
                let figures = |coordinator: &Coordinator| {
                    metrics::of_coordinator(coordinator, now, &held, &rounds.distributions)
                };
                query.answer(&mut coordinator, &mut desk, now, (limits, incidents.shown()), figures);
            }
            filled = rounds.filled() => rounds.take_over(&mut coordinator, filled),
            rung = alarm.until(coordinator.poll_timeout()) => rung?,
            () = hangups.reload(&desk.reloading) => {}
            () = desk.reloading.changed() => {}
            _ = stop.changed() => return Ok(coordinator),
        }
        let now_set = desk.reloading.settings();
        if std::mem::replace(&mut settings, now_set) != now_set {
            capacity = now_set.capacity.unwrap_or(capacity);
            meter.set(capacity.bytes, None);
            desk.about.shadow = now_set.shadow.unwrap_or(desk.about.shadow);
            coordinator.set_shadow(desk.about.shadow);
        }
        // What has come during a round is handled before an agent is taken to be silent.
        serve_requests(&mut coordinator, &mut routes, clock, &mut inbox).await;
        rounds.do_due(&mut coordinator);
        routes.note_lost(coordinator.take_lost());
        send_orders(&mut coordinator, &mut routes);
        if std::mem::replace(&mut was_drained, coordinator.is_drained()) != was_drained {
            tracing::warn!(on = coordinator.is_drained(), "the kill switch of the fabric");
        }
        log_policy_fault(&mut has_failed, coordinator.policy_fault());
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

/// Connections of each address that have not reported.
pub(crate) type Strangers = BTreeMap<IpAddr, usize>;

/// The limits and identity for a new connection.
#[derive(Clone)]
struct Doorkeeper {
    identity: Option<Identity>,
    lines: Lines,
    sender: mpsc::UnboundedSender<Incoming>,
    meter: Meter,
    /// Connections whose handshake goes on.
    visitors: Rc<RefCell<Strangers>>,
}

impl Doorkeeper {
    /// Finds out who has connected, and hands the connection to whom it is for.
    async fn attend(self, stream: TcpStream, from: SocketAddr, number: u64) {
        *self.visitors.borrow_mut().entry(from.ip()).or_default() += 1;
        self.welcome(stream, from, number).await;
        let mut visitors = self.visitors.borrow_mut();
        if let Entry::Occupied(mut here) = visitors.entry(from.ip()) {
            *here.get_mut() -= 1;
            if *here.get() == 0 {
                here.remove();
            }
        }
    }

    async fn welcome(&self, stream: TcpStream, from: SocketAddr, number: u64) {
        // Orders are small and late ones are worthless.
        let _ = stream.set_nodelay(true);
        let Some(identity) = &self.identity else { return self.begin(stream, from, number, None) };
        match tls::accept(identity, stream).await {
            Ok((stream, visitor)) if visitor.is_grpc => {
                if visitor.role == Role::Administrator {
                    self.lines.admit(stream);
                } else {
                    self.refuse(from, &format!("the certificate of {} does not administrate", visitor.role));
                }
            }
            Ok((stream, visitor)) if matches!(visitor.role, Role::Agent(_)) => {
                self.begin(stream, from, number, Some(visitor.role));
            }
            Ok((_, visitor)) => self.refuse(from, &format!("{} is no agent", visitor.role)),
            Err(error) => drop(self.sender.send(Incoming::Refused(from, error))),
        }
    }

    fn refuse(&self, from: SocketAddr, reason: &str) {
        let error = io::Error::new(io::ErrorKind::PermissionDenied, reason);
        drop(self.sender.send(Incoming::Refused(from, error)));
    }

    fn begin<S>(&self, stream: S, from: SocketAddr, number: u64, role: Option<Role>)
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
            move |fault| drop(gone.send(Incoming::Gone(number, fault))),
        );
        drop(self.sender.send(Incoming::Arrived(number, Route { outlet, from, role, has_reported: false })));
    }
}

/// Takes in what has come, and what comes while that is done, so that a burst of many agents is one
/// round; for at most as long as rounds are apart, and as agents may wait for a word.
async fn serve_requests(
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
        Incoming::Arrived(number, arrived) => {
            // A component has one connection; of several that have not reported the newest is kept.
            let is_idle =
                |route: &Route| route.role.is_some() && route.role == arrived.role && !route.has_reported;
            routes.routes.retain(|_, route| !is_idle(route));
            routes.routes.insert(number, arrived);
        }
        Incoming::Refused(from, error) => routes.incidents.note(Incident::Refused, from, error),
        Incoming::Report(number, report, _held) => take_report(coordinator, routes, clock, number, *report),
        Incoming::Gone(number, fault) => {
            if let (Some(fault), Some(route)) = (fault, routes.routes.get(&number)) {
                routes.incidents.note(Incident::Garbage, route, fault);
            }
            routes.close(coordinator, number);
        }
    }
}

fn take_report(
    coordinator: &mut Coordinator,
    routes: &mut Routes,
    clock: Clock,
    number: u64,
    report: Report,
) {
    // What was read before its connection was closed.
    let Some(route) = routes.routes.get_mut(&number) else { return };
    route.has_reported = true;
    let port = report.port;
    if route.role.is_some_and(|role| role != Role::Agent(port)) {
        let what = format!("a report for port {}, which is another agent's", port.0);
        routes.incidents.note(Incident::Refused, &*route, what);
        return routes.close(coordinator, number);
    }
    if report.protocol != PROTOCOL {
        let theirs = report.protocol;
        let what = format!(
            "port {} speaks version {theirs} of the protocol, this is {PROTOCOL}: install the same release on both",
            port.0
        );
        routes.incidents.note(Incident::Version, &*route, what);
        return routes.close(coordinator, number);
    }
    if report.items() > Report::MOST_ITEMS {
        let what =
            format!("a report of {} items, where agents say {} at most", report.items(), Report::MOST_ITEMS);
        routes.incidents.note(Incident::Garbage, &*route, what);
        return routes.close(coordinator, number);
    }
    let has_certificate = route.role.is_some();
    match routes.to.get_mut(port.index()).and_then(|to| to.replace(number)) {
        None => routes.log_moved(port, true),
        // The newest holds: a host has one agent.
        Some(former) if former != number && has_certificate => {
            if let Some(closed) = routes.routes.remove(&former) {
                let newest = &routes.routes[&number];
                let what = format!(
                    "the connection from {} takes the place of that from {}",
                    newest.from, closed.from
                );
                routes.incidents.note(Incident::Second, newest, what);
            }
        }
        Some(_) => {}
    }
    let before = *coordinator.counters();
    coordinator.handle_report(clock.now(), report);
    let after = coordinator.counters();
    let Some(route) = routes.routes.get(&number) else { return };
    if after.forged_standings > before.forged_standings {
        let what = "a term, kill switch or drain that it wants to have been told; it is not believed";
        routes.incidents.note(Incident::Forged, route, what);
    }
    if after.over_limit > before.over_limit {
        let most = coordinator.agent_limit();
        let what = format!("{most} coflows and as many flows, which is fixed: those beyond are plain TCP");
        routes.incidents.note_all(Incident::TooMany, after.over_limit - before.over_limit, route, what);
    }
}

/// The role that it has shown, and where it is.
impl std::fmt::Display for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.role {
            Some(role) => write!(f, "{role} at {}", self.from),
            None => write!(f, "{}", self.from),
        }
    }
}

impl Routes {
    /// The connections that have not reported, with `visitors`, whose handshake goes on.
    fn strangers(&self, visitors: &Strangers) -> Strangers {
        let mut strangers = visitors.clone();
        let silent = self.routes.values().filter(|route| !route.has_reported);
        silent.for_each(|route| *strangers.entry(route.from.ip()).or_default() += 1);
        strangers
    }

    /// Returns whether one more connection may come in, else why not.
    fn admits(&self, from: IpAddr, capacity: Capacity, visitors: &Strangers) -> Result<(), String> {
        let strangers = self.strangers(visitors);
        let most = capacity.connections;
        if self.routes.len() + visitors.values().sum::<usize>() >= most {
            Err(format!("{most} connections are open: --max-connections raises that"))
        } else if strangers.values().sum::<usize>() >= STRANGERS {
            Err(format!("{STRANGERS} connections have not reported yet, which is the fixed limit"))
        } else if strangers.get(&from).is_some_and(|&count| count >= STRANGERS_OF_ONE) {
            Err(format!(
                "{STRANGERS_OF_ONE} connections from there have not reported yet, which is the fixed limit"
            ))
        } else {
            Ok(())
        }
    }

    /// Says that an agent has come, or has gone.
    fn log_moved(&mut self, port: PortId, has_come: bool) {
        let said = self.moves.get_mut(port.index());
        if let Some(unsaid) = said.and_then(|said| said[usize::from(has_come)].admit()) {
            let what = if has_come { "agent connected" } else { "agent disconnected" };
            tracing::info!(port = port.0, unsaid, "{what}");
        }
    }

    /// Notes which agents were silent for longer than a lease.
    fn note_lost(&mut self, lost: Vec<PortId>) {
        if lost.is_empty() {
            return;
        }
        let named: Vec<String> = lost.iter().take(NAMED).map(|port| format!("agent-{}", port.0)).collect();
        let others = lost.len() - named.len();
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let who = named.join(", ") + &others;
        self.incidents.note_all(Incident::Silent, lost.len() as u64, who, "their flows are plain TCP");
    }

    /// Ends a connection, if it has not ended.
    fn close(&mut self, coordinator: &mut Coordinator, number: u64) {
        // Without its outlet the connection ends.
        self.routes.remove(&number);
        let lost: Vec<usize> = (0..self.to.len()).filter(|&port| self.to[port] == Some(number)).collect();
        for port in lost {
            self.to[port] = None;
            let port = PortId::from_index(port);
            self.log_moved(port, false);
            coordinator.handle_disconnected(port);
        }
    }
}

/// Agents that are named where many are lost at once.
const NAMED: usize = 8;

fn send_orders(coordinator: &mut Coordinator, routes: &mut Routes) {
    while let Some((port, orders)) = coordinator.poll_orders() {
        let Some(&Some(number)) = routes.to.get(port.index()) else { continue };
        if !routes.routes.get(&number).is_some_and(|route| route.outlet.send(&orders)) {
            // It does not keep up, or is gone.
            if let Some(route) = routes.routes.get(&number) {
                routes.incidents.note(Incident::Unread, route, "its orders wait");
            }
            routes.close(coordinator, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_does_not_keep_others_away_and_all_together_not_more_than_are_served() {
        let incidents = Incidents::default();
        let routes = Routes { routes: BTreeMap::new(), to: Vec::new(), moves: Vec::new(), incidents };
        let capacity = Capacity { connections: 5_000, bytes: 0 };
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let greedy = Strangers::from([(address(1), STRANGERS_OF_ONE)]);
        assert!(routes.admits(address(1), capacity, &greedy).is_err_and(|why| why.contains("from there")));
        assert_eq!(routes.admits(address(2), capacity, &greedy), Ok(()));
        let many = (1..=4).map(|last| (address(last), STRANGERS_OF_ONE)).collect();
        assert!(
            routes.admits(address(9), capacity, &many).is_err_and(|why| why.contains("1024 connections"))
        );
        let few = Capacity { connections: 256, ..capacity };
        let why = routes.admits(address(2), few, &greedy);
        assert!(why.is_err_and(|why| why.contains("--max-connections")));
    }
}

//! The agent: clients on a Unix socket, a coordinator over TCP, other agents over UDP.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use cavalcade_control::{Agent, AgentOutput, ClientId};
use cavalcade_model::{Nanos, PortId};
use cavalcade_protocol::{
    AgentMessage, ClientMessage, Datagram, Limit, MAX_DATAGRAM, MAX_FRAME, Message, Orders, Refusal, Report,
};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::sync::{mpsc, oneshot};

use crate::Stop;
use crate::administration::{self, About, Desk};
use crate::arrivals::Pace;
use crate::capacity::{Capacity, MORE_BUFFERS};
use crate::clock::{Alarm, Clock};
use crate::connection::{self, Fault, Limits, Outlet};
use crate::coordinator::tls_for;
use crate::incidents::{Incident, Incidents, log_policy_fault};
use crate::limits::{self, Holding, UserFigures};
use crate::meter::{Held, Meter};
use crate::metrics::{self, ShellCounters};
use crate::occasional::Occasional;
use crate::reloading::{Hangups, Reloading, Settings};
use crate::security::{Identity, Pairs, TAG};
use crate::sockets::UnixSocket;
use crate::tls;

/// The longest message of a client: a registration with a few thousand parents.
const CLIENT_FRAME: usize = 64 << 10;
/// The longest time before a client's hello.
const HELLO: Duration = Duration::from_secs(1);
/// The longest time before a coordinator's first orders; the machine gives up sooner where its
/// lease is short.
const FIRST_ORDERS: Duration = Duration::from_secs(60);
/// The longest attempt to reach a coordinator.
const ATTEMPT: Duration = Duration::from_secs(1);
/// The longest time for which clients are heard before all else has its turn: far less than a
/// lease.
const TURN: Nanos = Nanos::from_millis(2);
/// Pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The sockets of an agent.
#[derive(Debug)]
pub struct AgentSockets {
    /// Socket for clients; see [`crate::bind_client_socket`].
    pub clients: UnixSocket,
    /// Addresses of coordinators, tried in turn; none in decentralised mode.
    pub coordinators: Vec<SocketAddr>,
    /// The socket for other agents, and where they listen.
    pub peers: Option<(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
    /// Its certificate: with one, only a coordinator with one is obeyed, and only peers with the
    /// key of datagrams are heard.
    pub identity: Option<Identity>,
    /// Socket for administrators of this host.
    pub administration: Option<UnixSocket>,
    /// Listener for a monitoring system.
    pub metrics: Option<TcpListener>,
    /// The facts for administrators.
    pub about: About,
    /// Its limits.
    pub capacity: Capacity,
    /// The settings that may change while it runs.
    pub reloading: Reloading,
}

impl AgentSockets {
    /// For clients only, so far.
    pub fn new(clients: UnixSocket) -> Self {
        let (coordinators, peers, identity) = (Vec::new(), None, None);
        let (administration, metrics, about) = (None, None, About::default());
        let (capacity, reloading) = (Capacity::of_system(), Reloading::default());
        Self { clients, coordinators, peers, identity, administration, metrics, about, capacity, reloading }
    }
}

/// Bytes of a coordinator's orders that may wait to be taken in.
const ORDERS_WAITING: usize = 2 * MAX_FRAME;
const MORE_FOR_ORDERS: &str =
    "that is fixed for orders of a coordinator, which are taken in as fast as this host can";
const MORE_FOR_A_USER: &str = "that is one user's share, and --user-budget bytes=… raises it";

/// What comes from clients. Of that there may be very much, so orders do not wait behind it.
enum FromClient {
    Message(ClientId, ClientMessage, Held),
    Gone(ClientId, Option<Fault>),
}

/// What comes from a coordinator.
enum FromCoordinator {
    Connected(Outlet<Report>),
    Orders(Orders, Held),
}

/// A connection of a client.
struct Connection {
    user: u32,
    outlet: Outlet<AgentMessage>,
}

/// A user, for people.
struct User(u32);

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "user {}", self.0)
    }
}

/// The meter that the connections of a user share. It outlives them while anything of theirs is
/// counted: who comes again at once is no other user.
struct UserMeter {
    meter: Meter,
    connections: usize,
    /// Number of times its clients have been told that they are too fast.
    told: u64,
    tellings: Occasional,
}

/// Connections of the agent.
struct Shell {
    clients: BTreeMap<ClientId, Connection>,
    users: BTreeMap<u32, UserMeter>,
    capacity: Capacity,
    /// Bytes that wait, from all clients and for them.
    meter: Meter,
    coordinator: Option<Outlet<Report>>,
    peers: Option<(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
    /// Keys with other agents; none without certificates.
    pairs: Option<Pairs>,
    counters: ShellCounters,
    incidents: Incidents,
    arrivals: Pace,
}

/// Runs `agent` until told to stop; then puts all flows back to plain TCP and removes the socket
/// file.
///
/// # Errors
/// If the listener fails.
pub async fn serve_agent(mut agent: Agent, sockets: AgentSockets, mut stop: Stop) -> io::Result<()> {
    let clock = Clock::default();
    let (started, mut alarm) = (clock.now(), Alarm::new(clock)?);
    let AgentSockets { clients: socket, coordinators, peers, identity, administration, metrics, .. } =
        sockets;
    let capacity = sockets.capacity;
    let (about, reloading) = (sockets.about, sockets.reloading);
    let mut desk = Desk { about, started, identity: identity.clone(), reloading };
    let (mut hangups, mut settings) = (Hangups::new()?, Settings::default());
    let (sender, mut clients_say) = mpsc::unbounded_channel();
    let (orderer, mut coordinator_says) = mpsc::unbounded_channel();
    let (asker, mut queries) = mpsc::unbounded_channel();
    let _watching = identity.as_ref().map(Identity::watch);
    let lines = administration::serve(administration, asker.clone());
    if let Some(metrics) = metrics {
        let identity = tls_for(&metrics, identity.as_ref())?;
        metrics::serve(metrics, identity, asker);
    }
    // Those who exchange datagrams and have certificates were checked to have keys as well.
    let pairs = peers.as_ref().and(identity.as_ref()).map(Identity::pairs).transpose();
    let pairs = pairs.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    if !coordinators.is_empty() {
        let search = Search { coordinators, identity, sender: orderer.clone(), clock };
        tokio::task::spawn_local(search.keep_connected());
    }
    let counters = ShellCounters::default();
    let (clients, users) = (BTreeMap::new(), BTreeMap::new());
    let meter = Meter::new(capacity.bytes, MORE_BUFFERS);
    let arrivals = Pace::default();
    let mut shell = Shell {
        clients,
        users,
        capacity,
        meter,
        coordinator: None,
        peers,
        pairs,
        counters,
        incidents: Incidents::default(),
        arrivals,
    };
    let (mut next_client, mut obeyed, mut was_drained) = (0, agent.obeys(), agent.is_drained());
    let mut has_failed = false;
    let mut datagram = vec![0; MAX_DATAGRAM + TAG];
    loop {
        tokio::select! {
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let id = ClientId(next_client);
                    next_client += 1;
                    shell.attend(&mut agent, stream, id, sender.clone());
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(first) = coordinator_says.recv() => shell.obey(&mut agent, clock, first),
            Some(first) = clients_say.recv() => {
                shell.receive(&mut agent, clock, first);
                let until = clock.now() + TURN;
                while let Ok(next) = clients_say.try_recv() {
                    shell.receive(&mut agent, clock, next);
                    if clock.now() >= until {
                        // Connections are read and written meanwhile.
                        tokio::task::yield_now().await;
                        break;
                    }
                }
            }
            received = hear_peers(shell.peers.as_ref(), &mut datagram) => {
                match open(shell.pairs.as_mut(), received) {
                    Some(datagram) => agent.handle_datagram(clock.now(), datagram),
                    None => shell.counters.garbled += u64::from(!received.is_empty()),
                }
            }
            Some(query) = queries.recv() => {
                let now = clock.now();
                let until = desk.identity.as_ref().map(Identity::valid_until);
                let (connections, capacity) = (shell.clients.len(), shell.capacity);
                let (meter, incidents) = (&shell.meter, &shell.incidents);
                let held = Holding { connections, meter, lines: &lines, capacity, until, incidents };
                let users = shell.use_of_users();
                let limits = limits::of_agent(&agent, &held, &users);
                let figures =
                    |agent: &Agent| metrics::of_agent(agent, now, &shell.counters, &held, &users);
                query.answer(&mut agent, &mut desk, now, (limits, incidents.shown()), figures);
            }
            rung = alarm.until(agent.poll_timeout()) => rung?,
            () = room(shell.coordinator.as_ref()) => {}
            () = hangups.reload(&desk.reloading) => {}
            () = desk.reloading.changed() => {}
            _ = stop.changed() => break,
        }
        while let Ok(next) = coordinator_says.try_recv() {
            shell.obey(&mut agent, clock, next);
        }
        let now_set = desk.reloading.settings();
        if std::mem::replace(&mut settings, now_set) != now_set {
            desk.about.shadow = now_set.shadow.unwrap_or(desk.about.shadow);
            shell.set(&mut agent, &now_set);
        }
        agent.set_coordinator_behind(shell.coordinator.as_ref().is_some_and(Outlet::is_behind));
        agent.handle_timeout(clock.now());
        shell.send(&mut agent, clock);
        if std::mem::replace(&mut was_drained, agent.is_drained()) != was_drained {
            tracing::warn!(on = was_drained, "the kill switch of the fabric or of this host");
        }
        log_policy_fault(&mut has_failed, agent.policy_fault());
        if std::mem::replace(&mut obeyed, agent.obeys()) != obeyed {
            match obeyed {
                Some(term) => tracing::info!(term, "obeying the coordinator"),
                None => tracing::warn!("no word from the coordinator for a lease: all flows go as plain TCP"),
            }
        }
    }
    agent.drain(true);
    shell.send(&mut agent, clock);
    drop(shell);
    // Writers end once their queues are empty.
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(())
}

/// The datagram in what was received, if it is one and, where there are keys, whom it names as its
/// sender has made it.
fn open(pairs: Option<&mut Pairs>, received: &[u8]) -> Option<Datagram> {
    let Some(pairs) = pairs else { return Datagram::decode(received).ok() };
    let said = received.get(..received.len().checked_sub(TAG)?)?;
    let datagram = Datagram::decode(said).ok()?;
    pairs.open(datagram.from, received).map(|_| datagram)
}

/// Waits until a coordinator that is behind has taken something.
async fn room(coordinator: Option<&Outlet<Report>>) {
    match coordinator {
        Some(outlet) if outlet.is_behind() => outlet.written().await,
        _ => std::future::pending().await,
    }
}

async fn hear_peers<'a>(
    peers: Option<&(UdpSocket, BTreeMap<PortId, SocketAddr>)>,
    buffer: &'a mut [u8],
) -> &'a [u8] {
    let Some((socket, _)) = peers else { return std::future::pending().await };
    match socket.recv_from(buffer).await {
        Ok((length, _)) => &buffer[..length],
        // A peer that is not there: the kernel reports it on the next call.
        Err(_) => &[],
    }
}

impl Shell {
    fn receive(&mut self, agent: &mut Agent, clock: Clock, incoming: FromClient) {
        match incoming {
            FromClient::Message(id, message, _held) => {
                agent.handle_client(clock.now(), id, message);
                self.look_for_slowed(agent, id);
            }
            FromClient::Gone(id, fault) => {
                if let (Some(fault), Some(client)) = (fault, self.clients.get(&id)) {
                    self.incidents.note(Incident::Garbage, User(client.user), fault);
                }
                self.close(id);
                agent.handle_gone(clock.now(), id);
            }
        }
    }

    fn obey(&mut self, agent: &mut Agent, clock: Clock, incoming: FromCoordinator) {
        match incoming {
            FromCoordinator::Connected(outlet) => {
                self.coordinator = Some(outlet);
                agent.handle_coordinator_connected();
            }
            FromCoordinator::Orders(orders, _held) => agent.handle_orders(clock.now(), orders),
        }
    }

    /// Begins to serve a client, unless the kernel does not say who it is.
    fn attend(
        &mut self,
        agent: &mut Agent,
        stream: UnixStream,
        id: ClientId,
        sender: mpsc::UnboundedSender<FromClient>,
    ) {
        let Ok(user) = stream.peer_cred().map(|peer| peer.uid()) else { return };
        if self.clients.len() >= self.capacity.connections {
            let most = self.capacity.connections;
            let what = format!("{most} connections are open: --max-connections raises that");
            return self.incidents.note(Incident::Full, User(user), what);
        }
        self.forget_users();
        let budget = *agent.budget();
        let of_user = self.users.entry(user).or_insert_with(|| UserMeter {
            meter: self.meter.part(budget.bytes as usize, budget.messages, MORE_FOR_A_USER),
            connections: 0,
            told: 0,
            tellings: Occasional::default(),
        });
        of_user.connections += 1;
        let meter = of_user.meter.clone();
        agent.handle_connected(id, user);
        let gone = sender.clone();
        // A client without flows has nothing to say.
        let limits =
            Limits { first: CLIENT_FRAME, frame: CLIENT_FRAME, first_within: HELLO, idle: None, meter };
        let outlet = connection::run(
            stream,
            limits,
            move |message, held| drop(sender.send(FromClient::Message(id, message, held))),
            move |fault| drop(gone.send(FromClient::Gone(id, fault))),
        );
        self.clients.insert(id, Connection { user, outlet });
    }

    /// Takes over settings that have changed.
    fn set(&mut self, agent: &mut Agent, settings: &Settings) {
        self.capacity = settings.capacity.unwrap_or(self.capacity);
        self.meter.set(self.capacity.bytes, None);
        if let Some(budget) = settings.budget {
            agent.set_budget(budget);
            let meters = self.users.values().map(|user| &user.meter);
            meters.for_each(|meter| meter.set(budget.bytes as usize, Some(budget.messages)));
        }
        if let Some(shadow) = settings.shadow {
            agent.set_shadow(shadow);
        }
    }

    /// A client's connection is over, or is to be: its outlet goes.
    fn close(&mut self, id: ClientId) {
        let Some(gone) = self.clients.remove(&id) else { return };
        let Some(of_user) = self.users.get_mut(&gone.user) else { return };
        of_user.connections -= 1;
    }

    /// Forgets the meters of users of whom nothing is counted any more.
    fn forget_users(&mut self) {
        let over = self.users.extract_if(.., |_, user| user.connections == 0 && !user.meter.is_in_use());
        self.counters.slowed += over.map(|(_, user)| user.meter.slowed()).sum::<u64>();
    }

    /// Tells a client that it is too fast, once a second.
    fn look_for_slowed(&mut self, agent: &mut Agent, id: ClientId) {
        let Some(user) = self.clients.get(&id).map(|client| client.user) else { return };
        let Some(of_user) = self.users.get_mut(&user) else { return };
        if of_user.meter.slowed() > of_user.told && of_user.tellings.admit().is_some() {
            of_user.told = of_user.meter.slowed();
            agent.handle_over_budget(id, Limit::Messages {});
        }
    }

    /// Returns each user's use, with what is counted here.
    fn use_of_users(&self) -> Vec<UserFigures> {
        let figures = |(&user, of_user): (&u32, &UserMeter)| UserFigures {
            user,
            bytes: of_user.meter.held(),
            slowed: of_user.meter.slowed(),
        };
        self.users.iter().map(figures).collect()
    }

    fn send(&mut self, agent: &mut Agent, clock: Clock) {
        while let Some(output) = agent.poll_output() {
            match output {
                AgentOutput::Client(id, message) => {
                    if let AgentMessage::Refused { subject, refusal } = &message
                        && let Some(client) = self.clients.get(&id)
                    {
                        let kind = match refusal {
                            Refusal::Protocol { .. } => Incident::Version,
                            _ => Incident::Denied,
                        };
                        let (who, what) = (User(client.user), format_args!("{subject}: {refusal}"));
                        self.incidents.note(kind, who, what);
                    }
                    if let Some(client) = self.clients.get(&id)
                        && !client.outlet.send(&message)
                    {
                        let what = "it reads too slowly for what it asks";
                        self.incidents.note(Incident::Unread, User(client.user), what);
                        self.close(id);
                        agent.handle_gone(clock.now(), id);
                    }
                }
                AgentOutput::Drop(id) => {
                    self.close(id);
                    agent.handle_gone(clock.now(), id);
                }
                AgentOutput::Reconnect => {
                    if let Some(silent) = self.coordinator.take() {
                        silent.abort();
                    }
                }
                AgentOutput::Measure => {
                    if let Some(totals) = self.arrivals.measure(agent.port(), agent.directory()) {
                        agent.handle_arrivals(totals);
                    }
                }
                AgentOutput::Coordinator(report) => {
                    if self.coordinator.as_ref().is_some_and(|outlet| !outlet.send(&report)) {
                        self.coordinator = None;
                    }
                }
                AgentOutput::Peer(to, datagram) => {
                    let Some((socket, addresses)) = &self.peers else { continue };
                    if let Some(&address) = addresses.get(&to) {
                        let mut bytes = datagram.to_bytes();
                        // Statements are repeated while they matter.
                        if self.pairs.as_mut().is_none_or(|pairs| pairs.close(to, &mut bytes)) {
                            let _ = socket.try_send_to(&bytes, address);
                        }
                    }
                }
            }
        }
    }
}

/// The search for a coordinator.
struct Search {
    coordinators: Vec<SocketAddr>,
    identity: Option<Identity>,
    sender: mpsc::UnboundedSender<FromCoordinator>,
    clock: Clock,
}

impl Search {
    /// Keeps a connection to one of the coordinators.
    async fn keep_connected(self) {
        let mut pause = FIRST_PAUSE;
        let mut is_known_to_fail = false;
        // Who refuses a certificate says so after the connection is made.
        let lasts = |since: tokio::time::Instant| since.elapsed() >= LONGEST_PAUSE;
        for &address in self.coordinators.iter().cycle() {
            match tokio::time::timeout(ATTEMPT, self.attend(address)).await {
                Ok(Ok(is_over)) => {
                    let since = tokio::time::Instant::now();
                    tracing::info!(%address, "connected to a coordinator");
                    match is_over.await.ok().flatten() {
                        Some(fault) => {
                            tracing::warn!(%address, %fault, "closed the connection to the coordinator")
                        }
                        None => tracing::warn!(%address, "lost the connection to the coordinator"),
                    }
                    if lasts(since) {
                        (pause, is_known_to_fail) = (FIRST_PAUSE, false);
                    }
                }
                // Said once: it may go on for long.
                failed if !std::mem::replace(&mut is_known_to_fail, true) => {
                    let error = failed.map_or("no answer in time".to_owned(), |failed| match failed {
                        Ok(_) => String::new(),
                        Err(error) => error.to_string(),
                    });
                    tracing::warn!(%address, error, "no coordinator, all flows go as plain TCP");
                }
                _ => {}
            }
            if self.sender.is_closed() {
                return;
            }
            // Spread by the time at which each agent came here.
            let spread = Duration::from_nanos(self.clock.now().0 % pause.as_nanos() as u64);
            tokio::time::sleep(pause / 2 + spread / 2).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects; what is returned ends with the connection.
    async fn attend(&self, address: SocketAddr) -> io::Result<oneshot::Receiver<Option<Fault>>> {
        let stream = TcpStream::connect(address).await?;
        let _ = stream.set_nodelay(true);
        match &self.identity {
            None => Ok(self.begin(stream)),
            Some(identity) => Ok(self.begin(tls::connect(identity, stream).await?)),
        }
    }

    fn begin<S>(&self, stream: S) -> oneshot::Receiver<Option<Fault>>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + 'static,
    {
        let (over, is_over) = oneshot::channel();
        let (orders, meter) = (self.sender.clone(), Meter::new(ORDERS_WAITING, MORE_FOR_ORDERS));
        let outlet = connection::run(
            stream,
            // The machine gives up a coordinator that is silent.
            Limits { first: MAX_FRAME, frame: MAX_FRAME, first_within: FIRST_ORDERS, idle: None, meter },
            move |heard, held| drop(orders.send(FromCoordinator::Orders(heard, held))),
            move |fault| _ = over.send(fault),
        );
        drop(self.sender.send(FromCoordinator::Connected(outlet)));
        is_over
    }
}

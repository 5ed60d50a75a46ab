//! A host: a clock, an agent that may be down or hang, and processes whose clients may crash. On a
//! host messages take no time.
//!
//! A process may be an enforcer: it stands for programs without a client library, and all their
//! connections of a coflow to one peer are one flow to it. It reports their bytes together, and
//! shares out a flow's rate among those with data to send, as the programs of the kernel path do.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;

use cavalcade_control::{
    Agent, AgentConfig, AgentOutput, ClientId, CoordinatorConfig, Decentralised, Factory, Mode,
};
use cavalcade_model::{BitsPerSec, Bytes, FlowId, Instant, Nanos, PortId, Scope};
use cavalcade_protocol::{
    Client, ClientEvent, ClientMessage, CoflowKey, Datagram, Endpoints, Gate, Message, Orders, Refusal,
    Registration, Report,
};

use crate::clock::Clock;
use crate::fluid::Fluid;

/// The pause of a process before it connects again to an agent that was silent.
const RECONNECT: Nanos = Nanos::from_millis(5);

/// What passes an enforcer's gate that is off: one segment in 0.2 s, of all connections of the
/// flow.
pub(crate) const TRICKLE: BitsPerSec = BitsPerSec(57_920);

/// The address of a host.
pub(crate) fn address(port: PortId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + port.0))
}

/// The ends of a connection between two hosts.
pub(crate) fn endpoints(from: PortId, to: PortId) -> Endpoints {
    let at = |port| SocketAddr::new(address(port), 7);
    Endpoints { local: at(from), remote: at(to) }
}

/// The configuration of all machines.
pub(crate) struct Site {
    pub(crate) policy: Box<dyn Fn() -> Factory>,
    /// Of any agent, but for its port, line and session.
    pub(crate) agent: AgentConfig,
    /// The rates at which each host sends and receives.
    pub(crate) lines: Vec<[BitsPerSec; 2]>,
    /// Of any coordinator, but for its term.
    pub(crate) coordinator: CoordinatorConfig,
}

impl Site {
    pub(crate) fn is_coordinated(&self) -> bool {
        (self.policy)().terms().scope == Scope::Fabric
    }

    fn start_agent(&self, port: PortId, session: Instant) -> Agent {
        let [up, down] = self.lines[port.index()];
        let config = AgentConfig { port, up, down, session: session.0, ..self.agent.clone() };
        let mode = if self.is_coordinated() {
            Mode::Coordinated
        } else {
            Mode::Decentralised(Box::new(Decentralised::new(&config, (self.policy)())))
        };
        Agent::new(config, mode)
    }
}

/// Messages of a host to other machines, and news for its applications.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// For the coordinator.
    pub(crate) reports: Vec<Report>,
    /// For agents of other hosts.
    pub(crate) datagrams: Vec<(PortId, Datagram)>,
    /// Coflows that have their keys: process, request, key.
    pub(crate) registered: Vec<(usize, u32, CoflowKey)>,
    /// Flows whose gates may have changed.
    pub(crate) directed: Vec<(FlowId, Directed)>,
    /// The number of clients that fell back to plain TCP.
    pub(crate) fallbacks: u64,
    /// The agent gives up its connection to a coordinator.
    pub(crate) reconnects: bool,
}

/// A connection, which carries a flow of the workload.
#[derive(Debug)]
struct Connection {
    flow: FlowId,
    /// Bytes sent, as far as the client has been told; those of earlier connections count.
    told: u64,
    is_idle: bool,
}

/// A flow of a client: a connection; or of an enforcer all that a coflow has to a peer.
#[derive(Debug)]
struct Sending {
    connections: Vec<Connection>,
    /// An enforcer's coflow and peer.
    of_enforcer: Option<(CoflowKey, PortId)>,
}

impl Sending {
    fn is_idle(&self) -> bool {
        self.connections.iter().all(|connection| connection.is_idle)
    }

    /// Returns how each connection is to send where the flow goes through `gate`: those with data
    /// to send share its rate, or of an enforcer's flow that is off the trickle. With `whole` each
    /// has all of that, a planted bug.
    fn directed(&self, gate: Gate, whole: bool) -> impl Iterator<Item = (FlowId, Directed)> + '_ {
        let busy = self.connections.iter().filter(|connection| !connection.is_idle).count();
        let parts = if whole { 1 } else { busy.max(1) as u64 };
        let of_flow = match gate {
            Gate::Open {} => None,
            Gate::Off {} if self.of_enforcer.is_some() => Some(TRICKLE),
            Gate::Off {} => Some(BitsPerSec::ZERO),
            Gate::Paced { rate } => Some(rate),
        };
        let cap = of_flow.map(|rate| BitsPerSec(rate.0 / parts));
        self.connections.iter().map(move |connection| (connection.flow, Directed { gate, cap }))
    }
}

/// How a connection is to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directed {
    /// The gate of its flow.
    pub(crate) gate: Gate,
    /// The part of the flow's rate that is the connection's.
    pub(crate) cap: Option<BitsPerSec>,
}

impl Directed {
    /// As plain TCP.
    pub(crate) const PLAIN: Self = Self { gate: Gate::Open {}, cap: None };
}

/// A connection to the agent of a user who has no process here, and speaks the protocol by hand.
#[derive(Debug)]
pub(crate) struct Guest {
    pub(crate) id: ClientId,
    /// Its flows, and the number of the next.
    pub(crate) flows: Vec<u32>,
    pub(crate) next_flow: u32,
}

/// A process that uses the client library.
#[derive(Debug)]
pub(crate) struct Process {
    /// None while it is down.
    pub(crate) client: Option<Client>,
    connection: Option<ClientId>,
    starts_at: Instant,
    connects_at: Instant,
    /// By the client's numbers.
    sending: BTreeMap<u32, Sending>,
}

impl Process {
    /// Closes its connection. It tries again at `again`.
    fn disconnect(&mut self, clock: Instant, again: Instant) -> Option<ClientId> {
        let connection = self.connection.take()?;
        self.connects_at = again;
        if let Some(client) = &mut self.client {
            client.handle_disconnected(clock);
        }
        Some(connection)
    }

    /// Tells the client what its flows have sent.
    fn count(&mut self, fluid: &Fluid<'_>) {
        let Some(client) = &mut self.client else { return };
        for (&number, sending) in &mut self.sending {
            for connection in &mut sending.connections {
                let sent = fluid.sent(connection.flow).max(connection.told);
                client.sent(number, sent - connection.told);
                connection.told = sent;
            }
        }
    }

    /// Returns the flows of an enforcer: the gate of each, and the flows of the workload that its
    /// connections with data to send carry, and those that have none.
    pub(crate) fn enforced(&self) -> impl Iterator<Item = (Gate, Vec<FlowId>, Vec<FlowId>)> + '_ {
        let of_enforcer = self.sending.iter().filter(|(_, sending)| sending.of_enforcer.is_some());
        of_enforcer.filter_map(|(&number, sending)| {
            let gate = self.client.as_ref()?.directive(number).gate;
            let (idle, busy): (Vec<_>, Vec<_>) =
                sending.connections.iter().partition(|connection| connection.is_idle);
            let flows = |of: Vec<&Connection>| of.iter().map(|connection| connection.flow).collect();
            Some((gate, flows(busy), flows(idle)))
        })
    }

    /// Returns the bytes that each of its flows has sent, as the client counts them.
    pub(crate) fn counted(&self) -> impl Iterator<Item = u64> + '_ {
        let client = self.client.iter();
        client
            .flat_map(|client| self.sending.keys().filter_map(|&number| client.bytes_of(number)))
            .map(|b| b.0)
    }
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) port: PortId,
    pub(crate) clock: Clock,
    /// The agent's clock: later than the host's where that was set forward before it started.
    agent_clock: Clock,
    /// Each process is of a user of its own, and lets the others take part in its coflows.
    pub(crate) has_users: bool,
    /// The first process is an enforcer.
    pub(crate) has_enforcer: bool,
    /// An enforcer gives each connection the whole rate of its flow: a planted bug.
    pub(crate) is_generous: bool,
    /// What the agent says is read by each process only when it has said all.
    pub(crate) reads_together: bool,
    /// None while it is down.
    pub(crate) agent: Option<Agent>,
    agent_starts_at: Instant,
    /// Until when the agent does nothing.
    hangs_until: Instant,
    pub(crate) processes: Vec<Process>,
    /// Connections whose end the agent has not noticed.
    gone: Vec<ClientId>,
    /// Connections of a user without processes.
    pub(crate) guests: Vec<Guest>,
    /// Flows whose gates may have changed because connections of an enforcer came, ended, ran dry
    /// or have data again.
    shared_out: Vec<(FlowId, Directed)>,
    /// The first limit that a user of a process was held to, in words.
    pub(crate) over_budget: Option<String>,
    connections: u64,
    /// Clients that have been started here: each calls itself by a number of its own.
    clients: u64,
}

impl Host {
    /// A host of which everything starts at `start`.
    pub(crate) fn new(port: PortId, clock: Clock, processes: usize, start: Instant) -> Self {
        let process = |_| Process {
            client: None,
            connection: None,
            starts_at: start,
            connects_at: start,
            sending: BTreeMap::new(),
        };
        Self {
            port,
            clock,
            agent_clock: clock,
            has_users: false,
            has_enforcer: false,
            is_generous: false,
            reads_together: false,
            agent: None,
            agent_starts_at: start,
            hangs_until: Instant::ZERO,
            processes: (0..processes).map(process).collect(),
            gone: Vec::new(),
            guests: Vec::new(),
            shared_out: Vec::new(),
            over_budget: None,
            connections: 0,
            clients: 0,
        }
    }

    /// Tells whether the agent runs and does not hang.
    pub(crate) fn acts(&self, now: Instant) -> bool {
        self.agent.is_some() && now >= self.hangs_until
    }

    /// Returns the number of connections whose end the agent has not noticed.
    pub(crate) fn ending(&self) -> usize {
        self.gone.len()
    }

    /// Returns until when the agent hangs.
    pub(crate) fn hangs_until(&self) -> Instant {
        self.hangs_until
    }

    /// Returns when something has to be done here, in true time.
    pub(crate) fn due(&self) -> Option<Instant> {
        let when = |clock: &Clock, shown: Option<Instant>| shown.map(|shown| clock.when(shown));
        let agent = match &self.agent {
            None => Some(self.agent_starts_at),
            Some(agent) => {
                when(&self.agent_clock, agent.poll_timeout()).map(|when| when.max(self.hangs_until))
            }
        };
        let connects = |process: &Process| match (process.connection, &self.agent) {
            (None, Some(_)) => Some(process.connects_at.max(self.hangs_until)),
            _ => None,
        };
        let process = |process: &Process| match &process.client {
            None => Some(process.starts_at),
            Some(client) => {
                when(&self.clock, client.poll_timeout()).into_iter().chain(connects(process)).min()
            }
        };
        self.processes.iter().filter_map(process).chain(agent).min()
    }

    /// Does what is due. What starts only says hello.
    pub(crate) fn come_up(&mut self, now: Instant, site: &Site, fluid: &Fluid<'_>) {
        let clock = self.clock.read(now);
        if self.start(now, site) {
            return;
        }
        for process in &mut self.processes {
            let is_due = |client: &Client| client.poll_timeout().is_some_and(|when| when <= clock);
            if !process.client.as_ref().is_some_and(is_due) {
                continue;
            }
            process.count(fluid);
            let is_silent = process.client.as_mut().is_some_and(|client| client.handle_timeout(clock));
            if is_silent {
                self.gone.extend(process.disconnect(clock, now + RECONNECT));
            }
        }
        let (acts, clock) = (self.acts(now), self.agent_clock.read(now));
        if let Some(agent) = self.agent.as_mut().filter(|_| acts)
            && agent.poll_timeout().is_some_and(|when| when <= clock)
        {
            if agent.wants_arrivals() {
                agent.handle_arrivals(&fluid.arrivals(self.port));
            }
            agent.handle_timeout(clock);
        }
    }

    /// Starts and connects what is due. Returns whether anything was.
    fn start(&mut self, now: Instant, site: &Site) -> bool {
        let mut has_started = false;
        if self.agent.is_none() && now >= self.agent_starts_at {
            let mut agent = site.start_agent(self.port, self.agent_clock.read(now));
            agent.handle_coordinator_connected();
            self.agent = Some(agent);
            has_started = true;
        }
        for process in &mut self.processes {
            if process.client.is_none() && now >= process.starts_at {
                process.client = Some(Client::new(u64::from(self.port.0) * 10_000 + self.clients));
                process.connects_at = now;
                self.clients += 1;
                has_started = true;
            }
        }
        let acts = self.acts(now);
        let Some(agent) = self.agent.as_mut().filter(|_| acts) else { return has_started };
        for gone in self.gone.drain(..) {
            agent.handle_gone(self.agent_clock.read(now), gone);
        }
        for (user, process) in (0..).zip(&mut self.processes) {
            let Some(client) = &mut process.client else { continue };
            if process.connection.is_none() && now >= process.connects_at {
                let id = ClientId(self.connections);
                self.connections += 1;
                process.connection = Some(id);
                agent.handle_connected(id, if self.has_users { user } else { 0 });
                client.handle_connected();
                has_started = true;
            }
        }
        has_started
    }

    /// Lets clients and agent talk until they have nothing to say.
    pub(crate) fn talk(&mut self, now: Instant, outbox: &mut Outbox) {
        let of_agent = self.agent_clock.read(now);
        let acts = self.acts(now);
        while let Some(agent) = self.agent.as_mut().filter(|_| acts) {
            for process in &mut self.processes {
                let (Some(client), Some(id)) = (&mut process.client, process.connection) else { continue };
                while let Some(message) = client.poll_message() {
                    agent.handle_client(of_agent, id, through_bytes(&message));
                }
            }
            let Some(first) = agent.poll_output() else { break };
            let mut read = vec![first];
            if self.reads_together {
                read.extend(std::iter::from_fn(|| agent.poll_output()));
            }
            read.into_iter().for_each(|output| self.carry_out(now, output, outbox));
            self.receive(outbox);
        }
        self.receive(outbox);
    }

    /// Carries out what the agent says.
    fn carry_out(&mut self, now: Instant, output: AgentOutput, outbox: &mut Outbox) {
        match output {
            AgentOutput::Client(id, message) => {
                let to = self.processes.iter_mut().find(|process| process.connection == Some(id));
                if let Some(client) = to.and_then(|process| process.client.as_mut()) {
                    client.handle_message(self.clock.read(now), through_bytes(&message));
                }
            }
            AgentOutput::Coordinator(report) => outbox.reports.push(report),
            AgentOutput::Peer(to, datagram) => outbox.datagrams.push((to, datagram)),
            AgentOutput::Reconnect => outbox.reconnects = true,
            // Answered whenever the host comes up.
            AgentOutput::Measure => {}
            // The former connection of a client that is back.
            AgentOutput::Drop(id) => {
                self.guests.retain(|guest| guest.id != id);
                self.gone.push(id);
            }
        }
    }

    /// Takes what clients have to say to their applications.
    fn receive(&mut self, outbox: &mut Outbox) {
        let (has_users, whole) = (self.has_users, self.is_generous);
        let users = if has_users { self.processes.len() } else { 0 };
        let others = |own: usize| (0..users).filter(move |user| *user != own);
        outbox.directed.append(&mut self.shared_out);
        for (index, process) in self.processes.iter_mut().enumerate() {
            let Some(client) = &mut process.client else { continue };
            while let Some(event) = client.poll_event() {
                match event {
                    ClientEvent::Registered { request, coflow } => {
                        share(client, coflow, others(index));
                        outbox.registered.push((index, request, coflow));
                    }
                    ClientEvent::Directed(number) => {
                        if let Some(sending) = process.sending.get(&number) {
                            outbox.directed.extend(sending.directed(client.directive(number).gate, whole));
                        }
                    }
                    ClientEvent::Refused { subject, refusal: refusal @ Refusal::TooMany { .. } } => {
                        self.over_budget.get_or_insert(format!("{subject}: {refusal}"));
                    }
                    // A user who has come before the owner has granted it, or grants what is
                    // another's.
                    ClientEvent::Refused { .. } if has_users => {}
                    ClientEvent::Refused { subject, refusal } => {
                        unreachable!("nothing is asked for that may be refused: {subject}: {refusal}")
                    }
                    ClientEvent::FellBack => outbox.fallbacks += 1,
                    ClientEvent::Ready(_) => {}
                }
            }
        }
    }

    /// The application in a process registers a coflow. Returns the request, if the process runs.
    pub(crate) fn register(&mut self, now: Instant, process: usize, what: Registration) -> Option<u32> {
        let clock = self.clock.read(now);
        self.processes[process].client.as_mut().map(|client| client.register(clock, what))
    }

    /// A connection of a process begins to carry what is left of `flow`. Returns its number, if the
    /// process runs.
    pub(crate) fn open(
        &mut self,
        process: usize,
        flow: FlowId,
        key: CoflowKey,
        to: PortId,
        (sent, size): (u64, u64),
    ) -> Option<u32> {
        let ends = endpoints(self.port, to);
        let users = if self.has_users { self.processes.len() } else { 0 };
        let others = (0..users).filter(|user| *user != process);
        let of_enforcer = (self.has_enforcer && process == 0).then_some((key, to));
        let at = &mut self.processes[process];
        let client = at.client.as_mut()?;
        let joined = at.sending.iter().find(|(_, sending)| sending.of_enforcer == of_enforcer);
        let number = match joined.filter(|_| of_enforcer.is_some()) {
            Some((&number, _)) => number,
            // An enforcer seldom knows how much programs send.
            None => client.open(key, ends, of_enforcer.is_none().then_some(Bytes(size - sent))),
        };
        share(client, key, others);
        let fresh = Sending { connections: Vec::new(), of_enforcer };
        let sending = at.sending.entry(number).or_insert(fresh);
        sending.connections.push(Connection { flow, told: sent, is_idle: false });
        self.share_out(process, number);
        Some(number)
    }

    /// A flow has sent all its bytes, `size`.
    pub(crate) fn close(&mut self, process: usize, (number, flow): (u32, FlowId), size: u64) {
        let sending = self.processes[process].sending.get_mut(&number);
        let sending = sending.expect("a flow ends once, while its process runs");
        let at = sending.connections.iter().position(|connection| connection.flow == flow);
        let over = sending.connections.swap_remove(at.expect("a connection ends once"));
        let is_last = sending.connections.is_empty();
        if is_last {
            self.processes[process].sending.remove(&number);
        }
        if let Some(client) = &mut self.processes[process].client {
            client.sent(number, size - over.told);
            if is_last {
                client.close(number);
            }
        }
        self.share_out(process, number);
    }

    /// The application has nothing to send on a connection, or has again.
    pub(crate) fn set_idle(&mut self, process: usize, (number, flow): (u32, FlowId), is_idle: bool) {
        if let Some(sending) = self.processes[process].sending.get_mut(&number) {
            let connections = sending.connections.iter_mut();
            let same = connections.filter(|connection| connection.flow == flow);
            same.for_each(|connection| connection.is_idle = is_idle);
        }
        self.share_out(process, number);
    }

    /// Sets at the client whether a flow has anything to send, and gives connections of an
    /// enforcer's flow their parts of its rate.
    fn share_out(&mut self, process: usize, number: u32) {
        let process = &mut self.processes[process];
        let (Some(client), Some(sending)) = (&mut process.client, process.sending.get(&number)) else {
            return;
        };
        client.set_idle(number, sending.is_idle());
        if sending.of_enforcer.is_some() {
            self.shared_out.extend(sending.directed(client.directive(number).gate, self.is_generous));
        }
    }

    /// A coflow is over as far as a process is concerned.
    pub(crate) fn unregister(&mut self, process: usize, key: CoflowKey) {
        if let Some(client) = &mut self.processes[process].client {
            client.unregister(key);
        }
    }

    pub(crate) fn receive_orders(&mut self, now: Instant, orders: Orders) {
        if let Some(agent) = &mut self.agent {
            agent.handle_orders(self.agent_clock.read(now), orders);
        }
    }

    pub(crate) fn receive_datagram(&mut self, now: Instant, datagram: Datagram) {
        if let Some(agent) = &mut self.agent {
            agent.handle_datagram(self.agent_clock.read(now), datagram);
        }
    }

    /// The agent is gone until `until`, and its connections with it; each process connects again
    /// when `again` says.
    pub(crate) fn crash_agent(&mut self, now: Instant, until: Instant, mut again: impl FnMut() -> Instant) {
        self.agent = None;
        self.agent_starts_at = until;
        self.gone.clear();
        self.guests.clear();
        let clock = self.clock.read(now);
        for process in self.processes.iter_mut().filter(|process| process.connection.is_some()) {
            process.disconnect(clock, again());
        }
    }

    /// Sets the clock forward; agents that start from now on read it.
    pub(crate) fn set_forward(&mut self, span: Nanos) {
        self.agent_clock = self.agent_clock.ahead_by(span);
    }

    /// The clock that clients go by is set back.
    pub(crate) fn set_back(&mut self, span: Nanos) {
        self.clock = self.clock.behind_by(span);
    }

    /// A process is gone until `until`, and its connections with it.
    pub(crate) fn crash_process(&mut self, which: usize, until: Instant) {
        let process = &mut self.processes[which];
        process.client = None;
        process.sending.clear();
        process.starts_at = until;
        self.gone.extend(process.connection.take());
    }

    /// The agent does nothing until `until`.
    pub(crate) fn hang(&mut self, until: Instant) {
        self.hangs_until = until;
    }

    /// A user without processes connects to the agent.
    pub(crate) fn admit_guest(&mut self, user: u32) {
        let Some(agent) = &mut self.agent else { return };
        let id = ClientId(self.connections);
        self.connections += 1;
        agent.handle_connected(id, user);
        self.guests.push(Guest { id, flows: Vec::new(), next_flow: 0 });
    }

    /// A guest says something.
    pub(crate) fn receive_guest(&mut self, now: Instant, id: ClientId, message: &ClientMessage) {
        if let Some(agent) = &mut self.agent {
            agent.handle_client(self.agent_clock.read(now), id, through_bytes(message));
        }
    }

    /// A guest closes its connection.
    pub(crate) fn dismiss_guest(&mut self, now: Instant, which: usize) {
        let guest = self.guests.swap_remove(which);
        if let Some(agent) = &mut self.agent {
            agent.handle_gone(self.agent_clock.read(now), guest.id);
        }
    }

    /// Everything runs again.
    pub(crate) fn heal(&mut self, now: Instant) {
        self.hangs_until = Instant::ZERO;
        self.agent_starts_at = self.agent_starts_at.min(now);
        for process in &mut self.processes {
            process.starts_at = process.starts_at.min(now);
        }
    }
}

/// Lets other users take part in a coflow.
fn share(client: &mut Client, key: CoflowKey, others: impl Iterator<Item = usize>) {
    others.for_each(|user| client.grant(key, user as u32));
}

/// A message as it is after its way as bytes.
fn through_bytes<M: Message>(message: &M) -> M {
    M::decode(&message.to_bytes()).expect("what was encoded is decoded")
}

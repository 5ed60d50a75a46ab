//! A host: its agent, a client with an application that follows a script, and its connections.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::{Agent, AgentConfig, AgentOutput, Budget, ClientId, Mode};
use cavalcade_model::{Instant, Nanos, PortId};
use cavalcade_protocol::{
    Client, ClientEvent, CoflowKey, Endpoints, Gate, Orders, Refusal, Registration, Report, Subject,
};

use super::site::{Act, PERIOD, Plan, RATE, Rule, Site};

pub(super) const CLIENT_LEASE: Nanos = Nanos::from_millis(80);
/// Flows that a user may have open.
const MOST_FLOWS: u32 = 2;
/// The user of all clients.
pub(super) const USER: u32 = 1;
/// Bytes that a flow sends at once.
const SENT: u64 = 100_000;

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) coordinator: usize,
    pub(super) up: VecDeque<Report>,
    pub(super) down: VecDeque<Orders>,
    /// True while the agent has its end, and the coordinator its.
    pub(super) at_agent: bool,
    pub(super) at_coordinator: bool,
    /// True if the coordinator sends its orders there: the agent's last report came on it.
    pub(super) is_route: bool,
}

impl Link {
    /// A connection that both ends have.
    pub(super) fn new(coordinator: usize) -> Self {
        Self { coordinator, at_agent: true, at_coordinator: true, ..Self::default() }
    }

    /// Returns whether something is to be delivered to the coordinator: a report, or that the
    /// connection is over.
    pub(super) fn has_up(&self) -> bool {
        self.at_coordinator && (!self.up.is_empty() || !self.at_agent)
    }

    /// Returns whether something is to be delivered to the agent: orders, or that the connection is
    /// over.
    pub(super) fn has_down(&self) -> bool {
        self.at_agent && (!self.down.is_empty() || !self.at_coordinator)
    }

    /// The agent's end is gone, with what it had still to read.
    pub(super) fn hang_up(&mut self) {
        self.at_agent = false;
        self.down.clear();
    }

    /// The coordinator's end is gone, with what it had still to read.
    pub(super) fn close(&mut self) {
        (self.at_coordinator, self.is_route) = (false, false);
        self.up.clear();
    }
}

/// A host.
pub(super) struct Host {
    pub(super) agent: Agent,
    pub(super) session: u64,
    pub(super) client: Client,
    connection: ClientId,
    /// The last one is the present one, if the agent has its end.
    pub(super) links: Vec<Link>,
    /// Number of steps that the application has done.
    pub(super) done: usize,
    /// The coflows that were registered here, and open flows with their coflows.
    pub(super) own: Vec<CoflowKey>,
    pub(super) flows: Vec<(u32, CoflowKey)>,
    /// The highest term that the agent has been told since it started, and the highest number of
    /// that; until when orders hold at most; and the term that was obeyed last.
    pub(super) latest: (u64, u64),
    pub(super) holds_until: Instant,
    pub(super) obeyed: u64,
    /// What arrived last: the report, and the orders of each term.
    pub(super) last_up: Option<Report>,
    pub(super) last_down: BTreeMap<u64, Orders>,
}

fn address(port: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, port as u8)), 7000)
}

fn agent(plan: &Plan, port: u32, session: u64) -> Agent {
    let config = AgentConfig {
        directory: (0..plan.ports()).map(|port| (address(port).ip(), PortId(port))).collect(),
        period: PERIOD,
        client_lease: CLIENT_LEASE,
        stall: Nanos::from_secs(1_000),
        linger: Nanos::from_millis(40),
        budget: Budget { flows: MOST_FLOWS, ..Budget::default() },
        ..AgentConfig::new(PortId(port), plan.ports(), session, RATE)
    };
    Agent::new(config, Mode::Coordinated)
}

impl Host {
    /// A host whose client has just connected.
    pub(super) fn new(plan: &Plan, port: u32, session: u64) -> Self {
        let mut host = Self {
            agent: agent(plan, port, session),
            session,
            client: Client::new(7),
            connection: ClientId(0),
            links: Vec::new(),
            done: 0,
            own: Vec::new(),
            flows: Vec::new(),
            latest: (0, 0),
            holds_until: Instant::ZERO,
            obeyed: 0,
            last_up: None,
            last_down: BTreeMap::new(),
        };
        host.connect();
        host
    }

    /// The agent starts again, and the client connects to it.
    pub(super) fn restart(&mut self, plan: &Plan, session: u64) {
        (self.agent, self.session) = (agent(plan, self.agent.port().0, session), session);
        (self.latest, self.holds_until, self.obeyed) = ((0, 0), Instant::ZERO, 0);
        self.connect();
    }

    fn connect(&mut self) {
        self.connection.0 += 1;
        self.agent.handle_connected(self.connection, USER);
        self.client.handle_connected();
    }

    /// The client has given its connection up, and has another one.
    pub(super) fn reconnect(&mut self, now: Instant) {
        self.client.handle_disconnected(now);
        self.agent.handle_gone(now, self.connection);
        self.connect();
    }

    /// The connection that the agent has.
    pub(super) fn link(&self) -> Option<&Link> {
        self.links.last().filter(|link| link.at_agent)
    }

    pub(super) fn link_mut(&mut self) -> Option<&mut Link> {
        self.links.last_mut().filter(|link| link.at_agent)
    }

    /// Removes connections that neither end holds.
    pub(super) fn forget_links(&mut self) {
        self.links.retain(|link| link.at_agent || link.at_coordinator);
    }

    /// Does what is due; what it says goes on its way.
    pub(super) fn turn(&mut self, now: Instant, arrived: &BTreeMap<PortId, u64>) {
        if self.client.handle_timeout(now) {
            self.reconnect(now);
        }
        loop {
            while let Some(message) = self.client.poll_message() {
                self.agent.handle_client(now, self.connection, message);
            }
            self.agent.handle_timeout(now);
            let Some(output) = self.agent.poll_output() else { return };
            self.carry(now, output, arrived);
            while let Some(output) = self.agent.poll_output() {
                self.carry(now, output, arrived);
            }
        }
    }

    fn carry(&mut self, now: Instant, output: AgentOutput, arrived: &BTreeMap<PortId, u64>) {
        match output {
            AgentOutput::Client(connection, message) if connection == self.connection => {
                self.client.handle_message(now, message);
            }
            AgentOutput::Client(..) => {}
            AgentOutput::Coordinator(report) => {
                self.link_mut().into_iter().for_each(|link| link.up.push_back(report.clone()));
            }
            AgentOutput::Reconnect => {
                self.link_mut().into_iter().for_each(Link::hang_up);
                self.forget_links();
            }
            AgentOutput::Measure => self.agent.handle_arrivals(arrived),
            AgentOutput::Drop(connection) => {
                assert_ne!(connection, self.connection, "the client has not broken the protocol");
            }
            AgentOutput::Peer(..) => unreachable!("an agent that obeys has nothing to say to others"),
        }
    }

    /// Returns whether a flow may send.
    pub(super) fn may_send(&self, flow: u32) -> bool {
        self.client.directive(flow).gate != Gate::Off {}
    }
}

impl Site<'_> {
    pub(super) fn may_act(&self, at: usize) -> bool {
        let host = &self.hosts[at];
        match self.plan.scripts[at].get(host.done) {
            None => false,
            Some(Act::Join) => !self.hosts[0].own.is_empty(),
            Some(Act::Send) => host.flows.iter().any(|&(flow, _)| host.may_send(flow)),
            Some(Act::Open | Act::Exceed | Act::Close) => true,
        }
    }

    /// The application of a host goes on.
    pub(super) fn act(&mut self, at: usize) {
        let act = self.plan.scripts[at][self.hosts[at].done];
        self.hosts[at].done += 1;
        match act {
            Act::Open => {
                let key = self.register(at);
                self.hosts[at].own.push(key);
                self.open(at, key);
            }
            Act::Join => {
                let key = self.hosts[0].own[0];
                self.open(at, key);
            }
            Act::Send => self.send(at),
            Act::Exceed => self.exceed(at),
            Act::Close => {
                let host = &mut self.hosts[at];
                for (flow, _) in &host.flows {
                    host.client.close(*flow);
                }
                let others = std::mem::take(&mut host.flows).into_iter().map(|(_, key)| key);
                host.own.iter().copied().chain(others).for_each(|key| host.client.unregister(key));
            }
        }
        self.turn_host(at);
    }

    fn register(&mut self, at: usize) -> CoflowKey {
        let now = self.now;
        self.hosts[at].client.register(now, Registration::default());
        self.turn_host(at);
        let events = std::iter::from_fn(|| self.hosts[at].client.poll_event());
        let registered = |event| match event {
            ClientEvent::Registered { coflow, .. } => Some(coflow),
            _ => None,
        };
        events.filter_map(registered).last().expect("a client gets a key at once")
    }

    fn open(&mut self, at: usize, key: CoflowKey) -> u32 {
        let ends = Endpoints { local: address(at as u32), remote: address(self.plan.receiver) };
        let flow = self.hosts[at].client.open(key, ends, None);
        self.hosts[at].flows.push((flow, key));
        self.turn_host(at);
        flow
    }

    fn send(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        for (flow, key) in host.flows.clone() {
            if host.may_send(flow) {
                host.client.sent(flow, SENT);
                *self.sent.entry(key).or_default() += SENT;
                *self.arrived.entry(PortId(at as u32)).or_default() += SENT;
            }
        }
    }

    /// Opens more flows than the user may have, and closes those that are too many.
    fn exceed(&mut self, at: usize) {
        let key = self.hosts[at].own[0];
        while self.hosts[at].flows.len() < MOST_FLOWS as usize {
            self.open(at, key);
        }
        while self.hosts[at].client.poll_event().is_some() {}
        let flow = self.open(at, key);
        let subject = Subject::Flow { flow };
        let refused = |event: ClientEvent| match event {
            ClientEvent::Refused { subject: of, refusal: Refusal::TooMany { .. } } => of == subject,
            _ => false,
        };
        let is_refused = std::iter::from_fn(|| self.hosts[at].client.poll_event()).any(refused);
        if !is_refused {
            self.breaks(Rule::Budget, || format!("host {at} opens flow {flow} beyond its budget"));
        }
        self.hosts[at].client.close(flow);
        self.hosts[at].flows.retain(|(open, _)| *open != flow);
        self.turn_host(at);
    }
}

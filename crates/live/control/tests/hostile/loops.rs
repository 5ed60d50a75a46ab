//! Whole message loops: clients, two agents and a coordinator that talk to each other, while a
//! script decides what applications do, what becomes of messages and connections, and what a
//! stranger says in between.
//!
//! Scripts of messages alone rarely get past the first check of a part; here every part is led into
//! the states that it has in use, and is then told what makes no sense there.

use std::collections::VecDeque;

use cavalcade_control::*;
use cavalcade_model::{Bytes, Instant, Nanos, PortId};
use cavalcade_protocol::{
    AgentMessage, Client, ClientEvent, ClientMessage, CoflowKey, Directive, Endpoints, Gate, Limit,
    MAX_FRAME, Message, Orders, PROTOCOL, Refusal, Registration, Report, Subject,
};

use super::{FABRIC, PORTS, RATE, Script, address, config, policy};

const HOSTS: usize = 2;
const CLIENTS: usize = 3;

/// A client at one of the hosts, its connection, and messages on their way.
struct Seat {
    host: usize,
    client: Client,
    connection: Option<ClientId>,
    to_agent: VecDeque<ClientMessage>,
    to_client: VecDeque<AgentMessage>,
    flows: Vec<u32>,
}

/// An agent, and messages on their way between it and the coordinator.
struct Place {
    agent: Agent,
    reports: VecDeque<Report>,
    orders: VecDeque<Orders>,
}

struct Site {
    now: Instant,
    lead: &'static str,
    confirm: bool,
    /// Bytes that have arrived at any host from each port.
    arrived: u64,
    term: u64,
    coordinator: Coordinator,
    places: Vec<Place>,
    seats: Vec<Seat>,
    keys: Vec<CoflowKey>,
    connections: u64,
}

/// Lets a script lead all parts: none may panic, want to be called at once for ever, or obey
/// without a connection.
pub(crate) fn loops_hold(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut site = Site::new(FABRIC[usize::from(script.below(4))], script.yes());
    while !script.0.is_empty() {
        site.step(&mut script);
        site.turn();
    }
}

impl Site {
    fn new(lead: &'static str, confirm: bool) -> Self {
        let seat = |number: usize| Seat {
            host: number % HOSTS,
            client: Client::new(number as u64),
            connection: None,
            to_agent: VecDeque::new(),
            to_client: VecDeque::new(),
            flows: Vec::new(),
        };
        let place =
            |port: usize| Place { agent: agent(port, 1), reports: VecDeque::new(), orders: VecDeque::new() };
        let mut site = Self {
            now: Instant(1_000_000_000),
            lead,
            confirm,
            arrived: 0,
            term: 1,
            coordinator: coordinator(lead, confirm, 1),
            places: (0..HOSTS).map(place).collect(),
            seats: (0..CLIENTS).map(seat).collect(),
            keys: Vec::new(),
            connections: 0,
        };
        (0..CLIENTS).for_each(|seat| site.connect(seat));
        site
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let which = usize::from(script.below(CLIENTS as u8));
        let host = usize::from(script.below(HOSTS as u8));
        match script.below(16) {
            0..=5 => self.apply(which, script),
            6 => {
                self.now = self.now + Nanos(u64::from(script.byte()) << script.below(24));
                self.arrived += u64::from(script.byte()) << script.below(24);
            }
            // Everything on its way arrives, so that parts get on with each other.
            7 | 8 => (0..4).for_each(|_| self.deliver_all()),
            9 => self.disturb(which, host, script),
            10 => self.seats[which].to_agent.push_front(script.client_message()),
            11 => self.seats[which].to_client.push_front(script.agent_message()),
            12 => self.places[host].reports.push_front(script.report()),
            13 => self.places[host].orders.push_front(script.orders()),
            14 => self.break_connection(which, host, script),
            _ => self.restart(which, host, script),
        }
    }

    /// An application does something.
    fn apply(&mut self, which: usize, script: &mut Script<'_>) {
        let seat = &mut self.seats[which];
        let flow = seat.flows.get(usize::from(script.below(4))).copied();
        match (script.below(6), flow) {
            (0, _) => {
                let parents = self.keys.iter().rev().take(usize::from(script.below(3))).copied().collect();
                let size = script.maybe(|script| Bytes(script.amount()));
                let deadline = script.maybe(|script| Nanos(script.amount()));
                seat.client
                    .register(self.now, Registration { parents, size, deadline, ..Registration::default() });
            }
            (1, _) => {
                let known = self.keys.get(usize::from(script.below(8))).copied();
                let key = known.unwrap_or_else(|| script.key());
                let at = |port: u8| std::net::SocketAddr::new(address(u32::from(port)), 1);
                let ends = Endpoints { local: at(0), remote: at(script.below(4)) };
                let size = script.maybe(|script| Bytes(script.amount()));
                seat.flows.push(seat.client.open(key, ends, size));
            }
            // Applications count bytes that they have written: no sum of them overflows.
            (2, Some(flow)) => seat.client.sent(flow, u64::from(script.byte()) << script.below(20)),
            (3, Some(flow)) => seat.client.set_idle(flow, script.yes()),
            (4, None) => {
                if let Some(&key) = self.keys.get(usize::from(script.below(8))) {
                    seat.client.grant(key, u32::from(script.below(3)));
                }
            }
            (4, Some(flow)) => {
                seat.client.close(flow);
                seat.flows.retain(|open| *open != flow);
            }
            _ => {
                if let Some(&key) = self.keys.get(usize::from(script.below(8))) {
                    seat.client.unregister(key);
                }
            }
        }
    }

    /// A message is lost, comes twice, or after the others.
    fn disturb(&mut self, which: usize, host: usize, script: &mut Script<'_>) {
        fn one<T: Clone>(queue: &mut VecDeque<T>, what: u8) {
            let Some(first) = queue.pop_front() else { return };
            match what {
                0 => {}
                1 => queue.extend([first.clone(), first]),
                _ => queue.push_back(first),
            }
        }
        let what = script.below(3);
        match script.below(4) {
            0 => one(&mut self.seats[which].to_agent, what),
            1 => one(&mut self.seats[which].to_client, what),
            2 => one(&mut self.places[host].reports, what),
            _ => one(&mut self.places[host].orders, what),
        }
    }

    fn break_connection(&mut self, which: usize, host: usize, script: &mut Script<'_>) {
        if script.yes() {
            return self.disconnect(which);
        }
        let place = &mut self.places[host];
        place.reports.clear();
        place.orders.clear();
        place.agent.handle_coordinator_connected();
        self.coordinator.handle_disconnected(PortId(host as u32));
    }

    fn restart(&mut self, which: usize, host: usize, script: &mut Script<'_>) {
        match script.below(3) {
            0 => {
                self.term += u64::from(script.below(2));
                self.coordinator = coordinator(self.lead, self.confirm, self.term);
            }
            1 => {
                self.places[host].agent = agent(host, self.now.0);
                let here = (0..CLIENTS).filter(|seat| self.seats[*seat].host == host);
                here.collect::<Vec<_>>().into_iter().for_each(|seat| self.lose(seat));
            }
            _ => {
                self.disconnect(which);
                self.seats[which].client = Client::new(1_000 + self.connections);
                self.seats[which].flows.clear();
            }
        }
    }

    fn connect(&mut self, which: usize) {
        let seat = &mut self.seats[which];
        let id = ClientId(self.connections);
        self.connections += 1;
        seat.connection = Some(id);
        self.places[seat.host].agent.handle_connected(id, which as u32 / 2);
        seat.client.handle_connected();
    }

    /// A connection ends at both of its ends.
    fn disconnect(&mut self, which: usize) {
        if let Some(id) = self.seats[which].connection {
            self.places[self.seats[which].host].agent.handle_gone(self.now, id);
        }
        self.lose(which);
    }

    fn lose(&mut self, which: usize) {
        let seat = &mut self.seats[which];
        seat.to_agent.clear();
        seat.to_client.clear();
        if seat.connection.take().is_some() {
            seat.client.handle_disconnected(self.now);
        }
        let orders = seat.flows.iter().map(|&flow| seat.client.directive(flow));
        assert!(orders.into_iter().all(|order| order == Directive::default()), "it obeys without an agent");
    }

    fn deliver_all(&mut self) {
        for place in &mut self.places {
            place.reports.drain(..).for_each(|report| self.coordinator.handle_report(self.now, report));
            place.orders.drain(..).for_each(|orders| place.agent.handle_orders(self.now, orders));
        }
        for which in 0..CLIENTS {
            let seat = &mut self.seats[which];
            let Some(id) = seat.connection else {
                self.connect(which);
                continue;
            };
            let agent = &mut self.places[seat.host].agent;
            seat.to_agent.drain(..).for_each(|message| agent.handle_client(self.now, id, message));
            seat.to_client.drain(..).for_each(|message| seat.client.handle_message(self.now, message));
        }
        self.turn();
    }

    /// Every part does what is due, and what it says goes on its way, as bytes.
    fn turn(&mut self) {
        for which in 0..CLIENTS {
            self.turn_client(which);
        }
        for host in 0..HOSTS {
            let agent = &mut self.places[host].agent;
            agent.handle_timeout(self.now);
            assert!(agent.poll_timeout().is_none_or(|when| when > self.now), "an agent spins");
            while let Some(output) = self.places[host].agent.poll_output() {
                self.carry(host, output);
            }
        }
        self.coordinator.handle_timeout(self.now);
        let due = self.coordinator.poll_timeout();
        assert!(due.is_none_or(|when| when > self.now), "the coordinator spins: {due:?} at {:?}", self.now);
        while let Some((port, orders)) = self.coordinator.poll_orders() {
            self.places
                .get_mut(port.index())
                .into_iter()
                .for_each(|place| place.orders.push_back(through(&orders)));
        }
    }

    fn turn_client(&mut self, which: usize) {
        let seat = &mut self.seats[which];
        let is_silent = seat.client.handle_timeout(self.now);
        assert!(seat.client.poll_timeout().is_none_or(|when| when > self.now), "a client spins");
        while let Some(message) = seat.client.poll_message() {
            seat.to_agent.push_back(through(&message));
        }
        while let Some(event) = seat.client.poll_event() {
            if let ClientEvent::Registered { coflow, .. } = event {
                self.keys.push(coflow);
                self.keys.drain(..self.keys.len().saturating_sub(8));
            }
        }
        if is_silent {
            self.disconnect(which);
        }
    }

    fn carry(&mut self, host: usize, output: AgentOutput) {
        let seat = |id| self.seats.iter().position(|seat| seat.host == host && seat.connection == Some(id));
        match output {
            AgentOutput::Client(id, message) => {
                let seat = seat(id);
                seat.into_iter().for_each(|seat| self.seats[seat].to_client.push_back(through(&message)));
            }
            AgentOutput::Coordinator(report) => self.places[host].reports.push_back(through(&report)),
            AgentOutput::Drop(id) => match seat(id) {
                Some(seat) => self.disconnect(seat),
                None => self.places[host].agent.handle_gone(self.now, id),
            },
            AgentOutput::Reconnect => self.places[host].agent.handle_coordinator_connected(),
            AgentOutput::Measure => {
                let totals = (0..PORTS).map(|port| (PortId(port), self.arrived)).collect();
                self.places[host].agent.handle_arrivals(&totals);
            }
            AgentOutput::Peer(..) => unreachable!("an agent that obeys has nothing to say to others"),
        }
    }
}

fn agent(port: usize, session: u64) -> Agent {
    Agent::new(AgentConfig { port: PortId(port as u32), session, ..config() }, Mode::Coordinated)
}

fn coordinator(lead: &str, confirm: bool, term: u64) -> Coordinator {
    let config = CoordinatorConfig { confirm, ..CoordinatorConfig::new(term, PORTS, RATE) };
    Coordinator::new(config, policy(lead))
}

fn through<M: Message>(message: &M) -> M {
    let bytes = message.to_bytes();
    assert!(bytes.len() <= MAX_FRAME, "a message of {} bytes", bytes.len());
    M::decode(&bytes).expect("what was encoded is decoded")
}

impl Script<'_> {
    fn agent_message(&mut self) -> AgentMessage {
        let flow = u32::from(self.below(4));
        match self.below(6) {
            0 => AgentMessage::Welcome {
                protocol: PROTOCOL,
                port: self.port(),
                period: Nanos(self.amount()),
                lease: Nanos(self.amount()),
            },
            1 => AgentMessage::Registered { request: flow, coflow: self.key(), facts: self.facts() },
            2 | 3 => {
                let gate = if self.yes() { Gate::Off {} } else { Gate::Open {} };
                AgentMessage::Direct {
                    flow,
                    directive: Directive { gate, class: self.maybe(|script| script.amount() as u16) },
                }
            }
            4 => AgentMessage::Alive {},
            _ => {
                let subject = match self.below(4) {
                    0 => Subject::Connection {},
                    1 => Subject::Request { request: flow },
                    2 => Subject::Coflow { coflow: self.key() },
                    _ => Subject::Flow { flow },
                };
                let (of, limit) = (Limit::ALL[usize::from(self.below(5))], self.amount() as u32);
                let refusal = if self.yes() { Refusal::TooMany { of, limit } } else { Refusal::NotYours {} };
                AgentMessage::Refused { subject, refusal }
            }
        }
    }
}

//! Hosts and a coordinator, joined by hand: messages arrive at once, and each is written down as a
//! line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, TaskClass};
use cavalcade_policy::parse;
use cavalcade_protocol::*;

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// The key by which the coordinators of a site know each other.
struct Secret;

impl Notary for Secret {
    fn seal(&self, statement: &[u8]) -> Vec<u8> {
        [statement, &[0x5e, 0xa1]].concat()
    }

    fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        sealed.strip_suffix(&[0x5e, 0xa1]).map(<[u8]>::to_vec)
    }
}

/// Hosts, each with client 0 of user 1, and a coordinator or none.
pub(crate) struct Site {
    now: Instant,
    policy: String,
    /// True if bytes and movement take the word of receivers.
    confirm: bool,
    /// Bytes that have arrived at each host from others.
    arrived: Vec<BTreeMap<PortId, u64>>,
    coordinator: Option<Coordinator>,
    agents: Vec<Agent>,
    names: BTreeMap<CoflowKey, String>,
    keys: BTreeMap<String, CoflowKey>,
    registered: Option<CoflowKey>,
    /// Numbers of reports that a compromised host has made, by port.
    forged: BTreeMap<u32, u64>,
    /// The report that this host repeats, the next time, and the bytes more that its flows have
    /// sent then.
    haunting: Option<(Instant, Report, u64)>,
    began: Instant,
    said: String,
}

fn address(port: u32) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, port as u8)), 7000)
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
}

/// The value of `name=value` among `words`.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn factory(policy: &str) -> Factory {
    Box::new(parse(policy).expect("a valid specification"))
}

impl Site {
    /// `POLICY hosts=N`, with `decentralised` where hosts decide themselves.
    pub(crate) fn new(words: &[&str]) -> Self {
        let ports: u32 = number(option(words, "hosts").expect("how many hosts"));
        let policy = words[0].to_owned();
        let is_coordinated = !words.contains(&"decentralised");
        let agent = |port| {
            let config = Self::config(port, ports, 1);
            let mode = if is_coordinated {
                Mode::Coordinated
            } else {
                Mode::Decentralised(Box::new(Decentralised::new(&config, factory(&policy))))
            };
            Agent::new(config, mode)
        };
        let mut site = Self {
            now: Instant(1_000_000_000_000),
            coordinator: None,
            agents: (0..ports).map(agent).collect(),
            policy,
            confirm: words.contains(&"confirm"),
            arrived: vec![BTreeMap::new(); ports as usize],
            names: BTreeMap::new(),
            keys: BTreeMap::new(),
            registered: None,
            forged: BTreeMap::new(),
            haunting: None,
            began: Instant::ZERO,
            said: String::new(),
        };
        if is_coordinated {
            site.lead(1);
        }
        for port in 0..ports {
            site.connect(port, 0, 1);
        }
        site.said.clear();
        site
    }

    fn config(port: u32, ports: u32, session: u64) -> AgentConfig {
        let directory = (0..ports).map(|port| (address(port).ip(), PortId(port))).collect();
        AgentConfig { directory, ..AgentConfig::new(PortId(port), ports, session, RATE) }
    }

    fn lead(&mut self, term: u64) {
        let confirm = self.confirm;
        let config =
            CoordinatorConfig { confirm, ..CoordinatorConfig::new(term, self.agents.len() as u32, RATE) };
        let coordinator = Coordinator::new(config, factory(&self.policy)).with_notary(Box::new(Secret));
        self.coordinator = Some(coordinator);
        self.agents.iter_mut().for_each(Agent::handle_coordinator_connected);
    }

    fn connect(&mut self, port: u32, client: u64, user: u32) {
        self.agents[port as usize].handle_connected(ClientId(client), user);
        self.say(port, client, ClientMessage::Hello { protocol: PROTOCOL, client: 70 + client });
    }

    /// Does what `words` say; returns what was said because of it.
    pub(crate) fn step(&mut self, words: &[&str]) -> String {
        self.began = self.now;
        self.said.clear();
        self.now = self.now + Nanos(1_000);
        match words[0] {
            "register" => self.register(number(words[1]), words[2], &words[3..]),
            "open" => self.open(words),
            "sent" => {
                let (flow, sent) = (number(words[2]), Bytes(number(words[3])));
                let idle = words.contains(&"idle");
                self.say(number(words[1]), 0, ClientMessage::Sent { flow, sent, idle });
            }
            "close" => {
                let (flow, sent) = (number(words[2]), Bytes(number(words[3])));
                self.say(number(words[1]), 0, ClientMessage::Close { flow, sent });
            }
            "join" => {
                let (coflow, facts, sent) = (self.key(words[2]), None, Bytes::ZERO);
                let client = option(words, "client").map_or(0, number);
                self.say(number(words[1]), client, ClientMessage::Join { coflow, facts, sent });
            }
            "unregister" => {
                let coflow = self.key(words[2]);
                let client = option(words, "client").map_or(0, number);
                self.say(number(words[1]), client, ClientMessage::Unregister { coflow });
            }
            "client" => self.connect(number(words[1]), number(words[2]), number(words[3])),
            "gone" => {
                let client = ClientId(number(words[2]));
                self.agents[number::<usize>(words[1])].handle_gone(self.now, client);
                self.flush();
            }
            "restart" => {
                let port: u32 = number(words[1]);
                let config = Self::config(port, self.agents.len() as u32, self.now.0);
                self.agents[port as usize] = Agent::new(config, Mode::Coordinated);
                self.connect(port, 0, 1);
            }
            "grant" => {
                let (coflow, user) = (self.key(words[2]), number(words[3]));
                let client = option(words, "client").map_or(0, number);
                self.say(number(words[1]), client, ClientMessage::Grant { coflow, user });
            }
            "arrive" => {
                let (host, from): (usize, u32) = (number(words[1]), number(words[2]));
                *self.arrived[host].entry(PortId(from)).or_default() += number::<u64>(words[3]);
            }
            "pass" => self.pass(number(words[1])),
            "lead" => self.lead(number(words[1])),
            "vanish" => self.coordinator = None,
            "drain" => self.coordinator.as_mut().unwrap().drain(words[1] == "on"),
            "forge" => self.forge(words),
            "gates" => self.gates(),
            "standing" => self.standing(),
            other => panic!("there is no step {other}"),
        }
        std::mem::take(&mut self.said)
    }

    fn key(&self, name: &str) -> CoflowKey {
        self.keys.get(name).copied().unwrap_or_else(|| name.parse().expect("a name or a key"))
    }

    fn name(&self, key: CoflowKey) -> String {
        self.names.get(&key).cloned().unwrap_or_else(|| key.to_string())
    }

    fn register(&mut self, port: u32, name: &str, words: &[&str]) {
        let parents =
            option(words, "after").map(|names| names.split(',').map(|name| self.key(name)).collect());
        let message = ClientMessage::Register {
            request: 9,
            parents: parents.unwrap_or_default(),
            deadline: None,
            size: option(words, "size").map(|size| Bytes(number(size))),
            class: TaskClass::Online,
            weight: 1,
            name: None,
        };
        self.registered = None;
        self.say(port, 0, message);
        let key = self.registered.expect("the agent gives it a key");
        self.names.insert(key, name.to_owned());
        self.keys.insert(name.to_owned(), key);
    }

    /// `open HOST FLOW COFLOW to=HOST`, with `size=BYTES` and `client=NUMBER`.
    fn open(&mut self, words: &[&str]) {
        let from: u32 = number(words[1]);
        let to: u32 = number(option(words, "to").expect("to whom"));
        let message = ClientMessage::Open {
            flow: number(words[2]),
            coflow: self.key(words[3]),
            ends: Endpoints { local: address(from), remote: address(to) },
            size: option(words, "size").map(|size| Bytes(number(size))),
            sent: Bytes(option(words, "sent").map_or(0, number)),
        };
        self.say(from, option(words, "client").map_or(0, number), message);
    }

    fn say(&mut self, port: u32, client: u64, message: ClientMessage) {
        self.agents[port as usize].handle_client(self.now, ClientId(client), message);
        self.flush();
    }

    /// Lets time pass, a millisecond at a time.
    fn pass(&mut self, millis: u64) {
        for _ in 0..millis {
            self.now = self.now + Nanos::from_millis(1);
            self.haunt();
            for port in 0..self.agents.len() {
                self.agents[port].handle_timeout(self.now);
            }
            self.flush();
            if let Some(coordinator) = &mut self.coordinator {
                coordinator.handle_timeout(self.now);
            }
            self.flush();
        }
    }

    fn haunt(&mut self) {
        if let (Some((next, report, more)), Some(coordinator)) = (&mut self.haunting, &mut self.coordinator)
            && *next <= self.now
        {
            *next = self.now + Nanos::from_millis(50);
            report.sequence += 1;
            let moved = |(number, flow): (u32, &FlowEntry)| {
                (number, FlowEntry { sent: Bytes(flow.sent.0 + *more), ..*flow })
            };
            report.flows = report.flows.iter().map(moved).collect();
            coordinator.handle_report(self.now, report.clone());
        }
    }

    fn flush(&mut self) {
        for port in 0..self.agents.len() {
            while let Some(output) = self.agents[port].poll_output() {
                match output {
                    AgentOutput::Client(client, message) => self.tell_client(port, client, message),
                    AgentOutput::Coordinator(report) => {
                        self.write_report(&report);
                        if let Some(coordinator) = &mut self.coordinator {
                            coordinator.handle_report(self.now, report);
                        }
                    }
                    AgentOutput::Peer(to, datagram) => {
                        self.line(&format!(
                            "host {port} says to host {}: {} statements",
                            to.0,
                            datagram.statements.len()
                        ));
                        self.agents[to.index()].handle_datagram(self.now, datagram);
                    }
                    AgentOutput::Drop(client) => {
                        self.line(&format!("host {port} drops client {}", client.0));
                        self.agents[port].handle_gone(self.now, client);
                    }
                    AgentOutput::Measure => self.agents[port].handle_arrivals(&self.arrived[port]),
                    AgentOutput::Reconnect => {
                        self.line(&format!("host {port} connects again"));
                        self.agents[port].handle_coordinator_connected();
                    }
                }
            }
        }
        while let Some((port, orders)) = self.coordinator.as_mut().and_then(Coordinator::poll_orders) {
            self.write_orders(port, &orders);
            self.agents[port.index()].handle_orders(self.now, orders);
        }
    }

    fn line(&mut self, what: &str) {
        let after = self.now.since(self.began).0 / 1_000_000;
        let what = what.trim_end_matches(": ");
        writeln!(self.said, "{after:>3} ms  {what}").unwrap();
    }

    fn tell_client(&mut self, port: usize, client: ClientId, message: AgentMessage) {
        let what = match message {
            AgentMessage::Registered { coflow, .. } => {
                self.registered = Some(coflow);
                return;
            }
            AgentMessage::Direct { flow, directive } => format!("flow {flow} {}", shown(directive)),
            AgentMessage::Refused { subject: Subject::Coflow { coflow }, refusal } => {
                format!("refused: {}: {refusal}", self.name(coflow))
            }
            AgentMessage::Refused { subject, refusal } => format!("refused: {subject}: {refusal}"),
            AgentMessage::Welcome { .. } | AgentMessage::Alive {} => return,
        };
        self.line(&format!("host {port} to client {}: {what}", client.0));
    }

    fn write_report(&mut self, report: &Report) {
        let mut parts = Vec::new();
        parts.extend(report.coflows.iter().map(|(_, entry)| {
            let sent =
                if entry.sent == Bytes::ZERO { String::new() } else { format!(" sent {}", entry.sent.0) };
            format!("{}{sent}", self.name(entry.key))
        }));
        parts.extend(report.flows.iter().map(|(flow, entry)| format!("flow {flow} to {}", entry.to.0)));
        parts.extend(report.progress.iter().map(|(flow, progress)| {
            format!("flow {flow} +{}{}", progress.sent.0, if progress.idle { " rests" } else { "" })
        }));
        parts.extend(report.closed.iter().map(|(flow, more)| format!("flow {flow} over +{}", more.0)));
        parts.extend(report.left.iter().map(|(part, ())| format!("coflow {part} over")));
        if report.snapshot || report.resync || !parts.is_empty() {
            let kind = if report.snapshot { "snapshot" } else { "report" };
            let wants = if report.resync { ", wants a snapshot" } else { "" };
            self.line(&format!("host {} {kind}{wants}: {}", report.port.0, parts.join(", ")));
        }
    }

    fn write_orders(&mut self, port: PortId, orders: &Orders) {
        let mut parts = Vec::new();
        parts.extend(
            orders.switch.map(|switch| format!("kill switch {}", if switch.is_on { "on" } else { "off" })),
        );
        parts.extend(
            orders
                .priorities
                .iter()
                .map(|(part, priority)| format!("coflow {part} class {}", priority.class)),
        );
        parts.extend(orders.flows.iter().map(|(flow, order)| format!("flow {flow} {}", order.gate)));
        parts.extend(orders.refused.iter().map(|(part, ())| format!("coflow {part} refused")));
        if orders.snapshot || orders.resync || !parts.is_empty() {
            let kind = if orders.snapshot { "snapshot" } else { "orders" };
            let wants = if orders.resync { ", wants a snapshot" } else { "" };
            self.line(&format!(
                "term {} {kind} to host {}{wants}: {}",
                orders.term,
                port.0,
                parts.join(", ")
            ));
        }
    }

    /// A report of a compromised host: `forge HOST`, with `term=`,
    /// `switch=on`, `sealed`, `coflow=` and `owner=` and `sent=`, `to=`; with `on` it goes on
    /// saying that, and with `moves` that its flow moves.
    fn forge(&mut self, words: &[&str]) {
        let port: u32 = number(words[1]);
        let sequence = self.forged.entry(port).or_default();
        *sequence += 1;
        let sequence = *sequence;
        let term = option(words, "term").map_or(0, number);
        let is_on = option(words, "switch").map(|position| position == "on");
        let switch = is_on.map(|is_on| KillSwitch { term, throw: 99, is_on });
        let mut standing = Standing { term, switch, drains: Vec::new() }.to_bytes();
        if words.contains(&"sealed") {
            standing = Secret.seal(&standing);
        }
        let sent = Bytes(option(words, "sent").map_or(0, number));
        let owner = option(words, "owner").map_or(6, number);
        let coflow = option(words, "coflow").map(|name| self.key(name));
        let to = option(words, "to").map(|to| PortId(number(to)));
        let report = Report {
            snapshot: true,
            standing: Sealed::new(standing),
            coflows: coflow
                .map(|key| (0, CoflowEntry { key, facts: None, sent, owner }))
                .into_iter()
                .collect(),
            flows: to
                .map(|to| {
                    (0, FlowEntry { coflow: 0, to, size: Some(Bytes(1)), sent: Bytes::ZERO, idle: false })
                })
                .into_iter()
                .collect(),
            ..Report::new(PortId(port), u64::MAX, sequence, self.now, RATE)
        };
        let more = if words.contains(&"moves") { 1_000 } else { 0 };
        self.haunting = words.contains(&"on").then(|| (self.now, report.clone(), more));
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.handle_report(self.now, report);
        }
        self.flush();
    }

    /// Prints what clients have been told of each flow.
    fn gates(&mut self) {
        for port in 0..self.agents.len() {
            let flows: Vec<FlowStatus> = self.agents[port].status().collect();
            for flow in flows {
                let (name, told) = (self.name(flow.coflow), shown(flow.told));
                writeln!(self.said, "host {port} flow {} of {name} to host {}: {told}", flow.flow, flow.to.0)
                    .unwrap();
            }
        }
    }

    /// Prints the leader, the kill switch, the known coflows, and what was not believed.
    fn standing(&mut self) {
        for (port, agent) in self.agents.iter().enumerate() {
            let obeys = agent.obeys().map_or("nobody".to_owned(), |term| format!("term {term}"));
            let drained = if agent.is_drained() { ", drained" } else { "" };
            writeln!(self.said, "host {port} obeys {obeys}{drained}").unwrap();
        }
        let Some(coordinator) = &self.coordinator else { return };
        let (deposed, drained) = (coordinator.is_deposed(), coordinator.is_drained());
        writeln!(self.said, "term {}: deposed {deposed}, drained {drained}", coordinator.term()).unwrap();
        for coflow in coordinator.status() {
            let (name, flows) = (self.name(coflow.key), coflow.flows.len());
            writeln!(self.said, "{name}: user {:?}, sent {}, {flows} flows", coflow.owner, coflow.sent.0)
                .unwrap();
        }
        let counters = coordinator.counters();
        writeln!(
            self.said,
            "not believed: {} foreign, {} stale, {} stalled, {} unconfirmed, {} excessive, {} forged",
            counters.foreign_parts,
            counters.stale_parts,
            counters.stalled_flows,
            counters.unconfirmed_flows,
            counters.excessive_bytes,
            counters.forged_standings
        )
        .unwrap();
    }
}

fn shown(directive: Directive) -> String {
    let class = directive.class.map(|class| format!(" in class {class}"));
    directive.gate.to_string() + &class.unwrap_or_default()
}

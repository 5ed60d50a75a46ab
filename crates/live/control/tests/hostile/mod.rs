//! What holds whatever clients, agents, coordinators and peers say, for tests and fuzz targets.
//!
//! Bytes are read as a script: who speaks, what kind of message it is, and its fields, each from
//! few values of which some are the largest that there are. So every script is one of well-formed
//! messages that make no sense together: what a decoder lets through from a hostile peer.

mod loops;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use cavalcade_control::*;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, Payload, PortId, Priority, TaskClass};
use cavalcade_protocol::{
    ClientMessage, CoflowEntry, CoflowKey, CoflowName, Datagram, Endpoints, Facts, FlowEntry, FlowOrder,
    Gate, Keyed, KillSwitch, Message as _, Orders, PROTOCOL, Progress, Rank, Report, Sealed, Standing,
    Statement,
};

pub(crate) use loops::loops_hold;

const PORTS: u32 = 3;
const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
/// Policies whose hosts, coordinators and memories differ most.
const FABRIC: [&str; 4] = ["dclas:sync=0ms,first_threshold=1MB", "sebf", "saath", "fair"];
const HOST: [&str; 2] = ["dcas", "fifo_lm"];

/// A script.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, limit: u8) -> u8 {
        self.byte() % limit
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 1
    }

    fn amount(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::from(self.byte()) << 56,
            3 => u64::from(self.byte()) * 1_000_000,
            _ => u64::from(self.byte()),
        }
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.yes().then(|| make(self))
    }

    fn key(&mut self) -> CoflowKey {
        let serial = self.amount();
        let task = if self.yes() { serial } else { self.amount() };
        CoflowKey { task, stage: u16::from(self.below(3)) * 32_767, serial }
    }

    /// A port, or one that there is not.
    fn port(&mut self) -> PortId {
        match self.below(5) {
            4 => PortId(u32::MAX),
            port => PortId(u32::from(port)),
        }
    }

    fn name(&mut self) -> Option<CoflowName> {
        self.maybe(|script| if script.yes() { "sort" } else { "sum" }.parse().expect("it is a name"))
    }

    fn facts(&mut self) -> Facts {
        Facts {
            arrival: Instant(self.amount()),
            deadline: self.maybe(|script| Instant(script.amount())),
            size: self.maybe(|script| Bytes(script.amount())),
            class: if self.yes() { TaskClass::Background } else { TaskClass::Online },
            weight: self.amount() as u32,
            name: self.name(),
        }
    }

    fn keyed<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Keyed<T> {
        let count = self.below(4);
        (0..count)
            .map(|_| (if self.below(9) == 8 { u32::MAX } else { u32::from(self.below(6)) }, make(self)))
            .collect()
    }

    fn client_message(&mut self) -> ClientMessage {
        let flow = u32::from(self.below(4));
        match self.below(9) {
            0 => {
                ClientMessage::Hello { protocol: PROTOCOL + u16::from(self.below(2)), client: self.amount() }
            }
            1 => ClientMessage::Register {
                request: flow,
                parents: (0..self.below(3)).map(|_| self.key()).collect(),
                deadline: self.maybe(|script| Nanos(script.amount())),
                size: self.maybe(|script| Bytes(script.amount())),
                class: TaskClass::Online,
                weight: self.amount() as u32,
                name: self.name(),
            },
            2 => {
                let (coflow, sent) = (self.key(), Bytes(self.amount()));
                ClientMessage::Join { coflow, facts: self.maybe(Self::facts), sent }
            }
            3 => ClientMessage::Unregister { coflow: self.key() },
            4 | 5 => {
                let at = |port: u8| SocketAddr::new(address(u32::from(port)), 1);
                let ends = Endpoints { local: at(0), remote: at(self.below(4)) };
                let (coflow, sent) = (self.key(), Bytes(self.amount()));
                ClientMessage::Open {
                    flow,
                    coflow,
                    ends,
                    size: self.maybe(|script| Bytes(script.amount())),
                    sent,
                }
            }
            7 => ClientMessage::Grant { coflow: self.key(), user: u32::from(self.below(3)) },
            6 => ClientMessage::Sent { flow, sent: Bytes(self.amount()), idle: self.yes() },
            _ => ClientMessage::Close { flow, sent: Bytes(self.amount()) },
        }
    }

    fn switch(&mut self) -> KillSwitch {
        let (term, throw) = (u64::from(self.below(3)), self.amount());
        KillSwitch { term, throw, is_on: self.yes() }
    }

    fn report(&mut self) -> Report {
        Report {
            protocol: PROTOCOL,
            port: self.port(),
            session: u64::from(self.below(3)),
            sequence: u64::from(self.below(20)),
            clock: Instant(self.amount()),
            snapshot: self.yes(),
            resync: self.yes(),
            standing: self.standing(),
            up: BitsPerSec(self.amount()),
            down: BitsPerSec(self.amount()),
            arrived: self.keyed(|script| Bytes(script.amount())),
            grants: self.keyed(|script| (0..script.below(3)).map(u32::from).collect()),
            coflows: self.keyed(|script| CoflowEntry {
                key: script.key(),
                facts: script.maybe(Self::facts),
                sent: Bytes(script.amount()),
                owner: u32::from(script.below(2)),
            }),
            flows: self.keyed(|script| FlowEntry {
                coflow: u32::from(script.below(6)),
                to: script.port(),
                size: script.maybe(|script| Bytes(script.amount())),
                sent: Bytes(script.amount()),
                idle: script.yes(),
            }),
            progress: self.keyed(|script| Progress { sent: Bytes(script.amount()), idle: script.yes() }),
            closed: self.keyed(|script| Bytes(script.amount())),
            left: self.keyed(|_| ()),
        }
    }

    fn priority(&mut self) -> Priority {
        Priority::new(self.amount() as u16, self.amount())
    }

    fn orders(&mut self) -> Orders {
        Orders {
            protocol: PROTOCOL,
            term: u64::from(self.below(3)),
            session: u64::from(self.below(2)),
            sequence: u64::from(self.byte()),
            snapshot: self.yes(),
            resync: self.yes(),
            enforce: self.yes(),
            confirm: self.yes(),
            switch: self.maybe(Self::switch),
            standing: self.standing(),
            lease: Nanos(self.amount()),
            period: Nanos(self.amount()),
            quiet: Bytes(self.amount()),
            priorities: self.keyed(Self::priority),
            flows: self.keyed(|script| FlowOrder {
                gate: match script.below(3) {
                    0 => Gate::Off {},
                    1 => Gate::Open {},
                    _ => Gate::Paced { rate: BitsPerSec(script.amount()) },
                },
                rank: match script.below(3) {
                    0 => Rank::OfCoflow {},
                    1 => Rank::Own { priority: script.priority() },
                    _ => Rank::Plain {},
                },
            }),
            refused: self.keyed(|_| ()),
        }
    }

    fn standing(&mut self) -> Sealed {
        if self.yes() {
            return Sealed::new(vec![self.byte(); 9]);
        }
        let term = u64::from(self.below(9) / 8);
        Sealed::new(Standing { term, switch: self.maybe(Self::switch), drains: Vec::new() }.to_bytes())
    }

    fn datagram(&mut self) -> Datagram {
        let statement = |script: &mut Self| {
            let kind = script.below(3);
            Statement { coflow: script.key(), payload: Payload::of_number(kind, script.amount()) }
        };
        Datagram {
            protocol: PROTOCOL,
            from: self.port(),
            session: self.amount(),
            to: self.port(),
            to_session: self.maybe(Self::amount),
            sequence: self.amount(),
            sent_at: Instant(self.amount()),
            statements: (0..self.below(4)).map(|_| statement(self)).collect(),
        }
    }
}

fn policy(spec: &str) -> Factory {
    Box::new(cavalcade_policy::parse(spec).expect("a valid specification"))
}

fn address(port: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, port as u8))
}

fn config() -> AgentConfig {
    let directory = (0..PORTS).map(|port| (address(port), PortId(port))).collect();
    let budget = Budget { connections: 2, coflows: 8, flows: 8, ..Budget::default() };
    AgentConfig { directory, budget, ..AgentConfig::new(PortId(0), PORTS, 1, RATE) }
}

/// A policy that decides alone, or one that needs a coordinator: none of them may be brought to a
/// panic, and none may want to be called at once for ever.
pub(crate) fn nothing_breaks(bytes: &[u8]) {
    let mut script = Script(bytes);
    let own = HOST[usize::from(script.below(2))];
    let mut deciding =
        Agent::new(config(), Mode::Decentralised(Box::new(Decentralised::new(&config(), policy(own)))));
    let mut obeying = Agent::new(config(), Mode::Coordinated);
    let lead = FABRIC[usize::from(script.below(4))];
    let confirm = script.yes();
    let config = CoordinatorConfig { confirm, ..CoordinatorConfig::new(1, PORTS, RATE) };
    let mut coordinator = Coordinator::new(config, policy(lead));
    let mut now = Instant(1_000_000_000);
    while !script.0.is_empty() {
        now = now + Nanos(u64::from(script.byte()) << script.below(24));
        let agent = if script.yes() { &mut deciding } else { &mut obeying };
        let client = ClientId(u64::from(script.below(3)));
        match script.below(8) {
            0 => agent.handle_connected(client, u32::from(script.below(2))),
            1 => agent.handle_gone(now, client),
            2 | 3 => agent.handle_client(now, client, script.client_message()),
            4 => agent.handle_orders(now, script.orders()),
            5 => agent.handle_datagram(now, script.datagram()),
            6 => coordinator.handle_report(now, script.report()),
            _ => coordinator.handle_disconnected(script.port()),
        }
        settle(agent, now);
        coordinator.handle_timeout(now);
        while coordinator.poll_orders().is_some() {}
        let all: Vec<CoflowKey> = coordinator.status().map(|coflow| coflow.key).collect();
        assert!(all.iter().all(|key| coordinator.why(*key).is_some()), "what is known can be explained");
    }
}

/// Lets an agent do what is due; what it says to clients is thrown away, and who is to be dropped
/// is.
fn settle(agent: &mut Agent, now: Instant) {
    agent.handle_timeout(now);
    while let Some(output) = agent.poll_output() {
        if let AgentOutput::Drop(client) = output {
            agent.handle_gone(now, client);
        }
    }
    agent.handle_timeout(now);
    while agent.poll_output().is_some() {}
    assert!(agent.poll_timeout().is_none_or(|when| when > now), "it wants to be called at once for ever");
}

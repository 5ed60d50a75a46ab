//! A host: a clock that is off, an agent that may be down or hang, and clients that may crash.

use std::collections::VecDeque;

use cavalcade_control::{Agent, AgentConfig, AgentOutput, ClientId, Decentralised, Mode};
use cavalcade_model::{BitsPerSec, Instant, Nanos, PortId};
use cavalcade_protocol::{AgentMessage, Client, ClientMessage, Datagram, Message, Report};

use crate::dice::Dice;
use crate::world::Choice;

/// A millisecond in nanoseconds.
const MILLI: u64 = 1_000_000;

/// A clock: ahead or behind, and a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ns: u64,
    parts_per_million: u64,
}

impl Clock {
    /// Up to two seconds ahead, and up to 300 millionths fast. (Only differences between clocks matter.)
    pub(crate) fn new(dice: &mut Dice) -> Self {
        Self { offset_ns: 1_000_000 * MILLI + dice.below(2_000 * MILLI), parts_per_million: dice.below(300) }
    }

    pub(crate) fn read(&self, true_ms: u64) -> Instant {
        let passed = true_ms * MILLI;
        Instant(self.offset_ns + passed + passed / 1_000_000 * self.parts_per_million)
    }
}

/// A process that uses the client library.
#[derive(Debug)]
pub(crate) struct Process {
    /// None while it is down.
    pub(crate) client: Option<Client>,
    pub(crate) connection: Option<ClientId>,
    pub(crate) starts_at: u64,
    pub(crate) connects_at: u64,
    to_agent: VecDeque<ClientMessage>,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) port: PortId,
    pub(crate) clock: Clock,
    pub(crate) agent: Option<Agent>,
    pub(crate) agent_starts_at: u64,
    /// Until when the agent does nothing.
    pub(crate) hangs_until: u64,
    pub(crate) processes: Vec<Process>,
    gone: Vec<ClientId>,
    next_connection: u64,
    next_name: u64,
    pub(crate) highest_term: u64,
}

/// What a host wants sent to others.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) reports: Vec<Report>,
    pub(crate) datagrams: Vec<(PortId, Datagram)>,
}

impl Host {
    pub(crate) fn new(port: u32, clock: Clock, processes: usize) -> Self {
        let process = |_| Process {
            client: None,
            connection: None,
            starts_at: 0,
            connects_at: 0,
            to_agent: VecDeque::new(),
        };
        Self {
            port: PortId(port),
            clock,
            agent: None,
            agent_starts_at: 0,
            hangs_until: 0,
            processes: (0..processes).map(process).collect(),
            gone: Vec::new(),
            next_connection: 0,
            next_name: 0,
            highest_term: 0,
        }
    }

    pub(crate) fn acts(&self, now: u64) -> bool {
        self.agent.is_some() && now >= self.hangs_until
    }

    /// Starts what is due to start.
    pub(crate) fn start(&mut self, now: u64, choice: &Choice) {
        if self.agent.is_none() && now >= self.agent_starts_at {
            self.agent = Some(self.fresh_agent(now, choice));
            self.highest_term = 0;
        }
        for process in &mut self.processes {
            if process.client.is_none() && now >= process.starts_at {
                self.next_name += 1;
                let name = u64::from(self.port.0) * 10_000 + self.next_name;
                process.client = Some(Client::new(name));
                process.connects_at = now;
            }
        }
    }

    fn fresh_agent(&self, now: u64, choice: &Choice) -> Agent {
        let session = self.clock.read(now).0;
        let config = AgentConfig {
            directory: (0..choice.ports()).map(|port| (crate::world::address(port), PortId(port))).collect(),
            client_lease: Nanos::from_millis(100),
            stall: Nanos::from_millis(600),
            linger: Nanos::from_secs(1000),
            ..AgentConfig::new(self.port, choice.ports(), session, choice.rate)
        };
        let mode = if choice.is_decentralised {
            let own = Decentralised::new(&config, choice.factory());
            Mode::Decentralised(Box::new(own))
        } else {
            Mode::Coordinated
        };
        Agent::new(config, mode)
    }

    /// The agent is gone, and its connections with it.
    pub(crate) fn crash_agent(&mut self, now: u64, down_ms: u64, dice: &mut Dice) {
        self.agent = None;
        self.agent_starts_at = now + down_ms;
        self.gone.clear();
        let clock = self.clock.read(now);
        for process in &mut self.processes {
            process.to_agent.clear();
            if process.connection.take().is_some() {
                process.connects_at = now + dice.between(1, 20);
                if let Some(client) = &mut process.client {
                    client.handle_disconnected(clock);
                }
            }
        }
    }

    /// A process is gone, and its connections with it.
    pub(crate) fn crash_process(&mut self, now: u64, which: usize, down_ms: u64) {
        let process = &mut self.processes[which];
        process.client = None;
        process.to_agent.clear();
        process.starts_at = now + down_ms;
        self.gone.extend(process.connection.take());
    }

    /// Lets agent and processes of this host talk and do what is due.
    pub(crate) fn step(&mut self, now: u64, out: &mut Outgoing) {
        let clock = self.clock.read(now);
        self.connect(now, clock);
        for process in &mut self.processes {
            let Some(client) = &mut process.client else { continue };
            if client.poll_timeout().is_some_and(|when| when <= clock) && client.handle_timeout(clock) {
                // The agent is silent: this connection is of no use any more.
                client.handle_disconnected(clock);
                self.gone.extend(process.connection.take());
                process.to_agent.clear();
                process.connects_at = now + 5;
            }
            if process.connection.is_some() {
                while let Some(message) = client.poll_message() {
                    process.to_agent.push_back(message);
                }
            }
        }
        if self.acts(now) {
            self.serve(clock, out);
        }
    }

    fn connect(&mut self, now: u64, clock: Instant) {
        let Some(agent) = self.agent.as_mut().filter(|_| now >= self.hangs_until) else { return };
        for gone in self.gone.drain(..) {
            agent.handle_gone(clock, gone);
        }
        for process in &mut self.processes {
            let Some(client) = &mut process.client else { continue };
            if process.connection.is_none() && now >= process.connects_at {
                let id = ClientId(self.next_connection);
                self.next_connection += 1;
                process.connection = Some(id);
                agent.handle_connected(id, 0);
                client.handle_connected();
            }
        }
    }

    fn serve(&mut self, clock: Instant, out: &mut Outgoing) {
        let Some(agent) = &mut self.agent else { return };
        for process in &mut self.processes {
            let Some(id) = process.connection else { continue };
            for message in process.to_agent.drain(..) {
                agent.handle_client(clock, id, through_bytes(&message));
            }
        }
        if agent.poll_timeout().is_some_and(|when| when <= clock) {
            agent.handle_timeout(clock);
        }
        let mut reconnects = false;
        while let Some(output) = agent.poll_output() {
            match output {
                AgentOutput::Client(id, message) => {
                    let message: AgentMessage = through_bytes(&message);
                    let to = self.processes.iter_mut().find(|process| process.connection == Some(id));
                    if let Some(client) = to.and_then(|process| process.client.as_mut()) {
                        client.handle_message(clock, message);
                    }
                }
                AgentOutput::Coordinator(report) => out.reports.push(report),
                AgentOutput::Peer(to, datagram) => out.datagrams.push((to, datagram)),
                // What is sent goes to all machines; whoever leads is found.
                AgentOutput::Reconnect => reconnects = true,
                // The former connection of a client that is back.
                AgentOutput::Drop(id) => self.gone.push(id),
            }
        }
        if reconnects {
            agent.handle_coordinator_connected();
        }
    }
}

/// A message as it is after its way as bytes.
fn through_bytes<M: Message>(message: &M) -> M {
    M::decode(&message.to_bytes()).expect("what was encoded is decoded")
}

/// What a port can send and receive.
pub(crate) const RATE: BitsPerSec = BitsPerSec(1_000_000_000);

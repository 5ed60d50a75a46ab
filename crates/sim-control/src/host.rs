//! A host: an agent, one client of it, and the flows that the client sends.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;

use cavalcade_control::{Agent, AgentOutput, ClientId};
use cavalcade_model::{BitsPerSec, Bytes, Decision, FlowId, Foresee, Instant, PortId};
use cavalcade_protocol::{
    Client, ClientEvent, CoflowKey, Datagram, Endpoints, Gate, Orders, Registration, Report,
};

/// The one client's connection.
const CLIENT: ClientId = ClientId(0);

/// The address of a host.
pub(crate) fn address(port: PortId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + port.0))
}

/// What a host says to other machines.
#[derive(Debug)]
pub(crate) enum Said {
    /// To the coordinator.
    Report(Report),
    /// To the agent of another host.
    Datagram(PortId, Datagram),
}

/// A flow that is being sent.
#[derive(Debug)]
struct Sending {
    flow: FlowId,
    size: u64,
    /// What the client has been told.
    sent: u64,
    /// What the driver has been told.
    gate: Gate,
}

#[derive(Debug)]
pub(crate) struct Host {
    port: PortId,
    agent: Agent,
    client: Client,
    /// By the client's numbers.
    sending: BTreeMap<u32, Sending>,
    /// Flows whose gates may have changed.
    directed: Vec<u32>,
}

impl Host {
    /// An agent and a client that connects to it.
    pub(crate) fn start(now: Instant, mut agent: Agent) -> Self {
        let port = agent.port();
        let mut client = Client::new(u64::from(port.0));
        agent.handle_connected(CLIENT, 0);
        agent.handle_coordinator_connected();
        client.handle_connected();
        let mut host = Self { port, agent, client, sending: BTreeMap::new(), directed: Vec::new() };
        host.talk(now, &mut Vec::new());
        host
    }

    /// When something has to be done here.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.agent.poll_timeout().into_iter().chain(self.client.poll_timeout()).min()
    }

    /// The application registers a coflow; the agent answers at once.
    pub(crate) fn register(
        &mut self,
        now: Instant,
        registration: Registration,
        said: &mut Vec<Said>,
    ) -> CoflowKey {
        let asked = self.client.register(now, registration);
        let answers = self.talk(now, said);
        let answer = answers.into_iter().find(|(request, _)| *request == asked);
        answer.expect("an agent that is there names what is registered").1
    }

    /// A connection begins to carry `flow` to the host at `to`.
    pub(crate) fn open(&mut self, flow: FlowId, key: CoflowKey, to: PortId, size: Bytes) -> u32 {
        let at = |port| SocketAddr::new(address(port), 7);
        let ends = Endpoints { local: at(self.port), remote: at(to) };
        let number = self.client.open(key, ends, Some(size));
        self.sending.insert(number, Sending { flow, size: size.0, sent: 0, gate: Gate::Open {} });
        number
    }

    /// All bytes of a flow are sent.
    pub(crate) fn close(&mut self, number: u32) {
        let over = self.sending.remove(&number).expect("a flow ends once");
        self.client.sent(number, over.size - over.sent);
        self.client.close(number);
    }

    /// A coflow is over, for the client's part.
    pub(crate) fn unregister(&mut self, key: CoflowKey) {
        self.client.unregister(key);
    }

    pub(crate) fn hear_orders(&mut self, now: Instant, orders: Orders) {
        self.agent.handle_orders(now, orders);
    }

    pub(crate) fn hear_datagram(&mut self, now: Instant, datagram: Datagram) {
        self.agent.handle_datagram(now, datagram);
    }

    /// Does what is due; `view` knows what flows have sent (before time zero there are none).
    pub(crate) fn come_up(&mut self, now: Instant, view: Option<&dyn Foresee>) {
        let is_due = |when: Option<Instant>| when.is_some_and(|when| when <= now);
        if is_due(self.client.poll_timeout()) {
            if let Some(view) = view {
                self.say_sent(view);
            }
            let is_silent = self.client.handle_timeout(now);
            assert!(!is_silent, "an agent that runs says that it is alive");
        }
        if is_due(self.agent.poll_timeout()) {
            self.agent.handle_timeout(now);
        }
    }

    /// Tells the client what its flows have sent.
    fn say_sent(&mut self, view: &dyn Foresee) {
        for (&number, sending) in &mut self.sending {
            let sent = view.flow_attained(sending.flow).0.clamp(sending.sent, sending.size);
            self.client.sent(number, sent - sending.sent);
            sending.sent = sent;
        }
    }

    /// Lets client and agent talk until they have nothing to say. Returns which requests were answered by which keys.
    pub(crate) fn talk(&mut self, now: Instant, said: &mut Vec<Said>) -> Vec<(u32, CoflowKey)> {
        let mut answers = Vec::new();
        loop {
            while let Some(message) = self.client.poll_message() {
                self.agent.handle_client(now, CLIENT, message);
            }
            let Some(output) = self.agent.poll_output() else { return answers };
            match output {
                AgentOutput::Client(_, message) => self.client.handle_message(now, message),
                AgentOutput::Coordinator(report) => said.push(Said::Report(report)),
                AgentOutput::Peer(to, datagram) => said.push(Said::Datagram(to, datagram)),
                AgentOutput::Drop(_) => unreachable!("the client keeps to the protocol"),
                AgentOutput::Reconnect => self.agent.handle_coordinator_connected(),
            }
            while let Some(event) = self.client.poll_event() {
                match event {
                    ClientEvent::Registered { request, coflow } => answers.push((request, coflow)),
                    ClientEvent::Directed(flow) => self.directed.push(flow),
                    ClientEvent::Refused(refusal) => {
                        unreachable!("nothing is asked for that may be refused: {refusal:?}")
                    }
                    ClientEvent::Ready(_) | ClientEvent::FellBack => {}
                }
            }
        }
    }

    /// Writes down the gates that have changed.
    pub(crate) fn decide(&mut self, decision: &mut Decision) {
        for number in self.directed.drain(..) {
            let gate = self.client.directive(number).gate;
            let Some(sending) = self.sending.get_mut(&number).filter(|sending| sending.gate != gate) else {
                continue;
            };
            sending.gate = gate;
            let cap = match gate {
                Gate::Open {} => None,
                Gate::Off {} => Some(BitsPerSec::ZERO),
                Gate::Paced { rate } => Some(rate),
            };
            decision.cap(sending.flow, cap);
        }
    }
}

//! The client library's side of the agent protocol: what an application transfers, and how it may.
//!
//! # The idea
//! Nothing here can make an application wait for anything but an order that holds. Without an
//! agent, with one that hangs, or between two of them, every flow is open: plain TCP. The client is
//! where the truth about its flows is, and says all of it again on every new connection; so an
//! agent may crash and start again and knows as much as before.
//!
//! # Invariants
//! - [`Client::directive`] is other than the default only while the agent's lease holds.
//! - A coflow has its key for good. A client without an agent makes keys by a counter of its own,
//!   which no other part of the system uses, and joins those coflows once there is an agent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    AgentMessage, ClientMessage, CoflowKey, CoflowName, Directive, Endpoints, Facts, PROTOCOL, Refusal,
    Subject,
};
use cavalcade_model::{Bytes, Instant, Nanos, PortId, TaskClass};

use crate::counter::TaskCounter;

/// The bounds of an agent's times: with a period of zero a client would do nothing but report, and
/// with a lease of years it would never be free again.
const SHORTEST_PERIOD: Nanos = Nanos::from_millis(1);
const LONGEST_LEASE: Nanos = Nanos::from_secs(600);

/// The facts that an application may give of a coflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Coflows that it starts after.
    pub parents: Vec<CoflowKey>,
    /// Time from now to the deadline of its task.
    pub deadline: Option<Nanos>,
    /// Its bytes, if they are known.
    pub size: Option<Bytes>,
    /// The class of its task.
    pub class: TaskClass,
    /// Its task's weight, at least 1.
    pub weight: u32,
    /// Name shown in place of its key.
    pub name: Option<CoflowName>,
}

impl Default for Registration {
    fn default() -> Self {
        Self {
            parents: Vec::new(),
            deadline: None,
            size: None,
            class: TaskClass::Online,
            weight: 1,
            name: None,
        }
    }
}

/// Something that an application should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// The agent answered: the host stands at this port.
    Ready(PortId),
    /// A coflow that was asked for has its key.
    Registered {
        /// Number that [`Client::register`] returned.
        request: u32,
        /// The key.
        coflow: CoflowKey,
    },
    /// The directive of this flow has changed; ask [`Client::directive`].
    Directed(u32),
    /// The agent has refused something: a registration has a key that the agent does not know, a
    /// flow is plain TCP.
    Refused {
        /// The refused subject.
        subject: Subject,
        /// Why.
        refusal: Refusal,
    },
    /// The agent is silent or gone: all flows go on as plain TCP.
    FellBack,
}

#[derive(Debug)]
struct Coflow {
    facts: Option<Facts>,
    /// Bytes of flows that are over.
    sent: u64,
    /// Other users who may take part.
    granted: BTreeSet<u32>,
    is_known: bool,
}

impl Coflow {
    fn new(facts: Option<Facts>, is_known: bool) -> Self {
        Self { facts, sent: 0, granted: BTreeSet::new(), is_known }
    }
}

#[derive(Debug)]
struct Flow {
    coflow: CoflowKey,
    ends: Endpoints,
    size: Option<Bytes>,
    sent: u64,
    is_idle: bool,
    said: (u64, bool),
    directive: Directive,
}

/// A client of the agent on its host.
#[derive(Debug)]
pub struct Client {
    name: u64,
    counter: TaskCounter,
    connected: bool,
    welcomed: bool,
    period: Nanos,
    lease: Nanos,
    lease_until: Option<Instant>,
    said_at: Option<Instant>,
    coflows: BTreeMap<CoflowKey, Coflow>,
    flows: BTreeMap<u32, Flow>,
    requests: BTreeMap<u32, Registration>,
    next_request: u32,
    next_flow: u32,
    outbox: VecDeque<ClientMessage>,
    events: VecDeque<ClientEvent>,
}

impl Client {
    /// A client without an agent, which calls itself by a number that no other client of its user
    /// on this host has had.
    pub fn new(name: u64) -> Self {
        Self {
            name,
            counter: TaskCounter::of_client(name),
            connected: false,
            welcomed: false,
            period: Nanos::from_millis(10),
            lease: Nanos::from_millis(500),
            lease_until: None,
            said_at: None,
            coflows: BTreeMap::new(),
            flows: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 0,
            next_flow: 0,
            outbox: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Asks for a coflow; the answer is [`ClientEvent::Registered`].
    pub fn register(&mut self, now: Instant, registration: Registration) -> u32 {
        let request = self.next_request;
        self.next_request = request.wrapping_add(1);
        if self.connected {
            if self.welcomed {
                self.send_register(request, &registration);
            }
            self.requests.insert(request, registration);
        } else {
            self.register_alone(now, request, &registration);
        }
        request
    }

    fn send_register(&mut self, request: u32, registration: &Registration) {
        let Registration { parents, deadline, size, class, weight, name } = registration.clone();
        let weight = weight.max(1);
        self.outbox.push_back(ClientMessage::Register {
            request,
            parents,
            deadline,
            size,
            class,
            weight,
            name,
        });
    }

    fn register_alone(&mut self, now: Instant, request: u32, registration: &Registration) {
        let coflow = CoflowKey::new(self.counter.next(now), &registration.parents);
        let deadline = registration.deadline.and_then(|deadline| now.checked_add(deadline));
        let Registration { size, class, weight, name, .. } = *registration;
        let facts = Facts { arrival: now, deadline, size, class, weight: weight.max(1), name };
        self.coflows.insert(coflow, Coflow::new(Some(facts), false));
        self.events.push_back(ClientEvent::Registered { request, coflow });
    }

    /// A connection begins to carry a flow of `coflow`, which may have been registered anywhere.
    /// Returns its number.
    pub fn open(&mut self, coflow: CoflowKey, ends: Endpoints, size: Option<Bytes>) -> u32 {
        // Numbers come around after four thousand million; no two open flows have the same.
        let mut flow = self.next_flow;
        while self.flows.contains_key(&flow) {
            flow = flow.wrapping_add(1);
        }
        self.next_flow = flow.wrapping_add(1);
        let (sent, is_idle) = (0, false);
        let directive = Directive::default();
        self.flows.insert(flow, Flow { coflow, ends, size, sent, is_idle, said: (0, false), directive });
        self.join(coflow);
        if self.welcomed {
            let sent = Bytes::ZERO;
            self.outbox.push_back(ClientMessage::Open { flow, coflow, ends, size, sent });
        }
        flow
    }

    /// Takes part in a coflow that was registered before with these facts; an agent that has lost
    /// them learns them again.
    pub fn take_part(&mut self, key: CoflowKey, facts: Facts) {
        let fresh = Coflow::new(Some(facts), false);
        self.coflows.entry(key).or_insert(fresh).facts.get_or_insert(facts);
        self.join(key);
    }

    /// Forgets a coflow that the agent has refused, without a word to the agent; its flows are to
    /// be closed before. It would be joined again on the next connection.
    pub fn forget(&mut self, coflow: CoflowKey) {
        self.coflows.remove(&coflow);
    }

    fn join(&mut self, key: CoflowKey) {
        let fresh = Coflow::new(None, false);
        let coflow = self.coflows.entry(key).or_insert(fresh);
        if self.welcomed && !std::mem::replace(&mut coflow.is_known, true) {
            let (facts, sent) = (coflow.facts, Bytes(coflow.sent));
            self.outbox.push_back(ClientMessage::Join { coflow: key, facts, sent });
            let granted = coflow.granted.iter();
            self.outbox.extend(granted.map(|&user| ClientMessage::Grant { coflow: key, user }));
        }
    }

    /// A flow has sent `more` bytes.
    pub fn sent(&mut self, flow: u32, more: u64) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.sent += more;
        }
    }

    /// Returns whether the application has nothing to send on a flow at present.
    pub fn set_idle(&mut self, flow: u32, is_idle: bool) {
        if let Some(flow) = self.flows.get_mut(&flow) {
            flow.is_idle = is_idle;
        }
    }

    /// A flow is over.
    pub fn close(&mut self, flow: u32) {
        let Some(over) = self.flows.remove(&flow) else { return };
        if let Some(coflow) = self.coflows.get_mut(&over.coflow) {
            coflow.sent += over.sent;
        }
        if self.welcomed {
            self.outbox.push_back(ClientMessage::Close { flow, sent: Bytes(over.sent) });
        }
    }

    /// Lets another user take part in a coflow of this client's user: on all hosts, and as long as
    /// this client takes part.
    pub fn grant(&mut self, key: CoflowKey, user: u32) {
        self.join(key);
        let Some(coflow) = self.coflows.get_mut(&key) else { return };
        if coflow.granted.insert(user) && self.welcomed {
            self.outbox.push_back(ClientMessage::Grant { coflow: key, user });
        }
    }

    /// A coflow is over, as far as this client is concerned.
    pub fn unregister(&mut self, coflow: CoflowKey) {
        if self.coflows.remove(&coflow).is_some() && self.welcomed {
            self.outbox.push_back(ClientMessage::Unregister { coflow });
        }
    }

    /// Returns how a flow is to be sent now.
    pub fn directive(&self, flow: u32) -> Directive {
        let held = self.lease_until.and(self.flows.get(&flow));
        held.map(|flow| flow.directive).unwrap_or_default()
    }

    /// There is a connection to an agent.
    pub fn handle_connected(&mut self) {
        self.connected = true;
        self.outbox.clear();
        self.outbox.push_back(ClientMessage::Hello { protocol: PROTOCOL, client: self.name });
    }

    /// The connection is gone.
    pub fn handle_disconnected(&mut self, now: Instant) {
        self.connected = false;
        self.welcomed = false;
        self.outbox.clear();
        self.fall_back();
        for coflow in self.coflows.values_mut() {
            coflow.is_known = false;
        }
        // Who waits for a key gets one.
        for (request, registration) in std::mem::take(&mut self.requests) {
            self.register_alone(now, request, &registration);
        }
    }

    /// Returns until when the agent is obeyed, if it is and says nothing more.
    pub fn lease_until(&self) -> Option<Instant> {
        self.lease_until
    }

    /// Returns the time between two reports, as the agent has said it.
    pub fn period(&self) -> Nanos {
        self.period
    }

    /// The agent says something.
    pub fn handle_message(&mut self, now: Instant, message: AgentMessage) {
        if self.welcomed {
            self.lease_until = now.checked_add(self.lease);
        }
        match message {
            AgentMessage::Welcome { port, period, lease, .. } => {
                self.period = period.clamp(SHORTEST_PERIOD, LONGEST_LEASE);
                self.lease = lease.clamp(Nanos(4 * SHORTEST_PERIOD.0), LONGEST_LEASE);
                self.welcomed = true;
                self.lease_until = now.checked_add(self.lease);
                self.events.push_back(ClientEvent::Ready(port));
                self.send_everything();
            }
            AgentMessage::Registered { request, coflow, facts } => {
                if self.requests.remove(&request).is_some() {
                    self.coflows.insert(coflow, Coflow::new(Some(facts), true));
                    self.events.push_back(ClientEvent::Registered { request, coflow });
                }
            }
            AgentMessage::Direct { flow, directive } => {
                if let Some(record) = self.flows.get_mut(&flow) {
                    record.directive = directive;
                    self.events.push_back(ClientEvent::Directed(flow));
                }
            }
            AgentMessage::Alive {} => {}
            AgentMessage::Refused { subject, refusal } => {
                // First, so that a caller that finds its key finds the reason as well.
                self.events.push_back(ClientEvent::Refused { subject, refusal });
                if let Subject::Request { request } = subject
                    && let Some(registration) = self.requests.remove(&request)
                {
                    self.register_alone(now, request, &registration);
                }
            }
        }
    }

    /// A new agent knows nothing: says all that it has to know.
    fn send_everything(&mut self) {
        for (request, registration) in self.requests.clone() {
            self.send_register(request, &registration);
        }
        let keys: Vec<CoflowKey> = self.coflows.keys().copied().collect();
        keys.into_iter().for_each(|key| self.join(key));
        for (&number, flow) in &mut self.flows {
            let (coflow, ends, size, sent) = (flow.coflow, flow.ends, flow.size, Bytes(flow.sent));
            flow.said = (flow.sent, false);
            self.outbox.push_back(ClientMessage::Open { flow: number, coflow, ends, size, sent });
        }
    }

    /// Ends the obedience.
    fn fall_back(&mut self) {
        if self.lease_until.take().is_some() {
            self.events.push_back(ClientEvent::FellBack);
        }
        for (&number, flow) in &mut self.flows {
            if std::mem::take(&mut flow.directive) != Directive::default() {
                self.events.push_back(ClientEvent::Directed(number));
            }
        }
    }

    /// Does what has come due. Returns whether the agent has been silent for a whole lease: its
    /// connection is to be closed, and a new one tried, since what a silent agent said is forgotten
    /// here and would not be said again.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_silent = self.lease_until.is_some_and(|until| until <= now);
        if is_silent {
            self.fall_back();
        }
        if self.resends_at().is_some_and(|when| when <= now) {
            self.said_at = Some(now);
            for (&number, flow) in &mut self.flows {
                let is = (flow.sent, flow.is_idle);
                if flow.said != is {
                    flow.said = is;
                    let (sent, idle) = (Bytes(flow.sent), flow.is_idle);
                    self.outbox.push_back(ClientMessage::Sent { flow: number, sent, idle });
                }
            }
        }
        is_silent
    }

    /// Returns the time at which [`Client::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.lease_until.into_iter().chain(self.resends_at()).min()
    }

    fn resends_at(&self) -> Option<Instant> {
        let busy = self.welcomed && !self.flows.is_empty();
        busy.then(|| self.said_at.map_or(Instant::ZERO, |last| last + self.period))
    }

    /// Returns whether there is something to be sent to the agent.
    pub fn has_messages(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Something that is to be sent to the agent.
    pub fn poll_message(&mut self) -> Option<ClientMessage> {
        self.outbox.pop_front()
    }

    /// Something that the application should know.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        self.events.pop_front()
    }

    /// Bytes that a flow has sent.
    pub fn bytes_of(&self, flow: u32) -> Option<Bytes> {
        self.flows.get(&flow).map(|flow| Bytes(flow.sent))
    }
}

//! The agent of a host: it keeps its clients' flows, reports changes to the coordinator, and sends
//! directives to clients.
//!
//! # The idea
//! The state of flows is the clients', priorities are the coordinator's; an agent loses nothing
//! that one of them cannot send again. So every doubt is resolved the same way: a flow without a
//! decision is open, which is plain TCP (Aalo §3: local prioritisation; and fault tolerance).
//!
//! | state | directives to clients |
//! |---|---|
//! | orders hold | the orders; flows that the coordinator has not seen are open, in their coflow's class |
//! | the lease is over | all open and in no class, until orders come again |
//! | decentralised | what the agent's own instance of a host-scope policy decides; see [`Mode`] |
//! | shadow, or drained | all open and in no class; decisions are made and can be looked at |
//!
//! # Invariants
//! - The agent obeys the highest term that it has seen, and orders of that term in the order of
//!   their numbers.
//! - Numbers of flows and coflows are used again only after all others.
//! - The last throw of the fabric's kill switch that was received holds until a later one is
//!   received, whichever coordinator is obeyed then.
//! - A flow is off only while a lease holds: the coordinator's here, unless the host decides
//!   itself, and the agent's at the client.
//!
//! # Files
//! `clients`: messages of clients. `queues`: timers and waiting flows. `budget`: limits of a user's
//! clients. `reporting`: reports to the coordinator and its orders. `enforcement`: directives to
//! clients. `draining`: drains and the kill switch of this host.

mod budget;
mod clients;
mod draining;
mod enforcement;
mod queues;
mod reporting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cavalcade_harness::PolicyFault;
use cavalcade_model::{BitsPerSec, Bytes, Instant, Nanos, PortId, Priority};
use cavalcade_protocol::{
    AgentMessage, CoflowKey, Datagram, Directive, Directory, Facts, FlowOrder, Gate, Negotiation, Rank,
    Report, TaskCounter,
};

pub use budget::{Budget, Usage};

use crate::drains::Drains;
use crate::explanation::Explanation;
use crate::hosted::{Factory, Hosted};
use crate::patience::stall_on;

/// The most classes that a network distinguishes (DSCP leaves no more).
pub const CLASSES: usize = 8;

/// Counts of events at an agent since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentCounters {
    /// Bytes sent, by the class of their flow's directive; without a class they count to the first.
    pub sent_by_class: [u64; CLASSES],
    /// Number of times a coordinator's lease ran out, so that all flows were open again.
    pub fallbacks: u64,
    /// Directives to clients.
    pub directives: u64,
    /// Reports to a coordinator.
    pub reports: u64,
    /// Flows to addresses that are no port's, which were left alone.
    pub left_alone: u64,
    /// Datagrams of peers that were too old, or came twice.
    pub datagrams_left_out: u64,
}

/// A connection of a client, by the number that the shell gave it; a number is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub u64);

/// The configuration of an agent.
#[derive(Clone, Debug)]
pub struct AgentConfig {
    /// The port of the fabric that the host stands at.
    pub port: PortId,
    /// Number of ports of the fabric.
    pub ports: u32,
    /// Time at which the agent started, in nanoseconds by its clock: later than that of any agent
    /// before it here.
    pub session: u64,
    /// Rate at which the port can send.
    pub up: BitsPerSec,
    /// Rate at which the port can receive.
    pub down: BitsPerSec,
    /// The port of each address. Flows to other addresses are left alone.
    pub directory: Directory,
    /// Δ, until the coordinator sets another.
    pub period: Nanos,
    /// Time that clients obey after the last message from the agent.
    pub client_lease: Nanos,
    /// Time without progress after which a flow that may send is taken to be idle: a peer that
    /// hangs must not hold links that others could use.
    pub stall: Nanos,
    /// Time that a coflow is remembered here after its flows are over, unless its end is reported.
    pub linger: Nanos,
    /// Number of classes that the network distinguishes, 1 to 8.
    pub classes: u16,
    /// True if the network serves packets by their classes: a policy of the agent's own then closes
    /// no gate.
    pub by_class: bool,
    /// The budget of one user's clients.
    pub budget: Budget,
    /// Decide, and enforce nothing.
    pub shadow: bool,
}

impl AgentConfig {
    /// The agent at `port` of `ports`, started at `session`, on a link of `rate` each way.
    pub fn new(port: PortId, ports: u32, session: u64, rate: BitsPerSec) -> Self {
        Self {
            port,
            ports,
            session,
            up: rate,
            down: rate,
            directory: Directory::default(),
            period: Nanos::from_millis(10),
            client_lease: Nanos::from_millis(500),
            stall: stall_on(rate, Nanos::from_millis(200)),
            linger: Nanos::from_secs(10),
            classes: 8,
            by_class: false,
            budget: Budget::default(),
            shadow: false,
        }
    }
}

/// The part that decides.
#[derive(Debug)]
pub enum Mode {
    /// A coordinator.
    Coordinated,
    /// The agent itself, by a policy of its own: one of scope host, whose instances exchange
    /// messages; or one of scope link, for the host's own uplink, since a host does not see the
    /// other links.
    Decentralised(Box<Decentralised>),
}

/// A policy at one host.
#[derive(Debug)]
pub struct Decentralised {
    hosted: Hosted,
    negotiation: Negotiation,
}

impl Decentralised {
    /// Runs `factory`'s policy at the host of `config`.
    pub fn new(config: &AgentConfig, factory: Factory) -> Self {
        Self {
            hosted: Hosted::new(factory, config.ports, config.up.min(config.down))
                .with_classes(config.by_class),
            negotiation: Negotiation::new(config.port, config.session),
        }
    }
}

/// An output of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOutput {
    /// To a client.
    Client(ClientId, AgentMessage),
    /// To the coordinator.
    Coordinator(Report),
    /// To the agent at a port.
    Peer(PortId, Datagram),
    /// The client has broken the protocol: its connection is to be closed.
    Drop(ClientId),
    /// The coordinator is silent: its connection is to be closed, and the next one tried.
    Reconnect,
    /// The coordinator requests what has arrived: call [`Agent::handle_arrivals`], if the kernel
    /// has the counts.
    Measure,
}

/// The least time between the agent's own decisions, so that a thousand flows that open at once are
/// decided about together.
const DECISION_PAUSE: Nanos = Nanos::from_millis(1);

/// Periods by which stalled flows and the like may be seen late where nothing else happens.
const LOOKS_LATE: u64 = 2;

/// The identity of a client across connections: its user, and the number that it chose for itself.
type Speaker = (u32, u64);

/// Clients whose bytes a coflow keeps apart; those of others count together, and twice if such a
/// client comes back.
const SPEAKERS: usize = 1_024;

/// The client under which those bytes are kept.
const OTHERS: Speaker = (u32::MAX, 0);

/// A client.
#[derive(Debug)]
struct Client {
    /// The user that it runs as.
    user: u32,
    /// The number that it chose for itself, once its hello has come.
    name: Option<u64>,
    /// Its numbers of flows, to the agent's.
    flows: BTreeMap<u32, u32>,
    coflows: BTreeSet<u32>,
}

/// A coflow's part at this host.
#[derive(Debug)]
struct Part {
    key: CoflowKey,
    facts: Option<Facts>,
    /// Its owner: the user whose client registered or joined it first.
    user: u32,
    /// Other users with a grant of the owner.
    granted: BTreeSet<u32>,
    /// Bytes of ended flows, by client: one that reconnects reports them again.
    sent: BTreeMap<Speaker, u64>,
    /// Clients that take part.
    clients: BTreeSet<ClientId>,
    flows: BTreeSet<u32>,
    /// True if an application has unregistered it.
    is_over: bool,
    /// Bytes of flows that are open.
    open: u64,
    /// Number of flows that were left alone.
    left_alone: u64,
    /// Time since which it has no participants, and when it is forgotten.
    empty_since: Option<Instant>,
    expires: Option<Instant>,
    /// True if it counts among its user's coflows for itself, because no client takes part.
    lingers: bool,
    priority: Priority,
    /// True if the coordinator knows of it.
    reported: bool,
}

impl Part {
    fn is_open_to(&self, user: u32) -> bool {
        self.user == user || self.granted.contains(&user)
    }

    fn sent_by(&self, speaker: Speaker) -> u64 {
        self.sent.get(&speaker).copied().unwrap_or(0)
    }

    /// Notes what a client has sent; returns the one whose bytes are no longer kept apart, where
    /// there are too many.
    fn set_sent(&mut self, speaker: Speaker, sent: u64) -> Option<Speaker> {
        self.sent.insert(speaker, sent);
        if self.sent.len() <= SPEAKERS {
            return None;
        }
        let (first, bytes) = self.sent.pop_first()?;
        let others = self.sent.entry(OTHERS).or_default();
        *others = others.saturating_add(bytes);
        Some(first)
    }

    /// Bytes of flows that are over.
    fn sent(&self) -> u64 {
        self.sent.values().fold(0, |sum, sent| sum.saturating_add(*sent))
    }
}

/// A flow that leaves this host.
#[derive(Debug)]
struct Flow {
    client: ClientId,
    speaker: Speaker,
    /// The client's number of it.
    number: u32,
    part: u32,
    to: PortId,
    size: Option<Bytes>,
    sent: u64,
    /// True if the client reports that it has nothing to send.
    is_idle: bool,
    /// True if it makes no progress though it may.
    is_stalled: bool,
    /// Time at which it moved last, or was first seen to be able to.
    moved_at: Option<Instant>,
    /// The coordinator's knowledge: bytes, and whether it is idle.
    reported: Option<(u64, bool)>,
    ordered: Option<FlowOrder>,
    /// Until when it goes on in the place of one that ended, and through what gate.
    promoted: Option<(Instant, Gate)>,
    /// The directive that was sent to the client, if any.
    told: Option<Directive>,
    /// Its place among those that wait, and when to look whether it has moved.
    place: Option<queues::Place>,
    watched: Option<Instant>,
}

impl Flow {
    fn rests(&self) -> bool {
        self.is_idle || self.is_stalled
    }

    /// The directive that holds for it.
    fn told(&self) -> Directive {
        self.told.unwrap_or_default()
    }
}

/// The status of a flow, for administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStatus {
    /// The agent's number of it.
    pub flow: u32,
    /// Its coflow.
    pub coflow: CoflowKey,
    /// The receiving port.
    pub to: PortId,
    /// Its bytes, if they are known.
    pub size: Option<Bytes>,
    /// Bytes sent.
    pub sent: Bytes,
    /// True if it has nothing to send or makes no progress.
    pub rests: bool,
    /// The decision about it; enforced unless the agent is in shadow mode, drained, or without a
    /// lease.
    pub ordered: Option<FlowOrder>,
    /// The directive that was sent to its client.
    pub told: Directive,
    /// The priority that holds for it.
    pub priority: Priority,
}

/// The status of a coflow at this host, for administrators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartStatus {
    /// The agent's number of it.
    pub part: u32,
    /// Its name.
    pub key: CoflowKey,
    /// The facts known of it, if any.
    pub facts: Option<Facts>,
    /// Bytes sent here by flows that are over.
    pub sent: Bytes,
    /// The priority that it was given last.
    pub priority: Priority,
    /// True if an application has unregistered it.
    pub is_over: bool,
    /// Number of its flows, open or over, that were left alone: their address is no port's.
    pub left_alone: u64,
    /// Its owner on this host.
    pub user: u32,
}

/// The agent of a host.
#[derive(Debug)]
pub struct Agent {
    config: AgentConfig,
    mode: Mode,
    counter: TaskCounter,
    clients: BTreeMap<ClientId, Client>,
    /// The connection of each client that has sent its hello.
    named: BTreeMap<Speaker, ClientId>,
    /// The use of each user's clients.
    users: budget::Users,
    /// Number of refusals to clients, by reason.
    refusals: BTreeMap<&'static str, u64>,
    /// Coflows of which each client has reported bytes of ended flows.
    said: BTreeMap<Speaker, BTreeSet<u32>>,
    parts: BTreeMap<u32, Part>,
    part_of: BTreeMap<CoflowKey, u32>,
    next_part: u32,
    flows: BTreeMap<u32, Flow>,
    next_flow: u32,
    queues: queues::Queues,
    link: reporting::CoordinatorLink,
    /// Time of the last check of what changes by time alone: lingering parts, stalled flows, flows
    /// that go on in the place of others.
    looked_at: Option<Instant>,
    decided_at: Option<Instant>,
    alive_at: Option<Instant>,
    /// The drains of administrators here.
    drains: Drains,
    counters: AgentCounters,
    outbox: VecDeque<AgentOutput>,
}

impl Agent {
    /// An agent without clients.
    pub fn new(config: AgentConfig, mode: Mode) -> Self {
        Self {
            counter: TaskCounter::of_agent(config.port, config.ports),
            queues: queues::Queues::default(),
            link: reporting::CoordinatorLink::new(),
            clients: BTreeMap::new(),
            named: BTreeMap::new(),
            users: BTreeMap::new(),
            refusals: BTreeMap::new(),
            said: BTreeMap::new(),
            parts: BTreeMap::new(),
            part_of: BTreeMap::new(),
            next_part: 0,
            flows: BTreeMap::new(),
            next_flow: 0,
            looked_at: None,
            decided_at: None,
            alive_at: None,
            drains: Drains::default(),
            counters: AgentCounters::default(),
            outbox: VecDeque::new(),
            config,
            mode,
        }
    }

    /// Sets whether decisions are only made, and not enforced.
    pub fn set_shadow(&mut self, shadow: bool) {
        self.config.shadow = shadow;
        self.direct_all();
    }

    /// Runs due timers. An early call is harmless and may save a wake-up.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_lease(now);
        if self.look_at().is_some_and(|when| when <= now) {
            self.look_over(now);
        }
        if let Mode::Decentralised(own) = &mut self.mode {
            own.hosted.wake(now);
        }
        if self.decide_at().is_some_and(|when| when <= now) {
            self.decide(now);
        }
        if self.measure_at().is_some_and(|when| when <= now) {
            self.link.measured_at = Some(now);
            self.outbox.push_back(AgentOutput::Measure);
        }
        if self.report_from().is_some_and(|when| when <= now) {
            self.report(now);
        }
        self.send_alive(now);
    }

    /// The error of the agent's own policy, if it has failed: from then on all flows go as plain
    /// TCP.
    pub fn policy_fault(&self) -> Option<&PolicyFault> {
        match &self.mode {
            Mode::Decentralised(own) => own.hosted.policy_fault(),
            Mode::Coordinated => None,
        }
    }

    /// Returns the time at which [`Agent::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let own = match &self.mode {
            Mode::Decentralised(own) => own.hosted.wake_at(),
            Mode::Coordinated => None,
        };
        let decide = self.decide_at();
        // Nothing waits for that, and while anything moves an event comes long before.
        let look = self.look_at().map(|when| when + Nanos(LOOKS_LATE * self.link.period(&self.config).0));
        let patience = if self.link.is_unproven { Some(Instant::ZERO) } else { self.link.patience_until };
        let lease = self.link.lease_until;
        let due = [lease, patience, look, own, decide, self.measure_at(), self.report_at(), self.alive_at()];
        due.into_iter().flatten().min()
    }

    /// Something that is to be sent.
    pub fn poll_output(&mut self) -> Option<AgentOutput> {
        self.outbox.pop_front()
    }

    /// All flows, in order of their numbers.
    pub fn status(&self) -> impl Iterator<Item = FlowStatus> + '_ {
        self.flows.iter().map(|(&number, flow)| FlowStatus {
            flow: number,
            coflow: self.parts[&flow.part].key,
            to: flow.to,
            size: flow.size,
            sent: Bytes(flow.sent),
            rests: flow.rests(),
            ordered: flow.ordered,
            told: flow.told(),
            priority: self.priority(flow),
        })
    }

    /// All coflows with a part here, in order of their numbers.
    pub fn parts(&self) -> impl Iterator<Item = PartStatus> + '_ {
        self.parts.iter().map(|(&number, part)| PartStatus {
            part: number,
            key: part.key,
            facts: part.facts,
            sent: Bytes(part.sent()),
            priority: part.priority,
            is_over: part.is_over,
            left_alone: part.left_alone,
            user: part.user,
        })
    }

    /// The port that it stands at.
    pub fn port(&self) -> PortId {
        self.config.port
    }

    /// The port of each address.
    pub fn directory(&self) -> &Directory {
        &self.config.directory
    }

    /// Number of ports of the fabric.
    pub fn ports(&self) -> u32 {
        self.config.ports
    }

    /// The part that decides.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Returns the counts of events since it started.
    pub fn counters(&self) -> &AgentCounters {
        &self.counters
    }

    /// Why a coflow's flows go as they do, where a policy of the agent's own decides; `None` where
    /// it does not, or does not know the coflow.
    pub fn why(&self, key: CoflowKey) -> Option<Explanation> {
        match &self.mode {
            Mode::Decentralised(own) => own.hosted.explain(key),
            Mode::Coordinated => None,
        }
    }

    /// Returns the time at which orders came last, whether they still hold or not.
    pub fn orders_heard_at(&self) -> Option<Instant> {
        self.link.orders_at
    }

    /// The coordinator's term that is obeyed at present.
    pub fn obeys(&self) -> Option<u64> {
        self.link.lease_until.map(|_| self.link.term)
    }

    /// A number that is not in `taken`, `next` if possible. Numbers come around after four thousand
    /// million; by then all messages about the last flow or coflow of that number have long
    /// arrived.
    fn vacant<T>(next: &mut u32, taken: &BTreeMap<u32, T>) -> u32 {
        let mut number = *next;
        while taken.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        *next = number.wrapping_add(1);
        number
    }

    fn priority(&self, flow: &Flow) -> Priority {
        match flow.ordered.map_or(Rank::OfCoflow {}, |order| order.rank) {
            Rank::OfCoflow {} => self.parts[&flow.part].priority,
            Rank::Own { priority } => priority,
            Rank::Plain {} => Priority::default(),
        }
    }

    /// Returns when to check what changes by time alone: once in a period at most.
    fn look_at(&self) -> Option<Instant> {
        let due = self.queues.next_due()?;
        let rested = self.looked_at.map_or(Instant::ZERO, |last| last + self.link.period(&self.config));
        Some(due.max(rested))
    }

    /// Returns the time at which a policy of the agent's own has to decide again.
    fn decide_at(&self) -> Option<Instant> {
        let Mode::Decentralised(own) = &self.mode else { return None };
        let needed = own.hosted.is_dirty() || own.hosted.has_changed() || own.hosted.has_statements();
        needed.then(|| self.decided_at.map_or(Instant::ZERO, |last| last + DECISION_PAUSE))
    }

    fn alive_at(&self) -> Option<Instant> {
        let busy = !self.named.is_empty();
        let quarter = Nanos(self.config.client_lease.0 / 4);
        busy.then(|| self.alive_at.map_or(Instant::ZERO, |last| last + quarter))
    }

    fn send_alive(&mut self, now: Instant) {
        if self.alive_at().is_none_or(|when| when > now) {
            return;
        }
        self.alive_at = Some(now);
        let mut greeted: Vec<ClientId> = self.named.values().copied().collect();
        greeted.sort_unstable();
        self.outbox.extend(greeted.into_iter().map(|id| AgentOutput::Client(id, AgentMessage::Alive {})));
    }
}

//! All machines, the messages between them, and what is told to the driver.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use cavalcade_control::{Agent, AgentConfig, Coordinator, CoordinatorConfig, Decentralised, Factory, Mode};
use cavalcade_model::{
    Clairvoyant, CoflowId, Decision, Event, FlowId, Foresee, Instant, Nanos, PortId, Scope, Setting,
    SplitMix64, TaskId,
};
use cavalcade_protocol::{CoflowKey, Datagram, Message, Orders, Registration, Report};

use crate::host::{Host, Said, address};
use crate::{Conditions, Traffic};

/// Time zero of the driver by the clocks of the machines: numbers of coflows are times, and 0 is none.
const EPOCH: Instant = Instant(1_000_000_000_000_000);
/// How many periods machines have been up before time zero.
const WARM_UP: u64 = 10;

/// A message between machines, as bytes.
#[derive(Debug)]
enum Parcel {
    Report(Vec<u8>),
    Orders(PortId, Vec<u8>),
    Datagram(PortId, Vec<u8>),
}

/// A coflow that is under way.
#[derive(Debug)]
struct Registered {
    key: CoflowKey,
    task: TaskId,
    internal: u32,
    /// Hosts whose clients take part.
    hosts: BTreeSet<PortId>,
}

pub(crate) struct Plane {
    now: Instant,
    conditions: Conditions,
    hosts: Vec<Host>,
    /// When each host has something to do.
    due: Vec<Option<Instant>>,
    coordinator: Option<Coordinator>,
    /// All travel for the same time, so they arrive in the order in which they were sent.
    on_the_way: VecDeque<(Instant, Parcel)>,
    dice: SplitMix64,
    coflows: BTreeMap<CoflowId, Registered>,
    flows: BTreeMap<FlowId, (PortId, u32)>,
    traffic: Rc<Cell<Traffic>>,
}

impl Plane {
    pub(crate) fn new(
        policy: &dyn Fn() -> Factory,
        conditions: Conditions,
        setting: &Setting<'_>,
        traffic: Rc<Cell<Traffic>>,
    ) -> Self {
        traffic.set(Traffic::default());
        let mut dice = SplitMix64::new(conditions.seed);
        let begin = Instant(EPOCH.0 - WARM_UP * conditions.period.0);
        let is_coordinated = policy().terms().scope == Scope::Fabric;
        let coordinator = is_coordinated.then(|| {
            let config = CoordinatorConfig {
                period: conditions.period,
                quiet: conditions.quiet,
                lease: Nanos(10 * conditions.period.0 + 4 * conditions.delay.0),
                ..CoordinatorConfig::new(begin.0, setting.ports, setting.line_rate)
            };
            Coordinator::new(config, policy())
        });
        let mut plane = Self {
            now: begin,
            conditions,
            hosts: Vec::new(),
            due: Vec::new(),
            coordinator,
            on_the_way: VecDeque::new(),
            coflows: BTreeMap::new(),
            flows: BTreeMap::new(),
            traffic,
            dice: SplitMix64::new(dice.bits()),
        };
        let mut phases: Vec<u64> =
            (0..setting.ports).map(|_| dice.below(conditions.period.0.max(1))).collect();
        phases.sort_unstable();
        for (port, phase) in (0..setting.ports).map(PortId).zip(phases) {
            let at = begin + Nanos(phase);
            plane.advance(at, None);
            let config = AgentConfig {
                directory: (0..setting.ports).map(|port| (address(PortId(port)), PortId(port))).collect(),
                period: conditions.period,
                ..AgentConfig::new(port, setting.ports, at.0, setting.line_rate)
            };
            let mode = if is_coordinated {
                Mode::Coordinated
            } else {
                Mode::Decentralised(Box::new(Decentralised::new(&config, policy())))
            };
            plane.hosts.push(Host::start(at, Agent::new(config, mode)));
            plane.due.push(None);
            plane.attend(at, port);
        }
        plane.advance(EPOCH, None);
        plane
    }

    /// When the next thing happens.
    fn next(&self) -> Option<Instant> {
        let message = self.on_the_way.front().map(|(when, _)| *when);
        let coordinator = self.coordinator.as_ref().and_then(Coordinator::poll_timeout);
        self.due.iter().copied().chain([message, coordinator]).flatten().min()
    }

    /// Lets everything happen that is due up to `until`.
    fn advance(&mut self, until: Instant, view: Option<&dyn Foresee>) {
        while let Some(when) = self.next().filter(|when| *when <= until) {
            // What was due before somebody looked is done when they look.
            self.now = self.now.max(when);
            let now = self.now;
            self.deliver(now);
            if let Some(coordinator) = &mut self.coordinator {
                if coordinator.poll_timeout().is_some_and(|when| when <= now) {
                    coordinator.handle_timeout(now);
                }
                self.send_orders(now);
            }
            for port in (0..self.hosts.len() as u32).map(PortId) {
                if self.due[port.index()].is_some_and(|when| when <= now) {
                    self.hosts[port.index()].come_up(now, view);
                    self.attend(now, port);
                }
            }
        }
        self.now = until;
    }

    fn deliver(&mut self, now: Instant) {
        while self.on_the_way.front().is_some_and(|(when, _)| *when <= now) {
            let Some((_, parcel)) = self.on_the_way.pop_front() else { return };
            match parcel {
                Parcel::Report(bytes) => {
                    if let Some(coordinator) = &mut self.coordinator {
                        coordinator.handle_report(now, decode::<Report>(&bytes));
                    }
                }
                Parcel::Orders(to, bytes) => {
                    self.hosts[to.index()].hear_orders(now, decode::<Orders>(&bytes));
                    self.attend(now, to);
                }
                Parcel::Datagram(to, bytes) => {
                    self.hosts[to.index()].hear_datagram(now, decode::<Datagram>(&bytes));
                    self.attend(now, to);
                }
            }
        }
    }

    fn send_orders(&mut self, now: Instant) {
        while let Some((to, orders)) = self.coordinator.as_mut().and_then(Coordinator::poll_orders) {
            let bytes = orders.to_bytes();
            self.count(|traffic| &mut traffic.orders, &bytes);
            self.on_the_way.push_back((now + self.conditions.delay, Parcel::Orders(to, bytes)));
        }
    }

    /// Lets a host say what it has to say, and notes when it has something to do.
    fn attend(&mut self, now: Instant, port: PortId) {
        let mut said = Vec::new();
        self.hosts[port.index()].talk(now, &mut said);
        self.send(now, said);
        self.due[port.index()] = self.hosts[port.index()].due();
    }

    fn send(&mut self, now: Instant, said: Vec<Said>) {
        let arrival = now + self.conditions.delay;
        for message in said {
            let parcel = match message {
                Said::Report(report) => {
                    let bytes = report.to_bytes();
                    self.count(|traffic| &mut traffic.reports, &bytes);
                    Parcel::Report(bytes)
                }
                Said::Datagram(to, datagram) => {
                    let bytes = datagram.to_bytes();
                    self.count(|traffic| &mut traffic.datagrams, &bytes);
                    if self.dice.happens(self.conditions.loss) {
                        continue;
                    }
                    Parcel::Datagram(to, bytes)
                }
            };
            self.on_the_way.push_back((arrival, parcel));
        }
    }

    fn count(&self, which: impl Fn(&mut Traffic) -> &mut u64, bytes: &[u8]) {
        let mut traffic = self.traffic.get();
        *which(&mut traffic) += 1;
        traffic.bytes += bytes.len() as u64;
        self.traffic.set(traffic);
    }

    /// The application at the sender of a coflow's first flow registers it, with the coflows of its task that it depends on
    /// as parents.
    fn register(&mut self, now: Instant, coflow: CoflowId, at: PortId, view: &dyn Foresee) {
        let facts = view.coflow(coflow);
        let is_parent = |other: &&Registered| other.task == facts.task && other.internal < facts.internal;
        let parents = self.coflows.values().filter(is_parent).map(|parent| parent.key).collect();
        let since = |deadline: Instant| deadline.since(facts.arrival);
        let registration = Registration {
            parents,
            deadline: facts.deadline.map(since),
            size: Some(view.remaining(coflow)),
            class: facts.class,
            weight: facts.weight,
            name: None,
        };
        let mut said = Vec::new();
        let key = self.hosts[at.index()].register(now, registration, &mut said);
        self.send(now, said);
        let (task, internal, hosts) = (facts.task, facts.internal, BTreeSet::from([at]));
        self.coflows.insert(coflow, Registered { key, task, internal, hosts });
    }

    fn open(&mut self, now: Instant, flow: FlowId, view: &dyn Foresee) {
        let facts = view.flow(flow);
        if !self.coflows.contains_key(&facts.coflow) {
            self.register(now, facts.coflow, facts.src, view);
        }
        let registered =
            self.coflows.get_mut(&facts.coflow).expect("it has just been looked up or registered");
        registered.hosts.insert(facts.src);
        let size = view.flow_remaining(flow);
        let number = self.hosts[facts.src.index()].open(flow, registered.key, facts.dst, size);
        self.flows.insert(flow, (facts.src, number));
        self.attend(now, facts.src);
    }

    fn close(&mut self, now: Instant, flow: FlowId) {
        let (at, number) = self.flows.remove(&flow).expect("a flow ends after it has begun");
        self.hosts[at.index()].close(number);
        self.attend(now, at);
    }

    /// All applications that took part say that a coflow is over.
    fn end(&mut self, now: Instant, coflow: CoflowId) {
        let Some(over) = self.coflows.remove(&coflow) else { return };
        for at in over.hosts {
            self.hosts[at.index()].unregister(over.key);
            self.attend(now, at);
        }
    }
}

impl Clairvoyant for Plane {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        let clock = EPOCH + Nanos(now.0);
        self.advance(clock, Some(view));
        match event {
            Event::FlowArrived(flow) => self.open(clock, flow, view),
            Event::FlowFinished(flow) => self.close(clock, flow),
            Event::CoflowFinished(coflow) => self.end(clock, coflow),
            Event::CoflowArrived(_) | Event::Wake | Event::Reached(_) | Event::Received { .. } => {}
        }
        self.advance(clock, Some(view));
        self.hosts.iter_mut().for_each(|host| host.decide(decision));
        // Agents and coordinator go on while there is nothing to do; the driver need not.
        let is_busy = !self.coflows.is_empty();
        decision.wake_at = self.next().filter(|_| is_busy).map(|when| Instant(when.0 - EPOCH.0));
    }
}

/// A message as it is after its way as bytes.
fn decode<M: Message>(bytes: &[u8]) -> M {
    M::decode(bytes).expect("what was encoded is decoded")
}

//! Applications: they register coflows, open connections for flows, close them, and may have
//! nothing to send for a while.
//!
//! A coflow is registered by one process, with the coflows of its task that it depends on as
//! parents; its flows are opened once it has its key. A process that has crashed opens new
//! connections for what is left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use cavalcade_model::{BitsPerSec, CoflowFacts, CoflowId, FlowId, Instant, Nanos, PortId, TaskId, mix};
use cavalcade_protocol::{CoflowKey, Gate, Registration};

use crate::fluid::Fluid;
use crate::host::Directed;
use crate::world::World;

/// Behaviour of applications beyond what the workload says.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// The number of processes of each host that use the client library.
    pub(crate) processes: usize,
    /// Picks the process that registers a coflow, at any host; `None` for one at the first sender.
    pub(crate) registrar: Option<u64>,
    /// The pause of a flow that has nothing to send for a while: its begin, from the flow's
    /// arrival, and its length.
    pub(crate) pauses: BTreeMap<FlowId, (Nanos, Nanos)>,
}

impl Default for Habits {
    fn default() -> Self {
        Self { processes: 1, registrar: None, pauses: BTreeMap::new() }
    }
}

/// A coflow under way.
#[derive(Debug)]
pub(crate) struct Coflow {
    task: TaskId,
    internal: u32,
    /// The process that registers it.
    home: (PortId, usize),
    request: Option<u32>,
    pub(crate) key: Option<CoflowKey>,
    /// The true time at which it got that.
    pub(crate) named_at: Instant,
    /// Processes that take part.
    parties: BTreeSet<(PortId, usize)>,
}

/// A flow under way.
#[derive(Debug)]
pub(crate) struct Flow {
    coflow: CoflowId,
    process: usize,
    /// The client's number of it, while it has a connection.
    number: Option<u32>,
    directed: Directed,
    is_idle: bool,
    /// The cap that was given last.
    pub(crate) cap: Option<BitsPerSec>,
}

impl Flow {
    /// Tells whether it might send and is told not to.
    pub(crate) fn is_held(&self) -> bool {
        self.number.is_some() && !self.is_idle && self.directed.gate == Gate::Off {}
    }

    fn allowed(&self) -> Option<BitsPerSec> {
        let sends = self.number.is_some() && !self.is_idle;
        if sends { self.directed.cap } else { Some(BitsPerSec::ZERO) }
    }
}

/// All applications.
#[derive(Debug)]
pub(crate) struct Applications {
    habits: Habits,
    pub(crate) coflows: BTreeMap<CoflowId, Coflow>,
    pub(crate) flows: BTreeMap<FlowId, Flow>,
    /// Coflows that no client has been asked to register, and flows without a connection.
    unregistered: Vec<CoflowId>,
    unopened: Vec<FlowId>,
    /// The begins and ends of pauses, in the workload's time.
    pauses: BinaryHeap<Reverse<(Instant, FlowId, bool)>>,
    /// Flows whose caps may have to change.
    touched: Vec<FlowId>,
}

impl Applications {
    pub(crate) fn new(habits: Habits) -> Self {
        Self {
            habits,
            coflows: BTreeMap::new(),
            flows: BTreeMap::new(),
            unregistered: Vec::new(),
            unopened: Vec::new(),
            pauses: BinaryHeap::new(),
            touched: Vec::new(),
        }
    }

    /// Tells whether any coflow is under way.
    pub(crate) fn are_busy(&self) -> bool {
        !self.coflows.is_empty()
    }

    /// Returns when the next flow begins or ceases to have nothing to send, in the workload's time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.pauses.peek().map(|Reverse((when, ..))| *when)
    }

    /// A flow may begin.
    pub(crate) fn arrive(&mut self, flow: FlowId, fluid: &Fluid<'_>, world: &mut World) {
        let workload = fluid.workload;
        let coflow = workload.coflow_of(flow);
        let now = fluid.arrival(coflow);
        let hosts = u64::from(workload.ports());
        let pick = |salt: u64, bound: u64| self.habits.registrar.map_or(0, |seed| mix(seed ^ salt) % bound);
        let processes = self.habits.processes as u64;
        let process = pick(u64::from(flow.0) << 32, processes) as usize;
        let facts = CoflowFacts::of(workload, coflow, now);
        let sender = workload.flow(flow).src;
        self.coflows.entry(coflow).or_insert_with(|| {
            let drawn = PortId(pick(u64::from(coflow.0), hosts) as u32);
            let port = self.habits.registrar.map_or(sender, |_| drawn);
            self.unregistered.push(coflow);
            Coflow {
                task: facts.task,
                internal: facts.internal,
                home: (port, pick(!u64::from(coflow.0), processes) as usize),
                request: None,
                key: None,
                named_at: Instant::ZERO,
                parties: BTreeSet::new(),
            }
        });
        let (number, directed, is_idle, cap) = (None, Directed::PLAIN, false, None);
        self.flows.insert(flow, Flow { coflow, process, number, directed, is_idle, cap });
        self.touched.push(flow);
        self.unopened.push(flow);
        if let Some(&(after, span)) = self.habits.pauses.get(&flow) {
            let from = fluid.clock.passed() + after;
            self.pauses.extend([Reverse((from, flow, true)), Reverse((from + span, flow, false))]);
        }
        self.pursue(fluid, world);
    }

    /// Takes in what applications hear, registers and opens what it is time for.
    pub(crate) fn pursue(&mut self, fluid: &Fluid<'_>, world: &mut World) {
        loop {
            for (port, process, request, key) in world.registered.drain(..) {
                let asked = |coflow: &&mut Coflow| {
                    (coflow.home, coflow.request, coflow.key) == ((port, process), Some(request), None)
                };
                if let Some(coflow) = self.coflows.values_mut().find(asked) {
                    (coflow.key, coflow.named_at) = (Some(key), world.now);
                    coflow.parties.insert((port, process));
                }
            }
            self.register(fluid, world);
            self.open(fluid, world);
            if world.registered.is_empty() {
                break;
            }
        }
        for (flow, directed) in world.directed.drain(..) {
            if let Some(record) = self.flows.get_mut(&flow) {
                record.directed = directed;
                self.touched.push(flow);
            }
        }
    }

    fn register(&mut self, fluid: &Fluid<'_>, world: &mut World) {
        for id in std::mem::take(&mut self.unregistered) {
            let Some(coflow) = self.coflows.get(&id) else { continue };
            let facts = CoflowFacts::of(fluid.workload, id, fluid.arrival(id));
            let is_parent = |other: &&Coflow| other.task == coflow.task && other.internal < coflow.internal;
            let registration = Registration {
                parents: self.coflows.values().filter(is_parent).filter_map(|parent| parent.key).collect(),
                deadline: facts.deadline.map(|deadline| deadline.since(facts.arrival)),
                size: Some(fluid.arrived(id)),
                class: facts.class,
                weight: facts.weight,
                name: None,
            };
            let (port, process) = coflow.home;
            let request = world.hosts[port.index()].register(world.now, process, registration);
            match request {
                Some(_) => world.attend(port),
                None => self.unregistered.push(id),
            }
            if let Some(coflow) = self.coflows.get_mut(&id) {
                coflow.request = request;
            }
        }
    }

    fn open(&mut self, fluid: &Fluid<'_>, world: &mut World) {
        for flow in std::mem::take(&mut self.unopened) {
            let Some(record) = self.flows.get_mut(&flow) else { continue };
            let Some(coflow) = self.coflows.get_mut(&record.coflow) else { continue };
            let facts = fluid.workload.flow(flow);
            let host = &mut world.hosts[facts.src.index()];
            let amounts = (fluid.sent(flow), facts.size.0);
            let open = |key| host.open(record.process, flow, key, facts.dst, amounts);
            let Some(number) = coflow.key.and_then(open) else {
                self.unopened.push(flow);
                continue;
            };
            host.set_idle(record.process, (number, flow), record.is_idle);
            (record.number, record.directed) = (Some(number), Directed::PLAIN);
            coflow.parties.insert((facts.src, record.process));
            self.touched.push(flow);
            world.attend(facts.src);
        }
    }

    /// Lets flows have nothing to send, or something again, whose time has come.
    pub(crate) fn pause(&mut self, fluid: &Fluid<'_>, world: &mut World) {
        while self.next().is_some_and(|when| when <= fluid.clock.passed()) {
            let Some(Reverse((_, flow, is_idle))) = self.pauses.pop() else { return };
            let Some(record) = self.flows.get_mut(&flow) else { continue };
            record.is_idle = is_idle;
            self.touched.push(flow);
            if let Some(number) = record.number {
                let port = fluid.workload.flow(flow).src;
                let host = &mut world.hosts[port.index()];
                host.set_idle(record.process, (number, flow), is_idle);
                if host.has_enforcer {
                    world.attend(port);
                }
            }
        }
    }

    /// A flow has sent all its bytes.
    pub(crate) fn finish(&mut self, flow: FlowId, fluid: &Fluid<'_>, world: &mut World) {
        let over = self.flows.remove(&flow).expect("a flow ends once, after it has begun");
        let record = fluid.workload.flow(flow);
        let number = over.number.expect("bytes move over a connection");
        world.hosts[record.src.index()].close(over.process, (number, flow), record.size.0);
        world.attend(record.src);
    }

    /// All flows of a coflow have ended: each process that took part says so.
    pub(crate) fn end(&mut self, coflow: CoflowId, world: &mut World) {
        let Some(over) = self.coflows.remove(&coflow) else { return };
        let Some(key) = over.key else { return };
        for (port, process) in over.parties {
            world.hosts[port.index()].unregister(process, key);
            world.attend(port);
        }
    }

    /// A process has crashed: its connections are gone, and what it asked for.
    pub(crate) fn lose(&mut self, at: (PortId, usize), fluid: &Fluid<'_>) {
        for (&flow, record) in &mut self.flows {
            if (fluid.workload.flow(flow).src, record.process) == at && record.number.take().is_some() {
                self.touched.push(flow);
                self.unopened.push(flow);
            }
        }
        for (&id, coflow) in &mut self.coflows {
            if coflow.home == at && coflow.key.is_none() && coflow.request.take().is_some() {
                self.unregistered.push(id);
            }
        }
    }

    /// Takes out the caps that have changed.
    pub(crate) fn caps(&mut self) -> Vec<(FlowId, Option<BitsPerSec>)> {
        let mut caps = Vec::new();
        for flow in self.touched.drain(..) {
            let Some(record) = self.flows.get_mut(&flow) else { continue };
            let cap = record.allowed();
            if record.cap != cap {
                record.cap = cap;
                caps.push((flow, cap));
            }
        }
        caps
    }
}

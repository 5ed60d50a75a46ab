//! For tests: a fabric on which only the test moves bytes, and a policy driven by hand.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, Decision, Event, FlowFacts, FlowId, Foresee, History, Instant,
    Iteration, LinkId, Observe, Path, Policy, PolicyFactory, PortId, Setting, TaskClass, TaskId,
};

/// 8 Gbps: a byte a nanosecond.
const RATE: BitsPerSec = BitsPerSec(8_000_000_000);
const PORTS: u32 = 10;

/// Arrivals and bytes sent that a test sets. Everything is in scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    coflows: Vec<CoflowFacts>,
    flows: Vec<(FlowFacts, Moved)>,
    iterations: BTreeMap<CoflowId, Iteration>,
}

#[derive(Clone, Copy, Debug)]
struct Moved {
    size: u64,
    sent: u64,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A coflow of `task` that arrives at `arrival` nanoseconds.
    pub(crate) fn add_coflow(&mut self, task: u32, arrival: u64) -> CoflowId {
        let arrival = Instant(arrival);
        self.coflows.push(CoflowFacts {
            task: TaskId(task),
            job: None,
            number: task,
            internal: 0,
            task_arrival: arrival,
            arrival,
            deadline: None,
            class: TaskClass::Online,
            weight: 1,
        });
        CoflowId::from_index(self.coflows.len() - 1)
    }

    pub(crate) fn facts_mut(&mut self, coflow: CoflowId) -> &mut CoflowFacts {
        &mut self.coflows[coflow.index()]
    }

    /// The coflow is part of an iteration.
    pub(crate) fn declare(&mut self, coflow: CoflowId, iteration: Iteration) {
        self.iterations.insert(coflow, iteration);
    }

    pub(crate) fn add_flow(&mut self, coflow: CoflowId, src: u32, dst: u32, size: u64) -> FlowId {
        let facts = FlowFacts { coflow, src: PortId(src), dst: PortId(dst) };
        self.flows.push((facts, Moved { size, sent: 0 }));
        FlowId::from_index(self.flows.len() - 1)
    }

    /// Moves bytes of the flow with this number.
    pub(crate) fn send(&mut self, flow: usize, bytes: u64) {
        let moved = &mut self.flows[flow].1;
        moved.sent += bytes;
        assert!(moved.sent <= moved.size, "flow {flow} has sent more than it has");
    }

    fn of(&self, coflow: CoflowId) -> impl Iterator<Item = (FlowId, &(FlowFacts, Moved))> {
        let all = self.flows.iter().enumerate().filter(move |(_, (facts, _))| facts.coflow == coflow);
        all.map(|(index, flow)| (FlowId::from_index(index), flow))
    }
}

impl Observe for Script {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        self.coflows[coflow.index()]
    }
    fn iteration(&self, coflow: CoflowId) -> Option<Iteration> {
        self.iterations.get(&coflow).copied()
    }
    fn flow(&self, flow: FlowId) -> FlowFacts {
        self.flows[flow.index()].0
    }
    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        self.of(coflow).filter(|(_, (_, moved))| moved.sent < moved.size).for_each(|(id, _)| visit(id));
    }
    fn attained(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.of(coflow).map(|(_, (_, moved))| moved.sent).sum())
    }
    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.flows[flow.index()].1.sent)
    }
    fn path(&self, flow: FlowId) -> Path {
        let FlowFacts { src, dst, .. } = self.flow(flow);
        Path::new(&[LinkId(src.0), LinkId(PORTS + dst.0)])
    }
    fn capacity(&self, _: LinkId) -> BitsPerSec {
        RATE
    }
}

impl Foresee for Script {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.of(coflow).map(|(_, (_, moved))| moved.size - moved.sent).sum())
    }
    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        let moved = self.flows[flow.index()].1;
        Bytes(moved.size - moved.sent)
    }
    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let mut loads = [0; 2 * PORTS as usize];
        for (_, (facts, moved)) in self.of(coflow) {
            loads[facts.src.index()] += moved.size - moved.sent;
            loads[PORTS as usize + facts.dst.index()] += moved.size - moved.sent;
        }
        for (link, load) in loads.into_iter().enumerate().filter(|(_, load)| *load > 0) {
            visit(LinkId::from_index(link), Bytes(load), RATE);
        }
    }
}

/// One instance of a policy, told events by the test.
pub(crate) struct Driven(Policy);

/// An instance of the policy that `spec` names.
pub(crate) fn drive(spec: &str) -> Driven {
    let setting = Setting { ports: PORTS, line_rate: RATE, history: &History::default() };
    Driven(crate::parse(spec).expect("a valid specification").build(&setting))
}

impl Driven {
    /// Returns the policy's decisions at `now` nanoseconds.
    pub(crate) fn at(&mut self, now: u64, event: Event, script: &Script) -> Decision {
        let mut decision = Decision::default();
        self.0.handle(Instant(now), event, script, &mut decision);
        decision
    }
}

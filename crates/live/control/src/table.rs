//! The view of a hosted policy: the coflows and flows that have been reported, as the contract
//! defines it.
//!
//! Amounts are those of the last reports, so they are whole and up to Δ old. A flow of unknown size
//! is taken to have as much to send as it has sent, and at least a megabyte: of heavy-tailed sizes
//! that is what remains on average, and a clairvoyant policy then degrades to least attained
//! service in place of failing. Where its coflow's size is known it has an equal part of what the
//! coflow has left: else all coflows of as many flows would look alike.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Bytes, CoflowFacts, CoflowId, FlowFacts, FlowId, Foresee, Instant, LinkId, Observe, Path,
    PortId, Priority, Target, TaskClass, TaskId,
};
use cavalcade_protocol::{CoflowKey, Facts, FlowOrder, Gate, Rank, outside};

use crate::patience::Sender;

/// The bytes that are taken to remain of a flow of unknown size, at least.
const UNKNOWN_REMAINS: u64 = 1_000_000;

/// The most bytes that a policy ever sees, 70 TB: whatever clients claim, no policy's sums over all
/// coflows overflow.
const MOST: u64 = 1 << 46;

/// The name of a flow: the port that sends it, and its number there.
pub(crate) type FlowName = (PortId, u32);

/// A coflow that has been reported.
#[derive(Clone, Debug)]
pub(crate) struct Coflow {
    pub(crate) key: CoflowKey,
    pub(crate) task: TaskId,
    pub(crate) facts: Option<Facts>,
    pub(crate) attained: u64,
    pub(crate) flows: BTreeMap<FlowName, FlowId>,
    pub(crate) priority: Priority,
    /// True if its arrival was delivered to the policy.
    pub(crate) is_announced: bool,
    /// Time at which its last flow was over, if it has had any.
    pub(crate) done_at: Option<Instant>,
}

/// A flow that has been reported and is not over.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) facts: FlowFacts,
    /// Its number at the port that sends it.
    pub(crate) number: u32,
    /// The owner of its coflow at that port.
    pub(crate) user: u32,
    pub(crate) size: Option<u64>,
    pub(crate) sent: u64,
    /// True if it has nothing to send at present, as its agent reports.
    pub(crate) idle: bool,
    /// True if it may send and makes no progress.
    pub(crate) is_stalled: bool,
    /// True if it is drained: it goes as plain TCP and holds no others.
    pub(crate) is_drained: bool,
    /// Time at which it last moved, or since which it counts as waited for.
    pub(crate) moved_at: Instant,
    /// The time since which it counts as waited for, as its receiver confirms.
    pub(crate) awaited_since: Instant,
    /// True if it may send, and its receiver gets nothing from its sender.
    pub(crate) is_unconfirmed: bool,
    /// True if its bytes count for its coflow as they are reported; otherwise as receivers confirm
    /// them.
    pub(crate) counts: bool,
    /// Its own priority, where that is not its coflow's.
    pub(crate) priority: Option<Priority>,
    pub(crate) cap: Option<BitsPerSec>,
    /// The last decision, which was sent to the flow's agent or is about to be.
    pub(crate) told: FlowOrder,
    /// True if the last decision let it send.
    pub(crate) is_served: bool,
}

/// The order of a flow about which nothing was sent to its agent.
pub(crate) const UNTOLD: FlowOrder = FlowOrder { gate: Gate::Open {}, rank: Rank::OfCoflow {} };

impl Flow {
    pub(crate) fn name(&self) -> FlowName {
        (self.facts.src, self.number)
    }

    /// Returns the owner and host of the flow.
    pub(crate) fn sender(&self) -> Sender {
        Sender { port: self.facts.src, user: self.user }
    }

    /// Returns whether it holds no others.
    pub(crate) fn rests(&self) -> bool {
        self.idle || self.is_stalled || self.is_unconfirmed
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.remaining_or(|| None)
    }

    /// What it has left: of unknown size `part`, if there is one.
    fn remaining_or(&self, part: impl FnOnce() -> Option<u64>) -> u64 {
        match self.size {
            Some(size) => size.saturating_sub(self.sent),
            None => part().unwrap_or_else(|| self.sent.max(UNKNOWN_REMAINS)),
        }
    }
}

/// The table of all that has been reported.
#[derive(Debug)]
pub(crate) struct Table {
    /// Rate at which each port can send, then at which each can receive, in bits per second.
    pub(crate) capacity: Vec<BitsPerSec>,
    /// Number of hosts: ports from there on are outside, one behind the link of each.
    hosts: u32,
    pub(crate) coflows: BTreeMap<CoflowId, Coflow>,
    flows: Vec<Option<Flow>>,
    vacant: Vec<u32>,
}

impl Table {
    pub(crate) fn new(hosts: u32, line_rate: BitsPerSec) -> Self {
        let capacity = vec![line_rate; 4 * hosts as usize];
        Self { capacity, hosts, coflows: BTreeMap::new(), flows: Vec::new(), vacant: Vec::new() }
    }

    /// Number of ports, those outside included.
    pub(crate) fn ports(&self) -> u32 {
        2 * self.hosts
    }

    pub(crate) fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The links whose rate is that at which the host at `port` sends, and receives.
    pub(crate) fn links_of_host(&self, port: PortId) -> ([u32; 2], u32) {
        let receiving = |port: PortId| self.ports() + port.0;
        ([port.0, receiving(outside(self.hosts, port))], receiving(port))
    }

    /// Returns whether a flow may go from one port to another: between hosts, or from a host to
    /// what is outside of it.
    pub(crate) fn joins(&self, from: PortId, to: PortId) -> bool {
        from.0 < self.hosts && (to.0 < self.hosts || to == outside(self.hosts, from))
    }

    /// The links that a flow crosses.
    pub(crate) fn links(&self, flow: &Flow) -> [u32; 2] {
        [flow.facts.src.0, self.ports() + flow.facts.dst.0]
    }

    /// Those of them that are hosts' own: what is outside takes whatever a host's link carries.
    pub(crate) fn links_of_hosts(&self, flow: &Flow) -> impl Iterator<Item = u32> {
        let outside = self.ports() + self.hosts;
        self.links(flow).into_iter().filter(move |link| *link < outside)
    }

    /// Returns whether there are any flows.
    pub(crate) fn has_flows(&self) -> bool {
        self.flows() > 0
    }

    /// Returns how many flows there are.
    pub(crate) fn flows(&self) -> usize {
        self.flows.len() - self.vacant.len()
    }

    pub(crate) fn flows_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut().flatten()
    }

    pub(crate) fn find(&self, flow: FlowId) -> Option<&Flow> {
        self.flows.get(flow.index()).and_then(Option::as_ref)
    }

    pub(crate) fn find_mut(&mut self, flow: FlowId) -> Option<&mut Flow> {
        self.flows.get_mut(flow.index()).and_then(Option::as_mut)
    }

    /// Bytes that a target has sent, as policies see them.
    pub(crate) fn sent_by(&self, target: Target) -> u64 {
        match target {
            Target::Coflow(coflow) => self.attained(coflow).0,
            Target::Flow(flow) => self.flow_attained(flow).0,
        }
    }

    pub(crate) fn insert(&mut self, flow: Flow) -> FlowId {
        let vacant = self.vacant.pop();
        let id = vacant.map_or_else(|| FlowId::from_index(self.flows.len()), FlowId);
        match self.flows.get_mut(id.index()) {
            Some(place) => *place = Some(flow),
            None => self.flows.push(Some(flow)),
        }
        id
    }

    pub(crate) fn remove(&mut self, flow: FlowId) -> Option<Flow> {
        let removed = self.flows.get_mut(flow.index()).and_then(Option::take);
        if removed.is_some() {
            self.vacant.push(flow.0);
        }
        removed
    }
}

/// Returns when a coflow arrived: as reported at its registration, or by its serial, which is not
/// below the time of that.
fn arrival(coflow: &Coflow) -> Instant {
    coflow.facts.map_or(Instant(coflow.key.serial), |facts| facts.arrival)
}

impl Observe for Table {
    fn coflow(&self, coflow: CoflowId) -> CoflowFacts {
        let record = &self.coflows[&coflow];
        let arrival = arrival(record);
        CoflowFacts {
            task: record.task,
            job: record.facts.and_then(|facts| facts.name).map(|name| name.job()),
            number: record.task.0,
            internal: u32::from(record.key.stage),
            task_arrival: arrival.min(Instant(record.key.task)),
            arrival,
            deadline: record.facts.and_then(|facts| facts.deadline),
            class: record.facts.map_or(TaskClass::Online, |facts| facts.class),
            weight: record.facts.map_or(1, |facts| facts.weight.max(1)),
        }
    }

    fn flow(&self, flow: FlowId) -> FlowFacts {
        self.find(flow).expect("a policy asks about flows that it was told of and that are not over").facts
    }

    fn flows(&self, coflow: CoflowId, visit: &mut dyn FnMut(FlowId)) {
        if let Some(coflow) = self.coflows.get(&coflow) {
            coflow.flows.values().for_each(|&flow| visit(flow));
        }
    }

    fn attained(&self, coflow: CoflowId) -> Bytes {
        Bytes(self.coflows.get(&coflow).map_or(0, |coflow| coflow.attained).min(MOST))
    }

    fn flow_attained(&self, flow: FlowId) -> Bytes {
        Bytes(self.find(flow).map_or(0, |flow| flow.sent).min(MOST))
    }

    fn path(&self, flow: FlowId) -> Path {
        let flow =
            self.find(flow).expect("a policy asks about flows that it was told of and that are not over");
        Path::new(&self.links(flow).map(LinkId))
    }

    fn capacity(&self, link: LinkId) -> BitsPerSec {
        self.capacity[link.index()]
    }
}

impl Coflow {
    /// Returns an equal part of what it has left for each of its flows, where its size is known and
    /// not passed: a size that was passed says no more.
    fn part(&self) -> Option<u64> {
        let left = self.facts?.size?.0.checked_sub(self.attained).filter(|&left| left > 0)?;
        Some(left.div_ceil(self.flows.len().max(1) as u64))
    }
}

impl Foresee for Table {
    fn remaining(&self, coflow: CoflowId) -> Bytes {
        let Some(coflow) = self.coflows.get(&coflow) else { return Bytes::ZERO };
        if let Some(size) = coflow.facts.and_then(|facts| facts.size) {
            return size.saturating_sub(Bytes(coflow.attained)).min(Bytes(MOST));
        }
        let flows = coflow.flows.values().filter_map(|&flow| self.find(flow));
        Bytes(flows.map(Flow::remaining).fold(0, u64::saturating_add).min(MOST))
    }

    fn flow_remaining(&self, flow: FlowId) -> Bytes {
        let Some(flow) = self.find(flow) else { return Bytes::ZERO };
        let part = || self.coflows.get(&flow.facts.coflow).and_then(Coflow::part);
        Bytes(flow.remaining_or(part).min(MOST))
    }

    fn loads(&self, coflow: CoflowId, visit: &mut dyn FnMut(LinkId, Bytes, BitsPerSec)) {
        let Some(coflow) = self.coflows.get(&coflow) else { return };
        let part = coflow.part();
        let left = |flow: &Flow| flow.remaining_or(|| part);
        let flows = coflow.flows.values().filter_map(|&flow| self.find(flow));
        let mut loads: Vec<(u32, u64)> =
            flows.flat_map(|flow| self.links(flow).into_iter().map(|link| (link, left(flow)))).collect();
        loads.sort_unstable();
        for of_link in loads.chunk_by(|a, b| a.0 == b.0) {
            let load = of_link.iter().fold(0, |load: u64, (_, bytes)| load.saturating_add(*bytes));
            if load > 0 {
                let link = of_link[0].0;
                visit(LinkId(link), Bytes(load.min(MOST)), self.capacity[link as usize]);
            }
        }
    }
}

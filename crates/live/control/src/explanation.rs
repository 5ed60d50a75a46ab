//! Explains a coflow's state: which coflows it waits for, at which links, and for about how long.
//!
//! Priorities decide which coflow goes first, links where that matters. A flow that is off or paced
//! waits behind the coflows that have something to send on one of its two links and go before it;
//! of the two links the one counts that takes longer. The time is what those have left on that link
//! over what the link carries: right where they can all use it, too long where they wait elsewhere
//! themselves, and unknown where sizes are.
//!
//! # Cost
//! One walk over all flows, a sort of those on the links where the coflow waits, and two searches
//! for each flow that waits.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, CoflowId, Nanos, PortId, Priority};
use cavalcade_protocol::{CoflowKey, Gate};

use crate::table::{Coflow, Flow, Table};

/// The direction of a port's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Out of the host.
    Sending,
    /// Into the host.
    Receiving,
}

/// A link at which flows of a coflow wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// The port.
    pub port: PortId,
    /// The direction.
    pub direction: Direction,
    /// Number of the coflow's flows that wait there.
    pub flows: usize,
    /// Coflows that go first there, the first one first.
    pub ahead: Vec<CoflowKey>,
    /// Bytes that those have left to send on the link, as far as they are known.
    pub left: Bytes,
    /// Number of of their flows of unknown size.
    pub unknown: usize,
    /// Time that the known bytes take on the link.
    pub time: Nanos,
}

/// Why a coflow's flows go as they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its priority, by the policy.
    pub priority: Priority,
    /// Bytes that it has sent.
    pub sent: Bytes,
    /// Flows that send as fast as TCP goes.
    pub open: usize,
    /// Flows that send at a rate.
    pub paced: usize,
    /// Flows that wait.
    pub off: usize,
    /// Flows that have nothing to send or make no progress.
    pub resting: usize,
    /// Flows that leave the site, whatever they do.
    pub outside: usize,
    /// The links where flows wait, the longest first.
    pub blockers: Vec<Blocker>,
}

/// Flows of others that have something to send on a link, the first first, with sums from the first
/// on.
#[derive(Default)]
struct Queue {
    flows: Vec<Rival>,
    /// Bytes that are left, and flows of unknown size, of the first so many flows.
    sums: Vec<(u64, usize)>,
}

/// A flow of another coflow.
#[derive(Clone, Copy)]
struct Rival {
    priority: Priority,
    /// The place of its coflow among coflows.
    coflow: (Priority, CoflowKey),
    /// Bytes that it has left, if that is known.
    left: Option<u64>,
}

impl Queue {
    fn finish(&mut self) {
        self.flows.sort_by_key(|rival| (rival.priority, rival.coflow));
        let mut sum = (0u64, 0);
        self.sums.push(sum);
        for rival in &self.flows {
            match rival.left {
                Some(left) => sum.0 = sum.0.saturating_add(left),
                None => sum.1 += 1,
            }
            self.sums.push(sum);
        }
    }

    /// Returns the number of flows that go before one of `priority`.
    fn before(&self, priority: Priority) -> usize {
        self.flows.partition_point(|rival| rival.priority < priority)
    }
}

/// Explains the coflow `id` of `table`.
pub(crate) fn explain(table: &Table, id: CoflowId) -> Explanation {
    let coflow = &table.coflows[&id];
    let flows = || coflow.flows.values().filter_map(|&flow| table.find(flow));
    let count = |holds: &dyn Fn(&Flow) -> bool| flows().filter(|flow| holds(flow)).count();
    let waiting: Vec<&Flow> =
        flows().filter(|flow| !flow.rests() && flow.told.gate != Gate::Open {}).collect();
    let queues = queues(table, coflow, &waiting);
    let mut blockers: BTreeMap<u32, Blocker> = BTreeMap::new();
    for flow in waiting {
        let own = flow.priority.unwrap_or(coflow.priority);
        let rank = |(place, link): (usize, u32)| {
            let before = queues[&link].before(own);
            let (left, unknown) = queues[&link].sums[before];
            (before > 0).then_some((time(table, link, left), unknown, place, link, before))
        };
        let Some((.., link, before)) = table.links_of_hosts(flow).enumerate().filter_map(rank).max() else {
            continue;
        };
        let known = blockers.entry(link).or_insert_with(|| blocker(table, link, &queues[&link], before));
        known.flows += 1;
    }
    let mut blockers: Vec<Blocker> = blockers.into_values().collect();
    blockers.sort_by_key(|one| (std::cmp::Reverse(one.time), one.port, one.direction));
    Explanation {
        priority: coflow.priority,
        sent: Bytes(coflow.attained),
        open: count(&|flow| !flow.rests() && flow.told.gate == Gate::Open {}),
        paced: count(&|flow| !flow.rests() && matches!(flow.told.gate, Gate::Paced { .. })),
        off: count(&|flow| !flow.rests() && flow.told.gate == Gate::Off {}),
        resting: count(&|flow| flow.rests()),
        outside: count(&|flow| flow.facts.dst.0 >= table.hosts()),
        blockers,
    }
}

/// Sums what others have to send on the links of the flows that wait: one walk over all flows,
/// however many of them wait.
fn queues(table: &Table, coflow: &Coflow, waiting: &[&Flow]) -> BTreeMap<u32, Queue> {
    let links = waiting.iter().flat_map(|flow| table.links_of_hosts(flow));
    let mut queues: BTreeMap<u32, Queue> = links.map(|link| (link, Queue::default())).collect();
    for other in table.coflows.values().filter(|other| other.key != coflow.key) {
        let holds = |flow: &&Flow| !flow.rests() && !flow.is_drained;
        for flow in other.flows.values().filter_map(|&flow| table.find(flow)).filter(holds) {
            let rival = Rival {
                priority: flow.priority.unwrap_or(other.priority),
                coflow: (other.priority, other.key),
                left: flow.size.map(|_| flow.remaining()),
            };
            for link in table.links(flow) {
                queues.entry(link).and_modify(|queue| queue.flows.push(rival));
            }
        }
    }
    queues.values_mut().for_each(Queue::finish);
    queues
}

/// Returns the time that so many bytes take on a link.
fn time(table: &Table, link: u32, bytes: u64) -> Nanos {
    let rate = table.capacity[link as usize];
    let time = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.0.max(1));
    Nanos(time.min(u128::from(u64::MAX)) as u64)
}

/// The first `before` flows of a queue, as what stands in the way of a flow.
fn blocker(table: &Table, link: u32, queue: &Queue, before: usize) -> Blocker {
    let ahead: BTreeSet<(Priority, CoflowKey)> =
        queue.flows[..before].iter().map(|rival| rival.coflow).collect();
    let (left, unknown) = queue.sums[before];
    let ports = table.ports();
    let (port, direction) =
        if link < ports { (link, Direction::Sending) } else { (link - ports, Direction::Receiving) };
    Blocker {
        port: PortId(port),
        direction,
        flows: 0,
        ahead: ahead.into_iter().map(|(_, key)| key).collect(),
        left: Bytes(left),
        unknown,
        time: time(table, link, left),
    }
}

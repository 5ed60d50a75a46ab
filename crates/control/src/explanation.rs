//! Why a coflow's flows go as they do: in whose way it stands, where, and for about how long.
//!
//! Priorities say who goes first, links say where that matters. A flow that is off or paced waits behind the coflows that have
//! something to send on one of its two links and go before it; of the two links the one counts that takes longer. The
//! time is what those have left on that link over what the link carries: right where they can all use it,
//! too long where they wait elsewhere themselves, and unknown where sizes are.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{Bytes, CoflowId, Nanos, PortId, Priority};
use cavalcade_protocol::{CoflowKey, Gate};

use crate::table::{Coflow, Flow, Table};

/// Which way a port's link leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// Out of the host.
    Sending,
    /// Into the host.
    Receiving,
}

/// A link at which flows of a coflow wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The port.
    pub port: PortId,
    /// Which way.
    pub direction: Direction,
    /// How many flows of the coflow wait there.
    pub flows: usize,
    /// Who goes first there, the first one first.
    pub ahead: Vec<CoflowKey>,
    /// What those have left to send on the link, as far as it is known.
    pub left: Bytes,
    /// How many of their flows there are of unknown size.
    pub unknown: usize,
    /// How long what is known takes on the link.
    pub time: Nanos,
}

/// Why a coflow's flows go as they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its priority, by the policy.
    pub priority: Priority,
    /// What it has sent.
    pub sent: Bytes,
    /// Flows that send as fast as TCP goes.
    pub open: usize,
    /// Flows that send at a rate.
    pub paced: usize,
    /// Flows that wait.
    pub off: usize,
    /// Flows that have nothing to send or make no progress.
    pub resting: usize,
    /// Where flows wait, the longest first.
    pub obstacles: Vec<Obstacle>,
}

/// What goes before a flow on one link.
#[derive(Default)]
struct Queue {
    ahead: BTreeSet<(Priority, CoflowKey)>,
    left: u64,
    unknown: usize,
}

/// Explains the coflow `id` of `table`.
pub(crate) fn explain(table: &Table, id: CoflowId) -> Explanation {
    let coflow = &table.coflows[&id];
    let flows = || coflow.flows.values().filter_map(|&flow| table.find(flow));
    let count = |holds: &dyn Fn(&Flow) -> bool| flows().filter(|flow| holds(flow)).count();
    let mut obstacles: BTreeMap<u32, Obstacle> = BTreeMap::new();
    let waiting = flows().filter(|flow| !flow.rests() && flow.told.gate != Gate::Open {});
    for flow in waiting {
        let at = table.links(flow).map(|link| obstacle(table, coflow, flow, link));
        let longest = at.into_iter().enumerate().filter(|(_, one)| !one.ahead.is_empty());
        let Some((place, one)) = longest.max_by_key(|(place, one)| (one.time, one.unknown, *place)) else {
            continue;
        };
        let known = obstacles.entry(table.links(flow)[place]).or_insert_with(|| Obstacle { flows: 0, ..one });
        known.flows += 1;
    }
    let mut obstacles: Vec<Obstacle> = obstacles.into_values().collect();
    obstacles.sort_by_key(|one| (std::cmp::Reverse(one.time), one.port, one.direction));
    Explanation {
        priority: coflow.priority,
        sent: Bytes(coflow.attained),
        open: count(&|flow| !flow.rests() && flow.told.gate == Gate::Open {}),
        paced: count(&|flow| !flow.rests() && matches!(flow.told.gate, Gate::Paced { .. })),
        off: count(&|flow| !flow.rests() && flow.told.gate == Gate::Off {}),
        resting: count(&|flow| flow.rests()),
        obstacles,
    }
}

/// What goes before `flow` of `coflow` on `link`.
fn obstacle(table: &Table, coflow: &Coflow, flow: &Flow, link: u32) -> Obstacle {
    let own = flow.priority.unwrap_or(coflow.priority);
    let mut queue = Queue::default();
    for other in table.coflows.values().filter(|other| other.key != coflow.key) {
        for theirs in other.flows.values().filter_map(|&flow| table.find(flow)) {
            let priority = theirs.priority.unwrap_or(other.priority);
            if theirs.rests() || priority >= own || !table.links(theirs).contains(&link) {
                continue;
            }
            queue.ahead.insert((other.priority, other.key));
            match theirs.size {
                Some(_) => queue.left = queue.left.saturating_add(theirs.remaining()),
                None => queue.unknown += 1,
            }
        }
    }
    let ports = table.ports();
    let (port, direction) =
        if link < ports { (link, Direction::Sending) } else { (link - ports, Direction::Receiving) };
    let rate = table.capacity[link as usize];
    let time = u128::from(queue.left) * 8 * 1_000_000_000 / u128::from(rate.0.max(1));
    Obstacle {
        port: PortId(port),
        direction,
        flows: 1,
        ahead: queue.ahead.into_iter().map(|(_, key)| key).collect(),
        left: Bytes(queue.left),
        unknown: queue.unknown,
        time: Nanos(time.min(u128::from(u64::MAX)) as u64),
    }
}

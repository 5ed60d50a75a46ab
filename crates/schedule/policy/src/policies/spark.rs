//! `spark`: what an operator of Spark has today, inside one application: flows between two
//! executors go one after the other.
//!
//! Stock Spark keeps one connection between a reading executor and a serving one, and the server
//! answers in the order of requests. So the shuffles of an application queue behind each other on
//! every pair of hosts, and TCP shares the network among pairs. Plain `fair`, with a connection for
//! each flow, is a baseline that such a cluster does not have: a small shuffle overtakes there.
//!
//! # How
//! Of each pair the flow that came first has class 0, those behind it class 1. Under max-min
//! sharing inside classes a pair's first flow leaves nothing on one of the links of its path, and
//! where all flows of a pair take that path the next gets nothing: exactly one of a pair is sent at
//! any time. Where a fabric spreads a pair over several paths, the next takes what its own path has
//! left.
//!
//! # Left out
//! Several connections for each pair (`spark.shuffle.io.numConnectionsPerPeer`), limits on requests
//! in flight, and several applications, each with connections of its own.

use std::collections::{BTreeMap, VecDeque};

use cavalcade_model::{
    Decision, Discipline, Event, FlowId, Instant, NonClairvoyant, Observe, Policy, PortId, Priority, Scope,
    Setting, Terms,
};

use crate::definition::{About, Definition};

/// The class of a flow that waits for another of its pair.
const BEHIND: Priority = Priority::new(1, 0);

/// No parameters.
#[derive(Clone, Default)]
pub(crate) struct Spark;

impl Definition for Spark {
    const ABOUT: About = About {
        name: "spark",
        title: "One flow at a time between two hosts, in order of arrival: an application of stock Spark",
        source: "Spark's shuffle client: one connection for each peer, answered in order of requests",
        paper: None,
        knows: "which of the host's own flows go to the same host, and their order",
        cost: "O(log pairs) for a flow",
    };

    fn terms(&self) -> Terms {
        Terms { flow_events: true, ..Terms::strict(Scope::Host, Discipline::MaxMin) }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::<Instance>::default())
    }
}

/// The unfinished flows of each pair, in order of arrival.
#[derive(Default)]
struct Instance {
    queues: BTreeMap<(PortId, PortId), VecDeque<FlowId>>,
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        let (Event::FlowArrived(flow) | Event::FlowFinished(flow)) = event else { return };
        let facts = view.flow(flow);
        let pair = (facts.src, facts.dst);
        let queue = self.queues.entry(pair).or_default();
        if event == Event::FlowArrived(flow) {
            // The first is at the top anyway.
            if !queue.is_empty() {
                decision.set_flow(flow, BEHIND);
            }
            queue.push_back(flow);
            return;
        }
        // A control plane may learn of ends in another order than that of beginnings.
        let was_first = queue.front() == Some(&flow);
        queue.retain(|&other| other != flow);
        match queue.front() {
            Some(&next) if was_first => decision.set_flow(next, Priority::default()),
            Some(_) => {}
            None => drop(self.queues.remove(&pair)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::Target;

    use crate::scripted::{Script, drive};

    #[test]
    fn of_a_pair_one_flow_goes_at_a_time_and_other_pairs_do_not_wait() {
        let mut script = Script::new();
        let (first, second) = (script.add_coflow(0, 0), script.add_coflow(0, 1));
        let one = script.add_flow(first, 0, 1, 1_000);
        let two = script.add_flow(second, 0, 1, 1_000);
        let three = script.add_flow(second, 0, 1, 1_000);
        let other = script.add_flow(second, 0, 2, 1_000);
        let mut spark = drive("spark");
        assert_eq!(spark.at(0, Event::FlowArrived(one), &script).priorities, []);
        let waits = |flow| [(Target::Flow(flow), BEHIND)];
        assert_eq!(spark.at(1, Event::FlowArrived(two), &script).priorities, waits(two));
        assert_eq!(spark.at(1, Event::FlowArrived(three), &script).priorities, waits(three));
        assert_eq!(spark.at(1, Event::FlowArrived(other), &script).priorities, []);
        let goes = |flow| [(Target::Flow(flow), Priority::default())];
        assert_eq!(spark.at(2, Event::FlowFinished(one), &script).priorities, goes(two));
        assert_eq!(spark.at(3, Event::FlowFinished(three), &script).priorities, []);
        assert_eq!(spark.at(4, Event::FlowFinished(two), &script).priorities, []);
        assert_eq!(spark.at(5, Event::FlowArrived(one), &script).priorities, [], "its queue is forgotten");
    }
}

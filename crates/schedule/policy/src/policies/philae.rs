//! `philae`: a few flows of each coflow go ahead, and their sizes tell how large the coflow is.
//!
//! Queues learn a coflow's size by serving it: a large one passes through all of them, and all that
//! time it is in the way of others. Philae learns in space instead of time. A coflow has many
//! flows, and they resemble one another; so a few *pilot flows* are sent first, and the mean of
//! their sizes times the number of flows is taken for the coflow's size. From then on it is served
//! as if that were known: shortest first, where what is short also counts how many others it meets
//! at its ports.
//!
//! | class | who | order |
//! |---|---|---|
//! | 0 | thin coflows, of at most `thin` flows: nothing to sample | fewest rivals, then arrival |
//! | 1 | pilot flows | arrival |
//! | 2 | coflows whose pilots have ended | mean of the pilots × unfinished flows × (1 + rivals) |
//! | 3 | the other flows of coflows whose pilots have not | arrival |
//!
//! A thin coflow goes first however long it is. That is what the method costs where few flows carry
//! many bytes: beside background transfers of one long flow each, all others wait for these.
//!
//! # Which flows are pilots
//! This follows the authors' simulator. A coflow has `pilot_percent` of its flows as pilots,
//! rounded down, or with `pilots=least` as many as it has senders or receivers, whichever are
//! fewer; at least one. They are chosen one after the other: at the sender with the fewest pilots
//! the flow to the receiver with the fewest.
//!
//! # What differs from that simulator
//! - The estimate multiplies by the flows that have not ended, and the order is exact: the
//!   simulator offers eight measures of what is left, and sorts them into ten queues.
//! - Rivals are all coflows met on links, not those of the same queue.
//! - Class 3 is the paper's work conservation: what no other coflow can use.
//! - Starvation is not prevented; there the queues take turns.
//!
//! # Invariants
//! No size is asked for: a flow's is known when it has ended. Flows that come later than their
//! coflow take its place, pilots are chosen among the first ones.

use std::collections::{BTreeMap, BTreeSet};

use cavalcade_model::{
    CoflowId, Decision, Discipline, Event, FlowFacts, FlowId, Instant, NonClairvoyant, Observe, Policy,
    PortId, Priority, Scope, Setting, Terms,
};
use cavalcade_spec::{Choice, Complaint, Parameter};

use crate::definition::{About, Definition, Follows, Paper};
use crate::support::contention::Contention;

/// Parameters of `philae`.
#[derive(Clone)]
pub(crate) struct Philae {
    pilots: Pilots,
    pilot_percent: u32,
    thin: u32,
    contention: bool,
}

/// Number of pilot flows of a coflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pilots {
    /// A share of its flows.
    Percent,
    /// The number of its senders, or of its receivers if these are fewer.
    Least,
}

impl Choice for Pilots {
    const WORDS: &'static [(&'static str, Self)] = &[("percent", Pilots::Percent), ("least", Pilots::Least)];
}

impl Default for Philae {
    fn default() -> Self {
        Self { pilots: Pilots::Percent, pilot_percent: 5, thin: 7, contention: true }
    }
}

impl Definition for Philae {
    const ABOUT: About = About {
        name: "philae",
        title: "A few flows of each coflow go first and tell its size; then shortest coflow first",
        source: "Philae (ToN 2022), by the simulator that its authors released",
        paper: Some(Paper {
            system: "Philae",
            venue: "ToN",
            year: 2022,
            follows: Follows::ReleasedCode,
            transport: None,
        }),
        knows: "where each coflow's flows are, how many they are, and the size of those that have ended",
        cost: "O(log ports) for a flow; O(flows · log flows) for an arriving coflow; O(active coflows) for a new order",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "pilots",
            meaning: "number of flows that go ahead: a percentage, or the number of senders or receivers, whichever is smaller",
            field: |p| &mut p.pilots,
        },
        Parameter {
            name: "pilot_percent",
            meaning: "share of a coflow's flows that go ahead, in per cent, at least one flow",
            field: |p| &mut p.pilot_percent,
        },
        Parameter {
            name: "thin",
            meaning: "maximum number of flows of a coflow that goes first without being sampled",
            field: |p| &mut p.thin,
        },
        Parameter {
            name: "contention",
            meaning: "count the estimated size once for the coflow and once for each rival; false: once",
            field: |p| &mut p.contention,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((1..=100).contains(&self.pilot_percent), "pilot_percent", "1 to 100")
    }

    fn terms(&self) -> Terms {
        Terms { flow_events: true, ..Terms::strict(Scope::Fabric, Discipline::MaxMin) }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Instance {
            parameters: self.clone(),
            contention: Contention::default(),
            coflows: BTreeMap::new(),
            thin: BTreeMap::new(),
            pilots: BTreeMap::new(),
        }))
    }
}

/// Classes; see the module's table.
const THIN: u16 = 0;
const PILOT: u16 = 1;
const SAMPLED: u16 = 2;
const UNSAMPLED: u16 = 3;

struct Instance {
    parameters: Philae,
    contention: Contention,
    coflows: BTreeMap<CoflowId, Active>,
    /// Active coflows that are thin, with the order that each was last given.
    thin: BTreeMap<CoflowId, Option<u64>>,
    /// Pilot flows that have not ended, with their coflows.
    pilots: BTreeMap<FlowId, CoflowId>,
}

/// An active coflow that is not thin.
#[derive(Debug, Default)]
struct Active {
    unfinished: u64,
    /// Pilots that have not ended.
    pilots_left: u64,
    pilots: u64,
    /// The bytes of the pilots that have ended.
    bytes: u64,
    /// The order that it was last given as a sampled coflow.
    order: Option<u64>,
}

impl Instance {
    fn arrive(&mut self, coflow: CoflowId, view: &dyn Observe, decision: &mut Decision) {
        let mut flows: Vec<FlowId> = Vec::new();
        view.flows(coflow, &mut |flow| flows.push(flow));
        flows.iter().for_each(|&flow| self.contention.add(coflow, &view.path(flow)));
        if flows.len() <= self.parameters.thin as usize {
            self.thin.insert(coflow, None);
            return;
        }
        let arrival = u64::from(coflow.0);
        decision.set_coflow(coflow, Priority::new(UNSAMPLED, arrival));
        let pilots = self.choose_pilots(&flows, view);
        for &pilot in &pilots {
            self.pilots.insert(pilot, coflow);
            decision.set_flow(pilot, Priority::new(PILOT, arrival));
        }
        let (unfinished, pilots) = (flows.len() as u64, pilots.len() as u64);
        let active = Active { unfinished, pilots_left: pilots, pilots, ..Active::default() };
        self.coflows.insert(coflow, active);
    }

    /// Chooses the pilots of a coflow: one after the other, each at the sender that has the fewest
    /// pilots, of any coflow, and there the flow to the receiver that has the fewest.
    fn choose_pilots(&self, flows: &[FlowId], view: &dyn Observe) -> Vec<FlowId> {
        let mut of_sender: BTreeMap<PortId, Vec<(PortId, FlowId)>> = BTreeMap::new();
        let mut at_receiver: BTreeMap<PortId, u32> = BTreeMap::new();
        for &flow in flows {
            let FlowFacts { src, dst, .. } = view.flow(flow);
            of_sender.entry(src).or_default().push((dst, flow));
            at_receiver.insert(dst, 0);
        }
        let mut at_sender: BTreeMap<PortId, u32> = of_sender.keys().map(|&sender| (sender, 0)).collect();
        let count = match self.parameters.pilots {
            Pilots::Percent => flows.len() * self.parameters.pilot_percent as usize / 100,
            Pilots::Least => at_sender.len().min(at_receiver.len()),
        };
        for &pilot in self.pilots.keys() {
            let FlowFacts { src, dst, .. } = view.flow(pilot);
            at_sender.get_mut(&src).into_iter().chain(at_receiver.get_mut(&dst)).for_each(|here| *here += 1);
        }
        let mut senders: BTreeSet<(u32, PortId)> =
            at_sender.into_iter().map(|(sender, pilots)| (pilots, sender)).collect();
        let mut chosen = Vec::new();
        while let Some((pilots, sender)) = senders.pop_first().filter(|_| chosen.len() < count.max(1)) {
            let own = of_sender.get_mut(&sender).expect("a sender has flows");
            let least = own.iter().enumerate().min_by_key(|(_, (dst, flow))| (at_receiver[dst], *flow));
            let (index, _) = least.expect("a sender with no flow left is not in the list");
            let (dst, flow) = own.swap_remove(index);
            chosen.push(flow);
            *at_receiver.get_mut(&dst).expect("all receivers are there") += 1;
            if !own.is_empty() {
                senders.insert((pilots + 1, sender));
            }
        }
        chosen
    }

    /// A flow has ended. Returns whether it was the last pilot of its coflow.
    fn end(&mut self, flow: FlowId, view: &dyn Observe) -> bool {
        let facts = view.flow(flow);
        self.contention.remove(facts.coflow, &view.path(flow));
        let Some(active) = self.coflows.get_mut(&facts.coflow) else { return false };
        active.unfinished -= 1;
        if self.pilots.remove(&flow).is_none() {
            return false;
        }
        active.bytes = active.bytes.saturating_add(view.flow_attained(flow).0);
        active.pilots_left -= 1;
        active.pilots_left == 0
    }

    /// Gives every thin coflow the order that its rivals say, and every sampled one that which its
    /// estimate says.
    fn rank(&mut self, decision: &mut Decision) {
        for (&coflow, given) in &mut self.thin {
            let rivals = if self.parameters.contention { self.contention.rivals(coflow) } else { 0 };
            let order = u64::from(rivals) << 32 | u64::from(coflow.0);
            if given.replace(order) != Some(order) {
                decision.set_coflow(coflow, Priority::new(THIN, order));
            }
        }
        for (&coflow, active) in self.coflows.iter_mut().filter(|(_, active)| active.pilots_left == 0) {
            let rivals = if self.parameters.contention { self.contention.rivals(coflow) } else { 0 };
            let left = u128::from(active.bytes) * u128::from(active.unfinished) / u128::from(active.pilots);
            let order = u64::try_from(left * (1 + u128::from(rivals))).unwrap_or(u64::MAX);
            if active.order.replace(order) != Some(order) {
                decision.set_coflow(coflow, Priority::new(SAMPLED, order));
            }
        }
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        match event {
            Event::CoflowArrived(coflow) => {
                self.arrive(coflow, view, decision);
                self.rank(decision);
            }
            Event::FlowArrived(flow) => {
                let facts = view.flow(flow);
                // The first wave was counted when the coflow arrived.
                if view.coflow(facts.coflow).arrival < now {
                    self.contention.add(facts.coflow, &view.path(flow));
                    if let Some(active) = self.coflows.get_mut(&facts.coflow) {
                        active.unfinished += 1;
                    }
                }
            }
            Event::FlowFinished(flow) => {
                let sampled = self.end(flow, view);
                if sampled {
                    self.rank(decision);
                }
            }
            Event::CoflowFinished(coflow) => {
                self.contention.forget(coflow);
                self.coflows.remove(&coflow);
                self.thin.remove(&coflow);
                self.rank(decision);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::Target;

    fn of(coflow: CoflowId, class: u16, order: u64) -> (Target, Priority) {
        (Target::Coflow(coflow), Priority::new(class, order))
    }

    /// A coflow of eight flows from port 1 on, of the given size.
    fn wide(script: &mut Script, task: u32, size: u64) -> (CoflowId, Vec<FlowId>) {
        let coflow = script.add_coflow(task, 0);
        (coflow, (1..9).map(|src| script.add_flow(coflow, src, 0, size)).collect())
    }

    fn finish(
        philae: &mut crate::scripted::Driven,
        script: &mut Script,
        flow: FlowId,
        size: u64,
    ) -> Decision {
        script.send(flow.index(), size);
        philae.at(1, Event::FlowFinished(flow), script)
    }

    #[test]
    fn a_thin_coflow_goes_first_without_pilots() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        for src in 1..8 {
            script.add_flow(coflow, src, 0, 100);
        }
        let mut philae = drive("philae");
        assert_eq!(philae.at(0, Event::CoflowArrived(coflow), &script).priorities, [of(coflow, THIN, 0)]);
    }

    #[test]
    fn a_pilot_goes_ahead_and_its_size_times_the_flows_left_is_the_order() {
        let mut script = Script::new();
        let (coflow, flows) = wide(&mut script, 0, 100);
        let mut philae = drive("philae");
        let arrived = philae.at(0, Event::CoflowArrived(coflow), &script);
        let pilot = (Target::Flow(flows[0]), Priority::new(PILOT, 0));
        assert_eq!(arrived.priorities, [of(coflow, UNSAMPLED, 0), pilot]);
        let sampled = finish(&mut philae, &mut script, flows[0], 100);
        assert_eq!(sampled.priorities, [of(coflow, SAMPLED, 700)]);
    }

    #[test]
    fn pilots_are_spread_over_senders_and_receivers() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let mut all = Vec::new();
        for src in 1..4 {
            all.extend((4..7).map(|dst| (script.add_flow(coflow, src, dst, 100), src, dst)));
        }
        let mut philae = drive("philae:pilots=least");
        let arrived = philae.at(0, Event::CoflowArrived(coflow), &script);
        let pilots: Vec<(u32, u32)> = all
            .iter()
            .filter(|(flow, ..)| arrived.priorities.iter().any(|(target, _)| *target == Target::Flow(*flow)))
            .map(|&(_, src, dst)| (src, dst))
            .collect();
        assert_eq!(pilots, [(1, 4), (2, 5), (3, 6)], "three senders and three receivers: three pilots");
        let next = script.add_coflow(1, 0);
        for (src, dst) in [(1, 4), (1, 7), (2, 4), (2, 5), (8, 4), (8, 7), (8, 5), (8, 6)] {
            script.add_flow(next, src, dst, 100);
        }
        let arrived = philae.at(0, Event::CoflowArrived(next), &script);
        let flows: Vec<FlowFacts> = arrived.priorities[1..]
            .iter()
            .map(|(target, _)| match target {
                Target::Flow(flow) => script.flow(*flow),
                Target::Coflow(other) => panic!("{other:?} is no pilot"),
            })
            .collect();
        assert_eq!((flows[0].src, flows[0].dst), (PortId(8), PortId(7)), "neither has a pilot yet");
    }

    #[test]
    fn five_per_cent_of_the_flows_are_pilots() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        for src in 0..9 {
            for dst in 0..9 {
                script.add_flow(coflow, src, dst, 100);
            }
        }
        let pilots =
            |spec: &str| drive(spec).at(0, Event::CoflowArrived(coflow), &script).priorities.len() - 1;
        assert_eq!((pilots("philae"), pilots("philae:pilots=least")), (4, 9), "81 flows, 9 senders");
    }

    #[test]
    fn several_pilots_are_averaged() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let sizes = [100, 300, 100, 100, 100, 100, 100, 100];
        let flows: Vec<FlowId> =
            (1..).zip(sizes).map(|(src, size)| script.add_flow(coflow, src, 0, size)).collect();
        let mut philae = drive("philae:pilot_percent=25");
        philae.at(0, Event::CoflowArrived(coflow), &script);
        assert!(finish(&mut philae, &mut script, flows[0], 100).priorities.is_empty());
        let sampled = finish(&mut philae, &mut script, flows[1], 300);
        assert_eq!(sampled.priorities, [of(coflow, SAMPLED, 200 * 6)]);
    }

    #[test]
    fn rivals_make_a_coflow_longer() {
        let mut script = Script::new();
        let (a, first) = wide(&mut script, 0, 100);
        let (b, second) = wide(&mut script, 1, 90);
        let mut philae = drive("philae");
        philae.at(0, Event::CoflowArrived(a), &script);
        philae.at(0, Event::CoflowArrived(b), &script);
        let one = finish(&mut philae, &mut script, first[0], 100);
        assert_eq!(one.priorities, [of(a, SAMPLED, 2 * 700)]);
        let both = finish(&mut philae, &mut script, second[1], 90);
        assert_eq!(both.priorities, [of(b, SAMPLED, 2 * 630)], "the pilot of b is at another sender");
    }

    #[test]
    fn later_flows_count_towards_what_is_left() {
        let mut script = Script::new();
        let (coflow, flows) = wide(&mut script, 0, 100);
        let mut philae = drive("philae");
        philae.at(0, Event::CoflowArrived(coflow), &script);
        let late = script.add_flow(coflow, 9, 0, 100);
        philae.at(1, Event::FlowArrived(late), &script);
        let sampled = finish(&mut philae, &mut script, flows[0], 100);
        assert_eq!(sampled.priorities, [of(coflow, SAMPLED, 800)]);
    }
}

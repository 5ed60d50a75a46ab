//! `philae`: a few flows of each coflow go ahead, and their sizes tell how large the coflow is.
//!
//! Queues learn a coflow's size by serving it: a large one passes through all of them, and all that time it is in the way of
//! others. Philae learns in space instead of time. A coflow has many flows, and they resemble one another; so a few
//! *pilot flows* are sent first, and the mean of their sizes times the number of flows is taken for the coflow's size.
//! From then on it is served as if that were known: shortest first, where what is short also counts how many others it meets
//! at its ports.
//!
//! | class | who | order |
//! |---|---|---|
//! | 0 | thin coflows, of at most `thin` flows: nothing to sample | arrival |
//! | 1 | pilot flows | arrival |
//! | 2 | coflows whose pilots have ended | mean of the pilots × unfinished flows × (1 + rivals) |
//! | 3 | the other flows of coflows whose pilots have not | arrival |
//!
//! A thin coflow goes first however long it is. That is what the method costs where few flows carry many bytes: beside
//! background transfers of one long flow each, everybody waits for these.
//!
//! Pilots are taken from the senders that have least to do, so that they end soon; of a sender's flows, the one with the
//! lowest number.
//!
//! # What differs from the paper
//! - The estimate multiplies by the flows that have not ended, not by all less what was sent: so it falls as the coflow
//!   gets on, and an estimate that was too low does not put a coflow before all others for good.
//! - Class 3 is the paper's work conservation: what nobody else can use.
//! - Starvation is not prevented; the paper has Saath's deadlines for that.
//!
//! `pilot_percent` and `thin` are the paper's defaults as we remember them (no text at hand).
//!
//! # Invariants
//! No size is asked for: a flow's is known when it has ended. Flows that come later than their coflow take its place, pilots
//! are chosen among the first ones.

use std::collections::BTreeMap;

use cavalcade_model::{
    ClassShares, CoflowId, Decision, Discipline, Event, FlowId, Instant, NonClairvoyant, Observe, Policy,
    Priority, Scope, Setting, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition};
use crate::support::contention::Contention;

/// Parameters of `philae`.
#[derive(Clone)]
pub(crate) struct Philae {
    pilot_percent: u32,
    thin: u32,
    contention: bool,
}

impl Default for Philae {
    fn default() -> Self {
        Self { pilot_percent: 1, thin: 7, contention: true }
    }
}

impl Definition for Philae {
    const ABOUT: About = About {
        name: "philae",
        title: "A few flows of each coflow go first and tell its size; then shortest coflow first",
        source: "Philae: A Case for Sampling-Based Learning Techniques in Coflow Scheduling (ToN 2022)",
        knows: "where each coflow's flows are, how many they are, and the size of those that have ended",
        cost: "O(log ports) for a flow; O(flows · log flows) for an arriving coflow; O(active coflows) for a new order",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "pilot_percent",
            meaning: "how many per cent of a coflow's flows go ahead, at least one",
            field: |p| &mut p.pilot_percent,
        },
        Parameter {
            name: "thin",
            meaning: "the most flows with which a coflow goes first without being sampled",
            field: |p| &mut p.thin,
        },
        Parameter {
            name: "contention",
            meaning: "the estimated size counts once for the coflow and once for each rival; false: once",
            field: |p| &mut p.contention,
        },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((1..=100).contains(&self.pilot_percent), "pilot_percent", "1 to 100")
    }

    fn terms(&self) -> Terms {
        Terms {
            scope: Scope::Fabric,
            discipline: Discipline::MaxMin,
            shares: ClassShares::Strict,
            flow_events: true,
            work_conserving: true,
            starvation_free: false,
        }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Instance {
            parameters: self.clone(),
            contention: Contention::new(setting.ports),
            coflows: BTreeMap::new(),
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
        // Before its own flows count.
        let mut flows: Vec<(u32, FlowId)> = Vec::new();
        view.flows(coflow, &mut |flow| {
            flows.push((self.contention.flows_at_sender(&view.flow(flow)), flow));
        });
        flows.iter().for_each(|&(_, flow)| self.contention.add(&view.flow(flow)));
        let arrival = u64::from(coflow.0);
        if flows.len() <= self.parameters.thin as usize {
            decision.set_coflow(coflow, Priority::new(THIN, arrival));
            return;
        }
        decision.set_coflow(coflow, Priority::new(UNSAMPLED, arrival));
        let pilots = (flows.len() * self.parameters.pilot_percent as usize).div_ceil(100);
        flows.sort_unstable();
        for &(_, pilot) in &flows[..pilots] {
            self.pilots.insert(pilot, coflow);
            decision.set_flow(pilot, Priority::new(PILOT, arrival));
        }
        let (unfinished, pilots) = (flows.len() as u64, pilots as u64);
        let active = Active { unfinished, pilots_left: pilots, pilots, ..Active::default() };
        self.coflows.insert(coflow, active);
    }

    /// A flow has ended. Returns whether it was the last pilot of its coflow.
    fn end(&mut self, flow: FlowId, view: &dyn Observe) -> bool {
        let facts = view.flow(flow);
        self.contention.remove(&facts);
        let Some(active) = self.coflows.get_mut(&facts.coflow) else { return false };
        active.unfinished -= 1;
        if self.pilots.remove(&flow).is_none() {
            return false;
        }
        active.bytes = active.bytes.saturating_add(view.flow_attained(flow).0);
        active.pilots_left -= 1;
        active.pilots_left == 0
    }

    /// Gives every sampled coflow the order that its estimate says.
    fn rank(&mut self, decision: &mut Decision) {
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
                    self.contention.add(&facts);
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
    fn the_pilot_is_sent_by_who_has_least_to_do() {
        let mut script = Script::new();
        let busy = script.add_coflow(0, 0);
        for src in [1, 1, 2, 4, 5, 6] {
            script.add_flow(busy, src, 9, 100);
        }
        let (coflow, flows) = wide(&mut script, 1, 100);
        let mut philae = drive("philae");
        philae.at(0, Event::CoflowArrived(busy), &script);
        let arrived = philae.at(0, Event::CoflowArrived(coflow), &script);
        assert_eq!(arrived.priorities[1].0, Target::Flow(flows[2]), "port 3 has nothing else");
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
        assert_eq!(both.priorities, [], "the pilot of b is its flow from port 1");
        let both = finish(&mut philae, &mut script, second[0], 90);
        assert_eq!(both.priorities, [of(b, SAMPLED, 2 * 540)]);
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

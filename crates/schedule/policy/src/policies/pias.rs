//! `pias`: flows sink through priorities with the bytes they have sent.
//!
//! Shortest flow first without knowing sizes: a flow starts at the top and goes one level down at
//! each threshold. Each host tags its own flows; switches only obey tags, so nothing is coordinated
//! and coflows play no part. Equal levels share fairly (DCTCP). What keeps PIAS from starving long
//! flows is that a sender lifts a flow after three timeouts; without packets there are none, so
//! starvation freedom is not claimed. Where a host's kernel carries the rule out ([`Demotion`]),
//! there are.
//!
//! Thresholds: the published tables are for a 10 Gbps leaf–spine with those two workloads
//! (docs/protocols.md §2.2); `optimised` computes them for the flow sizes of the history.
//!
//! Nothing is stored: the level follows from the driver's counter.

use cavalcade_model::{
    Decision, Demotion, Discipline, Event, History, Instant, NonClairvoyant, Observe, Policy, Priority,
    Scope, Setting, Target, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition, Follows, OwnTransport, Paper};
use crate::support::thresholds::{DEFAULT_LOAD, Sorting, Thresholds};

/// Number of priority queues of a switch.
const QUEUES: usize = 8;
/// Time-outs in a row after which a sender lifts a flow (PIAS' kernel module, docs/protocols.md
/// §2.1).
const PATIENCE: u32 = 3;

/// Parameters of `pias`.
#[derive(Clone)]
pub(crate) struct Pias {
    thresholds: Thresholds,
    load: Option<u32>,
}

impl Default for Pias {
    fn default() -> Self {
        Self { thresholds: Thresholds::WebSearch, load: Some(DEFAULT_LOAD) }
    }
}

impl Definition for Pias {
    const ABOUT: About = About {
        name: "pias",
        title: "Flows sink through priorities with the bytes they have sent",
        source: "PIAS (NSDI 2015) §4; thresholds from its ns-2 scripts, docs/protocols.md §2",
        paper: Some(Paper {
            system: "PIAS",
            venue: "NSDI",
            year: 2015,
            follows: Follows::ReleasedCode,
            transport: OwnTransport::beside("dctcp"),
        }),
        knows: "the bytes that each of the host's own flows has sent",
        cost: "O(1) for each flow and each threshold that it crosses",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "thresholds",
            meaning: "bytes of a flow at which it sinks to the next level: a published table, computed, or listed",
            field: |p| &mut p.thresholds,
        },
        Parameter {
            name: "load",
            meaning: "load in per cent for which a table is read or thresholds are computed; none if listed",
            field: |p| &mut p.load,
        },
    ];

    fn check(&mut self, given: &[&str]) -> Result<(), Complaint> {
        self.thresholds.check_load(&mut self.load, given)
    }

    fn terms(&self) -> Terms {
        Terms { flow_events: true, ..Terms::strict(Scope::Host, Discipline::MaxMin) }
    }

    fn build(&self, setting: &Setting<'_>) -> Policy {
        Policy::NonClairvoyant(Box::new(Instance { rule: self.rule(setting.history) }))
    }

    fn demotion(&self, history: &History) -> Option<Demotion> {
        Some(self.rule(history))
    }

    fn settle(&mut self, history: &History) {
        self.thresholds.settle(&mut self.load, QUEUES, Sorting::BySent, history);
    }
}

impl Pias {
    fn rule(&self, history: &History) -> Demotion {
        let thresholds = self.thresholds.resolve(self.load, QUEUES, Sorting::BySent, history);
        Demotion { first: 0, thresholds, by_size: false, patience: PATIENCE..=PATIENCE }
    }
}

struct Instance {
    rule: Demotion,
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        let (Event::FlowArrived(flow) | Event::Reached(Target::Flow(flow))) = event else { return };
        let sent = view.flow_attained(flow);
        let level = self.rule.level_by_sent(sent);
        // A new flow is at the top anyway.
        if level > 0 {
            decision.set_flow(flow, Priority::new(level as u16, 0));
        }
        if let Some(&next) = self.rule.thresholds.get(level) {
            decision.watch(Target::Flow(flow), next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cavalcade_model::Bytes;

    use crate::scripted::{Script, drive};

    #[test]
    fn a_flow_sinks_at_each_threshold() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flow = script.add_flow(coflow, 0, 1, 1_000_000);
        let mut pias = drive("pias:thresholds=1KB/10KB");
        let start = pias.at(0, Event::FlowArrived(flow), &script);
        assert_eq!(start.priorities, []);
        assert_eq!(start.watches, [(Target::Flow(flow), Bytes(1000))]);
        script.send(0, 1000);
        let first = pias.at(1, Event::Reached(Target::Flow(flow)), &script);
        assert_eq!(first.priorities, [(Target::Flow(flow), Priority::new(1, 0))]);
        assert_eq!(first.watches, [(Target::Flow(flow), Bytes(10_000))]);
        script.send(0, 9000);
        let last = pias.at(2, Event::Reached(Target::Flow(flow)), &script);
        assert_eq!(last.priorities, [(Target::Flow(flow), Priority::new(2, 0))]);
        assert!(last.watches.is_empty());
    }

    #[test]
    fn loads_without_a_table_are_refused() {
        assert!(crate::parse("pias:load=75").is_err());
        assert!(crate::parse("pias:thresholds=optimised,load=75").is_ok());
        assert!(crate::parse("pias:thresholds=1KB/2KB,load=80").is_err());
    }
}

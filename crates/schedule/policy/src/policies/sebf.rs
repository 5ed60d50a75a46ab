//! `sebf`: the coflow first whose bottleneck will be done soonest (Varys).
//!
//! A coflow alone on the fabric takes Γ, the largest over all links of its remaining bytes by the
//! link's capacity. Smallest Γ first is shortest remaining time first where the "time" accounts for
//! width and skew. Γ is read again for all active coflows whenever one arrives or ends, as the
//! Varys daemon does; with `remaining=false` the Γ of the arrival is kept, as in Varys' simulator,
//! which serves a nearly finished large coflow late.
//!
//! Discipline: `madd` is the paper's (all flows of a coflow end with its bottleneck, and the
//! bandwidth saved goes to others, as in Varys' simulator); `greedy` lets each flow take all it
//! can, is cheaper and, measured over the Facebook trace, better, since MADD reserves what only
//! helps if nothing else happens.
//!
//! # Delays
//! A coordinator that decides at intervals lets flows wait that it has not heard of. With `sync`
//! above zero they are held until the next multiple of it, and then put in order; ends of coflows
//! are heard of at once. Held is a cap of zero.

use std::collections::BTreeMap;

use cavalcade_model::{
    BitsPerSec, Clairvoyant, CoflowId, Decision, Discipline, Event, FlowId, Foresee, Instant, Nanos, Policy,
    Priority, Scope, Setting, Terms,
};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition, Follows, Named, Paper};
use crate::support::order::{Order, Ordered};
use crate::support::ticks::tick_at_or_after;

/// Parameters of `sebf`.
#[derive(Clone)]
pub(crate) struct Sebf {
    discipline: Discipline,
    remaining: bool,
    sync: Nanos,
}

impl Default for Sebf {
    fn default() -> Self {
        Self { discipline: Discipline::Greedy, remaining: true, sync: Nanos::ZERO }
    }
}

impl Definition for Sebf {
    const ABOUT: About = About {
        name: "sebf",
        title: "Smallest effective bottleneck first",
        source: "Varys (SIGCOMM 2014) §5.2, §5.3",
        paper: None,
        knows: "the remaining bytes of every coflow on every link, and the capacities",
        cost: "O(links used by active coflows) at each arrival and completion of a coflow",
    };

    const NAMES: &'static [Named] = &[Named {
        name: "varys",
        title: "Smallest effective bottleneck first, all flows of a coflow ending together (SEBF with MADD)",
        source: "Varys (SIGCOMM 2014) §5.2, §5.3",
        paper: Some(Paper {
            system: "Varys",
            venue: "SIGCOMM",
            year: 2014,
            follows: Follows::ReleasedCode,
            transport: None,
        }),
        settings: "discipline=madd",
    }];

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline },
        Parameter {
            name: "remaining",
            meaning: "order by the bottleneck of what remains; false: of what there was on arrival, as in CoflowSim",
            field: |p| &mut p.remaining,
        },
        Parameter {
            name: "sync",
            meaning: "interval between decisions on new flows, which are held until then; 0ms: at once",
            field: |p| &mut p.sync,
        },
    ];

    fn terms(&self) -> Terms {
        let is_prompt = self.sync == Nanos::ZERO;
        let terms = Terms::strict(Scope::Fabric, self.discipline);
        Terms { flow_events: !is_prompt, work_conserving: terms.work_conserving && is_prompt, ..terms }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        let prompt = Ordered::new(ByBottleneck { remaining: self.remaining, on_arrival: BTreeMap::new() });
        Policy::Clairvoyant(match self.sync {
            Nanos::ZERO => Box::new(prompt),
            sync => Box::new(Holding { prompt, sync, coflows: Vec::new(), flows: Vec::new() }),
        })
    }
}

/// Lets flows wait until the coordinator's next interval.
struct Holding {
    prompt: Ordered<ByBottleneck>,
    sync: Nanos,
    /// Coflows and flows that wait.
    coflows: Vec<CoflowId>,
    flows: Vec<FlowId>,
}

impl Clairvoyant for Holding {
    fn handle(&mut self, now: Instant, event: Event, view: &dyn Foresee, decision: &mut Decision) {
        let tick = tick_at_or_after(now, self.sync);
        match event {
            Event::CoflowArrived(coflow) if tick > now => {
                self.coflows.push(coflow);
                decision.wake_at(tick);
            }
            Event::FlowArrived(flow) if tick > now => {
                self.flows.push(flow);
                decision.cap(flow, Some(BitsPerSec::ZERO));
                decision.wake_at(tick);
            }
            Event::FlowFinished(flow) => self.flows.retain(|&held| held != flow),
            Event::CoflowFinished(coflow) if self.coflows.contains(&coflow) => {
                self.coflows.retain(|&held| held != coflow);
            }
            Event::Wake => {
                for flow in core::mem::take(&mut self.flows) {
                    decision.cap(flow, None);
                }
                for coflow in core::mem::take(&mut self.coflows) {
                    self.prompt.handle(now, Event::CoflowArrived(coflow), view, decision);
                }
            }
            _ => self.prompt.handle(now, event, view, decision),
        }
    }
}

struct ByBottleneck {
    remaining: bool,
    /// The bottlenecks of active coflows when they came, where these count.
    on_arrival: BTreeMap<CoflowId, Nanos>,
}

impl Order for ByBottleneck {
    fn order(&mut self, _: Instant, coflows: &[CoflowId], view: &dyn Foresee) -> Vec<Priority> {
        let now = |coflow| view.bottleneck(coflow);
        let bottleneck = |&coflow: &CoflowId| match self.remaining {
            true => now(coflow),
            false => *self.on_arrival.entry(coflow).or_insert_with(|| now(coflow)),
        };
        let order = coflows.iter().map(bottleneck).map(|time| Priority::new(0, time.0)).collect();
        self.on_arrival.retain(|coflow, _| coflows.binary_search(coflow).is_ok());
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::{Event, Target};

    #[test]
    fn the_order_is_the_time_alone_on_the_fabric() {
        let mut script = Script::new();
        let (wide, narrow) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        // More bytes, but spread: at 8 Gbps (1 B/ns) the wide one needs 300 ns, the narrow one 400.
        script.add_flow(wide, 0, 1, 300);
        script.add_flow(wide, 1, 2, 300);
        script.add_flow(narrow, 0, 1, 400);
        let mut sebf = drive("sebf");
        sebf.at(0, Event::CoflowArrived(wide), &script);
        script.send(0, 100);
        let next = sebf.at(1, Event::CoflowArrived(narrow), &script);
        assert_eq!(
            next.priorities,
            [(Target::Coflow(narrow), Priority::new(0, 400))],
            "wide is bound by port 1"
        );
        script.send(1, 150);
        script.send(2, 400);
        let last = sebf.at(2, Event::CoflowFinished(narrow), &script);
        assert_eq!(last.priorities, [(Target::Coflow(wide), Priority::new(0, 200))]);
    }

    #[test]
    fn by_the_bottleneck_on_arrival_what_is_sent_changes_nothing() {
        let mut script = Script::new();
        let (large, small) = (script.add_coflow(0, 0), script.add_coflow(1, 0));
        script.add_flow(large, 0, 1, 400);
        script.add_flow(small, 0, 1, 100);
        let first = |spec| {
            let mut script = script.clone();
            let mut sebf = drive(spec);
            sebf.at(0, Event::CoflowArrived(large), &script);
            script.send(0, 350);
            sebf.at(1, Event::CoflowArrived(small), &script).priorities
        };
        let set = |coflow, order| (Target::Coflow(coflow), Priority::new(0, order));
        assert_eq!(first("varys"), [set(large, 50), set(small, 100)]);
        assert_eq!(first("varys:remaining=false"), [set(small, 100)], "the large one keeps its 400");
    }

    #[test]
    fn with_intervals_new_flows_are_held_until_the_next() {
        let mut script = Script::new();
        let coflow = script.add_coflow(0, 0);
        let flow = script.add_flow(coflow, 0, 1, 300);
        let mut varys = drive("varys:sync=1us");
        let come = varys.at(7, Event::CoflowArrived(coflow), &script);
        assert_eq!((come.priorities, come.wake_at), (Vec::new(), Some(Instant(1_000))));
        assert_eq!(varys.at(7, Event::FlowArrived(flow), &script).caps, [(flow, Some(BitsPerSec::ZERO))]);
        let decided = varys.at(1_000, Event::Wake, &script);
        assert_eq!(decided.priorities, [(Target::Coflow(coflow), Priority::new(0, 300))]);
        assert_eq!(decided.caps, [(flow, None)]);
    }
}

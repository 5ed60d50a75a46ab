//! `sebf`: the coflow first whose bottleneck will be done soonest (Varys).
//!
//! A coflow alone on the fabric takes Γ, the largest over all links of its remaining bytes by the link's capacity.
//! Smallest Γ first is shortest remaining time first where the "time" accounts for width and skew. Γ is read again for
//! all active coflows whenever one arrives or ends, as the Varys daemon does; Varys' simulator keeps the Γ of the
//! arrival, which serves a nearly finished large coflow late.
//!
//! Discipline: `madd` is the paper's (all flows of a coflow end with its bottleneck, and the bandwidth saved goes to the
//! next); `greedy` lets each flow take all it can, is cheaper and, measured over the Facebook trace, better, since
//! MADD reserves what only helps if nothing else happens.

use cavalcade_model::{CoflowId, Discipline, Foresee, Instant, Policy, Priority, Scope, Setting, Terms};
use cavalcade_spec::Parameter;

use crate::definition::{About, DISCIPLINE, Definition, Follows, Named, Paper};
use crate::support::order::{Order, Ordered};

/// Parameters of `sebf`.
#[derive(Clone)]
pub(crate) struct Sebf {
    discipline: Discipline,
}

impl Default for Sebf {
    fn default() -> Self {
        Self { discipline: Discipline::Greedy }
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

    const PARAMETERS: &'static [Parameter<Self>] =
        &[Parameter { name: "discipline", meaning: DISCIPLINE, field: |p| &mut p.discipline }];

    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, self.discipline)
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        Policy::Clairvoyant(Box::new(Ordered::<ByBottleneck>::default()))
    }
}

#[derive(Default)]
struct ByBottleneck;

impl Order for ByBottleneck {
    fn order(&mut self, _: Instant, coflows: &[CoflowId], view: &dyn Foresee) -> Vec<Priority> {
        coflows.iter().map(|&coflow| Priority::new(0, view.bottleneck(coflow).0)).collect()
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
}

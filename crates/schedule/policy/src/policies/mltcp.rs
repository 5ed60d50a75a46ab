//! `mltcp`: a flow of a training job counts for more, the more of its iteration has been sent.
//!
//! Where jobs share a link under fair sharing they hold each other up in each iteration for ever.
//! MLTCP multiplies by what a congestion window grows: by
//! `slope × (bytes sent in this iteration / bytes of an iteration) + intercept`. Who is ahead then
//! gets more of the link, ends sooner, and comes back sooner: what one is ahead grows from
//! iteration to iteration, until jobs that fit beside each other do not meet any more.
//!
//! # How
//! Windows that grow by `w` for each round trip and are cut together are in the ratio of their `w`.
//! So `w` is the weight of a flow in max-min sharing ([`ClassShares::OfFlows`]), and over packets
//! that by which windows grow. A class is a weight: the first is that of plain TCP (one), for all
//! that declares no iterations; the others are `steps` weights from the beginning of an iteration
//! to its end.
//!
//! # What differs from the paper
//! - A sender of the paper counts what its own connection sent, and takes a pause for the end of an
//!   iteration. Here the job declares iterations and their bytes ([`cavalcade_model::Iteration`]),
//!   and what all its flows have sent counts.
//! - The weight rises in steps.
//! - Over packets flows of one host share its card in turn, whatever their weights, as they do
//!   where a host queues fairly. Weights act where packets meet in the network.
//! - Two jobs of which none is ahead by anything stay like that: a fluid has none of the noise by
//!   which one of them would get ahead.
//!
//! # Invariants
//! No weight is below a thousandth of plain TCP's, so every flow gets something.

use std::collections::BTreeMap;

use cavalcade_model::{
    Bytes, ClassShares, CoflowId, Decision, Discipline, Event, Instant, Iteration, NonClairvoyant, Observe,
    Policy, Priority, Scope, Setting, Target, TaskId, Terms,
};
use cavalcade_spec::{Complaint, Parameter};

use crate::definition::{About, Definition, Follows, Paper};

/// Parameters of `mltcp`.
#[derive(Clone)]
pub(crate) struct Mltcp {
    slope: f64,
    intercept: f64,
    steps: u32,
}

impl Default for Mltcp {
    fn default() -> Self {
        Self { slope: 1.75, intercept: 0.25, steps: 64 }
    }
}

/// The weight of plain TCP, in thousandths.
const PLAIN: u32 = 1_000;

impl Definition for Mltcp {
    const ABOUT: About = About {
        name: "mltcp",
        title: "Flows of a training job weigh more, the more of their iteration has been sent",
        source: "MLTCP (HotNets 2024), abstract; slope and intercept not checked against its text",
        paper: Some(Paper {
            system: "MLTCP",
            venue: "HotNets",
            year: 2024,
            follows: Follows::SecondarySources,
            transport: None,
        }),
        knows: "the bytes that each job has sent of its iteration, and how many that has, where it declares them",
        cost: "O(coflows of the job) each time a job has sent another step of its iteration",
    };

    const PARAMETERS: &'static [Parameter<Self>] = &[
        Parameter {
            name: "slope",
            meaning: "how much a flow's weight grows over an iteration; plain TCP has 1",
            field: |p| &mut p.slope,
        },
        Parameter {
            name: "intercept",
            meaning: "a flow's weight at the beginning of an iteration",
            field: |p| &mut p.intercept,
        },
        Parameter { name: "steps", meaning: "number of weights over an iteration", field: |p| &mut p.steps },
    ];

    fn check(&mut self, _: &[&str]) -> Result<(), Complaint> {
        Complaint::unless((0.0..=1000.0).contains(&self.slope), "slope", "0 to 1000")?;
        Complaint::unless((0.001..=1000.0).contains(&self.intercept), "intercept", "0.001 to 1000")?;
        Complaint::unless((1..=1000).contains(&self.steps), "steps", "1 to 1000")
    }

    fn terms(&self) -> Terms {
        let weight = |step: u32| {
            let share = f64::from(step) / f64::from(self.steps);
            ((self.slope * share + self.intercept) * f64::from(PLAIN)).round().max(1.0) as u32
        };
        let weights = [PLAIN].into_iter().chain((0..self.steps).map(weight)).collect();
        let terms = Terms::strict(Scope::Fabric, Discipline::MaxMin);
        Terms { shares: ClassShares::OfFlows { weights }, starvation_free: true, ..terms }
    }

    fn build(&self, _: &Setting<'_>) -> Policy {
        let steps = self.steps;
        Policy::NonClairvoyant(Box::new(Instance { steps, under_way: BTreeMap::new() }))
    }
}

struct Instance {
    steps: u32,
    /// By task and number: a pipeline has two at a time.
    under_way: BTreeMap<(TaskId, u32), Progress>,
}

/// An iteration that has begun.
#[derive(Default)]
struct Progress {
    active: Vec<CoflowId>,
    /// Bytes of its coflows that have ended.
    done: u64,
    step: u32,
}

impl Instance {
    /// Weighs the flows of an iteration by what has been sent of it.
    fn weigh(&mut self, key: (TaskId, u32), of: Iteration, view: &dyn Observe, decision: &mut Decision) {
        let Some(progress) = self.under_way.get_mut(&key) else { return };
        let sent: u64 = progress.active.iter().map(|&coflow| view.attained(coflow).0).sum();
        let sent = progress.done + sent;
        let (all, steps) = (u128::from(of.bytes.0.max(1)), u128::from(self.steps));
        let step = (u128::from(sent) * steps / all).min(steps - 1) as u32;
        let is_new = std::mem::replace(&mut progress.step, step) != step;
        // What is left of this step, as if all went on alike; in parts that are not too small.
        let end = (all * (u128::from(step) + 1)).div_ceil(steps) as u64;
        let whole = (all / steps) as u64;
        let each = (end.saturating_sub(sent) / progress.active.len().max(1) as u64).max(whole / 8).max(1);
        for &coflow in &progress.active {
            if is_new {
                decision.set_coflow(coflow, Priority::new(1 + step as u16, 0));
            }
            if step + 1 < self.steps {
                decision.watch(Target::Coflow(coflow), Bytes(view.attained(coflow).0.saturating_add(each)));
            }
        }
    }
}

impl NonClairvoyant for Instance {
    fn handle(&mut self, _: Instant, event: Event, view: &dyn Observe, decision: &mut Decision) {
        let (Event::CoflowArrived(coflow)
        | Event::Reached(Target::Coflow(coflow))
        | Event::CoflowFinished(coflow)) = event
        else {
            return;
        };
        let Some(iteration) = view.iteration(coflow) else { return };
        let key = (view.coflow(coflow).task, iteration.number);
        match event {
            Event::CoflowArrived(_) => {
                // Of earlier ones what a driver counted a byte short may still be here.
                let earlier = (key.0, 0)..(key.0, key.1.saturating_sub(1));
                while let Some((&over, _)) = self.under_way.range(earlier.clone()).next() {
                    self.under_way.remove(&over);
                }
                let progress = self.under_way.entry(key).or_default();
                progress.active.push(coflow);
                decision.set_coflow(coflow, Priority::new(1 + progress.step as u16, 0));
            }
            Event::CoflowFinished(_) => {
                if let Some(progress) = self.under_way.get_mut(&key) {
                    progress.active.retain(|&active| active != coflow);
                    progress.done += view.attained(coflow).0;
                    if progress.done >= iteration.bytes.0 {
                        self.under_way.remove(&key);
                    }
                }
            }
            _ => {}
        }
        self.weigh(key, iteration, view, decision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, drive};
    use cavalcade_model::{Nanos, PolicyFactory};

    fn class(coflow: CoflowId, class: u16) -> [(Target, Priority); 1] {
        [(Target::Coflow(coflow), Priority::new(class, 0))]
    }

    #[test]
    fn weights_go_from_intercept_to_intercept_and_slope() {
        let ClassShares::OfFlows { weights } = crate::parse("mltcp:steps=4").unwrap().terms().shares else {
            panic!("flows have weights")
        };
        assert_eq!(weights, [1000, 250, 688, 1125, 1563]);
    }

    #[test]
    fn the_weight_of_a_flow_grows_with_what_its_job_has_sent_of_the_iteration() {
        let mut script = Script::new();
        let mut mltcp = drive("mltcp:steps=4");
        let iteration = |number| Iteration { number, bytes: Bytes(400), gpus: 2, compute: Nanos(5) };
        let first = script.add_coflow(0, 0);
        script.add_flow(first, 0, 1, 100);
        script.declare(first, iteration(0));
        let arrived = mltcp.at(0, Event::CoflowArrived(first), &script);
        assert_eq!(arrived.priorities, class(first, 1));
        assert_eq!(arrived.watches, [(Target::Coflow(first), Bytes(100))]);
        script.send(0, 100);
        mltcp.at(100, Event::CoflowFinished(first), &script);
        // The second coflow of the iteration begins where the first ended.
        let second = script.add_coflow(0, 100);
        script.add_flow(second, 0, 1, 300);
        script.declare(second, iteration(0));
        let arrived = mltcp.at(100, Event::CoflowArrived(second), &script);
        assert_eq!(arrived.priorities.last(), class(second, 2).last());
        script.send(1, 200);
        let reached = mltcp.at(300, Event::Reached(Target::Coflow(second)), &script);
        assert_eq!((&reached.priorities[..], reached.watches.len()), (&class(second, 4)[..], 0));
        script.send(1, 100);
        mltcp.at(400, Event::CoflowFinished(second), &script);
        // The next iteration starts over; a coflow that declares none has the weight of plain TCP.
        let next = script.add_coflow(0, 500);
        script.add_flow(next, 0, 1, 400);
        script.declare(next, iteration(1));
        assert_eq!(mltcp.at(500, Event::CoflowArrived(next), &script).priorities, class(next, 1));
        let other = script.add_coflow(1, 500);
        script.add_flow(other, 0, 1, 400);
        assert_eq!(mltcp.at(500, Event::CoflowArrived(other), &script), Decision::default());
    }
}

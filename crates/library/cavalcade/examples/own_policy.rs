//! Runs a policy of one's own, last come, first served, beside fair sharing: on the fluid engine
//! and over packets.
//!
//! ```text
//! cargo run --release -p cavalcade --example own_policy
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it found")]

use cavalcade::model::{
    self, Decision, Discipline, Event, Instant, NonClairvoyant, Observe, PolicyFactory, Priority, Scope,
    Setting, Terms,
};
use cavalcade::{Conditions, Policy, Scenario, compare, generate};

/// The policy, and its own factory: it keeps no state.
#[derive(Clone)]
struct LastFirst;

impl PolicyFactory for LastFirst {
    fn terms(&self) -> Terms {
        Terms::strict(Scope::Fabric, Discipline::MaxMin)
    }

    fn build(&self, _: &Setting<'_>) -> model::Policy {
        model::Policy::NonClairvoyant(Box::new(self.clone()))
    }
}

impl NonClairvoyant for LastFirst {
    fn handle(&mut self, now: Instant, event: Event, _: &dyn Observe, decision: &mut Decision) {
        if let Event::CoflowArrived(coflow) = event {
            // Lower goes first, so the later the arrival, the lower the number.
            decision.set_coflow(coflow, Priority::new(0, u64::MAX - now.get()));
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = generate("fixed:coflows=20,ports=5,size=200KB", 1)?;
    let scenario = Scenario::new(workload, Conditions::default())?;
    for over in ["fair", "fair over dctcp"] {
        let fair = scenario.under(over)?;
        let runs = [fair.clone(), fair.with_policy(Policy::new("last first", LastFirst))];
        for run in &compare(&runs, 0)?.runs {
            println!("{:<16} mean CCT {:.3} ms", run.label, run.cct_summary.mean_s * 1e3);
        }
    }
    Ok(())
}

//! One run: a workload, a seed, a policy; and the row that it gives.
//!
//! In the place of a policy may stand
//! - `bound:N`: the best lower bound on the mean CCT that N linear programs find. So a gap to the
//!   bound is a ratio of two rows like any other;
//! - `sizes`: nothing. The row has what the workload is: the spread of its tasks' sizes, and at how
//!   many ports they receive;
//! - `POLICY over TRANSPORT`: packets under that transport, with the policy's priorities, as
//!   `pias over dctcp`;
//! - `over TRANSPORT`: packets alone, as the transport itself orders them;
//! - `POLICY under control:PERIOD`: the fluid engine with the live system's coordinator, agents and
//!   clients, which report and decide once in a period, between a decision and its effect; messages
//!   take the condition `control_delay`.

use core::num::NonZeroU32;

use cavalcade::{Conditions as ScenarioConditions, Engine, Outcome, Packets, Policy, Scenario};
use cavalcade_bound::{Conditions as BoundConditions, lower_bounds};
use cavalcade_metrics::{BinThresholds, LowerBound};
use cavalcade_model::{BitsPerSec, FabricSpec, Nanos};
use cavalcade_policy::{Configured, parse};
use cavalcade_spec::{Carried, SpecError};
use cavalcade_transport::Configured as Transport;

use crate::row::{Counted, Row};
use crate::workload::{Files, Needed, WorkloadError, WorkloadSpec};

/// The identity of a run: equal keys give equal rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The workload, as the experiment writes it.
    pub workload: String,
    /// The policy, as short as it can be written.
    pub policy: String,
    /// The conditions, in words.
    pub conditions: String,
    /// The seed.
    pub seed: u64,
}

/// The conditions of all runs of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// The rate of every port in each direction.
    pub rate: BitsPerSec,
    /// True if all tasks are there at time zero.
    pub offline: bool,
    /// Travel time of a message between instances of a policy.
    pub control_delay: Nanos,
    /// The limits of short and of wide.
    pub bins: BinThresholds,
    /// The fabric; `None` for one switch with as many ports as the workload needs.
    pub fabric: Option<FabricSpec>,
    /// Travel time of a bit along a link, where packets are sent and the fabric sets no delay.
    pub link_delay: Nanos,
    /// True if, where packets are sent, instances of a policy at hosts talk to each other over the
    /// same network.
    pub in_band: bool,
    /// The share of the tasks, the first to arrive, that are run and not counted, so that an empty
    /// network does not flatter.
    pub warm_up: f64,
    /// Number of independent counters that give out task-ids.
    pub counters: NonZeroU32,
}

/// The default delay of links.
pub(crate) const LINK_DELAY: Nanos = Packets::LINK_DELAY;

impl Conditions {
    /// In words, for a [`Key`].
    pub(crate) fn words(&self) -> String {
        let offline = if self.offline { ", offline" } else { "" };
        let BinThresholds { short_below, narrow_up_to } = self.bins;
        // What came later is said only where it is not what it always was, so that old rows keep
        // their keys.
        let fabric = self.fabric.as_ref().map_or_else(String::new, |fabric| format!(", on {fabric}"));
        let delay = match self.link_delay {
            LINK_DELAY => String::new(),
            delay => format!(", links take {delay}"),
        };
        let in_band = if self.in_band { ", messages cross it" } else { "" };
        let counters = match self.counters.get() {
            1 => String::new(),
            counters => format!(", {counters} counters"),
        };
        let warm_up = match self.warm_up {
            0.0 => String::new(),
            share => format!(", the first {} % not counted", 100.0 * share),
        };
        format!(
            "{}{offline}, messages take {}, short below {short_below}, narrow up to {narrow_up_to}{fabric}{delay}{in_band}{counters}{warm_up}",
            self.rate, self.control_delay
        )
    }
}

/// The text in the place of a policy that asks for the workload alone.
const SIZES: &str = "sizes";

/// The policy or bound that is run on a workload.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Policy(Configured),
    Bound { programs: u64 },
    Sizes,
    Packets { policy: Option<Configured>, transport: Transport },
    Live { policy: Configured, period: Nanos },
}

impl Subject {
    pub(crate) fn read(text: &str) -> Result<Self, SpecError> {
        if let Some(programs) = text.strip_prefix("bound:").and_then(|programs| programs.parse().ok()) {
            return Ok(Self::Bound { programs });
        }
        if text == SIZES {
            return Ok(Self::Sizes);
        }
        if let Some((policy, period)) = text.rsplit_once(" under control:")
            && let Ok(period) = period.parse()
        {
            return Ok(Self::Live { policy: parse(policy)?, period });
        }
        let Carried { policy, transport } = Carried::read(text);
        let policy = policy.map(parse).transpose()?;
        let transport = transport.map(cavalcade_transport::parse).transpose()?;
        Ok(match (policy, transport) {
            (policy, Some(transport)) => Self::Packets { policy, transport },
            (Some(policy), None) => Self::Policy(policy),
            (None, None) => unreachable!("a text without a transport is a policy"),
        })
    }

    pub(crate) fn label(&self) -> String {
        match self {
            Self::Policy(policy) => policy.label(),
            Self::Bound { programs } => format!("bound:{programs}"),
            Self::Sizes => SIZES.to_owned(),
            Self::Live { policy, period } => format!("{} under control:{period}", policy.label()),
            Self::Packets { policy, transport } => {
                let policy = policy.as_ref().map_or_else(String::new, |policy| policy.label() + " ");
                format!("{policy}over {}", transport.spec())
            }
        }
    }
}

/// A run that has not happened yet.
#[derive(Clone, Debug)]
pub struct Run {
    pub(crate) key: Key,
    pub(crate) workload: WorkloadSpec,
    pub(crate) subject: Subject,
    pub(crate) conditions: Conditions,
}

/// Why a run gave no row.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no workload.
    #[error("workload '{workload}', seed {seed}: {cause}")]
    Workload {
        /// The workload.
        workload: String,
        /// The seed.
        seed: u64,
        /// Why.
        cause: Box<WorkloadError>,
    },
    /// The scenario cannot be run.
    #[error(transparent)]
    Scenario(#[from] cavalcade::Error),
}

impl Run {
    /// Returns its identity.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The files that it needs.
    pub fn needs(&self) -> impl Iterator<Item = Needed<'_>> {
        self.workload.needs()
    }

    /// Runs it.
    ///
    /// # Errors
    /// If its workload cannot be made.
    pub fn row(&self, files: &dyn Files) -> Result<Row, RunError> {
        let Conditions {
            rate,
            offline,
            control_delay,
            bins,
            ref fabric,
            link_delay,
            in_band,
            warm_up,
            counters,
        } = self.conditions;
        let built = self.workload.build(self.key.seed, rate, files);
        let workload = built.map_err(|cause| RunError::Workload {
            workload: self.key.workload.clone(),
            seed: self.key.seed,
            cause: Box::new(cause),
        })?;
        let conditions = ScenarioConditions {
            rate,
            fabric: fabric.clone(),
            offline,
            control_delay,
            counters,
            seed: self.key.seed,
            ..ScenarioConditions::default()
        };
        let scenario = Scenario::new(workload, conditions)?;
        let row = |scenario: &Scenario, outcome: &Outcome| {
            Row::of_outcome(self.key.clone(), scenario.workload(), Counted { bins, warm_up }, outcome)
        };
        Ok(match &self.subject {
            Subject::Policy(policy) => {
                let scenario = scenario.with_policy(policy.clone());
                row(&scenario, &scenario.run()?)
            }
            Subject::Live { policy, period } => {
                let scenario = scenario.with_policy(policy.clone()).on(Engine::Control { period: *period });
                row(&scenario, &scenario.run()?)
            }
            Subject::Packets { policy, transport } => {
                let packets = Packets { link_delay, in_band, ..Packets::over(transport.into()) };
                let policy = policy.clone().map(Policy::from);
                let scenario = scenario.on(Engine::Packet(packets)).ordered_by(policy);
                row(&scenario, &scenario.run()?)
            }
            Subject::Sizes => {
                Row::of_workload(self.key.clone(), scenario.workload(), Counted { bins, warm_up })
            }
            Subject::Bound { programs } => {
                let (workload, fabric) = (scenario.workload(), scenario.fabric());
                let conditions = BoundConditions::default();
                let mut go_on = |found: &cavalcade_bound::Progress| found.programs < *programs;
                let bounds = lower_bounds(workload, fabric, conditions, &mut go_on)
                    .expect("a scenario's fabric has the ports of its workload");
                let best = bounds.best();
                let bound = LowerBound {
                    mean: best.mean(),
                    misses: 0,
                    method: best.method.name().to_owned(),
                    budget: programs.to_string(),
                    repeatable: true,
                };
                Row::of_bound(self.key.clone(), workload, fabric, &bound)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, Files};

    struct Nothing;

    impl Files for Nothing {
        fn data(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
        fn beside(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    const TEXT: &str = r#"
title = "A pod"
source = "ours"
question = "Does the tree matter?"
seeds = 1
[[panel]]
title = "tree over switch"
axis = { measures = ["mean(tct)"] }
workload = "aggregate:tasks=20,racks=3,workers=5"
against = "switch"
series = [
  { name = "switch", policy = "fair" },
  { name = "tree", policy = "fair", fabric = "tree:pods=1,racks=4,hosts=6,oversubscription=2" },
]
"#;

    #[test]
    fn a_series_may_have_a_fabric_of_its_own_which_counts_in_its_key() {
        let experiment = Experiment::read("test", TEXT).unwrap();
        let runs = experiment.runs();
        assert_eq!(runs.len(), 2, "the same policy on the same workload, on two fabrics");
        assert!(
            !runs[0].key().conditions.contains("tree") && runs[1].key().conditions.contains("tree:pods=1")
        );
        let rows: Vec<_> = runs.iter().map(|run| run.row(&Nothing).unwrap()).collect();
        // All traffic but 3 % stays in its rack, so the links above it are never short.
        let (switch, tree) = (rows[0].figures[5], rows[1].figures[5]);
        assert!((switch / tree - 1.0).abs() < 1e-6, "{switch} {tree}");
    }

    #[test]
    fn a_fabric_that_is_too_small_is_refused() {
        let experiment = Experiment::read("test", &TEXT.replace("racks=4", "racks=3")).unwrap();
        let fault = experiment.runs()[1].row(&Nothing).unwrap_err().to_string();
        assert!(fault.contains("19"), "{fault}");
    }
}

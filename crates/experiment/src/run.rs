//! One run: a workload, a seed, a policy; and the row that it gives.
//!
//! In the place of a policy may stand `bound:N`: the best lower bound on the mean CCT that N linear programs find. So a
//! gap to the bound is a ratio of two rows like any other.

use cavalcade_bound::{Conditions as BoundConditions, lower_bounds};
use cavalcade_metrics::{BinThresholds, LowerBound};
use cavalcade_model::{BitsPerSec, Fabric, FabricError, Nanos};
use cavalcade_policy::{Configured, PolicyError, parse};
use cavalcade_sim_fluid::{Options, simulate};

use crate::row::Row;
use crate::workload::{Files, WorkloadError, WorkloadSpec};

/// What identifies a run: equal keys give equal rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The workload, as the experiment writes it.
    pub workload: String,
    /// The policy, as short as it can be said.
    pub policy: String,
    /// The conditions, in words.
    pub conditions: String,
    /// The seed.
    pub seed: u64,
}

/// What holds for all runs of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// The rate of every port in each direction.
    pub rate: BitsPerSec,
    /// Whether all tasks are there at time zero.
    pub offline: bool,
    /// How long a message between instances of a policy travels.
    pub control_delay: Nanos,
    /// Where short ends and wide begins.
    pub bins: BinThresholds,
}

impl Conditions {
    /// In words, for a [`Key`].
    pub(crate) fn words(&self) -> String {
        let offline = if self.offline { ", offline" } else { "" };
        let BinThresholds { short_below, narrow_up_to } = self.bins;
        format!(
            "{}{offline}, messages take {}, short below {short_below}, narrow up to {narrow_up_to}",
            self.rate, self.control_delay
        )
    }
}

/// What is run on a workload.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Policy(Configured),
    Bound { programs: u64 },
}

impl Subject {
    pub(crate) fn read(text: &str) -> Result<Self, PolicyError> {
        match text.strip_prefix("bound:").and_then(|programs| programs.parse().ok()) {
            Some(programs) => Ok(Self::Bound { programs }),
            None => parse(text).map(Self::Policy),
        }
    }

    pub(crate) fn label(&self) -> String {
        match self {
            Self::Policy(policy) => policy.label(),
            Self::Bound { programs } => format!("bound:{programs}"),
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
    /// There is no fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl Run {
    /// What identifies it.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The file of the data folder that it needs.
    pub fn data(&self) -> Option<&str> {
        self.workload.data()
    }

    /// Runs it.
    ///
    /// # Errors
    /// Where its workload cannot be made.
    pub fn row(&self, files: &dyn Files) -> Result<Row, RunError> {
        let Conditions { rate, offline, control_delay, bins } = self.conditions;
        let built = self.workload.build(self.key.seed, rate, files);
        let workload = built.map_err(|cause| RunError::Workload {
            workload: self.key.workload.clone(),
            seed: self.key.seed,
            cause: Box::new(cause),
        })?;
        let workload = if offline { workload.offline() } else { workload };
        let fabric = Fabric::big_switch(workload.ports(), rate)?;
        Ok(match &self.subject {
            Subject::Policy(policy) => {
                let options = Options { control_delay, seed: self.key.seed, ..Options::default() };
                let outcome = simulate(&workload, &fabric, policy, &options, None);
                Row::of_outcome(self.key.clone(), &workload, bins, &outcome)
            }
            Subject::Bound { programs } => {
                let conditions = BoundConditions::default();
                let mut go_on = |found: &cavalcade_bound::Progress| found.programs < *programs;
                let bounds = lower_bounds(&workload, &fabric, conditions, &mut go_on);
                let best = bounds.best();
                let bound = LowerBound {
                    mean_cct: best.mean(),
                    misses: 0,
                    method: best.method.name().to_owned(),
                    budget: programs.to_string(),
                    repeatable: true,
                };
                Row::of_bound(self.key.clone(), &workload, &fabric, &bound)
            }
        })
    }
}

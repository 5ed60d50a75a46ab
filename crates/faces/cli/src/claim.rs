//! A bound in words, the same whether it was just found or derived from a certificate.

use cavalcade_model::{BitsPerSec, Nanos};
use cavalcade_report::time_rounded_down;

/// The terms of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// True if tasks are bounded, not coflows.
    pub(crate) tasks: bool,
    /// True if weights count.
    pub(crate) weighted: bool,
    /// True if all tasks are submitted at time zero.
    pub(crate) offline: bool,
    /// The capacity of every port in each direction.
    pub(crate) rate: BitsPerSec,
}

/// A claim about every schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// No mean is lower.
    Mean(Nanos),
    /// No more weight meets its deadlines.
    Deadlines {
        /// The weight.
        at_most: u64,
        /// The weight of all tasks with a deadline.
        of: u64,
    },
}

impl Terms {
    /// The figure that is bounded.
    pub(crate) const fn mean(self) -> &'static str {
        match (self.tasks, self.weighted) {
            (false, false) => "mean CCT",
            (false, true) => "weighted mean CCT",
            (true, false) => "mean TCT",
            (true, true) => "weighted mean TCT",
        }
    }

    /// Returns the noun for what finishes.
    pub(crate) const fn noun(self) -> &'static str {
        if self.tasks { "task" } else { "coflow" }
    }

    /// The claim as a sentence, without its full stop.
    pub(crate) fn sentence(self, claim: Claim) -> String {
        let Self { rate, .. } = self;
        let submitted = if self.offline { ", all tasks submitted at time zero" } else { "" };
        match claim {
            Claim::Mean(mean) => {
                let (what, mean) = (self.mean(), time_rounded_down(mean));
                format!("No schedule has a {what} below {mean}, on ports of {rate}{submitted}")
            }
            Claim::Deadlines { at_most, of } => {
                let what = if self.weighted { " by weight" } else { "" };
                format!(
                    "No schedule meets more than {at_most} of {of} deadlines{what}, on ports of {rate}{submitted}"
                )
            }
        }
    }
}

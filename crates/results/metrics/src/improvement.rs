//! By what factor a policy beats a baseline, and how widely that factor spreads.
//!
//! The factor is the ratio of mean completion times, of coflows or of tasks, baseline over policy:
//! above one is better than the baseline (the papers' "factor of improvement"). Two spreads stand
//! beside it, since they answer different questions. The confidence interval says how sure the
//! factor is. The percentiles of every coflow's own ratio say how evenly it is shared out: a mean
//! can double while most coflows gain nothing and some lose.

use cavalcade_model::Nanos;

use crate::bootstrap::{Interval, at_least_one, ratio_interval};
use crate::percentile::{Percent, percentile};
use crate::summary::mean;

/// A factor over a baseline with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Improvement {
    /// Mean CCT under the baseline over mean CCT under the policy.
    pub factor: f64,
    /// The 95 % confidence interval of `factor`, by bootstrap over coflows.
    pub interval: Interval,
    /// The 5th percentile of the coflows' own ratios: one coflow in twenty gains no more than this.
    pub coflow_p5: f64,
    /// The median of the coflows' own ratios.
    pub coflow_p50: f64,
    /// The 95th percentile of the coflows' own ratios.
    pub coflow_p95: f64,
}

impl Improvement {
    /// Of `policy` over `baseline`, the CCTs of the same coflows in the same order; `None` where
    /// there are none, or not as many of one as of the other. A CCT of zero counts as one
    /// nanosecond.
    pub fn over(baseline: &[Nanos], policy: &[Nanos], seed: u64) -> Option<Self> {
        if policy.is_empty() || baseline.len() != policy.len() {
            return None;
        }
        let mut ratios: Vec<f64> =
            baseline.iter().zip(policy).map(|(&b, &p)| at_least_one(b) / at_least_one(p)).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |percent| percentile(&ratios, percent).expect("there is at least one coflow");
        Some(Self {
            factor: mean(baseline).max(1.0) / mean(policy).max(1.0),
            interval: ratio_interval(baseline, policy, seed),
            coflow_p5: at(Percent::P5),
            coflow_p50: at(Percent::P50),
            coflow_p95: at(Percent::P95),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_of_means_and_the_percentiles_are_of_coflows() {
        let baseline: Vec<Nanos> = [4, 4, 400].map(Nanos).to_vec();
        let policy: Vec<Nanos> = [1, 4, 97].map(Nanos).to_vec();
        let improvement = Improvement::over(&baseline, &policy, 1).unwrap();
        assert_eq!(improvement.factor, 4.0);
        assert_eq!((improvement.coflow_p5, improvement.coflow_p50), (1.0, 4.0));
        assert_eq!(improvement.coflow_p95, 400.0 / 97.0);
        assert_eq!(Improvement::over(&[], &[], 1), None);
    }
}

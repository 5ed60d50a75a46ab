//! Many completion times in a few figures: mean, percentiles, maximum.
//!
//! Sums are taken over integer nanoseconds, so a mean does not depend on the order of its terms;
//! seconds as floating point appear only at the end. A set without values has zeros: there is
//! nothing to wait for.

use cavalcade_model::Nanos;

use crate::percentile::{Percent, percentile};

/// Mean, percentiles by nearest rank and maximum of completion times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Summary {
    /// Arithmetic mean.
    pub mean_s: f64,
    /// Median.
    pub p50_s: f64,
    /// 95th percentile.
    pub p95_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Largest.
    pub max_s: f64,
}

impl Summary {
    /// The summary of `times`; all zero where there are none. O(n log n).
    pub fn of(times: &[Nanos]) -> Self {
        let mut ascending = times.to_vec();
        ascending.sort_unstable();
        let at = |percent| percentile(&ascending, percent).unwrap_or_default().as_secs_f64();
        Self {
            mean_s: mean(times) / 1e9,
            p50_s: at(Percent::P50),
            p95_s: at(Percent::P95),
            p99_s: at(Percent::P99),
            max_s: at(Percent::whole(100)),
        }
    }
}

/// Mean and tail of slowdowns: how many times longer than alone on the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct SlowdownSummary {
    /// Arithmetic mean.
    pub mean: f64,
    /// 95th percentile by nearest rank.
    pub p95: f64,
}

impl SlowdownSummary {
    /// The summary of `slowdowns`; all zero where there are none.
    pub fn of(slowdowns: &[f64]) -> Self {
        let mut ascending = slowdowns.to_vec();
        ascending.sort_unstable_by(f64::total_cmp);
        let mean = weighted_mean(ascending.iter().map(|&slowdown| (slowdown, 1)));
        Self { mean, p95: percentile(&ascending, Percent::P95).unwrap_or_default() }
    }
}

/// The mean of `times` in nanoseconds; zero where there are none.
pub fn mean(times: &[Nanos]) -> f64 {
    let sum: u128 = times.iter().map(|time| u128::from(time.get())).sum();
    if times.is_empty() { 0.0 } else { sum as f64 / times.len() as f64 }
}

/// The mean of values that count as often as their weights say; zero where the weights are.
///
/// Minimising Σ w·CCT is the objective of weighted coflow scheduling (Sincronia §2).
pub fn weighted_mean(values: impl IntoIterator<Item = (f64, u32)>) -> f64 {
    let (mut sum, mut weights) = (0.0, 0u64);
    for (value, weight) in values {
        sum += value * f64::from(weight);
        weights += u64::from(weight);
    }
    if weights == 0 { 0.0 } else { sum / weights as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_takes_ranks_not_interpolations() {
        let times: Vec<Nanos> = (1..=10).rev().map(Nanos::from_secs).collect();
        let summary = Summary::of(&times);
        assert_eq!(summary, Summary { mean_s: 5.5, p50_s: 5.0, p95_s: 10.0, p99_s: 10.0, max_s: 10.0 });
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn the_mean_of_huge_times_does_not_overflow() {
        assert_eq!(mean(&[Nanos::MAX, Nanos::MAX]), u64::MAX as f64);
    }

    #[test]
    fn weights_count_as_repetitions() {
        assert_eq!(weighted_mean([(1.0, 3), (5.0, 1)]), 2.0);
        assert_eq!(weighted_mean([]), 0.0);
    }
}

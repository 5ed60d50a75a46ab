//! How far a ratio of means could be off, were the coflows others of the same kind: a bootstrap
//! confidence interval.
//!
//! Coflow completion times are heavy-tailed: a handful of coflows carries the mean, so a factor
//! such as 2.7 says little without an interval. Coflows are resampled with replacement, *paired*: a
//! coflow brings its time under both policies, since both ran the same trace. The interval is BCa
//! (bias-corrected and accelerated; Efron 1987, Efron and Tibshirani §14.3), which follows the skew
//! that plain percentiles of the resamples miss.
//!
//! The resampling takes coflows as independent. Those that were scheduled together are not, so the
//! interval speaks of the choice of coflows, not of another arrival process; several seeds of a
//! generator answer that.
//!
//! Invariants: the same times and seed give the same bits everywhere (a generator of our own,
//! transcendental functions from `libm`, sums in a fixed order). Cost: resamples × coflows, with
//! fewer resamples for very many coflows, whose interval is narrow.

use cavalcade_model::{Nanos, SplitMix64};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Draws at which more resamples stop being worth their time.
const DRAWS: usize = 20_000_000;
const MOST_RESAMPLES: usize = 2_000;
const FEWEST_RESAMPLES: usize = 200;

/// The 97.5 % quantile of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// The 95 % interval (BCa) of `mean(numerator) / mean(denominator)` over paired values. A single
/// pair has no spread, nor have pairs that all have one ratio: then both ends are the ratio itself.
///
/// # Panics
/// If the lists are empty or differ in length.
pub(crate) fn ratio_interval(numerator: &[Nanos], denominator: &[Nanos], seed: u64) -> Interval {
    assert_eq!(numerator.len(), denominator.len(), "pairs need two lists of one length");
    assert!(!numerator.is_empty(), "an interval needs at least one pair");
    let pairs: Vec<Pair> = numerator
        .iter()
        .zip(denominator)
        .map(|(&n, &d)| Pair { numerator: at_least_one(n), denominator: at_least_one(d) })
        .collect();
    let total = Pair::sum(pairs.iter().copied());
    let observed = total.ratio();
    if pairs.iter().all(|pair| pair.ratio() == pairs[0].ratio()) {
        return Interval { low: observed, high: observed };
    }
    let resamples = resampled(&pairs, seed);
    let below = resamples.partition_point(|&ratio| ratio < observed);
    let up_to = resamples.partition_point(|&ratio| ratio <= observed);
    let count = resamples.len() as f64;
    // Half of the ties; and never all or none, which would make the bias infinite.
    let share = ((below + up_to) as f64 / 2.0).clamp(0.5, count - 0.5) / count;
    let bias = normal_quantile(share);
    let acceleration = acceleration(&pairs, total);
    let end = |z: f64| {
        let shifted = bias + z;
        let stretch = 1.0 - acceleration * shifted;
        let z = if stretch > 0.0 { bias + shifted / stretch } else { shifted.signum() * f64::INFINITY };
        let rank = (normal(z) * count).ceil().clamp(1.0, count);
        resamples[rank as usize - 1]
    };
    Interval { low: end(-Z), high: end(Z) }
}

/// Times as floating point; zero counts as one nanosecond, the shortest time there is.
pub(crate) fn at_least_one(time: Nanos) -> f64 {
    time.get().max(1) as f64
}

#[derive(Clone, Copy, Default)]
struct Pair {
    numerator: f64,
    denominator: f64,
}

impl Pair {
    fn sum(pairs: impl Iterator<Item = Pair>) -> Pair {
        pairs.fold(Pair::default(), |sum, pair| Pair {
            numerator: sum.numerator + pair.numerator,
            denominator: sum.denominator + pair.denominator,
        })
    }

    fn ratio(self) -> f64 {
        self.numerator / self.denominator
    }
}

/// The ratios of all resamples in ascending order.
fn resampled(pairs: &[Pair], seed: u64) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let count = (DRAWS / pairs.len()).clamp(FEWEST_RESAMPLES, MOST_RESAMPLES);
    let mut ratios: Vec<f64> = (0..count)
        .map(|_| {
            Pair::sum((0..pairs.len()).map(|_| pairs[random.below(pairs.len() as u64) as usize])).ratio()
        })
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    ratios
}

/// The acceleration of the ratio: the change of its spread with its value, from leaving out one
/// pair at a time.
fn acceleration(pairs: &[Pair], total: Pair) -> f64 {
    let without = |pair: &Pair| {
        Pair {
            numerator: total.numerator - pair.numerator,
            denominator: total.denominator - pair.denominator,
        }
        .ratio()
    };
    let mean = pairs.iter().map(without).sum::<f64>() / pairs.len() as f64;
    let (mut squares, mut cubes) = (0.0, 0.0);
    for pair in pairs {
        let deviation = mean - without(pair);
        squares += deviation * deviation;
        cubes += deviation * deviation * deviation;
    }
    if squares > 0.0 { cubes / (6.0 * squares * squares.sqrt()) } else { 0.0 }
}

/// The distribution function of the standard normal distribution.
fn normal(z: f64) -> f64 {
    0.5 * libm::erfc(-z * core::f64::consts::FRAC_1_SQRT_2)
}

/// Its inverse, by bisection: called once per interval, so a page of coefficients is not worth
/// having.
fn normal_quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u64, scale: u64, seed: u64) -> Vec<Nanos> {
        let mut random = SplitMix64::new(seed);
        (0..count).map(|_| Nanos(scale * (1 + random.bits() % 1000))).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_and_another_seed_others() {
        let (a, b) = (times(50, 3, 1), times(50, 1, 2));
        assert_eq!(ratio_interval(&a, &b, 7), ratio_interval(&a, &b, 7));
        assert_ne!(ratio_interval(&a, &b, 7), ratio_interval(&a, &b, 8));
    }

    #[test]
    fn the_interval_holds_the_ratio_and_narrows_with_more_pairs() {
        let width = |count| {
            let (a, b) = (times(count, 3, 1), times(count, 1, 2));
            let interval = ratio_interval(&a, &b, 7);
            let ratio = crate::summary::mean(&a) / crate::summary::mean(&b);
            assert!(interval.low < ratio && ratio < interval.high, "{interval:?} around {ratio}");
            interval.high - interval.low
        };
        assert!(width(4000) < width(400) / 2.0);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_true_ratio() {
        let held = (0..200)
            .filter(|&seed| {
                let (a, b) = (times(60, 3, seed * 2 + 1), times(60, 1, seed * 2 + 2));
                let interval = ratio_interval(&a, &b, seed);
                interval.low <= 3.0 && 3.0 <= interval.high
            })
            .count();
        assert!((180..=198).contains(&held), "{held} of 200");
    }

    #[test]
    fn equal_times_and_single_pairs_have_no_spread() {
        let a = times(30, 1, 1);
        assert_eq!(ratio_interval(&a, &a, 1), Interval { low: 1.0, high: 1.0 });
        assert_eq!(ratio_interval(&[Nanos(6)], &[Nanos(3)], 1), Interval { low: 2.0, high: 2.0 });
        assert_eq!(ratio_interval(&[Nanos(0)], &[Nanos(0)], 1), Interval { low: 1.0, high: 1.0 });
    }

    #[test]
    fn the_quantile_inverts_the_distribution() {
        assert!((normal_quantile(0.975) - Z).abs() < 1e-12);
        assert!(normal_quantile(0.5).abs() < 1e-12);
    }
}

//! From one figure for each seed to a value with a 95 % interval.
//!
//! Ratios are averaged as logarithms (the geometric mean): twice as fast and half as fast cancel
//! out, and the answer does not depend on which of the two policies is divided by the other. The
//! interval is Student's, since seeds are few. What is not random has one run and no interval.

/// A value over seeds with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of seeds.
    pub seeds: usize,
}

/// The 97.5 % quantiles of Student's distribution for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];
/// Beyond, the normal distribution's: 4 % too narrow at worst.
const NORMAL: f64 = 1.960;

impl Estimate {
    /// The mean of values that may have any sign; `None` where there are none, or one is not a
    /// number.
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let seeds = values.len();
        if seeds == 0 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / seeds as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let half = match seeds {
            1 => 0.0,
            _ => {
                let quantile = STUDENT.get(seeds - 2).copied().unwrap_or(NORMAL);
                quantile * (squares / (seeds - 1) as f64 / seeds as f64).sqrt()
            }
        };
        Some(Self { value: mean, low: mean - half, high: mean + half, seeds })
    }

    /// The geometric mean of values above zero; `None` where there are none, or one is not above
    /// zero.
    pub fn of_ratios(ratios: &[f64]) -> Option<Self> {
        if ratios.iter().any(|&ratio| ratio <= 0.0) {
            return None;
        }
        let logs: Vec<f64> = ratios.iter().map(|&ratio| libm::log(ratio)).collect();
        Self::of_values(&logs).map(|estimate| estimate.map(libm::exp))
    }

    /// The estimate on another scale; where the scale turns round, so do the ends.
    #[must_use]
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (scale(self.low), scale(self.high));
        Self { value: scale(self.value), low: low.min(high), high: low.max(high), seeds: self.seeds }
    }

    /// Returns whether the interval holds `value`.
    pub fn holds(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Textbook: mean 5, s = 2, n = 4, t = 3.182.
        let estimate = Estimate::of_values(&[3.0, 4.0, 5.0, 8.0]).unwrap();
        let s = (14.0f64 / 3.0).sqrt();
        assert!((estimate.high - (5.0 + 3.182 * s / 2.0)).abs() < 1e-12);
        assert!(estimate.holds(5.0) && !estimate.holds(20.0));
    }

    #[test]
    fn ratios_cancel_and_turn_round() {
        let doubled = Estimate::of_ratios(&[2.0, 0.5]).unwrap();
        assert!((doubled.value - 1.0).abs() < 1e-12);
        let (a, b) = (Estimate::of_ratios(&[2.0, 4.0]).unwrap(), Estimate::of_ratios(&[0.5, 0.25]).unwrap());
        let turned = b.map(|value| 1.0 / value);
        assert!((a.low - turned.low).abs() < 1e-9 && (a.high - turned.high).abs() < 1e-9);
    }

    #[test]
    fn one_run_has_no_interval_and_what_is_no_number_no_estimate() {
        let one = Estimate::of_values(&[7.0]).unwrap();
        assert_eq!((one.low, one.high), (7.0, 7.0));
        assert_eq!(Estimate::of_values(&[]), None);
        assert_eq!(Estimate::of_values(&[1.0, f64::NAN]), None);
        assert_eq!(Estimate::of_ratios(&[1.0, 0.0]), None);
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_the_mean() {
        // A small generator: multiplicative congruential, only for this test.
        let mut state = 12_345u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1u64 << 31) as f64
        };
        let held = (0..1000)
            .filter(|_| {
                let values: Vec<f64> = (0..10).map(|_| draw() + draw() + draw()).collect();
                Estimate::of_values(&values).unwrap().holds(1.5)
            })
            .count();
        assert!((925..=975).contains(&held), "{held}");
    }
}

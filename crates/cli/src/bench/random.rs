//! The laws that the benchmark's workloads are drawn from, fixed here, so that a figure is always of the same flows.

use cavalcade_model::SplitMix64;

/// A stream of random numbers.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Uniform below `bound`: so close to it that nothing here can tell.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0.below(u64::from(bound)) as u32
    }

    /// Uniform from `low` to `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.0.fraction() * (high - low + 1) as f64) as u64
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.0.fraction())
    }

    /// Bounded Pareto with this shape, between `low` and `high`.
    pub(crate) fn pareto(&mut self, shape: f64, low: f64, high: f64) -> u64 {
        let (high_power, low_power) = (libm::pow(high, shape), libm::pow(low, shape));
        let u = self.0.fraction();
        let inner = -(u * high_power - u * low_power - high_power) / (high_power * low_power);
        (libm::pow(inner, -1.0 / shape) as u64).max(1)
    }

    /// So many different numbers below `bound`, in the order drawn.
    pub(crate) fn sample(&mut self, count: usize, bound: u32) -> Vec<u32> {
        let mut drawn: Vec<u32> = Vec::with_capacity(count);
        while drawn.len() < count {
            let number = self.below(bound);
            if !drawn.contains(&number) {
                drawn.push(number);
            }
        }
        drawn
    }
}

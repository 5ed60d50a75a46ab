//! The random numbers of the benchmark's workloads: SplitMix64, fixed here, so that a figure is always of the same flows.

/// A stream of random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform from 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `bound`: so close to it that nothing here can tell.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u32
    }

    /// Uniform from `low` to `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.unit() * (high - low + 1) as f64) as u64
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }

    /// Bounded Pareto with this shape, between `low` and `high`.
    pub(crate) fn pareto(&mut self, shape: f64, low: f64, high: f64) -> u64 {
        let (high_power, low_power) = (libm::pow(high, shape), libm::pow(low, shape));
        let u = self.unit();
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
